"""DistroFair: which classes of objects does a recogniser fail when the scene becomes unusual?

All is imported when first used: a process that only paints need not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairprobe.scenes.auditing import SceneAudit, audit
    from fairprobe.scenes.detectors import open_detector
    from fairprobe.scenes.recognition import Detection, Detector
    from fairprobe.scenes.scene import GivenScenes, Instance, Scene, Scenes
    from fairprobe.scenes.sources import open_scenes

_HOMES = {
    "Detection": "recognition",
    "Detector": "recognition",
    "GivenScenes": "scene",
    "Instance": "scene",
    "Scene": "scene",
    "SceneAudit": "auditing",
    "Scenes": "scene",
    "audit": "auditing",
    "open_detector": "detectors",
    "open_scenes": "sources",
}

__all__ = [
    "Detection",
    "Detector",
    "GivenScenes",
    "Instance",
    "Scene",
    "SceneAudit",
    "Scenes",
    "audit",
    "open_detector",
    "open_scenes",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(
            f"fairprobe.scenes has no attribute '{name}'. It has: {', '.join(__all__)}."
        )
    return getattr(import_module(f"fairprobe.scenes.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
