"""An audit as plain data: the content of `audit.json`, from which the report and the summary are
made. Numbers in, words out.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from fairprobe.audits.fairness import fairness_document
from fairprobe.audits.models import name_of
from fairprobe.audits.plain import plain_number
from fairprobe.audits.repair_document import repair_document
from fairprobe.audits.words import notes, verdict
from fairprobe.interpret import GRID
from fairprobe.metrics import Group, Pair, gsr, ms_per_1000_idis
from fairprobe.models import About, Model, TorchModel
from fairprobe.networks import DenseNetwork
from fairprobe.search import Method

if TYPE_CHECKING:
    from fairprobe.audits.evidence import Audit

FORMAT = 4  # raised when the meaning of a field changes


def document(audit: Audit) -> dict[str, Any]:
    """Everything a reader of the audit needs, in JSON's own types."""
    data = audit.data
    body: dict[str, Any] = {
        "format": FORMAT,
        "created": audit.created,
        "dataset": data.name,
        "sensitive": list(data.domain.sensitive),
        "seed": audit.seed,
        "versions": audit.versions,
        "data": _data(audit),
        "model": _model(audit),
        "interpretation": _interpretation(audit),
        "generation": _generation(audit),
        "dm_rs": audit.dm_rs.to_dict(),
        "people": {
            **audit.people.everybody.to_dict(),
            "values": [_group(group) for group in audit.people.values],
            "groups": [_group(group) for group in audit.people.groups],
            "absent": list(audit.people.absent),
            "advantages": [
                {"value": advantage.value, "share": advantage.share}
                for advantage in audit.people.advantages
            ],
        },
        "fairness": fairness_document(audit.fairness, data.classes),
        "pairs": [_pair(audit, pair) for pair in audit.pairs],
        "repair": None if audit.repair is None else repair_document(audit.repair),
    }
    return body | {"verdict": verdict(body), "notes": notes(body)}


def _group(group: Group) -> dict[str, Any]:
    return {"attribute": group.attribute, "value": group.value, **group.rate.to_dict()}


def _data(audit: Audit) -> dict[str, Any]:
    data, card = audit.data, audit.data.card
    return {
        "title": card.title if card else data.name,
        "about": card.about if card else "",
        "source": card.source if card else "",
        "licence": card.licence if card else "",
        "citation": card.citation if card else "",
        "rows": len(data),
        "attributes": list(data.domain.names),
        "label": data.label,
        "classes": list(data.classes),
        "favourable": data.favourable,
        "constraints": [constraint.name for constraint in data.domain.constraints],
        "origin": None if data.origin is None else dict(data.origin),
        "outside": {"rows": len(audit.outside), "by_attribute": audit.outside.by_attribute},
    }


def _model(audit: Audit) -> dict[str, Any]:
    return {
        **(
            _network(audit.model, audit)
            if isinstance(audit.model, TorchModel)
            else _black_box(audit)
        ),
        "outputs": len(audit.data.classes),
        "accuracy": audit.accuracy.estimate,
        "accuracy_low": audit.accuracy.low,
        "accuracy_high": audit.accuracy.high,
        "accuracy_rows": audit.accuracy.samples,
        "majority": audit.majority,
        "constant": audit.is_constant,
        **_about(audit.model),
    }


def _about(model: Model) -> dict[str, Any]:
    """What is known of a user's own model, and nothing of ours."""
    about = model.about or About("", "")
    return {
        "kind": about.kind,
        "why_black_box": "" if isinstance(model, TorchModel) else about.why,
        "blind_to": list(about.blind_to),
        "origin": None if about.origin is None else dict(about.origin),
    }


def _network(model: TorchModel, audit: Audit) -> dict[str, Any]:
    network = model.module
    layers = audit.interpretation.layers if audit.interpretation else ()
    return {
        "network": (
            network.name
            if isinstance(network, DenseNetwork)
            else model.about.name
            if model.about
            else type(network).__name__
        ),
        "inputs": model.encoder.width if model.encoder else len(audit.data.domain),
        "layers": [{"name": layer.name, "neurons": layer.neurons} for layer in layers],
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "trained_here": model.trained_on == (audit.data.name, audit.seed),
    }


def _black_box(audit: Audit) -> dict[str, Any]:
    inputs = len(audit.data.domain)
    return {
        "network": name_of(audit.model),
        "inputs": inputs,
        "layers": [],
        "parameters": None,
        "trained_here": False,
    }


def _interpretation(audit: Audit) -> dict[str, Any] | None:
    bias, ablation = audit.interpretation, audit.ablation
    if bias is None or ablation is None:
        return None
    layers = [
        {
            "name": layer.name,
            "neurons": layer.neurons,
            "auc": layer.auc,
            "auc_scale_free": layer.auc_scale_free,
            "threshold": layer.threshold,
            "biased": len(layer.biased),
            "biased_neurons": layer.biased.tolist(),
            "differences": [round(float(value), 4) for value in layer.squashed],
            "curve": [round(float(share), 4) for share in layer.curve],
        }
        for layer in bias.layers
    ]
    return {
        "layers": layers,
        "grid": GRID,
        "pairs": bias.pairs,
        "most_biased": bias.most_biased.name,
        "auc": bias.auc,
        "ablation": {name: getattr(ablation, name) for name in ablation.__dataclass_fields__},
    }


def _generation(audit: Audit) -> dict[str, Any]:
    how, idis = audit.findings.generation, len(audit.findings)
    first = audit.findings.count("global")
    return {
        "method": how.method,
        "variant": how.variant,
        "settings": _settings(audit.method),
        "seeds": how.seeds,
        "global_iterations": how.global_iterations,
        "local_iterations": how.local_iterations,
        "tried": how.tried,
        "judged": how.judged,
        "idis": idis,
        "global_idis": first,
        "local_idis": idis - first,
        "gsr": gsr(idis, how.tried),
        "spread": audit.spread,
        "stopped": how.stopped,
        "refuted": audit.refuted,
        "wall_seconds": how.wall_seconds,
        "cpu_seconds": how.cpu_seconds,
        "wall_ms_per_1000_idis": ms_per_1000_idis(how.wall_seconds, idis),
        "cpu_ms_per_1000_idis": ms_per_1000_idis(how.cpu_seconds, idis),
        "scores": {name: plain_number(score) for name, score in how.scores.items()},
    }


def _settings(method: Method) -> dict[str, Any]:
    """What of the method is not as it is by default; the variant and the iterations have their own
    place.
    """
    default: dict[str, Any] = (
        {each.name: each.default for each in fields(method) if each.init}
        if is_dataclass(method)
        else {}
    )
    told = {
        name: getattr(method, name)
        for name in default
        if name not in ("variant", "global_iterations", "local_iterations")
    }
    return {
        name: value
        for name, value in told.items()
        if (isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)))
        and value != default[name]
    }


def _pair(audit: Audit, pair: Pair) -> dict[str, Any]:
    domain, classes = audit.data.domain, audit.data.classes
    mine, other = domain.describe(pair.x), domain.describe(pair.x_other)
    return {
        "shared": {name: mine[name] for name in domain.names if name not in domain.sensitive},
        "sensitive": {name: [mine[name], other[name]] for name in domain.sensitive},
        "label": classes[pair.label],
        "label_other": classes[pair.label_other],
        "favourable": (
            None if audit.data.favourable is None else pair.label == audit.data.favourable
        ),
        "probability": pair.probability,
        "probability_other": pair.probability_other,
        "gap": pair.gap,
        "phase": pair.phase,
        "origin": pair.origin,
    }
