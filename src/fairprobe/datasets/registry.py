"""The data sets that can be loaded by name.

A data set is one file of this package: an `Entry` that describes it, and a function that loads it,
registered with `@ENTRY.loader`. `datasets/__init__.py` imports the function; everything else
(`load`, the command line, the tests) reads the registry. A packaged table is
`files/NAME.csv.gz`; `files/README.md` says where each comes from and which columns were kept.
"""

from __future__ import annotations

import gzip
import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from typing import Any, TypeVar

import pandas as pd

from fairprobe.datasets.base import Card, Dataset
from fairprobe.errors import SettingError, StorageError, suggest

Loader = TypeVar("Loader", bound=Callable[..., Dataset])

UNKNOWN = ("", "?")  # how the sources write an unknown value; any other text is a value
REGISTRY: dict[str, Entry] = {}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Describe a data set before its table is read. (A test compares it with the table.)

    `sha256` is the checksum of the packaged table.
    """

    name: str
    card: Card
    rows: int
    attributes: int
    protected: tuple[str, ...]
    sha256: str
    load: Callable[..., Dataset] = field(init=False)

    def loader(self, function: Loader) -> Loader:
        """Registers the function that loads this data set."""
        object.__setattr__(self, "load", function)
        REGISTRY[self.name] = self
        return function

    def dataset(self, **parts: Any) -> Dataset:
        """A `Dataset` with this name, card and protected attributes."""
        parts.setdefault("protected", self.protected)
        return Dataset(name=self.name, card=self.card, **parts)

    @property
    def title(self) -> str:
        return self.card.title

    @property
    def license(self) -> str:
        return self.card.license

    @property
    def source(self) -> str:
        return self.card.source

    def to_dict(self) -> dict[str, Any]:
        """The description as plain data."""
        names = ("name", "title", "rows", "attributes", "protected", "license", "source")
        return {name: getattr(self, name) for name in names}


def catalogue() -> list[Entry]:
    """The descriptions of all data sets; no table is read."""
    return list(REGISTRY.values())


def names() -> tuple[str, ...]:
    """The names that `load` accepts."""
    return tuple(REGISTRY)


def find(name: str) -> Entry:
    """The description of one data set."""
    if name not in REGISTRY:
        raise SettingError(f"There is no data set '{name}'.{suggest(str(name), REGISTRY)}")
    return REGISTRY[name]


def load(name: str, **options: Any) -> Dataset:
    """The data set of this name; `options` are those of its own function, such as `coding` of
    `compas`.
    """
    loader = find(name).load
    known = list(inspect.signature(loader).parameters)
    for option in options:
        if option not in known:
            raise SettingError(
                f"The data set '{name}' has no option"
                f" '{option}'.{suggest(option, known) if known else ' It has none.'}"
            )
    return loader(**options)


# -- packaged tables -------------------------------------------------------------------------------


def packaged_file(name: str) -> Traversable:
    """The path of a packaged table."""
    return files("fairprobe.datasets").joinpath("files", f"{name}.csv.gz")


def read_packaged(name: str) -> pd.DataFrame:
    """The raw table as published: original values, and NaN where the source has no value. Its
    checksum is verified first.
    """
    packaged = {entry.name: entry.sha256 for entry in catalogue()}
    if name not in packaged:
        raise SettingError(f"There is no packaged table '{name}'.{suggest(str(name), packaged)}")
    file, expected = packaged_file(name), packaged[name]
    advice = "Reinstall fairprobe: `pip install --force-reinstall --no-deps fairprobe`."
    try:
        content = file.read_bytes()
    except OSError as error:
        raise StorageError(
            f"The packaged data file {file} cannot be read: {error}. {advice}"
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        raise StorageError(
            f"The packaged data file {file} is damaged: its {len(content):,} bytes have SHA-256"
            f" {digest[:16]}…, expected {expected[:16]}…. {advice}"
        )
    return pd.read_csv(
        BytesIO(gzip.decompress(content)), keep_default_na=False, na_values=list(UNKNOWN)
    )
