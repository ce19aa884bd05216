"""Conditions on rows of codes, as a constraint's words say them: what holds for a row, and how it
can be made to hold.

Everything is plain data, so a domain with constraints can be sent to another process.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fairprobe.arrays import Floats, Mask, Rows
from fairprobe.datasets.columns import shortest
from fairprobe.schema.attributes import Attribute

Codes: TypeAlias = "Mapping[str, Rows]"

SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


# -- numbers and categories ------------------------------------------------------------------------


class Quantity(ABC):
    """Something that is a number for each row."""

    @abstractmethod
    def numbers(self, codes: Codes) -> Floats: ...

    def used(self) -> Iterator[Number | Category]:
        """The attributes that it looks at."""
        return iter(())


@dataclass(frozen=True)
class Constant(Quantity):
    """A number that is written."""

    value: float

    def numbers(self, codes: Codes) -> Floats:
        return np.full(len(next(iter(codes.values()))), self.value)


@dataclass(frozen=True)
class Number(Quantity):
    """An attribute that the table holds as a number; `values` are those of its categories, where it
    has some.
    """

    attribute: Attribute
    values: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return self.attribute.name

    def numbers(self, codes: Codes) -> Floats:
        column = codes[self.name]
        if self.values:
            return np.array(self.values)[
                np.clip(np.rint(column), 0, len(self.values) - 1).astype(np.int64)
            ]
        return (
            shortest(column)
            if self.attribute.kind == "real"
            else np.rint(column).astype(np.float64) * self.attribute.bin
        )

    def used(self) -> Iterator[Number | Category]:
        yield self

    def absent(self, codes: Codes) -> Mask:
        column = codes[self.name]
        gap = (
            np.zeros(len(column), dtype=bool)
            if self.attribute.missing is None
            else column == np.float32(self.attribute.missing)
        )
        return gap | (column < 0) | (column >= len(self.values)) if self.values else gap

    def code(self, numbers: Floats, sign: str) -> Rows:
        """The code whose number fulfils `sign` with these numbers, as near to them as there is
        one.
        """
        if self.attribute.kind == "real":
            return _real(numbers, sign)
        steps = numbers / self.attribute.bin
        whole = {
            "<=": np.floor(steps),
            "<": np.ceil(steps) - 1,
            ">=": np.ceil(steps),
            ">": np.floor(steps) + 1,
            "==": np.rint(steps),
        }[sign]
        return np.asarray(whole, dtype=np.float32)


def _real(numbers: Floats, sign: str) -> Rows:
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32)
    if sign == "==":
        return near
    toward = np.float32(-np.inf if sign in ("<", "<=") else np.inf)
    return np.where(SIGNS[sign](shortest(near), numbers), near, np.nextafter(near, toward))


@dataclass(frozen=True)
class Category:
    """An attribute that the table holds as words."""

    name: str
    names: tuple[str, ...]

    def absent(self, codes: Codes) -> Mask:
        column = codes[self.name]
        return np.asarray((column < 0) | (column >= len(self.names)))


@dataclass(frozen=True)
class Arithmetic(Quantity):
    """Two numbers joined by + - * /."""

    sign: str
    left: Quantity
    right: Quantity

    def numbers(self, codes: Codes) -> Floats:
        with np.errstate(all="ignore"):
            answer: Floats = OPERATIONS[self.sign](
                self.left.numbers(codes), self.right.numbers(codes)
            )
        return np.where(np.isfinite(answer), answer, np.nan)

    def used(self) -> Iterator[Number | Category]:
        yield from self.left.used()
        yield from self.right.used()


# -- conditions ------------------------------------------------------------------------------------


class Condition(ABC):
    """Something that holds for a row or does not."""

    @abstractmethod
    def holds(self, codes: Codes) -> Mask: ...

    @abstractmethod
    def used(self) -> Iterator[Number | Category]:
        """The attributes that it looks at."""

    @property
    def repairable(self) -> bool:
        return False

    def repaired(self, codes: Codes) -> Mapping[str, Rows]:  # noqa: ARG002  (for those that are repairable)
        """Columns with which the condition holds; only those that change, and none where it cannot
        be repaired.
        """
        return {}


@dataclass(frozen=True)
class Comparison(Condition):
    """Two numbers compared."""

    sign: str
    left: Quantity
    right: Quantity

    def holds(self, codes: Codes) -> Mask:
        left, right = self.left.numbers(codes), self.right.numbers(codes)
        answer: Mask = SIGNS[self.sign](left, right)
        return answer & ~np.isnan(left) & ~np.isnan(right)

    def used(self) -> Iterator[Number | Category]:
        yield from self.left.used()
        yield from self.right.used()

    @property
    def repairable(self) -> bool:
        return self._target is not None

    @property
    def _target(self) -> tuple[Number, str, Quantity] | None:
        """The attribute that stands alone on one side, how it must compare with the other side, and
        that side.
        """
        mirrored = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
        if self.sign not in mirrored:
            return None
        for alone, sign, other in (
            (self.left, self.sign, self.right),
            (self.right, mirrored[self.sign], self.left),
        ):
            if (
                isinstance(alone, Number)
                and not alone.values
                and all(alone.name != each.name for each in other.used())
            ):
                return alone, sign, other
        return None

    def repaired(self, codes: Codes) -> Mapping[str, Rows]:
        assert self._target is not None
        target, sign, other = self._target
        wanted = other.numbers(codes)
        return {
            target.name: np.where(
                self.holds(codes) | np.isnan(wanted), codes[target.name], target.code(wanted, sign)
            )
        }


@dataclass(frozen=True)
class OneOfNumbers(Condition):
    """A number that is one of some."""

    number: Quantity
    values: tuple[float, ...]

    def holds(self, codes: Codes) -> Mask:
        return np.isin(self.number.numbers(codes), self.values)

    def used(self) -> Iterator[Number | Category]:
        yield from self.number.used()


@dataclass(frozen=True)
class OneOfCategories(Condition):
    """A category that is one of some."""

    category: Category
    codes: tuple[int, ...]

    def holds(self, codes: Codes) -> Mask:
        return np.isin(codes[self.category.name], self.codes)

    def used(self) -> Iterator[Number | Category]:
        yield self.category

    @property
    def repairable(self) -> bool:
        return True

    def repaired(self, codes: Codes) -> Mapping[str, Rows]:
        return {
            self.category.name: np.where(
                self.holds(codes), codes[self.category.name], np.float32(self.codes[0])
            )
        }


@dataclass(frozen=True)
class Both(Condition):
    """All of some conditions."""

    parts: tuple[Condition, ...]

    def holds(self, codes: Codes) -> Mask:
        return np.asarray(np.logical_and.reduce([part.holds(codes) for part in self.parts]))

    def used(self) -> Iterator[Number | Category]:
        for part in self.parts:
            yield from part.used()

    @property
    def repairable(self) -> bool:
        return all(part.repairable for part in self.parts)

    def repaired(self, codes: Codes) -> Mapping[str, Rows]:
        changed: dict[str, Rows] = {}
        for part in self.parts:
            changed |= part.repaired({**codes, **changed})
        return changed


@dataclass(frozen=True)
class Either(Condition):
    """At least one of some conditions."""

    parts: tuple[Condition, ...]

    def holds(self, codes: Codes) -> Mask:
        return np.asarray(np.logical_or.reduce([part.holds(codes) for part in self.parts]))

    def used(self) -> Iterator[Number | Category]:
        for part in self.parts:
            yield from part.used()


@dataclass(frozen=True)
class Not(Condition):
    """The opposite of a condition."""

    part: Condition

    def holds(self, codes: Codes) -> Mask:
        return ~self.part.holds(codes)

    def used(self) -> Iterator[Number | Category]:
        yield from self.part.used()


@dataclass(frozen=True)
class Rule:
    """What must hold `then`, for everybody or `when` something else does. Whoever has a gap in it
    fulfils it.
    """

    when: Condition | None
    then: Condition

    def holds(self, codes: Codes) -> Mask:
        return ~self._concerned(codes) | self.then.holds(codes)

    @property
    def repairable(self) -> bool:
        return self.then.repairable

    def repair(self, codes: Codes) -> Mapping[str, Rows]:
        concerned = self._concerned(codes)
        return {
            name: np.where(concerned, column, codes[name])
            for name, column in self.then.repaired(codes).items()
        }

    def _concerned(self, codes: Codes) -> Mask:
        concerned = (
            np.ones(len(next(iter(codes.values()))), dtype=bool)
            if self.when is None
            else self.when.holds(codes)
        )
        for condition in (self.when, self.then):
            for attribute in condition.used() if condition is not None else ():
                concerned &= ~attribute.absent(codes)
        return concerned
