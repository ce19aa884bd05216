"""Measure how often each group has a label in the data itself, before any model: tables 1 and 2 of
IIFR.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.results import Rate

FEWEST = 10  # people of a group whose labels a report shows; fewer could point at somebody


@dataclass(frozen=True)
class GroupRates:
    """P(A = a), and P(Y = y | A = a) for every class."""

    group: str
    share: Rate
    labels: tuple[Rate, ...]


@dataclass(frozen=True)
class BaseRates:
    """Base rates of all groups; `left_out` people have a sensitive value outside the domain."""

    attribute: str
    classes: tuple[str, ...]
    everybody: GroupRates
    groups: tuple[GroupRates, ...]
    left_out: int


def base_rates(data: Dataset) -> BaseRates:
    """Return the base rates of people in the data, by their sensitive value."""
    if data.amounts is not None:
        raise SettingError(f"The label '{data.label}' is an amount: it has no base rates.")
    domain = data.domain
    inside = domain.comparable(data.x)
    own, y = domain.own_value(data.x[inside]), data.y[inside]
    classes = range(len(data.classes))

    def rates(name: str, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> GroupRates:
        people = int(chosen.sum())
        labels = tuple(Rate.of(int((y[chosen] == each).sum()), people) for each in classes)
        return GroupRates(name, Rate.of(people, len(y)), labels)

    values = range(domain.value_count)
    return BaseRates(
        " and ".join(domain.sensitive),
        data.classes,
        rates("everybody", np.ones(len(y), dtype=bool)),
        tuple(rates(domain.describe_value(value), own == value) for value in values),
        len(data) - len(y),
    )
