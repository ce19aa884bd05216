"""Mutated pictures against originals, usual mutations, real pictures, and in-painting alone.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 4.1, 5).

    paper                                       here
    RQ1, figure 3a: GT against MT               `OracleOverlap`
    RQ2, figure 3b: violations of the originals `OriginalsOverlap`; of originals no class is too
                                                rare, as in the paper
    RQ2: Mann–Whitney U of picture error rates  `against_original`, `against_usual`
    RQ2, table 8: OOD against ID                `against_usual`
    RQ3, table 9: seconds by operator           `times`, of the unusual pictures, as in table 6
    RQ5, RQ6, figure 2: accuracy                `scenes.accuracy`

The error rate of a picture is Σ_c |n_c − GT_c| / Σ_c GT_c over all classes but the mutated one. An
original has no mutated class, so it enters once for each class that was mutated in it, with that
class left out. The test assumes independent pictures, which those of one scene are not: its p is
too small, and `RankTest.superiority`, the size of the effect, stands beside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import field

from fairprobe.errors import SettingError
from fairprobe.results import Count, RankTest, Result, Seconds, Share, check_interval
from fairprobe.scenes.accuracy import (
    ClassAccuracy,
    Original,
    ReferenceComparison,
    Violation,
    against_real,
    class_accuracies,
    original_accuracy,
    original_violations,
    part,
    unmodified_accuracy,
)
from fairprobe.scenes.analysis import (
    ALL,
    Analysis,
    Total,
    analyses,
    check_tests,
    inducing_tests,
    totals,
)
from fairprobe.scenes.collect import Evidence
from fairprobe.scenes.intervals import correlation, difference, finite, rate_interval
from fairprobe.scenes.oracles import TINY, Cells, Operator, Oracle, Test
from fairprobe.scenes.quality import ImageQuality
from fairprobe.scenes.realism_check import OperatorRealism
from fairprobe.statistics.ranks import rank_test

TRUTH: tuple[Oracle, ...] = ("gt",)
METAMORPHIC: tuple[Oracle, ...] = ("inclusion", "exclusion")


Cause: TypeAlias = Literal["mutation", "in-painting", "not distinguishable", "no errors"]


class UsualComparison(Result, frozen=True, kw_only=True):
    """Insertion beyond the distribution and within it (table 8); gains in percent of the latter."""

    detector: str
    oracle: Oracle
    unusual: Total
    usual: Total
    violation_gain: float | None
    error_gain: float | None


class OracleOverlap(Result, frozen=True, kw_only=True):
    """Violations by the ground truth and by the metamorphic oracle."""

    detector: str
    gt: Count
    mt: Count
    both: Count
    covered: Share | None


class OriginalsOverlap(Result, frozen=True, kw_only=True):
    """Violations found on originals alone and by mutating them."""

    originals: Count
    mutants: Count
    both: Count
    only_mutants: Share | None
    covered: Share | None


class ControlRate(Result, frozen=True, kw_only=True):
    """The rate of a class after the mutation and after in-painting alone, and their difference.

    The cause is the mutation if the difference is above 0 beyond chance; the in-painting if not,
    and in-painting alone makes half of the rate or more.
    """

    detector: str
    operator: Operator
    oracle: Oracle
    label: str
    rate: float
    control: float
    difference: float
    low: float | None
    high: float | None
    cause: Cause

    def __post_init__(self) -> None:
        check_interval(self.low, self.difference, self.high)


class OperatorTime(Result, frozen=True, kw_only=True):
    """Seconds for one picture (table 9)."""

    operator: Literal["insert", "delete", "rotate", "total"]
    images: Count
    seconds: Seconds | None


class Comparisons(Result, frozen=True, kw_only=True):
    """The paper's comparisons and the controls; empty where nothing was tested.

    Rank tests are those of each recognizer: error rates of mutated pictures (first) and others.
    """

    ood_vs_original: dict[str, RankTest] = field(default_factory=dict)
    ood_vs_id: dict[str, RankTest] = field(default_factory=dict)
    ood_vs_control: dict[str, RankTest] = field(default_factory=dict)
    usual: list[UsualComparison] = field(default_factory=list)
    overlaps: list[OracleOverlap] = field(default_factory=list)
    originals: OriginalsOverlap | None = None
    accuracies: list[ClassAccuracy] = field(default_factory=list)
    causes: list[ControlRate] = field(default_factory=list)
    rq5: list[ReferenceComparison] = field(default_factory=list)
    rq6: list[ReferenceComparison] = field(default_factory=list)
    times: list[OperatorTime] = field(default_factory=list)
    quality: ImageQuality | None = None
    realism: list[OperatorRealism] = field(default_factory=list)


def compare(
    evidence: Evidence,
    results: Sequence[Analysis],
    quality: ImageQuality,
    realism: list[OperatorRealism],
) -> Comparisons:
    """Make all comparisons, recognizer by recognizer."""
    seed = evidence.settings.seed
    annotations, truth = evidence.annotations(), evidence.truth()
    originals = [
        Original(name, detector, annotations[name], counts, truth[name])
        for detector in evidence.originals
        for name, counts in evidence.counts(detector).items()
    ]
    names = [detector.name for detector in evidence.detectors]
    tests = {
        name: own for name in names if (own := [t for t in evidence.tests if t.detector == name])
    }
    usual = {name: against_usual(own, seed=seed) for name, own in tests.items()}
    single = [result for result in results if result.kind == "ood" and result.operator != ALL]
    inducing = {
        id(test): test
        for result in single
        if result.oracle == "gt"
        for test in inducing_tests(result, evidence.tests)
    }
    plain = original_violations(original_accuracy(originals))  # no class is too rare
    mutants = violations(single, (*TRUTH, *METAMORPHIC))
    return Comparisons(
        ood_vs_original={name: against_original(own) for name, own in tests.items()},
        ood_vs_id={name: ranks for name, (_, ranks) in usual.items() if ranks.second},
        ood_vs_control={name: against_inpainting(own) for name, own in tests.items()},
        usual=[row for rows, _ in usual.values() for row in rows],
        overlaps=[
            _overlap(name, [result for result in single if result.detector == name])
            for name in names
        ],
        originals=OriginalsOverlap(
            originals=len(plain),
            mutants=len(mutants),
            both=len(mutants & plain),
            only_mutants=share_alone(mutants, plain),
            covered=share_covered(mutants, plain),
        ),
        accuracies=class_accuracies(originals, evidence.tests, fewest=evidence.settings.fewest),
        causes=list(_causes(evidence, single)),
        rq5=against_real(evidence.tests, originals, evidence.settings.labels("insert"), seed=seed),
        rq6=unmodified_accuracy(inducing.values(), annotations),
        times=times(
            (made.task.operator, made.seconds)
            for made in evidence.made.values()
            if made.task.kind == "ood"
        ),
        quality=quality,
        realism=realism,
    )


def _overlap(detector: str, own: Sequence[Analysis]) -> OracleOverlap:
    truth, metamorphic = violations(own, TRUTH), violations(own, METAMORPHIC)
    return OracleOverlap(
        detector=detector,
        gt=len(truth),
        mt=len(metamorphic),
        both=len(metamorphic & truth),
        covered=share_covered(metamorphic, truth),
    )


# -- error rates of pictures -----------------------------------------------------------------------


def picture_error_rate(
    found: Counter[str], truth: Counter[str], left_out: str = ""
) -> float | None:
    """Return Σ |n − GT| / Σ GT without one class; None if there is nothing else."""
    labels = ({*found} | {*truth}) - {left_out}
    there = sum(truth[label] for label in labels)
    return sum(abs(found[label] - truth[label]) for label in labels) / there if there else None


def _picture_rates(tests: Iterable[Test], kind: str) -> list[float]:
    rates = (
        picture_error_rate(test.found, test.truth, test.label)
        for test in tests
        if test.kind == kind
    )
    return [rate for rate in rates if rate is not None]


def against_original(tests: Sequence[Test]) -> RankTest:
    """Compare error rates of unusual pictures (first) with those of their originals (second)."""
    originals = {
        (test.scene, test.detector, test.label): picture_error_rate(
            test.original, test.truth, test.label
        )
        for test in tests
        if test.kind == "ood"
    }
    plain = [rate for rate in originals.values() if rate is not None]
    return rank_test(_picture_rates(tests, "ood"), plain)


def against_inpainting(tests: Sequence[Test]) -> RankTest:
    """Compare in-painted mutants (first) with the same in-painting elsewhere (second)."""
    painted = [test for test in tests if test.operator != "insert"]
    return rank_test(_picture_rates(painted, "ood"), _picture_rates(painted, "control"))


def against_usual(
    tests: Sequence[Test], *, seed: int = 0
) -> tuple[tuple[UsualComparison, ...], RankTest]:
    """Compare OOD with ID insertions of one recognizer, and the error rates of the pictures.

    The first repeat of each, and no class is too rare, as in the paper.
    """
    first = [test for test in tests if test.operator == "insert" and test.repeat == 0]
    unusual, usual = (
        {
            total.name: total
            for total in totals(
                analyses(first, kind=kind, fewest=1, seed=seed),
                lambda analysis: analysis.oracle,
            )
        }
        for kind in ("ood", "id")
    )
    rows = tuple(
        UsualComparison(
            detector=tests[0].detector,
            oracle=oracle,
            unusual=unusual[oracle],
            usual=usual[oracle],
            violation_gain=gain(unusual[oracle].violation_rate, usual[oracle].violation_rate),
            error_gain=gain(unusual[oracle].error_rate, usual[oracle].error_rate),
        )
        for oracle in (*TRUTH, *METAMORPHIC)
        if oracle in unusual and oracle in usual
    )
    return rows, rank_test(_picture_rates(first, "ood"), _picture_rates(first, "id"))


def gain(value: float, base: float) -> float | None:
    """Return by how many percent `value` exceeds `base`; None if the base is 0."""
    return 100 * (value - base) / base if base else None


# -- violations ------------------------------------------------------------------------------------


def share_covered(first: Set[Violation], second: Set[Violation]) -> float | None:
    """Return the share of the second's violations that the first finds as well."""
    return part(len(first & second), len(second))


def share_alone(first: Set[Violation], second: Set[Violation]) -> float | None:
    """Return the share of all violations that only the first finds."""
    return part(len(first - second), len(first | second))


def violations(several: Iterable[Analysis], oracles: Collection[Oracle]) -> set[Violation]:
    """Collect the classes above the mean by these oracles over all operators."""
    return {
        (analysis.detector, label)
        for analysis in several
        if analysis.oracle in oracles
        for label in analysis.violations
    }


def times(taken: Iterable[tuple[str, float]]) -> list[OperatorTime]:
    """Average the seconds per picture by operator and over all ("total")."""
    seconds: dict[Any, list[float]] = {}
    for operator, second in taken:
        seconds.setdefault(operator, []).append(second)
    sums = {
        operator: (len(parts), float(sum(parts))) for operator, parts in sorted(seconds.items())
    }
    sums["total"] = (
        sum(images for images, _ in sums.values()),
        float(sum(second for _, second in sums.values())),
    )
    return [
        OperatorTime(operator=operator, images=images, seconds=second / images if images else None)
        for operator, (images, second) in sums.items()
    ]


# -- controls --------------------------------------------------------------------------------------


def _causes(evidence: Evidence, single: Sequence[Analysis]) -> Iterator[ControlRate]:
    """Compare every class above the mean with its control."""
    for analysis in single:
        tests, controls = (
            [
                test
                for test in evidence.tests
                if (test.detector, test.operator, test.kind)
                == (analysis.detector, analysis.operator, kind)
            ]
            for kind in ("ood", "control")
        )
        if controls:
            yield from against_control(tests, controls, analysis.oracle, analysis.violations)


def against_control(
    tests: Sequence[Test],
    controls: Sequence[Test],
    oracle: Oracle,
    labels: Sequence[str],
) -> tuple[ControlRate, ...]:
    """Compare the tests of one recognizer and operator with their controls, on the scenes that have
    both.

    `labels` are those of an analysis. Intervals are not corrected for the number of classes: they
    qualify what the analysis found, and find nothing themselves.
    """
    check_tests(tests)
    check_tests(controls)
    if tests and controls and tests[0].detector != controls[0].detector:
        raise SettingError(
            f"Tests and controls are of two recognizers: {tests[0].detector} and"
            f" {controls[0].detector}. Give those of one."
        )
    common = {test.scene for test in tests} & {test.scene for test in controls}
    every = [
        Cells.of([test for test in part if test.scene in common], oracle, labels)
        for part in (tests, controls)
    ]
    shared = sorted({label for label in labels if all(part.shows(label) for part in every)})
    if not shared:
        return ()
    cells = [part.only(np.isin(part.labels, shared)) for part in every]
    rates = [rate_interval(cell, oracle) for cell in cells]
    low, high = difference(rates[0][:3], rates[1][:3], correlation(rates[0][3], rates[1][3]))
    (rate, *_), (control, *_) = rates
    return tuple(
        ControlRate(
            detector=tests[0].detector,
            operator=tests[0].operator,
            oracle=oracle,
            label=label,
            rate=float(rate[at]),
            control=float(control[at]),
            difference=float(rate[at] - control[at]),
            low=finite(low[at]),
            high=finite(high[at]),
            cause=_cause(float(rate[at]), float(control[at]), float(low[at])),
        )
        for at, label in enumerate(cells[0].labels)
    )


def _cause(rate: float, control: float, low: float) -> Cause:
    if rate <= TINY:
        return "no errors"
    if low > TINY:
        return "mutation"
    return "in-painting" if control >= rate / 2 else "not distinguishable"
