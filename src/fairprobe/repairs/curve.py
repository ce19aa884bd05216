"""Trade-off of a repair: settings of its dial, measured on validation people, and the one that
is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
from msgspec.structs import replace

from fairprobe.documents.repair import Point
from fairprobe.errors import SettingError
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import TorchModel, one_thread
from fairprobe.repairs.base import Repair
from fairprobe.repairs.panel import Panel
from fairprobe.repairs.series import Trainer
from fairprobe.repairs.verdict import ROUNDING

POINT_SAMPLES = 10_000  # possible people
PROVED_ENOUGH = 0.97  # of possible people, by a short proof
HALF = 0.5  # of the way from no repair to the fairest setting
Choose: TypeAlias = Literal["accuracy", "fairness"] | int  # or the number of a point, from 1 on


def check_choice(choose: Choose | bool, repair: Repair) -> None:
    """Raise SettingError for a choice that no point of the trade-off can meet."""
    if isinstance(choose, bool) or choose in ("accuracy", "fairness"):
        return
    points = sorted(repair.dial_grid())
    if not isinstance(choose, int) or not 1 <= choose <= len(points):
        raise SettingError(
            f"A point of the trade-off is chosen by 'accuracy', 'fairness', or its number from 1 to"
            f" {len(points)}; got '{choose}'."
        )
    if points[choose - 1] == 0:
        raise SettingError(f"Point {choose} of the trade-off is no repair at all. Choose another.")


def tradeoff(
    trainer: Trainer,
    repair: Repair,
    max_accuracy_drop: float | None,
    choose: Choose = "fairness",
    proved: Callable[[TorchModel], float | None] | None = None,
) -> tuple[tuple[Point, ...], Repair, TorchModel]:
    """Train every setting of the dial with the first seed. Return the points, the repair that is
    chosen by the validation people (its own setting without `max_accuracy_drop`), and its network.
    `proved` measures the share of possible people who are proved to be treated alike, which then
    decides.
    """
    networks = {
        setting: trainer.repaired(
            repair.at(setting), trainer.seed, f"Repairing, {repair.dial} {setting:.3g}"
        )
        for setting in repair.dial_grid()
    }
    panel = Panel(trainer.data, trainer.seed, None, target=trainer.target)
    rows = trainer.pinned.split().validation
    points = [
        replace(
            measured_point(panel, setting, network),
            proved=None if proved is None else proved(network),
        )
        for setting, network in sorted(networks.items())
    ]
    chosen = repair.dial_at
    if isinstance(choose, int) and max_accuracy_drop is not None:
        chosen = points[choose - 1].setting
    elif not isinstance(choose, int) and max_accuracy_drop is not None:
        least = panel.accuracy(trainer.given, rows) - max_accuracy_drop
        chosen = best_setting(points, least, default=chosen, choose=choose)
    return marked(points, chosen), repair.at(chosen), networks[chosen]


def measured_point(panel: Panel, setting: float, network: TorchModel) -> Point:
    """Measure a network on the validation people."""
    data, seed = panel.data, panel.seed
    model, rows = panel.target.adapted(network), data.split(seed).validation
    with one_thread():
        return Point(
            **panel.target.measure_point(data, seed, model, rows),
            setting=setting,
            dm_rs=dm_rs(
                data.domain, model, rng=np.random.default_rng([seed, 0]), samples=POINT_SAMPLES
            ),
            is_constant=panel.target.is_constant(model, data.x[rows]),
        )


def best_setting(
    points: Sequence[Point],
    least_accuracy: float,
    *,
    default: float,
    choose: Literal["accuracy", "fairness"] = "fairness",
) -> float:
    """Return the setting with the highest IFR_p, of those that are accurate enough, 0 (no repair)
    left out; for "accuracy" the most accurate one that goes at least `HALF` of the way there from
    no repair; `default` if there is none. Where the proved share was measured, the most accurate
    setting that is proved for `PROVED_ENOUGH`, or the one with the largest share.
    """
    least = least_accuracy - ROUNDING
    able = [
        point
        for point in points
        if point.setting > 0 and not point.is_constant and point.quality >= least
    ]
    if not able:
        return default
    if any(point.proved is not None for point in able):
        proved = [point for point in able if (point.proved or 0.0) >= PROVED_ENOUGH]
        if proved:
            return max(proved, key=lambda point: point.quality).setting
        return max(able, key=lambda point: point.proved or 0.0).setting
    fairest = max(able, key=lambda point: (point.fairness, -point.dm_rs.estimate))
    if choose == "fairness":
        return fairest.setting
    start = min((point.fairness for point in points if point.setting == 0), default=0.0)
    halfway = start + HALF * (fairest.fairness - start)
    enough = [point for point in able if point.fairness >= halfway - ROUNDING]
    return max(enough, key=lambda point: (point.quality, point.fairness)).setting


def marked(points: Sequence[Point], chosen: float) -> tuple[Point, ...]:
    """Mark the chosen point and the best trade-offs. A network that gives everybody the same answer
    is never one of them.
    """
    living = [point for point in points if not point.is_constant]
    best = {point.setting for point in living if not any(_beats(other, point) for other in living)}
    return tuple(
        replace(point, is_best=point.setting in best, is_chosen=point.setting == chosen)
        for point in points
    )


def _beats(point: Point, other: Point) -> bool:
    ours, theirs = (point.quality, point.fairness), (other.quality, other.fairness)
    return ours != theirs and ours[0] >= theirs[0] and ours[1] >= theirs[1]
