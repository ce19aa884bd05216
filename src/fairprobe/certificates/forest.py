"""Trees as a proof sees them: for each leaf, which values of each attribute lead to it.

An attribute's values fall into *cells*: values that no tree distinguishes. A box is a set of cells
for each attribute that is not sensitive; a leaf is reached from a box exactly if it is reached from
one of its cells in every attribute, so bounds need no relaxation, and small boxes are counted.
Values of attributes that constraints speak of are cells of their own, so that who is allowed is a
table over cells (`allowed`).

    d(x, v) = base_v + Σ_t value of the leaf of tree t      one number for each pair of classes
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.certificates.allowed import Allowed, allowed_of
from fairprobe.certificates.chain import UNIT, UnsupportedError, added, goes_by
from fairprobe.errors import ModelError
from fairprobe.judgement import TIE, TIED_ODDS
from fairprobe.models.base import Model
from fairprobe.models.columns import Numbers
from fairprobe.models.decision import DecisionRule
from fairprobe.models.formats.trees import Ensemble
from fairprobe.schema.domain import Domain

MOST_VALUES = 200_000  # of one attribute
MOST_TABLE = 200_000_000  # leaves × cells
CHECKED = 256  # random people whose answers must be those of the model
SAME = 1e-4


@dataclass(frozen=True)
class Cells:
    """Attribute that is not sensitive: the cell of each of its values (of a real attribute: of
    each interval between `breaks`), and how many values (which length) each cell has.
    """

    name: str
    column: int
    low: float
    cell: Ints
    weight: Floats
    breaks: Floats | None = None

    @property
    def count(self) -> int:
        return len(self.weight)

    def cell_of(self, codes: Rows) -> Ints:
        if self.breaks is not None:
            place = np.searchsorted(self.breaks, codes.astype(np.float64), side="right")
            return np.asarray(self.cell[place])
        return self.cell[(codes - np.float32(self.low)).astype(np.int64)]


@dataclass(frozen=True)
class Forest:
    """`inside`, for each attribute (V or 1, cells, leaves): whether a leaf can be reached from a
    cell; `reach` (V, leaves): under which sensitive values; `tree` (leaves,): its tree, in order;
    `values` (leaves, pairs), `base` (V, pairs): class i over class j.
    """

    parts: tuple[Cells, ...]
    inside: tuple[Mask, ...]
    reach: Mask
    tree: Ints
    values: Floats
    base: Floats
    classes: int
    tie: float
    sensitive: tuple[str, ...]
    allowed: Allowed | None = None
    constraints: str = ""

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of classes that the differences compare: i over j."""
        return [(j, i) for i, j in combinations(range(self.classes), 2)]

    @cached_property
    def people(self) -> int | None:
        """Number of cases; None if an attribute is real."""
        if any(part.breaks is not None for part in self.parts):
            return None
        return prod(len(part.cell) for part in self.parts)

    @property
    def possible(self) -> int | None:
        """Number of cases that count: all, or those that the constraints allow."""
        if self.people is None or self.allowed is None:
            return self.people
        return self.allowed.possible(self.people)

    @cached_property
    def weights(self) -> list[Floats]:
        """Share of people in each cell, for each attribute."""
        return [part.weight / part.weight.sum() for part in self.parts]

    @property
    def ignores(self) -> bool:
        return bool(
            (self.reach == self.reach[:1]).all()
            and (self.base == self.base[:1]).all()
            and all((each == each[:1]).all() for each in self.inside)
        )

    @cached_property
    def error(self) -> float:
        """More than float64 rounding can do to a sum of leaves."""
        largest = np.zeros(int(self.tree.max(initial=0)) + 1)
        np.maximum.at(largest, self.tree, np.abs(self.values).max(axis=1))
        size = largest.sum() + np.abs(self.base).max()
        return float(4 * (len(largest) + 4) * UNIT * size)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything that the claim is about."""
        sha = hashlib.sha256(repr((self.sensitive, self.classes, self.tie)).encode())
        for part in self.parts:
            sha.update(repr((part.name, part.low)).encode() + part.cell.tobytes())
            sha.update(b"" if part.breaks is None else part.breaks.tobytes())
        if self.allowed is not None:
            sha.update(repr(self.allowed.parts).encode() + self.allowed.table.tobytes())
        for array in (*self.inside, self.reach, self.tree, self.values, self.base):
            sha.update(repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
        return sha.hexdigest()

    def cases(self, domain: Domain, x: Rows) -> Ints:
        """(N, parts) the cells of rows."""
        rows = domain.canonical(x)
        return np.stack([part.cell_of(rows[:, part.column]) for part in self.parts], axis=1)

    def differences(self, cases: Ints) -> Floats:
        """(N, V, pairs) what the trees say of these cases."""
        found = np.empty((len(cases), len(self.base), self.values.shape[1]))
        for value in range(len(self.base)):
            for start in range(0, len(cases), 512):
                some = cases[start : start + 512]
                hit = np.repeat(self.reach[value][None], len(some), axis=0)
                for a, each in enumerate(self.inside):
                    hit &= each[value % len(each)][some[:, a]]
                found[start : start + 512, value] = hit @ self.values + self.base[value]
        return found


def forest_of(model: Model, domain: Domain) -> Forest | None:
    """Read the trees of a model; raise an error that names an unsupported part. None if none."""
    joint = (model.original or model).joint
    if joint is None or joint.opened.trees is None:
        return None
    kind = joint.opened.kind
    try:
        ensemble = joint.opened.trees()
    except ModelError as error:
        raise _unsupported(kind, str(error)) from None
    if ensemble is None:
        return None
    if joint.columns is None:
        raise _unsupported(kind, "it takes words, and it is not known how they become numbers")
    rule = model.decision
    if rule is not None and rule.costs is not None and ensemble.adds == "logits":
        raise _unsupported(
            kind,
            "costs of three or more classes decide by probabilities, and its trees add up logits",
        )
    forest = _Builder(ensemble, joint.columns, domain).forest(joint.order, model)
    _compare(forest, model, domain)
    return forest


def _unsupported(kind: str, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"The trees of this model ({kind}) cannot be certified: {why.rstrip('.')}. Nothing is"
        " claimed. Search it instead: fairprobe audit."
    )


class _Builder:
    """Query the columns of a model value by value, and walk down all paths."""

    def __init__(self, ensemble: Ensemble, columns: Numbers, domain: Domain) -> None:
        self.ensemble, self.columns, self.domain = ensemble, columns, domain
        self.every = domain.counterparts(domain.low[None])[0]  # (V, A)
        self.base = columns(domain.low[None])[0]
        coupled = set(domain.changing) - set(domain.sensitive)
        self.parts = [a for a, n in enumerate(domain.names) if n not in domain.sensitive]
        self.coupled = {domain.index(name) for name in coupled}
        self.values: dict[int, Rows] = {}  # codes of each attribute that are probed
        self.numbers: dict[int, Rows] = {}  # (V or 1, codes, columns)
        self.owner = np.full(len(self.base), -1)  # the attribute of each column; −2: sensitive
        alone = np.repeat(domain.low[None], len(self.every), axis=0)
        alone[:, domain.sensitive_columns] = self.every[:, domain.sensitive_columns]
        self.sensitive = columns(alone)  # (V, columns)
        self._own(self.sensitive, -2)
        for a in self.parts:
            self._probe(a)
        self._check_columns()

    def _probe(self, a: int) -> None:
        domain, attribute = self.domain, self.domain.attributes[a]
        if attribute.kind == "real":
            codes = np.linspace(attribute.low, attribute.high, 33).astype(np.float32)
        elif attribute.high - attribute.low >= MOST_VALUES:
            raise _unsupported(
                "trees", f"'{attribute.name}' has more than {MOST_VALUES:,} values; bin it"
            )
        else:
            codes = np.arange(attribute.low, attribute.high + 1, dtype=np.float32)
        tables = codes[None]
        if a in self.coupled:
            rows = np.repeat(domain.low[None], len(codes), axis=0)
            rows[:, a] = codes
            tables = domain.counterparts(rows)[:, :, a].T
        rows_of = []
        for row in tables:
            rows = np.repeat(domain.low[None], len(codes), axis=0)
            rows[:, a] = row
            rows_of.append(self.columns(rows))
        self.values[a], self.numbers[a] = codes, np.stack(rows_of)
        self._own(self.numbers[a].reshape(-1, len(self.base)), a)
        if attribute.kind == "real":
            mine = np.flatnonzero(self.owner == a)
            if not (self.numbers[a][0][:, mine] == codes[:, None]).all():
                raise _unsupported("trees", f"the real attribute '{attribute.name}' is transformed")

    def _own(self, numbers: Rows, owner: int) -> None:
        moved = ~_equal(numbers, self.base).all(axis=0)
        taken = np.flatnonzero(moved & (self.owner != -1))
        if len(taken):
            raise _unsupported("trees", "a column of the model depends on more than one attribute")
        self.owner[moved] = owner

    def _check_columns(self) -> None:
        """Random people must get the columns that follow from their single values."""
        x = self.domain.sample(CHECKED, rng=np.random.default_rng(1))
        every = self.domain.counterparts(x)
        for value in range(len(self.every)):
            rows = np.ascontiguousarray(every[:, value])
            ours = np.tile(self.base, (len(x), 1))
            ours[:, self.owner == -2] = self.sensitive[value, self.owner == -2]
            for a in self.parts:
                mine = self.owner == a
                if self.domain.attributes[a].kind == "real":
                    ours[:, mine] = rows[:, [a]]
                    continue
                # In every row the coupled attribute has its code under this value already.
                place = (rows[:, a] - self.domain.attributes[a].low).astype(np.int64)
                ours[:, mine] = (
                    self.numbers[a][0][place][:, mine]
                    if a not in self.coupled
                    else (self.columns(rows)[:, mine])
                )
            if not _equal(ours, self.columns(rows)).all():
                raise _unsupported("trees", "a column depends on more than one attribute")

    def forest(self, order: list[int] | None, model: Model) -> Forest:
        self._cut_reals()
        tests: dict[int, list[Mask]] = {a: [] for a in self.parts}
        known: dict[tuple[int, float, int, bool], int] = {}
        leaves: list[tuple[int, int, dict[int, list[tuple[int, bool]]], Mask]] = []
        for number, tree in enumerate(self.ensemble.trees):
            for leaf, path in tree.leaves():
                needed: dict[int, list[tuple[int, bool]]] = {}
                reach = np.ones(len(self.every), dtype=bool)
                for node, left in path:
                    column = int(tree.column[node])
                    owner = int(self.owner[column])
                    if owner < 0:
                        numbers = self.sensitive[:, column] if owner == -2 else self.base[[column]]
                        goes = self.ensemble.goes_left(tree, node, numbers.astype(np.float64))
                        reach &= goes == left
                        continue
                    key = (
                        column,
                        float(tree.threshold[node]),
                        int(tree.missing[node]),
                        bool(tree.default_left[node]),
                    )
                    if key not in known:
                        numbers = self.numbers[owner][:, :, column].astype(np.float64)
                        known[key] = len(tests[owner])
                        tests[owner].append(self.ensemble.goes_left(tree, node, numbers))
                    needed.setdefault(owner, []).append((known[key], left))
                if reach.any():
                    leaves.append((number, leaf, needed, reach))
        return self._assembled(tests, leaves, order, model.decision)

    def _cut_reals(self) -> None:
        """Query a real attribute once between two neighboring thresholds."""
        for a in self.parts:
            attribute = self.domain.attributes[a]
            if attribute.kind != "real":
                continue
            mine = set(np.flatnonzero(self.owner == a).tolist())
            cuts = {
                float(t)
                for tree in self.ensemble.trees
                for t, column in zip(tree.threshold, tree.column, strict=True)
                if int(column) in mine and attribute.low < t < attribute.high
            }
            ends = np.array([attribute.low, *sorted(cuts), attribute.high], dtype=np.float64)
            middles = (ends[:-1] + ends[1:]) / 2
            self.values[a] = ends.astype(np.float64)
            self.numbers[a] = np.tile(self.base, (1, len(middles), 1)).astype(np.float64)
            self.numbers[a][0][:, sorted(mine)] = middles[:, None]

    def _assembled(
        self,
        tests: dict[int, list[Mask]],
        leaves: list[tuple[int, int, dict[int, list[tuple[int, bool]]], Mask]],
        order: list[int] | None,
        rule: DecisionRule | None,
    ) -> Forest:
        ensemble = self.ensemble
        said = np.stack([ensemble.trees[t].value[leaf] for t, leaf, _, _ in leaves])
        values_, base = (_differences(each, order, rule) for each in (said, ensemble.base[None]))
        classes = max(2, said.shape[1])
        base = np.repeat(base, len(self.every), axis=0)
        if rule is not None and rule.costs is None:
            moved, by = added(rule, self.domain, ensemble.adds), goes_by(rule, self.domain)
            if by is None:
                base = base + moved
            else:  # one more tree, with a leaf for each threshold
                for each in np.unique(moved):
                    test = len(tests[by])
                    tests[by].append((moved == each)[: len(self.numbers[by])])
                    everybody = np.ones(len(self.every), dtype=bool)
                    leaves.append((len(ensemble.trees), 0, {by: [(test, True)]}, everybody))
                    values_ = np.vstack([values_, [[each]]])
        parts: list[Cells] = []
        inside: list[Mask] = []
        allowed, unused = allowed_of(self.domain)
        ruled = () if allowed is None else allowed.parts
        for a in self.parts:
            attribute, numbers = self.domain.attributes[a], self.numbers[a]
            codes, values = numbers.shape[1], len(numbers)
            table = np.stack(tests[a]) if tests[a] else np.ones((0, values, codes), dtype=bool)
            # Values that no test distinguishes, under any sensitive value, are one cell.
            flat = table.transpose(2, 0, 1).reshape(codes, -1)
            flat = np.arange(codes)[:, None] if len(parts) in ruled else flat
            _, first, cell = np.unique(flat, axis=0, return_index=True, return_inverse=True)
            rank = np.argsort(np.argsort(first))
            cell, first = rank[cell.reshape(-1)], np.sort(first)
            if len(first) * len(leaves) > MOST_TABLE:
                raise _unsupported("trees", f"{len(leaves):,} leaves are too many")
            real = attribute.kind == "real"
            length = np.diff(self.values[a]) if real else np.ones(codes)
            weight = np.bincount(cell, length, minlength=len(first)).astype(np.float64)
            breaks = np.asarray(self.values[a][1:-1], dtype=np.float64) if real else None
            part = Cells(attribute.name, a, float(attribute.low), cell, weight, breaks)
            mask = np.ones((values, len(first), len(leaves)), dtype=bool)
            cells = table[:, :, first]  # (tests, V or 1, cells)
            for place, (_, _, needed, _) in enumerate(leaves):
                for test, left in needed.get(a, ()):
                    mask[:, :, place] &= cells[test] == left
            parts.append(part)
            inside.append(mask)
        return Forest(
            tuple(parts),
            tuple(inside),
            np.stack([reach for *_, reach in leaves], axis=1),
            np.array([t for t, *_ in leaves]),
            values_,
            base,
            classes,
            TIE if ensemble.adds == "probabilities" else TIED_ODDS,
            tuple(self.domain.sensitive),
            allowed=allowed,
            constraints=unused,
        )


def _equal(one: Rows, other: Rows) -> Mask:
    return np.asarray((one == other) | (np.isnan(one) & np.isnan(other)))


def _differences(said: Floats, order: list[int] | None, rule: DecisionRule | None) -> Floats:
    """(N, pairs) from what is said of each class, or of class 1 alone. Costs are paid by the
    probabilities, and the answer that costs less leads.
    """
    if said.shape[1] == 1:
        return -said if order is not None else said
    if order is not None:
        said = said[:, order]
    if rule is not None and rule.costs is not None:
        said = -said @ np.array(rule.costs)
    pairs = [(j, i) for i, j in combinations(range(said.shape[1]), 2)]
    later, earlier = ([pair[place] for pair in pairs] for place in (0, 1))
    return np.asarray(said[:, later] - said[:, earlier])


def _compare(forest: Forest, model: Model, domain: Domain) -> None:
    """Refuse trees that do not answer as the model does."""
    x = domain.sample(CHECKED, rng=np.random.default_rng(0))
    rows = np.ascontiguousarray(domain.counterparts(x).reshape(-1, len(domain)))
    p = model.probabilities(rows)
    ours = forest.differences(forest.cases(domain, x))
    later, earlier = ([pair[place] for pair in forest.pairs] for place in (0, 1))
    if forest.tie == TIE:
        scores = model.scores(rows, p)
        theirs = (scores[:, later] - scores[:, earlier]).reshape(ours.shape)
    else:  # compared where probabilities still tell logits apart
        p = np.maximum(p.astype(np.float64), 1e-6)
        theirs = np.log(p[:, later] / p[:, earlier]).reshape(ours.shape)
        moved = None if model.decision is None else model.decision.log_odds(rows)
        ours = ours if moved is None else ours - moved.reshape(*ours.shape[:2], 1)
        ours, theirs = np.clip(ours, -6, 6), np.clip(theirs, -6, 6)
    if np.abs(ours - theirs).max() > SAME * (1 if forest.tie == TIE else 20):
        raise UnsupportedError(
            "The trees read for the certificate answer otherwise than the model (by"
            f" {np.abs(ours - theirs).max():.3g}). Nothing is claimed. Please report this."
        )
