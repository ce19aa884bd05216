"""Parts chosen by name: what each says about itself, and what installed packages may add."""

from __future__ import annotations

import ast
from dataclasses import MISSING, fields
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest

from fairprobe import catalogue
from fairprobe.catalogue import MEASURES, Catalogue, PluginWarning, declared
from fairprobe.errors import SettingError
from fairprobe.present import listings
from fairprobe.repairs import REPAIRS, Blind, repair_named
from fairprobe.repairs import base as repairs
from fairprobe.search import METHODS, RandomWalk
from fairprobe.search.methods import base as methods

SOURCE = Path(catalogue.__file__).parent


class Greedy(RandomWalk):
    name: ClassVar[str] = "greedy"
    title: ClassVar[str] = "Greedy"
    about: ClassVar[str] = "Takes what it can get."


class Untitled(RandomWalk):
    name: ClassVar[str] = "untitled"
    title: ClassVar[str] = ""


class Gap(Greedy):
    name: ClassVar[str] = "gap"
    report_text: ClassVar[str] = "It starts from {people}."


def catalogue_with(monkeypatch: pytest.MonkeyPatch, **plugins: str) -> Catalogue[Any]:
    """The methods, and plug-ins: names with "module:attribute"."""
    found = [EntryPoint(name, target, "fairprobe.methods") for name, target in plugins.items()]
    monkeypatch.setattr(catalogue, "entry_points", lambda group: found)
    return Catalogue(
        "fairprobe.methods",
        "method",
        check="fairprobe.search.methods.base:check_description",
        own=METHODS.own,
    )


# -- what parts say about themselves ---------------------------------------------------------------


@pytest.mark.parametrize("name", METHODS.own)
def test_every_method_describes_itself(name: str) -> None:
    method = METHODS[name]
    methods.check_description(method)
    assert method.name == name
    assert method.about.endswith(".")
    assert method.paper or name in ("random", "crossover", "probe")
    defaults = {each.name: each.default for each in fields(method) if each.default is not MISSING}  # type: ignore[arg-type]
    assert defaults.get("variant", "") == next(iter(method.variants), "")
    needed = {each.name for each in fields(method) if each.name not in defaults}  # type: ignore[arg-type]
    assert {argument.partition("=")[0] for argument in method.required} == needed


@pytest.mark.parametrize("name", REPAIRS.own)
def test_every_repair_describes_itself(name: str) -> None:
    repair = REPAIRS[name]
    repairs.check_description(repair)
    assert repair.about.endswith(".")
    assert repair_named(name).name == name
    for variant in repair.variants:
        assert repair_named(f"{name}+{variant}").name == f"{name}+{variant}"


def test_lists_hold_every_part_with_its_variants_the_default_first() -> None:
    text, data = listings.methods().markdown(), listings.methods().to_dicts()
    assert [each["name"] for each in data] == list(METHODS)
    for name in METHODS:
        line = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        places = [line.index(f"{variant}") for variant in METHODS[name].variants]
        assert places == sorted(places)
    assert "| `cfair` | CFAIR |" in listings.repairs().markdown()
    assert "cfair+iifr: with the penalty of IIFR" in listings.repairs().markdown()


# -- plug-ins --------------------------------------------------------------------------------------


def test_a_plug_in_stands_behind_fairprobes_own_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    known = catalogue_with(monkeypatch, greedy=f"{__name__}:Greedy")
    assert list(known) == [*METHODS.own, "greedy"]
    assert "greedy" in known
    assert known["greedy"] is Greedy
    assert known.all()["greedy"] is Greedy


def test_fairprobes_own_part_wins_over_a_plug_in_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = catalogue_with(monkeypatch, adf=f"{__name__}:Greedy")
    assert list(known) == list(METHODS.own)
    assert known["adf"] is METHODS["adf"]


def test_names_are_known_without_importing_a_plug_in(monkeypatch: pytest.MonkeyPatch) -> None:
    known = catalogue_with(monkeypatch, broken="no_such_module:Broken")
    assert "broken" in known
    assert list(known)[-1] == "broken"


@pytest.mark.parametrize(
    ("name", "target", "why"),
    [
        ("broken", "no_such_module:Broken", "ModuleNotFoundError: No module named"),
        ("broken", f"{__name__}:NoSuchClass", "AttributeError"),
        ("other", f"{__name__}:Greedy", "its name is 'greedy', and it is registered as 'other'"),
        ("blind", "fairprobe.repairs.blind:Blind", "must be a subclass of fairprobe.search"),
        ("untitled", f"{__name__}:Untitled", "it has no title"),
        ("gap", f"{__name__}:Gap", "KeyError: 'people'"),
    ],
)
def test_a_broken_plug_in_is_one_sentence(
    name: str, target: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = catalogue_with(monkeypatch, **{name: target})
    with pytest.raises(SettingError, match=rf"The method '{name}' of the package .*{why}.*Update"):
        known[name]
    assert known.get(name) is None
    with pytest.warns(PluginWarning, match=why):
        assert list(known.all()) == list(METHODS.own)


def test_an_unknown_part_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingError, match=r"no method 'adff'. Did you mean 'adf'\?"):
        METHODS["adff"]
    assert METHODS.get("adff") is None
    with pytest.raises(TypeError, match="must be a subclass of fairprobe"):
        repairs.check_description(Greedy)
    repairs.check_description(Blind)


def test_a_part_is_found_where_it_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "module.py").write_text(
        'A = Method(\n    name="a"\n)\nPART = Measure(\n    name="part"\n)\nB = Measure(name="b")\n'
    )
    monkeypatch.setattr(catalogue, "__file__", str(tmp_path / "catalogue.py"))
    assert declared("Measure") == {
        "part": "fairprobe.room.module:PART",
        "b": "fairprobe.room.module:B",
    }


def test_a_measure_is_described_in_the_file_that_declares_it() -> None:
    for name, target in MEASURES.own.items():
        module, about = target.partition(":")[0], MEASURES[name].about
        with_it = [path.stem for path in SOURCE.rglob("*.py") if about in texts(path)]
        assert with_it == [module.rpartition(".")[2]]


def test_only_its_measure_writes_the_label_of_dm_rs() -> None:
    labels = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        for text in texts(path)
        if "DM-RS" in text
    }
    assert labels == {"metrics/rates.py"}


def texts(path: Path) -> list[str]:
    """The strings of a module that are not docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if id(node) not in docstrings
    ]
