"""Settings of a method by name, from Python (`settings={"mu": 0.2}`) or the command line (`--set
mu=0.2`). A setting is a field of the method's dataclass whose default is plain. Its annotation says
which values it takes; what it means, and the letter that a paper gives it, the method says itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from math import inf, nan
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints
from unicodedata import normalize

from fairprobe.errors import SettingError, suggest
from fairprobe.search.budget import Budget
from fairprobe.search.catalogue import METHODS
from fairprobe.search.methods.base import Method

NONE = "none"  # as the command line writes None
CLUSTERS = "clusters"  # belongs to the seeds, and so to every method that starts from data
COMMON = {
    CLUSTERS: "k-means clusters of the data from which seeds are taken in turn",
    "global_iterations": "steps of each seed towards a first finding",
    "local_iterations": "steps around each first finding",
    "step": "how far a number moves in one step",
    "seconds": "when to stop",
    "gradients": "of logits, or of probabilities as in the authors' code",
}
ALSO_OF_BUDGET = (CLUSTERS, "global_iterations", "local_iterations", "seconds")
SYMBOLS = {"N_c": (CLUSTERS,), "max_iter_g": ("global_iterations",)}
SYMBOLS["max_iter_l"] = ("local_iterations",)


@dataclass(frozen=True)
class Setting:
    """Setting of a method: its default, its type as annotated (`int | None`, `Literal[...]`), and
    the letters that stand for it.
    """

    name: str
    default: Any
    hint: Any
    about: str
    symbols: tuple[str, ...] = ()

    def __str__(self) -> str:
        letters = f" ({', '.join(self.symbols)})" if self.symbols else ""
        default = NONE if self.default is None else self.default
        return f"{self.name} = {default}{letters}: {self.about}"

    def read(self, given: object) -> Any:
        """Return the value, of the annotated type; raise SettingError if it is none."""
        kinds = _kinds(self.hint)
        words = get_args(self.hint) if get_origin(self.hint) is Literal else ()
        if NoneType in kinds and given in (None, NONE):
            return None
        if bool in kinds:
            words = ("true", "false")
            given = str(given).lower()
        if kinds & {str, bool}:
            if isinstance(given, str) and (not words or given in words):
                return given == "true" if bool in kinds else given
            expected = " or ".join(words) or "a word"
            raise SettingError(f"The setting {self.name} is {expected}; got {given!r}.")
        try:
            value = nan if isinstance(given, bool) else float(given)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = nan
        is_whole = float not in kinds
        if not 0 <= value < inf or (is_whole and value != int(value)):
            raise SettingError(
                f"The setting {self.name} is a {'whole ' if is_whole else ''}number of 0 or more,"
                f" such as {100 if self.default is None else self.default}"
                f"{f', or {NONE}' if NoneType in kinds else ''}; got {given!r}."
            )
        return int(value) if is_whole else value


def _kinds(hint: Any) -> set[type]:
    """Return the plain types of an annotation, None among them; nothing if a value cannot be typed
    in.
    """
    if get_origin(hint) is Literal:
        return {type(word) for word in get_args(hint)}
    kinds = {*(get_args(hint) or (hint,))}
    return kinds if {NoneType} < kinds | {NoneType} <= {int, float, bool, str, NoneType} else set()


def settings_of(method: type[Method]) -> dict[str, Setting]:
    """Return the settings of a method by name, those of its seeds last."""
    texts = {**COMMON, **method.settings_text}
    symbols: dict[str, tuple[str, ...]] = {}
    for symbol, names in {**SYMBOLS, **method.symbols}.items():
        for name in names:
            symbols[name] = (*symbols.get(name, ()), symbol)
    declared: Any = fields(method) if is_dataclass(method) else ()
    try:
        hints = get_type_hints(method)
    except NameError:  # names that a plug-in imports for its type checker only
        hints = {each.name: type(each.default) for each in declared}
    hints[CLUSTERS] = int
    own: dict[str, Any] = {
        each.name: each.default
        for each in declared
        if each.init
        and each.name != "variant"
        and each.default is not MISSING
        and _kinds(hints[each.name])
    }
    if method.starts_from_data:
        own[CLUSTERS] = Budget.clusters
    return {
        name: Setting(name, default, hints[name], texts.get(name, ""), symbols.get(name, ()))
        for name, default in own.items()
    }


def with_settings(
    method: str, given: Mapping[str, object] | None, budget: Budget
) -> tuple[dict[str, Any], Budget]:
    """Return what `method_named` takes, and the budget with what concerns the seeds. A letter of
    the paper may stand for several settings: `mu`, or μ, is the momentum of both phases. What the
    budget says otherwise is refused.
    """
    known = settings_of(METHODS[method])
    letters: dict[str, list[str]] = {}
    for each in known.values():
        for letter in each.symbols:
            letters.setdefault(letter, []).append(each.name)
    values: dict[str, Any] = {}
    for word, value in (given or {}).items():
        name = latin(word)
        names = [name] if name in known else letters.get(name, [])
        if not names:
            raise SettingError(
                f"The method '{method}' has no setting '{word}'.{suggest(name, [*known, *letters])}"
            )
        values |= {each: known[each].read(value) for each in names}
    for name in ALSO_OF_BUDGET:
        of_budget = getattr(budget, name)
        if name in values and of_budget not in (getattr(Budget, name), values[name]):
            raise SettingError(
                f"{name} is {values[name]} among the settings and {of_budget} in the budget."
                " Give one of them."
            )
    return values, replace(budget, clusters=values.pop(CLUSTERS, budget.clusters))


def latin(name: str) -> str:
    """Return the name of a setting with μ spelled out, typed as the letter or as the micro sign."""
    return normalize("NFKC", name).replace("μ", "mu")


def parsed(given: Iterable[str]) -> dict[str, str]:
    """`["mu=0.2"]` of the command line by name; one given twice counts as said last."""
    pairs = [each.partition("=") for each in given]
    for (name, sign, value), text in zip(pairs, given, strict=True):
        if not (name.strip() and sign and value.strip()):
            raise SettingError(f"A setting is NAME=VALUE, such as step=2; got '{text}'.")
    return {name.strip(): value.strip() for name, _, value in pairs}
