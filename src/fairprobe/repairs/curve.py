"""The trade-off of a repair: settings of its dial, measured on validation people, and which of them
is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairprobe.metrics import IFR, Estimate, Rate, dm_rs, fairness
from fairprobe.models import TorchModel, one_thread
from fairprobe.networks import is_constant
from fairprobe.repairs.base import Repair
from fairprobe.repairs.series import Trainer
from fairprobe.repairs.verdict import ROUNDING

POINT_SAMPLES = 10_000  # possible people


@dataclass(frozen=True)
class Point:
    """A setting of the repair's dial, measured on the validation people. Settings may be chosen by
    these, not by the test people.
    """

    setting: float
    accuracy: Rate
    ifr_b: IFR
    ifr_p: IFR
    dm_rs: Rate
    dp: Estimate
    is_constant: bool
    is_best: bool  # no other point is as good in both accuracy and IFR_p and better in one
    is_chosen: bool


def tradeoff(
    trainer: Trainer, repair: Repair, max_accuracy_drop: float | None
) -> tuple[tuple[Point, ...], Repair, TorchModel]:
    """Every setting of the dial with the first seed; the repair that is chosen by the validation
    people, or its own setting without `max_accuracy_drop`; and its network.
    """
    networks = {
        each: trainer.repaired(
            repair.at(each), trainer.seed, f"Repairing, {repair.dial} {each:.3g}"
        )
        for each in repair.dial_grid()
    }
    points = [_point(trainer, setting, network) for setting, network in sorted(networks.items())]
    chosen = repair.dial_at
    if max_accuracy_drop is not None:
        data, rows = trainer.data, trainer.pinned.split().validation
        known = float((trainer.given.labels(data.x[rows]) == data.y[rows]).mean())
        chosen = best_setting(points, known - max_accuracy_drop, own=chosen)
    return marked(points, chosen), repair.at(chosen), networks[chosen]


def _point(trainer: Trainer, setting: float, network: TorchModel) -> Point:
    data, rows = trainer.data, trainer.pinned.split().validation
    with one_thread():
        people = fairness(data, network, rows)
        rng = np.random.default_rng([trainer.seed, 0])
        common = dm_rs(data.domain, network, rng=rng, samples=POINT_SAMPLES)
    return Point(
        setting=setting,
        accuracy=people.accuracy,
        ifr_b=people.individual.b,
        ifr_p=people.individual.p,
        dm_rs=common,
        dp=people.groups[-1].dp if people.groups else Estimate(None, None, None, people.rows),
        is_constant=is_constant(network, data.x[rows]),
        is_best=False,
        is_chosen=False,
    )


def best_setting(points: Sequence[Point], least_accuracy: float, *, own: float) -> float:
    """The setting with the highest IFR_p among those that are accurate enough, 0 (no repair) left
    out; the repair's own if there is none.
    """
    least = least_accuracy - ROUNDING
    able = [
        point
        for point in points
        if point.setting > 0 and not point.is_constant and point.accuracy.estimate >= least
    ]
    return (
        max(able, key=lambda point: (point.ifr_p.estimate or 0.0, -point.dm_rs.estimate)).setting
        if able
        else own
    )


def marked(points: Sequence[Point], chosen: float) -> tuple[Point, ...]:
    """The points with the chosen one and the best trade-offs marked. A network that gives everybody
    the same answer is never one of them.
    """
    living = [point for point in points if not point.is_constant]
    best = {point.setting for point in living if not any(_beats(other, point) for other in living)}
    return tuple(
        replace(point, is_best=point.setting in best, is_chosen=point.setting == chosen)
        for point in points
    )


def _beats(one: Point, other: Point) -> bool:
    ours, theirs = (
        (point.accuracy.estimate, point.ifr_p.estimate or 0.0) for point in (one, other)
    )
    return ours != theirs and ours[0] >= theirs[0] and ours[1] >= theirs[1]
