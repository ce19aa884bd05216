"""`domain.toml`: a schema that people can read, edit and pass to a command.

`write_domain` writes a schema with comments that say what may be edited. `read_domain` reads it;
a mistake in the file is reported in one sentence.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from keyword import iskeyword
from pathlib import Path
from textwrap import wrap
from typing import Any, get_args

import numpy as np
import tomlkit

from fairprobe.arrays import Rows
from fairprobe.documents.files import read_toml
from fairprobe.errors import DomainError, StorageError, suggest
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.coding import Coding
from fairprobe.schema.columns import in_words, shortest
from fairprobe.schema.domain import Domain
from fairprobe.schema.mining import (
    FoundTwins,
    Implication,
    Missing,
    mine_implications,
    mine_missing,
    mine_twins,
)
from fairprobe.schema.rules import RuleText, WrittenConstraint, constraint_of
from fairprobe.schema.twins import Coupling, Source
from fairprobe.storage import write_text

HEAD = files("fairprobe.schema").joinpath("domain_head.toml").read_text(encoding="utf-8")
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
    """Content of a domain file: the coding with its domain and constraints, and the label and
    its favourable class if the file names them.
    """

    coding: Coding
    label: str | None = None
    favourable: str | None = None

    @property
    def rules(self) -> tuple[RuleText, ...]:
        """Return the constraints as they are written. Constraints made of code have no text."""
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
    """Write a file to edit. Constraints made of code are left out. What the coded rows of a table
    suggest is added as comments.
    """
    write_text(Path(path), HEAD + domain_text(what, rows=rows))


def domain_text(what: Coding | Declared, *, rows: Rows | None = None) -> str:
    """Return the text of such a file, without the comments that explain it."""
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
    """Return the keys that differ from their default."""
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
    """Read a domain file; a mistake in it is reported in one sentence."""
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
    """Read the text of a domain file."""
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


# -- what the rows suggest -------------------------------------------------------------------------

WIDTH = 96  # of a comment
IMPOSSIBLE = (
    "These categories all but vanish where the others are common, so they are twins in all"
    " likelihood. To compare twins, remove the # signs:"
)
RARE = (
    "These categories are rare where the others are common, but not so rare that they are taken"
    " for impossible. Twins? Or a disadvantage that an audit should find? If one is the other's"
    " counterpart, remove the # signs:"
)
RULES = (
    "Nobody, or nearly nobody, breaks these rules. If such people cannot exist, remove the # signs:"
    " then none are generated, and nobody is compared with one. If they could exist but are kept"
    " out, leave the rules commented out:"
)


def twins_in_toml(couplings: Iterable[Coupling], coding: Coding, x: Rows | None) -> str:
    """Return the `[[twins]]` of a file, each mined one with the counts that speak for it."""
    found = {} if x is None else {each.coupling: each for each in mine_twins(coding.domain, x)}
    parts = []
    for coupling in couplings:
        evidence = found.get(coupling) if coupling.source == "mined" else None
        if evidence is not None:
            parts.append(_comment(f"Found in the table ({_counts(evidence)})."))
        parts.append(_coupling_entry(coupling))
    return "\n" + "".join(parts) if parts else ""


def suggestions_in_toml(coding: Coding, x: Rows) -> str:
    """Write what the rows suggest and the domain does not declare, as comments."""
    domain = coding.domain
    declared = {(each.attribute, each.sensitive) for each in domain.couplings}
    twins = [
        each
        for each in mine_twins(domain, x)
        if (each.coupling.attribute, each.coupling.sensitive) not in declared
    ]
    text = ""
    for heading, is_impossible in ((IMPOSSIBLE, True), (RARE, False)):
        some = [each for each in twins if each.is_impossible == is_impossible]
        text += "\n" + _comment(heading) if some else ""
        for each in some:
            uncommented = replace(each.coupling, source="declared")
            text += "#\n" + _comment(f"{_counts(each)}:") + _commented(_coupling_entry(uncommented))
    rules = list(_rules(coding, x))
    if rules:
        text += "\n" + _comment(RULES)
        for comment, rule in rules:
            entry = {name: value for name, value in asdict(rule).items() if value is not None}
            text += "#\n" + _comment(f"{comment}:")
            text += _commented(tomlkit.dumps({"constraints": [entry]}))
    return text


def _coupling_entry(coupling: Coupling) -> str:
    roles = tomlkit.array()
    for role in coupling.roles:
        inline = tomlkit.inline_table()
        inline.update(dict(role))
        roles.append(inline)
    entry: dict[str, Any] = {
        "attribute": coupling.attribute,
        "with": coupling.sensitive,
        "roles": roles,
    }
    if coupling.source != "declared":
        entry["source"] = coupling.source
    table, all_of_them = tomlkit.table(), tomlkit.aot()
    table.update(entry)
    all_of_them.append(table)
    return tomlkit.dumps({"twins": all_of_them})


def _counts(found: FoundTwins) -> str:
    return "; ".join(map(str, found.missing))


def _rules(coding: Coding, x: Rows) -> Iterator[tuple[str, RuleText]]:
    """Constraints that the language can express, and what speaks for each."""
    written = {
        (text.when, text.then)
        for each in coding.domain.constraints
        if (text := getattr(each, "text", None)) is not None
    }
    suggested = [
        *((str(each), _rule_of_missing(each, coding)) for each in mine_missing(coding.domain, x)),
        *(
            (comment, rule)
            for each in mine_implications(coding.domain, x)
            for comment, rule in _rules_of_implication(each, coding)
        ),
    ]
    for comment, rule in suggested:
        if (rule.when, rule.then) not in written:
            try:
                constraint_of(rule, coding)
            except DomainError:  # a name that the language cannot hold
                continue
            yield comment, rule


def _rule_of_missing(missing: Missing, coding: Coding) -> RuleText:
    values = [_value(missing.sensitive, value, coding) for value in missing.values]
    sensitive = _name(missing.sensitive)
    return RuleText(
        f"{missing.attribute} = {missing.category} not with {missing.sensitive}",
        when=f"{_name(missing.attribute)} == {_value(missing.attribute, missing.category, coding)}",
        then=(
            f"{sensitive} != {values[0]}"
            if len(values) == 1
            else f"{sensitive} not in [{', '.join(values)}]"
        ),
    )


def _rules_of_implication(found: Implication, coding: Coding) -> Iterator[tuple[str, RuleText]]:
    sides = [(found.attribute, found.category), (found.other, found.other_category)]
    conditions = [f"{_name(name)} == {_value(name, word, coding)}" for name, word in sides]
    exceptions = f"{found.exceptions:,} exceptions" if found.exceptions else "no exception"
    comment = (
        f"{found.support:,} people, {exceptions}, {found.lift:.1f} times as often as by chance"
    )
    for place in (0, 1) if found.both else (0,):
        name, word = sides[place]
        yield (
            comment if place == 0 else "And the other way round",
            RuleText(
                f"{name} = {word}: {sides[1 - place][0]}",
                when=conditions[place],
                then=conditions[1 - place],
            ),
        )


def _name(name: str) -> str:
    """Return an attribute's name in the language of constraints."""
    if name.isidentifier() and not iskeyword(name):
        return name
    return "`" + name.replace("`", "``") + "`"


def _value(name: str, word: str, coding: Coding) -> str:
    """Return a category in the language of constraints: a number where the table holds numbers."""
    attribute, own = coding.domain[name], coding.values.get(name, ())
    if attribute.kind == "categorical":
        value = own[attribute.code_of(word)] if own else word
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return repr(float(value)) if is_number else repr(word)
    return word.replace(",", "")


def _comment(text: str) -> str:
    plain = "".join(letter if letter.isprintable() else "?" for letter in text)
    return "".join(f"# {line}\n" for line in wrap(plain, WIDTH))


def _commented(toml: str) -> str:
    return "".join(f"# {line}\n" for line in toml.strip().split("\n"))
