"""What a policy can limit: each measure by name, which side of a limit is good, and where a run's
document holds it.

What a document does not hold is told with a reason and a remedy; nothing is ever taken for good
because it is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar

from fairprobe.documents import (
    EstimateDocument,
    GroupIfr,
    ModelDocument,
    RateDocument,
    SelectionTable,
    TableMeasurements,
)
from fairprobe.errors import StorageError
from fairprobe.present.formats import listed
from fairprobe.statistics.rates import Rate

Direction: TypeAlias = Literal["at most", "at least"]
Unit: TypeAlias = Literal["share", "number", "count"]
Entry: TypeAlias = RateDocument | EstimateDocument | GroupIfr

MOST: Direction = "at most"
LEAST: Direction = "at least"
CONSTANT = (
    "The model gives everybody the same answer, which is even and worth nothing; limit accuracy as"
    " well."
)
NO_GROUPS = (
    "the data does not say which answer is favourable, so groups were not compared. Name the"
    " favourable answer and audit again"
)


@dataclass(frozen=True)
class Measured:
    """One number of a run, `what` it is in words. Without an interval it stands for itself.

    `estimate` is None where the run does not have it; `missing` says then why and what to do.
    `cut_short` says why the true number may be higher, `note` what else a reader must know. A small
    group is not judged by itself, but serves for comparison.
    """

    what: str
    estimate: float | None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    missing: str = ""
    cut_short: str = ""
    note: str = ""
    is_small: bool = False


@dataclass(frozen=True)
class Measure:
    """A name that a policy knows. `about` is a line for people who meet it for the first time."""

    name: str
    direction: Direction
    unit: Unit
    about: str
    read: Callable[[TableMeasurements], list[Measured]]


def measured(name: str, document: TableMeasurements) -> list[Measured]:
    """What a run says of a measure: one number, or one for each table, class or group."""
    found, model = MEASURES[name].read(document), document.model
    is_constant = isinstance(model, ModelDocument) and model.constant
    return (
        [replace(each, note=CONSTANT) for each in found]
        if is_constant and name not in ("auc", "accuracy")
        else found
    )


Part = TypeVar("Part")


def required(part: Part | None, name: str) -> Part:
    """A part of the measurements, which must be there."""
    if part is None:
        raise StorageError(f"The run did not measure '{name}'. Run the audit again.")
    return part


def _with_interval(what: str, entry: Entry, missing: str, *, is_small: bool = False) -> Measured:
    """A number whose interval decides; without the interval there is nothing to decide by."""
    if entry.estimate is None or entry.low is None or entry.high is None or entry.samples == 0:
        return Measured(what, None, missing=missing, is_small=is_small)
    return Measured(
        what, entry.estimate, entry.low, entry.high, entry.confidence, is_small=is_small
    )


def _by(document: TableMeasurements) -> str:
    return listed(document.sensitive)


def _counterparts(document: TableMeasurements, what: str, entry: Entry, missing: str) -> Measured:
    """A number about people and their counterparts, whom a model cannot tell apart by what it is
    not given.
    """
    is_blind = set(document.sensitive) <= set(document.model.blind_to)
    note = (
        f"The model is not given {_by(document)}, so that is so by construction; limit what groups"
        " are given as well."
        if is_blind
        else ""
    )
    return replace(_with_interval(what, entry, missing), note=note)


def _dm_rs(document: TableMeasurements) -> list[Measured]:
    what = f"share of possible people affected by {_by(document)} (DM-RS)"
    return [
        _counterparts(
            document,
            what,
            required(document.dm_rs, "dm_rs"),
            "no possible people were drawn. Audit again with --samples",
        )
    ]


def people_drawn(document: TableMeasurements) -> Rate:
    """The possible people that the run drew, counted."""
    drawn = required(document.dm_rs, "dm_rs")
    return Rate(drawn.hits, drawn.samples, drawn.confidence)


def _people(document: TableMeasurements) -> list[Measured]:
    what = f"share of the people in the data affected by {_by(document)}"
    return [
        _counterparts(
            document,
            what,
            required(document.people, "people"),
            f"nobody in the data has a known {_by(document)}. Check the column",
        )
    ]


def _ifr(letter: Literal["b", "p"], what: str) -> Callable[[TableMeasurements], list[Measured]]:
    def read(document: TableMeasurements) -> list[Measured]:
        missing = (
            f"nobody held out has a counterpart by {_by(document)}. Check the column and the"
            " constraints"
        )
        whole = (
            f"share of pairs differing only in {_by(document)} that are told {what} (IFR_{letter})"
        )
        return [
            _counterparts(
                document,
                whole,
                getattr(required(document.fairness, "ifr").individual, letter),
                missing,
            )
        ]

    return read


def _demographic_parity(document: TableMeasurements) -> list[Measured]:
    what = "demographic parity difference"
    return _of_tables(
        document,
        what,
        lambda table: [_apart(table, f"{what} by {table.attribute}", table.dp, "held out")],
    )


def _equalised_odds(document: TableMeasurements) -> list[Measured]:
    what = "equalised odds difference"

    def read(table: SelectionTable) -> list[Measured]:
        return [
            _apart(
                table,
                f"{what} by {table.attribute} given {each.given}",
                each,
                f"held out with {each.given}",
            )
            for each in table.eo
        ]

    return _of_tables(document, what, read)


def _apart(table: SelectionTable, what: str, entry: Entry, who: str) -> Measured:
    found = _with_interval(
        what,
        entry,
        f"fewer than two groups have people {who}. Hold out more people, or merge groups",
    )
    small = sum(row.is_small for row in table.rows)
    return (
        replace(
            found, note=f"Every group counts alike here, also the {small:,} with very few people."
        )
        if small
        else found
    )


def _impact_ratio(document: TableMeasurements) -> list[Measured]:
    what = "impact ratio"
    nobody = (
        "nobody of a group that is large enough was given the favourable answer. Check which answer"
        " is the favourable one"
    )

    def read(table: SelectionTable) -> list[Measured]:
        return [
            _with_interval(
                f"{what} of {row.name} by {table.attribute}",
                row.impact_ratio,
                nobody,
                is_small=row.is_small,
            )
            for row in table.rows
            if not row.is_empty
        ]

    return _of_tables(document, what, read)


def _of_tables(
    document: TableMeasurements, what: str, read: Callable[[SelectionTable], list[Measured]]
) -> list[Measured]:
    groups = required(document.fairness, "fairness").group
    found = [] if groups is None else [each for table in groups.tables for each in read(table)]
    if any(not each.is_small for each in found):
        return found
    missing = (
        NO_GROUPS
        if groups is None
        else "every group is empty or small. Hold out more people, or merge groups"
    )
    return [*found, Measured(f"{what} by {_by(document)}", None, missing=missing)]


def _auc(document: TableMeasurements) -> list[Measured]:
    what = f"reaction of the most biased layer to {_by(document)} (AUC)"
    inside = document.interpretation
    if inside is None:
        missing = (
            "no neurons can be seen in the model. Give the network itself, one with hidden layers,"
            " or take auc out of the policy"
        )
        return [Measured(what, None, missing=missing)]
    return [Measured(what, inside.auc)]


def _idis(document: TableMeasurements) -> list[Measured]:
    found = required(document.generation, "idis")
    cut_short = {
        "interrupted": "The search was interrupted, so it might have found more. Audit again.",
        "wanted": (
            "The search ended when it had as many as were wanted, so it might have found more."
            " Audit again with a higher --wanted."
        ),
    }
    what = f"number of cases by {_by(document)} that the search found (IDIs)"
    if found.tried == 0:
        return [
            Measured(what, None, missing="the search tried nobody. Give it more time, or seeds")
        ]
    return [
        Measured(
            what,
            found.idis,
            cut_short=cut_short.get(found.stopped, ""),
        )
    ]


def _accuracy(document: TableMeasurements) -> list[Measured]:
    return [
        _with_interval(
            "accuracy on the people held out",
            required(document.fairness, "accuracy").quality.accuracy,
            "nobody was held out. Add rows",
        )
    ]


_ALL = (
    Measure(
        "dm_rs",
        MOST,
        "share",
        "Of all people who could be, the share whose answer changes with the attribute alone.",
        _dm_rs,
    ),
    Measure(
        "people",
        MOST,
        "share",
        "Of the people in the data, the share whose answer changes with the attribute alone.",
        _people,
    ),
    Measure(
        "ifr_b",
        LEAST,
        "share",
        "Of the pairs of counterparts held out, the share told the same.",
        _ifr("b", "the same"),
    ),
    Measure(
        "ifr_p",
        LEAST,
        "share",
        "As ifr_b, where the probabilities must be alike too.",
        _ifr("p", "nearly the same"),
    ),
    Measure(
        "demographic_parity",
        MOST,
        "number",
        "How far the groups' rates of the favourable answer lie apart.",
        _demographic_parity,
    ),
    Measure(
        "equalised_odds",
        MOST,
        "number",
        "The same among people whose true answer is alike.",
        _equalised_odds,
    ),
    Measure(
        "impact_ratio",
        LEAST,
        "number",
        "A group's rate of the favourable answer over the highest group's.",
        _impact_ratio,
    ),
    Measure(
        "auc",
        MOST,
        "number",
        "How strongly the neurons of the most biased layer react to the attribute.",
        _auc,
    ),
    Measure(
        "idis",
        MOST,
        "count",
        "How many different discriminatory cases the search found within its budget.",
        _idis,
    ),
    Measure(
        "accuracy",
        LEAST,
        "share",
        "The share of right answers among the people held out.",
        _accuracy,
    ),
)
MEASURES = {measure.name: measure for measure in _ALL}
