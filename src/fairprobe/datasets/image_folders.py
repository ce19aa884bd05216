"""Images in folders, one folder for each group. Images that cannot be used are left out and named
in messages.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.datasets.image_layouts import table
from fairprobe.datasets.pictures import (
    Bytes,
    Channels,
    MessageLog,
    read_pictures,
)
from fairprobe.errors import DataError, StorageError

__all__ = ["Bytes", "Channels", "ImageGroups", "by_criteria", "read_groups", "read_labels"]

FEWEST = 2  # images of a group
MOST_CLASSES = 1_000_000


@dataclass(frozen=True)
class ImageGroups:
    """Images (N, channels, height, width) of each group with their paths below the folder, messages
    about what was changed or left out, and how many have another size than most.
    """

    images: dict[str, Bytes]
    files: dict[str, list[str]]
    messages: tuple[str, ...]
    other_sizes: int = 0


def read_groups(folder: Path | str, *, channels: Channels = 3, as_one: bool = False) -> ImageGroups:
    """Read all images of the most common size in the folders of `folder`. Nothing is resized,
    because that would change what is measured. `as_one`: all images below it are one group.
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
    if as_one:
        names = [""]
    if not names:
        raise DataError(
            f"{root} has no folders. Put the images of each group into a folder of its own:"
            f" {root / 'group-a'}, and so on."
        )
    log = MessageLog(root)
    paths = [(name, path) for name in names for path in _files(root / name)]
    read = read_pictures([path for _, path in paths], log, channels=channels)
    if read is None:
        raise DataError(f"No image in {root} could be read. {' '.join(log.messages())}".rstrip())
    groups, files = {}, {}
    for name in names:
        places = [at for at in read.pictures if paths[at][0] == name]
        if len(places) >= FEWEST:
            groups[name] = np.stack([read.pictures[at] for at in places])
            files[name] = [paths[at][1].relative_to(root).as_posix() for at in places]
        else:
            count = "only one usable image" if places else "no usable image"
            log.empty.append(f"Group '{name}' has {count} and is left out.")
    return ImageGroups(groups, files, log.messages(read.size), read.other_sizes)


def by_criteria(path: Path | str, read: ImageGroups) -> dict[str, ImageGroups]:
    """Return the images in the groups of each criterion.

    The file is a CSV with the column `file`, the image's path below the folder, and a column for
    each criterion that holds the image's group; an empty cell leaves it out.
    """
    frame = table(Path(path), ["file"])
    columns = [str(name) for name in frame.columns if name != "file"]
    if not columns:
        raise DataError(f"{path} has the column 'file' only; expected one for each criterion.")
    rows = {row["file"]: row for row in frame.to_dict("records")}
    places = {name: at for at, name in enumerate(read.files.get("", []))}
    if not places.keys() & rows.keys():
        raise DataError(
            f"{path} names none of the images; expected paths below the folder, such as"
            f" {next(iter(places), 'a.png')}."
        )
    found = {}
    for column in columns:
        members: dict[str, list[int]] = {}
        for name, at in places.items():
            group = rows.get(name, {}).get(column, "").strip()
            if group:
                members.setdefault(group, []).append(at)
        few = sorted(group for group, own in members.items() if len(own) < FEWEST)
        messages = [f"Group '{group}' has only one image and is left out." for group in few]
        kept = {group: members[group] for group in sorted(members) if group not in few}
        found[column] = ImageGroups(
            {group: read.images[""][own] for group, own in kept.items()},
            {group: [read.files[""][at] for at in own] for group, own in kept.items()},
            (*read.messages, *messages),
        )
    return found


def read_labels(path: Path | str, files: dict[str, list[str]]) -> tuple[dict[str, Ints], str]:
    """Return the class of each image of each group, −1 where the file names none, and a message
    about images without one.

    The file is a CSV with the columns `file`, the image's path below the folder of the groups, and
    `label`, the number of its class from 0.
    """
    rows = table(Path(path), ["file", "label"]).to_dict("records")
    known = {row["file"]: _label(path, row) for row in rows}
    labels = {
        name: np.array([known.get(one, -1) for one in paths]) for name, paths in files.items()
    }
    every = np.concatenate(list(labels.values())) if labels else np.empty(0)
    if not (every >= 0).any():
        first = next((one for paths in files.values() for one in paths), "")
        raise DataError(
            f"{path} names none of the images; expected paths below the folder of the groups, such"
            f" as {first}."
        )
    missing = int((every < 0).sum())
    return labels, f"{missing} images have no label in {path}." if missing else ""


def _label(path: Path | str, row: Mapping[Hashable, str]) -> int:
    text = row["label"].strip()
    if not text.isdecimal() or int(text) > MOST_CLASSES:
        raise DataError(
            f"{path} gives {row['file']} the label '{text}'; expected the number of its class, from"
            " 0."
        )
    return int(text)


def _files(folder: Path) -> Iterable[Path]:
    """Yield all files below a folder: a picture may have any ending here."""
    return (
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    )
