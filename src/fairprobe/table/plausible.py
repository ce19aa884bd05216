"""Plausible people: how many of them are affected, and how well they resemble real people.

They are made from the people in the data (`people/plausible.py`). The rate is about them, given the
data that they were made from: a stress test with new people, never a substitute for the rate among
the people in the data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.documents.people import Plausible
from fairprobe.documents.table import TableMeasurements
from fairprobe.judgement import Verdict, judge
from fairprobe.measures import Measure, Reading, by, reading_of_counterparts, required
from fairprobe.models import Model, one_thread
from fairprobe.people.plausible import LIMIT, PlausiblePeople
from fairprobe.people.resemblance import resemblance
from fairprobe.results import Rate

FEWEST, MOST = 1_000, 20_000  # people drawn
FOR_EACH_RECORD = 2
AT_ONCE = 4_000


def plausible(
    people: PlausiblePeople,
    model: Model,
    *,
    rng: np.random.Generator,
    most: int = MOST,
    on_judged: Callable[[Verdict], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Plausible:
    """Draw plausible people, at most `most` and no more than a table of this size can show, and
    judge them.
    """
    records = len(people.complete)
    wanted = min(int(np.clip(FOR_EACH_RECORD * records, FEWEST, MOST)), most)
    parts: list[Rows] = []
    hits = judged = 0
    with one_thread():
        while len(parts) * AT_ONCE < wanted:
            x = people.draw(min(AT_ONCE, wanted - len(parts) * AT_ONCE), rng=rng)
            verdict = judge(people.domain, model, x)
            hits += int(verdict.is_discriminatory.sum())
            judged += int(verdict.has_counterpart.sum())
            if on_judged is not None:
                on_judged(verdict)
            parts.append(x)
            if progress is not None:
                progress(min(len(parts) * AT_ONCE, wanted), wanted)
        alike = resemblance(people, np.concatenate(parts))
    return Plausible(
        affected=Rate.of(hits, judged),
        records=records,
        limit=LIMIT,
        resemblance=alike,
        findings=None,
    )


def _read(document: TableMeasurements) -> list[Reading]:
    what = f"share of plausible people affected by {by(document)}"
    missing = "no plausible people were drawn. Audit again"
    if document.plausible is None and document.no_plausible:
        return [Reading(what=what, missing=document.no_plausible.rstrip("."))]
    affected, of = required(document.plausible).affected, "plausible people"
    return [reading_of_counterparts(document, what, affected, missing=missing, of=of)]


PLAUSIBLE_PEOPLE = Measure(
    name="plausible_people",
    title="Plausible people affected",
    about=(
        "Of new people made from the people in the data, the share whose answer changes with the"
        " attribute."
    ),
    unit="share",
    direction="at most",
    read=_read,
)
