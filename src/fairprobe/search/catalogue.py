"""Search methods by name; `fairprobe.catalogue` lists them."""

from __future__ import annotations

from typing import Any

from fairprobe import catalogue
from fairprobe.arrays import Rows
from fairprobe.catalogue import Catalogue
from fairprobe.errors import SettingError
from fairprobe.search.methods.base import Method
from fairprobe.search.neuron_bias import NeuronBias

METHODS: Catalogue[type[Method]] = catalogue.METHODS


def check_method(name: str, variant: str | None = None) -> None:
    """Raise SettingError for a method or a variant that does not exist."""
    known = METHODS[name].variants
    if variant is not None and variant not in known:
        raise SettingError(
            f"The variant of '{name}' must be one of {', '.join(known)}; got '{variant}'."
            if known
            else f"The method '{name}' has no variants; got '{variant}'."
        )


def method_named(
    name: str,
    variant: str | None = None,
    *,
    bias: NeuronBias | None = None,
    x: Rows | None = None,
    **settings: Any,
) -> Method:
    """Create the method of this name. NeuronFair needs `bias`, the interpretation of the network;
    SymbGen needs `x`, the people in the data.
    """
    check_method(name, variant)
    if variant is not None:
        settings["variant"] = variant
    return METHODS[name].create(bias=bias, x=x, **settings)


def black_box_methods() -> str:
    """Return the names of the methods that need answers only: aequitas, …, random or crossover."""
    *most, last = [name for name, each in METHODS.all().items() if not each.needs_gradients]
    return f"{', '.join(most)} or {last}"
