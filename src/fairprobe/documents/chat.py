"""What the document of an audit says about a chat endpoint: how it was asked, what it answered, and
whether its answers lean to one side.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fairprobe.documents.base import Amount, Count, Document, Number, Share, check_interval


class LeaningDocument(Document, frozen=True, kw_only=True):
    """By how much an outcome is more frequent with a sensitive value than with the same person's
    other values (`than`): the mean over people. `p` is adjusted for all values.
    """

    value: str
    than: str
    outcome: Literal["favorable", "no answer"]
    mean: Number
    low: Number
    high: Number
    p: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.mean, self.high)


class ChatDocument(Document, frozen=True, kw_only=True):
    """Requests and tokens of this run; `stored` answers came from the cache. Of `probed` questions
    that were asked several times first, `varied` got different answers. `asks` is how often every
    question was then asked, `settle` how often each side of a pair whose answers differed. The
    `leanings` are about `people` different people in the data.
    """

    read: Literal["text", "logprobs"]
    asks: Count
    settle: Count
    probed: Count
    varied: Count
    requests: Count
    stored: Count
    answers: Count
    refused: Count
    unreadable: Count
    tokens_sent: Count
    tokens_received: Count
    cost: Amount
    currency: str
    served: list[str]
    favorable: str
    people: Count
    confidence: Share
    leanings: list[LeaningDocument] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.varied > self.probed or self.refused + self.unreadable > self.answers:
            raise ValueError("more answers vary, or are none, than there are")

    @property
    def found(self) -> list[LeaningDocument]:
        """The leanings that are not chance, at the confidence of the intervals."""
        return [each for each in self.leanings if each.p <= 1 - self.confidence + 1e-12]
