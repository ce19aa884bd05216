"""Build the document of an audit of scores: the content of `audit.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from fairprobe.audits.models import name_of
from fairprobe.audits.number_documents import unchanged
from fairprobe.audits.table_document import (
    data_document,
    pair_in_words,
    search_document,
)
from fairprobe.documents import ModelOrigin, ScoresDocument
from fairprobe.documents.scores import (
    ScoreModelDocument,
    ScorePair,
    ToleranceInfo,
)
from fairprobe.models import About

if TYPE_CHECKING:
    from fairprobe.audits.scores import ScoreAudit


def scores_document(audit: ScoreAudit, *, command: str = "") -> ScoresDocument:
    """Everything a reader of the audit needs."""
    data, model = audit.data, audit.model
    return ScoresDocument(
        created=audit.created,
        command=command,
        dataset=data.name,
        sensitive=list(data.domain.sensitive),
        seed=audit.seed,
        counterparts=audit.counterparts,
        versions=audit.versions,
        data=data_document(audit),
        model=_model(audit),
        tolerance=_tolerance(audit),
        scale=model.scale,
        median=audit.median,
        change=audit.change,
        plausible_change=audit.plausible_change,
        people=msgspec.structs.replace(audit.people, severity=None),
        dm_rs=audit.dm_rs,
        generation=search_document(audit),
        largest_found=audit.largest_found,
        plausible=audit.plausible,
        no_plausible=audit.no_plausible,
        groups=audit.groups,
        quality=audit.quality,
        score_pairs=[
            ScorePair(
                **pair_in_words(data.domain, pair),
                answer=pair.probability,
                answer_other=pair.probability_other,
                change=pair.gap,
            )
            for pair in audit.pairs
        ],
        repair=audit.repair_document,
    )


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


def _tolerance(audit: ScoreAudit) -> ToleranceInfo:
    given, scale = audit.model.tolerance, audit.model.scale
    amounts = {"amount": given.value, "sd": given.value * scale, "percent": None}
    return ToleranceInfo(
        value=given.value,
        unit=given.unit,
        amount=amounts[given.unit],
        is_default=audit.is_default,
    )


change_document = quality_document = unchanged
