"""What the report and the terminal show of an audit of scores: the tables, and the page."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from fairprobe.documents import ScoresDocument
from fairprobe.documents.scores import Change, ScoredGroups
from fairprobe.present import counterparts, pair_sentences, score_repair
from fairprobe.present import score_sentences as say
from fairprobe.present.score_python import python
from fairprobe.present.table import Cell, Table, measure_cell
from fairprobe.report.formats import (
    amount,
    count,
    percent,
    plain,
    ratio,
    seconds,
    with_interval,
)

NAMES = {0.5: "median", 0.9: "90th percentile", 0.99: "99th percentile"}
GROUPS = 12  # rows of a table of groups on the terminal


def scores_summary(document: ScoresDocument) -> RenderableType:
    """The verdict, the numbers, the groups and one pair, for a terminal."""
    title = Text(plain(say.title(document)))
    parts: list[RenderableType] = [
        Panel(Text(plain(document.verdict)), title=title, title_align="left"),
        numbers(document).terminal(),
    ]
    if document.repair is not None:
        text = Text(plain("\n".join(score_repair.said(document))))
        headline = Text(plain(score_repair.headline(document.repair)))
        models = score_repair.before_and_after(document.repair, controls=False).terminal()
        parts = [Panel(text, title=headline, title_align="left"), models, *parts]
    for table in document.groups[:1] + document.groups[1:][-1:]:
        parts += [Text(), groups_table(table, most=GROUPS).terminal()]
    if document.score_pairs:
        parts += [Text(), *_pair(document)]
    return Group(*parts)


def numbers(document: ScoresDocument) -> Table:
    """The numbers that carry the verdict, each in a line."""
    change, found, common = document.change, document.generation, document.dm_rs
    above, relative = change.above, change.relative
    rows = {
        "Tolerance": say.tolerance(document)
        + (" (nobody set one: --tolerance)" if document.tolerance.is_default else ""),
        "People in the data beyond it": (
            f"{count(above.hits)} of {count(above.samples)}  = {with_interval(above)}"
        ),
        "Mean change of the answer": with_interval(change.mean, amount),
        "in standard deviations": with_interval(change.deviations, ratio),
        "Median and 90th percentile": f"{say.at(change.at(0.5))}; {say.at(change.at(0.9))}",
        "relative to the answer, median": (
            "not bounded" if relative[0].estimate is None else percent(relative[0].estimate)
        ),
        "Largest change in the data": amount(change.largest),
        **_plausible(document),
        "Possible people beyond it": (
            f"{count(common.hits)} of {count(common.samples)} sampled  = {with_interval(common)}"
        ),
        "Cases found by the search": (
            f"{count(found.idis)} different"
            + (
                ""
                if document.largest_found is None
                else f"; largest change {amount(document.largest_found)}"
            )
        ),
        "How well it predicts": say.quality(document),
        "Time of the search": (
            f"{seconds(found.wall_seconds)} with {found.method}, seed {document.seed}"
        ),
    }
    return Table(("", ""), list(rows.items()), words=(0, 1))


def _plausible(document: ScoresDocument) -> dict[str, str]:
    if (found := document.plausible_change) is None:
        return {}
    return {
        "Plausible people beyond it": (
            f"{count(found.above.hits)} of {count(found.above.samples)} made  ="
            f" {with_interval(found.above)}; mean change {with_interval(found.mean, amount)}"
        )
    }


def change_table(found: Change) -> Table:
    """The change of the answer: amounts, and relative to the person's own answer."""
    rows: list[list[Cell | str]] = [["mean", measure_cell(found.mean, amount), "–"]]
    for mine, own in zip(found.quantiles, found.relative, strict=True):
        share = "not bounded" if own.estimate is None else percent(own.estimate)
        rows.append([NAMES[mine.level], say.at(mine), share])
    rows.append(["largest", amount(found.largest), "–"])
    return Table(("", "change of the answer", "relative to the answer"), rows)


def groups_table(found: ScoredGroups, *, most: int | None = None) -> Table:
    """How groups are scored."""
    rows: list[list[Cell | str]] = [
        [
            row.name + (" (small)" if row.is_small else ""),
            count(row.samples),
            measure_cell(row),
            measure_cell(row.impact_ratio, ratio),
            measure_cell(row.mean, amount),
            Cell("–" if (middle := row.quantiles[1]).estimate is None else amount(middle.estimate)),
        ]
        for row in found.rates
        if not row.is_empty
    ]
    hidden = 0 if most is None else max(0, len(rows) - most)
    head = (found.attribute, "people", "scoring rate", "impact ratio", "mean", "median")
    shown = rows[: len(rows) - hidden]
    if hidden:
        shown.append([f"and {count(hidden)} more in the report", "", "", "", "", ""])
    return Table(head, shown)


def _pair(document: ScoresDocument) -> list[RenderableType]:
    pair = document.score_pairs[0]
    rows = [
        *([name, *values] for name, values in pair.sensitive.items()),
        [document.data.label, amount(pair.answer), amount(pair.answer_other)],
    ]
    table = Table(("A pair", "one", "the other"), rows, words=(0, 1, 2))
    return [
        table.terminal(),
        Text.assemble(("Both: ", "bold"), pair_sentences.shared(pair)),
    ]


def page(document: ScoresDocument) -> dict[str, Any]:
    """The template's variables."""
    return {
        "document": document,
        "name": say.sensitive(document),
        "noun": say.noun(document),
        "status": say.status(document),
        "say": say,
        "say_repair": score_repair,
        "say_pair": pair_sentences,
        "say_counterparts": counterparts,
        "change_table": change_table,
        "groups_table": groups_table,
        "numbers": numbers(document),
        "python": python(document),
    }
