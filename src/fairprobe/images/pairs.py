"""Pairs to look at: an original, what was added to it, and what the detector answers without and
with the change of the attribute.
"""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Annotated, TypeAlias

import msgspec
import numpy as np
from torch import nn

from fairprobe.arrays import Ints, Rows
from fairprobe.datasets.image_sets import ImageSet
from fairprobe.images.change import Change, as_numbers, l2_of
from fairprobe.images.measure import probabilities
from fairprobe.images.search import ImageFindings
from fairprobe.networks.vision_training import labels_of
from fairprobe.results import Count, Number, Result, Share

MAX_PAIRS = 6
MIDDLE = 0.5  # gray stands for no change
FULL = 99.5  # the percentile of a change that is drawn at full strength

Png: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9+/]+=*$")]  # as base64
PICTURES = ("original", "bias", "without", "change", "with")
ANSWERED = ("original", "without", "with")


class Label(Result, frozen=True, kw_only=True):
    """A detector's answer to a picture."""

    label: str
    probability: Share


class ImagePair(Result, frozen=True, kw_only=True):
    """A finding: two pictures that differ only in the change of the attribute. `head` and
    `independent` are the values that two networks see in them.
    """

    row: Count
    value: str
    method: str
    at_seed: bool
    l2_bias: Number
    l2_change: Number
    amplified: Number
    """The factor by which both changes are amplified in their pictures."""
    pictures: dict[str, Png]
    verdicts: dict[str, Label]
    head: tuple[str, str]
    independent: tuple[str, str] | None

    def __post_init__(self) -> None:
        if {*self.pictures} != {*PICTURES} or {*self.verdicts} != {*ANSWERED}:
            raise ValueError("a pair lacks a picture or a verdict")


def striking_pairs(
    data: ImageSet,
    sensitive: str,
    seeds: Ints,
    change: Change,
    found: ImageFindings,
    detector: nn.Module,
    head: nn.Module,
    independent: nn.Module | None,
) -> list[ImagePair]:
    """Choose the findings whose two pictures get the most different answers."""
    if len(found) == 0:
        return []
    images, attribute = data.images[seeds], data.attributes[sensitive]
    original = as_numbers(images[found.rows])
    without, changed = map(as_numbers, found.pictures(images, change))
    answers = np.stack([probabilities(detector, part) for part in (original, without, changed)])
    labels, sure = answers.argmax(axis=2), answers.max(axis=2)
    own = np.take_along_axis(answers, labels[None, 1, :, None], axis=2)[..., 0]
    chosen = np.argsort(own[2] - own[1], kind="stable")[:MAX_PAIRS]

    def values(network: nn.Module) -> list[tuple[str, str]]:
        both = (labels_of(network, part[chosen]).tolist() for part in (without, changed))
        names = attribute.values
        return [(names[one], names[other]) for one, other in zip(*both, strict=True)]

    by_head = values(head)
    by_independent = [None] * len(chosen) if independent is None else values(independent)
    pairs = []
    for place, at in enumerate(chosen.tolist()):
        row, bias, delta = seeds[found.rows[at]], found.delta[at], change.delta[found.rows[at]]
        largest = max(float(np.percentile(np.abs(part), FULL)) for part in (bias, delta))
        amplified = round(MIDDLE / largest, 1) if largest > 0 else 1.0
        pairs.append(
            ImagePair(
                row=int(row),
                value=attribute.values[attribute.codes[row]],
                method=found.method,
                at_seed=bool(found.at_seed[at]),
                l2_bias=float(l2_of(bias[None])[0]),
                l2_change=float(l2_of(delta[None])[0]),
                amplified=amplified,
                pictures={
                    "original": png(original[at]),
                    "bias": png(MIDDLE + bias * np.float32(amplified)),
                    "without": png(without[at]),
                    "change": png(MIDDLE + delta * np.float32(amplified)),
                    "with": png(changed[at]),
                },
                verdicts={
                    name: Label(
                        label=data.classes[labels[side, at]], probability=float(sure[side, at])
                    )
                    for side, name in enumerate(ANSWERED)
                },
                head=by_head[place],
                independent=by_independent[place],
            )
        )
    return pairs


def png(picture: Rows) -> str:
    """Write a picture (3, height, width) as base64 of a PNG."""
    from PIL import Image

    pixels = np.round(np.clip(picture, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")
