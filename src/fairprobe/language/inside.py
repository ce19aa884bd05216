"""Look inside a text network: how strongly the neurons of each layer react to an exchange of
groups, compared with the control. Algorithm 1 of NeuronFair, on pairs of texts.

A layer is an embedding, a recurrent network, or one call of an activation function. Where a layer
returns a vector for each token, the vectors of a text are averaged, because exchanged words may
have different numbers of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fairprobe.arrays import Floats
from fairprobe.errors import ModelError
from fairprobe.models.formats.text_network import network_logits
from fairprobe.models.text import TextNetwork
from fairprobe.models.trace import ACTIVATIONS
from fairprobe.results import Count, Number, Result, Share
from fairprobe.search.neuron_bias import LayerBias, NeuronBias

MAX_PAIRS = 1000  # pairs of texts that are compared
BATCH = 32
TOP = 0.2  # share of the neurons: what part of the difference they hold
WATCHED = (nn.Embedding, nn.EmbeddingBag, nn.RNNBase)


class TextLayer(Result, frozen=True, kw_only=True):
    """How a layer reacts to an exchange of groups and to the control: AUC of the AS curve, with
    and without the scale of its neurons, the curve itself, the ratio of the mean differences, and
    their concentration: `top_share` is the part that a fifth of the neurons hold.
    """

    name: str
    neurons: Count
    auc: Number
    auc_control: Number
    scale_free: Number
    scale_free_control: Number
    ratio: Number | None
    top_share: Share
    biased: list[Count]
    curve: list[Share]
    curve_control: list[Share]


class TextInterpretation(Result, frozen=True, kw_only=True):
    """Activation differences by layer."""

    pairs: Count
    control_pairs: Count
    layers: list[TextLayer]
    most_biased: str

    def __post_init__(self) -> None:
        curves = [(layer.curve, layer.curve_control) for layer in self.layers]
        sizes = {len(curve) for both in curves for curve in both}
        if len(sizes) != 1 or min(sizes) < 2:
            raise ValueError("curves of different lengths, or of a single point")
        if self.most_biased not in [layer.name for layer in self.layers]:
            raise ValueError(f"the layer {self.most_biased} is missing")

    @property
    def most_biased_layer(self) -> TextLayer:
        return next(layer for layer in self.layers if layer.name == self.most_biased)

    @property
    def guiding_layer(self) -> TextLayer:
        """Return the layer that reacts most, compared with the control."""
        return max(self.layers, key=lambda layer: layer.ratio or 0.0)


class Recorder(TorchFunctionMode):
    """Runs a network and keeps, for each layer, one vector of each text."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._module, self._path = module, [""]
        self.layers: dict[str, Tensor] = {}

    def run(self, network: TextNetwork, texts: Sequence[str]) -> dict[str, Tensor]:
        """Return the vectors of the hidden layers; the output is none of them."""
        self.layers = {}
        hooks = []
        for name, child in self._module.named_modules():
            hooks.append(child.register_forward_pre_hook(self._enter(name)))
            hooks.append(child.register_forward_hook(self._leave))
        try:
            with self:
                logits = network_logits(network, texts)
        finally:
            for hook in hooks:
                hook.remove()
        last = next(reversed(self.layers), None)
        if last is not None and self.layers[last].shape == logits.shape:
            del self.layers[last]
        return self.layers

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in ACTIVATIONS and isinstance(result, Tensor):
            self._keep(self._path[-1] or func.__name__, result)
        return result

    def _enter(self, name: str) -> Callable[..., None]:
        return lambda *_: self._path.append(name)

    def _leave(self, module: nn.Module, _: Any, output: Any) -> None:
        name = self._path.pop()
        tensor = output[0] if isinstance(output, tuple) else output
        if isinstance(module, WATCHED) and isinstance(tensor, Tensor):
            self._keep(name, tensor)

    def _keep(self, name: str, output: Tensor) -> None:
        if output.ndim < 2:
            return
        vector = output.flatten(1, -2).mean(dim=1) if output.ndim > 2 else output
        earlier = sum(layer.split("#")[0] == name for layer in self.layers)
        self.layers[f"{name}#{earlier + 1}" if earlier else name] = vector


def text_bias(
    network: TextNetwork,
    pairs: Sequence[tuple[str, str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> NeuronBias:
    """Compare the two texts of every pair in every layer."""
    sums: dict[str, Floats] = {}
    recorder = Recorder(network.module)
    for start in range(0, len(pairs), BATCH):
        batch = pairs[start : start + BATCH]
        texts = [first for first, _ in batch] + [second for _, second in batch]
        with torch.no_grad():
            layers = recorder.run(network, texts)
        for name, output in layers.items():
            if len(output) != len(texts):
                continue
            first, second = (half.double().cpu().numpy() for half in output.chunk(2))
            new = np.stack([np.abs(first - second), first, first**2]).sum(axis=1)
            sums[name] = sums[name] + new if name in sums else new
        if progress is not None:
            progress(min(start + BATCH, len(pairs)), len(pairs))
    if not sums:
        raise ModelError("The network has no layer that could be compared between texts.")
    return NeuronBias(
        tuple(_layer(name, total / len(pairs)) for name, total in sums.items()), len(pairs)
    )


def _layer(name: str, means: Floats) -> LayerBias:
    difference, mean, square = means
    variance: Floats = np.maximum(square - mean**2, 0)
    return LayerBias(name, difference, np.sqrt(variance))


def look_inside(
    network: TextNetwork,
    cross: Sequence[tuple[str, str]],
    control: Sequence[tuple[str, str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> TextInterpretation:
    """Run Algorithm 1 for the same number of exchanges with another group and of the control."""
    count = min(len(cross), len(control), MAX_PAIRS)
    first = text_bias(network, cross[:count], progress=progress)
    second = text_bias(network, control[:count], progress=progress)
    return TextInterpretation(
        pairs=count,
        control_pairs=count,
        layers=list(map(_compared, first.layers, second.layers)),
        most_biased=first.most_biased.name,
    )


def _compared(cross: LayerBias, control: LayerBias) -> TextLayer:
    """Compare the reactions of a layer to both kinds of exchanges."""
    difference = float(control.difference.mean())
    ordered = np.sort(cross.difference)[::-1]
    total = float(ordered.sum())
    top = float(ordered[: max(round(TOP * len(ordered)), 1)].sum())
    return TextLayer(
        name=cross.name,
        neurons=cross.neurons,
        auc=cross.auc,
        auc_control=control.auc,
        scale_free=cross.auc_scale_free,
        scale_free_control=control.auc_scale_free,
        ratio=float(cross.difference.mean()) / difference if difference > 0 else None,
        top_share=min(top / total, 1.0) if total > 0 else 0.0,
        biased=cross.biased.tolist(),
        curve=cross.curve.tolist(),
        curve_control=control.curve.tolist(),
    )
