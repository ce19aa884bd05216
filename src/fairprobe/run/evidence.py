"""`audit`: the whole way from data and model to evidence. The only place where the rooms are put together."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from fairprobe import networks
from fairprobe.datasets.base import Dataset
from fairprobe.domain import Outside
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.findings import Findings, check_names
from fairprobe.interpret import Ablation, NeuronBias, ablation, neuron_bias
from fairprobe.metrics import Pair, People, Rate, dm_rs, people, spread, striking_pairs
from fairprobe.model import Encoder, Model, TorchModel, one_thread
from fairprobe.report import render
from fairprobe.run.document import document
from fairprobe.search import Budget, NeuronFair, Progress, choose_seeds, search
from fairprobe.search.methods.neuronfair import MODES, Mode
from fairprobe.storage import write_text

if TYPE_CHECKING:
    from torch import nn

OnStage = Callable[[str, int, int, str], None]  # what is going on, done, total, a word about it
METHODS = ("neuronfair",)
NETWORKS = ("auto", "lfcn", "hfcn")
MODEL = "model"  # the network's folder within a run
WIDE = 100  # columns; from here on the paper uses its heavier network


@dataclass(frozen=True)
class Audit:
    """The evidence: what was measured, on what, with which seed."""

    data: Dataset
    model: TorchModel
    seed: int
    created: str
    accuracy: Rate
    majority: float
    is_constant: bool
    outside: Outside
    interpretation: NeuronBias
    ablation: Ablation
    dm_rs: Rate
    people: People
    findings: Findings
    spread: float | None
    pairs: list[Pair]
    versions: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, the content of `audit.json`."""
        return document(self)

    def report(self, path: Path | str = "report.html") -> Path:
        """Writes the report, one self-contained HTML file, and returns its path."""
        write_text(Path(path), render(self.to_dict()))
        return Path(path)


def audit(
    data: Dataset,
    model: Model | nn.Module,
    sensitive: str | tuple[str, ...] | list[str],
    *,
    method: str = "neuronfair",
    mode: Mode = "revert",
    budget: Budget | None = None,
    outside: Literal["clip", "refuse"] = "clip",
    samples: int = 50_000,
    seed: int = 0,
    progress: OnStage | None = None,
    findings_to: Path | None = None,
) -> Audit:
    """Measures how a network treats people who differ only in the sensitive attributes.

    It interprets the network (which neurons react), measures how common discrimination is in the domain (`samples` uniform instances) and
    among the people in the data, and searches for as many discriminatory instances as the budget allows. An interrupt during the search
    keeps what was found. Rows outside the domain are counted and named; as seeds they are clipped, unless `outside` is "refuse".
    `findings_to` streams the findings to a file.
    """
    _check_settings(method, mode, outside, samples, seed)
    budget = budget or Budget()
    data = data.with_sensitive(sensitive)
    domain = data.domain
    check_names(domain)
    if outside == "refuse":
        domain.require_inside(data.x, what=f"rows of '{data.name}'")
    tell = progress or (lambda *_: None)
    rngs = dict(zip(("ablation", "domain", "seeds", "search"), np.random.default_rng(seed).spawn(4), strict=True))

    def within(stage: str) -> Callable[[int, int], None]:
        return lambda done, total: tell(stage, done, total, "")

    tell("Checking the network", 0, 1, "")
    network = _white_box(model, data)
    labels, test = network.labels(data.x), data.split(seed).test
    with one_thread():
        known = data.x[domain.comparable(data.x)]
        bias = neuron_bias(domain, network, known, progress=within("Looking at the neurons"))
        tell("Silencing biased neurons", 0, 1, "")
        causal = ablation(domain, network, bias.most_biased, data.x[test], data.y[test], rng=rngs["ablation"])
        common = dm_rs(domain, network, rng=rngs["domain"], samples=samples, progress=within("Sampling the domain"))
        tell("Asking for everybody in the data", 0, 1, "")
        affected = people(domain, network, data.x, favourable=data.favourable)
        seeds = choose_seeds(domain, data.x, budget.seeds, rng=rngs["seeds"])

    def watch(where: Progress) -> None:
        tell("Searching", where.done, where.total, f"{where.idis:,} hits, {where.phase} phase")

    how = NeuronFair(layer=bias.most_biased, mode=mode)
    findings = search(domain, network, how, seeds, budget, rng=rngs["search"], progress=watch, save_to=findings_to)
    return Audit(
        data=data,
        model=network,
        seed=seed,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        accuracy=Rate(int((labels[test] == data.y[test]).sum()), len(test)),
        majority=float(np.bincount(data.y[test]).max() / max(len(test), 1)),
        is_constant=len(np.unique(labels)) == 1 and common.hits == 0 and len(findings) == 0,
        outside=domain.outside(data.x),
        interpretation=bias,
        ablation=causal,
        dm_rs=common,
        people=affected,
        findings=findings,
        spread=spread(findings),
        pairs=striking_pairs(findings),
        versions=versions(),
    )


def train(data: Dataset, *, kind: str = "auto", seed: int = 0, progress: OnStage | None = None) -> TorchModel:
    """A network of the papers, trained on the data: "lfcn", "hfcn", or "auto" for the one the paper used for data of this width."""
    _check_seed(seed)
    if kind not in NETWORKS:
        raise SettingError(f"There is no network '{kind}'.{suggest(kind, NETWORKS)}")
    wide = Encoder(data.domain).width > WIDE
    build = networks.hfcn if kind == "hfcn" or (kind == "auto" and wide) else networks.lfcn
    tell = progress or (lambda *_: None)
    fresh = build(data.domain, classes=len(data.classes), seed=seed)
    return networks.train(fresh, data, seed=seed, progress=lambda done, total: tell("Training the network", done, total, f"epoch {done}"))


def trained_before(folder: Path, data: Dataset) -> TorchModel:
    """The network of an earlier run on the same data set."""
    model = networks.load(folder / MODEL, data.domain)
    if model.trained_on is not None and model.trained_on[0] != data.name:
        raise ModelError(f"The network in {folder} was trained on other data ('{model.trained_on[0]}', not '{data.name}').")
    return model


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    return {"fairprobe": version("fairprobe"), "python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}


def _check_settings(method: str, mode: str, outside: str, samples: int, seed: int) -> None:
    """Refuses what cannot be done before any work is done."""
    if method not in METHODS:
        raise SettingError(f"There is no method '{method}'.{suggest(method, METHODS)}")
    if mode not in MODES:
        raise SettingError(f"The local mode must be one of {', '.join(MODES)}; got '{mode}'.")
    if outside not in ("clip", "refuse"):
        raise SettingError(f"Rows outside the domain can be treated by 'clip' or 'refuse', not by '{outside}'.")
    if samples < 1:
        raise SettingError(f"The number of samples must be at least 1; got {samples}.")
    _check_seed(seed)


def _check_seed(seed: int) -> None:
    if not 0 <= seed < 2**63:
        raise SettingError(f"The seed must be a whole number from 0 to 2^63 - 1; got {seed}.")


def _white_box(model: Model | nn.Module, data: Dataset) -> TorchModel:
    """The model as one that can be looked into, and that answers for the classes of the data."""
    if isinstance(model, torch.nn.Module):
        encoder = Encoder(data.domain)
        model = TorchModel(model, encoder=None if encoder.is_identity else encoder)
    if not isinstance(model, TorchModel):
        raise ModelError(
            "NeuronFair looks inside the network and needs a TorchModel; a black box was given. Wrap the nn.Module in fairprobe.TorchModel."
        )
    answers = model.probabilities(data.x[:1]).shape[1]
    if answers != len(data.classes):
        raise ModelError(f"The network knows {answers} classes; '{data.name}' has {len(data.classes)}: {', '.join(data.classes)}.")
    return model
