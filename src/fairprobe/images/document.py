"""An image audit as plain data: the content of `audit.json`, from which the report and the
terminal's summary are made.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from fairprobe.arrays import Floats, Ints
from fairprobe.images.controls import (
    CHANGES,
    CONTROLS,
    INDEPENDENT,
    OWN,
    RANDOM_DIRECTION,
    SHUFFLED_LABELS,
    WITHOUT_IDIS,
)
from fairprobe.images.folder import KIND
from fairprobe.images.measure import Reading, moved_by, people
from fairprobe.images.pairs import Pair, drawn, png
from fairprobe.images.repair import ON_REPAIRS, State
from fairprobe.images.search import ImageFindings
from fairprobe.images.words import sentences, verdict
from fairprobe.interpret import THRESHOLDS, LayerBias
from fairprobe.statistics.rates import CONFIDENCE, Rate

if TYPE_CHECKING:
    from fairprobe.images.evidence import ImageAudit

FORMAT = 1  # raised when the meaning of a field changes
TITLES = {"neuronfair": "NeuronFair", "adf": "ADF", "eidig": "EIDIG", "random": "random direction"}
DRAWS = 1000  # of the bootstrap


def document(audit: ImageAudit) -> dict[str, Any]:
    """Everything a reader of the audit needs, in JSON's own types; null where nothing was
    measured.
    """
    body: dict[str, Any] = {
        "kind": KIND,
        "format": FORMAT,
        "created": audit.created,
        "command": "",
        "versions": audit.versions,
        "seed": audit.seed,
        "sensitive": audit.sensitive,
        "partial": audit.stopped is not None,
        "stopped": audit.stopped,
        "messages": [
            *audit.data.messages,
            *audit.data.told.get(audit.sensitive, ()),
            *audit.messages,
        ],
        "seconds": {
            "total": sum(audit.seconds.values()),
            "parts": [
                {"name": name, "seconds": seconds} for name, seconds in audit.seconds.items()
            ],
        },
        "settings": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(audit.settings).items()
        },
        "data": _data(audit),
        "detector": _detector(audit),
        "attribute": _attribute(audit),
        "change": _change(audit),
        "interpretation": _interpretation(audit),
        "generation": [_generation(audit, method) for method in audit.findings],
        "repair": _repair(audit),
        "controls": [{"key": key, **asdict(CONTROLS[key])} for key in _ran(audit)],
    }
    return body | {
        "verdict": verdict(body),
        "sentences": sentences(body),
        "pairs": [_pair(audit, pair) for pair in audit.pairs],
    }


# -- the parts -------------------------------------------------------------------------------------


def _data(audit: ImageAudit) -> dict[str, Any]:
    data, attribute = audit.data, audit.data.attributes[audit.sensitive]
    faces = people(data)
    return {
        "name": data.name,
        "images": len(data),
        "faces": int(faces.sum()),
        "others": int((~faces).sum()),
        "height": data.images.shape[2],
        "width": data.images.shape[3],
        "classes": list(data.classes),
        "learnt_from": int((~data.held_out).sum()),
        "held_out": int(data.held_out.sum()),
        "values": [
            {
                "name": value,
                "images": int((attribute.codes == code).sum()),
                "held_out": int((data.held_out & (attribute.codes == code)).sum()),
            }
            for code, value in enumerate(attribute.values)
        ],
    }


def _detector(audit: ImageAudit) -> dict[str, Any]:
    told = audit.quality
    return {
        "name": audit.name,
        "trained_here": audit.trained_here,
        "parameters": sum(parameter.numel() for parameter in audit.detector.parameters()),
        "accuracy": told.accuracy.to_dict(),
        "detection_rate": told.detection_rate.to_dict(),
        "false_alarms": told.false_alarms.to_dict() if told.false_alarms.samples else None,
        "by_value": [
            {"name": name, "detection_rate": rate.to_dict()} for name, rate in told.by_value.items()
        ],
    }


def _attribute(audit: ImageAudit) -> dict[str, Any]:
    def told(reading: Reading | None) -> dict[str, Any] | None:
        if reading is None:
            return None
        recalls = [{"name": name, "rate": rate.to_dict()} for name, rate in reading.recalls.items()]
        return {"balanced_accuracy": reading.balanced_accuracy, "recalls": recalls}

    values = audit.data.attributes[audit.sensitive].values
    return {
        "values": list(values),
        "chance": 1 / len(values),
        "head": told(audit.readings[OWN]),
        INDEPENDENT: told(audit.readings.get(INDEPENDENT)),
        SHUFFLED_LABELS: told(audit.readings.get(SHUFFLED_LABELS)),
    }


def _change(audit: ImageAudit) -> dict[str, Any]:
    def told(which: str) -> dict[str, Any]:
        change, seen = audit.changes[which], audit.seen_change.get(which)
        return {
            "flips": Rate(int(change.flipped.sum()), len(change)).to_dict(),
            "epsilon_used": _spread(change.epsilon),
            "l2": _spread(change.l2),
            "seen_by_independent": None if seen is None else seen.to_dict(),
        }

    how = audit.settings.change
    return {
        "epsilon": how.epsilon,
        "cap": how.epsilon if how.cap is None else how.cap,
        "smallest": how.smallest,
        "faces": len(audit.rows),
        **told(OWN),
        "controls": {key: told(key) for key in CHANGES if key in audit.changes},
    }


def _interpretation(audit: ImageAudit) -> dict[str, Any] | None:
    if OWN not in audit.bias:
        return None
    own = audit.bias[OWN]
    layers = [
        {
            "name": layer.name,
            "neurons": layer.neurons,
            "auc": layer.auc,
            "curve": np.round(layer.curve, 4).tolist(),
            "threshold": layer.threshold,
            "biased": len(layer.biased),
            "controls": {
                key: _beside(audit.bias[key].layers[place]) for key in CHANGES if key in audit.bias
            },
        }
        for place, layer in enumerate(own.layers)
    ]
    return {
        "pairs": own.pairs,
        "by": audit.settings.by,
        "most_biased": own.most_biased.name,
        "auc": own.auc,
        "thresholds": np.round(THRESHOLDS, 3).tolist(),
        "layers": layers,
    }


def _beside(layer: LayerBias) -> dict[str, Any]:
    """The same layer under a change that is not about the attribute."""
    return {"auc": layer.auc, "curve": np.round(layer.curve, 4).tolist()}


def _generation(audit: ImageAudit, method: str) -> dict[str, Any]:
    found = audit.findings[method]
    controls = {key: _found(audit, method, key) for key in CHANGES if key in audit.found[method]}
    by_head = audit.seen_by_head.get(method)
    return {
        "method": method,
        "title": TITLES[method],
        "is_control": method == "random",
        "seeds": found.seeds,
        "generated": found.generated,
        "moved": found.made,
        "at_seed_rate": Rate(int(found.at_seed.sum()), found.seeds).to_dict(),
        "gsr_rate": Rate(found.made, found.seeds - int(found.at_seed.sum())).to_dict(),
        "iterations": _spread(found.iterations[~found.at_seed]),
        "ms_an_image": 1000 * found.seconds / found.seeds if found.seeds else 0.0,
        "stopped": found.stopped,
        **_found(audit, method, OWN),
        "seen_by_head": None if by_head is None or not by_head.samples else by_head.to_dict(),
        "controls": controls,
    }


def _found(audit: ImageAudit, method: str, which: str) -> dict[str, Any]:
    """What a method found with one change."""
    found: ImageFindings = audit.found[method][which]
    seen = audit.seen.get((method, which))
    return {
        "idis": len(found),
        "at_seed": int(found.at_seed.sum()),
        "success": Rate(len(found), found.seeds).to_dict(),
        "gsr": found.gsr,
        "l2": _spread(moved_by(found)),
        "seen_by_independent": None if seen is None or not seen.samples else seen.to_dict(),
    }


def _repair(audit: ImageAudit) -> dict[str, Any] | None:
    repaired = audit.repaired
    if repaired is None:
        return None
    states = {
        "before": repaired.before,
        WITHOUT_IDIS: repaired.without_idis,
        "after": repaired.after,
    }
    told = {name: None if state is None else _state(state) for name, state in states.items()}
    control, after = repaired.without_idis, repaired.after
    return {
        "idis": repaired.idis,
        "method": "all",
        "epochs": ON_REPAIRS.epochs,
        **told,
        "compared": None if control is None or after is None else _compared(control, after),
    }


def _state(state: State) -> dict[str, Any]:
    return {
        "accuracy": state.accuracy.to_dict(),
        "detection_rate": state.detection_rate.to_dict(),
        "auc": state.auc,
        "auc_random_signs": state.auc_random_signs,
        "flips": state.flips.to_dict(),
        "differing": state.differing.to_dict(),
        "differing_faces": state.differing_faces.to_dict(),
        "attack": {"success": state.success.to_dict(), "l2": _mean(state.l2)},
    }


def _compared(control: State, after: State) -> dict[str, Any]:
    l2 = [float(state.l2.mean()) if len(state.l2) else 0.0 for state in (control, after)]
    return {
        "differing_ratio": _ratio(after.differing.estimate, control.differing.estimate),
        "l2_ratio": _ratio(l2[1], l2[0]) if l2[1] else None,
        "auc_ratio": _ratio(after.auc, control.auc),
        "accuracy_points": 100 * (after.accuracy.estimate - control.accuracy.estimate),
    }


def _ran(audit: ImageAudit) -> list[str]:
    """The controls that there is a figure of."""
    ran = {
        **{key: key in audit.changes for key in CHANGES},
        INDEPENDENT: INDEPENDENT in audit.readings,
        RANDOM_DIRECTION: "random" in audit.found,
        WITHOUT_IDIS: audit.repaired is not None and audit.repaired.without_idis is not None,
    }
    return [key for key, there in ran.items() if there]


def _pair(audit: ImageAudit, pair: Pair) -> dict[str, Any]:
    attribute, classes = audit.data.attributes[audit.sensitive], audit.data.classes
    verdicts = zip(("original", "without", "with"), pair.labels, pair.probabilities, strict=True)
    pictures = {
        "original": pair.original,
        "bias": drawn(pair.bias, pair.amplified),
        "without": pair.without,
        "change": drawn(pair.change, pair.amplified),
        "with": pair.changed,
    }
    return {
        "row": pair.row,
        "value": attribute.values[attribute.codes[pair.row]],
        "method": pair.method,
        "at_seed": pair.at_seed,
        "l2_bias": pair.l2[0],
        "l2_change": pair.l2[1],
        "amplified": pair.amplified,
        "pictures": {name: png(picture) for name, picture in pictures.items()},
        "verdicts": {
            name: {"label": classes[label], "probability": probability}
            for name, label, probability in verdicts
        },
        "head": [attribute.values[code] for code in pair.head],
        INDEPENDENT: (
            None
            if pair.independent is None
            else [attribute.values[code] for code in pair.independent]
        ),
    }


# -- numbers ---------------------------------------------------------------------------------------


def _spread(values: Floats | Ints) -> dict[str, Any] | None:
    if len(values) == 0:
        return None
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "high": float(values.max()),
        "samples": len(values),
    }


def _mean(values: Floats) -> dict[str, Any] | None:
    """A mean with its bootstrap interval; the draws are always the same."""
    if len(values) == 0:
        return None
    rng = np.random.default_rng(0)
    drawn_means = np.array(
        [values[rng.integers(0, len(values), len(values))].mean() for _ in range(DRAWS)]
    )
    low, high = np.quantile(drawn_means, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return {
        "estimate": float(values.mean()),
        "low": float(low),
        "high": float(high),
        "samples": len(values),
        "confidence": CONFIDENCE,
    }


def _ratio(one: float, other: float) -> float | None:
    return one / other if other else None
