"""Whom people are compared with, in words: bare counterparts, or twins with what changes along."""

from __future__ import annotations

from fairprobe.documents import (
    BothCounterparts,
    CouplingCount,
    ScoresDocument,
    TableDocument,
    TableMeasurements,
)
from fairprobe.report.formats import count, interval, level, listed, percent, plural

MOST_CATEGORIES = 6  # named in a sentence


def changing(document: TableMeasurements) -> str:
    """What changes in a counterpart: gender, or gender and, with it, relationship."""
    name = listed(document.sensitive)
    return f"{name} and, with it, {listed(document.coupled)}" if document.coupled else name


def only(document: TableDocument) -> str:
    """The same as the subject of a sentence: only gender, or gender and, with it, relationship."""
    return changing(document) if document.coupled else f"only {changing(document)}"


def definition(document: TableMeasurements) -> str:
    """What a counterpart is in this audit."""
    name = listed(document.sensitive)
    if not document.coupled:
        return f"A person’s counterpart is a copy that differs in {name} and in nothing else."
    roles = listed(_roles(each) for each in document.counterparts.couplings)
    return (
        f"A person’s counterpart is a twin: a copy that differs in {name}, in what changes along"
        f" with it ({roles}), and in nothing else."
    )


def sentences(document: TableDocument) -> list[str]:
    """What changes along, how many people that concerns, and what bare counterparts and twins each
    find among the people in the data.
    """
    used = document.counterparts
    parts = [_coupling(each) for each in used.couplings]
    parts += [] if used.both is None else _both(document, used.both)
    if used.suggested:
        parts.append(
            f"The table suggests that this changes along as well: {listed(used.suggested)}. The"
            " evidence is too weak to assume it; domain.toml has the counts, and how to declare it."
        )
    return parts


def no_counterpart(document: TableDocument | ScoresDocument) -> str:
    """Who is counted apart."""
    number = document.people.no_counterpart
    if not number:
        return ""
    have, are = ("has", "is") if number == 1 else ("have", "are")
    return (
        f"{plural(number, 'person', 'people')} {have} no counterpart that the rules allow, and"
        f" {are} counted apart: neither as affected nor as treated alike."
    )


def in_short(document: TableDocument) -> str:
    """One line for the terminal, empty where the schema couples nothing."""
    used = document.counterparts
    if used.both is None:
        return ""
    roles, other = listed(_roles(each) for each in used.couplings), used.both.bare
    if used.kind == "bare":
        return f"bare; by twins, {roles}: {percent(used.both.twins.estimate)} of people in the data"
    return f"twins: {roles}; by bare counterparts {percent(other.estimate)} of people in the data"


def _roles(coupling: CouplingCount) -> str:
    """Relationship (Husband ↔ Wife) changes along with gender."""
    words = [" ↔ ".join(dict.fromkeys(role.values())) for role in coupling.roles]
    more = [f"{count(len(words) - MOST_CATEGORIES)} more"] if len(words) > MOST_CATEGORIES else []
    shown = ", ".join([*words[:MOST_CATEGORIES], *more])
    return f"{coupling.attribute} ({shown}) with {coupling.sensitive}"


def _coupling(coupling: CouplingCount) -> str:
    known = "declared in the schema" if coupling.source == "declared" else "found in the table"
    return (
        f"What changes along: {_roles(coupling)} ({known})."
        f" {plural(coupling.people, 'person', 'people')} in the data have such a category;"
        f" {count(coupling.crossed)} of them have one that otherwise goes with another"
        f" {coupling.sensitive}, as all their counterparts would if nothing but"
        f" {coupling.sensitive} changed."
    )


def _both(document: TableDocument, both: BothCounterparts) -> list[str]:
    name, (with_it, without) = listed(document.sensitive), _who(document)
    used = "twins" if document.counterparts.kind == "twins" else "bare counterparts"
    of_whom = (
        ""
        if both.affected_coupled is None
        else (
            f" {percent(both.affected_coupled)} of them are {with_it}, compared with people who"
            " hardly exist."
        )
    )
    return [
        (
            f"By bare counterparts (nothing but {name} changes, as in the papers)"
            f" {percent(both.bare.estimate)} of everybody are affected.{of_whom} The others are"
            f" {percent(both.others_of_everybody)} of everybody, and"
            f" {percent(both.others.estimate)} of the {without}."
        ),
        (
            f"By twins {percent(both.twins.estimate)} of everybody are affected"
            f" ({level(both.twins.confidence)} interval {interval(both.twins)}), and"
            f" {percent(both.twins_coupled.estimate)} of the {with_it}. This audit used {used};"
            " possible people are always compared with bare counterparts."
        ),
    ]


def _who(document: TableDocument) -> tuple[str, str]:
    """The people with a coupled category, and those without."""
    couplings = document.counterparts.couplings
    words = dict.fromkeys(word for role in couplings[0].roles for word in role.values())
    if len(couplings) > 1 or len(words) > MOST_CATEGORIES:
        return "people with a coupled category", "people without one"
    named = " or ".join(f"“{word}”" for word in words)
    people = f"people with {couplings[0].attribute} {named}"
    return people, f"people with another {couplings[0].attribute}"
