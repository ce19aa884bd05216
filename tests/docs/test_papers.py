"""docs/papers.md: every numbered part of the papers has an entry, and every entry points to
something.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections import Counter
from importlib import import_module
from typing import Any, get_args

import pytest
import typer

from docs import hooks
from fairprobe.cli import app
from fairprobe.datasets import catalogue
from fairprobe.errors import InputError
from fairprobe.images.excitement import OverMaps
from fairprobe.options import AuditSettings, read_settings
from fairprobe.repairs.catalogue import any_repair_named
from fairprobe.scenes.plan import Variant
from fairprobe.search.budget import Budget
from fairprobe.search.catalogue import check_method
from fairprobe.search.settings import parsed, with_settings
from papers.__main__ import app as papers_app
from papers.__main__ import words_of
from papers.base import Plan
from papers.catalogue import EXPERIMENTS
from papers.data.iifr import load_iifr
from tests.docs.pages import DOCS
from tests.docs.test_pages import commands

PAPERS = sorted((DOCS / "papers").glob("*.toml"))
KINDS = {"algorithms": "Algorithm", "equations": "Equation", "tables": "Table", "figures": "Figure"}
SENSITIVE = {each.name: each.protected for each in catalogue()}
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


# -- commands and notes ----------------------------------------------------------------------------


def check_command(line: str) -> None:
    """Raise if the command line does not accept this, or if it names a method, variant, setting,
    repair, experiment, data set or attribute that does not exist.
    """
    program, *words = shlex.split(line)
    if program == "python":
        assert words[:2] == ["-m", "papers"]
        name, *words = words_of(words[2:])
        given = commands(papers_app)[name].make_context(name, words).params
        check_paper(name, given, line)
        return
    assert program == "fairprobe"
    name, *words = words
    command = commands()[name]
    if name == "data":
        name, *words = words
        command = command.commands[name]
    given = command.make_context(name, words).params
    if name == "groups":
        assert given["name"] in SENSITIVE, line
    if name in ("audit", "similar"):
        sensitive = SENSITIVE[given.get("dataset") or given["table"]]
        assert {*given["sensitive"].split(",")} <= {*sensitive}, line
    if name == "audit":
        check_audit(given)
    elif name == "repair":
        any_repair_named(given["with_"])
    elif name == "audit-scenes":
        assert given["variant"] in get_args(Variant), line
    elif name == "insidebias":
        assert given["over_maps"] in get_args(OverMaps), line


def check_paper(name: str, given: dict[str, Any], line: str) -> None:
    if name == "similar":
        assert {given["sensitive"]} <= {*load_iifr(given["name"]).protected}, line
    elif name == "run":
        experiment, options = EXPERIMENTS[given["name"]], parsed(given["set_"] or [])
        assert options.keys() <= experiment.options.keys(), line
        if options:
            experiment.stages(Plan(scale=given["scale"], options=options))


def check_audit(given: dict[str, Any]) -> None:
    more, of_method = read_settings(AuditSettings, given["set_"])
    if given["method"] != "auto":
        check_method(given["method"], more.variant)
    if of_method:
        with_settings(given["method"], of_method, Budget())
    Budget(seeds_by=more.seeds_by)
    assert given["counterparts"] in ("twins", "bare")
    assert more.pairs in ("all", "single")


def check_note(note: str, run: str) -> None:
    """Commands and options of a note stand between backticks; options are those of the entry's own
    command, which accepts them. Links lead to pages.
    """
    for code in re.findall("`([^`]*)`", note):
        if code.startswith(("fairprobe ", "python -m papers")):
            check_command(code)
        elif re.fullmatch("--[a-z-]+", code):
            program = papers_app if run.startswith("python") else app
            name = "run" if run.startswith("python") else run.split()[1]
            params = commands(program)[name].params
            assert code in {each for option in params for each in option.opts}
        elif code.startswith("--"):
            check_command(f"{run} {code}")
    plain = re.sub("`[^`]*`", "", note)
    assert "--" not in plain, "an option stands between backticks"
    for page in re.findall(r"[\w./-]+\.md\b", plain):
        assert f"]({page})" in note, "a page is a link"
        assert (DOCS / page).is_file(), page


REFUSALS = (  # the last one is click's root of errors, which typer carries
    AssertionError,
    KeyError,
    InputError,
    typer.BadParameter.__mro__[2],
)
RIGHT = "fairprobe audit adult --sensitive gender --method neuronfair"
WRONG_COMMANDS = [
    f"{RIGHT} --set nonsense=1",
    f"{RIGHT} --set p_r=many",
    f"{RIGHT} --set variant=papr",
    f"{RIGHT} --set seeds_by=row",
    f"{RIGHT} --counterparts bar",
    f"{RIGHT} --nonsense",
    f"{RIGHT} --set",
    "fairprobe audit adult --sensitive gender --method neuronfir",
    "fairprobe audit adullt --sensitive gender",
    "fairprobe audit adult --sensitive gendr",
    "fairprobe audit adult",
    "fairprobe data similar german --sensitive race",
    "fairprobe data groups germn",
    "python -m papers neuronfair-table10 --set trank=vgg16",
    "python -m papers neuronfair-table10 --set trunk=vgg61",
    "python -m papers neuronfair-table99",
    "python -m papers insidebias-mnist --set digits=x",
    "fairprobe repair run --with iffr",
    "fairprobe audit-scenes photos --annotations a.json --detector d.onnx --out run --variant papr",
    "fairprobe insidebias --model a.py:b --groups faces --over-maps maximal",
    "fairprobe insidebias --model a.py:b --groups faces --tau 2",
    "fairprobe audits adult",
]


@pytest.mark.parametrize("line", WRONG_COMMANDS)
def test_a_wrong_name_in_a_command_is_noticed(line: str) -> None:
    check_command(RIGHT)
    with pytest.raises(REFUSALS):
        check_command(line)


@pytest.mark.parametrize(
    "note",
    [
        "See results/nowhere.md.",
        "See [there](results/nowhere.md).",
        "See results/neuronfair-table4.md.",
        "Try --set variant=paper.",
        "Try `--set variant=papr`.",
        "Try `--nonsense`.",
        "Try `fairprobe audit adullt --sensitive gender`.",
    ],
)
def test_a_wrong_note_is_noticed(note: str) -> None:
    check_note("See [there](results/neuronfair-table4.md); `--set variant=paper`, `--set`.", RIGHT)
    with pytest.raises(REFUSALS):
        check_note(note, RIGHT)


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
    if run:
        check_command(run)
    check_note(entry.get("note", ""), run)
    if entry["status"] == "not possible":
        assert entry["note"], "say why"
    else:
        assert entry["code"], "say where it lives"
        assert run.startswith(("fairprobe ", "python -m papers ")), "say how to run it"
    if "result" in entry:
        assert (DOCS / entry["result"]).is_file()
