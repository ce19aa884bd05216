"""Mutated pictures with annotations that say what is in them now, as a COCO file: for retraining a
recognizer on them (DistroFair leaves that to its users).

Inserted and turned objects are added with the pixels that are visible, deleted ones are left out,
and objects behind new ones lose the pixels that these cover. Classes keep the numbers and names
that they have in the user's own COCO file, so that both can be trained on together. Each picture
names the recognizers that it makes err, since the paper proposes to train on those.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from shutil import copyfile
from typing import Any, TypeAlias

import numpy as np

from fairprobe.arrays import Mask
from fairprobe.errors import SettingError, StorageError
from fairprobe.scenes.evidence import Evidence
from fairprobe.scenes.mutants import MadePicture, mutate_without_painting
from fairprobe.scenes.scene import Instance, Mutant, Scene
from fairprobe.storage import replacing, write_text

Size: TypeAlias = tuple[int, int]  # height and width
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
            if mask.any() and mask.sum() >= min(LEAST_PIXELS, one.mask.sum()):
                left.append(Instance.of(one.label, mask))
    new = (Instance.of(one.label, one.whole(scene.size)) for one in mutant.added if one.mask.any())
    return (*left, *new)


def export_coco(
    evidence: Evidence, folder: Path | str, inducing: Mapping[str, Sequence[str]]
) -> Path:
    """Copy the mutated pictures into `folder`/images and write `folder`/instances.json; its path.

    In-painting controls and usual insertions are left out. `inducing` names the recognizers that
    err in a picture, by its path below the run's folder.
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
    pictures = _copied(evidence, place / PICTURES, inducing)
    return write_coco(place, pictures, evidence.scenes.categories)


def write_coco(
    folder: Path,
    pictures: Iterable[tuple[dict[str, Any], Size, tuple[Instance, ...]]],
    categories: Mapping[str, tuple[int | str, str]] | None = None,
) -> Path:
    """Write `folder`/instances.json for pictures that are in `folder`/images; its path.

    A picture is its entry (`file_name`, and whatever else is to be said of it), its size and its
    objects. `categories` are those of the original file; other classes get numbers of their own.
    """
    known = dict(categories or {})
    free = count(1 + max((one for one, _ in known.values() if isinstance(one, int)), default=0))
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for at, (entry, size, found) in enumerate(pictures, start=1):
        images.append({"id": at, **entry, "height": size[0], "width": size[1]})
        for one in found:
            if one.label not in known:
                known[one.label] = (next(free), one.label)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": at,
                    "category_id": known[one.label][0],
                    "iscrowd": 0,
                    "area": int(one.mask.sum()),
                    "bbox": [*one.box[:2], one.box[2] - one.box[0], one.height],
                    "segmentation": {"size": list(size), "counts": _runs(one.whole(size))},
                }
            )
    body = {
        "info": {"description": "Written by fairprobe: what is in each picture now."},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": at, "name": name} for at, name in known.values()],
    }
    write_text(folder / ANNOTATIONS, json.dumps(body))
    return folder / ANNOTATIONS


def _copied(
    evidence: Evidence, folder: Path, inducing: Mapping[str, Sequence[str]]
) -> Iterator[tuple[dict[str, Any], Size, tuple[Instance, ...]]]:
    """Copy every mutant; its entry says what was done to which scene, and who errs in it."""
    for made, size, found in _mutants(evidence):
        task = made.task
        name = task.file.replace("/", "-")
        with replacing(folder / name) as temporary:
            copyfile(made.path, temporary)
        done = {"scene": task.scene, "mutation": task.operator, "mutated_class": task.label}
        errs = list(inducing.get(str(made.path.relative_to(evidence.folder)), ()))
        yield {"file_name": name, **done, "error_inducing": errs}, size, found


def _mutants(evidence: Evidence) -> Iterator[tuple[MadePicture, Size, tuple[Instance, ...]]]:
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
