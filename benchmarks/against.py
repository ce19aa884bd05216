"""How fast this commit searches and judges beside another one, in one run.

    git archive COMMIT | tar -x -C FOLDER
    FAIRPROBE_ASSETS=... python -m benchmarks.against FOLDER [--repeats 5] [--seeds 1000]

The same NeuronFair search and the same judged people on the calibration network of the census data.
The two commits take turns, each time in a process of its own, one thread. CPU seconds; the median
of the repeats, and the lowest and highest of the ratios of neighbours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

import fairprobe as fp
from fairprobe.search import NeuronFair, choose_seeds, search

ATTRIBUTES = ("gender", "race", "age")
HERE = Path(__file__).parents[1]


def measure(seeds: int) -> dict[str, list[float]]:
    """For each attribute: ms for 1,000 different findings, ns for a judged person, CPU seconds and
    findings. It must run with both commits.
    """
    from benchmarks.generation import network  # of the commit that is measured

    data = fp.datasets.adult()
    data = data.bare() if hasattr(data, "bare") else data
    model, measured = network(closed_form=True), {}
    for name in ATTRIBUTES:
        domain = data.domain.with_sensitive(name)
        layer = fp.neuron_bias(domain, model, data.x).most_biased
        start = choose_seeds(domain, data.x, seeds, rng=np.random.default_rng(0))
        found = search(domain, model, NeuronFair(layer=layer), start, rng=np.random.default_rng(2))
        seconds = found.generation.cpu_seconds
        people = domain.sample(16_384 // domain.value_count, rng=np.random.default_rng(1))
        rates = []
        for _ in range(10):
            before = time.process_time()
            for _ in range(10):
                fp.judge(domain, model, people)
            rates.append((time.process_time() - before) / 10 / len(people))
        measured[name] = [seconds * 1e6 / len(found), 1e9 * median(rates), seconds, len(found)]
    return measured


def in_tree(tree: Path, seeds: int) -> dict[str, list[float]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{tree / 'src'}:{tree}"}
    answer = subprocess.run(  # noqa: S603
        [sys.executable, __file__, "--measure", str(seeds)],
        env=environment,
        cwd=tree,
        check=True,
        capture_output=True,
        text=True,
    )
    measured: dict[str, list[float]] = json.loads(answer.stdout)
    return measured


def main(tree: Path, repeats: int, seeds: int) -> None:
    pairs = [(in_tree(tree, seeds), in_tree(HERE, seeds)) for _ in range(repeats)]
    print(f"{seeds:,} seeds, {repeats} repeats in turns, load {os.getloadavg()[0]:.1f}.\n")
    print("| attribute | what | before | now | now / before | lowest | highest | findings |")
    print("|" + "---|" * 8)
    for name in ATTRIBUTES:
        for place, what in enumerate(("search, ms per 1,000 findings", "judge, ns per person")):
            before, now = ([each[side][name][place] for each in pairs] for side in (0, 1))
            ratios = [new / old for old, new in zip(before, now, strict=True)]
            counts = " → ".join(f"{pairs[0][side][name][3]:,.0f}" for side in (0, 1))
            print(
                f"| {name} | {what} | {median(before):.2f} | {median(now):.2f} |"
                f" {median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} | {counts} |"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tree", type=Path, nargs="?")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
    elif options.tree:
        main(options.tree.resolve(), options.repeats, options.seeds)
