"""The methods by name, as the command line and experiments call them."""

from __future__ import annotations

from typing import Any

from fairprobe.arrays import Rows
from fairprobe.errors import DataError, ModelError, SettingError, suggest
from fairprobe.interpret import NeuronBias
from fairprobe.search.methods import (
    ADF,
    EIDIG,
    Aequitas,
    Method,
    NeuronFair,
    RandomWalk,
    SymbGen,
    Themis,
    adf,
    aequitas,
    eidig,
    neuronfair,
)

# Each method's variants, its default first.
VARIANTS: dict[str, tuple[str, ...]] = {
    "neuronfair": tuple(neuronfair.VARIANTS),
    "adf": tuple(adf.VARIANTS),
    "eidig": tuple(eidig.VARIANTS),
    "aequitas": tuple(aequitas.VARIANTS),
    "symbgen": (),
    "themis": (),
    "random": (),
}
_CLASSES: dict[str, type[Method]] = {
    "neuronfair": NeuronFair,
    "adf": ADF,
    "eidig": EIDIG,
    "aequitas": Aequitas,
    "symbgen": SymbGen,
    "themis": Themis,
    "random": RandomWalk,
}


def check_method(name: str, variant: str | None = None) -> None:
    """Refuses a method or a variant that does not exist, before any work is done."""
    if name not in VARIANTS:
        raise SettingError(f"There is no method '{name}'.{suggest(name, tuple(VARIANTS))}")
    known = VARIANTS[name]
    if variant is not None and variant not in known:
        raise SettingError(
            f"The variant of '{name}' must be one of {', '.join(known)}; got '{variant}'."
            if known
            else f"The method '{name}' has no variants; got '{variant}'."
        )


def looks_inside(name: str) -> bool:
    """Whether the method needs a network it can look into."""
    return _CLASSES[name].needs_gradients


def method_named(
    name: str,
    variant: str | None = None,
    *,
    bias: NeuronBias | None = None,
    x: Rows | None = None,
    **settings: Any,
) -> Method:
    """The method of this name. `bias` tells NeuronFair which neurons to push, `x` are the rows
    whose values SymbGen draws from.
    """
    check_method(name, variant)
    if variant is not None:
        settings["variant"] = variant
    if name == "neuronfair":
        if bias is None:
            raise ModelError(
                "NeuronFair pushes biased neurons and needs the interpretation of a network; see"
                " fairprobe.neuron_bias."
            )
        settings["layer"] = bias.most_biased
    if name == "symbgen":
        if x is None:
            raise DataError(
                "SymbGen draws people with the values of the training data; give its rows as x."
            )
        settings["x"] = x
    return _CLASSES[name](**settings)
