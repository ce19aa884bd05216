"""Recognizers under test: ONNX files, transformers, Python functions and vendors' services."""

from __future__ import annotations

from collections.abc import Sequence

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


def open_detector(text: str, *, names: Sequence[str] | None = None) -> Detector:
    """The recognizer that a text names, in one of the `FORMS`; libraries are loaded when needed.

    `names` are the classes of an ONNX file that does not name them itself.
    """
    if text.lower().endswith(".onnx"):
        from fairprobe.scenes.detectors.layouts import LAYOUTS
        from fairprobe.scenes.detectors.onnx import OnnxDetector

        layout, colon, path = text.partition(":")
        if colon and layout in LAYOUTS:
            return OnnxDetector(path, layout=layout, names=names)
        return OnnxDetector(text, names=names)
    if text.startswith("detr:"):
        from fairprobe.scenes.detectors.detr import DetrDetector

        return DetrDetector(text.removeprefix("detr:"))
    if text in FORMS[-3:]:
        from fairprobe.scenes.detectors.vendors import VENDORS

        return VENDORS[text]()
    if ":" in text:
        from fairprobe.scenes.detectors.function import OwnDetector

        return OwnDetector(text)
    raise SettingError(f"Unknown detector '{text}'.{suggest(text, FORMS)}")
