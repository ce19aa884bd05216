"""A search for texts whose class depends on the group: it replaces context words by neighbors in
the network's own embedding space until the predictions for a text and a counterpart differ.

A text with all its counterparts has one margin (log-odds of its most probable class against the
next) for each side. A candidate is a text with one context word replaced. Two of its sides are
judged, in the words of two groups; with the margins a ≤ b the predictions differ where a < 0 < b.
The distance to that is max(a, −b). All methods share the loop, the candidates and the counting:
every text that the network processes is a call, with or without a gradient, and each seed has the
same number of calls. They differ in which candidates and which two sides are judged first, and in
where the search continues:

    margin    the two sides with the lowest and the highest margin at the seed; candidates by the
              distance that the gradient at the embeddings predicts (look-ahead). Continues from
              the first candidate that is nearer than the last text, or from the nearest of `QUEUE`
    neurons   the sides with the least and the most activity of the biased neurons; candidates by
              the predicted growth of that activity (NeuronFair's guidance); continues from the
              first
    random    the text and a random counterpart; random candidates; continues from the first

With `bigrams`, a new word must have been next to its neighbors in the texts. With a `fluency`, a
language model's mean log-probability of a text, a candidate may not be less fluent than its seed by
more than `LESS_FLUENT`. Every finding is a text, never a vector, and is confirmed with the model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Floats
from fairprobe.errors import ModelError
from fairprobe.language.exchange import Side, original, swapped
from fairprobe.language.inside import Recorder, TextLayer
from fairprobe.language.lexicon import Lexicon
from fairprobe.language.places import Finder
from fairprobe.language.texts import Text
from fairprobe.language.vocabulary import TOKEN, Vocabulary, embedding_of, tokens_of
from fairprobe.models.formats.text_network import Fluency, network_logits
from fairprobe.models.text import TextModel
from fairprobe.results import Count, Number, Result

Guide: TypeAlias = Literal["margin", "neurons", "random"]
TITLES: dict[Guide, str] = {
    "margin": "Margin look-ahead",
    "neurons": "Biased neurons",
    "random": "Random exchange",
}
CANDIDATES = 200  # that are ranked in a step
BATCH = 4  # candidates that are judged together
QUEUE = 16  # candidates of a ranking that are judged before another text is taken
CALLS = 200  # of the network for each seed
MAX_SIDES = 4  # counterparts of a text
LESS_FLUENT = 0.5  # nats for each token


@dataclass(frozen=True)
class Found:
    """A finding: the seed's number, the text in the words of several groups, and the number of
    calls for that seed until then.
    """

    seed: int
    sides: tuple[Side, ...]
    at_seed: bool
    calls: int

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(side.text for side in self.sides)


class TextSearch(Result, frozen=True, kw_only=True):
    """A search that replaces context words: calls of the network, findings without duplicates that
    the model confirmed, seeds with a finding, and refuted findings.
    """

    method: Guide
    title: str
    is_control: bool
    filtered: bool
    seeds: Count
    seeds_hit: Count
    calls: Count
    findings: Count
    refuted: Count
    per_1000: Number
    stopped: str

    def __post_init__(self) -> None:
        if self.seeds_hit > min(self.seeds, self.findings):
            raise ValueError(f"{self.seeds_hit} seeds hit with {self.findings} findings")


@dataclass(frozen=True)
class _Point:
    """A point of the walk: a text, the two sides of it that are judged, and their distance."""

    text: str
    pair: tuple[Side, Side]
    distance: float


class Searcher:
    """The loop for one guide. It queries the model in batches; every text is a call."""

    def __init__(
        self,
        model: TextModel,
        lexicon: Lexicon,
        vocabulary: Vocabulary,
        *,
        guide: Guide,
        filtered: bool,
        seed: int = 0,
        layer: TextLayer | None = None,
        fluency: Fluency | None = None,
    ) -> None:
        if model.network is None:
            raise ModelError("The search needs a network that it can look into.")
        self.model, self.network, self.lexicon = model, model.network, lexicon
        self._vocabulary, self._finder = vocabulary, Finder(lexicon)
        self._rng, self._layer, self._fluency = np.random.default_rng(seed), layer, fluency
        self.guide, self.filtered = guide, filtered
        self._calls = 0
        self._found: list[Found] = []
        self._seen: set[str] = set()

    def run(
        self,
        seeds: Sequence[Text],
        *,
        calls: int = CALLS,
        progress: Callable[[int, int], None] | None = None,
    ) -> tuple[TextSearch, list[Found]]:
        """Search from every seed with the same number of calls; continue after a finding."""
        stopped = "complete"
        try:
            for number, seed in enumerate(seeds):
                self._walk(number, seed.text, self._calls + calls)
                if progress is not None:
                    progress(number + 1, len(seeds))
        except KeyboardInterrupt:
            stopped = "interrupted"
        confirmed = [finding for finding in self._found if self._is_confirmed(finding)]
        result = TextSearch(
            method=self.guide,
            title=TITLES[self.guide],
            is_control=self.guide == "random",
            filtered=self.filtered,
            seeds=len(seeds),
            seeds_hit=len({finding.seed for finding in confirmed}),
            calls=self._calls,
            findings=len(confirmed),
            refuted=len(self._found) - len(confirmed),
            per_1000=1000 * len(confirmed) / self._calls if self._calls else 0.0,
            stopped=stopped,
        )
        return result, confirmed

    # -- one seed ----------------------------------------------------------------------------------

    def _walk(self, seed: int, text: str, until: int) -> None:
        sides, start = self._sides(text), self._calls
        if len(sides) < 2:
            return
        margins = margins_of(self._logits([side.text for side in sides]))
        if _distance(margins) < 0:
            self._record(Found(seed, tuple(sides), True, self._calls - start))
        point = _Point(text, *self._first_pair(sides, margins))
        least = None if self._fluency is None else float(self._fluency([text])[0]) - LESS_FLUENT
        tried: set[str] = {text}
        queue: list[_Point] = []
        nearest: _Point | None = None
        while self._calls < until:
            if not queue:
                point, nearest = nearest or point, None
                queue = self._ranked(point, self._candidates(point.text, tried))
                queue = self._fluent(queue, least)[:QUEUE]
                if not queue:
                    return
            batch, queue = queue[:BATCH], queue[BATCH:]
            for candidate in self._judged(batch):
                tried.add(candidate.text)
                if candidate.distance < 0:
                    self._record(Found(seed, candidate.pair, False, self._calls - start))
                # Only the guide by margins may use them; the others continue from their first.
                is_nearer = nearest is not None and candidate.distance < nearest.distance
                if nearest is None or (self.guide == "margin" and is_nearer):
                    nearest = candidate
            if self.guide != "margin" or (nearest and nearest.distance < point.distance):
                queue = []

    def _first_pair(self, sides: list[Side], margins: Tensor) -> tuple[tuple[Side, Side], float]:
        """Choose the two sides that are judged, and return their distance."""
        if self.guide == "random":
            chosen = [0, 1 + int(self._rng.integers(len(sides) - 1))]
        else:
            values = margins.numpy()
            if self.guide == "neurons":
                values, _, _ = self._activity([side.text for side in sides])
            order = np.argsort(values, kind="stable")
            chosen = [int(order[0]), int(order[-1])]
        return (sides[chosen[0]], sides[chosen[1]]), _distance(margins[chosen])

    def _sides(self, text: str, groups: Sequence[str] = ()) -> list[Side]:
        """Return the text as it is, then in the words of each group, or of these."""
        places = self._finder.places(text)
        if not places:
            return []
        sides = [original(text, places)]
        for target in groups or self.lexicon.groups:
            if target != sides[0].group and len(sides) <= MAX_SIDES:
                side = swapped(text, places, sides[0].group, target)
                if side is not None and side.text != text:
                    sides.append(side)
        return sides

    def _pair(self, text: str, groups: Sequence[str]) -> tuple[Side, Side] | None:
        """Return the text in the words of two groups; None if it has no such words."""
        if self.guide == "random":
            sides = self._sides(text)
            if len(sides) < 2:
                return None
            return sides[0], sides[1 + int(self._rng.integers(len(sides) - 1))]
        by_group = {side.group: side for side in self._sides(text, groups)}
        first, second = (by_group.get(group) for group in groups)
        return None if first is None or second is None else (first, second)

    def _candidates(self, text: str, tried: set[str]) -> list[str]:
        """Replace one context word at random places; new texts only."""
        places = self._finder.places(text)
        words = list(TOKEN.finditer(text))
        free = [
            number
            for number, word in enumerate(words)
            if not any(place.start < word.end() and word.start() < place.end for place in places)
        ]
        candidates: list[str] = []
        for number in self._rng.permutation(free):
            word = words[number]
            before = words[number - 1][0] if number else ""
            after = words[number + 1][0] if number + 1 < len(words) else ""
            for neighbor in self._vocabulary.neighbors(word[0]):
                if self.filtered and not self._vocabulary.is_seen(before, neighbor, after):
                    continue
                new = neighbor.capitalize() if word[0][0].isupper() else neighbor
                candidate = text[: word.start()] + new + text[word.end() :]
                if candidate not in self._seen and candidate not in tried:
                    candidates.append(candidate)
            if len(candidates) >= CANDIDATES:
                break
        self._rng.shuffle(candidates)
        return candidates[:CANDIDATES]

    def _fluent(self, queue: list[_Point], least: float | None) -> list[_Point]:
        """Keep the candidates that are as fluent as the seed, among the first ones."""
        if least is None or self._fluency is None:
            return queue
        first = queue[: 4 * QUEUE]
        fluency = self._fluency([point.text for point in first])
        return [point for point, value in zip(first, fluency, strict=True) if value >= least]

    def _judged(self, points: Sequence[_Point]) -> list[_Point]:
        logits = self._logits([side.text for point in points for side in point.pair])
        return [
            _Point(point.text, point.pair, _distance(margins_of(logits[2 * n : 2 * n + 2])))
            for n, point in enumerate(points)
        ]

    def _record(self, finding: Found) -> None:
        if finding.texts[0] in self._seen:
            return
        # The same case under another group's words is no second finding.
        self._seen.update(side.text for side in self._sides(finding.texts[0]))
        self._seen.update(finding.texts)
        self._found.append(finding)

    def _logits(self, texts: Sequence[str]) -> Tensor:
        self._calls += len(texts)
        with torch.no_grad():
            return network_logits(self.network, texts).double().cpu()

    def _is_confirmed(self, finding: Found) -> bool:
        """Judge a finding again with the model itself, as a user would."""
        return len(np.unique(self.model.probabilities(finding.texts).argmax(axis=1))) > 1

    # -- ranking -----------------------------------------------------------------------------------

    def _ranked(self, point: _Point, candidates: list[str]) -> list[_Point]:
        """Order the candidates as they are judged."""
        groups = [side.group for side in point.pair]
        if self.guide == "random":
            candidates = candidates[: 4 * QUEUE]
        points = [
            _Point(text, pair, 0.0) for text in candidates if (pair := self._pair(text, groups))
        ]
        if self.guide == "random" or not points:
            return points
        texts = [side.text for side in point.pair]
        if self.guide == "margin":
            values, gradient, tokens = self._gradient(texts, margins_of)
            predicted = values[None, :] + self._change(gradient, tokens, points)
            scores = np.maximum(predicted.min(axis=1), -predicted.max(axis=1))
        else:
            _, gradient, tokens = self._activity(texts)
            scores = -self._change(gradient, tokens, points).sum(axis=1)
        return [points[n] for n in np.argsort(scores, kind="stable")]

    def _activity(self, texts: list[str]) -> tuple[Floats, Tensor, Tensor]:
        """Return the activity of the biased neurons, its gradient at the embeddings, and the
        tokens.
        """
        assert self._layer is not None
        name, biased = self._layer.name, torch.as_tensor(self._layer.biased, dtype=torch.long)
        recorder = Recorder(self.network.module)

        def activity(_: Tensor) -> Tensor:
            return recorder.layers[name][:, biased].abs().sum(dim=1)

        return self._gradient(texts, activity, recorder)

    def _gradient(
        self,
        texts: list[str],
        value: Callable[[Tensor], Tensor],
        recorder: Recorder | None = None,
    ) -> tuple[Floats, Tensor, Tensor]:
        """Return the value of each text, its gradient at the embeddings, and the tokens."""
        self._calls += len(texts)
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
                values = value(logits)
                (gradient,) = torch.autograd.grad(values.sum(), kept[0])
        finally:
            hook.remove()
        return values.detach().double().cpu().numpy(), gradient, tokens_of(self.network, texts)

    def _change(self, gradient: Tensor, tokens: Tensor, candidates: list[_Point]) -> Floats:
        """Predict (candidates, 2) the change of the value to first order, by the embeddings of the
        new tokens.
        """
        weight = embedding_of(self.network.module).weight
        texts = [side.text for candidate in candidates for side in candidate.pair]
        with torch.no_grad():
            new = tokens_of(self.network, texts)
            length = min(new.shape[1], tokens.shape[1])
            old = tokens.repeat(len(candidates), 1)
            rows, columns = torch.nonzero(new[:, :length] != old[:, :length], as_tuple=True)
            difference = weight[new[rows, columns]] - weight[old[rows, columns]]
            moved = (difference * gradient[rows % 2, columns]).sum(dim=1)
            total = torch.zeros(len(texts), dtype=moved.dtype).index_add_(0, rows, moved)
        change: Floats = total.reshape(len(candidates), 2).double().cpu().numpy()
        return change


def margins_of(logits: Tensor) -> Tensor:
    """Return the margin of each text: the log-odds of two classes; of more, the lead of the first
    text's class. The texts are the sides of one.
    """
    if logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    own = logits[0].argmax()
    others = torch.cat([logits[:, :own], logits[:, own + 1 :]], dim=1)
    return logits[:, own] - others.amax(dim=1)


def _distance(margins: Tensor) -> float:
    """Return the distance of two margins to different predictions; below 0 they differ."""
    return float(max(margins.min(), -margins.max()))
