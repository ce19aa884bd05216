"""What the workers do for the tables of repair: train a network again with what a method found, and
measure it.
"""

from __future__ import annotations

from dataclasses import replace

from fairprobe.interpret import neuron_bias
from fairprobe.metrics import accuracy, dm_rs, individual_fairness
from fairprobe.models import TorchModel, one_thread
from fairprobe.networks import Examples, is_constant
from fairprobe.papers.jobs import Plain
from fairprobe.papers.work import Inputs, Scene
from fairprobe.repairs.base import ATTEMPTS, initial_network, learn
from fairprobe.repairs.points import random_points
from fairprobe.repairs.retrain import Retrain


def before(settings: Plain, inputs: Inputs) -> Plain:
    """The network as it is."""
    scene = Scene.of(settings, inputs)
    return _measured(scene, scene.model)


def retrained(settings: Plain, inputs: Inputs) -> Plain:
    """The network trained afresh with a share of the IDIs that a method finds, as the paper does
    it.
    """
    scene = Scene.of(settings, inputs)
    method, variant = settings["method"], settings["variant"]
    repair = Retrain(
        method=method, variant=variant or None, share=settings["share"], budget=scene.budget()
    )
    more = repair.examples(
        scene.model, scene.data, seed=settings["seed"], rng=scene.rng("repair", method, variant)
    )
    return {"added": len(more.y), **_measured(scene, _learnt(scene, more))}


def retrained_without(settings: Plain, inputs: Inputs) -> Plain:
    """The control: the same training, nothing added."""
    scene = Scene.of(settings, inputs)
    return {"added": 0, **_measured(scene, _learnt(scene, None))}


def retrained_with_random_points(settings: Plain, inputs: Inputs) -> Plain:
    """The control: as many rows added as the repair that is its input had, of possible people who
    are no IDIs.
    """
    scene = Scene.of(settings, inputs)
    rows = next(result["added"] for result in inputs.values() if "added" in result)
    more = random_points(scene.domain, scene.model, rows, rng=scene.rng("random points"))
    return {"added": len(more.y), **_measured(scene, _learnt(scene, more))}


def _learnt(scene: Scene, more: Examples | None) -> TorchModel:
    """Trained on the same rows as the network before. The first weights are those of the repeat,
    unless it dies of them.
    """
    given, data, seed = scene.model, scene.data, scene.settings["seed"]
    first = seed + 1 + scene.settings["repeat"]  # never the seed of the network before
    for attempt in range(ATTEMPTS):
        model = learn(
            Retrain(),
            initial_network(given, "scratch", first + 1000 * attempt),
            given,
            data,
            seed=seed,
            progress=None,
            more=more,
        )
        if not is_constant(model, data.x[data.split(seed).train]):
            break
    return model


def _measured(scene: Scene, model: TorchModel) -> Plain:
    """On possible people, the same for all networks of a subject; on the people held out; and
    inside.
    """
    data, domain = scene.data, scene.domain
    test = data.split(scene.settings["seed"]).test
    others = [name for name in data.protected if name not in domain.sensitive]
    with one_thread():
        bias = neuron_bias(domain, model, data.x[domain.comparable(data.x)])
        return {
            "dm_rs": _dm_rs(scene, model, scene.settings["sensitive"]),
            "others": {name: _dm_rs(scene, model, name) for name in others},
            "accuracy": accuracy(data.y[test], model.labels(data.x[test])).estimate,
            "ifr_b": individual_fairness(domain, model, data.x[test]).b.estimate,
            "auc": bias.auc,
            "auc_scale_free": max(layer.auc_scale_free for layer in bias.layers),
            "is_constant": is_constant(model, data.x[test]),
        }


def _dm_rs(scene: Scene, model: TorchModel, attribute: str) -> float:
    first = replace(scene, settings=scene.settings | {"repeat": 0})
    domain = scene.data.with_sensitive(attribute).domain
    return dm_rs(
        domain,
        model,
        rng=first.rng("possible people", attribute),
        samples=scene.settings["samples"],
    ).estimate
