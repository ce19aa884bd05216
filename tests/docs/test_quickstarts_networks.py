"""The quickstarts do what they say: networks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.quickstarts import NETWORKS, PAGES, run_page


@pytest.mark.filterwarnings("ignore")  # a page is read by people who see them and go on
@pytest.mark.parametrize("name", NETWORKS)
def test_every_block_of_a_quickstart_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_page(PAGES[name], tmp_path, monkeypatch)
