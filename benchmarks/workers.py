"""How much faster two workers are than one, and whether they find the same.

    python -m benchmarks.workers [neuronfair|probe|audit|forest ...] [--seeds 100000] [--workers 2]

    neuronfair  by gender on the census network, among possible people, 200 local steps
    probe       the default search on the same network, among possible people
    audit       the default search of an audit of Adult: plausible people, a network trained here
    forest      the same with a slow black box, 300 trees of scikit-learn, and --set crowd=25000

Wall seconds on a machine that is otherwise idle; starting the processes counts, and so does writing
the file of findings.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

import fairprobe as fp
from benchmarks.generation import network
from fairprobe.models import Model, one_thread
from fairprobe.people import PlausiblePeople
from fairprobe.search import NeuronFair, Probe, choose_seeds, search
from fairprobe.table.subject import train

SEEDS = {"neuronfair": 100_000, "probe": 8_000, "audit": 8_000, "forest": 200}


def subject(name: str) -> tuple[fp.Dataset, Model, Any, dict[str, Any], int | None]:
    """Data, model, method, the people it stays among, and local iterations."""
    data = fp.datasets.adult().with_sensitive("gender")
    if name in ("neuronfair", "probe"):
        data, model = data.bare(), network(closed_form=True)
        if name == "probe":
            return data, model, Probe(), {}, None
        layer = fp.neuron_bias(data.domain, model, data.x).most_biased
        return data, model, NeuronFair(layer=layer), {}, 200
    if name == "audit":
        return data, train(data, seed=0), Probe(), {"people": PlausiblePeople.fit(data)}, None
    forest = RandomForestClassifier(300, max_depth=12, random_state=0).fit(data.x, data.y)
    how, people = Probe(crowd=25_000), PlausiblePeople.fit(data)
    return data, Model(forest.predict_proba), how, {"people": people}, None


def measure(name: str, seeds: int, workers: list[int]) -> None:
    data, model, how, people, local = subject(name)
    start = choose_seeds(data.domain, data.x, seeds, rng=np.random.default_rng(0))
    budget = fp.Budget(seeds=seeds, local_iterations=local)
    first: Any = None
    for count in workers:
        with tempfile.TemporaryDirectory() as folder:
            begin, path = time.perf_counter(), Path(folder) / "findings.parquet"
            rng = np.random.default_rng(1)
            found = search(
                data.domain, model, how, start, budget,
                rng=rng, workers=count, save_to=path, **people,
            )  # fmt: skip
            wall, pairs = time.perf_counter() - begin, found._whole()
        first = first or (wall, pairs)
        print(
            f"{name}, {seeds:,} seeds, {count} workers: {len(pairs):,} findings"
            f" ({'the same' if pairs.equals(first[1]) else 'NOT THE SAME'}), {wall:.1f} s,"
            f" {found.generation.cpu_seconds:.1f} CPU s, {first[0] / wall:.2f} times as fast",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subjects", nargs="*", default=list(SEEDS))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    with one_thread():
        for each in options.subjects:
            measure(each, options.seeds or SEEDS[each], options.workers)
