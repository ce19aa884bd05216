"""Repairs of models that answer with amounts: a planted effect goes, its price is measured, and
what cannot be repaired is refused.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from typer.testing import CliRunner, Result

import fairprobe as fp
from fairprobe import datasets, networks
from fairprobe.arrays import Rows
from fairprobe.cli import app
from fairprobe.datasets import Dataset
from fairprobe.errors import ModelError, SettingError
from fairprobe.measures import required
from fairprobe.models import Encoder, ScoreModel, Tolerance
from fairprobe.networks import Training
from fairprobe.repairs import any_repair_named, prove
from fairprobe.repairs.panel import Amounts
from fairprobe.runs.store import read_repairable_run
from fairprobe.table import subject
from fairprobe.table.audit import Audit
from tests.helpers import known
from tests.user_models import old_exporters

SMALL: dict[str, Any] = {
    "budget": fp.Budget(seeds=20, rows=3_000),
    "samples": 1_000,
    "people": "possible",
    "max_seeds": 4,
}
EFFECT, LEARNED, WITHIN = 400.0, 80.0, 40.0


@cache
def people(effect: float = 0.0, rows: int = 600, noise: float = 100.0) -> Dataset:
    """People whose amount depends on age and hours, and on their sex by an effect."""
    rng = np.random.default_rng(0)
    sex = rng.integers(2, size=rows)
    age, hours = rng.integers(20, 60, rows), rng.integers(10, 50, rows)
    limit = 20 * age + 10 * hours + effect * sex + rng.normal(0, noise, rows).round()
    words = np.array(["female", "male"])[sex]
    frame = pd.DataFrame({"sex": words, "age": age, "hours": hours, "limit": limit})
    return datasets.open_table(
        frame, label="limit", sensitive="sex", target="amount", name="limits"
    ).with_sensitive("sex")


@cache
def unfair() -> ScoreModel:
    """Answers with `EFFECT` more for the second sex."""
    data = people()
    place = {name: data.domain.index(name) for name in ("sex", "age", "hours")}

    def predict(x: Rows) -> Any:
        hours, sex = x[:, place["hours"]], x[:, place["sex"]]
        return 20.0 * x[:, place["age"]] + 10.0 * hours + EFFECT * sex

    return ScoreModel(predict)


@cache
def network() -> ScoreModel:
    """A network that learned the effect of its labels."""
    return subject.train_amounts(people(LEARNED, 1_200, 200.0))


@pytest.mark.slow
def test_an_effect_that_a_network_learned_is_removed_and_the_proof_accepts_it() -> None:
    data = people(LEARNED, 1_200, 200.0)
    model = network().within(Tolerance(WITHIN), data.x)
    how = any_repair_named("counterfactual", training=Training(batch=64))
    found, _ = prove(model, data, how, **{**SMALL, "curve": False})
    assert found.outcome == "accepted", (found.reasons, found.decision.doubts)
    before, after = known(found.before.change), known(found.after.change)
    assert before.mean.estimate == pytest.approx(LEARNED, rel=0.4)
    assert found.before.people.estimate > 0.5
    assert found.after.people.hits == 0
    assert known(after.mean.estimate) < 0.2 * LEARNED
    assert known(found.after.error) < known(found.before.error) + 0.04
    assert found.controls["retrained"].people.estimate > 0.5
    assert found.controls["random points"].people.estimate > 0.5
    blind = found.controls["blind"]
    assert (known(blind.change).largest, blind.people.hits, blind.dm_rs.hits, blind.idis) == (
        0,
        0,
        0,
        0,
    )


def test_the_average_over_counterparts_leaves_exactly_nothing() -> None:
    model = unfair().within(Tolerance(100), people().x)
    found, repaired = prove(model, people(), any_repair_named("average"), **SMALL)
    assert found.outcome == "accepted", found.reasons
    assert known(found.before.change).mean.estimate == pytest.approx(EFFECT)
    assert (known(found.after.change).largest, found.after.people.hits, found.after.idis) == (
        0,
        0,
        0,
    )
    assert found.after.dm_rs.hits == 0
    given = unfair().amounts(people().domain.counterparts(people().x[:5]).reshape(10, -1))
    assert isinstance(repaired, ScoreModel)
    np.testing.assert_allclose(
        repaired.amounts(people().x[:5]), given.reshape(5, 2).mean(axis=1), rtol=1e-6
    )


def test_errors_are_shares_of_that_of_always_answering_the_mean() -> None:
    data = people()
    assert data.amounts is not None
    rows = data.split(0).test
    target = Amounts(Tolerance(1), 1.0)
    mean = float(data.amounts[rows].mean())
    always = ScoreModel(lambda x: np.full(len(x), mean))
    assert target.errors(data, 0, always, rows).mean() == pytest.approx(1)
    off = np.abs(data.amounts[rows] - unfair().amounts(data.x[rows])).mean()
    around = np.abs(data.amounts[rows] - mean).mean()
    assert target.errors(data, 0, unfair(), rows).mean() == pytest.approx(off / around)


def test_a_network_that_ends_in_no_linear_layer_learns_behind_a_scale() -> None:
    data = people()
    assert data.amounts is not None
    rows, z = data.split(0).train, Encoder(data.domain)(torch.from_numpy(data.x[:50]))
    plain = nn.Sequential(nn.Linear(z.shape[1], 4), nn.ReLU(), nn.Linear(4, 1))
    scaled = nn.Sequential(nn.Linear(z.shape[1], 1), nn.Softplus())
    for network, is_itself in ((plain, True), (scaled, False)):
        before = network(z).detach()
        module = networks.to_learn(network, data.amounts, rows, z)
        mean, deviation = data.amounts[rows].mean(), data.amounts[rows].std()
        torch.testing.assert_close(
            module(z), ((before - mean) / deviation).float(), rtol=1e-4, atol=1e-4
        )
        assert (module is network) == is_itself
        again = networks.learned(module, data.amounts, rows)
        assert again is network
        torch.testing.assert_close(again(z), before, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("retrain", "needs classes"),
        ("thresholds", "Repair it with average"),
    ],
)
def test_a_repair_that_needs_classes_is_refused(how: str, says: str) -> None:
    with pytest.raises(SettingError, match=says):
        fp.repair(people(), network(), "sex", with_=how, **SMALL)
    with pytest.raises(SettingError, match="goals parity"):
        fp.repair(people(), network(), "sex", parity=1.0, **SMALL)
    with pytest.raises(SettingError, match="no class to decide on"):
        fp.repair(people(), network(), "sex", decision=fp.Decision(0.3), **SMALL)


def test_a_black_box_is_sent_to_the_average() -> None:
    black = ScoreModel(lambda x: x @ np.arange(x.shape[1]))
    with pytest.raises(ModelError, match="--with average"):
        fp.repair(people(), black, "sex", **SMALL)


class Limits(nn.Module):
    """A user's own network, which adds something for a sex."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.two(torch.relu(self.one(x)))
        return out


def own_network() -> Limits:
    """Trained on the amounts, on the numbers of `encoded`."""
    torch.manual_seed(0)
    data, network = people(LEARNED, 1_200, 200.0), Limits()
    assert data.amounts is not None
    x, y = torch.from_numpy(encoded(data.x)), torch.tensor(data.amounts).float()
    mean, deviation = y.mean(), y.std()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        ((network(x)[:, 0] - (y - mean) / deviation) ** 2).mean().backward()
        optimizer.step()
    with torch.no_grad():
        network.two.weight *= deviation
        network.two.bias.copy_(network.two.bias * deviation + mean)
    return network.eval()


def encoded(x: Rows) -> Rows:
    """What the user's network takes."""
    return np.asarray((x - [0, 40, 30]) / [1, 12, 12], dtype=np.float32)


def export(form: str, network: nn.Module, some: torch.Tensor, path: Path) -> None:
    """Write the network."""
    if form == "onnx":
        axes = {"x": {0: "n"}}
        torch.onnx.export(
            network, (some,), path, dynamo=False, dynamic_axes=axes, input_names=["x"]
        )
    else:
        rows = torch.export.Dim("rows", min=1)
        torch.export.save(torch.export.export(network, (some,), dynamic_shapes=({0: rows},)), path)


def audited(table: Path, out: Path, model: list[str]) -> Result:
    """The result of an audit from the command line."""
    command = ["audit", str(table), "--label", "limit", "--target", "amount", "--sensitive", "sex"]
    command += ["--tolerance", str(WITHIN), "--out", str(out), "--samples", "500", "--seeds", "20"]
    return CliRunner().invoke(app, [*command, "--quiet", *model])


@pytest.mark.slow
@pytest.mark.parametrize("form", ["onnx", "pt2"])
def test_a_network_of_amounts_is_repaired_from_the_command_line_in_the_format_it_came_in(
    form: str, tmp_path: Path
) -> None:
    data, network = people(LEARNED, 1_200, 200.0), own_network()
    table, some = tmp_path / "limits.csv", torch.zeros(2, 3)
    frame = data.words(data.x)
    frame["limit"] = data.amounts
    frame.to_csv(table, index=False)
    (tmp_path / "code.py").write_text(
        "import numpy as np\n\n\ndef encode(table):\n"
        "    sex = (table['sex'] == 'male').to_numpy(float)\n"
        "    rest = table[['age', 'hours']].to_numpy(float)\n"
        "    return np.column_stack([sex, (rest - [40, 30]) / 12]).astype('float32')\n"
    )
    model = tmp_path / f"m.{form}"
    with old_exporters():
        export(form, network, some, model)
    given = ["--model", str(model), "--encoder", f"{tmp_path / 'code.py'}:encode"]
    run = audited(table, tmp_path / "run", given)
    assert run.exit_code == 0, run.output
    command = ["repair", str(tmp_path / "run"), "--table", str(table), *given, "--no-curve"]
    command += ["--strength", "20", "--max-seeds", "4", "--samples", "500", "--out"]
    done = CliRunner().invoke(app, [*command, str(tmp_path / "fair")])
    assert done.exit_code == 0, done.output
    assert "Repair accepted" in done.output
    document = read_repairable_run(tmp_path / "fair")
    repair = document.repair
    assert repair is not None
    assert repair.before.people.estimate > 0.9
    assert document.people.estimate < 0.05
    assert (tmp_path / "fair" / "model" / model.name).exists()
    again = CliRunner().invoke(app, ["show", str(tmp_path / "fair")])
    assert "the mean error on people held out" in again.output
    named = ["--model", str(tmp_path / "fair" / "model" / model.name), *given[2:]]
    second = audited(table, tmp_path / "second", named)
    assert second.exit_code == 0, second.output
    fresh = read_repairable_run(tmp_path / "second")
    assert fresh.people == document.people


@pytest.mark.slow
def test_a_repaired_run_is_saved_read_and_shown(tmp_path: Path) -> None:
    small = {**SMALL, "max_seeds": 2}
    done = fp.repair(people(), network(), "sex", tolerance=10, force=True, **small)
    assert isinstance(done, Audit)
    done.save(tmp_path / "fair")
    document = read_repairable_run(tmp_path / "fair")
    assert document == done.document
    repair = document.repair
    assert repair is not None
    assert repair.accepted
    page = (tmp_path / "fair" / "report.html").read_text()
    assert "What the repair did" in page
    assert len(repair.curve) > 3
    assert "The trade-off" in page
    assert (tmp_path / "fair" / "model").is_dir()
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "fair")]).output
    assert "ccepted" in shown
    assert "mean error" in shown


def test_a_black_box_of_amounts_is_written_with_its_average_as_a_function(tmp_path: Path) -> None:
    table, data = tmp_path / "limits.csv", people()
    frame = data.words(data.x)
    frame["limit"] = data.amounts
    frame.to_csv(table, index=False)
    (tmp_path / "code.py").write_text(
        "import pandas as pd\n\n\ndef predict(table: pd.DataFrame):\n"
        "    return 20 * table['age'] + 10 * table['hours'] + 400 * (table['sex'] == 'male')\n"
    )
    model = ["--model", f"{tmp_path / 'code.py'}:predict"]
    assert audited(table, tmp_path / "run", model).exit_code == 0
    command = ["repair", str(tmp_path / "run"), "--table", str(table), *model, "--with", "average"]
    done = CliRunner().invoke(app, [*command, "--samples", "500", "--out", str(tmp_path / "fair")])
    assert done.exit_code == 0, done.output
    document = read_repairable_run(tmp_path / "fair")
    assert (document.people.hits, required(document.amounts).change.largest) == (0, 0)
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["show", str(tmp_path / "fair")]).output
    assert "by more than the tolerance" in shown
    assert "…" not in shown  # no number is cut
    file = tmp_path / "fair" / "model" / "repaired.py"
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    found = space["predict"](frame.drop(columns="limit")[:3])
    np.testing.assert_allclose(found, 20 * frame["age"][:3] + 10 * frame["hours"][:3] + 200)
