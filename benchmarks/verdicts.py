"""How often the verdict on a repair is right: repairs that do nothing, and repairs that help.

    python -m benchmarks.verdicts            # 20 runs of each data set, about half an hour
    python -m benchmarks.verdicts 4          # fewer

A repair that does nothing trains the network again, from other weights and in another order than
its control. A real one is `counterfactual` with λ chosen on validation people. Every run has a
network of its own (the paper's small one, trained again with another seed if it gives everybody the
same answer) and a split of its own; of Adult 4,000 people are drawn. The page is written after
every run.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import nn

import fairprobe as fp
from fairprobe.datasets.base import Dataset
from fairprobe.documents.repair import Limits, Outcome
from fairprobe.errors import DataError
from fairprobe.models import TorchModel, one_thread
from fairprobe.networks import is_constant, lfcn, train
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.repairs import Counterfactual, Repair
from fairprobe.repairs.base import OnEpoch, initial_network, learn
from fairprobe.repairs.comparisons import HELD_OUT
from fairprobe.repairs.curve import tradeoff
from fairprobe.repairs.panel import Panel, draw
from fairprobe.repairs.series import Series, Trainer
from fairprobe.repairs.verdict import LOOKS

PAGE = Path("docs/results/verdicts.md")
RUNS = 20
ROWS = 4_000  # of Adult
PEOPLE = 2_000  # plausible people
NOTHING, REAL = "does nothing", "counterfactual"
OUTCOMES: tuple[Outcome, ...] = ("accepted", "refused", "undecided")


@dataclass(frozen=True, kw_only=True)
class Nothing(Repair):
    """Trains again, from other weights and in another order than the control."""

    name: ClassVar[str] = "nothing"
    dial: ClassVar[str] = "none"
    dial_means: ClassVar[str] = "it has none"
    has_dial: ClassVar[bool] = False
    none: float = 0.0

    def train(
        self,
        network: nn.Module,
        given: TorchModel,
        data: Dataset,
        *,
        seed: int,  # noqa: ARG002
        progress: OnEpoch | None,
    ) -> TorchModel:
        first = float(next(network.parameters()).detach().abs().sum())
        other = int(1e6 * first) % 2**31  # another seed for every attempt
        fresh = initial_network(given, "scratch", other)
        return learn(self, fresh, given, data, seed=other, progress=progress)


@dataclass(frozen=True)
class Run:
    """One repair and its verdict. `effect`: by how many standard deviations of the control over the
    seeds fewer people held out are discriminated against.
    """

    data: str
    kind: str
    outcome: Outcome
    seeds: int
    control: float
    repaired: float
    effect: float
    reason: str
    seconds: float


def dataset(name: str, run: int) -> Dataset:
    """The data of a run."""
    data = fp.datasets.load(name)
    if len(data) > ROWS:
        rows = np.random.default_rng(run).permutation(len(data))[:ROWS]
        data = replace(data, x=data.x[rows], y=data.y[rows], held_out=None)
    return data.with_sensitive("gender")


def trained(data: Dataset, run: int) -> tuple[TorchModel, int]:
    """A network that decides something, and the seed of its split."""
    for seed in range(100 * run, 100 * run + 100):
        network = train(lfcn(data.domain, seed=seed), data, seed=seed)
        if not is_constant(network, data.x[data.split(seed).test]):
            break
    return network, seed


def prove(name: str, kind: str, run: int) -> Run:
    """What a proof would decide; what it only shows is not measured."""
    began, data = time.time(), dataset(name, run)
    network, seed = trained(data, run)
    trainer, limits = Trainer(network, data, seed), Limits()
    repair: Repair = Nothing()
    first: TorchModel | None = None
    if kind == REAL:
        _, repair, first = tradeoff(trainer, Counterfactual(), limits.max_accuracy_drop)
    maker = PlausiblePeople.fit(data, seed=seed)
    try:
        draw(maker, PEOPLE, np.random.default_rng(seed))
        panel = Panel(data, seed, maker, PEOPLE)
    except DataError:
        panel = Panel(data, seed, None, PEOPLE)
    series = Series(trainer, repair, panel, limits, first)
    decision, _, _ = series.run(LOOKS[-1])
    able = [trial for trial in series.trials if not trial.control.is_constant]
    control = np.array([trial.control.affected.mean() for trial in able])
    repaired = np.array([trial.repaired.affected.mean() for trial in able])
    assert not able or decision.comparisons[1].what == HELD_OUT
    return Run(
        data=name,
        kind=kind,
        outcome=decision.outcome,
        seeds=len(series.trials),
        control=float(control.mean()),
        repaired=float(repaired.mean()),
        effect=float((control - repaired).mean() / max(control.std(ddof=1), 1e-9)),
        reason=" ".join((*decision.reasons, *decision.doubts))[:160],
        seconds=time.time() - began,
    )


def page(runs: list[Run]) -> str:
    """The results as Markdown."""
    lines = [
        "| repair | data | runs | accepted | refused | undecided | seeds, mean |",
        "|" + "---|" * 7,
    ]
    for kind in (NOTHING, REAL):
        for data in dict.fromkeys(run.data for run in runs):
            some = [run for run in runs if (run.kind, run.data) == (kind, data)]
            lines += [_row(kind, data, some)] if some else []
        every = [run for run in runs if run.kind == kind]
        lines += [_row(kind, "**all**", every)] if every else []
    clear = [run for run in runs if run.kind == REAL and run.effect > 1]
    lines += [_row(REAL, "effect above seed noise", clear)] if clear else []
    lines += [
        "",
        "| repair | data | verdict | seeds | control | repaired | effect | why | seconds |",
        "|" + "---|" * 9,
        *(
            f"| {run.kind} | {run.data} | {run.outcome} | {run.seeds} | {run.control:.1%} |"
            f" {run.repaired:.1%} | {run.effect:.1f} | {run.reason} | {run.seconds:.0f} |"
            for run in runs
        ),
    ]
    return "\n".join(lines) + "\n"


def _row(kind: str, data: str, runs: list[Run]) -> str:
    found = Counter(run.outcome for run in runs)
    counts = " | ".join(
        f"{found[outcome]} ({found[outcome] / len(runs):.0%})" for outcome in OUTCOMES
    )
    seeds = sum(run.seeds for run in runs) / len(runs)
    return f"| {kind} | {data} | {len(runs)} | {counts} | {seeds:.1f} |"


HEAD = """# Verdicts on repairs: measured

`python -m benchmarks.verdicts`. What the verdict is: [Repair a
network](../how-to/repair.md#what-is-proven).

- *does nothing*: the network is trained again, from other weights and in another order than its
  control. It may be accepted in at most 5 % of the runs.
- *counterfactual*: λ is chosen on validation people. It should be accepted in at least 80 % of the
  runs in which its effect exceeds seed noise, and be undecided otherwise. The effect is the mean
  difference of the share of people held out who are discriminated against, in standard deviations
  of the control over the seeds; above 1 it exceeds seed noise.

Each run has a network (the paper's small one) and a split of its own, by gender. Of Adult 4,000
people are drawn for each run, so that a run takes less than two minutes; German has 1,000. At most
12 seeds.

"""


def main(runs: int = RUNS) -> None:
    done: list[Run] = []
    for number in range(runs):
        for name in ("german", "adult"):
            for kind in (NOTHING, REAL)[: 2 - number % 2]:  # half as many real repairs
                with one_thread():
                    done.append(prove(name, kind, number))
                print(done[-1], flush=True)
                PAGE.write_text(HEAD + page(done), encoding="utf-8")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
