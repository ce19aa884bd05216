"""How often the evidence on scenes names a planted detector, and how often a fair one.

    python -m benchmarks.planted_detectors                  200 runs of every cell, a table
    python -m benchmarks.planted_detectors --runs 40

Answers of detectors are simulated; scenes are counts of objects. Everything after that is the
audit's own: which mutants are made (`plan`), the oracles, the analyses and their evidence. A
detector misses every object of every picture with the probability of its `noise`, and puts an
object that is not there into as many pictures. A planted one also misses `missed` of the persons:
always, or only once a scene has become unusual.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.scenes.analysis import analyses
from fairprobe.scenes.oracles import Test, reference_counts
from fairprobe.scenes.plan import SceneFacts, Settings, Task, find_usual, plan_tasks

# Objects annotated in CamVid's 39 photographs: persons, cars and bicycles, a digit each.
CAMVID = [531, 710, 511, 322, 511, 210, 510, 620, 100, 210, 210, 320, 130, 210, 320, 212, 320, 210,
          30, 320, 420, 320, 510, 420, 421, 420, 430, 320, 10, 201, 110, 10, 122, 140, 320, 601,
          220, 360, 220]  # fmt: skip
# Objects of a class in a street scene, on average: unequal, and cars in crowds.
STREET = {"person": 1.2, "car": 4.0, "traffic light": 1.5, "bicycle": 0.6, "truck": 0.6, "bus": 0.4,
          "motorcycle": 0.4, "dog": 0.3, "bird": 0.2}  # fmt: skip
ANGLES = {"person": 90.0, "motorcycle": 45.0}


@dataclass(frozen=True)
class Planted:
    """A detector whose errors are known."""

    noise: float = 0.2
    missed: float = 0.0
    """The share of `label` that it misses."""
    label: str = "person"
    always: bool = True
    """In originals, too, not only in mutants."""
    ghosts: bool = True
    """Whether it sees objects that are not there."""

    def answer(
        self, there: Counter[str], labels: list[str], *, mutated: bool, rng: np.random.Generator
    ) -> Counter[str]:
        """What it counts in a picture."""
        share = np.full(len(labels), 1 - self.noise)
        if mutated or self.always:
            share[labels.index(self.label)] *= 1 - self.missed
        seen = rng.binomial([there[label] for label in labels], share)
        if self.ghosts and rng.random() < self.noise:
            seen[rng.integers(len(labels))] += 1
        return +Counter(dict(zip(labels, seen.tolist(), strict=True)))


def draw_scenes(world: str, count: int, rng: np.random.Generator) -> dict[str, Counter[str]]:
    """Scenes of "camvid" (three classes), "street" (nine) or "crowd" (nine, thrice as many)."""
    if world == "camvid":
        rows = [list(map(int, f"{CAMVID[at]:03}")) for at in rng.integers(len(CAMVID), size=count)]
        labels = ["person", "car", "bicycle"]
    else:
        labels, rates = list(STREET), np.array(list(STREET.values()))
        busy: Floats = rng.gamma(2, 0.5 if world == "street" else 1.5, size=(count, 1))
        rows = rng.poisson(busy * rates).tolist()
    return {
        f"{at:04}": +Counter(dict(zip(labels, row, strict=True))) for at, row in enumerate(rows)
    }


def simulate(
    detector: Planted, world: str, scenes: int, seed: int, settings: Settings | None = None
) -> tuple[list[Test], Settings]:
    """All tests of one audit."""
    rng = np.random.default_rng(seed)
    settings = settings or Settings(seed=seed)
    content = draw_scenes(world, scenes, rng)
    labels = sorted({label for counts in content.values() for label in counts} | {detector.label})
    facts = {
        name: SceneFacts(
            counts, {label: (ANGLES.get(label, 0.0),) * number for label, number in counts.items()}
        )
        for name, counts in content.items()
    }
    seen = {
        name: detector.answer(counts, labels, mutated=False, rng=rng)
        for name, counts in content.items()
    }
    tasks = plan_tasks(facts, {"d": seen}, settings, find_usual(facts, {"d": seen}, settings))["d"]
    tests = []
    for task in _with_controls(tasks):
        # Only what is seen whole in some scene can be cut out and inserted.
        if task.operator == "insert" and task.label not in labels:
            continue
        there = content[task.scene].copy()
        if task.kind != "control" and task.operator == "insert":
            there[task.label] += task.objects
        if task.kind != "control" and task.operator == "delete":
            del there[task.label]
        found = detector.answer(there, labels, mutated=task.kind == "ood", rng=rng)
        tests.append(
            Test(
                scene=task.scene,
                detector="d",
                operator=task.operator,
                label=task.label,
                kind=task.kind,
                repeat=task.repeat,
                image=task.file,
                original=seen[task.scene],
                found=found,
                truth=reference_counts(content[task.scene], [seen[task.scene]]),
                objects=task.objects,
                annotation=content[task.scene],
            )
        )
    return tests, settings


def _with_controls(tasks: list[Task]) -> Iterator[Task]:
    for task in tasks:
        yield task
        if task.operator != "insert":
            yield replace(task, kind="control")


def named(detector: Planted, world: str, scenes: int, seed: int) -> set[str]:
    """The classes that one simulated audit names."""
    tests, settings = simulate(detector, world, scenes, seed)
    return {
        label
        for one in analyses(tests, seed=settings.seed)
        if one.is_primary
        for label in one.unfair
    }


# -- the table -------------------------------------------------------------------------------------

DETECTORS = {
    "60 % of persons missed, always": Planted(missed=0.6),
    "60 % of persons missed, in mutants only": Planted(missed=0.6, always=False),
    "60 % of persons missed, always; nothing invented": Planted(missed=0.6, ghosts=False),
    "20 % noise alone": Planted(),
    "20 % noise alone, nothing invented": Planted(ghosts=False),
    "5 % noise alone": Planted(noise=0.05),
}
WORLDS = ("camvid", "street", "crowd")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--scenes", type=int, default=25)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=WORLDS)
    asked = parser.parse_args()
    print("| detector | scenes | person named | another class named | anybody named |")
    print("| :-- | :-- | --: | --: | --: |")
    for title, detector in DETECTORS.items():
        for world in asked.worlds:
            seeds = range(asked.first_seed, asked.first_seed + asked.runs)
            every = [named(detector, world, asked.scenes, seed) for seed in seeds]
            counts = (
                sum("person" in one for one in every),
                sum(bool(one - {"person"}) for one in every),
                sum(map(bool, every)),
            )
            cells = (f"{count} of {asked.runs} = {count / asked.runs:.1%}" for count in counts)
            print(f"| {title} | {asked.scenes}, {world} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
