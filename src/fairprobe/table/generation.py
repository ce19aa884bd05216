"""Describe what a search found: how many findings, how different, how fast; and the pairs that are
shown.

paper       here
GSR         `gsr`: unique IDIs among unique instances generated. A search looks where it expects to
            find: this is not a population rate
input space the unique instances generated, #IDIs / GSR: `Generation.tried`
(ours)      `spread`: the mean distance between two findings, each attribute scaled to [0, 1]
(§3.3)      `seed_distance`: the mean distance of a finding to its seed, on the same scale
(ours)      `cells`: how many different cells of a coarse grid the findings lie in, among 20,000 of
            them. Few cells: the findings are many copies of few cases, which the spread can miss
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.documents.table import TableMeasurements
from fairprobe.findings import PLAUSIBILITY, PROVENANCE, Findings
from fairprobe.measures import Measure, Reading, by, required
from fairprobe.schema.domain import Domain

BINS = 1024  # of a real attribute's range, for `spread`
CANDIDATES = 500
USUAL = 0.25  # a person who is less plausible than this counts for less
QUARTERS = 4  # parts of each attribute, for `cells`
DRAWN = 20_000  # findings, for `cells`


def gsr(idis: int, tried: int) -> float:
    """Compute the generation success rate; 0 when nothing was tried."""
    return idis / tried if tried else 0.0


def ms_per_1000_idis(seconds: float, idis: int) -> float | None:
    """Return the milliseconds for 1,000 unique IDIs; None when there are none."""
    return seconds * 1e6 / idis if idis else None


def spread(findings: Findings) -> float | None:
    """Compute the mean distance of two different findings: 0 all alike, 1 as far apart as possible.
    None below two findings.

    The distance is the mean over the attributes that are not sensitive; of a number, the difference
    in codes over the range, of a one-hot attribute, whether it differs. It is exact: from how often
    each value occurs, not from a sample of pairs.
    """
    domain = findings.domain
    columns = domain.other_columns
    counts = [
        np.zeros(domain.attributes[column].size or BINS, dtype=np.int64) for column in columns
    ]
    for batch in findings.batches():
        x = findings.rows(batch)
        for count, column in zip(counts, columns, strict=True):
            count += np.bincount(_places(domain, x, int(column)), minlength=len(count))
    n = len(findings)
    if n < 2:
        return None
    distances = [
        _mean_distance(count, domain.attributes[column].one_hot)
        for count, column in zip(counts, columns, strict=True)
    ]
    return float(np.mean(distances)) * n / (n - 1)  # of two findings, not of one with itself


def _places(domain: Domain, x: Rows, column: int) -> Ints:
    attribute = domain.attributes[column]
    offset = x[:, column] - np.float32(attribute.low)
    if attribute.size is None:
        offset = np.minimum(
            offset / np.float32(max(attribute.high - attribute.low, 1e-12)) * BINS, BINS - 1
        )
    places: Ints = offset.astype(np.int64)
    return places


def _mean_distance(count: Ints, one_hot: bool) -> float:
    """E|a − b| / range for two independent draws: between neighbouring values pass all pairs with
    one below and one above.
    """
    share: Floats = count / count.sum()
    if one_hot:
        return float(1 - (share**2).sum())
    below = np.cumsum(share)[:-1]
    return float(2 * (below * (1 - below)).sum() / max(len(count) - 1, 1))


def seed_distance(findings: Findings, seeds: Rows) -> float | None:
    """Compute the mean distance of a finding to the seed that the search came from, on the scale of
    `spread`. None without findings, and where the search did not set out from all of its seeds.
    """
    domain, columns = findings.domain, findings.domain.other_columns
    one_hot = np.array([domain.attributes[column].one_hot for column in columns])
    reach = np.maximum(domain.high[columns] - domain.low[columns], np.float32(1e-12))
    total = 0.0
    for batch in findings.batches():
        origin = batch.column("origin").to_numpy()
        if origin.max(initial=0) >= len(seeds):
            return None
        apart = np.abs(findings.rows(batch)[:, columns] - seeds[origin][:, columns])
        total += float(np.where(one_hot, apart > 0, apart / reach).mean(axis=1).sum(dtype=float))
    return total / len(findings) if len(findings) else None


def cells(findings: Findings, *, drawn: int = DRAWN, seed: int = 0) -> float | None:
    """Different cells for each finding, when every attribute that is not sensitive is cut into
    quarters: 1 if no two findings share a cell, near 0 if all crowd into a few. It is counted among
    at most `drawn` findings, drawn at random. None without findings.
    """
    domain, n = findings.domain, len(findings)
    if n == 0:
        return None
    chosen = np.ones(n, dtype=bool)
    if n > drawn:
        chosen[:] = False
        chosen[np.random.default_rng(seed).choice(n, drawn, replace=False)] = True
    parts, first = [], 0
    for batch in findings.batches():
        parts.append(findings.rows(batch)[chosen[first : first + batch.num_rows]])
        first += batch.num_rows
    x = np.concatenate(parts)
    quarters = [
        _places(domain, x, int(column))
        * QUARTERS
        // max(domain.attributes[column].size or BINS, QUARTERS)
        for column in domain.other_columns
    ]
    return len(np.unique(np.stack(quarters, axis=1), axis=0)) / len(x)


# -- the most striking findings --------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Finding: the row, its counterpart, what the model said of each, and how plausible each is
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
    """Choose, of the findings with the most value, those that lie farthest apart; the clearest
    first.

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


# -- how policies, cards and reports read them -----------------------------------------------------


def _read_idis(document: TableMeasurements) -> list[Reading]:
    found = required(document.generation)
    what = f"number of cases by {by(document)} that the search found (IDIs)"
    if found.tried == 0:
        return [Reading(what=what, missing="the search tried nobody. Give it more time, or seeds")]
    return [
        Reading(
            what=what,
            estimate=found.idis,
            measured_on=f"{found.tried:,} tried",
            cut_short=CUT_SHORT.get(found.stopped, ""),
        )
    ]


def _read_input_space(document: TableMeasurements) -> list[Reading]:
    found = required(document.generation)
    what = f"number of different people that the search by {by(document)} tried (input space)"
    return [Reading(what=what, estimate=found.tried, measured_on=f"{found.judged:,} judged")]


def _read_distance(document: TableMeasurements) -> list[Reading]:
    found = required(document.generation)
    what = f"mean distance of a case by {by(document)} to the seed of the search"
    if found.distance is None:
        missing = (
            "the search found nothing, or does not set out from seeds. Audit again with a method"
            " that does, such as neuronfair"
        )
        return [Reading(what=what, missing=missing)]
    return [Reading(what=what, estimate=found.distance, measured_on=f"{found.idis:,} cases")]


CUT_SHORT = {
    "interrupted": "The search was interrupted, so it might have found more. Audit again.",
    "wanted": (
        "The search ended when it had as many as were wanted, so it might have found more. Audit"
        " again with a higher --max-findings."
    ),
}
IDIS = Measure(
    name="idis",
    title="Cases found by the search (IDIs)",
    about="How many different discriminatory cases the search found within its budget.",
    unit="count",
    direction="at most",
    read=_read_idis,
)
INPUT_SPACE = Measure(
    name="input_space",
    title="Different people tried by the search (input space)",
    about=(
        "How many different people the search tried, which is IDIs / GSR. A search that tried few"
        " and found nothing is no evidence."
    ),
    unit="count",
    direction="at least",
    read=_read_input_space,
    favors_constant=False,
)
DISTANCE = Measure(
    name="distance",
    title="Distance of the cases to their seeds",
    about=(
        "How far the cases that the search found lie from the people whom it set out from: the mean"
        " over all attributes that are not sensitive, each on a scale from 0 to 1."
    ),
    unit="number",
    direction="at most",
    read=_read_distance,
    favors_constant=False,
)
