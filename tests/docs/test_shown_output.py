"""The output shown on the first pages is what the commands print, word for word; numbers may differ
between machines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, call, parts

pytestmark = pytest.mark.slow

ADULT = "fairprobe audit adult --sensitive gender --out runs/adult-gender"


def words(text: str) -> str:
    """Text without frames, line breaks and numbers."""
    return re.sub(r"\d[\d.,]*", "#", " ".join(re.sub("[╭╮╰╯│─]", " ", text).split()))


@pytest.fixture
def printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(script: str) -> str:
        for part in parts(script):
            call(part)
        return words(capsys.readouterr().out)

    return run


def test_the_tutorial_shows_what_is_printed(printed: Callable[[str], str]) -> None:
    audit, repair, *_ = blocks("tutorial", "sh")
    shown = blocks("tutorial", "text")
    assert len(shown) == 2
    output = printed(audit + repair)
    assert [words(text) for text in shown if words(text) not in output] == []


def test_the_home_page_and_the_readme_show_what_is_printed(printed: Callable[[str], str]) -> None:
    output = printed(f"{ADULT}\n")
    (home,) = blocks("index", "text")
    assert words(home) in output
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(rf"^\$ {re.escape(ADULT)}\n(.*?)^```", readme, re.DOTALL | re.M)
    for line in shown.splitlines():
        assert words(line) in output
