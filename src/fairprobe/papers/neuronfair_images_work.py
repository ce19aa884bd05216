"""What the workers do for NeuronFair's tables 10 and 11: audit a face detector with all controls,
retrain it with each method's IDIs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.datasets.cache import FACES_AND_OTHERS, placed
from fairprobe.datasets.image_sets import open_images
from fairprobe.errors import DataError
from fairprobe.images import ImageAudit, audit
from fairprobe.images.measure import people
from fairprobe.images.repair import State, Task, fine_tuned, idi_pictures, measure
from fairprobe.papers.jobs import Plain
from fairprobe.papers.neuronfair_images import BEFORE, CONTROL, METHODS

Numbers = dict[str, dict[str, dict[str, float | None]]]  # measure, method, variant


def look(settings: Plain, inputs: Mapping[str, Plain]) -> Plain:
    """All numbers of both tables, for one attribute and one seed."""
    del inputs
    source = placed(FACES_AND_OTHERS)
    data = open_images(source, limit=settings["limit"])
    audited = audit(
        data,
        None,
        settings["sensitive"],
        faces=settings["faces"],
        seed=settings["seed"],
        repair=False,
    )
    if len(audited.seeds) == 0:
        raise DataError(
            f"Δ_sens flipped the {settings['sensitive']} of no face, so there was nothing to search"
            " from."
        )
    body = audited.to_dict()
    numbers: Numbers = {}
    _add(numbers, "detector", {"accuracy": body["detector"]["accuracy"]["estimate"]})
    for name in ("head", "independent"):
        _add(numbers, name, {"balanced": body["attribute"][name]["balanced_accuracy"]})
    for variant, change in ({"": body["change"]} | body["change"]["controls"]).items():
        _add(numbers, "change", {"flips": change["flips"]["estimate"]}, variant)
    for method in body["generation"]:
        _add(numbers, method["method"], {"milliseconds": method["ms_an_image"]})
        for variant, found in ({"": method} | method["controls"]).items():
            _add(numbers, method["method"], _generated(found, method["seeds"]), variant)
    for name, state in retrained(audited).items():
        _add(numbers, name, state)
    return {
        "source": source.name,
        "messages": body["messages"],
        "verdict": body["verdict"],
        "numbers": numbers,
    }


def retrained(audited: ImageAudit) -> dict[str, dict[str, float | None]]:
    """The detector as it was, after training on with the clean pictures of all seeds, and with each
    method's IDIs in their place.

    The measures that end in `_kept` are relative to the clean ones.
    """
    data, seeds, how = audited.data, audited.seeds, audited.settings
    known = people(data) & (data.attributes[audited.sensitive].codes >= 0)
    held_out = np.flatnonzero(known & data.held_out)
    some = np.random.default_rng(audited.seed).permutation(held_out)[: how.faces]
    task = Task(
        data,
        audited.sensitive,
        np.flatnonzero(known & ~data.held_out),
        np.sort(some),
        how.change,
        how.search("neuronfair"),
        how.by,
        audited.seed,
    )
    before = measure(audited.detector, task)
    states = {BEFORE: _state(before)}
    images, change = data.images[seeds], audited.change_of_seeds()
    more: dict[str, tuple[Any, Ints]] = {
        CONTROL: (np.concatenate([images, images]), np.tile(seeds, 2))
    }
    for method in METHODS:
        found = audited.findings[method]
        more[method] = (idi_pictures(images, change, found), np.tile(seeds[found.rows], 2))
    for name, (pictures, rows) in more.items():
        new = fine_tuned(audited.detector, data, pictures, data.y[rows], seed=audited.seed)
        states[name] = _state(measure(new, task, before=before))
    for method in METHODS:
        states[method] |= {
            f"{key}_kept": _ratio(states[method][key], states[CONTROL][key])
            for key in ("auc", "differing", "attack")
        }
    return states


def _generated(found: Plain, seeds: int) -> dict[str, float | None]:
    seen = found["seen_by_independent"]
    return {
        "gsr": found["gsr"],
        "idis": found["idis"],
        "at_seed": found["at_seed"] / seeds if seeds else None,
        "l2": found["l2"]["mean"] if found["l2"] else None,
        "seen": seen["estimate"] if seen else None,
    }


def _state(state: State) -> dict[str, float | None]:
    return {
        "auc": state.auc,
        "auc_noise": state.auc_random_signs,
        "detection_rate": state.detection_rate.estimate,
        "accuracy": state.accuracy.estimate,
        "differing": state.differing.estimate if state.differing.samples else None,
        "differing_faces": (
            state.differing_faces.estimate if state.differing_faces.samples else None
        ),
        "attack": float(state.l2.mean()) if len(state.l2) else None,
    }


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _add(
    numbers: Numbers, method: str, values: Mapping[str, float | None], variant: str = ""
) -> None:
    for measure_key, value in values.items():
        numbers.setdefault(measure_key, {}).setdefault(method, {})[variant] = value
