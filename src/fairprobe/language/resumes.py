"""Names that stand for groups, and résumés of our own to put them on (`resumes.toml`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from fairprobe.documents.files import read_toml
from fairprobe.errors import DataError, SettingError, suggest

SLOT = "{name}"


@dataclass(frozen=True)
class NameSet:
    """Names with the group of each, by every attribute in which they differ."""

    title: str
    source: str
    kind: str  # "first" or "last": which half of a name they are
    names: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]  # for each attribute, the group of each name

    def full(self, name: str, partner: str) -> str:
        """The whole name of a person."""
        return f"{name} {partner}" if self.kind == "first" else f"{partner} {name}"


@cache
def _packaged() -> dict[str, Any]:
    with as_file(files("fairprobe.language") / "resumes.toml") as path:
        return read_toml(path)


def name_sets() -> tuple[str, ...]:
    """The sets of names there are."""
    return tuple(_packaged()["sets"])


def name_set(name: str) -> NameSet:
    """A set of names."""
    sets = _packaged()["sets"]
    if name not in sets:
        raise SettingError(f"There is no set of names '{name}'.{suggest(name, sets)}")
    given = sets[name]
    listed = [(each, one) for each in given["names"] for one in each["names"]]
    return NameSet(
        given["title"],
        given["source"],
        given["kind"],
        tuple(one for _, one in listed),
        {group: tuple(each[group] for each, _ in listed) for group in given["groups"]},
    )


def partners(kind: str) -> list[str]:
    """The other half of names of this kind."""
    other: list[str] = _packaged()["partners"]["last" if kind == "first" else "first"]
    return other


def resumes(path: Path | str | None = None) -> list[str]:
    """Our résumés, or those in the files (.txt) of a folder; each has the slot {name}."""
    if path is None:
        return [each["text"].strip() for each in _packaged()["resumes"]]
    place = Path(path)
    found = sorted(place.glob("*.txt")) if place.is_dir() else []
    if not found:
        raise DataError(f"There are no résumés in {place}. Expected a folder of .txt files.")
    texts = []
    for file in found:
        try:
            texts.append(file.read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"The résumé {file} cannot be read: {error}.") from error
        if SLOT not in texts[-1]:
            raise DataError(f"The résumé {file} has no slot {SLOT} where the name belongs.")
    return texts
