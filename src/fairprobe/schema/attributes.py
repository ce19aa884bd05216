"""Attributes of people: kind, its bounds, its codes in words; and rules between
attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairprobe.arrays import Mask, Rows
from fairprobe.errors import DomainError, suggest

Kind = Literal["integer", "categorical", "real"]

LARGEST_REAL = 1e37  # float32 ends near 3e38, and a step beyond a bound must still be a number
LARGEST_EXACT_INTEGER = 2**24  # rows are float32: beyond this, adjacent integers are the same


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """Attribute of a person: its kind, its bounds, and its codes in words.

    - `categories` name the codes 0, 1, 2, …; `low` and `high` may exclude some of them.
    - `bin` is the width of the original value that one integer code stands for (age in decades:
      10).
    - `grain` is the size of one search step on a real attribute (by default a hundredth of its
      range).
    - `missing` is the code for "not known"; it lies outside the bounds, so it is never generated.
    - `one_hot`: networks see a categorical attribute as one column for each category.
    """

    name: str
    kind: Kind = "integer"
    low: float = 0
    high: float = -1
    categories: tuple[str, ...] = ()
    one_hot: bool = False
    bin: float = 1
    grain: float = 0
    missing: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("integer", "categorical", "real"):
            raise DomainError(
                f"Attribute '{self.name}': kind must be integer, categorical or real, not"
                f" '{self.kind}'."
            )
        if self.kind == "categorical":
            self._check_categories()
        elif self.one_hot:
            raise DomainError(
                f"Attribute '{self.name}' is {self.kind}; only a categorical attribute can be"
                " one-hot."
            )
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low <= self.high):
            raise DomainError(
                f"Attribute '{self.name}' needs finite bounds with low ≤ high; got {self.low:g} to"
                f" {self.high:g}."
            )
        if max(abs(self.low), abs(self.high)) > LARGEST_REAL:
            raise DomainError(
                f"Attribute '{self.name}' has bounds beyond {LARGEST_REAL:g}, which rows cannot"
                " hold. Count it in a larger unit."
            )
        if self.missing is not None and self.low <= self.missing <= self.high:
            raise DomainError(
                f"Attribute '{self.name}': the code {self.missing:g} for a missing value lies"
                f" inside the bounds {self.low:g} to {self.high:g}, so it would be generated."
                " Choose one outside."
            )
        if self.kind != "real":
            self._check_whole()
        is_real = self.kind == "real"
        if self.grain == 0:
            usual = (self.high - self.low) / 100 or 1.0 if is_real else 1.0
            object.__setattr__(self, "grain", usual)
        elif not 0 < self.grain <= LARGEST_REAL or not (is_real or self.grain == int(self.grain)):
            raise DomainError(
                f"Attribute '{self.name}' is {self.kind}; a search step (grain) of {self.grain:g}"
                " is not possible for it."
            )

    def _check_categories(self) -> None:
        if not self.categories:
            raise DomainError(
                f"Attribute '{self.name}' is categorical and needs the names of its categories."
            )
        if len(set(self.categories)) != len(self.categories):
            raise DomainError(f"Attribute '{self.name}' names a category twice.")
        if self.high == -1:
            object.__setattr__(self, "high", len(self.categories) - 1)
        if self.low < 0 or self.high >= len(self.categories):
            raise DomainError(
                f"Attribute '{self.name}' has {len(self.categories)} categories, numbered from 0,"
                f" but bounds {self.low:g} to {self.high:g}."
            )

    def _check_whole(self) -> None:
        if self.low != int(self.low) or self.high != int(self.high):
            raise DomainError(
                f"Attribute '{self.name}' is {self.kind}; its bounds must be whole, not"
                f" {self.low:g} to {self.high:g}."
            )
        largest = max(abs(self.low), abs(self.high))
        if largest > LARGEST_EXACT_INTEGER:
            raise DomainError(
                f"Attribute '{self.name}' reaches {largest:,.0f}; integers are exact up to"
                f" {LARGEST_EXACT_INTEGER:,}. Count it in a larger unit, or declare it real."
            )

    @property
    def size(self) -> int | None:
        """Return the number of values that the attribute can take; None when it is real."""
        return None if self.kind == "real" else int(self.high - self.low) + 1

    def describe(self, code: float) -> str:
        """Return the code in words: a category's name, a range of the original value, or the
        number.
        """
        if self.missing is not None and code == self.missing:
            return "not known"
        if self.kind == "categorical":
            index = int(code)
            return self.categories[index] if 0 <= index < len(self.categories) else f"code {code:g}"
        if self.kind == "real":
            return _real(code)
        if self.bin != 1:
            return f"{code * self.bin:,.0f}–{(code + 1) * self.bin - 1:,.0f}"
        return f"{code:,.0f}"

    def describe_range(self, above: float | None, up_to: float | None) -> str:
        """Numbers in words: those greater than one code and at most another. "40–59", "above 45",
        "up to 70,100".
        """
        first, last = (
            None if code is None else self.describe(code).rpartition("–")[2]
            for code in (above, up_to)
        )
        if above is None and up_to is None:
            return "known"
        if above is None or up_to is None:
            return f"up to {last}" if above is None else f"above {first}"
        if self.kind == "real":
            return f"above {first} and up to {last}"
        least = self.describe(above + 1).partition("–")[0]
        return last if least == last else f"{least}–{last}"

    def code_of(self, category: str) -> int:
        """Return the code of a category's name."""
        if category not in self.categories:
            raise DomainError(
                f"'{category}' is not a category of"
                f" '{self.name}'.{suggest(category, self.categories)}"
            )
        return self.categories.index(category)


def _real(value: float) -> str:
    """70,100; 0.125; 1.5e+20. Four digits that matter below a thousand, and as many as a row can
    hold above.
    """
    short = f"{value:.4g}"
    if not 1000 <= abs(float(short)) < 1e15:
        return short
    return f"{float(f'{value:.7g}'):,.0f}"


@dataclass(frozen=True)
class Constraint:
    """Rule between attributes that every generated row obeys: `holds` takes a column of codes for
    each name.

    `repair`, if there is one, returns the columns that must change for the rule to hold; without
    it, rows that break the rule are discarded, which is slow when few rows obey it.
    """

    name: str
    holds: Callable[[Mapping[str, Rows]], Mask]
    repair: Callable[[Mapping[str, Rows]], Mapping[str, Rows]] | None = None
