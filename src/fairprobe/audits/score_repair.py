"""`repair_scores`: repair a model that answers with amounts, prove what that did, and audit what
came out. `repair` calls it where the label is an amount.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from fairprobe.audits.number_documents import rate_document
from fairprobe.audits.repair_document import plain_settings, required, subgroup_documents
from fairprobe.datasets.base import Dataset
from fairprobe.documents import Dial, RepairLimits
from fairprobe.documents.table import (
    AmountPointDocument,
    MeasuredAmountsDocument,
    ScoreRepairDocument,
)
from fairprobe.documents.verdict import NumberComparison, NumberSpread
from fairprobe.errors import ModelError
from fairprobe.escapes import printable
from fairprobe.models import Model, ScoreModel, Tolerance
from fairprobe.models.join import SAME, own_network
from fairprobe.repairs import PostHoc, Repair
from fairprobe.repairs.average import AveragedAmounts
from fairprobe.repairs.comparisons import MIN_HELP, Comparison, Spread
from fairprobe.repairs.measured import Measured
from fairprobe.repairs.proof import Proof, prove
from fairprobe.repairs.saved import save_repaired
from fairprobe.repairs.written import COMPARED, WrittenModel, set_origin
from fairprobe.runs.store import MODEL, REFUSED
from fairprobe.storage import scratch
from fairprobe.table.audit import Audit, audit
from fairprobe.table.searched import check_repair
from fairprobe.table.subject import scored_model


def repair_scores(
    data: Dataset,
    model: Model,
    how: Repair | PostHoc,
    tolerance: Tolerance | float | str | None,
    limits: dict[str, Any],
    search: dict[str, Any],
    last: dict[str, Any],
) -> Audit:
    """The audit of the repaired model, with its proof and its file. `limits` go to the proof,
    `search` to both, `last` to the audit.
    """
    given = scored_model(model, data, tolerance)
    seed, checkpoint = last["seed"], last["checkpoint"]
    if isinstance(how, PostHoc):
        user = given.original if isinstance(given.original, ScoreModel) else given
        proof = prove(user, data, how, seed=seed, **limits, **search)
    else:
        kept = None if checkpoint is None else checkpoint / "networks"
        if checkpoint is not None:
            same = [limits.get(name) for name in ("choose", "curve", "max_seeds")]
            same += [search[name] for name in ("people", "method", "settings")]
            check_repair(checkpoint, data, given, repr(how), seed, *same)
        proof = prove(given, data, how, seed=seed, kept=kept, **limits, **search)
    delivered, file = written(proof, data)
    within = given.tolerance
    if within.unit == "sd":  # of the answers of the given model, not of the repaired one
        within = Tolerance(within.value * given.scale)
    done = audit(data, delivered, data.domain.sensitive, tolerance=within, **search, **last)
    assert done.run.amounts is not None
    amounts = structs.replace(done.run.amounts, repair=score_repair_document(proof))
    repaired = structs.replace(done.run, amounts=amounts)
    return replace(done, run=repaired, proof=proof, written=file)


def written(proof: Proof, data: Dataset) -> tuple[ScoreModel, WrittenModel | None]:
    """As `audits.written.written`, for a network that answers with amounts."""
    model = proof.model
    assert isinstance(model, ScoreModel)
    network = model.network
    if isinstance(proof.repair, PostHoc):
        return _written_around(proof, proof.repair, data)
    own = None if network is None else network.own
    if network is None or own is None or not proof.repair.keeps_shape:
        return model, None
    with scratch() as folder:
        path = folder / own.name
        own.write(own_network(network.module), path)
        return _opened_again(proof, own.reopen(path), data, path)


def _written_around(
    proof: Proof, how: PostHoc, data: Dataset
) -> tuple[ScoreModel, WrittenModel | None]:
    """A black box and its repair as a function in a file, which opens the model where it is."""
    repaired = proof.model
    assert isinstance(repaired, ScoreModel)
    joint = repaired.given.joint if isinstance(repaired, AveragedAmounts) else None
    if joint is None or joint.reopen is None:
        return repaired, None
    with scratch() as folder:
        saved = save_repaired(how, repaired, joint, data, folder, "model")
        if saved is None:
            return repaired, None
        path, other = saved
        return _opened_again(proof, joint.reopen(f"{path}:predict", **other), data, path)


def _opened_again(
    proof: Proof, again: Model, data: Dataset, path: Path
) -> tuple[ScoreModel, WrittenModel]:
    """What was opened from the file, if it answers as the proven model, and the file."""
    assert isinstance(proof.model, ScoreModel)
    _check_same(again, proof.model, data, path.name)
    assert isinstance(again, ScoreModel)
    file = WrittenModel(path.name, path.read_bytes())
    place = f"{MODEL if proof.accepted else REFUSED}/{path.name}"
    for each in (again, again.network, again.original):
        if each is not None:
            set_origin(each, printable(str(path.resolve())), place, file)
    return again, file


def _check_same(again: Model, model: ScoreModel, data: Dataset, name: str) -> None:
    """Refuse a file that answers otherwise than the network whose repair was proven."""
    rows = np.concatenate([data.x, data.domain.sample(COMPARED, rng=np.random.default_rng(0))])
    user = again.original or again
    ours = model.amounts(rows)
    theirs = user.amounts(rows) if isinstance(user, ScoreModel) else np.full(len(rows), np.nan)
    apart = float(np.abs(ours - theirs).max())
    if not apart <= SAME * max(float(ours.std()), np.finfo(np.float64).tiny):
        raise ModelError(
            f"The repaired network was written to {name} and opened again, and its answers differ"
            f" by up to {apart:.2g} from those of the proof. It is not delivered; your file is"
            " unchanged."
        )


def score_repair_document(proof: Proof) -> ScoreRepairDocument:
    """The proof as a part of the audit's document."""
    repair, decision = proof.repair, proof.decision
    settings = {
        name: value
        for name, value in plain_settings(repair).items()
        if name not in ("start", repair.dial)
    }
    return ScoreRepairDocument(
        name=repair.name,
        title=repair.title,
        start=repair.start,
        settings=settings,
        dial=Dial(name=repair.dial, means=repair.dial_means, value=repair.dial_at),
        accepted=proof.accepted,
        forced=proof.forced,
        outcome=decision.outcome,
        reasons=list(decision.reasons),
        doubts=list(decision.doubts),
        confidence=decision.confidence,
        min_help=MIN_HELP,
        limits=RepairLimits(
            max_accuracy_drop=proof.limits.max_accuracy_drop, max_harm=proof.limits.max_harm
        ),
        seeds=[trial.seed for trial in proof.trials],
        delivered=proof.delivered,
        comparisons=[_comparison(each) for each in decision.comparisons],
        subgroups=subgroup_documents(proof.groups, decision.confidence),
        subgroups_compared=len(proof.groups),
        before=_measured(proof.before),
        after=_measured(proof.after),
        controls={name: _measured(each) for name, each in proof.controls.items()},
        curve=[
            AmountPointDocument(
                setting=point.setting,
                error=required(point.error),
                change=required(point.change),
                affected=rate_document(required(point.affected)),
                dm_rs=rate_document(point.dm_rs),
                is_constant=point.is_constant,
                is_best=point.is_best,
                is_chosen=point.is_chosen,
            )
            for point in proof.curve
        ],
    )


def _measured(found: Measured) -> MeasuredAmountsDocument:
    return MeasuredAmountsDocument(
        quality=required(found.quality),
        error=required(found.error),
        change=required(found.change),
        people=rate_document(found.people),
        plausible=None if found.plausible is None else rate_document(found.plausible),
        dm_rs=rate_document(found.dm_rs),
        idis=found.idis,
        tried=found.tried,
        others={other.name: rate_document(other.dm_rs) for other in found.others},
        alone={name: rate_document(rate) for name, rate in found.alone.items()},
        is_constant=found.is_constant,
    )


def _comparison(each: Comparison) -> NumberComparison:
    return NumberComparison(
        what=each.what,
        by=each.by,
        control=_spread(each.control),
        repaired=_spread(each.repaired),
        low=each.low,
        high=each.high,
        is_judged=each.is_judged,
    )


def _spread(each: Spread) -> NumberSpread:
    return NumberSpread(mean=each.mean, least=each.least, most=each.most)
