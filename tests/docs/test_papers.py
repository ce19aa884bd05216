"""docs/papers.md: every numbered part of the papers has an entry, and every entry points to
something.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from importlib import import_module
from typing import Any

import pytest

from docs import hooks
from fairprobe.papers.catalogue import EXPERIMENTS
from tests.docs.pages import DOCS
from tests.docs.test_pages import check_commands

PAPERS = sorted((DOCS / "papers").glob("*.toml"))
KINDS = {"algorithms": "Algorithm", "equations": "Equation", "tables": "Table", "figures": "Figure"}
ROMAN = {"I": 1, "II": 2}


def read(name: str) -> dict[str, Any]:
    return tomllib.loads((DOCS / "papers" / name).read_text(encoding="utf-8"))


def entries() -> list[Any]:
    return [
        pytest.param(entry, id=f"{path.stem} {entry['item']}")
        for path in PAPERS
        for entry in read(path.name)["entry"]
    ]


def test_the_list_in_the_repository_is_current() -> None:
    page = (DOCS / "papers.md").read_text(encoding="utf-8")
    assert page == hooks.papers_page(), "run `python -m docs.hooks`"
    for path in PAPERS:
        assert f"## {read(path.name)['title']}\n" in page


def test_there_are_four_papers() -> None:
    assert [path.stem for path in PAPERS] == ["distrofair", "iifr", "insidebias", "neuronfair"]


@pytest.mark.parametrize("name", [path.name for path in PAPERS])
def test_every_numbered_part_has_one_entry(name: str) -> None:
    paper = read(name)
    wanted = Counter(
        (kind, number)
        for plural, kind in KINDS.items()
        for number in range(1, paper.get(plural, 0) + 1)
    )
    words = [entry["item"].split() for entry in paper["entry"]]
    assert Counter((kind, ROMAN.get(n) or int(n)) for kind, n in words) == wanted


@pytest.mark.parametrize("entry", entries())
def test_every_entry_points_to_something(entry: dict[str, Any]) -> None:
    assert set(entry) <= {"item", "about", "code", "run", "status", "note", "result"}
    assert entry["status"] in ("exact", "variant", "not possible")
    for place in entry["code"]:
        module, _, names = place.partition(":")
        value: Any = import_module(module)
        for name in names.split("."):
            value = getattr(value, name)
    run = entry.get("run", "")
    check_commands(run)
    words = run.split()
    if words[1:2] == ["experiment"]:
        assert words[2] in EXPERIMENTS
    if entry["status"] == "not possible":
        assert entry["note"], "say why"
    else:
        assert entry["code"], "say where it lives"
        assert run.startswith("fairprobe "), "say how to run it"
    if "result" in entry:
        assert (DOCS / entry["result"]).is_file()
