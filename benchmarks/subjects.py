"""Audits of networks trained here on the subjects of the NeuronFair paper, as a Markdown table.

    python -m benchmarks.subjects

The paper's columns are its Table 4, measured on networks of its own, not all of which are public:
the same data, but not the same experiment. MEPS is left out until it was fetched.
"""

from __future__ import annotations

import fairprobe as fp
from fairprobe.audits import train

# data set, sensitive attribute, the paper's number of IDIs, its GSR in percent
SUBJECTS = [
    ("adult", "gender", 122_370, 28.19),
    ("adult", "race", 172_995, 34.19),
    ("adult", "age", 358_201, 49.39),
    ("german", "gender", 68_218, 36.57),
    ("german", "age", 255_971, 63.35),
    ("bank", "age", 302_821, 47.76),
    ("compas", "race", 11_232, 1.62),
    ("meps", "gender", 130_898, 27.91),
]
HEADS = (
    "data, attribute | network | accuracy | AUC | DM-RS (95 % interval) | people affected | IDIs |"
    " GSR | spread | paper: IDIs | paper: GSR"
)


def main(seed: int = 0) -> None:
    fetched = {entry.name for entry in fp.datasets.catalogue() if entry.available}
    print(f"| {HEADS} |")
    print("|" + "---|" * (HEADS.count("|") + 1))
    for name, sensitive, paper_idis, paper_gsr in SUBJECTS:
        if name not in fetched:
            print(f"| {name}, {sensitive}: not fetched |")
            continue
        data = fp.datasets.load(name)
        body = fp.audit(data, train(data, seed=seed), sensitive, seed=seed).to_dict()
        common, found = body["dm_rs"], body["generation"]
        cells = (
            f"{name}, {sensitive}",
            body["model"]["network"],
            f"{body['model']['accuracy']:.1%}",
            f"{body['interpretation']['auc']:.3f}",
            f"{common['estimate']:.1%} ({common['low']:.1%}–{common['high']:.1%})",
            f"{body['people']['estimate']:.1%}",
            f"{found['idis']:,}",
            f"{found['gsr']:.1%}",
            "–" if found["spread"] is None else f"{found['spread']:.2f}",
            f"{paper_idis:,}",
            f"{paper_gsr:.1f}%",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
