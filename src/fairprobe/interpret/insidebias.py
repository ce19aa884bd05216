"""InsideBias: do the images of some groups excite a network's last layers more than others?

Serna et al., "InsideBias: Measuring Bias in Deep Networks and Application to Face Gender
Biometrics", ICPR 2020.

    paper                           here
    λ[l], of a group                `LayerActivation.activation`
    λ'[l], normalised (eq. 5)       `InsideBias.curves`, `InsideBias.common_curves`
    Λ[l], the Activation Ratio      `LayerActivation.ratio`; of the layer that decides,
                                    `InsideBias.ratio`
    average instead of maximum      `over_maps="average"`
    confidence score S (table II)   `Answers.groups`
    images of > 99 % confidence     `confident=0.99`
    biased where Λ < τ              `tau=0.8`: `InsideBias.rule`

Choices where the paper is silent: activations after the activation function; the strongest map is
taken for each image and then averaged over the group (`order="image"`; the other order is an
option); the last convolutional layer decides, in a network without convolutions the last hidden
one, in a hybrid of convolutions and attention the last one with feature maps of several places; a
curve is divided by its own greatest value over the layers, or by the greatest of all groups
(`common_curves`), which keeps the distances between groups that figures 1 and 4 show.

The paper concludes from Λ below a threshold that a network is biased, and that it knows the group
with the lowest λ least. Neither held on faces (docs/how-to/insidebias.md), so neither is concluded
here; what the paper's rule says stands beside the result if a τ is given, which the paper does not
print. What is reported instead:

- A p-value. A ratio of the lowest to the highest group lies below 1 by chance alone, so Λ is
  compared with the Λ of groups of the same sizes that are dealt at random from all images.
- Λ with brightness and contrast held equal, and its p-value: a linear regression on both within the
  groups; the residuals of the model without groups are exchanged (Freedman and Lane, 1983).
- Against reference networks of known balance, which group excites this one less
  (`insidebias_reference`). Two balanced networks differ as well, so a group is named only where
  several references agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import floor
from typing import Any, Literal

import numpy as np
from scipy.stats import norm, t
from torch import nn

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import ModelError, SettingError
from fairprobe.interpret.excitement import (
    AT_ONCE,
    Answers,
    Excitement,
    Images,
    Order,
    OverMaps,
    excitement,
)
from fairprobe.interpret.insidebias_reference import WIDEST, Reference, against
from fairprobe.statistics.rates import CONFIDENCE

Conclusion = Literal["different", "no difference found"]

RESAMPLES = 1000
FEWEST = 100
DRAWN_AT_ONCE = 1 << 22  # numbers of a resample in memory
TINY = np.finfo(np.float64).tiny
ROUNDING = 1e-9  # two ratios that differ by less are the same


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
    detectable: float | None
    """A Λ below this would have been called different."""


@dataclass(frozen=True)
class PixelControl:
    """What brightness and contrast alone say about the groups, and Λ of the layer that decides with
    both held equal. A number that cannot be computed is None.
    """

    brightness: tuple[float, ...]
    contrast: tuple[float, ...]
    brightness_ratio: float | None
    brightness_p_value: float | None
    contrast_ratio: float | None
    contrast_p_value: float | None
    ratio: float | None
    p_value: float | None


@dataclass(frozen=True)
class PaperRule:
    """The paper's rule: a network is biased if Λ is below τ. No conclusion of ours, because chance
    alone gives such a Λ too: `by_chance` is the share of groups of the same sizes, dealt at random
    from all images, whose Λ is below τ.
    """

    tau: float
    is_biased: bool
    by_chance: float


@dataclass(frozen=True)
class InsideBias:
    """What the groups excite in each layer, and what follows from the deciding layer. Groups are in
    the order in which they were given.
    """

    groups: tuple[str, ...]
    images: tuple[int, ...]
    layers: tuple[LayerActivation, ...]
    decisive: LayerActivation
    order: Order
    resamples: int
    pixels: PixelControl | None = None
    answers: Answers | None = None
    """Of all images, also of those that are not compared because of `confident`."""
    references: tuple[Reference, ...] = ()
    over_maps: OverMaps = "maximum"
    confident: float | None = None
    """Only images of which the network is surer than this."""
    rule: PaperRule | None = None
    tokens: tuple[str, ...] = ()
    """The layers of a hybrid that hold tokens instead of maps, and were left out."""

    @property
    def ratio(self) -> float:
        assert self.decisive.ratio is not None  # refused otherwise
        return self.decisive.ratio

    @property
    def highest(self) -> str:
        """The group that excites the deciding layer most. The network need not know it best."""
        return self.groups[int(np.argmax(self.decisive.activation))]

    @property
    def verdict(self) -> Conclusion:
        """Different: chance seldom gives a Λ as low. It does not say why, or for whom it is bad."""
        assert self.decisive.p_value is not None
        is_rare = self.decisive.p_value <= 1 - CONFIDENCE + ROUNDING
        return "different" if is_rare else "no difference found"

    @property
    def curves(self) -> dict[str, tuple[float, ...]]:
        """Each group's λ over the layers, divided by its greatest (figure 4)."""
        return self._divided(lambda rows: rows.max(axis=0))

    @property
    def common_curves(self) -> dict[str, tuple[float, ...]]:
        """The same, divided by the greatest λ of all groups."""
        return self._divided(lambda rows: np.full(rows.shape[1], rows.max()))

    def _divided(self, by: Callable[[Floats], Floats]) -> dict[str, tuple[float, ...]]:
        rows = np.array([layer.activation for layer in self.layers])
        greatest = by(rows)
        normal = np.divide(rows, greatest, out=np.zeros_like(rows), where=greatest > 0)
        return {name: tuple(normal[:, at].tolist()) for at, name in enumerate(self.groups)}

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""

        def by_group(values: tuple[float, ...]) -> dict[str, float]:
            return dict(zip(self.groups, values, strict=True))

        pixels, answers = self.pixels, self.answers
        return {
            "groups": [
                {"name": name, "images": count}
                for name, count in zip(self.groups, self.images, strict=True)
            ],
            "decisive": self.decisive.name,
            "tokens": list(self.tokens),
            "ratio": self.ratio,
            "low": self.decisive.low,
            "high": self.decisive.high,
            "p_value": self.decisive.p_value,
            "by_chance": self.decisive.by_chance,
            "detectable": self.decisive.detectable,
            "verdict": self.verdict,
            "order": self.order,
            "over_maps": self.over_maps,
            "confident": self.confident,
            "rule": self.rule and asdict(self.rule),
            "confidence": CONFIDENCE,
            "resamples": self.resamples,
            "layers": [
                {**vars(layer), "activation": by_group(layer.activation)} for layer in self.layers
            ],
            "curves": {name: list(curve) for name, curve in self.curves.items()},
            "common_curves": {name: list(curve) for name, curve in self.common_curves.items()},
            "pixels": pixels
            and {
                **vars(pixels),
                "brightness": by_group(pixels.brightness),
                "contrast": by_group(pixels.contrast),
            },
            "answers": answers and answers.to_dict(),
            "references": [asdict(one) for one in self.references],
        }


def insidebias(
    model: nn.Module,
    groups: Mapping[str, Images],
    *,
    layers: Sequence[str] | None = None,
    order: Order = "image",
    over_maps: OverMaps = "maximum",
    channels_last: bool = False,
    labels: Mapping[str, Ints] | None = None,
    confident: float | None = None,
    tau: float | None = None,
    references: Sequence[nn.Module] = (),
    batch: int = AT_ONCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> InsideBias:
    """Compare how strongly the images of each group excite the network. Images are passed to it
    unscaled.

    `layers` names the layers to compare instead of all. `channels_last` is for networks whose maps
    are (height, width, channels), as in Keras. `labels` are the classes of each group's images, −1
    where unknown, to see whether the network is any good. With `confident` only those images count
    of whose label (or of its own answer, where that is unknown) the network is surer than this, as
    the paper chooses its images; accuracy and score S are still those of all images. `over_maps`
    takes the average over maps instead of the maximum. With `tau` the result has the paper's rule
    as well. `references` are networks of the same
    architecture that were trained on balanced data.
    """
    networks = [model, *references]
    excited, *others = [
        excitement(
            network,
            groups,
            layers=layers,
            order=order,
            over_maps=over_maps,
            channels_last=channels_last,
            labels=labels,
            batch=batch,
            progress=_part(progress, at, len(networks)),
        )
        for at, network in enumerate(networks)
    ]
    answers = excited.answers  # of all images: those chosen by confidence are nearly all right
    if confident is not None:
        rows = excited.confident(confident)
        excited, others = excited.take(rows), [one.take(rows) for one in others]
    found = compare(excited, others, tau=tau, resamples=resamples, seed=seed)
    return replace(found, confident=confident, answers=answers)


def compare(
    excited: Excitement,
    references: Sequence[Excitement] = (),
    *,
    tau: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> InsideBias:
    """λ and Λ, with resampled images for the interval and exchanged groups for what chance does."""
    if resamples < FEWEST:
        raise SettingError(f"An interval needs {FEWEST} resamples or more; got {resamples}.")
    if tau is not None and not 0 < tau <= 1:
        raise SettingError(f"The threshold τ is above 0 and at most 1; got {tau:g}.")
    if seed < 0:
        raise SettingError(f"The seed must be a whole number from 0; got {seed}.")
    sizes = tuple(len(part) for part in excited.values[0])
    drawn, dealt, regressed = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(3))
    together = [np.concatenate(layer) for layer in excited.values]
    levels = [np.array([part.mean(axis=0).max() for part in layer]) for layer in excited.values]
    moved = np.ptp(changes(excited.values, resamples, drawn), axis=0)
    exchanged = _exchanged(together, sizes, None, resamples, dealt)[1]
    layers = tuple(
        _layer(name, maps, is_convolution, level, moved[:, at], exchanged[:, at])
        for at, (name, maps, is_convolution, level) in enumerate(
            zip(excited.names, excited.maps, excited.convolutions, levels, strict=True)
        )
    )
    convolutions = [at for at, layer in enumerate(layers) if layer.is_convolution]
    place = (convolutions or range(len(layers)))[-1]
    if layers[place].ratio is None:
        raise ModelError(
            f"In layer '{layers[place].name}' some group's λ is not above 0, and then their ratio"
            " means nothing; the layer is dead or its activation function gives negative values."
            " Name another layer."
        )
    found = InsideBias(excited.groups, sizes, layers, layers[place], excited.order, resamples)
    found = replace(
        found, answers=excited.answers, over_maps=excited.over_maps, tokens=excited.tokens
    )
    if tau is not None:
        by_chance = float((exchanged[:, place] < tau).mean())
        found = replace(found, rule=PaperRule(tau, found.ratio < tau, by_chance))
    if excited.pixels is not None:
        pixels = _pixel_control(together[place], sizes, excited.pixels, resamples, regressed)
        found = replace(found, pixels=pixels)
    measured = []
    for reference in references:
        if (reference.names, reference.maps) != (excited.names, excited.maps):
            raise ModelError(
                "A reference network has other layers than the network, so they cannot be compared."
                " Give one of the same architecture."
            )
        other = compare(reference, resamples=resamples, seed=seed).decisive
        both = (excited.values[place], reference.values[place])
        moved = changes(both, resamples, np.random.default_rng([seed, 1]))
        measured.append(against(found.groups, both, other, moved))
    return replace(found, references=tuple(measured))


# -- comparing -------------------------------------------------------------------------------------


def _layer(
    name: str, maps: int, is_convolution: bool, levels: Floats, moved: Floats, exchanged: Floats
) -> LayerActivation:
    activation = tuple(levels.tolist())
    if levels.min() <= 0:
        return LayerActivation(name, maps, is_convolution, activation, *[None] * 6)
    ratio = float(levels.min() / levels.max())
    apart = float(np.exp(min(np.quantile(moved, CONFIDENCE), WIDEST)))
    rarest = max(floor((1 - CONFIDENCE) * (len(exchanged) + 1) + ROUNDING), 1) - 1
    return LayerActivation(
        name,
        maps,
        is_convolution,
        activation,
        ratio,
        ratio / apart,
        min(ratio * apart, 1.0),
        _p_value(ratio, exchanged),
        float(np.median(exchanged)),
        float(np.sort(exchanged)[rarest]),
    )


def _p_value(ratio: float, exchanged: Floats) -> float:
    return (1 + int((exchanged <= ratio * (1 + ROUNDING)).sum())) / (len(exchanged) + 1)


def changes(values: Sequence[Sequence[Floats]], resamples: int, rng: np.random.Generator) -> Floats:
    """How far each group's λ moves when its images are drawn anew: (groups, resamples, layers), on
    the log scale. All layers see the same draws.

    The greatest change of any ratio of two groups (`np.ptp` over the groups) holds whichever of
    them are the lowest and the highest. Of few images, drawn ones vary less than fresh ones, and
    their spread is itself uncertain: both are corrected as Student's t does for the smallest group.
    """
    sizes = [len(part) for part in values[0]]
    wider = t.ppf((1 + CONFIDENCE) / 2, min(sizes) - 1) / norm.ppf((1 + CONFIDENCE) / 2)
    moved = []
    for at, count in enumerate(sizes):
        group = [layer[at] for layer in values]
        parts = []
        for step in _steps(resamples, count):
            weights = rng.multinomial(count, np.full(count, 1 / count), size=step) / count
            parts.append(np.stack([(weights @ one).max(axis=1) for one in group], axis=1))
        level = np.array([one.mean(axis=0).max() for one in group])
        change = np.log(np.maximum(np.concatenate(parts), TINY)) - np.log(np.maximum(level, TINY))
        moved.append(wider * change * np.sqrt(count / (count - 1)))
    return np.stack(moved)


def _exchanged(
    values: Sequence[Floats],
    sizes: Sequence[int],
    held: Floats | None,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Λ of each layer, and Λ (resamples, layers) of images that are dealt to the groups at random.

    `held` (images, covariates) are held equal: the groups' λ are then those of a linear regression
    at the covariates' mean, and what is dealt are the residuals of the regression without groups.
    """
    count = sum(sizes)
    group = np.repeat(np.eye(len(sizes)), sizes, axis=0)
    centered = np.empty((count, 0)) if held is None else held - held.mean(axis=0)
    of_groups = np.linalg.pinv(np.hstack([group, centered]))[: len(sizes)]
    without = np.hstack([np.ones((count, 1)), centered])
    fitted = [np.linalg.pinv(without) @ one for one in values]
    residuals = [one - without @ fit for one, fit in zip(values, fitted, strict=True)]
    parts = []
    for step in _steps(resamples, count):
        dealt = rng.permuted(np.tile(np.arange(count), (step, 1)), axis=1)
        weights = [own[dealt] for own in of_groups]
        parts.append(
            np.stack(
                [
                    np.stack([(fit[0] + own @ one).max(axis=1) for own in weights])
                    for one, fit in zip(residuals, fitted, strict=True)
                ],
                axis=-1,
            )
        )
    levels = np.stack([(of_groups @ one).max(axis=1) for one in values], axis=-1)
    return _ratios(levels), _ratios(np.concatenate(parts, axis=1))


def _pixel_control(
    values: Floats,
    sizes: Sequence[int],
    pixels: Sequence[Floats],
    resamples: int,
    rng: np.random.Generator,
) -> PixelControl:
    """Λ of brightness, of contrast, and of the layer with both held equal."""
    held = np.concatenate(pixels)
    alone: list[tuple[float | None, float | None]] = []
    for column in held.T[:, :, None]:
        ratio, exchanged = _exchanged([column], sizes, None, resamples, rng)
        is_defined = column.min() >= 0 and column.max() > 0
        own = float(ratio[0])
        alone.append((own, _p_value(own, exchanged[:, 0])) if is_defined else (None, None))
    equal: tuple[float | None, float | None] = (None, None)
    if len(held) >= len(sizes) + held.shape[1] + 2:  # else nothing is left to vary
        ratio, exchanged = _exchanged([values], sizes, held, resamples, rng)
        equal = (float(ratio[0]), _p_value(float(ratio[0]), exchanged[:, 0]))
    brightness, contrast = (tuple(float(part[:, at].mean()) for part in pixels) for at in range(2))
    return PixelControl(brightness, contrast, *alone[0], *alone[1], *equal)


def _steps(resamples: int, width: int) -> Iterator[int]:
    at_once = max(1, DRAWN_AT_ONCE // width)
    for at in range(0, resamples, at_once):
        yield min(at_once, resamples - at)


def _ratios(levels: Floats) -> Floats:
    """Lowest over highest of (groups, …, layers); where nothing is excited, there is no difference
    to see.
    """
    low, high = np.maximum(levels.min(axis=0), 0), levels.max(axis=0)
    ratios: Floats = np.divide(low, high, out=np.ones_like(low), where=high > 0)
    return ratios


def _part(
    progress: Callable[[int, int], None] | None, at: int, parts: int
) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, total: progress(at * total + done, parts * total)
