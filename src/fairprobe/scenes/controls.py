"""Mutation against in-painting alone: every class's rate beside its rate after the same in-painting
on plain background. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairprobe.documents.scenes import Cause, ControlRate, Oracle
from fairprobe.errors import SettingError
from fairprobe.scenes.analysis import RESAMPLES, check_tests
from fairprobe.scenes.oracles import Test
from fairprobe.scenes.resampling import TINY, Cells, finite, rates_of, reach, resample, spread
from fairprobe.statistics.rates import CONFIDENCE


def against_control(
    tests: Sequence[Test],
    controls: Sequence[Test],
    oracle: Oracle,
    labels: Sequence[str],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[ControlRate, ...]:
    """The tests of one recognizer and operator against its controls, on the scenes that have both.

    `labels` are those of an analysis. Intervals are not corrected for the number of classes: they
    qualify what the analysis found, and find nothing themselves.
    """
    check_tests(tests, resamples)
    check_tests(controls, resamples)
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
    shared = sorted({label for label in labels if all(one.shows(label) for one in every)})
    if not shared:
        return ()
    cells = [one.only(np.isin(one.labels, shared)) for one in every]
    weights = resample(len(common), resamples, np.random.default_rng(seed))
    errors = [one.by_scene(one.errors) for one in cells]
    objects = [one.by_scene(one.objects) for one in cells]
    rates = [
        rates_of(error.sum(axis=0), there.sum(axis=0))
        for error, there in zip(errors, objects, strict=True)
    ]
    moved = [
        rates_of(weights @ error, weights @ there, rate)
        for error, there, rate in zip(errors, objects, rates, strict=True)
    ]
    wide = [
        spread(moved[0] - moved[1], errors[at], objects[at], float(rates[at].mean()))
        for at in (0, 1)
    ]
    scenes = ((objects[0] > 0) & (objects[1] > 0)).sum(axis=0)
    around = reach(scenes, (1 - CONFIDENCE) / 2) * np.maximum(np.maximum(*wide), TINY)
    difference = rates[0] - rates[1]
    return tuple(
        ControlRate(
            detector=tests[0].detector,
            operator=tests[0].operator,
            oracle=oracle,
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
