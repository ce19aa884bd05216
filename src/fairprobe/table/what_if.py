"""Single people: what a model answers, what it would answer otherwise, and which
neurons make the difference.

The shortest change that flips a decision is the one with the fewest attributes; among these, the
one with the smallest sum of steps. A step is the share of its range that a number moves, and 1 for
another category. Sensitive attributes, and what changes along with them, stay: what they do is what
`sensitive_answers` shows. Every change is made of values within the bounds, obeys the constraints,
and its decision is not a tie. Of attributes with many values an even selection is tried, and a
number that was changed is then moved back as far as the decision allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from math import isqrt

import numpy as np

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.judgement import TIE, labels_and_lead
from fairprobe.models import Model, TorchModel
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain

VALUES = 200  # of one attribute that are tried alone
MOST_ROWS = 200_000  # that are tried for changes of two attributes
HALVINGS = 24  # of the way back to the person's own value


@dataclass(frozen=True)
class Answers:
    """Answers of a model to some rows: `is_sure` where the decision is not a tie."""

    x: Rows
    labels: Ints
    probabilities: Rows
    is_sure: Mask


@dataclass(frozen=True)
class Flip:
    """Change of some attributes after which the person is given another answer."""

    x: Rows
    changed: tuple[str, ...]
    label: int
    probabilities: Rows
    tried: int  # rows


def ask(model: Model, x: Rows) -> Answers:
    """Return the decision about each row, and the probabilities of all classes."""
    p = model.probabilities(x)
    labels, lead = labels_and_lead(model.scores(x, p))
    return Answers(x, labels, p, lead > TIE)


def sensitive_answers(domain: Domain, model: Model, row: Rows) -> tuple[Answers, Mask]:
    """Return the answers to a person with every combination of sensitive values, in the order of
    `domain.sensitive_values`, and which of these people the constraints allow.
    """
    every = domain.counterparts(row[None])[0]
    return ask(model, every), domain.satisfies(every)


def reactions(model: TorchModel, one: Rows, other: Rows) -> dict[str, Floats]:
    """Compare two people: the difference of each neuron of each hidden layer."""
    return {
        name: (values[1] - values[0]).abs().double().cpu().numpy()
        for name, values in model.activations(np.stack([one, other])).items()
    }


def shortest_flip(
    domain: Domain, model: Model, row: Rows, *, most_rows: int = MOST_ROWS
) -> Flip | None:
    """Find the shortest change of one or two attributes after which the decision is another one;
    None if there is none among those that were tried.
    """
    label = int(ask(model, row[None]).labels[0])
    free = [name for name in domain.names if name not in domain.changing]
    tried = 0
    for count in (1, 2):
        together = [*combinations(free, count)]
        each = VALUES if count == 1 else max(2, isqrt(most_rows // max(1, len(together))))
        rows = np.concatenate(
            [np.empty((0, len(row)), np.float32), *_moved(domain, row, together, each)]
        )
        rows = rows[domain.satisfies(rows)]
        tried += len(rows)
        if len(rows) and (best := _nearest(domain, model, row, rows, label)) is not None:
            return _drawn_back(domain, model, row, best, tried)
    return None


def _moved(domain: Domain, row: Rows, together: list[tuple[str, ...]], each: int) -> Iterator[Rows]:
    """Return the person with all combinations of other values of these attributes."""
    others = {
        name: _others(domain[name], float(row[domain.index(name)]), each) for name in domain.names
    }
    for names in together:
        values = np.array([*product(*(others[name] for name in names))], dtype=np.float32)
        if len(values):
            rows = np.repeat(row[None], len(values), axis=0)
            rows[:, [domain.index(name) for name in names]] = values
            yield rows


def _others(attribute: Attribute, own: float, most: int) -> Floats:
    """List values within the bounds other than the person's own: all, or an even selection."""
    size = attribute.size
    if size is not None and size <= most:
        values = np.arange(attribute.low, attribute.high + 1, dtype=np.float64)
    else:
        values = np.linspace(attribute.low, attribute.high, most)
        values = np.unique(values if size is None else np.rint(values))
    return np.asarray(values[values != own], dtype=np.float64)


def _steps(domain: Domain, row: Rows, rows: Rows) -> Floats:
    """Measure how far each row is from the person."""
    steps = np.abs(rows.astype(np.float64) - row)
    for column, attribute in enumerate(domain.attributes):
        if attribute.kind == "categorical":
            steps[:, column] = steps[:, column] != 0
        else:
            steps[:, column] /= max(attribute.high - attribute.low, 1e-30)
    return np.asarray(steps.sum(axis=1))


def _nearest(domain: Domain, model: Model, row: Rows, rows: Rows, label: int) -> Rows | None:
    answers = ask(model, rows)
    flipped = rows[(answers.labels != label) & answers.is_sure]
    if len(flipped) == 0:
        return None
    nearest: Rows = flipped[_steps(domain, row, flipped).argmin()]
    return nearest


def _drawn_back(domain: Domain, model: Model, row: Rows, best: Rows, tried: int) -> Flip:
    """Move changed numbers back towards the person's own as far as the decision stays flipped."""
    new = int(ask(model, best[None]).labels[0])
    for column in np.flatnonzero(best != row).tolist():
        attribute = domain.attributes[column]
        if attribute.kind == "categorical" or attribute.missing == row[column]:
            continue
        near, far = float(row[column]), float(best[column])
        for _ in range(HALVINGS):
            middle = (near + far) / 2
            middle = middle if attribute.kind == "real" else float(np.rint(middle))
            if middle in (near, far):
                break
            candidate = best.copy()
            candidate[column] = middle
            answer, tried = ask(model, candidate[None]), tried + 1
            holds = (
                int(answer.labels[0]) == new
                and bool(answer.is_sure[0])
                and bool(domain.satisfies(candidate[None])[0])
            )
            near, far = (near, middle) if holds else (middle, far)
        best[column] = far
    answers = ask(model, best[None])
    changed = tuple(domain.names[column] for column in np.flatnonzero(best != row))
    return Flip(best, changed, new, answers.probabilities[0], tried)
