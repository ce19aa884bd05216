"""The user's decision rule in the document of a run."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from fairprobe.documents.base import Document, Number

Threshold: TypeAlias = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class DecisionInfo(Document, frozen=True, kw_only=True):
    """The user's decision rule: `threshold` is the probability from which people get the `answer`,
    or that of people in no group of `thresholds`, which are by the values of the attribute `by`.
    `costs` have a row for each true class and a column for each answer; with two classes
    `threshold` is what they amount to.
    """

    answer: str
    threshold: Threshold | None
    thresholds: dict[str, Threshold]
    by: str | None
    costs: list[list[Number]] | None

    def __post_init__(self) -> None:
        if self.threshold is None and not self.thresholds and self.costs is None:
            raise ValueError("a decision rule without thresholds and without costs")
        if (self.by is None) == bool(self.thresholds):
            raise ValueError("thresholds of groups need the name of their attribute")
        if self.costs is not None and (
            self.thresholds or any(len(row) != len(self.costs) for row in self.costs)
        ):
            raise ValueError("costs must be a square table, without thresholds of groups")

    def check(self, classes: list[str], attributes: list[str]) -> None:
        """Refuse a rule that is about other data."""
        if self.answer not in classes or (self.by is not None and self.by not in attributes):
            raise ValueError("the decision rule names a class or an attribute that is not there")
        if self.costs is not None and len(self.costs) != len(classes):
            raise ValueError(f"{len(self.costs)} rows of costs for {len(classes)} classes")
