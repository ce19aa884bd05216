"""Names that stand for groups, and résumés to put them on (`resumes.toml`)."""

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
    """Names, and the group of each by every attribute in which they differ."""

    title: str
    source: str
    kind: str  # "first" or "last": which half of a name they are
    names: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]  # for each attribute, the group of each name

    def full(self, name: str, partner: str) -> str:
        """Combine the two halves of a name."""
        return f"{name} {partner}" if self.kind == "first" else f"{partner} {name}"


@cache
def _packaged() -> dict[str, Any]:
    with as_file(files("fairprobe.language") / "resumes.toml") as path:
        return read_toml(path)


def name_sets() -> tuple[str, ...]:
    """List the sets of names."""
    return tuple(_packaged()["sets"])


def name_set(name: str) -> NameSet:
    """Return a set of names."""
    sets = _packaged()["sets"]
    if name not in sets:
        raise SettingError(f"There is no set of names '{name}'.{suggest(name, sets)}")
    body = sets[name]
    pairs = [(names, person) for names in body["names"] for person in names["names"]]
    return NameSet(
        body["title"],
        body["source"],
        body["kind"],
        tuple(person for _, person in pairs),
        {group: tuple(names[group] for names, _ in pairs) for group in body["groups"]},
    )


def partners(kind: str) -> list[str]:
    """Return the other halves for names of this kind."""
    partners: list[str] = _packaged()["partners"]["last" if kind == "first" else "first"]
    return partners


def resumes(folder: Path | str | None = None) -> list[str]:
    """Return the packaged résumés, or those in the .txt files of a folder, with the slot {name}."""
    if folder is None:
        return [resume["text"].strip() for resume in _packaged()["resumes"]]
    paths = sorted(Path(folder).glob("*.txt")) if Path(folder).is_dir() else []
    if not paths:
        raise DataError(f"There are no résumés in {folder}. Expected a folder of .txt files.")
    texts = []
    for path in paths:
        try:
            texts.append(path.read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"The résumé {path} cannot be read: {error}.") from error
        if SLOT not in texts[-1]:
            raise DataError(f"The résumé {path} has no slot {SLOT} for the name.")
    return texts
