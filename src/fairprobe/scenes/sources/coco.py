"""COCO annotations: instances (one JSON file) and panoptic (a JSON file and a folder of PNGs).

The file's `isthing` decides what is an object; without it, the name does. Crowds (`iscrowd`) are
not single objects and are left out.

Instances: an outline or run lengths for each object. An outline so thin that no pixel's center is
inside is not an object. Panoptic: a pixel's segment is red + 256 green + 65536 blue; 0, and numbers
that the file does not explain, are unknown.

Masks are outlines, or run lengths as numbers or text. `pycocotools` reads both, but trusts the
file: run lengths that do not add up give uninitialized memory, and it draws outlines by another
rule. The tests compare with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.errors import DataError
from fairprobe.scenes.labels import GROUND, common, is_stuff
from fairprobe.scenes.scene import Instance, Scene, Scenes
from fairprobe.scenes.sources.files import (
    MessageLog,
    PictureFolder,
    Segment,
    StuffNames,
    listed,
    mask_fits,
    picture_size,
    read_picture,
    scene_of,
)

Id = int | str
PARTS = ("images", "annotations", "categories")


def looks_like_coco(document: object) -> bool:
    """Return True if a document has the three lists of a COCO file."""
    return isinstance(document, dict) and all(
        isinstance(document.get(part), list) for part in PARTS
    )


def looks_panoptic(document: object) -> bool:
    """Return True if it describes maps and not single masks."""
    return looks_like_coco(document) and any(
        "segments_info" in entry for entry in _entries(document, "annotations")
    )


class CocoScenes(Scenes):
    """The scenes of a COCO instance file. Masks are drawn when a scene is read."""

    def __init__(self, images: Path, annotations: Path, document: object) -> None:
        listing = _Listing(document, images, annotations)
        objects, log = _instances(listing), listing.log
        if not listing.pictures:
            raise log.nothing_left(annotations)
        for number, picture in listing.pictures.items():
            if number not in objects:
                log.note(picture.name, "is listed with nothing annotated in it and counts as empty")
        self._pictures = {picture.name: picture for picture in listing.pictures.values()}
        self._objects = {
            picture.name: objects.get(number, []) for number, picture in listing.pictures.items()
        }
        listing.report_classes(segment.label for items in objects.values() for segment, _ in items)
        self.names, self.messages = tuple(sorted(self._pictures)), log.messages()
        self.categories = listing.numbers

    def labels(self, name: str) -> frozenset[str]:
        return frozenset(one.label for one, _ in self._objects[name] if one.is_object)

    def read(self, name: str) -> Scene:
        picture = self._pictures[name]
        image = read_picture(picture.path)
        kinds, stuff, instances = np.zeros(picture.size, dtype=np.uint8), StuffNames(name), []
        for segment, segmentation in self._objects[name]:
            mask = mask_of(segmentation, picture.size)
            if not segment.is_object:
                kinds[mask] = stuff.number(segment.label)
            elif mask.any():
                instances.append(Instance.of(segment.label, mask))
        return Scene(name, image, tuple(instances), kinds, stuff.names)


class PanopticScenes(Scenes):
    """The scenes of a COCO panoptic file. Pictures and maps are read when a scene is."""

    def __init__(self, images: Path, annotations: Path, document: object) -> None:
        listing = _Listing(document, images, annotations)
        self._scenes = _maps(listing, annotations)
        if not self._scenes:
            raise listing.log.nothing_left(annotations)
        listing.report_classes(
            segment.label for _, _, found in self._scenes.values() for segment in found.values()
        )
        self.names, self.messages = tuple(sorted(self._scenes)), listing.log.messages()
        self.categories = listing.numbers

    def labels(self, name: str) -> frozenset[str]:
        return frozenset(
            segment.label for segment in self._scenes[name][2].values() if segment.is_object
        )

    def read(self, name: str) -> Scene:
        picture, path, segments = self._scenes[name]
        channels = read_picture(path).astype(np.int32)
        colored = channels[..., 0] + 256 * channels[..., 1] + 65536 * channels[..., 2]
        known = np.array([-1, *sorted(segments)], dtype=np.int32)  # -1: no pixel has it
        at = np.minimum(np.searchsorted(known, colored), len(known) - 1)
        numbers = np.where(known[at] == colored, at, 0).astype(np.int32)
        return scene_of(
            name, read_picture(picture), numbers, [segments[int(number)] for number in known[1:]]
        )


# -- what both kinds share -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Picture:
    name: str
    path: Path
    size: tuple[int, int]


class _Listing:
    """The categories that a file names, and the listed pictures that can be used."""

    def __init__(self, document: Any, images: Path, annotations: Path) -> None:
        if not looks_like_coco(document):
            raise DataError(
                f"{annotations} is not a COCO annotation file: expected lists called"
                f" {', '.join(PARTS)}. Is it the right file, and complete?"
            )
        self.document, self.log = document, MessageLog()
        self.categories: dict[Id, Segment] = {}
        self.numbers: dict[str, tuple[Id, str]] = {}  # of classes of objects; the first that fits
        for entry in _entries(document, "categories"):
            number, name = entry.get("id"), entry.get("name")
            if isinstance(number, Id) and isinstance(name, str) and name.strip():
                label = common(name)
                is_object = bool(entry["isthing"]) if "isthing" in entry else not is_stuff(label)
                self.categories[number] = Segment(label, is_object)
                if is_object:
                    self.numbers.setdefault(label, (number, name))
        self.pictures = self._usable_pictures(PictureFolder(images))

    def _usable_pictures(self, folder: PictureFolder) -> dict[Id, _Picture]:
        """Find the listed pictures that exist, are readable, and have the listed size."""
        names, seen = folder.names(), set()
        found: dict[Id, _Picture] = {}
        for entry in _entries(self.document, "images"):
            number, file_name = entry.get("id"), entry.get("file_name")
            if not isinstance(number, Id) or not isinstance(file_name, str):
                self.log.note(
                    f"the picture {str(file_name or number)[:80]}",
                    "is listed without an id or a file name and is left out",
                )
                continue
            path = folder.find(file_name)
            if path is None:
                self.log.note(
                    file_name, f"is annotated, but there is no such picture below {folder.root}"
                )
                continue
            if path in seen or number in found:
                self.log.note(file_name, "is listed twice, of which the first counts")
            elif size := picture_size(path, self.log):
                if (entry.get("height", size[0]), entry.get("width", size[1])) == size:
                    found[number] = _Picture(names[path], path, size)
                else:
                    self.log.note(
                        path.name, "is not as large as its annotation says and is left out"
                    )
            seen.add(path)
        for path in folder.paths:
            if path not in seen:
                self.log.note(folder.place(path), "has no annotation and is left out")
        return found

    def annotations(self) -> Iterator[tuple[Id, _Picture, dict[str, Any]]]:
        """Yield the records of usable pictures; those of unlisted pictures are reported."""
        known = {entry.get("id") for entry in _entries(self.document, "images") if _has_id(entry)}
        for entry in _entries(self.document, "annotations"):
            image = entry.get("image_id")
            if not isinstance(image, Id) or image not in known:
                subject = (
                    f"the map {str(entry.get('file_name'))[:80]}"
                    if "segments_info" in entry
                    else f"annotation {str(entry.get('id'))[:20]}"
                )
                self.log.note(subject, "belongs to a picture that the file does not list")
            elif image in self.pictures:
                yield image, self.pictures[image], entry

    def segment(self, entry: dict[str, Any], subject: str) -> Segment | None:
        """Return the category of an annotation; None and a message if it has none or is a crowd."""
        category = entry.get("category_id")
        if not isinstance(category, Id) or category not in self.categories:
            self.log.note(
                subject,
                f"has the category {str(category)[:20]}, which has no name, and is left out",
            )
            return None
        if self.categories[category].is_object and entry.get("iscrowd"):
            self.log.note(subject, "is a crowd, not one object, and is left out")
            return None
        return self.categories[category]

    def report_classes(self, seen: Iterable[str]) -> None:
        """Report classes without annotation, and missing ground."""
        labels = set(seen)
        objects = {segment.label for segment in self.categories.values() if segment.is_object}
        if empty := sorted(objects - labels):
            self.log.say(f"Nothing is annotated for {len(empty)} of the classes: {listed(empty)}.")
        if not labels & GROUND:
            self.log.say(
                "No ground (road, earth, floor, pavement, grass) is annotated, so no object can be"
                " inserted by the ground that it stands on."
            )


def _entries(document: Any, part: str) -> Iterator[dict[str, Any]]:
    return (entry for entry in document[part] if isinstance(entry, dict))


def _has_id(entry: dict[str, Any]) -> bool:
    return isinstance(entry.get("id"), Id)


# -- instances -------------------------------------------------------------------------------------


def _instances(listing: _Listing) -> dict[Id, list[tuple[Segment, Any]]]:
    """Collect the segments and masks of each picture; each mask is checked, so that reading cannot
    fail.
    """
    found: dict[Id, list[tuple[Segment, Any]]] = defaultdict(list)
    for image, picture, entry in listing.annotations():
        subject = f"annotation {str(entry.get('id'))[:20]} of {picture.name}"
        segment = listing.segment(entry, subject)
        if segment is None:
            continue
        mask = _usable_mask(entry.get("segmentation"), picture.size, subject, listing.log)
        if mask:
            found[image].append((segment, mask))
    return dict(found)


def _usable_mask(segmentation: object, size: Size, subject: str, log: MessageLog) -> object:
    """Return the segmentation without its damaged parts; None or empty when nothing is left."""
    if not isinstance(segmentation, list):
        try:
            run_lengths(segmentation, size)
        except DamagedError as error:
            log.note(subject, f"is left out: {error}")
            return None
        return segmentation
    good = []
    for part in segmentation:
        try:
            points_of(part)
        except DamagedError as error:
            log.note(subject, f"loses a part: {error}")
        else:
            good.append(part)
    if not segmentation:
        log.note(subject, "has no mask and is left out")
    return good


# -- panoptic --------------------------------------------------------------------------------------


def _maps(listing: _Listing, annotations: Path) -> dict[str, tuple[Path, Path, dict[int, Segment]]]:
    """Collect each picture, its map, and the segments by their number in the map."""
    folder = annotations.with_suffix("")
    if not folder.is_dir():
        raise DataError(
            f"{annotations} needs its maps: expected a folder {folder} with a PNG for each picture,"
            " as COCO ships them."
        )
    maps, log = PictureFolder(folder), listing.log
    found, annotated = {}, set()
    for image, picture, entry in listing.annotations():
        annotated.add(image)
        path = maps.find(str(entry.get("file_name")))
        if path is None:
            log.note(picture.name, f"has no map below {maps.root} and is left out")
        elif mask_fits(path, picture.size, log):
            found[picture.name] = (picture.path, path, _segments(entry, picture.name, listing))
    for number, picture in listing.pictures.items():
        if number not in annotated:
            log.note(picture.name, "is listed without an annotation and is left out")
    return found


def _segments(entry: dict[str, Any], name: str, listing: _Listing) -> dict[int, Segment]:
    segments = {}
    given = entry.get("segments_info")
    for info in given if isinstance(given, list) else []:
        info = info if isinstance(info, dict) else {}
        number = info.get("id")
        subject = f"segment {str(number)[:20]} of {name}"
        if not isinstance(number, int) or not 0 < number < 256**3:
            listing.log.note(subject, "has no number that a map can hold and is left out")
        elif segment := listing.segment(info, subject):
            segments[number] = segment
    return segments


# -- masks -----------------------------------------------------------------------------------------


Size = tuple[int, int]  # height, width

MIN_NUMBERS = 6  # three points
CHUNK = 5  # bits of a number in one character
MAX_DISTANCE = 1e9  # of a corner from the picture
MAX_CHARACTERS = 7  # characters of one number; more than any picture needs


class DamagedError(ValueError):
    """What is wrong with a mask; the message continues its name."""


def mask_of(segmentation: object, size: Size) -> Mask:
    """Draw the mask that an annotation describes. It may be empty: an outline can miss every
    pixel.
    """
    if isinstance(segmentation, list):
        mask = np.zeros(size, dtype=bool)
        for part in segmentation:
            mask |= polygon(points_of(part), size)
        return mask
    runs = run_lengths(segmentation, size)
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return np.ascontiguousarray(flat.reshape(size[1], size[0]).T)


def points_of(part: object) -> Floats:
    """Read the corners (n, 2) of one outline: x, y, x, y …"""
    if not isinstance(part, list) or not all(
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MAX_DISTANCE
        for value in part
    ):
        raise DamagedError("an outline is not a list of numbers")
    if len(part) < MIN_NUMBERS:
        raise DamagedError("an outline has fewer than 3 points")
    if len(part) % 2:
        raise DamagedError("an outline has an x without its y")
    return np.array(part, dtype=np.float64).reshape(-1, 2)


def polygon(points: Floats, size: Size) -> Mask:
    """Mask the pixels whose center is inside, by the even-odd rule."""
    height, width = size
    toggles = np.zeros((height, width + 1), dtype=np.int32)
    x0, y0 = points.T
    x1, y1 = np.roll(points, -1, axis=0).T
    first = _first_center(np.minimum(y0, y1), height)
    steps = _first_center(np.maximum(y0, y1), height) - first
    # Each edge crosses the middle of `steps` rows from `first`; every pixel right of a crossing
    # changes sides.
    edge = np.repeat(np.arange(len(points)), steps)
    rows = np.arange(len(edge)) - np.repeat(np.cumsum(steps) - steps, steps) + first[edge]
    slope = (x1 - x0)[edge] / (y1 - y0)[edge]
    crossing = x0[edge] + (rows + 0.5 - y0[edge]) * slope
    np.add.at(toggles, (rows, _first_center(crossing, width)), 1)
    inside: Mask = (np.cumsum(toggles, axis=1)[:, :-1] % 2).astype(bool)
    return inside


def _first_center(values: Floats, end: int) -> npt.NDArray[np.intp]:
    """Return the first row (or column) whose middle is not before the value, within the picture."""
    return np.clip(np.ceil(values - 0.5), 0, end).astype(np.intp)


def run_lengths(segmentation: object, size: Size) -> Ints:
    """Read and check the run lengths of a mask of this size: off, on, off, …, column by column."""
    if not isinstance(segmentation, dict) or "counts" not in segmentation:
        raise DamagedError("the mask is neither an outline nor run lengths")
    counts = segmentation["counts"]
    if isinstance(counts, str):
        runs = unpack(counts)
    elif isinstance(counts, list) and all(
        type(run) is int and abs(run) < MAX_DISTANCE for run in counts
    ):
        runs = np.array(counts, dtype=np.int64)
    else:
        raise DamagedError("the run lengths are neither whole numbers nor a text")
    pixels = size[0] * size[1]
    if segmentation.get("size", list(size)) != list(size):
        raise DamagedError("the mask is of another size than its picture")
    if (runs.size and not 0 <= runs.min() <= runs.max() <= pixels) or runs.sum() != pixels:
        raise DamagedError("the run lengths do not add up to the pixels of the picture")
    return runs


def unpack(text: str) -> Ints:
    """Unpack the run lengths in COCO's text.

    Each character holds five bits of a number, lowest first, and whether more follow; the highest
    bit of the last is the sign. From the fourth number on, the difference to the number two places
    before is stored.
    """
    codes = np.frombuffer(text.encode("latin-1", errors="replace"), np.uint8).astype(np.int64) - 48
    if not codes.size:
        return np.zeros(0, dtype=np.int64)
    ends = np.flatnonzero((codes & 32) == 0)
    if codes.min() < 0 or codes.max() > 63 or not ends.size or ends[-1] != codes.size - 1:
        raise DamagedError("the packed run lengths are damaged")
    starts = np.concatenate([[0], ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.max() > MAX_CHARACTERS:
        raise DamagedError("the packed run lengths are damaged")
    shifts = CHUNK * (np.arange(codes.size) - np.repeat(starts, lengths))
    values = np.add.reduceat((codes & 31) << shifts, starts)
    values -= np.where(codes[ends] & 16, 1 << (CHUNK * lengths), 0)
    values[1::2] = np.cumsum(values[1::2])
    values[2::2] = np.cumsum(values[2::2])
    return values
