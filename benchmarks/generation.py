"""How fast NeuronFair finds IDIs, beside how fast given instances are judged.

    python -m benchmarks.generation            gender, race, age: CPU ms for 1,000 IDIs and the
                                               ratio to judging, both paths
    python -m benchmarks.generation --linear   1 k, 10 k, 100 k seeds: time for each 1,000 seeds,
                                               and the peak of memory (--sizes, --local-iterations)

The network is the calibration network of the census data where FAIRPROBE_ASSETS points at it, else
an LFCN trained on the packaged Adult. One thread. A ratio of 1 would mean that searching costs
nothing beyond judging.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import fairprobe as fp
from fairprobe.arrays import Rows
from fairprobe.models import TorchModel, one_thread
from fairprobe.schema.domain import Domain
from fairprobe.search import NeuronFair, choose_seeds, search
from fairprobe.search.methods.base import ROWS_AT_ONCE

ATTRIBUTES = ("gender", "race", "age")


def network(*, closed_form: bool) -> TorchModel:
    assets = os.environ.get("FAIRPROBE_ASSETS")
    if assets is None:
        data = fp.datasets.adult().bare()
        return TorchModel(
            fp.networks.train(fp.networks.lfcn(data.domain), data).module, closed_form=closed_form
        )
    weights = np.load(Path(assets) / "census_reference_net.npz")
    pieces: list[nn.Module] = []
    for layer in range(6):
        linear = nn.Linear(*weights[f"W{layer}"].shape)
        linear.load_state_dict(
            {
                "weight": torch.from_numpy(weights[f"W{layer}"].T.copy()),
                "bias": torch.from_numpy(weights[f"b{layer}"]),
            }
        )
        pieces += [linear, nn.ReLU()]
    return TorchModel(nn.Sequential(*pieces[:-1]), closed_form=closed_form)


def judged_per_second(domain: Domain, model: TorchModel, x: Rows) -> float:
    """The rate of judging given instances, in batches as large as those of the search."""
    size = ROWS_AT_ONCE // domain.value_count
    start = time.process_time()
    for first in range(0, len(x), size):
        fp.judge(domain, model, x[first : first + size])
    return len(x) / (time.process_time() - start)


def row(*cells: str) -> None:
    print("".join(f"{cell:>13}" for cell in cells), flush=True)


def ratios(seeds: int) -> None:
    data = fp.datasets.adult().bare()
    source = "calibration network" if "FAIRPROBE_ASSETS" in os.environ else "LFCN trained on Adult"
    print(
        f"{source}, {seeds:,} seeds, revert, one thread. 'generated' counts repetitions; IDIs are"
        " unique."
    )
    row(
        "attribute",
        "path",
        "IDIs",
        "GSR",
        "CPU s",
        "ms/1000",
        "generated/s",
        "judged/s",
        "ratio",
        "IDIs/judged",
    )
    for name in ATTRIBUTES:
        domain = data.domain.with_sensitive(name)
        for closed_form in (False, True):
            model = network(closed_form=closed_form)
            with one_thread():
                bias = fp.neuron_bias(domain, model, data.x)
                start = choose_seeds(domain, data.x, seeds, rng=np.random.default_rng(0))
                instances = domain.sample(200_000, rng=np.random.default_rng(1))
                before = judged_per_second(domain, model, instances)
                found = search(
                    domain,
                    model,
                    NeuronFair(layer=bias.most_biased),
                    start,
                    rng=np.random.default_rng(2),
                )
                judged = (before + judged_per_second(domain, model, instances)) / 2
            cpu, generated = (
                found.generation.cpu_seconds,
                found.generation.judged / found.generation.cpu_seconds,
            )
            row(
                name,
                "closed form" if closed_form else "autograd",
                f"{len(found):,}",
                f"{len(found) / found.generation.tried:.1%}",
                f"{cpu:.2f}",
                f"{cpu * 1e6 / len(found):.2f}",
                f"{generated:,.0f}",
                f"{judged:,.0f}",
                f"{generated / judged:.2f}",
                f"{len(found) / cpu / judged:.2f}",
            )


def one_size(seeds: int, local: int | None) -> None:
    """One point of the line, in a process of its own, whose peak of memory it is."""
    data = fp.datasets.adult().bare()
    domain = data.domain.with_sensitive("gender")
    model = network(closed_form=True)
    bias = fp.neuron_bias(domain, model, data.x)
    start = choose_seeds(domain, data.x, seeds, rng=np.random.default_rng(0))
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        method = NeuronFair(layer=bias.most_biased)
        found = search(
            domain,
            model,
            method,
            start,
            fp.Budget(seeds=seeds, local_iterations=local),
            rng=np.random.default_rng(2),
            save_to=Path(folder) / "findings.parquet",
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cpu = found.generation.cpu_seconds
        row(
            f"{seeds:,}",
            f"{len(found):,}",
            f"{len(found) / found.generation.tried:.1%}",
            f"{cpu:.1f}",
            f"{cpu * 1000 / seeds:.2f}",
            f"{cpu * 1e6 / len(found):.2f}",
            f"{base / 1024:,.0f}",
            f"{peak / 1024:,.0f}",
        )


def line(sizes: list[int], local: int | None) -> None:
    row("seeds", "IDIs", "GSR", "CPU s", "s/1000 seeds", "ms/1000", "MiB before", "MiB peak")
    for size in sizes:
        words = ["--one-size", str(size)]
        words += [] if local is None else ["--local-iterations", str(local)]
        subprocess.run(  # noqa: S603
            [sys.executable, "-m", "benchmarks.generation", *words], check=True
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--linear", action="store_true", help="1 k to 100 k seeds")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--local-iterations", type=int, help="of --linear; else the method's own")
    parser.add_argument("--one-size", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_size:
        one_size(options.one_size, options.local_iterations)
    elif options.linear:
        line(options.sizes, options.local_iterations)
    else:
        ratios(options.seeds)
