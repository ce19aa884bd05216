"""Where the table and the model of an audit came from."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fairprobe.documents.base import Count, Document, Settings


class TableOrigin(Document, frozen=True, kw_only=True):
    """Where a user's own table came from. `ids` are the columns that were left out because they
    look like ids.
    """

    path: str | None
    sha256: str | None
    label: str
    drop: list[str]
    ids: list[str] = msgspec.field(default_factory=list)
    weights: str | None = None  # the column of the sample weights
    target: Literal["classes", "amount"] = "classes"
    rows: Count


class ModelOrigin(Document, frozen=True, kw_only=True):
    """How the user's own model was loaded: the arguments of `load_model`, and its files by their
    SHA-256.
    """

    source: str
    encoder: str | None
    inputs: Literal["auto", "numbers", "one-hot"]
    outputs: Literal["auto", "logits", "probabilities"]
    weights: str | None
    blind_to: list[str]
    endpoint: Settings | None
    classes: list[str] | None
    files: dict[str, str]

    def arguments(self) -> dict[str, Any]:
        """What `load_model` is given besides the source and the data."""
        given = msgspec.structs.asdict(self)
        return {name: given[name] for name in given if name not in ("source", "files")}
