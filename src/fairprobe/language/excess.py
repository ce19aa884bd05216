"""How often an exchange of groups changes the prediction, compared with the control: the excess.

A text's own rate is the share of its exchanges that change the prediction, each other group
weighing the same; its control rate is that of its control exchanges. The excess is the mean
difference over the clusters: templates, or texts that belong to none. The `gap` is the same for the
change in probability of the first side's class.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.language.exchange import Plan
from fairprobe.language.lexicon import Words
from fairprobe.models.text import TextModel
from fairprobe.results import Count, Number, Result, Share, check_interval
from fairprobe.statistics.clusters import clustered_difference

BATCH = 1024  # texts between two progress reports
Key = TypeVar("Key", bound=Hashable)


class Excess(Result, frozen=True, kw_only=True):
    """How much more an exchange of groups changes than the control: `estimate` is the mean of
    `cross` − `control` over the clusters, with its interval.
    """

    cross: Share
    control: Share
    estimate: Number
    low: Number
    high: Number
    texts: Count
    clusters: Count
    confidence: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)
        if not -1 <= self.low <= self.high <= 1:
            raise ValueError(f"an excess of {self.low} to {self.high}")

    @property
    def samples(self) -> int:
        return self.clusters

    @property
    def is_shown(self) -> bool:
        """Return whether the interval lies above zero."""
        return self.low > 0


class PairExcess(Result, frozen=True, kw_only=True):
    """The excess of the exchanges between two groups."""

    groups: tuple[str, str]
    flips: Excess


class GroupAnswers(Result, frozen=True, kw_only=True):
    """Predictions for texts with the words of a group: the mean probability of each class, and the
    share of predictions.
    """

    name: str
    texts: Count
    probabilities: list[Share]
    answers: list[Share]


class WordInfluence(Result, frozen=True, kw_only=True):
    """The excess of changed predictions without the exchanges of one word."""

    word: str
    group: str
    texts: Count
    estimate: Number
    low: Number
    high: Number

    def __post_init__(self) -> None:
        check_interval(self.low, self.estimate, self.high)


class Answers:
    """A model's probabilities for texts; each text is queried once."""

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self._by_text: dict[str, Floats] = {}

    def __contains__(self, text: object) -> bool:
        return text in self._by_text

    def __len__(self) -> int:
        return len(self._by_text)

    def query(
        self, texts: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Query the texts that have no answer yet. An interrupt keeps the answers so far."""
        new = [text for text in dict.fromkeys(texts) if text not in self._by_text]
        for first in range(0, len(new), BATCH):
            batch = new[first : first + BATCH]
            self._by_text.update(zip(batch, self._model.probabilities(batch), strict=True))
            if progress is not None:
                progress(min(first + BATCH, len(new)), len(new))

    def probabilities(self, texts: Sequence[str]) -> Rows:
        """Return (n, classes) of texts that have an answer."""
        return np.stack([self._by_text[text] for text in texts])


class Observations:
    """All exchanges of the texts that have all their answers, as arrays."""

    def __init__(self, plan: Plan, answers: Answers, words: Words) -> None:
        incomplete = {
            exchange.unit
            for exchange in plan.exchanges
            if any(side.text not in answers for side in exchange.sides)
        }
        self.exchanges = [each for each in plan.exchanges if each.unit not in incomplete]
        self.first, self.second = (
            answers.probabilities([exchange.sides[side].text for exchange in self.exchanges])
            if self.exchanges
            else np.empty((0, 1), np.float32)
            for side in (0, 1)
        )
        rows, label = np.arange(len(self.exchanges)), self.first.argmax(axis=1)
        changed = label != self.second.argmax(axis=1)
        self.flips: Floats = changed.astype(np.float64)
        self.gaps: Floats = np.abs(self.first[rows, label] - self.second[rows, label]).astype(
            np.float64
        )
        self.unit: Ints = np.array([each.unit for each in self.exchanges], dtype=np.int64)
        self.is_control: Mask = np.array([each.is_control for each in self.exchanges], dtype=bool)
        clusters = (text.cluster or f"\0{number}" for number, text in enumerate(plan.texts))
        self._clusters, _ = _numbered(clusters)
        self._is_sample = words == "sample"
        numbers, self._words = _numbered(
            (side.group, side.word) for exchange in self.exchanges for side in exchange.sides
        )
        self._words_of: Ints = numbers.reshape(-1, 2)  # (exchanges, 2) the word of each side
        targets = [exchange.second.group for exchange in self.exchanges]
        self._target: Ints = np.unique(targets, return_inverse=True)[1].astype(np.int64)

    @property
    def texts(self) -> int:
        return len(np.unique(self.unit))

    @property
    def clusters(self) -> int:
        return len(np.unique(self._clusters[np.unique(self.unit)]))

    def excess(self, values: Floats, kept: Mask | None = None) -> Excess:
        """Compare these values (flips or gaps) with the control; `kept` selects exchanges with
        another group.
        """
        kept = np.ones(len(values), dtype=bool) if kept is None else kept | self.is_control
        cross, control, differences = self._by_cluster(values, kept)
        without = self._without_words(values, kept) if self._is_sample else ()
        found = clustered_difference(differences, without)
        return Excess(
            cross=min(float(cross.mean()), 1.0) if len(cross) else 0.0,
            control=min(float(control.mean()), 1.0) if len(control) else 0.0,
            estimate=found.estimate,
            low=found.low,
            high=found.high,
            texts=len(np.unique(self.unit[kept & ~self.is_control])),
            clusters=found.clusters,
            confidence=found.confidence,
        )

    def by_pair(self) -> list[PairExcess]:
        """Return the excess of flips of every two groups that were exchanged, the largest first."""
        groups = [
            () if each.is_control else tuple(sorted(side.group for side in each.sides))
            for each in self.exchanges
        ]
        pairs = []
        for a, b in sorted(set(groups) - {()}):
            kept = np.array([pair == (a, b) for pair in groups], dtype=bool)
            pairs.append(PairExcess(groups=(a, b), flips=self.excess(self.flips, kept)))
        return sorted(pairs, key=lambda pair: -pair.flips.estimate)

    def groups(self, names: Sequence[str]) -> list[GroupAnswers]:
        """Average the predictions with the words of each group; the text as it is counts for its
        own group.
        """
        answers: dict[tuple[str, int], list[Floats]] = {}
        units: set[int] = set()
        for row, exchange in enumerate(self.exchanges):
            if exchange.is_control:
                continue
            sides = [(exchange.second.group, self.second[row])]
            if exchange.unit not in units:
                units.add(exchange.unit)
                sides.append((exchange.first.group, self.first[row]))
            for group, p in sides:
                answers.setdefault((group, exchange.unit), []).append(p)
        groups = []
        for name in names:
            texts = [np.stack(p) for (group, _), p in answers.items() if group == name]
            if texts:
                groups.append(_mean_answers(name, texts))
        return groups

    def words(self) -> list[WordInfluence]:
        """Return the excess without the exchanges of each word, the most important word first."""
        words = []
        for (group, word), has in self._exchanges_of(~self.is_control).items():
            kept = ~has & ~self.is_control
            if not kept.any():
                continue
            _, _, differences = self._by_cluster(self.flips, kept | self.is_control)
            without = clustered_difference(differences)
            words.append(
                WordInfluence(
                    word=word,
                    group=group,
                    texts=len(np.unique(self.unit[has & ~self.is_control])),
                    estimate=without.estimate,
                    low=without.low,
                    high=without.high,
                )
            )
        return sorted(words, key=lambda word: word.estimate)

    def striking(self, most: int) -> list[int]:
        """Return the exchanges whose predictions differ: one for each text, by gap."""
        rows = np.flatnonzero((self.flips > 0) & ~self.is_control)
        rows = rows[np.argsort(-self.gaps[rows], kind="stable")]
        _, first = np.unique(self.unit[rows], return_index=True)
        return [int(row) for row in rows[np.sort(first)][:most]]

    # -- by cluster --------------------------------------------------------------------------------

    def _by_cluster(self, values: Floats, kept: Mask) -> tuple[Floats, Floats, Floats]:
        """Return the rate of the exchanges, of the control, and their difference, for each cluster
        of texts that have both.
        """
        units = len(self._clusters)
        groups = int(self._target.max()) + 1 if len(self._target) else 1
        cross, control = kept & ~self.is_control, kept & self.is_control
        cell = self.unit[cross] * groups + self._target[cross]
        by_group = _mean(cell, values[cross], units * groups).reshape(units, groups)
        has = ~np.isnan(by_group)
        count = has.sum(axis=1)
        rate = np.where(has, by_group, 0).sum(axis=1) / np.maximum(count, 1)
        control_rate = _mean(self.unit[control], values[control], units)
        used = (count > 0) & ~np.isnan(control_rate)
        cluster = self._clusters[used]
        size = int(self._clusters.max()) + 1 if units else 0
        first, second = (_mean(cluster, part[used], size) for part in (rate, control_rate))
        is_there = ~np.isnan(first)
        return first[is_there], second[is_there], (first - second)[is_there]

    def _without_words(self, values: Floats, kept: Mask) -> list[Floats]:
        """Return, for each group, the mean difference without each of its words."""
        by_group: dict[str, list[float]] = {}
        for (group, _), has in self._exchanges_of(kept).items():
            _, _, differences = self._by_cluster(values, kept & ~has)
            if len(differences):
                by_group.setdefault(group, []).append(float(differences.mean()))
        return [np.array(means) for means in by_group.values()]

    def _exchanges_of(self, kept: Mask) -> dict[tuple[str, str], Mask]:
        """Map each word of each group to its exchanges, in order of appearance."""
        numbers, first = np.unique(self._words_of[kept], return_index=True)
        return {
            self._words[number]: (self._words_of == number).any(axis=1) & kept
            for number in numbers[np.argsort(first)]
        }


def _mean(cell: Ints, values: Floats, size: int) -> Floats:
    """Average the values in each cell; NaN where there are none."""
    count = np.bincount(cell, minlength=size)
    total = np.bincount(cell, weights=values, minlength=size)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _mean_answers(name: str, texts: Sequence[Floats]) -> GroupAnswers:
    """Average over the texts of a group, each with (n, classes) probabilities."""
    classes = texts[0].shape[1]
    probabilities = np.stack([p.mean(axis=0) for p in texts]).mean(axis=0, dtype=np.float64)
    answers = np.stack(
        [np.bincount(p.argmax(axis=1), minlength=classes) / len(p) for p in texts]
    ).mean(axis=0)
    return GroupAnswers(
        name=name,
        texts=len(texts),
        probabilities=np.minimum(probabilities, 1.0).tolist(),
        answers=np.minimum(answers, 1.0).tolist(),
    )


def _numbered(keys: Iterable[Key]) -> tuple[Ints, list[Key]]:
    """Assign numbers to the different keys in order of appearance; return them, and the keys."""
    numbers: dict[Key, int] = {}
    found = [numbers.setdefault(key, len(numbers)) for key in keys]
    return np.array(found, dtype=np.int64), list(numbers)
