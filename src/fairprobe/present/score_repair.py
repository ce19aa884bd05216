"""What a repair of a model of amounts did: sentences and tables."""

from __future__ import annotations

from collections.abc import Callable

from fairprobe.documents.table import (
    MeasuredAmountsDocument,
    ScoreRepairDocument,
)
from fairprobe.documents.verdict import NumberSpread
from fairprobe.present.table import Cell, Table, measure_cell
from fairprobe.report.formats import (
    amount,
    count,
    decimal,
    interval,
    level,
    listed,
    percent,
    plural,
    points,
)

POST_HOC = "post-hoc"
CONTROLS = {
    "blind": "blind (control)",
    "retrained": "trained again without a repair (control)",
    "random points": "trained again with random people (control)",
}


def headline(repair: ScoreRepairDocument) -> str:
    """Accepted, refused, undecided, or accepted although."""
    if repair.outcome == "accepted":
        return "Repair accepted"
    if repair.forced:
        return f"Accepted although it would be {repair.outcome}"
    if repair.outcome == "refused":
        return "Repair refused"
    return "Repair undecided"


def said(repair: ScoreRepairDocument, sensitive: list[str]) -> list[str]:
    """Name reasons against the repair, and what it changed."""
    was, now = repair.before, repair.after
    return [
        *(repair.reasons or repair.doubts),
        (
            f"People in the data whose answer changes with {listed(sensitive)} by"
            f" more than the tolerance: {percent(was.people.estimate)} before,"
            f" {percent(now.people.estimate)}"
            f" after ({level(now.people.confidence)} interval {interval(now.people)}). The mean"
            f" change goes from {_mean(was)} to {_mean(now)}, the mean error on people held out"
            f" from {_error(was)} to {_error(now)}."
        ),
    ]


def _mean(found: MeasuredAmountsDocument) -> str:
    return "–" if found.change.mean.estimate is None else amount(found.change.mean.estimate)


def _error(found: MeasuredAmountsDocument) -> str:
    error = found.quality.error.estimate
    return "–" if error is None else amount(error)


def before_and_after(repair: ScoreRepairDocument, *, controls: bool = True) -> Table:
    """Every measure before and after, and of the controls."""
    models = {"before": repair.before, "after": repair.after}
    if controls:
        models |= {CONTROLS.get(name, name): each for name, each in repair.controls.items()}
    rows: dict[str, Callable[[MeasuredAmountsDocument], str | Cell]] = {
        "mean error, people held out": lambda each: measure_cell(each.quality.error, amount),
        "R², people held out": lambda each: decimal(each.quality.r2),
        "mean change of the answer": lambda each: measure_cell(each.change.mean, amount),
        "people beyond the tolerance": lambda each: measure_cell(each.people),
        "plausible people beyond it": lambda each: measure_cell(each.plausible),
        "possible people beyond it": lambda each: measure_cell(each.dm_rs),
        "cases found by the same search": lambda each: count(each.idis),
    }
    if any(each.plausible is None for each in models.values()):
        del rows["plausible people beyond it"]
    return Table(
        ("", *models),
        [(name, *(read(each) for each in models.values())) for name, read in rows.items()],
    )


def over_seeds(repair: ScoreRepairDocument) -> Table:
    """What the verdict rests on."""
    rows = [
        (
            each.what + (f", by {each.by}" if each.by else "") + ("" if each.is_judged else " *"),
            _spread(each.control),
            _spread(each.repaired),
            Cell(
                points(each.control.mean - each.repaired.mean),
                f"{points(each.low)} to {points(each.high)}",
            ),
        )
        for each in repair.comparisons
    ]
    control = "given model" if repair.start == POST_HOC else "trained again without a repair"
    return Table(("", control, "repaired", "lower by"), rows)


def _spread(each: NumberSpread) -> Cell:
    small = "" if each.least == each.most else f"{percent(each.least)} to {percent(each.most)}"
    return Cell(percent(each.mean), small)


def tradeoff(repair: ScoreRepairDocument) -> Table:
    """The settings of the dial."""
    rows = [
        (
            f"{point.setting:g}" + (" (chosen)" if point.is_chosen else ""),
            percent(point.error),
            decimal(point.change),
            measure_cell(point.affected),
            measure_cell(point.dm_rs),
        )
        for point in repair.curve
    ]
    head = (repair.dial.name, "error", "mean change (sd)", "people affected", "possible people")
    return Table(head, rows)


def how(repair: ScoreRepairDocument) -> str:
    """How it was done and judged."""
    error = "An error of 100 % is that of always answering the mean."
    rule = (
        f" A repair is accepted if at least {percent(repair.min_help)} fewer people are affected,"
        " which must be shown of people held out and of plausible people, and if the error rises by"
        f" no more than {points(repair.limits.max_accuracy_drop)}."
    )
    if repair.start == POST_HOC:
        return (
            f"{repair.title}: nothing was trained. The repair stands around the model, and both"
            f" answered the same people. {error}{rule}"
        )
    began = "fresh weights" if repair.start == "scratch" else "the weights of the given one"
    return (
        f"{repair.title}, {repair.dial.name} {repair.dial.value:g} ({repair.dial.means}). With"
        f" each of {plural(len(repair.seeds), 'seed')} a network was trained twice from {began}:"
        f" with and without the repair. The tolerance is that of the given model. {error}{rule}"
        f" {count(repair.subgroups_compared)} groups of people were compared for a higher error."
    )
