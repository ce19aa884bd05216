"""Biased-neuron coverage: how many of the biased neurons an instance, or a set of instances,
switches on (NeuronFair, §5.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import DataError
from fairprobe.interpret.neuron_bias import LayerBias
from fairprobe.models import TorchModel

ACTIVATED = 0.5  # of an instance's activations, min-max normalised over the layer
ROWS_AT_ONCE = 16384


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
