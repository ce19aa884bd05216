"""People in the data: how many of them would get another answer if the sensitive attribute, and
what is coupled to it, were different; and who they are.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import asdict

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.documents.people import Advantage, GroupRate, People
from fairprobe.documents.table import TableMeasurements
from fairprobe.judgement import Verdict, answers, judge
from fairprobe.measures import Measure, Reading, by, reading_of, reading_of_counterparts, required
from fairprobe.metrics.rates import parts_of
from fairprobe.models import Model, one_thread
from fairprobe.results import CONFIDENCE, Rate
from fairprobe.schema.domain import Domain
from fairprobe.table.rules import find_rules
from fairprobe.table.severity import count_decisions, severity

SMALLEST_GROUP = 50  # people; smaller groups say little, and could identify a person
GROUPS = 8


def people(
    domain: Domain,
    model: Model,
    x: Rows,
    *,
    favourable: int | None = None,
    verdict: Verdict | None = None,
    seed: int = 0,
) -> People:
    """Judge every row as it is, values outside the bounds included, if its sensitive values lie in
    the domain; or take the `verdict` about these rows. `seed` chooses the half of them on which the
    rules are found.
    """
    everybody = x[domain.comparable(x)]
    with one_thread():
        verdict = judge(domain, model, everybody) if verdict is None else verdict
        rows, affected = (
            everybody[verdict.has_counterpart],
            verdict.is_discriminatory[verdict.has_counterpart],
        )
        shares, decisions = _asked_again(domain, model, rows[affected], favourable)
    own = domain.own_value(rows)
    name = " and ".join(domain.sensitive)
    values = [
        _group(name, domain.describe_value(int(value)), affected, own == value)
        for value in np.unique(own)
    ]
    absent = np.setdiff1d(np.arange(domain.value_count), domain.own_value(everybody))
    parts = [
        (domain.attributes[column].name, *part)
        for column in domain.other_columns
        for part in parts_of(domain.attributes[column], rows[:, column])
        if part[1].sum() >= SMALLEST_GROUP
    ]
    # Many groups are compared and the worst are shown, so all their intervals have to hold at once.
    confidence = 1 - (1 - CONFIDENCE) / max(len(parts), 1)
    groups = [_group(*part[:2], affected, part[2], confidence) for part in parts]
    # By the lower end: a small group needs stronger evidence to come first.
    groups.sort(key=lambda group: -group.low)
    return People(
        **asdict(Rate.of(int(affected.sum()), len(rows))),
        values=values,
        groups=[group for group in groups if group.low > affected.mean()][:GROUPS],
        advantages=_advantages(domain, shares),
        absent=[domain.describe_value(int(value)) for value in absent],
        no_counterpart=len(everybody) - len(rows),
        ties=Rate.of(int(verdict.hangs_on_tie.sum()), len(rows)),
        groups_compared=len(groups),
        severity=severity(
            verdict.gap[verdict.is_discriminatory], decisions, unaffected=int((~affected).sum())
        ),
        rules=find_rules(domain, rows, affected, seed=seed),
    )


def _group(
    attribute: str, value: str, affected: Mask, within: Mask, confidence: float = CONFIDENCE
) -> GroupRate:
    rate = Rate.of(int(affected[within].sum()), int(within.sum()), confidence)
    return GroupRate(attribute=attribute, value=value, **asdict(rate))


def _asked_again(
    domain: Domain, model: Model, rows: Rows, favourable: int | None
) -> tuple[Floats, Ints]:
    """(V,) how often each sensitive value brings the favorable answer, and (N,) how many different
    decisions each person could get.
    """
    hits, decisions = np.zeros(domain.value_count), [np.empty(0, dtype=np.int64)]
    for labels, evidence in answers(domain, model, rows):
        hits += (labels == favourable).sum(axis=0)
        decisions.append(count_decisions(labels, evidence))
    known = len(rows) and favourable is not None
    return hits / len(rows) if known else np.empty(0), np.concatenate(decisions)


def _advantages(domain: Domain, shares: Floats) -> list[Advantage]:
    return [
        Advantage(value=domain.describe_value(int(value)), share=float(shares[value]))
        for value in np.argsort(-shares, kind="stable")
    ]


def _read(document: TableMeasurements) -> list[Reading]:
    what = f"share of the people in the data affected by {by(document)}"
    missing = f"nobody in the data has a known {by(document)}. Check the column"
    entry = required(document.people)
    return [reading_of_counterparts(document, what, entry, missing=missing, of="people")]


def _read_ties(document: TableMeasurements) -> list[Reading]:
    what = f"share of people in the data whose answer changes with {by(document)} within rounding"
    entry = required(document.people).ties
    missing = f"nobody in the data has a known {by(document)}. Check the column"
    return [reading_of(what, entry, missing=missing, of="people")]


TIES = Measure(
    name="ties",
    title="Differences within rounding",
    about=(
        "Of the people in the data, the share whose answer changes with the attribute, but by a"
        " lead of at most 0.00001. Such ties are never counted as discrimination, so a model full"
        " of them looks fair without being it."
    ),
    unit="share",
    direction="at most",
    read=_read_ties,
    favors_constant=False,
)
PEOPLE = Measure(
    name="people",
    title="People in the data affected",
    about=(
        "Of the people in the data who have a counterpart, the share whose answer changes with the"
        " attribute and what the schema couples to it."
    ),
    unit="share",
    direction="at most",
    read=_read,
)
