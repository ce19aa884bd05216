"""Audits of images: NeuronFair on pictures (`audit_images`) and InsideBias (`insidebias`).

Detectors, the change of a sensitive attribute in a picture, the search for pictures whose verdict
the change turns, the repair, and what the images of groups activate in a network.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairprobe.images.activation_ratio import InsideBias, insidebias
    from fairprobe.images.detector import Detector, own_detector, small_detector, trunk_detector

HOMES = {
    "Detector": "detector",
    "InsideBias": "activation_ratio",
    "insidebias": "activation_ratio",
    "own_detector": "detector",
    "small_detector": "detector",
    "trunk_detector": "detector",
}

__all__ = [
    "Detector",
    "InsideBias",
    "insidebias",
    "own_detector",
    "small_detector",
    "trunk_detector",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in HOMES:
        return getattr(import_module(f"fairprobe.images.{HOMES[name]}"), name)
    raise AttributeError(
        f"fairprobe.images has no attribute '{name}'. It has: {', '.join(__all__)}."
    )


def __dir__() -> list[str]:
    return __all__
