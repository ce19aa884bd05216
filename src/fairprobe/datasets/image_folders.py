"""Images in folders, one folder a group. What cannot be used is named and left out, and the rest goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from fairprobe.errors import DataError, StorageError

Bytes: TypeAlias = npt.NDArray[np.uint8]
Channels = Literal[1, 3]

SHOWN = 5  # names in a message
FEWEST = 2  # images of a group
GREY, ALPHA = ("1", "L", "LA"), ("RGBA", "LA", "PA")
DEEP = ("I", "F", "I;16", "I;16L", "I;16B", "I;16N")  # more than a byte a pixel, of unknown range


@dataclass(frozen=True)
class ImageGroups:
    """The images (N, channels, height, width) of each group, and in sentences what was changed or left out."""

    images: dict[str, Bytes]
    messages: tuple[str, ...]


def read_groups(folder: Path | str, *, channels: Channels = 3) -> ImageGroups:
    """All images below the folders of `folder`. The commonest size counts; nothing is resized, since that would change what is measured."""
    root = Path(folder)
    if not root.is_dir():
        raise StorageError(f"There is no folder {root}. Expected one with a folder of images for each group.")
    names = [path.name for path in sorted(root.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    if not names:
        raise DataError(f"{root} has no folders. Put the images of each group into a folder of its own: {root / 'group-a'}, and so on.")
    told = _Told(root)
    read = {name: list(_images(root / name, channels, told)) for name in names}
    sizes = Counter(image.shape for images in read.values() for _, image in images)
    if not sizes:
        raise DataError(f"No image could be read below {root}. {' '.join(told.messages())}".rstrip())
    wanted = max(sizes, key=lambda size: (sizes[size], size))
    groups = {}
    for name, images in read.items():
        told.note("size", (path for path, image in images if image.shape != wanted))
        fitting = [image for _, image in images if image.shape == wanted]
        if len(fitting) >= FEWEST:
            groups[name] = np.stack(fitting)
        else:
            told.empty.append(f"Group '{name}' has {'one image' if fitting else 'no image'} that can be used, and is left out.")
    return ImageGroups(groups, told.messages(f"{wanted[2]} × {wanted[1]}"))


def _images(folder: Path, channels: Channels, told: _Told) -> Iterable[tuple[Path, Bytes]]:
    from PIL import Image, UnidentifiedImageError

    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.startswith("."):
            continue
        try:
            with Image.open(path) as image:
                mode, has_alpha = image.mode, image.mode in ALPHA or "transparency" in image.info
                if mode in DEEP:
                    told.note("deep", [path])
                    continue
                # A palette with transparency goes over RGBA; going to RGB then drops the transparency and nothing else.
                full = image.convert("RGBA").convert("RGB") if has_alpha else image.convert("RGB")
                pixels = np.asarray(full if channels == 3 else full.convert("L"), dtype=np.uint8)
        except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
            told.note("unreadable", [path])
            continue
        if has_alpha:
            told.note("alpha", [path])
        if mode in GREY and channels == 3:
            told.note("grey", [path])
        if mode not in GREY and channels == 1:
            told.note("colour", [path])
        yield path, pixels.reshape(*pixels.shape[:2], channels).transpose(2, 0, 1)


class _Told:
    """What happened to which images."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.empty: list[str] = []
        self._paths: dict[str, list[Path]] = {}

    def note(self, what: str, paths: Iterable[Path]) -> None:
        self._paths.setdefault(what, []).extend(paths)

    def messages(self, size: str = "") -> tuple[str, ...]:
        endings = {
            "unreadable": "cannot be read as an image and is left out",
            "deep": "has more than 8 bits a channel and is left out",
            "size": f"is not {size} pixels as most are and is left out",
            "alpha": "has an alpha channel, which is dropped",
            "grey": "is grey and gets three equal channels",
            "colour": "has colours and is made grey, as the network takes one channel",
        }
        said = [self._sentence(self._paths[what], ending) for what, ending in endings.items() if self._paths.get(what)]
        return (*said, *self.empty)

    def _sentence(self, paths: list[Path], ending: str) -> str:
        shown = ", ".join(str(path.relative_to(self.root)) for path in paths[:SHOWN])
        if len(paths) == 1:
            return f"{shown} {ending}."
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        return f"{len(paths)} images: each {ending} ({shown}{more})."
