"""InsideBias on a user's own network and folders of images: open both, and compare."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from typing import Final, Literal

import msgspec
import torch
from torch import Tensor, nn

from fairprobe.datasets.image_folders import ImageGroups, by_criteria, read_groups, read_labels
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.images.activation_ratio import InsideBias, insidebias
from fairprobe.images.excitement import OverMaps, TooFewImagesError
from fairprobe.images.networks import FILES, Prepared, open_network
from fairprobe.images.parts import authors_part
from fairprobe.models.formats.free_size import Size
from fairprobe.models.load import open_model
from fairprobe.results import Count, Result, Run, Share
from fairprobe.runs.stages import OnStage, Stages, counted
from fairprobe.statistics.paired import holm
from fairprobe.versions import versions

FORMAT: Final = 3  # raised when the meaning of a field changes


class NotJudged(Result, frozen=True, kw_only=True):
    """A criterion for which there are too few images, among others of the same run."""

    kind: Literal["insidebias-not-judged"] = "insidebias-not-judged"
    criterion: str
    reason: str


class InsideBiasRun(Run, frozen=True, kw_only=True):
    """A comparison of groups inside a network; `criterion` is what they differ in, where a run
    compares several criteria, and `p_adjusted` Holm's p-value over all of them.
    """

    kind: Literal["insidebias"] = "insidebias"
    format: Literal[3] = FORMAT
    model: str
    criterion: str = ""
    p_adjusted: Share | None = None
    height: Count
    width: Count
    """Of the images, as the network gets them."""
    result: InsideBias


def look_inside(
    model: str,
    folder: Path,
    *,
    weights: Path | None = None,
    layer: str | None = None,
    labels: Path | None = None,
    criteria: Path | None = None,
    confident: float | None = None,
    over_maps: OverMaps = "maximum",
    tau: float | None = None,
    references: Sequence[str] = (),
    reference_weights: Sequence[Path] = (),
    seed: int = 0,
    command: str = "",
    progress: OnStage | None = None,
) -> list[InsideBiasRun | NotJudged]:
    """Compare how strongly the images of each group activate a network: one run for each criterion,
    or why it cannot be judged. Pixels are given to the network as numbers from 0 to 1.

    `labels` is a CSV with the class of each image; `criteria` one with the groups of each image,
    instead of a folder for each group; `references` are networks of the same architecture that were
    trained on balanced data, each with its weights or all without.
    """
    if reference_weights and len(reference_weights) != len(references):
        raise SettingError(
            f"There are {len(references)} reference networks and {len(reference_weights)} files"
            " with weights for them; expected one for each, in the same order."
        )
    read = read_groups(folder, as_one=criteria is not None)
    network = _open(model, weights, read)
    own: Sequence[Path | None] = reference_weights or [None] * len(references)
    beside = [_open(one, file, read) for one, file in zip(references, own, strict=True)]
    if _is_gray(*network, read):
        read = read_groups(folder, channels=1, as_one=criteria is not None)
    every = {"": read} if criteria is None else by_criteria(criteria, read)
    options = _Options(layer, labels, confident, over_maps, tau, seed, command)
    stages = Stages(progress)
    runs: list[InsideBiasRun | NotJudged] = []
    for criterion, groups in every.items():
        try:
            runs.append(_look(network, beside, groups, criterion, options, stages))
        except TooFewImagesError as error:
            if not criterion:
                raise
            runs.append(NotJudged(criterion=criterion, reason=str(error)))
    judged = [run.result.p_value for run in runs if isinstance(run, InsideBiasRun)]
    if len(judged) < 2:
        return runs
    adjusted = iter(holm(judged))
    return [
        msgspec.structs.replace(run, p_adjusted=float(next(adjusted)))
        if isinstance(run, InsideBiasRun)
        else run
        for run in runs
    ]


@dataclass(frozen=True)
class _Options:
    layer: str | None
    labels: Path | None
    confident: float | None
    over_maps: OverMaps
    tau: float | None
    seed: int
    command: str


def _look(
    main: tuple[_Source, nn.Module],
    beside: Sequence[tuple[_Source, nn.Module]],
    read: ImageGroups,
    criterion: str,
    options: _Options,
    stages: Stages,
) -> InsideBiasRun:
    """Compare the groups of one criterion."""
    opened, network = main
    if len(read.images) < 2:
        of = f" of '{criterion}'" if criterion else ""
        raise TooFewImagesError(
            f"Expected two groups of images or more to compare; {len(read.images)}{of} can be used."
            f" {' '.join(read.messages)}".rstrip()
        )
    classes, unlabeled = (
        (None, "") if options.labels is None else read_labels(options.labels, read.files)
    )
    looking = f"Looking at images by {criterion}" if criterion else "Looking at images"
    with ExitStack() as hooks, stages.stage(looking) as step:
        for source, one in [main, *beside]:
            is_flat = source.width is not None and not isinstance(one, Prepared)
            hooks.callback(one.register_forward_pre_hook(_prepare(is_flat)).remove)
        found = insidebias(
            network,
            read.images,
            layers=None if options.layer is None else [options.layer],
            over_maps=options.over_maps,
            channels_last=_is_channels_last(network),
            labels=classes,
            confident=options.confident,
            tau=options.tau,
            references=[one for _, one in beside],
            seed=options.seed,
            progress=counted(step),
        )
    references = [
        msgspec.structs.replace(reference, name=source.name)
        for reference, (source, _) in zip(found.references, beside, strict=True)
    ]
    height, width = next(iter(read.images.values())).shape[2:]
    return InsideBiasRun(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=options.command,
        versions=versions("torch", "numpy"),
        seed=options.seed,
        seconds=dict(stages.seconds),
        messages=[*read.messages, *opened.says, *filter(None, [unlabeled])],
        model=opened.name,
        criterion=criterion,
        height=height,
        width=width,
        result=msgspec.structs.replace(found, references=references),
    )


@dataclass(frozen=True)
class _Source:
    """Where a network comes from; `width` is the number of inputs of one that takes rows, `says`
    the size of images that one which takes any was opened for.
    """

    name: str
    width: int | None = None
    says: tuple[str, ...] = ()


def _open(model: str, weights: Path | None, read: ImageGroups) -> tuple[_Source, nn.Module]:
    """Open a network; files and folders prepare images themselves, as for `audit-images`."""
    path = Path(model)
    if path.is_dir() or path.suffix.lower() in FILES:
        network = open_network(model, weights=weights, size=_size(read))
        says = network.says_size(read.other_sizes, can_resize=False)
        return _Source(network.name, network.width, tuple(says)), network.module
    opened = open_model(model, weights=weights)
    if opened.network is None:
        raise ModelError(f"{opened.name} cannot be looked into. {opened.why}".rstrip())
    return _Source(opened.name, opened.width), opened.network


def _size(read: ImageGroups) -> Size | None:
    """Return the height and width of the images, if there are any."""
    example = next(iter(read.images.values()), None)
    return None if example is None else (example.shape[2], example.shape[3])


def _is_gray(opened: _Source, network: nn.Module, read: ImageGroups) -> bool:
    """Return True if the network takes one channel, as its first convolution or the number of its
    inputs shows.
    """
    first = next((part for part in network.modules() if isinstance(part, nn.Conv2d)), None)
    size = _size(read)
    if first is not None and first.in_channels == 1:
        return True
    if opened.width is None or size is None:
        return False
    pixels = prod(size)
    if opened.width not in (pixels, 3 * pixels):
        raise DataError(
            f"{opened.name} takes {opened.width} numbers; an image of {size[1]} × {size[0]} pixels"
            f" has {pixels}, or {3 * pixels} in color. Bring the images to the size that the"
            " network was trained on."
        )
    return opened.width == pixels


def _is_channels_last(network: nn.Module) -> bool:
    """Return True if this is a network of Keras, whose maps have their channels last by default."""
    sizes = getattr(authors_part(network), "sizes", None)
    return sizes is not None and len(sizes[0]) == 3 and sizes[0][-1] in (1, 3)


def _prepare(is_flat: bool) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor]]:
    """Return a hook that turns bytes into numbers, batch by batch; own code of dense layers takes
    an image as one row.
    """

    def prepare(network: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        kind = next(
            (value.dtype for value in network.parameters() if value.is_floating_point()),
            torch.float32,
        )
        images = given[0].to(kind) / 255
        return (images.flatten(1) if is_flat else images,)

    return prepare
