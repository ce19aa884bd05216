"""An audit in MLflow: written to a real store in a folder, and read back from it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairprobe as fp
from fairprobe.datasets import Dataset
from fairprobe.errors import SettingError, StorageError
from fairprobe.findings import Findings
from fairprobe.models import Model, one_thread
from fairprobe.report.formats import plain
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search import Budget
from fairprobe.table.audit import Audit
from fairprobe.table.mlflow_log import _allowed, _metrics
from fairprobe.table.words import verdict
from tests.helpers import merit, planted, typed
from tests.present.test_report_documents import (
    Document,
    multi_class,
    repaired,
    selection_row,
    selection_table,
    without_pairs,
)
from tests.present.test_report_documents import document as example

mlflow = pytest.importorskip("mlflow")
CUT = 15.25
ATTRIBUTES = (
    Attribute(name="skill", low=0, high=30),
    Attribute(name="gender", kind="categorical", categories=("female", "male")),
    Attribute(name="age | years", kind="categorical", categories=("young", "old")),
)
FILES = {"audit.json", "findings.parquet", "model-card.md", "report.html"}


@pytest.fixture(scope="module")
def done() -> Audit:
    """An audit by two attributes, the name of one of which MLflow does not allow."""
    domain = Domain(ATTRIBUTES)
    x = domain.sample(300, rng=np.random.default_rng(5))
    y = (merit(domain.with_sensitive("gender"), x) > CUT).astype(np.int64)
    data = Dataset(
        name="toy", domain=domain, x=x, y=y, classes=("refused", "hired"), label="job", favourable=1
    )
    sensitive = ("gender", "age | years")
    network = planted(domain.with_sensitive(sensitive), bias=4, cut=CUT)
    with one_thread():
        return fp.audit(
            data,
            network,
            sensitive,
            budget=Budget(seeds=20, local_iterations=10),
            samples=500,
            seed=3,
        )


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A store of files, which new versions of MLflow ask to be allowed; the small package has no
    database.
    """
    for name, value in {
        "MLFLOW_ALLOW_FILE_STORE": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }.items():
        monkeypatch.setenv(name, value)
    for name in (
        "MLFLOW_RUN_ID",
        "MLFLOW_EXPERIMENT_ID",
        "MLFLOW_EXPERIMENT_NAME",
        "MLFLOW_TRACKING_URI",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    mlflow.set_experiment("hiring")
    yield tmp_path / "store"
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri(before)


def stored(run: str) -> Any:
    return mlflow.MlflowClient().get_run(run)


def files(run: str, folder: str = "fairprobe") -> set[str]:
    return {Path(file.path).name for file in mlflow.MlflowClient().list_artifacts(run, folder)}


# -- what is written -------------------------------------------------------------------------------


def test_everything_is_in_the_active_run_which_stays_open(done: Audit, tmp_path: Path) -> None:
    with mlflow.start_run() as run:
        assert done.log_to_mlflow() == run.info.run_id
        assert mlflow.active_run().info.run_id == run.info.run_id
        mlflow.log_metric("mine", 1)
    body, seen = done.to_dict(), stored(run.info.run_id).data
    rates = {
        "dm_rs": body["dm_rs"],
        "people": body["people"],
        "ifr_b": body["fairness"]["individual"]["b"],
    }
    quality = body["fairness"]["quality"]
    rates |= {"ifr_p": body["fairness"]["individual"]["p"], "accuracy": quality["accuracy"]}
    rates |= quality["scores"]
    for name, rate in rates.items():
        ends = [seen.metrics.get(f"fairprobe/{name}{end}") for end in ("", "_low", "_high")]
        assert ends == [rate["estimate"], rate["low"], rate["high"]], name
    for name in ("idis", "tried", "gsr", "spread", "cells"):
        assert seen.metrics[f"fairprobe/{name}"] == body["generation"][name]
    assert seen.metrics["fairprobe/auc"] == body["interpretation"]["auc"]
    assert seen.metrics["fairprobe/idis"] == len(done.findings) > 0
    gender, age, both = body["fairness"]["group"]["tables"]
    for table, name in ((gender, "gender"), (age, "age _ years"), (both, "gender and age _ years")):
        ratios = [
            row["impact_ratio"]["estimate"]
            for row in table["rows"]
            if not row["is_small"] and not row["is_empty"]
        ]
        assert seen.metrics[f"fairprobe/dp/{name}"] == table["dp"]["estimate"]
        assert seen.metrics[f"fairprobe/lowest_impact_ratio/{name}"] == min(ratios)
        assert [
            seen.metrics[f"fairprobe/eo/{name}/{answer}"] for answer in ("refused", "hired")
        ] == [each["estimate"] for each in table["eo"]]
    assert seen.params == {
        "fairprobe/dataset": "toy",
        "fairprobe/sensitive": "gender, age | years",
        "fairprobe/counterparts": "twins",
        "fairprobe/model": "Sequential",
        "fairprobe/method": "probe",
        "fairprobe/seed": "3",
        "fairprobe/seeds": "20",
        "fairprobe/samples": "500",
        **{
            f"fairprobe/version_{program}": version
            for program, version in done.run.versions.items()
        },
    }
    assert seen.tags["fairprobe/verdict"] == plain(verdict(typed(body)))
    assert (seen.tags["fairprobe/status"], seen.tags["fairprobe/created"]) == (
        "found",
        done.run.created,
    )
    assert "fairprobe/repair" not in seen.tags


def test_the_files_are_those_of_a_run(done: Audit, tmp_path: Path) -> None:
    run = done.log_to_mlflow()
    assert files(run) == FILES
    folder = Path(mlflow.MlflowClient().download_artifacts(run, "fairprobe", str(tmp_path)))
    assert json.loads((folder / "audit.json").read_text(encoding="utf-8")) == done.to_dict()
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (folder / "model-card.md").read_text(encoding="utf-8") == done.model_card()
    again = Findings.load(folder / "findings.parquet", done.data.domain)
    assert len(again) == len(done.findings)


def test_without_an_active_run_one_is_started_and_ended(done: Audit) -> None:
    run = done.log_to_mlflow(findings=False)
    assert mlflow.active_run() is None
    assert stored(run).info.status == "FINISHED"
    assert files(run) == FILES - {"findings.parquet"}


def test_two_audits_share_a_run_under_two_prefixes(done: Audit) -> None:
    with mlflow.start_run() as run:
        done.log_to_mlflow(prefix="before")
        done.log_to_mlflow(prefix="nets/after repair-1.0")
    seen = stored(run.info.run_id).data
    assert (
        seen.metrics["before/dm_rs"]
        == seen.metrics["nets/after repair-1.0/dm_rs"]
        == done.run.dm_rs.estimate
    )
    assert (
        files(run.info.run_id, "before") == files(run.info.run_id, "nets/after repair-1.0") == FILES
    )


def test_the_same_audit_can_be_logged_twice(done: Audit) -> None:
    with mlflow.start_run() as run:
        done.log_to_mlflow()
        done.log_to_mlflow()
    assert files(run.info.run_id) == FILES


def test_a_black_box_has_no_auc(done: Audit) -> None:
    outside = fp.audit(
        done.data,
        Model(done.model.probabilities),
        "gender",
        method="random",
        budget=Budget(seeds=5, local_iterations=5),
        samples=100,
    )
    seen = stored(outside.log_to_mlflow()).data
    assert "fairprobe/auc" not in seen.metrics
    assert "fairprobe/dm_rs" in seen.metrics
    assert "fairprobe/variant" not in seen.params


# -- names and numbers -----------------------------------------------------------------------------


def test_only_numbers_that_are_defined_are_told() -> None:
    names = _metrics(typed(multi_class()))
    assert "selected" not in names
    assert not [name for name in names if name.startswith(("dp", "eo", "lowest"))]
    assert "ifr_b" not in _metrics(typed(without_pairs()))
    body = example()
    body["fairness"]["group"]["tables"] = [
        selection_table("gender", [selection_row("a", 0, 9, None)])
    ]
    assert "lowest_impact_ratio/gender" not in _metrics(typed(body))
    assert all(isinstance(value, int | float) for value in _metrics(typed(repaired())).values())


def with_attributes(*names: str) -> Document:
    body = example()
    rows = [
        selection_row("a", 20, 100, (0.4, 0.3, 0.5)),
        selection_row("b", 50, 100, (1.0, 1.0, 1.0)),
    ]
    body["fairness"]["group"]["tables"] = [selection_table(name, rows) for name in names]
    return body


def test_attributes_that_look_alike_in_mlflow_keep_numbers_of_their_own() -> None:
    names = [
        name
        for name in _metrics(typed(with_attributes("a|b", "a?b", "a_b", "東" * 99, "東" * 98)))
        if name.startswith("dp/")
    ]
    assert names == ["dp/a_b", "dp/a_b_2", "dp/a_b_3", f"dp/{'東' * 60}", f"dp/{'東' * 60}_2"]


@given(st.text(max_size=80))
def test_any_name_becomes_one_that_mlflow_takes(name: str) -> None:
    part = _allowed(name)
    mlflow.utils.validation._validate_metric_name(f"fairprobe/eo/{part}/{part}")
    assert len(part.encode()) <= 250
    assert "/" not in part


def test_more_numbers_than_one_request_takes_are_all_stored(
    done: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = with_attributes(*(f"attribute {place}" for place in range(300)))
    monkeypatch.setattr(Audit, "document", property(lambda _: typed(body)))
    seen = stored(done.log_to_mlflow(findings=False)).data
    assert len(_metrics(typed(body))) > 1200
    assert {
        f"fairprobe/{name}": value for name, value in _metrics(typed(body)).items()
    } == seen.metrics


def test_a_repair_is_told_of(done: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Audit, "document", property(lambda _: typed(repaired())))
    seen = stored(done.log_to_mlflow(findings=False)).data
    assert (seen.params["fairprobe/repair"], seen.tags["fairprobe/repair"]) == (
        "counterfactual",
        "accepted",
    )


def test_long_texts_are_cut_to_what_every_store_takes(
    done: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = example() | {"command": "very " * 5000, "dataset": "d" * 9000}
    monkeypatch.setattr(Audit, "document", property(lambda _: typed(body)))
    seen = stored(done.log_to_mlflow(findings=False)).data
    assert len(seen.params["fairprobe/dataset"]) == 500


# -- what goes wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix", ["", "/a", "a/", "a//b", "..", "a/../b", "a|b", "a\nb", "x" * 61]
)
def test_a_prefix_that_makes_no_names_is_refused(done: Audit, prefix: str, store: Path) -> None:
    with pytest.raises(
        SettingError, match=r"`prefix` begins the names in MLflow.*" + re.escape(repr(prefix))
    ):
        done.log_to_mlflow(prefix=prefix)
    assert (
        mlflow.MlflowClient().search_runs([mlflow.get_experiment_by_name("hiring").experiment_id])
        == []
    )


def test_another_audit_under_the_same_prefix_is_refused_in_a_sentence(
    done: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mlflow.start_run() as run:
        done.log_to_mlflow()
        monkeypatch.setattr(Audit, "document", property(lambda _: typed(example())))
        with pytest.raises(
            StorageError, match="start another run, or give another prefix than 'fairprobe'"
        ) as caught:
            done.log_to_mlflow()
        assert "audit.save(folder)" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert stored(run.info.run_id).data.params["fairprobe/dataset"] == "toy"


def test_a_store_that_is_not_there_is_told_and_the_audit_can_be_saved(
    done: Audit, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    mlflow.set_tracking_uri((tmp_path / "file").as_uri())
    with pytest.raises(
        StorageError, match=r"MLflow could not store the audit: .*\. The audit itself is as it was"
    ):
        done.log_to_mlflow()
    fp.save(done, tmp_path / "run")
    assert (tmp_path / "run" / "findings.parquet").exists()


def test_a_run_of_our_own_that_could_not_be_filled_is_marked_as_failed(
    done: Audit, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mlflow.MlflowClient, "log_artifacts", full)
    with pytest.raises(StorageError, match="No space left on device"):
        done.log_to_mlflow()
    (run,) = mlflow.MlflowClient().search_runs(
        [mlflow.get_experiment_by_name("hiring").experiment_id]
    )
    assert run.info.status == "FAILED"
    assert mlflow.active_run() is None


def test_without_mlflow_the_error_names_what_to_install(
    done: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "mlflow", None)
        with pytest.raises(SettingError, match=r'pip install "fairprobe\[mlflow\]"'):
            done.log_to_mlflow()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy, within MLflow
def test_the_default_store_works_with_our_own_extra(
    done: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's default is a database in the working folder, which the small package alone lacks."""
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    mlflow.set_experiment("hiring")
    run = done.log_to_mlflow()
    assert files(run) == FILES
    assert stored(run).data.metrics
    assert (tmp_path / "mlflow.db").exists()
