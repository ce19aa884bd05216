"""Audits of networks trained here on the subjects of the NeuronFair paper, as a Markdown table.

    python -m benchmarks.subjects

The paper's columns are its Table 4, measured on networks of its own, not all of which are public:
the same data, but not the same experiment. MEPS is left out until it is fetched.
"""

from __future__ import annotations

import fairprobe as fp
from fairprobe.measures import required
from fairprobe.table.subject import train
from papers import paper
from papers.data import available, load
from papers.neuronfair import SUBJECTS

HEADS = (
    "data, attribute | network | accuracy | AUC | DM-RS (95 % interval) | people affected | IDIs |"
    " GSR | spread | paper: IDIs | paper: GSR"
)


def main(seed: int = 0) -> None:
    fetched = available()
    print(f"| {HEADS} |")
    print("|" + "---|" * (HEADS.count("|") + 1))
    for subject in SUBJECTS:
        name, sensitive = subject.dataset, subject.sensitive
        if name not in fetched:
            print(f"| {name}, {sensitive}: not fetched |")
            continue
        data = load(name).bare()  # the paper's counterparts
        model = train(data, seed=seed)
        document = fp.audit(data, model, sensitive, people="possible", seed=seed).document
        assert document.interpretation is not None
        common, found = document.dm_rs, document.generation
        idis, gsr = (
            paper.figure("table4", name, sensitive, "neuronfair", measure) or 0
            for measure in ("idis", "gsr")
        )
        cells = (
            f"{name}, {sensitive}",
            document.model.network,
            f"{required(document.fairness).quality.accuracy.estimate:.1%}",
            f"{document.interpretation.auc:.3f}",
            f"{common.estimate:.1%} ({common.low:.1%}–{common.high:.1%})",
            f"{document.people.estimate:.1%}",
            f"{found.idis:,}",
            f"{found.gsr:.1%}",
            "–" if found.spread is None else f"{found.spread:.2f}",
            f"{idis:,.0f}",
            f"{100 * gsr:.1f}%",
        )
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
