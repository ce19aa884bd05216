"""What is measured on held-out pictures: how well a detector works, how well a network recognizes
an attribute, and in which pairs its answers differ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fairprobe.arrays import Ints, Mask
from fairprobe.datasets.image_sets import FACE_CLASSES, ImageSet
from fairprobe.datasets.pictures import Bytes
from fairprobe.images.change import as_numbers, pieces
from fairprobe.images.search import differs_beyond_rounding
from fairprobe.models import one_thread
from fairprobe.networks.vision_training import Images, labels_of
from fairprobe.results import Rate, Result, Share

AT_ONCE = 256  # pictures


class Quality(Result, frozen=True, kw_only=True):
    """How often a network is right on held-out pictures: on all, on faces, and on the faces of each
    value of the attribute. A detector also has false alarms on other pictures, if there are any;
    for a classifier of something else than faces, `by_class` has each of its classes by value.
    """

    accuracy: Rate
    detection_rate: Rate
    false_alarms: Rate | None
    by_value: dict[str, Rate]
    by_class: dict[str, dict[str, Rate]]


class PairCount(Result, frozen=True, kw_only=True):
    """Pairs counted strictly, where the search ended, and loosely, as in the paper."""

    strict: Rate
    loose: Rate

    def __post_init__(self) -> None:
        if self.strict.hits > self.loose.hits or self.strict.samples > self.loose.samples:
            raise ValueError(
                f"{self.strict.hits} of {self.strict.samples} pairs count strictly, but only"
                f" {self.loose.hits} of {self.loose.samples} loosely"
            )

    @classmethod
    def of(cls, strict: Mask, loose: Mask, samples: int) -> PairCount:
        strictly, loosely = (Rate.of(int(mask.sum()), samples) for mask in (strict, loose))
        return PairCount(strict=strictly, loose=loosely)


class Recalls(Result, frozen=True, kw_only=True):
    """How often a network recognizes each value of the attribute."""

    balanced_accuracy: Share
    rates: dict[str, Rate]


def people(data: ImageSet) -> Mask:
    """Return the pictures that a detector should find: faces. If the classes are others, all
    pictures of people with a known attribute.
    """
    if data.classes == FACE_CLASSES:
        faces: Mask = data.y == 1
        return faces
    known: Mask = np.any([one.codes >= 0 for one in data.attributes.values()], axis=0)
    return known


def quality(detector: nn.Module, data: ImageSet, sensitive: str) -> Quality:
    """Measure a detector on the held-out pictures."""
    y, attribute = data.y[data.held_out], data.attributes[sensitive]
    right = labels_of(detector, data.images[data.held_out]) == y
    faces, codes = people(data)[data.held_out], attribute.codes[data.held_out]

    def by_value(among: Mask) -> dict[str, Rate]:
        return {
            value: _rate(right[among & (codes == code)])
            for code, value in enumerate(attribute.values)
        }

    is_detector = data.classes == FACE_CLASSES
    return Quality(
        accuracy=_rate(right),
        detection_rate=_rate(right[faces]),
        false_alarms=None if faces.all() else _rate(~right[~faces]),
        by_value=by_value(faces),
        by_class={}
        if is_detector
        else {name: by_value(faces & (y == at)) for at, name in enumerate(data.classes)},
    )


def recalls(network: nn.Module, images: Images, codes: Ints, values: tuple[str, ...]) -> Recalls:
    """Measure how well a network recognizes the attribute of these faces."""
    right = labels_of(network, images) == codes
    rates = {value: _rate(right[codes == code]) for code, value in enumerate(values)}
    known = [rate.estimate for rate in rates.values() if rate.samples]
    return Recalls(balanced_accuracy=float(np.mean(known)), rates=rates)


def differing(network: nn.Module, images: Images, others: Images) -> Rate:
    """Count the pairs of pictures to which the network gives different answers."""
    return _rate(labels_of(network, images) != labels_of(network, others))


def strict_pairs(detector: nn.Module, head: nn.Module, without: Bytes, changed: Bytes) -> Mask:
    """Return the pairs that count strictly: of two pictures in whole bytes, the detector gives
    different answers, and so does the attribute's classifier that the change was made with.

    A search moves a picture until the detector's answer changes. On the way, the change of the
    attribute may lose its effect on the classifier, and then the pair says nothing about it.
    """
    strict = np.ones(len(without), dtype=bool)
    pair = as_numbers(np.stack([without, changed], axis=1))
    for network in (detector.eval(), head.eval()):
        with one_thread(), torch.no_grad():
            for rows, both in pieces(network, pair, AT_ONCE):
                logits = network(both.transpose(0, 1).flatten(0, 1))
                strict[rows] &= differs_beyond_rounding(logits).cpu().numpy()
    return strict


def probabilities(network: nn.Module, images: Images) -> npt.NDArray[np.float32]:
    """Return the probability of each class, for each picture."""
    network.eval()
    with one_thread(), torch.inference_mode():
        parts = [
            network(torch.from_numpy(images[at : at + AT_ONCE])).softmax(dim=1).numpy()
            for at in range(0, len(images), AT_ONCE)
        ]
    return np.concatenate(parts)


def answers(
    network: nn.Module, *sides: Bytes
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return the class that each picture of each pair gets, and its probability; a column for a
    side.
    """
    if not len(sides[0]):
        return np.empty((0, len(sides)), np.int64), np.empty((0, len(sides)), np.float32)
    every = np.stack([probabilities(network, as_numbers(side)) for side in sides], axis=1)
    return every.argmax(axis=2), every.max(axis=2)


def _rate(hits: Mask) -> Rate:
    return Rate.of(int(hits.sum()), len(hits))
