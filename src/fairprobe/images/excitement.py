"""What each image of a group excites in each layer of a network: the mean of every feature map,
taken while the network runs.

A transformer has no feature maps but token sequences (images, tokens, channels), whose mean over
the wrong axis is a number too. They are refused. In a hybrid, a network with both, they are left
out, and what is not surely a feature map of a convolution counts as tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import DataError, ModelError, SettingError, suggest
from fairprobe.images.layout import Layout
from fairprobe.models import one_thread
from fairprobe.models.formats.own_code import own_errors
from fairprobe.models.trace import ACTIVATIONS, layer_names, source_names
from fairprobe.results import Count, Rate, Result, Share

Images: TypeAlias = (
    "Tensor | npt.NDArray[Any]"  # (N, channels, height, width), or rows (N, columns)
)
Order: TypeAlias = Literal["image", "group"]
OverMaps: TypeAlias = Literal["maximum", "average"]

AT_ONCE = 64  # images
FAILED = "The network failed on images of group '{}'"
TO_ONE = 1e-3  # probabilities add up to 1 but for rounding


class TooFewImagesError(DataError):
    """The images of some groups are too few to be compared; those of others may do."""


class GroupAnswers(Result, frozen=True, kw_only=True):
    """How sure the network is of a group's images, the score S of the paper's table II: its mean
    probability of the label, or of its own answer where the label is unknown; and how often it is
    right, where labels are known.
    """

    name: str
    images: Count
    score: Share
    right: Rate | None


class Answers(Result, frozen=True, kw_only=True):
    """Whether the network gives all images one class, and where labels are known, how often it is
    right beside the share of the commonest label.
    """

    is_constant: bool
    right: Rate | None = None
    commonest: Share | None = None
    groups: list[GroupAnswers]

    @property
    def is_no_better_than_chance(self) -> bool:
        """Return True if always giving the commonest label may be as good, as far as the interval
        goes.
        """
        right, commonest = self.right, self.commonest
        return right is not None and commonest is not None and right.low <= commonest


@dataclass(frozen=True)
class Given:
    """The answers to one group's images: classes, how sure the network is of each image's label
    (or of its answer, where the label is unknown), and the labels, −1 where unknown.
    """

    classes: Ints
    sure: Floats
    labels: Ints

    def take(self, rows: Ints) -> Given:
        return Given(self.classes[rows], self.sure[rows], self.labels[rows])


@dataclass(frozen=True)
class Excitement:
    """What each image excites in each layer: `values[layer][group]` is (images, 1), the strongest
    map, or (images, maps). `pixels[group]` are brightness and contrast of each image (images, 2).

    `tokens` are the layers of a hybrid that were left out, because they hold tokens. Measured once,
    it can be compared as a whole and in small samples.
    """

    groups: tuple[str, ...]
    names: tuple[str, ...]
    maps: tuple[int, ...]
    convolutions: tuple[bool, ...]
    values: tuple[tuple[Floats, ...], ...]
    order: Order
    pixels: tuple[Floats, ...] | None = None
    given: tuple[Given, ...] | None = None
    over_maps: OverMaps = "maximum"
    tokens: tuple[str, ...] = ()

    @property
    def answers(self) -> Answers | None:
        """Return what the network answers, if it gives classes."""
        return None if self.given is None else _answers(self.groups, self.given)

    def confident(self, least: float) -> list[Ints]:
        """Return the rows of each group of which the network is surer than this."""
        if not 0 <= least < 1:
            raise SettingError(f"A confidence is from 0 to below 1; got {least:g}.")
        if self.given is None:
            raise ModelError(
                "The network gives no classes, so its confidence is unknown. Leave the choice by"
                " confidence out."
            )
        rows = [np.flatnonzero(one.sure > least) for one in self.given]
        for name, own in zip(self.groups, rows, strict=True):
            if len(own) < 2:
                raise TooFewImagesError(
                    f"The network is surer than {least:g} of {len(own)} images of group '{name}'; 2"
                    " or more are needed. Lower the confidence, or give more images."
                )
        return rows

    def sample(self, count: int, rng: np.random.Generator) -> Excitement:
        """Draw that many images of each group without replacement."""
        sizes = [len(part) for part in self.values[0]]
        if not 2 <= count <= min(sizes):
            raise SettingError(
                f"A sample must have 2 images of each group or more, and {min(sizes)} at most; got"
                f" {count}."
            )
        chosen = [rng.choice(size, count, replace=False) for size in sizes]
        return replace(self.take(chosen), given=None)

    def take(self, chosen: Sequence[Ints]) -> Excitement:
        """Only these rows of each group."""
        values = tuple(
            tuple(part[rows] for part, rows in zip(layer, chosen, strict=True))
            for layer in self.values
        )
        pixels = self.pixels and tuple(
            part[rows] for part, rows in zip(self.pixels, chosen, strict=True)
        )
        given = self.given and tuple(
            one.take(rows) for one, rows in zip(self.given, chosen, strict=True)
        )
        return replace(self, values=values, pixels=pixels, given=given)


def excitement(
    model: nn.Module,
    groups: Mapping[str, Images],
    *,
    layers: Sequence[str] | None = None,
    order: Order = "image",
    over_maps: OverMaps = "maximum",
    channels_last: bool = False,
    labels: Mapping[str, Ints] | None = None,
    batch: int = AT_ONCE,
    progress: Callable[[int, int], None] | None = None,
) -> Excitement:
    """Run one pass over all images. Of a map only its mean is kept, so memory does not grow with
    the size of the images.
    """
    if order not in ("image", "group"):
        raise SettingError(
            "The order is image (the strongest map of each image) or group (of the group's mean);"
            f" got '{order}'."
        )
    if over_maps not in ("maximum", "average"):
        raise SettingError(
            f"Over the maps of a layer the maximum or the average is taken; got '{over_maps}'."
        )
    if batch < 1:
        raise SettingError(f"A batch has 1 image or more; got {batch}.")
    tensors = _checked(groups)
    _check_labels(labels, tensors)
    parameter = next(model.parameters(), torch.empty(0))
    with _quiet(model), one_thread(), torch.inference_mode():
        first = next(iter(tensors.values()))[:1]
        names, wanted = _layers(model, first, parameter, layers)
        tokens: list[int] = []
        if not layers:
            with own_errors(FAILED.format(next(iter(tensors)))):
                tokens = _tokens_of_hybrid(model, _given(first, parameter), wanted, channels_last)
            wanted = [layer for layer in wanted if layer not in tokens]
        found: list[list[Floats]] = []
        outputs: list[Tensor | None] = []
        done, total = 0, sum(map(len, tensors.values()))
        for name, images in tensors.items():
            parts: list[list[Floats]] = []
            for at in range(0, len(images), batch):
                with own_errors(FAILED.format(name)):
                    means, output = _means(
                        model, _given(images[at : at + batch], parameter), wanted, channels_last
                    )
                for layer, is_tokens in zip(wanted, means.are_tokens, strict=True):
                    if is_tokens:
                        raise ModelError(_tokens(names[layer]))
                outputs.append(output)
                parts.append(
                    [
                        _reduced(one, names[layer], name, order, over_maps)
                        for layer, one in zip(wanted, means.values, strict=True)
                    ]
                )
                done += len(images[at : at + batch])
                if progress is not None:
                    progress(done, total)
            found.append([np.concatenate(column) for column in zip(*parts, strict=True)])
    return Excitement(
        tuple(tensors),
        tuple(names[layer] for layer in wanted),
        tuple(one.shape[1] for one in means.values),
        tuple(means.are_spatial if tokens else means.are_maps),
        tuple(tuple(group[at] for group in found) for at in range(len(wanted))),
        order,
        tuple(map(_pixels, tensors.values())),
        _given_answers(
            outputs,
            [len(images) for images in tensors.values()],
            None if labels is None else [np.asarray(labels[name]) for name in tensors],
        ),
        over_maps,
        tuple(names[layer] for layer in tokens),
    )


def _pixels(images: Tensor) -> Floats:
    """(images, 2): the mean of each image's pixels, and their standard deviation. Bytes count as
    numbers from 0 to 1.
    """
    flat = images.flatten(1).double() / (255 if images.dtype == torch.uint8 else 1)
    both = torch.stack([flat.mean(dim=1), flat.std(dim=1, correction=0)], dim=1)
    values: Floats = both.cpu().numpy()
    return values


def _given_answers(
    outputs: Sequence[Tensor | None], sizes: Sequence[int], labels: Sequence[Ints] | None
) -> tuple[Given, ...] | None:
    """Return the class of each image, if the network gives classes: the greatest of several
    numbers, or a single one above 0 (a logit) or 0.5 (a probability).
    """
    parts = [one.flatten(1) for one in outputs if one is not None]
    if len(parts) < len(outputs):
        return None
    scores = torch.cat(parts).double()
    are_shares = bool(((scores >= 0) & (scores <= 1)).all())
    if scores.shape[1] == 1:
        second = scores if are_shares else scores.sigmoid()
        shares = torch.cat([1 - second, second], dim=1)
        classes = (scores[:, 0] > (0.5 if are_shares else 0)).long().cpu().numpy()
    else:
        adds_up = are_shares and bool(((scores.sum(dim=1) - 1).abs() < TO_ONE).all())
        shares = scores if adds_up else scores.softmax(dim=1)
        classes = scores.argmax(dim=1).cpu().numpy()
    known = np.full(len(classes), -1) if labels is None else np.concatenate(labels)
    of_class = np.where((known >= 0) & (known < shares.shape[1]), known, classes)
    sure = shares.cpu().numpy()[np.arange(len(classes)), of_class]
    sure = np.where(known >= shares.shape[1], 0.0, sure)  # a class that the network does not know
    ends = np.cumsum(sizes)[:-1]
    groups = zip(*(np.split(part, ends) for part in (classes, sure, known)), strict=True)
    return tuple(Given(*parts) for parts in groups)


def _answers(names: Sequence[str], given: Sequence[Given]) -> Answers:
    groups = [
        GroupAnswers(
            name=name, images=len(one.sure), score=float(one.sure.mean()), right=_right(one)
        )
        for name, one in zip(names, given, strict=True)
    ]
    classes = np.concatenate([one.classes for one in given])
    labels = np.concatenate([one.labels for one in given])
    known = labels[labels >= 0]
    return Answers(
        is_constant=bool((classes == classes[0]).all()),
        right=_right(Given(classes, np.empty(0), labels)),
        commonest=float(np.bincount(known).max() / len(known)) if len(known) else None,
        groups=groups,
    )


def _right(given: Given) -> Rate | None:
    is_known = given.labels >= 0
    if not is_known.any():
        return None
    return Rate.of(int((given.classes == given.labels)[is_known].sum()), int(is_known.sum()))


def _tokens(layer: str) -> str:
    return (
        f"Layer '{layer}' works on a sequence of tokens or has its channels last, as in a vision"
        " transformer. InsideBias compares feature maps (images, maps, height, width), and tokens"
        " are none: their mean would be taken over the wrong numbers. Name a convolutional or a"
        " dense layer behind the tokens, or use a convolutional network."
    )


# -- looking in ------------------------------------------------------------------------------------


class _Means(TorchFunctionMode):
    """Takes each map's mean the moment its activation is computed: the network may change it in
    place, and it need not be kept.
    """

    def __init__(self, wanted: Sequence[int], channels_last: bool, count: int) -> None:
        super().__init__()
        self._count = count  # images
        self.values: list[Tensor] = []
        self.are_maps: list[bool] = []
        self.are_sequences: list[bool] = []
        self.are_sure: list[bool] = []
        self.are_spatial: list[bool] = []  # maps of several places
        self._layout = Layout()
        self._wanted, self._channels_last, self._calls = frozenset(wanted), channels_last, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._layout.see(func, result)
        if func in ACTIVATIONS:
            if self._calls in self._wanted:
                is_last = self._channels_last or self._layout.is_channels_last(result)
                is_known = self._channels_last or self._layout.are_maps(result)
                is_folded = len(result) != self._count  # tokens of all images in one row
                self.are_sequences.append(
                    result.ndim == 3 or is_folded or (is_last and not is_known)
                )
                maps = result.movedim(-1, 1) if is_last else result
                self.values.append(
                    maps.flatten(2).mean(dim=2, dtype=torch.float64)
                    if maps.ndim > 2
                    else maps.double().reshape(len(maps), -1)
                )
                self.are_maps.append(maps.ndim > 2)
                is_sure = self._channels_last or self._layout.are_surely_maps(result)
                self.are_sure.append(is_sure)
                self.are_spatial.append(is_sure and maps.ndim > 3 and maps[0, 0].numel() > 1)
            self._calls += 1
        return result

    @property
    def are_tokens(self) -> list[bool]:
        """Return which layers are not maps: in a network that attends, all that are not surely
        maps.
        """
        return [
            is_sequence or (self._layout.attends and is_map and not is_sure)
            for is_sequence, is_map, is_sure in zip(
                self.are_sequences, self.are_maps, self.are_sure, strict=True
            )
        ]


def _means(
    model: nn.Module, given: Tensor, wanted: Sequence[int], channels_last: bool
) -> tuple[_Means, Tensor | None]:
    """Return the means, and what the network answers, if that is a number or several for each
    image.
    """
    means = _Means(wanted, channels_last, len(given))
    with means:
        output = model(given)
    output = getattr(output, "logits", output)  # of a transformers classifier
    is_plain = isinstance(output, Tensor) and output.ndim in (1, 2) and len(output) == len(given)
    return means, output.reshape(len(given), -1).float() if is_plain else None


def _tokens_of_hybrid(
    model: nn.Module, given: Tensor, wanted: Sequence[int], channels_last: bool
) -> list[int]:
    """Return the layers that hold tokens, if there are feature maps to compare instead."""
    means, _ = _means(model, given, wanted, channels_last)
    if not any(means.are_spatial):
        return []
    return [layer for layer, one in zip(wanted, means.are_tokens, strict=True) if one]


def _reduced(means: Tensor, layer: str, group: str, order: Order, over_maps: OverMaps) -> Floats:
    """(images, 1) or (images, maps). With the strongest map of each image taken here, the greatest
    of the means is right for both orders; an average over maps is the same in both.
    """
    values: Floats = means.cpu().numpy()
    if not np.isfinite(values).all():
        raise ModelError(
            f"Layer '{layer}' gives values that are not finite for images of group '{group}'. Check"
            " the network's weights and the scale of the pixels."
        )
    if over_maps == "average":
        return np.asarray(values.mean(axis=1, keepdims=True))
    return values.max(axis=1, keepdims=True) if order == "image" else values


def _layers(
    model: nn.Module, first: Tensor, parameter: Tensor, chosen: Sequence[str] | None
) -> tuple[list[str], list[int]]:
    """Return the hidden layers by name, and the places of those to look at."""
    with own_errors(f"The network does not take images of shape {tuple(first.shape[1:])}"):
        given = _given(first, parameter)
        names, _ = layer_names(model, given)
        authors = source_names(model, lambda: model(given), ACTIVATIONS)
        if authors is not None:
            names = authors[: len(names)]
        elif [name for name, _ in model.named_children()] == ["module"]:  # a wrapper, no author's
            names = [name.removeprefix("module.") for name in names]
    if not names:
        raise ModelError(
            "The network has no hidden layer with an activation function, so nothing can be"
            " compared. Give a network with one."
        )
    for name in chosen or ():
        if name not in names:
            raise SettingError(f"The network has no layer '{name}'.{suggest(name, names)}")
    wanted = [at for at, name in enumerate(names) if not chosen or name in chosen]
    return names, wanted


def _given(images: Tensor, parameter: Tensor) -> Tensor:
    """As the network takes them; bytes stay bytes, for networks that scale them themselves."""
    return images.to(parameter.device, None if images.dtype == torch.uint8 else parameter.dtype)


@contextmanager
def _quiet(model: nn.Module) -> Iterator[None]:
    """Switch off dropout and use learned batch norms; afterwards every part is as it was."""
    learning = [part for part in model.modules() if part.training]
    model.eval()
    try:
        yield
    finally:
        for part in learning:
            part.training = True


def _checked(groups: Mapping[str, Images]) -> dict[str, Tensor]:
    if len(groups) < 2:
        raise DataError(
            f"Groups are compared with each other, so there must be two or more; got {len(groups)}."
        )
    tensors = {
        str(name): images if isinstance(images, Tensor) else torch.from_numpy(np.asarray(images))
        for name, images in groups.items()
    }
    first, example = next(iter(tensors.items()))
    for name, images in tensors.items():
        if images.ndim not in (2, 3, 4):
            raise DataError(
                f"Group '{name}' has the shape {tuple(images.shape)}; expected images (number,"
                " channels, height, width) or rows of numbers."
            )
        if len(images) == 0:
            raise DataError(f"Group '{name}' has no image. Give it some, or leave the group out.")
        if len(images) == 1:
            raise DataError(
                f"Group '{name}' has one image only, which does not show how much they vary. Give"
                " it five or more."
            )
        if images.shape[1:] != example.shape[1:]:
            raise DataError(
                f"Images of group '{name}' are {_size(images)}, those of group '{first}'"
                f" {_size(example)}. Bring all to one size."
            )
        if images.is_floating_point() and not bool(torch.isfinite(images).all()):
            raise DataError(
                f"Group '{name}' has pixels that are not finite (NaN or infinite). Leave those"
                " images out."
            )
    return tensors


def _check_labels(labels: Mapping[str, Ints] | None, groups: Mapping[str, Tensor]) -> None:
    if labels is None:
        return
    for name, images in groups.items():
        if name not in labels or np.shape(labels[name]) != (len(images),):
            raise DataError(
                f"Expected a label for each of the {len(images)} images of group '{name}', with -1"
                " where it is unknown."
            )


def _size(images: Tensor) -> str:
    return " × ".join(map(str, images.shape[1:]))
