"""What counts as an error in a mutated picture: DistroFair's ground-truth and metamorphic oracles.

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
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from fairprobe.arrays import Ints, Mask
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
