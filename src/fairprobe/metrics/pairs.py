"""The most striking findings: wide gaps, and different from each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairprobe.arrays import Keys, Rows
from fairprobe.findings import Findings
from fairprobe.schema.domain import Domain

CANDIDATES = 500
CROWD = 5  # equal people in the data, among whom a single one cannot be recognized


@dataclass(frozen=True)
class Pair:
    """One finding: the row, its counterpart, and what the model said of each."""

    x: Rows
    x_other: Rows
    label: int
    label_other: int
    probability: float
    probability_other: float
    gap: float
    phase: str
    origin: int


def striking_pairs(
    findings: Findings, count: int = 6, *, records: Rows | None = None
) -> list[Pair]:
    """Of the findings with the widest gap, those that lie farthest apart, the widest first.

    A search starts at people in the data, so it can find a person exactly as in the data. To show
    nobody who could be recognized, rows of `records` that fewer than `CROWD` people share (apart
    from the sensitive attributes) are left out.
    """
    best: list[Pair] = []
    rare = _rare(findings.domain, records)
    for batch in findings.batches():
        batch = batch.filter(pa.array(~np.isin(findings.domain.key(findings.rows(batch)), rare)))
        gap = batch.column("gap").to_numpy(zero_copy_only=False)
        top = np.argsort(-gap, kind="stable")[:CANDIDATES]
        few = batch.take(top)
        best += _pairs(findings, few)
        best = sorted(best, key=lambda pair: -pair.gap)[:CANDIDATES]
    if not best or count < 1:
        return []
    domain = findings.domain
    columns = domain.other_columns
    reach = np.maximum(domain.high - domain.low, 1e-9)[columns]
    place = np.stack([pair.x[columns] for pair in best]) / reach
    chosen = [0]
    distance = np.abs(place - place[0]).sum(axis=1)
    while len(chosen) < min(count, len(best)) and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.abs(place - place[chosen[-1]]).sum(axis=1))
    return [best[i] for i in sorted(chosen)]


def _rare(domain: Domain, records: Rows | None) -> Keys:
    """The keys of people in the data who could be recognized."""
    if records is None:
        return np.empty(0, dtype=np.uint64)
    keys, counts = np.unique(domain.key(domain.clip(records)), return_counts=True)
    return keys[counts < CROWD]


def _pairs(findings: Findings, batch: pa.RecordBatch) -> list[Pair]:
    x, x_other = findings.rows(batch), findings.rows(batch, other=True)
    columns = batch.to_pydict()
    fields = ("label", "label_other", "probability", "probability_other", "gap", "phase", "origin")
    return [Pair(x[i], x_other[i], *(columns[name][i] for name in fields)) for i in range(len(x))]
