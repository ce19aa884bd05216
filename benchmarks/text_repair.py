"""Measures the repair of the BiLSTM of `benchmarks/text.py`: orientation, the texts held out, four
seeds.

    FAIRPROBE_ASSETS=… python -m benchmarks.text_repair [templates|inserted] [counterfactual] …

Labeled tweets hold few words of the lexicon. Beside them are learned and judged, with `templates`,
the labeled sentences of the study of unintended bias (1,514 templates with five words of the
lexicon each); with `inserted`, tweets about a man, girls, people … that are given an adjective of
the lexicon at random before the noun. A template is either learned or held out.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
from dataclasses import replace
from time import process_time

import numpy as np
import torch

from benchmarks.text import DATA, said, toxic
from fairprobe.text.lessons import KINDS, TextRepair
from fairprobe.text.lexicon import open_lexicon
from fairprobe.text.places import Finder
from fairprobe.text.proof import prove_text
from fairprobe.text.texts import Text

PEOPLE = re.compile(
    r"\b(?:man|men|wom[ae]n|guys?|girls?|boys?|people|person|kids?|friends?)\b", re.I
)
WORDS = ("gay", "homosexual", "lesbian", "bisexual", "heterosexual")


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def inserted(texts: list[Text]) -> list[Text]:
    """Tweets about people with an adjective of the lexicon before the noun, at random."""
    rng, found = np.random.default_rng(0), []
    for each in texts:
        if (match := PEOPLE.search(each.text)) is not None:
            word = WORDS[int(rng.integers(len(WORDS)))]
            text = f"{each.text[: match.start()]}{word} {each.text[match.start() :]}"
            found.append(replace(each, text=text))
    return found


def labeled(*, templates: bool) -> list[Text]:
    """The tweets, and with `templates` the sentences that hold a word of the lexicon."""
    texts = [
        Text(row["tweet"], number, label="fine" if row["class"] == "2" else "toxic")
        for number, row in enumerate(_rows("davidson_tweets.csv.gz"))
    ]
    if templates:
        finder = Finder(open_lexicon("orientation"))
        texts += [
            Text(row["phrase"], number, label="toxic" if row["toxicity"] == "toxic" else "fine")
            for number, row in enumerate(_rows("identity_templates_en.csv.gz"), start=len(texts))
            if finder.places(row["phrase"])
        ]
    return texts


def main() -> None:
    torch.set_num_threads(1)
    words = sys.argv[1:]
    texts = labeled(templates="templates" in words)
    if "inserted" in words:
        texts += inserted(texts)
    epochs = 1 if {"templates", "inserted"} & set(words) else 4  # many more texts hold a word
    for name in [each for each in KINDS if each in words] or KINDS:
        start = process_time()
        how = TextRepair(name=name, epochs=epochs)
        proof = prove_text(toxic(), texts, open_lexicon("orientation"), how, max_seeds=4)
        states = {"before": proof.before, "control": proof.control, "repaired": proof.after}
        for what, state in states.items():
            accuracy = 100 * state.accuracy.estimate
            print(f"{name}, {what}: accuracy {accuracy:.1f} %; {said(state.flips)}", flush=True)
        print(f"{proof.learned} texts learned, {proof.held_out} held out", flush=True)
        print(proof.decision.outcome, *proof.decision.reasons, *proof.decision.doubts)
        for each in proof.decision.comparisons:
            print(f"{each.what}: {each.control} {each.repaired} [{each.low:.4f}, {each.high:.4f}]")
        print(f"{process_time() - start:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()
