"""Class masks: for each picture a PNG with the number of a class at each pixel, as in CamVid.

Such masks do not separate objects. Each connected part, corners included, counts as one object: two
cars that touch are one, and a car behind a pole is two. Specks of fewer than `least_pixels` are not
objects: at 480 × 360, fifty pixels are a car of about nine by six, which no recognizer sees. A mask
has the name of its picture, or that name and an ending such as `_mask`, in the same folder or
another (`street.png` and `street_mask.png`).

A names file is a JSON object:

    {"0": "sky", "3": "road", "8": "car", "9": "pedestrian", "objects": ["car", "pedestrian"],
    "least_pixels": 50, "counted_as": {"bus": "car"}, "held_by": {"person": "bicycle"}}

or a text file with one name a line, the first for number 0. Without `objects`, the name decides
(`labels.is_stuff`). `counted_as` and `held_by` are those of `Scenes`: masks of cars that hold buses
too, masks of bicycles that hold their riders. For masks that number the objects and not the classes
(0 is nothing) write {"instances_of": "person"}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from fairprobe.errors import DataError, FairprobeError, SettingError, suggest
from fairprobe.scenes.geometry import Numbers, components
from fairprobe.scenes.labels import UNKNOWN, common, is_stuff
from fairprobe.scenes.scene import Scene, Scenes
from fairprobe.scenes.sources.files import (
    MessageLog,
    PictureFolder,
    Segment,
    listed,
    mask_fits,
    picture_size,
    read_json,
    read_numbers,
    read_picture,
    read_text,
    scene_of,
)

LEAST_PIXELS = 50
SETTINGS = ("objects", "least_pixels", "instances_of", "counted_as", "held_by")
CHECKED = 100  # masks that are searched for unnamed numbers before the work begins
MOST_NUMBERS = 2**16
PNG = ".png"
MASK_ENDINGS = ("_mask", "_masks", "_label", "_labels", "_gt", "_seg", "_L")
CAMVID_NAMES = (
    "sky, building, pole, road, pavement, tree, sign, fence, car, pedestrian, bicyclist, unlabelled"
)
"""CamVid's eleven classes: `car` stands for buses, lorries and trains too, `bicyclist` for riders
of motorcycles, and `sign` for signs and traffic lights.
"""
CAMVID_COUNTED_AS = {"bus": "car", "truck": "car", "train": "car", "motorcycle": "bicycle"}
CAMVID_HELD_BY = {"person": "bicycle"}


@dataclass(frozen=True)
class ClassNames:
    """The segment that each number stands for.

    With `instances_of`, each number but 0 is an object of that class.
    """

    segments: dict[int, Segment]
    least_pixels: int = LEAST_PIXELS
    instances_of: str | None = None
    counted_as: Mapping[str, str] = field(default_factory=dict)
    held_by: Mapping[str, str] = field(default_factory=dict)


class MaskScenes(Scenes):
    """Pictures with class masks. Both are read when a scene is."""

    def __init__(self, images: Path, annotations: Path, names: ClassNames | None) -> None:
        log = MessageLog()
        if names is None:
            log.say(
                "No names were given, so the numbers in the masks are read as CamVid's:"
                f" {CAMVID_NAMES}."
            )
            camvid = dict(enumerate(CAMVID_NAMES.split(", ")))
            names = ClassNames(
                _segments(camvid, None, "CamVid"),
                counted_as=CAMVID_COUNTED_AS,
                held_by=CAMVID_HELD_BY,
            )
        self._classes = names
        self.counted_as, self.held_by = names.counted_as, names.held_by
        self._pairs = _pairs(PictureFolder(images), PictureFolder(annotations), log)
        self._check_first(log)
        if not self._pairs:
            raise log.nothing_left(annotations)
        self.names, self.messages = tuple(sorted(self._pairs)), log.messages()

    def read(self, name: str) -> Scene:
        picture, mask = self._pairs[name]
        numbers, segments = self._segmented(_read_mask(mask))
        return scene_of(name, read_picture(picture), numbers, segments)

    def _segmented(self, numbers: Numbers) -> tuple[Numbers, list[Segment]]:
        present = np.flatnonzero(np.bincount(numbers.ravel()))
        places = np.zeros(int(present[-1]) + 1, dtype=np.int32)
        if self._classes.instances_of is not None:
            objects = present[present > 0]
            places[objects] = np.arange(1, len(objects) + 1, dtype=np.int32)
            segment = Segment(self._classes.instances_of, is_object=True)
            return places[numbers], [segment] * len(objects)
        known = [
            (number, self._classes.segments[number])
            for number in map(int, present)
            if number in self._classes.segments
        ]
        segments = [segment for _, segment in known if not segment.is_object]
        places[[number for number, segment in known if not segment.is_object]] = np.arange(
            1, len(segments) + 1
        )
        found = places[numbers]
        for number, segment in known:
            if segment.is_object:
                parts, count = components(numbers == number, self._classes.least_pixels)
                np.copyto(found, parts + len(segments), where=parts > 0)
                segments.extend([segment] * count)
        return found, segments

    def _check_first(self, log: MessageLog) -> None:
        """Report damaged masks, unnamed numbers and empty classes among the first masks."""
        seen: set[int] = set()
        for name in sorted(self._pairs)[:CHECKED]:
            mask = self._pairs[name][1]
            try:
                seen.update(map(int, np.flatnonzero(np.bincount(_read_mask(mask).ravel()))))
            except FairprobeError as error:
                log.say(f"{error} Its picture is left out.")
                del self._pairs[name]
        if self._classes.instances_of is not None:
            return
        known = self._classes.segments
        if unnamed := sorted(seen - known.keys()):
            log.say(
                "Numbers in the masks without a name count as unknown:"
                f" {listed(map(str, unnamed))}."
            )
        present = {known[number].label for number in seen & known.keys()}
        empty = sorted({segment.label for segment in known.values() if segment.is_object} - present)
        if empty and 0 < len(self._pairs) <= CHECKED:
            log.say(f"No mask has an object of: {listed(empty)}.")


def _read_mask(path: Path) -> Numbers:
    numbers = read_numbers(path)
    if numbers.min() < 0 or numbers.max() >= MOST_NUMBERS:
        raise DataError(f"{path} has numbers outside 0 … {MOST_NUMBERS - 1}, which name no class.")
    return numbers


def _pairs(
    pictures: PictureFolder, masks: PictureFolder, log: MessageLog
) -> dict[str, tuple[Path, Path]]:
    """Pair each picture with its mask, by the picture's name."""
    is_shared = pictures.root.resolve() == masks.root.resolve()
    given = {
        path
        for path in masks.paths
        if path.suffix.lower() == PNG and (not is_shared or _key(path) != path.stem)
    }
    by_place = {
        path.relative_to(masks.root).with_name(_key(path)).as_posix(): path
        for path in sorted(given)
    }
    by_key = {_key(path): path for path in sorted(given)}
    names, found, used = pictures.names(), {}, set()
    for path in pictures.paths:
        if is_shared and path in given:
            continue
        place = path.relative_to(pictures.root).with_suffix("").as_posix()
        mask = by_place.get(place) or by_key.get(path.stem)
        if mask is None:
            log.note(pictures.place(path), "has no mask and is left out")
            continue
        used.add(mask)
        size = picture_size(path, log)
        if size is not None and mask_fits(mask, size, log):
            found[names[path]] = (path, mask)
    for mask in sorted(given - used):
        log.note(
            masks.place(mask), f"is a mask, but there is no such picture below {pictures.root}"
        )
    return found


def _key(path: Path) -> str:
    """Return the name that a mask and its picture share."""
    return next(
        (path.stem.removesuffix(ending) for ending in MASK_ENDINGS if path.stem.endswith(ending)),
        path.stem,
    )


# -- what the numbers mean -------------------------------------------------------------------------


def read_names(path: Path) -> ClassNames:
    """Read a names file."""
    if path.suffix.lower() == ".json":
        return _from_json(read_json(path), path)
    names = {at: name for at, name in enumerate(read_lines(path)) if name}
    return ClassNames(_segments(names, None, str(path)))


def read_lines(path: Path) -> list[str]:
    """Read the names of classes, one a line."""
    lines = read_text(path, "one name of a class on each line").splitlines()
    while lines and not lines[-1].strip():
        del lines[-1]
    return [line.strip() for line in lines]


def _from_json(document: Any, path: Path) -> ClassNames:
    if not isinstance(document, dict):
        raise DataError(
            f'{path} must hold a JSON object such as {{"8": "car", "9": "pedestrian", "objects":'
            ' ["car"]}.'
        )
    names = {int(key): value for key, value in document.items() if key.isdecimal()}
    for key in [key for key in document if not key.isdecimal() and key not in SETTINGS]:
        raise DataError(
            f"{path} has the key '{key}', which is neither the number of a class nor a"
            f" setting.{suggest(key, SETTINGS)}"
        )
    try:
        settings = msgspec.convert({**document, "names": names}, _NamesFile)
    except msgspec.ValidationError as error:
        raise DataError(
            f"{path} is not a file of names: {error}. Expected a name for each number, such as"
            ' "8": "car"; objects is a list of names, least_pixels a whole number of at least 1,'
            ' instances_of a name, and counted_as and held_by map names to names, such as {"bus":'
            ' "car"}.'
        ) from error
    if settings.instances_of is not None and names:
        raise DataError(
            f"{path}: instances_of is the name of the only class; it stands alone, without numbers"
            " of classes."
        )
    return ClassNames(
        _segments(settings.names, settings.objects, str(path)),
        settings.least_pixels,
        None if settings.instances_of is None else common(settings.instances_of),
        {common(name): common(wider) for name, wider in settings.counted_as.items()},
        {common(name): common(holder) for name, holder in settings.held_by.items()},
    )


class _NamesFile(msgspec.Struct):
    names: dict[int, Annotated[str, msgspec.Meta(pattern=r"\S")]]
    objects: list[str] | None = None
    least_pixels: Annotated[int, msgspec.Meta(ge=1)] = LEAST_PIXELS
    instances_of: str | None = None
    counted_as: dict[str, str] = {}
    held_by: dict[str, str] = {}


def _segments(names: dict[int, str], objects: list[str] | None, source: str) -> dict[int, Segment]:
    labels = {number: common(name) for number, name in names.items()}
    if objects is None:
        chosen = {label for label in labels.values() if not is_stuff(label)} - {UNKNOWN}
    else:
        chosen = {common(name) for name in objects}
    for name in sorted(chosen - set(labels.values())):
        raise SettingError(
            f"{source} calls '{name}' an object, but names no such"
            f" class.{suggest(name, sorted(set(labels.values())))}"
        )
    return {number: Segment(label, label in chosen) for number, label in labels.items()}
