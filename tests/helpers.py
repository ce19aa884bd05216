"""What the tests share: tiny domains and networks whose answers can be worked out by hand, and the
reference census network.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import settings
from torch import Tensor, nn

from fairprobe.arrays import Ints, Rows
from fairprobe.datasets import Dataset
from fairprobe.documents.table import TableRun
from fairprobe.models import Model, TorchModel, load_model
from fairprobe.results import from_dict, to_dict
from fairprobe.runs.reopen import reopen
from fairprobe.runs.store import read_table_run
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search import METHODS

T = TypeVar("T")

# Property tests try the same examples in every run, however slow the machine.
settings.register_profile("fairprobe", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("fairprobe")

torch.set_num_threads(
    1
)  # the cores are shared by processes that test; threads on tiny networks would wait for each other

# fairprobe's own methods that can search among possible people (the others: tests/people), their
# variants, and which look inside a network.
VARIANTS = {
    name: tuple(METHODS[name].variants) for name in METHODS.own if not METHODS[name].needs_people
}
WHITE_BOX_METHODS = [name for name in VARIANTS if METHODS[name].needs_gradients]
BLACK_BOX_METHODS = [name for name in VARIANTS if not METHODS[name].needs_gradients]

CENSUS_BOUNDS = {
    "age": (1, 9),
    "workclass": (0, 7),
    "fnlwgt": (0, 39),
    "education": (0, 15),
    "marital": (0, 6),
    "occupation": (0, 13),
    "relationship": (0, 5),
    "race": (0, 4),
    "gender": (0, 1),
    "gain": (0, 99),
    "loss": (0, 39),
    "hours": (0, 99),
    "country": (0, 39),
}


# -- the reference census network (METHODS.md) -----------------------------------------------------


def read_document(folder: Path | str) -> dict[str, Any]:
    """The document of an audit of a table, as plain data."""
    return to_dict(read_table_run(folder))


def reopened(folder: Path | str) -> tuple[Dataset, Model]:
    """The data and the model of a run, opened by somebody who names what the run names."""
    document = read_table_run(folder)
    table, model = document.data.origin, document.model.origin
    return reopen(
        folder,
        table=None if table is None else table.path,
        model=None
        if model is None
        else lambda data: load_model(model.source, data, **model.arguments()),
    )


def typed(body: dict[str, Any]) -> TableRun:
    """The document of an audit of a table, which tests alter as plain data."""
    return from_dict(body, TableRun)


def assets() -> Path:
    """The folder of reference files that FAIRPROBE_ASSETS names; without it the test is skipped."""
    folder = os.environ.get("FAIRPROBE_ASSETS")
    if not folder:
        pytest.skip(
            "compares with reference files that are not in the repository: set FAIRPROBE_ASSETS to"
            " their folder"
        )
    return Path(folder)


def census_domain(*sensitive: str) -> Domain:
    """The thirteen census attributes with the bounds of METHODS.md; gender is sensitive unless
    others are named.
    """
    attributes = tuple(
        Attribute(name=name, low=low, high=high) for name, (low, high) in CENSUS_BOUNDS.items()
    )
    return Domain(attributes, sensitive=sensitive or ("gender",))


def census_network() -> TorchModel:
    """The trained 13-64-32-16-8-4-2 network; its hidden layers are called hidden1 … hidden5."""
    with np.load(assets() / "census_reference_net.npz") as file:
        weights = {name: torch.from_numpy(file[name].astype(np.float32)) for name in file.files}
    pieces: OrderedDict[str, nn.Module] = OrderedDict()
    for number in range(6):
        w, b = weights[f"W{number}"], weights[f"b{number}"]
        pieces[f"linear{number + 1}"] = linear(w.T.contiguous(), b)
        if number < 5:
            pieces[f"hidden{number + 1}"] = nn.ReLU()
    return TorchModel(nn.Sequential(pieces), outputs="logits")


def census_rows() -> tuple[Rows, Ints]:
    """The census rows as they are (2,427 lie outside the bounds) and their labels."""
    table = pd.read_csv(assets() / "adf_census.csv.gz").to_numpy()
    return table[:, :-1].astype(np.float32), table[:, -1].astype(np.int64)


# -- reports without drawings ----------------------------------------------------------------------


def known(value: T | None) -> T:
    """A value that is there."""
    assert value is not None
    return value


# -- small things ----------------------------------------------------------------------------------


def tiny_domain(*sensitive: str) -> Domain:
    """skill 0–9, effort 1–5, gender (female, male), race (three): 300 people; gender is sensitive
    unless others are named.
    """
    return Domain(
        (
            Attribute(name="skill", low=0, high=9),
            Attribute(name="gender", kind="categorical", categories=("female", "male")),
            Attribute(name="effort", low=1, high=5),
            Attribute(name="race", kind="categorical", categories=("a", "b", "c")),
        ),
        sensitive=sensitive or ("gender",),
    )


def everybody(domain: Domain) -> Rows:
    """Every row of a small domain of whole numbers, the last attribute running fastest."""
    axes = [
        np.arange(attribute.low, attribute.high + 1, dtype=np.float32)
        for attribute in domain.attributes
    ]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def linear(weight: Tensor, bias: Tensor) -> nn.Linear:
    """A linear layer with these numbers: weight (out, in), bias (out,)."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    return layer


def merit(domain: Domain, x: Rows) -> Rows:
    """What a `planted` network rewards: how far all attributes that are not sensitive lie above
    their lower bounds, summed.
    """
    columns = domain.other_columns
    total: Rows = (x[:, columns] - domain.low[columns]).sum(axis=1)
    return total


def planted(domain: Domain, *, bias: float = 2.0, cut: float | None = None) -> nn.Sequential:
    """A network with a bias by design: class 1 exactly when merit + bias · (sensitive codes above
    their lower bounds) > cut.

    `merit` is the function above, `cut` half of the greatest merit, plus a quarter, unless given
    (with whole codes and bias there are no ties). So for one sensitive attribute of two values a
    row is discriminatory exactly when cut − bias < merit < cut.

        hidden1     neuron 0: merit; neuron 1: bias · sensitive, the only one of this layer that
                    knows the sensitive attributes
        hidden2     neuron 0: how far the score lies above the cut; neuron 1: how far below
        output      logits (below, above)
    """
    offset = torch.from_numpy(domain.low)
    weight = torch.zeros(2, len(domain))
    weight[0, torch.from_numpy(domain.other_columns)] = 1
    weight[1, torch.from_numpy(domain.sensitive_columns)] = bias
    if cut is None:
        cut = float(merit(domain, domain.high[None])[0] // 2 + 0.25)
    return nn.Sequential(
        OrderedDict(
            linear1=linear(weight, -weight @ offset),
            hidden1=nn.ReLU(),
            linear2=linear(torch.tensor([[1.0, 1.0], [-1.0, -1.0]]), torch.tensor([-cut, cut])),
            hidden2=nn.ReLU(),
            output=linear(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.zeros(2)),
        )
    )


def blind(domain: Domain, *, hidden: tuple[int, ...] = (8, 4), seed: int = 0) -> nn.Sequential:
    """A network with random weights that never looks at the sensitive attributes; about half of the
    domain gets each label.
    """
    rng = np.random.default_rng(seed)
    pieces: OrderedDict[str, nn.Module] = OrderedDict()
    widths = [len(domain), *hidden, 2]
    for number in range(len(hidden) + 1):
        weight = rng.normal(size=(widths[number + 1], widths[number])) / np.sqrt(widths[number])
        if number == 0:
            weight /= np.maximum(domain.high - domain.low, 1)
            weight[:, domain.sensitive_columns] = 0
        shift = rng.normal(size=widths[number + 1]) / 4
        name = f"linear{number + 1}" if number < len(hidden) else "output"
        pieces[name] = linear(
            torch.from_numpy(weight.astype(np.float32)), torch.from_numpy(shift.astype(np.float32))
        )
        if number < len(hidden):
            pieces[f"hidden{number + 1}"] = nn.ReLU()
    network = nn.Sequential(pieces)
    with torch.no_grad():
        score = network(torch.from_numpy(domain.sample(1000, rng=rng))).numpy()
        output = network[-1]
        assert isinstance(output, nn.Linear)
        output.bias[1] -= float(np.median(score[:, 1] - score[:, 0]))
    return network
