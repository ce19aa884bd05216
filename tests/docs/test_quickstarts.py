"""The quickstarts do what they say: tables, pipelines, functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.quickstarts import NETWORKS, PAGES, run_page


@pytest.mark.filterwarnings("ignore")  # a page is read by people who see them and go on
@pytest.mark.parametrize("name", [name for name in PAGES if name not in NETWORKS])
def test_every_block_of_a_quickstart_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_page(PAGES[name], tmp_path, monkeypatch) or name == "README"


def test_the_list_of_quickstarts_names_every_page() -> None:
    listed = PAGES["README"].read_text(encoding="utf-8")
    assert all(f"({page.name})" in listed for name, page in PAGES.items() if name != "README")
