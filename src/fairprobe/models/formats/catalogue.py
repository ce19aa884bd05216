"""Formats of models that can be loaded. Each describes itself beside its code."""

from __future__ import annotations

from pathlib import Path

from fairprobe.models.formats.base import Format
from fairprobe.models.formats.boosters import CATBOOST, LIGHTGBM, XGBOOST
from fairprobe.models.formats.chat import CHAT
from fairprobe.models.formats.endpoint import ENDPOINT
from fairprobe.models.formats.export_file import TORCH_EXPORT
from fairprobe.models.formats.keras_file import KERAS
from fairprobe.models.formats.onnx_file import ONNX
from fairprobe.models.formats.own_code import OWN_CODE
from fairprobe.models.formats.sklearn_model import SKOPS

FORMATS: tuple[Format, ...] = (
    ONNX,
    KERAS,
    TORCH_EXPORT,
    SKOPS,
    XGBOOST,
    LIGHTGBM,
    CATBOOST,
    OWN_CODE,
    ENDPOINT,
    CHAT,
)


def format_of(path: Path) -> Format | None:
    """Return the format of a file, by its ending."""
    return next((form for form in FORMATS if path.suffix.lower() in form.endings), None)


def supported() -> str:
    """Return the end of a message about a model that cannot be loaded."""
    return f"Supported are {', '.join(form.given for form in FORMATS)}."
