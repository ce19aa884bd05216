"""The words that may replace each other in a search: neighbors in a network's own embedding space,
and which words were next to each other in the texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from fairprobe.errors import ModelError
from fairprobe.language.lexicon import Lexicon
from fairprobe.models.text import TextNetwork

TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
NEIGHBORS = 40  # words that may replace a word
MAX_WORDS = 8000  # of the vocabulary, the most frequent ones
BATCH = 512


class Vocabulary:
    """The words of the texts without those of the lexicon, and their neighbors."""

    def __init__(self, network: TextNetwork, texts: Sequence[str], lexicon: Lexicon) -> None:
        counts: Counter[str] = Counter()
        self.bigrams: set[tuple[str, str]] = set()
        for text in texts:
            words = [match[0].lower() for match in TOKEN.finditer(text)]
            counts.update(words)
            self.bigrams.update(pairwise(["", *words, ""]))
        barred = {
            part.lower()
            for _, _, term in lexicon.terms()
            for form in (term.word, term.plural or "")
            for part in TOKEN.findall(form)
        }
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        self.words = [word for word in ordered if word not in barred and len(word) > 1][:MAX_WORDS]
        self._index = {word: index for index, word in enumerate(self.words)}
        vectors = word_vectors(network, self.words)
        self._unit = vectors / vectors.norm(dim=1, keepdim=True).clamp_min(1e-9)
        self._near: dict[str, list[str]] = {}

    def neighbors(self, word: str) -> list[str]:
        """Return the nearest words by cosine; none of an unknown word."""
        key = word.lower()
        if key not in self._near:
            index = self._index.get(key)
            if index is None or not bool(self._unit[index].any()):
                self._near[key] = []
            else:
                scores = self._unit @ self._unit[index]
                scores[index] = -2
                best = torch.topk(scores, min(NEIGHBORS, len(scores))).indices.tolist()
                self._near[key] = [self.words[near] for near in best if scores[near] > 0]
        return self._near[key]

    def is_seen(self, before: str, word: str, after: str) -> bool:
        """Return whether the texts contain the word after `before` and before `after`."""
        return (before.lower(), word) in self.bigrams and (word, after.lower()) in self.bigrams


def embedding_of(module: nn.Module) -> nn.Embedding:
    """Return the embedding of the tokens: the largest of the network."""
    embeddings = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    if not embeddings:
        raise ModelError("The network has no embedding of tokens, so words have no neighbors.")
    return max(embeddings, key=lambda embedding: embedding.num_embeddings)


def tokens_of(network: TextNetwork, texts: Sequence[str]) -> Tensor:
    """Return (n, tokens) the numbers of the tokens."""
    encoded = network.encode(texts)
    return encoded if isinstance(encoded, Tensor) else encoded["input_ids"]


def word_vectors(network: TextNetwork, words: Sequence[str]) -> Tensor:
    """Return the mean embedding of each word's own tokens: those that every text shares, such as
    padding, are left out. Words of the same tokens (unknown ones) have the vector 0.
    """
    weight = embedding_of(network.module).weight
    with torch.no_grad():
        shared = set(tokens_of(network, ["", " "]).flatten().tolist())
        own = [
            tuple(token for token in tokens if token not in shared)
            for start in range(0, len(words), BATCH)
            for tokens in tokens_of(network, list(words[start : start + BATCH])).tolist()
        ]
        counts = Counter(own)
        nothing = torch.zeros(weight.shape[1])
        return torch.stack(
            [
                weight[list(tokens)].mean(dim=0) if tokens and counts[tokens] == 1 else nothing
                for tokens in own
            ]
        )
