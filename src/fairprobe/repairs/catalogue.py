"""Repairs by name, and as functions: `counterfactual(model, data, strength=20.0)`.
`fairprobe.catalogue` lists them.
"""

from __future__ import annotations

from typing import Any, Protocol

from fairprobe import catalogue
from fairprobe.catalogue import Catalogue
from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError, suggest
from fairprobe.models import Model, TorchModel
from fairprobe.repairs.base import OnEpoch, Repair
from fairprobe.repairs.posthoc import PostHoc

REPAIRS: Catalogue[type[Repair]] = catalogue.REPAIRS
POST_HOC: Catalogue[type[PostHoc]] = catalogue.POST_HOC


def repair_names() -> list[str]:
    """List all repairs that train, those with a variant such as "cfair+iifr" included."""
    kinds = REPAIRS.all()
    return [*kinds, *(f"{name}+{variant}" for name in kinds for variant in kinds[name].variants)]


def repair_named(name: str, **settings: Any) -> Repair:
    """Create the repair of this name with its own settings; "cfair+iifr" joins IIFR's penalty to
    CFAIR.
    """
    kind, plus, variant = name.partition("+")
    if kind not in REPAIRS or (plus and variant not in REPAIRS[kind].variants):
        raise SettingError(f"There is no repair '{name}'.{suggest(name, repair_names())}")
    return REPAIRS[kind].create(name, **settings)


def any_repair_named(name: str, **settings: Any) -> Repair | PostHoc:
    """Create the repair of this name, whether it trains a network or wraps any model."""
    if name in POST_HOC:
        return POST_HOC[name].create(name, **settings)
    if name.partition("+")[0] not in REPAIRS:
        names = [*repair_names(), *POST_HOC]
        raise SettingError(f"There is no repair '{name}'.{suggest(name, names)}")
    return repair_named(name, **settings)


class Apply(Protocol):
    """Repair as a function: settings are those of its class."""

    def __call__(
        self,
        model: Model,
        data: Dataset,
        sensitive: str | tuple[str, ...] | None = None,
        *,
        seed: int = 0,
        progress: OnEpoch | None = None,
        **settings: Any,
    ) -> TorchModel: ...


def _function(name: str) -> Apply:
    """Return the repair of this name as a function."""

    def apply(
        model: Model,
        data: Dataset,
        sensitive: str | tuple[str, ...] | None = None,
        *,
        seed: int = 0,
        progress: OnEpoch | None = None,
        **settings: Any,
    ) -> TorchModel:
        chosen = data if sensitive is None else data.with_sensitive(sensitive)
        return repair_named(name, **settings)(model, chosen, seed=seed, progress=progress)

    repair = REPAIRS[name]
    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{repair.about} Settings are those of `{repair.__name__}`."
    return apply


counterfactual = _function("counterfactual")
retrain = _function("retrain")
iifr = _function("iifr")
blind = _function("blind")
alfr = _function("alfr")
laftr = _function("laftr")
cfair = _function("cfair")
