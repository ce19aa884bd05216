"""Whether a repair harms some group of people: every value of every attribute (numbers by
quarters), alone and within each sensitive value.

Three shares are compared, each of them bad for the people if it rises:

    refused             do not get the favorable answer
    wrongly refused     do not get it although it is theirs by the truth
    wrong               get an answer that is not the truth (the only share without a favorable one)
    error               of amounts, the only one: the mean error, 1 being that of always answering
                        the mean

A group is harmed if a share is more than `SIZE` higher than with the control *and* with the given
network, beyond noise against both, and more than `SIZE` higher than among all other people: a group
that loses an advantage over the others, and no more, is not harmed. The noise is that of seeds and
people together (`statistics.paired`); the p-values of all groups and shares are corrected by Holm.
The labels are taken for the truth: where they favor a group, taking that away is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.datasets.base import Dataset
from fairprobe.metrics.people import parts_of
from fairprobe.statistics.paired import holm, paired_difference

SMALLEST = 30  # people held out
SIZE = 0.1  # of the people of a group

Share = Literal["refused", "wrongly refused", "wrong", "error"]


@dataclass(frozen=True)
class Subgroup:
    """A share of a group of held-out people: which `rows` of them it is about, and the `rest`."""

    name: str
    share: Share
    rows: Ints
    rest: Ints


@dataclass(frozen=True)
class SubgroupChange:
    """The share with the given network, the controls and the repaired networks (means over the
    seeds); `rest` is that of all other people with the repaired ones. `p`: Holm's p-value of "no
    harm".
    """

    name: str
    share: Share
    people: int
    given: float
    control: float
    repaired: float
    rest: float
    p: float

    @property
    def rise(self) -> float:
        """How much higher the share is than with either of the other two."""
        return self.repaired - max(self.given, self.control)

    def is_harm(self, alpha: float) -> bool:
        return self.p <= alpha and self.rise > SIZE and self.repaired - self.rest > SIZE


def subgroups(data: Dataset, rows: Ints) -> list[Subgroup]:
    """All groups of these people that are large enough, each once."""
    domain, x, truth = data.domain, data.x[rows], data.y[rows]
    own, known = np.full(len(x), -1), domain.comparable(x)
    own[known] = domain.own_value(x[known])
    named: dict[bytes, tuple[str, Mask]] = {}
    for place, attribute in enumerate(domain.attributes):
        for text, within in parts_of(attribute, x[:, place]):
            name = f"{attribute.name} {text}"
            named.setdefault(within.tobytes(), (name, within))
            for value in range(domain.value_count):
                both = within & (own == value)
                crossed = f"{name}, {domain.describe_value(value)}"
                named.setdefault(both.tobytes(), (crossed, both))
    shares: list[tuple[Share, Mask]] = [("wrong", np.ones(len(rows), dtype=bool))]
    if data.amounts is not None:
        shares = [("error", shares[0][1])]
    elif data.favourable is not None:
        shares = [
            ("refused", np.ones(len(rows), dtype=bool)),
            ("wrongly refused", truth == data.favourable),
            *shares,
        ]
    return [
        Subgroup(name, share, np.flatnonzero(within & among), np.flatnonzero(~within & among))
        for share, among in shares
        for name, within in named.values()
        if (within & among).sum() >= SMALLEST and (~within & among).any()
    ]


def changes(
    data: Dataset,
    rows: Ints,
    groups: Sequence[Subgroup],
    *,
    given: Ints | Floats,
    control: Ints | Floats,
    repaired: Ints | Floats,
    worst_control: bool = False,
) -> tuple[SubgroupChange, ...]:
    """What happened to each group, the clearest harm first. `given` (N,), `control` and `repaired`
    (K, N) are the classes that the held-out people `rows` get, or the errors of amounts. With
    `worst_control` the control of each group is the one with which it fares worst: a single
    repaired network must lie beyond the spread of the controls.
    """
    truth = data.y[rows]
    measured: list[SubgroupChange] = []
    p: list[float] = []
    for group in groups:
        right = truth if group.share == "wrong" else np.full(len(truth), data.favourable)
        is_error = group.share == "error"

        def bad_of(answers: Ints | Floats, rows: Ints) -> Floats:
            some = np.atleast_2d(answers)[:, rows]
            return np.asarray(some if is_error else some != right[rows], dtype=np.float64)  # noqa: B023

        bad = [bad_of(answers, group.rows) for answers in (given, control, repaired)]
        rest = float(bad_of(repaired, group.rest).mean())
        if worst_control:
            bad[1] = bad[1][[bad[1].mean(axis=1).argmax()]]
        measured.append(
            SubgroupChange(
                name=group.name,
                share=group.share,
                people=len(group.rows),
                given=float(bad[0].mean()),
                control=float(bad[1].mean()),
                repaired=float(bad[2].mean()),
                rest=rest,
                p=1.0,
            )
        )
        p.append(max(paired_difference(bad[2] - each).p_above_zero for each in bad[:2]))
    found = (replace(change, p=float(each)) for change, each in zip(measured, holm(p), strict=True))
    return tuple(sorted(found, key=lambda change: (change.p, -change.rise)))
