"""Models and tables of the user's own together: what fairprobe says of a model is what the model
itself says, from every kind of source.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import polars
import pytest
import skops.io
import torch
import xgboost
from safetensors.torch import save_file
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe import datasets
from fairprobe.arrays import Ints, Rows
from fairprobe.cli import app
from fairprobe.datasets import Dataset
from fairprobe.errors import DataError, FairprobeError, ModelError, SettingError
from fairprobe.findings import Findings
from fairprobe.measures import required
from fairprobe.models import Model, TorchModel
from fairprobe.search import Budget
from fairprobe.table import searched
from fairprobe.table.report import notes
from tests.helpers import read_document, reopened
from tests.model_files import WRITERS
from tests.present.test_report import Page
from tests.services import Handler, Request, serving

TINY = "--seeds 30 --set local_iterations=10 --samples 200"
BUDGET = Budget(seeds=30, local_iterations=10)
TABLE = "people.csv --label granted --favorable 'yes please' --sensitive sex,owner"
JOBS = ["clerk", "farm, own", "nurse"]


@cache
def people(rows: int = 240) -> pd.DataFrame:
    """Words with commas, booleans, a sex that is coded 1 and 2, fractions, gaps, and labels with
    blanks.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "sex": rng.integers(1, 3, rows),
            "job": rng.choice(JOBS, rows),
            "owner": rng.random(rows) < 0.5,
            "income": np.round(rng.lognormal(3, 1, rows), 3),
            "hours": rng.integers(0, 60, rows).astype(float),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "hours"] = np.nan
    frame.loc[rng.random(rows) < 0.1, "job"] = np.nan
    good = frame["age"] + 20 * frame["sex"] + 10 * frame["owner"] + frame["income"] > 105
    return frame.assign(granted=np.where(good, "yes please", "no thanks"))


@cache
def complete() -> pd.DataFrame:
    return people().dropna().reset_index(drop=True)


def described(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="granted")


def numbers(frame: pd.DataFrame) -> Rows:
    """The plain coding, written by hand: categories by their place in the alphabet."""
    coded = frame.assign(
        job=frame["job"].map({job: place for place, job in enumerate(JOBS)}),
        owner=frame["owner"].astype(int),
    )
    return coded[["age", "sex", "job", "owner", "income", "hours"]].to_numpy(dtype=np.float32)


def prepare(frame: pd.DataFrame) -> Rows:
    """The encoder of `own.py`."""
    columns = [
        (frame["age"] - 45) / 20,
        frame["sex"] - 1.5,
        *(frame["job"] == job for job in JOBS),
        frame["owner"],
        np.log1p(frame["income"]),
    ]
    return np.stack([np.asarray(column, dtype=np.float32) for column in columns], axis=1)


OWN_CODE = """
import numpy as np, pandas as pd
from torch import nn
JOBS = ["clerk", "farm, own", "nurse"]
def prepare(frame: pd.DataFrame):
    columns = [(frame["age"] - 45) / 20, frame["sex"] - 1.5,
    *(frame["job"] == job for job in JOBS), frame["owner"]]
    columns.append(np.log1p(frame["income"]))
    return np.stack([np.asarray(column, dtype=np.float32) for column in columns], axis=1)
def network():
    return nn.Sequential(nn.Linear(7, 12), nn.ReLU(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 2))
def plain():
    return nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 2))
def words(people: pd.DataFrame):
    merit = people["income"] - 22 + 6 * people["owner"]
    return 1 / (1 + np.exp(-(merit - 9 * (people["sex"] == 1)) / 4))
def coded(x):
    return 1 / (1 + np.exp(-(x[:, 4] - 22 + 6 * x[:, 3] - 9 * (x[:, 1] == 1)) / 4))
"""


def rule(frame: pd.DataFrame) -> Rows:
    """What `words` and `coded` answer, and the endpoint too."""
    return np.asarray(
        1
        / (1 + np.exp(-(frame["income"] - 22 + 6 * frame["owner"] - 9 * (frame["sex"] == 1)) / 4)),
        dtype=np.float64,
    )


@cache
def trained(width: int) -> nn.Sequential:
    """A network on the encoder's columns (7) or on plain numbers (6)."""
    frame = complete()
    x = torch.from_numpy(prepare(frame) if width == 7 else numbers(frame))
    y = torch.from_numpy((frame["granted"] == "yes please").to_numpy(dtype=np.int64))
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(width, 12), nn.ReLU(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 2)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(150):
        loss = nn.functional.cross_entropy(network(x), y)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return network.eval()


def answered(network: nn.Module, x: Rows) -> Rows:
    with torch.no_grad():
        answer: Rows = torch.softmax(network(torch.from_numpy(x)), dim=1).numpy()
    return answer


@cache
def pipeline(kind: str) -> Pipeline:
    """On raw words, gaps included."""
    before = make_column_transformer(
        (
            make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()),
            ["age", "sex", "income", "hours"],
        ),
        (
            make_pipeline(
                SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
            ),
            ["job"],
        ),
        remainder="passthrough",
    )
    last = (
        MLPClassifier((8, 4), max_iter=150, random_state=1)
        if kind == "network"
        else RandomForestClassifier(8, random_state=0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(before, last).fit(described(people()), people()["granted"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    Path("own.py").write_text(OWN_CODE, encoding="utf-8")
    return tmp_path


def run(words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, shlex.split(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def table(**options: Any) -> Dataset:
    usual = {"label": "granted", "favourable": "yes please", "sensitive": ["sex", "owner"]}
    return datasets.open_table("people.csv", **usual | options)


# -- every kind of model, from the command line to the report --------------------------------------


@dataclass(frozen=True)
class Kind:
    """How the model is given, and what it answers itself to people in words: (n, 2), in the order
    of the classes.
    """

    words: Callable[[], str]
    itself: Callable[[pd.DataFrame], Rows]
    is_white: bool


ENCODED = "--encoder own.py:prepare"


def file_of(suffix: str) -> Callable[[], str]:
    return lambda: f"{WRITERS[suffix](trained(7), Path(f'model{suffix}'))} {ENCODED}"


def skops_of(kind: str) -> str:
    skops.io.dump(pipeline(kind), "model.skops")
    return "model.skops"


def weights(width: int) -> str:
    save_file(trained(width).state_dict(), "weights.safetensors")
    return "weights.safetensors"


def second(p: Any) -> Rows:
    return np.stack([1 - np.asarray(p), np.asarray(p)], axis=1)


@cache
def booster(kind: str) -> Any:
    """On the encoder's columns."""
    x, y = prepare(people()), people()["granted"] == "yes please"
    if kind == "lightgbm":
        return lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(x, y), 8)
    return xgboost.XGBClassifier(n_estimators=8).fit(x, y)


def saved(kind: str, name: str) -> str:
    booster(kind).save_model(name)
    return f"{name} {ENCODED}"


KINDS = {
    **{
        suffix: Kind(file_of(suffix), lambda frame: answered(trained(7), prepare(frame)), True)
        for suffix in WRITERS
    },
    "pipeline": Kind(
        lambda: skops_of("network"),
        lambda frame: pipeline("network").predict_proba(frame)[:, ::1],
        True,
    ),
    "forest": Kind(
        lambda: skops_of("forest"), lambda frame: pipeline("forest").predict_proba(frame), False
    ),
    "xgboost": Kind(
        lambda: saved("xgboost", "m.json"),
        lambda frame: booster("xgboost").predict_proba(prepare(frame)),
        False,
    ),
    "lightgbm": Kind(
        lambda: saved("lightgbm", "m.txt"),
        lambda frame: second(booster("lightgbm").predict(prepare(frame))),
        False,
    ),
    "own network": Kind(
        lambda: f"own.py:network --weights {weights(7)} {ENCODED}",
        lambda frame: answered(trained(7), prepare(frame)),
        True,
    ),
    "function of words": Kind(lambda: "own.py:words", lambda frame: second(rule(frame)), False),
    "function of numbers": Kind(lambda: "own.py:coded", lambda frame: second(rule(frame)), False),
}


REPEATED = ("pipeline", "own network", "function of words")


@pytest.mark.parametrize("name", KINDS)
def test_a_model_is_audited_by_what_it_answers_itself(name: str) -> None:
    kind = KINDS[name]
    run(f"audit {TABLE} --model {kind.words()} {TINY} --out run")
    body = read_document("run")
    assert (body["interpretation"] is not None) == kind.is_white
    assert body["generation"]["idis"] > 0

    data, model = reopened("run")
    assert np.array_equal(data.x, table().x)
    np.testing.assert_allclose(
        model.probabilities(data.x), kind.itself(described(people())), atol=2e-4
    )

    findings = Findings.load("run/findings.parquet", data.domain)
    pairs = findings.to_pandas(codes=True)
    for rows, said in ((findings.x, pairs["label"]), (findings.x_other, pairs["label_other"])):
        assert (kind.itself(data.words(rows)).argmax(axis=1) == said).all()
    assert (pairs["label"] != pairs["label_other"]).all()
    if name in REPEATED:
        again = repeated("run")
        expected = (body["dm_rs"], body["people"], body["generation"]["idis"])
        assert (again["dm_rs"], again["people"], again["generation"]["idis"]) == expected


def repeated(folder: Path | str) -> dict[str, Any]:
    """What the lines in the report give, run where the report says."""
    lines = Page(Path(folder, "report.html").read_text(encoding="utf-8")).code[-1]
    assert "..." not in lines
    names: dict[str, Any] = {}
    with contextlib.chdir(folder):
        exec(lines, names)
    body: dict[str, Any] = names["audit"].to_dict()
    return body


# -- endpoints -------------------------------------------------------------------------------------

NAMED = {
    "/plain": None,
    "/named": ("yes please", "no thanks"),
    "/signs": ("1", "-1"),
    "/sizes": ("10+", "2", "5"),
}


class Service(Handler):
    def respond(self, request: Request) -> None:
        p = rule(pd.DataFrame(request.json["instances"]))
        names = NAMED[request.path]
        parts = [
            (one, 1 - one) if names and len(names) == 2 else (one / 2, 1 - one, one / 2)
            for one in p.tolist()
        ]
        predictions = (
            p.tolist() if names is None else [dict(zip(names, part, strict=True)) for part in parts]
        )
        self.reply(json.dumps({"predictions": predictions}).encode())


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    with serving(Service) as address:
        yield address


def test_an_endpoint_is_audited_shown_and_opened_again(service: str) -> None:
    run(f"audit {TABLE} --model {service}/named {TINY} --out run")
    data, model = reopened("run")
    np.testing.assert_allclose(
        model.probabilities(data.x)[:, 1], rule(described(people())), atol=1e-6
    )


@pytest.mark.parametrize(
    ("path", "labels"), [("/signs", {True: 1, False: -1}), ("/sizes", {True: "5", False: "2"})]
)
def test_classes_that_an_endpoint_names_are_taken_by_name(
    service: str, path: str, labels: dict[bool, Any]
) -> None:
    label = (people()["age"] > 40).map(labels)
    if path == "/sizes":
        label = label.where(people()["age"] < 60, "10+")
    data = datasets.open_table(people().assign(granted=label), label="granted", sensitive="sex")
    p, model = rule(described(people())), fp.load_model(service + path, data)
    np.testing.assert_allclose(
        model.probabilities(data.x)[:, data.classes.index("1" if path == "/signs" else "2")],
        p if path == "/signs" else 1 - p,
        atol=1e-6,
    )


# -- which class is which --------------------------------------------------------------------------


def scores(labels: Any) -> Pipeline:
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(
        people()[["age", "sex", "income"]], labels
    )


def test_classes_of_other_names_are_not_taken_by_their_position() -> None:
    good = people()["granted"] == "yes please"
    foreign = scores(np.where(good, "approved", "denied"))  # in the alphabet the other way round
    with pytest.raises(
        ModelError,
        match=(
            r"has the classes approved, denied; 'people' has no thanks, yes"
            r" please.*--classes"
        ),
    ):
        fp.load_model(foreign, table())
    model = fp.load_model(foreign, table(), classes=["yes please", "no thanks"])
    expected = foreign.predict_proba(people()[["age", "sex", "income"]])[:, ::-1]
    np.testing.assert_allclose(model.probabilities(table().x), expected, atol=1e-6)
    with pytest.raises(SettingError, match="Name each of them once"):
        fp.load_model(foreign, table(), classes=["yes please", "yes please"])


@pytest.mark.parametrize(
    "labels",
    [
        {True: 1, False: 0},
        {True: True, False: False},
        {True: 2.0, False: 1.0},
        {True: " yes please", False: "no thanks "},
    ],
)
def test_classes_that_are_numbered_or_only_written_with_blanks_are_known(
    labels: dict[bool, Any],
) -> None:
    model = scores((people()["granted"] == "yes please").map(labels))
    expected = model.predict_proba(people()[["age", "sex", "income"]])
    if labels[True] == " yes please":
        expected = expected[:, ::-1]
    np.testing.assert_allclose(
        fp.load_model(model, table()).probabilities(table().x), expected, atol=1e-6
    )


def test_numbered_classes_the_wrong_way_round_are_told_in_the_notes() -> None:
    wrong = scores((people()["granted"] == "no thanks").astype(int))
    skops.io.dump(wrong, "wrong.skops")
    wrong_way = audited(fp.load_model("wrong.skops", table())).document
    (note,) = [note for note in notes(wrong_way) if "answers swapped" in note]
    assert "--classes" in note
    run(f"audit {TABLE} --model wrong.skops --classes 'yes please,no thanks' {TINY} --out right")
    right = read_document("right")
    assert right["fairness"]["quality"]["accuracy"]["estimate"] == pytest.approx(
        1 - required(wrong_way.fairness).quality.accuracy.estimate
    )
    data, model = reopened("right")  # the order is kept in the run
    assert (model.labels(data.x) == data.y).mean() > 0.8


# -- encoders and columns --------------------------------------------------------------------------


def test_an_encoder_may_name_its_columns_like_those_of_the_table() -> None:
    def encode(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "age": frame["age"] + frame["income"],
                "sex": frame["sex"],
                "is rich": (frame["income"] > 30) * 1.0,
            }
        )

    x, y = encode(people()), people()["granted"] == "yes please"
    lightgbm.train(
        {"objective": "binary", "verbose": -1, "min_data_in_leaf": 2}, lightgbm.Dataset(x, y), 5
    ).save_model("m.txt")
    model = fp.load_model("m.txt", table(), encoder=encode)
    expected = np.asarray(lightgbm.Booster(model_file="m.txt").predict(x))
    np.testing.assert_allclose(model.probabilities(table().x)[:, 1], expected, atol=1e-6)


def test_an_encoder_is_not_silently_left_out() -> None:
    with pytest.raises(SettingError, match="takes the table's own words; an encoder"):
        fp.load_model(pipeline("forest"), table(), encoder=prepare)
    with pytest.raises(SettingError, match="Weights belong to a module:function"):
        fp.load_model(pipeline("forest"), table(), weights="weights.safetensors")


def test_gaps_beside_it_do_not_hide_that_an_attribute_is_lost() -> None:
    def encode(frame: pd.DataFrame) -> Rows:  # without names, which would tell it
        return frame[["age", "income", "hours"]].to_numpy(dtype=np.float32)

    model = xgboost.XGBClassifier(n_estimators=3).fit(
        encode(people()), people()["granted"] == "yes please"
    )
    model.save_model("m.json")
    loaded = fp.load_model("m.json", table(), encoder=encode)
    assert loaded.about is not None
    assert set(loaded.about.blind_to) >= {"sex", "owner"}


# -- gaps that are words ---------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["pandas", "categories", "polars", "parquet"])
def test_a_word_that_stands_for_a_gap_is_what_the_model_is_asked_with(source: str) -> None:
    frame = people().assign(job=people()["job"].fillna("?"))
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), ["job", "sex"]), (StandardScaler(), ["age"])
        ),
        RandomForestClassifier(5, random_state=0),
    ).fit(described(frame), frame["granted"])
    frame.to_parquet("people.parquet", index=False)
    given: dict[str, Any] = {
        "pandas": frame,
        "categories": frame.astype({"job": "category"}),
        "polars": polars.from_pandas(frame),
        "parquet": "people.parquet",
    }
    data = datasets.open_table(given[source], label="granted", sensitive="sex")
    assert "?" not in data.domain["job"].categories
    assert (data.words(data.x)["job"].astype(str) == frame["job"]).all()
    np.testing.assert_allclose(
        fp.load_model(model, data).probabilities(data.x),
        model.predict_proba(described(frame)),
        atol=1e-6,
    )


# -- what a run says, and opening it again ---------------------------------------------------------


def test_a_run_is_opened_from_another_folder_unless_something_has_changed_or_gone(
    here: Path,
) -> None:
    skops.io.dump(pipeline("network")[:1], "prepare.skops")
    width = pipeline("network")[:1].transform(described(people())).shape[1]
    Path("own.py").write_text(
        "from torch import nn\ndef network():\n    return nn.Sequential("
        f"nn.Linear({width}, 4), nn.ReLU(), nn.Linear(4, 2))\n",
        encoding="utf-8",
    )
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, 2))
    save_file(network.state_dict(), "weights.safetensors")
    data = table()
    given = {"weights": "weights.safetensors", "encoder": "prepare.skops"}
    model = fp.load_model("own.py:network", data, **given)  # type: ignore[arg-type]
    expected = model.probabilities(data.x)
    fp.save(fp.audit(data, model, ["sex", "owner"], budget=BUDGET, samples=300), "run")
    (here / "elsewhere").mkdir()
    with contextlib.chdir("elsewhere"):
        data, model = reopened("../run")
    np.testing.assert_allclose(model.probabilities(data.x), expected, atol=1e-6)
    for file in ("people.csv", "own.py", "prepare.skops"):
        error, content = DataError if file == "people.csv" else ModelError, Path(file).read_bytes()
        Path(file).write_bytes(content + b"\n")
        with pytest.raises(error, match="has changed since"):
            reopened("run")
        Path(file).unlink()
        with pytest.raises(FairprobeError):
            reopened("run")
        Path(file).write_bytes(content)


# -- confirming ------------------------------------------------------------------------------------


def rebuilt(original: Callable[[Rows, Model], Ints]) -> TorchModel:
    """A network that was rebuilt from a program that answers the labels of `original`."""
    complete().to_csv("people.csv", index=False)
    white = fp.load_model(trained(6), table(), inputs="numbers")
    assert isinstance(white, TorchModel)
    itself = TorchModel(white.module, encoder=white.encoder)
    white.original = Model(lambda x: np.eye(2)[original(x, itself)])
    return white


def audited(model: Model) -> fp.Audit:
    return fp.audit(table(), model, ["sex", "owner"], budget=BUDGET, samples=300)


def test_each_pair_is_confirmed_and_not_only_that_there_is_one() -> None:
    def other(x: Rows, itself: Model) -> Ints:  # the program agrees on people who own nothing only
        return np.where(x[:, 3] == 0, itself.labels(x), 0)

    audit, model = audited(rebuilt(other)), rebuilt(other)
    assert audit.run.generation.refuted is not None
    assert audit.run.generation.refuted > 0
    assert len(audit.findings) > 0
    mine, theirs = (
        model.original.labels(rows)  # type: ignore[union-attr]
        for rows in (audit.findings.x, audit.findings.x_other)
    )
    assert (mine != theirs).all()


def test_findings_are_not_lost_with_a_program_that_fails_to_confirm_them() -> None:
    def broken(x: Rows, itself: Model) -> Ints:
        raise ZeroDivisionError

    model = rebuilt(broken)
    with pytest.raises(ModelError, match="ZeroDivisionError") as caught:
        audited(model)
    assert len(caught.value.findings) > 0


def test_an_interrupt_while_findings_are_confirmed_keeps_what_was_confirmed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []
    judged, batches = searched._is_confirmed, Findings.batches

    def stop(*given: Any) -> Any:
        asked.append(given)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return judged(*given)

    monkeypatch.setattr(searched, "_is_confirmed", stop)
    monkeypatch.setattr(Findings, "batches", lambda self, size=10: batches(self, 10))
    words = f"audit {TABLE} --model {KINDS['pipeline'].words()} {TINY} --out run"
    answer = run(words, code=130)
    body = read_document("run")
    assert body["generation"]["stopped"] == "interrupted"
    assert (
        body["generation"]["idis"]
        == len(Findings.load("run/findings.parquet", table().domain))
        == 10
    )
    assert "kept all 10 findings that were confirmed" in " ".join(answer.stderr.split())
    assert sorted(path.name for path in Path().glob("*run*")) == ["run"]


# -- names that could lead elsewhere ---------------------------------------------------------------


def test_a_column_with_a_slash_leads_to_no_other_folder() -> None:
    people().rename(columns={"sex": "../sex"}).to_csv("odd [bold] name.csv", index=False)
    run(
        "audit 'odd [bold] name.csv' --label granted --sensitive ../sex --model own.py:coded"
        f" {TINY}"
    )
    (folder,) = Path("runs").iterdir()
    assert folder.name == "odd [bold] name-..-sex"
