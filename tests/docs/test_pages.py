"""The pages do what they say: tables, decisions, repairs. Two other files share the work."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from fairprobe.cli import app
from papers.__main__ import app as papers_app
from papers.__main__ import words_of
from papers.catalogue import EXPERIMENTS
from tests.docs.pages import ROOT, blocks, names, read, run_page, runnable
from tests.docs.test_pages_networks import NETWORKS
from tests.docs.test_pages_pictures import PICTURES

SHORT = ("index",)  # on the others networks are trained; CI runs them among the slow tests


@pytest.mark.filterwarnings("ignore")  # readers see warnings and go on
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.slow] if page not in SHORT else [])
        for page in runnable()
        if page not in NETWORKS + PICTURES
    ],
)
def test_every_block_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_page(page, tmp_path, monkeypatch)


def test_the_list_of_guides_names_every_guide() -> None:
    listed = read("how-to/index")
    for page in names():
        if page.startswith("how-to/") and page != "how-to/index":
            assert f"({page.removeprefix('how-to/')}.md)" in listed


@pytest.mark.parametrize("page", [page for page in names() if blocks(page, "console", "sh")])
def test_every_command_that_is_shown_exists_with_its_options(page: str) -> None:
    check_commands("".join(blocks(page, "console", "sh")))


def test_every_command_of_the_readme_exists_with_its_options() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    check_commands("".join(re.findall(r"^```\w*\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)))


def test_links_of_the_readme_lead_somewhere() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", readme):
        assert link.startswith("https://") or (ROOT / link).exists(), link


COMMAND = r"^(?:\$ )?(fairprobe|python -m papers)\b(.*)$"


@cache
def commands(program: typer.Typer = app) -> dict[str, Any]:
    built: dict[str, Any] = typer.main.get_command(program).commands  # type: ignore[attr-defined]
    return built


def check_commands(text: str) -> None:
    for program, line in re.findall(COMMAND, text.replace("\\\n", " "), re.MULTILINE):
        words = shlex.split(re.sub(r" *(#|\|\|) .*", "", line))
        if program == "fairprobe":
            if words[0].startswith("-"):
                continue
            command = commands()[words[0]]
            if words[0] == "data":
                command = command.commands[words[1]]
        else:
            words = words_of(words)
            command = commands(papers_app)[words[0]]
            assert words[0] != "run" or words[1] in EXPERIMENTS, line
        options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        used = {word for word in words if re.match(r"--?[a-z]", word)}
        assert used <= options | {"--help"}, f"{program} {line}: {used - options}"
