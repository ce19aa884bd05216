"""Reading one picture after the other: whatever is wrong with one is remembered and told in
sentences, and the rest goes on.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image as PILImage

Bytes: TypeAlias = npt.NDArray[np.uint8]
Channels = Literal[1, 3]

SHOWN = 5  # names in a message
GREY, ALPHA = ("1", "L", "LA"), ("RGBA", "LA", "PA")
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
ORIENTATION, TURNED = 0x0112, range(2, 9)  # the EXIF tag by which cameras say how to turn a picture


class Told:
    """What happened to which pictures; names are shown as they are below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.empty: list[str] = []
        self._paths: dict[str, list[Path]] = {}

    def note(self, what: str, paths: Iterable[Path]) -> None:
        self._paths.setdefault(what, []).extend(paths)

    def messages(self, size: str = "") -> tuple[str, ...]:
        """`size` is the one that pictures were brought to or had to have."""
        endings = {
            "missing": "is in the list but not in the folder and is left out",
            "unnamed": "has a name that tells no age, gender and race and is left out",
            "unreadable": "cannot be read as an image and is left out",
            "deep": "has more than 8 bits a channel and is left out",
            "huge": "has too many pixels to be opened safely and is left out",
            "size": f"is not {size} pixels as most are and is left out",
            "resized": f"is brought to {size} pixels",
            "cropped": f"is cropped to the square in its middle and brought to {size} pixels",
            "turned": "is turned upright, as its camera says",
            "frames": "has several frames, of which the first counts",
            "alpha": "has an alpha channel, which is dropped",
            "grey": "is grey and gets three equal channels",
            "colour": "has colours and is made grey, as the network takes one channel",
        }
        said = [
            self._sentence(self._paths[what], ending)
            for what, ending in endings.items()
            if self._paths.get(what)
        ]
        return (*said, *self.empty)

    def _sentence(self, paths: list[Path], ending: str) -> str:
        shown = ", ".join(str(path.relative_to(self.root)) for path in paths[:SHOWN])
        if len(paths) == 1:
            return f"{shown} {ending}."
        more = f" and {len(paths) - SHOWN:,} more" if len(paths) > SHOWN else ""
        return f"{len(paths):,} images: each {ending} ({shown}{more})."


def read_picture(
    path: Path,
    told: Told,
    *,
    channels: Channels = 3,
    size: int | None = None,
    content: bytes | None = None,
) -> Bytes | None:
    """The picture (channels, height, width), with `size` as a square of so many pixels; None if it
    cannot be used.

    `content` is the file's, for pictures that lie inside another file; `path` is then only what
    they are called.
    """
    from PIL import Image, ImageOps

    try:
        with _careful(), Image.open(path if content is None else BytesIO(content)) as image:
            mode, has_alpha = image.mode, image.mode in ALPHA or "transparency" in image.info
            if mode in DEEP:
                told.note("deep", [path])
                return None
            has_frames, is_turned = getattr(image, "is_animated", False), _is_turned(image)
            upright = ImageOps.exif_transpose(image) if is_turned else image
            # A palette with transparency goes over RGBA; going to RGB then drops the transparency
            # and nothing else.
            full = upright.convert("RGBA").convert("RGB") if has_alpha else upright.convert("RGB")
            before, full = full.size, squared(full, size)
            pixels = np.asarray(full if channels == 3 else full.convert("L"), dtype=np.uint8)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        told.note("huge", [path])
        return None
    except DAMAGED:
        told.note("unreadable", [path])
        return None
    happened = {
        "resized" if before[0] == before[1] else "cropped": full.size != before,
        "turned": is_turned,
        "frames": has_frames,
        "alpha": has_alpha,
        "grey": mode in GREY and channels == 3,
        "colour": mode not in GREY and channels == 1,
    }
    for what in (what for what, is_so in happened.items() if is_so):
        told.note(what, [path])
    return pixels.reshape(*pixels.shape[:2], channels).transpose(2, 0, 1)


@contextmanager
def _careful() -> Iterator[None]:
    """A picture of so many pixels that PIL warns of it is an error; its other warnings are not for
    who asked for an audit.
    """
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        yield


def _is_turned(image: PILImage) -> bool:
    try:
        return image.getexif().get(ORIENTATION) in TURNED
    except DAMAGED:  # damaged words about a picture do not make it unreadable
        return False


def squared(image: PILImage, size: int | None) -> PILImage:
    """The square in the middle at this size, so that a face keeps its proportions; without a size
    the picture as it is.
    """
    from PIL import Image, ImageOps

    return (
        image
        if size is None or image.size == (size, size)
        else ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
    )
