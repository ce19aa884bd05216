"""Numbers with their intervals, as documents hold them."""

from __future__ import annotations

from math import isfinite
from typing import Any

from msgspec import structs

from fairprobe.documents import (
    EstimateDocument,
    GroupRate,
    Ifr,
    NamedIfr,
    RateDocument,
    TauRate,
)
from fairprobe.metrics import IFR, Estimate, Group, Rate


def rate_document(rate: Rate) -> RateDocument:
    """A rate with its interval."""
    return rate


def group_document(group: Group) -> GroupRate:
    """The rate of one group."""
    return GroupRate(attribute=group.attribute, value=group.value, **group.rate.to_dict())


def estimate_document(estimate: Estimate) -> EstimateDocument:
    """A number with its interval."""
    return estimate


def estimate_fields(estimate: Estimate) -> dict[str, Any]:
    """The fields of a number with its interval."""
    return structs.asdict(estimate)


def ifr_document(ifr: IFR) -> Ifr:
    """An individual fairness rate, of everybody and of each group."""
    return Ifr(
        **_fields_of_ifr(ifr),
        groups=[NamedIfr(name=name, **_fields_of_ifr(group)) for name, group in ifr.groups],
    )


def tau_rate(tau: float, ifr: IFR) -> TauRate:
    """IFR_p of everybody at this τ."""
    return TauRate(tau=tau, **_fields_of_ifr(ifr))


def _fields_of_ifr(ifr: IFR) -> dict[str, Any]:
    names = ("estimate", "low", "high", "samples", "pairs", "confidence")
    return {name: getattr(ifr, name) for name in names}


def finite(value: float) -> float | None:
    """A number as JSON can hold it; infinities and NaN become null."""
    return (value if isinstance(value, int) else float(value)) if isfinite(value) else None


def is_plain(value: object) -> bool:
    """Whether JSON can hold a setting as it is."""
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
