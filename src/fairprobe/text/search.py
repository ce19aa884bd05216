"""A search for texts whose answer depends on the group: context words are exchanged for neighbors
in the network's own embedding space, until the answers to a text and its counterparts differ.

A text with all its counterparts has one margin (log-odds of its most probable class against the
next) for each side. `low` and `high` are the lowest and the highest; the answers differ where
low < 0 < high. The distance to that is max(low, −high). All methods share the loop and the
counting: each step draws candidates, one for each place and neighbor; the method ranks them; the
best few are asked, each side is a call; a finding is recorded once. They differ in the ranking:

    margin    the distance that the gradient at the embeddings predicts (look-ahead); it goes on
              from the nearest of those that were asked
    neurons   the predicted change of the biased neurons (NeuronFair's guidance)
    random    none: an exchange at random, and on from there

With `bigrams`, a word may only stand beside words that stood beside it in the texts.
Every finding is a text, never a vector, and is judged again by the model itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import ModelError
from fairprobe.models.formats.text_network import network_logits
from fairprobe.models.text import TextModel, TextNetwork
from fairprobe.text.exchange import swapped
from fairprobe.text.inside import Recorder
from fairprobe.text.lexicon import Lexicon
from fairprobe.text.places import Finder
from fairprobe.text.texts import Text

Guide: TypeAlias = Literal["margin", "neurons", "random"]
TITLES: dict[Guide, str] = {
    "margin": "Margin look-ahead",
    "neurons": "Biased neurons",
    "random": "Random exchange",
}
TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
NEIGHBORS = 40  # words that may take a word's place
CANDIDATES = 200  # exchanges that are ranked in a step
ASKED = 4  # of them that the model is asked about
STEPS = 10
WORDS = 8000  # words of the vocabulary, the most frequent
SIDES = 4  # counterparts of a text, beside itself


@dataclass(frozen=True)
class Found:
    """A finding: the seed's number, and the text in all its versions with their groups."""

    seed: int
    texts: tuple[str, ...]
    groups: tuple[str, ...]
    at_seed: bool


@dataclass
class SearchResult:
    """What a search found: calls of the model, and how many findings it refuted afterwards."""

    guide: Guide
    filtered: bool
    seeds: int
    calls: int = 0
    found: list[Found] = field(default_factory=list)
    refuted: int = 0
    stopped: str = "complete"

    @property
    def seeds_hit(self) -> int:
        return len({each.seed for each in self.found})

    @property
    def per_1000(self) -> float:
        return 1000 * len(self.found) / self.calls if self.calls else 0.0


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


class Searcher:
    """The loop, for one guide. The model is asked in batches; every text it is asked is a call."""

    def __init__(
        self,
        model: TextModel,
        lexicon: Lexicon,
        vocabulary: Vocabulary,
        *,
        guide: Guide,
        filtered: bool,
        rng: np.random.Generator,
        neurons: tuple[str, Ints] | None = None,
    ) -> None:
        if model.network is None:
            raise ModelError("The search needs a network that it can look into.")
        self.model, self.network, self.lexicon = model, model.network, lexicon
        self._vocabulary, self._finder = vocabulary, Finder(lexicon)
        self._rng, self._neurons = rng, neurons
        self.guide, self.filtered = guide, filtered
        self._seen: set[str] = set()

    def run(
        self,
        seeds: Sequence[Text],
        *,
        steps: int = STEPS,
        progress: Callable[[int, int], None] | None = None,
    ) -> SearchResult:
        """Search from every seed for as many steps; a seed that was hit goes on from there."""
        result = SearchResult(self.guide, self.filtered, len(seeds))
        try:
            for number, seed in enumerate(seeds):
                self._walk(number, seed.text, steps, result)
                if progress is not None:
                    progress(number + 1, len(seeds))
        except KeyboardInterrupt:
            result.stopped = "interrupted"
        self._confirm(result)
        return result

    # -- one seed ----------------------------------------------------------------------------------

    def _walk(self, number: int, text: str, steps: int, result: SearchResult) -> None:
        sides = self._sides(text)
        if len(sides) < 2:
            return
        logits = self._logits([each for each, _ in sides], result)
        if _distance(margins_of(logits)) < 0:
            self._record(number, sides, result, at_seed=True)
        for _ in range(steps):
            candidates = self._candidates(text)
            if not candidates:
                return
            ranked = self._ranked(sides, candidates)[:ASKED]
            best: tuple[float, str, list[tuple[str, str]]] | None = None
            every = [self._sides(each) for each in ranked]
            flat = self._logits([side for each in every for side, _ in each], result)
            start = 0
            for each, versions in zip(ranked, every, strict=True):
                mine = flat[start : start + len(versions)]
                start += len(versions)
                distance = _distance(margins_of(mine))
                if distance < 0:
                    self._record(number, versions, result)
                # Only the margin's guide may look at margins; the others go on from their first.
                if best is None or (self.guide == "margin" and distance < best[0]):
                    best = (distance, each, versions)
            assert best is not None
            text, sides = best[1], best[2]

    def _sides(self, text: str) -> list[tuple[str, str]]:
        """The text in the words of each group, with the group."""
        places = self._finder.places(text)
        if not places:
            return []
        source = places[0].group
        found = [(text, source)]
        for target in self.lexicon.groups:
            if target != source and len(found) <= SIDES:
                other = swapped(text, places, source, target)
                if other is not None and other.text != text:
                    found.append((other.text, target))
        return found

    def _candidates(self, text: str) -> list[str]:
        """The text with one context word exchanged, at random places, and new ones only."""
        places = self._finder.places(text)
        words = list(TOKEN.finditer(text))
        free = [
            each
            for each, match in enumerate(words)
            if not any(p.start < match.end() and match.start() < p.end for p in places)
        ]
        found: list[str] = []
        for each in self._rng.permutation(free):
            match = words[each]
            before = words[each - 1][0] if each else ""
            after = words[each + 1][0] if each + 1 < len(words) else ""
            for word in self._vocabulary.neighbors(match[0]):
                if self.filtered and not self._vocabulary.is_seen(before, word, after):
                    continue
                new = word.capitalize() if match[0][0].isupper() else word
                text_of = text[: match.start()] + new + text[match.end() :]
                if text_of not in self._seen:
                    found.append(text_of)
            if len(found) >= CANDIDATES:
                break
        self._rng.shuffle(found)
        return found[:CANDIDATES]

    def _record(
        self,
        seed: int,
        sides: list[tuple[str, str]],
        result: SearchResult,
        *,
        at_seed: bool = False,
    ) -> None:
        if sides[0][0] in self._seen:
            return
        self._seen.update(text for text, _ in sides)  # the same case under another group's words
        texts, groups = zip(*sides, strict=True)
        result.found.append(Found(seed, texts, groups, at_seed))

    # -- asking ------------------------------------------------------------------------------------

    def _logits(self, texts: Sequence[str], result: SearchResult) -> Tensor:
        result.calls += len(texts)
        with torch.no_grad():
            return network_logits(self.network, texts).double().cpu()

    def _confirm(self, result: SearchResult) -> None:
        """Judge every finding again with the model itself, one text at a time as a user would."""
        kept = []
        for each in result.found:
            labels = self.model.probabilities(each.texts).argmax(axis=1)
            if len(set(labels.tolist())) > 1:
                kept.append(each)
        result.refuted = len(result.found) - len(kept)
        result.found = kept

    # -- ranking -----------------------------------------------------------------------------------

    def _ranked(self, sides: list[tuple[str, str]], candidates: list[str]) -> list[str]:
        if self.guide == "random":
            return candidates
        versions = [self._sides(each) for each in candidates]
        usable = [n for n, each in enumerate(versions) if len(each) == len(sides)]
        if not usable:
            return candidates
        scores = (
            self._predicted(sides, [versions[n] for n in usable])
            if self.guide == "margin"
            else self._excited(sides, [versions[n] for n in usable])
        )
        return [candidates[usable[n]] for n in np.argsort(scores, kind="stable")]

    def _predicted(
        self, sides: list[tuple[str, str]], versions: list[list[tuple[str, str]]]
    ) -> Floats:
        """The distance that the gradient of each side's margin predicts for each candidate."""
        margins, gradient, tokens = self._gradient([text for text, _ in sides], margins_of)
        change = self._change(gradient, tokens, versions)
        predicted = margins[None, :] + change
        distances: Floats = np.maximum(predicted.min(axis=1), -predicted.max(axis=1))
        return distances

    def _excited(
        self, sides: list[tuple[str, str]], versions: list[list[tuple[str, str]]]
    ) -> Floats:
        """Minus the predicted growth of the biased neurons' activations, all sides together."""
        assert self._neurons is not None
        name, chosen = self._neurons
        recorder = Recorder(self.network.module)

        def activity(_: Tensor) -> Tensor:
            return recorder.layers[name][:, torch.as_tensor(chosen)].abs().sum(dim=1)

        _, gradient, tokens = self._gradient([text for text, _ in sides], activity, recorder)
        growth: Floats = self._change(gradient, tokens, versions).sum(axis=1)
        return -growth

    def _gradient(
        self,
        texts: list[str],
        value: Callable[[Tensor], Tensor],
        recorder: Recorder | None = None,
    ) -> tuple[Floats, Tensor, Tensor]:
        """The value of each text, its gradient at the embeddings, and the tokens."""
        embedding = embedding_of(self.network.module)
        kept: list[Tensor] = []

        def keep(_: nn.Module, __: Any, output: Tensor) -> Tensor:
            output = output.detach().requires_grad_(True)
            kept.append(output)
            return output

        hook = embedding.register_forward_hook(keep)
        try:
            with torch.enable_grad():
                if recorder is None:
                    logits = network_logits(self.network, texts)
                else:
                    recorder.run(self.network, texts)
                    logits = torch.empty(0)
                found = value(logits)
                (gradient,) = torch.autograd.grad(found.sum(), kept[0])
        finally:
            hook.remove()
        values: Floats = found.detach().double().cpu().numpy()
        return values, gradient, tokens_of(self.network, texts)

    def _change(
        self, gradient: Tensor, tokens: Tensor, versions: list[list[tuple[str, str]]]
    ) -> Floats:
        """(candidates, sides) the first-order change of the value, by the embeddings of the new
        tokens.
        """
        weight = embedding_of(self.network.module).weight
        sides = len(tokens)
        flat = [text for each in versions for text, _ in each]
        with torch.no_grad():
            new = tokens_of(self.network, flat)
            length = min(new.shape[1], tokens.shape[1])
            old = tokens.repeat(len(versions), 1)
            rows, places = torch.nonzero(new[:, :length] != old[:, :length], as_tuple=True)
            difference = weight[new[rows, places]] - weight[old[rows, places]]
            moved = (difference * gradient[rows % sides, places]).sum(dim=1)
            total = torch.zeros(len(flat), dtype=moved.dtype).index_add_(0, rows, moved)
        found: Floats = total.reshape(len(versions), sides).double().cpu().numpy()
        return found


def margins_of(logits: Tensor) -> Tensor:
    """Of two classes the log-odds; of more, the lead of the first text's class over the others. The
    texts are the sides of one.
    """
    if logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    own = logits[0].argmax()
    others = torch.cat([logits[:, :own], logits[:, own + 1 :]], dim=1)
    return logits[:, own] - others.amax(dim=1)


def _distance(margins: Tensor) -> float:
    """How far the lowest and the highest margin are from different answers; below 0 they differ."""
    return float(max(margins.min(), -margins.max()))
