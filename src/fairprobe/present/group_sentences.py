"""What is said about the people held out: pairs compared one by one, and groups."""

from __future__ import annotations

from itertools import combinations

from fairprobe.documents import SelectionRow, SelectionTable, TableDocument
from fairprobe.present.counterparts import changing
from fairprobe.present.sentences import measured
from fairprobe.report.formats import count, interval, level, percent, plural, quoted

FOUR_FIFTHS = 0.8


def individual(document: TableDocument) -> str:
    """How often a person and a counterpart get the same decision."""
    rates, name = document.fairness.individual, changing(document)
    if rates.b.estimate is None or rates.p.estimate is None:
        return (
            f"No person {measured(document)} has a counterpart that differs only in {name}, so"
            " there is no rate."
        )
    drawn = ", drawn at random for each," if rates.over == "single" else ""
    return (
        f"Of {plural(rates.b.pairs, 'pair')} of a person {measured(document)} and a"
        f" counterpart{drawn} who differs only in {name}, {percent(rates.b.estimate)} get the same"
        " decision"
        f" ({level(rates.b.confidence)} interval {interval(rates.b)}), and"
        f" {percent(rates.p.estimate)} get the same decision with nearly the same probabilities"
        f" (interval {interval(rates.p)})."
    )


def without_rate(document: TableDocument) -> str:
    """Who is not among the pairs."""
    rates, written = document.fairness.individual, []
    if rates.left_out:
        written.append(
            f"{plural(rates.left_out, 'person', 'people')} with a sensitive value outside the"
            " domain had to be left out."
        )
    if nobody := [group.name for group in rates.b.groups if group.estimate is None]:
        written.append(
            f"Groups without anybody among the people {measured(document)}, and so without a rate:"
            f" {quoted(nobody)}."
        )
    return " ".join(written)


def selection(document: TableDocument) -> str:
    """How many people are selected, and what that means here."""
    held, data = document.fairness, document.data
    if held.group is None or held.positive is None:
        return (
            f"The decision has {len(data.classes)} answers, and none was declared the favourable"
            " one. So nobody counts as selected, and groups were not compared."
        )
    selected = held.group.selected
    assumed = (
        " No answer was declared the favourable one, so the second of the two counts as it."
        if held.positive_assumed
        else ""
    )
    return (
        f"{count(selected.hits)} of the {count(selected.samples)} people"
        f" {measured(document)} ({percent(selected.estimate)}) are given the answer"
        f" “{data.classes[held.positive]}”: they count as selected.{assumed}"
    )


def remark(row: SelectionRow, table: SelectionTable) -> str:
    """What to know about a group before its ratio is read."""
    impact = row.impact_ratio
    if row.is_empty:
        return "nobody"
    if row.is_small:
        return f"small group (under {percent(table.smallest)})"
    if impact.estimate is None:
        return ""
    if impact.estimate >= FOUR_FIFTHS:
        return "highest rate" if impact.estimate == 1 else ""
    reaches = impact.high is not None and impact.high >= FOUR_FIFTHS
    return f"below {FOUR_FIFTHS:g}{', but the interval reaches it' if reaches else ''}"


def who_is_missing(table: SelectionTable, who: str) -> list[str]:
    """Small groups, empty ones among the people held out or measured (`who`), and people whose
    group is not known.
    """
    written = []
    if small := [row.name for row in table.rows if row.is_small]:
        written.append(
            f"Small groups, with fewer than {percent(table.smallest)} of the people:"
            f" {quoted(small)}. Their numbers are shown but say little, and no other group is"
            " compared with them."
        )
    if empty := [row.name for row in table.rows if row.is_empty]:
        written.append(f"Groups without anybody among the people {who}: {quoted(empty)}.")
    if table.unknown:
        written.append(
            f"Of {plural(table.unknown, 'person', 'people')} the group is unknown: they are in no"
            " row."
        )
    return written


def pairs_left_out(document: TableDocument) -> str:
    """Of three or more attributes, the pairs that were not compared, if there are any."""
    group, names = document.fairness.group, document.sensitive
    if group is None or len(names) < 3:
        return ""
    tables = {table.attribute for table in group.tables}
    pairs = [f"{one} and {other}" for one, other in combinations(names, 2)]
    missing = [pair for pair in pairs if pair not in tables]
    if not missing:
        return ""
    return (
        "Pairs of attributes with too many combinations to compare were left out:"
        f" {quoted(missing)}."
    )


def lowest(table: SelectionTable) -> SelectionRow | None:
    """The group with the lowest impact ratio, small ones aside."""
    rows = [row for row in table.rows if not row.is_small and row.impact_ratio.estimate is not None]
    return min(rows, key=lambda row: row.impact_ratio.estimate or 0, default=None)
