"""The pictures that `fairprobe audit-scenes demo` audits: streets drawn by fairprobe, as WebP files
with COCO annotations.

    python -m tools.streets           # replaces those of the package

Most of a file would be the drawing's fine grain. So brightness is rounded, by 2 of 256 levels at
most; the rest is kept as it is. The background is annotated too (`isthing` 0), also where an object
stands in front of it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pycocotools import mask as coco_masks  # type: ignore[import-untyped]

from fairprobe.arrays import Mask
from fairprobe.scenes import demo
from fairprobe.scenes.demo import LABELS
from fairprobe.scenes.scene import Instance, Picture, Scene
from tools.streets.drawn import STUFF, DrawnScenes

STEP = 4  # levels of brightness
CATEGORIES = [
    {"id": number, "name": name, "isthing": int(name in LABELS)}
    for number, name in enumerate((*LABELS, *STUFF[1:]), start=1)
]
NUMBERS = {entry["name"]: entry["id"] for entry in CATEGORIES}


def write_streets(folder: Path, scenes: DrawnScenes) -> None:
    """Write `folder`/images and `folder`/instances.json."""
    (folder / demo.PICTURES.name).mkdir(parents=True, exist_ok=True)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, scene in enumerate(scenes, start=1):
        file = f"{scene.name}.webp"
        height, width = scene.size
        Image.fromarray(rounded(scene.image)).save(
            folder / demo.PICTURES.name / file, lossless=True, method=6
        )
        images.append({"id": number, "file_name": file, "height": height, "width": width})
        for label, mask in masks(scene):
            entry = {"id": len(annotations) + 1, "image_id": number, "iscrowd": 0}
            annotations.append(entry | {"category_id": NUMBERS[label]} | described(mask))
    body = {
        "info": {"description": "Streets drawn by fairprobe (tools/demo_streets.py)."},
        "categories": CATEGORIES,
        "images": images,
        "annotations": annotations,
    }
    text = json.dumps(body).replace(', {"id"', ',\n{"id"')  # one entry a line
    (folder / demo.ANNOTATIONS.name).write_text(f"{text}\n", encoding="utf-8")


def rounded(picture: Picture) -> Picture:
    """The picture in fewer levels of brightness; differences between colors stay."""
    green = picture[..., 1:2].astype(np.float64)
    moved = picture + (STEP * np.rint(green / STEP) - green)
    return np.clip(moved, 0, 255).astype(np.uint8)


def masks(scene: Scene) -> list[tuple[str, Mask]]:
    """The class and the pixels of everything in a scene: the background first."""
    kinds = [(name, scene.stuff == number) for number, name in enumerate(scene.stuff_names)][1:]
    objects = [(one.label, one.whole(scene.size)) for one in scene.instances]
    return [(label, mask) for label, mask in (*kinds, *objects) if mask.any()]


def described(mask: Mask) -> dict[str, Any]:
    """Run lengths, box and area, as COCO writes them."""
    runs = coco_masks.encode(np.asfortranarray(mask, dtype=np.uint8))
    left, top, right, bottom = Instance.of("", mask).box
    return {
        "area": int(mask.sum()),
        "bbox": [left, top, right - left, bottom - top],
        "segmentation": {"size": runs["size"], "counts": runs["counts"].decode()},
    }


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else demo.FOLDER / "streets"
    write_streets(where, DrawnScenes(demo.COUNT, seed=demo.SEED))
