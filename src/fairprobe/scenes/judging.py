"""From what was seen to what it means: every analysis and comparison of the paper, as plain
data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fairprobe.scenes.analysis import Analysis, analyses
from fairprobe.scenes.comparisons import (
    Original,
    against_control,
    against_original,
    against_real,
    against_usual,
    original_accuracy,
    original_violations,
    overlap,
    picture_error_rate,
    times,
    unmodified_accuracy,
    violations,
)
from fairprobe.scenes.gathering import Evidence
from fairprobe.scenes.oracles import Kind, Oracle, Test, reference_counts
from fairprobe.statistics.ranks import RankTest, rank_test

ALL = "all"  # operators together
TRUTH: tuple[Oracle, ...] = ("gt",)
METAMORPHIC: tuple[Oracle, ...] = ("inclusion", "exclusion")


def judged(evidence: Evidence) -> tuple[Analysis, ...]:
    """Every recogniser with every operator and with all together, by every oracle; mutations, the
    usual ones, and their controls.
    """
    several = len(evidence.settings.asked.mutations) > 1
    kinds: tuple[Kind, ...] = ("ood", "control", "id")
    found: list[Analysis] = []
    for kind in kinds:
        tests = [test for test in evidence.tests if test.kind == kind]
        together = (
            [replace(test, operator=ALL) for test in tests] if several and kind != "id" else []
        )
        found += analyses(
            tests + together,
            kind=kind,
            fewest=evidence.settings.fewest,
            seed=evidence.settings.asked.seed,
        )
    return tuple(found)


def compared(evidence: Evidence, found: Sequence[Analysis]) -> dict[str, Any]:
    """The comparisons of the paper, recogniser by recogniser."""
    names = [detector.name for detector in evidence.detectors]
    originals = _originals(evidence)
    by_name = {name: [test for test in evidence.tests if test.detector == name] for name in names}
    single = [one for one in found if one.kind == "ood" and one.operator != ALL]
    usual = {
        name: against_usual(tests, seed=evidence.settings.asked.seed)
        for name, tests in by_name.items()
        if tests
    }
    labels = evidence.settings.asked.labels("insert")
    real = against_real(evidence.tests, originals, labels, seed=evidence.settings.asked.seed)
    inducing = {id(test): test for one in single if one.oracle == "gt" for test in one.inducing}
    annotations = {one.scene: one.annotation for one in originals}
    return {
        "ood_vs_original": [
            _ranked(name, against_original(tests)) for name, tests in by_name.items() if tests
        ],
        "ood_vs_id": [_ranked(name, ranks) for name, (_, ranks) in usual.items() if ranks.second],
        "ood_vs_control": [
            _ranked(name, _against_controls(tests)) for name, tests in by_name.items() if tests
        ],
        "usual": [
            {"detector": name, **row.to_dict()} for name, (rows, _) in usual.items() for row in rows
        ],
        "overlaps": [
            _overlap(name, [one for one in single if one.detector == name]) for name in names
        ],
        "originals": _against_originals(originals, single, evidence.settings.fewest),
        "causes": list(_causes(evidence, found)),
        "rq5": [
            {
                "detector": one.detector,
                "pairs": one.pairs,
                "real": one.other,
                "generated": one.mutated,
            }
            for one in real
        ],
        "rq6": [
            {
                "detector": one.detector,
                "images": one.pairs,
                "original": one.other,
                "mutated": one.mutated,
            }
            for one in unmodified_accuracy(inducing.values(), annotations)
        ],
        "times": [
            {"operator": one.operator, "images": one.images, "seconds": one.each}
            for one in times(
                (made.task.operator, made.seconds)
                for made in evidence.made.values()
                if made.task.kind != "control"
            )
        ],
    }


def _originals(evidence: Evidence) -> list[Original]:
    """What each recogniser sees in each original; of the annotation only the classes that any
    names, as in the tests.
    """
    counts, named = (
        {detector: evidence.counts(detector) for detector in evidence.originals},
        evidence.named(),
    )
    found = []
    for detector, seen in counts.items():
        for name, one in seen.items():
            annotation = Counter(
                {
                    label: count
                    for label, count in evidence.known[name].counts.items()
                    if label in named
                }
            )
            truth = reference_counts(
                annotation, [other[name] for other in counts.values() if name in other]
            )
            found.append(Original(name, detector, annotation, one, truth))
    return found


def _ranked(detector: str, ranks: RankTest) -> dict[str, Any]:
    return {
        "detector": detector,
        "first_mean": ranks.first_mean,
        "second_mean": ranks.second_mean,
        "first_images": ranks.first,
        "second_images": ranks.second,
        "u": ranks.statistic,
        "p": ranks.p_value,
        "superiority": ranks.superiority,
    }


def _against_controls(tests: Sequence[Test]) -> RankTest:
    """Mutants that were in-painted, against the same in-painting elsewhere."""
    painted = [test for test in tests if test.operator != "insert"]
    rates = (
        [
            rate
            for test in painted
            if test.kind == kind
            and (rate := picture_error_rate(test.found, test.truth, test.label)) is not None
        ]
        for kind in ("ood", "control")
    )
    return rank_test(*rates)


def _overlap(detector: str, own: Sequence[Analysis]) -> dict[str, Any]:
    truth, metamorphic = violations(own, TRUTH), violations(own, METAMORPHIC)
    both = overlap(metamorphic, truth)
    return {
        "detector": detector,
        "gt": len(truth),
        "mt": len(metamorphic),
        "both": len(both.both),
        "covered": both.covered,
    }


def _against_originals(
    originals: Sequence[Original], single: Sequence[Analysis], fewest: int
) -> dict[str, Any]:
    """What one would find without any mutation, and what only mutants show."""
    plain = original_violations(original_accuracy(originals, fewest=fewest))
    mutants = violations(single, (*TRUTH, *METAMORPHIC))
    both = overlap(mutants, plain)
    return {
        "originals": len(plain),
        "mutants": len(mutants),
        "both": len(both.both),
        "only_mutants": both.alone,
        "covered": both.covered,
    }


def _causes(evidence: Evidence, found: Sequence[Analysis]) -> Iterator[dict[str, Any]]:
    """Of every class above the mean, whether in-painting alone explains its errors."""
    for one in found:
        if one.kind != "ood" or one.operator in (ALL, "insert"):
            continue
        own = [
            test
            for test in evidence.tests
            if test.detector == one.detector and test.operator == one.operator
        ]
        tests, controls = (
            [test for test in own if test.kind == kind] for kind in ("ood", "control")
        )
        if controls:
            rows = against_control(
                tests, controls, one.oracle, one.violations, seed=evidence.settings.asked.seed
            )
            for row in rows.classes:
                yield {
                    "detector": one.detector,
                    "operator": one.operator,
                    "oracle": one.oracle,
                    **vars(row),
                }
