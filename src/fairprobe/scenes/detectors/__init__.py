"""Recognizers under test: ONNX files, transformers, Python functions and vendors' services."""

from __future__ import annotations

from fairprobe.errors import SettingError, suggest
from fairprobe.scenes.detectors.base import Detector

FORMS = (
    "file.onnx",
    "raw:file.onnx",
    "decoded:file.onnx",
    "detr:FOLDER_OR_NAME",
    "module:function",
    "path/to/file.py:function",
    "google",
    "amazon",
    "azure",
)


def open_detector(text: str) -> Detector:
    """The recognizer that a text names, in one of the `FORMS`; libraries are loaded when needed."""
    if text.lower().endswith(".onnx"):
        from fairprobe.scenes.detectors.onnx import OnnxDetector

        if text.startswith("raw:"):
            return OnnxDetector(text.removeprefix("raw:"), boxes="raw")
        if text.startswith("decoded:"):
            return OnnxDetector(text.removeprefix("decoded:"), boxes="decoded")
        return OnnxDetector(text)
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
