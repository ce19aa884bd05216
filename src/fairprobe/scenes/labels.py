"""One name for one class, whatever a data set or recogniser calls it."""

from __future__ import annotations

NAMES = {
    "pedestrian": "person",
    "people": "person",
    "human": "person",
    "man": "person",
    "woman": "person",
    "rider": "person",
    "bicyclist": "bicycle",
    "bike": "bicycle",
    "motorbike": "motorcycle",
    "lorry": "truck",
    "automobile": "car",
    "traffic sign": "sign",
    "trafficlight": "traffic light",
    "road": "road",
    "sidewalk": "pavement",
    "pavement-merged": "pavement",
    "dirt-merged": "earth",
    "terrain": "earth",
    "grass-merged": "grass",
    "floor-other-merged": "floor",
}


def common(name: str) -> str:
    """The lower-case name that all sources share."""
    plain = " ".join(name.replace("_", " ").lower().split())
    return NAMES.get(plain, plain)
