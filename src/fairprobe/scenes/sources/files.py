"""Reading pictures, maps of numbers and JSON that nobody vouches for. Whatever is wrong with a file
becomes an error that names it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from fairprobe.datasets.pictures import DAMAGED, DEEP
from fairprobe.errors import DataError, StorageError
from fairprobe.scenes.geometry import Numbers
from fairprobe.scenes.scene import Picture

ENDINGS = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
NUMBERED = ("1", "L", "P", "I", "I;16", "I;16L", "I;16B", "I;16N")
UNREADABLE = (*DAMAGED, Image.DecompressionBombError, Image.DecompressionBombWarning)


class PictureFolder:
    """The pictures below a folder, found by their path or, where only one has it, their name."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise StorageError(f"There is no folder {root}. Expected one with pictures.")
        self.root = root
        self.paths = tuple(sorted(path for path in root.rglob("*") if _is_picture(path)))
        self._by_name: dict[str, list[Path]] = defaultdict(list)
        for path in self.paths:
            self._by_name[path.name].append(path)
        self._by_place = {self.place(path): path for path in self.paths}

    def place(self, path: Path) -> str:
        """The path below the folder, which names a picture in messages."""
        return path.relative_to(self.root).as_posix()

    def find(self, wanted: str) -> Path | None:
        """What an annotation file calls `wanted`. Only pictures below the folder are found,
        wherever the name points.
        """
        same = self._by_name.get(wanted.rsplit("/", 1)[-1], [])
        return self._by_place.get(wanted) or (same[0] if len(same) == 1 else None)

    def names(self) -> dict[Path, str]:
        """A name for each picture that can also name a file: the plain one, or the whole path where
        two would share it.
        """
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


def size_of(path: Path) -> tuple[int, int]:
    """Height and width, from the head of the file only."""
    with _opened(path) as image:
        return image.height, image.width


def read_picture(path: Path, *, upright: bool = False) -> Picture:
    """The picture as RGB bytes; transparency is dropped. `upright` turns it as the camera says, for
    pictures that nobody has annotated.
    """
    with _opened(path) as image:
        if image.mode in DEEP:
            raise DataError(
                f"{path} has more than 8 bits a channel. Save it with 8 bits, as PNG or JPEG."
            )
        turned = ImageOps.exif_transpose(image) if upright else image
        # A palette with transparency goes over RGBA; going to RGB then drops the transparency and
        # nothing else.
        full = (
            turned.convert("RGBA").convert("RGB")
            if "transparency" in turned.info
            else turned.convert("RGB")
        )
        return np.array(full, dtype=np.uint8)


def read_numbers(path: Path) -> Numbers:
    """A map with one number for each pixel: class masks, instance masks. The numbers of a palette's
    colours count, not the colours.
    """
    with _opened(path) as image:
        if image.mode not in NUMBERED:
            raise DataError(
                f"{path} has colours ({image.mode}); expected a mask with one number a pixel. Save"
                " it as a grey or indexed PNG."
            )
        return np.asarray(image).astype(np.int32)


def read_coloured_numbers(path: Path) -> Numbers:
    """A map whose numbers are kept in colours, as COCO's panoptic PNGs do: red + 256 green + 65536
    blue.
    """
    channels = read_picture(path).astype(np.int32)
    return channels[..., 0] + 256 * channels[..., 1] + 65536 * channels[..., 2]


def read_json(path: Path) -> object:
    """What a JSON file holds."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not JSON: it is no text in UTF-8. Is it the right file?"
        ) from error
    except OSError as error:
        raise StorageError(
            f"Cannot read {path}: {error.strerror or error}. Expected a JSON file of annotations."
        ) from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path} is not whole JSON: {error}. Was it cut off while it was copied?"
        ) from error


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in ENDINGS and not path.name.startswith(".") and path.is_file()


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    try:
        with Image.open(path) as image:
            yield image
    except DataError:
        raise
    except UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception | Warning) -> DataError | StorageError:
    if isinstance(error, FileNotFoundError):
        return StorageError(f"There is no file {path}.")
    reason = (
        "it is no picture"
        if isinstance(error, UnidentifiedImageError)
        else str(error).rstrip(".") or type(error).__name__
    )
    return DataError(f"{path} cannot be read as a picture: {reason}. Replace it or take it away.")
