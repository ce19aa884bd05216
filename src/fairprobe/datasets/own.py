"""`open_table`: a user's own table as a data set.

Rows without a label are left out and counted in the card. All other gaps stay, as codes outside the
domain. With a domain file, the file defines the domain: numbers beyond its bounds are kept, and
words that are not among its categories count as gaps. Without one, what changes together with a
sensitive attribute is found in the rows (`schema/mining.py`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import is_bool_dtype, is_float_dtype, is_numeric_dtype

from fairprobe.arrays import Floats, Ints
from fairprobe.datasets.base import Card, Dataset
from fairprobe.datasets.files import Read, Source, read, refuse
from fairprobe.errors import DataError, GuessWarning, SettingError, suggest
from fairprobe.escapes import printable
from fairprobe.schema import domain_file
from fairprobe.schema.coding import Coding, Columns, Table
from fairprobe.schema.columns import UNSEEN, in_words, is_words, words_of
from fairprobe.schema.domain_file import Declared, read_domain
from fairprobe.schema.ids import looks_like_id
from fairprobe.schema.mining import with_mined

TargetKind: TypeAlias = Literal["auto", "classes", "amount"]
CODES = 20  # values in a row that may be numbers of classes
SHOWN = 20  # columns in a note
MOST_CLASSES = 100
NO_CLASS: Ints = np.empty(0, dtype=np.int64)  # of amounts
MOST_CATEGORIES = 1_000  # of a column of words; one with more probably identifies people
MOST_GROUPS = 100  # of a sensitive column of words, all compared with each other


def open_table(
    source: Source,
    *,
    label: str,
    sensitive: str | Sequence[str] = (),
    favourable: str | None = None,
    drop: str | Sequence[str] = (),
    keep: str | Sequence[str] = (),
    weights: str | None = None,
    domain: Path | str | None = None,
    name: str | None = None,
    target: TargetKind = "auto",
) -> Dataset:
    """Return the table as a data set: `label` is the column to predict, as "classes" or as an
    "amount" (`target`; "auto" guesses, and warns where it may be wrong); all other columns, except
    those to `drop`, describe the person. Columns that look like ids are left out, unless they are
    to `keep`. The column `weights` says how much each row counts in training, and describes nobody.
    """
    groups, dropped = _listed(sensitive), _listed(drop)
    declared = None if domain is None else read_domain(domain)
    words = {label}
    if declared is not None:
        words |= {each.name for each in declared.coding.domain.attributes if each.categories}
    unusable: dict[str, DataError] = {}
    table = read(source, drop=dropped, words=words, unusable=unusable)
    _check_names([*table.frame.columns, *unusable], label, groups, dropped)
    if label in unusable:
        raise unusable[label]

    known = table.frame[label].notna().to_numpy()
    frame = table.frame if known.all() else table.frame[known].reset_index(drop=True)
    kind, guessed = _target_of(frame[label], target)
    amounts = _amounts_of(frame[label]) if kind == "amount" else None
    y, classes = _classes(frame[label]) if amounts is None else (NO_CLASS, ())
    counted = None if weights is None else _weights_of(frame, weights, label, groups)
    people = frame.drop(columns=[label] if weights is None else [label, weights])
    kept = _checked_keep(_listed(keep), list(people.columns), has_domain=declared is not None)
    ids = [
        str(each)
        for each in people.columns
        if declared is None and each not in (*groups, *kept) and looks_like_id(people[each])
    ]
    people = people.drop(columns=ids)
    refuse(
        unusable | _too_many_words(people)
        if declared is None
        else {name: unusable[name] for name in unusable if name in declared.coding.domain.names}
    )
    if people.shape[1] == 0:
        raise DataError(
            f"The table has no column besides the label '{label}', so nothing describes a person."
            + (f" Left out as ids: {', '.join(ids)}; keep them with --set keep." if ids else "")
        )
    if declared is None:
        coding, notes = _inferred(people, groups, table)
    else:
        coding, notes = _as_declared(people, groups, declared, table)
    notes += _about_ranges(people, coding) + guessed
    chosen = favourable if favourable is not None or declared is None else declared.favourable
    if chosen is not None and amounts is not None:
        raise SettingError(
            f"The label '{label}' is audited as an amount, which has no favorable class. Leave it"
            " out, or audit classes (--target classes)."
        )
    if chosen is not None and chosen not in classes:
        raise SettingError(
            f"The label '{label}' has no class '{chosen}' to be the favorable"
            f" one.{suggest(chosen, classes)}"
        )
    counts = [f"{len(people):,} rows with {len(coding.domain)} attributes"]
    if not known.all():
        counts.append(f"{int((~known).sum()):,} rows without a label were left out")
    if dropped:
        counts.append(f"dropped columns: {_some(dropped)}")
    if ids:
        counts.append(f"left out, because they look like ids: {_some(ids)}")
    title = "table" if table.path is None else printable(table.path.name)
    x = coding.rows(people)
    return Dataset(
        name=name or title.partition(".")[0] or title,
        domain=coding.domain if declared is not None else with_mined(coding.domain, x),
        x=x,
        y=y,
        classes=classes,
        label=label,
        favourable=None if chosen is None else classes.index(chosen),
        protected=coding.domain.sensitive,
        card=Card(
            title=title,
            about="; ".join(counts + notes) + ".",
            source=printable(str(table.path or "memory")),
            license="unknown",
            citation="",
        ),
        coding=coding,
        origin={
            "path": None if table.path is None else printable(str(table.path.resolve())),
            "sha256": table.sha256,
            "label": label,
            "drop": dropped,
            "ids": ids,
            "weights": weights,
            "rows": len(people),
            **({} if amounts is None else {"target": "amount"}),
        },
        mines_twins=declared is None,
        weights=counted,
        amounts=amounts,
    )


def dataset_of(
    table: Table,
    labels: npt.ArrayLike | Sequence[object],
    *,
    sensitive: Columns = (),
    name: str = "table",
) -> Dataset:
    """Return a table and a label for each of its rows as a data set; the classes are the labels
    that occur, sorted.
    """
    coding = Coding.of(table, sensitive=sensitive)
    column = pd.Series(np.asarray(labels))
    if column.isna().any():
        raise DataError(
            f"Row {int(column.isna().argmax())} has no label (NaN). Drop the row or fill it in."
        )
    classes, y = np.unique(column.to_numpy(), return_inverse=True)
    x = coding.rows(table)
    return Dataset(
        name=name,
        domain=with_mined(coding.domain, x),
        x=x,
        y=y,
        classes=tuple(map(str, classes)),
        coding=coding,
        mines_twins=True,
    )


def write_domain(what: Dataset | Coding | Declared, path: Path | str) -> None:
    """Write the schema of a data set as a file to edit. Constraints made of code are left out;
    twins and constraints that the rows suggest are added as comments.
    """
    if isinstance(what, Dataset):
        domain_file.write_domain(what.declared(), path, rows=what.x)
    else:
        domain_file.write_domain(what, path)


def _some(names: Sequence[str]) -> str:
    """Return the first names, and how many more."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _listed(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _weights_of(frame: pd.DataFrame, name: str, label: str, sensitive: list[str]) -> Floats:
    if name == label or name in sensitive:
        raise SettingError(
            f"Column '{name}' cannot hold the sample weights and be the label or sensitive as"
            " well. Choose another column."
        )
    _check_column(name, "for the sample weights", [str(column) for column in frame.columns])
    column = frame[name]
    if not is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        raise DataError(
            f"The sample weights in column '{name}' must be numbers; it holds {column.dtype}. Name"
            " another column, or correct it."
        )
    if column.isna().any():
        raise DataError(
            f"Row {int(column.isna().to_numpy().argmax())} has no sample weight (column '{name}')."
            " Fill it in, or drop the row."
        )
    return column.to_numpy(dtype=np.float64)


def _checked_keep(names: list[str], columns: list[str], *, has_domain: bool) -> list[str]:
    if names and has_domain:
        raise SettingError(
            "With a domain file, the file says which columns are kept: declare"
            f" '{names[0]}' there, or leave `keep` (--set keep) out."
        )
    for name in names:
        _check_column(name, "to keep", columns)
    return names


def _check_names(columns: list[str], label: str, sensitive: list[str], dropped: list[str]) -> None:
    for name, role in [(label, "label"), *((name, "sensitive attribute") for name in sensitive)]:
        if name in dropped:
            raise SettingError(f"Column '{name}' is both the {role} and dropped. Choose one.")
        _check_column(name, f"for the {role}", columns)
    if label in sensitive:
        raise SettingError(
            f"'{label}' is both the label and sensitive. Choose another sensitive attribute."
        )


def _check_column(name: str, role: str, columns: Sequence[str]) -> None:
    if name not in columns:
        raise SettingError(f"The table has no column '{name}' {role}.{suggest(name, columns)}")


def _classes(column: pd.Series[Any]) -> tuple[Ints, tuple[str, ...]]:
    """Return (N,) the class number of each row, and the names of the classes, sorted."""
    if is_float_dtype(column.dtype) and not (column == column.round()).all():
        row = int((column != column.round()).to_numpy().argmax())
        raise DataError(
            f"The label '{column.name}' holds fractions (row {row} has {column.iloc[row]:g});"
            " expected a few classes. Audit it as an amount (--target amount), or divide it into"
            " classes first."
        )
    places, names, values = words_of(column, gaps=False)
    if len(values) > MOST_CLASSES:
        raise DataError(
            f"The label '{column.name}' has {len(values):,} different values; at most"
            f" {MOST_CLASSES} classes are possible. Numbers can be audited as an amount (--target"
            " amount)."
        )
    if len(values) < 2:
        raise DataError(
            f"The label '{column.name}' holds one class only ('{names[0]}'); a classifier needs at"
            " least two. Check the column."
        )
    in_order = is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype)
    keys = values if in_order else names
    order = sorted(range(len(values)), key=lambda place: keys[place])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[places], tuple(names[place] for place in order)


# -- the label ------------------------------------------------------------------------------------


def _target_of(
    column: pd.Series[Any], wanted: TargetKind
) -> tuple[Literal["classes", "amount"], list[str]]:
    """Decide what the label column is; return it, and a note if that was guessed.

    Words and two values are classes. Numbers with fractions, or with more values than there can be
    classes, are amounts. In between it is a guess, which is reported: codes in a row (1, 2, 3, …)
    are taken for classes, other numbers (500, 1000, 2500) for amounts.
    """
    if len(column) == 0:
        raise DataError(f"No row has a label: the column '{column.name}' is empty.")
    if wanted not in ("auto", "classes", "amount"):
        raise SettingError(f"The target is classes, amount or auto; got '{wanted}'.")
    if wanted != "auto":
        return wanted, []
    words = not is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype)
    if words:
        return "classes", []
    values = np.unique(column.to_numpy(dtype=np.float64))
    if len(values) <= 2:
        return "classes", []
    in_a_row = bool((np.diff(values) == 1).all()) and values[0] in (0, 1)
    if in_a_row and len(values) <= CODES:
        note = (
            f"the label '{column.name}' holds the numbers {values[0]:g} to {values[-1]:g}, which"
            " are audited as classes; if they are amounts or scores, use --target amount"
        )
        _warn(note)
        return "classes", [note]
    note = (
        f"the label '{column.name}' holds {len(values):,} different numbers ({values[0]:g} to"
        f" {values[-1]:g}), which are audited as amounts; if they are classes, use --target classes"
    )
    _warn(note)
    return "amount", [note]


def _amounts_of(column: pd.Series[Any]) -> Floats:
    """Return the label as numbers (N,)."""
    try:
        return np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The label '{column.name}' holds words ({error}); an amount must be a number. Audit it"
            " as classes (--target classes), or name another column."
        ) from error


def _warn(note: str) -> None:
    warnings.warn(f"{note[:1].upper()}{note[1:]}.", GuessWarning, stacklevel=4)


# -- the domain ------------------------------------------------------------------------------------


def _inferred(people: pd.DataFrame, sensitive: list[str], table: Read) -> tuple[Coding, list[str]]:
    for name in sensitive:
        if is_words(people[name]) and (count := people[name].nunique()) > MOST_GROUPS:
            raise DataError(
                f"The sensitive attribute '{name}' has {count:,} categories; at most {MOST_GROUPS}"
                " groups are compared. Group its words into fewer."
            )
    coding = Coding.of(people, sensitive=sensitive, gaps=True)
    types = {name: kind for name, kind in coding.types.items() if name in table.categories}
    coding = replace(coding, types=types, gap_words=table.gap_words)
    gaps = [f"{name} {count:,}" for name, count in people.isna().sum().items() if count]
    return coding, [f"gaps: {_some(gaps)}"] if gaps else []


def _about_ranges(people: pd.DataFrame, coding: Coding) -> list[str]:
    """Name the numbers that a model gets rounded to one value of a range."""
    return [
        f"{name} is compared in {len(cuts) + 1} ranges, and a model gets one value of each"
        f" ({', '.join(map(in_words, values))})"
        for name, cuts in coding.cuts.items()
        if people[name].nunique() > len(values := coding.values[name])
    ]


def _too_many_words(people: pd.DataFrame) -> dict[str, DataError]:
    """Find columns that hold free text, or more categories than can be compared."""
    return {
        str(name): DataError(
            f"Column '{name}' has {count:,} different words; at most {MOST_CATEGORIES:,} categories"
            f" are possible. Drop it (--drop {name}) or group its words."
        )
        for name in people.columns
        if is_words(people[name]) and (count := people[name].nunique()) > MOST_CATEGORIES
    }


def _as_declared(
    people: pd.DataFrame, sensitive: list[str], declared: Declared, table: Read
) -> tuple[Coding, list[str]]:
    """Return the declared coding for these people: a categorical attribute with gaps gets a code
    for them if it has none.
    """
    domain = declared.coding.domain
    for name in domain.names:
        if name not in people.columns:
            raise DataError(
                f"The domain file declares '{name}', but the table has no such"
                f" column.{suggest(name, people.columns)}"
            )
    attributes, notes = list(domain.attributes), []
    for place, attribute in enumerate(attributes):
        column = people[attribute.name]
        absent = int(column.isna().sum())
        unknown = 0
        if attribute.kind == "categorical" and attribute.name not in declared.coding.cuts:
            places, words, _ = words_of(column, gaps=True)
            familiar = declared.coding.known(attribute)
            strange = np.array([*(word not in familiar for word in words), False])
            unknown = int(strange[places].sum())
        if attribute.kind == "categorical" and attribute.missing is None and absent + unknown:
            attributes[place] = replace(attribute, missing=UNSEEN)
        if absent:
            notes.append(f"{attribute.name}: {absent:,} gaps")
        if unknown:
            notes.append(f"{attribute.name}: {unknown:,} words that are not among its categories")
    beyond = [str(name) for name in people.columns if name not in domain.names]
    if beyond:
        notes.append(f"columns that the domain file does not declare: {_some(beyond)}")
    chosen = tuple(sensitive) or domain.sensitive
    types = {
        name: kind
        for name, kind in people.dtypes.items()
        if name in table.categories and isinstance(kind, pd.CategoricalDtype)
    }
    coding = replace(
        declared.coding,
        domain=replace(domain, attributes=tuple(attributes), sensitive=chosen),
        gaps=True,
        types=types,
        gap_words=table.gap_words | declared.coding.gap_words,
    )
    return coding, notes
