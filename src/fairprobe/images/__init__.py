"""What only pictures need: detectors, the change of a sensitive attribute in a picture, the search
for pictures whose verdict the change turns, and the repair. `fairprobe.audit_images` brings them
together.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairprobe.images.detector import Detector, own_detector, small_detector, trunk_detector

__all__ = ["Detector", "own_detector", "small_detector", "trunk_detector"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in __all__:
        return getattr(import_module("fairprobe.images.detector"), name)
    raise AttributeError(
        f"fairprobe.images has no attribute '{name}'. It has: {', '.join(__all__)}."
    )


def __dir__() -> list[str]:
    return __all__
