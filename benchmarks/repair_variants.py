"""Which weights to train, and with which labels: variants of the counterfactual repair on users'
own networks, those of `benchmarks.repairs`.

    python -m benchmarks.repair_variants            # about 10 minutes of one core

    all weights       the repair as it is
    blamed neurons    only the weights into the biased neurons of each layer, those that the
                      interpretation names
    200 rows          200 labelled people, 160 to train and 40 to stop by; possible people join as
                      always, because they need no label
    own answers       no labels: the network learns what it answered before, and the penalty
    blamed, own       both

Each with three seeds and λ = 20, on one split; of Adult 8,000 people are drawn. Accuracy is
about the people held out, with true labels; the rate is about everybody in the data.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

import fairprobe as fp
from benchmarks.repairs import TABLES, made
from fairprobe.datasets.base import Dataset, Split
from fairprobe.metrics.rates import affected_rate
from fairprobe.models import TorchModel, one_thread
from fairprobe.repairs import Counterfactual
from fairprobe.search.neuron_bias import neuron_bias

PAGE = Path("docs/results/repair-variants.md")
SEEDS, ROWS, STRENGTH, LABELLED = 3, 8_000, 20.0, 200


@dataclass(frozen=True)
class Variant:
    """What is trained, and by which labels."""

    name: str
    blamed: bool = False
    labelled: int | None = None
    own: bool = False


VARIANTS = (
    Variant("all weights"),
    Variant("blamed neurons", blamed=True),
    Variant("200 rows", labelled=LABELLED),
    Variant("own answers", own=True),
    Variant("blamed, own", blamed=True, own=True),
)


def main(*tables: str) -> None:
    lines = ["| table | variant | accuracy | people in the data |", "|---|---|---|---|"]
    for table in tables or ("compas", "adult"):
        data, model = opened(table)
        lines.append(_row(table, "as given", [measured(data, model)]))
        print(lines[-1], flush=True)
        for variant in VARIANTS:
            found = [measured(data, repaired(variant, data, model, seed)) for seed in range(SEEDS)]
            lines.append(_row(table, variant.name, found))
            print(lines[-1], flush=True)
    text = (__doc__ or "").split("\n\n", 2)
    PAGE.write_text(
        "# What to train in a repair\n\nMade by `python -m benchmarks.repair_variants`.\n\n"
        f"```text\n{text[2].strip()}\n```\n\n" + "\n".join(lines) + "\n"
    )


def opened(table: str) -> tuple[Dataset, TorchModel]:
    folder = made(table)
    data = fp.datasets.open_table(
        folder / "people.csv", label="label", sensitive=TABLES[table].split(",")
    ).with_counterparts("twins")
    if len(data) > ROWS:
        rows = np.random.default_rng(0).choice(len(data), ROWS, replace=False)
        data = replace(data, x=data.x[rows], y=data.y[rows])
    data = replace(data, parts=data.split(0))
    model = fp.load_model(folder / "network.skops", data)
    assert isinstance(model, TorchModel)
    return data, model


def measured(data: Dataset, model: TorchModel) -> tuple[float, float]:
    test = data.split().test
    with one_thread():
        people = affected_rate(data.domain, model, data.x[data.domain.comparable(data.x)])
        return float((model.labels(data.x[test]) == data.y[test]).mean()), people.estimate


def repaired(variant: Variant, data: Dataset, model: TorchModel, seed: int) -> TorchModel:
    split = data.split()
    if variant.labelled is not None:
        rows = np.random.default_rng(seed).choice(split.train, variant.labelled, replace=False)
        to_train = variant.labelled * 4 // 5
        few = Split(rows[:to_train], rows[to_train:], split.test)
        data = replace(data, parts=few)
    if variant.own:
        data = replace(data, y=model.probabilities(data.x).argmax(axis=1))
    given = TorchModel(copy.deepcopy(model.module), encoder=model.encoder, outputs="probabilities")
    if variant.blamed:
        _only_blamed(given, data)
    return Counterfactual(strength=STRENGTH)(given, data, seed=seed)


def _only_blamed(model: TorchModel, data: Dataset) -> None:
    """Behind each hidden layer's weights stands a mask: gradients of the others are 0."""
    bias = neuron_bias(data.domain, model, data.x[data.domain.comparable(data.x)])
    layers = [
        piece
        for piece in model.module.modules()
        if isinstance(piece, nn.Linear) and piece.weight.requires_grad
    ]
    for layer, found in zip(layers, [*bias.layers, None], strict=True):
        mask = torch.zeros(layer.out_features)
        if found is not None:
            mask[torch.from_numpy(found.biased)] = 1
        torch.nn.utils.parametrize.register_parametrization(layer, "weight", _Masked(mask[:, None]))
        torch.nn.utils.parametrize.register_parametrization(layer, "bias", _Masked(mask))


class _Masked(nn.Module):
    """Lets gradients through where the mask is 1."""

    mask: torch.Tensor

    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return weight * self.mask + weight.detach() * (1 - self.mask)


def _row(table: str, name: str, found: list[tuple[float, float]]) -> str:
    accuracy, people = np.array(found).T
    return f"| {table} | {name} | {_spread(accuracy)} | {_spread(people)} |"


def _spread(values: np.ndarray) -> str:
    text = f"{100 * values.mean():.2f} %"
    if len(values) > 1:
        text += f" ({100 * values.min():.2f} to {100 * values.max():.2f})"
    return text


if __name__ == "__main__":
    main(*sys.argv[1:])
