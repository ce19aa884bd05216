"""The names experiment: the same résumés under different names, sent to a model that decides on
them. After Bertrand and Mullainathan, "Are Emily and Greg more employable than Lakisha and Jamal?",
2004.

Every name stands on every résumé. A group of names is compared with the others by the mean outcome;
beside it stands the excess of differences between groups over those between names of the same group
(`statistics/crossed.py`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fairprobe.arrays import Floats
from fairprobe.audits.text import opened_model
from fairprobe.audits.text_document import model_document
from fairprobe.documents.names import (
    NameDocument,
    NamesDocument,
    NamesGroup,
    NamesInterval,
    NamesUsage,
)
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.escapes import spreadsheet_cell
from fairprobe.language.resumes import SLOT, NameSet, name_set, partners, resumes
from fairprobe.models.formats.chat import ChatText, Usage
from fairprobe.models.text import TextModel, TextSource
from fairprobe.present import names_page
from fairprobe.runs.stages import OnStage, Stages, check_seed
from fairprobe.runs.store import AuditResult, Write
from fairprobe.statistics.crossed import PERMUTATIONS, Crossed, crossed
from fairprobe.statistics.paired import holm
from fairprobe.statistics.rates import CONFIDENCE
from fairprobe.storage import write_text
from fairprobe.versions import versions

ASKING = "Asking about résumés"
NUMBER = re.compile(r"-?\d+(\.\d+)?")
AT_ONCE = 64  # résumés between two reports of progress


@dataclass(frozen=True)
class GroupResult:
    """One group of names against the others; `p_adjusted` holds for all groups together."""

    attribute: str
    group: str
    names: int
    mean: float
    result: Crossed
    p_adjusted: float

    @property
    def is_found(self) -> bool:
        """Whether the difference is not chance, at the confidence of the intervals."""
        return self.p_adjusted <= 1 - CONFIDENCE


@dataclass(frozen=True, repr=False)
class NamesExperiment(AuditResult[NamesDocument]):
    """What was found. `outcomes` (résumés, names) is the probability of the favorable class, or the
    mean rating where all classes are numbers. `usage` is that of a chat endpoint.
    """

    names: NameSet
    model: TextModel
    outcomes: Floats
    groups: tuple[GroupResult, ...]
    content: NamesDocument
    usage: Usage | None = None

    @property
    def document(self) -> NamesDocument:
        """All of it as a typed document."""
        return self.content

    def files(self) -> dict[str, Write]:
        """The outcome of every name on every résumé."""
        return {"outcomes.csv": lambda path: write_text(path, _table(self))}


def names_experiment(
    model: TextSource,
    names: str | NameSet = "audit",
    *,
    cvs: Sequence[str] | Path | str | None = None,
    favorable: str | None = None,
    seed: int = 0,
    progress: OnStage | None = None,
    **options: Any,
) -> NamesExperiment:
    """Put every name of a set on every résumé, and compare the answers.

    - `model` is anything that `load_text_model` takes: a function of a list of texts, or
      "chat:https://…" with the option `prompt`.
    - `names`: "audit" (the 36 names of Bertrand and Mullainathan), "gender", "surnames", or a set
      of your own.
    - `cvs`: texts with the slot {name}, or a folder of such files; ours by default.
    - `favorable`: the class that is counted; the first one by default. Classes that are all numbers
      are ratings.

    Interrupted, it reports what the résumés say that were asked about under every name.
    """
    check_seed(seed)
    chosen = names if isinstance(names, NameSet) else name_set(names)
    texts = resumes(cvs) if cvs is None or isinstance(cvs, str | Path) else list(cvs)
    if len(texts) < 2 or any(SLOT not in text for text in texts):
        raise DataError(f"At least two résumés are needed, each with the slot {SLOT}.")
    stages = Stages(progress)
    asked = opened_model(model, options.pop("classes", None), options, stages)
    worth, outcome = _worth(asked.classes, favorable)
    other, count = partners(chosen.kind), len(chosen.names)
    letters = [
        text.replace(SLOT, chosen.full(name, other[place % len(other)]))
        for place, text in enumerate(texts)
        for name in chosen.names
    ]
    said: list[float] = []
    with stages.keep_partial(lambda: len(said) >= 2 * count), stages.stage(ASKING) as step:
        for first in range(0, len(letters), AT_ONCE):
            step(first, len(letters), f"{first:,} of {len(letters):,}")
            said += (asked.probabilities(letters[first : first + AT_ONCE]) @ worth).tolist()
    if len(said) < 2 * count:
        raise KeyboardInterrupt
    y = np.array(said[: len(said) // count * count]).reshape(-1, count)
    groups, span = _groups(chosen, y, seed), float(np.ptp(worth)) or 1.0
    usage = asked.chat.usage if isinstance(asked, ChatText) else None
    document = NamesDocument(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command="",
        versions=versions("numpy", "torch", "onnxruntime", "transformers"),
        seed=seed,
        dataset=chosen.title,
        sensitive=list(chosen.groups),
        partial=stages.stopped is not None,
        stopped=stages.stopped,
        messages=[],
        seconds=stages.seconds,
        settings={"résumés given": len(texts), "permutations": PERMUTATIONS},
        source=chosen.source,
        model=model_document(asked),
        outcome=outcome,
        is_rating=bool(((worth != 0) & (worth != 1)).any()),
        span=span,
        resumes=len(y),
        confidence=CONFIDENCE,
        names=[
            NameDocument(
                name=name,
                mean=float(mean),
                groups={attribute: of[place] for attribute, of in chosen.groups.items()},
            )
            for place, (name, mean) in enumerate(zip(chosen.names, y.mean(axis=0), strict=True))
        ],
        groups=[_group_document(each, span) for each in groups],
        usage=None if usage is None else _usage_document(usage, asked),
        verdict="",
    )
    document = msgspec.structs.replace(
        document, verdict=names_page.verdict(document), sentences=names_page.sentences(document)
    )
    return NamesExperiment(chosen, asked, y, groups, document, usage)


def _group_document(each: GroupResult, span: float) -> NamesGroup:
    """No difference of two outcomes exceeds the span of the outcome, and no interval need do so."""
    result = each.result
    difference, excess = (
        NamesInterval(
            estimate=found.estimate, low=max(found.low, -span), high=min(found.high, span)
        )
        for found in (result.difference, result.excess)
    )
    return NamesGroup(
        attribute=each.attribute,
        group=each.group,
        names=each.names,
        mean=each.mean,
        difference=difference,
        p=each.p_adjusted,
        cross=result.cross,
        same=result.same,
        excess=excess,
        is_found=each.is_found,
    )


def _usage_document(usage: Usage, asked: TextModel) -> NamesUsage:
    assert isinstance(asked, ChatText)
    return NamesUsage(
        requests=usage.requests,
        stored=usage.stored,
        tokens_sent=usage.sent,
        tokens_received=usage.received,
        cost=usage.cost,
        currency=asked.chat.prompt.prices.currency,
        answers=usage.answers,
        refused=usage.refused,
        unreadable=usage.unreadable,
        served=sorted(usage.served),
    )


def _table(found: NamesExperiment) -> str:
    """The outcome of every name on every résumé as CSV."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["resume", "name", *found.names.groups, "outcome"])
    for place, row in enumerate(found.outcomes):
        for number, (name, outcome) in enumerate(zip(found.names.names, row, strict=True)):
            groups = (of[number] for of in found.names.groups.values())
            cells = [spreadsheet_cell(each) for each in (place + 1, name, *groups)]
            writer.writerow([*cells, f"{outcome:.6f}"])
    return text.getvalue()


def _worth(classes: Sequence[str], favorable: str | None) -> tuple[Floats, str]:
    """What each class counts, and what the sum is called."""
    if favorable is None and sum(bool(NUMBER.fullmatch(each)) for each in classes) > 2:
        rated = [float(each) if NUMBER.fullmatch(each) else 0.0 for each in classes]
        return np.array(rated), "the mean rating; no answer counts 0"
    wanted = classes[0] if favorable is None else favorable
    if wanted not in classes:
        raise SettingError(f"There is no class '{wanted}'.{suggest(wanted, classes)}")
    return np.array([float(each == wanted) for each in classes]), f"the share of '{wanted}'"


def _groups(names: NameSet, y: Floats, seed: int) -> tuple[GroupResult, ...]:
    rng, found = np.random.default_rng(seed), []
    for attribute, groups in names.groups.items():
        of = np.array(groups)
        values = list(dict.fromkeys(groups))
        others = [each for name, each in names.groups.items() if name != attribute]
        labels = [" ".join(each) for each in zip(*others, strict=True)] or [""] * len(of)
        strata = np.unique(labels, return_inverse=True)[1]
        for value in values if len(values) > 2 else values[:1]:  # of two, one says it all
            is_in = of == value
            result = crossed(y, is_in, strata, rng=rng)
            mean = float(y[:, is_in].mean())
            found.append(GroupResult(attribute, value, int(is_in.sum()), mean, result, 1.0))
    adjusted = holm([each.result.p for each in found])
    return tuple(
        GroupResult(each.attribute, each.group, each.names, each.mean, each.result, float(p))
        for each, p in zip(found, adjusted, strict=True)
    )
