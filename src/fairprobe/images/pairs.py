"""Pairs to look at: an original, what was added to it, and what the detector says without and with
the change of the attribute.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from torch import nn

from fairprobe.arrays import Ints, Rows
from fairprobe.datasets.image_sets import ImageSet
from fairprobe.images.change import Change, l2_of
from fairprobe.images.measure import as_numbers, probabilities
from fairprobe.images.search import ImageFindings
from fairprobe.networks.vision_training import labels_of

SHOWN = 6
MIDDLE = 0.5  # grey stands for no change
FULL = 99.5  # the percentile of a change that is drawn at full strength


@dataclass(frozen=True)
class Pair:
    """One finding. Pictures are (3, height, width) from 0 to 1; verdicts are of the original,
    without and with the change.
    """

    row: int
    method: str
    at_seed: bool
    original: Rows
    bias: Rows
    change: Rows
    labels: tuple[int, int, int]
    probabilities: tuple[float, float, float]
    head: tuple[int, int]
    independent: tuple[int, int] | None

    @property
    def without(self) -> Rows:
        picture: Rows = np.clip(self.original + self.bias, 0, 1)
        return picture

    @property
    def changed(self) -> Rows:
        picture: Rows = np.clip(self.without + self.change, 0, 1)
        return picture

    @property
    def amplified(self) -> float:
        """By how much both changes are amplified in their pictures."""
        largest = max(float(np.percentile(np.abs(one), FULL)) for one in (self.bias, self.change))
        return round(MIDDLE / largest, 1) if largest > 0 else 1.0

    @property
    def l2(self) -> tuple[float, float]:
        return float(l2_of(self.bias[None])[0]), float(l2_of(self.change[None])[0])


def striking_pairs(
    data: ImageSet,
    seeds: Ints,
    change: Change,
    found: ImageFindings,
    detector: nn.Module,
    head: nn.Module,
    independent: nn.Module | None,
) -> list[Pair]:
    """The findings whose two pictures lie furthest apart in the detector's eyes."""
    if len(found) == 0:
        return []
    original = as_numbers(data.images[seeds[found.rows]])
    without = np.clip(original + found.delta, 0, 1)
    changed = np.clip(without + change.delta[found.rows], 0, 1)
    told = [probabilities(detector, images) for images in (original, without, changed)]
    own = told[1].argmax(axis=1)
    gap = told[1][np.arange(len(own)), own] - told[2][np.arange(len(own)), own]
    chosen = np.argsort(-gap, kind="stable")[:SHOWN]
    opinions = [
        (
            None
            if network is None
            else np.stack(
                [labels_of(network, without[chosen]), labels_of(network, changed[chosen])], axis=1
            )
        )
        for network in (head, independent)
    ]
    assert opinions[0] is not None
    pairs = []
    for place, at in enumerate(chosen.tolist()):
        labels = [int(one[at].argmax()) for one in told]
        pairs.append(
            Pair(
                row=int(seeds[found.rows[at]]),
                method=found.method,
                at_seed=bool(found.at_seed[at]),
                original=original[at],
                bias=found.delta[at],
                change=change.delta[found.rows[at]],
                labels=(labels[0], labels[1], labels[2]),
                probabilities=(
                    float(told[0][at].max()),
                    float(told[1][at].max()),
                    float(told[2][at].max()),
                ),
                head=_two(opinions[0][place]),
                independent=None if opinions[1] is None else _two(opinions[1][place]),
            )
        )
    return pairs


def png(picture: Rows) -> str:
    """A picture (3, height, width) as base64 of a PNG."""
    from PIL import Image

    pixels = np.round(np.clip(picture, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def drawn(change: Rows, amplified: float) -> Rows:
    """A change as a picture."""
    return MIDDLE + change * np.float32(amplified)


def _two(values: Ints) -> tuple[int, int]:
    return int(values[0]), int(values[1])
