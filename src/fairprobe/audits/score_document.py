"""Build the document of an audit of scores: the content of `audit.json`."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING

import msgspec

from fairprobe.audits.models import name_of
from fairprobe.audits.number_documents import estimate_document, estimate_fields, rate_document
from fairprobe.audits.table_document import (
    counterparts_document,
    data_document,
    pair_in_words,
    people_document,
    plausible_document,
    search_document,
)
from fairprobe.documents import EstimateDocument, ModelOrigin, ScoresDocument
from fairprobe.documents.scores import (
    AmountQualityDocument,
    ChangeDocument,
    Level,
    ScoredGroupDocument,
    ScoredGroupsDocument,
    ScoreModelDocument,
    ScorePair,
    ToleranceDocument,
)
from fairprobe.metrics import Estimate
from fairprobe.metrics.scores import AmountQuality, Change, ScoredGroups, in_deviations
from fairprobe.models import About
from fairprobe.present.score_sentences import notes, verdict

if TYPE_CHECKING:
    from fairprobe.audits.scores import ScoreAudit


def scores_document(audit: ScoreAudit, *, command: str = "") -> ScoresDocument:
    """Everything a reader of the audit needs."""
    data, model = audit.data, audit.model
    document = ScoresDocument(
        created=audit.created,
        command=command,
        dataset=data.name,
        sensitive=list(data.domain.sensitive),
        seed=audit.seed,
        counterparts=counterparts_document(audit.twins),
        versions=audit.versions,
        data=data_document(audit),
        model=_model(audit),
        tolerance=_tolerance(audit),
        scale=model.scale,
        median=audit.median,
        change=change_document(audit.change),
        plausible_change=(
            None if audit.plausible_change is None else change_document(audit.plausible_change)
        ),
        people=msgspec.structs.replace(people_document(audit.people), severity=None),
        dm_rs=rate_document(audit.dm_rs),
        generation=search_document(audit),
        largest_found=audit.largest_found,
        plausible=None if audit.plausible is None else plausible_document(audit.plausible),
        no_plausible=audit.no_plausible,
        groups=[_groups(each, model.scale) for each in audit.groups],
        quality=None if audit.quality is None else quality_document(audit.quality),
        score_pairs=[
            ScorePair(
                **pair_in_words(data.domain, pair),
                answer=pair.probability,
                answer_other=pair.probability_other,
                change=pair.gap,
            )
            for pair in audit.pairs
        ],
        verdict="",
        notes=[],
        repair=audit.repair_document,
    )
    return msgspec.structs.replace(document, verdict=verdict(document), notes=notes(document))


def _model(audit: ScoreAudit) -> ScoreModelDocument:
    model, network = audit.model, audit.model.network
    about = model.about or About("", "")
    return ScoreModelDocument(
        network=name_of(model if network is None else network),
        inputs=(
            network.encoder.width
            if network is not None and network.encoder is not None
            else len(audit.data.domain)
        ),
        parameters=(
            None if network is None else sum(each.numel() for each in network.module.parameters())
        ),
        trained_here=network is not None and network.trained_on == (audit.data.name, audit.seed),
        constant=audit.is_constant,
        kind=about.kind,
        why_black_box="" if network is not None else about.why,
        blind_to=list(about.blind_to),
        origin=None if about.origin is None else ModelOrigin(**about.origin),
    )


def _tolerance(audit: ScoreAudit) -> ToleranceDocument:
    given, scale = audit.model.tolerance, audit.model.scale
    amounts = {"amount": given.value, "sd": given.value * scale, "percent": None}
    return ToleranceDocument(
        value=given.value,
        unit=given.unit,
        amount=amounts[given.unit],
        is_default=audit.is_default,
    )


def quality_document(quality: AmountQuality) -> AmountQualityDocument:
    """How well a model predicts."""
    return AmountQualityDocument(
        rows=quality.rows,
        r2=quality.r2,
        error=estimate_document(quality.error),
        error_of_mean=quality.error_of_mean,
    )


def change_document(change: Change) -> ChangeDocument:
    """By how much answers change."""
    return ChangeDocument(
        mean=estimate_document(change.mean),
        deviations=estimate_document(change.deviations),
        quantiles=_levels(change.quantiles),
        relative=_levels(change.relative),
        largest=change.largest,
        above=rate_document(change.above),
        unchanged=change.unchanged,
    )


def _levels(found: dict[float, Estimate]) -> list[Level]:
    return [Level(level=level, **estimate_fields(_finite(each))) for level, each in found.items()]


def _finite(each: Estimate) -> Estimate:
    """A quantile as JSON can hold it; an end that is not bounded is null."""
    value, low, high = (
        None if end is None or not isfinite(end) else end
        for end in (each.estimate, each.low, each.high)
    )
    if value is None:
        low = high = None
    return msgspec.structs.replace(each, estimate=value, low=low, high=high)


def _groups(found: ScoredGroups, scale: float) -> ScoredGroupsDocument:
    return ScoredGroupsDocument(
        attribute=found.rates.attribute,
        rates=[
            ScoredGroupDocument(
                name=row.name,
                **row.rate.to_dict(),
                impact_ratio=estimate_document(_finite(row.impact_ratio)),
                is_small=row.is_small,
                is_empty=row.is_empty,
                mean=_number(group.mean),
                quantiles=_levels(group.quantiles),
            )
            for row, group in zip(found.rates.rows, found.groups, strict=True)
        ],
        unknown=found.rates.unknown,
        smallest=found.rates.smallest,
        mean_difference=_number(found.mean_difference),
        mean_difference_sd=_number(in_deviations(found.mean_difference, scale)),
        quantile_differences=_levels(found.quantile_differences),
    )


def _number(each: Estimate) -> EstimateDocument:
    return estimate_document(_finite(each))
