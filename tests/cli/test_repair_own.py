"""`fairprobe repair` for a table and a model of one's own: the repaired network comes back in the
format it came in, and a fresh process that audits the file measures what the proof says.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import fairprobe as fp
from fairprobe.errors import ModelError
from fairprobe.models import one_thread
from fairprobe.repairs import prove
from fairprobe.repairs import written as written_module
from fairprobe.search import Budget
from fairprobe.table import repair as repair_module
from tests.cli.test_cli import Answer, ask, environment, files_in
from tests.helpers import read_document
from tests.model_files import WRITERS, dense

SMALL = ["--seeds", "20", "--set", "local_iterations=10", "--samples", "1000"]
QUICK = ["--no-curve", "--strength", "20", "--max-seeds", "4", "--samples", "1000"]
QUICK += ["--max-accuracy-drop", "10"]
NUMBERS = ["age", "hours"]
CODE = """
import pandas as pd
from torch import nn

def encode(frame):
    words = {"sex": ["female", "male"], "job": ["clerk", "farmer", "nurse"]}
    parts = [(frame["age"] - 50) / 20, (frame["hours"] - 30) / 15]
    parts += [(frame[name] == word) * 1.0 for name in words for word in words[name]]
    return pd.concat(parts, axis=1).to_numpy()

def network():
    return nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 2))
"""


def people(rows: int = 1_000) -> pd.DataFrame:
    """Whether somebody is granted depends on age, hours, and by 10 years on sex."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 80, rows),
            "sex": rng.choice(["female", "male"], rows),
            "job": rng.choice(["clerk", "farmer", "nurse"], rows),
            "hours": rng.integers(0, 60, rows),
        }
    )
    score = frame["age"] + frame["hours"] + 10 * (frame["sex"] == "male") + rng.normal(0, 8, rows)
    return frame.assign(granted=np.where(score > 85, "yes", "no"))


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    with one_thread(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            repair_module, "prove", partial(prove, budget=Budget(seeds=10, local_iterations=10))
        )
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, an encoder, and a network that was trained outside of fairprobe."""
    folder = tmp_path_factory.mktemp("own")
    frame = people()
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "code.py").write_text(CODE)
    scope: dict[str, Any] = {}
    exec(CODE, scope)
    x = torch.from_numpy(scope["encode"](frame).astype(np.float32))
    y = torch.from_numpy((frame["granted"] == "yes").to_numpy().astype(np.int64))
    network = dense(7, 16, 2)
    optimizer = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    torch.save(network.state_dict(), folder / "network.tensors")
    return folder


def trained(home: Path) -> nn.Sequential:
    network = dense(7, 16, 2)
    network.load_state_dict(torch.load(home / "network.tensors", weights_only=True))
    return network


def classifier(home: Path, path: Path) -> list[str]:
    """A pipeline that fills gaps, encodes and scales, before an MLPClassifier."""
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    frame = people()
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
        (OneHotEncoder(), ["sex", "job"]),
    )
    network = MLPClassifier((16,), learning_rate_init=0.02, random_state=0, tol=1e-3)
    pipeline = make_pipeline(steps, network).fit(frame.drop(columns="granted"), frame["granted"])
    path.write_bytes(skops.io.dumps(pipeline))
    return ["--model", str(path)]


def module(home: Path, path: Path) -> list[str]:
    """A network of the user's code, its weights in a file."""
    save_file(trained(home).state_dict(), path)
    code = home / "code.py"
    return [
        *("--model", f"{code}:network", "--weights", str(path)),
        *("--encoder", f"{code}:encode"),
    ]


def file(home: Path, path: Path) -> list[str]:
    WRITERS[path.suffix](trained(home), path)
    return ["--model", str(path), "--encoder", f"{home / 'code.py'}:encode"]


MAKERS: dict[str, Callable[[Path, Path], list[str]]] = {
    **dict.fromkeys(WRITERS, file),
    ".skops": classifier,
    ".safetensors": module,
}


def audited(home: Path, options: list[str], folder: Path) -> Answer:
    words = ["audit", str(home / "people.csv"), "--label", "granted", "--sensitive", "sex"]
    return ask(*words, *SMALL, *options, "--out", folder, "-q")


@pytest.fixture(scope="module")
def onnx_run(home: Path) -> tuple[Path, list[str]]:
    options = file(home, home / "model.onnx")
    answer = audited(home, options, home / "run")
    assert answer.code == 0, answer
    return home / "run", options


def fast_onnx_only() -> list[Any]:
    return [
        ending if ending == ".onnx" else pytest.param(ending, marks=pytest.mark.slow)
        for ending in MAKERS
    ]


@pytest.mark.parametrize("ending", fast_onnx_only())
def test_a_repaired_network_comes_back_in_its_format_and_a_fresh_process_measures_the_same(
    home: Path, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"network{ending}"
    options = MAKERS[ending](home, path)
    before = path.read_bytes()
    assert audited(home, options, tmp_path / "run").code == 0
    repaired = tmp_path / "repaired"
    table = ["--table", str(home / "people.csv")]
    answer = ask("repair", tmp_path / "run", *table, *options, *QUICK, "--out", repaired)
    assert answer.code == 0, answer
    assert path.read_bytes() == before
    assert f"model/network{ending}" in files_in(repaired)
    assert not [name for name in files_in(repaired) if name.startswith("refused")]

    document = read_document(repaired)
    proof = document["repair"]
    assert proof["start"] == "fine-tune"
    rates = [proof[when]["people"]["estimate"] for when in ("before", "after")]
    assert rates[1] < 0.5 * rates[0]
    new = [word.replace(str(path), str(repaired / "model" / path.name)) for word in options]
    subprocess.run(
        [
            *(sys.executable, "-m", "fairprobe", "audit", str(home / "people.csv")),
            *("--label", "granted", "--sensitive", "sex", *SMALL, *new),
            *("--out", str(tmp_path / "again"), "-q"),
        ],
        check=True,
        env=environment(tmp_path),
        cwd=tmp_path,
    )
    again = read_document(tmp_path / "again")
    for name in ("people", "dm_rs", "plausible", "fairness"):
        assert again[name] == document[name], name
    for name in ("estimate", "hits", "samples"):
        assert again["dm_rs"][name] == pytest.approx(proof["after"]["dm_rs"][name], abs=20)
    assert again["fairness"]["quality"]["accuracy"]["estimate"] == pytest.approx(
        proof["after"]["accuracy"]["estimate"]
    )


def test_a_run_whose_model_is_not_named_again_is_refused(
    home: Path, onnx_run: tuple[Path, list[str]], tmp_path: Path
) -> None:
    run, options = onnx_run
    table = ["--table", str(home / "people.csv")]
    for given, said in (
        ([], "Name the table on the command line"),
        (table, "Name the model on the command line"),
        ([*table, *options[2:], "--model", str(home / "people.csv")], "unsupported format"),
    ):
        answer = ask("repair", run, *given, *QUICK, "--out", tmp_path / "new")
        assert answer.code == 2
        assert said in answer.said
        assert not (tmp_path / "new").exists()


def test_a_repair_that_cannot_be_written_into_the_file_is_refused_before_any_training(
    home: Path, onnx_run: tuple[Path, list[str]], tmp_path: Path
) -> None:
    run, options = onnx_run
    table = ["--table", str(home / "people.csv")]
    answer = ask("repair", run, *table, *options, "--with", "blind", "--out", tmp_path / "new")
    assert answer.code == 2
    assert "cannot be written into model.onnx" in answer.said


def test_a_file_that_answers_otherwise_than_the_proof_is_not_delivered(
    home: Path,
    onnx_run: tuple[Path, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, options = onnx_run
    monkeypatch.setattr(written_module, "own_network", lambda _: trained(home))
    monkeypatch.setattr(written_module, "SAME", 1e-6)
    table = ["--table", str(home / "people.csv")]
    answer = ask("repair", run, *table, *options, *QUICK, "--out", tmp_path / "new")
    assert answer.code == 2
    assert "differ by up to" in answer.said
    assert "your file is unchanged" in answer.said
    assert not (tmp_path / "new").exists()


# -- broken and hostile files, no room ------------------------------------------------------------


def _without_label(home: Path, folder: Path, words: list[str]) -> list[str]:
    people().drop(columns="granted").to_csv(folder / "people.csv", index=False)
    return ["--table", str(folder / "people.csv"), *words]


def _cut_off(home: Path, folder: Path, words: list[str]) -> list[str]:
    (folder / "model.onnx").write_bytes((home / "model.onnx").read_bytes()[:-200])
    return ["--table", str(home / "people.csv"), *words[2:], "--model", str(folder / "model.onnx")]


def _pickled(home: Path, folder: Path, words: list[str]) -> list[str]:
    """A pickle that would write a file."""
    order = f"cos\nsystem\n(S'touch {folder / 'executed'}'\ntR."
    (folder / "model.pt").write_bytes(order.encode())
    return ["--table", str(home / "people.csv"), *words[2:], "--model", str(folder / "model.pt")]


def _other_model(home: Path, folder: Path, words: list[str]) -> list[str]:
    WRITERS[".onnx"](dense(7, 16, 2), folder / "model.onnx")
    return ["--table", str(home / "people.csv"), *words[2:], "--model", str(folder / "model.onnx")]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_without_label, "is not the table of the run"),
        (_cut_off, "model.onnx"),
        (_pickled, "model.pt"),
        (_other_model, "is not the one of the run"),
    ],
)
def test_a_broken_or_hostile_file_ends_in_one_sentence_and_nothing_is_touched(
    home: Path,
    onnx_run: tuple[Path, list[str]],
    tmp_path: Path,
    spoil: Callable[[Path, Path, list[str]], list[str]],
    said: str,
) -> None:
    run, options = onnx_run
    words = spoil(home, tmp_path, options)
    before = {path: path.read_bytes() for path in files(home, tmp_path)}
    answer = ask("repair", run, *words, *QUICK, "--out", tmp_path / "new")
    assert answer.code == 2
    assert said in answer.said
    assert answer.said.startswith("Error: ")
    assert "Traceback" not in answer.said
    assert {path: path.read_bytes() for path in files(home, tmp_path)} == before


def files(*folders: Path) -> list[Path]:
    return sorted(path for each in folders for path in each.rglob("*") if path.is_file())


def test_a_forged_run_of_a_table_without_its_label_is_refused(
    home: Path, onnx_run: tuple[Path, list[str]], tmp_path: Path
) -> None:
    table = tmp_path / "people.csv"
    people().drop(columns="granted").to_csv(table, index=False)
    forged = tmp_path / "run"
    shutil.copytree(onnx_run[0], forged)
    document = read_document(forged)
    document["data"]["origin"]["sha256"] = sha256(table.read_bytes()).hexdigest()
    (forged / "audit.json").write_text(json.dumps(document))
    words = ["--table", str(table), *onnx_run[1]]
    answer = ask("repair", forged, *words, *QUICK, "--out", tmp_path / "new")
    assert answer.code == 2
    assert "no column 'granted' for the label" in answer.said
    assert not (tmp_path / "new").exists()


def test_a_model_without_weights_is_refused_with_the_repairs_that_need_none(
    home: Path, tmp_path: Path
) -> None:
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from sklearn.tree import DecisionTreeClassifier

    frame = people()
    steps = make_column_transformer((OneHotEncoder(), ["sex", "job"]), remainder="passthrough")
    tree = make_pipeline(steps, DecisionTreeClassifier(max_depth=4, random_state=0))
    tree.fit(frame.drop(columns="granted"), frame["granted"])
    skops.io.dump(tree, tmp_path / "tree.skops")
    options = ["--model", str(tmp_path / "tree.skops")]
    assert audited(home, options, tmp_path / "run").code == 0
    before = (tmp_path / "tree.skops").read_bytes()
    table = ["--table", str(home / "people.csv")]
    answer = ask("repair", tmp_path / "run", *table, *options, "--out", tmp_path / "new")
    assert answer.code == 2
    assert "Repair it after the fact: --with average, thresholds, abstain" in answer.said
    assert (tmp_path / "tree.skops").read_bytes() == before
    assert not (tmp_path / "new").exists()


def test_a_network_whose_weights_are_frozen_is_refused_before_anything_is_measured() -> None:
    data = fp.datasets.german()
    network = nn.Sequential(nn.Linear(len(data.domain), 4), nn.ReLU(), nn.Linear(4, 2))
    stages: list[str] = []
    with pytest.raises(ModelError, match="no weights that may be trained"):
        fp.repair(
            data,
            network.requires_grad_(False),
            "gender",
            progress=lambda stage, *_: stages.append(stage),
        )
    assert stages == []


@pytest.mark.slow
def test_a_full_disk_leaves_the_users_files_and_says_where_the_repaired_run_is(
    home: Path,
    onnx_run: tuple[Path, list[str]],
    small_disk: Path,
    temporary: Path,
) -> None:
    run, options = onnx_run
    before = {path: path.read_bytes() for path in files(home)}
    table = ["--table", str(home / "people.csv")]
    answer = ask("repair", run, *table, *options, *QUICK, "--out", small_disk / "new")
    assert answer.code == 2
    assert "No space left on device" in answer.said
    assert "Nothing is lost" in answer.said
    assert len(list(temporary.glob("fairprobe-rescued-*/model/model.onnx"))) == 1
    assert {path: path.read_bytes() for path in files(home)} == before
    assert list(small_disk.iterdir()) == []
