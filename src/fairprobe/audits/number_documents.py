"""Numbers as JSON can hold them."""

from __future__ import annotations

from typing import TypeVar

from fairprobe.table.searched import finite, is_plain

__all__ = ["estimate_document", "finite", "ifr_document", "is_plain", "rate_document", "unchanged"]

Struct = TypeVar("Struct")


def unchanged(struct: Struct) -> Struct:
    """Return a result as it is; builders of repairs still call this."""
    return struct


rate_document = estimate_document = ifr_document = unchanged
