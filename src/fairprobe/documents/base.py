"""What all documents share: strict structs, checked numbers, one way to read and write them.

A document is the plain data of a run: what `audit.json` holds. Decoding is validation. A file that
is damaged, forged or impossible (a rate of −1, a string where a number belongs, nesting 10,000
deep) ends in one `StorageError` that names the place.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from fairprobe.errors import StorageError

LONGEST = 300  # characters of a reason in a message
ROUNDING = 1e-9  # ends of an interval may miss the estimate by this much

Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-1.7e308, le=1.7e308)]  # finite
Share: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1.7e308)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1.7e308)]
Settings: TypeAlias = dict[str, Any]  # names and plain values, for people to read


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a document, or a whole one. Every field is there; unknown ones are refused."""


class RateDocument(Document, frozen=True, kw_only=True):
    """`hits` of `samples`, with the interval of the true rate."""

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


class EstimateDocument(Document, frozen=True, kw_only=True):
    """A number with its interval; all three are null where the number is not defined."""

    estimate: Number | None
    low: Number | None
    high: Number | None
    samples: Count
    confidence: Share
    left_out: list[str] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)

    def check_range(self, lowest: float = 0.0, highest: float = 1.0) -> None:
        """Refuse a number, or an end of its interval, that cannot be."""
        for value in (self.low, self.estimate, self.high):
            if value is not None and not lowest - ROUNDING <= value <= highest + ROUNDING:
                raise ValueError(f"{value} is not from {lowest:g} to {highest:g}")


class RankTestDocument(Document, frozen=True, kw_only=True):
    """Mann–Whitney's U test of two sets of numbers; null where one set is empty."""

    first: Count
    second: Count
    first_mean: float | None
    second_mean: float | None
    statistic: float | None
    p_value: Share | None
    superiority: Share | None


def check_interval(low: float | None, estimate: float | None, high: float | None) -> None:
    """Refuse an interval that does not hold its estimate."""
    if estimate is None:
        if low is not None or high is not None:
            raise ValueError("an interval without an estimate")
        return
    if (low is not None and low > estimate + ROUNDING) or (
        high is not None and high < estimate - ROUNDING
    ):
        raise ValueError(f"the interval {low} to {high} does not hold the estimate {estimate}")


class Header(msgspec.Struct, frozen=True):
    """What tells documents apart; all other fields are skipped."""

    format: int
    kind: str = "table"


AnyDocument = TypeVar("AnyDocument", bound=Document)


def encode(document: Document) -> bytes:
    """Write a document as indented JSON."""
    plain = msgspec.json.encode(document, enc_hook=_plain)
    return msgspec.json.format(plain, indent=1) + b"\n"


def to_dict(document: Document) -> dict[str, Any]:
    """Convert a document to dictionaries and lists."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document, enc_hook=_plain))
    return plain


def from_dict(body: dict[str, Any], kind: type[AnyDocument]) -> AnyDocument:
    """Validate plain data as a document of this kind."""
    try:
        return msgspec.convert(body, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise StorageError(
            f"This is not a valid document: {_in_a_line(error)}. Run the audit again."
        ) from None


def decode(data: bytes, kind: type[AnyDocument], *, name: str) -> AnyDocument:
    """Read a document; `name` says in messages which file it is."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise StorageError(
            f"{name} is damaged or was altered: {_in_a_line(error)}. Run the audit again."
        ) from None


def header_of(data: bytes, *, name: str) -> Header:
    """Read only the kind and the format of a document."""
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
    """What is wrong; a document's own texts can be long and have many lines."""
    line = " ".join((str(error) or type(error).__name__).split()).rstrip(".")
    return line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[-LONGEST // 2 :]}"
