"""Intervals that hold together, and the difference of two numbers with their intervals."""

from __future__ import annotations

from math import hypot


def confidence_at_look(confidence: float, look: int, numbers: int = 1) -> float:
    """Return the confidence of one look, and of each of n `numbers`, at which all hold together.

    Whoever looks at growing data until it shows what they like is wrong more often than each look
    says. With the confidence 1 − α/(k(k+1)) at look k, the errors of all looks together are at
    most α · (1/2 + 1/6 + 1/12 + …) = α.
    """
    return 1 - (1 - confidence) / (numbers * look * (look + 1))


def newcombe(
    one: tuple[float, float, float], other: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Return the difference of two independent numbers (estimate, low, high) with Newcombe's
    interval (square and add).

    Each end of an interval is taken as a standard error on that side, so it needs nothing but the
    estimates and their intervals, which need not be symmetric.
    """
    (e1, l1, u1), (e2, l2, u2) = one, other
    difference = e1 - e2
    return difference, difference - hypot(e1 - l1, u2 - e2), difference + hypot(u1 - e1, e2 - l2)
