"""Groups of options: declared once, shown by every command that takes the group."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from typing import Annotated

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.cli.inputs import ModelOptions, TableOptions
from fairprobe.cli.options import grouped
from fairprobe.cli.repair import RepairOptions
from fairprobe.errors import SettingError
from fairprobe.networks import Training
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
        ("check", (TableOptions, ModelOptions)),
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


def test_a_repair_can_train_with_the_optimizer_of_the_paper() -> None:
    repair = RepairOptions(with_="iifr", optimizer="adadelta").repair()
    assert isinstance(repair, IIFR)
    assert (repair.training.optimizer, repair.training.learning_rate) == ("adadelta", 0.1)
    for optimizer, rate in (("adadelta", 1.0), (None, 0.01)):
        repair = RepairOptions(with_="iifr", optimizer=optimizer, learning_rate=rate).repair()
        assert isinstance(repair, IIFR)
        assert repair.training == Training(optimizer=optimizer or "adam", learning_rate=rate)  # type: ignore[arg-type]
    for rate in (0.0, -1.0, nan, inf):
        with pytest.raises(SettingError, match="--learning-rate must be a number above 0"):
            RepairOptions(with_="iifr", learning_rate=rate).repair()
    with pytest.raises(SettingError, match="'average' has no setting 'training'"):
        RepairOptions(with_="average", learning_rate=0.1).repair()
    with pytest.raises(SettingError, match="adam or adadelta; got 'sgd'"):
        RepairOptions(with_="iifr", optimizer="sgd").repair()
