"""What a search achieved: how many findings, how different, how fast. And, independent of any
search, how common discrimination is.

paper       here
GSR         `gsr`: unique IDIs among unique instances generated. A search looks where it expects to
            find: this is not a population rate
input space the unique instances generated, #IDIs / GSR: `Generation.tried`
CR, GD      `coverage_rate`, `generation_diversity`: which of two sets of IDIs reaches further, at a
            radius of cosine distance
DM-RS       `dm_rs`: the share of IDIs among instances drawn uniformly from the domain, by bare
            counterparts, with an exact interval
(ours)      `spread`: the mean distance between two findings, each attribute scaled to [0, 1]
(§3.3)      `seed_distance`: the mean distance of a finding to its seed, on the same scale
(ours)      `cells`: how many different cells of a coarse grid the findings lie in, among 20,000 of
            them. Few cells: the findings are many copies of few cases, which the spread can miss
"""

from __future__ import annotations

from collections.abc import Callable
from math import nan

import numpy as np

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.documents import TableMeasurements
from fairprobe.errors import DataError
from fairprobe.findings import Findings
from fairprobe.judgement import judge
from fairprobe.measures import Measure, Reading, by, reading_of_counterparts, required
from fairprobe.models import Model, one_thread
from fairprobe.schema.domain import Domain
from fairprobe.statistics.rates import Rate

BINS = 1024  # of a real attribute's range, for `spread`
QUARTERS = 4  # parts of each attribute, for `cells`
DRAWN = 20_000  # findings, for `cells`
SAMPLES = 50_000
ROUNDING = 1e-12  # of a cosine: a row is at distance 0 from itself
PAIRS_AT_ONCE = 4_000_000


def gsr(idis: int, tried: int) -> float:
    """The generation success rate; 0 when nothing was tried."""
    return idis / tried if tried else 0.0


def ms_per_1000_idis(seconds: float, idis: int) -> float | None:
    """Milliseconds for 1,000 unique IDIs; None when there are none."""
    return seconds * 1e6 / idis if idis else None


def dm_rs(
    domain: Domain,
    model: Model,
    *,
    rng: np.random.Generator,
    samples: int = SAMPLES,
    progress: Callable[[int, int], None] | None = None,
) -> Rate:
    """How many of `samples` uniform instances are discriminatory, by bare counterparts: as in the
    paper, whatever the schema couples.
    """
    domain, hits = domain.bare(), 0
    with one_thread():
        for start in range(0, samples, SAMPLES):
            drawn = domain.sample(min(SAMPLES, samples - start), rng=rng)
            hits += int(judge(domain, model, drawn).is_discriminatory.sum())
            if progress is not None:
                progress(start + len(drawn), samples)
    return Rate.of(hits, samples)


def spread(findings: Findings) -> float | None:
    """The mean distance of two different findings: 0 all alike, 1 as far apart as possible. None
    below two findings.

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
    """The mean distance of a finding to the seed that the search came from, on the scale of
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


def coverage_rate(of: Rows, by: Rows, radius: float) -> float:
    """The share of rows in `of` that have a row of `by` within this cosine distance."""
    if len(of) == 0:
        raise DataError("The coverage rate of no rows is not defined; the first set is empty.")
    if len(by) == 0:
        return 0.0
    unit = _unit(by).T
    at_once = max(1, PAIRS_AT_ONCE // len(by))
    near = [
        (1 - _unit(of[i : i + at_once]) @ unit).min(axis=1) <= radius + ROUNDING
        for i in range(0, len(of), at_once)
    ]
    return float(np.concatenate(near).mean())


def generation_diversity(ours: Rows, theirs: Rows, radius: float) -> float:
    """GD: above 1, our findings cover more of theirs than theirs of ours. NaN if neither covers the
    other.
    """
    forward, backward = coverage_rate(theirs, ours, radius), coverage_rate(ours, theirs, radius)
    return forward / backward if backward > 0 else nan


def _unit(x: Rows) -> Floats:
    """Rows of length one; a row of zeros stays, and is at distance 1 from all."""
    wide = x.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(length > 0, length, 1))


# -- how policies, cards and reports read them -----------------------------------------------------


def _read_dm_rs(document: TableMeasurements) -> list[Reading]:
    what = f"share of possible people affected by {by(document)} (DM-RS)"
    missing = "no possible people were drawn. Audit again with --samples"
    rate, of = required(document.dm_rs), "possible people"
    return [reading_of_counterparts(document, what, rate, missing=missing, bare=True, of=of)]


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
        " again with a higher --wanted."
    ),
}
DM_RS = Measure(
    name="dm_rs",
    title="Possible people affected (DM-RS)",
    about=(
        "Of all possible people, the share whose answer changes with the attribute alone: their"
        " counterparts are bare, as in the papers."
    ),
    unit="share",
    direction="at most",
    read=_read_dm_rs,
)
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
