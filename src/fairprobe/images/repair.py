"""Retraining a detector with the image IDIs that were found in it, and measuring what that changed
beyond what more training changes anyway.

Zheng et al., "NeuronFair", ICSE 2022, §5.5: retrain with all image IDIs, then compare AUC and
detection rate before and after.

Deliberate choices:
- Both pictures of a pair, x + Δ_bias and x + Δ_bias + Δ_sens, are learned with the class of the
  picture that they were made of.
- Each state is measured with a *fresh* Δ_sens, made with a new attribute head on its own trunk: an
  old one does not transfer, so any new training would look like a repair.
- The control is the same fine-tuning, step by step, with clean pictures instead of the IDIs.
- IDIs come from pictures that the detector may learn from; everything is measured on held-out ones.
- Pairs are counted strictly, and loosely as in the paper beside it (`measure.strict_pairs`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from torch import nn

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.datasets.image_sets import ImageSet
from fairprobe.datasets.pictures import Bytes
from fairprobe.errors import ModelError
from fairprobe.images.attribute import attribute_head
from fairprobe.images.change import (
    Change,
    ChangeSettings,
    as_bytes,
    as_numbers,
    random_change,
    sensitive_change,
)
from fairprobe.images.detector import Detector
from fairprobe.images.interpret import By, image_bias
from fairprobe.images.measure import PairCount, quality, strict_pairs
from fairprobe.images.search import ImageFindings, ImageSearch, search_images
from fairprobe.networks import Training
from fairprobe.networks.vision_training import labels_of, train_on_images
from fairprobe.results import Count, Estimate, Number, Rate, Result
from fairprobe.statistics.repeats import Repeats

FEWEST_FOR_MEAN = 10  # values whose mean has an interval
ON_REPAIRS = Training(batch=64, epochs=5, patience=None, learning_rate=1e-4)


@dataclass(frozen=True)
class Task:
    """How every state is measured: the data, the attribute, the rows to learn it from and to
    attack, and the settings.
    """

    data: ImageSet
    sensitive: str
    to_learn: Ints
    attacked: Ints
    change: ChangeSettings
    search: ImageSearch
    by: By
    seed: int


class DetectorState(Result, frozen=True, kw_only=True):
    """A detector before or after a repair, measured on held-out pictures with a fresh Δ_sens."""

    accuracy: Rate
    detection_rate: Rate
    auc: Number
    auc_random_signs: Number
    flips: Rate
    differing: PairCount
    """IDIs of the detector before the repair, made from held-out faces, whose verdict the fresh
    change still changes. Strictly: of those that counted strictly.
    """
    differing_faces: PairCount
    """Held-out faces whose verdict the fresh change alone changes."""
    success: PairCount
    """Faces that a new attack makes differ, including those that differ from the start."""
    l2: Estimate | None
    """The mean L2 of Δ_bias, for faces that the attack had to move; strictly counted."""


@dataclass(frozen=True)
class Measured:
    """The state of a detector, and what the new attack found: for faces that it had to move,
    x + Δ_bias, the L2 of Δ_bias, and which count strictly.
    """

    state: DetectorState
    l2: Floats
    idis: Rows
    strict: Mask


class ImageRepair(Result, frozen=True, kw_only=True):
    """Retraining with the findings, and without them. What an interrupt left out is None."""

    idis: Count
    epochs: Count
    before: DetectorState
    without_idis: DetectorState | None = None
    after: DetectorState | None = None


def idi_pictures(images: Bytes, change: Change, findings: ImageFindings) -> Bytes:
    """Both pictures of each pair, as bytes; `images` and `change` are what the search was given."""
    return np.concatenate(findings.pictures(images, change))


def fine_tuned(
    detector: Detector,
    data: ImageSet,
    more: Bytes,
    labels: Ints,
    *,
    seed: int,
    training: Training = ON_REPAIRS,
    progress: Callable[[int, int], None] | None = None,
) -> Detector:
    """Train a copy of the detector further, with the data that it may learn from and with more
    pictures.
    """
    images = np.concatenate([data.images[~data.held_out], more])
    y = np.concatenate([data.y[~data.held_out], labels])
    new = copy.deepcopy(detector)
    weights = list(new.parameters())
    if not weights:
        raise ModelError("It has no weights to train.")
    if not any(weight.requires_grad for weight in weights):  # frozen for use, but the copy learns
        new.requires_grad_(True)
    train_on_images(new, images, y, seed=seed, training=training, progress=progress)
    return new


def measure(
    detector: Detector,
    task: Task,
    *,
    before: Measured | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Measured:
    """Measure a detector with a fresh attribute head, a fresh change, the interpretation and a new
    attack. The IDIs of `before` are judged again.
    """
    data, attribute = task.data, task.data.attributes[task.sensitive]
    right = quality(detector, data, task.sensitive)
    head = attribute_head(
        detector,
        data.images[task.to_learn],
        attribute.codes[task.to_learn],
        len(attribute.values),
        seed=task.seed,
    )
    images = data.images[task.attacked]
    change = sensitive_change(head, images, task.change)
    flips = Rate.of(int(change.flipped.sum()), len(change))
    images, change = images[change.flipped], change.take(change.flipped)
    if len(images) == 0:
        none = PairCount(strict=Rate.of(0, 0), loose=Rate.of(0, 0))
        state = DetectorState(
            accuracy=right.accuracy,
            detection_rate=right.detection_rate,
            auc=0.0,
            auc_random_signs=0.0,
            flips=flips,
            differing=none,
            differing_faces=none,
            success=none,
            l2=None,
        )
        return Measured(state, np.empty(0), as_numbers(images), np.empty(0, dtype=bool))
    signs, walk = np.random.default_rng(task.seed).spawn(2)
    bias = image_bias(detector, images, change, by=task.by)
    noise = image_bias(detector, images, random_change(head, images, change, rng=signs), by=task.by)
    found = search_images(
        detector, images, change, task.search, bias=bias, rng=walk, progress=progress
    )
    if found.stopped == "interrupted":  # half an attack measures nothing
        raise KeyboardInterrupt
    strict = strict_pairs(detector, head, *found.pictures(images, change))
    idis, counted = found.pairs(images, change)[0][~found.at_seed], strict[~found.at_seed]
    earlier = (idis, counted) if before is None else (before.idis, before.strict)
    state = DetectorState(
        accuracy=right.accuracy,
        detection_rate=right.detection_rate,
        auc=bias.auc,
        auc_random_signs=noise.auc,
        flips=flips,
        differing=_still_differing(detector, head, *earlier, task.change),
        differing_faces=PairCount.of(found.at_seed & strict, found.at_seed, found.seeds),
        success=PairCount.of(strict, np.ones(len(found), dtype=bool), found.seeds),
        l2=mean_of(found.moved_by[counted]),
    )
    return Measured(state, found.moved_by, idis, counted)


def mean_of(values: Floats) -> Estimate | None:
    """Estimate a mean with Student's interval, which would not hold for few values."""
    if len(values) == 0:
        return None
    ends = Repeats(tuple(values.tolist())).interval if len(values) >= FEWEST_FOR_MEAN else None
    low, high = ends or (None, None)
    return Estimate(estimate=float(values.mean()), low=low, high=high, samples=len(values))


def _still_differing(
    detector: Detector, head: nn.Module, images: Rows, counted: Mask, settings: ChangeSettings
) -> PairCount:
    """Count the pictures whose verdict changes with a fresh change that is made for them."""
    if len(images) == 0:
        return PairCount(strict=Rate.of(0, 0), loose=Rate.of(0, 0))
    changed = np.clip(images + sensitive_change(head, images, settings).delta, 0, 1)
    loose = labels_of(detector, images) != labels_of(detector, changed)
    strict = strict_pairs(detector, head, as_bytes(images), as_bytes(changed)) & loose
    return PairCount(
        strict=Rate.of(int(strict[counted].sum()), int(counted.sum())),
        loose=Rate.of(int(loose.sum()), len(loose)),
    )
