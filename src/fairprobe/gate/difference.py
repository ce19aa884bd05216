"""How a run differs from an earlier one, with an interval.

The interval takes the two runs for independent. Runs on the same people mostly vary together, and
then it is wider than it must be, not narrower.
"""

from __future__ import annotations

from collections.abc import Collection

from fairprobe.catalogue import MEASURES
from fairprobe.documents.table import Search, TableMeasurements, TableRun
from fairprobe.errors import SettingError
from fairprobe.measures import Measurements, Reading
from fairprobe.statistics.rates import newcombe

SEARCHED = ("idis", "input_space", "distance")  # measures of the search itself
DIGITS = 12  # a difference of decimals is exact to these: 0.8 − 0.7 is 0.1


def changes(name: str, document: Measurements, baseline: Measurements) -> list[Reading]:
    """By how much each number of a measure is higher than it was in the baseline."""
    measure = MEASURES[name]
    now = [each for each in measure.readings(document) if not each.is_small]
    before = {each.what: each for each in measure.readings(baseline)}
    if name in SEARCHED and _budget(_generation(document)) != _budget(_generation(baseline)):
        unlike = (
            "the two searches had different settings or budgets, or did not end alike. Audit both"
            " alike"
        )
        return [Reading(what=f"change in {each.what}", missing=unlike) for each in now]
    return [_change(each, before.get(each.what)) for each in now]


def _change(now: Reading, before: Reading | None) -> Reading:
    what = f"change in {now.what}"
    if now.estimate is None:
        return Reading(what=what, missing=now.missing)
    if before is None or before.estimate is None:
        missing = "the baseline does not have it. Audit the baseline again, or take another one"
        return Reading(what=what, missing=missing)
    if now.low is None or now.high is None or before.low is None or before.high is None:
        change = round(now.estimate - before.estimate, DIGITS)
        return Reading(what=what, estimate=change, cut_short=now.cut_short)
    change, low, high = (
        round(number, DIGITS)
        for number in newcombe(
            (now.estimate, now.low, now.high), (before.estimate, before.low, before.high)
        )
    )
    return Reading(what=what, estimate=change, low=low, high=high, confidence=now.confidence)


def require_comparable(
    document: Measurements,
    baseline: Measurements,
    place: str,
    measures: Collection[str],
) -> None:
    """Refuse a baseline that is about something else, or one whose findings were searched for by
    another method, if these measures count findings.
    """
    mine, its = _about(document), _about(baseline)
    if isinstance(document, TableMeasurements) and isinstance(baseline, TableMeasurements):
        both = (document.counterparts, baseline.counterparts)
        if any(each.couplings for each in both):
            for about, each in zip((mine, its), both, strict=True):
                about["kind of counterparts"] = each.kind
    for what, ours in mine.items():
        if ours != its[what] and None not in (ours, its[what]):
            raise SettingError(
                f"The baseline{place} cannot be compared: its {what} is '{its[what]}', that of the"
                f" run '{ours}'. Name another."
            )
    searches = _generation(document), _generation(baseline)
    if "idis" in measures and None not in searches:
        now, before = (_search(each) for each in searches if each is not None)
        if now != before:
            raise SettingError(
                f"The baseline{place} cannot be compared: it was made by {before}, the run by"
                f" {now}, and their numbers of findings (idis) say nothing about each other. Audit"
                " the baseline again like the run, or leave idis out of [baseline]."
            )


def _search(search: Search) -> str:
    return f"the search '{search.method}' among {search.people} people"


def _generation(document: Measurements) -> Search | None:
    return document.generation if isinstance(document, TableMeasurements) else None


def _about(document: Measurements) -> dict[str, str | None]:
    """Return what two runs must have in common; None where a run does not have it, so that there is
    nothing to mistake.
    """
    about: dict[str, str | None] = {
        "kind": document.kind,
        "data set": document.dataset,
        "list of sensitive attributes": ", ".join(document.sensitive),
        "list of classes": None,
        "favourable answer": None,
        "tolerance": None,
    }
    if isinstance(document, TableRun) and document.amounts is not None:
        given = document.amounts.tolerance
        about["tolerance"] = f"{given.value:g} ({given.unit})"
    if isinstance(document, TableRun) and document.fairness is not None:
        classes, chosen = document.data.classes, document.fairness.positive
        about["list of classes"] = ", ".join(classes)
        about["favourable answer"] = None if chosen is None else classes[chosen]
    if not isinstance(document, TableMeasurements):
        about["list of classes"] = ", ".join(getattr(document.model, "classes", ()))
    return about


def _budget(search: Search | None) -> list[object]:
    """Return the budget of a search, and what ended it."""
    if search is None:
        return []
    return [
        search.method,
        search.variant,
        search.settings,
        search.seeds,
        search.global_iterations,
        search.local_iterations,
        search.stopped,
    ]
