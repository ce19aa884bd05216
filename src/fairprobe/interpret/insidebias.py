"""InsideBias: images of a group about which a network learned little excite its last layers less;
a few images of each group show it.

Serna et al., "InsideBias: Measuring Bias in Deep Networks and Application to Face Gender
Biometrics", ICPR 2020.

    paper                           here
    λ[l], of a group                `LayerActivation.activation`
    λ'[l], normalised               `InsideBias.curves`
    Λ[l], the Activation Ratio      `LayerActivation.ratio`; of the layer that decides,
                                    `InsideBias.ratio`
    τ                               `InsideBias.tau`

Choices where the paper is silent: activations after the activation function; the strongest map is
taken for each image and then averaged over the group (`order="image"`; the other order is an
option); the last convolutional layer decides, in a network without convolutions the last hidden
one; a curve is divided by its own greatest value over the layers.

Beside the paper: a ratio of the lowest to the highest group lies below 1 by chance alone, the more
so the fewer images there are. So Λ has a bootstrap interval and a permutation null at the same
group sizes, and "not distinguishable" is a verdict. A dark image excites most networks less, even
some untrained ones: `even_brightness` gives images of equal brightness for a second measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from torch import nn

from fairprobe.arrays import Floats
from fairprobe.errors import ModelError, SettingError
from fairprobe.interpret.excitement import AT_ONCE, Excitement, Images, Order, excitement

Pixels: TypeAlias = "npt.NDArray[Any]"
Conclusion = Literal["biased", "unbiased", "not distinguishable"]

CONFIDENCE = 0.95  # of the interval and of the permutation test
RESAMPLES = 1000
FEWEST = 100
DRAWN_AT_ONCE = 1 << 22  # numbers of a resample in memory
TINY = np.finfo(np.float64).tiny
WIDEST = 700.0  # on the log scale: a group that some resamples show as silent


@dataclass(frozen=True)
class LayerActivation:
    """One layer: λ of each group, their ratio Λ with its interval, and how often chance alone gives
    a Λ as low (`p_value`).

    Where some group does not excite the layer at all, or its values are negative, a ratio means
    nothing and is None.
    """

    name: str
    maps: int
    is_convolution: bool
    activation: tuple[float, ...]
    ratio: float | None
    low: float | None
    high: float | None
    p_value: float | None
    by_chance: float | None
    """The median Λ of groups that are drawn at random from all images together."""


@dataclass(frozen=True)
class InsideBias:
    """What the groups excite in each layer, and what follows from the deciding layer. Groups are in
    the order in which they were given.
    """

    groups: tuple[str, ...]
    images: tuple[int, ...]
    layers: tuple[LayerActivation, ...]
    decisive: LayerActivation
    tau: float
    order: Order
    resamples: int

    @property
    def ratio(self) -> float:
        assert self.decisive.ratio is not None  # refused otherwise
        return self.decisive.ratio

    @property
    def highest(self) -> str:
        """The group that excites the deciding layer most: the one that the network knows best."""
        return self.groups[int(np.argmax(self.decisive.activation))]

    @property
    def lowest(self) -> str:
        return self.groups[int(np.argmin(self.decisive.activation))]

    @property
    def is_below(self) -> bool:
        """The paper's rule: whether Λ lies below τ."""
        return self.ratio < self.tau

    @property
    def verdict(self) -> Conclusion:
        """Biased: Λ is below τ, and chance seldom gives one as low. Unbiased: the whole interval
        lies above τ.
        """
        assert self.decisive.p_value is not None
        assert self.decisive.low is not None
        if self.is_below and self.decisive.p_value <= 1 - CONFIDENCE:
            return "biased"
        return "unbiased" if self.decisive.low >= self.tau else "not distinguishable"

    @property
    def curves(self) -> dict[str, tuple[float, ...]]:
        """Each group's λ over the layers, divided by its greatest (figure 4)."""
        rows = np.array([layer.activation for layer in self.layers])
        greatest = rows.max(axis=0)
        normal = np.divide(rows, greatest, out=np.zeros_like(rows), where=greatest > 0)
        return {name: tuple(normal[:, at].tolist()) for at, name in enumerate(self.groups)}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "groups": [
                {"name": name, "images": count}
                for name, count in zip(self.groups, self.images, strict=True)
            ],
            "decisive": self.decisive.name,
            "ratio": self.ratio,
            "low": self.decisive.low,
            "high": self.decisive.high,
            "p_value": self.decisive.p_value,
            "by_chance": self.decisive.by_chance,
            "tau": self.tau,
            "verdict": self.verdict,
            "highest": self.highest,
            "lowest": self.lowest,
            "order": self.order,
            "confidence": CONFIDENCE,
            "resamples": self.resamples,
            "layers": [
                {**vars(layer), "activation": dict(zip(self.groups, layer.activation, strict=True))}
                for layer in self.layers
            ],
            "curves": {name: list(curve) for name, curve in self.curves.items()},
        }


def insidebias(
    model: nn.Module,
    groups: Mapping[str, Images],
    *,
    tau: float = 0.8,
    layers: Sequence[str] | None = None,
    order: Order = "image",
    channels_last: bool = False,
    batch: int = AT_ONCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> InsideBias:
    """Compare how strongly the images of each group excite the network. Images are passed to it
    unscaled.

    `layers` names the layers to compare instead of all. `channels_last` is for networks whose maps
    are (height, width, channels), as in Keras.
    """
    excited = excitement(
        model,
        groups,
        layers=layers,
        order=order,
        channels_last=channels_last,
        batch=batch,
        progress=progress,
    )
    return compare(excited, tau=tau, resamples=resamples, seed=seed)


def compare(
    excited: Excitement, *, tau: float = 0.8, resamples: int = RESAMPLES, seed: int = 0
) -> InsideBias:
    """λ, Λ and the verdict, with resampled images for the interval and exchanged groups for what
    chance does.
    """
    if not 0 < tau <= 1:
        raise SettingError(f"The threshold τ lies above 0 and at most at 1; got {tau:g}.")
    if resamples < FEWEST:
        raise SettingError(f"An interval needs {FEWEST} resamples or more; got {resamples}.")
    if seed < 0:
        raise SettingError(f"The seed must be a whole number from 0; got {seed}.")
    sizes = tuple(len(part) for part in excited.values[0])
    seeds = np.random.SeedSequence(seed).spawn(2)
    levels = [np.array([part.mean(axis=0).max() for part in layer]) for layer in excited.values]
    moved = _bootstrap(excited.values, resamples, np.random.default_rng(seeds[0]))
    exchanged = _permuted(excited.values, resamples, np.random.default_rng(seeds[1]))
    layers = tuple(
        _layer(name, maps, is_convolution, level, moved[:, at], exchanged[:, at])
        for at, (name, maps, is_convolution, level) in enumerate(
            zip(excited.names, excited.maps, excited.convolutions, levels, strict=True)
        )
    )
    decisive = [layer for layer in layers if layer.is_convolution] or list(layers)
    if decisive[-1].ratio is None:
        raise ModelError(
            f"In layer '{decisive[-1].name}' some group's λ is not above 0, and then their ratio"
            " means nothing; the layer is dead or its activation function gives negative values."
            " Name another layer."
        )
    return InsideBias(excited.groups, sizes, layers, decisive[-1], tau, excited.order, resamples)


def even_brightness(groups: Mapping[str, Pixels]) -> dict[str, Pixels]:
    """The same images, each as bright as all are on average, for a control. Pixels are bytes, or
    numbers from 0 to 1.
    """
    means = {
        name: images.reshape(len(images), -1).mean(axis=1, dtype=np.float64)
        for name, images in groups.items()
    }
    wanted = np.concatenate(list(means.values())).mean()
    return {
        name: _scaled(groups[name], np.divide(wanted, own, out=np.ones_like(own), where=own > 0))
        for name, own in means.items()
    }


def _scaled(images: Pixels, factors: Floats) -> Pixels:
    is_bytes = images.dtype == np.uint8
    scaled = np.clip(
        images * factors.reshape(-1, *[1] * (images.ndim - 1)), 0, 255 if is_bytes else 1
    )
    return (np.round(scaled) if is_bytes else scaled).astype(images.dtype)


# -- comparing -------------------------------------------------------------------------------------


def _layer(
    name: str, maps: int, is_convolution: bool, levels: Floats, moved: Floats, exchanged: Floats
) -> LayerActivation:
    activation = tuple(levels.tolist())
    if levels.min() <= 0:
        return LayerActivation(name, maps, is_convolution, activation, None, None, None, None, None)
    ratio = float(levels.min() / levels.max())
    apart = float(np.exp(min(np.quantile(moved, CONFIDENCE), WIDEST)))
    p_value = (1 + int((exchanged <= ratio * (1 + 1e-12)).sum())) / (len(exchanged) + 1)
    return LayerActivation(
        name,
        maps,
        is_convolution,
        activation,
        ratio,
        ratio / apart,
        min(ratio * apart, 1.0),
        p_value,
        float(np.median(exchanged)),
    )


def _bootstrap(
    values: Sequence[Sequence[Floats]], resamples: int, rng: np.random.Generator
) -> Floats:
    """How far the groups' λ move apart when each group's images are drawn anew: (resamples,
    layers), on the log scale.

    It is the greatest change of any ratio of two groups, so it holds whichever of them are the
    lowest and the highest.
    """
    moved = []  # (resamples, layers) a group
    for at in range(len(values[0])):
        group = [layer[at] for layer in values]
        count = len(group[0])
        parts = []
        for step in _steps(resamples, count):
            weights = rng.multinomial(count, np.full(count, 1 / count), size=step) / count
            parts.append(np.stack([(weights @ one).max(axis=1) for one in group], axis=1))
        level = np.array([one.mean(axis=0).max() for one in group])
        change = np.log(np.maximum(np.concatenate(parts), TINY)) - np.log(np.maximum(level, TINY))
        moved.append(
            change * np.sqrt(count / (count - 1))
        )  # drawn images vary less than fresh ones, which shows where they are few
    apart: Floats = np.ptp(np.stack(moved), axis=0)
    return apart


def _permuted(
    values: Sequence[Sequence[Floats]], resamples: int, rng: np.random.Generator
) -> Floats:
    """Λ (resamples, layers) of groups of the same sizes, dealt at random from all images
    together.
    """
    together = [np.concatenate(layer) for layer in values]
    sizes = [len(part) for part in values[0]]
    owner = np.repeat(np.arange(len(sizes)), sizes)
    parts = []
    for step in _steps(resamples, len(owner)):
        dealt = rng.permuted(np.tile(owner, (step, 1)), axis=1)
        shares = [(dealt == at) / size for at, size in enumerate(sizes)]
        parts.append(
            np.stack(
                [
                    np.stack([(share @ one).max(axis=1) for one in together], axis=1)
                    for share in shares
                ]
            )
        )
    return _ratios(np.concatenate(parts, axis=1))


def _steps(resamples: int, width: int) -> Iterator[int]:
    at_once = max(1, DRAWN_AT_ONCE // width)
    for at in range(0, resamples, at_once):
        yield min(at_once, resamples - at)


def _ratios(levels: Floats) -> Floats:
    """Lowest over highest of (groups, resamples, layers); where a resample excites nothing, there
    is no difference to see.
    """
    low, high = levels.min(axis=0), levels.max(axis=0)
    ratios: Floats = np.divide(low, high, out=np.ones_like(low), where=high > 0)
    return ratios
