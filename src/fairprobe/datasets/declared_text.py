"""The text of a `domain.toml`, with comments that say what may be edited."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fairprobe.datasets.coding import Coding
from fairprobe.datasets.columns import shortest
from fairprobe.datasets.rules import Wording
from fairprobe.errors import DomainError
from fairprobe.schema.attributes import Attribute

BARE = re.compile(r"[A-Za-z0-9_-]+")
ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}

HEAD = """\
# Which people can exist, in the words of the table. People are generated within these bounds;
# rows of the table may lie outside.
# Edit what is wrong, and give the file back with --domain. The order of the attributes is the
# order of a model's inputs.
#
#   kind = "integer"      whole numbers from `low` to `high`. `bin = 10` counts in tens: `low`
#                         and `high` are then counts of bins.
#   kind = "real"         any number from `low` to `high`. `grain` is the size of one step of a
#                         search (for integers too).
#   kind = "categorical"  one of the `categories`. `one_hot = true` shows networks one column for
#                         each of them, false their position.
#                         `values` are what the table holds instead of these names: categories
#                         may be renamed, values may not.
#                         `cuts` divide a number into categories: the second begins at the first
#                         cut. `values` are then examples.
#                         `low` and `high` (positions, counted from 0) keep some categories from
#                         being generated.
#                         `gap_word = "?"` is the word that a model knows for an empty cell;
#                         without it, it is asked with NaN.
#   missing               the code of an empty cell, outside the bounds; without it, empty cells
#                         are refused.
#   subtract, divide_by   where the model wants a number scaled, it sees (value - subtract) /
#                         divide_by.
#
# Constraints keep people who cannot exist from being generated. Names of attributes that are no
# plain words stand in backticks:
#
#   [[constraints]]
#   name = "nobody both gains and loses"
#   rule = "`capital-gain` == 0 or `capital-loss` == 0"
#
#   [[constraints]]
#   name = "husbands are men"
#   when = "relationship == 'Husband'"
#   then = "sex == 'Male'"
"""


def text_of(
    coding: Coding, *, label: str | None, favourable: str | None, rules: Iterable[Wording]
) -> str:
    """The whole file."""
    lines = [HEAD]
    if label is not None:
        lines.append(f"label = {_toml(label)}")
    if favourable is not None:
        lines.append(f"favourable = {_toml(favourable)}")
    lines.append(f"sensitive = {_toml(list(coding.domain.sensitive))}")
    for attribute in coding.domain.attributes:
        lines += [
            "",
            f"[attributes.{_key(attribute.name)}]",
            *(f"{key} = {_toml(value)}" for key, value in _entry(attribute, coding)),
        ]
    for rule in rules:
        said = {"name": rule.name, "rule": rule.rule, "when": rule.when, "then": rule.then}
        lines += [
            "",
            "[[constraints]]",
            *(f"{key} = {_toml(value)}" for key, value in said.items() if value is not None),
        ]
    return "\n".join(lines) + "\n"


def _entry(attribute: Attribute, coding: Coding) -> Iterator[tuple[str, Any]]:
    """The keys that say more than their default does."""
    name = attribute.name
    yield "kind", attribute.kind
    if attribute.kind == "categorical":
        yield "categories", list(attribute.categories)
        yield "one_hot", attribute.one_hot
        if name in coding.values:
            yield "values", list(coding.values[name])
        if name in coding.cuts:
            yield "cuts", shortest(coding.cuts[name]).tolist()
        if name in coding.gap_words:
            yield "gap_word", coding.gap_words[name]
    if attribute.kind != "categorical" or (attribute.low, attribute.high) != (
        0,
        len(attribute.categories) - 1,
    ):
        yield "low", _number(attribute.low, attribute)
        yield "high", _number(attribute.high, attribute)
    if attribute.bin != 1:
        yield "bin", _number(attribute.bin, attribute)
    if attribute.grain != replace(attribute, grain=0).grain:
        yield "grain", _number(attribute.grain, attribute)
    if attribute.missing is not None:
        yield "missing", _number(attribute.missing, attribute)
    if name in coding.scaling:
        yield from zip(("subtract", "divide_by"), coding.scaling[name], strict=True)


def _number(value: float, attribute: Attribute) -> float:
    return int(value) if attribute.kind != "real" and float(value).is_integer() else float(value)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + "".join(ESCAPES.get(letter) or _letter(letter) for letter in value) + '"'
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return repr(float(value))
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    raise DomainError(
        f"A domain file holds words, numbers, true and false; {value!r} is {type(value).__name__}."
        " Turn such categories into words."
    )


def _letter(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 32 or ord(letter) == 127 else letter
