"""Build the document of an audit of a table: the content of `audit.json`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from fairprobe import search
from fairprobe.audits.models import name_of
from fairprobe.audits.number_documents import (
    finite,
    is_plain,
)
from fairprobe.audits.repair_document import repair_document
from fairprobe.datasets.base import Dataset, Outline
from fairprobe.datasets.base_rates import FEWEST, base_rates
from fairprobe.documents import (
    BaseRateRow,
    BaseRatesDocument,
    Data,
    DecisionInfo,
    Interpretation,
    Layer,
    LayerSize,
    MethodDescription,
    ModelDocument,
    ModelOrigin,
    OutsideRows,
    PairDocument,
    Search,
    TableDocument,
    TableOrigin,
)
from fairprobe.findings import Generation
from fairprobe.models import About, Model, TorchModel
from fairprobe.report.formats import plural
from fairprobe.schema.domain import Domain
from fairprobe.search import Method
from fairprobe.search.neuron_bias import GRID
from fairprobe.table.generation import Pair, gsr, ms_per_1000_idis

if TYPE_CHECKING:
    from fairprobe.audits.scores import ScoreAudit
    from fairprobe.audits.table import Audit


def table_document(audit: Audit, *, command: str = "") -> TableDocument:
    """Everything a reader of the audit needs."""
    data = audit.data
    return TableDocument(
        created=audit.created,
        command=command,
        dataset=data.name,
        sensitive=list(data.domain.sensitive),
        seed=audit.seed,
        counterparts=audit.counterparts,
        versions=audit.versions,
        data=data_document(audit),
        model=_model(audit),
        interpretation=_interpretation(audit),
        generation=search_document(audit),
        dm_rs=audit.dm_rs,
        people=audit.people,
        plausible=audit.plausible,
        no_plausible=audit.no_plausible,
        fairness=audit.fairness,
        weighted=audit.weighted,
        pairs=[pair_document(data, pair) for pair in audit.pairs],
        repair=None if audit.repair is None else repair_document(audit.repair),
        chat=audit.chat,
    )


# -- data, model, network --------------------------------------------------------------------------


def data_document(audit: Audit | ScoreAudit) -> Data:
    """The table that was audited."""
    data, card = audit.data, audit.data.card
    return Data(
        title=card.title if card else data.name,
        about=card.about if card else "",
        source=card.source if card else "",
        licence=card.license if card else "",
        citation=card.citation if card else "",
        rows=len(data),
        attributes=list(data.domain.names),
        label=data.label,
        classes=list(data.classes),
        favourable=data.favourable,
        constraints=[constraint.name for constraint in data.domain.constraints],
        origin=None if data.origin is None else TableOrigin(**data.origin),
        outside=OutsideRows(rows=len(audit.outside), by_attribute=audit.outside.by_attribute),
        base_rates=[] if data.amounts is not None else _base_rates(data),
    )


def _base_rates(data: Dataset) -> list[BaseRatesDocument]:
    """By each sensitive attribute alone."""
    found = [base_rates(data.with_sensitive(name)) for name in data.domain.sensitive]
    return [
        BaseRatesDocument(
            attribute=each.attribute,
            rows=[
                BaseRateRow(
                    name=group.group,
                    people=group.share.hits,
                    labels=(list(group.labels) if group.share.hits >= FEWEST else []),
                )
                for group in (*each.groups, each.everybody)
                if group.share.hits
            ],
            left_out=each.left_out,
        )
        for each in found
    ]


def _model(audit: Audit) -> ModelDocument:
    model = audit.model
    about = model.about or About("", "")
    if isinstance(model, TorchModel):
        network = model.module
        layers = audit.interpretation.layers if audit.interpretation else ()
        inputs = model.encoder.width if model.encoder else len(audit.data.domain)
        parameters = sum(parameter.numel() for parameter in network.parameters())
    else:
        inputs, layers, parameters = len(audit.data.domain), (), None
    return ModelDocument(
        network=name_of(model),
        inputs=inputs,
        layers=[LayerSize(name=layer.name, neurons=layer.neurons) for layer in layers],
        parameters=parameters,
        trained_here=isinstance(model, TorchModel)
        and model.trained_on == (audit.data.name, audit.seed),
        outputs=len(audit.data.classes),
        accuracy=audit.accuracy.estimate,
        accuracy_low=audit.accuracy.low,
        accuracy_high=audit.accuracy.high,
        accuracy_rows=audit.accuracy.samples,
        majority=audit.majority,
        constant=audit.is_constant,
        kind=about.kind,
        why_black_box="" if isinstance(model, TorchModel) else about.why,
        blind_to=list(about.blind_to),
        decision=decision_document(audit.data, model),
        origin=None if about.origin is None else ModelOrigin(**about.origin),
    )


def decision_document(data: Dataset, model: Model) -> DecisionInfo | None:
    """The decision rule of the model; None if people get the most probable class."""
    rule = model.decision
    if rule is None:
        return None
    given = rule.given
    by = None if rule.column is None else data.domain.names[rule.column]
    single = rule.thresholds[0] if rule.thresholds and by is None else None
    return DecisionInfo(
        answer=data.classes[rule.positive],
        threshold=single if given.threshold is None else given.threshold,
        thresholds=dict(given.thresholds),
        by=by,
        costs=None if given.costs is None else [list(row) for row in given.costs],
    )


def _interpretation(audit: Audit) -> Interpretation | None:
    bias, ablation = audit.interpretation, audit.ablation
    if bias is None or ablation is None:
        return None
    return Interpretation(
        layers=[
            Layer(
                name=layer.name,
                neurons=layer.neurons,
                auc=layer.auc,
                auc_scale_free=layer.auc_scale_free,
                threshold=layer.threshold,
                biased=len(layer.biased),
                biased_neurons=layer.biased.tolist(),
                differences=[round(float(value), 4) for value in layer.squashed],
                curve=[round(float(share), 4) for share in layer.curve],
            )
            for layer in bias.layers
        ],
        grid=GRID,
        pairs=bias.pairs,
        most_biased=bias.most_biased.name,
        auc=bias.auc,
        ablation=ablation,
    )


# -- search ----------------------------------------------------------------------------------------


def search_document(audit: Audit | ScoreAudit) -> Search:
    """What the search was given, what it found, and what it cost."""
    how, idis = audit.findings.generation, len(audit.findings)
    first = audit.findings.count("global")
    return Search(
        method=how.method,
        description=describe_method(
            type(audit.method), how, "model" if audit.interpretation is None else "network"
        ),
        variant=how.variant,
        people=audit.searched_people,
        settings=_changed_settings(audit.method, how),
        seeds=how.seeds,
        global_iterations=how.global_iterations,
        local_iterations=how.local_iterations,
        clusters=how.clusters,
        seeds_by=how.seeds_by,
        tried=how.tried,
        judged=how.judged,
        idis=idis,
        global_idis=first,
        local_idis=idis - first,
        gsr=gsr(idis, how.tried),
        spread=audit.spread,
        cells=audit.cells,
        distance=audit.distance,
        stopped=how.stopped,
        refuted=audit.refuted,
        wall_seconds=how.wall_seconds,
        cpu_seconds=how.cpu_seconds,
        wall_ms_per_1000_idis=ms_per_1000_idis(how.wall_seconds, idis),
        cpu_ms_per_1000_idis=ms_per_1000_idis(how.cpu_seconds, idis),
        scores={name: finite(score) for name, score in how.scores.items()},
    )


def describe_method(method: type[Method], how: Generation, noun: str) -> MethodDescription | None:
    """What the method says about itself; None for a user's own that says nothing."""
    if not method.title:
        return None
    again = f", each up to {plural(how.global_iterations, 'time')} again until it is a case"
    room = "fp.search" if hasattr(search, method.__name__) else method.__module__
    return MethodDescription(
        title=method.title,
        about=method.about,
        how=method.search_text(
            seeds=plural(how.seeds, "person", "people"),
            global_steps=plural(how.global_iterations, "step"),
            local_steps=plural(how.local_iterations, "step"),
            again=again if how.global_iterations else "",
            noun=noun,
        ),
        origin=method.origin,
        uses_seeds=method.uses_seeds,
        has_phases=method.has_phases,
        needs_neurons=method.needs_neurons,
        created_by=f"{room}.{method.__qualname__}",
        required=list(method.required),
    )


def _changed_settings(method: Method, how: Generation) -> dict[str, Any]:
    """Settings of the method that differ from its defaults; variant and iterations have fields of
    their own. That there is no global step at all is a setting: a budget has 1 or more.
    """
    if not is_dataclass(method):
        return {}
    elsewhere = {"variant", "global_iterations", "local_iterations"}
    if how.global_iterations == 0:
        elsewhere.remove("global_iterations")
    return {
        each.name: value
        for each in fields(method)
        if each.init
        and each.name not in elsewhere
        and is_plain(value := getattr(method, each.name))
        and value != each.default
    }


def pair_in_words(domain: Domain, pair: Pair) -> dict[str, Any]:
    """Two people: what they share, what changes, and where they come from."""
    mine, other = domain.describe(pair.x), domain.describe(pair.x_other)
    along = [name for name in domain.names if name not in domain.sensitive]
    changed = [*domain.sensitive, *(name for name in along if mine[name] != other[name])]
    return {
        "shared": {name: mine[name] for name in domain.names if name not in changed},
        "sensitive": {name: (mine[name], other[name]) for name in changed},
        "phase": pair.phase,
        "origin": pair.origin,
        "plausibility": pair.plausibility,
        "plausibility_other": pair.plausibility_other,
        "is_record": pair.is_record,
    }


def pair_document(data: Outline, pair: Pair) -> PairDocument:
    """Two people in words, and what each is answered."""
    classes = data.classes
    return PairDocument(
        **pair_in_words(data.domain, pair),
        label=classes[pair.label],
        label_other=classes[pair.label_other],
        favourable=None if data.favourable is None else pair.label == data.favourable,
        probability=pair.probability,
        probability_other=pair.probability_other,
        gap=pair.gap,
    )
