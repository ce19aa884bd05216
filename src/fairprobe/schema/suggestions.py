"""What a table suggests for its `domain.toml`: twins that are applied, with the counts that speak
for them, and, commented out, what a person should decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from keyword import iskeyword
from textwrap import wrap
from typing import Any

import tomlkit

from fairprobe.arrays import Rows
from fairprobe.errors import DomainError
from fairprobe.schema.coding import Coding
from fairprobe.schema.mining import (
    FoundTwins,
    Implication,
    Missing,
    mine_implications,
    mine_missing,
    mine_twins,
)
from fairprobe.schema.rules import RuleText, constraint_of
from fairprobe.schema.twins import Coupling

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
    """The `[[twins]]` of a file, each mined one with the counts that speak for it."""
    found = {} if x is None else {each.coupling: each for each in mine_twins(coding.domain, x)}
    parts = []
    for coupling in couplings:
        evidence = found.get(coupling) if coupling.source == "mined" else None
        if evidence is not None:
            parts.append(_comment(f"Found in the table ({_counts(evidence)})."))
        parts.append(_entry(coupling))
    return "\n" + "".join(parts) if parts else ""


def suggestions_in_toml(coding: Coding, x: Rows) -> str:
    """What the rows suggest and the domain does not declare, as comments."""
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
            text += "#\n" + _comment(f"{_counts(each)}:") + _commented(_entry(uncommented))
    rules = list(_rules(coding, x))
    if rules:
        text += "\n" + _comment(RULES)
        for comment, rule in rules:
            entry = {name: value for name, value in asdict(rule).items() if value is not None}
            text += "#\n" + _comment(f"{comment}:")
            text += _commented(tomlkit.dumps({"constraints": [entry]}))
    return text


def _entry(coupling: Coupling) -> str:
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
    """An attribute's name in the language of constraints."""
    if name.isidentifier() and not iskeyword(name):
        return name
    return "`" + name.replace("`", "``") + "`"


def _value(name: str, word: str, coding: Coding) -> str:
    """A category in the language of constraints: a number where the table holds numbers."""
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
