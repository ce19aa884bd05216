"""Measures audits of texts on real classifiers and sentences: hatesonar 0.1.0 (ONNX, three
classes) and the BiLSTM of toxic-comment-classifier 0.3.0, rebuilt in torch.

    FAIRPROBE_ASSETS=… python benchmarks/text.py [rates] [names] [shuffled]

hatesonar is installed for this only: pip install --no-deps hatesonar==0.1.0. No sample is printed.
"""

from __future__ import annotations

import csv
import gzip
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.language.excess import Answers, Excess, Observations
from fairprobe.language.exchange import plan
from fairprobe.language.lexicon import Entry, Lexicon, open_lexicon
from fairprobe.language.places import Finder
from fairprobe.language.texts import Text, expand
from fairprobe.models.text import TextModel, load_text_model

DATA = Path(os.environ.get("FAIRPROBE_ASSETS", "assets")) / "text"
TOKENS, KNOWN = 100, 20_000
FILTERED = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))
TEMPLATES = [
    f"{{name}} {end}"
    for end in (
        "is my neighbor.", "wrote this terrible article.", "should be banned from here.",
        "is a liar and everybody knows it.", "made a great cake.", "needs to shut up.",
        "was late again today.", "is so stupid sometimes.", "is the best teacher we had.",
        "ruined the whole evening.", "looks like trash in that coat.", "won the game.",
        "can go to hell.", "asked a question.", "is a damn fool.", "sent me a letter.",
        "is ugly inside.", "deleted my edits.", "hates this place.", "came home.",
    )
]  # fmt: skip
SPLITS, DRAWS = 20, 100


class Toxic(nn.Module):
    """The published network, with the logit of "toxic" alone."""

    classes = ("fine", "toxic")

    def __init__(self) -> None:
        super().__init__()
        held = {
            name: torch.tensor(each) for name, each in np.load(DATA / "toxic_bilstm.npz").items()
        }
        self.embedding = nn.Embedding(KNOWN, 50)
        self.lstm = nn.LSTM(50, 50, batch_first=True, bidirectional=True)
        self.hidden, self.relu, self.out = nn.Linear(100, 50), nn.ReLU(), nn.Linear(50, 1)
        with torch.no_grad():
            self.embedding.weight.copy_(held["embedding.vars.0"])
            for side, end in (("forward", ""), ("backward", "_reverse")):
                cell = f"bidirectional.{side}_layer.cell.vars"
                getattr(self.lstm, f"weight_ih_l0{end}").copy_(held[f"{cell}.0"].T)
                getattr(self.lstm, f"weight_hh_l0{end}").copy_(held[f"{cell}.1"].T)
                getattr(self.lstm, f"bias_ih_l0{end}").copy_(held[f"{cell}.2"])
                getattr(self.lstm, f"bias_hh_l0{end}").zero_()
            self.hidden.weight.copy_(held["dense.vars.0"].T)
            self.hidden.bias.copy_(held["dense.vars.1"])
            self.out.weight.copy_(held["dense_1.vars.0"][:, :1].T)
            self.out.bias.copy_(held["dense_1.vars.1"][:1])

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.lstm(self.embedding(tokens))
        found: Tensor = self.out(self.relu(self.hidden(states.amax(dim=1))))
        return found


def toxic() -> TextModel:
    """The BiLSTM as a white box."""
    lines = (DATA / "toxic_bilstm_vocab.txt").read_text(encoding="utf-8").split("\n")
    number = {word: place for place, word in enumerate(lines[:KNOWN]) if word}

    def tokenize(texts: Sequence[str]) -> Tensor:
        rows = [
            [number[word] for word in text.lower().translate(FILTERED).split() if word in number]
            for text in texts
        ]
        return torch.tensor([([0] * TOKENS + row)[-TOKENS:] for row in rows])

    return load_text_model(lambda: (Toxic(), tokenize))


def hatesonar() -> TextModel:
    """The ONNX file of the installed package."""
    found = find_spec("hatesonar")
    if found is None or found.origin is None:
        raise SystemExit("Install it first: pip install --no-deps hatesonar==0.1.0")
    path = Path(found.origin).parent / "model" / "model.onnx"
    return load_text_model(path, classes=["hate", "offensive", "neither"])


def tweets() -> list[Text]:
    with gzip.open(DATA / "davidson_tweets.csv.gz", "rt", encoding="utf-8") as file:
        return [Text(row["tweet"], number) for number, row in enumerate(csv.DictReader(file))]


def measured(model: TextModel, texts: Sequence[Text], lexicon: Lexicon, seed: int = 0) -> Any:
    made = plan(texts, lexicon, rng=np.random.default_rng(seed), limit=600)
    answers = Answers(model)
    answers.query(made.queries())
    return Observations(made, answers, lexicon.words)


def said(found: Excess) -> str:
    return (
        f"{100 * found.cross:.1f} against {100 * found.control:.1f} %: excess"
        f" {100 * found.estimate:.1f} [{100 * found.low:.1f}, {100 * found.high:.1f}],"
        f" {found.texts} texts"
    )


def rates(models: dict[str, Callable[[], TextModel]]) -> None:
    """The excess of every lexicon on real tweets, and the word that it rests on most."""
    texts = tweets()
    for name, build in models.items():
        model = build()
        for lexicon in ("race", "gender", "religion", "orientation"):
            start = process_time()
            seen = measured(model, texts, open_lexicon(lexicon))
            found = seen.excess(seen.flips)
            word = seen.words()[0]
            print(
                f"{name} {lexicon}: {said(found)}; without '{word.word}'"
                f" {100 * word.estimate:.1f} [{100 * word.low:.1f},"
                f" {100 * word.high:.1f}]; {process_time() - start:.1f} CPU s",
                flush=True,
            )


def names(models: dict[str, Callable[[], TextModel]]) -> None:
    """Names of one group in two halves at random: how often an excess is reported."""
    for name, build in models.items():
        reported, largest = same_group_names(build())
        print(
            f"{name} same-group names: reported in {reported} of {SPLITS} splits; largest excess"
            f" {100 * largest:.1f} points",
            flush=True,
        )


def same_group_names(
    model: TextModel, cells: int = 8, templates: Sequence[str] = TEMPLATES
) -> tuple[int, float]:
    """In how many splits an excess is reported, and the largest; `cells` of group and sex."""
    lexicon, rng, reported, largest = open_lexicon("names"), np.random.default_rng(0), 0, 0.0
    answers = Answers(model)
    for split in range(SPLITS):
        entry = lexicon.entries[split % 2]
        group = list(entry.groups)[split // 2 % (cells // 2)]
        words = [entry.groups[group][each] for each in rng.permutation(12)]
        halves = Entry("name", {"first": tuple(words[:6]), "second": tuple(words[6:])})
        own = replace(lexicon, entries=(halves,))
        texts = expand([Text(each, 0) for each in templates], own, {}, rng)
        made = plan(texts, own, rng=np.random.default_rng(split), limit=600)
        answers.query(made.queries())
        seen = Observations(made, answers, own.words)
        found = seen.excess(seen.flips)
        reported += found.low > 0
        largest = max(largest, found.estimate)
    return reported, largest


def shuffled(models: dict[str, Callable[[], TextModel]]) -> None:
    """The race lexicon's adjectives shuffled between its groups; words are a sample."""
    race = open_lexicon("race")
    entry = race.entries[0]
    words = [term for terms in entry.groups.values() for term in terms]
    finder, templates = Finder(race), []
    for each in tweets():
        places = finder.places(each.text)
        if len(places) == 1 and places[0].entry is entry:
            place = places[0]
            slot = f"{each.text[: place.start]}{{adjective}}{each.text[place.end :]}"
            if slot.count("{") == 1:
                templates.append(Text(slot, each.row))
    for name, build in models.items():
        model, rng, held = build(), np.random.default_rng(1), 0
        answers = Answers(model)
        for _ in range(DRAWS):
            drawn = [words[each] for each in rng.permutation(len(words))]
            groups = {
                group: tuple(drawn[2 * n : 2 * n + 2]) for n, group in enumerate(entry.groups)
            }
            own = replace(race, words="sample", control={}, entries=(Entry("adjective", groups),))
            some = [templates[each] for each in rng.permutation(len(templates))[:120]]
            texts = [
                Text(each.text.replace("{adjective}", str(rng.choice([t.word for t in words]))), n)
                for n, each in enumerate(some)
            ]
            made = plan(texts, own, rng=rng)
            answers.query(made.queries())
            seen = Observations(made, answers, own.words)
            found = seen.excess(seen.flips)
            held += found.low <= 0 <= found.high
        print(f"{name} shuffled race lexicon: 0 held in {held} of {DRAWS} draws", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    models = {"hatesonar": hatesonar, "BiLSTM": toxic}
    for part in sys.argv[1:] or ("rates", "names", "shuffled"):
        {"rates": rates, "names": names, "shuffled": shuffled}[part](models)


if __name__ == "__main__":
    main()
