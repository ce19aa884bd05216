"""How a run differs from an earlier one, with an interval.

The interval of a difference is Newcombe's (square and add): each side's own interval is taken as a
standard error at that end, so it needs nothing but the two estimates and their intervals, and
respects that those are not symmetric. It takes the two for independent. Runs on the same people
mostly vary together, and then it is wider than it must be, not narrower.
"""

from __future__ import annotations

from math import hypot

from fairprobe.documents import Search, TableDocument, TableMeasurements
from fairprobe.errors import SettingError
from fairprobe.gate.measures import Measured, measured

DIGITS = 12  # a difference of decimals is exact to these: 0.8 − 0.7 is 0.1


def newcombe(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> tuple[float, float, float]:
    """The difference of two numbers (estimate, low, high), with its interval."""
    (e1, l1, u1), (e2, l2, u2) = one, other
    difference = e1 - e2
    low, high = difference - hypot(e1 - l1, u2 - e2), difference + hypot(u1 - e1, e2 - l2)
    return round(difference, DIGITS), round(low, DIGITS), round(high, DIGITS)


def changes(name: str, document: TableMeasurements, baseline: TableMeasurements) -> list[Measured]:
    """By how much each number of a measure is higher than it was in the baseline."""
    now, before = (
        [each for each in measured(name, document) if not each.is_small],
        {each.what: each for each in measured(name, baseline)},
    )
    if name == "idis" and _budget(document.generation) != _budget(baseline.generation):
        unlike = (
            "the two searches had different methods or budgets, or did not end alike. Audit both"
            " alike"
        )
        return [Measured(f"change in {each.what}", None, missing=unlike) for each in now]
    return [_change(each, before.get(each.what)) for each in now]


def _change(now: Measured, before: Measured | None) -> Measured:
    what = f"change in {now.what}"
    if now.estimate is None:
        return Measured(what, None, missing=now.missing)
    if before is None or before.estimate is None:
        return Measured(
            what,
            None,
            missing="the baseline does not have it. Audit the baseline again, or take another one",
        )
    if now.low is None or now.high is None or before.low is None or before.high is None:
        return Measured(
            what, round(now.estimate - before.estimate, DIGITS), cut_short=now.cut_short
        )
    change, low, high = newcombe(
        (now.estimate, now.low, now.high), (before.estimate, before.low, before.high)
    )
    return Measured(what, change, low, high, now.confidence)


def require_comparable(
    document: TableMeasurements, baseline: TableMeasurements, place: str
) -> None:
    """Refuse a baseline that is about something else."""
    mine, its = _about(document), _about(baseline)
    for what, ours in mine.items():
        if ours != its[what] and None not in (ours, its[what]):
            raise SettingError(
                f"The baseline{place} cannot be compared: its {what} is '{its[what]}', that of the"
                f" run '{ours}'. Name another."
            )


def _about(document: TableMeasurements) -> dict[str, str | None]:
    """What two runs must have in common; None where a run does not have it, so that there is
    nothing to mistake.
    """
    about: dict[str, str | None] = {
        "data set": document.dataset,
        "list of sensitive attributes": ", ".join(document.sensitive),
        "list of classes": None,
        "favourable answer": None,
    }
    if isinstance(document, TableDocument):
        classes, chosen = document.data.classes, document.fairness.positive
        about["list of classes"] = ", ".join(classes)
        about["favourable answer"] = None if chosen is None else classes[chosen]
    return about


def _budget(search: Search | None) -> list[object]:
    """What a search was given, and what ended it."""
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
