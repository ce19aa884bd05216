"""Reading pictures one by one. Problems with a picture are recorded and reported in sentences; the
other pictures are still read.
"""

from __future__ import annotations

import os
import struct
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage

Bytes: TypeAlias = npt.NDArray[np.uint8]
Channels = Literal[1, 3]

MOST_BYTES = 8 * 2**30  # of all pictures together, in memory
SHOWN, LONGEST = 5, 200  # names in a message, characters of a name
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
GRAY, ALPHA = ("1", "L", "LA"), ("RGBA", "LA", "PA")
DEEP = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")  # more than a byte a pixel, of unknown range
# What PIL raises on damaged files; its own UnidentifiedImageError is an OSError.
DAMAGED = (
    OSError,
    ValueError,
    SyntaxError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    struct.error,
)
ORIENTATION, TURNED = 0x0112, range(2, 9)  # the EXIF tag of a camera's orientation


class MessageLog:
    """Log of what happened to which pictures; names are shown relative to `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.empty: list[str] = []
        self._paths: dict[str, list[Path]] = {}

    def note(self, what: str, paths: Iterable[Path]) -> None:
        self._paths.setdefault(what, []).extend(paths)

    def messages(self, size: str = "") -> tuple[str, ...]:
        """Write one sentence for each kind of problem; `size` is the common size of the
        pictures.
        """
        endings = {
            "missing": "is in the list but not in the folder and is left out",
            "unnamed": "has no age, gender and race in its name and is left out",
            "unreadable": "cannot be read as an image and is left out",
            "deep": "has more than 8 bits a channel and is left out",
            "huge": "has too many pixels to be opened safely and is left out",
            "size": f"is not {size} pixels like most and is left out",
            "resized": f"is resized to {size} pixels",
            "cropped": f"is cropped to the square in its middle and resized to {size} pixels",
            "turned": "is turned upright, as its camera says",
            "frames": "has several frames, of which the first is used",
            "alpha": "has an alpha channel, which is dropped",
            "gray": "is gray and gets three equal channels",
            "color": "has colors and is converted to gray, because the network takes one channel",
        }
        sentences = [
            self._sentence(self._paths[what], ending)
            for what, ending in endings.items()
            if self._paths.get(what)
        ]
        return (*sentences, *self.empty)

    def _sentence(self, paths: list[Path], ending: str) -> str:
        names = (str(path.relative_to(self.root)) for path in paths[:SHOWN])
        shown = ", ".join(name if len(name) <= LONGEST else f"{name[:LONGEST]}…" for name in names)
        if len(paths) == 1:
            return f"{shown} {ending}."
        more = f" and {len(paths) - SHOWN:,} more" if len(paths) > SHOWN else ""
        return f"{len(paths):,} images: each {ending} ({shown}{more})."


def read_picture(
    path: Path,
    log: MessageLog,
    *,
    channels: Channels = 3,
    size: int | None = None,
    content: bytes | None = None,
) -> Bytes | None:
    """Return the picture (channels, height, width), resized to a square of `size` pixels if given;
    None if it cannot be used.

    `content` is that of a picture inside another file; `path` is then only its name.
    """
    from PIL import Image, ImageOps

    try:
        with _careful(), Image.open(path if content is None else BytesIO(content)) as image:
            mode, has_alpha = image.mode, image.mode in ALPHA or "transparency" in image.info
            if mode in DEEP:
                log.note("deep", [path])
                return None
            has_frames, is_turned = getattr(image, "is_animated", False), _is_turned(image)
            upright = ImageOps.exif_transpose(image) if is_turned else image
            # A palette with transparency is converted to RGBA first; converting that to RGB drops
            # only the transparency.
            full = upright.convert("RGBA").convert("RGB") if has_alpha else upright.convert("RGB")
            before, full = full.size, squared(full, size)
            pixels = np.asarray(full if channels == 3 else full.convert("L"), dtype=np.uint8)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        log.note("huge", [path])
        return None
    except DAMAGED:
        log.note("unreadable", [path])
        return None
    happened = {
        "resized" if before[0] == before[1] else "cropped": full.size != before,
        "turned": is_turned,
        "frames": has_frames,
        "alpha": has_alpha,
        "gray": mode in GRAY and channels == 3,
        "color": mode not in GRAY and channels == 1,
    }
    for what in (what for what, is_so in happened.items() if is_so):
        log.note(what, [path])
    return pixels.reshape(*pixels.shape[:2], channels).transpose(2, 0, 1)


@contextmanager
def _careful() -> Iterator[None]:
    """Turn PIL's warning about a huge picture into an error, and hide its other warnings."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _is_turned(image: PILImage) -> bool:
    try:
        return image.getexif().get(ORIENTATION) in TURNED
    except DAMAGED:  # damaged metadata do not make a picture unreadable
        return False


def squared(image: PILImage, size: int | None) -> PILImage:
    """Return the square in the middle at this size, so that a face keeps its proportions; the
    picture itself if no size is given.
    """
    from PIL import Image, ImageOps

    if size is None or image.size == (size, size):
        return image
    return ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)


def commonest_shape(pictures: Iterable[Bytes]) -> tuple[int, ...]:
    """Return the most frequent shape, the largest of several; an error if there is no picture."""
    shapes = Counter(picture.shape for picture in pictures)
    return max(shapes, key=lambda shape: (shapes[shape], shape))


@dataclass(frozen=True)
class ReadPictures:
    """Pictures of one shape (channels, height, width), by their places in the list of paths, and
    how many were left out because they have another.
    """

    shape: tuple[int, ...]
    pictures: dict[int, Bytes]
    other_sizes: int = 0

    @property
    def size(self) -> str:
        return f"{self.shape[2]} × {self.shape[1]}"


def read_pictures(
    paths: Sequence[Path],
    log: MessageLog,
    *,
    channels: Channels = 3,
    size: int | None = None,
    shape: tuple[int, ...] | None = None,
) -> ReadPictures | None:
    """All pictures that can be used: those of the most common shape, or of the given one. What is
    left out goes to the log; None if no picture can be read.
    """
    read: dict[int, Bytes] = {}
    held = 0
    for at, path in enumerate(paths):
        if not os.path.isfile(path):  # noqa: PTH113  (False for a name that no file can have)
            log.note("missing", [path])
        elif (picture := read_picture(path, log, channels=channels, size=size)) is not None:
            read[at] = picture
            held += picture.nbytes
            if held > MOST_BYTES:
                raise SettingError(
                    f"The pictures in {log.root} do not fit into memory. Set a limit, or a size to"
                    " resize them to."
                )
    if not read:
        return None
    wanted = shape or commonest_shape(read.values())
    others = [paths[at] for at, one in read.items() if one.shape != wanted]
    log.note("size", others)
    fitting = {at: one for at, one in read.items() if one.shape == wanted}
    return ReadPictures(wanted, fitting, len(others))


def picture_files(root: Path) -> list[Path]:
    """All pictures in a folder and its subfolders, by their endings."""
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.suffix.lower() in ENDINGS and not path.name.startswith(".")
    ]
