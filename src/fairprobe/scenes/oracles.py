"""What counts as an error in a mutated picture: DistroFair's ground-truth and metamorphic oracles;
and tests as arrays (`Cells`), by scene and against equals.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 2, algorithm 3).

    paper                           here
    num_orig(c), num_ood(c)         `Test.original`, `Test.found`
    GT_Ref, GT_c (eq. 3)            `reference_counts`, `Test.truth`
    Err_c of the GT oracle (eq. 2)  `errors(test, "gt")`: negative where the mutation helped
    INC, EXC of the MT oracle       `errors(test, "inclusion")`, `errors(test, "exclusion")`
    GT_Pred, summed to Tot_Count    `reference`: the union for GT, what the recognizer saw in the
                                    original for MT

The mutated class is left out of everything, and so are the classes that its masks hold. The
multiset union is, for each class, the greatest count (as in the paper's public code).

Where the paper contradicts itself: algorithm 3 walks over the classes of the reference only, yet
table 1 counts a building that was not seen in the original as an inclusion error. Here every class
counts that is in the reference or in the answer, as the definitions say. With `Test.as_printed`
(`--variant paper`) it is the algorithm's loop: classes of the reference alone, without the mutated
class alone. Line 23's `Change_Error`, which nothing sets, is `New_Err`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.scenes.scene import Kind

Operator: TypeAlias = Literal["insert", "delete", "rotate", "all"]
Oracle: TypeAlias = Literal["gt", "inclusion", "exclusion"]

ORACLES: tuple[Oracle, ...] = ("gt", "inclusion", "exclusion")


@dataclass(frozen=True)
class Test:
    """One mutated picture and one recognizer: what it found in the original, what it finds now, and
    what was there.
    """

    __test__: ClassVar[bool] = False  # pytest would collect a class of this name

    scene: str
    detector: str
    operator: Operator
    label: str
    """The class that was mutated."""
    kind: Kind
    repeat: int
    image: str
    """Where the mutated picture is."""
    original: Counter[str]
    found: Counter[str]
    truth: Counter[str]
    objects: int = 0
    """How many were inserted, deleted or rotated."""
    annotation: Counter[str] = field(default_factory=Counter)
    """What was annotated in the original, a part of `truth`."""
    held: frozenset[str] = frozenset()
    """Classes inside the masks of the mutated one."""
    as_printed: bool = False
    """Whether algorithms 3 and 4 are followed to the letter."""

    @property
    def left_out(self) -> frozenset[str]:
        """Return the classes that are not judged."""
        return frozenset({self.label}) if self.as_printed else self.held | {self.label}


def reference_counts(annotation: Counter[str], detections: Iterable[Counter[str]]) -> Counter[str]:
    """Return the content of an original: for each class the greatest count over the annotation and
    every recognizer.
    """
    union = Counter(annotation)
    for counts in detections:
        union |= counts
    return +union


def reference(test: Test, oracle: Oracle) -> Counter[str]:
    """Return the objects that this oracle assumes to be there, without the mutated class."""
    counts = +(test.truth if oracle == "gt" else test.original)
    return Counter({label: count for label, count in counts.items() if label not in test.left_out})


def errors(test: Test, oracle: Oracle) -> Counter[str]:
    """Count the errors of each class in one test, without the mutated class and classes without
    any.
    """
    labels = sorted(({*test.truth} | {*test.original} | {*test.found}) - test.left_out)
    counts = np.array(
        [[part[label] for label in labels] for part in (test.original, test.found, test.truth)],
        dtype=np.int64,
    )
    original, now, truth = counts
    found = error_counts(original, now, truth, oracle, as_printed=np.array(test.as_printed))
    return Counter({label: int(error) for label, error in zip(labels, found, strict=True) if error})


def error_counts(
    original: Ints, found: Ints, truth: Ints, oracle: Oracle, *, as_printed: Mask
) -> Ints:
    """Apply the formulas to arrays of equal shape; `as_printed` drops classes that the reference
    lacks.
    """
    if oracle == "gt":
        errors = np.abs(found - truth) - np.abs(original - truth)
    else:
        errors = np.maximum(found - original if oracle == "inclusion" else original - found, 0)
    reference = truth if oracle == "gt" else original
    return np.where(as_printed & (reference == 0), 0, errors)


TINY = 1e-12  # equal rates must not differ by rounding


@dataclass(frozen=True)
class Cells:
    """Tests as arrays (tests, classes).

    The mutated class of a test has no errors and no objects, and is not `counted`.
    """

    labels: tuple[str, ...]
    scenes: tuple[str, ...]
    scene: Ints
    """The index of each test in `scenes`."""
    errors: Ints
    objects: Ints
    situation: Ints
    """The situation of a class in a test: how many of its objects are annotated, are there, and
    were recognized in the original. Equal numbers are equal situations.
    """
    counted: Mask

    @classmethod
    def of(
        cls, tests: Sequence[Test], oracle: Oracle, labels: Collection[str] | None = None
    ) -> Cells:
        """Count all classes that a recognizer or annotation names, or only those of `labels`."""
        seen = {
            label
            for test in tests
            for part in (test.original, test.found, test.truth)
            for label in part
        }
        names = sorted(seen if labels is None else seen & set(labels))
        column = {label: at for at, label in enumerate(names)}
        counts = np.zeros((4, len(tests), len(names)), dtype=np.int64)
        counted = np.ones((len(tests), len(names)), dtype=bool)
        for row, test in enumerate(tests):
            parts = (test.original, test.found, test.truth, test.annotation)
            for part, counter in enumerate(parts):
                for label, count in counter.items():
                    if label in column:
                        counts[part, row, column[label]] = count
            for label in test.left_out & column.keys():
                counted[row, column[label]] = False
        original, found, truth, annotation = counts * counted
        base = int(counts.max(initial=0)) + 1
        scenes = sorted({test.scene for test in tests})
        place = {scene: at for at, scene in enumerate(scenes)}
        return cls(
            labels=tuple(names),
            scenes=tuple(scenes),
            scene=np.array([place[test.scene] for test in tests], dtype=np.int64),
            errors=error_counts(
                original,
                found,
                truth,
                oracle,
                as_printed=np.array([test.as_printed for test in tests], dtype=bool)[:, None],
            ),
            objects=truth if oracle == "gt" else original,
            situation=(annotation * base + truth) * base + original,
            counted=counted,
        )

    def only(self, wanted: Mask) -> Cells:
        """Select some of the classes."""
        labels = tuple(label for label, keep in zip(self.labels, wanted, strict=True) if keep)
        return replace(
            self,
            labels=labels,
            errors=self.errors[:, wanted],
            objects=self.objects[:, wanted],
            situation=self.situation[:, wanted],
            counted=self.counted[:, wanted],
        )

    def shows(self, label: str) -> bool:
        """Return True if there is any object of this class."""
        return label in self.labels and bool(self.objects[:, self.labels.index(label)].any())

    def by_scene(self, values: Ints | Floats) -> Floats:
        """Sum (scenes, classes) over the tests of each scene."""
        sums = np.zeros((len(self.scenes), len(self.labels)))
        np.add.at(sums, self.scene, values)
        return sums

    def against_equals(self) -> Floats:
        """Compute the errors of each class beyond those of all classes in equal situations, as one
        score for each scene: (scenes, classes).

        In a situation g, a class with n_g of the N_g cases is expected to have n_g / N_g of the
        errors. The scores of a class add up to its observed minus its expected errors (Mantel and
        Haenszel). With ε = error − mean error of the situation, the score of scene i and class c
        is Σ_g (Σ ε of c − n_g / N_g · Σ ε of all classes) in that scene, so that chance in the
        expectation counts, too. Where one class is alone in a situation, nothing is added.
        """
        test, label = np.nonzero(self.counted)
        keys = (self.errors[test, label], self.situation[test, label], label, self.scene[test])
        order = np.lexsort(keys)  # sums must not depend on the order of tests
        test, label = test[order], label[order]
        scene, error = self.scene[test], self.errors[test, label].astype(np.float64)
        _, place = np.unique(self.situation[test, label], return_inverse=True)
        situations = int(place.max(initial=-1)) + 1
        cases = np.bincount(place, minlength=situations)
        beyond = error - (np.bincount(place, weights=error, minlength=situations) / cases)[place]
        own = np.zeros((len(self.scenes), len(self.labels)))
        np.add.at(own, (scene, label), beyond)
        together = np.zeros((len(self.scenes), situations))
        np.add.at(together, (scene, place), beyond)
        part = np.zeros((situations, len(self.labels)))
        np.add.at(part, (place, label), 1 / cases[place])
        return own - together @ part

    def blocks(self) -> Blocks:
        """Group the tests of a class in one scene and situation into blocks. Situations with only
        one class or without errors are left out.
        """
        test, label = np.nonzero(self.counted)
        every = np.stack([self.situation[test, label], label, self.scene[test]], axis=1)
        keys, block = np.unique(every, axis=0, return_inverse=True)
        block = block.reshape(-1)
        sums = np.bincount(block, weights=self.errors[test, label], minlength=len(keys))
        errors = sums / np.bincount(block, minlength=len(keys))
        _, first, stratum = np.unique(keys[:, 0], return_index=True, return_inverse=True)
        is_another = keys[:, 1] != keys[first, 1][stratum]
        informs = np.zeros((2, len(first)), dtype=bool)
        informs[0, stratum[is_another]] = True
        informs[1, stratum[errors != 0]] = True
        kept = (informs[0] & informs[1])[stratum]
        _, stratum = np.unique(stratum[kept], return_inverse=True)
        return Blocks(keys[kept], stratum, errors[kept])


@dataclass(frozen=True)
class Blocks:
    """Tests of one class in one scene and situation."""

    keys: Ints
    """(blocks, 3): situation, class, scene."""
    stratum: Ints
    """The index of the situation among those of all blocks."""
    errors: Floats
    """The mean error of a test."""


def rates_of(errors: Floats, objects: Floats, otherwise: Floats | float = 0.0) -> Floats:
    """Divide errors by objects; `otherwise` where there is no object of the class."""
    rates = np.empty(np.broadcast_shapes(errors.shape, objects.shape))
    rates[...] = otherwise
    return np.asarray(np.divide(errors, objects, out=rates, where=objects > 0))
