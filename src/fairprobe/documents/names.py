"""The document of a names experiment: the same résumés under different names."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from fairprobe.documents.base import (
    Amount,
    Count,
    Document,
    Number,
    Seconds,
    Settings,
    Share,
    check_interval,
)
from fairprobe.documents.text import TextModelDocument

FORMAT: Final = 1  # raised when the meaning of a field changes


class NamesInterval(Document, frozen=True, kw_only=True):
    """A difference of outcomes with its interval."""

    estimate: Number
    low: Number
    high: Number

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)


class NamesGroup(Document, frozen=True, kw_only=True):
    """The names of a group against all others. `cross` and `same`: how far two names of different
    groups, and of the same group, are apart on a résumé. `p` is adjusted for all groups.
    """

    attribute: str
    group: str
    names: Count
    mean: Number
    difference: NamesInterval
    p: Share
    cross: Amount
    same: Amount
    excess: NamesInterval
    is_found: bool


class NameDocument(Document, frozen=True, kw_only=True):
    """A name, its groups by attribute, and its mean outcome over the résumés."""

    name: str
    mean: Number
    groups: dict[str, str]


class NamesUsage(Document, frozen=True, kw_only=True):
    """What a chat endpoint was asked; `stored` answers came from the cache."""

    requests: Count
    stored: Count
    tokens_sent: Count
    tokens_received: Count
    cost: Amount
    currency: str
    answers: Count
    refused: Count
    unreadable: Count
    served: list[str]


class NamesDocument(Document, frozen=True, kw_only=True):
    """A whole names experiment. The outcome is a share, or the mean rating on a scale of `span`
    points. `stopped` says why it ended early, if it is `partial`.
    """

    kind: Literal["names"] = "names"
    format: Literal[1] = FORMAT
    created: str
    command: str
    versions: dict[str, str]
    seed: int
    dataset: str
    sensitive: list[str]
    partial: bool
    stopped: str | None
    messages: list[str]
    seconds: dict[str, Seconds]
    settings: Settings
    source: str
    model: TextModelDocument
    outcome: str
    is_rating: bool
    span: Amount
    resumes: Count
    confidence: Share
    names: list[NameDocument]
    groups: list[NamesGroup]
    usage: NamesUsage | None
    verdict: str
    sentences: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.span <= 0:
            raise ValueError(f"a scale of {self.span}")
        for each in self.groups:
            if not any(name.groups.get(each.attribute) == each.group for name in self.names):
                raise ValueError(f"no name belongs to the group {each.group!r}")

    @property
    def found(self) -> list[NamesGroup]:
        """The groups whose difference is not chance."""
        return [each for each in self.groups if each.is_found]
