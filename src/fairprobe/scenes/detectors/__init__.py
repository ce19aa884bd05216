"""Recognisers under test, one file a kind."""

from __future__ import annotations

from fairprobe.errors import SettingError, suggest
from fairprobe.scenes.recognition import Detector

FORMS = (
    "file.onnx, raw:file.onnx, decoded:file.onnx, detr:FOLDER_OR_NAME, module:function,"
    " path/to/file.py:function, google, amazon, azure"
)


def open_detector(text: str) -> Detector:
    """The recogniser that a text names; its libraries are only loaded when it is asked for."""
    if text.lower().endswith(".onnx"):
        from fairprobe.scenes.detectors.onnx import OnnxDetector

        if text.startswith("raw:"):
            return OnnxDetector(text.removeprefix("raw:"), boxes="raw")
        return OnnxDetector(
            text.removeprefix("decoded:"), boxes="decoded" if text.startswith("decoded:") else None
        )
    if text.startswith("detr:"):
        from fairprobe.scenes.detectors.detr import DetrDetector

        return DetrDetector(text.removeprefix("detr:"))
    if text in ("google", "amazon", "azure"):
        return _vendor(text)
    if ":" in text:
        from fairprobe.scenes.detectors.function import OwnDetector

        return OwnDetector(text)
    raise SettingError(f"'{text}' names no detector.{suggest(text, FORMS.split(', '))}")


def _vendor(name: str) -> Detector:
    if name == "google":
        from fairprobe.scenes.detectors.google import GoogleDetector

        return GoogleDetector()
    if name == "amazon":
        from fairprobe.scenes.detectors.amazon import AmazonDetector

        return AmazonDetector()
    from fairprobe.scenes.detectors.azure import AzureDetector

    return AzureDetector()
