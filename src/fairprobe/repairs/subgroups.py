"""Find groups of people whom a repair harms: every value of every attribute (numbers by quarters),
alone and within each sensitive value.

These shares are compared, each of them bad for the people if it rises:

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
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.datasets.base import Dataset
from fairprobe.documents.repair import Share, SubgroupChange
from fairprobe.metrics.rates import parts_of
from fairprobe.statistics.paired import holm, paired_difference

SMALLEST = 30  # people held out
SIZE = 0.1  # of the people of a group
CLEAREST = 10  # changes that a proof lists


@dataclass(frozen=True)
class Subgroup:
    """Share of a group of held-out people: which `rows` of them it is about, and the `rest`."""

    name: str
    share: Share
    rows: Ints
    rest: Ints


def subgroups(data: Dataset, rows: Ints) -> list[Subgroup]:
    """List all groups of these people that are large enough, each once."""
    domain, x, truth = data.domain, data.x[rows], data.y[rows]
    value, comparable = np.full(len(x), -1), domain.comparable(x)
    value[comparable] = domain.own_value(x[comparable])
    named: dict[bytes, tuple[str, Mask]] = {}
    for column, attribute in enumerate(domain.attributes):
        for text, within in parts_of(attribute, x[:, column]):
            name = f"{attribute.name} {text}"
            named.setdefault(within.tobytes(), (name, within))
            for number in range(domain.value_count):
                both = within & (value == number)
                crossed = f"{name}, {domain.describe_value(number)}"
                named.setdefault(both.tobytes(), (crossed, both))
    everybody = np.ones(len(rows), dtype=bool)
    shares: list[tuple[Share, Mask]] = [("wrong", everybody)]
    if data.amounts is not None:
        shares = [("error", everybody)]
    elif data.favourable is not None:
        deserving = truth == data.favourable
        shares = [("refused", everybody), ("wrongly refused", deserving), *shares]
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
    """Measure what happened to each group, the clearest harm first. `given` (N,), `control` and
    `repaired` (K, N) are the classes that the held-out people `rows` get, or the errors of amounts.
    With `worst_control` the control of each group is the one with which it fares worst: a single
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
                rest=float(bad_of(repaired, group.rest).mean()),
                p=1.0,
            )
        )
        p.append(max(paired_difference(bad[2] - other).p_above_zero for other in bad[:2]))
    corrected = (
        replace(change, p=float(value)) for change, value in zip(measured, holm(p), strict=True)
    )
    return tuple(sorted(corrected, key=lambda change: (change.p, -change.rise)))


def is_harmed(group: SubgroupChange, alpha: float) -> bool:
    """Return True if the share rose by more than `SIZE`, beyond noise."""
    return group.p <= alpha and group.rise > SIZE and group.repaired - group.rest > SIZE


def clearest(groups: Sequence[SubgroupChange], confidence: float) -> tuple[SubgroupChange, ...]:
    """Mark the harm among the clearest changes."""
    return tuple(
        replace(group, is_harm=is_harmed(group, 1 - confidence)) for group in groups[:CLEAREST]
    )
