"""Class masks: for each picture a PNG with the number of a class at each pixel, as CamVid has them.

Such masks do not tell one object from the next. What hangs together, corners included, counts as
one object: two cars that touch are one, and a car behind a pole is two. Specks of fewer than
`least_pixels` are no objects. A mask is called as its picture, or has its name and an ending such
as `_mask`, in the same folder or another (`street.png` and `street_mask.png`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairprobe.errors import DataError, FairprobeError
from fairprobe.scenes.geometry import Numbers, components
from fairprobe.scenes.scene import Scene, Scenes
from fairprobe.scenes.sources.class_names import CAMVID_NAMES, ClassNames, camvid
from fairprobe.scenes.sources.files import PictureFolder, read_numbers, read_picture
from fairprobe.scenes.sources.pairs import fits, readable_size
from fairprobe.scenes.sources.segments import Segment, scene_of
from fairprobe.scenes.sources.told import Told, listed

LOOKED_AT = 100  # masks that are searched for numbers without a name before the work begins
MOST_NUMBERS = 2**16
PNG = ".png"
MASK_ENDINGS = ("_mask", "_masks", "_label", "_labels", "_gt", "_seg", "_L")


class MaskScenes(Scenes):
    """Pictures with class masks. Both are read when a scene is."""

    def __init__(self, images: Path, annotations: Path, names: ClassNames | None) -> None:
        told = Told()
        if names is None:
            told.say(
                "No names were given, so the numbers in the masks are read as CamVid's:"
                f" {', '.join(CAMVID_NAMES)}."
            )
        self._classes = names or camvid()
        self._pairs = _paired(PictureFolder(images), PictureFolder(annotations), told)
        self._look_at_first(told)
        if not self._pairs:
            raise DataError(
                f"No scene could be made from {annotations}. {' '.join(told.messages())}".rstrip()
            )
        self.names = tuple(sorted(self._pairs))
        self.messages = told.messages()

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
            return places[numbers], [Segment(self._classes.instances_of, is_object=True)] * len(
                objects
            )
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

    def _look_at_first(self, told: Told) -> None:
        """Masks that are damaged, numbers without a name and classes without an object, as far as
        the first masks show.
        """
        seen: set[int] = set()
        for name in sorted(self._pairs)[:LOOKED_AT]:
            mask = self._pairs[name][1]
            try:
                seen.update(map(int, np.flatnonzero(np.bincount(_read_mask(mask).ravel()))))
            except FairprobeError as error:
                told.say(f"{error} Its picture is left out.")
                del self._pairs[name]
        if self._classes.instances_of is not None:
            return
        known = self._classes.segments
        if unnamed := sorted(seen - known.keys()):
            told.say(
                "Numbers in the masks without a name count as unknown:"
                f" {listed(map(str, unnamed))}."
            )
        present = {known[number].label for number in seen & known.keys()}
        empty = sorted({segment.label for segment in known.values() if segment.is_object} - present)
        if empty and len(self._pairs) <= LOOKED_AT:
            told.say(f"No mask has an object of: {listed(empty)}.")


def _read_mask(path: Path) -> Numbers:
    numbers = read_numbers(path)
    if numbers.min() < 0 or numbers.max() >= MOST_NUMBERS:
        raise DataError(f"{path} has numbers outside 0 … {MOST_NUMBERS - 1}, which are no classes.")
    return numbers


def _paired(
    pictures: PictureFolder, masks: PictureFolder, told: Told
) -> dict[str, tuple[Path, Path]]:
    """Each picture with its mask, by the picture's name."""
    is_shared = pictures.root.resolve() == masks.root.resolve()
    given = {
        path
        for path in masks.paths
        if path.suffix.lower() == PNG and (not is_shared or _key(path) != path.stem)
    }
    by_place = {_place(path, masks): path for path in sorted(given)}
    by_key = {_key(path): path for path in sorted(given)}
    names, found, used = pictures.names(), {}, set()
    for path in pictures.paths:
        if is_shared and path in given:
            continue
        mask = by_place.get(
            path.relative_to(pictures.root).with_suffix("").as_posix()
        ) or by_key.get(path.stem)
        if mask is None:
            told.note(pictures.place(path), "has no mask and is left out")
            continue
        used.add(mask)
        size = readable_size(path, told)
        if size is not None and fits(mask, size, told):
            found[names[path]] = (path, mask)
    for mask in sorted(given - used):
        told.note(
            masks.place(mask), f"is a mask, but there is no such picture below {pictures.root}"
        )
    return found


def _key(path: Path) -> str:
    """What a mask and its picture are both called."""
    return next(
        (path.stem.removesuffix(ending) for ending in MASK_ENDINGS if path.stem.endswith(ending)),
        path.stem,
    )


def _place(path: Path, folder: PictureFolder) -> str:
    return path.relative_to(folder.root).with_name(_key(path)).as_posix()
