"""Sample weights in training: a row with weight 2 is two rows, and wrong weights are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.datasets import Dataset, open_table
from fairprobe.errors import DataError, FairprobeError
from fairprobe.networks import Training, train
from fairprobe.runs.reopen import data_of as data_of_run
from fairprobe.runs.store import read_table_run
from fairprobe.table.report import notes
from tests.helpers import everybody, tiny_domain

DOMAIN = tiny_domain()
X = everybody(DOMAIN)
WHOLE = Training(epochs=3, patience=None, batch=10_000)


def data_of(**more: Any) -> Dataset:
    y = (X[:, 0] + X[:, 2] > 7).astype(np.int64)
    return Dataset(name="tiny", domain=DOMAIN, x=X, y=y, classes=("no", "yes"), **more)


def trained(data: Dataset) -> torch.Tensor:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(len(DOMAIN), 4), nn.Tanh(), nn.Linear(4, 2))
    module = train(network, data, seed=0, training=WHOLE).module
    return torch.cat([weight.flatten() for weight in module.parameters()]).detach()


def test_equal_weights_train_the_network_that_none_do() -> None:
    same = trained(data_of(weights=np.full(len(X), 3.0)))
    torch.testing.assert_close(same, trained(data_of()), rtol=1e-5, atol=1e-6)


def test_rows_of_weight_zero_are_not_learned_and_rows_of_weight_two_count_twice() -> None:
    data = data_of()
    part = data.split(0).train
    weights = np.ones(len(X))
    weights[part[: len(part) // 3]], weights[part[len(part) // 3 : len(part) // 2]] = 0, 2
    flipped = data.y.copy()
    flipped[part[: len(part) // 3]] = 1 - flipped[part[: len(part) // 3]]
    one = trained(data_of(weights=weights))
    torch.testing.assert_close(one, trained(replace(data_of(weights=weights), y=flipped)))
    assert not torch.allclose(one, trained(data), atol=1e-4)

    # The loss of a whole batch is the loss of the same rows, written as often as they count.
    from fairprobe.models import Encoder
    from fairprobe.networks.training import _Part, _Teacher

    encoder = Encoder(DOMAIN)
    codes, labels = torch.from_numpy(X[:9]), torch.from_numpy(data.y[:9])
    network = nn.Linear(encoder.width, 2)
    counts = torch.tensor([0, 1, 2, 3, 0, 1, 1, 2, 1])
    with _Teacher(network, encoder, "logits", (), None) as teacher:
        weighed = teacher.loss(_Part(codes, encoder(codes), labels, counts.float()))
        again = torch.repeat_interleave(torch.arange(9), counts)
        written = teacher.loss(_Part(codes, encoder(codes), labels).take(again))
    torch.testing.assert_close(weighed, written)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        (np.ones(3), "expected one for each of the 300 rows"),
        (np.where(np.arange(300) == 7, -1.0, 1), "Row 7 has the sample weight -1"),
        (np.where(np.arange(300) == 7, np.nan, 1), "Row 7 has the sample weight nan"),
        (np.zeros(300), "All sample weights are 0"),
        (["heavy"] * 300, "must be numbers"),
    ],
)
def test_wrong_weights_are_refused(weights: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        data_of(weights=weights)


def table(**more: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    own = {"age": rng.integers(18, 80, 200), "sex": rng.choice(["f", "m"], 200)}
    return pd.DataFrame(own | {"w": rng.random(200), "y": rng.choice(["no", "yes"], 200)} | more)


def test_a_column_of_weights_describes_nobody() -> None:
    data = open_table(table(), label="y", sensitive="sex", weights="w")
    assert data.domain.names == ("age", "sex")
    assert data.weights == pytest.approx(table()["w"].to_numpy())


@pytest.mark.parametrize(
    ("frame", "column", "said"),
    [
        (table(), "v", "no column 'v' for the sample weights"),
        (table(), "sex", "cannot hold the sample weights"),
        (table(w="heavy"), "w", "must be numbers"),
        (table(w=[np.nan, *range(199)]), "w", "Row 0 has no sample weight"),
        (table(w=-1.0), "w", "Row 0 has the sample weight -1"),
    ],
)
def test_a_wrong_column_is_refused(frame: pd.DataFrame, column: str, said: str) -> None:
    with pytest.raises(FairprobeError, match=said):
        open_table(frame, label="y", sensitive="sex", weights=column)


def test_a_run_says_its_main_numbers_weighted_and_the_others_unweighted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table().to_csv("my.csv", index=False)
    words = ["audit", "my.csv", "--label", "y", "--sensitive", "sex", "--set", "sample_weights=w"]
    small = ["--samples", "200", "--seeds", "5", "--time", "1", "--out", "run"]
    result = CliRunner().invoke(app, [*words, *small])
    assert result.exit_code == 0, result.output
    document = read_table_run(Path("run"))
    assert any("All other numbers count everybody once" in note for note in notes(document))
    assert "accuracy" in [each.what for each in document.weighted]
    assert "weighted by sample weights" in Path("run/report.html").read_text(encoding="utf-8")
    again = data_of_run(document, Path("run"), words[1])
    assert again.weights == pytest.approx(table()["w"].to_numpy())
