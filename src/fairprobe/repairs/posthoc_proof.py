"""The proof of a post-hoc repair: the given model and the repaired one answer the same people, a
rule decides (`posthoc_verdict`), and both are measured alike, with the same search.

Nothing is trained, so there are no seeds, no controls beside the given model, and no trade-off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from fairprobe.arrays import Ints, Mask
from fairprobe.datasets.base import Dataset
from fairprobe.documents.table import TAU
from fairprobe.errors import SettingError
from fairprobe.judgement import judge
from fairprobe.metrics import Rate
from fairprobe.metrics.individual import Pairs
from fairprobe.models import Model
from fairprobe.repairs.abstain import HANDED_OVER, Abstain, Abstaining
from fairprobe.repairs.comparisons import Answers, Trial
from fairprobe.repairs.measured import Rates, Workshop
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.posthoc_verdict import Groups, decide_post_hoc
from fairprobe.repairs.proof import AUTO, BUDGET, SAMPLES, Proof
from fairprobe.repairs.series import PEOPLE, OnStage, Panel, maker_of
from fairprobe.repairs.subgroups import SubgroupChange, changes, subgroups
from fairprobe.repairs.thresholds import Thresholds, groups_of
from fairprobe.repairs.verdict import Limits
from fairprobe.search import Budget

CRITERIA = {
    "demographic_parity": "difference in the share selected",
    "equal_opportunity": "difference in the share selected of those who deserve it",
}


def prove_post_hoc(
    model: Model,
    data: Dataset,
    repair: PostHoc,
    *,
    seed: int = 0,
    max_accuracy_drop: float = 0.02,
    max_harm: float = 1.3,
    force: bool = False,
    people: Literal["plausible", "possible"] = "plausible",
    method: str = AUTO,
    variant: str | None = None,
    settings: Mapping[str, object] | None = None,
    budget: Budget = BUDGET,
    samples: int = SAMPLES,
    tau: float | Sequence[float] = TAU,
    pairs: Pairs = "all",
    progress: OnStage | None = None,
) -> Proof:
    """Repair the model and measure what that did; the options are those of `prove`. The people held
    out are those of the split by `seed`.
    """
    if not (0 <= max_accuracy_drop <= 1 and 1 <= max_harm < np.inf):
        raise SettingError(
            "max_accuracy_drop must be a share from 0 to 1, max_harm a factor of 1 or more; got"
            f" {max_accuracy_drop} and {max_harm}."
        )
    report = progress or (lambda *_: None)
    limits = Limits(max_accuracy_drop, max_harm)
    repaired = repair(model, data, seed=seed)
    maker = maker_of(data, seed, report) if people == "plausible" else None
    panel = Panel(data, seed, maker, min(samples, PEOPLE))
    how = "probe" if method == AUTO else method
    rates = Rates(tau, pairs)
    workshop = Workshop(panel, report, how, variant, budget, samples, settings or {}, rates)
    rows = data.split(seed).test
    truth = data.y[rows]
    report("Comparing the repair with the model", 0, 2, "the model")
    given = panel.answers(model)
    report("Comparing the repair with the model", 1, 2, "the repair")
    after = panel.answers(repaired)
    handed: dict[str, Rate] = {}
    harm: tuple[SubgroupChange, ...] = ()
    answered = rows
    if isinstance(repaired, Abstaining):
        after = _abstained(panel, repaired, after)
        is_handed = after.labels == HANDED_OVER
        handed, answered = _shares(data, rows, is_handed), rows[~is_handed]
    else:
        harm = changes(
            data,
            rows,
            subgroups(data, rows),
            given=given.labels,
            control=given.labels[None],
            repaired=after.labels[None],
        )
    decision = decide_post_hoc(
        Trial(seed, given, after),
        truth,
        data.domain.sensitive,
        limits,
        changes=harm,
        groups=_groups(repair, data, seed, given, after),
        handed_over=handed.get(""),
        max_handed_over=repair.max_handed_over if isinstance(repair, Abstain) else 1.0,
    )
    return Proof(
        repair=repair,
        model=repaired,
        before=workshop.measured("before", model),
        after=workshop.measured("after", repaired, answered if len(answered) else rows),
        controls={},
        curve=(),
        trials=(Trial(seed, given, after),),
        truth=truth,
        delivered=seed,
        decision=decision,
        groups=harm,
        forced=force,
        limits=limits,
        handed_over=handed,
    )


def _abstained(panel: Panel, model: Abstaining, answers: Answers) -> Answers:
    """The answers with `HANDED_OVER` for those whom a human decides about, who are no ties."""
    x = panel.data.x[panel.data.split(panel.seed).test]
    labels = model.answers(x)
    ties = 0.0
    for people in (x, panel.crowd):
        verdict = judge(panel.data.domain, model, people)
        rest = ~model.hands_over(people)
        ties = max(ties, float(verdict.is_tie[rest].mean()) if rest.any() else 0.0)
    is_constant = len(np.unique(labels[labels != HANDED_OVER])) < 2
    return replace(answers, labels=labels, ties=ties, is_constant=is_constant)


def _shares(data: Dataset, rows: Ints, is_handed: Mask) -> dict[str, Rate]:
    """The share that is handed over: of all, and of each sensitive value."""
    groups = groups_of(data, rows)
    shares = {"": Rate.of(int(is_handed.sum()), len(rows))}
    for value in range(data.domain.value_count):
        inside = groups == value
        if inside.any():
            name = data.domain.describe_value(value)
            shares[name] = Rate.of(int(is_handed[inside].sum()), int(inside.sum()))
    return shares


def _groups(
    repair: PostHoc, data: Dataset, seed: int, given: Answers, after: Answers
) -> Groups | None:
    """What a repair for groups is judged by."""
    if not isinstance(repair, Thresholds):
        return None
    rows = data.split(seed).test
    positive = 1 if data.favourable is None else data.favourable
    among = np.full(len(rows), True)
    if repair.criterion == "equal_opportunity":
        among = data.y[rows] == positive
    return Groups(
        what=CRITERIA[repair.criterion],
        by=data.domain.sensitive[0],
        group=groups_of(data, rows[among]),
        given=given.labels[among] == positive,
        repaired=after.labels[among] == positive,
    )
