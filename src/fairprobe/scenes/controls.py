"""Mutation against its control: every class's rate beside its rate after the same in-painting on
plain background, or after objects were pasted back in their own places. Not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairprobe.documents.scenes import Cause, ControlRate, Oracle
from fairprobe.errors import SettingError
from fairprobe.scenes.analysis import check_tests
from fairprobe.scenes.cells import TINY, Cells
from fairprobe.scenes.intervals import correlation, difference, finite, rate_interval
from fairprobe.scenes.oracles import Test


def against_control(
    tests: Sequence[Test],
    controls: Sequence[Test],
    oracle: Oracle,
    labels: Sequence[str],
) -> tuple[ControlRate, ...]:
    """The tests of one recognizer and operator against its controls, on the scenes that have both.

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
    shared = sorted({label for label in labels if all(one.shows(label) for one in every)})
    if not shared:
        return ()
    cells = [one.only(np.isin(one.labels, shared)) for one in every]
    rates = [rate_interval(one, oracle) for one in cells]
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
