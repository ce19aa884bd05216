"""Read pictures, maps of numbers and JSON from untrusted files; errors name the file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from scipy import ndimage

from fairprobe.datasets.pictures import DAMAGED, DEEP
from fairprobe.errors import DataError, FairprobeError, StorageError
from fairprobe.scenes.geometry import Numbers
from fairprobe.scenes.labels import UNKNOWN
from fairprobe.scenes.scene import Instance, Picture, Scene

ENDINGS = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
NUMBERED = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B", "I;16N")
UNREADABLE = (*DAMAGED, Image.DecompressionBombError, Image.DecompressionBombWarning)
MAX_NAMES_SHOWN = 5  # names in a message


class MessageLog:
    """What happened to which pictures and objects; notes of the same kind become one sentence."""

    def __init__(self) -> None:
        self._subjects: dict[str, list[str]] = {}
        self._sentences: list[str] = []

    def note(self, subject: str, ending: str) -> None:
        """Record something about one picture or object: "a.png" "cannot be read and is left
        out".
        """
        self._subjects.setdefault(ending, []).append(subject)

    def say(self, sentence: str) -> None:
        """Record something about the whole data set."""
        self._sentences.append(sentence)

    def messages(self) -> tuple[str, ...]:
        notes = (
            f"{subjects[0]} {ending}."
            if len(subjects) == 1
            else f"{len(subjects)} times: {ending} ({listed(subjects)})."
            for ending, subjects in self._subjects.items()
        )
        return (*notes, *self._sentences)

    def nothing_left(self, annotations: Path) -> DataError:
        """Return the error when no scene is left."""
        why = " ".join(self.messages())
        return DataError(f"No scene could be made from {annotations}. {why}".rstrip())


def listed(names: Iterable[str]) -> str:
    """List the first few names and the number of others."""
    known = list(names)
    more = f" and {len(known) - MAX_NAMES_SHOWN} more" if len(known) > MAX_NAMES_SHOWN else ""
    return ", ".join(known[:MAX_NAMES_SHOWN]) + more


class PictureFolder:
    """The pictures below a folder, found by their path or, if unique, by their name."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise StorageError(f"There is no folder {root}. Expected one with pictures.")
        self.root = root
        self.paths = tuple(
            sorted(
                path
                for path in root.rglob("*")
                if path.suffix.lower() in ENDINGS
                and not path.name.startswith(".")
                and path.is_file()
            )
        )
        if not self.paths:
            endings = ", ".join(sorted(ENDINGS))
            raise StorageError(f"{root} has no pictures. Expected files that end in {endings}.")
        self._by_name: dict[str, list[Path]] = defaultdict(list)
        for path in self.paths:
            self._by_name[path.name].append(path)
        self._by_place = {self.place(path): path for path in self.paths}

    def place(self, path: Path) -> str:
        """Return the path below the folder, which names a picture in messages."""
        return path.relative_to(self.root).as_posix()

    def find(self, wanted: str) -> Path | None:
        """Find the picture that an annotation file calls `wanted`; never one outside the folder."""
        same = self._by_name.get(wanted.rsplit("/", 1)[-1], [])
        return self._by_place.get(wanted) or (same[0] if len(same) == 1 else None)

    def names(self) -> dict[Path, str]:
        """Return a unique name for each picture that is also valid as a file name."""
        names: dict[Path, str] = {}
        taken: set[str] = set()
        for path in self.paths:
            flat = self.place(path).replace("/", "_")
            name = path.stem if path.stem not in taken else flat
            while name in taken:
                name += "_"
            names[path] = name
            taken.add(name)
        return names


def picture_size(path: Path, log: MessageLog) -> tuple[int, int] | None:
    """Read the height and width of a picture; None and a message if it cannot be read."""
    try:
        return _size(path)
    except FairprobeError:
        log.note(path.name, "cannot be read as a picture and is left out")
        return None


def mask_fits(path: Path, size: tuple[int, int], log: MessageLog) -> bool:
    """Return True if a mask can be opened and has the size of its picture."""
    try:
        is_same = _size(path) == size
    except FairprobeError:
        log.note(path.name, "cannot be read as a mask and is left out with its picture")
        return False
    if not is_same:
        log.note(path.name, "is a mask of another size than its picture and is left out with it")
    return is_same


def _size(path: Path) -> tuple[int, int]:
    with _opened(path) as image:  # reads only the header
        return image.height, image.width


def read_picture(path: Path, *, upright: bool = False) -> Picture:
    """Read a picture as RGB bytes; transparency is dropped.

    `upright` applies the camera's orientation, for pictures without annotation.
    """
    with _opened(path) as image:
        if image.mode in DEEP:
            raise DataError(
                f"{path} has more than 8 bits a channel. Save it with 8 bits, as PNG or JPEG."
            )
        turned = ImageOps.exif_transpose(image) if upright else image
        if "transparency" in turned.info:
            turned = turned.convert("RGBA")  # a palette with transparency loses only that
        return np.array(turned.convert("RGB"), dtype=np.uint8)


def read_numbers(path: Path) -> Numbers:
    """Read a map with one number for each pixel: a class or instance mask, indexed or gray."""
    with _opened(path) as image:
        if image.mode not in NUMBERED:
            raise DataError(
                f"{path} has colors ({image.mode}); expected a mask with one number a pixel. Save"
                " it as a gray or indexed PNG."
            )
        return np.asarray(image).astype(np.int32)


def read_text(path: Path, expected: str) -> str:
    """Read a text file; errors say what was `expected`."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text in UTF-8. Expected {expected}.") from error
    except OSError as error:
        raise StorageError(
            f"Cannot read {path}: {error.strerror or error}. Expected {expected}."
        ) from error


def read_json(path: Path) -> object:
    """Read a JSON file."""
    try:
        return json.loads(read_text(path, "a JSON file of annotations"))
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not complete JSON: {error}. Was it cut off while it was copied?"
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    try:
        with Image.open(path) as image:
            yield image
    except DataError:
        raise
    except FileNotFoundError as error:
        raise StorageError(f"There is no file {path}.") from error
    except UNREADABLE as error:
        reason = str(error).rstrip(".") or type(error).__name__
        if isinstance(error, UnidentifiedImageError):
            reason = "unknown format"
        raise DataError(
            f"{path} cannot be read as a picture: {reason}. Replace or remove it."
        ) from error


MAX_STUFF = 255  # numbers in a byte, without 0


@dataclass(frozen=True)
class Segment:
    """A region of a picture: one object, or all of one kind of stuff."""

    label: str
    is_object: bool


class StuffNames:
    """Kinds of stuff and their numbers in `Scene.stuff`; 0 is unknown."""

    def __init__(self, scene: str) -> None:
        self._scene = scene
        self._numbers = {UNKNOWN: 0}

    def number(self, label: str) -> int:
        number = self._numbers.setdefault(label, len(self._numbers))
        if number > MAX_STUFF:
            raise DataError(
                f"{self._scene} has more than {MAX_STUFF} kinds of stuff. Name fewer, or make some"
                " of them objects."
            )
        return number

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._numbers)


def scene_of(name: str, image: Picture, numbers: Numbers, segments: Sequence[Segment]) -> Scene:
    """Make a scene from a map in which k stands for the k-th segment, counted from 1; 0 is
    unknown.
    """
    if numbers.shape != image.shape[:2]:
        raise DataError(
            f"The annotation of {name} is {numbers.shape[1]} × {numbers.shape[0]} pixels, its"
            f" picture {image.shape[1]} × {image.shape[0]}. They must be the same."
        )
    boxes = ndimage.find_objects(numbers, max_label=len(segments))
    stuff = StuffNames(name)
    kinds = np.zeros(len(segments) + 1, dtype=np.uint8)
    instances = []
    for number, (segment, box) in enumerate(zip(segments, boxes, strict=True), start=1):
        if box is None:
            continue
        if segment.is_object:
            rows, columns = box
            corners = (columns.start, rows.start, columns.stop, rows.stop)
            instances.append(Instance(segment.label, corners, numbers[box] == number))
        else:
            kinds[number] = stuff.number(segment.label)
    return Scene(name, image, tuple(instances), kinds[numbers], stuff.names)
