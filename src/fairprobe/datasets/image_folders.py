"""Images in folders, one folder for each group. Images that cannot be used are left out and named
in messages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairprobe.datasets.pictures import (
    Bytes,
    Channels,
    MessageLog,
    commonest_shape,
    read_picture,
)
from fairprobe.errors import DataError, StorageError

__all__ = ["Bytes", "Channels", "ImageGroups", "read_groups"]

FEWEST = 2  # images of a group


@dataclass(frozen=True)
class ImageGroups:
    """The images (N, channels, height, width) of each group, and messages about what was changed or
    left out.
    """

    images: dict[str, Bytes]
    messages: tuple[str, ...]


def read_groups(folder: Path | str, *, channels: Channels = 3) -> ImageGroups:
    """All images in the folders of `folder` that have the most common size. Nothing is resized,
    because that would change what is measured.
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
    log = MessageLog(root)
    read = {name: list(_images(root / name, channels, log)) for name in names}
    if not any(read.values()):
        raise DataError(f"No image in {root} could be read. {' '.join(log.messages())}".rstrip())
    wanted = commonest_shape(image for images in read.values() for _, image in images)
    groups = {}
    for name, images in read.items():
        log.note("size", (path for path, image in images if image.shape != wanted))
        fitting = [image for _, image in images if image.shape == wanted]
        if len(fitting) >= FEWEST:
            groups[name] = np.stack(fitting)
        else:
            count = "only one usable image" if fitting else "no usable image"
            log.empty.append(f"Group '{name}' has {count} and is left out.")
    return ImageGroups(groups, log.messages(f"{wanted[2]} × {wanted[1]}"))


def _images(folder: Path, channels: Channels, log: MessageLog) -> Iterable[tuple[Path, Bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            image = read_picture(path, log, channels=channels)
            if image is not None:
                yield path, image
