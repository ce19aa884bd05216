"""Measurements in JSON's own types; what is not defined is null."""

from __future__ import annotations

from math import isfinite
from typing import Any

from fairprobe.metrics import IFR, Estimate


def plain_number(value: float) -> float | None:
    """A number as JSON can hold it; what is no number is nothing."""
    return (value if isinstance(value, int) else float(value)) if isfinite(value) else None


def plain_estimate(estimate: Estimate) -> dict[str, Any]:
    """A number with its bootstrap interval, and the groups that have nobody to count."""
    return {
        "estimate": estimate.estimate,
        "low": estimate.low,
        "high": estimate.high,
        "samples": estimate.samples,
        "confidence": estimate.confidence,
        "left_out": list(estimate.left_out),
    }


def plain_ifr(ifr: IFR) -> dict[str, Any]:
    """An individual fairness rate, of everybody and within each group."""
    return {
        **_share(ifr),
        "groups": [{"name": name, **_share(group)} for name, group in ifr.groups],
    }


def _share(ifr: IFR) -> dict[str, Any]:
    return {
        "estimate": ifr.estimate,
        "low": ifr.low,
        "high": ifr.high,
        "samples": ifr.samples,
        "pairs": ifr.pairs,
        "confidence": ifr.confidence,
    }
