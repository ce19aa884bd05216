"""`domain.toml`: a domain that people can read and edit, and that can be given back.

`write_domain` writes what was inferred, with comments that say what may be changed; `read_domain`
reads it and says in one sentence what is wrong with it, if anything is.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.datasets.base import Dataset
from fairprobe.datasets.coding import Coding
from fairprobe.datasets.declared_text import text_of
from fairprobe.datasets.rules import Ruled, Wording, constraint_of
from fairprobe.datasets.table import in_words
from fairprobe.errors import DomainError, StorageError, suggest
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain
from fairprobe.storage import write_text

NUMBER = (int, float)
TOP = {"label": str, "favourable": str, "sensitive": list, "attributes": dict, "constraints": list}
ANY_KIND = {"kind": str, "low": NUMBER, "high": NUMBER, "missing": NUMBER, "grain": NUMBER}
KEYS: dict[str, dict[str, Any]] = {
    "categorical": (
        ANY_KIND
        | {
            "categories": list,
            "one_hot": bool,
            "values": list,
            "cuts": list,
            "gap_word": str,
        }
    ),
    "integer": ANY_KIND | {"bin": NUMBER, "subtract": NUMBER, "divide_by": NUMBER},
    "real": ANY_KIND | {"subtract": NUMBER, "divide_by": NUMBER},
}
CODING_KEYS = {
    "values",
    "cuts",
    "gap_word",
    "subtract",
    "divide_by",
}  # what says how cells become codes, not what the attribute is
CONSTRAINT = {"name": str, "rule": str, "when": str, "then": str}
KIND_WORDS = {
    str: "a word in quotation marks",
    NUMBER: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


@dataclass(frozen=True)
class Declared:
    """What a domain file says: the coding (its domain has the constraints), and which column is the
    label where that is said.
    """

    coding: Coding
    label: str | None = None
    favourable: str | None = None
    rules: tuple[Wording, ...] = ()

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """(subtract, divide by) of numbers that the model wants scaled."""
        return self.coding.scaling


def write_domain(what: Dataset | Coding | Declared, path: Path | str) -> None:
    """The domain of a data set, a coding, or what was read before, as a file to edit. Constraints
    made of code cannot be written.
    """
    declared = what if isinstance(what, Declared) else _declared(what)
    write_text(
        Path(path),
        text_of(
            declared.coding,
            label=declared.label,
            favourable=declared.favourable,
            rules=declared.rules,
        ),
    )


def _declared(what: Dataset | Coding) -> Declared:
    if isinstance(what, Coding):
        return Declared(what, rules=_wordings(what.domain))
    coding = what.coding or Coding.of_domain(what.domain)
    return Declared(
        replace(coding, domain=what.domain),
        label=what.label,
        favourable=None if what.favourable is None else what.classes[what.favourable],
        rules=_wordings(what.domain),
    )


def _wordings(domain: Domain) -> tuple[Wording, ...]:
    return tuple(
        constraint.wording
        for constraint in domain.constraints
        if isinstance(constraint, Ruled) and constraint.wording is not None
    )


def read_domain(path: Path | str) -> Declared:
    """What the file says, or one sentence about what is wrong with it."""
    file = Path(path)
    try:
        content = tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise StorageError(
            f"Cannot read the domain file {file}: {error.strerror}. Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise DomainError(f"The domain file {file} is not UTF-8. Save it as UTF-8.") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DomainError(f"The domain file {file} is not valid TOML: {error}.") from error
    try:
        return _read(content)
    except DomainError as error:
        raise DomainError(f"{file}: {error}") from error


def _read(content: Mapping[str, Any]) -> Declared:
    _check_keys(content, TOP, "The file")
    if not content.get("attributes"):
        raise DomainError(
            "The file declares no attribute. Each needs a table, such as [attributes.age]."
        )
    attributes: list[Attribute] = []
    coding: dict[str, dict[str, Any]] = {"cuts": {}, "values": {}, "scaling": {}, "gap_words": {}}
    for name, entry in content["attributes"].items():
        if not isinstance(entry, dict):
            raise DomainError(
                f"Attribute '{name}' must be a table, such as [attributes.{name}] with a `kind`; it"
                f" is {entry!r}."
            )
        attributes.append(_attribute(name, entry))
        if entry["kind"] == "categorical":
            _read_values(attributes[-1], entry, coding)
        elif "subtract" in entry or "divide_by" in entry:
            coding["scaling"][name] = _scaling(name, entry)
    sensitive = _words(content.get("sensitive", []), "`sensitive`")
    plain = Coding(Domain(tuple(attributes), sensitive), gaps=True, **coding)
    rules = tuple(
        _wording(place, entry) for place, entry in enumerate(content.get("constraints", []))
    )
    twice = {rule.name for rule in rules if [each.name for each in rules].count(rule.name) > 1}
    if twice:
        raise DomainError(
            f"More than one constraint is named {', '.join(map(repr, sorted(twice)))}."
        )
    constraints = tuple(
        constraint_of(rule.name, plain, rule=rule.rule, when=rule.when, then=rule.then)
        for rule in rules
    )
    whole = replace(plain, domain=replace(plain.domain, constraints=constraints))
    return Declared(whole, content.get("label"), content.get("favourable"), rules)


def _check_keys(entry: Mapping[str, Any], known: Mapping[str, Any], what: str) -> None:
    for key, value in entry.items():
        if key not in known:
            raise DomainError(
                f"{what} has the key '{key}', which does not exist there.{suggest(key, known)}"
            )
        expected = known[key]
        if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
            raise DomainError(f"{what}: `{key}` must be {KIND_WORDS[expected]}, not {value!r}.")
        if isinstance(value, float) and not math.isfinite(value):
            raise DomainError(f"{what}: `{key}` must be finite, not {value!r}.")


def _words(values: list[Any], what: str) -> tuple[str, ...]:
    for value in values:
        if not isinstance(value, str):
            raise DomainError(
                f"{what} must be a list of words in quotation marks; it holds {value!r}."
            )
    return tuple(values)


# -- one attribute ---------------------------------------------------------------------------------


def _attribute(name: str, entry: Mapping[str, Any]) -> Attribute:
    what = f"Attribute '{name}'"
    kind = entry.get("kind")
    if kind is None:
        raise DomainError(f"{what} has no `kind`; it must be integer, real or categorical.")
    if not isinstance(kind, str) or kind not in KEYS:
        raise DomainError(f"{what}: `kind` must be integer, real or categorical, not {kind!r}.")
    _check_keys(entry, KEYS[kind], what)
    needed = ["categories"] if kind == "categorical" else ["low", "high"]
    for key in needed:
        if key not in entry:
            raise DomainError(f"{what} is {kind} and needs `{key}`.")
    if entry.get("bin", 1) <= 0 or entry.get("grain", 1) <= 0:
        raise DomainError(f"{what}: `bin` and `grain` must be more than 0.")
    known = {
        key: value for key, value in entry.items() if key not in CODING_KEYS and key != "categories"
    }
    return Attribute(
        name=name, categories=_words(entry.get("categories", []), f"{what}: `categories`"), **known
    )


def _read_values(
    attribute: Attribute, entry: Mapping[str, Any], coding: dict[str, dict[str, Any]]
) -> None:
    what, count = f"Attribute '{attribute.name}'", len(attribute.categories)
    values = entry.get("values")
    if values is not None:
        if len(values) != count:
            raise DomainError(
                f"{what} has {count} categories but {len(values)} `values`; give one for each."
            )
        if (
            not all(isinstance(value, str | int | float) for value in values)
            or len(set(map(in_words, values))) < count
        ):
            raise DomainError(f"{what}: `values` must be different words, numbers, true or false.")
        coding["values"][attribute.name] = tuple(values)
    if "gap_word" in entry:
        coding["gap_words"][attribute.name] = entry["gap_word"]
    if "cuts" in entry:
        coding["cuts"][attribute.name] = _cuts(what, entry["cuts"], values, count)


def _cuts(what: str, cuts: list[Any], values: list[Any] | None, count: int) -> Any:
    if not all(
        isinstance(cut, NUMBER) and not isinstance(cut, bool) and math.isfinite(cut) for cut in cuts
    ):
        raise DomainError(f"{what}: `cuts` must be numbers.")
    single = np.array(cuts, dtype=np.float32)
    if len(cuts) != count - 1 or not (np.diff(single) > 0).all():
        raise DomainError(
            f"{what} has {count} categories and needs {count - 1} rising `cuts`, where the second"
            " and later ones begin."
        )
    if values is None or not all(
        isinstance(value, NUMBER) and not isinstance(value, bool) for value in values
    ):
        raise DomainError(
            f"{what} has `cuts` and needs `values`: for each category a number that lies in it."
        )
    if (
        np.searchsorted(single, np.array(values, dtype=np.float32), side="right")
        != np.arange(count)
    ).any():
        raise DomainError(
            f"{what}: each of the `values` must lie in its own category, between two `cuts`."
        )
    return single


def _scaling(name: str, entry: Mapping[str, Any]) -> tuple[float, float]:
    subtract, divide_by = float(entry.get("subtract", 0)), float(entry.get("divide_by", 1))
    if divide_by == 0:
        raise DomainError(f"Attribute '{name}': `divide_by` must not be 0.")
    return subtract, divide_by


def _wording(place: int, entry: Any) -> Wording:
    if not isinstance(entry, dict):
        raise DomainError(
            f"Constraint {place + 1} must be a table [[constraints]]; it is {entry!r}."
        )
    what = f"Constraint '{entry['name']}'" if "name" in entry else f"Constraint {place + 1}"
    _check_keys(entry, CONSTRAINT, what)
    if "name" not in entry:
        raise DomainError(f"{what} needs a `name`.")
    return Wording(**entry)
