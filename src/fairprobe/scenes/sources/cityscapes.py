"""Cityscapes: pictures `…_leftImg8bit.png`, annotations `…_gtFine_instanceIds.png`,
`…_polygons.json` or `…_labelIds.png`, by city.

The first of the three that exists counts, in this order. In instance maps, class · 1000 + n is the
n-th object of a class; a class number alone is stuff, or a group of things that were not separated,
which is left unknown. Traffic lights have no instances there, so each connected part is one. In
label maps that holds for all objects. Polygons are drawn one over the other as Cityscapes draws
them, edges included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
from PIL import Image, ImageDraw

from fairprobe.errors import DataError, FairprobeError, StorageError
from fairprobe.scenes.geometry import Numbers, components
from fairprobe.scenes.labels import UNKNOWN, common, is_stuff
from fairprobe.scenes.scene import Scene, Scenes
from fairprobe.scenes.sources.files import (
    MessageLog,
    PictureFolder,
    Segment,
    mask_fits,
    picture_size,
    read_json,
    read_numbers,
    read_picture,
    scene_of,
)
from fairprobe.scenes.sources.masks import LEAST_PIXELS

_NAMES = (
    "unlabeled, ego vehicle, rectification border, out of roi, static, dynamic, ground, road,"
    " sidewalk, parking, rail track, building, wall, fence, guard rail, bridge, tunnel, pole,"
    " polegroup, traffic light, traffic sign, vegetation, terrain, sky, person, rider, car, truck,"
    " bus, caravan, trailer, train, motorcycle, bicycle"
)
LABELS = dict(enumerate(_NAMES.split(", ")))  # by the numbers in label maps
SEGMENTS = {
    number: Segment(common(name), not is_stuff(common(name)))
    for number, name in LABELS.items()
    if common(name) != UNKNOWN
}
BY_NAME = {name: number for number, name in LABELS.items()}
TRAFFIC_LIGHT = 19  # an object, but without instances
PER_CLASS = 1000
NEVER_DRAWN = ("license plate",)  # as in Cityscapes: the car is whole
FEWEST_POINTS = 3
Coordinate: TypeAlias = Annotated[float, msgspec.Meta(gt=-1e6, lt=1e6)]

ANNOTATION = re.compile(
    r"(?P<key>.+)_gt(Fine|Coarse)_(?P<what>instanceIds|polygons|labelIds)\.(png|json)"
)
ORDER = ("instanceIds", "polygons", "labelIds")
PICTURE_ENDING = "_leftImg8bit"


@dataclass(frozen=True)
class _Pair:
    picture: Path
    annotation: Path
    what: str


@dataclass(frozen=True)
class _Outline:
    """One polygon; without a segment it is unknown."""

    segment: Segment | None
    is_group: bool
    points: list[tuple[float, float]]


class _Document(msgspec.Struct, rename="camel"):
    """An annotation by polygons; its objects are checked one by one."""

    img_height: int
    img_width: int
    objects: list[Any]

    @property
    def size(self) -> tuple[int, int]:
        return self.img_height, self.img_width


class _Object(msgspec.Struct):
    label: str
    polygon: list[tuple[Coordinate, Coordinate]]
    deleted: int = 0


class CityscapesScenes(Scenes):
    """The scenes of a Cityscapes folder, a split or a city of it."""

    def __init__(self, images: Path, annotations: Path) -> None:
        log, folder = MessageLog(), PictureFolder(images)
        pictures = {
            path.stem.removesuffix(PICTURE_ENDING): path
            for path in folder.paths
            if not ANNOTATION.fullmatch(path.name)
        }
        given = annotation_files(annotations)
        self._pairs: dict[str, _Pair] = {}
        for key, path in pictures.items():
            if key not in given:
                log.note(folder.place(path), "has no annotation and is left out")
                continue
            what = next(what for what in ORDER if what in given[key])
            pair = _Pair(path, given[key][what], what)
            if _is_usable(pair, log):
                self._pairs[key] = pair
        for key in sorted(given.keys() - pictures.keys()):
            log.note(key, f"is annotated, but there is no such picture below {images}")
        if not self._pairs:
            raise log.nothing_left(annotations)
        self.names, self.messages = tuple(sorted(self._pairs)), log.messages()

    def read(self, name: str) -> Scene:
        pair = self._pairs[name]
        image = read_picture(pair.picture)
        if pair.what == "polygons":
            numbers, segments = _from_polygons(_read(pair.annotation))
        else:
            numbers, segments = _from_map(
                read_numbers(pair.annotation), has_instances=pair.what == "instanceIds"
            )
        return scene_of(name, image, numbers, segments)


def annotation_files(folder: Path) -> dict[str, dict[str, Path]]:
    """Find the annotation files below a folder by picture and kind."""
    if not folder.is_dir():
        raise StorageError(
            f"There is no folder {folder}. Expected Cityscapes' gtFine, or a split or city of it."
        )
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.rglob("*_gt*")):
        if match := ANNOTATION.fullmatch(path.name):
            found.setdefault(match["key"], {})[match["what"]] = path
    return found


def _is_usable(pair: _Pair, log: MessageLog) -> bool:
    size = picture_size(pair.picture, log)
    if size is None:
        return False
    if pair.what != "polygons":
        return mask_fits(pair.annotation, size, log)
    try:
        document = _read(pair.annotation)
    except FairprobeError as error:
        log.say(f"{error} Its picture is left out.")
        return False
    if document.size != size:
        log.note(pair.annotation.name, "is for a picture of another size and is left out with it")
        return False
    for label, outline in _outlines(document):
        subject = f"'{label}' of {pair.annotation.name}"
        if isinstance(outline, str):
            log.note(subject, f"{outline} and is left out")
        elif outline.is_group:
            log.note(subject, "is a group, not one object, and is left out")
    return True


def _from_map(numbers: Numbers, *, has_instances: bool) -> tuple[Numbers, list[Segment]]:
    """Convert a map in which instances have their own numbers; other objects are connected parts of
    a class.
    """
    numbers = np.where((numbers >= 0) & (numbers < PER_CLASS * len(LABELS)), numbers, 0)
    present = np.flatnonzero(np.bincount(numbers.ravel()))
    places = np.zeros(int(present[-1]) + 1, dtype=np.int32)
    segments, apart = [], []
    for number in map(int, present):
        segment = SEGMENTS.get(number // PER_CLASS if number >= PER_CLASS else number)
        if segment is None:
            continue
        if number < PER_CLASS and segment.is_object:
            if number == TRAFFIC_LIGHT or not has_instances:
                apart.append((number, segment))
            continue
        segments.append(segment)
        places[number] = len(segments)
    found = places[numbers]
    for number, segment in apart:
        parts, count = components(numbers == number, LEAST_PIXELS)
        found = np.where(parts > 0, parts + len(segments), found)
        segments.extend([segment] * count)
    return found, segments


def _from_polygons(document: _Document) -> tuple[Numbers, list[Segment]]:
    height, width = document.size
    canvas, segments = Image.new("I", (width, height)), []
    pencil = ImageDraw.Draw(canvas)
    for _, outline in _outlines(document):
        if isinstance(outline, str):
            continue
        if outline.segment is not None and not outline.is_group:
            segments.append(outline.segment)
            pencil.polygon(outline.points, fill=len(segments))
        else:
            pencil.polygon(outline.points, fill=0)  # what is unknown hides what is behind it
    return np.asarray(canvas).astype(np.int32), segments


def _outlines(document: _Document) -> Iterator[tuple[str, _Outline | str]]:
    """Yield each object's name with its outline, or with what is wrong with it."""
    for entry in document.objects:
        try:
            thing = msgspec.convert(entry, _Object)
        except msgspec.ValidationError:
            yield "an object", "has no label or no list of points"
            continue
        if thing.label in NEVER_DRAWN or thing.deleted:
            continue
        label = thing.label if thing.label in BY_NAME else thing.label.removesuffix("group")
        if label not in BY_NAME:
            yield thing.label[:40], "is not a class of Cityscapes"
        elif len(thing.polygon) < FEWEST_POINTS:
            yield label, f"has an outline of fewer than {FEWEST_POINTS} points"
        else:
            segment = SEGMENTS.get(BY_NAME[label])
            yield thing.label[:40], _Outline(segment, label != thing.label, thing.polygon)


def _read(path: Path) -> _Document:
    try:
        return msgspec.convert(read_json(path), _Document)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{path} is not a Cityscapes annotation ({error}). Expected whole numbers imgHeight and"
            " imgWidth, and a list called objects."
        ) from error
