"""All searches on the same networks with the same CPU seconds, as Markdown tables.

    FAIRPROBE_ASSETS=... python -m benchmarks.searches [--seconds 4] [--repeats 5] [--only lcds]

Networks: four public ones that fairprobe did not train, the census network of NeuronFair's authors'
kind (where FAIRPROBE_ASSETS points at them), and networks that fairprobe trains on the papers'
subjects. Possible people, bare counterparts, one thread. `sampling` draws uniformly and judges.
Counted are different people. Each finding is checked again with the weights of the network, by
plain NumPy in float64.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import nn

import fairprobe as fp
from benchmarks.generation import network
from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.findings import Findings
from fairprobe.judgement import Verdict
from fairprobe.models import TorchModel, one_thread
from fairprobe.models.chain import Chain
from fairprobe.models.encoder import Scale
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain
from fairprobe.search import Budget, Explorer, Method, choose_seeds, search
from fairprobe.search.catalogue import METHODS, method_named
from fairprobe.search.methods.base import Proposal, SearchContext
from fairprobe.statistics.repeats import Repeats
from fairprobe.table.generation import DRAWN, cells
from fairprobe.table.subject import train
from papers.data.meps import meps
from papers.neuronfair import SUBJECTS

PUBLIC = ("vanilla_adult", "multitask_adult_g", "flip_adult_g", "lcds_adult_g")
SEEDS = 20_000  # more than any search can use up
AT_ONCE = 16_384
NOT_COMPARED = ("crossover",)  # it needs plausible people


@dataclass(frozen=True)
class Sampling(Explorer):
    """Uniform draws."""

    name: ClassVar[str] = "sampling"
    title: ClassVar[str] = "Sampling"
    about: ClassVar[str] = "Draws people uniformly."

    def propose(
        self, context: SearchContext, seeds: Rows, rng: np.random.Generator
    ) -> Generator[Proposal, Verdict, None]:
        del seeds
        while True:
            x = context.domain.sample(AT_ONCE, rng=rng)
            yield Proposal(x, np.arange(len(x)))


@dataclass(frozen=True)
class Target:
    name: str
    domain: Domain
    model: TorchModel
    x: Rows


def targets(only: str) -> Iterator[Target]:
    assets = os.environ.get("FAIRPROBE_ASSETS")
    for name in PUBLIC if assets else ():
        if only in name:
            yield public(Path(str(assets)) / "networks", name)
    adult = fp.datasets.adult().bare()
    if assets and only in "census":
        domain = adult.domain.with_sensitive("gender")
        yield Target("census", domain, network(closed_form=True), adult.x)
    known = {entry.name: entry.load for entry in fp.datasets.catalogue()}
    if assets:
        known["meps"] = lambda: meps(Path(assets) / "meps21.csv.gz")
    for subject in SUBJECTS:
        name = f"{subject.dataset}, {subject.sensitive}"
        if only in name and subject.dataset in known:
            data = known[subject.dataset]().bare().with_sensitive(subject.sensitive)
            yield Target(name, data.domain, train(data, seed=0), data.x)


def public(folder: Path, name: str) -> Target:
    """A network of the GRFT study, on Adult in the coding of EIDIG."""
    weights, table = np.load(folder / f"{name}.npz"), np.load(folder / "eidig_adult.npz")
    pieces: list[nn.Module] = []
    for layer in range(sum(key.startswith("W") for key in weights.files)):
        linear = nn.Linear(*weights[f"W{layer}"].shape)
        state = {"weight": weights[f"W{layer}"].T, "bias": weights[f"b{layer}"]}
        linear.load_state_dict(
            {key: torch.from_numpy(value.astype(np.float32).copy()) for key, value in state.items()}
        )
        pieces += [linear, nn.ReLU()]
    attributes = (
        Attribute(name=str(attribute), low=float(low), high=float(high))
        for attribute, low, high in zip(table["names"], table["low"], table["high"], strict=True)
    )
    domain = Domain(tuple(attributes), sensitive=("gender",))
    model = TorchModel(nn.Sequential(*pieces[:-1]))
    return Target(name, domain, model, table["x"].astype(np.float32))


def unconfirmed(target: Target, found: Findings) -> int:
    """How many findings plain NumPy does not confirm in float64."""
    chain = Chain.of(target.model.module)
    assert chain is not None
    total = 0
    for batch in found.batches():
        x = found.rows(batch).astype(np.float64)
        labels = []
        for values in target.domain.sensitive_values:
            person = x.copy()
            person[:, target.domain.sensitive_columns] = values
            labels.append(label(chain.pieces, encoded(target, person)))
        total += int((np.min(labels, axis=0) == np.max(labels, axis=0)).sum())
    return total


def encoded(target: Target, x: Floats) -> Floats:
    """The columns that the network takes: one for each category of a one-hot attribute."""
    if target.model.encoder is None:
        return x
    columns = [
        x[:, [place]] == np.arange(len(attribute.categories))
        if attribute.one_hot
        else x[:, [place]]
        for place, attribute in enumerate(target.domain.attributes)
    ]
    return np.concatenate(columns, axis=1, dtype=np.float64)


def label(pieces: tuple[nn.Module, ...], z: Floats) -> Ints:
    for piece in pieces:
        numbers = {name: value.double().numpy() for name, value in piece.state_dict().items()}
        if isinstance(piece, nn.Linear):
            z = z @ numbers["weight"].T + numbers.get("bias", 0)
        elif isinstance(piece, Scale):
            z = (z - numbers["middle"]) * numbers["factor"]
        elif isinstance(piece, nn.Tanh):
            z = np.tanh(z)
        else:
            assert isinstance(piece, nn.ReLU), piece
            z = np.maximum(z, 0)
    return z.argmax(axis=1) if z.shape[1] > 1 else (z[:, 0] > 0).astype(np.int64)


def shown(values: list[float], digits: int = 0) -> str:
    repeats = Repeats(tuple(values))
    spread = "" if repeats.sd is None else f" ± {repeats.sd:,.{digits}f}"
    return f"{repeats.mean:,.{digits}f}{spread}"


def main(seconds: float, repeats: int, only: str, methods: list[str]) -> None:
    print(f"{seconds:g} CPU seconds each, {repeats} repeats; mean ± standard deviation.\n")
    print("| network | search | different people | cells | share | rows judged | unconfirmed |")
    print("|" + "---|" * 7)
    for target in targets(only):
        seeds = choose_seeds(target.domain, target.x, SEEDS, rng=np.random.default_rng(0))
        with one_thread():
            bias = fp.neuron_bias(target.domain, target.model, target.x)
        names = methods or ["sampling", *(each for each in METHODS if each not in NOT_COMPARED)]
        known = target.domain.clip(target.x)
        searches: dict[str, Method] = {
            name: Sampling() if name == "sampling" else method_named(name, bias=bias, x=known)
            for name in names
        }
        rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
        for repeat in range(repeats):  # all take turns: a machine is not as fast all the time
            for name, how in searches.items():
                rng = np.random.default_rng([repeat, 1])
                order = np.random.default_rng([repeat, 0]).permutation(len(seeds))
                budget = Budget(seeds=len(seeds), cpu_seconds=seconds)
                found = search(target.domain, target.model, how, seeds[order], budget, rng=rng)
                share = cells(found) or 0.0
                different = share * min(len(found), DRAWN)
                judged, wrong = found.generation.judged, unconfirmed(target, found)
                rows[name].append((len(found), different, share, judged, wrong))
        for name, measured in rows.items():
            columns = [list(column) for column in zip(*measured, strict=True)]
            parts = [shown(*each) for each in zip(columns, (0, 0, 2, 0), strict=False)]
            print(
                f"| {target.name} | {name} | {' | '.join(parts)} | {sum(columns[4]):,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", default="", help="networks whose name contains this")
    parser.add_argument("--methods", nargs="*", default=[])
    options = parser.parse_args()
    main(options.seconds, options.repeats, options.only, options.methods)
