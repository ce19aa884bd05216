"""The settings of a method by name, from Python (`settings={"mu": 0.2}`) or the command line
(`--set mu=0.2`). A setting is a field of the method's dataclass whose default is plain; what it
means, and the letter that a paper gives it, the method says itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from math import inf, nan
from typing import Any

from fairprobe.errors import SettingError, suggest
from fairprobe.search.budget import Budget
from fairprobe.search.catalogue import METHODS
from fairprobe.search.methods.base import Method

CLUSTERS = "clusters"  # belongs to the seeds, and so to every method that starts from some
COMMON = {
    CLUSTERS: "k-means clusters of the data from which seeds are taken in turn",
    "global_iterations": "steps of each seed towards a first finding",
    "local_iterations": "steps around each first finding",
    "step": "how far a number moves in one step",
    "seconds": "when to stop",
    "gradients": "of logits, or of probabilities as in the authors' code",
}
SYMBOLS = {"N_c": (CLUSTERS,), "max_iter_g": ("global_iterations",)}
SYMBOLS["max_iter_l"] = ("local_iterations",)


@dataclass(frozen=True)
class Setting:
    """A setting of a method, with its default and the letters that stand for it."""

    name: str
    default: Any
    about: str
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        letters = f" ({', '.join(self.symbols)})" if self.symbols else ""
        return f"{self.name} = {self.default}{letters}: {self.about}"

    def read(self, given: object) -> Any:
        """The value, of the kind of the default; raise SettingError if it is none."""
        if isinstance(self.default, str):
            if isinstance(given, str):
                return given
            raise SettingError(f"The setting {self.name} is a word; got {given!r}.")
        try:
            value = nan if isinstance(given, bool) else float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = nan
        is_whole = isinstance(self.default, int)
        if not 0 <= value < inf or (is_whole and value != int(value)):
            raise SettingError(
                f"The setting {self.name} is a {'whole ' if is_whole else ''}number of 0 or more,"
                f" such as {100 if self.default is None else self.default}; got {given!r}."
            )
        return int(value) if is_whole else value


def settings_of(method: type[Method]) -> dict[str, Setting]:
    """The settings of a method by name, those of its seeds last."""
    texts = {**COMMON, **method.settings_text}
    symbols: dict[str, tuple[str, ...]] = {}
    for symbol, names in {**SYMBOLS, **method.symbols}.items():
        for name in names:
            symbols[name] = (*symbols.get(name, ()), symbol)
    declared: Any = fields(method) if is_dataclass(method) else ()
    own: dict[str, Any] = {
        each.name: each.default
        for each in declared
        if each.init
        and each.name != "variant"
        and each.default is not MISSING
        and isinstance(each.default, int | float | str | None)
    }
    if method.uses_seeds:
        own[CLUSTERS] = Budget.clusters
    return {
        name: Setting(name, default, texts.get(name, ""), symbols.get(name, ()))
        for name, default in own.items()
    }


def with_settings(
    method: str, given: Mapping[str, object] | None, budget: Budget
) -> tuple[dict[str, Any], Budget]:
    """What `method_named` takes, and the budget with what concerns the seeds. A letter of the paper
    may stand for several settings: `mu` is the momentum of both phases.
    """
    known = settings_of(METHODS[method])
    letters: dict[str, list[str]] = {}
    for each in known.values():
        for letter in each.symbols:
            letters.setdefault(letter, []).append(each.name)
    values: dict[str, Any] = {}
    for name, value in (given or {}).items():
        names = [name] if name in known else letters.get(name, [])
        if not names:
            raise SettingError(
                f"The method '{method}' has no setting '{name}'.{suggest(name, [*known, *letters])}"
            )
        values |= {each: known[each].read(value) for each in names}
    clusters = values.pop(CLUSTERS, budget.clusters)
    return values, replace(budget, clusters=clusters)


def parsed(given: Iterable[str]) -> dict[str, str]:
    """`["mu=0.2"]` of the command line by name; one given twice counts as said last."""
    pairs = [each.partition("=") for each in given]
    for (name, sign, value), text in zip(pairs, given, strict=True):
        if not (name.strip() and sign and value.strip()):
            raise SettingError(f"A setting is NAME=VALUE, such as step=2; got '{text}'.")
    return {name.strip(): value.strip() for name, _, value in pairs}
