"""Build the document of a repair's proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from fairprobe.audits.number_documents import (
    estimate_document,
    finite,
    ifr_document,
    is_plain,
    rate_document,
)
from fairprobe.documents import (
    Dial,
    Measured,
    OtherAttribute,
    RepairChange,
    RepairDocument,
    RepairLimits,
    RepairVerdict,
    Seed,
    SeedComparison,
    SeedShares,
    SeedSpread,
    SubgroupComparison,
    TradeoffPoint,
)
from fairprobe.repairs.base import Repair
from fairprobe.repairs.comparisons import MIN_HELP, Answers, Spread
from fairprobe.repairs.curve import Point
from fairprobe.repairs.measured import Measured as MeasuredNetwork
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.proof import Proof
from fairprobe.repairs.subgroups import SubgroupChange
from fairprobe.repairs.verdict import MAX_TIES

SUBGROUPS = 10  # the clearest changes

T = TypeVar("T")


def repair_document(proof: Proof) -> RepairDocument:
    """What was done, measured before, after and for each control, and the trade-off."""
    repair, was = proof.repair, proof.before.dm_rs.estimate
    settings = {
        name: value
        for name, value in plain_settings(repair).items()
        if name not in ("start", repair.dial)
    }
    return RepairDocument(
        name=repair.name,
        start=repair.start,
        settings=settings,
        dial=Dial(name=repair.dial, means=repair.dial_means, value=repair.dial_at),
        accepted=proof.accepted,
        forced=proof.forced,
        reasons=list(proof.reasons),
        verdict=_verdict(proof),
        limits=RepairLimits(
            max_accuracy_drop=proof.limits.max_accuracy_drop, max_harm=proof.limits.max_harm
        ),
        before=_measured(proof.before),
        after=_measured(proof.after),
        controls={name: _measured(control) for name, control in proof.controls.items()},
        change=RepairChange(
            accuracy=required(proof.after.accuracy).estimate
            - required(proof.before.accuracy).estimate,
            dm_rs=(proof.after.dm_rs.estimate - was) / was if was else None,
        ),
        curve=[_point(point) for point in proof.curve],
        handed_over={name: rate_document(rate) for name, rate in proof.handed_over.items()},
    )


def _verdict(proof: Proof) -> RepairVerdict:
    decision = proof.decision
    return RepairVerdict(
        outcome=decision.outcome,
        doubts=list(decision.doubts),
        confidence=decision.confidence,
        min_help=MIN_HELP,
        most_ties=MAX_TIES,
        seeds=[
            Seed(
                seed=trial.seed,
                control=_shares(trial.control, proof),
                repaired=_shares(trial.repaired, proof),
            )
            for trial in proof.trials
        ],
        delivered=proof.delivered,
        comparisons=[
            SeedComparison(
                what=each.what,
                by=each.by,
                control=_spread(each.control),
                repaired=_spread(each.repaired),
                low=each.low,
                high=each.high,
                is_judged=each.is_judged,
            )
            for each in decision.comparisons
        ],
        subgroups=subgroup_documents(proof.groups, decision.confidence),
        subgroups_compared=len(proof.groups),
    )


def subgroup_documents(
    groups: Sequence[SubgroupChange], confidence: float
) -> list[SubgroupComparison]:
    """The clearest changes."""
    return [
        SubgroupComparison(
            name=group.name,
            share=group.share,
            people=group.people,
            given=group.given,
            control=group.control,
            repaired=group.repaired,
            rest=group.rest,
            p=group.p,
            is_harm=group.is_harmed(1 - confidence),
        )
        for group in groups[:SUBGROUPS]
    ]


def _shares(answers: Answers, proof: Proof) -> SeedShares:
    plausible, answered = answers.plausible, answers.labels >= 0
    right = (answers.labels == proof.truth)[answered]
    return SeedShares(
        accuracy=float(right.mean()) if len(right) else 0.0,
        people=float(answers.affected.mean()) if len(answers.affected) else None,
        plausible=None if plausible is None or not len(plausible) else float(plausible.mean()),
        possible=answers.possible,
        ties=answers.ties,
        is_constant=answers.is_constant,
    )


def _spread(spread: Spread) -> SeedSpread:
    return SeedSpread(mean=spread.mean, least=spread.least, most=spread.most)


def plain_settings(settings: Repair | PostHoc | Any) -> dict[str, Any]:
    """The fields of settings, those of settings within them (a training, a budget) included."""
    values = {each.name: getattr(settings, each.name) for each in fields(settings)}
    return {
        name: plain_settings(value) if is_dataclass(value) else value
        for name, value in values.items()
        if value is None or is_dataclass(value) or is_plain(value)
    }


def _measured(measured: MeasuredNetwork) -> Measured:
    return Measured(
        accuracy=rate_document(required(measured.accuracy)),
        f1=estimate_document(required(measured.f1)),
        mcc=estimate_document(required(measured.mcc)),
        selected=rate_document(required(measured.selected)),
        ifr_b=ifr_document(required(measured.ifr_b)),
        ifr_p=ifr_document(required(measured.ifr_p)),
        dp=estimate_document(required(measured.dp)),
        eo=[estimate_document(each) for each in measured.eo],
        people=rate_document(measured.people),
        plausible=None if measured.plausible is None else rate_document(measured.plausible),
        dm_rs=rate_document(measured.dm_rs),
        idis=measured.idis,
        tried=measured.tried,
        auc=_finite(measured.auc),
        auc_scale_free=_finite(measured.auc_scale_free),
        others=[
            OtherAttribute(
                name=other.name,
                dm_rs=rate_document(other.dm_rs),
                ifr_b=ifr_document(required(other.ifr_b)),
            )
            for other in measured.others
        ],
        is_constant=measured.is_constant,
        alone={name: rate_document(rate) for name, rate in measured.alone.items()},
        proved=measured.proved,
    )


def _point(point: Point) -> TradeoffPoint:
    return TradeoffPoint(
        setting=point.setting,
        accuracy=rate_document(required(point.accuracy)),
        ifr_b=ifr_document(required(point.ifr_b)),
        ifr_p=ifr_document(required(point.ifr_p)),
        dm_rs=rate_document(point.dm_rs),
        proved=point.proved,
        dp=estimate_document(required(point.dp)),
        is_constant=point.is_constant,
        is_best=point.is_best,
        is_chosen=point.is_chosen,
    )


def _finite(number: float | None) -> float | None:
    return None if number is None else finite(number)


def required(measure: T | None) -> T:
    """A measure that models of this target have."""
    assert measure is not None
    return measure
