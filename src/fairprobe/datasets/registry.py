"""Which data sets there are: `names`, `load` by name, and `catalogue` for a listing that reads no
table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fairprobe.datasets.adult import FACTS as ADULT
from fairprobe.datasets.adult import adult
from fairprobe.datasets.bank import FACTS as BANK
from fairprobe.datasets.bank import bank
from fairprobe.datasets.base import Dataset
from fairprobe.datasets.compas import FACTS as COMPAS
from fairprobe.datasets.compas import compas
from fairprobe.datasets.facts import Facts
from fairprobe.datasets.german import FACTS as GERMAN
from fairprobe.datasets.german import german
from fairprobe.datasets.meps import FACTS as MEPS
from fairprobe.datasets.meps import meps, meps_file
from fairprobe.datasets.packaged import packaged_file
from fairprobe.errors import SettingError, suggest

LOADERS: dict[str, Callable[..., Dataset]] = {
    "adult": adult,
    "german": german,
    "bank": bank,
    "compas": compas,
    "meps": meps,
}
FACTS = {facts.name: facts for facts in (ADULT, GERMAN, BANK, COMPAS, MEPS)}


@dataclass(frozen=True)
class Entry:
    """One line of the catalogue. `packaged` comes with fairprobe; `available` can be loaded now."""

    name: str
    title: str
    rows: int
    attributes: int
    protected: tuple[str, ...]
    licence: str
    source: str
    packaged: bool
    available: bool


def names() -> tuple[str, ...]:
    """The names that `load` knows."""
    return tuple(LOADERS)


def load(name: str, **options: Any) -> Dataset:
    """The data set of this name; `options` are those of its own function, such as `coding` of
    `compas`.
    """
    if name not in LOADERS:
        raise SettingError(f"There is no data set '{name}'.{suggest(str(name), LOADERS)}")
    loader = LOADERS[name]
    known = list(inspect.signature(loader).parameters)
    for option in options:
        if option not in known:
            raise SettingError(
                f"The data set '{name}' has no option"
                f" '{option}'.{suggest(option, known) if known else ' It has none.'}"
            )
    return loader(**options)


def catalogue() -> list[Entry]:
    """All data sets with what is known of them, without reading their tables."""
    return [
        Entry(
            name=facts.name,
            title=facts.card.title,
            rows=facts.rows,
            attributes=facts.attributes,
            protected=facts.protected,
            licence=facts.card.licence,
            source=facts.card.source,
            packaged=facts.packaged,
            available=_available(facts),
        )
        for facts in FACTS.values()
    ]


def _available(facts: Facts) -> bool:
    try:
        return packaged_file(facts.name).is_file() if facts.packaged else meps_file().is_file()
    except OSError:  # no home folder, or a folder that may not be looked into
        return False
