"""COCO panoptic annotations: a JSON file, and beside it a folder of the same name with a PNG for
each picture.

A pixel's segment is red + 256 green + 65536 blue; 0, and numbers that the file does not explain,
are unknown. Things become instances, stuff goes into the stuff map, and crowds of things are left
unknown, since they are no single objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.errors import DataError
from fairprobe.scenes.scene import Scene, Scenes
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
from fairprobe.scenes.sources.files import PictureFolder, read_coloured_numbers, read_picture
from fairprobe.scenes.sources.pairs import fits
from fairprobe.scenes.sources.segments import Segment, scene_of
from fairprobe.scenes.sources.told import Told


@dataclass(frozen=True)
class _Mapped:
    """A picture, its map, and the segments by the number they have there."""

    picture: Path
    map: Path
    segments: dict[int, Segment]


class PanopticScenes(Scenes):
    """The scenes of a COCO panoptic file. Pictures and maps are read when a scene is."""

    def __init__(self, images: Path, annotations: Path, document: object) -> None:
        check(document, annotations)
        maps, told = _maps_beside(annotations), Told()
        categories = read_categories(document)
        pictures = read_pictures(document, PictureFolder(images), told)
        self._scenes = _mapped(document, pictures, maps, categories, told)
        if not self._scenes:
            raise none_left(annotations, told)
        tell_of_classes(
            categories,
            (
                segment.label
                for mapped in self._scenes.values()
                for segment in mapped.segments.values()
            ),
            told,
        )
        self.names = tuple(sorted(self._scenes))
        self.messages = told.messages()

    def read(self, name: str) -> Scene:
        mapped = self._scenes[name]
        coloured = read_coloured_numbers(mapped.map)
        numbers = np.array(sorted(mapped.segments), dtype=np.int32)
        segments = [mapped.segments[int(number)] for number in numbers]
        if not segments:
            return scene_of(
                name,
                read_picture(mapped.picture),
                np.zeros(coloured.shape, dtype=np.int32),
                segments,
            )
        at = np.minimum(np.searchsorted(numbers, coloured), len(numbers) - 1)
        return scene_of(
            name,
            read_picture(mapped.picture),
            np.where(numbers[at] == coloured, at + 1, 0).astype(np.int32),
            segments,
        )


def _maps_beside(annotations: Path) -> PictureFolder:
    folder = annotations.with_suffix("")
    if not folder.is_dir():
        raise DataError(
            f"{annotations} needs its maps: expected a folder {folder} with a PNG for each picture,"
            " as COCO ships them."
        )
    return PictureFolder(folder)


def _mapped(
    document: Any,
    pictures: dict[Id, Listed],
    maps: PictureFolder,
    categories: dict[Id, Segment],
    told: Told,
) -> dict[str, _Mapped]:
    found: dict[str, _Mapped] = {}
    annotated = set()
    known = {
        entry.get("id") for entry in entries(document, "images") if isinstance(entry.get("id"), Id)
    }
    for entry in entries(document, "annotations"):
        image = entry.get("image_id")
        if not isinstance(image, Id) or image not in known:
            told.note(
                f"the map {str(entry.get('file_name'))[:80]}",
                "belongs to a picture that the file does not list",
            )
            continue
        if image not in pictures:
            continue  # already told with the picture
        annotated.add(image)
        picture, path = pictures[image], maps.find(str(entry.get("file_name")))
        if path is None:
            told.note(picture.name, f"has no map below {maps.root} and is left out")
        elif fits(path, picture.size, told):
            found[picture.name] = _Mapped(
                picture.path, path, _segments(entry, picture.name, categories, told)
            )
    for number, picture in pictures.items():
        if number not in annotated:
            told.note(picture.name, "is listed without an annotation and is left out")
    return found


def _segments(
    entry: dict[str, Any], name: str, categories: dict[Id, Segment], told: Told
) -> dict[int, Segment]:
    segments = {}
    given = entry.get("segments_info")
    for info in given if isinstance(given, list) else []:
        number, category = (
            (info.get("id"), info.get("category_id")) if isinstance(info, dict) else (None, None)
        )
        where = f"segment {str(number)[:20]} of {name}"
        if not isinstance(number, int) or not 0 < number < 256**3:
            told.note(where, "has no number that a map can hold and is left out")
        elif not isinstance(category, Id) or category not in categories:
            told.note(
                where, f"has the category {str(category)[:20]}, which has no name, and is left out"
            )
        elif categories[category].is_object and info.get("iscrowd"):
            told.note(where, "is a crowd, not one object, and is left out")
        else:
            segments[number] = categories[category]
    return segments
