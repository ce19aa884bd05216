"""Which classes a recognizer fails more than others once pictures are mutated, and the evidence.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 3.4, algorithm 2, eq. 4 and 5).

    paper                                here
    Err_Count[c], Tot_Count[c]           `ClassRate.errors`, `ClassRate.objects`: sums over all
                                         tests, negative GT errors included
    Err_c (eq. 4)                        `ClassRate.rate`
    c faces a fairness error (eq. 5)     `ClassRate.is_above`, `Analysis.violations`: the plain
                                         rule, rate > mean of all rates
    violation rate                       `Analysis.violation_rate`
    error-inducing inputs                `Analysis.inducing`: tests with an error above 0 in a class
                                         of `violations`, each counted once
    fairness error rate                  `Analysis.error_rate`

Classes with fewer than `FEWEST` objects (the rate's own denominator) are left out, as in the paper.

Beyond the paper: some class always lies above the mean, so the plain rule names classes of every
recognizer, even of a fair one. A class is called *unfair* (`ClassRate.is_unfair`) only where the
evidence holds:
- Scenes are resampled with all their tests (see `resampling`).
- The lower end of `excess` = rate − mean of all rates must be above 0: one-sided 95 %, Bonferroni
  over the classes and over all analyses of the same recognizer (`family`: every operator with every
  oracle), Student's t with one degree of freedom less than the scenes that show the class. So of
  twenty fair recognizers, one may have any class named at all.
- So must the lower end of `matched` = rate − the rate of the other classes in pictures with as many
  objects. The oracles see counts, and in counts two random misses cancel: by chance alone a class
  with single objects gets a higher rate than one in crowds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np

from fairprobe.arrays import Floats, Ints
from fairprobe.documents.scenes import AnalysisDocument, ClassRate, Kind, Operator, Oracle, Total
from fairprobe.errors import SettingError
from fairprobe.scenes.oracles import ORACLES, Test
from fairprobe.scenes.resampling import (
    TINY,
    Cells,
    finite,
    reach,
    resample,
    share,
    spread,
    statistics,
)
from fairprobe.statistics.rates import CONFIDENCE

ALL: Final = "all"  # operators together
FEWEST = 10  # objects of a class
RESAMPLES = 1000
FEWEST_RESAMPLES = 100
SHOWN = 6  # tests of a class
BOUNDS: dict[Oracle, tuple[float, float]] = {
    "gt": (-1.0, np.inf),
    "inclusion": (0.0, np.inf),
    "exclusion": (0.0, 1.0),
}


@dataclass(frozen=True)
class Analysis:
    """One recognizer, operator and oracle; classes with the highest rate come first."""

    detector: str
    operator: Operator
    oracle: Oracle
    kind: Kind
    tests: int
    scenes: int
    classes: tuple[ClassRate, ...]
    left_out: tuple[str, ...]
    """Classes with too few objects."""
    mean: float
    inducing: tuple[Test, ...]
    error_low: float
    error_high: float
    examples: dict[str, tuple[Test, ...]]
    """For each class above the mean, its tests with most errors, from many scenes."""
    fewest: int
    family: int
    resamples: int

    @property
    def violations(self) -> tuple[str, ...]:
        return tuple(one.label for one in self.classes if one.is_above)

    @property
    def unfair(self) -> tuple[str, ...]:
        return tuple(one.label for one in self.classes if one.is_unfair)

    @property
    def violation_rate(self) -> float:
        return _ratio(len(self.violations), len(self.classes))

    @property
    def error_rate(self) -> float:
        return _ratio(len(self.inducing), self.tests)

    def document(self) -> AnalysisDocument:
        """The analysis as a part of the run's document."""
        return AnalysisDocument(
            detector=self.detector,
            operator=self.operator,
            oracle=self.oracle,
            kind=self.kind,
            tests=self.tests,
            scenes=self.scenes,
            classes=list(self.classes),
            left_out=list(self.left_out),
            mean=self.mean,
            violations=list(self.violations),
            unfair=list(self.unfair),
            violation_rate=self.violation_rate,
            error_inducing=len(self.inducing),
            error_rate=self.error_rate,
            error_low=self.error_low,
            error_high=self.error_high,
            fewest=self.fewest,
            family=self.family,
            resamples=self.resamples,
            confidence=CONFIDENCE,
        )


def analyze(
    tests: Sequence[Test],
    oracle: Oracle,
    *,
    labels: Collection[str] | None = None,
    fewest: int = FEWEST,
    family: int = 1,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Analysis:
    """Analyze the tests of one recognizer and operator by one oracle; only `labels` if given.

    `family` is the number of analyses of the recognizer that are looked at together: the more, the
    stronger the evidence must be.
    """
    check_tests(tests, resamples)
    every = Cells.of(tests, oracle, labels)
    is_enough = every.objects.sum(axis=0) >= max(fewest, 1)
    cells = every.only(is_enough)
    weights = resample(len(cells.scenes), resamples, np.random.default_rng(seed))
    rates = _class_rates(cells, oracle, weights, family)
    above = {one.label for one in rates if one.is_above}
    is_error = np.asarray(
        (cells.errors[:, [label in above for label in cells.labels]] > 0).any(axis=1)
    )
    low, high = share(is_error, cells.scene, weights, CONFIDENCE)
    first = tests[0] if tests else None
    return Analysis(
        detector=first.detector if first else "",
        operator=first.operator if first else ALL,
        oracle=oracle,
        kind=first.kind if first else "ood",
        tests=len(tests),
        scenes=len(cells.scenes),
        classes=rates,
        left_out=tuple(
            label for label, enough in zip(every.labels, is_enough, strict=True) if not enough
        ),
        mean=float(np.mean([one.rate for one in rates])) if rates else 0.0,
        inducing=tuple(test for test, error in zip(tests, is_error, strict=True) if error),
        error_low=low,
        error_high=high,
        examples={
            label: _worst(tests, cells.errors[:, at])
            for at, label in enumerate(cells.labels)
            if label in above
        },
        fewest=fewest,
        family=family,
        resamples=resamples,
    )


def analyses(
    tests: Iterable[Test],
    oracles: Sequence[Oracle] = ORACLES,
    *,
    kind: Kind = "ood",
    labels: Collection[str] | None = None,
    fewest: int = FEWEST,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[Analysis, ...]:
    """Analyze every recognizer with every operator, by every oracle."""

    def setting(test: Test) -> tuple[str, str]:
        return test.detector, test.operator

    chosen = sorted((test for test in tests if test.kind == kind), key=setting)
    groups = [list(group) for _, group in groupby(chosen, key=setting)]
    operators = Counter(group[0].detector for group in groups)
    return tuple(
        analyze(
            group,
            oracle,
            labels=labels,
            fewest=fewest,
            family=operators[group[0].detector] * len(oracles),
            resamples=resamples,
            seed=seed,
        )
        for group in groups
        for oracle in oracles
    )


def totals(several: Iterable[Analysis], name: Callable[[Analysis], str]) -> tuple[Total, ...]:
    """Sum up analyses of the same name, for instance of the same recognizer, in their order."""
    rows: dict[str, list[Analysis]] = {}
    for one in several:
        rows.setdefault(name(one), []).append(one)
    found = []
    for key, row in rows.items():
        classes = sum(len(one.classes) for one in row)
        violations = sum(len(one.violations) for one in row)
        tests, inducing = sum(one.tests for one in row), sum(len(one.inducing) for one in row)
        found.append(
            Total(
                name=key,
                classes=classes,
                violations=violations,
                unfair=sum(len(one.unfair) for one in row),
                tests=tests,
                error_inducing=inducing,
                violation_rate=_ratio(violations, classes),
                error_rate=_ratio(inducing, tests),
            )
        )
    return tuple(found)


def check_tests(tests: Sequence[Test], resamples: int) -> None:
    """Refuse input that would give meaningless numbers."""
    settings = {(test.detector, test.operator, test.kind) for test in tests}
    if len(settings) > 1:
        named = "; ".join(", ".join(one) for one in sorted(settings))
        raise SettingError(
            f"An analysis takes the tests of one recognizer, operator and kind; got {named}. Give"
            " them one after another."
        )
    if resamples < FEWEST_RESAMPLES:
        raise SettingError(
            f"An interval needs {FEWEST_RESAMPLES} resamples or more; got {resamples}."
        )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _class_rates(
    cells: Cells, oracle: Oracle, weights: Floats, family: int
) -> tuple[ClassRate, ...]:
    if not cells.labels:
        return ()
    errors, objects = cells.by_scene(cells.errors), cells.by_scene(cells.objects)
    by_crowd = cells.by_crowd(cells.errors), cells.by_crowd(cells.counted)
    once = np.ones((1, len(cells.scenes)))
    rates, matched = (part[0] for part in statistics(once, objects, *by_crowd))
    mean = float(rates.mean())
    moved, moved_matched = statistics(weights, objects, *by_crowd, (rates, matched))
    scenes = (objects > 0).sum(axis=0)
    two_sided = reach(scenes, (1 - CONFIDENCE) / 2)
    one_sided = reach(scenes, (1 - CONFIDENCE) / (len(cells.labels) * family))

    def standard_error(values: Floats) -> Floats:
        return np.maximum(spread(values, errors, objects, mean), TINY)

    around = two_sided * standard_error(moved)
    excess = rates - mean
    excess_low = excess - one_sided * standard_error(moved - moved.mean(axis=1, keepdims=True))
    matched_low = matched - one_sided * standard_error(moved_matched)
    least, most = BOUNDS[oracle]
    found = [
        ClassRate(
            label=label,
            errors=int(cells.errors[:, at].sum()),
            objects=int(cells.objects[:, at].sum()),
            scenes=int(scenes[at]),
            rate=float(rates[at]),
            low=finite(max(rates[at] - around[at], least)),
            high=finite(min(rates[at] + around[at], most)),
            excess=float(excess[at]),
            excess_low=finite(excess_low[at]),
            matched=float(matched[at]),
            matched_low=finite(matched_low[at]),
            is_above=bool(excess[at] > TINY),
            is_unfair=bool(min(excess_low[at], matched_low[at]) > TINY),
        )
        for at, label in enumerate(cells.labels)
    ]
    return tuple(sorted(found, key=lambda one: (-one.rate, one.label)))


def _worst(tests: Sequence[Test], found: Ints) -> tuple[Test, ...]:
    """The tests with most errors, the worst of every scene before any second one."""
    wrong = sorted(
        (int(-found[at]), test.scene, test.image, at)
        for at, test in enumerate(tests)
        if found[at] > 0
    )
    of_scene: Counter[str] = Counter()
    ranked = []
    for place, (_, scene, _, at) in enumerate(wrong):
        ranked.append((of_scene[scene], place, at))
        of_scene[scene] += 1
    return tuple(tests[at] for _, _, at in sorted(ranked)[:SHOWN])
