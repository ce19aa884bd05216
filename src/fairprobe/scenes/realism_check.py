"""The realism check of an audit: every mutant is scored, and those that look real are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from scipy import ndimage

from fairprobe.errors import FairprobeError
from fairprobe.results import Count, Result, Share, check_interval
from fairprobe.scenes.collect import Evidence
from fairprobe.scenes.cutouts import trimmed
from fairprobe.scenes.deletion import BESIDE, DEFAULTS, free_places, grown_mask
from fairprobe.scenes.geometry import is_obstructed, is_single, touches_border
from fairprobe.scenes.intervals import Ratio
from fairprobe.scenes.labels import UPRIGHT
from fairprobe.scenes.mutants import MadePicture
from fairprobe.scenes.plan import random_for
from fairprobe.scenes.realism import (
    AROUND,
    BLOCKS,
    Look,
    Patches,
    look_at,
    scores,
    threshold_of,
)
from fairprobe.scenes.scene import Instance, Mutation, Picture, Scene

MAX_SCENES = 200  # from which real patches are taken
MAX_PATCHES = 6  # of each scene
MIN_PATCHES = 20  # mutants, and real patches, below which nothing is judged
SMALLEST = 0.05  # of the picture's height: smaller objects are not compared


class OperatorRealism(Result, frozen=True, kw_only=True):
    """The realism check of one mutation: mutants that look no less real than 90 % of real patches.

    `threshold` is the score that they must reach, and `real` the number of real patches by which it
    was chosen; no patch is scored by a classifier that saw its scene or its object.
    """

    operator: Mutation
    pictures: Count
    passed: Count
    share: Share
    low: Share
    high: Share
    threshold: Share
    real: Count

    def __post_init__(self) -> None:
        check_interval(self.low, self.share, self.high)
        if self.passed > self.pictures:
            raise ValueError(f"{self.passed} of {self.pictures} mutants pass")


@dataclass
class _Real:
    """Real patches so far."""

    scenes: list[str] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)

    def add(self, scene: Scene, look: Look | None) -> None:
        if look is not None:
            self.scenes.append(scene.name)
            self.looks.append(look)

    def patches(self) -> Patches:
        return Patches(self.scenes, self.scenes, self.looks)


def check_realism(
    evidence: Evidence, progress: Callable[[int, int, str], None]
) -> list[OperatorRealism]:
    """Score every mutant, and count those that pass, operator by operator."""
    objects, background = _real(evidence, progress)
    found = []
    for operator in evidence.settings.mutations:
        made = [
            picture
            for picture in evidence.made.values()
            if (picture.task.operator, picture.task.kind) == (operator, "ood")
            and picture.look is not None
        ]
        real = background if operator == "delete" else objects
        row = None
        scenes = {picture.task.scene for picture in made}
        if min(len(made), len(real.looks)) >= MIN_PATCHES and len(scenes) >= BLOCKS:
            row = _judge(evidence, operator, made, real)
        if row is None:
            evidence.messages.append(
                f"Whether mutants of '{operator}' look real was not checked. It takes"
                f" {MIN_PATCHES} of them from {BLOCKS} scenes, and {MIN_PATCHES} real patches;"
                f" there are {len(made)} from {len(scenes)}, and {len(real.looks)}."
            )
        else:
            found.append(row)
    return found


def _judge(
    evidence: Evidence, operator: Mutation, made: list[MadePicture], real: Patches
) -> OperatorRealism | None:
    names = [picture.task.scene for picture in made]
    # Given cut-outs come from no scene, so that only the picture's own scene is left out.
    sources = [
        picture.source if picture.source in evidence.facts else picture.task.scene
        for picture in made
    ]
    looks = [picture.look for picture in made if picture.look is not None]
    of_real, of_mutants = scores(real, Patches(names, sources, looks))
    judged = np.flatnonzero(~np.isnan(of_mutants))
    if not len(judged) or np.isnan(of_real).all():
        return None
    threshold = threshold_of(of_real)
    for at in judged.tolist():
        path = made[at].path.relative_to(evidence.folder)
        evidence.realism[str(path)] = float(of_mutants[at])
    passes = of_mutants[judged] >= threshold
    scenes, at_scene = np.unique(np.array(names)[judged], return_inverse=True)
    hits, pictures = np.zeros((len(scenes), 1)), np.zeros((len(scenes), 1))
    np.add.at(hits, at_scene, passes[:, None].astype(np.float64))
    np.add.at(pictures, at_scene, 1.0)
    share = Ratio(hits, pictures, is_share=True)
    low, high = share.interval
    return OperatorRealism(
        operator=operator,
        pictures=len(judged),
        passed=int(passes.sum()),
        share=float(share.value[0]),
        low=float(low[0]),
        high=float(high[0]),
        threshold=threshold,
        real=len(real.looks),
    )


def _real(evidence: Evidence, progress: Callable[[int, int, str], None]) -> tuple[Patches, Patches]:
    names = list(evidence.facts)
    rng = random_for(evidence.settings.seed, "realism")
    chosen = [names[at] for at in sorted(rng.permutation(len(names))[:MAX_SCENES])]
    labels = {picture.task.label for picture in evidence.made.values()}

    def scenes() -> Iterator[Scene]:
        for done, name in enumerate(chosen, start=1):
            with suppress(FairprobeError, OSError):  # named where it was read first
                yield evidence.scenes.read(name)
            progress(done, len(chosen), f"{done:,} of {len(chosen):,}")

    return real_patches(scenes(), labels)


def real_patches(scenes: Iterable[Scene], labels: set[str]) -> tuple[Patches, Patches]:
    """Collect patches of objects of these classes, and of their shapes on the background next to
    them.
    """
    objects, background = _Real(), _Real()
    for scene in scenes:
        for shape in _shapes(scene, labels):
            if not touches_border(shape, scene.size):
                objects.add(scene, look_of_real(scene, shape))
        for shape in plain_shapes(scene, labels):
            background.add(scene, look_at(scene.image, shape))
    return objects.patches(), background.patches()


def look_of_real(scene: Scene, shape: Instance, image: Picture | None = None) -> Look | None:
    """Measure the look of an annotated object, in another picture of its scene if one is given."""
    is_whole = is_single(shape) and not is_obstructed(scene, shape)
    shown = scene.image if image is None else image
    return look_at(shown, trimmed(shape), scene, is_whole=is_whole)


def _shapes(scene: Scene, labels: set[str]) -> list[Instance]:
    """Return the largest objects of these classes."""
    able = [
        instance
        for instance in scene.instances
        if instance.label in labels and instance.height >= SMALLEST * scene.size[0]
    ]
    return sorted(able, key=lambda instance: instance.height, reverse=True)[:MAX_PATCHES]


def plain_shapes(scene: Scene, labels: set[str]) -> Iterator[Instance]:
    """Yield the shapes that deletions would paint, moved to the nearest places to the left and
    right without an object, also around the shape: the surroundings are then much like those of a
    deleted object. Areas that a deletion would paint (shadows) and unlabelled areas, which may be
    objects, are excluded.
    """
    taken = scene.stuff_mask(UPRIGHT) | scene.unlabelled() | scene.mask_of(scene.instances)
    taken = ndimage.maximum_filter(taken, size=2 * AROUND + 1)
    taken |= grown_mask(scene, scene.instances)
    margin = DEFAULTS.margin_in(scene)
    for shape in _shapes(scene, labels):
        mask = ndimage.maximum_filter(np.pad(shape.mask, margin), size=2 * margin + 1)
        free = free_places(taken, mask)
        away = free - (shape.box[1] - margin, shape.box[0] - margin)
        for side in (away[:, 1] < 0, away[:, 1] > 0):
            if side.any():
                far = np.hypot(BESIDE * away[side, 0], away[side, 1])
                top, left = free[side][int(np.argmin(far))].tolist()
                box = (left, top, left + mask.shape[1], top + mask.shape[0])
                yield Instance(shape.label, box, mask)
