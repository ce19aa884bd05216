"""Rates of people and of possible people, and how people are divided into groups.

paper       here
DM-RS       `dm_rs`: the share of IDIs among instances drawn uniformly from the domain, by bare
            counterparts, with an exact interval
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairprobe.arrays import Mask, Rows
from fairprobe.documents.table import TableMeasurements
from fairprobe.judgement import judge
from fairprobe.measures import Measure, Reading, by, reading_of_counterparts, required
from fairprobe.models import Model, one_thread
from fairprobe.results import Rate
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain

SAMPLES = 50_000
VALUES_EACH = 20  # an attribute with more values is divided into quarters


def dm_rs(
    domain: Domain,
    model: Model,
    *,
    rng: np.random.Generator,
    samples: int = SAMPLES,
    progress: Callable[[int, int], None] | None = None,
) -> Rate:
    """Count discriminatory instances among `samples` uniform ones, by bare counterparts: as in the
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


def affected_rate(domain: Domain, model: Model, x: Rows) -> Rate:
    """Count the affected rows among those that have a counterpart."""
    with one_thread():
        verdict = judge(domain, model, x)
    return Rate.of(int(verdict.is_discriminatory.sum()), int(verdict.has_counterpart.sum()))


def parts_of(attribute: Attribute, codes: Rows) -> list[tuple[str, Mask]]:
    """Divide people by value, or into quarters of many values."""
    values = np.unique(codes)
    if attribute.kind == "categorical" or len(values) <= VALUES_EACH:
        return [(attribute.describe(float(value)), codes == value) for value in values]
    edges = np.unique(np.quantile(codes, [0, 0.25, 0.5, 0.75, 1]))
    place = np.clip(np.searchsorted(edges, codes, side="right") - 1, 0, len(edges) - 2)
    parts = []
    for number in range(len(edges) - 1):
        within = place == number
        if within.any():
            least, most = float(codes[within].min()), float(codes[within].max())
            parts.append((f"{attribute.describe(least)} to {attribute.describe(most)}", within))
    return parts


def _read_dm_rs(document: TableMeasurements) -> list[Reading]:
    what = f"share of possible people affected by {by(document)} (DM-RS)"
    missing = "no possible people were drawn. Audit again with --samples"
    rate, of = required(document.dm_rs), "possible people"
    return [reading_of_counterparts(document, what, rate, missing=missing, bare=True, of=of)]


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
