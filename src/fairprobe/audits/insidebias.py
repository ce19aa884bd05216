"""InsideBias on a user's own network and folders of images: opens both, compares, and returns plain
data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairprobe.datasets.image_folders import ImageGroups, read_groups
from fairprobe.datasets.pictures import Bytes
from fairprobe.errors import DataError, ModelError
from fairprobe.interpret.insidebias import InsideBias, even_brightness, insidebias
from fairprobe.models.formats.base import Opened
from fairprobe.models.load import open_model
from fairprobe.versions import versions

EVENED = ("ratio", "low", "high", "p_value", "by_chance", "verdict", "highest", "lowest")


def look_inside(
    model: str,
    folder: Path,
    *,
    weights: Path | None = None,
    tau: float = 0.8,
    layer: str | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """The result as plain data, with a sentence of it and what was said about the images. Pixels
    are given as numbers from 0 to 1.
    """
    opened = open_model(model, weights=weights)
    network = opened.network
    if network is None:
        raise ModelError(f"{opened.name} cannot be looked into. {opened.why}".rstrip())
    read = _read(opened, network, folder)
    if len(read.images) < 2:
        raise DataError(
            f"Groups are compared with each other, and {len(read.images)} of them can be used."
            f" {' '.join(read.messages)}".rstrip()
        )
    channels_last = _is_channels_last(network)
    hook = network.register_forward_pre_hook(_taking(opened.width is not None, channels_last))
    try:
        found, even = _looks(
            network,
            read.images,
            progress,
            tau=tau,
            layer=layer,
            channels_last=channels_last,
            seed=seed,
        )
    finally:
        hook.remove()
    brightness = {
        name: float(images.mean(dtype="float64")) / 255 for name, images in read.images.items()
    }
    return {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions("torch", "numpy"),
        "seed": seed,
        "model": {"kind": opened.kind, "name": opened.name},
        "sentence": f"{_sentence(found)} {_evened(found, even, brightness)}".rstrip(),
        **found.to_dict(),
        "brightness": brightness,
        "even_brightness": (
            None
            if even is None
            else {name: value for name, value in even.to_dict().items() if name in EVENED}
        ),
        "messages": list(read.messages),
    }


def _looks(
    network: nn.Module,
    groups: Mapping[str, Bytes],
    progress: Callable[[int, int], None] | None,
    *,
    layer: str | None,
    **how: Any,
) -> tuple[InsideBias, InsideBias | None]:
    """At the images as they are, and at the same made equally bright; nothing of these where a
    group then does not excite the layer.
    """
    count = sum(map(len, groups.values()))
    tell = progress or (lambda *_: None)
    layers = None if layer is None else [layer]
    found = insidebias(
        network, groups, layers=layers, progress=lambda done, _: tell(done, 2 * count), **how
    )
    try:
        evened = even_brightness(groups)
        return found, insidebias(
            network,
            evened,
            layers=layers,
            progress=lambda done, _: tell(count + done, 2 * count),
            **how,
        )
    except ModelError:
        return found, None


def _read(opened: Opened, network: nn.Module, folder: Path) -> ImageGroups:
    """In colour, or grey where the network takes one channel: its first convolution says so, or the
    number of its inputs.
    """
    first = next((part for part in network.modules() if isinstance(part, nn.Conv2d)), None)
    if first is not None and first.in_channels == 1:
        return read_groups(folder, channels=1)
    read = read_groups(folder)
    example = next(iter(read.images.values()), None)
    if opened.width is None or example is None or opened.width == example[0].size:
        return read
    _, height, width = example.shape[1:]
    if opened.width == height * width:
        return read_groups(folder, channels=1)
    raise DataError(
        f"{opened.name} takes {opened.width} numbers; an image of {width} × {height} pixels has"
        f" {height * width}, or {3 * height * width} in colour. Bring the images to the size that"
        " the network was trained on."
    )


def _is_channels_last(network: nn.Module) -> bool:
    """Keras puts the channels last, unless it was told otherwise."""
    sizes = getattr(network, "sizes", None)
    return sizes is not None and len(sizes[0]) == 3 and sizes[0][-1] in (1, 3)


def _taking(
    is_flat: bool, channels_last: bool
) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor]]:
    """Bytes become numbers on the way in, batch by batch; a network that was read from a file takes
    an image as one row.
    """

    def take(network: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        kind = next(
            (value.dtype for value in network.parameters() if value.is_floating_point()),
            torch.float32,
        )
        images = given[0].to(kind) / 255
        if channels_last:
            images = images.movedim(1, -1)
        return (images.flatten(1) if is_flat else images,)

    return take


def _sentence(found: InsideBias) -> str:
    layer = found.decisive
    assert layer.p_value is not None
    told = (
        f"Λ = {found.ratio:.2f} in layer '{layer.name}' ({layer.low:.2f} to {layer.high:.2f}):"
        f" '{found.lowest}' excites it least, '{found.highest}' most."
    )
    if found.verdict == "biased":
        return (
            f"Biased. {told} That is below τ = {found.tau:g}, and chance gives as low a Λ in"
            f" {layer.p_value:.1%} of cases."
        )
    if found.verdict == "unbiased":
        return f"Unbiased. {told} The whole interval lies above τ = {found.tau:g}."
    why = (
        f"but with so few images chance gives as low a Λ in {layer.p_value:.0%} of cases"
        if found.is_below
        else "but its interval is not"
    )
    where = "below" if found.is_below else "above"
    return (
        f"Not distinguishable. {told} That is {where} τ = {found.tau:g}, {why}. More images would"
        " tell."
    )


def _evened(found: InsideBias, even: InsideBias | None, brightness: Mapping[str, float]) -> str:
    """What the control says: where all brightness is alike, the difference may be gone."""
    if even is None:
        return ""
    told = (
        f"Control: with all images made equally bright Λ is {even.ratio:.2f}"
        f" ({even.decisive.low:.2f} to {even.decisive.high:.2f})"
    )
    if found.verdict != "biased" or even.verdict == "biased":
        return f"{told}."
    low, high = brightness[found.lowest], brightness[found.highest]
    return (
        f"{told}, and that is not called biased: brightness has a part in it. The images of"
        f" '{found.lowest}' are {'darker' if low < high else 'brighter'} ({low:.2f}) than those of"
        f" '{found.highest}' ({high:.2f})."
    )
