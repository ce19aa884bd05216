"""What the workers do for the IIFR paper's tables: train one of its models, and measure it on
people it has not seen.

A network that gives everybody the same answer has perfect scores and is worth nothing. Such a run
is rejected and begun again with other first weights; where all attempts end so, the result says so
and has no numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch

from fairprobe import networks
from fairprobe.arrays import Ints
from fairprobe.datasets import Dataset
from fairprobe.datasets.iifr import load_iifr
from fairprobe.metrics import accuracy, demographic_parity, equalized_odds, individual_fairness
from fairprobe.models import Encoder, Model, Scale, TorchModel
from fairprobe.networks import Training
from fairprobe.papers.jobs import Plain
from fairprobe.repairs import IIFR, Adversarial, Blind, Counterfactual, Repair, Retrain
from fairprobe.search import Budget

ATTEMPTS = 5
NEXT_ATTEMPT = (
    1000  # between the seeds of the first weights of two attempts, so that repeats do not meet
)
SHARED_LAYER = (60,)  # what the adversarial models have in the place of the recipe's layers
# of a counterfactual repair of a trained network; 5, 15 and 30 were compared on validation people
FURTHER_EPOCHS = 30
LOCAL_ITERATIONS = 50  # of EIDIG's search for a retraining


@dataclass(frozen=True)
class Recipe:
    """The paper's table 3. `raw` inputs and `kaiming` weights are ours, from what fits its
    figures.
    """

    hidden: tuple[int, ...]
    learning_rate: float
    batch: int
    epochs: int
    raw: bool = False
    kaiming: bool = False


RECIPES = {
    "adult": Recipe((30, 20, 15, 15, 10), 0.1, 256, 10),
    "compas": Recipe((30, 10, 5), 1.0, 128, 20, raw=True),
    "german": Recipe((50, 30, 15, 10, 5), 1.0, 30, 5, kaiming=True),
}

_load = lru_cache(maxsize=2)(load_iifr)


def fit(settings: Plain, inputs: Mapping[str, Plain]) -> Plain:
    """Trains the model that the settings name and measures it: on the test people, or on the
    validation people to choose a setting.
    """
    del inputs
    bench = Bench(settings)
    for attempt in range(ATTEMPTS):
        model = bench.trained(settings["model"], attempt)
        if not networks.is_constant(model, bench.data.x[bench.learnt]):
            return {
                "rejected": attempt,
                "collapsed": False,
                **measured(bench.data, model, bench.asked),
            }
    return {"rejected": ATTEMPTS, "collapsed": True}


class Bench:
    """The data of a job, divided, and how its models are made. Learns from the validation people
    too, unless they are the ones asked.
    """

    def __init__(self, settings: Plain) -> None:
        self.settings = settings
        self.data: Dataset = _load(settings["dataset"])
        self.recipe = RECIPES[settings["dataset"]]
        self.seed = settings["seed"] + settings["repeat"]
        split, choosing = self.data.split(self.seed), settings["asked"] == "validation"
        self.learnt: Ints = (
            split.train if choosing else np.concatenate([split.train, split.validation])
        )
        self.asked: Ints = split.validation if choosing else split.test
        self.training = Training(
            optimiser="adadelta",
            learning_rate=self.recipe.learning_rate,
            batch=self.recipe.batch,
            epochs=settings["epochs"] or self.recipe.epochs,
            patience=None,
            whole=not choosing,
        )

    def trained(self, name: str, attempt: int) -> TorchModel:
        """Fresh weights and the repair on them: "fine-tune" leaves the first weights as the recipe
        has drawn them.
        """
        base = name.partition("+")[0]
        given = self.fresh(
            SHARED_LAYER if base in ("alfr", "laftr", "cfair") else self.recipe.hidden, attempt
        )
        if name == "mlp+eidig" or self.settings["from_plain"]:
            given = self.repair("mlp")(given, self.data, seed=self.seed)
        return self.repair(name)(given, self.data, seed=self.seed)

    def fresh(self, hidden: tuple[int, ...], attempt: int) -> TorchModel:
        encoder = Encoder(self.data.domain)
        z = encoder(torch.from_numpy(self.data.x[self.learnt]))
        scale = (
            Scale(torch.zeros(encoder.width), torch.ones(encoder.width))
            if self.recipe.raw
            else Scale.standard(z)
        )
        weights = self.seed + attempt * NEXT_ATTEMPT
        network = networks.dense(
            self.data.domain, hidden, seed=weights, scale=scale, kaiming=self.recipe.kaiming
        )
        return TorchModel(
            network, encoder=None if encoder.is_identity else encoder, outputs="logits"
        )

    def repair(self, name: str) -> Repair:
        """What the paper calls this model, as a repair."""
        settings, training = self.settings, self.training
        base, _, addition = name.partition("+")
        if name == "mlp":
            return Counterfactual(strength=0, start="fine-tune", training=training)
        if name == "counterfactual":
            longer = (
                replace(training, epochs=FURTHER_EPOCHS) if settings["from_plain"] else training
            )
            return Counterfactual(strength=settings["strength"], start="fine-tune", training=longer)
        if name == "blind":
            return Blind(start="fine-tune", training=training)
        if addition == "eidig":
            budget = Budget(seeds=settings["seeds"], local_iterations=LOCAL_ITERATIONS)
            return Retrain(
                method="eidig",
                labels="vote",
                copies=False,
                real=1.0,
                budget=budget,
                start="fine-tune",
                training=training,
            )
        similar = IIFR(
            strength=settings["strength"],
            threshold=settings["threshold"],
            raw=self.recipe.raw,
            start="fine-tune",
            training=training,
        )
        if base == "mlp":
            return similar
        joined = similar if addition else None
        return Adversarial(
            kind=base,  # type: ignore[arg-type]
            speed=settings["speed"],
            iifr=joined,
            start="fine-tune",
            training=training,
        )


def measured(data: Dataset, model: Model, rows: Ints) -> Plain:
    """Accuracy and all fairness of a model on these people; class 1 is the positive one, as in the
    paper.
    """
    x, y = data.x[rows], data.y[rows]
    told, group = model.labels(x), data.domain.own_value(x)
    individual = individual_fairness(data.domain, model, x)
    within = {
        f"{key}_{name.lower()}": one.estimate
        for key, rate in (("ifr_b", individual.b), ("ifr_p", individual.p))
        for name, one in rate.groups
    }
    return {
        "accuracy": accuracy(y, told).estimate,
        "ifr_b": individual.b.estimate,
        "ifr_p": individual.p.estimate,
        "delta_dp": demographic_parity(y, told, sensitive_features=group).estimate,
        "delta_eo_0": equalized_odds(y, told, sensitive_features=group, given=0).estimate,
        "delta_eo_1": equalized_odds(y, told, sensitive_features=group, given=1).estimate,
        "positive_rate": float(told.mean()),
        **within,
    }
