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
from fairprobe.scenes.realism import Appearance, Patches, appearance, scores, threshold_of
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
        if min(len(made), len(real.values)) < FEWEST:
            evidence.messages.append(
                f"Whether mutants of '{operator}' look real was not checked: {FEWEST} of them and"
                f" {FEWEST} real patches are needed; there are {len(made)} and {len(real.values)}."
            )
        else:
            found.append(_judge(evidence, operator, made, real))
    return found


def _judge(
    evidence: Evidence, operator: Mutation, made: list[MadePicture], real: Patches
) -> OperatorRealism:
    names = [one.task.scene for one in made]
    known = set(evidence.facts)
    # Given cut-outs come from no scene, so that only the picture's own scene is left out.
    sources = [one.source if one.source in known else one.task.scene for one in made]
    mutants = Patches(names, sources, np.array([one.look for one in made]))
    of_real, of_mutants = scores(real, mutants)
    threshold = threshold_of(of_real)
    for one, score in zip(made, of_mutants.tolist(), strict=True):
        evidence.realism[str(one.path.relative_to(evidence.folder))] = score
    passes = of_mutants >= threshold
    scenes, at = np.unique(names, return_inverse=True)
    hits, pictures = np.zeros((len(scenes), 1)), np.zeros((len(scenes), 1))
    np.add.at(hits, at, passes[:, None].astype(np.float64))
    np.add.at(pictures, at, 1.0)
    share = Ratio(hits, pictures, is_share=True)
    low, high = share.interval
    return OperatorRealism(
        operator=operator,
        pictures=len(made),
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
