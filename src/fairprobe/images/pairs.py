"""Pairs to look at: an original, what was added to it, and what the detector answers without and
with the change of the attribute.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from torch import nn

from fairprobe.arrays import Ints, Rows
from fairprobe.datasets.image_sets import ImageSet
from fairprobe.images.change import Change, as_numbers, l2_of
from fairprobe.images.measure import probabilities
from fairprobe.images.search import ImageFindings
from fairprobe.networks.vision_training import labels_of

SHOWN = 6
MIDDLE = 0.5  # gray stands for no change
FULL = 99.5  # the percentile of a change that is drawn at full strength


@dataclass(frozen=True)
class Pair:
    """One finding. Pictures are (3, height, width) from 0 to 1; `labels` and `probabilities` are
    the detector's, for the original, without and with the change; `head` and `independent` are the
    values that two networks see without and with it.
    """

    row: int
    method: str
    at_seed: bool
    original: Rows
    bias: Rows
    without: Rows
    change: Rows
    changed: Rows
    labels: tuple[int, int, int]
    probabilities: tuple[float, float, float]
    head: tuple[int, int]
    independent: tuple[int, int] | None

    @property
    def amplified(self) -> float:
        """The factor by which both changes are amplified in their pictures."""
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
    """The findings whose two pictures get the most different answers."""
    if len(found) == 0:
        return []
    images = data.images[seeds]
    original = as_numbers(images[found.rows])
    without, changed = map(as_numbers, found.pictures(images, change))
    answers = np.stack([probabilities(detector, part) for part in (original, without, changed)])
    labels, sure = answers.argmax(axis=2), answers.max(axis=2)
    own = np.take_along_axis(answers, labels[None, 1, :, None], axis=2)[..., 0]
    chosen = np.argsort(own[2] - own[1], kind="stable")[:SHOWN]

    def values(network: nn.Module) -> list[tuple[int, int]]:
        both = (labels_of(network, part[chosen]).tolist() for part in (without, changed))
        return list(zip(*both, strict=True))

    by_head = values(head)
    by_independent = [None] * len(chosen) if independent is None else values(independent)
    return [
        Pair(
            row=int(seeds[found.rows[at]]),
            method=found.method,
            at_seed=bool(found.at_seed[at]),
            original=original[at],
            bias=found.delta[at],
            without=without[at],
            change=change.delta[found.rows[at]],
            changed=changed[at],
            labels=(int(labels[0, at]), int(labels[1, at]), int(labels[2, at])),
            probabilities=(float(sure[0, at]), float(sure[1, at]), float(sure[2, at])),
            head=by_head[place],
            independent=by_independent[place],
        )
        for place, at in enumerate(chosen.tolist())
    ]


def png(picture: Rows) -> str:
    """A picture (3, height, width) as base64 of a PNG."""
    from PIL import Image

    pixels = np.round(np.clip(picture, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def as_picture(change: Rows, amplified: float) -> Rows:
    """A change as a picture."""
    return MIDDLE + change * np.float32(amplified)
