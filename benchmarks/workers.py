"""How much faster two workers are than one, and whether they find the same.

    python -m benchmarks.workers [--seeds 40000] [--local-iterations 200] [--workers 2]

NeuronFair by gender on the calibration network of the census data. Wall seconds on a machine that
is otherwise idle; starting the processes counts.
"""

from __future__ import annotations

import argparse

import numpy as np

import fairprobe as fp
from benchmarks.generation import network
from fairprobe.search import NeuronFair, choose_seeds, search


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40_000)
    parser.add_argument("--local-iterations", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    data = fp.datasets.adult().bare().with_sensitive("gender")
    model = network(closed_form=True)
    how = NeuronFair(layer=fp.neuron_bias(data.domain, model, data.x).most_biased)
    seeds = choose_seeds(data.domain, data.x, options.seeds, rng=np.random.default_rng(0))
    budget = fp.Budget(seeds=options.seeds, local_iterations=options.local_iterations)
    one, more = (
        search(data.domain, model, how, seeds, budget, rng=np.random.default_rng(1), workers=count)
        for count in (1, options.workers)
    )
    before, after = one.generation, more.generation
    same = one.to_pandas(codes=True).equals(more.to_pandas(codes=True))
    print(f"{len(one):,} findings, {'the same' if same else 'NOT THE SAME'}")
    print(
        f"wall {before.wall_seconds:.1f} s, {after.wall_seconds:.1f} s with more workers:", end=" "
    )
    print(f"{before.wall_seconds / after.wall_seconds:.2f} times as fast")
    print(f"CPU {before.cpu_seconds:.1f} s, {after.cpu_seconds:.1f} s")


if __name__ == "__main__":
    main()
