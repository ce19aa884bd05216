"""Tables of 1,000 columns fit on a screen and a page; an epoch of many rows is bounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.scale import table, words_of
from typer.testing import CliRunner

from fairprobe import datasets, networks
from fairprobe.cli import app
from fairprobe.networks import Training, training


@pytest.mark.slow
def test_a_table_of_1000_columns_fits_on_a_screen_and_a_page(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    table(300, 1_000).to_csv(path, index=False)
    command = ["audit", str(path), "--label", "answer", "--sensitive", "sex", "--seconds", "2"]
    command += ["--samples", "500", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) < 60
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert words_of(page) < 2_000


def test_an_epoch_of_a_large_table_is_a_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = datasets.open_table(
        table(400, 5), label="answer", sensitive="sex", name="large"
    ).with_sensitive("sex")
    seen: list[int] = []
    whole = training._Part.take

    def counted(part: training._Part, rows: torch.Tensor) -> training._Part:
        seen.append(len(rows))
        return whole(part, rows)

    monkeypatch.setattr(training._Part, "take", counted)
    how = Training(epochs=3, patience=None, batch=32)
    networks.train(networks.lfcn(data.domain), data, training=how)
    rows = len(data.split(0).train) + len(data.split(0).validation)
    assert sum(seen) == 3 * rows
    seen.clear()
    monkeypatch.setattr(training, "EPOCH", 64)
    monkeypatch.setattr(training, "VALIDATED", 10)
    networks.train(networks.lfcn(data.domain), data, training=how)
    assert sum(seen) == 3 * (64 + 10)
    assert np.unique(seen).tolist() == [10, 32]


def test_words_are_counted_as_a_reader_sees_them() -> None:
    page = "<style>a b c</style><p>Two <b>words</b></p><script>x y</script>"
    folded = "<details><summary>One</summary>not <details><summary>no</summary></details></details>"
    assert words_of(page + folded) == 3
