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
- Against reference networks of known balance, which group excites this one less (`Reference`). The
  images of two groups differ in more than how well a network knows them; a reference sees the same
  images, so what they have in common cancels out. Two networks that were trained in the same way
  differ as well, so a group is named only where several references agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import floor
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from scipy.stats import norm, t
from torch import nn

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import ModelError, SettingError
from fairprobe.images.excitement import (
    AT_ONCE,
    Answers,
    Excitement,
    Images,
    Order,
    OverMaps,
    excitement,
)
from fairprobe.results import CONFIDENCE, Count, Number, Result, Share, check_interval

Conclusion: TypeAlias = Literal["different", "no difference found"]

RESAMPLES = 1000
MIN_RESAMPLES = 100
DRAWN_AT_ONCE = 1 << 22  # numbers of a resample in memory
WIDEST = 700.0  # on the log scale: a group that some resamples show as silent
TINY = np.finfo(np.float64).tiny
ROUNDING = 1e-9  # two ratios that differ by less are the same


class ImageGroup(Result, frozen=True, kw_only=True):
    """A group of images."""

    name: str
    images: Count


class LayerActivation(Result, frozen=True, kw_only=True):
    """One layer: λ of each group, their ratio Λ with its interval, and how often chance alone gives
    a Λ as low (`p_value`).

    Where some group does not excite the layer at all, or its values are negative, a ratio means
    nothing and is None.
    """

    name: str
    maps: Count
    is_convolution: bool
    activation: dict[str, Number]
    ratio: Share | None = None
    low: Share | None = None
    high: Share | None = None
    p_value: Share | None = None
    by_chance: Share | None = None
    """The median Λ of groups that are drawn at random from all images together."""
    detectable: Share | None = None
    """A Λ below this would have been called different."""

    def __post_init__(self) -> None:
        check_interval(self.low, self.ratio, self.high)

    @property
    def estimate(self) -> float | None:
        """Return Λ, which reports show with its interval."""
        return self.ratio


class PixelControl(Result, frozen=True, kw_only=True):
    """Brightness and contrast of the groups, Λ of either alone, and Λ of the deciding layer with
    both held equal (`ratio`, `p_value`). A number that cannot be computed is None.
    """

    brightness: dict[str, Number]
    contrast: dict[str, Number]
    brightness_ratio: Share | None
    brightness_p_value: Share | None
    contrast_ratio: Share | None
    contrast_p_value: Share | None
    ratio: Share | None
    p_value: Share | None


class PaperRule(Result, frozen=True, kw_only=True):
    """The paper's rule: a network is biased if Λ is below τ. No conclusion of ours, because chance
    alone gives such a Λ too: `by_chance` is the share of groups of the same sizes, dealt at random
    from all images, whose Λ is below τ.
    """

    tau: Share
    is_biased: bool
    by_chance: Share


class Reference(Result, frozen=True, kw_only=True):
    """Λ of a reference network with its interval, and the two groups whose ratio of λ differs most
    from the reference's: `factor` is the ratio of `less` to `more`, divided by the same in the
    reference. Its interval holds for all pairs of groups at the same time.
    """

    name: str = ""
    ratio: Share
    low: Share
    high: Share
    less: str
    more: str
    factor: Share
    factor_low: Share
    factor_high: Number
    p_value: Share

    def __post_init__(self) -> None:
        check_interval(self.low, self.ratio, self.high)
        check_interval(self.factor_low, self.factor, self.factor_high)

    @property
    def estimate(self) -> float:
        """Return Λ, which reports show with its interval."""
        return self.ratio


class InsideBias(Result, frozen=True, kw_only=True):
    """Activations of the groups in each layer, and the comparison in the deciding layer. Groups are
    in the order in which they were given.
    """

    groups: list[ImageGroup]
    layers: list[LayerActivation]
    decisive: LayerActivation
    tokens: list[str] = msgspec.field(default_factory=list)
    """The layers of a hybrid that contain tokens instead of maps, and were left out."""
    order: Order
    over_maps: OverMaps = "maximum"
    confident: Share | None = None
    """Only images of which the network is surer than this are compared."""
    resamples: Count
    confidence: Share = CONFIDENCE
    rule: PaperRule | None = None
    pixels: PixelControl | None = None
    answers: Answers | None = None
    """Of all images, also of those that are not compared because of `confident`."""
    references: list[Reference] = msgspec.field(default_factory=list)

    def __post_init__(self) -> None:
        names = [group.name for group in self.groups]
        if self.decisive not in self.layers or self.decisive.ratio is None:
            raise ValueError(f"the layer '{self.decisive.name}' that decides is not compared")
        if self.decisive.name in self.tokens:
            raise ValueError(f"the layer '{self.decisive.name}' that decides contains tokens")
        if any(list(layer.activation) != names for layer in self.layers):
            raise ValueError("a layer has other groups than the result")
        if {name for one in self.references for name in (one.less, one.more)} - set(names):
            raise ValueError("the groups of a reference are not among the groups")
        if self.rule is not None and self.rule.is_biased != (self.ratio < self.rule.tau):
            raise ValueError(f"the paper's rule contradicts the ratio {self.ratio:g}")

    @property
    def ratio(self) -> float:
        assert self.decisive.ratio is not None  # refused otherwise
        return self.decisive.ratio

    @property
    def p_value(self) -> float:
        assert self.decisive.p_value is not None
        return self.decisive.p_value

    @property
    def highest(self) -> str:
        """Return the group that excites the deciding layer most; it need not be known best."""
        activation = self.decisive.activation
        return max(activation, key=lambda name: activation[name])

    @property
    def verdict(self) -> Conclusion:
        """Different: chance seldom gives a Λ as low. It does not say why, or for whom it is bad."""
        is_rare = self.p_value <= 1 - self.confidence + ROUNDING
        return "different" if is_rare else "no difference found"

    @property
    def curves(self) -> dict[str, list[float]]:
        """Each group's λ over the layers, divided by its greatest (figure 4)."""
        return self._divided(lambda rows: rows.max(axis=0))

    @property
    def common_curves(self) -> dict[str, list[float]]:
        """Each group's λ over the layers, divided by the greatest λ of all groups."""
        return self._divided(lambda rows: np.full(rows.shape[1], rows.max()))

    def _divided(self, by: Callable[[Floats], Floats]) -> dict[str, list[float]]:
        rows = np.array([list(layer.activation.values()) for layer in self.layers])
        greatest = by(rows)
        normal = np.divide(rows, greatest, out=np.zeros_like(rows), where=greatest > 0)
        return {group.name: normal[:, at].tolist() for at, group in enumerate(self.groups)}


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
    return msgspec.structs.replace(found, confident=confident, answers=answers)


def compare(
    excited: Excitement,
    references: Sequence[Excitement] = (),
    *,
    tau: float | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> InsideBias:
    """λ and Λ, with resampled images for the interval and exchanged groups for what chance does."""
    if resamples < MIN_RESAMPLES:
        raise SettingError(f"An interval needs {MIN_RESAMPLES} resamples or more; got {resamples}.")
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
    layers = [
        _layer(
            name,
            maps,
            is_convolution,
            dict(zip(excited.groups, level.tolist(), strict=True)),
            moved[:, at],
            exchanged[:, at],
        )
        for at, (name, maps, is_convolution, level) in enumerate(
            zip(excited.names, excited.maps, excited.convolutions, levels, strict=True)
        )
    ]
    convolutions = [at for at, layer in enumerate(layers) if layer.is_convolution]
    place = (convolutions or range(len(layers)))[-1]
    ratio = layers[place].ratio
    if ratio is None:
        raise ModelError(
            f"In layer '{layers[place].name}' some group's λ is not above 0, and then their ratio"
            " means nothing; the layer is dead or its activation function gives negative values."
            " Name another layer."
        )
    rule = pixels = None
    if tau is not None:
        by_chance = float((exchanged[:, place] < tau).mean())
        rule = PaperRule(tau=tau, is_biased=ratio < tau, by_chance=by_chance)
    if excited.pixels is not None:
        values, groups = together[place], excited.groups
        pixels = _pixel_control(values, sizes, groups, excited.pixels, resamples, regressed)
    measured = []
    for reference in references:
        if (reference.names, reference.maps) != (excited.names, excited.maps):
            raise ModelError(
                "A reference network has other layers than the network, so they cannot be compared."
                " Give one of the same architecture."
            )
        other = compare(reference, resamples=resamples, seed=seed).decisive
        both = (excited.values[place], reference.values[place])
        apart = changes(both, resamples, np.random.default_rng([seed, 1]))
        measured.append(_against(excited.groups, both, other, apart))
    return InsideBias(
        groups=[
            ImageGroup(name=name, images=size)
            for name, size in zip(excited.groups, sizes, strict=True)
        ],
        layers=layers,
        decisive=layers[place],
        tokens=list(excited.tokens),
        order=excited.order,
        over_maps=excited.over_maps,
        resamples=resamples,
        rule=rule,
        pixels=pixels,
        answers=excited.answers,
        references=measured,
    )


# -- comparing -------------------------------------------------------------------------------------


def _layer(
    name: str,
    maps: int,
    is_convolution: bool,
    activation: dict[str, float],
    moved: Floats,
    exchanged: Floats,
) -> LayerActivation:
    layer = LayerActivation(
        name=name, maps=maps, is_convolution=is_convolution, activation=activation
    )
    lowest, highest = min(activation.values()), max(activation.values())
    if lowest <= 0:
        return layer
    ratio = lowest / highest
    apart = float(np.exp(min(np.quantile(moved, CONFIDENCE), WIDEST)))
    rarest = max(floor((1 - CONFIDENCE) * (len(exchanged) + 1) + ROUNDING), 1) - 1
    return msgspec.structs.replace(
        layer,
        ratio=ratio,
        low=ratio / apart,
        high=min(ratio * apart, 1.0),
        p_value=_p_value(ratio, exchanged),
        by_chance=float(np.median(exchanged)),
        detectable=float(np.sort(exchanged)[rarest]),
    )


def _p_value(ratio: float, exchanged: Floats) -> float:
    return (1 + int((exchanged <= ratio * (1 + ROUNDING)).sum())) / (len(exchanged) + 1)


def changes(values: Sequence[Sequence[Floats]], resamples: int, rng: np.random.Generator) -> Floats:
    """Measure how far each group's λ moves when its images are drawn anew: (groups, resamples,
    layers), on the log scale. All layers see the same draws.

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
    groups: Sequence[str],
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
    brightness, contrast = (
        {name: float(part[:, at].mean()) for name, part in zip(groups, pixels, strict=True)}
        for at in range(2)
    )
    return PixelControl(
        brightness=brightness,
        contrast=contrast,
        brightness_ratio=alone[0][0],
        brightness_p_value=alone[0][1],
        contrast_ratio=alone[1][0],
        contrast_p_value=alone[1][1],
        ratio=equal[0],
        p_value=equal[1],
    )


def _against(
    groups: Sequence[str],
    values: tuple[Sequence[Floats], Sequence[Floats]],
    reference: LayerActivation,
    moved: Floats,
) -> Reference:
    """Compare the λ of the groups in the network and in the reference, `values`. `moved` is how far
    both move when the same images are drawn again: (groups, resamples, 2), on the log scale.
    """
    own, other = (
        np.log([float(part.mean(axis=0).max()) for part in network]) for network in values
    )
    beyond = own - other
    less, more = int(np.argmin(beyond)), int(np.argmax(beyond))
    apart = np.ptp(moved[..., 0] - moved[..., 1], axis=0)
    observed = float(beyond[more] - beyond[less])
    reach = min(float(np.quantile(apart, CONFIDENCE)), WIDEST - observed)
    assert reference.ratio is not None  # refused by `compare`
    assert reference.low is not None
    assert reference.high is not None
    return Reference(
        ratio=reference.ratio,
        low=reference.low,
        high=reference.high,
        less=groups[less],
        more=groups[more],
        factor=float(np.exp(-observed)),
        factor_low=float(np.exp(-observed - reach)),
        factor_high=float(np.exp(-observed + reach)),
        p_value=(1 + int((apart >= observed).sum())) / (len(apart) + 1),
    )


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
