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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.scenes.analysis import ALL, PRIMARY, analyses
from fairprobe.scenes.oracles import Test, reference_counts
from fairprobe.scenes.plan import SceneFacts, Settings, find_usual, plan_tasks

# Objects annotated in CamVid's 39 photographs: persons, cars and bicycles, a digit each.
CAMVID = [531, 710, 511, 322, 511, 210, 510, 620, 100, 210, 210, 320, 130, 210, 320, 212, 320, 210,
          30, 320, 420, 320, 510, 420, 421, 420, 430, 320, 10, 201, 110, 10, 122, 140, 320, 601,
          220, 360, 220]  # fmt: skip
# Traffic lights that recognizers see in the same photographs.
LIGHTS = "200000030000000010002223323100001001003"
# Objects of a class in a street scene, on average: unequal, and cars in crowds.
STREET = {"person": 1.2, "car": 4.0, "traffic light": 1.5, "bicycle": 0.6, "truck": 0.6, "bus": 0.4,
          "motorcycle": 0.4, "dog": 0.3, "bird": 0.2}  # fmt: skip
# Scenes of 25 that show a class which is in few of them.
FEW = {"person": 25, "car": 25, "bicycle": 13, "bus": 10, "truck": 8, "dog": 5, "bird": 3}
# The share that FastestDet recognizes in CamVid's photographs; half of all others.
RECALL = {"person": 0.22, "car": 0.48, "bicycle": 0.1, "traffic light": 0.28}
ANGLES = {"person": 90.0, "motorcycle": 45.0}


Unit: TypeAlias = Literal["object", "class", "scene"]


class Answer(Protocol):
    """What a detector counts in a picture in which these objects are now."""

    def __call__(self, there: Counter[str], /, *, mutated: bool) -> Counter[str]: ...


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

    def watch(self, _: Counter[str], labels: list[str], rng: np.random.Generator) -> Answer:
        """Its answers to the pictures of one scene."""

        def answer(there: Counter[str], /, *, mutated: bool) -> Counter[str]:
            share = np.full(len(labels), 1 - self.noise)
            if mutated or self.always:
                share[labels.index(self.label)] *= 1 - self.missed
            seen = rng.binomial([there[label] for label in labels], share)
            if self.ghosts and rng.random() < self.noise:
                seen[rng.integers(len(labels))] += 1
            return +Counter(dict(zip(labels, seen.tolist(), strict=True)))

        return answer


@dataclass(frozen=True)
class Steady:
    """A fair detector that answers alike in all pictures of a scene, as real ones do.

    It recognizes some objects of the original, of some classes more than of others (`RECALL`).
    Mutants change that: what was recognized is lost and what was missed is found, with the same
    probability for all classes. The probability is `change` on average, and drawn anew for each
    object, for each class in each scene, or for each scene.
    """

    change: float
    unit: Unit = "object"
    alike: float = 1.0
    """The correlation of two mutants within a unit. 1: a unit changes in all mutants or in none."""

    def watch(self, there: Counter[str], labels: list[str], rng: np.random.Generator) -> Answer:
        """Its answers to the pictures of one scene. The class that was mutated is not judged, so
        that its number need not change.
        """
        place = np.repeat(np.arange(len(labels)), [there[label] for label in labels])
        recall = np.array([RECALL.get(label, 0.5) for label in labels])
        is_seen = rng.random(len(place)) < recall[place]
        units = {"object": np.arange(len(place)), "class": place, "scene": 0 * place}[self.unit]
        chance = self._chances(int(units.max(initial=-1)) + 1, rng)[units]

        def answer(_: Counter[str], /, *, mutated: bool) -> Counter[str]:
            is_changed = mutated & (rng.random(len(place)) < chance)
            found = np.bincount(place[is_seen ^ is_changed], minlength=len(labels))
            return +Counter(dict(zip(labels, found.tolist(), strict=True)))

        return answer

    def _chances(self, units: int, rng: np.random.Generator) -> Floats:
        if self.alike >= 1:
            return np.asarray(rng.random(units) < self.change, dtype=np.float64)
        weight = (1 - self.alike) / self.alike
        return rng.beta(self.change * weight, (1 - self.change) * weight, size=units)


def draw_scenes(world: str, count: int, rng: np.random.Generator) -> dict[str, Counter[str]]:
    """Scenes of a world: "camvid" (three classes), "lights" (the same with traffic lights),
    "street" (nine classes), "crowd" (thrice as many objects), "few" (classes in few scenes).
    """
    labels = list(STREET)
    if world in ("camvid", "lights"):
        every = [[*map(int, f"{one:03}{light}")] for one, light in zip(CAMVID, LIGHTS, strict=True)]
        labels = ["person", "car", "bicycle", "traffic light"][: 3 if world == "camvid" else 4]
        rows = [every[at][: len(labels)] for at in rng.integers(len(every), size=count)]
    elif world == "few":
        labels = list(FEW)
        table = np.zeros((count, len(labels)), dtype=int)
        for at, number in enumerate(FEW.values()):
            places = rng.choice(count, size=round(number / 25 * count), replace=False)
            table[places, at] = 1 + rng.poisson(0.5, size=len(places))
        rows = table.tolist()
    else:
        busy: Floats = rng.gamma(2, 0.5 if world == "street" else 1.5, size=(count, 1))
        rows = rng.poisson(busy * np.array(list(STREET.values()))).tolist()
    return {
        f"{at:04}": +Counter(dict(zip(labels, row, strict=True))) for at, row in enumerate(rows)
    }


def simulate(
    detectors: Sequence[Planted | Steady], world: str, scenes: int, seed: int
) -> tuple[list[Test], Settings]:
    """The unusual mutants of one audit, as tests. All mutations are taken together, since only the
    primary analyses name classes.
    """
    rng = np.random.default_rng(seed)
    settings = Settings(seed=seed)
    content = draw_scenes(world, scenes, rng)
    labels = sorted({label for counts in content.values() for label in counts} | {"person"})
    facts = {
        name: SceneFacts(
            counts, {label: (ANGLES.get(label, 0.0),) * number for label, number in counts.items()}
        )
        for name, counts in content.items()
    }
    watched = {
        (str(at), name): detector.watch(counts, labels, rng)
        for at, detector in enumerate(detectors)
        for name, counts in content.items()
    }
    seen: dict[str, dict[str, Counter[str]]] = {str(at): {} for at in range(len(detectors))}
    for (detector, name), answer in watched.items():
        seen[detector][name] = answer(content[name], mutated=False)
    truth = {
        name: reference_counts(counts, [one[name] for one in seen.values()])
        for name, counts in content.items()
    }
    plans = plan_tasks(facts, seen, settings, find_usual(facts, seen, settings))
    tests = []
    for detector, tasks in plans.items():
        for at, task in enumerate(tasks):
            # Only what is seen whole in some scene can be cut out and inserted.
            if task.kind != "ood" or (task.operator == "insert" and task.label not in labels):
                continue
            there = content[task.scene].copy()
            if task.operator == "insert":
                there[task.label] += task.objects
            if task.operator == "delete":
                del there[task.label]
            tests.append(
                Test(
                    scene=task.scene,
                    detector=detector,
                    operator=ALL,
                    label=task.label,
                    kind=task.kind,
                    repeat=task.repeat,
                    image=str(at),
                    original=seen[detector][task.scene],
                    found=watched[detector, task.scene](there, mutated=True),
                    truth=truth[task.scene],
                    objects=task.objects,
                    annotation=content[task.scene],
                )
            )
    return tests, settings


def names(
    detectors: Sequence[Planted | Steady], world: str, scenes: int, seed: int
) -> dict[str, set[str]]:
    """The classes that one simulated audit names, by recognizer; "0" is the first."""
    tests, settings = simulate(detectors, world, scenes, seed)
    found: dict[str, set[str]] = {str(at): set() for at in range(len(detectors))}
    for one in analyses(tests, PRIMARY, seed=settings.seed):
        found[one.detector] |= set(one.unfair)
    return found


def named(detector: Planted | Steady, world: str, scenes: int, seed: int) -> set[str]:
    """The same of a single recognizer."""
    return names([detector], world, scenes, seed)["0"]


# -- the table -------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A row: what is simulated."""

    title: str
    detectors: tuple[Planted | Steady, ...]
    world: str
    scenes: int


def planted() -> Iterator[Case]:
    """Persons are failed by the first recognizer."""
    sorts = {
        "60 % of persons missed, always": Planted(missed=0.6),
        "60 % of persons missed, in mutants only": Planted(missed=0.6, always=False),
        "60 % of persons missed, always; nothing invented": Planted(missed=0.6, ghosts=False),
    }
    for title, detector in sorts.items():
        for world in ("camvid", "street", "crowd"):
            yield Case(title, (detector,), world, 25)


def noise() -> Iterator[Case]:
    """Nobody is failed: errors are independent."""
    sorts = {
        "20 % noise alone": Planted(),
        "20 % noise alone, nothing invented": Planted(ghosts=False),
        "5 % noise alone": Planted(noise=0.05),
    }
    for title, detector in sorts.items():
        for world in ("camvid", "street", "crowd"):
            yield Case(title, (detector,), world, 25)
    for share in (0.005, 0.01, 0.02):
        for world, scenes in (("lights", 39), ("street", 25), ("few", 25)):
            yield Case(f"{share:.1%} noise alone", (Planted(noise=share),), world, scenes)


def steady() -> Iterator[Case]:
    """Nobody is failed: errors are rare and come together."""
    for change in (0.01, 0.05, 0.2):
        for alike, unit in STEADY:
            for world, scenes in (("lights", 39), ("few", 25)):
                title = f"{change:.0%} changes, {alike} within {unit}"
                yield Case(title, (Steady(change, unit, alike),), world, scenes)


def several() -> Iterator[Case]:
    """Three recognizers in one run: all fair, or the first one planted."""
    for world, scenes in (("lights", 39), ("street", 25)):
        fair = (Planted(), Planted(noise=0.05), Steady(0.02, alike=0.1))
        yield Case("three recognizers, all fair", fair, world, scenes)
        one = (Planted(missed=0.6), *fair[1:])
        yield Case("three recognizers, one misses 60 % of persons, always", one, world, scenes)


STEADY: tuple[tuple[float, Unit], ...] = (
    (0.1, "object"), (1.0, "object"), (1.0, "class"), (0.3, "scene"),
)  # fmt: skip
TABLES = {"planted": planted, "noise": noise, "steady": steady, "several": several}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--only", default="", help="only rows whose title holds this text")
    asked = parser.parse_args()
    print("| detector | scenes | person named | anybody else named |")
    print("| :-- | :-- | --: | --: |")
    seeds = range(asked.first_seed, asked.first_seed + asked.runs)
    for case in (case for table in asked.tables for case in TABLES[table]()):
        if asked.only in case.title:
            every = [names(case.detectors, case.world, case.scenes, seed) for seed in seeds]
            print(f"| {case.title} | {case.scenes}, {case.world} | {counted(every)} |", flush=True)


def counted(every: Sequence[dict[str, set[str]]]) -> str:
    """In how many runs persons are named at the first recognizer, and anybody else anywhere."""
    right = [{"person"} & run["0"] for run in every]
    wrong = [run["0"] - {"person"} or any(run[key] for key in run if key != "0") for run in every]
    shares = (sum(map(bool, found)) for found in (right, wrong))
    return " | ".join(f"{count} of {len(every)} = {count / len(every):.1%}" for count in shares)


if __name__ == "__main__":
    main()
