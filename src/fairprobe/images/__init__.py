"""What only pictures need: detectors, the change of a sensitive attribute in a picture, the search
for pictures whose verdict the change turns, and the repair. `fairprobe.audit_images` brings them
together.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairprobe.images.detector import Detector, own_detector, small_detector, trunk_detector

__all__ = ["Detector", "own_detector", "small_detector", "trunk_detector"]

# Names that moved to fairprobe.audits.images; they work for one release.
_MOVED = {"ImageAudit": "ImageAudit", "audit": "audit_images"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in __all__:
        return getattr(import_module("fairprobe.images.detector"), name)
    if name in _MOVED:
        new = f"fairprobe.audits.images.{_MOVED[name]}"
        warnings.warn(
            f"fairprobe.images.{name} is now {new}. The old name will be removed in the next"
            " release.",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(import_module("fairprobe.audits.images"), _MOVED[name])
    raise AttributeError(
        f"fairprobe.images has no attribute '{name}'. It has: {', '.join(__all__)}."
    )


def __dir__() -> list[str]:
    return __all__
