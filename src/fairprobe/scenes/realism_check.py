"""The realism check of an audit: every mutant is scored, and those that look real are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from fairprobe.documents.scenes import Mutation, OperatorRealism
from fairprobe.errors import FairprobeError
from fairprobe.scenes.deletion import free_place
from fairprobe.scenes.evidence import Evidence
from fairprobe.scenes.geometry import touches_border
from fairprobe.scenes.intervals import Ratio
from fairprobe.scenes.labels import UPRIGHT
from fairprobe.scenes.mutants import MadePicture
from fairprobe.scenes.plan import random_for
from fairprobe.scenes.realism import (
    BLOCKS,
    Appearance,
    Patches,
    appearance,
    scores,
    threshold_of,
)
from fairprobe.scenes.scene import Instance, Scene

MOST_SCENES = 200  # from which real patches are taken
MOST_PATCHES = 6  # of each scene
FEWEST = 20  # mutants, and real patches, below which nothing is judged
SMALLEST = 0.05  # of the picture's height: smaller objects are not compared


@dataclass
class _Real:
    """Real patches so far."""

    scenes: list[str] = field(default_factory=list)
    values: list[Appearance] = field(default_factory=list)

    def add(self, scene: Scene, shape: Instance) -> None:
        found = appearance(scene.image, shape)
        if found is not None:
            self.scenes.append(scene.name)
            self.values.append(found)

    def patches(self) -> Patches:
        return Patches(self.scenes, self.scenes, np.array(self.values))


def check_realism(
    evidence: Evidence, progress: Callable[[int, int, str], None]
) -> list[OperatorRealism]:
    """Score every mutant, and count those that pass, operator by operator."""
    objects, background = _real(evidence, progress)
    found = []
    for operator in evidence.settings.mutations:
        made = [
            one
            for one in evidence.made.values()
            if (one.task.operator, one.task.kind) == (operator, "ood") and one.look is not None
        ]
        real = background if operator == "delete" else objects
        row = None
        scenes = {one.task.scene for one in made}
        if min(len(made), len(real.values)) >= FEWEST and len(scenes) >= BLOCKS:
            row = _judge(evidence, operator, made, real)
        if row is None:
            evidence.messages.append(
                f"Whether mutants of '{operator}' look real was not checked. It takes {FEWEST} of"
                f" them from {BLOCKS} scenes, and {FEWEST} real patches; there are {len(made)} from"
                f" {len(scenes)}, and {len(real.values)}."
            )
        else:
            found.append(row)
    return found


def _judge(
    evidence: Evidence, operator: Mutation, made: list[MadePicture], real: Patches
) -> OperatorRealism | None:
    names = [one.task.scene for one in made]
    # Given cut-outs come from no scene, so that only the picture's own scene is left out.
    sources = [one.source if one.source in evidence.facts else one.task.scene for one in made]
    of_real, of_mutants = scores(
        real, Patches(names, sources, np.array([one.look for one in made]))
    )
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
        real=len(real.values),
    )


def _real(evidence: Evidence, progress: Callable[[int, int, str], None]) -> tuple[Patches, Patches]:
    names = list(evidence.facts)
    rng = random_for(evidence.settings.seed, "realism")
    chosen = [names[at] for at in sorted(rng.permutation(len(names))[:MOST_SCENES])]
    labels = {one.task.label for one in evidence.made.values()}

    def scenes() -> Iterator[Scene]:
        for done, name in enumerate(chosen, start=1):
            with suppress(FairprobeError, OSError):  # named where it was read first
                yield evidence.scenes.read(name)
            progress(done, len(chosen), f"{done:,} of {len(chosen):,}")

    return real_patches(scenes(), labels, seed=evidence.settings.seed)


def real_patches(
    scenes: Iterable[Scene], labels: set[str], *, seed: int
) -> tuple[Patches, Patches]:
    """Patches of objects of these classes, and of the same shapes on plain background."""
    objects, background = _Real(), _Real()
    for scene in scenes:
        rng = random_for(seed, "realism", scene.name)
        for shape in _shapes(scene, labels):
            if not touches_border(shape, scene.size):
                objects.add(scene, shape)
        for shape in plain_shapes(scene, labels, rng):
            background.add(scene, shape)
    return objects.patches(), background.patches()


def _shapes(scene: Scene, labels: set[str]) -> list[Instance]:
    """The largest objects of these classes."""
    able = [
        one
        for one in scene.instances
        if one.label in labels and one.height >= SMALLEST * scene.size[0]
    ]
    return sorted(able, key=lambda one: one.height, reverse=True)[:MOST_PATCHES]


def plain_shapes(scene: Scene, labels: set[str], rng: np.random.Generator) -> Iterator[Instance]:
    """The shapes of objects, moved to where there is none, in nearby rows if possible."""
    taken = scene.stuff_mask(UPRIGHT)
    for one in scene.instances:
        taken |= one.whole(scene.size)
    for one in _shapes(scene, labels):
        place = free_place(taken, one.mask, one.box[1], rng)
        if place is not None:
            (left, top), (height, width) = place, one.mask.shape
            yield Instance(one.label, (left, top, left + width, top + height), one.mask)
