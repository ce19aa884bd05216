"""What a policy can limit: each measure by name, which side of a limit is good, and where a run's
document holds it.

What a document does not hold is told with a reason and a remedy; nothing is ever taken for good
because it is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal, TypeAlias

from fairprobe.errors import StorageError
from fairprobe.present.formats import listed
from fairprobe.statistics.rates import Rate

Document: TypeAlias = dict[str, Any]
Direction: TypeAlias = Literal["at most", "at least"]
Unit: TypeAlias = Literal["share", "number", "count"]

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
    read: Callable[[Document], list[Measured]]


def measured(name: str, body: Document) -> list[Measured]:
    """What the run's document says of a measure: one number, or one for each table, class or
    group.
    """
    try:
        found, is_constant = MEASURES[name].read(body), body["model"].get("constant")
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise StorageError(
            f"The run's document does not hold '{name}' as it should ({error!r}). Run the audit"
            " again."
        ) from error
    return (
        [replace(each, note=CONSTANT) for each in found]
        if is_constant and name not in ("auc", "accuracy")
        else found
    )


def _number(value: Any) -> float | None:
    """A number that can be compared, or nothing."""
    is_number = isinstance(value, int) or (isinstance(value, float) and isfinite(value))
    return value if is_number and not isinstance(value, bool) else None


def _with_interval(what: str, entry: Document, missing: str, *, is_small: bool = False) -> Measured:
    """A number whose interval decides; without the interval there is nothing to decide by."""
    estimate, low, high = (_number(entry[key]) for key in ("estimate", "low", "high"))
    if estimate is None or low is None or high is None or entry.get("samples") == 0:
        return Measured(what, None, missing=missing, is_small=is_small)
    return Measured(what, estimate, low, high, _number(entry.get("confidence")), is_small=is_small)


def _by(body: Document) -> str:
    return listed(body["sensitive"])


def _counterparts(body: Document, what: str, entry: Document, missing: str) -> Measured:
    """A number about people and their counterparts, whom a model cannot tell apart by what it is
    not given.
    """
    is_blind = set(body["sensitive"]) <= set(body["model"]["blind_to"])
    note = (
        f"The model is not given {_by(body)}, so that is so by construction; limit what groups are"
        " given as well."
        if is_blind
        else ""
    )
    return replace(_with_interval(what, entry, missing), note=note)


def _dm_rs(body: Document) -> list[Measured]:
    what = f"share of possible people affected by {_by(body)} (DM-RS)"
    return [
        _counterparts(
            body, what, body["dm_rs"], "no possible people were drawn. Audit again with --samples"
        )
    ]


def people_drawn(body: Document) -> Rate:
    """The possible people that the run drew, counted."""
    try:
        drawn = body["dm_rs"]
        return Rate(int(drawn["hits"]), int(drawn["samples"]), float(drawn["confidence"]))
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(
            f"The run's document does not count its possible people as it should ({error!r}). Run"
            " the audit again."
        ) from error


def _people(body: Document) -> list[Measured]:
    what = f"share of the people in the data affected by {_by(body)}"
    return [
        _counterparts(
            body,
            what,
            body["people"],
            f"nobody in the data has a known {_by(body)}. Check the column",
        )
    ]


def _ifr(letter: Literal["b", "p"], what: str) -> Callable[[Document], list[Measured]]:
    def read(body: Document) -> list[Measured]:
        missing = (
            f"nobody held out has a counterpart by {_by(body)}. Check the column and the"
            " constraints"
        )
        whole = f"share of pairs differing only in {_by(body)} that are told {what} (IFR_{letter})"
        return [_counterparts(body, whole, body["fairness"]["individual"][letter], missing)]

    return read


def _demographic_parity(body: Document) -> list[Measured]:
    what = "demographic parity difference"
    return _of_tables(
        body,
        what,
        lambda table: [_apart(table, f"{what} by {table['attribute']}", table["dp"], "held out")],
    )


def _equalised_odds(body: Document) -> list[Measured]:
    what = "equalised odds difference"

    def read(table: Document) -> list[Measured]:
        return [
            _apart(
                table,
                f"{what} by {table['attribute']} given {each['given']}",
                each,
                f"held out with {each['given']}",
            )
            for each in table["eo"]
        ]

    return _of_tables(body, what, read)


def _apart(table: Document, what: str, entry: Document, who: str) -> Measured:
    found = _with_interval(
        what,
        entry,
        f"fewer than two groups have people {who}. Hold out more people, or merge groups",
    )
    small = sum(row["is_small"] for row in table["rows"])
    return (
        replace(
            found, note=f"Every group counts alike here, also the {small:,} with very few people."
        )
        if small
        else found
    )


def _impact_ratio(body: Document) -> list[Measured]:
    what = "impact ratio"
    nobody = (
        "nobody of a group that is large enough was given the favourable answer. Check which answer"
        " is the favourable one"
    )

    def read(table: Document) -> list[Measured]:
        return [
            _with_interval(
                f"{what} of {row['name']} by {table['attribute']}",
                row["impact_ratio"],
                nobody,
                is_small=row["is_small"],
            )
            for row in table["rows"]
            if not row["is_empty"]
        ]

    return _of_tables(body, what, read)


def _of_tables(
    body: Document, what: str, read: Callable[[Document], list[Measured]]
) -> list[Measured]:
    groups = body["fairness"]["group"]
    found = [] if groups is None else [each for table in groups["tables"] for each in read(table)]
    if any(not each.is_small for each in found):
        return found
    missing = (
        NO_GROUPS
        if groups is None
        else "every group is empty or small. Hold out more people, or merge groups"
    )
    return [*found, Measured(f"{what} by {_by(body)}", None, missing=missing)]


def _auc(body: Document) -> list[Measured]:
    what = f"reaction of the most biased layer to {_by(body)} (AUC)"
    inside = body["interpretation"]
    if inside is None:
        missing = (
            "no neurons can be seen in the model. Give the network itself, one with hidden layers,"
            " or take auc out of the policy"
        )
        return [Measured(what, None, missing=missing)]
    return [
        Measured(
            what, _number(inside["auc"]), missing="no layer was measured. Audit the network again"
        )
    ]


def _idis(body: Document) -> list[Measured]:
    found = body["generation"]
    cut_short = {
        "interrupted": "The search was interrupted, so it might have found more. Audit again.",
        "wanted": (
            "The search ended when it had as many as were wanted, so it might have found more."
            " Audit again with a higher --wanted."
        ),
    }
    what = f"number of cases by {_by(body)} that the search found (IDIs)"
    if found["tried"] == 0:
        return [
            Measured(what, None, missing="the search tried nobody. Give it more time, or seeds")
        ]
    missing = "the search told no number. Audit again"
    return [
        Measured(
            what,
            _number(found["idis"]),
            missing=missing,
            cut_short=cut_short.get(found["stopped"], ""),
        )
    ]


def _accuracy(body: Document) -> list[Measured]:
    return [
        _with_interval(
            "accuracy on the people held out",
            body["fairness"]["quality"]["accuracy"],
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
