"""`fp.repair`: from data and a network to a repaired network, its proof and its audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fairprobe as fp
from fairprobe.errors import ModelError, SettingError
from fairprobe.measures import required
from fairprobe.models import Model
from fairprobe.networks import Training, dense, train
from fairprobe.repairs import Counterfactual
from fairprobe.repairs.panel import Classes, Panel, Workshop
from fairprobe.table.audit import Audit
from fairprobe.table.repair import repair_run
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
    assert done.repair.name == "blind"
    assert done.model is not model
    assert done.run.seed == 4  # the network knows the seed that it was trained with
    assert done.repair.after.dm_rs.hits == done.run.dm_rs.hits == 0
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
    assert done.repair.dial.value == 3


def own_table(folder: Path) -> fp.Dataset:
    data = biased_data(300)
    frame = data.words(data.x)
    frame["y"] = data.y
    frame.to_csv(folder / "people.csv", index=False)
    return fp.datasets.open_table(folder / "people.csv", label="y", sensitive="gender")


@pytest.mark.parametrize(
    ("method", "variant", "settings", "tau"),
    [
        ("neuronfair", "paper", {"step": 2, "mu": 0.2}, (0.001, 0.02)),
        ("aequitas", "semi", {"global_iterations": 0, "learning": 0.25}, 0.01),
    ],
)
def test_a_repaired_run_is_searched_and_measured_as_the_run_was(
    tmp_path: Path,
    method: str,
    variant: str,
    settings: dict[str, object],
    tau: float | tuple[float, ...],
) -> None:
    data = own_table(tmp_path)
    model = train(dense(data.domain, (6,)), data, training=SHORT)
    run = fp.audit(
        data,
        model,
        "gender",
        method=method,
        variant=variant,
        settings=settings,
        budget=TINY,
        samples=300,
        tau=tau,
        pairs="single",
    )
    run.save(tmp_path / "run")
    repaired = repair_run(
        tmp_path / "run",
        Counterfactual(training=SHORT),
        table=tmp_path / "people.csv",
        curve=False,
        samples=300,
        max_seeds=2,
    )
    assert isinstance(repaired, Audit)
    before, after = run.document, repaired.document
    assert after.generation.settings == before.generation.settings != {}
    for name in ("variant", "seeds", "global_iterations", "local_iterations", "clusters"):
        assert getattr(after.generation, name) == getattr(before.generation, name)
    was, now = required(before.fairness).individual, required(after.fairness).individual
    assert (now.over, now.tau) == (was.over, was.tau)
    assert now.over == "single"
    assert [each.tau for each in now.by_tau] == [each.tau for each in was.by_tau]
    assert repaired.repair is not None
    network = repaired.model
    target = Classes(tau, "single")
    held_out = target.measure(repaired.data, 0, network, data.split(0).test)
    assert repaired.repair.after.ifr_p == held_out["ifr_p"]


def test_iterations_among_the_settings_replace_those_of_the_proofs_own_budget() -> None:
    panel = Panel(biased_data(100), 0, None)
    budget = fp.Budget(seeds=5, local_iterations=200, clusters=3)
    settings = {"local_iterations": "7", "μ": 0.5}
    workshop = Workshop(panel, lambda *_: None, "neuronfair", None, budget, 9, settings)
    own, left = workshop._settled()
    assert own == {"local_iterations": 7, "global_momentum": 0.5, "local_momentum": 0.5}
    assert left == fp.Budget(seeds=5, clusters=3)
    assert replace(workshop, settings={})._settled() == ({}, budget)


def test_amounts_have_no_individual_fairness_rates_to_be_measured_otherwise(
    tmp_path: Path,
) -> None:
    own_table(tmp_path)
    amounts = fp.datasets.open_table(
        tmp_path / "people.csv", label="y", sensitive="gender", target="amount"
    )
    with pytest.raises(SettingError, match=r"'y' is an amount. Leave them out"):
        fp.repair(amounts, fp.load_model(lambda x: np.ones(len(x)), amounts), "gender", tau=0.1)


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
