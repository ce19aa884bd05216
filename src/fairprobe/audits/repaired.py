"""`repair`: repair a network, prove what that did, and audit what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import structs

from fairprobe.audits.post_hoc import repair_post_hoc
from fairprobe.audits.repair_document import repair_document
from fairprobe.audits.score_repair import repair_scores
from fairprobe.certificates.certify import proved_share
from fairprobe.datasets.base import Dataset
from fairprobe.documents.fairness import TAU
from fairprobe.errors import ModelError, SettingError
from fairprobe.metrics.individual import Pairs
from fairprobe.models import Decision, Model, ScoreModel, Tolerance, TorchModel
from fairprobe.repairs import POST_HOC, PostHoc, Repair, any_repair_named, prove
from fairprobe.repairs.base import network_of
from fairprobe.repairs.certified import Certified
from fairprobe.repairs.curve import Choose
from fairprobe.repairs.proof import Proof
from fairprobe.repairs.verdict import LOOKS
from fairprobe.repairs.written import written
from fairprobe.runs.reopen import OpenModel, data_of, model_of
from fairprobe.runs.stages import OnStage
from fairprobe.runs.store import read_repairable_run
from fairprobe.schema.twins import CounterpartKind
from fairprobe.search import Budget
from fairprobe.table.audit import Audit, audit
from fairprobe.table.searched import check_repair
from fairprobe.table.settings import AUTO
from fairprobe.table.subject import as_model, check_target

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
    """Repair a network so that it treats people alike who differ only in the sensitive attributes.

    Returns the audit of the repaired network: `.model` is the network, `.repair` the proof of what
    the repair did, beside controls, and `.repair.accepted` whether it may replace the old one. A
    network from a file is written in the format of that file, opened again and compared with the
    proof's: `.written` is the new file. The given network is left as it is. `with_` is a repair by
    name (`repairs.REPAIRS`), with settings of its `own`, or an object. Without `strength`, the
    strength is chosen on validation people, unless `choose` is False. `seed` is that of the split
    the network was trained with; a network that fairprobe trained knows its own. In the folder
    `checkpoint` trained networks are kept: after a kill, the same repair with the same folder does
    not train them again. The other options are those of `repairs.prove` and of `audit`.

    Where the label is an amount, `tolerance` says which
    change of the amount matters. `max_accuracy_drop` is then how far the mean error may rise, as a
    share of the error of always answering the mean.
    """
    coded = data.with_sensitive(sensitive).with_counterparts(counterparts)
    is_amount = coded.amounts is not None
    check_target(
        coded, is_amount=is_amount, decision=decision, tolerance=tolerance, tau=tau, pairs=pairs
    )
    ready = as_model(model, coded).with_decision(decision, coded)
    how = _chosen(with_, strength, own)
    seed = _seed_of(ready) if seed is None else seed
    limits: dict[str, Any] = {
        "max_accuracy_drop": max_accuracy_drop,
        "max_harm": max_harm,
        "force": force,
    }
    search: dict[str, Any] = {"people": people, "method": method, "variant": variant}
    search |= {"settings": settings, "samples": samples, "progress": progress}
    rates = {"tau": tau, "pairs": pairs}
    last: dict[str, Any] = {
        "counterparts": counterparts,
        "budget": budget,
        "findings_to": findings_to,
        "checkpoint": checkpoint,
        "seed": seed,
    }
    more = {"curve": curve, "choose": choose if strength is None else False, "max_seeds": max_seeds}
    if is_amount:
        return repair_scores(coded, ready, how, tolerance, limits | more, search, last)
    search |= rates
    if isinstance(how, PostHoc):
        return repair_post_hoc(coded, ready, how, limits, search, last)
    limits |= more
    proof = _proven(coded, network_of(ready), how, seed, limits, search, checkpoint)
    delivered, file = written(proof, coded)
    done = audit(data, delivered, sensitive, **search, **last)
    repaired = structs.replace(done.run, repair=repair_document(proof))
    return replace(done, run=repaired, proof=proof, written=file)


def _chosen(
    with_: str | Repair | PostHoc, strength: float | None, own: dict[str, Any]
) -> Repair | PostHoc:
    """The repair by its name or as it was given, with its strength."""
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


def _proven(
    data: Dataset,
    network: TorchModel,
    how: Repair,
    seed: int,
    limits: dict[str, Any],
    search: dict[str, Any],
    checkpoint: Path | None,
) -> Proof:
    """The proof of the repair; networks that an earlier run kept are not trained again."""
    if checkpoint is not None:
        same = [limits[name] for name in ("choose", "curve", "max_seeds")]
        same += [search[name] for name in ("people", "method", "settings", "tau", "pairs")]
        check_repair(checkpoint, data, network, repr(how), seed, *same)
    kept = None if checkpoint is None else checkpoint / "networks"
    is_certified = isinstance(how, Certified)
    proved = partial(proved_share, data=data) if is_certified else None
    proof = prove(network, data, how, seed=seed, kept=kept, proved=proved, **limits, **search)
    return _with_proved_shares(proof, network, data) if is_certified else proof


def _with_proved_shares(
    proof: Proof, given: TorchModel, data: Dataset, seconds: float = 20.0
) -> Proof:
    """Add the proved share of the network before and after, each in `seconds`. A blind network
    ignores the attributes by construction, so all of it is proved.
    """
    before, after = (proved_share(model, data, seconds) for model in (given, proof.model))
    controls = {
        name: replace(each, proved=1.0) if name == "blind" else each
        for name, each in proof.controls.items()
    }
    return replace(
        proof,
        before=replace(proof.before, proved=before),
        after=replace(proof.after, proved=after),
        controls=controls,
    )


def _seed_of(model: Model, default: int = 0) -> int:
    """The seed of the split that a network was trained with, if it was trained here."""
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
    attributes or for others. `table` and `model` are the user's own, if the run was made with them;
    `samples` is the run's number unless given; `options` are those of `repair`.
    """
    document = read_repairable_run(folder)
    data = data_of(document, Path(folder), table)
    if sensitive:
        data = data.with_sensitive(sensitive)
    given = model_of(document, Path(folder), data, model)
    network = given.network if isinstance(given, ScoreModel) else given
    if isinstance(how, PostHoc):
        _check_of_their_own(given, how)
    elif not isinstance(network, TorchModel):
        raise _only_networks(given)
    elif network.own is not None and not how.keeps_shape:
        raise SettingError(
            f"The repair '{how.name}' changes what the network is given, so it cannot be written"
            f" into {network.own.name}. Choose another, such as counterfactual."
        )
    if document.amounts is not None:
        within = document.amounts.tolerance
        options["tolerance"] = Tolerance(within.value, within.unit)
    if document.fairness is not None:
        rates = document.fairness.individual
        options["tau"] = [each.tau for each in rates.by_tau] or rates.tau
        options["pairs"] = "single" if rates.over == "single" else "all"
    found = document.generation
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
        sensitive or document.sensitive,
        counterparts=document.counterparts.kind,
        with_=how,
        people=found.people,
        method=found.method,
        variant=found.variant or None,
        settings=found.settings,
        budget=budget,
        samples=document.dm_rs.samples if samples is None else samples,
        seed=_seed_of(given, document.seed),
        **options,
    )


def _check_of_their_own(model: Model, how: PostHoc) -> None:
    if (model.original or model).joint is None:
        raise SettingError(
            f"The repair '{how.name}' stands around a model of your own that is asked. The weights"
            " of this network are accessible: repair it with counterfactual, which changes them."
        )


def _only_networks(model: Model) -> ModelError:
    """A model without accessible weights: nothing can be trained."""
    why = f" Why it is a black box: {model.about.why}" if model.about and model.about.why else ""
    after = "average" if isinstance(model, ScoreModel) else ", ".join(POST_HOC)
    return ModelError(
        "This repair changes the weights of a network, and the model of the run is a black box."
        f" Repair it after the fact: --with {after}.{why}"
    )
