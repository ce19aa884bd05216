"""A clock for the searches of these tests that does not depend on the machine."""

from __future__ import annotations

import pytest

from fairprobe.search import loop


class TickingClock:
    """One second passes with every look at it, on the clock and of computing."""

    def __init__(self) -> None:
        self.looks = self.computed = 0

    @property
    def wall(self) -> float:
        self.looks += 1
        return float(self.looks)

    @property
    def cpu(self) -> float:
        self.computed += 1
        return float(self.computed)


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search looks at its clock once after every batch that is judged."""
    monkeypatch.setattr(loop, "Clock", TickingClock)
