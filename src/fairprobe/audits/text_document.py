"""The document of an audit of texts, filled from what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairprobe.documents.text import (
    ExcessDocument,
    GroupDocument,
    LexiconDocument,
    PairExcessDocument,
    SideDocument,
    TextData,
    TextDocument,
    TextModelDocument,
    TextPair,
    WordDocument,
)
from fairprobe.models.text import TextModel
from fairprobe.present.text_sentences import sentences, verdict
from fairprobe.text.excess import Excess, Observations
from fairprobe.text.exchange import Plan, Side
from fairprobe.text.lexicon import Lexicon
from fairprobe.versions import versions

PAIRS = 12  # pairs that the report shows
WORDS = 40  # words of the table of influences


def text_document(
    *,
    name: str,
    texts: int,
    lexicon: Lexicon,
    model: TextModel,
    plan: Plan,
    observations: Observations,
    calls: int,
    seed: int,
    settings: Mapping[str, Any],
    stopped: str | None,
    seconds: Mapping[str, float],
    created: str,
) -> TextDocument:
    """The whole document; its sentences are written last, from the document itself."""
    seen = observations
    document = TextDocument(
        created=created,
        command="",
        versions=versions("numpy", "torch", "onnxruntime", "transformers"),
        seed=seed,
        dataset=name,
        sensitive=[lexicon.name],
        partial=stopped is not None,
        stopped=stopped,
        messages=[],
        seconds=dict(seconds),
        settings=dict(settings),
        data=TextData(
            name=name,
            texts=texts,
            used=seen.texts,
            clusters=seen.clusters,
            without_word=plan.without_word,
            without_control=plan.without_control,
            duplicates=plan.duplicates,
        ),
        lexicon=LexiconDocument(
            name=lexicon.name,
            title=lexicon.title,
            about=lexicon.about,
            words=lexicon.words,
            groups=list(lexicon.groups),
            control="neutral words" if lexicon.control else "words of the same group",
        ),
        model=TextModelDocument(
            network=model.name,
            kind=model.kind,
            classes=list(model.classes),
            origin=model.origin,
            notes=list(model.notes),
        ),
        calls=calls,
        flips=excess_document(seen.excess(seen.flips)),
        gaps=excess_document(seen.excess(seen.gaps)),
        by_pair=[
            PairExcessDocument(groups=each.groups, flips=excess_document(each.excess))
            for each in seen.by_pair()
        ],
        groups=[
            GroupDocument(
                name=each.name,
                texts=each.texts,
                probabilities=[min(float(p), 1.0) for p in each.probabilities],
                answers=[min(float(p), 1.0) for p in each.answers],
            )
            for each in seen.groups(lexicon.groups)
        ],
        words=[
            WordDocument(
                word=each.word,
                group=each.group,
                texts=each.texts,
                estimate=each.without.estimate,
                low=each.without.low,
                high=each.without.high,
            )
            for each in seen.words()[:WORDS]
        ],
        interpretation=None,
        searches=[],
        verdict="",
        sentences=[],
        pairs=[_pair(seen, row, plan, model) for row in seen.striking(PAIRS)],
        found=[],
    )
    return msgspec.structs.replace(
        document, verdict=verdict(document), sentences=sentences(document)
    )


def excess_document(found: Excess) -> ExcessDocument:
    """An excess as a document."""
    return ExcessDocument(
        cross=min(found.cross, 1.0),
        control=min(found.control, 1.0),
        estimate=found.excess.estimate,
        low=found.excess.low,
        high=found.excess.high,
        texts=found.texts,
        clusters=found.excess.clusters,
        confidence=found.excess.confidence,
    )


def _pair(seen: Observations, row: int, plan: Plan, model: TextModel) -> TextPair:
    each = seen.exchanges[row]
    return TextPair(
        row=plan.texts[each.unit].row,
        first=side_document(each.first, seen.first[row], model.classes),
        second=side_document(each.second, seen.second[row], model.classes),
        gap=min(float(seen.gaps[row]), 1.0),
    )


def side_document(side: Side, p: Any, classes: tuple[str, ...]) -> SideDocument:
    """One side of an exchange with its answer."""
    return SideDocument(
        text=side.text,
        group=side.group,
        word=side.word,
        spans=[(start, end) for start, end in side.spans],
        answer=classes[int(p.argmax())],
        probability=min(float(p.max()), 1.0),
    )
