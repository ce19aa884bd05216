"""COCO instance annotations: one JSON file with an outline or run lengths for each object.

Crowds (`iscrowd`) are no single objects and are left out. Categories of stuff (COCO-Stuff, or
`isthing: 0`) go into the stuff map. An outline so thin that no pixel's centre is inside has no mask
and is no object.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.scenes.scene import Instance, Scene, Scenes
from fairprobe.scenes.sources.coco_files import (
    Id,
    Listed,
    check,
    entries,
    none_left,
    read_categories,
    read_pictures,
    tell_of_classes,
)
from fairprobe.scenes.sources.files import PictureFolder, read_picture
from fairprobe.scenes.sources.outlines import DamagedError, Size, counts_of, mask_of, points_of
from fairprobe.scenes.sources.segments import Segment, StuffMap
from fairprobe.scenes.sources.told import Told


@dataclass(frozen=True)
class _Annotated:
    segment: Segment
    segmentation: Any


class CocoScenes(Scenes):
    """The scenes of a COCO instance file. Masks are drawn when a scene is read."""

    def __init__(self, images: Path, annotations: Path, document: object) -> None:
        check(document, annotations)
        told = Told()
        categories = read_categories(document)
        pictures = read_pictures(document, PictureFolder(images), told)
        objects = _annotations(document, pictures, categories, told)
        if not pictures:
            raise none_left(annotations, told)
        for number, picture in pictures.items():
            if number not in objects:
                told.note(
                    picture.name, "is listed with nothing annotated in it and counts as empty"
                )
        self._pictures = {picture.name: picture for picture in pictures.values()}
        self._objects = {
            picture.name: objects.get(number, []) for number, picture in pictures.items()
        }
        tell_of_classes(
            categories, (item.segment.label for items in objects.values() for item in items), told
        )
        self.names = tuple(sorted(self._pictures))
        self.messages = told.messages()

    def read(self, name: str) -> Scene:
        picture = self._pictures[name]
        image = read_picture(picture.path)
        places, stuff, instances = np.zeros(picture.size, dtype=np.uint8), StuffMap(name), []
        for item in self._objects[name]:
            mask = mask_of(item.segmentation, picture.size)
            if not item.segment.is_object:
                places[mask] = stuff.place(item.segment.label)
            elif mask.any():
                instances.append(Instance.of(item.segment.label, mask))
        return Scene(name, image, tuple(instances), places, stuff.names)


def _annotations(
    document: Any, pictures: dict[Id, Listed], categories: dict[Id, Segment], told: Told
) -> dict[Id, list[_Annotated]]:
    """What can be used for each picture. Each mask is checked here, so that reading a scene cannot
    fail on one.
    """
    found: dict[Id, list[_Annotated]] = defaultdict(list)
    known = {
        entry.get("id") for entry in entries(document, "images") if isinstance(entry.get("id"), Id)
    }
    for entry in entries(document, "annotations"):
        image, category, label = (
            entry.get("image_id"),
            entry.get("category_id"),
            f"annotation {str(entry.get('id'))[:20]}",
        )
        if not isinstance(image, Id) or image not in known:
            told.note(label, "belongs to a picture that the file does not list")
            continue
        if image not in pictures:
            continue  # already told with the picture
        where = f"{label} of {pictures[image].name}"
        if not isinstance(category, Id) or category not in categories:
            told.note(
                where, f"has the category {str(category)[:20]}, which has no name, and is left out"
            )
            continue
        segment = categories[category]
        if segment.is_object and entry.get("iscrowd"):
            told.note(where, "is a crowd, not one object, and is left out")
            continue
        segmentation = _usable(entry.get("segmentation"), pictures[image].size, where, told)
        if segmentation:
            found[image].append(_Annotated(segment, segmentation))
    return dict(found)


def _usable(segmentation: object, size: Size, where: str, told: Told) -> object:
    """The segmentation without its damaged parts; nothing when none is left."""
    if not isinstance(segmentation, list):
        try:
            counts_of(segmentation, size)
        except DamagedError as error:
            told.note(where, f"is left out: {error}")
            return None
        return segmentation
    good = []
    for part in segmentation:
        try:
            points_of(part)
        except DamagedError as error:
            told.note(where, f"loses a part: {error}")
        else:
            good.append(part)
    if not segmentation:
        told.note(where, "has no mask and is left out")
    return good
