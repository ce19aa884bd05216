"""Mutated pictures against all that they could be mistaken for: originals, usual mutations, real
pictures, and in-painting alone.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 4.1, 5, algorithm 4).

    paper                                       here
    RQ1, figure 3a: GT against MT               `overlap`
    RQ2, figure 3b: violations of the originals `original_accuracy`, `Overlap`
    RQ2: Mann–Whitney U of picture error rates  `against_original`, `against_usual`
    RQ2, table 8: OOD against ID                `against_usual`
    RQ3, table 9: seconds by operator           `times`
    RQ5, table 11, algorithm 4: OOD_Oracle      `against_real`, `expected_counts`
    RQ6, table 12: error-inducing pictures      `unmodified_accuracy`

The error rate of a picture is Σ_c |n_c − GT_c| / Σ_c GT_c over all classes but the mutated one. An
original has no mutated class, so it enters once for each class that was mutated in it, with that
class left out. The test takes pictures for independent, which those of one scene are not: its p is
too small, and `RankTest.superiority`, the size of the effect, stands beside it.

Accuracy is Σ min(n_c, true_c) / Σ true_c: objects found of those that are there; what is found
beyond is not counted (the paper is silent). Algorithm 4 forgets an inserted class of which the
original has no object; here it is expected as often as it was inserted.

Beside the paper: `against_control` sets every class's rate against its rate after the same
in-painting on plain background.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.errors import SettingError
from fairprobe.scenes.analysis import RESAMPLES, Analysis, Total, analyses, check, totals
from fairprobe.scenes.evidence import TINY, Cells, drawn, finite, rates_of, reach, spread
from fairprobe.scenes.oracles import Oracle, Test
from fairprobe.statistics.ranks import RankTest, rank_test
from fairprobe.statistics.rates import CONFIDENCE

Violation: TypeAlias = tuple[str, str]  # recogniser, class
Cause = Literal["mutation", "in-painting", "not distinguishable", "no errors"]


@dataclass(frozen=True)
class Original:
    """One original picture shown to one recogniser."""

    scene: str
    detector: str
    annotation: Counter[str]
    found: Counter[str]
    truth: Counter[str]
    """The annotation and what all recognisers found (`reference_counts`)."""


# -- against originals -----------------------------------------------------------------------------


def picture_error_rate(
    found: Counter[str], truth: Counter[str], left_out: str = ""
) -> float | None:
    """Σ |n − GT| / Σ GT without one class; None where nothing else is there."""
    labels = ({*found} | {*truth}) - {left_out}
    there = sum(truth[label] for label in labels)
    return sum(abs(found[label] - truth[label]) for label in labels) / there if there else None


def against_original(tests: Iterable[Test]) -> RankTest:
    """The error rates of unusual pictures (first) and of their originals (second)."""
    unusual = [test for test in tests if test.kind == "ood"]
    originals = {
        (test.scene, test.detector, test.label): picture_error_rate(
            test.original, test.truth, test.label
        )
        for test in unusual
    }
    return rank_test(
        _picture_rates(unusual), [rate for rate in originals.values() if rate is not None]
    )


def _picture_rates(tests: Iterable[Test]) -> list[float]:
    rates = (picture_error_rate(test.found, test.truth, test.label) for test in tests)
    return [rate for rate in rates if rate is not None]


# -- unusual against usual mutations ---------------------------------------------------------------


@dataclass(frozen=True)
class UsualComparison:
    """Insertion beyond the distribution and within it, by one oracle (table 8). Gains are in per
    cent of the usual rate.
    """

    oracle: Oracle
    unusual: Total
    usual: Total
    violation_gain: float | None
    error_gain: float | None

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "unusual": self.unusual.to_dict(), "usual": self.usual.to_dict()}


def against_usual(
    tests: Sequence[Test], *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[tuple[UsualComparison, ...], RankTest]:
    """OOD against ID insertion: the first repeat of each, and no class is too rare, as in the
    paper. Also the pictures' error rates.
    """
    first = [test for test in tests if test.operator == "insert" and test.repeat == 0]
    unusual, usual = (
        {
            total.name: total
            for total in totals(
                analyses(first, kind=kind, fewest=1, resamples=resamples, seed=seed),
                lambda one: one.oracle,
            )
        }
        for kind in ("ood", "id")
    )
    rows = tuple(
        UsualComparison(
            oracle,
            unusual[oracle],
            usual[oracle],
            gain(unusual[oracle].violation_rate, usual[oracle].violation_rate),
            gain(unusual[oracle].error_rate, usual[oracle].error_rate),
        )
        for oracle in ("gt", "inclusion", "exclusion")
        if oracle in unusual and oracle in usual
    )
    rates = (_picture_rates(test for test in first if test.kind == kind) for kind in ("ood", "id"))
    return rows, rank_test(*rates)


def gain(value: float, base: float) -> float | None:
    """By how many per cent `value` is above `base`; None where the base is 0."""
    return 100 * (value - base) / base if base else None


# -- which violations each way of looking finds ----------------------------------------------------


@dataclass(frozen=True)
class Overlap:
    """Violations that two ways of looking find: both, and each alone."""

    both: frozenset[Violation]
    only_first: frozenset[Violation]
    only_second: frozenset[Violation]

    @property
    def covered(self) -> float | None:
        """The share of the second's violations that the first finds as well."""
        return _part(len(self.both), len(self.both) + len(self.only_second))

    @property
    def alone(self) -> float | None:
        """The share of all violations that only the first finds."""
        return _part(
            len(self.only_first), len(self.both) + len(self.only_first) + len(self.only_second)
        )

    def to_dict(self) -> dict[str, Any]:
        parts = {name: [list(one) for one in sorted(part)] for name, part in vars(self).items()}
        return {**parts, "covered": self.covered, "alone": self.alone}


def overlap(first: Collection[Violation], second: Collection[Violation]) -> Overlap:
    """MT (first) and GT: `covered` is how far MT stands in for GT. Mutants (first) and originals:
    `alone` is what only mutants show.
    """
    a, b = frozenset(first), frozenset(second)
    return Overlap(a & b, a - b, b - a)


def violations(several: Iterable[Analysis], oracles: Collection[Oracle]) -> set[Violation]:
    """What these oracles find over all operators, by the paper's rule."""
    return {
        (one.detector, label)
        for one in several
        if one.oracle in oracles
        for label in one.violations
    }


def original_accuracy(
    originals: Iterable[Original], *, fewest: int = 1
) -> dict[str, dict[str, float]]:
    """Of each recogniser the accuracy of every class with at least `fewest` objects on the
    unmutated pictures.
    """
    hits: dict[str, Counter[str]] = {}
    there: dict[str, Counter[str]] = {}
    for one in originals:
        hits.setdefault(one.detector, Counter()).update(one.found & one.truth)
        there.setdefault(one.detector, Counter()).update(one.truth)
    return {
        detector: {
            label: hits[detector][label] / count
            for label, count in sorted(counts.items())
            if count >= max(fewest, 1)
        }
        for detector, counts in there.items()
    }


def original_violations(accuracy: Mapping[str, Mapping[str, float]]) -> set[Violation]:
    """Classes whose accuracy is below the mean of all classes: what one finds without any
    mutation.
    """
    return {
        (detector, label)
        for detector, classes in accuracy.items()
        for label, value in classes.items()
        if value < float(np.mean(list(classes.values()))) - TINY
    }


# -- against real pictures, and of what was not touched --------------------------------------------


@dataclass(frozen=True)
class AccuracyPair:
    """The accuracy of one recogniser on mutated pictures and on what they are compared with."""

    detector: str
    pairs: int
    objects: int
    mutated: float | None
    other: float | None

    @property
    def relative(self) -> float | None:
        """The accuracy on mutated pictures, in per cent of the other."""
        return None if self.mutated is None or not self.other else 100 * self.mutated / self.other

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "relative": self.relative}


def expected_counts(
    annotation: Counter[str], labels: Collection[str], inserted: str, count: int
) -> Counter[str]:
    """Algorithm 4: the objects of these classes after an insertion."""
    counts = annotation + Counter({inserted: count})
    return Counter({label: counts[label] for label in labels if counts[label]})


def against_real(
    tests: Iterable[Test], originals: Sequence[Original], labels: Collection[str], *, seed: int = 0
) -> tuple[AccuracyPair, ...]:
    """RQ5: each unusual insertion beside a real picture, drawn at random, with the same number of
    objects of all `labels` by annotation.

    Insertions for which there is no such picture are left out.
    """
    rng = np.random.default_rng(seed)
    annotation = {one.scene: one.annotation for one in originals}
    alike: dict[tuple[str, frozenset[tuple[str, int]]], list[Original]] = {}
    for one in sorted(originals, key=lambda one: one.scene):
        alike.setdefault(
            (one.detector, _key(expected_counts(one.annotation, labels, "", 0))), []
        ).append(one)
    sums: dict[str, Counter[str]] = {one.detector: Counter() for one in originals}
    chosen = (
        test
        for test in tests
        if test.operator == "insert" and test.kind == "ood" and test.scene in annotation
    )
    for test in sorted(chosen, key=lambda one: (one.detector, one.scene, one.label, one.repeat)):
        expected = expected_counts(annotation[test.scene], labels, test.label, test.objects)
        real = alike.get((test.detector, _key(expected)), [])
        if real:
            other = real[int(rng.integers(len(real)))]
            _add(sums[test.detector], expected, test.found, other.found)
    return _pairs(sums)


def unmodified_accuracy(
    inducing: Iterable[Test], annotations: Mapping[str, Counter[str]]
) -> tuple[AccuracyPair, ...]:
    """RQ6: on pictures that show an error, the accuracy on the classes that were not mutated, and
    on the same classes in the originals.
    """
    sums: dict[str, Counter[str]] = {}
    for test in inducing:
        expected = Counter(annotations[test.scene])
        del expected[test.label]
        _add(sums.setdefault(test.detector, Counter()), expected, test.found, test.original)
    return _pairs(sums)


def _key(counts: Counter[str]) -> frozenset[tuple[str, int]]:
    return frozenset(counts.items())


def _add(
    sums: Counter[str], expected: Counter[str], mutated: Counter[str], other: Counter[str]
) -> None:
    sums.update(
        pairs=1,
        objects=expected.total(),
        mutated=(mutated & expected).total(),
        other=(other & expected).total(),
    )


def _pairs(sums: Mapping[str, Counter[str]]) -> tuple[AccuracyPair, ...]:
    return tuple(
        AccuracyPair(
            name,
            one["pairs"],
            one["objects"],
            _part(one["mutated"], one["objects"]),
            _part(one["other"], one["objects"]),
        )
        for name, one in sorted(sums.items())
    )


def _part(some: int, of: int) -> float | None:
    return some / of if of else None


# -- against in-painting alone ---------------------------------------------------------------------


@dataclass(frozen=True)
class ControlRate:
    """One class: its rate after the mutation and after in-painting alone, and the 95 % interval of
    the difference.
    """

    label: str
    rate: float
    control: float
    difference: float
    low: float | None
    high: float | None
    cause: Cause
    """The mutation: the difference is surely above 0. The in-painting: it is not, and in-painting
    alone makes half of the rate or more.
    """


@dataclass(frozen=True)
class ControlComparison:
    """What the in-painting itself explains, class by class."""

    detector: str
    operator: str
    oracle: Oracle
    classes: tuple[ControlRate, ...]
    resamples: int

    def to_dict(self) -> dict[str, Any]:
        return {
            **vars(self),
            "classes": [vars(one) for one in self.classes],
            "confidence": CONFIDENCE,
        }


def against_control(
    tests: Sequence[Test],
    controls: Sequence[Test],
    oracle: Oracle,
    labels: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ControlComparison:
    """The tests of one recogniser and operator against its controls, on the scenes that have both;
    `labels` are those of an analysis.

    Intervals are not corrected for the number of classes: they qualify what the analysis found, and
    find nothing themselves.
    """
    check(tests, resamples)
    check(controls, resamples)
    if tests and controls and tests[0].detector != controls[0].detector:
        raise SettingError(
            f"Tests and controls are of two recognisers: {tests[0].detector} and"
            f" {controls[0].detector}. Give those of one."
        )
    common = {test.scene for test in tests} & {test.scene for test in controls}
    cells = [
        Cells.of([test for test in part if test.scene in common], oracle, labels)
        for part in (tests, controls)
    ]
    shared = sorted({label for label in labels if all(one.shows(label) for one in cells)})
    rows = _control_rates(
        [one.only(np.isin(one.labels, shared)) for one in cells],
        drawn(len(common), resamples, np.random.default_rng(seed)),
    )
    return ControlComparison(
        tests[0].detector if tests else "",
        tests[0].operator if tests else "",
        oracle,
        rows,
        resamples,
    )


def _control_rates(cells: Sequence[Cells], weights: Floats) -> tuple[ControlRate, ...]:
    errors, objects = (
        [one.by_scene(one.errors) for one in cells],
        [one.by_scene(one.objects) for one in cells],
    )
    rates = [
        rates_of(error.sum(axis=0), there.sum(axis=0))
        for error, there in zip(errors, objects, strict=True)
    ]
    moved = [
        rates_of(weights @ error, weights @ there, rate)
        for error, there, rate in zip(errors, objects, rates, strict=True)
    ]
    difference = rates[0] - rates[1]
    if not len(difference):
        return ()
    wide = [
        spread(moved[0] - moved[1], errors[at], objects[at], float(rates[at].mean()))
        for at in (0, 1)
    ]
    scenes = ((objects[0] > 0) & (objects[1] > 0)).sum(axis=0)
    around = reach(scenes, (1 - CONFIDENCE) / 2) * np.maximum(np.maximum(*wide), TINY)
    return tuple(
        ControlRate(
            label=label,
            rate=float(rates[0][at]),
            control=float(rates[1][at]),
            difference=float(difference[at]),
            low=finite(difference[at] - around[at]),
            high=finite(difference[at] + around[at]),
            cause=_cause(
                float(rates[0][at]), float(rates[1][at]), float(difference[at] - around[at])
            ),
        )
        for at, label in enumerate(cells[0].labels)
    )


def _cause(rate: float, control: float, low: float) -> Cause:
    if rate <= TINY:
        return "no errors"
    if low > TINY:
        return "mutation"
    return "in-painting" if control >= rate / 2 else "not distinguishable"


# -- time ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Time:
    """How long an operator took (table 9)."""

    operator: str
    images: int
    seconds: float

    @property
    def each(self) -> float | None:
        """Seconds for one picture."""
        return self.seconds / self.images if self.images else None

    @property
    def an_hour(self) -> float | None:
        """Pictures in an hour."""
        return 3600 * self.images / self.seconds if self.seconds else None

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "each": self.each, "an_hour": self.an_hour}


def times(taken: Iterable[tuple[str, float]]) -> tuple[Time, ...]:
    """From the operator and seconds of every picture: each operator, and all together as
    "total".
    """
    seconds: dict[str, list[float]] = {}
    for operator, second in taken:
        seconds.setdefault(operator, []).append(second)
    rows = [
        Time(operator, len(parts), float(sum(parts))) for operator, parts in sorted(seconds.items())
    ]
    return (
        *rows,
        Time("total", sum(row.images for row in rows), float(sum(row.seconds for row in rows))),
    )
