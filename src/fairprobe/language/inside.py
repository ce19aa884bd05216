"""Looking inside a text network: how strongly the neurons of each layer react to an exchange of
groups, beside the control. Algorithm 1 of NeuronFair, on pairs of texts.

A layer is an embedding, a recurrent network, or one call of an activation function. Where a layer
gives a vector for each token, the vectors of a text are averaged, because exchanged words may have
different numbers of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import ModelError
from fairprobe.interpret.neuron_bias import LayerBias, NeuronBias
from fairprobe.models.formats.text_network import network_logits
from fairprobe.models.text import TextNetwork
from fairprobe.models.trace import ACTIVATIONS

PAIRS = 1000  # pairs of texts that are compared at most
BATCH = 32
TOP = 0.2  # of the neurons: which part of the difference they hold
WATCHED = (nn.Embedding, nn.EmbeddingBag, nn.RNNBase)


@dataclass(frozen=True)
class Inside:
    """The interpretation of exchanges with another group, and of the control."""

    cross: NeuronBias
    control: NeuronBias

    def ratio(self, layer: int) -> float | None:
        """By how much the mean difference of a layer exceeds that of the control."""
        mine, its = (
            float(each.layers[layer].difference.mean()) for each in (self.cross, self.control)
        )
        return mine / its if its > 0 else None

    @staticmethod
    def top_share(layer: LayerBias) -> float:
        """The part of the layer's difference that a fifth of its neurons hold."""
        ordered = np.sort(layer.difference)[::-1]
        total = float(ordered.sum())
        first = max(round(TOP * len(ordered)), 1)
        return float(ordered[:first].sum()) / total if total > 0 else 0.0


class Recorder(TorchFunctionMode):
    """Runs a network and keeps, for each layer, one vector of each text."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self._module, self._path = module, [""]
        self.layers: dict[str, Tensor] = {}
        self._last: Tensor | None = None

    def run(self, network: TextNetwork, texts: Sequence[str]) -> dict[str, Tensor]:
        """The vectors of the hidden layers; what is computed from the last layer is none."""
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
        outputs = [name for name, each in self.layers.items() if each.shape == logits.shape]
        last = next(reversed(self.layers), None)
        if last in outputs:
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
        found = output[0] if isinstance(output, tuple) else output
        if isinstance(module, WATCHED) and isinstance(found, Tensor):
            self._keep(name, found)

    def _keep(self, name: str, output: Tensor) -> None:
        if output.ndim < 2:
            return
        vector = output.flatten(1, -2).mean(dim=1) if output.ndim > 2 else output
        seen = sum(each.split("#")[0] == name for each in self.layers)
        self.layers[f"{name}#{seen + 1}" if seen else name] = vector


def text_bias(
    network: TextNetwork,
    pairs: Sequence[tuple[str, str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> NeuronBias:
    """Compares the two texts of every pair in every layer."""
    sums: dict[str, list[Floats]] = {}
    recorder = Recorder(network.module)
    for start in range(0, len(pairs), BATCH):
        part = pairs[start : start + BATCH]
        texts = [first for first, _ in part] + [second for _, second in part]
        with torch.no_grad():
            layers = recorder.run(network, texts)
        for name, output in layers.items():
            if len(output) != len(texts):
                continue
            mine, other = (each.double().cpu().numpy() for each in output.chunk(2))
            new = [np.abs(mine - other).sum(axis=0), mine.sum(axis=0), (mine**2).sum(axis=0)]
            sums[name] = (
                [a + b for a, b in zip(sums[name], new, strict=True)] if name in sums else new
            )
        if progress is not None:
            progress(min(start + BATCH, len(pairs)), len(pairs))
    if not sums:
        raise ModelError("The network has no layer that could be compared between texts.")
    return NeuronBias(
        tuple(_layer(name, each, len(pairs)) for name, each in sums.items()), len(pairs)
    )


def _layer(name: str, sums: list[Floats], pairs: int) -> LayerBias:
    difference, mean, squares = (each / pairs for each in sums)
    variance: Floats = np.maximum(squares - mean**2, 0)
    return LayerBias(name, difference, np.sqrt(variance))


def look_inside(
    network: TextNetwork,
    cross: Sequence[tuple[str, str]],
    control: Sequence[tuple[str, str]],
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Inside:
    """Algorithm 1 for exchanges with another group and for those of the control, as many of
    each.
    """
    count = min(len(cross), len(control), PAIRS)
    both = [text_bias(network, each[:count], progress=progress) for each in (cross, control)]
    return Inside(both[0], both[1])


def biased_neurons(inside: Inside) -> tuple[str, Ints]:
    """The layer that reacts most, compared with the control, and its biased neurons."""
    layers = inside.cross.layers
    place = max(range(len(layers)), key=lambda number: inside.ratio(number) or 0.0)
    return layers[place].name, layers[place].biased
