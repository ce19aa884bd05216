"""NeuronFair's interpretation on images: which layer of trunk and head, and which of its neurons,
react to a change of the attribute.

Zheng et al., "NeuronFair", ICSE 2022, Algorithm 1 and §3.3; the quantities are those of
`fairprobe.search.neuron_bias`. A pair is an image and the same image with Δ_sens. A neuron is
one position of one feature map (`by="position"`, as in the paper); `by="channel"` takes a whole map
as one neuron, whose ActDiff is the mean over its positions. A vision transformer has tokens instead
of maps: a neuron is one channel of one token, or with `by="channel"` the mean of a channel over all
tokens.

Sums are computed while the network runs, so memory grows with the network and not with the number
of images.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fairprobe.arrays import Floats
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.images.change import Change, check_change, pieces
from fairprobe.images.controls import OWN, Compared
from fairprobe.images.detector import Detector
from fairprobe.images.layout import Layout
from fairprobe.images.networks import Prepared
from fairprobe.models import one_thread
from fairprobe.models.formats.own_code import own_errors
from fairprobe.models.trace import ACTIVATIONS, layer_names, source_names
from fairprobe.networks.vision_training import Images
from fairprobe.results import Count, Number, Result, Share
from fairprobe.search.neuron_bias import THRESHOLDS, LayerBias, NeuronBias

By = Literal["position", "channel"]
AT_ONCE = 32  # pairs


class Tap(TorchFunctionMode):
    """Passes every activation to `look` as soon as it is computed: (number of the call, output, and
    whether its channels are last, as those of tokens are).
    """

    def __init__(self, look: Callable[[int, Tensor, bool], None]) -> None:
        super().__init__()
        self._look, self._calls, self._layout = look, 0, Layout()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._layout.see(func, result)
        if func in ACTIVATIONS:
            call, self._calls = self._calls, self._calls + 1
            self._look(call, result, self._layout.is_channels_last(result))
        return result


class LayerReaction(Result, frozen=True, kw_only=True):
    """The AS curve of a layer under one change, and the area under it."""

    auc: Number
    curve: list[Share]


class ImageLayer(Result, frozen=True, kw_only=True):
    """How strongly a layer's neurons react. Its values are maps, tokens (of a vision transformer)
    or single numbers.
    """

    name: str
    layout: Literal["maps", "tokens", "dense"] | None
    neurons: Count
    threshold: Number
    biased: Count
    reaction: Compared[LayerReaction]

    @property
    def auc(self) -> float:
        return self.reaction.own.auc


class ImageInterpretation(Result, frozen=True, kw_only=True):
    """The reactions of all hidden layers to the change of the attribute."""

    pairs: Count
    by: By
    most_biased: str
    thresholds: list[Number]
    layers: list[ImageLayer]

    def __post_init__(self) -> None:
        if self.most_biased not in {layer.name for layer in self.layers}:
            raise ValueError(f"the most biased layer '{self.most_biased}' is not among the layers")
        reactions = [
            reaction for layer in self.layers for reaction in layer.reaction.named.values()
        ]
        if any(len(reaction.curve) != len(self.thresholds) for reaction in reactions):
            raise ValueError("a curve has another number of points than there are thresholds")

    @property
    def most_biased_layer(self) -> ImageLayer:
        return next(layer for layer in self.layers if layer.name == self.most_biased)


def interpretation(
    bias: Mapping[str, NeuronBias], layouts: Mapping[str, str], by: By
) -> ImageInterpretation:
    """Summarize the interpretation of each change; `layouts` are those of the layers by name."""
    own = bias[OWN]
    return ImageInterpretation(
        pairs=own.pairs,
        by=by,
        most_biased=own.most_biased.name,
        thresholds=np.round(THRESHOLDS, 3).tolist(),
        layers=[
            ImageLayer(
                name=layer.name,
                layout=layouts.get(layer.name),  # type: ignore[arg-type]
                neurons=layer.neurons,
                threshold=layer.threshold,
                biased=len(layer.biased),
                reaction=Compared.of({key: _reaction(bias[key].layers[at]) for key in bias}),
            )
            for at, layer in enumerate(own.layers)
        ],
    )


def _reaction(layer: LayerBias) -> LayerReaction:
    return LayerReaction(auc=layer.auc, curve=np.round(layer.curve, 4).tolist())


def image_bias(
    network: nn.Module,
    images: Images,
    change: Change,
    *,
    by: By = "position",
    batch: int = AT_ONCE,
    progress: Callable[[int, int], None] | None = None,
) -> NeuronBias:
    """Compare every image with the changed one, in every hidden layer."""
    check_change(images, change)
    if by not in ("position", "channel"):
        raise SettingError(
            f"A neuron is a position of a map (position) or a whole map (channel); got '{by}'."
        )
    if len(images) == 0:
        raise DataError("The interpretation needs at least one image.")
    names: list[str] = []
    sums: list[_Sums] = []

    def look(call: int, output: Tensor, channels_last: bool) -> None:
        if call < len(sums):  # a final sigmoid is seen as well, but it is not a layer
            sums[call].add(output, channels_last=channels_last)

    network.eval()
    with one_thread(), torch.inference_mode():
        for rows, x in pieces(network, images, batch):
            if not names:
                names = hidden_layers(network, x[:1])
                sums += [_Sums(by) for _ in names]
            pair = torch.cat([x, (x + torch.from_numpy(change.delta[rows]).to(x)).clamp_(0, 1)])
            with Tap(look):
                network(pair)
            if progress is not None:
                progress(rows.stop, len(images))
    return NeuronBias(
        tuple(one.layer(name) for name, one in zip(names, sums, strict=True)), pairs=len(images)
    )


def hidden_layers(network: nn.Module, image: Tensor) -> list[str]:
    """Return the names of the layers, found with one image (1, channels, height, width)."""
    inside = network.inside if isinstance(network, Detector) else network
    with own_errors(f"The network does not take images of shape {tuple(image.shape[1:])}"):
        names, _ = layer_names(inside, image)
        authors = source_names(inside, lambda: inside(image), ACTIVATIONS)
    if authors is not None:  # a final sigmoid is the last of them, but no layer
        names = authors[: len(names)]
    elif isinstance(inside, Prepared):  # a wrapper that is not the author's
        names = [name.removeprefix("module.") for name in names]
    if not names:
        raise ModelError(
            "The network has no hidden layer with an activation function, so there is nothing to"
            " interpret."
        )
    return names


def layer_layouts(network: nn.Module, image: Images) -> dict[str, str]:
    """Return what the values of each hidden layer are: maps, tokens or single numbers (dense),
    found with one image.
    """
    found: list[str] = []

    def look(_: int, output: Tensor, channels_last: bool) -> None:
        maps = "tokens" if channels_last else "maps"
        found.append("dense" if output.ndim == 2 else maps)

    network.eval()
    with one_thread(), torch.inference_mode():
        ((_, x),) = pieces(network, image, 1)
        names = hidden_layers(network, x)
        with Tap(look):
            network(x)
    return dict(zip(names, found, strict=False))  # a final sigmoid is no layer


class _Sums:
    """Sums over all pairs so far, for each neuron of a layer: differences, activations and their
    squares.
    """

    def __init__(self, by: By) -> None:
        self._by, self._count = by, 0
        self._totals: list[Tensor] = []

    def add(self, output: Tensor, *, channels_last: bool = False) -> None:
        if channels_last and self._by == "channel":  # tokens: the mean is taken over them
            output = output.movedim(-1, 1)
        mine, other = output.chunk(2)
        self._count += len(mine)
        new = [
            self._total((mine - other).abs()),
            self._total(mine),
            self._total(mine.double().square()),
        ]
        self._totals = (
            [a + b for a, b in zip(self._totals, new, strict=True)] if self._totals else new
        )

    def _total(self, values: Tensor) -> Tensor:
        if self._by == "channel" and values.ndim > 2:
            return values.flatten(2).mean(dim=2, dtype=torch.float64).sum(dim=0)
        return values.sum(dim=0, dtype=torch.float64).flatten()

    def layer(self, name: str) -> LayerBias:
        difference, mean, squares = (total.cpu().numpy() / self._count for total in self._totals)
        if not np.isfinite(difference).all():
            raise ModelError(
                f"Layer '{name}' gives values that are not finite. Check the network's weights and"
                " the scale of its inputs."
            )
        variance: Floats = np.maximum(squares - mean**2, 0)
        variance[variance < 1e-12 * mean**2] = 0  # rounding of the squares
        return LayerBias(name, difference, np.sqrt(variance))
