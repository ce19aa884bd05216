"""Images in folders, one folder a group. What cannot be used is named and left out, and the rest
goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairprobe.datasets.pictures import Bytes, Channels, Told, read_picture
from fairprobe.errors import DataError, StorageError

__all__ = ["Bytes", "Channels", "ImageGroups", "read_groups"]

FEWEST = 2  # images of a group


@dataclass(frozen=True)
class ImageGroups:
    """The images (N, channels, height, width) of each group, and in sentences what was changed or
    left out.
    """

    images: dict[str, Bytes]
    messages: tuple[str, ...]


def read_groups(folder: Path | str, *, channels: Channels = 3) -> ImageGroups:
    """All images below the folders of `folder`. The commonest size counts; nothing is resized,
    since that would change what is measured.
    """
    root = Path(folder)
    if not root.is_dir():
        raise StorageError(
            f"There is no folder {root}. Expected one with a folder of images for each group."
        )
    names = [
        path.name
        for path in sorted(root.iterdir())
        if path.is_dir() and not path.name.startswith(".")
    ]
    if not names:
        raise DataError(
            f"{root} has no folders. Put the images of each group into a folder of its own:"
            f" {root / 'group-a'}, and so on."
        )
    told = Told(root)
    read = {name: list(_images(root / name, channels, told)) for name in names}
    sizes = Counter(image.shape for images in read.values() for _, image in images)
    if not sizes:
        raise DataError(
            f"No image could be read below {root}. {' '.join(told.messages())}".rstrip()
        )
    wanted = max(sizes, key=lambda size: (sizes[size], size))
    groups = {}
    for name, images in read.items():
        told.note("size", (path for path, image in images if image.shape != wanted))
        fitting = [image for _, image in images if image.shape == wanted]
        if len(fitting) >= FEWEST:
            groups[name] = np.stack(fitting)
        else:
            told.empty.append(
                f"Group '{name}' has {'one image' if fitting else 'no image'} that can be used, and"
                " is left out."
            )
    return ImageGroups(groups, told.messages(f"{wanted[2]} × {wanted[1]}"))


def _images(folder: Path, channels: Channels, told: Told) -> Iterable[tuple[Path, Bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            image = read_picture(path, told, channels=channels)
            if image is not None:
                yield path, image
