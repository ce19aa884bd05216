"""The option of `audit` that says which answer follows from probabilities."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from fairprobe.errors import SettingError, StorageError

if TYPE_CHECKING:
    from fairprobe.datasets import Dataset
    from fairprobe.models import Decision

FILES = (".csv", ".tsv", ".txt")


def decision_of(text: str, data: Dataset) -> Decision:
    """Read the decision rule, thresholds or a file of costs, and check it against the data."""
    from fairprobe.models import Decision

    if text.lower().endswith(FILES) or Path(text).is_file():
        decision = Decision(costs=_costs(Path(text), data))
    else:
        decision = _thresholds(text)
    decision.bind(data)
    return decision


def _thresholds(text: str) -> Decision:
    from fairprobe.models import Decision

    everybody: float | None = None
    groups: dict[str, float] = {}
    attributes: set[str] = set()
    for part in filter(None, (each.strip() for each in text.split(","))):
        group, is_group, number = part.rpartition("=")
        value = _number(number, text)
        if not is_group:
            if everybody is not None:
                raise _wrong(text, "two thresholds for everybody")
            everybody = value
            continue
        attribute, has_attribute, name = group.partition(":")
        if has_attribute:
            attributes.add(attribute.strip())
        name = (name if has_attribute else group).strip()
        if name in groups:
            raise _wrong(text, f"two thresholds for '{name}'")
        groups[name] = value
    if len(attributes) > 1:
        raise _wrong(text, f"groups of several attributes ({', '.join(sorted(attributes))})")
    if everybody is None and not groups:
        raise _wrong(text, "no threshold")
    return Decision(everybody, thresholds=groups, by=next(iter(attributes), None))


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _wrong(whole, f"'{text.strip()}' instead of a number") from None


def _wrong(text: str, what: str) -> SettingError:
    return SettingError(
        "--decision takes a probability (0.3), or one for each group of one attribute"
        f" (female=0.3,male=0.4); '{text}' has {what}."
    )


def _costs(path: Path, data: Dataset) -> list[list[float]]:
    """Read the table of costs, its rows and columns in the order of the data's classes."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if any(row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a CSV file"
        raise StorageError(f"Cannot read the costs in {path}: {why}.") from error
    if rows and not all(_is_number(cell) for cell in rows[0]):
        rows = _in_order(path, rows, data)
    try:
        return [[float(cell) for cell in row] for row in rows]
    except ValueError as error:
        raise SettingError(
            f"{path} must hold numbers, a row for each true class and a column for each answer:"
            f" {error}."
        ) from error


def _in_order(path: Path, rows: list[list[str]], data: Dataset) -> list[list[str]]:
    answers, truths = rows[0][1:], [row[0] for row in rows[1:]]
    for what, names in (("columns (answers)", answers), ("rows (true classes)", truths)):
        if sorted(names) != sorted(data.classes):
            raise SettingError(
                f"The {what} of {path} are {', '.join(names) or 'none'}; '{data.name}' has the"
                f" classes {', '.join(data.classes)}. Name each of them once, or leave all names"
                " out."
            )
    if any(len(row) != len(rows[0]) for row in rows):
        raise SettingError(f"{path} has rows of different lengths; give every answer a cost.")
    return [
        [rows[1 + truths.index(true)][1 + answers.index(answer)] for answer in data.classes]
        for true in data.classes
    ]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
