"""Measures the repair of the BiLSTM of `benchmarks/text.py` on labeled tweets: orientation, the
texts held out, four seeds.

    FAIRPROBE_ASSETS=… python -m benchmarks.text_repair [counterfactual] [augmentation]
"""

from __future__ import annotations

import csv
import gzip
import sys
from time import process_time

import torch

from benchmarks.text import DATA, said, toxic
from fairprobe.text.lessons import TextRepair
from fairprobe.text.lexicon import open_lexicon
from fairprobe.text.proof import prove_text
from fairprobe.text.texts import Text


def main() -> None:
    torch.set_num_threads(1)
    with gzip.open(DATA / "davidson_tweets.csv.gz", "rt", encoding="utf-8") as file:
        texts = [
            Text(row["tweet"], number, label="fine" if row["class"] == "2" else "toxic")
            for number, row in enumerate(csv.DictReader(file))
        ]
    for name in sys.argv[1:] or ("counterfactual", "augmentation"):
        start = process_time()
        how = TextRepair(name=name, epochs=4)
        proof = prove_text(toxic(), texts, open_lexicon("orientation"), how, max_seeds=4)
        states = {"before": proof.before, "control": proof.control, "repaired": proof.after}
        for what, state in states.items():
            accuracy = 100 * state.accuracy.estimate
            print(f"{name}, {what}: accuracy {accuracy:.1f} %; {said(state.flips)}", flush=True)
        print(proof.decision.outcome, *proof.decision.reasons, *proof.decision.doubts)
        for each in proof.decision.comparisons:
            print(f"{each.what}: {each.control} {each.repaired} [{each.low:.4f}, {each.high:.4f}]")
        print(f"{process_time() - start:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
