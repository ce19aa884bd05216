"""Groups of options: declared once, shown by every command that takes the group."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.cli.gone import COMMANDS as GONE
from fairprobe.cli.gone import OPTIONS
from fairprobe.cli.repair import _repair
from fairprobe.errors import SettingError
from fairprobe.networks import Training
from fairprobe.options import (
    DATA,
    MEASURE,
    MODEL,
    RUN,
    SEARCH,
    ModelOptions,
    RepairOptions,
    RepairSettings,
    TableOptions,
    grouped,
    read_settings,
)
from fairprobe.repairs import IIFR


@dataclass(frozen=True, kw_only=True)
class Paint:
    color: Annotated[str, typer.Option(help="Which color.")] = "red"
    coats: int = 1


@dataclass(frozen=True, kw_only=True)
class Varnish(Paint):
    color: Annotated[str, typer.Option(help="Clear or tinted.")] = "clear"


small = typer.Typer()


@small.command()
@grouped
def paint(what: str, *, how: Paint, quick: bool = False) -> None:
    typer.echo(f"{what} {how} {quick}")


@small.command()
@grouped
def varnish(how: Varnish) -> None:
    typer.echo(how)


def test_a_group_becomes_options_and_reaches_the_command_as_one_object() -> None:
    done = CliRunner().invoke(small, ["paint", "door", "--coats", "2", "--quick"])
    assert done.output == "door Paint(color='red', coats=2) True\n"


def test_a_subclass_of_a_group_declares_an_option_again() -> None:
    assert CliRunner().invoke(small, ["varnish"]).output == "Varnish(color='clear', coats=1)\n"
    shown = CliRunner().invoke(small, ["varnish", "--help"]).output
    assert "Clear or tinted." in shown
    assert "Which color." not in shown


@pytest.mark.parametrize(
    ("command", "groups"),
    [
        ("audit", (TableOptions, ModelOptions)),
        ("check", (ModelOptions,)),
        ("certify", (TableOptions, ModelOptions)),
        ("repair", (ModelOptions,)),
    ],
)
def test_every_command_that_opens_a_table_or_a_model_takes_all_options_for_it(
    command: str, groups: tuple[type, ...]
) -> None:
    shown = {each.name for each in get_command(app).commands[command].params}  # type: ignore[attr-defined]
    for group in groups:
        assert shown >= set(group.__dataclass_fields__)  # type: ignore[attr-defined]


def repair_with(method: str, *words: str) -> object:
    settings, _ = read_settings(RepairSettings, words)
    return _repair(RepairOptions(with_=method), settings)


def test_a_repair_can_train_with_the_optimizer_of_the_paper() -> None:
    repair = repair_with("iifr", "optimizer=adadelta")
    assert isinstance(repair, IIFR)
    assert (repair.training.optimizer, repair.training.learning_rate) == ("adadelta", 0.1)
    repair = repair_with("iifr", "learning_rate=0.01")
    assert isinstance(repair, IIFR)
    assert repair.training == Training(optimizer="adam", learning_rate=0.01)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("iifr", "learning_rate=0"), "learning_rate must be a number above 0"),
        (("iifr", "learning_rate=nan"), "a number of 0 or more"),
        (("average", "learning_rate=0.1"), "'average' has no setting 'training'"),
        (("iifr", "optimizer=sgd"), "adam or adadelta; got 'sgd'"),
    ],
)
def test_settings_of_training_that_make_no_sense(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        repair_with(*words)


def commands(group: Any = None, name: str = "") -> dict[str, Any]:
    """All commands with their full names, those within groups included."""
    group = group or get_command(app)
    found = {}
    for key, command in group.commands.items():
        found[f"{name}{key}"] = command
        if hasattr(command, "commands"):
            found |= commands(command, f"{key} ")
    return found


def options_of(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]


def test_the_commands_and_their_options_stay_few() -> None:
    assert len(get_command(app).commands) == 14  # type: ignore[attr-defined]
    counts = {name: len(options_of(command)) for name, command in commands().items()}
    assert max(counts.values()) <= 30, counts
    assert sum(counts.values()) <= 300


def test_every_option_is_in_one_of_five_panels_and_says_what_it_is() -> None:
    panels = {DATA, MODEL, MEASURE, SEARCH, RUN}
    for name, command in commands().items():
        for each in options_of(command):
            assert each.rich_help_panel in panels, (name, each.name)
            assert each.help or each.name == "detector", (name, each.name)


def test_the_help_of_audit_fits_on_two_screens() -> None:
    assert CliRunner().invoke(app, ["audit", "--help"]).output.count("\n") <= 90


@pytest.mark.parametrize("name", GONE)
def test_a_command_that_went_prints_its_replacement(name: str) -> None:
    done = CliRunner().invoke(app, [*name.split(), "x"])
    assert done.exit_code == 2
    assert done.output.startswith(f"'fairprobe {name}' is now: ")


@pytest.mark.parametrize(("command", "rows"), OPTIONS.items())
def test_an_option_that_went_prints_its_replacement(command: str, rows: Any) -> None:
    known = {
        opt
        for name, each in commands().items()
        if name.split()[-1] == command
        for option in options_of(each)
        for opt in (*option.opts, *option.secondary_opts)
    }
    path = ["data", command] if command in ("similar", "schema") else [command]
    for words, _ in rows:
        for word in words.split():
            assert f"--{word}" not in known
            done = CliRunner().invoke(app, [*path, f"--{word}", "x"])
            assert done.exit_code == 2
            assert done.output.startswith(f"--{word} of 'fairprobe {command}' is now: "), word


def test_the_changelog_names_what_went_with_its_replacement() -> None:
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8")
    for name in GONE:
        assert f"`{name}`" in changelog, name
    for rows in OPTIONS.values():
        for words, _ in rows:
            for word in words.split():
                assert f"`--{word}`" in changelog, word
