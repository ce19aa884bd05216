"""InsideBias on a user's own network and folders of images: open both, compare, and return the
document.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import torch
from torch import Tensor, nn

from fairprobe.audits.base import OnStage, Stages
from fairprobe.datasets.image_folders import ImageGroups, read_groups, read_labels
from fairprobe.documents import from_dict
from fairprobe.documents.insidebias import InsideBiasDocument
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.interpret.insidebias import insidebias
from fairprobe.models.formats.base import Opened
from fairprobe.models.load import open_model
from fairprobe.present.insidebias_page import sentence, warnings
from fairprobe.versions import versions


def look_inside(
    model: str,
    folder: Path,
    *,
    weights: Path | None = None,
    layer: str | None = None,
    labels: Path | None = None,
    references: Sequence[str] = (),
    reference_weights: Sequence[Path] = (),
    seed: int = 0,
    command: str = "",
    progress: OnStage | None = None,
) -> InsideBiasDocument:
    """Compare how strongly the images of each group activate a network. Pixels are given to it as
    numbers from 0 to 1. `labels` is a CSV with the class of each image; `references`, networks of
    the same architecture that were trained on balanced data, each with its weights or all without.
    """
    if reference_weights and len(reference_weights) != len(references):
        raise SettingError(
            f"There are {len(references)} reference networks and {len(reference_weights)} files"
            " with weights for them; expected one for each, in the same order."
        )
    opened, network = _open(model, weights)
    own: Sequence[Path | None] = reference_weights or [None] * len(references)
    beside = [_open(one, file) for one, file in zip(references, own, strict=True)]
    read = _read(opened, network, folder)
    groups = read.images
    if len(groups) < 2:
        raise DataError(
            f"Expected two groups of images or more to compare; {len(groups)} can be used."
            f" {' '.join(read.messages)}".rstrip()
        )
    classes, unlabeled = (None, "") if labels is None else read_labels(labels, read.files)
    channels_last = _is_channels_last(network)
    hooks = [
        one.register_forward_pre_hook(_prepare(source.width is not None, channels_last))
        for source, one in [(opened, network), *beside]
    ]
    try:
        with Stages(progress).stage("Looking at images") as step:
            found = insidebias(
                network,
                groups,
                layers=None if layer is None else [layer],
                channels_last=channels_last,
                labels=classes,
                references=[one for _, one in beside],
                seed=seed,
                progress=lambda done, total: step(done, total, f"{done:,} of {total:,}"),
            )
    finally:
        for hook in hooks:
            hook.remove()
    body = found.to_dict()
    for measured, (source, _) in zip(body["references"], beside, strict=True):
        measured["name"] = source.name
    document = from_dict(
        body
        | {
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "command": command,
            "versions": versions("torch", "numpy"),
            "seed": seed,
            "model": {"kind": opened.kind, "name": opened.name},
            "warnings": [],
            "messages": [*read.messages, *filter(None, [unlabeled])],
        },
        InsideBiasDocument,
    )
    return msgspec.structs.replace(
        document, warnings=warnings(document), sentence=sentence(document)
    )


def _open(model: str, weights: Path | None) -> tuple[Opened, nn.Module]:
    opened = open_model(model, weights=weights)
    if opened.network is None:
        raise ModelError(f"{opened.name} cannot be looked into. {opened.why}".rstrip())
    return opened, opened.network


def _read(opened: Opened, network: nn.Module, folder: Path) -> ImageGroups:
    """Read the images in color, or gray if the network takes one channel, as its first convolution
    or the number of its inputs shows.
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
        f" {height * width}, or {3 * height * width} in color. Bring the images to the size that"
        " the network was trained on."
    )


def _is_channels_last(network: nn.Module) -> bool:
    """Whether this is a network of Keras with the channels last, as is its default."""
    sizes = getattr(network, "sizes", None)
    return sizes is not None and len(sizes[0]) == 3 and sizes[0][-1] in (1, 3)


def _prepare(
    is_flat: bool, channels_last: bool
) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor]]:
    """A hook that turns bytes into numbers, batch by batch; a network that was read from a file
    takes an image as one row.
    """

    def prepare(network: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        kind = next(
            (value.dtype for value in network.parameters() if value.is_floating_point()),
            torch.float32,
        )
        images = given[0].to(kind) / 255
        if channels_last:
            images = images.movedim(1, -1)
        return (images.flatten(1) if is_flat else images,)

    return prepare
