"""Documents for the tests of the report: small ones, of every kind, complete as `audit.json` is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

Document = dict[str, Any]


def rate(hits: int, samples: int, low: float, high: float) -> Document:
    return {"estimate": hits / samples, "low": low, "high": high, "hits": hits, "samples": samples, "confidence": 0.95}


def layer(name: str, differences: list[float], threshold: float) -> Document:
    biased = [neuron for neuron, value in enumerate(differences) if value > threshold]
    curve = [sum(value > step * 0.005 for value in differences) / len(differences) for step in range(201)]
    return {
        "name": name,
        "neurons": len(differences),
        "auc": sum(curve) * 0.005,
        "auc_scale_free": 0.3141,
        "threshold": threshold,
        "biased": len(biased),
        "biased_neurons": biased,
        "differences": differences,
        "curve": curve,
    }


def pair() -> Document:
    return {
        "shared": {"age": "60–69", "education": "Masters"},
        "sensitive": {"gender": ["Female", "Male"]},
        "label": "<=50K",
        "label_other": ">50K",
        "favourable": False,
        "probability": 0.9294,
        "probability_other": 0.7947,
        "gap": 0.7243,
        "phase": "local",
        "origin": 764,
    }


def document() -> Document:
    """An audit that found something, complete as `audit.json` is."""
    first, second = layer("hidden1", [0.0, 0.07, 0.15, 0.3, 0.01, 0.2, 0.02, 0.0], 0.2), layer("hidden2", [0.0, 0.45, 0.25, 0.22], 0.255)
    return {
        "format": 2,
        "created": "2026-11-15T23:11:38+00:00",
        "dataset": "adult",
        "sensitive": ["gender"],
        "seed": 7,
        "versions": {"fairprobe": "0.1.0", "python": "3.11.7"},
        "data": {
            "title": "Adult (Census Income)",
            "about": "48,842 adults.",
            "source": "UCI",
            "licence": "CC BY 4.0",
            "citation": "R. Kohavi, KDD 1996",
            "rows": 48842,
            "attributes": ["age", "education", "gender"],
            "label": "income",
            "classes": ["<=50K", ">50K"],
            "favourable": 1,
            "constraints": [],
            "outside": {"rows": 3665, "by_attribute": {"age": 3665}},
        },
        "model": {
            "network": "DenseNetwork",
            "inputs": 3,
            "layers": [{"name": "hidden1", "neurons": 8}, {"name": "hidden2", "neurons": 4}],
            "outputs": 2,
            "parameters": 78,
            "accuracy": 0.8403,
            "accuracy_low": 0.8329,
            "accuracy_high": 0.8475,
            "accuracy_rows": 9769,
            "trained_here": True,
            "majority": 0.7586,
            "constant": False,
        },
        "interpretation": {
            "layers": [first, second],
            "grid": 0.005,
            "pairs": 48842,
            "most_biased": "hidden2",
            "auc": second["auc"],
            "ablation": {
                "before": 0.0488,
                "biased_zeroed": 0.026,
                "random_zeroed": 0.03978,
                "accuracy_before": 0.8403,
                "accuracy_biased_zeroed": 0.8012,
                "accuracy_random_zeroed": 0.8047,
                "silenced": 1,
                "samples": 10000,
                "repeats": 10,
            },
        },
        "generation": {
            "method": "neuronfair",
            "variant": "revert",
            "settings": {},
            "seeds": 1000,
            "global_iterations": 40,
            "local_iterations": 1000,
            "tried": 474380,
            "idis": 414449,
            "global_idis": 603,
            "local_idis": 413846,
            "gsr": 0.87366,
            "spread": 0.26699,
            "stopped": "complete",
            "wall_seconds": 3.1358,
            "cpu_seconds": 3.1301,
            "cpu_ms_per_1000_idis": 7.5524,
            "scores": {},
        },
        "dm_rs": rate(2261, 50000, 0.0434, 0.0471),
        "people": {
            **rate(4491, 48842, 0.0894, 0.0945),
            "values": [
                {"attribute": "gender", "value": "Female", **rate(622, 16192, 0.0355, 0.0415)},
                {"attribute": "gender", "value": "Male", **rate(3869, 32650, 0.1150, 0.1221)},
            ],
            "groups": [{"attribute": "education", "value": "Masters", **rate(564, 2657, 0.1969, 0.2283)}],
            "advantages": [{"value": "Male", "share": 0.8594}, {"value": "Female", "share": 0.1406}],
        },
        "pairs": [pair(), pair()],
        "verdict": "Changing nothing but gender changes the network's decision for 9.2 % of the 48,842 people in the data.",
        "notes": ["The search looks where it expects to find discrimination.", "Possible people are drawn uniformly."],
        "command": "fairprobe audit adult --sensitive gender",
    }


def nothing_found() -> Document:
    body = document()
    body["dm_rs"] = rate(0, 50000, 0.0, 0.0000738)
    values = [{"attribute": "gender", "value": value, **rate(0, 20000, 0.0, 0.00018)} for value in ("Female", "Male")]
    body["people"] = {**rate(0, 48842, 0.0, 0.0000755), "values": values, "groups": [], "advantages": []}
    body["generation"] |= {"idis": 0, "global_idis": 0, "local_idis": 0, "gsr": 0.0, "spread": None, "cpu_ms_per_1000_idis": None}
    inside = body["interpretation"]
    inside |= {"layers": [layer(each["name"], [0.0] * each["neurons"], 0.0) for each in inside["layers"]], "auc": 0.0}
    inside["ablation"] |= {"before": 0.0, "biased_zeroed": 0.0, "random_zeroed": 0.0, "silenced": 0}
    return body | {"pairs": [], "verdict": "No discrimination by gender was found."}


def constant() -> Document:
    body = nothing_found()
    body["interpretation"] = document()["interpretation"]
    body["interpretation"]["ablation"] |= {"before": 0.0, "biased_zeroed": 0.0, "random_zeroed": 0.0}
    body["model"] |= {"constant": True, "accuracy": 0.7586}
    return body | {"verdict": "The network gives everybody the same answer, so changing gender changes nothing."}


def interrupted() -> Document:
    body = document()
    body["generation"]["stopped"] = "interrupted"
    return body


def multi_class() -> Document:
    body = document()
    body["data"] |= {"classes": ["low", "middle", "high"], "favourable": None}
    body["people"]["advantages"] = []
    body["pairs"] = [pair() | {"label": "low", "label_other": "high", "favourable": None}]
    return body


def bare() -> Document:
    """The fields that may be missing or empty, without."""
    body = nothing_found()
    del body["command"]
    body["data"] |= {"about": "", "source": "", "licence": "", "citation": "", "outside": {"rows": 0, "by_attribute": {}}}
    body["model"]["trained_here"] = False
    return body


def many_values() -> Document:
    """Two sensitive attributes with more combinations than a figure can show, and a network with more layers than can be told apart."""
    body = document()
    body["sensitive"] = ["gender", "age"]
    values = [f"Male, {age}" for age in range(60)]
    body["people"]["values"] = [{"attribute": "gender and age", "value": value, **rate(3, 100, 0.01, 0.08)} for value in values]
    body["people"]["advantages"] = [{"value": value, "share": 1 - place / 60} for place, value in enumerate(values)]
    body["people"]["absent"] = values[:1]
    inside = body["interpretation"]
    inside["layers"] += [layer(f"block{number}", [0.1] * 3, 0.5) for number in range(20)]
    inside["layers"].append(layer("large", [0.1] * 2000, 0.5))
    return body


def black_box() -> Document:
    """A model that could only be asked, by a method that only asks."""
    body = document()
    body["model"] |= {"network": "RandomForestClassifier", "layers": [], "parameters": None, "trained_here": False}
    body["interpretation"] = None
    body["generation"] |= {"method": "aequitas", "variant": "full", "global_iterations": 0}
    del body["command"]
    return body | {"verdict": "Changing nothing but gender changes the model's decision for 9.2 % of the 48,842 people in the data."}


def themis() -> Document:
    """A method that measures scores of its own."""
    body = black_box()
    scores = {"causal": 0.0453, "causal_low": 0.0437, "causal_high": 0.0469, "group": 0.123, "group_low": 0.1, "group_high": 0.15}
    body["generation"] |= {
        "method": "themis",
        "variant": "",
        "settings": {"error": 0.02},
        "global_idis": body["generation"]["idis"],
        "local_idis": 0,
        "local_iterations": 0,
        "scores": scores | {"confidence": 0.99, "error": 0.02, "draws": 131072},
    }
    return body


KINDS: list[Callable[[], Document]] = [
    document,
    nothing_found,
    constant,
    interrupted,
    multi_class,
    bare,
    many_values,
    black_box,
    themis,
]


@pytest.mark.parametrize("make", KINDS)
def test_documents_are_plain_data(make: Callable[[], Document]) -> None:
    assert json.loads(json.dumps(make(), allow_nan=False)) == make()
