"""A search for texts whose answer depends on the group: context words are exchanged for neighbors
in the network's own embedding space, until the answers to a text and a counterpart differ.

A text with all its counterparts has one margin (log-odds of its most probable class against the
next) for each side. A candidate is a text with one context word exchanged. Two of its sides are
judged, in the words of two groups; with the margins a ≤ b the answers differ where a < 0 < b. The
distance to that is max(a, −b). All methods share the loop, the candidates and the counting: every
text that the network is given is a call, with or without a gradient, and each seed has as many
calls. They differ in which candidates are judged first, in which two sides, and how they go on:

    margin    the two sides with the lowest and the highest margin at the seed; candidates by the
              distance that the gradient at the embeddings predicts (look-ahead). It goes on from
              the first candidate that is nearer than the last text, or from the nearest of `QUEUE`
    neurons   the sides with the least and the most activity of the biased neurons; candidates by
              the predicted growth of that activity (NeuronFair's guidance), and on from the first
    random    the text and a counterpart at random; candidates at random, and on from the first

With `bigrams`, a word may only stand beside words that stood beside it in the texts. With a
`fluency`, a language model's mean log-probability of a text, a candidate may not be less fluent
than its seed by more than `LESS_FLUENT`. Every finding is a text, never a vector, and is judged
again by the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import ModelError
from fairprobe.language.exchange import Side, swapped
from fairprobe.language.inside import Recorder
from fairprobe.language.lexicon import Lexicon
from fairprobe.language.places import Finder
from fairprobe.language.texts import Text
from fairprobe.language.vocabulary import TOKEN, Vocabulary, embedding_of, tokens_of
from fairprobe.models.formats.text_fluency import Fluency
from fairprobe.models.formats.text_network import network_logits
from fairprobe.models.text import TextModel

Guide: TypeAlias = Literal["margin", "neurons", "random"]
TITLES: dict[Guide, str] = {
    "margin": "Margin look-ahead",
    "neurons": "Biased neurons",
    "random": "Random exchange",
}
CANDIDATES = 200  # exchanges that are ranked in a step
ASKED = 4  # candidates that are judged at once
QUEUE = 16  # of a ranking that are judged before another text is taken
CALLS = 200  # of the network for each seed
SIDES = 4  # counterparts of a text, beside itself
LESS_FLUENT = 0.5  # nats for each token


@dataclass(frozen=True)
class Found:
    """A finding: the seed's number, the text in the words of several groups, and after how many
    calls of that seed it was found.
    """

    seed: int
    sides: tuple[Side, ...]
    at_seed: bool
    calls: int

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(side.text for side in self.sides)


@dataclass
class SearchResult:
    """What a search found: calls of the network, and how many findings it refuted afterwards."""

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

    def hit_within(self, calls: int) -> int:
        """The seeds with a finding after so many of their calls."""
        return len({each.seed for each in self.found if each.calls <= calls})

    @property
    def per_1000(self) -> float:
        return 1000 * len(self.found) / self.calls if self.calls else 0.0


@dataclass(frozen=True)
class _Place:
    """Where a walk is: a text, the two sides of it that are judged, and their distance."""

    text: str
    pair: tuple[Side, Side]
    distance: float


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
        fluency: Fluency | None = None,
    ) -> None:
        if model.network is None:
            raise ModelError("The search needs a network that it can look into.")
        self.model, self.network, self.lexicon = model, model.network, lexicon
        self._vocabulary, self._finder = vocabulary, Finder(lexicon)
        self._rng, self._neurons, self._fluency = rng, neurons, fluency
        self.guide, self.filtered = guide, filtered
        self._seen: set[str] = set()

    def run(
        self,
        seeds: Sequence[Text],
        *,
        calls: int = CALLS,
        progress: Callable[[int, int], None] | None = None,
    ) -> SearchResult:
        """Search from every seed with as many calls; a seed that was hit goes on from there."""
        result = SearchResult(self.guide, self.filtered, len(seeds))
        try:
            for number, seed in enumerate(seeds):
                self._walk(number, seed.text, result.calls + calls, result)
                if progress is not None:
                    progress(number + 1, len(seeds))
        except KeyboardInterrupt:
            result.stopped = "interrupted"
        self._confirm(result)
        return result

    # -- one seed ----------------------------------------------------------------------------------

    def _walk(self, number: int, text: str, until: int, result: SearchResult) -> None:
        sides, start = self._sides(text), result.calls
        if len(sides) < 2:
            return
        margins = margins_of(self._logits([side.text for side in sides], result))
        if _distance(margins) < 0:
            self._record(Found(number, tuple(sides), True, result.calls - start), result)
        at = _Place(text, *self._first_pair(sides, margins, result))
        least = None if self._fluency is None else float(self._fluency([text])[0]) - LESS_FLUENT
        tried: set[str] = {text}
        queue: list[_Place] = []
        nearest: _Place | None = None
        while result.calls < until:
            if not queue:
                at, nearest = nearest or at, None
                queue = self._ranked(at, self._candidates(at.text, tried), result)
                queue = self._fluent(queue, least)[:QUEUE]
                if not queue:
                    return
            judged, queue = queue[:ASKED], queue[ASKED:]
            for each in self._judged(judged, result):
                tried.add(each.text)
                if each.distance < 0:
                    self._record(Found(number, each.pair, False, result.calls - start), result)
                # Only the margin's guide may look at margins; the others go on from their first.
                if nearest is None or (self.guide == "margin" and each.distance < nearest.distance):
                    nearest = each
            if self.guide != "margin" or (nearest and nearest.distance < at.distance):
                queue = []

    def _first_pair(
        self, sides: list[Side], margins: Tensor, result: SearchResult
    ) -> tuple[tuple[Side, Side], float]:
        """The two sides that are judged, and their distance."""
        if self.guide == "random":
            chosen = [0, 1 + int(self._rng.integers(len(sides) - 1))]
        else:
            value = margins.numpy()
            if self.guide == "neurons":
                value, _, _ = self._activity([side.text for side in sides], result)
            order = np.argsort(value, kind="stable")
            chosen = [int(order[0]), int(order[-1])]
        return (sides[chosen[0]], sides[chosen[1]]), _distance(margins[chosen])

    def _sides(self, text: str, groups: Sequence[str] = ()) -> list[Side]:
        """The text in the words of each group, or of these; first as it is."""
        places = self._finder.places(text)
        if not places:
            return []
        source = places[0].group
        own = tuple((place.start, place.end) for place in places if place.group == source)
        found = [Side(text, source, places[0].term.word, own)]
        for target in groups or self.lexicon.groups:
            if target != source and len(found) <= SIDES:
                other = swapped(text, places, source, target)
                if other is not None and other.text != text:
                    found.append(other)
        return found

    def _pair(self, text: str, groups: Sequence[str]) -> tuple[Side, Side] | None:
        """The text in the words of two groups; None if it has no such words."""
        if self.guide == "random":
            sides = self._sides(text)
            if len(sides) < 2:
                return None
            return sides[0], sides[1 + int(self._rng.integers(len(sides) - 1))]
        by_group = {side.group: side for side in self._sides(text, groups)}
        first, second = (by_group.get(group) for group in groups)
        return None if first is None or second is None else (first, second)

    def _candidates(self, text: str, tried: set[str]) -> list[str]:
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
                if text_of not in self._seen and text_of not in tried:
                    found.append(text_of)
            if len(found) >= CANDIDATES:
                break
        self._rng.shuffle(found)
        return found[:CANDIDATES]

    def _fluent(self, queue: list[_Place], least: float | None) -> list[_Place]:
        """Those that a language model finds as fluent as the seed, the first ones only."""
        if least is None or self._fluency is None:
            return queue
        some = queue[: 4 * QUEUE]
        fluency = self._fluency([each.text for each in some])
        return [each for each, one in zip(some, fluency, strict=True) if one >= least]

    def _judged(self, places: Sequence[_Place], result: SearchResult) -> list[_Place]:
        logits = self._logits([side.text for each in places for side in each.pair], result)
        return [
            _Place(each.text, each.pair, _distance(margins_of(logits[2 * n : 2 * n + 2])))
            for n, each in enumerate(places)
        ]

    def _record(self, found: Found, result: SearchResult) -> None:
        if found.sides[0].text in self._seen:
            return
        for side in self._sides(found.sides[0].text):  # the same case under another group's words
            self._seen.add(side.text)
        self._seen.update(found.texts)
        result.found.append(found)

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

    def _ranked(self, at: _Place, candidates: list[str], result: SearchResult) -> list[_Place]:
        """The candidates in the order in which they are judged."""
        groups = [side.group for side in at.pair]
        if self.guide == "random":
            candidates = candidates[: 4 * QUEUE]
        found = [
            _Place(text, pair, 0.0) for text in candidates if (pair := self._pair(text, groups))
        ]
        if self.guide == "random" or not found:
            return found
        texts = [side.text for side in at.pair]
        if self.guide == "margin":
            values, gradient, tokens = self._gradient(texts, margins_of, result)
            predicted = values[None, :] + self._change(gradient, tokens, found)
            scores = np.maximum(predicted.min(axis=1), -predicted.max(axis=1))
        else:
            _, gradient, tokens = self._activity(texts, result)
            scores = -self._change(gradient, tokens, found).sum(axis=1)
        return [found[n] for n in np.argsort(scores, kind="stable")]

    def _activity(self, texts: list[str], result: SearchResult) -> tuple[Floats, Tensor, Tensor]:
        """The activity of the biased neurons, its gradient at the embeddings, and the tokens."""
        assert self._neurons is not None
        name, chosen = self._neurons
        recorder = Recorder(self.network.module)

        def activity(_: Tensor) -> Tensor:
            return recorder.layers[name][:, torch.as_tensor(chosen)].abs().sum(dim=1)

        return self._gradient(texts, activity, result, recorder)

    def _gradient(
        self,
        texts: list[str],
        value: Callable[[Tensor], Tensor],
        result: SearchResult,
        recorder: Recorder | None = None,
    ) -> tuple[Floats, Tensor, Tensor]:
        """The value of each text, its gradient at the embeddings, and the tokens."""
        result.calls += len(texts)
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

    def _change(self, gradient: Tensor, tokens: Tensor, candidates: list[_Place]) -> Floats:
        """(candidates, 2) the first-order change of the value, by the embeddings of the new
        tokens.
        """
        weight = embedding_of(self.network.module).weight
        flat = [side.text for each in candidates for side in each.pair]
        with torch.no_grad():
            new = tokens_of(self.network, flat)
            length = min(new.shape[1], tokens.shape[1])
            old = tokens.repeat(len(candidates), 1)
            rows, places = torch.nonzero(new[:, :length] != old[:, :length], as_tuple=True)
            difference = weight[new[rows, places]] - weight[old[rows, places]]
            moved = (difference * gradient[rows % 2, places]).sum(dim=1)
            total = torch.zeros(len(flat), dtype=moved.dtype).index_add_(0, rows, moved)
        found: Floats = total.reshape(len(candidates), 2).double().cpu().numpy()
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
