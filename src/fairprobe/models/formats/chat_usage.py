"""Usage of a chat endpoint: requests, tokens, cost and answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from msgspec.structs import replace

from fairprobe.report.formats import count, plural
from fairprobe.results import Amount, Count, Result


class ChatUsage(Result, frozen=True, kw_only=True):
    """Requests and answers of a run; `stored` answers came from the cache."""

    requests: Count = 0
    stored: Count = 0
    tokens_sent: Count = 0
    tokens_received: Count = 0
    cost: Amount = 0.0
    currency: str
    answers: Count = 0
    refused: Count = 0
    unreadable: Count = 0
    served: list[str]

    def plus(self, *, served: Sequence[str] = (), **amounts: float) -> Self:
        """Add these amounts, and the versions of the model that the server names."""
        added = {name: getattr(self, name) + amount for name, amount in amounts.items()}
        return replace(self, **added, served=sorted({*self.served, *served}))

    @property
    def sentence(self) -> str:
        """Say what was sent."""
        cost = f", at a cost of {self.cost:.2f} {self.currency}" if self.cost else ""
        return (
            f"{plural(self.requests, 'request')} were sent ({count(self.tokens_sent)} tokens, and"
            f" {count(self.tokens_received)} received{cost}); {plural(self.stored, 'answer')} were"
            " stored already."
        )

    @property
    def planned(self) -> str:
        """Say what a dry run would send, and what it may cost."""
        price = (
            f", at most {self.cost:,.4g} {self.currency}"
            if self.cost
            else ", and [prices] gives no price"
        )
        return (
            f"Dry run: nothing was sent. About {plural(self.requests, 'request')},"
            f" {count(self.tokens_sent)} tokens sent and at most {count(self.tokens_received)}"
            f" received{price}. {plural(self.stored, 'answer')} are stored already. Answers that"
            " vary are requested several times, and the search follows the answers, so the true"
            " number differs; [limits] of the prompt file bounds it."
        )
