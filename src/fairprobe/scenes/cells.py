"""Tests as arrays: errors and objects of each class in each test, by scene, and against equals.

A scene's mutants are not independent, so everything is summed by scene before chance is judged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.scenes.oracles import Oracle, Test, error_counts

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
