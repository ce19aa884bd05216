"""How many of the objects that are there a recognizer finds: on originals, real pictures and
mutants.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 2, 4.1 and 5, algorithm 4).

    paper                                       here
    figure 2: classes below the mean accuracy   `class_accuracies`
    RQ2, figure 3b: violations of the originals `original_accuracy`, `original_violations`
    RQ5, table 11, algorithm 4: OOD_Oracle      `against_real`, `expected_counts`
    RQ6, table 12: error-inducing pictures      `unmodified_accuracy`

Accuracy is Σ min(n_c, true_c) / Σ true_c: objects found of those that are there; surplus objects
are not counted (the paper is silent). Algorithm 4 forgets an inserted class of which the original
has no object; here it is expected as often as it was inserted, unless `Test.as_printed`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fairprobe.results import Count, Result, Share
from fairprobe.scenes.oracles import TINY, Test, reference

Violation: TypeAlias = tuple[str, str]  # recognizer, class


@dataclass(frozen=True)
class Original:
    """One original picture and one recognizer."""

    scene: str
    detector: str
    annotation: Counter[str]
    found: Counter[str]
    truth: Counter[str]
    """The annotation and what all recognizers found (`reference_counts`)."""


class ClassAccuracy(Result, frozen=True, kw_only=True):
    """Objects found of those that are there, in originals and in unusual pictures (figure 2).

    `objects` of the class are in the unusual pictures in which it was not mutated.
    """

    detector: str
    label: str
    objects: Count
    original: Share
    mutated: Share


class ReferenceComparison(Result, frozen=True, kw_only=True):
    """Accuracy on mutated pictures, and on others with the same objects: real ones (RQ5), or the
    originals, for the classes that were not mutated (RQ6).
    """

    detector: str
    pictures: Count
    objects: Count
    reference: Share | None
    mutated: Share | None


def original_accuracy(
    originals: Iterable[Original], *, fewest: int = 1
) -> dict[str, dict[str, float]]:
    """Return the accuracy of each recognizer on the originals; classes with at least `fewest`
    objects.
    """
    hits: dict[str, Counter[str]] = {}
    there: dict[str, Counter[str]] = {}
    for original in originals:
        hits.setdefault(original.detector, Counter()).update(original.found & original.truth)
        there.setdefault(original.detector, Counter()).update(original.truth)
    return {
        detector: {
            label: hits[detector][label] / count
            for label, count in sorted(counts.items())
            if count >= max(fewest, 1)
        }
        for detector, counts in there.items()
    }


def original_violations(accuracy: Mapping[str, Mapping[str, float]]) -> set[Violation]:
    """Find the classes whose accuracy is below the mean of all classes: found without any
    mutation.
    """
    return {
        (detector, label)
        for detector, classes in accuracy.items()
        for label, value in classes.items()
        if value < float(np.mean(list(classes.values()))) - TINY
    }


def class_accuracies(
    originals: Iterable[Original], tests: Iterable[Test], *, fewest: int
) -> list[ClassAccuracy]:
    """Measure each class that was not mutated in the originals and in the unusual pictures; at
    least `fewest` objects of it are in the latter.
    """
    sums: dict[Violation, Counter[str]] = {}

    def add(detector: str, found: Counter[str], truth: Counter[str], kind: str) -> None:
        for label, count in truth.items():
            own = sums.setdefault((detector, label), Counter())
            own.update({f"{kind} objects": count, f"{kind} hits": min(found[label], count)})

    for original in originals:
        add(original.detector, original.found, original.truth, "original")
    for test in tests:
        if test.kind == "ood":
            add(test.detector, test.found, reference(test, "gt"), "mutant")
    return [
        ClassAccuracy(
            detector=detector,
            label=label,
            objects=own["mutant objects"],
            original=own["original hits"] / own["original objects"],
            mutated=own["mutant hits"] / own["mutant objects"],
        )
        for (detector, label), own in sorted(sums.items())
        if own["mutant objects"] >= max(fewest, 1) and own["original objects"]
    ]


def expected_counts(
    annotation: Counter[str],
    labels: Collection[str],
    inserted: str,
    count: int,
    *,
    as_printed: bool = False,
) -> Counter[str]:
    """Return the objects (algorithm 4) of these classes after an insertion. As it is printed, a
    class of which there was none stays out.
    """
    is_forgotten = as_printed and not annotation[inserted]
    counts = annotation + Counter({} if is_forgotten else {inserted: count})
    return Counter({label: counts[label] for label in labels if counts[label]})


def against_real(
    tests: Iterable[Test], originals: Sequence[Original], labels: Collection[str], *, seed: int = 0
) -> list[ReferenceComparison]:
    """Compare (RQ5) each unusual insertion with a random real picture with the same annotated
    objects of all `labels`. Insertions without such a picture are left out.
    """
    rng = np.random.default_rng(seed)
    annotation = {original.scene: original.annotation for original in originals}
    alike: dict[tuple[str, frozenset[tuple[str, int]]], list[Original]] = {}
    for original in sorted(originals, key=lambda original: original.scene):
        key = frozenset(expected_counts(original.annotation, labels, "", 0).items())
        alike.setdefault((original.detector, key), []).append(original)
    sums: dict[str, Counter[str]] = {original.detector: Counter() for original in originals}
    chosen = (
        test
        for test in tests
        if test.operator == "insert" and test.kind == "ood" and test.scene in annotation
    )
    for test in sorted(
        chosen, key=lambda test: (test.detector, test.scene, test.label, test.repeat)
    ):
        expected = expected_counts(
            annotation[test.scene],
            labels,
            test.label,
            test.objects,
            as_printed=test.as_printed,
        )
        real = alike.get((test.detector, frozenset(expected.items())), [])
        if real:
            other = real[int(rng.integers(len(real)))]
            _add(sums[test.detector], expected, test.found, other.found)
    return _compared(sums)


def unmodified_accuracy(
    inducing: Iterable[Test], annotations: Mapping[str, Counter[str]]
) -> list[ReferenceComparison]:
    """Measure (RQ6) in error-inducing pictures the accuracy on the classes that were not mutated,
    and on the same classes in the originals.
    """
    sums: dict[str, Counter[str]] = {}
    for test in inducing:
        expected = Counter(annotations[test.scene])
        del expected[test.label]
        _add(sums.setdefault(test.detector, Counter()), expected, test.found, test.original)
    return _compared(sums)


def _add(
    sums: Counter[str], expected: Counter[str], mutated: Counter[str], other: Counter[str]
) -> None:
    sums.update(
        pictures=1,
        objects=expected.total(),
        mutated=(mutated & expected).total(),
        reference=(other & expected).total(),
    )


def _compared(sums: Mapping[str, Counter[str]]) -> list[ReferenceComparison]:
    return [
        ReferenceComparison(
            detector=detector,
            pictures=counts["pictures"],
            objects=counts["objects"],
            reference=part(counts["reference"], counts["objects"]),
            mutated=part(counts["mutated"], counts["objects"]),
        )
        for detector, counts in sorted(sums.items())
    ]


def part(some: int, of: int) -> float | None:
    """Return a share; None if there is nothing."""
    return some / of if of else None
