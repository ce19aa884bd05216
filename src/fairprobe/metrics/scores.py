"""Measure models that predict amounts: the change with the sensitive attribute, and the scores of
groups.

    c(x)            `Verdict.gap`: the largest |g(x) − g(x')| over a person's counterparts
    c(x) / |g(x)|   `relative`; a person whose answer is 0 and changes has an infinite one
    c(x) / σ        `deviations`; σ is the standard deviation of g over the people in the data
    τ               the tolerance: a person with c(x) > τ is affected
    (law)           the scoring rate of New York City's Local Law 144: the share of a group whose
                    score is above the median of the sample; its impact ratio is that over the
                    highest group's

Changes are about people and their counterparts, groups about the people held out. A difference
between groups may have other causes than the attribute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress
from math import inf, isfinite

import numpy as np
from msgspec.structs import asdict, replace

from fairprobe.arrays import Floats, Ints
from fairprobe.datasets.base import Dataset
from fairprobe.documents.people import (
    AmountQuality,
    Change,
    Level,
    ScoredGroup,
    ScoredGroups,
    SelectionRates,
)
from fairprobe.documents.table import Amounts, TableMeasurements, TableRun
from fairprobe.judgement import Verdict
from fairprobe.measures import (
    Measure,
    Reading,
    by,
    reading_of,
    reading_of_counterparts,
)
from fairprobe.metrics.group import groups_of, selection_rates
from fairprobe.metrics.held_out import features_of, parts_of_groups
from fairprobe.models.scores import ScoreModel
from fairprobe.results import CONFIDENCE, Estimate, Rate
from fairprobe.statistics.groups import Ends, apart
from fairprobe.statistics.means import mean, quantile

LEVELS = (0.5, 0.9, 0.99)  # of changes
GROUP_LEVELS = (0.1, 0.5, 0.9)  # of the scores of groups


def change_of(verdicts: Iterable[Verdict], scale: float) -> Change:
    """Summarize the judge's verdicts about people who have a counterpart."""
    parts = [
        (each.gap[each.has_counterpart], each.probability[each.has_counterpart], each)
        for each in verdicts
    ]
    nobody = np.empty(0)
    gap = np.concatenate([nobody, *(part[0] for part in parts)]).astype(np.float64)
    amount = np.concatenate([nobody, *(part[1] for part in parts)]).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(gap == 0, 0.0, gap / np.abs(amount))
    found = mean(gap, lowest=0.0)
    return Change(
        mean=found,
        deviations=in_deviations(found, scale),
        quantiles=[_level(level, quantile(gap, level, highest=inf)) for level in LEVELS],
        relative=[_level(level, quantile(relative, level, highest=inf)) for level in LEVELS],
        largest=float(gap.max(initial=0.0)),
        above=Rate.of(sum(int(part[2].is_discriminatory.sum()) for part in parts), len(gap)),
        unchanged=int((gap == 0).sum()),
    )


def _level(level: float, estimate: Estimate) -> Level:
    return Level(level=level, **asdict(_finite(estimate)))


def _finite(estimate: Estimate) -> Estimate:
    """Replace what is not bounded by None."""
    value, low, high = (
        None if end is None or not isfinite(end) else end
        for end in (estimate.estimate, estimate.low, estimate.high)
    )
    if value is None:
        low = high = None
    return replace(estimate, estimate=value, low=low, high=high)


def in_deviations(found: Estimate, scale: float) -> Estimate:
    """Convert a number to standard deviations; not defined where all answers are equal."""
    if scale == 0 or found.estimate is None:
        return replace(found, estimate=None, low=None, high=None)
    low, high = (None if end is None else end / scale for end in (found.low, found.high))
    return replace(found, estimate=found.estimate / scale, low=low, high=high)


# -- groups ----------------------------------------------------------------------------------------


def scored_groups(data: Dataset, model: ScoreModel, rows: Ints) -> list[ScoredGroups]:
    """Compare the given rows by each sensitive attribute, and by several together."""
    x = data.x[rows]
    amounts = model.amounts(x)
    features, expected = features_of(data.domain, x)
    is_above = (amounts > np.median(amounts)).astype(np.int64) if len(x) else np.empty(0)
    found = []
    for part in parts_of_groups(features, expected):
        own = {name: features[name] for name in part}
        names = {name: expected[name] for name in part}
        rates = selection_rates(is_above, sensitive_features=own, groups=names)
        codes = groups_of(own, len(x), expected=names).codes
        found.append(_scored(amounts, codes, rates, model.scale))
    return found


def _scored(amounts: Floats, codes: Ints, rates: SelectionRates, scale: float) -> ScoredGroups:
    values = [amounts[codes == place] for place in range(len(rates.rows))]
    groups = [
        ScoredGroup(
            **asdict(row) | {"impact_ratio": _finite(row.impact_ratio)},
            mean=_finite(mean(some)),
            quantiles=[_level(level, _quantile(some, level)) for level in GROUP_LEVELS],
        )
        for row, some in zip(rates.rows, values, strict=True)
    ]
    is_compared = [
        not row.is_small and len(some) > 1 for row, some in zip(rates.rows, values, strict=True)
    ]
    compared = list(compress(values, is_compared))
    left_out = tuple(
        row.name for row, is_in in zip(rates.rows, is_compared, strict=True) if not is_in
    )
    means = _difference(compared, lambda some, sure: mean(some, confidence=sure), left_out)
    return ScoredGroups(
        attribute=rates.attribute,
        rates=groups,
        unknown=rates.unknown,
        smallest=rates.smallest,
        mean_difference=_finite(means),
        mean_difference_sd=_finite(in_deviations(means, scale)),
        quantile_differences=[
            _level(level, _difference(compared, _at(level), left_out)) for level in GROUP_LEVELS
        ],
    )


def _at(level: float) -> Callable[[Floats, float], Estimate]:
    return lambda values, confidence: _quantile(values, level, confidence)


def _quantile(values: Floats, level: float, confidence: float = CONFIDENCE) -> Estimate:
    return quantile(values, level, lowest=-inf, highest=inf, confidence=confidence)


def _difference(
    groups: list[Floats], number: Callable[[Floats, float], Estimate], left_out: tuple[str, ...]
) -> Estimate:
    """Subtract the lowest number of the groups from the highest."""
    samples = sum(map(len, groups))
    if len(groups) < 2:
        return Estimate(None, None, None, samples, left_out=left_out)

    def ends(outside: float) -> Ends:
        found = [number(some, 1 - 2 * outside) for some in groups]
        return Ends(
            *(
                np.array([getattr(each, name) for each in found], dtype=np.float64)
                for name in ("estimate", "low", "high")
            )
        )

    value, low, high = apart(ends, len(groups))
    return Estimate(value, low, high, samples, left_out=left_out)


def amount_quality(data: Dataset, model: ScoreModel, rows: Ints) -> AmountQuality | None:
    """Measure the predictions for the given rows; None where the data has no amounts."""
    if data.amounts is None or len(rows) == 0:
        return None
    true = data.amounts[rows]
    off = true - model.amounts(data.x[rows])
    around = true - true.mean()
    total = float((around**2).sum())
    return AmountQuality(
        rows=len(rows),
        r2=1 - float((off**2).sum()) / total if total else 0.0,
        error=mean(np.abs(off), lowest=0.0),
        error_of_mean=float(np.abs(around).mean()),
    )


# -- how they are read -----------------------------------------------------------------------------


def _reading(
    what: Callable[[TableMeasurements], str],
    read: Callable[[TableRun, Amounts], list[Reading]],
) -> Callable[[TableMeasurements], list[Reading]]:
    """Read runs about amounts; in others the number is missing."""

    def readings(run: TableMeasurements) -> list[Reading]:
        if isinstance(run, TableRun) and run.amounts is not None:
            return read(run, run.amounts)
        missing = "this run is about classes. Audit amounts or scores (--target amount)"
        return [Reading(what=what(run), missing=missing)]

    return readings


def _reader(
    what: str, number: Callable[[Change], Estimate]
) -> Callable[[TableMeasurements], list[Reading]]:
    def text(run: TableMeasurements) -> str:
        return f"{what} by {by(run)}"

    def read(run: TableRun, amounts: Amounts) -> list[Reading]:
        missing = "all answers are equal, or nobody has a counterpart. Check the model"
        change = number(amounts.change)
        return [reading_of_counterparts(run, text(run), change, missing=missing, of="people")]

    return _reading(text, read)


RATIO = "impact ratio of the scoring rates"


def _read_ratio(_: TableRun, amounts: Amounts) -> list[Reading]:
    found = [
        reading_of(
            f"{RATIO} by {table.attribute}: {row.name}",
            row.impact_ratio,
            missing="nobody in the reference group is above the median. Measure more people",
            group=row.name,
            is_small=row.is_small or row.is_empty,
        )
        for table in amounts.groups
        for row in table.rates
    ]
    if any(not each.is_small for each in found):
        return found
    missing = "every group is empty or small. Measure more people, or merge groups"
    return [*found, Reading(what=RATIO, missing=missing)]


MEANS = "difference of mean scores"


def _read_means(_: TableRun, amounts: Amounts) -> list[Reading]:
    return [
        reading_of(
            f"{MEANS} by {table.attribute}, in standard deviations",
            table.mean_difference_sd,
            missing="fewer than two groups are large enough. Measure more people",
        )
        for table in amounts.groups
    ]


def _read_r2(_: TableRun, amounts: Amounts) -> list[Reading]:
    what, quality = "R² on the people measured", amounts.quality
    if quality is None:
        return [Reading(what=what, missing="the data has no true amounts. Give a label column")]
    return [Reading(what=what, estimate=quality.r2, samples=quality.rows)]


CHANGE = Measure(
    name="change",
    title="Mean change of the answer",
    about=(
        "By how much the answer changes between a person and the counterpart whose answer differs"
        " most, the mean over the people in the data, in the unit of the answers."
    ),
    unit="number",
    direction="at most",
    largest=inf,
    read=_reader("mean change of the answer", lambda change: change.mean),
)
CHANGE_SD = Measure(
    name="change_sd",
    title="Mean change in standard deviations",
    about="The mean change of the answer, in standard deviations of the answers over people.",
    unit="number",
    direction="at most",
    largest=inf,
    read=_reader(
        "mean change of the answer in standard deviations",
        lambda change: change.deviations,
    ),
)
CHANGE_P90 = Measure(
    name="change_p90",
    title="Change of the answer, 90th percentile",
    about="Nine in ten people in the data have a change of the answer of at most this much.",
    unit="number",
    direction="at most",
    largest=inf,
    read=_reader("90th percentile of the change", lambda change: change.at(0.9)),
)
SCORING_RATIO = Measure(
    name="scoring_ratio",
    title="Impact ratio of scoring rates",
    about=(
        "The share of a group scored above the median of all, over that of the group with the"
        " highest share."
    ),
    unit="number",
    direction="at least",
    read=_reading(lambda _: RATIO, _read_ratio),
)
MEAN_DIFFERENCE = Measure(
    name="mean_difference",
    title="Difference of mean scores",
    about=(
        "The highest minus the lowest mean score of the groups, in standard deviations of all"
        " scores."
    ),
    unit="number",
    direction="at most",
    largest=inf,
    read=_reading(lambda _: MEANS, _read_means),
)
R2 = Measure(
    name="r2",
    title="R²",
    about="The share of the variance of the amounts that the model explains.",
    unit="number",
    direction="at least",
    read=_reading(lambda _: "R²", _read_r2),
    favors_constant=False,
)
