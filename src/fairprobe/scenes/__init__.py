"""DistroFair: which classes of objects does a recognizer fail when the scene becomes unusual?

Everything is imported when first used: a process that only makes pictures does not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairprobe.scenes.detectors import open_detector
    from fairprobe.scenes.detectors.base import Detection, Detector
    from fairprobe.scenes.detectors.layouts import LAYOUTS
    from fairprobe.scenes.scene import GivenScenes, Instance, Scene, Scenes, sample_scenes
    from fairprobe.scenes.sources import open_scenes

_NAMES = {
    "detectors": ("open_detector",),
    "detectors.base": ("Detection", "Detector"),
    "detectors.layouts": ("LAYOUTS",),
    "scene": ("GivenScenes", "Instance", "Scene", "Scenes", "sample_scenes"),
    "sources": ("open_scenes",),
}
__all__ = [
    "LAYOUTS",
    "Detection",
    "Detector",
    "GivenScenes",
    "Instance",
    "Scene",
    "Scenes",
    "open_detector",
    "open_scenes",
    "sample_scenes",
]


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"fairprobe.scenes.{module}"), name)
    raise AttributeError(
        f"fairprobe.scenes has no attribute '{name}'. It has: {', '.join(__all__)}."
    )


def __dir__() -> list[str]:
    return __all__
