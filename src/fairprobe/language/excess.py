"""How often an exchange of groups changes the answer, beside the control: the excess.

A text's own rate is the share of its exchanges that change the answer, each other group weighing
the same; its control rate is that of its control exchanges. The excess is the mean difference over
the clusters: templates, or texts that belong to none. The `gap` is the same about the change of the
probability of the first side's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.language.exchange import Exchange, Plan
from fairprobe.language.lexicon import Words
from fairprobe.models.text import TextModel
from fairprobe.statistics.clusters import Difference, clustered_difference

AT_ONCE = 1024  # texts between two reports of progress


@dataclass(frozen=True)
class Excess:
    """The rate of cross-group exchanges, that of the control, and the excess with its interval."""

    cross: float
    control: float
    excess: Difference
    texts: int


@dataclass(frozen=True)
class PairExcess:
    """The excess of the exchanges between two groups."""

    groups: tuple[str, str]
    excess: Excess


@dataclass(frozen=True)
class GroupAnswers:
    """What texts are answered with the words of one group: the mean probability of each class and
    the share of answers.
    """

    name: str
    texts: int
    probabilities: Floats
    answers: Floats


@dataclass(frozen=True)
class WordInfluence:
    """The excess of answers that change without the exchanges of one word."""

    word: str
    group: str
    texts: int
    without: Difference


class Answers:
    """What a model answers to texts, each asked once."""

    def __init__(self, model: TextModel) -> None:
        self._model = model
        self._known: dict[str, Floats] = {}

    def __contains__(self, text: object) -> bool:
        return text in self._known

    def query(
        self, texts: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Ask for those that are not known yet. What was answered before an interrupt is kept."""
        wanted = [text for text in dict.fromkeys(texts) if text not in self._known]
        for first in range(0, len(wanted), AT_ONCE):
            part = wanted[first : first + AT_ONCE]
            self._known.update(zip(part, self._model.probabilities(part), strict=True))
            if progress is not None:
                progress(min(first + AT_ONCE, len(wanted)), len(wanted))

    def probabilities(self, texts: Sequence[str]) -> Rows:
        """(n, classes) of texts that were asked."""
        return np.stack([self._known[text] for text in texts])

    def __len__(self) -> int:
        return len(self._known)


class Observations:
    """All exchanges whose texts were answered, as arrays."""

    def __init__(self, plan: Plan, answers: Answers, words: Words) -> None:
        complete = _complete(plan, answers)
        self.exchanges = [each for each in plan.exchanges if each.unit in complete]
        first, second = (
            answers.probabilities([side.text for side in sides])
            if self.exchanges
            else np.empty((0, 1), np.float32)
            for sides in (
                [each.first for each in self.exchanges],
                [each.second for each in self.exchanges],
            )
        )
        self.first, self.second = first, second
        rows = np.arange(len(self.exchanges))
        label = first.argmax(axis=1)
        self.flips: Floats = (label != second.argmax(axis=1)).astype(np.float64)
        self.gaps: Floats = np.abs(first[rows, label] - second[rows, label]).astype(np.float64)
        self.unit: Ints = np.array([each.unit for each in self.exchanges], dtype=np.int64)
        self.is_control: Mask = np.array([each.is_control for each in self.exchanges], dtype=bool)
        self._clusters = _clusters(plan)
        self._words = words
        keys: dict[tuple[str, str], int] = {}
        self._members_of: Ints = np.array(  # (exchanges, 2) the word of each side
            [
                [keys.setdefault((side.group, side.word), len(keys)) for side in each.sides]
                for each in self.exchanges
            ],
            dtype=np.int64,
        ).reshape(-1, 2)
        self._keys = list(keys)
        names = sorted({each.second.group for each in self.exchanges})
        self._target: Ints = np.array(
            [names.index(each.second.group) for each in self.exchanges], dtype=np.int64
        )

    @property
    def texts(self) -> int:
        return len(np.unique(self.unit))

    @property
    def clusters(self) -> int:
        return len(np.unique(self._clusters[np.unique(self.unit)])) if len(self.unit) else 0

    def excess(self, values: Floats, kept: Mask | None = None) -> Excess:
        """The excess of these values (flips or gaps) over the control; `kept` chooses among the
        exchanges with another group.
        """
        kept = np.ones(len(values), dtype=bool) if kept is None else kept | self.is_control
        cross, control, differences = self.by_cluster(values, kept)
        without = self._without_words(values, kept) if self._words == "sample" else ()
        return Excess(
            float(cross.mean()) if len(cross) else 0.0,
            float(control.mean()) if len(control) else 0.0,
            clustered_difference(differences, without),
            len(np.unique(self.unit[kept & ~self.is_control])),
        )

    def by_pair(self) -> list[PairExcess]:
        """The excess of flips of every two groups that were exchanged."""
        pairs = [self._pair(each) for each in self.exchanges]
        found = []
        for pair in sorted({pair for pair in pairs if pair is not None}):
            kept = np.array([each == pair for each in pairs], dtype=bool)
            found.append(PairExcess(pair, self.excess(self.flips, kept)))
        return sorted(found, key=lambda each: -each.excess.excess.estimate)

    def groups(self, names: Sequence[str]) -> list[GroupAnswers]:
        """What the texts are answered with the words of each group; the text's own counts for its
        own group.
        """
        sums: dict[tuple[str, int], list[Floats]] = {}
        own: set[int] = set()
        for row, each in enumerate(self.exchanges):
            if each.is_control:
                continue
            sides = [(each.second, self.second[row])]
            if each.unit not in own:
                own.add(each.unit)
                sides.append((each.first, self.first[row]))
            for side, p in sides:
                sums.setdefault((side.group, each.unit), []).append(p)
        found = []
        for name in names:
            texts = [np.stack(each) for (group, _), each in sums.items() if group == name]
            if texts:
                classes = texts[0].shape[1]
                answers = [
                    np.bincount(each.argmax(axis=1), minlength=classes) / len(each)
                    for each in texts
                ]
                means: Floats = np.stack([each.mean(axis=0) for each in texts]).mean(
                    axis=0, dtype=np.float64
                )
                found.append(GroupAnswers(name, len(texts), means, np.stack(answers).mean(axis=0)))
        return found

    def words(self) -> list[WordInfluence]:
        """The excess without the exchanges of each word of a group, the most important first."""
        members = self._members(~self.is_control)
        found = []
        for (group, word), has in members.items():
            kept = ~has & ~self.is_control
            if not kept.any():
                continue
            _, _, differences = self.by_cluster(self.flips, kept | self.is_control)
            texts = len(np.unique(self.unit[has & ~self.is_control]))
            found.append(WordInfluence(word, group, texts, clustered_difference(differences)))
        return sorted(found, key=lambda each: each.without.estimate)

    def striking(self, most: int) -> list[int]:
        """The exchanges whose answers differ, one for each text, the widest gap first."""
        rows = np.flatnonzero((self.flips > 0) & ~self.is_control)
        seen: set[int] = set()
        found = []
        for row in rows[np.argsort(-self.gaps[rows], kind="stable")]:
            if int(self.unit[row]) not in seen:
                seen.add(int(self.unit[row]))
                found.append(int(row))
        return found[:most]

    # -- by cluster --------------------------------------------------------------------------------

    def by_cluster(self, values: Floats, kept: Mask | None = None) -> tuple[Floats, Floats, Floats]:
        """The rate of the exchanges, of the control, and their difference, for each cluster of
        texts that have both.
        """
        kept = np.ones(len(values), dtype=bool) if kept is None else kept
        units = len(self._clusters)
        groups = int(self._target.max()) + 1 if len(self._target) else 1
        cross = kept & ~self.is_control
        cell = self.unit[cross] * groups + self._target[cross]
        by_group = _mean(cell, values[cross], units * groups).reshape(units, groups)
        has = ~np.isnan(by_group)
        count = has.sum(axis=1)
        own = np.where(has, by_group, 0).sum(axis=1) / np.maximum(count, 1)
        control = _mean(self.unit[kept & self.is_control], values[kept & self.is_control], units)
        used = (count > 0) & ~np.isnan(control)
        cluster = self._clusters[used]
        size = int(self._clusters.max()) + 1 if units else 0
        rates = [_mean(cluster, part, size) for part in (own[used], control[used])]
        is_there = ~np.isnan(rates[0])
        first, second = (rate[is_there] for rate in rates)
        return first, second, first - second

    def _without_words(self, values: Floats, kept: Mask) -> list[Floats]:
        """For each group, the mean difference without each of its words."""
        by_group: dict[str, list[float]] = {}
        for (group, _), has in self._members(kept).items():
            _, _, differences = self.by_cluster(values, kept & ~has)
            if len(differences):
                by_group.setdefault(group, []).append(float(differences.mean()))
        return [np.array(each) for each in by_group.values()]

    def _members(self, kept: Mask) -> Mapping[tuple[str, str], Mask]:
        """Which exchanges hold each word of each group."""
        numbers, first = np.unique(self._members_of[kept], return_index=True)
        return {
            self._keys[number]: (self._members_of == number).any(axis=1) & kept
            for number in numbers[np.argsort(first)]
        }

    @staticmethod
    def _pair(each: Exchange) -> tuple[str, str] | None:
        if each.is_control:
            return None
        first, second = sorted((each.first.group, each.second.group))
        return first, second


def _mean(cell: Ints, values: Floats, size: int) -> Floats:
    """The mean of the values in each cell; NaN where there are none."""
    count = np.bincount(cell, minlength=size)
    total = np.bincount(cell, weights=values, minlength=size)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _complete(plan: Plan, answers: Answers) -> set[int]:
    """The texts of which every exchange was answered."""
    missing = {
        each.unit
        for each in plan.exchanges
        if each.first.text not in answers or each.second.text not in answers
    }
    return set(range(len(plan.texts))) - missing


def _clusters(plan: Plan) -> Ints:
    """The number of each text's cluster."""
    names: dict[str, int] = {}
    keys = (each.cluster or f"\0{number}" for number, each in enumerate(plan.texts))
    return np.array([names.setdefault(key, len(names)) for key in keys], dtype=np.int64)
