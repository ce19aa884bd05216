"""Mutated pictures with annotations that say what is in them now, as a COCO file: for retraining a
recognizer on them (DistroFair leaves that to its users).

Inserted and turned objects are added with the pixels that are visible, deleted ones are left out,
and objects behind new ones lose the pixels that these cover.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np

from fairprobe.arrays import Mask
from fairprobe.errors import SettingError, StorageError
from fairprobe.scenes.evidence import Evidence
from fairprobe.scenes.mutants import MadePicture, mutate_without_painting
from fairprobe.scenes.scene import Instance, Mutant, Scene
from fairprobe.storage import replacing, write_text

ANNOTATIONS, PICTURES = "instances.json", "images"
LEAST_PIXELS = 25  # of an object: what is left of it is no object


def instances_after(scene: Scene, mutant: Mutant) -> tuple[Instance, ...]:
    """The objects of a mutated picture."""
    covered = np.zeros(scene.size, dtype=bool)
    for one in mutant.added:
        covered |= one.whole(scene.size)
    left = []
    for one in scene.instances:
        if not any(one is other for other in mutant.removed):
            mask = one.whole(scene.size) & ~covered
            if mask.sum() >= min(LEAST_PIXELS, one.mask.sum()):
                left.append(Instance.of(one.label, mask))
    new = (Instance.of(one.label, one.whole(scene.size)) for one in mutant.added if one.mask.any())
    return (*left, *new)


def export_coco(evidence: Evidence, folder: Path | str) -> Path:
    """Copy the mutated pictures into `folder`/images and write `folder`/instances.json; its path.

    In-painting controls and usual insertions are left out.
    """
    place = Path(folder)
    if (place / ANNOTATIONS).exists():
        raise SettingError(f"{place} holds an export. Name another folder.")
    try:
        (place / PICTURES).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot write into {place}: {error.strerror}. Choose another folder."
        ) from error
    numbers: dict[str, int] = {}
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for at, (made, size, found) in enumerate(_mutants(evidence), start=1):
        name = made.task.file.replace("/", "-")
        with replacing(place / PICTURES / name) as temporary:
            copyfile(made.path, temporary)
        images.append({"id": at, "file_name": name, "height": size[0], "width": size[1]})
        for one in found:
            number = numbers.setdefault(one.label, len(numbers) + 1)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": at,
                    "category_id": number,
                    "iscrowd": 0,
                    "area": int(one.mask.sum()),
                    "bbox": [*one.box[:2], one.box[2] - one.box[0], one.height],
                    "segmentation": {"size": list(size), "counts": _runs(one.whole(size))},
                }
            )
    body = {
        "info": {"description": "Pictures mutated by fairprobe, with what is in them now."},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": at, "name": label} for label, at in numbers.items()],
    }
    write_text(place / ANNOTATIONS, json.dumps(body))
    return place / ANNOTATIONS


def _mutants(
    evidence: Evidence,
) -> Iterator[tuple[MadePicture, tuple[int, int], tuple[Instance, ...]]]:
    """Every unusual picture, its size and its objects, scene by scene."""
    made = [one for one in evidence.made.values() if one.task.kind == "ood"]
    scene: Scene | None = None
    for one in sorted(made, key=lambda one: (one.task.scene, str(one.path))):
        if scene is None or scene.name != one.task.scene:
            scene = evidence.scenes.read(one.task.scene)
        mutant = mutate_without_painting(scene, one.task, evidence.cutouts, evidence.settings)
        if not isinstance(mutant, Mutant) or mutant.places != one.places:
            raise StorageError(
                f"{one.path} cannot be annotated: it was not made from these scenes and cut-outs."
                " Delete it, run the audit again, and export then."
            )
        yield one, scene.size, instances_after(scene, mutant)


def _runs(mask: Mask) -> list[int]:
    """COCO's run lengths: columns one after another, beginning with what is outside."""
    flat = mask.T.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    lengths = np.diff(np.concatenate([[0], changes, [flat.size]]))
    return [*([0] if flat[0] else []), *map(int, lengths)]
