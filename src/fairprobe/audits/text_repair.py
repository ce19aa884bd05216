"""`repair_text`: repair a text network, prove what that did, and audit what came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import nn

from fairprobe.audits.base import OnStage, Stages, check_seed
from fairprobe.audits.number_documents import rate_document
from fairprobe.audits.text import (
    About,
    TextAudit,
    audited,
    expanded,
    opened_model,
    title_of,
)
from fairprobe.audits.text_document import excess_document, written_out
from fairprobe.documents.text import TextComparison, TextRepairDocument, TextSpread, TextState
from fairprobe.models.text import TextSource
from fairprobe.repairs.comparisons import ACCURACY, MIN_HELP, Comparison, Spread
from fairprobe.repairs.verdict import LOOKS, Limits
from fairprobe.search.chunks import check_fingerprint
from fairprobe.text.lessons import TextRepair
from fairprobe.text.lexicon import Lexicon, open_lexicon
from fairprobe.text.proof import HELD_OUT, State, TextProof, prove_text
from fairprobe.text.texts import Slots, Text, TextsSource, open_texts
from fairprobe.versions import versions

EXCESS = "excess of changed answers"


def repair_text(
    texts: TextsSource,
    model: TextSource,
    sensitive: Lexicon | Path | str,
    *,
    label: str | None = None,
    column: str | None = None,
    cluster: str | None = None,
    slots: Slots | Path | str | None = None,
    classes: Sequence[str] | None = None,
    limit: int | None = None,
    with_: str | TextRepair = "counterfactual",
    strength: float | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    max_accuracy_drop: float = 0.02,
    max_seeds: int = LOOKS[-1],
    force: bool = False,
    seed: int = 0,
    name: str = "",
    checkpoint: Path | None = None,
    progress: OnStage | None = None,
    **options: Any,
) -> TextAudit:
    """Repair a text network so that it answers texts alike that differ only in words of a group.

    Returns the audit of the repaired network on the texts held out: `.model` is the network,
    `.repair` the proof of what the repair did, beside networks trained as long without it, and
    `.repair.accepted` whether it may replace the old one. `.save(folder)` writes the network in the
    format it came in, opens it again and compares. The given network is left as it is.

    - `texts`, `model`, `sensitive` and what describes them are those of `audit_text`; the model is
      a torch module with its tokenizer or a transformers folder.
    - `label`: the column of the true class. Without it the network learns its own answers, and
      accuracy is the agreement with them.
    - `with_`: "counterfactual" (a penalty on different answers to a text and its counterpart) or
      "augmentation" (counterparts are learned with the label of their text), with `strength`,
      `epochs` and `learning_rate`.
    - `limit`: learn and judge with at most so many texts, drawn at random.
    - `max_accuracy_drop` is a share (0.02: two points). Pairs of networks are trained with more and
      more seeds, at most `max_seeds`, until the decision is clear. `force` accepts the repair
      whatever speaks against it.
    - `checkpoint`: a folder for trained networks; after a kill, the same repair with the same
      folder does not train them again.
    """
    check_seed(seed)
    how = (
        TextRepair(name=with_, strength=strength, epochs=epochs, learning_rate=learning_rate)
        if isinstance(with_, str)
        else with_
    )
    stages = Stages(progress)
    lexicon = open_lexicon(sensitive)
    rng = np.random.default_rng(seed)
    with stages.stage("Reading the texts"):
        found = open_texts(texts, column=column, cluster=cluster, label=label)
        every = expanded(found, lexicon, slots, rng)
        some = np.sort(rng.permutation(len(every))[:limit])
        every = [every[number] for number in some]
    opened = opened_model(model, classes, options, stages)
    kept = None if checkpoint is None else checkpoint / "networks"
    if kept is not None and opened.network is not None:
        same = (versions("torch", "numpy"), opened.classes, lexicon, how, seed)
        check_fingerprint(kept, _fingerprint(opened.network.module, every, same))
    with stages.stage("Repairing"):
        proof = prove_text(
            opened,
            every,
            lexicon,
            how,
            seed=seed,
            limits=Limits(max_accuracy_drop),
            max_seeds=max_seeds,
            force=force,
            kept=kept,
            progress=progress,
        )
    about = About(name or title_of(texts), found, {"texts at most": limit}, seed)
    done = audited(proof.model, lexicon, proof.plan, about, stages)
    content = msgspec.structs.replace(done.content, repair=repair_document(proof))
    return replace(done, repair=proof, content=written_out(content))


def _fingerprint(module: nn.Module, texts: Sequence[Text], same: object) -> str:
    """A digest of all that a trained network depends on."""
    digest = sha256(repr(same).encode())
    for each in texts:
        digest.update(repr((each.text, each.label, each.cluster)).encode())
    for name, value in module.state_dict().items():
        raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(name.encode() + raw.numpy().tobytes())
    return digest.hexdigest()


def repair_document(proof: TextProof) -> TextRepairDocument:
    """The proof as a part of the audit's document."""
    how, decision = proof.repair, proof.decision
    return TextRepairDocument(
        name=how.name,
        title=how.kind.title,
        strength=how.weight,
        strength_means=how.kind.strength_means,
        settings={
            "epochs": proof.rounds,
            "texts in a batch": how.batch,
            "learning rate": how.rate(proof.given),
        },
        outcome=decision.outcome,
        accepted=proof.accepted,
        forced=proof.forced,
        reasons=list(decision.reasons),
        doubts=list(decision.doubts),
        confidence=decision.confidence,
        min_help=MIN_HELP,
        max_accuracy_drop=proof.limits.max_accuracy_drop,
        seeds=[trial.seed for trial in proof.trials],
        delivered=proof.delivered,
        comparisons=[
            _comparison(each, what)
            for each in decision.comparisons
            if (what := {ACCURACY: ACCURACY, HELD_OUT: EXCESS}.get(each.what))
        ],
        before=_state(proof.before),
        control=_state(proof.control),
        after=_state(proof.after),
        learned=proof.learned,
        held_out=proof.held_out,
        own_labels=proof.own_labels,
    )


def _comparison(each: Comparison, what: str) -> TextComparison:
    return TextComparison(
        what=what,
        control=_spread(each.control),
        repaired=_spread(each.repaired),
        low=each.low,
        high=each.high,
    )


def _spread(each: Spread) -> TextSpread:
    return TextSpread(mean=each.mean, least=each.least, most=each.most)


def _state(state: State) -> TextState:
    return TextState(
        accuracy=rate_document(state.accuracy),
        flips=excess_document(state.flips),
        gaps=excess_document(state.gaps),
    )
