"""Parts that all documents share."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from fairprobe.errors import StorageError
from fairprobe.results import Estimate, Rate, decode, encode, from_dict, header_of, to_dict

RATE: dict[str, Any] = {
    "estimate": 0.0,
    "low": 0.0,
    "high": 0.3,
    "hits": 0,
    "samples": 0,
    "confidence": 0.95,
}


def rate(**changes: Any) -> Rate:
    return msgspec.convert(RATE | changes, Rate)


def test_ends_of_an_interval_may_be_its_estimate_and_miss_it_only_by_rounding() -> None:
    assert rate().low == rate().estimate
    rate(estimate=0.3)
    rate(estimate=1e-10, low=1.05e-9)
    rate(estimate=0.3 + 9e-10)
    for changes in ({"low": 2e-9}, {"estimate": 0.3 + 2e-9}, {"high": -0.0, "estimate": 0.1}):
        with pytest.raises(msgspec.ValidationError, match="does not contain the estimate"):
            rate(**changes)


def test_there_are_no_more_hits_than_samples_and_none_below_zero() -> None:
    assert rate(hits=3, samples=3).hits == 3
    with pytest.raises(msgspec.ValidationError, match="4 hits among 3 samples"):
        rate(hits=4, samples=3)
    with pytest.raises(msgspec.ValidationError, match=">= 0"):
        rate(samples=-1)
    for name in ("estimate", "high", "confidence"):
        with pytest.raises(msgspec.ValidationError, match="<= 1"):
            rate(**{name: 1.01})


def test_a_number_that_is_not_defined_has_no_interval() -> None:
    def estimate(*values: float | None) -> Estimate:
        low, middle, high = values
        return Estimate(low=low, estimate=middle, high=high, samples=3, confidence=0.95)

    assert estimate(None, None, None).left_out == ()
    for values in ((0.1, None, None), (None, None, 0.1)):
        with pytest.raises(ValueError, match="an interval without an estimate"):
            estimate(*values)
    assert estimate(None, 0.5, None).estimate == 0.5
    estimate(-5e-10, 0.5, 1 + 5e-10).check_range()
    estimate(-1, 0, 3).check_range(-1, 3)
    estimate(0 - 1e-9, 0.5, 1 + 1e-9).check_range()
    for impossible in ((-2e-9, 0, 1), (0, 0.5, 1 + 2e-9), (0, 2, 2)):
        with pytest.raises(ValueError, match="is not from 0 to 1"):
            estimate(*impossible).check_range()


def test_scalars_of_numpy_are_written_as_numbers() -> None:
    document = Estimate(
        low=np.float32(0.25),  # type: ignore[arg-type]
        estimate=np.float64(0.5),
        high=None,
        samples=np.int64(3),  # type: ignore[arg-type]
        confidence=0.95,
    )
    assert to_dict(document)["low"] == 0.25
    assert to_dict(document)["samples"] == 3
    assert b'"samples": 3,' in encode(document)
    with pytest.raises(TypeError, match="object is not plain data"):
        encode(msgspec.structs.replace(document, left_out=[object()]))


def test_a_document_is_read_back_as_it_was_and_what_is_wrong_is_said_in_one_line() -> None:
    document = rate(hits=2, samples=9, estimate=0.2)
    assert decode(encode(document), Rate, name="a.json") == document
    assert from_dict(to_dict(document), Rate) == document
    assert (
        header_of(b'{"format": 3, "kind": "scenes", "more": [1]}', name="a.json").kind == "scenes"
    )
    assert header_of(b'{"format": 3}', name="a.json").kind == "table"
    for damaged in (b"{", b"\xff", b"[" * 100_000, b'{"format": "3"}'):
        with pytest.raises(StorageError, match=r"a\.json is damaged or was altered: [^\n]+\. Run"):
            decode(damaged, Rate, name="a.json")
        with pytest.raises(StorageError, match=r"a\.json is not an audit of fairprobe"):
            header_of(damaged, name="a.json")
    with pytest.raises(StorageError, match="not a valid document: Expected `float` <= 1"):
        from_dict(RATE | {"high": 3.0}, Rate)
    long = RATE | {"x" * 500 + "\nend of the name": 1}
    with pytest.raises(StorageError) as caught:
        from_dict(long, Rate)
    assert "\n" not in str(caught.value)
    assert "xx … xx" in str(caught.value)
    assert "end of the name" in str(caught.value)
    assert (
        len(str(caught.value)) == len("This is not a valid document: . Run the audit again.") + 303
    )
