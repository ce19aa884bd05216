"""NeuronFair's interpretation: which layer, and which of its neurons, react to the sensitive
attribute (Algorithm 1).

Zheng et al., "NeuronFair: Interpretable White-Box Fairness Testing through Biased Neuron
Identification", ICSE 2022.

    paper                           here
    ActDiff z[l,k]                  `LayerBias.difference`
    ẑ = tanh(z)                     `LayerBias.squashed`
    SenNeuR(t), the AS curve        `LayerBias.curve`
    AUC                             `LayerBias.auc`; of the most biased layer, `NeuronBias.auc`
    T_d                             `LayerBias.threshold`
    p, the biased neurons           `LayerBias.biased`

Choices where the paper is silent: pairs are the whole data, each row against all its other
sensitive values; T_d is the first threshold whose SenNeuR is not above it; where no neuron lies
above T_d (all that are left share one step of the grid), those above the threshold before it are
the biased ones.

Beside the paper: `auc_scale_free` divides ActDiff by the neuron's standard deviation over the data
first, because tanh saturates on networks with large activations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.documents.table import TableMeasurements
from fairprobe.errors import DataError, ModelError
from fairprobe.measures import Measure, Reading, by
from fairprobe.models import TorchModel
from fairprobe.schema.domain import Domain

GRID = 0.005  # distance between two thresholds of the AS curve
THRESHOLDS: Floats = (
    np.arange(0, 201, dtype=np.float64) * GRID
)  # tanh < 1, so the curve has come down to zero at its end
ROWS_AT_ONCE = 16384


@dataclass(frozen=True)
class LayerBias:
    """Reaction of a layer to the sensitive attribute; `deviation` is each neuron's standard
    deviation over the data.
    """

    name: str
    difference: Floats
    deviation: Floats

    @property
    def neurons(self) -> int:
        return len(self.difference)

    @property
    def squashed(self) -> Floats:
        return np.tanh(self.difference)

    @property
    def curve(self) -> Floats:
        """Share of neurons above each of `THRESHOLDS`."""
        return _curve(self.squashed)

    @property
    def auc(self) -> float:
        return float(self.curve.sum() * GRID)

    @property
    def auc_scale_free(self) -> float:
        relative = np.divide(
            self.difference,
            self.deviation,
            out=np.zeros_like(self.difference),
            where=self.deviation > 0,
        )
        return float(_curve(np.tanh(relative)).sum() * GRID)

    @property
    def threshold(self) -> float:
        return float(THRESHOLDS[self._crossing])

    @property
    def biased(self) -> Ints:
        above = np.flatnonzero(self.squashed > self.threshold)
        if len(above) == 0 and self._crossing > 0:
            above = np.flatnonzero(self.squashed > THRESHOLDS[self._crossing - 1])
        return above.astype(np.int64)

    @property
    def _crossing(self) -> int:
        return int(np.argmax(self.curve <= THRESHOLDS))


@dataclass(frozen=True)
class NeuronBias:
    """Interpretation of a network: every hidden layer, and the one that reacts most."""

    layers: tuple[LayerBias, ...]
    pairs: int

    @property
    def most_biased(self) -> LayerBias:
        return max(self.layers, key=lambda layer: layer.auc)

    @property
    def auc(self) -> float:
        """0: no neuron reacts to the sensitive attribute."""
        return self.most_biased.auc


def neuron_bias(
    domain: Domain,
    model: TorchModel,
    x: Rows,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> NeuronBias:
    """Compare every row with its counterparts, in every hidden layer. Rows may lie outside the
    bounds of the other attributes.
    """
    if len(x) == 0:
        raise DataError("The interpretation needs at least one row.")
    if not model.layers(x):
        raise ModelError(
            "The network has no hidden layer with an activation function, so there is nothing to"
            " interpret."
        )
    sums: dict[str, list[torch.Tensor]] = {}  # of differences, of activations, of their squares
    at_once = max(1, ROWS_AT_ONCE // domain.value_count)
    for start in range(0, len(x), at_once):
        part = x[start : start + at_once]
        own = torch.from_numpy(domain.own_value(part))
        for name, flat in model.activations(
            domain.counterparts(part).reshape(-1, len(domain))
        ).items():
            every = flat.reshape(len(part), domain.value_count, -1)  # (n, V, neurons)
            mine = every[torch.arange(len(part)), own.to(every.device)]
            difference = (every - mine[:, None]).abs().sum(dim=1)  # a row's own value adds zero
            new = [value.double().sum(dim=0) for value in (difference, mine, mine.double() ** 2)]
            sums[name] = (
                [a + b for a, b in zip(sums[name], new, strict=True)] if name in sums else new
            )
        if progress is not None:
            progress(min(start + at_once, len(x)), len(x))
    layers = tuple(
        _layer(name, [value.cpu().numpy() for value in total], len(x), domain.value_count)
        for name, total in sums.items()
    )
    for layer in layers:
        if not np.isfinite(layer.difference).all():
            raise ModelError(
                f"Layer '{layer.name}' gives values that are not finite. Check the network's"
                " weights and the scale of its inputs."
            )
    return NeuronBias(layers, pairs=len(x) * (domain.value_count - 1))


def _layer(name: str, sums: list[Floats], rows: int, values: int) -> LayerBias:
    difference, mine, squares = sums
    mean = mine / rows
    variance = np.maximum(squares / rows - mean**2, 0)
    # The squares carry rounding: a variance that small beside the mean is none.
    variance[variance < 1e-12 * mean**2] = 0
    return LayerBias(name, difference / rows / (values - 1), np.sqrt(variance))


def _curve(squashed: Floats) -> Floats:
    above = len(squashed) - np.searchsorted(np.sort(squashed), THRESHOLDS, side="right")
    return above / len(squashed)


def _read_auc(document: TableMeasurements) -> list[Reading]:
    what = f"reaction of the most biased layer to {by(document)} (AUC)"
    if document.interpretation is None:
        missing = (
            "no neurons can be seen in the model. Give the network itself, one with hidden layers,"
            " or take auc out of the policy"
        )
        return [Reading(what=what, missing=missing)]
    inside = document.interpretation
    on = f"{inside.pairs:,} pairs, layer “{inside.most_biased}”"
    return [Reading(what=what, estimate=inside.auc, measured_on=on)]


AUC = Measure(
    name="auc",
    title="Reaction of the most biased layer (AUC)",
    about="How strongly the neurons of the most biased layer react to the attribute.",
    unit="number",
    direction="at most",
    read=_read_auc,
    favors_constant=False,
)
