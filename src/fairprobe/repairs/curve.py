"""The trade-off of a repair: settings of its dial, measured on validation people, and which of them
is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from fairprobe.errors import SettingError
from fairprobe.metrics import IFR, Estimate, Rate, dm_rs
from fairprobe.models import TorchModel, one_thread
from fairprobe.networks import is_constant
from fairprobe.repairs.base import Repair
from fairprobe.repairs.measured import Rates
from fairprobe.repairs.series import Trainer
from fairprobe.repairs.verdict import ROUNDING

POINT_SAMPLES = 10_000  # possible people
PROVED_ENOUGH = 0.97  # of possible people, by a short proof
HALF = 0.5  # of the way from no repair to the fairest setting
Choose: TypeAlias = Literal["accuracy", "fairness"] | int  # or the number of a point, from 1 on


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
    proved: float | None = None  # the share of possible people, where it decides

    @property
    def quality(self) -> float:
        return self.accuracy.estimate

    @property
    def alike(self) -> float:
        return self.ifr_p.estimate or 0.0


class AnyPoint(Protocol):
    """What a choice needs to know of a point, of classes or of amounts."""

    @property
    def setting(self) -> float: ...
    @property
    def quality(self) -> float: ...
    @property
    def alike(self) -> float: ...
    @property
    def dm_rs(self) -> Rate: ...
    @property
    def is_constant(self) -> bool: ...
    @property
    def proved(self) -> float | None: ...


P = TypeVar("P", bound=AnyPoint)


def check_choice(choose: Choose | bool, repair: Repair) -> None:
    """Refuse a choice that no point of the trade-off can meet."""
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
    rates: Rates | None = None,
) -> tuple[tuple[Point, ...], Repair, TorchModel]:
    """Every setting of the dial with the first seed; the repair that is chosen by the validation
    people, or its own setting without `max_accuracy_drop`; and its network. `proved` measures the
    share of possible people who are proved to be treated alike, which then decides.
    """
    networks = networks_of(trainer, repair)
    points = [
        _point(
            trainer, setting, network, None if proved is None else proved(network), rates or Rates()
        )
        for setting, network in sorted(networks.items())
    ]
    chosen = repair.dial_at
    if max_accuracy_drop is not None:
        data, rows = trainer.data, trainer.pinned.split().validation
        known = float((trainer.given.labels(data.x[rows]) == data.y[rows]).mean())
        chosen = chosen_setting(points, known - max_accuracy_drop, own=chosen, choose=choose)
    return marked(points, chosen), repair.at(chosen), networks[chosen]


def networks_of(trainer: Trainer, repair: Repair) -> dict[float, TorchModel]:
    """The network of every setting of the dial, with the first seed."""
    return {
        each: trainer.repaired(
            repair.at(each), trainer.seed, f"Repairing, {repair.dial} {each:.3g}"
        )
        for each in repair.dial_grid()
    }


def chosen_setting(
    points: Sequence[AnyPoint], least_accuracy: float, *, own: float, choose: Choose
) -> float:
    """The setting of the point that is named by its number, or that is best."""
    if isinstance(choose, int):
        return points[choose - 1].setting
    return best_setting(points, least_accuracy, own=own, choose=choose)


def _point(
    trainer: Trainer, setting: float, network: TorchModel, proved: float | None, rates: Rates
) -> Point:
    data, rows = trainer.data, trainer.pinned.split().validation
    with one_thread():
        people = rates.fairness(data, network, rows, trainer.seed)
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
        proved=proved,
        is_best=False,
        is_chosen=False,
    )


def best_setting(
    points: Sequence[AnyPoint], least_accuracy: float, *, own: float, choose: Choose = "fairness"
) -> float:
    """Of the settings that are accurate enough, 0 (no repair) left out, that with the highest
    IFR_p; or for "accuracy" the most accurate one that goes at least `HALF` of the way there from
    no repair. The repair's own if there is none. Where the proved share was measured, the most
    accurate setting that is proved for `PROVED_ENOUGH`, or the one with the largest share.
    """
    least = least_accuracy - ROUNDING
    able = [
        point
        for point in points
        if point.setting > 0 and not point.is_constant and point.quality >= least
    ]
    if not able:
        return own
    if any(point.proved is not None for point in able):
        proved = [point for point in able if (point.proved or 0.0) >= PROVED_ENOUGH]
        if proved:
            return max(proved, key=lambda point: point.quality).setting
        return max(able, key=lambda point: point.proved or 0.0).setting
    fairest = max(able, key=lambda point: (point.alike, -point.dm_rs.estimate))
    if choose == "fairness":
        return fairest.setting
    start = min((point.alike for point in points if point.setting == 0), default=0.0)
    halfway = start + HALF * (fairest.alike - start)
    enough = [point for point in able if point.alike >= halfway - ROUNDING]
    return max(enough, key=lambda point: (point.quality, point.alike)).setting


def marked(points: Sequence[P], chosen: float) -> tuple[P, ...]:
    """The points with the chosen one and the best trade-offs marked. A network that gives everybody
    the same answer is never one of them.
    """
    living = [point for point in points if not point.is_constant]
    best = {point.setting for point in living if not any(_beats(other, point) for other in living)}

    def mark(point: Any) -> Any:
        return replace(point, is_best=point.setting in best, is_chosen=point.setting == chosen)

    return tuple(mark(point) for point in points)


def _beats(one: AnyPoint, other: AnyPoint) -> bool:
    ours, theirs = ((point.quality, point.alike) for point in (one, other))
    return ours != theirs and ours[0] >= theirs[0] and ours[1] >= theirs[1]
