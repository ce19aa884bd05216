"""Describe the most affected people by rules: "marital-status Married-civ-spouse and age 40–59".

A small tree tells affected people from the others. It grows on one half of the people in the data;
how many of a rule's people are affected is measured on the other half, which the tree has never
seen. A split stays only if it tells people apart more clearly than the first split does when the
affected people are shuffled. The intervals of all rules hold together (Bonferroni).

Categories are not cut in the order of their codes but in the order of how often they are affected
in the growing half; for two classes the best division into two sets is one of these (Breiman et
al., 1984, theorem 4.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import asdict

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.documents.people import RuleRate
from fairprobe.results import CONFIDENCE, Rate
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain

DEPTH = 3
SMALLEST = 50  # people of a rule in the growing half
GROWN_ON = 20_000  # people at most
SHUFFLES = 20
NAMED = 5  # categories in a condition
RARE = "a rarer one"


def find_rules(domain: Domain, x: Rows, affected: Mask, *, seed: int = 0) -> list[RuleRate]:
    """Divide the people into at most eight groups, the most affected first; return none if no
    division separates the affected people.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(x))
    grown, measured = order[: len(x) // 2][:GROWN_ON], order[len(x) // 2 :]
    target = affected[grown]
    if len(grown) < 2 * SMALLEST or not 0 < target.mean() < 1:
        return []
    columns = [_Column(domain.attributes[each], x[:, each]) for each in domain.other_columns]
    shuffled = (_grow(columns, grown, rng.permutation(target), depth=1) for _ in range(SHUFFLES))
    chance = max((_strength(nodes, 0) for nodes, _ in shuffled), default=0.0)
    nodes, shares = _grow(columns, grown, target, depth=DEPTH)
    leaves = _leaves(nodes, columns, shares, measured, chance)
    if len(leaves) < 2:
        return []
    confidence = 1 - (1 - CONFIDENCE) / len(leaves)
    rules = [
        RuleRate(
            rule=_words(columns, shares, path),
            **asdict(Rate.of(int(affected[people].sum()), len(people), confidence)),
        )
        for path, people in leaves
    ]
    return sorted(rules, key=lambda rule: (-rule.low, -rule.estimate))


# -- the tree --------------------------------------------------------------------------------------


class _Column:
    """Values of one attribute as a tree sees them: numbers themselves, missing ones as NaN; of a
    category the share of its people who are affected. Rare categories are one.
    """

    def __init__(self, attribute: Attribute, codes: Rows) -> None:
        self.attribute = attribute
        self.is_categorical = attribute.kind == "categorical"
        self.values, self.places = np.unique(codes, return_inverse=True)
        self.is_missing = self.values == attribute.missing
        if self.is_categorical:
            people = np.bincount(self.places)
            commonest = np.argsort(-people, kind="stable")
            usual = int((people >= 2 * SMALLEST).sum())
            kept = commonest if len(people) - usual < 2 else commonest[:usual]
            self.names = [_quoted(attribute.describe(float(self.values[each]))) for each in kept]
            self.names += [RARE] if len(kept) < len(people) else []
            place = np.full(len(people), len(kept))
            place[kept] = np.arange(len(kept))
            self.places = place[self.places]

    def shares(self, grown: Ints, affected: Mask) -> Rows:
        """Return one number for each value, as the tree compares them."""
        if not self.is_categorical:
            return np.where(self.is_missing, np.float32(np.nan), self.values)
        places, size = self.places[grown], len(self.names)
        hits = np.bincount(places, weights=affected, minlength=size) + affected.mean()
        return np.asarray(hits / (np.bincount(places, minlength=size) + 1), dtype=np.float32)


class _Step(NamedTuple):
    """Side of a split: up to the threshold or above it, with or without missing values."""

    column: int
    threshold: float
    is_left: bool
    takes_missing: bool

    def takes(self, values: Rows) -> Mask:
        inside = (values <= self.threshold) == self.is_left
        return np.where(np.isnan(values), self.takes_missing, inside)


def _grow(
    columns: Sequence[_Column], grown: Ints, affected: Mask, *, depth: int
) -> tuple[Any, list[Rows]]:
    """Grow a tree that separates affected people; return its nodes, and what it sees of each
    column.
    """
    from sklearn.tree import DecisionTreeClassifier

    shares = [column.shares(grown, affected) for column in columns]
    seen = [each[column.places[grown]] for column, each in zip(columns, shares, strict=True)]
    tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=SMALLEST, random_state=0)
    return tree.fit(np.column_stack(seen), affected).tree_, shares


def _strength(nodes: Any, node: int) -> float:
    """Compute χ² of a split: how clearly its two sides differ; 0 for a leaf."""
    sides = [nodes.children_left[node], nodes.children_right[node]]
    if sides[0] < 0:
        return 0.0
    people, impurity = nodes.n_node_samples, nodes.impurity
    within = float((people[sides] * impurity[sides]).sum())
    return float(people[node] - within / impurity[node])


def _leaves(
    nodes: Any,
    columns: Sequence[_Column],
    shares: Sequence[Rows],
    people: Ints,
    chance: float,
    node: int = 0,
) -> list[tuple[list[_Step], Ints]]:
    """Return the way to each leaf, and who of the people arrives there. Splits at the ends of the
    tree that chance explains are undone.
    """
    if nodes.children_left[node] < 0:
        return [([], people)]
    column, threshold = int(nodes.feature[node]), float(nodes.threshold[node])
    values = shares[column][columns[column].places[people]]
    found = []
    for is_left, child in ((True, nodes.children_left[node]), (False, nodes.children_right[node])):
        takes_missing = bool(nodes.missing_go_to_left[node]) == is_left
        step = _Step(column, threshold, is_left, takes_missing)
        below = _leaves(nodes, columns, shares, people[step.takes(values)], chance, child)
        found += [([step, *path], who) for path, who in below]
    if len(found) == 2 and _strength(nodes, node) <= chance:
        return [([], people)]
    return found


# -- words -----------------------------------------------------------------------------------------


def _words(columns: Sequence[_Column], shares: Sequence[Rows], path: Sequence[_Step]) -> str:
    """Write one condition for each attribute on the way, in its order."""
    steps: dict[int, list[_Step]] = {}
    for step in path:
        steps.setdefault(step.column, []).append(step)
    return " and ".join(
        f"{columns[column].attribute.name} {_condition(columns[column], shares[column], taken)}"
        for column, taken in steps.items()
    )


def _condition(column: _Column, shares: Rows, steps: Sequence[_Step]) -> str:
    kept = np.all([step.takes(shares) for step in steps], axis=0)
    if column.is_categorical:
        return _categories(column, kept)
    known = kept & ~column.is_missing
    if not known.any():
        return "not known"
    finite = [step for step in steps if np.isfinite(step.threshold)]
    above, up_to = (
        [step.threshold for step in finite if step.is_left == is_left] for is_left in (False, True)
    )
    text = column.attribute.describe_range(
        _cut(column, max(above)) if above else None, _cut(column, min(up_to)) if up_to else None
    )
    return f"{text} or not known" if (kept & column.is_missing).any() else text


def _cut(column: _Column, threshold: float) -> float:
    """Round the cut between two values of the data: the lower one of whole numbers, of real ones
    the roundest number between both.
    """
    values: Floats = column.values[~column.is_missing].astype(np.float64)
    after = int(np.searchsorted(values, threshold, side="right"))
    low, high = values[after - 1], values[min(after, len(values) - 1)]
    if column.attribute.kind != "real":
        return float(low)
    round_ones = (float(f"{threshold:.{digits}g}") for digits in range(1, 8))
    return next((each for each in round_ones if low <= each < high), float(low))


def _categories(column: _Column, kept: Mask) -> str:
    """Name the categories that are kept, or those that are not if they are fewer; the commonest
    first.
    """
    is_negated = int(kept.sum()) > max(2, int((~kept).sum()))
    words = [name for name, inside in zip(column.names, kept, strict=True) if inside != is_negated]
    if len(words) > NAMED:
        words = [*words[: NAMED - 1], f"{len(words) - NAMED + 1:,} more"]
    *most, last = words
    return f"{'not ' if is_negated else ''}{', '.join(most)}{' or ' if most else ''}{last}"


def _quoted(name: str) -> str:
    """Quote a name that could be read as several."""
    return f"“{name}”" if {",", "or", "and"} & set(name.replace(",", " , ").split()) else name
