"""Which classes a recognizer fails more than others once pictures are mutated, and the evidence.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 3.4, algorithm 2, eq. 4 and 5).

    paper                                here
    Err_Count[c], Tot_Count[c]           `ClassRate.errors`, `ClassRate.objects`: sums over all
                                         tests, negative GT errors included
    Err_ImgDict[c]                       `ClassRate.images`
    Err_c (eq. 4)                        `ClassRate.rate`
    c faces a fairness error (eq. 5)     `ClassRate.is_above`, `Analysis.violations`: the plain
                                         rule, rate > mean of all rates
    violation rate                       `Analysis.violation_rate`
    error-inducing inputs                `inducing_tests`: tests with an error above 0 in a class
                                         of `violations`, each counted once
    fairness error rate                  `Analysis.error_rate`

Classes with fewer than `MIN_OBJECTS` objects (the rate's own denominator) are left out, as in the
paper.

Beyond the paper: some class always lies above the mean, so the plain rule names classes of every
recognizer, even of a fair one. A class is called *unfair* (`ClassRate.is_unfair`) only where the
evidence holds:
- It is compared with all classes in equal situations (`Cells.against_equals`): as many objects
  annotated, as many there, as many recognized in the original. In counts two random misses cancel,
  so single objects have a higher rate than crowds by chance alone; and what was missed by chance
  before is found by chance now.
- Chance is judged by scenes, with all their tests, for all classes at once, in two ways that must
  agree; p is the larger one. Signs of whole scenes are flipped (`statistics.max_t`): classes may
  differ in how many tests they have, but few scenes with large scores mislead. And classes are
  exchanged within equal situations (`statistics.max_t`), a class in a scene counting once,
  however many tests it has: errors may be few and come together.
- Two analyses are *primary* and judged together: all mutations, by the ground truth and by the
  objects lost (`PRIMARY`), for all recognizers of a run. They alone name classes. Of twenty runs
  with fair recognizers, one may name anybody at all. Added objects name nobody: where one was
  missed before, finding it counts as added.
- The other analyses say by which mutation and oracle a named class fails. Those of one recognizer
  are corrected for each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.errors import SettingError
from fairprobe.results import CONFIDENCE, ROUNDING, Count, Result, Share, check_interval
from fairprobe.scenes.intervals import Ratio, finite, rate_interval
from fairprobe.scenes.oracles import ORACLES, TINY, Cells, Operator, Oracle, Test, rates_of
from fairprobe.scenes.scene import Kind
from fairprobe.statistics.max_t import FLIPS, Strata, max_t, step_down

ALL: Final = "all"  # operators together
PRIMARY: tuple[Oracle, ...] = ("gt", "exclusion")
MIN_OBJECTS = 10  # objects of a class
MIN_FLIPS = 100
MAX_WORST_TESTS = 6  # tests of a class
MAX_RANDOM_NUMBERS = 2_000_000  # random numbers in memory


class ClassRate(Result, frozen=True, kw_only=True):
    """The errors of one class for each of its objects, and the evidence that it fails more often.

    A rate may be negative (the mutation helped) or above 1; `low` and `high` are null where too few
    scenes show the class. `excess` is its distance to the mean of all classes, `matched` to what is
    expected of a class in equal situations. `p` is about `matched`; `p_adjusted` allows for all
    classes of the analyses judged together, in primary ones of all detectors. The interval is that
    of the rate: it may contain zero although the class fails more than its equals.
    """

    label: str
    errors: int
    objects: Count
    scenes: Count
    images: Count | None = None
    """Pictures with an error in the class: Err_ImgDict of the paper's algorithm 2."""
    rate: float
    low: float | None
    high: float | None
    excess: float
    matched: float
    p: Share
    p_adjusted: Share
    is_above: bool
    """By the paper's rule: above the mean."""
    is_unfair: bool
    """The evidence holds."""

    def __post_init__(self) -> None:
        check_interval(self.low, self.rate, self.high)
        if self.p_adjusted < self.p - ROUNDING:
            raise ValueError(f"p {self.p} is above its adjusted value {self.p_adjusted}")

    @property
    def estimate(self) -> float:
        """Return the rate, which reports show with its interval."""
        return self.rate


class Analysis(Result, frozen=True, kw_only=True):
    """One recognizer, operator, oracle and kind of test; classes with the highest rate come first.

    Primary analyses name classes, the others say how these fail. `family` is the number of
    classes and analyses that `p_adjusted` allows for, `flips` the number of sign flips, and of
    exchanges, behind it.
    """

    detector: str
    operator: Operator
    oracle: Oracle
    kind: Kind
    tests: Count
    scenes: Count
    classes: tuple[ClassRate, ...]
    left_out: tuple[str, ...]
    """Classes with too few objects."""
    mean: float
    violations: tuple[str, ...]
    unfair: tuple[str, ...]
    violation_rate: Share
    error_inducing: Count
    error_rate: Share
    error_low: Share
    error_high: Share
    fewest: Count
    is_primary: bool
    family: Count
    flips: Count
    confidence: Share

    def __post_init__(self) -> None:
        if self.error_low > self.error_high:
            raise ValueError(f"the interval {self.error_low} to {self.error_high} is reversed")
        if self.error_inducing > self.tests:
            raise ValueError(f"{self.error_inducing} of {self.tests} tests induce an error")


class Total(Result, frozen=True, kw_only=True):
    """Several analyses together: a row of the paper's tables 6 and 7."""

    name: str
    classes: Count
    violations: Count
    unfair: Count
    tests: Count
    error_inducing: Count
    violation_rate: Share
    error_rate: Share


def analyze(
    tests: Sequence[Test],
    oracle: Oracle,
    *,
    labels: Collection[str] | None = None,
    fewest: int = MIN_OBJECTS,
    flips: int = FLIPS,
    seed: int = 0,
) -> Analysis:
    """Analyze the tests of one recognizer and operator by one oracle; only `labels` if given."""
    check_tests(tests)
    (found,) = _judge([_Measured.of(tests, oracle, labels, fewest)], None, flips, seed)
    return found


def analyses(
    tests: Iterable[Test],
    oracles: Sequence[Oracle] = ORACLES,
    *,
    kind: Kind = "ood",
    labels: Collection[str] | None = None,
    fewest: int = MIN_OBJECTS,
    flips: int = FLIPS,
    seed: int = 0,
) -> tuple[Analysis, ...]:
    """Analyze every recognizer with every operator and with all of them together, by every
    oracle.
    """
    chosen = [test for test in tests if test.kind == kind]
    primary: dict[str, list[_Measured]] = {}
    others: dict[str, list[_Measured]] = {}
    for detector in sorted({test.detector for test in chosen}):
        own = [test for test in chosen if test.detector == detector]
        together, *parts = _by_operator(own)
        by_oracle = {oracle: _Measured.of(together, oracle, labels, fewest) for oracle in oracles}
        first = [oracle for oracle in oracles if oracle in PRIMARY] or oracles
        primary[detector] = [by_oracle.pop(oracle) for oracle in first]
        others[detector] = [
            *by_oracle.values(),
            *(_Measured.of(part, oracle, labels, fewest) for part in parts for oracle in oracles),
        ]
    judged = iter(
        _judge([part for several in primary.values() for part in several], None, flips, seed)
    )
    found: list[Analysis] = []
    for detector, several in primary.items():
        mine = [next(judged) for _ in several]
        named = {label for analysis in mine for label in analysis.unfair}
        found += (*mine, *_judge(others[detector], named, flips, seed))
    return tuple(found)


def every_analysis(tests: Iterable[Test], *, fewest: int, seed: int) -> tuple[Analysis, ...]:
    """Run the analyses of an audit: unusual mutations, controls, usual ones."""
    every = list(tests)
    kinds: tuple[Kind, ...] = ("ood", "control", "id")
    return tuple(
        analysis
        for kind in kinds
        for analysis in analyses(every, kind=kind, fewest=fewest, seed=seed)
    )


def _by_operator(tests: list[Test]) -> list[list[Test]]:
    """Split the tests by operator, those of all operators first."""
    operators = sorted({test.operator for test in tests})
    parts = [[test for test in tests if test.operator == operator] for operator in operators]
    if len(parts) > 1:
        parts.insert(0, [replace(test, operator=ALL) for test in tests])
    return parts


def totals(several: Iterable[Analysis], name: Callable[[Analysis], str]) -> tuple[Total, ...]:
    """Sum up analyses of the same name, for instance of the same recognizer, in their order."""
    rows: dict[str, list[Analysis]] = {}
    for analysis in several:
        rows.setdefault(name(analysis), []).append(analysis)
    found = []
    for key, row in rows.items():
        classes = sum(len(analysis.classes) for analysis in row)
        violations = sum(len(analysis.violations) for analysis in row)
        tests = sum(analysis.tests for analysis in row)
        inducing = sum(analysis.error_inducing for analysis in row)
        found.append(
            Total(
                name=key,
                classes=classes,
                violations=violations,
                unfair=sum(len(analysis.unfair) for analysis in row),
                tests=tests,
                error_inducing=inducing,
                violation_rate=_ratio(violations, classes),
                error_rate=_ratio(inducing, tests),
            )
        )
    return tuple(found)


def check_tests(tests: Sequence[Test]) -> None:
    """Raise SettingError for input that would give meaningless numbers."""
    settings = {(test.detector, test.operator, test.kind) for test in tests}
    if len(settings) > 1:
        named = "; ".join(", ".join(setting) for setting in sorted(settings))
        raise SettingError(
            f"An analysis takes the tests of one recognizer, operator and kind; got {named}. Give"
            " them one after another."
        )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


@dataclass(frozen=True)
class _Measured:
    """The tests of one analysis as arrays, without the classes that are too rare."""

    tests: Sequence[Test]
    oracle: Oracle
    cells: Cells
    left_out: tuple[str, ...]
    fewest: int

    @classmethod
    def of(
        cls, tests: Sequence[Test], oracle: Oracle, labels: Collection[str] | None, fewest: int
    ) -> _Measured:
        every = Cells.of(tests, oracle, labels)
        is_enough = every.objects.sum(axis=0) >= max(fewest, 1)
        rare = tuple(np.array(every.labels, dtype=object)[~is_enough])
        return cls(tests, oracle, every.only(is_enough), rare, fewest)

    def analysis(
        self, scores: Floats, p: Floats, adjusted: Floats, names: Mask, **evidence: int
    ) -> Analysis:
        """Compute all numbers; `names` marks the classes that may be called unfair."""
        cells, first = self.cells, self.tests[0] if self.tests else None
        errors, objects = cells.by_scene(cells.errors), cells.by_scene(cells.objects)
        rates, low, high, _ = rate_interval(cells, self.oracle)
        mean = float(rates.mean()) if len(rates) else 0.0
        matched = rates_of(scores.sum(axis=0), objects.sum(axis=0))
        is_above = rates - mean > TINY
        is_unfair = names & (adjusted <= 1 - CONFIDENCE) & (matched > TINY)
        classes = [
            ClassRate(
                label=label,
                errors=int(errors[:, at].sum()),
                objects=int(objects[:, at].sum()),
                scenes=int((objects[:, at] > 0).sum()),
                images=int((cells.errors[:, at] > 0).sum()),
                rate=float(rates[at]),
                low=finite(low[at]),
                high=finite(high[at]),
                excess=float(rates[at]) - mean,
                matched=float(matched[at]),
                p=float(p[at]),
                p_adjusted=float(adjusted[at]),
                is_above=bool(is_above[at]),
                is_unfair=bool(is_unfair[at]),
            )
            for at, label in enumerate(cells.labels)
        ]
        classes.sort(key=lambda row: (-row.rate, row.label))
        violations = tuple(row.label for row in classes if row.is_above)
        is_error = np.asarray((cells.errors[:, is_above] > 0).any(axis=1), dtype=np.float64)
        hits = np.zeros((len(cells.scenes), 1))
        pictures = np.zeros_like(hits)
        np.add.at(hits, cells.scene, is_error[:, None])
        np.add.at(pictures, cells.scene, 1.0)
        error_low, error_high = Ratio(hits, pictures, is_share=True).interval
        return Analysis(
            detector=first.detector if first else "",
            operator=first.operator if first else ALL,
            oracle=self.oracle,
            kind=first.kind if first else "ood",
            tests=len(self.tests),
            scenes=len(cells.scenes),
            classes=tuple(classes),
            left_out=self.left_out,
            mean=mean,
            violations=violations,
            unfair=tuple(row.label for row in classes if row.is_unfair),
            violation_rate=_ratio(len(violations), len(classes)),
            error_inducing=int(is_error.sum()),
            error_rate=_ratio(int(is_error.sum()), len(self.tests)),
            error_low=float(error_low[0]),
            error_high=float(error_high[0]),
            fewest=self.fewest,
            is_primary=bool(evidence["is_primary"]),
            family=evidence["family"],
            flips=evidence["flips"],
            confidence=CONFIDENCE,
        )


def _judge(
    measured: Sequence[_Measured], named: Collection[str] | None, flips: int, seed: int
) -> list[Analysis]:
    """Judge analyses together, each class of each being one hypothesis. Only `named` classes can be
    unfair; None: all can, since these are the primary analyses.
    """
    if flips < MIN_FLIPS:
        raise SettingError(f"Evidence needs {MIN_FLIPS} sign flips or more; got {flips}.")
    if not measured:
        return []
    scenes = sorted({scene for measurement in measured for scene in measurement.cells.scenes})
    place = {scene: at for at, scene in enumerate(scenes)}
    scores = []
    for measurement in measured:
        rows = np.zeros((len(scenes), len(measurement.cells.labels)))
        rows[[place[scene] for scene in measurement.cells.scenes]] = (
            measurement.cells.against_equals()
        )
        scores.append(rows)
    informing = [
        (measurement.cells.by_scene(measurement.cells.objects) > 0).sum(axis=0)
        for measurement in measured
    ]
    ends: Ints = np.cumsum([0, *(len(measurement.cells.labels) for measurement in measured)])
    rng = np.random.default_rng(seed)
    flipped = max_t(
        np.concatenate([np.zeros((len(scenes), 0)), *scores], axis=1),
        np.concatenate([np.zeros(0, dtype=np.int64), *informing]),
        flips=flips,
        rng=rng,
    )
    exchanged = _exchange(measured, flips, rng)
    p, adjusted = (np.maximum(*both) for both in zip(flipped, exchanged, strict=True))
    return [
        one.analysis(
            score,
            p[start:end],
            adjusted[start:end],
            np.array([named is None or label in named for label in one.cells.labels], dtype=bool),
            is_primary=named is None,
            family=int(ends[-1]),
            flips=flips,
        )
        for one, score, start, end in zip(measured, scores, ends[:-1], ends[1:], strict=True)
    ]


def _exchange(
    measured: Sequence[_Measured], exchanges: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Compute p values by exchanging classes within equal situations, each alone and adjusted for
    all. Oracles share the exchanges of a recognizer and operator, so that they stay correlated.
    """
    columns: dict[tuple[object, ...], int] = {}
    parts: list[tuple[Strata, Ints]] = []
    for measurement in measured:
        cells, blocks = measurement.cells, measurement.cells.blocks()
        about = [(test.detector, test.operator) for test in measurement.tests[:1]]
        mine = [
            columns.setdefault((*about, situation, cells.labels[label], scene), len(columns))
            for situation, label, scene in blocks.keys.tolist()
        ]
        strata = Strata(blocks.errors, blocks.stratum, blocks.keys[:, 1], len(cells.labels))
        parts.append((strata, np.array(mine, dtype=np.int64)))
    step = max(MAX_RANDOM_NUMBERS // max(len(columns), 1), 1)
    chance = []
    for start in range(0, exchanges, step):
        keys = rng.random((min(step, exchanges - start), len(columns)))
        chance.append(np.hstack([strata.exchanged(keys[:, mine]) for strata, mine in parts]))
    return step_down(
        np.concatenate([strata.statistics for strata, _ in parts]), np.concatenate(chance)
    )


# -- the tests behind an analysis ------------------------------------------------------------------


def inducing_tests(analysis: Analysis, tests: Iterable[Test]) -> list[Test]:
    """Select the tests of an analysis with an error in a class above the mean."""
    own = _tests_of(analysis, tests)
    errors = Cells.of(own, analysis.oracle, analysis.violations).errors
    return [own[at] for at in np.flatnonzero((errors > 0).any(axis=1))]


def worst_tests(analysis: Analysis, label: str, tests: Iterable[Test]) -> list[Test]:
    """Select the tests with most errors in a class, the worst of every scene before any second."""
    own = _tests_of(analysis, tests)
    errors = Cells.of(own, analysis.oracle, [label]).errors.sum(axis=1)
    wrong = sorted(
        (int(-errors[at]), test.scene, test.image, at)
        for at, test in enumerate(own)
        if errors[at] > 0
    )
    of_scene: Counter[str] = Counter()
    ranked = []
    for rank, (_, scene, _, at) in enumerate(wrong):
        ranked.append((of_scene[scene], rank, at))
        of_scene[scene] += 1
    return [own[at] for _, _, at in sorted(ranked)[:MAX_WORST_TESTS]]


def _tests_of(analysis: Analysis, tests: Iterable[Test]) -> list[Test]:
    return [
        test
        for test in tests
        if (test.detector, test.kind) == (analysis.detector, analysis.kind)
        and analysis.operator in (ALL, test.operator)
    ]
