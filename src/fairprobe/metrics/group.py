"""Compare groups of people: selection rates and impact ratios, demographic parity, equalized odds.

paper       here
ΔDP         `demographic_parity`: the highest minus the lowest rate of the favorable prediction over
            the groups; `demographic_parity_sd`: the standard deviation, as the paper does with more
            than two
ΔEO_{y=k}   `equalized_odds(given=k)`, `equalized_odds_sd(given=k)`: the same among the people whose
            true label is k
(law)       `selection_tables`: what a bias audit after New York City's Local Law 144 lists, by
            attribute and by intersection

Read them beside the rates: a model that says the same to everybody has perfect differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pandas as pd
from msgspec.structs import asdict

from fairprobe.arrays import Ints, Mask
from fairprobe.documents.people import EqualizedOdds, SelectionRates, SelectionRow, SelectionTable
from fairprobe.documents.table import TableMeasurements
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.measures import Measure, Reading, reading_of, readings_of_groups
from fairprobe.results import Estimate, Rate
from fairprobe.statistics.groups import Apart, difference, ratios, spread
from fairprobe.statistics.resampling import Column, column, is_label, labels, same_length

SMALLEST = 0.02  # of the people: smaller groups may be left out of impact ratios (Local Law 144)
LARGEST_INTERSECTION = 4096  # groups
FEATURES = "sensitive_features"


@dataclass(frozen=True)
class Groups:
    """Who belongs where: `codes` (N,) are places in `names`, −1 for people whose group is unknown.
    Some names may have nobody.
    """

    attribute: str
    names: tuple[str, ...]
    codes: Ints


# -- the metrics -----------------------------------------------------------------------------------


def demographic_parity(
    y_true: Any,  # noqa: ARG001
    y_pred: Any,
    *,
    sensitive_features: Any,
    positive: Any = 1,
) -> Estimate:
    """Subtract the lowest selection rate of the groups from the highest. `y_true` is not used; it
    is there because all metrics take it. Groups with nobody are left out and named.
    """
    return _apart(*_everybody(y_pred, sensitive_features, positive), difference)


def demographic_parity_sd(
    y_true: Any,  # noqa: ARG001
    y_pred: Any,
    *,
    sensitive_features: Any,
    positive: Any = 1,
) -> Estimate:
    """Return the standard deviation of the groups' selection rates: that of a population (groups
    are all there are, not a sample of groups), each group counting the same however large.
    """
    return _apart(*_everybody(y_pred, sensitive_features, positive), spread)


def equalized_odds(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, given: Any, positive: Any = 1
) -> Estimate:
    """As `demographic_parity`, among the people whose true label is `given`. Groups without such
    people are left out.
    """
    return _apart(*_with_truth(y_true, y_pred, sensitive_features, given, positive), difference)


def equalized_odds_sd(
    y_true: Any, y_pred: Any, *, sensitive_features: Any, given: Any, positive: Any = 1
) -> Estimate:
    """As `demographic_parity_sd`, among the people whose true label is `given`."""
    return _apart(*_with_truth(y_true, y_pred, sensitive_features, given, positive), spread)


def _everybody(y_pred: Any, features: Any, positive: Any) -> tuple[Groups, Mask, Mask]:
    predicted = labels(y_pred, name="y_pred")
    groups = groups_of(features, len(predicted))
    selected = is_label(predicted, positive, name="y_pred", option="positive")
    return groups, selected, groups.codes >= 0


def _with_truth(
    y_true: Any, y_pred: Any, features: Any, given: Any, positive: Any
) -> tuple[Groups, Mask, Mask]:
    true = labels(y_true, name="y_true")
    groups, selected, known = _everybody(y_pred, features, positive)
    same_length("y_pred", len(selected), "y_true", len(true))
    return groups, selected, known & is_label(true, given, name="y_true", option="given")


def selection_rates(
    y_pred: Any,
    *,
    sensitive_features: Any,
    positive: Any = 1,
    smallest: float = SMALLEST,
    groups: Any = None,
) -> SelectionRates:
    """Measure selection rates and impact ratios by group; of several attributes, by their
    intersections.

    `groups` are the values to expect (for several attributes {attribute: values}), so that those
    with nobody are named. `smallest` is the share of the people of known group below which a group
    is small.
    """
    predicted, selected = _selected(y_pred, positive, smallest)
    return _table(
        groups_of(sensitive_features, len(predicted), expected=groups), selected, smallest
    )


def selection_tables(
    y_pred: Any,
    *,
    sensitive_features: Any,
    positive: Any = 1,
    smallest: float = SMALLEST,
    groups: Any = None,
) -> list[SelectionRates]:
    """Return the table of `selection_rates` for each attribute, and after them, if there are
    several, for their intersections.
    """
    predicted, selected = _selected(y_pred, positive, smallest)
    parts = _attributes(sensitive_features, len(predicted), groups)
    if len(parts) > 1:
        parts.append(_intersection(parts))
    return [_table(part, selected, smallest) for part in parts]


def _selected(y_pred: Any, positive: Any, smallest: float) -> tuple[Column, Mask]:
    if not 0 <= smallest < 1:
        raise SettingError(
            f"`smallest` is a share of the people, from 0 to below 1; it is {smallest}. 2 % is"
            " 0.02."
        )
    predicted = labels(y_pred, name="y_pred")
    return predicted, is_label(predicted, positive, name="y_pred", option="positive")


def _counts(groups: Groups, selected: Mask, within: Mask) -> Ints:
    """(G, 2) how many of each group are not selected and are."""
    kind = groups.codes[within] * 2 + selected[within]
    return np.bincount(kind, minlength=2 * len(groups.names)).reshape(-1, 2)


def _apart(
    groups: Groups, selected: Mask, within: Mask, measured: Callable[[Ints, Ints], Apart]
) -> Estimate:
    """Measure the distance between the rates of the groups."""
    counts = _counts(groups, selected, within)
    present = counts.sum(axis=1) > 0
    left_out = tuple(
        name for name, is_there in zip(groups.names, present, strict=True) if not is_there
    )
    samples, counts = int(counts.sum()), counts[present]
    if len(counts) < 2:
        return Estimate(None, None, None, samples, left_out=left_out)
    return Estimate(*measured(counts[:, 1], counts.sum(axis=1)), samples, left_out=left_out)


def _table(groups: Groups, selected: Mask, smallest: float) -> SelectionRates:
    counts = _counts(groups, selected, groups.codes >= 0)
    people = counts.sum(axis=1)
    known = int(people.sum())
    is_small = (people > 0) & (people / max(known, 1) < smallest)
    is_reference = (people > 0) & ~is_small
    impact = [Estimate(None, None, None, int(number)) for number in people]
    if counts[is_reference, 1].any():
        there = np.flatnonzero(people)
        measured = ratios(counts[there, 1], people[there], is_reference[there])
        for place, value, low, high in zip(there, *measured, strict=True):
            impact[place] = Estimate(float(value), float(low), float(high), int(people[place]))
    return SelectionRates(
        attribute=groups.attribute,
        rows=[
            SelectionRow(
                name=name,
                impact_ratio=impact[i],
                is_small=bool(is_small[i]),
                is_empty=not people[i],
                **asdict(Rate.of(int(counts[i, 1]), int(people[i]))),
            )
            for i, name in enumerate(groups.names)
        ],
        unknown=len(groups.codes) - known,
        smallest=smallest,
    )


# -- who belongs where -----------------------------------------------------------------------------


def groups_of(sensitive_features: Any, rows: int, *, expected: Any = None) -> Groups:
    """Find the group of each row; of several attributes, their intersection. A missing value (None,
    NaN) makes the group unknown.
    """
    parts = _attributes(sensitive_features, rows, expected)
    return parts[0] if len(parts) == 1 else _intersection(parts)


def _attributes(features: Any, rows: int, expected: Any) -> list[Groups]:
    columns = _columns(features)
    if not columns:
        raise DataError(f"{FEATURES} has no column; expected at least one attribute.")
    for name, values in columns:
        if len(values) != rows:
            raise DataError(
                f"{FEATURES} ({name}) has {len(values):,} values for {rows:,} people; give one for"
                " each, in the same order."
            )
    wanted = _expected_values(expected, [name for name, _ in columns])
    return [_groups(name, values, wanted.get(name, ())) for name, values in columns]


def _columns(features: Any) -> list[tuple[str, Column]]:
    """Attribute names and their values, from whatever form they come in."""
    named: list[tuple[str, Any]]
    if isinstance(features, pd.DataFrame):
        named = [
            (str(name), features.iloc[:, place]) for place, name in enumerate(features.columns)
        ]
    elif isinstance(features, Mapping):
        named = [(str(name), values) for name, values in features.items()]
    elif isinstance(features, pd.Series):
        named = [("group" if features.name is None else str(features.name), features)]
    else:
        table = np.asarray(features) if hasattr(features, "dtype") else _objects(features)
        wide = table.ndim == 2 and table.shape[1] > 1
        named = (
            [(f"attribute {place + 1}", table[:, place]) for place in range(table.shape[1])]
            if wide
            else [("group", table)]
        )
    return [(name, column(values, name=f"{FEATURES} ({name})")) for name, values in named]


def _objects(features: Any) -> Column:
    try:
        return np.asarray(features, dtype=object)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{FEATURES} must have the same number of attributes in each row: {error}."
        ) from error


def _expected_values(expected: Any, names: list[str]) -> dict[str, tuple[Any, ...]]:
    if expected is None:
        return {}
    if isinstance(expected, Mapping):
        for name in expected:
            if name not in names:
                raise SettingError(
                    f"`groups` names an attribute that {FEATURES} does not have:"
                    f" '{name}'.{suggest(str(name), names)}"
                )
        return {name: tuple(values) for name, values in expected.items()}
    if isinstance(expected, str) or not isinstance(expected, (Sequence, np.ndarray)):
        raise SettingError(f"`groups` must be a list of the values to expect; it is {expected!r}.")
    if len(names) > 1:
        raise SettingError(
            f"With several attributes `groups` must say whose values it lists: {{'{names[0]}': […],"
            f" '{names[1]}': […]}}."
        )
    return {names[0]: tuple(expected)}


def _groups(attribute: str, values: Column, expected: Sequence[Any]) -> Groups:
    """List expected values first, in their order, then the others that occur, sorted."""
    try:
        codes, found = pd.factorize(values)  # −1 for missing values
    except TypeError as error:
        raise DataError(f"{FEATURES} ({attribute}) must hold names or numbers: {error}.") from error
    place = {
        name: number
        for number, name in enumerate(
            dict.fromkeys(map(_text, [*expected, *sorted(found, key=_rank)]))
        )
    }
    places = np.array([*(place[_text(value)] for value in found), -1], dtype=np.int64)
    return Groups(attribute, tuple(place), places[codes])


def _text(value: Any) -> str:
    """Whole numbers without a point: codes are often stored as floats."""
    return (
        str(int(value))
        if isinstance(value, (float, np.floating)) and float(value).is_integer()
        else str(value)
    )


def _rank(value: Any) -> tuple[bool, float, str]:
    """Numbers by size, then words by letter."""
    is_number = isinstance(value, (int, float, np.number, np.bool_))
    return not is_number, float(value) if is_number else 0.0, str(value)


def _intersection(parts: list[Groups]) -> Groups:
    size = prod(len(part.names) for part in parts)
    if size > LARGEST_INTERSECTION:
        sizes = ", ".join(f"{part.attribute} {len(part.names):,}" for part in parts)
        raise DataError(
            f"{FEATURES} make {size:,} intersections ({sizes}); at most {LARGEST_INTERSECTION:,}"
            " are supported. Bin the values."
        )
    codes, known = (
        np.zeros(len(parts[0].codes), dtype=np.int64),
        np.ones(len(parts[0].codes), dtype=bool),
    )
    for part in parts:
        codes, known = codes * len(part.names) + part.codes, known & (part.codes >= 0)
    names = tuple(", ".join(values) for values in product(*(part.names for part in parts)))
    return Groups(" and ".join(part.attribute for part in parts), names, np.where(known, codes, -1))


# -- how policies, cards and reports read them -----------------------------------------------------


def _difference(table: SelectionTable, what: str, entry: Estimate, who: str) -> Reading:
    """Read a difference between the groups of a table."""
    small = sum(row.is_small for row in table.rows)
    return reading_of(
        what,
        entry,
        missing=f"fewer than two groups have people {who}. Measure more people, or merge groups",
        group=table.attribute,
        note=f"Every group counts alike, also the {small:,} with very few people." if small else "",
    )


def _reader_of_parity(
    what: str, entry: Callable[[SelectionTable], Estimate]
) -> Callable[[TableMeasurements], list[Reading]]:
    def read(table: SelectionTable) -> list[Reading]:
        return [
            _difference(table, f"{what} by {table.attribute}", entry(table), "who were measured")
        ]

    return lambda document: readings_of_groups(document, what, read)


def _reader_of_odds(
    what: str, entries: Callable[[SelectionTable], list[EqualizedOdds]]
) -> Callable[[TableMeasurements], list[Reading]]:
    def read(table: SelectionTable) -> list[Reading]:
        return [
            _difference(
                table,
                f"{what} by {table.attribute} given {each.given}",
                each,
                f"who were measured, with {each.given}",
            )
            for each in entries(table)
        ]

    return lambda document: readings_of_groups(document, what, read)


def _read_impact_ratio(document: TableMeasurements) -> list[Reading]:
    what = "impact ratio"
    missing = (
        "nobody in a group that is large enough got the favorable answer. Check which answer is the"
        " favorable one"
    )

    def read(table: SelectionTable) -> list[Reading]:
        return [
            reading_of(
                f"{what} of {row.name} by {table.attribute}",
                row.impact_ratio,
                missing=missing,
                group=row.name,
                is_small=row.is_small,
            )
            for row in table.rows
            if not row.is_empty
        ]

    return readings_of_groups(document, what, read)


DEMOGRAPHIC_PARITY = Measure(
    name="demographic_parity",
    title="Demographic parity difference",
    about="The highest minus the lowest rate of the favorable answer over the groups.",
    unit="number",
    direction="at most",
    read=_reader_of_parity("demographic parity difference", lambda table: table.dp),
)
DEMOGRAPHIC_PARITY_SD = Measure(
    name="demographic_parity_sd",
    title="Demographic parity, standard deviation",
    about="The standard deviation of the groups' rates of the favorable answer. With many groups it"
    " hardly shows that a single one is treated differently.",
    unit="number",
    direction="at most",
    read=_reader_of_parity("standard deviation of selection rates", lambda table: table.dp_sd),
)
EQUALIZED_ODDS = Measure(
    name="equalized_odds",
    title="Equalized odds difference",
    about="As demographic_parity, among people whose true answer is the same.",
    unit="number",
    direction="at most",
    read=_reader_of_odds("equalized odds difference", lambda table: table.eo),
)
EQUALIZED_ODDS_SD = Measure(
    name="equalized_odds_sd",
    title="Equalized odds, standard deviation",
    about="As demographic_parity_sd, among people whose true answer is the same.",
    unit="number",
    direction="at most",
    read=_reader_of_odds("standard deviation of selection rates", lambda table: table.eo_sd),
)
IMPACT_RATIO = Measure(
    name="impact_ratio",
    title="Impact ratio",
    about="A group's rate of the favorable answer over the highest group's; the intervals of all"
    " groups hold together.",
    unit="number",
    direction="at least",
    read=_read_impact_ratio,
)
