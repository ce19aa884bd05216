"""`fp.certify` and `fairprobe certify`: from data and a model to what is proved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from torch import nn
from typer.testing import CliRunner

import fairprobe as fp
from fairprobe.certificates import certify as room
from fairprobe.certificates import checker
from fairprobe.certificates.fold import chain_of
from fairprobe.certificates.people import proved_radius
from fairprobe.cli import app
from fairprobe.cli.common import BAD_INPUT, OK
from fairprobe.errors import ModelError
from fairprobe.models import TorchModel
from fairprobe.networks import Training
from fairprobe.repairs.certified import Certified
from fairprobe.runs.store import read_table_run
from tests.certificates.small import network, numbers

DOMAIN = numbers(sizes=(12, 9, 11))
QUICK = Training(epochs=3, patience=None)


def people(n: int = 60) -> fp.Dataset:
    x = DOMAIN.sample(n, rng=np.random.default_rng(0))
    y = network(DOMAIN, seed=5).labels(x)
    return fp.Dataset(name="toy", domain=DOMAIN, x=x, y=y, label="job", classes=("no", "yes"))


def test_a_certificate_says_saves_and_shows_what_is_proved(tmp_path: Path) -> None:
    data, model = people(), network(DOMAIN, seed=5)
    done = fp.certify(data, model, sensitive="sex", seconds=30)
    assert done.document.way == "enumerated"
    truth = fp.judge(DOMAIN, model, data.x).is_discriminatory
    assert ((done.radius < 0) == truth).all()
    assert done.to_dict()["proved"] + done.to_dict()["affected"] == pytest.approx(1, abs=1e-3)
    assert "exactly" in repr(done)
    folder = done.save(tmp_path / "out")
    assert checker.check(str(folder / "certificate.npz"))["checked"] == done.document.proved
    assert list(pd.read_parquet(folder / "proved_people.parquet").proved_radius) == list(
        done.radius
    )
    assert "What is proved" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_person_is_proved_within_one_exactly_if_all_neighbors_are_treated_alike() -> None:
    data, model = people(), network(DOMAIN, seed=5)
    radius = proved_radius(chain_of(model, DOMAIN), DOMAIN, data.x)
    offsets = np.stack(np.meshgrid(*[[-1, 0, 1]] * 3, indexing="ij"), -1).reshape(-1, 3)
    for row, found in zip(data.x, radius, strict=True):
        near = np.repeat(row[None], len(offsets), axis=0)
        near[:, [0, 2, 3]] += offsets
        verdict = fp.judge(DOMAIN, model, DOMAIN.clip(near))
        assert (found >= 1) == (not verdict.is_discriminatory.any())


def test_a_black_box_is_not_certified() -> None:
    with pytest.raises(ModelError, match="black box"):
        fp.certify(people(), fp.Model(lambda x: x[:, 0] / 20), sensitive="sex")


def test_a_layer_that_is_not_supported_is_named() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.SiLU(), nn.Linear(3, 1))
    with pytest.raises(ModelError, match="'1' \\(SiLU\\)"):
        fp.certify(people(), TorchModel(module, outputs="logits"), sensitive="sex")


def test_the_command_certifies_a_run_and_checks_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, model = people(), network(DOMAIN, seed=5)
    run = tmp_path / "run"
    audit = fp.audit(
        *(data, model, "sex"), budget=fp.Budget(seeds=5, local_iterations=2), samples=200
    )
    fp.save(audit, run)
    # The data has no file, so it is handed over.
    monkeypatch.setattr(room, "data_of", lambda *_: data.with_sensitive("sex"))
    monkeypatch.setattr(room, "model_of", lambda *_: model)
    document, done = room.certify_run(run, seconds=5)
    assert read_table_run(run).certificate == document.certificate == done.document
    report = (run / "report.html").read_text(encoding="utf-8")
    assert "What is proved" in report
    shown = CliRunner().invoke(app, ["show", str(run)])
    assert "Possible people proved" in shown.output
    checked = CliRunner().invoke(app, ["verify", str(run / "certificate.npz")])
    assert checked.exit_code == OK, checked.output
    (tmp_path / "damaged.npz").write_bytes((run / "certificate.npz").read_bytes()[:-900])
    bad = CliRunner().invoke(app, ["verify", str(tmp_path / "damaged.npz")])
    assert bad.exit_code == BAD_INPUT


def test_the_command_says_what_is_missing() -> None:
    for words in (["certify"], ["certify", "nothing.onnx"]):
        assert CliRunner().invoke(app, words).exit_code == BAD_INPUT


def test_a_blind_network_is_proved_at_once_and_a_provable_repair_has_fewer_weights() -> None:
    data = people(400)
    given = fp.networks.train(fp.networks.dense(DOMAIN, (8, 6), kaiming=True), data)
    sensitive = data.with_sensitive("sex")
    blind = fp.repairs.Blind(training=QUICK)(given, sensitive)
    assert fp.certify(data, blind, sensitive="sex").document.way == "no weight"
    plain = Certified(strength=0, pairs=0, training=QUICK)(given, sensitive)
    few = Certified(strength=0.01, training=QUICK)(given, sensitive)
    weights = [
        sum(float(p.detach().abs().sum()) for p in each.module.parameters())
        for each in (plain, few)
    ]
    assert weights[1] < weights[0]
