"""The pages do what they say: networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import run_page

NETWORKS = ("how-to/keras", "how-to/onnx", "how-to/pytorch", "how-to/torch-files")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # readers see warnings and go on
@pytest.mark.parametrize("page", NETWORKS)
def test_every_block_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_page(page, tmp_path, monkeypatch)
