"""Sections about what follows an audit: the repair of the model, and the answers of a chat
endpoint.
"""

from __future__ import annotations

from collections.abc import Sequence

from fairprobe.documents import RepairDocument
from fairprobe.documents.chat import ChatDocument
from fairprobe.documents.table import ScoreRepairDocument
from fairprobe.present import (
    chat_sentences,
    repair_figures,
    repair_sentences,
    score_repair,
    table,
)
from fairprobe.report import (
    Cell,
    Line,
    Lines,
    Notes,
    Plot,
    Section,
    Table,
    Text,
    Verdict,
)
from fairprobe.report.sections import Status


def repair_section(repair: RepairDocument, name: str, classes: Sequence[str]) -> Section:
    """Show what the repair did."""
    say = repair_sentences
    statuses: dict[str, Status] = {"accepted": "none", "refused": "found"}
    return Section(
        "Repair",
        [
            Verdict(say.headline(repair), "", statuses.get(say.outcome(repair), "unclear")),
            Notes([*say.reasons(repair), *say.changed(repair, name)]),
            Section(
                "What the repair did",
                [
                    Text(say.how(repair)),
                    converted(repair_figures.before_and_after(repair, classes)),
                    Text(say.which_are_constant(repair), "warning"),
                    Text(f"{say.compared_title(repair)}. {say.over_seeds(repair, name)}"),
                    Text(f"{say.delivered(repair)} {say.groups_compared(repair)}", "note"),
                    converted(repair_figures.over_seeds(repair), folded=True),
                    _tradeoff(repair),
                    converted(repair_figures.subgroups(repair), folded=True),
                    converted(repair_figures.other_attributes(repair), folded=True),
                ],
                anchor="repair",
            ),
        ],
        level="summary",
    )


def _tradeoff(repair: RepairDocument) -> Plot | None:
    """Show accuracy and individual fairness for each strength of the repair."""
    curve = repair_figures.curve(repair)
    if curve is None:
        return None
    points = [
        (repair_figures.setting(point), point.accuracy.estimate, point.ifr_p.estimate)
        for point in repair.curve
        if point.ifr_p.estimate is not None
    ]
    marks = [(label, x, y or 0.0) for label, x, y in points]
    line = Line("", [x for _, x, _ in marks], [y for *_, y in marks], is_dashed=True)
    chart = Lines([line], "accuracy", "IFR_p", "share", "share", marks)
    return Plot(curve.heading, chart, curve.caption, converted(curve.table))


def amounts_repair_section(repair: ScoreRepairDocument, sensitive: list[str]) -> Section:
    """Show what the repair of a model of amounts did."""
    statuses: dict[str, Status] = {"accepted": "none", "refused": "found", "undecided": "unclear"}
    return Section(
        "Repair",
        [
            Verdict(score_repair.headline(repair), "", statuses[repair.outcome]),
            Notes(score_repair.said(repair, sensitive)),
            Section(
                "What the repair did",
                [
                    Text(score_repair.how(repair)),
                    converted(score_repair.before_and_after(repair)),
                    converted(score_repair.over_seeds(repair), folded=True),
                    converted(score_repair.tradeoff(repair), folded=True),
                ],
                anchor="repair",
            ),
        ],
        level="summary",
    )


def chat_section(chat: ChatDocument) -> Section:
    """Show whether the answers of a chat endpoint lean to one sensitive value."""
    return Section(
        "How the answers lean",
        [converted(chat_sentences.leanings_table(chat))] if chat.leanings else [],
        anchor="leaning",
    )


def converted(old: table.Table | None, *, folded: bool = False) -> Table | None:
    """Convert a table of sentences' modules."""
    if old is None:
        return None
    rows = [
        [
            Cell(cell.text, cell.small, cell.remark, "" if cell.kind == "words" else cell.kind)
            for cell in row
        ]
        for row in old.cells
    ]
    return Table(old.head, rows, old.title, old.words, folded)
