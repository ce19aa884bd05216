"""`Dataset`: coded rows with their labels, their domain, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.errors import DataError
from fairprobe.schema.coding import Coding
from fairprobe.schema.domain import Domain
from fairprobe.schema.domain_file import Declared
from fairprobe.schema.mining import mine_twins, with_mined
from fairprobe.schema.twins import CounterpartKind, Coupling, check_counterparts

TRAINING, VALIDATION = 7, 1  # tenths of the rows; the rest is the test part


@dataclass(frozen=True)
class Card:
    """Facts that people should know about a data set before they use it."""

    title: str
    about: str
    source: str
    license: str
    citation: str


@dataclass(frozen=True)
class Split:
    """Row numbers of the three disjoint parts."""

    train: Ints
    validation: Ints
    test: Ints


class Outline(Protocol):
    """Description of data for a network and a decision rule. There may be no rows."""

    @property
    def name(self) -> str: ...
    @property
    def x(self) -> Rows: ...
    @property
    def domain(self) -> Domain: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    @property
    def favourable(self) -> int | None: ...


@dataclass(frozen=True)
class Dataset:
    """Rows `x` (N, A) of codes and labels `y` (N,) of class numbers.

    Rows may lie outside the domain (a missing value, an outlier): models are trained on them, while
    generated rows stay inside. `protected` names the attributes that are commonly audited; the
    caller chooses. `held_out` are the rows of an official test set, if there is one. `coding` says
    how the table's own cells became codes, unless the domain alone does. `origin` describes a
    user's own table: its "path", "sha256", "label", "drop", "ids" and "rows". `mines_twins`: the
    domain was inferred, and so is what changes together with a sensitive attribute. `weights` (N,)
    say how much each row counts in training; metrics count everybody once. `amounts` (N,) are the
    labels where they are numbers, not classes; then there are no classes, and `y` is all 0.
    `parts`: one split, whatever the seed, so that a seed decides on the training alone.
    """

    name: str
    domain: Domain
    x: Rows
    y: Ints
    classes: tuple[str, ...]
    label: str = "label"
    favourable: int | None = None
    protected: tuple[str, ...] = ()
    card: Card | None = field(default=None, compare=False)
    held_out: Ints | None = field(default=None, compare=False)
    coding: Coding | None = field(default=None, compare=False)
    origin: Mapping[str, Any] | None = field(default=None, compare=False)
    mines_twins: bool = field(default=False, compare=False)
    weights: Floats | None = field(default=None, compare=False)
    amounts: Floats | None = field(default=None, compare=False)
    parts: Split | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", self.domain.check(self.x, what=f"rows of '{self.name}'"))
        if self.amounts is None:
            y = _check_labels(self.y, len(self.x), self.classes, self.label)
            object.__setattr__(self, "y", y)
        else:
            amounts = _check_amounts(self.amounts, len(self.x), self.label)
            object.__setattr__(self, "amounts", amounts)
            object.__setattr__(self, "y", np.zeros(len(self.x), dtype=np.int64))
        if self.weights is not None:
            object.__setattr__(self, "weights", _check_weights(self.weights, len(self.x)))

    def __len__(self) -> int:
        return len(self.x)

    def words(self, rows: Rows) -> pd.DataFrame:
        """Rows of codes as cells of the original table, which a user's own model takes."""
        return (self.coding or Coding.of_domain(self.domain)).words(rows)

    def declared(self) -> Declared:
        """Return what a domain file declares of these data."""
        coding = self.coding or Coding.of_domain(self.domain)
        favourable = None if self.favourable is None else self.classes[self.favourable]
        return Declared(replace(coding, domain=self.domain), self.label, favourable)

    def with_sensitive(self, sensitive: str | tuple[str, ...] | list[str]) -> Dataset:
        """Return the same data with these attributes as the sensitive ones. At least two of their
        values must occur.
        """
        domain = self.domain.with_sensitive(sensitive)
        for name in domain.sensitive:
            codes = self.x[:, domain.index(name)]
            known = np.unique(codes[(codes >= domain[name].low) & (codes <= domain[name].high)])
            if len(known) < 2:
                only = domain[name].describe(float(known[0])) if len(known) else "not known"
                raise DataError(
                    f"Everybody in '{self.name}' has the same value of '{name}' ({only}), so there"
                    " are no groups to compare. Add rows of another group."
                )
        return replace(self, domain=with_mined(domain, self.x) if self.mines_twins else domain)

    def suggested_twins(self) -> tuple[Coupling, ...]:
        """Couplings that the rows of an inferred domain suggest, not clearly enough to be used."""
        found = mine_twins(self.domain, self.x) if self.mines_twins else ()
        return tuple(each.coupling for each in found if not each.is_impossible)

    def with_counterparts(self, kind: CounterpartKind) -> Dataset:
        """Return the same data as it is ("twins"), or with bare counterparts."""
        check_counterparts(kind)
        return self.bare() if kind == "bare" else self

    def bare(self) -> Dataset:
        """Return the same data with counterparts in which only the sensitive attributes change."""
        return replace(self, domain=self.domain.bare(), mines_twins=False)

    def split(self, seed: int = 0) -> Split:
        """70 / 10 / 20, shuffled by the seed; if there is an official test set, it is the last part
        and the rest is split 7 to 1.
        """
        if self.parts is not None:
            return self.parts
        order = np.random.default_rng(seed).permutation(len(self)).astype(np.int64)
        if self.held_out is not None:
            order = order[~np.isin(order, self.held_out)]
            first = len(order) * TRAINING // (TRAINING + VALIDATION)
            return Split(order[:first], order[first:], self.held_out)
        first, second = len(self) * TRAINING // 10, len(self) * (TRAINING + VALIDATION) // 10
        return Split(order[:first], order[first:second], order[second:])


def _check_weights(weights: Any, rows: int) -> Floats:
    try:
        numbers = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"The sample weights must be numbers: {error}.") from error
    if numbers.shape != (rows,):
        raise DataError(
            f"The sample weights have shape {numbers.shape}; expected one for each of the {rows:,}"
            " rows."
        )
    wrong = ~np.isfinite(numbers) | (numbers < 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"Row {row} has the sample weight {numbers[row]:g}; expected a number of 0 or more."
            " Correct the weight, or drop the row."
        )
    if not numbers.any():
        raise DataError("All sample weights are 0, so nobody counts. Name another column.")
    return numbers


def _check_amounts(amounts: Any, rows: int, label: str) -> Floats:
    numbers = np.asarray(amounts, dtype=np.float64)
    if numbers.shape != (rows,) or not np.isfinite(numbers).all():
        raise DataError(
            f"The amounts '{label}' must be {rows:,} finite numbers, one for each row; got shape"
            f" {numbers.shape}."
        )
    if rows and numbers.min() == numbers.max():
        raise DataError(
            f"The amounts '{label}' are all {numbers[0]:g}, so there is nothing to predict. Check"
            " the label column."
        )
    return numbers


def _check_labels(y: Any, rows: int, classes: tuple[str, ...], label: str) -> Ints:
    labels = np.asarray(y)
    if labels.shape != (rows,):
        raise DataError(
            f"The labels '{label}' have shape {labels.shape}; expected one for each of the {rows:,}"
            " rows."
        )
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.argmax(~np.isfinite(labels)))
        raise DataError(
            f"Row {row} has no label ('{label}' is {labels[row]}). Drop the row or fill it in."
        )
    numbers = labels.astype(np.int64)
    if (numbers != labels).any() or (rows and (numbers.min() < 0 or numbers.max() >= len(classes))):
        raise DataError(
            f"The labels '{label}' must be the numbers 0 to {len(classes) - 1} of the classes"
            f" {', '.join(classes)}."
        )
    if len(np.unique(numbers)) < 2:
        found = f"'{classes[int(numbers[0])]}'" if rows else "no row at all"
        raise DataError(
            f"The labels '{label}' hold one class only ({found}); a classifier needs at least two."
            " Check the label column."
        )
    return numbers
