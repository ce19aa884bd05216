"""Recognizers under test: ONNX files, transformers, Python functions and vendors' services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairprobe.errors import SettingError, suggest
from fairprobe.scenes.detectors.base import Detector

FORMS = (
    "file.onnx",
    "LAYOUT:file.onnx",
    "detr:FOLDER_OR_NAME",
    "module:function",
    "path/to/file.py:function",
    "google",
    "amazon",
    "azure",
)


def open_detector(
    text: str,
    *,
    names: Sequence[str] | None = None,
    score: float | None = None,
    unchecked: bool = False,
) -> Detector:
    """Open the recognizer that a text names, in one of the `FORMS`; libraries are loaded when
    needed.

    `names` are the classes of an ONNX file that does not name them itself. Objects below `score`
    are not reported; by default the usual one of the file's layout, the service or the library in
    whose style a function answers. `unchecked`: use it even if its boxes do not agree with the
    annotation.
    """
    detector = _open(text, names, {} if score is None else {"threshold": score})
    detector.is_unchecked = unchecked
    return detector


def _open(text: str, names: Sequence[str] | None, least: dict[str, Any]) -> Detector:
    if text.lower().endswith(".onnx"):
        from fairprobe.scenes.detectors.layouts import LAYOUTS
        from fairprobe.scenes.detectors.onnx import OnnxDetector

        layout, colon, path = text.partition(":")
        if colon and layout in LAYOUTS:
            return OnnxDetector(path, layout=layout, names=names, **least)
        return OnnxDetector(text, names=names, **least)
    if text.startswith("detr:"):
        from fairprobe.scenes.detectors.transformers import DetrDetector

        return DetrDetector(text.removeprefix("detr:"), **least)
    if text in FORMS[-3:]:
        from fairprobe.scenes.detectors.vendors import VENDORS

        return VENDORS[text](**least)
    if ":" in text:
        from fairprobe.scenes.detectors.function import OwnDetector

        return OwnDetector(text, **least)
    raise SettingError(f"Unknown detector '{text}'.{suggest(text, FORMS)}")
