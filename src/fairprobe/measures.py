"""Measures describe themselves: what they are called, what they mean, which direction is good, and
how to read them from a run.

Each measure is declared beside the code that computes it; `fairprobe.catalogue` lists them. The
gate, the cards, MLflow and `fairprobe list measures` use these descriptions. What a document does
not hold is reported with a reason and a remedy: nothing counts as good because it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from fairprobe.arrays import Ints
from fairprobe.documents.people import SelectionTable
from fairprobe.documents.table import TableMeasurements
from fairprobe.errors import StorageError
from fairprobe.results import Estimate, Result, Run

Kind: TypeAlias = Literal["table", "text", "names"]
Direction: TypeAlias = Literal["at most", "at least"]
T = TypeVar("T")
Unit: TypeAlias = Literal["share", "number", "count"]

FRAGILE = 0.01  # of the people: more ties, and that nothing was found proves nothing
TIES = (
    "For more than {} of the people in the data the answer changes within rounding; such ties are"
    " never counted as discrimination, so a good number is no evidence."
)
CONSTANT = (
    "The model gives everybody the same answer, which is even and worth nothing; limit accuracy as"
    " well."
)
NO_GROUPS = (
    "the data does not say which answer is favorable, so groups were not compared. Name the"
    " favorable answer and audit again"
)


class ModelInfo(Result, frozen=True, kw_only=True):
    """Model in a run; `network` is its name."""

    network: str
    kind: str


class JudgedRun(Run, frozen=True, kw_only=True):
    """Run with measures that a policy can limit."""

    kind: str
    dataset: str
    sensitive: list[str]
    model: ModelInfo


Measurements: TypeAlias = TableMeasurements | JudgedRun


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Number of an audit, `what` it is in words, of everybody or of one `group`. Without an
    interval it stands for itself.

    `estimate` is None where the audit does not have it; `missing` then says why and what to do.
    `measured_on` says on how many of what, such as "9,769 pairs"; it is empty if nothing was
    measured. `cut_short` says why the true number may be higher, `note` what else a reader must
    know. A small group is not judged by itself, but serves for comparison.
    """

    what: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    samples: int | None = None
    measured_on: str = ""
    group: str = ""
    is_small: bool = False
    missing: str = ""
    cut_short: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """True and predicted classes of the people held out, as numbers of classes. The
    `positive` class counts as selected; None if no class does.
    """

    true: Ints
    predicted: Ints
    positive: int | None
    classes: int


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Number that a policy can limit. `direction` is the good side of a limit, `largest` the
    largest limit that makes sense; counts have none.

    It reads a number that the document already has (`read`), or it adds one: `score` computes it
    from the answers of the people held out, and the document keeps it under `fairness.quality`.
    `favors_constant`: a model that gives everybody the same answer reaches the best value. `of` is
    the kind of run that has it.
    """

    name: str
    title: str
    about: str
    unit: Unit
    direction: Direction
    read: Callable[[Any], Iterable[Reading]] | None = None
    score: Callable[[Answers], Estimate] | None = None
    largest: float = 1.0
    favors_constant: bool = True
    of: Kind = "table"

    def readings(self, document: Measurements) -> list[Reading]:
        """Read a run: one number, or one for each table, class or group."""
        if document.kind != self.of:
            missing = f"the run is an audit of {document.kind}. Take {self.name} out of the policy"
            return [Reading(what=self.title, missing=missing)]
        try:
            found = [_finite(each) for each in (self.read or self._read_score)(document)]
        except (AttributeError, TypeError, LookupError, ValueError, ArithmeticError) as error:
            raise StorageError(
                f"The measure '{self.name}' cannot be read from this document: {error}. Run the"
                " audit again, or leave the measure out."
            ) from error
        is_constant = getattr(document.model, "constant", False)
        if is_constant and self.favors_constant:
            return [replace(each, note=CONSTANT) for each in found]
        return found

    def _read_score(self, document: Any) -> list[Reading]:
        what = f"{self.title} on the people measured"
        entry = required(document.fairness).quality.scores.get(self.name)
        if entry is None:
            missing = "this run did not measure it. Run the audit again"
            return [Reading(what=what, missing=missing)]
        return [reading_of(what, entry, missing="it is not defined for these answers. Add rows")]


def added_readings(measure: Measure, document: Measurements) -> list[Reading]:
    """Read a measure of another package; if it fails, return a missing number with the reason."""
    try:
        return measure.readings(document)
    except StorageError as error:
        return [Reading(what=measure.title, missing=str(error).rstrip("."))]


def check_description(measure: object) -> None:
    """Raise TypeError unless this is a measure that describes itself."""
    if not isinstance(measure, Measure):
        raise TypeError("it must be a fairprobe.metrics.Measure")
    for name in ("title", "about"):
        if not getattr(measure, name):
            raise TypeError(f"it has no {name}")
    if (measure.read is None) == (measure.score is None):
        raise TypeError("it must have either `read` or `score`")
    if measure.of not in ("table", "text", "names"):
        raise TypeError(f"it must be of table, text or names, not {measure.of!r}")
    if measure.unit not in ("share", "number", "count"):
        raise TypeError(f"its unit must be share, number or count, not {measure.unit!r}")
    if measure.direction not in ("at most", "at least"):
        raise TypeError(f"its direction must be 'at most' or 'at least', not {measure.direction!r}")


def _finite(reading: Reading) -> Reading:
    ends = (reading.estimate, reading.low, reading.high)
    if all(end is None or isfinite(end) for end in ends):
        return reading
    return replace(reading, estimate=None, low=None, high=None, missing="it is not a finite number")


# -- what readers share ----------------------------------------------------------------------------


class WithInterval(Protocol):
    """Number with its interval."""

    @property
    def estimate(self) -> float | None: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...
    @property
    def samples(self) -> int: ...
    @property
    def confidence(self) -> float: ...


def reading_of(
    what: str, entry: WithInterval, *, missing: str, of: str = "people measured", **more: Any
) -> Reading:
    """Read a number whose interval decides; without an interval it is missing. `of` names the
    samples.
    """
    more.setdefault("measured_on", f"{entry.samples:,} {of}")
    if None in (entry.estimate, entry.low, entry.high) or entry.samples == 0:
        return Reading(what=what, missing=missing, samples=entry.samples, **more)
    return Reading(
        what=what,
        estimate=entry.estimate,
        low=entry.low,
        high=entry.high,
        confidence=entry.confidence,
        samples=entry.samples,
        **more,
    )


def required(part: T | None) -> T:
    """Return a part of the run; raise LookupError if it was not measured."""
    if part is None:
        raise LookupError("it was not measured")
    return part


def by(document: TableMeasurements) -> str:
    """List the sensitive attributes: gender, or gender and age."""
    *most, last = document.sensitive
    return f"{', '.join(most)} and {last}" if most else last


def reading_of_counterparts(
    document: TableMeasurements,
    what: str,
    entry: WithInterval,
    *,
    missing: str,
    bare: bool = False,
    **more: Any,
) -> Reading:
    """Read a number about people and their counterparts, `bare` ones or those of the audit, which
    a model cannot distinguish by attributes that it is not given.
    """
    changing = document.sensitive if bare else [*document.sensitive, *document.coupled]
    note = (
        f"The model is not given {by(document)}, so this holds by construction; limit what groups"
        " are given as well."
        if set(changing) <= set(document.model.blind_to)
        else ""
    )
    ties = None if document.people is None else document.people.ties
    cut_short = TIES.format("1 %") if ties is not None and ties.estimate > FRAGILE else ""
    return reading_of(what, entry, missing=missing, note=note, cut_short=cut_short, **more)


def readings_of_groups(
    document: TableMeasurements, what: str, read: Callable[[SelectionTable], list[Reading]]
) -> list[Reading]:
    """Read a number of every table of groups; a missing one if no group can be judged."""
    groups = required(document.fairness).group
    found = [] if groups is None else [each for table in groups.tables for each in read(table)]
    if any(not each.is_small for each in found):
        return found
    missing = (
        NO_GROUPS
        if groups is None
        else "every group is empty or small. Measure more people, or merge groups"
    )
    return [*found, Reading(what=f"{what} by {by(document)}", missing=missing)]
