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
from fairprobe.storage import make_folder, replacing, write_text

Size: TypeAlias = tuple[int, int]  # height and width
ANNOTATIONS, PICTURES = "instances.json", "images"
LEAST_PIXELS = 25  # of an object: what is left of it is no object


def instances_after(scene: Scene, mutant: Mutant) -> tuple[Instance, ...]:
    """List the objects of a mutated picture."""
    covered = scene.mask_of(mutant.added)
    left = []
    for instance in scene.others(mutant.removed):
        mask = instance.whole(scene.size) & ~covered
        if mask.any() and mask.sum() >= min(LEAST_PIXELS, instance.mask.sum()):
            left.append(Instance.of(instance.label, mask))
    new = (
        Instance.of(instance.label, instance.whole(scene.size))
        for instance in mutant.added
        if instance.mask.any()
    )
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
    pictures = _copied(evidence, make_folder(place / PICTURES), inducing)
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
        for instance in found:
            if instance.label not in known:
                known[instance.label] = (next(free), instance.label)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": at,
                    "category_id": known[instance.label][0],
                    "iscrowd": 0,
                    "area": int(instance.mask.sum()),
                    "bbox": [*instance.box[:2], instance.box[2] - instance.box[0], instance.height],
                    "segmentation": {"size": list(size), "counts": _runs(instance.whole(size))},
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
    """Copy every mutant; its entry names the mutation, the scene and the recognizers that err."""
    for made, size, found in _mutants(evidence):
        task = made.task
        name = task.file.replace("/", "-")
        with replacing(folder / name) as temporary:
            copyfile(made.path, temporary)
        done = {"scene": task.scene, "mutation": task.operator, "mutated_class": task.label}
        errs = list(inducing.get(str(made.path.relative_to(evidence.folder)), ()))
        yield {"file_name": name, **done, "error_inducing": errs}, size, found


def _mutants(evidence: Evidence) -> Iterator[tuple[MadePicture, Size, tuple[Instance, ...]]]:
    """List every unusual picture, its size and its objects, scene by scene."""
    made = [picture for picture in evidence.made.values() if picture.task.kind == "ood"]
    scene: Scene | None = None
    for picture in sorted(made, key=lambda picture: (picture.task.scene, str(picture.path))):
        if scene is None or scene.name != picture.task.scene:
            scene = evidence.scenes.read(picture.task.scene)
        mutant = mutate_without_painting(scene, picture.task, evidence.cutouts, evidence.settings)
        if not isinstance(mutant, Mutant) or mutant.places != picture.places:
            raise StorageError(
                f"{picture.path} cannot be annotated: it was not made from these scenes and"
                " cut-outs. Delete it, run the audit again, and export then."
            )
        yield picture, scene.size, instances_after(scene, mutant)


def _runs(mask: Mask) -> list[int]:
    """Compute COCO's run lengths, column by column, starting outside the mask."""
    flat = mask.T.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    lengths = np.diff(np.concatenate([[0], changes, [flat.size]]))
    return [*([0] if flat[0] else []), *map(int, lengths)]
