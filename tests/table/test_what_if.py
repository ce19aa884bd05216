"""One person, looked at closely, compared with trying everything."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from fairprobe.arrays import Floats, Rows
from fairprobe.judgement import judge
from fairprobe.models import Model, TorchModel
from fairprobe.schema.attributes import Constraint
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.table.what_if import ask, reactions, sensitive_answers, shortest_flip
from tests.helpers import blind, everybody, planted, tiny_domain


def test_the_answers_over_all_values_are_those_of_the_judge() -> None:
    domain = tiny_domain("gender", "race")
    model = TorchModel(planted(domain))
    for row in everybody(domain)[::17]:
        answers, allowed = sensitive_answers(domain, model, row)
        verdict = judge(domain, model, row[None])
        assert allowed.all()
        assert (len(set(answers.labels.tolist())) > 1) == verdict.is_discriminatory[0]
        own = answers.labels[domain.own_value(row[None])[0]]
        assert own == verdict.label[0] == ask(model, row[None]).labels[0]


def test_only_the_neuron_that_knows_the_attribute_reacts_in_the_first_layer() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain, bias=2.0))
    row, other = everybody(domain)[[40, 40]].copy()
    other[1] = 1 - other[1]
    found = reactions(model, row, other)
    assert found["hidden1"].tolist() == [0.0, 2.0]
    assert all(not each.any() for each in reactions(model, row, row).values())


def test_a_network_that_does_not_know_the_attribute_does_not_react() -> None:
    domain = tiny_domain()
    row = everybody(domain)[7]
    other = row.copy()
    other[1] = 1 - other[1]
    found = reactions(TorchModel(blind(domain)), row, other)
    assert all(not each.any() for each in found.values())


def steps(domain: Domain, row: Rows, rows: Rows) -> Floats:
    """How far rows are from one, worked out by hand: a share of the range, 1 for a category."""
    total = np.zeros(len(rows))
    for column, attribute in enumerate(domain.attributes):
        apart = np.abs(rows[:, column] - row[column])
        is_category = attribute.kind == "categorical"
        total += apart > 0 if is_category else apart / (attribute.high - attribute.low)
    return total


@pytest.mark.parametrize("sensitive", [("gender",), ("gender", "race")])
def test_the_shortest_flip_is_that_of_trying_everybody(sensitive: tuple[str, ...]) -> None:
    domain = tiny_domain(*sensitive)
    model = TorchModel(planted(domain, bias=3.0))
    every = everybody(domain)
    labels = ask(model, every).labels
    columns = domain.sensitive_columns
    for number in range(0, len(every), 7):
        row, found = every[number], shortest_flip(domain, model, every[number])
        changed = (every != row).sum(axis=1)
        fits = (labels != labels[number]) & (every[:, columns] == row[columns]).all(axis=1)
        fits &= changed <= 2
        if not fits.any():
            assert found is None
            continue
        assert found is not None
        fewest = changed[fits].min()
        nearest = steps(domain, row, every[fits & (changed == fewest)]).min()
        assert len(found.changed) == fewest
        assert steps(domain, row, found.x[None])[0] == pytest.approx(nearest)
        assert found.label != labels[number] == ask(model, row[None]).labels[0]
        assert not set(found.changed) & set(sensitive)


def test_a_number_is_moved_no_farther_than_needed() -> None:
    """Of a million values a few hundred are tried; the last step goes back to the boundary."""
    domain = Domain(
        (
            Attribute(name="gain", low=0, high=1_000_000),
            Attribute(name="share", kind="real", low=0.0, high=1.0),
            Attribute(name="gender", kind="categorical", categories=("f", "m")),
        ),
        sensitive=("gender",),
    )
    model = Model(lambda x: expit((x[:, 0] - 123_456.5) / 10))
    found = shortest_flip(domain, model, np.array([0, 0.5, 0], dtype=np.float32))
    assert found is not None
    assert found.changed == ("gain",)
    assert found.x[0] == 123_457
    real = Model(lambda x: expit((x[:, 1] - 0.7312) * 1e4))
    found = shortest_flip(domain, real, np.array([0, 0.5, 0], dtype=np.float32))
    assert found is not None
    assert found.x[1] == pytest.approx(0.7312, abs=1e-4)


def test_changes_obey_the_rules_of_the_schema() -> None:
    domain = Domain(
        tiny_domain().attributes,
        ("gender",),
        (Constraint("skill at most effort", lambda x: x["skill"] <= x["effort"]),),
    )
    model = Model(lambda x: (x[:, 0] > 2.5) * 0.8 + 0.1)
    row = np.array([1, 0, 2, 0], dtype=np.float32)
    found = shortest_flip(domain, model, row)
    assert found is not None
    assert set(found.changed) == {"skill", "effort"}
    assert found.x[0] == 3
    assert found.x[2] == 3


def test_a_constant_model_cannot_be_flipped_and_a_tie_is_no_flip() -> None:
    domain, row = tiny_domain(), everybody(tiny_domain())[0]
    assert shortest_flip(domain, Model(lambda x: np.full(len(x), 0.9)), row) is None
    nearly = Model(lambda x: np.where(x[:, 0] > 4, 0.5 + 1e-6, 0.2))
    assert shortest_flip(domain, nearly, row) is None
