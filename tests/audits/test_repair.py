"""`fp.repair`: from data and a network to a repaired network, its proof and its audit."""

from __future__ import annotations

import numpy as np
import pytest

import fairprobe as fp
from fairprobe.errors import ModelError, SettingError
from fairprobe.models import Model
from fairprobe.networks import Training, dense, train
from fairprobe.repairs import Counterfactual
from tests.repairs.test_repairs import biased_data

TINY = fp.Budget(seeds=10, local_iterations=10)
SHORT = Training(learning_rate=0.02, batch=64, epochs=3, patience=None)


def test_repair_returns_the_audit_of_the_repaired_network_with_the_proof() -> None:
    data = biased_data(300)
    network = dense(data.domain, (6,))
    model = train(network, data, training=SHORT, seed=4)
    done = fp.repair(
        data,
        model,
        sensitive="gender",
        with_="blind",
        training=SHORT,
        curve=False,
        budget=TINY,
        samples=300,
        max_seeds=2,
    )
    assert done.repair is not None
    assert done.repair.repair.name == "blind"
    assert done.model is done.repair.model is not model
    assert done.seed == 4  # the network knows the seed that it was trained with
    assert done.repair.after.dm_rs.hits == done.dm_rs.hits == 0
    assert done.repair.accepted == (done.repair.outcome == "accepted")
    assert done.to_dict()["repair"]["name"] == "blind"


def test_a_strength_that_is_given_is_not_chosen_and_a_repair_may_be_an_object() -> None:
    data = biased_data(300)
    model = train(dense(data.domain, (6,)), data, training=SHORT)
    repair = Counterfactual(training=SHORT)
    done = fp.repair(
        data,
        model,
        "gender",
        with_=repair,
        strength=3.0,
        curve=False,
        budget=TINY,
        samples=300,
        max_seeds=2,
    )
    assert done.repair is not None
    assert done.repair.repair.dial_at == 3


def test_what_cannot_be_repaired_is_refused_with_a_sentence() -> None:
    data = biased_data(100)
    model = train(dense(data.domain, (6,)), data, training=SHORT)
    with pytest.raises(ModelError, match="Only a network can be repaired"):
        fp.repair(data, Model(lambda x: np.full(len(x), 0.5)), "gender")
    with pytest.raises(SettingError, match=r"no repair 'bland'. Did you mean 'blind'"):
        fp.repair(data, model, "gender", with_="bland")
    with pytest.raises(SettingError, match="'blind' has no strength"):
        fp.repair(data, model, "gender", with_="blind", strength=1)
    with pytest.raises(SettingError, match=r"Settings \(threshold\) go with a repair's name"):
        fp.repair(data, model, "gender", with_=Counterfactual(), threshold=0.5)
