"""The words that may take each other's place in a search: neighbors in a network's own embedding
space, and which words stood beside each other in the texts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fairprobe.errors import ModelError
from fairprobe.language.lexicon import Lexicon
from fairprobe.models.text import TextNetwork

TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
NEIGHBORS = 40  # words that may take a word's place
WORDS = 8000  # words of the vocabulary, the most frequent


class Vocabulary:
    """The words of the texts, their neighbors in the network's embedding space, and which words
    stood beside each other.
    """

    def __init__(self, network: TextNetwork, texts: Sequence[str], lexicon: Lexicon) -> None:
        counts: dict[str, int] = {}
        self.bigrams: set[tuple[str, str]] = set()
        for text in texts:
            words = [match[0].lower() for match in TOKEN.finditer(text)]
            for word in words:
                counts[word] = counts.get(word, 0) + 1
            self.bigrams.update(zip(["", *words], [*words, ""], strict=True))
        barred = {
            part.lower()
            for _, _, term in lexicon.terms()
            for form in (term.word, term.plural or "")
            for part in TOKEN.findall(form)
        }
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        self.words = [word for word in ordered if word not in barred and len(word) > 1][:WORDS]
        self._place = {word: place for place, word in enumerate(self.words)}
        vectors = word_vectors(network, self.words)
        known = vectors.norm(dim=1) > 0
        self._unit = torch.where(known[:, None], vectors, torch.zeros_like(vectors))
        self._unit = self._unit / self._unit.norm(dim=1, keepdim=True).clamp_min(1e-9)
        self._near: dict[str, list[str]] = {}

    def neighbors(self, word: str) -> list[str]:
        """The nearest words by cosine; none of a word that is not known."""
        key = word.lower()
        if key not in self._near:
            place = self._place.get(key)
            if place is None or not bool(self._unit[place].any()):
                self._near[key] = []
            else:
                scores = self._unit @ self._unit[place]
                scores[place] = -2
                best = torch.topk(scores, min(NEIGHBORS, len(scores))).indices.tolist()
                self._near[key] = [self.words[each] for each in best if scores[each] > 0]
        return self._near[key]

    def is_seen(self, before: str, word: str, after: str) -> bool:
        """Whether the word stood after the one before it and before the one after it."""
        return (before.lower(), word) in self.bigrams and (word, after.lower()) in self.bigrams


def embedding_of(module: nn.Module) -> nn.Embedding:
    """The embedding of the tokens: the largest of the network."""
    found = [each for each in module.modules() if isinstance(each, nn.Embedding)]
    if not found:
        raise ModelError("The network has no embedding of tokens, so words have no neighbors.")
    return max(found, key=lambda each: each.num_embeddings)


def tokens_of(network: TextNetwork, texts: Sequence[str]) -> Tensor:
    """(n, tokens) the numbers of the tokens."""
    given = network.encode(texts)
    return given if isinstance(given, Tensor) else given["input_ids"]


def word_vectors(network: TextNetwork, words: Sequence[str]) -> Tensor:
    """The mean embedding of the tokens that only this word has: what every text shares, such as
    padding, is left out. Words of the same token (unknown ones) have none.
    """
    embedding = embedding_of(network.module)
    with torch.no_grad():
        shared = set(tokens_of(network, ["", " "]).flatten().tolist())
        vectors: list[tuple[int, ...]] = []
        seen: dict[tuple[int, ...], int] = {}
        for start in range(0, len(words), 512):
            ids = tokens_of(network, list(words[start : start + 512]))
            for row in ids.tolist():
                own = tuple(token for token in row if token not in shared)
                seen[own] = seen.get(own, 0) + 1
                vectors.append(own)
        return torch.stack(
            [
                embedding.weight[list(own)].mean(dim=0)
                if own and seen[own] == 1
                else torch.zeros(embedding.embedding_dim)
                for own in vectors
            ]
        )
