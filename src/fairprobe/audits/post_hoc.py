"""`repair_post_hoc`: put a post-hoc repair around any model, prove what that did, write both as one
file, and audit that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from msgspec import structs

from fairprobe.arrays import Rows
from fairprobe.audits.repair_document import repair_document
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError, SettingError
from fairprobe.escapes import printable
from fairprobe.models import Model
from fairprobe.repairs.abstain import Abstaining
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.proof import Proof, prove
from fairprobe.repairs.saved import save_repaired
from fairprobe.repairs.written import COMPARED, SAME, WrittenModel, set_origin
from fairprobe.runs.store import MODEL, REFUSED
from fairprobe.storage import scratch
from fairprobe.table.audit import Audit, audit

ROUNDED = 1e-3  # of the people, whose answers may hang on rounding


def repair_post_hoc(
    data: Dataset,
    model: Model,
    how: PostHoc,
    limits: dict[str, Any],
    search: dict[str, Any],
    last: dict[str, Any],
) -> Audit:
    """The audit of the repaired model, with its proof and its file. `limits` go to the proof,
    `search` to both, `last` to the audit.
    """
    user = model.original or model  # a copy in torch is no use to somebody who asks the model
    blind = set() if user.about is None else set(user.about.blind_to)
    if blind >= set(data.domain.sensitive):
        raise SettingError(
            f"The model is not given {' and '.join(data.domain.sensitive)}, so it cannot answer"
            " counterparts differently, and there is nothing to repair after the fact."
        )
    proof = prove(user, data, how, seed=last["seed"], **limits, **search)
    delivered, file = written(proof, user, data)
    done = audit(data, delivered, data.domain.sensitive, **search, **last)
    repaired = structs.replace(done.run, repair=repair_document(proof))
    return replace(done, run=repaired, proof=proof, written=file)


def written(proof: Proof, user: Model, data: Dataset) -> tuple[Model, WrittenModel | None]:
    """The repaired model, opened again from the file that it was written to, and that file. A model
    that did not come from a file or an address is returned as it is.
    """
    repaired, joint, how = proof.model, user.joint, proof.repair
    if joint is None or joint.reopen is None or user.about is None:
        return repaired, None
    assert isinstance(how, PostHoc)
    origin = user.about.origin
    name = "model" if origin is None else str(origin["source"]).rpartition("/")[2]
    with scratch() as folder:
        saved = save_repaired(how, repaired, joint, data, folder, name)
        if saved is None:
            return repaired, None
        path, other = saved
        source = f"{path}:predict" if path.suffix == ".py" else path
        again = joint.reopen(source, **other)
        again = again.original or again
        if how.name != "thresholds" and repaired.decision is not None:
            again = again.with_decision(repaired.decision.given, data)
        _check_same(again, repaired, data, path.name)
        file = WrittenModel(path.name, path.read_bytes())
        place = f"{MODEL if proof.accepted else REFUSED}/{path.name}"
        set_origin(again, printable(str(path.resolve())), place, file)
    return again, file


def _check_same(again: Model, repaired: Model, data: Dataset, name: str) -> None:
    """Refuse a file that answers otherwise than the model that was proven."""
    rows = np.concatenate([data.x, data.domain.sample(COMPARED, rng=np.random.default_rng(0))])
    theirs, ours = again.probabilities(rows), _answers(repaired, rows)
    if theirs.shape != ours.shape:
        raise ModelError(f"The repaired model in {name} answers for other classes. {NOT_DELIVERED}")
    apart = np.abs(ours - theirs).max(axis=1)
    beyond = float((apart > SAME).mean())
    if beyond > (ROUNDED if isinstance(repaired, Abstaining) else 0.0):
        raise ModelError(
            f"The repaired model was written to {name} and opened again, and for"
            f" {100 * beyond:.2g} % of the people its answers differ by up to {apart.max():.2g}"
            f" from those of the proof. {NOT_DELIVERED}"
        )


NOT_DELIVERED = "It is not delivered; your file is unchanged."


def _answers(repaired: Model, rows: Rows) -> Rows:
    """(N, C) probabilities of which the highest is the answer: those that a file gives."""
    p, rule = repaired.probabilities(rows), repaired.decision
    if rule is None or rule.column is None:
        return p
    return rule.weighed(torch.from_numpy(p), rows).numpy()
