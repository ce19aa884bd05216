"""`repair`: repair a network, prove what that did, and audit what came out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairprobe.audits.evidence import Audit, audit
from fairprobe.audits.models import OnStage, as_model
from fairprobe.datasets.base import Dataset
from fairprobe.errors import SettingError
from fairprobe.models import Model
from fairprobe.repairs import Repair, prove, repair_named
from fairprobe.repairs.base import network_of
from fairprobe.search import Budget

if TYPE_CHECKING:
    from torch import nn


def repair(
    data: Dataset,
    model: Model | nn.Module,
    sensitive: str | tuple[str, ...] | list[str],
    *,
    with_: str | Repair = "counterfactual",
    strength: float | None = None,
    max_accuracy_drop: float = 0.02,
    max_harm: float = 1.3,
    force: bool = False,
    curve: bool = True,
    choose: bool = True,
    method: str = "neuronfair",
    variant: str | None = None,
    budget: Budget | None = None,
    samples: int = 50_000,
    seed: int | None = None,
    progress: OnStage | None = None,
    findings_to: Path | None = None,
    **settings: Any,
) -> Audit:
    """Repair a network so that it treats people alike who differ only in the sensitive attributes.

    Returns the audit of the repaired network: `.model` is the network, `.repair` the proof of what
    the repair did, beside controls, and `.repair.accepted` whether it may replace the old one. The
    given network is left as it is. `with_` is a repair by name (`repairs.REPAIRS`), with its
    `settings`, or a repair of your own. Without `strength`, the strength is chosen on validation
    people, unless `choose` is False. `seed` is that of the split the network was trained with; a
    network that fairprobe trained knows its own. The other options are those of `repairs.prove` and
    of `audit`.
    """
    data = data.with_sensitive(sensitive)
    network = network_of(as_model(model, data))
    how = repair_named(with_, **settings) if isinstance(with_, str) else with_
    if settings and not isinstance(with_, str):
        raise SettingError(
            f"Settings ({', '.join(settings)}) go with a repair's name. Give the object its"
            f" settings: {type(how).__name__}(...)."
        )
    if strength is not None:
        how, choose = how.at_strength(strength), False
    if seed is None:
        seed = network.trained_on[1] if network.trained_on else 0
    proof = prove(
        network,
        data,
        how,
        seed=seed,
        max_accuracy_drop=max_accuracy_drop,
        max_harm=max_harm,
        force=force,
        curve=curve,
        choose=choose,
        method=method,
        variant=variant,
        samples=samples,
        progress=progress,
    )
    done = audit(
        data,
        proof.model,
        sensitive,
        method=method,
        variant=variant,
        budget=budget,
        samples=samples,
        seed=seed,
        progress=progress,
        findings_to=findings_to,
    )
    return replace(done, repair=proof)
