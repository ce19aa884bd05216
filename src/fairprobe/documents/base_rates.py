"""The labels of groups in the data itself."""

from __future__ import annotations

from fairprobe.documents.base import Count, Document
from fairprobe.results import Rate


class BaseRateRow(Document, frozen=True, kw_only=True):
    """How many people a group has, and how many of them have each label; of a very small group the
    labels are not given.
    """

    name: str
    people: Count
    labels: list[Rate]


class BaseRatesDocument(Document, frozen=True, kw_only=True):
    """The labels of the groups in the data itself, before any model. `left_out` people have a
    value that the schema does not know.
    """

    attribute: str
    rows: list[BaseRateRow]
    left_out: Count
