"""What is measured on held-out pictures: how well a detector sees, how well a network tells an
attribute, and in which pairs it differs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.datasets.image_sets import FACE_CLASSES, ImageSet
from fairprobe.images.search import ImageFindings
from fairprobe.models import one_thread
from fairprobe.networks.vision_training import Images, labels_of
from fairprobe.statistics.rates import Rate

AT_ONCE = 256  # pictures


@dataclass(frozen=True)
class Quality:
    """How well a detector sees held-out pictures: all, the faces, the others, and the faces of each
    value of the attribute.
    """

    accuracy: Rate
    detection_rate: Rate
    false_alarms: Rate
    by_value: dict[str, Rate]


@dataclass(frozen=True)
class Reading:
    """How often a network tells each value of the attribute, on held-out faces."""

    recalls: dict[str, Rate]

    @property
    def balanced_accuracy(self) -> float:
        return float(np.mean([rate.estimate for rate in self.recalls.values() if rate.samples]))


def people(data: ImageSet) -> Mask:
    """The pictures that a detector should find: faces. Where there are other classes, all whose
    people are known.
    """
    if data.classes == FACE_CLASSES:
        faces: Mask = data.y == 1
        return faces
    known: Mask = np.any([one.codes >= 0 for one in data.attributes.values()], axis=0)
    return known


def quality(detector: nn.Module, data: ImageSet, sensitive: str) -> Quality:
    """On the held-out pictures."""
    right = labels_of(detector, data.images[data.held_out]) == data.y[data.held_out]
    faces, codes = people(data)[data.held_out], data.attributes[sensitive].codes[data.held_out]
    return Quality(
        accuracy=_rate(right),
        detection_rate=_rate(right[faces]),
        false_alarms=_rate(~right[~faces]),
        by_value={
            value: _rate(right[faces & (codes == code)])
            for code, value in enumerate(data.attributes[sensitive].values)
        },
    )


def reading(network: nn.Module, images: Images, codes: Ints, values: tuple[str, ...]) -> Reading:
    """How well the network tells the attribute of these faces."""
    right = labels_of(network, images) == codes
    return Reading({value: _rate(right[codes == code]) for code, value in enumerate(values)})


def seen(network: nn.Module, without: Rows, changed: Rows) -> Rate:
    """The pairs in which the network's opinion differs."""
    return _rate(labels_of(network, without) != labels_of(network, changed))


def moved_by(found: ImageFindings) -> Floats:
    """The L2 of Δ_bias, of those that did not differ before any step."""
    return found.l2[~found.at_seed] if found.made else np.empty(0)


def probabilities(network: nn.Module, images: Images) -> npt.NDArray[np.float32]:
    """Of each class, for each picture."""
    network.eval()
    with one_thread(), torch.inference_mode():
        parts = [
            network(torch.from_numpy(images[at : at + AT_ONCE])).softmax(dim=1).numpy()
            for at in range(0, len(images), AT_ONCE)
        ]
    return np.concatenate(parts)


def as_numbers(images: npt.NDArray[np.uint8]) -> Rows:
    """Bytes as numbers from 0 to 1."""
    return images.astype(np.float32) / np.float32(255)


def _rate(hits: Mask) -> Rate:
    return Rate(int(hits.sum()), len(hits))
