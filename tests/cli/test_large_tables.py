"""Large tables: an epoch of many rows is bounded, and the words of a page are counted."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.scale import table, words_of
from fairprobe import datasets, networks
from fairprobe.networks import Training, training


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
