"""How far a search reaches (NeuronFair): its coverage of another's findings, and of biased neurons.

paper       here
CR, GD      `coverage_rate`, `generation_diversity`: which of two sets of IDIs reaches further, at a
            radius of cosine distance
§5.3        `coverage`: how many of the biased neurons instances activate
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import numpy as np

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import DataError
from fairprobe.models import TorchModel
from fairprobe.search.neuron_bias import LayerBias

ROUNDING = 1e-12  # of a cosine: a row is at distance 0 from itself
PAIRS_AT_ONCE = 4_000_000
ACTIVATED = 0.5  # of an instance's activations, min-max normalised over the layer
ROWS_AT_ONCE = 16384


def coverage_rate(of: Rows, by: Rows, radius: float) -> float:
    """The share of rows in `of` that have a row of `by` within this cosine distance."""
    if len(of) == 0:
        raise DataError("The coverage rate of no rows is not defined; the first set is empty.")
    if len(by) == 0:
        return 0.0
    unit = _unit(by).T
    at_once = max(1, PAIRS_AT_ONCE // len(by))
    near = [
        (1 - _unit(of[i : i + at_once]) @ unit).min(axis=1) <= radius + ROUNDING
        for i in range(0, len(of), at_once)
    ]
    return float(np.concatenate(near).mean())


def generation_diversity(ours: Rows, theirs: Rows, radius: float) -> float:
    """GD: above 1, our findings cover more of theirs than theirs of ours. NaN if neither covers the
    other.
    """
    forward, backward = coverage_rate(theirs, ours, radius), coverage_rate(ours, theirs, radius)
    return forward / backward if backward > 0 else nan


def _unit(x: Rows) -> Floats:
    """Rows of length one; a row of zeros stays, and is at distance 1 from all."""
    wide = x.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    return np.asarray(wide / np.where(length > 0, length, 1))


@dataclass(frozen=True)
class Coverage:
    """`each` instance's share of biased neurons that it activates, and the share of instances that
    activate each of these `neurons`.
    """

    each: Floats
    neurons: Floats

    @property
    def union(self) -> float:
        """The share of biased neurons that some instance activates."""
        return float((self.neurons > 0).mean())


def coverage(model: TorchModel, layer: LayerBias, x: Rows) -> Coverage:
    """The coverage of the layer's biased neurons by these rows."""
    if len(layer.biased) == 0:
        raise DataError(f"Layer '{layer.name}' has no biased neuron, so there is nothing to cover.")
    each, counts = [], np.zeros(len(layer.biased), dtype=np.int64)
    for start in range(0, len(x), ROWS_AT_ONCE):
        a = model.activation(x[start : start + ROWS_AT_ONCE], layer.name).cpu().numpy()
        low, high = a.min(axis=1, keepdims=True), a.max(axis=1, keepdims=True)
        spread = np.where(high > low, high - low, 1)  # a silent layer activates nothing
        activated = ((a - low) / spread > ACTIVATED)[:, layer.biased]
        each.append(activated.mean(axis=1))
        counts += activated.sum(axis=0)
    return Coverage(np.concatenate(each) if each else np.empty(0), counts / max(len(x), 1))
