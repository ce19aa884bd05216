"""What is shown of a names experiment: its sentences, its tables and its report."""

from __future__ import annotations

from typing import Any

from fairprobe.documents.names import NamesDocument, NamesGroup, NamesInterval
from fairprobe.present.blocks import Card
from fairprobe.present.table import Cell, Table
from fairprobe.report.formats import (
    SPACE,
    change,
    count,
    date,
    decimal,
    in_words,
    level,
    listed,
    percent,
    plain,
    plural,
    seconds,
)

POINTS = f"{SPACE}points"


def headline(document: NamesDocument) -> str:
    """The result in one line."""
    if document.found:
        groups = listed([f"“{each.group}”" for each in document.found])
        return f"The same résumés fare differently under the names of {groups}"
    return "No group of names is treated differently, beyond what any other name does"


def title(document: NamesDocument) -> str:
    """The set of names, and the model."""
    named = f"{document.dataset}, {document.model.network}"
    return named[:1].upper() + named[1:]


def status(document: NamesDocument) -> str:
    """Whether a difference is found, for the color of the verdict."""
    return "found" if document.found else "none"


def verdict(document: NamesDocument) -> str:
    """Whether the names of a group are treated differently."""
    where = (
        f"{plural(document.resumes, 'résumé')} under {count(len(document.names))} names"
        f" ({document.dataset})"
    )
    if not document.found:
        return plain(
            f"{where}: no group of names is treated differently beyond what names of the same group"
            " do to each other."
        )
    said = listed(
        [
            f"“{each.group}” ({_change(document, each.difference.estimate)}, interval"
            f" {_ends(document, each.difference)})"
            for each in document.found
        ]
    )
    return plain(f"{where}: the outcome differs for the names of {said}, compared with the others.")


def sentences(document: NamesDocument) -> list[str]:
    """What must be said beside the verdict."""
    found = [
        f"The outcome is {document.outcome}. Every name stands on every résumé, so that only the"
        " name differs.",
        "The interval allows for other résumés and other names like these. Names are exchanged"
        " between groups at random for p, so a model that likes single names is not accused.",
    ]
    used = document.usage
    if used is not None:
        cost = f", at a cost of {used.cost:.2f} {used.currency}" if used.cost else ""
        found.append(
            f"{plural(used.requests, 'request')} were sent ({count(used.tokens_sent)} tokens, and"
            f" {count(used.tokens_received)} received{cost}); {plural(used.stored, 'answer')} were"
            " stored already."
        )
        if used.refused or used.unreadable:
            found.append(
                f"{plural(used.refused, 'answer')} of {count(used.answers)} refused, and"
                f" {count(used.unreadable)} named no class; they count as not favorable."
            )
    return found + ([document.stopped] if document.stopped else [])


def groups_table(document: NamesDocument) -> Table:
    """Each group against the others, and the control."""
    rows: list[tuple[Cell | str, ...]] = [
        (
            f"{each.attribute}: {each.group}",
            count(each.names),
            _level(document, each.mean),
            _with_ends(document, each.difference),
            f"{each.p:.2g}",
            _size(document, each.cross),
            _size(document, each.same),
            _with_ends(document, each.excess),
        )
        for each in document.groups
    ]
    unit = "" if document.is_rating else " (points)"
    head = ("names of", "names", "outcome", f"difference{unit}", "p", "two groups", "same group")
    return Table((*head, f"excess{unit}"), rows)


def names_table(document: NamesDocument) -> Table:
    """Every name with its mean outcome, the best first."""
    attributes = document.sensitive
    rows: list[tuple[Cell | str, ...]] = [
        (
            each.name,
            *(Cell(each.groups.get(one, "–"), kind="words") for one in attributes),
            _level(document, each.mean),
        )
        for each in sorted(document.names, key=lambda each: -each.mean)
    ]
    places = tuple(range(1 + len(attributes)))
    return Table(("name", *attributes, "mean outcome"), rows, words=places)


def page(document: NamesDocument) -> dict[str, Any]:
    """The template's variables."""
    return {
        "document": document,
        "version": document.versions.get("fairprobe", ""),
        "title": title(document),
        "status": status(document),
        "headline": headline(document),
        "facts": [
            ("Date", date(document.created)),
            ("Names", f"{document.dataset}: {count(len(document.names))}"),
            ("Résumés", count(document.resumes)),
            ("Model", f"{document.model.network} ({document.model.kind})"),
            ("Seed", str(document.seed)),
        ],
        "cards": [_card(document, each) for each in document.groups[:4]],
        "groups_table": groups_table(document),
        "names_table": names_table(document),
        "sentences": [one for one in document.sentences if one != document.stopped],
        "settings": in_words(document.settings),
        "times": [(name, seconds(each)) for name, each in document.seconds.items()],
    }


def _card(document: NamesDocument, each: NamesGroup) -> Card:
    lines = [
        f"{level(document.confidence)} interval {_ends(document, each.difference)}",
        f"p = {each.p:.2g}: {'found' if each.is_found else 'no difference is shown'}",
    ]
    return Card(f"Names of “{each.group}”", _change(document, each.difference.estimate), lines)


def _with_ends(document: NamesDocument, found: NamesInterval) -> Cell:
    return Cell(_bare(document, found.estimate), _ends(document, found).removesuffix(POINTS))


def _ends(document: NamesDocument, found: NamesInterval) -> str:
    return f"{_bare(document, found.low)} to {_change(document, found.high)}"


def _bare(document: NamesDocument, difference: float) -> str:
    return _change(document, difference).removesuffix(POINTS)


def _change(document: NamesDocument, difference: float) -> str:
    """A difference of outcomes, with its sign."""
    if document.is_rating:
        return f"{difference:+.2f}".replace("-", "−")
    return change(difference)


def _size(document: NamesDocument, size: float) -> str:
    return decimal(size) if document.is_rating else f"{100 * size:.1f}"


def _level(document: NamesDocument, mean: float) -> str:
    return decimal(mean) if document.is_rating else percent(mean)
