"""What a layout tells: which pictures there are, and what is known of each. The pictures themselves
are read later.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import pandas as pd

from fairprobe.arrays import Ints, Mask
from fairprobe.errors import DataError

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")


@dataclass(frozen=True)
class ImageAttribute:
    """What is known of the people on pictures: `codes` (N,) are places in `values`, -1 where it is
    unknown.
    """

    values: tuple[str, ...]
    codes: Ints

    def take(self, rows: Ints | Mask) -> ImageAttribute:
        return ImageAttribute(self.values, self.codes[rows])

    def only(self, kept: Sequence[int]) -> ImageAttribute:
        """With these values alone, by their places; the others become unknown."""
        places = np.full(
            len(self.values) + 1, -1, dtype=np.int64
        )  # the last one is for the unknown
        places[list(kept)] = np.arange(len(kept))
        return ImageAttribute(tuple(self.values[at] for at in kept), places[self.codes])


@dataclass(frozen=True)
class Listing:
    """Pictures by path. `held_out` is the collection's own test part, `people` says whose picture
    it is; each only if there is such.
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
    """An attribute from a word for each picture, in the order of `values` if given, else of the
    alphabet; other words are unknown.
    """
    texts = ["" if word is None or word != word else str(word).strip() for word in words]
    names = tuple(values) or tuple(sorted({text for text in texts if text}))
    places = {name: at for at, name in enumerate(names)}
    return ImageAttribute(names, np.array([places.get(text, -1) for text in texts], dtype=np.int64))


def own_test_part(held_out: Mask) -> Mask | None:
    """The test part that the collection has, or None where all or none of its pictures would be in
    it.
    """
    return held_out if held_out.any() and not held_out.all() else None


def table(path: Path, columns: Sequence[str], **options: object) -> pd.DataFrame:
    """A list of pictures with the columns that it must have; everything is text until it is
    understood.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "error", pd.errors.ParserWarning
            )  # rows that are longer than the heading
            frame = pd.read_csv(
                path, dtype=str, keep_default_na=False, encoding="utf-8-sig", **options
            )  # type: ignore[call-overload]
    except (OSError, ValueError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise DataError(
            f"{path} cannot be read as a table: {str(error).strip()}. Get the file again from where"
            " the collection is published."
        ) from error
    lacking = [name for name in columns if name not in frame.columns]
    if lacking:
        raise DataError(
            f"{path} has no column '{lacking[0]}'; expected {', '.join(columns)}, got"
            f" {', '.join(map(str, frame.columns[:12]))}."
        )
    return frame  # type: ignore[no-any-return]


def below(root: Path, name: str) -> Path:
    """The file of a list's entry; an entry that leads out of the folder is refused."""
    parts = PurePosixPath(name.strip().replace("\\", "/"))
    if not name.strip() or parts.is_absolute() or ".." in parts.parts:
        raise DataError(
            f"A list in {root} names the picture '{name}', which does not lie in the folder. Do not"
            " trust these data."
        )
    return root.joinpath(*parts.parts)


def first_folder(root: Path, names: Sequence[str]) -> Path | None:
    """The first of these folders that there is; '' is the root itself."""
    return next((root / name for name in names if (root / name).is_dir()), None)


def first_file(root: Path, names: Sequence[str]) -> Path | None:
    """Likewise of files."""
    return next((root / name for name in names if (root / name).is_file()), None)
