"""Settings of methods by name: each in its own kind, under its own name or its paper's letter."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from fairprobe.errors import SettingError
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search import METHODS, Budget, choose_seeds, method_named
from fairprobe.search.methods.aequitas import Aequitas
from fairprobe.search.neuron_bias import LayerBias, NeuronBias
from fairprobe.search.settings import parsed, settings_of, with_settings
from tests.cli.test_cli import ask

if TYPE_CHECKING:
    from fairprobe.arrays import Rows

BIAS = NeuronBias((LayerBias("first", np.ones(4), np.ones(4)),), 1)
EVERY = [(method, name) for method in METHODS for name in settings_of(METHODS[method])]


@pytest.mark.parametrize(("method", "name"), EVERY)
def test_every_setting_of_every_method_reaches_its_field_in_its_type_or_is_refused(
    method: str, name: str
) -> None:
    default = settings_of(METHODS[method])[name].default
    typed: dict[str, Any] = {each.name: each.type for each in fields(METHODS[method])}  # type: ignore[arg-type]
    declared = str(typed.get(name, "int"))
    kind = int if declared.startswith("int") else float if declared.startswith("float") else str
    new = "probabilities" if kind is str else (default or 38) / 2 if kind is float else 20
    assert new != default
    for text, expected in [
        (f"{name}={new}", new),
        *([(f"{name} = none", None)] if "None" in declared else []),
    ]:
        values, budget = with_settings(method, parsed([text]), Budget())
        created = method_named(method, bias=BIAS, x=np.zeros((2, 3), np.float32), **values)
        found = budget.clusters if name == "clusters" else getattr(created, name)
        assert found == expected
        assert type(found) is (kind if expected is not None else type(None))
    words = ("audit", "german", "--sensitive", "gender", "--method", method)
    answer = ask(*words, "--set", f"{name}=much")
    assert answer.code == 2
    assert " ".join(answer.err.split()).count(f"The setting {name} is ") == 1, answer
    assert "got 'much'." in " ".join(answer.err.split())


@dataclass(frozen=True, kw_only=True)
class Foreign(Aequitas):
    """Of a plug-in with an annotation that only its type checker can read."""

    rows: Rows | None = None
    limit: int = 3
    eager: bool = False


def test_a_type_that_cannot_be_read_is_that_of_the_default() -> None:
    known = settings_of(Foreign)
    assert "rows" not in known
    assert known["limit"].read("4") == 4
    assert [known["eager"].read(each) for each in ("true", True, "false")] == [True, True, False]
    with pytest.raises(SettingError, match="eager is true or false; got 'perhaps'"):
        known["eager"].read("perhaps")
    with pytest.raises(SettingError, match="limit is a whole number"):
        known["limit"].read("4.5")


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_takes_its_defaults_back_and_explains_each(name: str) -> None:
    known = settings_of(METHODS[name])
    assert all(each.about for each in known.values()), known
    given = {each.name: str(each.default) for each in known.values() if each.default is not None}
    values, budget = with_settings(name, given, Budget())
    assert budget == Budget()
    assert values == {each: known[each].default for each in given if each != "clusters"}
    if name not in ("neuronfair", "symbgen"):
        assert method_named(name, **values) == method_named(name)


def test_the_letters_of_the_paper_stand_for_the_settings_of_both_phases() -> None:
    for mu in ("mu", "\N{GREEK SMALL LETTER MU}", "\N{MICRO SIGN}"):
        check_letters(mu)


def check_letters(mu: str) -> None:
    given = parsed([f"{mu}=0.2", f"{mu}_l = 0.3", "r_step=7", "p_r=0.1", "N_c=6", "step=2"])
    values, budget = with_settings("neuronfair", given, Budget(seeds=5))
    assert values == {
        "global_momentum": 0.2,
        "local_momentum": 0.3,
        "global_redraw": 7,
        "local_redraw": 7,
        "random_share": 0.1,
        "step": 2.0,
    }
    assert budget == Budget(seeds=5, clusters=6)
    assert all(isinstance(values[name], int) for name in ("global_redraw", "local_redraw"))


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("neuronfair", {"moo": 1}, "has no setting 'moo'. Known: .*clusters.*mu_g"),
        ("adf", {"p_r": 1}, "'adf' has no setting 'p_r'.* Known: global_iterations, .*clusters"),
        ("themis", {"N_c": 4}, "has no setting 'N_c'"),  # it draws people of its own
        ("aequitas", {"clusters": 9}, "has no setting 'clusters'"),  # and so do these
        ("crossover", {"clusters": 9}, "has no setting 'clusters'"),
        ("neuronfair", {"r_step": "2.5"}, "whole number of 0 or more, such as 10; got '2.5'"),
        ("neuronfair", {"mu": "nan"}, "number of 0 or more"),
        ("neuronfair", {"mu": True}, "number of 0 or more"),
        ("neuronfair", {"variant": "paper"}, "has no setting 'variant'"),
        ("adf", {"gradients": 1}, "gradients is logits or probabilities; got 1"),
        ("symbgen", {"inputs": "2.5"}, "whole number of 0 or more, such as 100, or none; got"),
        ("neuronfair", {"N_c": 0}, "clusters must be at least 1"),
    ],
)
def test_what_is_no_setting_is_refused_with_what_is(
    method: str, given: dict[str, object], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        with_settings(method, given, Budget())


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        ({"max_iter_g": 3}, Budget(global_iterations=7)),
        ({"local_iterations": "0"}, Budget(local_iterations=7)),
        ({"clusters": 5}, Budget(clusters=7)),
    ],
)
def test_a_setting_that_contradicts_the_budget_is_refused(
    given: dict[str, object], budget: Budget
) -> None:
    with pytest.raises(SettingError, match=r"is \d among the settings and 7 in the budget"):
        with_settings("adf", given, budget)
    values, same = with_settings("adf", dict.fromkeys(given, 7), budget)
    assert set(values.values()) <= {7}
    assert same == budget


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("symbgen --set seconds=5 --time 9", "seconds is 5.0 among the settings and 9.0 in"),
        ("crossover --set seeds_by=raw", "'crossover' does not start from them. Leave it out."),
    ],
)
def test_options_that_contradict_each_other_or_do_nothing_are_refused_at_once(
    words: str, message: str
) -> None:
    answer = ask("audit", "german", "--sensitive", "gender", "--method", *words.split())
    assert answer.code == 2
    assert message in " ".join(answer.err.split())


@pytest.mark.parametrize("text", ["mu", "mu=", "=1", ""])
def test_what_is_not_name_and_value_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="NAME=VALUE"):
        parsed([text])


def test_gradients_of_something_else_are_refused() -> None:
    with pytest.raises(SettingError, match="of logits or probabilities; got 'losses'"):
        method_named("eidig", gradients="losses")


def test_seeds_by_raw_codes_come_from_clusters_of_the_widest_attribute() -> None:
    wide, narrow = Attribute(name="a", high=1000), Attribute(name="b", high=1)
    domain = Domain((wide, narrow, Attribute(name="s", high=1)), ("s",))
    grid = [[a, b, 0] for a in (*range(20), *range(80, 100)) for b in (0, 1)]
    x = np.array(grid, dtype=np.float32)
    for by, column, middle in (("raw", 0, 50), ("scaled", 1, 0.5)):
        for seed in range(3):
            budget = Budget(seeds=2, clusters=2, seeds_by=by)
            two = choose_seeds(domain, x, budget, rng=np.random.default_rng(seed))[:, column]
            assert two.min() < middle < two.max()
    with pytest.raises(SettingError, match="scaled or raw attributes; got 'rows'"):
        Budget(seeds_by="rows")
