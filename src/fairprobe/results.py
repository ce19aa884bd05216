"""What all results share: strict structs, numbers with intervals, one way to write and read them.

A result is declared beside the code that computes it, and is what `audit.json` contains. Decoding
is validation: a file that is damaged, forged or impossible (a rate of −1, a string in place of a
number, nesting 10,000 deep) raises one `StorageError` that names the place.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from fairprobe.errors import StorageError

MAX_REASON = 300  # characters of a reason in a message
CONFIDENCE = 0.95
ROUNDING = 1e-9  # ends of an interval may miss the estimate by this much

Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-1.7e308, le=1.7e308)]  # finite
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1.7e308)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1.7e308)]
Settings: TypeAlias = dict[str, Any]  # names and plain values, for people to read


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A result, or a part of one. Unknown fields are rejected."""

    def to_dict(self) -> dict[str, Any]:
        """Convert to dictionaries and lists."""
        return to_dict(self)


class Rate(Result, frozen=True, kw_only=True):
    """`hits` of `samples`, with the exact (Clopper–Pearson) interval of the true rate."""

    estimate: Share
    low: Share
    high: Share
    hits: Count
    samples: Count
    confidence: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)
        if self.hits > self.samples:
            raise ValueError(f"{self.hits} hits among {self.samples} samples")

    @classmethod
    def of(cls, hits: int, samples: int, confidence: float = CONFIDENCE) -> Rate:
        """Count a rate. Without hits the interval begins at 0; without samples it is 0 to 1."""
        from scipy.stats import beta

        tail = (1 - confidence) / 2
        return Rate(
            estimate=hits / samples if samples else 0.0,
            low=float(beta.ppf(tail, hits, samples - hits + 1)) if hits else 0.0,
            high=float(beta.ppf((1 + confidence) / 2, hits + 1, samples - hits))
            if hits < samples
            else 1.0,
            hits=hits,
            samples=samples,
            confidence=confidence,
        )

    def with_confidence(self, confidence: float) -> Rate:
        """Count the same people again, with the interval for another confidence."""
        return Rate.of(self.hits, self.samples, confidence)


class Estimate(Result, frozen=True):
    """A number and its interval, from `samples` people; `left_out` names the groups that have
    nobody to count.

    `estimate` is None where the number is not defined: a rate of nobody, a difference of fewer than
    two groups, a ratio to zero. `low` and `high` are None then too, and where no draw defines the
    number. The interval always contains the estimate.
    """

    estimate: Number | None
    low: Number | None
    high: Number | None
    samples: Count
    confidence: Share = CONFIDENCE
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)

    def check_range(self, lowest: float = 0.0, highest: float = 1.0) -> None:
        """Raise ValueError unless the number and its interval lie in this range."""
        for value in (self.low, self.estimate, self.high):
            if value is not None and not lowest - ROUNDING <= value <= highest + ROUNDING:
                raise ValueError(f"{value} is not from {lowest:g} to {highest:g}")


class RankTest(Result, frozen=True):
    """Mann–Whitney U, two-sided, of `first` and `second` numbers; None where one of them is 0.

    `superiority` is how often a number of the first set is above one of the second (ties count
    half): ½ where the sets are equal.
    """

    first: Count
    second: Count
    first_mean: float | None
    second_mean: float | None
    statistic: float | None
    p_value: Share | None
    superiority: Share | None


class Run(Result, frozen=True, kw_only=True):
    """What every kind of run has. A subclass adds `kind`, `format` and its own results."""

    kind: str = ""
    format: int = 1
    created: str
    command: str
    versions: dict[str, str]
    seed: Count
    seconds: dict[str, Seconds] = msgspec.field(default_factory=dict)
    stopped: str | None = None  # why it ended early
    messages: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        if "fairprobe" not in self.versions:
            raise ValueError("the versions do not name fairprobe")


def check_interval(low: float | None, estimate: float | None, high: float | None) -> None:
    """Raise ValueError unless the interval contains the estimate."""
    if estimate is None:
        if low is not None or high is not None:
            raise ValueError("an interval without an estimate")
        return
    if (low is not None and low > estimate + ROUNDING) or (
        high is not None and high < estimate - ROUNDING
    ):
        raise ValueError(f"the interval {low} to {high} does not contain the estimate {estimate}")


class Header(msgspec.Struct, frozen=True):
    """The kind and the format of a run; other fields are skipped."""

    format: int
    kind: str = "table"


AnyResult = TypeVar("AnyResult", bound=Result)


def encode(result: Result) -> bytes:
    """Write a result as indented JSON."""
    plain = msgspec.json.encode(result, enc_hook=_plain)
    return msgspec.json.format(plain, indent=1) + b"\n"


def to_dict(result: Result) -> dict[str, Any]:
    """Convert a result to dictionaries and lists."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(result, enc_hook=_plain))
    return plain


def from_dict(body: dict[str, Any], kind: type[AnyResult]) -> AnyResult:
    """Validate plain data as a result of this kind."""
    try:
        return msgspec.convert(body, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise StorageError(
            f"This is not a valid document: {_in_a_line(error)}. Run the audit again."
        ) from None


def decode(data: bytes, kind: type[AnyResult], *, name: str) -> AnyResult:
    """Read a result; messages call the file `name`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise StorageError(
            f"{name} is damaged or was altered: {_in_a_line(error)}. Run the audit again."
        ) from None


def header_of(data: bytes, *, name: str) -> Header:
    """Read only the kind and the format of a run."""
    try:
        return msgspec.json.decode(data, type=Header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise StorageError(
            f"{name} is not an audit of fairprobe, or it is damaged. Run the audit again."
        ) from None


def _plain(value: Any) -> Any:
    """Convert NumPy's scalars."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain data")


def _in_a_line(error: BaseException) -> str:
    """Shorten a reason: texts of a file can be long and have many lines."""
    line = " ".join((str(error) or type(error).__name__).split()).rstrip(".")
    return (
        line
        if len(line) <= MAX_REASON
        else f"{line[: MAX_REASON // 2]} … {line[-MAX_REASON // 2 :]}"
    )
