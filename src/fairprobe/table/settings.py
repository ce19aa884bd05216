"""Settings of an audit: checking them before any work is done, and choosing the method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairprobe.errors import ModelError, SettingError
from fairprobe.metrics.individual import boundary_tau, check_pairs, check_taus
from fairprobe.models import Model, TorchModel
from fairprobe.runs.stages import check_seed
from fairprobe.schema.twins import check_counterparts
from fairprobe.search import Budget, Method
from fairprobe.search.catalogue import METHODS, black_box_methods, check_method
from fairprobe.search.settings import with_settings

AUTO = "auto"


def check_settings(
    method: str | Method,
    variant: str | None,
    outside: str,
    samples: int,
    seed: int,
    counterparts: str = "twins",
    people: str = "plausible",
    settings: Mapping[str, object] | None = None,
    budget: Budget | None = None,
    pairs: str = "all",
) -> None:
    """Raise SettingError for impossible settings before any work is done."""
    check_counterparts(counterparts)
    check_pairs(pairs)
    if settings:
        settled("probe" if method == AUTO else method, settings, budget or Budget())
    if isinstance(method, str):
        if method != AUTO:
            check_method(method, variant)
        elif variant is not None:
            raise SettingError(
                f"The variant '{variant}' goes with a method, and none is named. Name one, such as"
                " neuronfair; 'fairprobe list methods' lists them with their variants."
            )
    elif not isinstance(method, Method):
        raise SettingError(
            f"A method is a name ({', '.join(METHODS)}) or an object such as"
            f" fairprobe.search.ADF(); got {method!r}."
        )
    elif variant is not None:
        raise SettingError(
            f"The variant '{variant}' goes with a method's name. Give the object its variant:"
            f" {type(method).__name__}(...)."
        )
    if outside not in ("clip", "refuse"):
        raise SettingError(
            f"Rows outside the domain can be treated by 'clip' or 'refuse', not by '{outside}'."
        )
    if people not in ("plausible", "possible"):
        raise SettingError(
            f"A search looks among 'plausible' or 'possible' people, not among '{people}'."
        )
    if samples < 1:
        raise SettingError(f"The number of samples must be at least 1; got {samples}.")
    check_seed(seed)


def settled(
    method: str | Method, settings: Mapping[str, object] | None, budget: Budget
) -> tuple[dict[str, Any], Budget]:
    """Return the settings of the method, and the budget with those of its seeds."""
    if isinstance(method, str):
        return with_settings(method, settings, budget)
    if settings:
        raise SettingError(
            f"The settings {', '.join(settings)} go with a method's name. Give them to the object:"
            f" {type(method).__name__}(...)."
        )
    return {}, budget


def chosen_method(
    method: str | Method,
    model: Model,
    *,
    has_layers: bool,
    makes_people: bool,
) -> str | Method:
    """Resolve "auto"; raise an error for a method that needs what this model or data has not."""
    if method == AUTO:
        method = "probe"
    described = METHODS[method] if isinstance(method, str) else method
    if described.needs_people and not makes_people:
        raise SettingError(
            f"The method '{described.name}' makes plausible people from the people in the data,"
            " which this audit does not have. Choose another method, or give it --people plausible"
            " and a table that is large enough."
        )
    is_network = isinstance(model, TorchModel)
    if isinstance(method, str) and described.needs_neurons and is_network and not has_layers:
        raise ModelError(
            f"The network has no hidden layer, and {described.title} looks for biased neurons."
            " Choose another method, such as eidig."
        )
    if described.needs_gradients and not is_network:
        why = model.about.why if model.about else ""
        raise ModelError(
            f"The method '{described.name}' looks inside the network; a black box was given. Choose"
            f" a method that only asks ({black_box_methods()}), or give the network"
            f" itself.{f' Why a black box: {why}' if why else ''}"
        )
    return method


def check_takes_amounts(method: str | Method) -> None:
    """Raise SettingError for a method that needs classes."""
    name = "probe" if method == AUTO else method
    described = METHODS[name] if isinstance(name, str) else name
    if not described.takes_scores:
        able = ", ".join(name for name in METHODS if METHODS[name].takes_scores)
        raise SettingError(
            f"The method '{described.name}' looks for another class, and this model answers with a"
            f" number. Choose one that looks for large changes: {able}."
        )


def parsed_taus(words: str) -> tuple[float, ...]:
    """Parse the thresholds of IFR_p: numbers, or "boundary", the divergence at the decision
    boundary.
    """
    try:
        taus = [
            boundary_tau() if word.strip() == "boundary" else float(word)
            for word in words.split(",")
        ]
    except ValueError as error:
        raise SettingError(
            f"tau is '{words}'; expected numbers of 0 or more, or 'boundary', separated by"
            " commas: --set tau=0.001,boundary."
        ) from error
    return check_taus(taus)
