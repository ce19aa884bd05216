"""NeuronFair on images: a detector, the change of a sensitive attribute in a picture, and the
pictures that the change makes it fail on.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairprobe.images.auditing import audit
    from fairprobe.images.detector import Detector, keras_detector, own_detector, small_detector
    from fairprobe.images.evidence import ImageAudit
    from fairprobe.images.folder import new_run

# Where each public name lives; imported when first used.
_HOMES = {
    "Detector": "detector",
    "ImageAudit": "evidence",
    "audit": "auditing",
    "keras_detector": "detector",
    "new_run": "folder",
    "own_detector": "detector",
    "small_detector": "detector",
}

__all__ = [
    "Detector",
    "ImageAudit",
    "audit",
    "keras_detector",
    "new_run",
    "own_detector",
    "small_detector",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"fairprobe.images.{_HOMES[name]}"), name)
    raise AttributeError(
        f"fairprobe.images has no attribute '{name}'. It has: {', '.join(__all__)}."
    )


def __dir__() -> list[str]:
    return __all__
