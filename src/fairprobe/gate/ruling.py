"""`Ruling`, one limit held against one number, and `GateResult`, all of them together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from fairprobe.documents.table import PairDocument
from fairprobe.measures import Direction, Unit
from fairprobe.results import to_dict

Outcome: TypeAlias = Literal["pass", "fail", "uncertain"]
Decision: TypeAlias = Literal["pass", "fail"]


@dataclass(frozen=True)
class Ruling:
    """One limit held against one number.

    `outcome` is what the numbers say, `decided` what follows from it by the policy, `why` both in
    words. `name` is the measure's, with "baseline." before it where the number is a change against
    the baseline.
    """

    name: str
    what: str
    limit: float
    direction: Direction
    unit: Unit
    estimate: float | None
    low: float | None
    high: float | None
    outcome: Outcome
    decided: Decision
    why: str

    @property
    def measure(self) -> str:
        return self.name.removeprefix(CHANGE)

    @property
    def is_change(self) -> bool:
        return self.name.startswith(CHANGE)


@dataclass(frozen=True)
class GateResult:
    """All rulings on a run, and what they are about. `pairs` are the run's most striking pairs."""

    rulings: tuple[Ruling, ...]
    run: str | None
    dataset: str
    model: str
    sensitive: tuple[str, ...]
    policy: str | None
    pairs: tuple[PairDocument, ...] = ()

    @property
    def failed(self) -> tuple[Ruling, ...]:
        return tuple(ruling for ruling in self.rulings if ruling.decided == "fail")

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def exit_code(self) -> Literal[0, 1]:
        return 0 if self.passed else 1

    @property
    def headline(self) -> str:
        """PASSED or FAILED, and of how many rules."""
        total = f"{len(self.rulings):,} {'rule' if len(self.rulings) == 1 else 'rules'}"
        return f"PASSED: {total}" if self.passed else f"FAILED: {len(self.failed):,} of {total}"

    def to_dict(self) -> dict[str, Any]:
        """All of it in JSON's own types."""
        return {
            "passed": self.passed,
            "exit_code": self.exit_code,
            "run": self.run,
            "dataset": self.dataset,
            "model": self.model,
            "sensitive": list(self.sensitive),
            "policy": self.policy,
            "rulings": [asdict(ruling) for ruling in self.rulings],
            "pairs": [to_dict(pair) for pair in self.pairs],
        }


CHANGE = "baseline."


def side(low: float, high: float, limit: float, direction: Direction) -> Outcome:
    """On which side of the limit an interval lies; the limit itself is good."""
    if direction == "at least":
        low, high, limit = -high, -low, -limit
    if high <= limit:
        return "pass"
    return "fail" if low > limit else "uncertain"
