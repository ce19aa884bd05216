"""Post-hoc repair as plain data, for tables as a model takes them: what is saved with it.

A `Plan` says how the counterparts of a table's rows are made and what becomes of the answers. The
table is one of *words*, the user's own cells, of which only those of the sensitive and coupled
columns are changed (`Words`, by the text of a schema); or one of *numbers*, in which the same
columns are recognized by their values. Which columns of numbers change with the sensitive values,
and what they contain then, is learned by probing the model's preparation (`learn_numbers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol, TypeAlias

import msgspec
import numpy as np
import pandas as pd

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError
from fairprobe.judgement import two_labels
from fairprobe.models import Model
from fairprobe.models.columns import Numbers as ToNumbers
from fairprobe.repairs.average import Averaged, AveragedAmounts
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.thresholds import Thresholds
from fairprobe.schema.coding import Coding
from fairprobe.schema.domain import Domain
from fairprobe.schema.domain_file import domain_from_text, domain_text
from fairprobe.schema.rules import WrittenConstraint
from fairprobe.schema.twins import maps_of

ROWS_AT_ONCE = 16384  # with all counterparts
SAME = 1e-4  # how far a number may be from that of a value, relative to it
UNKNOWN = -1
JUST_THERE = 1e-6
PROBED = 64  # people

Table: TypeAlias = Any  # a DataFrame of words, or an array (N, width) of numbers
Query: TypeAlias = Callable[[Any], Any]  # from a table to (N, C) probabilities, or (N,) of class 1
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]


@dataclass(frozen=True)
class Counterparts:
    """Counterparts of N rows: V tables, which of them could exist (V, N), and which of them has
    the sensitive values of each row (N,), -1 where these are not known.
    """

    tables: list[Table]
    is_possible: Mask
    own: Ints


class People(Protocol):
    """Make the counterparts of a table's rows."""

    def counterparts(self, table: Any) -> Counterparts: ...


class Coupled(msgspec.Struct, frozen=True):
    """Columns of numbers that change together with the sensitive ones: `categories` (K, columns)
    are their numbers, `onto` (V, K) which category each is under each value, by that under
    the first.
    """

    columns: list[int]
    categories: list[list[float]]
    onto: list[list[int]]


class Numbers(msgspec.Struct, frozen=True):
    """Tables of numbers: those in `columns` for each combination of sensitive values,
    `values` (V, columns).
    """

    columns: list[int]
    values: list[list[float]]
    coupled: list[Coupled] = []

    def counterparts(self, table: Any) -> Counterparts:
        x = np.asarray(table)
        own = recognized(x[:, self.columns], self.values)
        tables = []
        for place, values in enumerate(self.values):
            other = x.copy()
            other[:, self.columns] = values
            for each in self.coupled:
                other[:, each.columns] = _renamed(x[:, each.columns], each, own, place)
            tables.append(other)
        return Counterparts(tables, np.ones((len(self.values), len(x)), dtype=bool), own)


def recognized(cells: Rows, known: list[list[float]]) -> Ints:
    """(N,) the index of the known combination of numbers in each row, -1 if there is none."""
    numbers = np.asarray(known, dtype=np.float64)
    apart = np.abs(cells[:, None, :].astype(np.float64) - numbers)
    same = np.all(apart <= SAME * np.maximum(1, np.abs(numbers)), axis=2)
    return np.where(same.any(axis=1), same.argmax(axis=1), UNKNOWN)


def _renamed(cells: Rows, coupled: Coupled, own: Ints, place: int) -> Rows:
    category = recognized(cells, coupled.categories)
    onto = np.asarray(coupled.onto)
    first = onto.argsort(axis=1)[np.maximum(own, 0), np.maximum(category, 0)]
    numbers = np.asarray(coupled.categories, dtype=cells.dtype)[onto[place, first]]
    return np.where(((own >= 0) & (category >= 0))[:, None], numbers, cells)


class Words:
    """Tables of words, by a schema. Cells of other columns stay as they are, known or not."""

    def __init__(self, coding: Coding) -> None:
        self._coding, self._domain = coding, coding.domain

    def counterparts(self, table: pd.DataFrame) -> Counterparts:
        domain = self._domain
        codes = self._codes(table)
        known = domain.comparable(codes)
        every = domain.bare().counterparts(codes).swapaxes(0, 1).copy()
        every[:, known] = domain.counterparts(codes[known]).swapaxes(0, 1)
        own = np.full(len(codes), UNKNOWN)
        own[known] = domain.own_value(codes[known])
        allowed = domain.satisfies(every.reshape(-1, len(domain))).reshape(len(every), -1)
        return Counterparts(
            [self._changed(table, codes, rows) for rows in every],
            allowed | ~allowed.any(axis=0),
            own,
        )

    def _codes(self, table: pd.DataFrame) -> Rows:
        """Codes of the columns that counterparts differ in; of all where there are constraints."""
        domain = self._domain
        codes = np.tile(domain.low, (len(table), 1))
        needed = domain.names if domain.constraints else domain.changing
        for name in needed:
            if name not in table.columns and name not in domain.sensitive:
                continue  # a column that the model is not given
            attribute = domain[name]
            if attribute.missing is None:  # a gap where the schema saw none
                attribute = replace(attribute, missing=attribute.low - 1)
            codes[:, domain.index(name)] = self._coding.codes(table, attribute)
        return codes

    def _changed(self, table: pd.DataFrame, codes: Rows, other: Rows) -> pd.DataFrame:
        words = self._coding.words(other)
        columns = {}
        for name in self._domain.changing:
            if name not in table.columns:
                continue
            column, place = table[name], self._domain.index(name)
            cells = pd.Series(words[name]).set_axis(table.index)
            if name not in self._domain.sensitive:  # a gap stays a gap, as it is written
                cells = cells.astype(object).where(codes[:, place] != other[:, place], column)
            columns[name] = _as_in(cells, column)
        return table.assign(**columns)


def _as_in(cells: pd.Series[Any], column: pd.Series[Any]) -> pd.Series[Any]:
    """Convert the cells to the type of the column; categories that it lacks are added."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        plain = cells.astype(object)
        more = [each for each in plain.dropna().unique() if each not in kind.categories]
        return plain.astype(pd.CategoricalDtype([*kind.categories, *more], kind.ordered))
    if kind.kind in "iuf" and cells.notna().all():
        return cells.astype(np.float64 if kind.kind == "f" else kind)
    return cells.astype(object) if kind.kind == "O" else cells


class Plan(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Post-hoc repair of a model. `shares` (V,) are the weights of an average. `thresholds` of
    the class `positive` are one for all, or one for each value and a last one where it is unknown.
    `amounts`: the model answers with one number, not with probabilities.
    """

    repair: Literal["average", "thresholds", "abstain"]
    shares: list[Share] = []
    thresholds: list[Share] = []
    positive: Annotated[int, msgspec.Meta(ge=0)] = 1
    schema: str = ""
    numbers: Numbers | None = None
    amounts: bool = False

    @cached_property
    def people(self) -> People:
        if self.numbers is not None:
            return self.numbers
        coding = domain_from_text(self.schema).coding
        if coding.domain.value_count != len(self.shares):
            raise _damaged("it has other shares than values")
        return Words(coding)

    def answer(self, table: Table, query: Query) -> tuple[Floats, Mask]:
        """(N, C) the probabilities after the repair, or (N, 1) the amounts; and (N,) who is handed
        to a human.
        """
        parts = [self._answer(part, query) for part in self._parts(table)]
        return np.concatenate([p for p, _ in parts]), np.concatenate([who for _, who in parts])

    def _parts(self, table: Table) -> Iterator[Table]:
        count = max(1, ROWS_AT_ONCE // max(1, len(self.shares)))
        for start in range(0, max(1, len(table)), count):
            rows = slice(start, start + count)
            yield table.iloc[rows] if isinstance(table, pd.DataFrame) else table[rows]

    def _answer(self, table: Table, query: Query) -> tuple[Floats, Mask]:
        made, nobody = self.people.counterparts(table), np.zeros(len(table), dtype=bool)
        if self.repair == "thresholds":
            p = _both(query(table), len(table))
            return self._weighed(p, made.own), nobody
        tables = [*made.tables, table] if self.repair == "abstain" else made.tables
        whole = pd.concat(tables) if isinstance(table, pd.DataFrame) else np.concatenate(tables)
        p = np.reshape(query(whole), (-1, 1)) if self.amounts else _both(query(whole), len(whole))
        every = p.reshape(len(tables), len(table), -1)
        if self.repair == "average":
            weights = np.asarray(self.shares)[:, None] * made.is_possible
            weights = np.where(weights.any(axis=0), weights, made.is_possible)
            return (weights[:, :, None] * every).sum(axis=0) / weights.sum(axis=0)[:, None], nobody
        return self._abstained(every, made)

    def _abstained(self, every: Floats, made: Counterparts) -> tuple[Floats, Mask]:
        """Return the model's own answers, the last of all; ties where they differ."""
        *_, classes = every.shape
        labels = every.argmax(axis=2)
        own, tie = every[-1], np.full(classes, 1 / classes)
        if self.thresholds:
            threshold = self.thresholds[0]
            labels = (every[:, :, self.positive] >= threshold).astype(np.int64)
            tie[:] = 1 - threshold
            tie[self.positive] = threshold
        possible = np.vstack([made.is_possible, np.ones((1, len(own)), dtype=bool)])
        handed = two_labels(labels.T, possible.T)
        return np.where(handed[:, None], tie, own), handed

    def _weighed(self, p: Floats, own: Ints) -> Floats:
        """Probabilities of which the highest is the answer that the threshold gives."""
        threshold = np.asarray(self.thresholds)[own if len(self.thresholds) > 1 else 0]
        weights = np.broadcast_to(np.reshape(threshold, (-1, 1)), p.shape).copy()
        weights[:, self.positive] = 1 - threshold
        weighed = p * weights
        return np.asarray(weighed / weighed.sum(axis=1, keepdims=True))


def reached(thresholds: list[float]) -> list[float]:
    """Lower the thresholds a little, so that equality passes."""
    return [each * (1 - JUST_THERE) for each in thresholds]


def decoded(content: object) -> Plan:
    """Decode a plan from plain data; raise ModelError if it is invalid."""
    try:
        plan = msgspec.convert(content, Plan)
        values = 1 if plan.numbers is None else len(plan.numbers.values)
        if plan.repair == "average" and not (plan.shares and sum(plan.shares) > 0):
            raise ValueError("an average needs shares")  # noqa: TRY301
        if plan.amounts and plan.repair != "average":
            raise ValueError("amounts are only averaged")  # noqa: TRY301
        if plan.repair == "thresholds" and not plan.thresholds:
            raise ValueError("it has no thresholds")  # noqa: TRY301
        if plan.numbers is not None and values != len(plan.shares):
            raise ValueError("it has other shares than values")  # noqa: TRY301
    except (ValueError, msgspec.ValidationError) as error:
        raise _damaged(error) from error
    return plan


def _damaged(why: object) -> ModelError:
    return ModelError(
        f"The repair that is saved with this model is damaged: {why}. Repair it again."
    )


def _both(answer: Any, rows: int) -> Floats:
    """(N, C) from what a model answered."""
    p = np.asarray(answer, dtype=np.float64)
    p = p[:, 0] if p.ndim == 2 and p.shape[1] == 1 else p
    p = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
    if p.ndim != 2 or len(p) != rows:
        raise ModelError(f"The model returned shape {p.shape} for {rows} rows.")
    return p


# -- the plan of a repaired model ------------------------------------------------------------------


def plan_of(
    repair: PostHoc,
    repaired: Model,
    data: Dataset,
    *,
    to_numbers: ToNumbers | None = None,
    order: Sequence[int] | None = None,
) -> Plan:
    """Return the repair of `repaired` as plain data. `to_numbers` turns rows into the model's
    numbers, None if it takes words; `order` is the position of each class among the model's scores,
    if it differs.
    """
    count, rule = data.domain.value_count, repaired.decision
    positive = 1 if rule is None else rule.positive
    settings: dict[str, Any] = {
        "repair": repair.name,
        "shares": [1 / count] * count,
        "positive": positive if order is None else order[positive],
    }
    if isinstance(repaired, AveragedAmounts):
        settings |= {"amounts": True, "positive": 0}
    if isinstance(repaired, Averaged | AveragedAmounts):
        settings["shares"] = repaired.shares.astype(float).tolist()
    elif rule is not None:
        if rule.column is not None and rule.column not in data.domain.sensitive_columns:
            raise ModelError(
                "The decision has thresholds by an attribute that is not sensitive, which a saved"
                " repair does not know. Give one threshold for all."
            )
        settings["thresholds"] = [float(each) for each in rule.thresholds]
        if isinstance(repair, Thresholds):
            settings["thresholds"] = reached(settings["thresholds"])
    if to_numbers is not None:
        return Plan(**settings, numbers=learn_numbers(to_numbers, data))
    if needs_code(data):
        raise ModelError(
            "The schema has constraints made of code, which cannot be saved with a model. Write"
            " them as rules in a domain.toml."
        )
    return Plan(**settings, schema=domain_text(data.declared()))


def needs_code(data: Dataset) -> bool:
    """Return True if constraints without a text rule out counterparts of people in the data."""
    of_code = tuple(
        each
        for each in data.domain.constraints
        if not (isinstance(each, WrittenConstraint) and each.text is not None)
    )
    return bool(of_code) and _rules_out(data)


def learn_numbers(to_numbers: ToNumbers, data: Dataset) -> Numbers:
    """Find the model's columns that change with the sensitive values and with what is coupled to
    them; raise ModelError if they hold anything else as well.
    """
    domain = data.domain
    if domain.constraints and _rules_out(data):
        raise ModelError(
            "The constraints of the schema rule out counterparts, and a table of numbers does not"
            " show whose. Save a model that takes the table's own words."
        )
    able = data.x[domain.comparable(data.x)]
    some = able[np.random.default_rng(0).permutation(len(able))[:PROBED]]
    columns, values = _standing(to_numbers, domain.bare().counterparts(some), domain.sensitive)
    coupled = []
    for each in maps_of(domain):
        attribute = domain.attributes[each.column]
        rows = np.repeat(some[:, None], len(attribute.categories), axis=1)
        rows[:, :, each.column] = np.arange(len(attribute.categories))
        shown, categories = _standing(to_numbers, rows, (attribute.name,))
        if set(shown) & set(columns):
            raise _mixed((*domain.sensitive, attribute.name))
        coupled.append(Coupled(shown, categories, each.onto.astype(int).tolist()))
    return Numbers(columns, values, coupled)


def _standing(
    to_numbers: ToNumbers, rows: Rows, names: Sequence[str]
) -> tuple[list[int], list[list[float]]]:
    """Find the columns that differ between the rows (n, V, A) of each person, and their numbers for
    each of the V, the same for all people.
    """
    people, values, attributes = rows.shape
    numbers = np.asarray(to_numbers(rows.reshape(-1, attributes)), dtype=np.float64)
    numbers = numbers.reshape(people, values, -1)
    first = numbers[:, :1]
    differs = (numbers != first) & ~(np.isnan(numbers) & np.isnan(first))
    columns = np.flatnonzero(differs.any(axis=(0, 1)))
    if len(columns) == 0:
        raise ModelError(
            f"{' and '.join(names)} does not reach the model's numbers, so there is nothing to"
            " repair by them."
        )
    standing = numbers[0][:, columns]
    limit = SAME * np.maximum(1, np.abs(standing))
    if not (np.abs(numbers[:, :, columns] - standing) <= limit).all():
        raise _mixed(names)
    return columns.tolist(), standing.tolist()


def _mixed(names: Sequence[str]) -> ModelError:
    return ModelError(
        f"The model's numbers mix {' and '.join(names)} with other attributes, so counterparts"
        " cannot be made among them. Save a model that takes the table's own words."
    )


def _rules_out(data: Dataset) -> bool:
    domain: Domain = data.domain
    able = data.x[domain.comparable(data.x) & domain.satisfies(data.x)]
    return not domain.satisfies(domain.counterparts(able).reshape(-1, len(domain))).all()
