"""Measures the search among context words: margin look-ahead beside random exchange and biased
neurons, with and without the filter of seen bigrams.

    FAIRPROBE_ASSETS=… python -m benchmarks.text_search [own] [bilstm] [neurons] [--seeds 60]
    [--repeats 5]

`own` is a convolutional network that is trained here on the tweets; settings were chosen on it.
`bilstm` is the published network of `benchmarks/text.py`, measured with them. No sample is printed.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Sequence
from itertools import product
from time import process_time

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.text import DATA, toxic, tweets
from fairprobe.language.exchange import plan
from fairprobe.language.inside import TextInterpretation, look_inside
from fairprobe.language.lexicon import Lexicon, open_lexicon
from fairprobe.language.search import Found, Guide, Searcher
from fairprobe.language.texts import Text
from fairprobe.language.vocabulary import TOKEN, Vocabulary
from fairprobe.models.text import TextModel, load_text_model

SEEDS, TOKENS, KNOWN, LONGEST = 60, 40, 8000, 200
GUIDES: tuple[Guide, ...] = ("margin", "random")
BUDGETS = (25, 50, 100, 200)  # calls of a seed


class Convolution(nn.Module):
    """Word vectors, a convolution over three words, the largest of each channel."""

    classes = ("fine", "toxic")

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(KNOWN, 32, padding_idx=0)
        self.convolution, self.relu = nn.Conv1d(32, 64, 3, padding=1), nn.ReLU()
        self.out = nn.Linear(64, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.relu(self.convolution(self.embedding(tokens).transpose(1, 2)))
        found: Tensor = self.out(x.amax(dim=2))
        return found


def own(seed: int = 0) -> TextModel:
    """A network of our own, trained on every other tweet."""
    with gzip.open(DATA / "davidson_tweets.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[::2]
    words: dict[str, int] = {}
    for row in rows:
        for word in TOKEN.findall(row["tweet"].lower()):
            words[word] = words.get(word, 0) + 1
    ordered = sorted(words, key=lambda word: (-words[word], word))[: KNOWN - 2]
    number = {word: place for place, word in enumerate(ordered, start=2)}

    def tokenize(texts: Sequence[str]) -> Tensor:
        every = [[number.get(word, 1) for word in TOKEN.findall(text.lower())] for text in texts]
        return torch.tensor([(each + [0] * TOKENS)[:TOKENS] for each in every])

    module = Convolution(seed)
    x = tokenize([row["tweet"] for row in rows])
    y = torch.tensor([int(row["class"] != "2") for row in rows])
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-3)
    for _ in range(3):
        for batch in torch.split(torch.randperm(len(y)), 128):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(module(x[batch]), y[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return load_text_model(lambda: (module, tokenize))


def prepared(
    model: TextModel, lexicon: Lexicon, seeds: int
) -> tuple[TextInterpretation, Vocabulary, list[Text]]:
    """What all searches share: the interpretation, the vocabulary and the seeds."""
    assert model.network is not None
    texts = tweets()
    made = plan(texts, lexicon, rng=np.random.default_rng(0), limit=600)
    cross, control = (
        [(e.first.text, e.second.text) for e in made.exchanges if e.is_control is side]
        for side in (False, True)
    )
    inside = look_inside(model.network, cross[:200], control[:200])
    some = [each for each in made.texts if len(each.text) <= LONGEST][:seeds]
    return inside, Vocabulary(model.network, [each.text for each in texts], lexicon), some


def compare(name: str, model: TextModel, seeds: int, guides: Sequence[Guide], repeats: int) -> None:
    """All guides with and without the filter, from the same seeds with as many calls. Each repeat
    has other random numbers.
    """
    lexicon = open_lexicon("orientation")
    inside, vocabulary, some = prepared(model, lexicon, seeds)
    for filtered, repeat in product((True, False), range(1, repeats + 1)):
        for guide in guides:
            start = process_time()
            result, findings = Searcher(
                model,
                lexicon,
                vocabulary,
                guide=guide,
                filtered=filtered,
                seed=repeat,
                layer=inside.guiding_layer,
            ).run(some)
            print(
                f"{name}, {guide}, repeat {repeat}, {'seen bigrams' if filtered else 'no filter'}:"
                f" {result.findings} findings in {result.calls} calls, {result.per_1000:.1f} for"
                f" 1,000; seeds hit {result.seeds_hit} of {result.seeds}, within"
                f" {BUDGETS} calls {[hit_within(calls, findings) for calls in BUDGETS]}; at the"
                f" seed {sum(each.at_seed for each in findings)}; refuted {result.refuted};"
                f" {process_time() - start:.1f} CPU s",
                flush=True,
            )


def hit_within(calls: int, findings: Sequence[Found]) -> int:
    """The seeds with a finding after so many of their calls."""
    return len({finding.seed for finding in findings if finding.calls <= calls})


def main() -> None:
    torch.set_num_threads(1)
    words = sys.argv[1:]
    seeds = int(words[words.index("--seeds") + 1]) if "--seeds" in words else SEEDS
    repeats = int(words[words.index("--repeats") + 1]) if "--repeats" in words else 1
    guides: tuple[Guide, ...] = (*GUIDES, "neurons") if "neurons" in words else GUIDES
    for name, build in (("own", own), ("bilstm", toxic)):
        if name in words or not set(words) & {"own", "bilstm"}:
            compare(name, build(), seeds, guides, repeats)


if __name__ == "__main__":
    main()
