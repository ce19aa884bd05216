"""Post-hoc repairs of models from files, as files: what is written answers as what was proven."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

import fairprobe as fp
from fairprobe.datasets.base import Dataset
from fairprobe.errors import FairprobeError, ModelError, SettingError
from fairprobe.measures import required
from fairprobe.metrics.quality import accuracy
from fairprobe.metrics.rates import affected_rate
from fairprobe.models import Model
from fairprobe.models.formats.skops_file import load_skops
from fairprobe.repairs import POST_HOC, Proof, any_repair_named, prove
from fairprobe.repairs.onnx_graph import HANDED_OVER
from fairprobe.repairs.plans import Plan
from fairprobe.repairs.wrappers import fitted_classifier
from fairprobe.repairs.written import WrittenModel, write
from fairprobe.schema.twins import Coupling
from fairprobe.search import Budget
from tests.cli.test_cli import ask as run
from tests.model_files import dense, write_onnx

skops = pytest.importorskip("skops.io")
LITTLE: dict[str, Any] = {
    "budget": Budget(seeds=3, local_iterations=3),
    "samples": 300,
    "method": "random",
    "people": "possible",
    "force": True,
    "seed": 0,
}
SMALLEST: dict[str, Any] = {"samples": 50, "budget": Budget(seeds=1, local_iterations=1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of words with gaps, and models that were trained on it."""
    place = tmp_path_factory.mktemp("models")
    rng, n = np.random.default_rng(0), 700
    people = pd.DataFrame(
        {
            "sex": rng.choice(["Female", "Male"], n),
            "role": "Single",
            "skill": rng.integers(0, 50, n),
            "city": rng.choice(["north", "south"], n),
        }
    )
    married = rng.random(n) < 0.5
    people.loc[married, "role"] = np.where(people["sex"] == "Male", "Husband", "Wife")[married]
    score = people["skill"] / 10 + (people["sex"] == "Male") + rng.normal(size=n)
    people["hired"] = np.where(score > 3, "yes", "no")
    people.to_csv(place / "people.csv", index=False)
    x, y = people.drop(columns="hired"), people["hired"]
    words = make_column_transformer(
        (OneHotEncoder(sparse_output=False), make_column_selector(dtype_exclude="number")),
        remainder="passthrough",
        verbose_feature_names_out=False,
    )
    forest = make_pipeline(words, RandomForestClassifier(10, max_depth=5, random_state=0))
    skops.dump(forest.fit(x, y), place / "forest.skops")
    numbers = words.fit_transform(x)
    skops.dump(words, place / "prepare.skops")
    scale = StandardScaler().fit(numbers)
    small = MLPClassifier((6,), random_state=0, max_iter=300, tol=1e-3).fit(
        scale.transform(numbers), y == "yes"
    )
    write_onnx(_in_torch(small, scale), place / "network.onnx")
    (place / "own.py").write_text(
        "import pandas as pd\n\n\ndef ask(people: pd.DataFrame):\n"
        "    return ((people['skill'] + 10 * (people['sex'] == 'Male')) / 60).to_numpy()\n"
    )
    return place


def _in_torch(model: MLPClassifier, scale: StandardScaler) -> nn.Sequential:
    network = dense(scale.n_features_in_, 6, 1, final=nn.Sigmoid())
    first, last = (each for each in network if isinstance(each, nn.Linear))
    import torch

    with torch.no_grad():
        weight = model.coefs_[0].T / scale.scale_
        first.weight.copy_(torch.from_numpy(weight))
        first.bias.copy_(torch.from_numpy(model.intercepts_[0] - weight @ scale.mean_))
        last.weight.copy_(torch.from_numpy(model.coefs_[1].T))
        last.bias.copy_(torch.from_numpy(model.intercepts_[1]))
    return network


@pytest.fixture(scope="module")
def data(folder: Path) -> Dataset:
    found = fp.datasets.open_table(
        folder / "people.csv", label="hired", favourable="yes", sensitive="sex"
    )
    twins = Coupling("role", "sex", ({"Male": "Husband", "Female": "Wife"},))
    return replace(found, domain=replace(found.domain, couplings=(twins,)), mines_twins=False)


SOURCES: dict[str, dict[str, Any]] = {
    "forest.skops": {},
    "network.onnx": {"encoder": "prepare.skops"},
    "own.py:ask": {},
}


SLOW = [("forest.skops", "thresholds"), ("forest.skops", "abstain"), ("network.onnx", "average")]


def opened(name: str, folder: Path, data: Dataset) -> Model:
    options: dict[str, Any] = {key: str(folder / each) for key, each in SOURCES[name].items()}
    return fp.load_model(str(folder / name), data, **options)


def delivered(
    name: str, how: str, folder: Path, data: Dataset
) -> tuple[Proof, Model, WrittenModel]:
    """The proof of a repair, the model opened again from what was written, and that."""
    model = opened(name, folder, data)
    model = model.original or model
    repair = any_repair_named(how)
    proof, repaired = prove(model, data, repair, people="possible", method="random", **SMALLEST)
    again, file = write(repaired, repair, model, data, "model")
    assert file is not None
    return proof, again, file


@pytest.mark.parametrize(
    ("name", "how"),
    [
        pytest.param(name, how, marks=[pytest.mark.slow] if (name, how) in SLOW else [])
        for name in SOURCES
        for how in POST_HOC.own
    ],
)
def test_the_file_opened_again_gives_the_figures_of_the_proof(
    name: str, how: str, folder: Path, data: Dataset, tmp_path: Path
) -> None:
    before = {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}
    proof, again, file = delivered(name, how, folder, data)
    path = file.save(tmp_path)
    assert path.suffix == {"own.py:ask": ".py"}.get(name, Path(name).suffix)
    assert affected_rate(data.domain, again, data.x) == proof.after.people
    test = data.split(0).test
    if how != "thresholds":
        assert proof.before.people.hits > 0 == proof.after.people.hits
    if how != "abstain":
        assert accuracy(data.y[test], again.labels(data.x[test])) == proof.after.accuracy
    if name == "network.onnx":
        _check_graph(path, folder / name, how, again, data)
    assert {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()} == before


def _check_graph(path: Path, given: Path, how: str, again: Model, data: Dataset) -> None:
    """One file answers, with the inputs and outputs of the given one."""
    ort, onnx = pytest.importorskip("onnxruntime"), pytest.importorskip("onnx")
    session, graph = ort.InferenceSession(str(path)), onnx.load(given).graph
    assert [each.name for each in session.get_inputs()] == [graph.input[0].name]
    outputs = [graph.output[0].name, *([HANDED_OVER] if how == "abstain" else [])]
    assert [each.name for each in session.get_outputs()] == outputs
    assert again.joint is not None
    assert again.joint.to_numbers is not None
    numbers = again.joint.to_numbers(data.x)
    answers = session.run(None, {graph.input[0].name: numbers})
    np.testing.assert_allclose(answers[0][:, 0], again.probabilities(data.x)[:, 1], atol=1e-6)
    if how == "abstain":
        assert 0 < answers[1].mean() < 0.5
        np.testing.assert_array_equal(answers[0][answers[1]], 0.5)


def test_repair_returns_the_audit_of_the_written_model(folder: Path, data: Dataset) -> None:
    done = fp.repair(data, opened("own.py:ask", folder, data), "sex", with_="average", **LITTLE)
    assert isinstance(done, fp.Audit)
    assert done.repair is not None
    assert done.written is not None
    assert done.written.name == "repaired.py"
    assert done.run.people.hits == done.repair.after.people.hits
    assert done.run.people.hits == 0
    assert required(done.run.fairness).quality.accuracy == done.repair.after.accuracy
    assert done.document.model.origin is not None
    assert done.document.model.origin.source == "model/repaired.py:predict"


@pytest.mark.slow
def test_a_fresh_process_audits_the_written_function(
    folder: Path, data: Dataset, tmp_path: Path
) -> None:
    path = delivered("own.py:ask", "average", folder, data)[2].save(tmp_path)
    command = [sys.executable, "-c", "from fairprobe.cli import main; main()", "audit"]
    command += [str(folder / "people.csv")]
    command += ["--label", "hired", "--favorable", "yes", "--sensitive", "sex", "--json"]
    command += ["--model", f"{path}:predict", "--samples", "300", "--seeds", "3"]
    command += ["--set", "local_iterations=3", "--out", str(tmp_path / "run")]
    answer = subprocess.run(command, capture_output=True, check=True, env=dict(os.environ))
    assert json.loads(answer.stdout)["people"]["hits"] == 0


# -- an endpoint -----------------------------------------------------------------------------------


def test_a_function_around_an_endpoint_takes_the_same_tables(data: Dataset, folder: Path) -> None:
    asked: list[int] = []

    def service(people: pd.DataFrame) -> Any:
        asked.append(len(people))
        return (people["skill"] + 10 * (people["sex"] == "Male")) / 60

    answer = fp.repairs.repaired_function(service, data)
    people = pd.read_csv(folder / "people.csv").drop(columns="hired")
    other = people.assign(
        sex=people["sex"].map({"Male": "Female", "Female": "Male"}),
        role=people["role"].map({"Husband": "Wife", "Wife": "Husband", "Single": "Single"}),
    )
    asked.clear()
    np.testing.assert_array_equal(answer(people), answer(other))
    np.testing.assert_allclose(answer(people)[:, 1], (people["skill"] + 5) / 60)
    assert asked[0] == 2 * len(people)
    careful = fp.repairs.repaired_function(service, data, fp.repairs.Abstain())
    handed = careful.hands_over(people)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(handed, (people["skill"] <= 30) & (people["skill"] > 20))


# -- the command -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(folder: Path) -> Path:
    place = folder / "runs"
    answer = run(
        *("audit", str(folder / "people.csv"), "--label", "hired", "--favorable", "yes"),
        *("--sensitive", "sex", "--model", str(folder / "forest.skops"), "--samples", "300"),
        *("--seeds", "3", "--set", "local_iterations=3", "--out", str(place / "forest"), "--quiet"),
    )
    assert answer.code == 0, answer.err
    return place / "forest"


def test_the_command_repairs_a_forest_and_says_how_where_it_cannot(
    audited: Path, folder: Path
) -> None:
    options = ["--table", str(folder / "people.csv"), "--model", str(folder / "forest.skops")]
    trained = run("repair", str(audited), *options, "--quiet")
    assert trained.code == 2
    assert "--with average, thresholds, abstain" in trained.said
    out = audited.parent / "average"
    answer = run(
        *("repair", str(audited), *options, "--with", "average", "--samples", "300"),
        *("--out", str(out), "--max-accuracy-drop", "20"),
    )
    assert answer.code in (0, 1), answer.err
    held = out / ("model" if answer.code == 0 else "refused-model")
    assert [each.name for each in held.iterdir()] == ["forest.skops"]
    document = json.loads((out / "audit.json").read_text())
    assert document["people"]["hits"] == 0
    assert document["repair"]["start"] == "post-hoc"
    page = (out / "report.html").read_text()
    assert "The given model and the repaired one" in page
    assert run("show", str(out)).code == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--with", "average", "--strength", "1"], "trains nothing"),
        (["--with", "average", "--set", "criterion=x"], "has no setting 'criterion'"),
        (["--with", "thresholds", "--set", "criterion=x"], "'demographic_parity' or"),
        (["--with", "abstain", "--set", "max_handed_over=200"], "a share from 0 to 1"),
        (["--with", "averag"], "There is no repair 'averag'. Did you mean 'average'?"),
    ],
)
def test_a_mistake_ends_in_a_sentence(
    arguments: list[str], complaint: str, audited: Path, tmp_path: Path
) -> None:
    answer = run("repair", str(audited), *arguments, "--out", str(tmp_path / "out"))
    assert answer.code == 2
    assert complaint in answer.said
    assert not (tmp_path / "out").exists()


# -- what cannot be repaired or written ------------------------------------------------------------


def test_a_model_that_is_not_given_the_attribute_has_nothing_to_repair(
    folder: Path, data: Dataset
) -> None:
    table = pd.read_csv(folder / "people.csv")
    blind = RandomForestClassifier(3, random_state=0).fit(table[["skill"]], table["hired"])
    with pytest.raises(SettingError, match="The model does not use sex"):
        fp.repair(data, fp.load_model(blind, data), "sex", with_="average", **LITTLE)


def test_numbers_that_mix_the_attribute_with_others_are_not_written(data: Dataset) -> None:
    def ask(x: Any) -> Any:
        return 1 / (1 + np.exp(-x[:, 0]))

    def mixed(people: pd.DataFrame) -> Any:
        return ((people["sex"] == "Male") * people["skill"] / 10).to_numpy()[:, None]

    model = fp.load_model(ask, data, encoder=mixed)
    assert model.joint is not None
    from fairprobe.repairs.plans import learn_numbers

    assert model.joint.to_numbers is not None
    with pytest.raises(ModelError, match="mix sex with other attributes"):
        learn_numbers(model.joint.to_numbers, data)


def test_a_full_disk_leaves_nothing_and_the_users_file_as_it_was(
    folder: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (folder / "forest.skops").read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("skops.io.dump", full)
    with pytest.raises(FairprobeError, match="No space left"):
        delivered("forest.skops", "average", folder, data)
    assert (folder / "forest.skops").read_bytes() == before


@pytest.mark.parametrize(
    "damage",
    [
        {"repair": "luck"},
        {"shares": []},
        {"shares": [-1, 2]},
        {"shares": "all"},
        {"repair": "thresholds", "thresholds": []},
        {"numbers": {"columns": [0], "values": [[1.0]]}},
    ],
)
def test_a_damaged_plan_ends_in_a_sentence(damage: dict[str, Any]) -> None:
    from fairprobe.repairs.plans import decoded

    good = {"repair": "average", "shares": [0.5, 0.5], "schema": ""}
    decoded(good)
    with pytest.raises(ModelError, match="is damaged"):
        decoded({**good, **damage})


@pytest.mark.parametrize("schema", ["x = [", "", "sensitive = ['sex']"])
def test_a_hostile_plan_in_a_file_ends_in_a_sentence(
    schema: str, folder: Path, data: Dataset, tmp_path: Path
) -> None:
    made = fitted_classifier(
        load_skops(folder / "forest.skops"),
        Plan(repair="average", shares=[0.5, 0.5], schema="x"),
    )
    made.plan_["schema"] = schema
    skops.dump(made, tmp_path / "model.skops")
    with pytest.raises(FairprobeError):
        fp.load_model(tmp_path / "model.skops", data).probabilities(data.x[:5])
