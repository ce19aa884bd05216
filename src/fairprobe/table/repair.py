"""`repair`: repair a model, of classes or of amounts, prove what that did, and audit what came
out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from fairprobe.datasets.base import Dataset
from fairprobe.documents.people import TAU
from fairprobe.errors import ModelError, SettingError
from fairprobe.metrics.individual import Pairs
from fairprobe.models import Decision, Model, ScoreModel, Tolerance, TorchModel
from fairprobe.repairs import POST_HOC, PostHoc, Repair, any_repair_named, prove
from fairprobe.repairs.base import network_of
from fairprobe.repairs.curve import Choose
from fairprobe.repairs.verdict import LOOKS
from fairprobe.repairs.written import write
from fairprobe.runs.reopen import OpenModel, data_of, model_of
from fairprobe.runs.stages import OnStage
from fairprobe.runs.store import MODEL, REFUSED, read_repairable_run
from fairprobe.schema.twins import CounterpartKind
from fairprobe.search import Budget
from fairprobe.table.audit import Audit, audit
from fairprobe.table.searched import check_repair
from fairprobe.table.settings import AUTO
from fairprobe.table.subject import as_model, check_target, scored_model

if TYPE_CHECKING:
    from torch import nn


def repair(
    data: Dataset,
    model: Model | nn.Module,
    sensitive: str | tuple[str, ...] | list[str],
    *,
    counterparts: CounterpartKind = "twins",
    decision: Decision | None = None,
    tolerance: Tolerance | float | str | None = None,
    with_: str | Repair | PostHoc = "counterfactual",
    strength: float | None = None,
    max_accuracy_drop: float = 0.02,
    max_harm: float = 1.3,
    force: bool = False,
    curve: bool = True,
    choose: bool | Choose = True,
    people: Literal["plausible", "possible"] = "plausible",
    method: str = AUTO,
    variant: str | None = None,
    settings: Mapping[str, object] | None = None,
    budget: Budget | None = None,
    samples: int = 50_000,
    tau: float | Sequence[float] = TAU,
    pairs: Pairs = "all",
    max_seeds: int = LOOKS[-1],
    seed: int | None = None,
    progress: OnStage | None = None,
    findings_to: Path | None = None,
    checkpoint: Path | None = None,
    **own: Any,
) -> Audit:
    """Repair a model so that its answers depend less on the sensitive attributes.

    Returns the audit of the repaired model: `.model` is the model, `.repair` the proof of what the
    repair did, next to controls, and `.repair.accepted` whether it may replace the old one. A model
    from a file is written in the format of that file, opened again and compared with the proof's:
    `.written` is the new file. The given model is left as it is. `with_` is a repair by name
    (`repairs.REPAIRS`), with settings of its `own`, or an object. Without `strength`, the strength
    is chosen on validation people, unless `choose` is False. `seed` is that of the split the
    network was trained with; a network that fairprobe trained has its own. In the folder
    `checkpoint` trained networks are kept: after a kill, the same repair with the same folder does
    not train them again. The other options are those of `repairs.prove` and of `audit`.

    Where the label is an amount, `tolerance` says which change of the amount matters.
    `max_accuracy_drop` is then how far the mean error may rise, as a share of the error of always
    answering the mean.
    """
    coded = data.with_sensitive(sensitive).with_counterparts(counterparts)
    is_amount = coded.amounts is not None
    check_target(
        coded, is_amount=is_amount, decision=decision, tolerance=tolerance, tau=tau, pairs=pairs
    )
    how = _chosen(with_, strength, own)
    ready = as_model(model, coded).with_decision(decision, coded)
    seed = _seed_of(ready) if seed is None else seed
    given = scored_model(ready, coded, tolerance) if is_amount else ready
    choose = choose if strength is None else False
    search: dict[str, Any] = {
        "people": people,
        "method": method,
        "variant": variant,
        "settings": settings,
        "samples": samples,
        "progress": progress,
    }
    if not is_amount:
        search |= {"tau": tau, "pairs": pairs}
    subject, kept = _subject(given, how, coded), None
    if checkpoint is not None and isinstance(how, Repair):
        kept = checkpoint / "networks"
        same = (choose, curve, max_seeds, people, method, settings, tau, pairs)
        check_repair(checkpoint, coded, subject, repr(how), seed, *same)
    proof, repaired = prove(
        subject,
        coded,
        how,
        seed=seed,
        max_accuracy_drop=max_accuracy_drop,
        max_harm=max_harm,
        force=force,
        curve=curve,
        choose=choose,
        max_seeds=max_seeds,
        kept=kept,
        **search,
    )
    delivered, file = write(
        repaired, how, subject, coded, folder=MODEL if proof.accepted else REFUSED
    )
    if isinstance(given, ScoreModel):
        within = given.tolerance
        if within.unit == "sd":  # of the answers of the given model, not of the repaired one
            within = Tolerance(within.value * given.scale)
        search["tolerance"] = within
    done = audit(
        data,
        delivered,
        sensitive,
        counterparts=counterparts,
        budget=budget,
        findings_to=findings_to,
        checkpoint=checkpoint,
        seed=seed,
        **search,
    )
    return replace(done, run=structs.replace(done.run, repair=proof), written=file)


def _chosen(
    with_: str | Repair | PostHoc, strength: float | None, own: dict[str, Any]
) -> Repair | PostHoc:
    """Return the repair by its name or as it was given, with its strength."""
    how = any_repair_named(with_, **own) if isinstance(with_, str) else with_
    if own and not isinstance(with_, str):
        raise SettingError(
            f"Settings ({', '.join(own)}) go with a repair's name. Give the object its"
            f" settings: {type(how).__name__}(...)."
        )
    if strength is None:
        return how
    if isinstance(how, PostHoc):
        raise SettingError(f"The repair '{how.name}' has no strength. Leave it out.")
    return how.at_strength(strength)


def _subject(given: Model, how: Repair | PostHoc, data: Dataset) -> Model:
    """Return the model that is repaired: a network, or what the user's own program answers."""
    if isinstance(how, Repair):
        return given if isinstance(given, ScoreModel) else network_of(given)
    user = given.original or given  # a copy in torch is of no use to somebody who calls the model
    if isinstance(given, ScoreModel):
        return user if isinstance(user, ScoreModel) else given
    blind = set() if user.about is None else set(user.about.blind_to)
    if blind >= set(data.domain.sensitive):
        raise SettingError(
            f"The model does not use {' and '.join(data.domain.sensitive)}, so it cannot answer"
            " counterparts differently, and there is nothing to repair after the fact."
        )
    return user


def _seed_of(model: Model, default: int = 0) -> int:
    """Return the seed of the split that a network was trained with, if it was trained here."""
    model = model.network or model if isinstance(model, ScoreModel) else model
    return model.trained_on[1] if isinstance(model, TorchModel) and model.trained_on else default


def repair_run(
    folder: Path | str,
    how: Repair | PostHoc,
    *,
    sensitive: tuple[str, ...] = (),
    table: Path | str | None = None,
    model: OpenModel | None = None,
    samples: int | None = None,
    **options: Any,
) -> Audit:
    """Repair the model of a run, and search and measure as its audit did, for its sensitive
    attributes or for others. `table` and `model` are user-supplied, if the run was made with them;
    `samples` is the run's number unless given; `options` are those of `repair`.
    """
    run = read_repairable_run(folder)
    data = data_of(run, Path(folder), table)
    if sensitive:
        data = data.with_sensitive(sensitive)
    given = model_of(run, Path(folder), data, model)
    _check_repairable(given, how)
    if run.amounts is not None:
        within = run.amounts.tolerance
        options["tolerance"] = Tolerance(within.value, within.unit)
    if run.fairness is not None:
        rates = run.fairness.individual
        options["tau"] = [rate.tau for rate in rates.by_tau] or rates.tau
        options["pairs"] = "single" if rates.over == "single" else "all"
    found = run.generation
    has_time = "seconds" in found.settings  # the method's own
    budget = Budget(
        seeds=found.seeds or 1,
        global_iterations=found.global_iterations or None,
        clusters=found.clusters,
        seeds_by=found.seeds_by,
        local_iterations=found.local_iterations,
        seconds=found.wall_seconds if found.stopped == "seconds" and not has_time else None,
        cpu_seconds=found.cpu_seconds if found.stopped == "cpu_seconds" else None,
        rows=max(1, found.judged) if found.stopped == "rows" else None,
        wanted=max(1, found.idis) if found.stopped == "wanted" else None,
    )
    return repair(
        data,
        given,
        sensitive or run.sensitive,
        counterparts=run.counterparts.kind,
        with_=how,
        people=found.people,
        method=found.method,
        variant=found.variant or None,
        settings=found.settings,
        budget=budget,
        samples=run.dm_rs.samples if samples is None else samples,
        seed=_seed_of(given, run.seed),
        **options,
    )


def _check_repairable(model: Model, how: Repair | PostHoc) -> None:
    """Raise an error for a model that this repair cannot change."""
    network = model.network if isinstance(model, ScoreModel) else model
    if isinstance(how, PostHoc):
        if (model.original or model).joint is None:
            raise SettingError(
                f"The repair '{how.name}' wraps a user-supplied black box. The weights of this"
                " network are accessible: repair it with counterfactual, which changes them."
            )
    elif not isinstance(network, TorchModel):
        why = model.about.why if model.about is not None else ""
        after = "average" if isinstance(model, ScoreModel) else ", ".join(POST_HOC)
        raise ModelError(
            "This repair changes the weights of a network, and the model of the run is a black box."
            f" Repair it after the fact: --with {after}."
            f"{f' Why it is a black box: {why}' if why else ''}"
        )
    elif network.own is not None and not how.keeps_shape:
        raise SettingError(
            f"The repair '{how.name}' changes the inputs of the network, so it cannot be written"
            f" into {network.own.name}. Choose another, such as counterfactual."
        )
