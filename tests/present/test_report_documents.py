"""Documents for the tests of the report: small ones, of every kind, complete as `audit.json` is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from fairprobe.findings import Generation
from fairprobe.results import to_dict
from fairprobe.search import METHODS
from fairprobe.table.searched import describe_method
from tests.helpers import typed

Document = dict[str, Any]


def rate(hits: int, samples: int, low: float, high: float) -> Document:
    return {
        "estimate": hits / samples,
        "low": low,
        "high": high,
        "hits": hits,
        "samples": samples,
        "confidence": 0.95,
    }


def measure(
    estimate: float | None, low: float | None, high: float | None, samples: int = 9769
) -> Document:
    return {
        "estimate": estimate,
        "low": low,
        "high": high,
        "samples": samples,
        "confidence": 0.95,
        "left_out": [],
    }


def score(title: str, numbers: Document) -> Document:
    return {"title": title, "about": "How good the answers are.", "unit": "number", **numbers}


def ifr(
    estimate: float | None,
    low: float | None,
    high: float | None,
    people: int,
    groups: list[tuple[str, Document]] | None = None,
) -> Document:
    """The share of fair pairs, one pair for each of the people."""
    share = {
        "estimate": estimate,
        "low": low,
        "high": high,
        "samples": people,
        "pairs": people,
        "confidence": 0.95,
    }
    return share | (
        {} if groups is None else {"groups": [{"name": name, **group} for name, group in groups]}
    )


def selection_row(
    name: str,
    selected: int,
    people: int,
    ratio: tuple[float, float, float] | None,
    *,
    is_small: bool = False,
) -> Document:
    return {
        "name": name,
        **(
            rate(selected, people, min(0.01, selected / people), 0.9)
            if people
            else rate(0, 1, 0.0, 1.0) | {"estimate": 0.0, "samples": 0}
        ),
        "impact_ratio": (
            measure(*ratio, samples=people) if ratio else measure(None, None, None, people)
        ),
        "is_small": is_small,
        "is_empty": people == 0,
    }


def selection_table(attribute: str, rows: list[Document], *, unknown: int = 0) -> Document:
    return {
        "attribute": attribute,
        "rows": rows,
        "unknown": unknown,
        "smallest": 0.02,
        "dp": measure(0.1773, 0.1641, 0.1899),
        "dp_sd": measure(0.0887, 0.0821, 0.095),
        "eo": [
            {"given": "<=50K", **measure(0.0712, 0.06, 0.083)},
            {"given": ">50K", **measure(0.0911, 0.05, 0.1308)},
        ],
        "eo_sd": [
            {"given": "<=50K", **measure(0.0356, 0.03, 0.042)},
            {"given": ">50K", **measure(0.0456, 0.025, 0.0654)},
        ],
    }


def fairness() -> Document:
    """Two groups on the people held out, the second of which is selected a quarter as often."""
    groups = [
        ("Female", ifr(0.9606, 0.9534, 0.967, 3276)),
        ("Male", ifr(0.8823, 0.8742, 0.8901, 6493)),
    ]
    alike = [
        ("Female", ifr(0.4307, 0.4137, 0.4479, 3276)),
        ("Male", ifr(0.3468, 0.3353, 0.3586, 6493)),
    ]
    rows = [
        selection_row("Female", 204, 3276, (0.2614, 0.2255, 0.2999)),
        selection_row("Male", 1547, 6493, (1.0, 1.0, 1.0)),
    ]
    return {
        "rows": 9769,
        "positive": 1,
        "positive_assumed": False,
        "individual": {
            "tau": 0.001,
            "base": "nats",
            "over": "pairs",
            "left_out": 0,
            "b": ifr(0.9086, 0.9027, 0.9142, 9769, groups),
            "p": ifr(0.375, 0.3653, 0.3846, 9769, alike),
            "by_tau": [],
        },
        "group": {
            "selected": rate(1751, 9769, 0.1717, 0.187),
            "tables": [selection_table("gender", rows)],
        },
        "quality": {
            "accuracy": rate(8209, 9769, 0.8329, 0.8475),
            "scores": {
                "f1": score("F1", measure(0.6321, 0.614, 0.6498)),
                "mcc": score("Matthews’ correlation (MCC)", measure(0.5403, 0.52, 0.56)),
            },
        },
    }


def measured(accuracy: float, affected: float, same: float, alike: float | None) -> Document:
    """A network before or after a repair, or a control; half a point of uncertainty everywhere."""

    def around(share: float) -> Document:
        return rate(round(share * 10000), 10000, max(0.0, share - 0.005), min(1.0, share + 0.005))

    def share(pairs: float | None) -> Document:
        low, high = (pairs and min(1.0, max(0.0, pairs + by)) for by in (-0.005, 0.005))
        return ifr(pairs, low, high, 9769, [])

    return {
        "accuracy": around(accuracy),
        "f1": measure(0.6321, 0.614, 0.6498),
        "mcc": measure(0.5403, 0.52, 0.56),
        "selected": around(0.179),
        "ifr_b": share(same),
        "ifr_p": share(alike),
        "dp": measure(0.1773, 0.1641, 0.1899),
        "eo": [measure(0.0712, 0.06, 0.083), measure(0.0911, 0.05, 0.1308)],
        "people": around(affected),
        "plausible": around(affected),
        "dm_rs": around(affected),
        "proved": None,
        "idis": 1234,
        "tried": 5678,
        "auc": 0.2551,
        "auc_scale_free": 0.3141,
        "others": [
            {"name": "race", "dm_rs": around(0.11), "ifr_b": ifr(0.91, 0.9, 0.92, 9769, [])},
            {"name": "age", "dm_rs": around(0.21), "ifr_b": ifr(0.81, 0.8, 0.82, 9769, [])},
        ],
        "is_constant": False,
        "alone": {},
        "quality": None,
        "error": None,
        "change": None,
    }


def point(setting: float, accuracy: float, alike: float | None, **marks: bool) -> Document:
    network = measured(accuracy, 0.02, 0.97, alike)
    names = ("accuracy", "ifr_b", "ifr_p", "dm_rs", "dp")
    return {
        "setting": setting,
        **{name: network[name] for name in names},
        "is_constant": False,
        "is_best": False,
        "is_chosen": False,
        "proved": None,
        "error": None,
        "change": None,
        "affected": None,
    } | marks


def seed_shares(accuracy: float, affected: float) -> Document:
    return {
        "accuracy": accuracy,
        "people": affected,
        "plausible": affected,
        "possible": affected,
        "ties": 0.0,
        "is_constant": False,
    }


def over_seeds(what: str, by: str, control: float, repaired: float) -> Document:
    return {
        "what": what,
        "by": by,
        "control": {"mean": control, "least": control, "most": control},
        "repaired": {"mean": repaired, "least": repaired, "most": repaired},
        "low": control - repaired - 0.01,
        "high": control - repaired + 0.01,
        "is_judged": what != "possible people",
    }


def decision(reasons: tuple[str, ...] = (), doubts: tuple[str, ...] = ()) -> Document:
    return {
        "reasons": list(reasons),
        "doubts": list(doubts),
        "confidence": 0.975,
        "comparisons": [
            over_seeds("accuracy", "", 0.84, 0.837),
            over_seeds("people held out", "gender", 0.044, 0.003),
            over_seeds("plausible people", "gender", 0.05, 0.004),
            over_seeds("possible people", "gender", 0.06, 0.005),
            over_seeds("plausible people", "race", 0.11, 0.12),
        ],
    }


def repair() -> Document:
    """A repair that was accepted, with its controls and four settings of its dial."""
    return {
        "name": "counterfactual",
        "title": "Counterfactual pairs",
        "start": "scratch",
        "settings": {"training": {"optimizer": "adam", "learning_rate": 0.001, "patience": None}},
        "dial": {"name": "strength", "means": "λ, the weight of the difference", "value": 20.0},
        "limits": {"max_accuracy_drop": 0.015, "max_harm": 1.3},
        "outcome": "accepted",
        "forced": False,
        "accepted": True,
        "decision": decision(),
        "seeds": [
            {
                "seed": seed,
                "control": seed_shares(0.84, 0.044),
                "repaired": seed_shares(0.837, 0.003),
            }
            for seed in (0, 17, 42, 4)
        ],
        "delivered": 17,
        "subgroups": [
            {
                "name": "relationship Wife",
                "share": "refused",
                "people": 310,
                "given": 0.44,
                "control": 0.45,
                "repaired": 0.47,
                "rest": 0.8,
                "p": 0.8,
                "is_harm": False,
            }
        ],
        "subgroups_compared": 322,
        "before": measured(0.8403, 0.0452, 0.9086, 0.375),
        "after": measured(0.8371, 0.0031, 0.9871, 0.9712),
        "controls": {
            "blind": measured(0.8391, 0.0, 1.0, 1.0),
            "retrained": measured(0.84, 0.0441, 0.9101, 0.3812),
            "random points": measured(0.8312, 0.0612, 0.9011, 0.362),
        },
        "curve": [
            point(1, 0.842, 0.71, is_best=True),
            point(20, 0.839, 0.972, is_best=True, is_chosen=True),
            point(100, 0.83, 0.96),
            point(1000, 0.7586, 1.0, is_best=True, is_constant=True),
        ],
        "handed_over": {},
    }


def layer(name: str, differences: list[float], threshold: float) -> Document:
    biased = [neuron for neuron, value in enumerate(differences) if value > threshold]
    curve = [
        sum(value > step * 0.005 for value in differences) / len(differences) for step in range(201)
    ]
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


def rule(text: str, hits: int, people: int, low: float, high: float) -> Document:
    return {"rule": text, **rate(hits, people, low, high), "confidence": 1 - 0.05 / 3}


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
        "plausibility": 0.34,
        "plausibility_other": 0.021,
        "is_record": False,
    }


def document() -> Document:
    """An audit that found something, complete as `audit.json` is."""
    first, second = (
        layer("hidden1", [0.0, 0.07, 0.15, 0.3, 0.01, 0.2, 0.02, 0.0], 0.2),
        layer("hidden2", [0.0, 0.45, 0.25, 0.22], 0.255),
    )
    body = {
        "format": 6,
        "kind": "table",
        "created": "2026-11-15T23:11:38+00:00",
        "dataset": "adult",
        "sensitive": ["gender"],
        "seed": 7,
        "certificate": None,
        "chat": None,
        "amounts": None,
        "counterparts": {"kind": "twins", "couplings": [], "both": None, "suggested": []},
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
            "origin": None,
            "outside": {"rows": 3665, "by_attribute": {"age": 3665}},
            "base_rates": [
                {
                    "attribute": "gender",
                    "rows": [
                        {
                            "name": "Female",
                            "people": 16192,
                            "labels": [
                                rate(14423, 16192, 0.886, 0.8956),
                                rate(1769, 16192, 0.1044, 0.114),
                            ],
                        },
                        {"name": "Other", "people": 3, "labels": []},
                    ],
                    "left_out": 2,
                }
            ],
        },
        "model": {
            "network": "DenseNetwork",
            "inputs": 3,
            "layers": [{"name": "hidden1", "neurons": 8}, {"name": "hidden2", "neurons": 4}],
            "outputs": 2,
            "parameters": 78,
            "trained_here": True,
            "decision": None,
            "majority": 0.7586,
            "constant": False,
            "kind": "",
            "why_black_box": "",
            "blind_to": [],
            "origin": None,
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
            "description": None,
            "variant": "revert",
            "people": "possible",
            "settings": {},
            "clusters": 4,
            "seeds_by": "scaled",
            "seeds": 1000,
            "global_iterations": 40,
            "local_iterations": 1000,
            "tried": 474380,
            "judged": 530112,
            "idis": 414449,
            "global_idis": 603,
            "local_idis": 413846,
            "gsr": 0.87366,
            "spread": 0.26699,
            "cells": 0.8523,
            "distance": 0.2143,
            "stopped": "complete",
            "refuted": None,
            "wall_seconds": 3.1358,
            "cpu_seconds": 3.1301,
            "wall_ms_per_1000_idis": 7.5662,
            "cpu_ms_per_1000_idis": 7.5524,
            "scores": {},
        },
        "dm_rs": rate(2261, 50000, 0.0434, 0.0471),
        "plausible": {
            "affected": rate(1000, 20000, 0.047, 0.0531),
            "records": 39073,
            "limit": 0.05,
            "resemblance": {
                "auc": 0.55,
                "compared": 5000,
                "distance": 0.28,
                "distance_of_held_out": 0.25,
            },
            "findings": None,
        },
        "no_plausible": "",
        "people": {
            **rate(4491, 48842, 0.0894, 0.0945),
            "values": [
                {"attribute": "gender", "value": "Female", **rate(622, 16192, 0.0355, 0.0415)},
                {"attribute": "gender", "value": "Male", **rate(3869, 32650, 0.1150, 0.1221)},
            ],
            "groups": [
                {"attribute": "education", "value": "Masters", **rate(564, 2657, 0.1969, 0.2283)}
            ],
            "absent": [],
            "advantages": [
                {"value": "Male", "share": 0.8594},
                {"value": "Female", "share": 0.1406},
            ],
            "no_counterpart": 0,
            "ties": rate(0, 48842, 0.0, 0.0000755),
            "groups_compared": 87,
            "rules": [
                rule("relationship Husband or Wife and age 40–59", 1482, 3935, 0.3559, 0.3977),
                rule("relationship Husband or Wife and age up to 39", 512, 7011, 0.0652, 0.0814),
                rule("relationship not Husband or Wife", 142, 13475, 0.0086, 0.0128),
            ],
            "severity": {
                "gap_median": measure(0.3123, 0.301, 0.3241, 4491),
                "gap_p90": measure(0.62, 0.6102, 0.6355, 4491),
                "decisions": [
                    {"decisions": 1, "people": 44351},
                    {"decisions": 2, "people": 4491},
                ],
            },
        },
        "fairness": fairness(),
        "weighted": [],
        "pairs": [pair(), pair()],
        "repair": None,
        "command": "fairprobe audit adult --sensitive gender",
    }
    return searched_by(body)


def searched_by(body: Document, **changes: Any) -> Document:
    """The same document after another search, with what its method says about itself."""
    found = body["generation"]
    found |= changes
    known = {each.name for each in fields(Generation)}
    generation = Generation(**{name: value for name, value in found.items() if name in known})
    method = METHODS.get(found["method"])
    noun = "model" if body["interpretation"] is None else "network"
    about = describe_method(method, generation, noun) if method else None
    found["description"] = None if about is None else to_dict(about)
    return body


def nothing_found() -> Document:
    body = document()
    body["dm_rs"] = rate(0, 50000, 0.0, 0.0000738)
    body["plausible"]["affected"] = rate(0, 20000, 0.0, 0.000184)
    values = [
        {"attribute": "gender", "value": value, **rate(0, 20000, 0.0, 0.00018)}
        for value in ("Female", "Male")
    ]
    body["people"] = {
        **rate(0, 48842, 0.0, 0.0000755),
        "values": values,
        "groups": [],
        "absent": [],
        "advantages": [],
        "no_counterpart": 0,
        "ties": rate(0, 48842, 0.0, 0.0000755),
        "groups_compared": 87,
        "rules": [],
        "severity": {
            "gap_median": measure(None, None, None, 0),
            "gap_p90": measure(None, None, None, 0),
            "decisions": [{"decisions": 1, "people": 48842}],
        },
    }
    body["generation"] |= {
        "idis": 0,
        "global_idis": 0,
        "local_idis": 0,
        "gsr": 0.0,
        "spread": None,
        "cells": None,
        "wall_ms_per_1000_idis": None,
        "cpu_ms_per_1000_idis": None,
    }
    inside = body["interpretation"]
    inside |= {
        "layers": [layer(each["name"], [0.0] * each["neurons"], 0.0) for each in inside["layers"]],
        "auc": 0.0,
    }
    inside["ablation"] |= {"before": 0.0, "biased_zeroed": 0.0, "random_zeroed": 0.0, "silenced": 0}
    return body | {"pairs": []}


def constant() -> Document:
    body = nothing_found()
    body["interpretation"] = document()["interpretation"]
    body["interpretation"]["ablation"] |= {
        "before": 0.0,
        "biased_zeroed": 0.0,
        "random_zeroed": 0.0,
    }
    body["model"]["constant"] = True
    rows = [selection_row("Female", 0, 3276, None), selection_row("Male", 0, 6493, None)]
    nobody = rate(0, 9769, 0.0, 0.0004)
    body["fairness"]["group"] = {
        "selected": nobody,
        "tables": [selection_table("gender", rows) | {"dp": measure(0.0, 0.0, 0.0)}],
    }
    body["fairness"]["quality"]["scores"]["f1"] = score("F1", measure(None, None, None))
    return body


def twins() -> Document:
    """Husbands and wives are twins, and three people have no counterpart."""
    body = document()
    body["counterparts"] = {
        "kind": "twins",
        "couplings": [
            {
                "attribute": "relationship",
                "sensitive": "gender",
                "roles": [{"Female": "Wife", "Male": "Husband"}],
                "source": "declared",
                "people": 22047,
                "crossed": 4,
            }
        ],
        "both": {
            "bare": rate(4491, 48842, 0.0894, 0.0945),
            "bare_coupled": rate(4180, 22047, 0.1844, 0.1949),
            "twins": rate(3151, 48842, 0.0624, 0.0667),
            "twins_coupled": rate(2840, 22047, 0.1243, 0.1335),
            "others": rate(311, 26795, 0.0104, 0.013),
            "affected_coupled": 0.9308,
            "others_of_everybody": 0.0064,
        },
        "suggested": [],
    }
    body["people"] |= rate(3151, 48842, 0.0624, 0.0667) | {"no_counterpart": 3}
    body["pairs"][0]["sensitive"]["relationship"] = ["Wife", "Husband"]
    return body


def bare_counterparts() -> Document:
    """The same schema, compared as the papers do."""
    body = twins() | {"pairs": document()["pairs"]}
    body["people"] = document()["people"] | {"no_counterpart": 1}
    body["counterparts"]["kind"] = "bare"
    body["counterparts"]["couplings"][0]["source"] = "mined"
    return body


def interrupted() -> Document:
    body = document()
    body["generation"]["stopped"] = "interrupted"
    return body


def multi_class() -> Document:
    body = document()
    body["data"] |= {
        "classes": ["low", "middle", "high"],
        "favourable": None,
        "base_rates": [],
    }
    body["people"]["advantages"] = []
    body["people"]["severity"]["decisions"] = [
        {"decisions": 1, "people": 44351},
        {"decisions": 2, "people": 4000},
        {"decisions": 3, "people": 491},
    ]
    body["fairness"] |= {"positive": None, "group": None}
    body["pairs"] = [pair() | {"label": "low", "label_other": "high", "favourable": None}]
    return body


def bare() -> Document:
    """The fields that may be missing or empty, without."""
    body = nothing_found() | {"command": ""}
    body["data"] |= {
        "about": "",
        "source": "",
        "licence": "",
        "citation": "",
        "outside": {"rows": 0, "by_attribute": {}},
        "base_rates": [],
    }
    body["model"]["trained_here"] = False
    body["data"]["favourable"] = None
    body["fairness"]["positive_assumed"] = True
    return body


def many_values() -> Document:
    """Two sensitive attributes with more combinations than a figure can show, and a network with
    more layers than can be told apart.
    """
    body = document()
    body["sensitive"] = ["gender", "age"]
    values = [f"Male, {age}" for age in range(60)]
    body["people"]["values"] = [
        {"attribute": "gender and age", "value": value, **rate(3, 100, 0.01, 0.08)}
        for value in values
    ]
    body["people"]["advantages"] = [
        {"value": value, "share": 1 - place / 60} for place, value in enumerate(values)
    ]
    body["people"]["absent"] = values[:1]
    held_out = body["fairness"]
    nobody = (values[0], ifr(None, None, None, 0))
    for which in ("b", "p"):
        groups = [nobody, *((value, ifr(0.9, 0.5, 0.99, 9)) for value in values[1:])]
        held_out["individual"][which] |= ifr(0.9, 0.89, 0.91, 600, groups)
    held_out["individual"]["left_out"] = 12
    both = [
        selection_row(values[0], 0, 0, None),
        *(selection_row(value, 2, 9, (0.9, 0.4, 1.3), is_small=True) for value in values[1:30]),
    ]
    both += [selection_row(value, 2, 300, (0.79, 0.7, 0.85)) for value in values[30:]]
    held_out["group"]["tables"] += [
        selection_table(
            "age",
            [
                selection_row("20–29", 100, 400, (0.5, 0.4, 0.6)),
                selection_row("30–39", 200, 400, (1.0, 1.0, 1.0)),
            ],
        ),
        selection_table("gender and age", both, unknown=12),
    ]
    inside = body["interpretation"]
    inside["layers"] += [layer(f"block{number}", [0.1] * 3, 0.5) for number in range(20)]
    inside["layers"].append(layer("large", [0.1] * 2000, 0.5))
    return body


def three_attributes() -> Document:
    """Three sensitive attributes: each alone, the pairs that are not too large, and all together;
    one pair is too large.
    """
    body = document()
    body["sensitive"] = ["gender", "race", "country"]
    two = [
        selection_row("a", 20, 100, (0.4, 0.3, 0.5)),
        selection_row("b", 50, 100, (1.0, 1.0, 1.0)),
    ]
    divided = (
        "race",
        "country",
        "gender and race",
        "gender and country",
        "gender and race and country",
    )
    body["fairness"]["group"]["tables"] += [
        selection_table(attribute, two) for attribute in divided
    ]
    return body


def black_box() -> Document:
    """A model that could only be asked, by a method that only asks."""
    body = document()
    body["model"] |= {
        "network": "RandomForestClassifier",
        "layers": [],
        "parameters": None,
        "trained_here": False,
    }
    body["interpretation"] = None
    searched_by(body, method="aequitas", variant="full", global_iterations=0)
    return body | {
        "command": "",
    }


def themis() -> Document:
    """A method that measures scores of its own."""
    body = black_box()
    scores = {
        "causal": 0.0453,
        "causal_low": 0.0437,
        "causal_high": 0.0469,
        "group": 0.123,
        "group_low": 0.1,
        "group_high": 0.15,
    }
    return searched_by(
        body,
        method="themis",
        variant="",
        settings={"error": 0.02},
        global_idis=body["generation"]["idis"],
        local_idis=0,
        local_iterations=0,
        scores=scores | {"confidence": 0.99, "error": 0.02, "draws": 131072},
    )


def without_pairs() -> Document:
    """Nobody held out has a counterpart."""
    body = document()
    for which in ("b", "p"):
        body["fairness"]["individual"][which] = ifr(
            None, None, None, 0, [("Female", ifr(None, None, None, 0))]
        )
    return body


def repaired() -> Document:
    return document() | {"repair": repair()}


def refused() -> Document:
    """A repair that did harm, and lost most of its controls and its curve."""
    body = repaired()
    proof = body["repair"]
    proof |= {
        "outcome": "refused",
        "accepted": False,
        "decision": decision(("The accuracy falls by 7.9 points; at most 1.5 are allowed.",)),
        "controls": {},
        "curve": [],
    }
    proof["after"] = measured(0.7612, 0.0461, 0.9101, None)
    proof["after"]["others"][0]["dm_rs"] = rate(2500, 10000, 0.245, 0.255)
    return body


def collapsed() -> Document:
    """A repair that left a network which decides nothing, kept although two reasons speak against
    it.
    """
    body = constant() | {"repair": repair()}
    proof = body["repair"]
    proof |= {
        "outcome": "refused",
        "forced": True,
        "decision": decision(("It gives everybody the same answer.", "IFR_b says nothing then.")),
    }
    for each in (proof["before"], *proof["controls"].values()):
        each["others"] = []
    proof["after"] = measured(0.7586, 0.0, 1.0, 1.0) | {
        "is_constant": True,
        "others": [],
        "auc": None,
    }
    proof["curve"] = [point(20, 0.7586, None, is_constant=True, is_chosen=True)]
    return body


KINDS: list[Callable[[], Document]] = [
    document,
    nothing_found,
    constant,
    twins,
    bare_counterparts,
    interrupted,
    multi_class,
    bare,
    many_values,
    three_attributes,
    black_box,
    themis,
    without_pairs,
    repaired,
    refused,
    collapsed,
]


@pytest.mark.parametrize("make", KINDS)
def test_documents_are_plain_data_and_valid(make: Callable[[], Document]) -> None:
    assert json.loads(json.dumps(make(), allow_nan=False)) == make()
    assert to_dict(typed(make())) == make()
