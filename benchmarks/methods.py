"""All methods on the calibration network of the census data, as a Markdown table beside
NeuronFair's Table 4.

    FAIRPROBE_ASSETS=... python -m benchmarks.methods [--repeats 5]

The network sees raw codes and is saturated nearly everywhere, as the paper's were; the networks of
`python -m papers neuronfair-table4` see scaled inputs and are not. One thread; 1,000 seeds, 40
global and 1,000 local steps (Aequitas: 1,000 draws). ADF and EIDIG follow the gradients of logits;
"probabilities": those of the authors' code, which round to zero where the network is saturated.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import fairprobe as fp
from benchmarks.generation import ATTRIBUTES, network
from fairprobe.models import one_thread
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.catalogue import method_named
from fairprobe.statistics.repeats import Repeats
from fairprobe.table.generation import spread
from papers import paper

VARIANTS: tuple[tuple[str, str | None, dict[str, Any]], ...] = (
    ("aequitas", "full", {"global_iterations": 0}),  # one draw for each seed
    ("adf", "seed", {}),
    ("adf", "seed", {"gradients": "probabilities"}),
    ("adf", "walk", {"gradients": "probabilities"}),
    ("eidig", "5", {}),
    ("eidig", "5", {"gradients": "probabilities"}),
    ("neuronfair", "paper", {}),
    ("neuronfair", "walk", {}),
    ("neuronfair", "revert", {}),
    ("random", None, {}),
    ("probe", None, {}),
)


def with_spread(values: list[float], digits: int = 0) -> str:
    repeats = Repeats(tuple(values))
    return f"{repeats.mean:,.{digits}f}" + (
        f" ± {repeats.sd:,.{digits}f}" if repeats.sd is not None else ""
    )


def main(repeats: int) -> None:
    data = fp.datasets.adult().bare()
    model = network(closed_form=True)
    print(
        "| attribute | method | global IDIs | IDIs | GSR % | spread | CPU s for 1,000 | paper: IDIs"
        " | paper: GSR % |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for sensitive in ATTRIBUTES:
        domain = data.domain.with_sensitive(sensitive)
        with one_thread():
            bias = fp.neuron_bias(domain, model, data.x)
        for name, variant, settings in VARIANTS:
            method = method_named(name, variant, bias=bias, **settings)
            budget = Budget(global_iterations=None if name == "aequitas" else 40)
            measured = []
            for repeat in range(repeats):
                seeds = choose_seeds(domain, data.x, 1000, rng=np.random.default_rng([repeat, 0]))
                found = search(
                    domain, model, method, seeds, budget, rng=np.random.default_rng([repeat, 1])
                )
                how = found.generation
                reach = spread(found) or 0.0
                measured.append(
                    (
                        found.count("global"),
                        len(found),
                        100 * len(found) / how.tried,
                        reach,
                        1000 * how.cpu_seconds / max(len(found), 1),
                    )
                )
            columns = [list(column) for column in zip(*measured, strict=True)]
            cells = [
                with_spread(values, digits)
                for values, digits in zip(columns, (0, 0, 1, 2, 4), strict=True)
            ]
            printed = [
                paper.figure("table4", "adult", sensitive, name, measure)
                for measure in ("idis", "gsr")
            ]
            beside = [
                f"{printed[0]:,.0f}" if printed[0] else "–",
                f"{100 * printed[1]:.1f}" if printed[1] else "–",
            ]
            choices = ", ".join(filter(None, (variant, settings.get("gradients"))))
            print(
                f"| {sensitive} | {name}{f' ({choices})' if choices else ''} |"
                f" {' | '.join([*cells, *beside])} |",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    main(parser.parse_args().repeats)
