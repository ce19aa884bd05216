"""`domain.toml`: a schema that people can read, edit and pass to a command.

`write_domain` writes a schema with comments that say what may be edited. `read_domain` reads it;
a mistake in the file is reported in one sentence.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import tomlkit

from fairprobe.arrays import Rows
from fairprobe.documents import read_toml
from fairprobe.errors import DomainError, StorageError, suggest
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.coding import Coding
from fairprobe.schema.columns import in_words, shortest
from fairprobe.schema.domain import Domain
from fairprobe.schema.rules import RuleText, WrittenConstraint, constraint_of
from fairprobe.schema.suggestions import suggestions_in_toml, twins_in_toml
from fairprobe.schema.twins import Coupling, Source
from fairprobe.storage import write_text

HEAD = """\
# The schema of a table: which people can exist. People are generated within these bounds; rows of
# the table may lie outside.
# Edit what is wrong, and pass the file with --domain. The order of the attributes is the order of
# a model's inputs.
#
#   kind = "integer"      whole numbers from `low` to `high`. `bin = 10` counts in tens: `low` and
#                         `high` are then counts of bins.
#   kind = "real"         any number from `low` to `high`. `grain` is the size of one step of a
#                         search (for integers too).
#   kind = "categorical"  one of the `categories`. `one_hot = true` shows networks one column for
#                         each of them, false their position.
#                         `values` are what the table holds instead of these names: categories may
#                         be renamed, values may not.
#                         `cuts` divide a number into categories: the second begins at the first
#                         cut. `values` are then examples.
#                         `low` and `high` (positions, counted from 0) keep some categories from
#                         being generated.
#                         `gap_word = "?"` is the word that a model expects in an empty cell;
#                         without it, the model gets NaN.
#   missing               the code of an empty cell, outside the bounds; without it, empty cells
#                         are refused.
#   subtract, divide_by   for a model that expects scaled numbers: it gets (value - subtract) /
#                         divide_by.
#
# Constraints exclude people who cannot exist. Names of attributes that are not plain words stand
# in backticks:
#
#   [[constraints]]
#   name = "nobody both gains and loses"
#   rule = "`capital-gain` == 0 or `capital-loss` == 0"
#
#   [[constraints]]
#   name = "husbands are men"
#   when = "relationship == 'Husband'"
#   then = "sex == 'Male'"
#
# Twins change together with a sensitive attribute. The counterpart of a husband is a wife:
#
#   [[twins]]
#   attribute = "relationship"
#   with = "sex"
#   roles = [{Male = "Husband", Female = "Wife"}]

"""


NUMBER = (int, float)
TOP = {"label": str, "favourable": str, "sensitive": list, "attributes": dict}
TOP |= {"constraints": list, "twins": list}
ANY_KIND = {"kind": str, "low": NUMBER, "high": NUMBER, "missing": NUMBER, "grain": NUMBER}
# How cells become codes; the other keys describe the attribute.
CODING_OF_WORDS = {"values": list, "cuts": list, "gap_word": str}
CODING_OF_NUMBERS = {"subtract": NUMBER, "divide_by": NUMBER}
KEYS: dict[str, dict[str, Any]] = {
    "categorical": ANY_KIND | {"categories": list, "one_hot": bool} | CODING_OF_WORDS,
    "integer": ANY_KIND | {"bin": NUMBER} | CODING_OF_NUMBERS,
    "real": ANY_KIND | CODING_OF_NUMBERS,
}
CONSTRAINT = {"name": str, "rule": str, "when": str, "then": str}
TWINS = {"attribute": str, "with": str, "roles": list, "source": str}
KIND_WORDS = {
    str: "a word in quotation marks",
    NUMBER: "a number",
    bool: "true or false",
    list: "a list",
    dict: "a table",
}


@dataclass(frozen=True)
class Declared:
    """What a domain file declares: the coding with its domain and constraints, and the label and
    its favourable class if the file names them.
    """

    coding: Coding
    label: str | None = None
    favourable: str | None = None

    @property
    def rules(self) -> tuple[RuleText, ...]:
        """The constraints as they are written. Constraints made of code have no text."""
        return tuple(
            constraint.text
            for constraint in self.coding.domain.constraints
            if isinstance(constraint, WrittenConstraint) and constraint.text is not None
        )

    @property
    def scaling(self) -> dict[str, tuple[float, float]]:
        """(subtract, divide by) of numbers that the model expects scaled."""
        return self.coding.scaling


# -- writing ---------------------------------------------------------------------------------------


def write_domain(what: Coding | Declared, path: Path | str, *, rows: Rows | None = None) -> None:
    """Writes a file to edit. Constraints made of code are left out. What the coded rows of a table
    suggest is added as comments.
    """
    write_text(Path(path), HEAD + domain_text(what, rows=rows))


def domain_text(what: Coding | Declared, *, rows: Rows | None = None) -> str:
    """The text of such a file, without the comments that explain it."""
    declared = Declared(what) if isinstance(what, Coding) else what
    coding = declared.coding
    content: dict[str, Any] = {"label": declared.label, "favourable": declared.favourable}
    content["sensitive"] = list(coding.domain.sensitive)
    content["attributes"] = {
        attribute.name: dict(_entry(attribute, coding)) for attribute in coding.domain.attributes
    }
    content["constraints"] = [_given(asdict(rule)) for rule in declared.rules] or None
    text = tomlkit.dumps(_given(content))
    text += twins_in_toml(coding.domain.couplings, coding, rows)
    return text if rows is None else text + suggestions_in_toml(coding, rows)


def _given(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if value is not None}


def _entry(attribute: Attribute, coding: Coding) -> Iterator[tuple[str, Any]]:
    """The keys that differ from their default."""
    name = attribute.name
    yield "kind", attribute.kind
    if attribute.kind == "categorical":
        yield "categories", list(attribute.categories)
        yield "one_hot", attribute.one_hot
        if name in coding.values:
            yield "values", [_plain(value) for value in coding.values[name]]
        if name in coding.cuts:
            yield "cuts", shortest(coding.cuts[name]).tolist()
        if name in coding.gap_words:
            yield "gap_word", coding.gap_words[name]
    is_number = attribute.kind != "categorical"
    usual = replace(attribute, bin=1, grain=0, missing=None)
    if not is_number:
        usual = replace(usual, low=0, high=-1)
    for key in ("low", "high", "bin", "grain", "missing"):
        value = getattr(attribute, key)
        if value != getattr(usual, key) or (is_number and key in ("low", "high")):
            whole = attribute.kind != "real" and float(value).is_integer()
            yield key, int(value) if whole else float(value)
    if name in coding.scaling:
        yield from zip(("subtract", "divide_by"), coding.scaling[name], strict=True)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, str | bool | int | float):
        raise DomainError(
            f"A domain file holds words, numbers, true and false; {value!r} is"
            f" {type(value).__name__}. Turn such categories into words."
        )
    return value


# -- reading ---------------------------------------------------------------------------------------


def read_domain(path: Path | str) -> Declared:
    """What the file declares; a mistake in it is reported in one sentence."""
    file = Path(path)
    try:
        content = read_toml(file)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"Cannot read the domain file {file}: {error.strerror}. Check the path."
        ) from error
    except UnicodeDecodeError as error:
        raise DomainError(f"The domain file {file} is not UTF-8. Save it as UTF-8.") from error
    except ValueError as error:
        raise DomainError(f"The domain file {file} is not valid TOML: {error}.") from error
    try:
        return _read(content)
    except DomainError as error:
        raise DomainError(f"{file}: {error}") from error


def domain_from_text(text: str) -> Declared:
    """What the text of such a file declares."""
    try:
        return _read(tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DomainError):
            raise
        raise DomainError(f"The schema is not valid TOML: {error}.") from error


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
    rules = [_rule(place, entry) for place, entry in enumerate(content.get("constraints", []))]
    counts = Counter(rule.name for rule in rules)
    if twice := sorted(name for name, count in counts.items() if count > 1):
        raise DomainError(f"More than one constraint is named {', '.join(map(repr, twice))}.")
    constraints = tuple(constraint_of(rule, plain) for rule in rules)
    twins = tuple(_twins(place, entry) for place, entry in enumerate(content.get("twins", [])))
    domain = replace(plain.domain, constraints=constraints, couplings=twins)
    whole = replace(plain, domain=domain)
    return Declared(whole, content.get("label"), content.get("favourable"))


def _check_keys(entry: Mapping[str, Any], known: Mapping[str, Any], what: str) -> None:
    for key, value in entry.items():
        if key not in known:
            raise DomainError(f"{what} has the unknown key '{key}'.{suggest(key, known)}")
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
    categories = _words(entry.get("categories", []), f"{what}: `categories`")
    other = {"categories"} | CODING_OF_WORDS.keys() | CODING_OF_NUMBERS.keys()
    known = {key: value for key, value in entry.items() if key not in other}
    return Attribute(name=name, categories=categories, **known)


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
    if not _are_numbers(cuts):
        raise DomainError(f"{what}: `cuts` must be numbers.")
    single = np.array(cuts, dtype=np.float32)
    if len(cuts) != count - 1 or not (np.diff(single) > 0).all():
        raise DomainError(
            f"{what} has {count} categories and needs {count - 1} rising `cuts`, where the second"
            " and later ones begin."
        )
    if values is None or not _are_numbers(values):
        raise DomainError(
            f"{what} has `cuts` and needs `values`: for each category a number that lies in it."
        )
    places = np.searchsorted(single, np.array(values, dtype=np.float32), side="right")
    if (places != np.arange(count)).any():
        raise DomainError(
            f"{what}: each of the `values` must lie in its own category, between two `cuts`."
        )
    return single


def _are_numbers(values: list[Any]) -> bool:
    return all(
        isinstance(value, NUMBER) and not isinstance(value, bool) and math.isfinite(value)
        for value in values
    )


def _scaling(name: str, entry: Mapping[str, Any]) -> tuple[float, float]:
    subtract, divide_by = float(entry.get("subtract", 0)), float(entry.get("divide_by", 1))
    if divide_by == 0:
        raise DomainError(f"Attribute '{name}': `divide_by` must not be 0.")
    return subtract, divide_by


def _rule(place: int, entry: Any) -> RuleText:
    if not isinstance(entry, dict):
        raise DomainError(
            f"Constraint {place + 1} must be a table [[constraints]]; it is {entry!r}."
        )
    what = f"Constraint '{entry['name']}'" if "name" in entry else f"Constraint {place + 1}"
    _check_keys(entry, CONSTRAINT, what)
    if "name" not in entry:
        raise DomainError(f"{what} needs a `name`.")
    return RuleText(**entry)


def _twins(place: int, entry: Any) -> Coupling:
    what = f"Twins {place + 1}"
    if not isinstance(entry, dict):
        raise DomainError(f"{what} must be a table [[twins]]; it is {entry!r}.")
    _check_keys(entry, TWINS, what)
    if missing := [key for key in ("attribute", "with", "roles") if key not in entry]:
        raise DomainError(f"{what} needs `{missing[0]}`.")
    source, roles = entry.get("source", "declared"), entry["roles"]
    if source not in get_args(Source):
        raise DomainError(f"{what}: `source` must be declared or mined, not {source!r}.")
    for role in roles:
        if not isinstance(role, dict) or not all(isinstance(word, str) for word in role.values()):
            raise DomainError(
                f"{what}: a role names a category for each value, such as"
                f' {{Male = "Husband", Female = "Wife"}}, not {role!r}.'
            )
    return Coupling(entry["attribute"], entry["with"], tuple(roles), source=source)
