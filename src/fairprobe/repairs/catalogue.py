"""The repairs by name, as the command line calls them, and as functions: `counterfactual(model,
data, strength=20.0)`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Protocol

from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError, suggest
from fairprobe.models import Model, TorchModel
from fairprobe.repairs.adversarial import REVERSALS, Adversarial
from fairprobe.repairs.base import OnEpoch, Repair
from fairprobe.repairs.blind import Blind
from fairprobe.repairs.counterfactual import Counterfactual
from fairprobe.repairs.iifr import IIFR
from fairprobe.repairs.retrain import Retrain

_SIMPLE: dict[str, type[Repair]] = {
    "counterfactual": Counterfactual,
    "retrain": Retrain,
    "iifr": IIFR,
    "blind": Blind,
}
REPAIRS = (*_SIMPLE, *REVERSALS, *(f"{kind}+iifr" for kind in REVERSALS))


def repair_named(name: str, **settings: Any) -> Repair:
    """The repair of this name with its own settings; "cfair+iifr" joins IIFR's penalty to CFAIR."""
    if name not in REPAIRS:
        raise SettingError(f"There is no repair '{name}'.{suggest(name, REPAIRS)}")
    kind, _, joined = name.partition("+")
    if kind in REVERSALS:
        settings = {"kind": kind, **({"iifr": IIFR()} if joined else {}), **settings}
    repair = _SIMPLE.get(kind, Adversarial)
    known = {each.name for each in fields(repair)}
    for setting in settings:
        if setting not in known:
            raise SettingError(
                f"The repair '{name}' has no setting '{setting}'.{suggest(setting, known)}"
            )
    return repair(**settings)


class Apply(Protocol):
    """A repair as a function: settings are those of its class."""

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


def _function(name: str, about: str) -> Apply:
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

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"The network trained again {about}"
    return apply


counterfactual = _function(
    "counterfactual",
    "so that a person and their counterparts are answered alike; settings of `Counterfactual`.",
)
retrain = _function(
    "retrain", "with the discriminatory instances that a search finds; settings of `Retrain`."
)
iifr = _function("iifr", "so that similar people are answered alike; settings of `IIFR`.")
blind = _function("blind", "without seeing the sensitive attributes; settings of `Blind`.")
alfr = _function(
    "alfr", "against one adversary; settings of `Adversarial`, where `iifr=IIFR()` joins IIFR."
)
laftr = _function(
    "laftr", "against one adversary to whom all groups weigh the same; settings of `Adversarial`."
)
cfair = _function("cfair", "against an adversary for each class; settings of `Adversarial`.")
