"""Numbers as JSON can hold them."""

from __future__ import annotations

from math import isfinite
from typing import TypeVar

Struct = TypeVar("Struct")


def unchanged(struct: Struct) -> Struct:
    """Return a result as it is; builders of repairs still call this."""
    return struct


rate_document = estimate_document = ifr_document = unchanged


def finite(value: float) -> float | None:
    """Convert infinities and NaN to null."""
    return (value if isinstance(value, int) else float(value)) if isfinite(value) else None


def is_plain(value: object) -> bool:
    """Return True if JSON can hold a setting as it is."""
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
