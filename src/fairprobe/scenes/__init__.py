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

_HOMES = {
    "LAYOUTS": "scenes.detectors.layouts",
    "Detection": "scenes.detectors.base",
    "Detector": "scenes.detectors.base",
    "GivenScenes": "scenes.scene",
    "Instance": "scenes.scene",
    "Scene": "scenes.scene",
    "Scenes": "scenes.scene",
    "open_detector": "scenes.detectors",
    "open_scenes": "scenes.sources",
    "sample_scenes": "scenes.scene",
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
    if name in _HOMES:
        return getattr(import_module(f"fairprobe.{_HOMES[name]}"), name)
    raise AttributeError(
        f"fairprobe.scenes has no attribute '{name}'. It has: {', '.join(__all__)}."
    )


def __dir__() -> list[str]:
    return __all__
