"""What a layout describes: which pictures there are, and what is known of each. The pictures
themselves are read later.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from fairprobe.arrays import Ints, Mask
from fairprobe.errors import DataError


@dataclass(frozen=True)
class ImageAttribute:
    """An attribute of the people in pictures: `codes` (N,) are positions in `values`, -1 for
    unknown.
    """

    values: tuple[str, ...]
    codes: Ints

    def take(self, rows: Ints | Mask) -> ImageAttribute:
        return ImageAttribute(self.values, self.codes[rows])

    def only(self, kept: Sequence[int]) -> ImageAttribute:
        """With only these values, given by position; the others become unknown."""
        places = np.full(len(self.values) + 1, -1, dtype=np.int64)  # the last is for unknown
        places[list(kept)] = np.arange(len(kept))
        return ImageAttribute(tuple(self.values[at] for at in kept), places[self.codes])


@dataclass(frozen=True)
class Listing:
    """Pictures by path. `held_out` is the collection's own test part, `people` numbers the people
    in the pictures; each is None if the collection has none.
    """

    name: str
    paths: tuple[Path, ...]
    attributes: dict[str, ImageAttribute]
    held_out: Mask | None = None
    people: Ints | None = None
    messages: tuple[str, ...] = ()

    def take(self, rows: Ints | Mask) -> Listing:
        chosen = np.arange(len(self.paths))[rows]
        return Listing(
            self.name,
            tuple(self.paths[at] for at in chosen),
            {name: one.take(chosen) for name, one in self.attributes.items()},
            None if self.held_out is None else self.held_out[chosen],
            None if self.people is None else self.people[chosen],
            self.messages,
        )


def coded(words: Sequence[object], values: Sequence[str] = ()) -> ImageAttribute:
    """An attribute from a word for each picture. The values are `values`, or all words sorted;
    other words are unknown.
    """
    texts = ["" if word is None or word != word else str(word).strip() for word in words]
    names = tuple(values) or tuple(sorted({text for text in texts if text}))
    places = {name: at for at, name in enumerate(names)}
    return ImageAttribute(names, np.array([places.get(text, -1) for text in texts], dtype=np.int64))


def with_labels(listing: Listing, root: Path, path: Path) -> Listing:
    """More attributes of the pictures, from a CSV with the column `file` (a picture's name, or its
    path below the folder) and a column for each attribute; an empty cell is unknown.
    """
    frame = table(path, ["file"])
    names = [str(name) for name in frame.columns if name != "file"]
    if not names:
        raise DataError(f"{path} has no column besides 'file'. Expected one for each attribute.")
    rows: dict[str, int] = {}
    for at, file in enumerate(frame["file"]):
        rows.setdefault(file.strip().replace("\\", "/"), at)
    places = []
    for picture in listing.paths:
        below_root = picture.relative_to(root).as_posix() if picture.is_relative_to(root) else ""
        places.append(rows.get(below_root, rows.get(picture.name, -1)))
    known = sum(place >= 0 for place in places)
    if not known:
        raise DataError(
            f"{path} names none of the pictures in {root}; expected names such as"
            f" {listing.paths[0].name if listing.paths else 'a.jpg'}."
        )
    found = {
        name: coded(["" if at < 0 else frame[name].iloc[at] for at in places]) for name in names
    }
    missing = len(places) - known
    note = f"{missing:,} of {len(places):,} pictures have no row in {path.name}."
    return replace(
        listing,
        attributes=listing.attributes | found,
        messages=(*listing.messages, *([note] if missing else [])),
    )


def own_test_part(held_out: Mask) -> Mask | None:
    """The collection's test part, or None if it would hold all or none of the pictures."""
    return held_out if held_out.any() and not held_out.all() else None


def table(path: Path, columns: Sequence[str], **options: object) -> pd.DataFrame:
    """A list of pictures as text, with the columns that it must have."""
    usual = {"dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
            frame = pd.read_csv(path, **usual, **options)  # type: ignore[call-overload]
    except (OSError, ValueError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise DataError(
            f"{path} cannot be read as a table: {str(error).strip()}. Download the file again from"
            " where the collection is published."
        ) from error
    lacking = [name for name in columns if name not in frame.columns]
    if lacking:
        raise DataError(
            f"{path} has no column '{lacking[0]}'; expected {', '.join(columns)}, got"
            f" {', '.join(map(str, frame.columns[:12]))}."
        )
    return frame  # type: ignore[no-any-return]


def below(root: Path, name: str) -> Path:
    """The file of an entry in a list; an entry outside the folder is refused."""
    parts = PurePosixPath(name.strip().replace("\\", "/"))
    if not name.strip() or parts.is_absolute() or ".." in parts.parts:
        raise DataError(
            f"A list in {root} names the picture '{name}', which is outside the folder. Do not"
            " trust these data."
        )
    return root.joinpath(*parts.parts)


def first_folder(root: Path, names: Sequence[str]) -> Path | None:
    """The first of these folders that exists; '' is the root itself."""
    return next((root / name for name in names if (root / name).is_dir()), None)


def first_file(root: Path, names: Sequence[str]) -> Path | None:
    """The first of these files that exists."""
    return next((root / name for name in names if (root / name).is_file()), None)
