"""Which classes does a recogniser fail more than others once pictures are mutated, and does the
evidence hold?

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

Beside the paper: some class always lies above the mean, so the plain rule names classes of every
recogniser, also of a fair one. A class is called *unfair* (`ClassRate.is_unfair`) only where the
evidence holds:
- Scenes are resampled with all their tests (a scene's mutants hang together). The standard error is
  that of the resamples, but never below the one that a class in as many scenes has on the whole: a
  class that is missed in all of its six scenes would otherwise seem certain.
- The lower end of `excess` = rate − mean of all rates must be above 0: one-sided 95 %, Bonferroni
  over the classes and over all analyses of the same recogniser (`family`: every operator with every
  oracle), Student's t with as many degrees of freedom as scenes show the class, less one. So of
  twenty fair recognisers, one may have any class named at all.
- So must the lower end of `matched` = rate − the rate of the other classes in pictures with as many
  objects. The oracles see counts, and in counts two random misses cancel: by chance alone a class
  that stands alone in its pictures gets a higher rate than one in crowds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import SettingError
from fairprobe.scenes.evidence import TINY, Cells, drawn, finite, reach, share, spread, statistics
from fairprobe.scenes.oracles import ORACLES, Kind, Oracle, Test, errors
from fairprobe.statistics.rates import CONFIDENCE

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
class ClassRate:
    """One class: its errors by object with the 95 % interval, and what speaks for its being worse
    off. None: too few scenes to say.
    """

    label: str
    errors: int
    objects: int
    scenes: int
    """How many show it."""
    rate: float
    low: float | None
    high: float | None
    excess: float
    excess_low: float | None
    matched: float
    matched_low: float | None
    is_above: bool
    """The paper's rule."""
    is_unfair: bool
    """The evidence holds."""


@dataclass(frozen=True)
class Analysis:
    """One recogniser, operator and oracle. Classes stand with the highest rate first."""

    detector: str
    operator: str
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
    """For each class above the mean, its tests with most errors, from as many scenes as there are.
    """
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
        return len(self.violations) / len(self.classes) if self.classes else 0.0

    @property
    def error_rate(self) -> float:
        return len(self.inducing) / self.tests if self.tests else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "detector": self.detector,
            "operator": self.operator,
            "oracle": self.oracle,
            "kind": self.kind,
            "tests": self.tests,
            "scenes": self.scenes,
            "classes": [vars(one) for one in self.classes],
            "left_out": list(self.left_out),
            "mean": self.mean,
            "violations": list(self.violations),
            "unfair": list(self.unfair),
            "violation_rate": self.violation_rate,
            "error_inducing": len(self.inducing),
            "error_rate": self.error_rate,
            "error_low": self.error_low,
            "error_high": self.error_high,
            "examples": {
                label: [_shown(test, label, self.oracle) for test in tests]
                for label, tests in self.examples.items()
            },
            "fewest": self.fewest,
            "family": self.family,
            "resamples": self.resamples,
            "confidence": CONFIDENCE,
        }


@dataclass(frozen=True)
class Total:
    """Several analyses together, a row of the paper's tables 6 and 7. Every analysis has its own
    classes and pictures.
    """

    name: str
    classes: int
    violations: int
    unfair: int
    tests: int
    error_inducing: int

    @property
    def violation_rate(self) -> float:
        return self.violations / self.classes if self.classes else 0.0

    @property
    def error_rate(self) -> float:
        return self.error_inducing / self.tests if self.tests else 0.0

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "violation_rate": self.violation_rate, "error_rate": self.error_rate}


def analyse(
    tests: Sequence[Test],
    oracle: Oracle,
    *,
    labels: Collection[str] | None = None,
    fewest: int = FEWEST,
    family: int = 1,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Analysis:
    """The tests of one recogniser and operator, by one oracle. `labels` are the classes to look at
    instead of all.

    `family` is how many analyses of the recogniser are looked at together: the more, the stronger
    the evidence must be.
    """
    check(tests, resamples)
    every = Cells.of(tests, oracle, labels)
    is_enough = every.objects.sum(axis=0) >= max(fewest, 1)
    cells = every.only(is_enough)
    weights = drawn(len(cells.scenes), resamples, np.random.default_rng(seed))
    rates = _class_rates(cells, oracle, weights, family)
    above = {one.label for one in rates if one.is_above}
    is_error = np.asarray(
        (cells.errors[:, [label in above for label in cells.labels]] > 0).any(axis=1)
    )
    low, high = share(is_error, cells.scene, weights, CONFIDENCE)
    first = tests[0] if tests else None
    return Analysis(
        detector=first.detector if first else "",
        operator=first.operator if first else "",
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
            label: _telling(tests, cells.errors[:, at])
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
    """Every recogniser with every operator, by every oracle."""

    def setting(test: Test) -> tuple[str, str]:
        return test.detector, test.operator

    chosen = sorted((test for test in tests if test.kind == kind), key=setting)
    groups = [list(group) for _, group in groupby(chosen, key=setting)]
    operators = Counter(group[0].detector for group in groups)
    return tuple(
        analyse(
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
    """Rows that sum up analyses of the same name, for instance of the same recogniser; in the order
    of their first appearance.
    """
    rows: dict[str, list[Analysis]] = {}
    for one in several:
        rows.setdefault(name(one), []).append(one)
    return tuple(
        Total(
            key,
            classes=sum(len(one.classes) for one in row),
            violations=sum(len(one.violations) for one in row),
            unfair=sum(len(one.unfair) for one in row),
            tests=sum(one.tests for one in row),
            error_inducing=sum(len(one.inducing) for one in row),
        )
        for key, row in rows.items()
    )


def check(tests: Sequence[Test], resamples: int) -> None:
    """Refuses what would give numbers without meaning."""
    settings = {(test.detector, test.operator, test.kind) for test in tests}
    if len(settings) > 1:
        named = "; ".join(", ".join(one) for one in sorted(settings))
        raise SettingError(
            f"An analysis takes the tests of one recogniser, operator and kind; got {named}. Give"
            " them one after another."
        )
    if resamples < FEWEST_RESAMPLES:
        raise SettingError(
            f"An interval needs {FEWEST_RESAMPLES} resamples or more; got {resamples}."
        )


# -- one class and one test ------------------------------------------------------------------------


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
    wide, one_sided = (
        reach(scenes, (1 - CONFIDENCE) / 2),
        reach(scenes, (1 - CONFIDENCE) / (len(cells.labels) * family)),
    )
    around = wide * np.maximum(spread(moved, errors, objects, mean), TINY)
    excess = rates - mean
    excess_low = excess - one_sided * np.maximum(
        spread(moved - moved.mean(axis=1, keepdims=True), errors, objects, mean), TINY
    )
    matched_low = matched - one_sided * np.maximum(
        spread(moved_matched, errors, objects, mean), TINY
    )
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


def _telling(tests: Sequence[Test], found: Ints) -> tuple[Test, ...]:
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


def _shown(test: Test, label: str, oracle: Oracle) -> dict[str, Any]:
    counts = {part: getattr(test, part)[label] for part in ("original", "found", "truth")}
    return {
        "scene": test.scene,
        "image": test.image,
        "mutated": test.label,
        "repeat": test.repeat,
        "objects": test.objects,
        "errors": errors(test, oracle)[label],
        **counts,
    }
