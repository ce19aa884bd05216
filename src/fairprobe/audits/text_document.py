"""The document of an audit of texts, filled from what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    TextInterpretation,
    TextLayer,
    TextModelDocument,
    TextPair,
    TextSearch,
    WordDocument,
)
from fairprobe.language.excess import Excess, GroupAnswers, Observations, WordInfluence
from fairprobe.language.exchange import Plan, Side
from fairprobe.language.inside import Inside, top_share
from fairprobe.language.lexicon import Lexicon
from fairprobe.language.search import TITLES, SearchResult
from fairprobe.models.text import TextModel
from fairprobe.present.text_sentences import sentences, verdict
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
    inside: Inside | None,
    searches: Sequence[SearchResult],
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
        lexicon=_lexicon(lexicon),
        model=model_document(model),
        calls=calls,
        flips=excess_document(seen.excess(seen.flips)),
        gaps=excess_document(seen.excess(seen.gaps)),
        by_pair=[
            PairExcessDocument(groups=each.groups, flips=excess_document(each.excess))
            for each in seen.by_pair()
        ],
        groups=[_group(each) for each in seen.groups(lexicon.groups)],
        words=[_word(each) for each in seen.words()[:WORDS]],
        interpretation=None if inside is None else _inside(inside),
        searches=[_search(each) for each in searches],
        verdict="",
        sentences=[],
        pairs=[_pair(seen, row, plan, model) for row in seen.striking(PAIRS)],
        found=_found(searches, model, plan),
    )
    return written_out(document)


def written_out(document: TextDocument) -> TextDocument:
    """The document with its sentences."""
    return msgspec.structs.replace(
        document, verdict=verdict(document), sentences=sentences(document)
    )


def _lexicon(lexicon: Lexicon) -> LexiconDocument:
    return LexiconDocument(
        name=lexicon.name,
        title=lexicon.title,
        about=lexicon.about,
        words=lexicon.words,
        groups=list(lexicon.groups),
        control="neutral words" if lexicon.control else "words of the same group",
    )


def model_document(model: TextModel) -> TextModelDocument:
    """What a document says about a model of texts."""
    return TextModelDocument(
        network=model.name,
        kind=model.kind,
        classes=list(model.classes),
        origin=model.origin,
        notes=list(model.notes),
    )


def _group(each: GroupAnswers) -> GroupDocument:
    return GroupDocument(
        name=each.name,
        texts=each.texts,
        probabilities=[min(float(p), 1.0) for p in each.probabilities],
        answers=[min(float(p), 1.0) for p in each.answers],
    )


def _word(each: WordInfluence) -> WordDocument:
    return WordDocument(
        word=each.word,
        group=each.group,
        texts=each.texts,
        estimate=each.without.estimate,
        low=each.without.low,
        high=each.without.high,
    )


def _inside(inside: Inside) -> TextInterpretation:
    layers = [
        TextLayer(
            name=mine.name,
            neurons=mine.neurons,
            auc=mine.auc,
            auc_control=its.auc,
            scale_free=mine.auc_scale_free,
            scale_free_control=its.auc_scale_free,
            ratio=inside.ratio(number),
            top_share=min(top_share(mine), 1.0),
            biased=[int(each) for each in mine.biased],
            curve=[float(each) for each in mine.curve],
            curve_control=[float(each) for each in its.curve],
        )
        for number, (mine, its) in enumerate(
            zip(inside.cross.layers, inside.control.layers, strict=True)
        )
    ]
    return TextInterpretation(
        pairs=inside.cross.pairs,
        control_pairs=inside.control.pairs,
        layers=layers,
        most_biased=inside.cross.most_biased.name,
    )


def _search(found: SearchResult) -> TextSearch:
    return TextSearch(
        method=found.guide,
        title=TITLES[found.guide],
        is_control=found.guide == "random",
        filtered=found.filtered,
        seeds=found.seeds,
        seeds_hit=found.seeds_hit,
        calls=found.calls,
        findings=len(found.found),
        refuted=found.refuted,
        per_1000=found.per_1000,
        stopped=found.stopped,
    )


def _found(searches: Sequence[SearchResult], model: TextModel, plan: Plan) -> list[TextPair]:
    """One finding of each seed of the first search, with the widest gap first."""
    pairs: dict[int, TextPair] = {}
    for each in searches[0].found if searches else ():
        if each.seed in pairs or each.at_seed:
            continue
        p = model.probabilities(each.texts)
        label = int(p[0].argmax())
        other = next(number for number, row in enumerate(p) if int(row.argmax()) != label)
        pairs[each.seed] = TextPair(
            row=plan.texts[each.seed].row,
            first=side_document(each.sides[0], p[0], model.classes),
            second=side_document(each.sides[other], p[other], model.classes),
            gap=min(float(abs(p[0, label] - p[other, label])), 1.0),
        )
    return sorted(pairs.values(), key=lambda pair: -pair.gap)[:PAIRS]


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
