"""What each image of a group excites in each layer of a network: the mean of every feature map,
taken while the network runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fairprobe.arrays import Floats
from fairprobe.errors import DataError, ModelError, SettingError, suggest
from fairprobe.models import one_thread
from fairprobe.models.formats.own_code import own_errors
from fairprobe.models.trace import ACTIVATIONS, layer_names

Images: TypeAlias = (
    "Tensor | npt.NDArray[Any]"  # (N, channels, height, width), or rows (N, columns)
)
Order = Literal["image", "group"]

AT_ONCE = 64  # images


@dataclass(frozen=True)
class Excitement:
    """What each image excites in each layer: `values[layer][group]` is (images, 1), the strongest
    map, or (images, maps).

    Measured once, it can be compared as a whole and in small samples.
    """

    groups: tuple[str, ...]
    names: tuple[str, ...]
    maps: tuple[int, ...]
    convolutions: tuple[bool, ...]
    values: tuple[tuple[Floats, ...], ...]
    order: Order

    def sample(self, count: int, rng: np.random.Generator) -> Excitement:
        """That many images of each group, drawn without putting back."""
        sizes = [len(part) for part in self.values[0]]
        if not 2 <= count <= min(sizes):
            raise SettingError(
                f"A sample must have 2 images of each group or more, and {min(sizes)} at most; got"
                f" {count}."
            )
        chosen = [rng.choice(size, count, replace=False) for size in sizes]
        values = tuple(
            tuple(part[rows] for part, rows in zip(layer, chosen, strict=True))
            for layer in self.values
        )
        return Excitement(self.groups, self.names, self.maps, self.convolutions, values, self.order)


def excitement(
    model: nn.Module,
    groups: Mapping[str, Images],
    *,
    layers: Sequence[str] | None = None,
    order: Order = "image",
    channels_last: bool = False,
    batch: int = AT_ONCE,
    progress: Callable[[int, int], None] | None = None,
) -> Excitement:
    """One pass over all images. Of a map only its mean is kept, so memory does not grow with the
    size of the images.
    """
    if order not in ("image", "group"):
        raise SettingError(
            "The order is image (the strongest map of each image) or group (of the group's mean);"
            f" got '{order}'."
        )
    if batch < 1:
        raise SettingError(f"A batch has 1 image or more; got {batch}.")
    tensors = _checked(groups)
    parameter = next(model.parameters(), torch.empty(0))
    with _quiet(model), one_thread(), torch.inference_mode():
        names, wanted = _layers(model, next(iter(tensors.values()))[:1], parameter, layers)
        found: list[list[Floats]] = []
        done, total = 0, sum(map(len, tensors.values()))
        for name, images in tensors.items():
            parts: list[list[Floats]] = []
            for at in range(0, len(images), batch):
                with own_errors(f"The network failed on images of group '{name}'"):
                    means = _means(
                        model, _given(images[at : at + batch], parameter), wanted, channels_last
                    )
                parts.append(
                    [
                        _reduced(one, names[layer], name, order)
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
        tuple(means.are_maps),
        tuple(tuple(group[at] for group in found) for at in range(len(wanted))),
        order,
    )


# -- looking in ------------------------------------------------------------------------------------


class _Means(TorchFunctionMode):
    """Takes each map's mean the moment its activation is computed: the network may change it in
    place, and it need not be kept.
    """

    def __init__(self, wanted: Sequence[int], channels_last: bool) -> None:
        super().__init__()
        self.values: list[Tensor] = []
        self.are_maps: list[bool] = []
        self._wanted, self._channels_last, self._calls = frozenset(wanted), channels_last, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in ACTIVATIONS:
            if self._calls in self._wanted:
                maps = result.movedim(-1, 1) if self._channels_last else result
                self.values.append(
                    maps.flatten(2).mean(dim=2, dtype=torch.float64)
                    if maps.ndim > 2
                    else maps.double().reshape(len(maps), -1)
                )
                self.are_maps.append(maps.ndim > 2)
            self._calls += 1
        return result


def _means(model: nn.Module, given: Tensor, wanted: Sequence[int], channels_last: bool) -> _Means:
    means = _Means(wanted, channels_last)
    with means:
        model(given)
    return means


def _reduced(means: Tensor, layer: str, group: str, order: Order) -> Floats:
    """(images, 1) or (images, maps). With the strongest map of each image taken here, the greatest
    of the means is right for both orders.
    """
    values: Floats = means.cpu().numpy()
    if not np.isfinite(values).all():
        raise ModelError(
            f"Layer '{layer}' gives values that are not finite for images of group '{group}'. Check"
            " the network's weights and the scale of the pixels."
        )
    return values.max(axis=1, keepdims=True) if order == "image" else values


def _layers(
    model: nn.Module, first: Tensor, parameter: Tensor, chosen: Sequence[str] | None
) -> tuple[list[str], list[int]]:
    """The hidden layers by name, and the places of those to look at."""
    with own_errors(f"The network does not take images of shape {tuple(first.shape[1:])}"):
        names, _ = layer_names(model, _given(first, parameter))
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


def _size(images: Tensor) -> str:
    return " × ".join(map(str, images.shape[1:]))
