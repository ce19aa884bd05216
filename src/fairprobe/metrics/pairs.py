"""The most striking findings: people who could exist, wide gaps, and different from each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairprobe.arrays import Floats, Mask, Rows
from fairprobe.findings import PLAUSIBILITY, PROVENANCE, Findings

CANDIDATES = 500
USUAL = 0.25  # a person who is less plausible than this counts for less


@dataclass(frozen=True)
class Pair:
    """One finding: the row, its counterpart, what the model said of each, and how plausible each is
    (None where the search had no model of the table). `is_record`: somebody in the data is equal to
    one of the two, apart from the sensitive attributes.
    """

    x: Rows
    x_other: Rows
    label: int
    label_other: int
    probability: float
    probability_other: float
    gap: float
    phase: str
    origin: int
    plausibility: float | None = None
    plausibility_other: float | None = None
    is_record: bool = False


def striking_pairs(
    findings: Findings, count: int = 6, *, records: Rows | None = None, show_records: bool = False
) -> list[Pair]:
    """Of the findings with the most value, those that lie farthest apart, the clearest first.

    The value of a pair is its gap, if both people are usual enough: below a plausibility of `USUAL`
    it shrinks in proportion to the less plausible one of them. Unless `show_records`, nobody is
    shown who is among the `records`, because a report travels and a record could be recognized.
    """
    domain = findings.domain
    known = domain.key(domain.clip(records)) if records is not None else None
    best: list[tuple[float, Pair]] = []
    for batch in findings.batches():
        is_record = (
            np.zeros(len(batch), dtype=bool)
            if known is None
            else np.isin(domain.key(findings.rows(batch)), known)
        )
        value = np.where(is_record & (not show_records), -1, _value(findings, batch))
        top = np.argsort(-value, kind="stable")[:CANDIDATES]
        top = top[value[top] >= 0]
        best += zip(value[top], _pairs(findings, batch.take(top), is_record[top]), strict=True)
        best = sorted(best, key=lambda each: -each[0])[:CANDIDATES]
    if not best or count < 1:
        return []
    pairs = [pair for _, pair in best]
    columns = domain.other_columns
    reach = np.maximum(domain.high - domain.low, 1e-9)[columns]
    place = np.stack([pair.x[columns] for pair in pairs]) / reach
    chosen = [0]
    distance = np.abs(place - place[0]).sum(axis=1)
    while len(chosen) < min(count, len(pairs)) and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.abs(place - place[chosen[-1]]).sum(axis=1))
    return [pairs[i] for i in sorted(chosen)]


def _value(findings: Findings, batch: pa.RecordBatch) -> Floats:
    """(n,) the gap of each pair, less where one of the two is unusual."""
    gap, *sides = (
        batch.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
        for name in (findings.column("gap"), *PLAUSIBILITY)
    )
    usual = np.minimum(*(np.nan_to_num(side, nan=1.0) for side in sides))
    return np.asarray(gap * np.minimum(1, usual / USUAL))


def _pairs(findings: Findings, batch: pa.RecordBatch, is_record: Mask) -> list[Pair]:
    x, x_other = findings.rows(batch), findings.rows(batch, other=True)
    columns = batch.to_pydict()
    columns["is_record"] = is_record.tolist()
    fields = (*PROVENANCE, *PLAUSIBILITY, "is_record")
    return [
        Pair(x[i], x_other[i], *(columns[findings.column(name)][i] for name in fields))
        for i in range(len(x))
    ]
