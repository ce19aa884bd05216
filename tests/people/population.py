"""An invented population: people with a few plain rules, so that what could exist is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.models import TorchModel
from fairprobe.schema.domain import Attribute, Constraint, Coupling, Domain
from tests.helpers import linear


def _worked_since_school(columns: Mapping[str, Rows]) -> Mask:
    return np.asarray(columns["work"] <= columns["age"] - 14)


def category(name: str, *words: str) -> Attribute:
    return Attribute(name=name, kind="categorical", categories=words)


DOMAIN = Domain(
    (
        Attribute(name="age", low=18, high=80),
        category("gender", "female", "male"),
        category("status", "single", "husband", "wife"),
        category("pregnant", "no", "yes"),
        Attribute(name="schooling", low=4, high=20),
        Attribute(name="work", low=0, high=66, missing=-1),
        category("region", *(f"region {number}" for number in range(30))),
        Attribute(name="income", kind="real", low=0, high=400),
    ),
    sensitive=("gender",),
    constraints=(Constraint("nobody works before 14", _worked_since_school),),
    couplings=(Coupling("status", "gender", ({"female": "wife", "male": "husband"},)),),
)
BARE = replace(DOMAIN, constraints=()).bare()
AGE, GENDER, STATUS, PREGNANT, SCHOOLING, WORK, REGION, INCOME = range(len(DOMAIN))


def draw_people(n: int, rng: np.random.Generator) -> Rows:
    """Husbands are men and wives are women; only women under 45 are pregnant; region, schooling,
    work and income depend on each other.
    """
    age = np.floor(18 + 63 * rng.beta(1.5, 2.5, n))
    male = rng.random(n) < 0.5
    married = rng.random(n) < np.clip((age - 18) / 30, 0, 0.7)
    pregnant = ~male & (age < 45) & (rng.random(n) < 0.2)
    region = np.floor(30 * rng.random(n) ** 1.5)
    schooling = np.clip(np.rint(rng.normal(14 - region / 6, 2)), 4, 20)
    work = np.floor((age - 14) * rng.beta(4, 1.5, n))
    income = 8 * schooling + 2 * work + 15 * male + rng.gamma(2, 8, n) - 30
    columns = (
        age,
        male,
        np.where(married, np.where(male, 1, 2), 0),
        pregnant,
        schooling,
        work,
        region,
        np.clip(np.rint(income), 0, 400),
    )
    return np.stack(columns, axis=1).astype(np.float32)


def labels_of(x: Rows) -> Ints:
    return (x[:, INCOME] > 130).astype(np.int64)


def table(x: Rows, domain: Domain = DOMAIN, *, name: str = "invented") -> Dataset:
    """A data set of these rows; only labels are made up where all would be equal."""
    y = labels_of(x) if len(domain) == len(DOMAIN) else np.arange(len(x)) % 2
    return Dataset(name, domain, x, y, ("poor", "rich"), favourable=1)


def model(weights: Mapping[str, float], cut: float, domain: Domain = DOMAIN) -> TorchModel:
    """A network with a hidden layer that answers "rich" exactly above `cut`: its first neuron sums
    the attributes by these weights, its second one is how far above the cut they are.
    """
    row = torch.zeros(1, len(domain))
    for name, weight in weights.items():
        row[0, domain.index(name)] = weight
    return TorchModel(
        nn.Sequential(
            linear(row, torch.zeros(1)),
            nn.ReLU(),
            linear(torch.tensor([[1.0], [-1.0]]), torch.tensor([-cut, cut])),
            nn.ReLU(),
            linear(torch.tensor([[0.0, 0.1], [0.1, 0.0]]), torch.zeros(2)),
        )
    )


def unfair(domain: Domain = DOMAIN) -> TorchModel:
    """Men get 20 for nothing: affected are those whose merit lies between 110 and 130."""
    merit = {"schooling": 5.0, "work": 1.0, "income": 0.25}
    return model({**merit, "gender": 20.0}, 130.1, domain)


def fair(domain: Domain = DOMAIN) -> TorchModel:
    """The same without looking at gender, or at what is coupled to it."""
    return model({"schooling": 5.0, "work": 1.0, "income": 0.25}, 120.1, domain)
