"""Does training on exported mutants help? The drawn detector before and after, beside controls.

    python -m benchmarks.retrained_detector                                 six pairs, the tables
    python -m benchmarks.retrained_detector --first-pair 4 --unseen 616161  six others

In the streets that the drawn detector is trained on, everything stands upright; it counts persons
and motorcycles badly that lean. `fairprobe audit-scenes ... --set any_angle=true --export` turns
and deletes them in some of its own streets. Training then goes on, with as many pictures, as often
and as fast in each arm:

    originals       these streets, each several times
    mutants         these streets, and the exported mutants with their exported annotations
    wrong           the same pictures; each mutant with the annotations of its original

Everything is read back by the ordinary COCO reader. All detectors then answer for the same unseen
streets and their mutants, planned for the packaged detector. What is there is known from the
drawing and the mutation, not from the export.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from PIL import Image

from fairprobe.arrays import Floats, Ints
from fairprobe.scenes.audit import ANNOTATIONS, PICTURES, audit_scenes, write_coco
from fairprobe.scenes.demo import LABELS, DrawnDetector, drawn_detector
from fairprobe.scenes.detectors.base import count_labels
from fairprobe.scenes.mutants import MadePicture, read_mutant
from fairprobe.scenes.oracles import ORACLES, Test, errors
from fairprobe.scenes.scene import Box, Instance, Picture, Scene
from fairprobe.scenes.sources import open_scenes
from fairprobe.statistics.paired import Difference, holm, paired_difference
from tools.streets.drawn import DrawnScenes
from tools.streets.training import DetectorTraining, train, training_streets

ARMS = ("originals", "mutants", "wrong")
NOTHING_JUDGED = 3  # exit code: too few objects for a verdict, but mutants are there
UNSEEN = 424_242  # the seed of the streets that are tested on
SIDE = 0.975  # of a two-sided interval of 95 %
CLASSES = ("person", "motorcycle")  # that are mutated
SCORES = {"rotate": "turned", "delete": "ghost"}
LEAST_SCORE = 0.01  # of boxes whose scores are compared; answers have far higher ones
FUNCTION = """
from pathlib import Path

import torch
from fairprobe.scenes.demo import DrawnDetector, Network

network = Network()
network.load_state_dict(torch.load(Path(__file__).with_name("weights.pt"), weights_only=True))
detector = DrawnDetector(network)
detect = lambda picture: list(detector.detect(picture))
"""
AFTER = DetectorTraining(epochs=3, rate=1e-3)


@dataclass(frozen=True)
class Scale:
    """How much is drawn, mutated and trained."""

    originals: int = 40
    """Streets that are mutated, and in each arm."""
    mutants: int = 80
    """Most of them in an arm, drawn at random."""
    unseen: int = 32
    training: DetectorTraining = AFTER


DEFAULTS = Scale()


# -- the arms --------------------------------------------------------------------------------------


def written(streets: Iterable[Scene], folder: Path) -> list[Scene]:
    """Streets as a COCO folder, with their ground, and as they are read from it."""
    (folder / PICTURES).mkdir(parents=True)
    entries = []
    for one in streets:
        Image.fromarray(one.image).save(folder / PICTURES / f"{one.name}.png", compress_level=1)
        ground = ((name, one.stuff == at) for at, name in enumerate(one.stuff_names) if at)
        stuff = (Instance.of(name, mask) for name, mask in ground if mask.any())
        entries.append(({"file_name": f"{one.name}.png"}, one.size, (*stuff, *one.instances)))
    return list(open_scenes(folder / PICTURES, write_coco(folder, entries)))


def exported(folder: Path, start: DrawnDetector, seed: int) -> list[tuple[Scene, str]]:
    """What the command exports of the streets in this folder, with the names of the originals."""
    (folder / "detector.py").write_text(FUNCTION)
    torch.save(start.network.state_dict(), folder / "weights.pt")
    command = [
        sys.executable,
        "-m",
        "fairprobe",
        "audit-scenes",
        folder / PICTURES,
        "--annotations",
    ]
    command += [folder / ANNOTATIONS, "--detector", f"{folder / 'detector.py'}:detect", "--quiet"]
    command += ["--out", folder / "run", "--export", folder / "export", "--seed", str(seed)]
    command += [
        "--mutations",
        "delete,rotate",
        "--set",
        "any_angle=true",
        "--classes",
        ",".join(CLASSES),
    ]
    command += ["--repeats", "1"]
    done = subprocess.run([*map(str, command)], check=False)  # noqa: S603
    if done.returncode not in (0, NOTHING_JUDGED):
        raise SystemExit(f"The audit of seed {seed} ended with exit code {done.returncode}.")
    path = folder / "export" / ANNOTATIONS
    entries = json.loads(path.read_text())["images"]
    names = {_stem(entry["file_name"]): _stem(entry["scene"]) for entry in entries}
    scenes = open_scenes(folder / "export" / PICTURES, path)
    return [(one, names[_stem(one.name)]) for one in scenes]


def arms(
    pair: int, folder: Path, start: DrawnDetector, scale: Scale = DEFAULTS
) -> dict[str, list[Scene]]:
    """The pictures of each arm: equally many. The streets are of the detector's own training."""
    originals = written(training_streets(scale.originals, pair), folder)
    mutants = exported(folder, start, pair)
    few = np.random.default_rng(pair).permutation(len(mutants))[: scale.mutants]
    annotated = {_stem(one.name): one.instances for one in originals}
    wrong = [replace(mutants[at][0], instances=annotated[mutants[at][1]]) for at in few]
    again = [originals[at % len(originals)] for at in range(len(few))]
    right = [mutants[at][0] for at in few]
    return {
        "originals": originals + again,
        "mutants": originals + right,
        "wrong": originals + wrong,
    }


def _stem(name: str) -> str:
    return name.removesuffix(".png")


# -- what is measured ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """An unseen street or one of its mutants, and what is there."""

    scene: str
    image: Picture
    there: Counter[str]
    made: MadePicture | None = None


def questions(
    folder: Path, scale: Scale = DEFAULTS, *, seed: int = UNSEEN
) -> tuple[list[Question], list[Question]]:
    """Unseen streets, and their mutants. Counts are known without the export."""
    scenes = DrawnScenes(scale.unseen, seed=seed)
    audit = audit_scenes(
        scenes,
        [drawn_detector()],
        mutations=("delete", "rotate"),
        classes=CLASSES,
        any_angle=True,
        repeats=2,
        folder=folder,
    )
    originals = {one.name: Question(one.name, one.image, one.counts()) for one in scenes}
    mutants = []
    for made in audit.evidence.made.values():
        task, there = made.task, originals[made.task.scene].there.copy()
        if task.kind != "ood":
            continue
        if task.operator == "delete":
            del there[task.label]
        mutants.append(Question(task.scene, read_mutant(made.path), there, made))
    return list(originals.values()), sorted(mutants, key=lambda one: str(one.made))


def marks(
    detector: DrawnDetector, originals: list[Question], mutants: list[Question]
) -> dict[str, Floats]:
    """The errors of one detector, picture by picture."""
    before = {one.scene: count_labels(detector.detect(one.image)) for one in originals}
    there = {one.scene: one.there for one in originals}
    found = [count_labels(detector.detect(one.image)) for one in mutants]
    tests = [_test(one, before, there, counts) for one, counts in zip(mutants, found, strict=True)]
    wrong = np.array(
        [
            [abs(counts[label] - one.there[label]) for label in LABELS]
            for one, counts in zip(mutants, found, strict=True)
        ],
        dtype=np.float64,
    )
    result = {"mutants": wrong.sum(axis=1)}
    for operator in ("rotate", "delete"):
        result[operator] = np.array(
            [
                row[LABELS.index(_label(one, operator))] if _label(one, operator) else 0.0
                for row, one in zip(wrong, mutants, strict=True)
            ]
        )
    upright = [_label(one, "rotate") for one in mutants]
    result["upright"] = np.array(
        [
            abs(before[one.scene][label] - there[one.scene][label])
            for one, label in zip(mutants, upright, strict=True)
        ],
        dtype=float,
    )
    result |= {f"mutants {label}": wrong[:, at] for at, label in enumerate(LABELS)}
    for oracle in ORACLES:
        result[oracle] = np.array([errors(test, oracle).total() for test in tests], dtype=float)
    unsure = DrawnDetector(detector.network, threshold=LEAST_SCORE)
    for operator, name in SCORES.items():
        result[name] = np.array([_score(unsure, one, operator) for one in mutants])
    seen = [(before[one.scene], one.there) for one in originals]
    result["originals"] = np.array(
        [sum(abs(counts[c] - there[c]) for c in LABELS) for counts, there in seen], dtype=float
    )
    result["accuracy"] = np.array([(counts & there).total() for counts, there in seen], dtype=float)
    return result


def _score(detector: DrawnDetector, one: Question, operator: str) -> float:
    """How sure the detector is that an object of the mutated class is where one was turned to, or
    deleted: the greatest score of boxes whose middle is there; on average of all places.
    """
    if one.made is None or one.made.task.operator != operator:
        return 0.0
    found = [two for two in detector.detect(one.image) if two.label == one.made.task.label]
    scores = [
        max((two.score for two in found if two.box and _is_middle_in(two.box, place)), default=0.0)
        for place in one.made.places
    ]
    return float(np.mean(scores))


def _is_middle_in(box: tuple[float, ...], place: Box) -> bool:
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    return place[0] <= x < place[2] and place[1] <= y < place[3]


def _test(
    one: Question,
    before: Mapping[str, Counter[str]],
    there: Mapping[str, Counter[str]],
    found: Counter[str],
) -> Test:
    assert one.made is not None
    task, name = one.made.task, one.scene
    parts = (name, "drawn", task.operator, task.label, task.kind, task.repeat, task.file)
    return Test(*parts, original=before[name], found=found, truth=there[name])


def _label(one: Question, operator: str) -> str:
    """The mutated class, if this was done to it."""
    is_it = one.made is not None and one.made.task.operator == operator
    return one.made.task.label if is_it and one.made is not None else ""


def weights(originals: list[Question], mutants: list[Question]) -> dict[str, float]:
    """The objects of an average picture by which the counts of a measure are divided."""
    there = {one.scene: one.there for one in originals}
    judged = [
        there[one.scene].total() - there[one.scene][one.made.task.label]
        for one in mutants
        if one.made is not None
    ]
    objects = {"mutants": [one.there.total() for one in mutants]}
    for operator in ("rotate", "delete"):
        objects[operator] = [there[one.scene][_label(one, operator)] for one in mutants]
    objects["upright"] = objects["rotate"]
    objects |= {f"mutants {c}": [one.there[c] for one in mutants] for c in LABELS}
    objects |= dict.fromkeys(ORACLES, judged)
    for operator, name in SCORES.items():
        objects[name] = [int(bool(_label(one, operator))) for one in mutants]
    whole = [one.there.total() for one in originals]
    objects |= {"originals": whole, "accuracy": whole}
    return {name: float(np.mean(counts)) for name, counts in objects.items()}


def measured(
    pair: int, originals: list[Question], mutants: list[Question], scale: Scale = DEFAULTS
) -> dict[str, dict[str, Floats]]:
    """Before, and after each arm."""
    start = DrawnDetector(train(seed=pair))
    result = {"before": marks(start, originals, mutants)}
    with TemporaryDirectory() as folder:
        lessons = arms(pair, Path(folder), start, scale)
    for name, scenes in lessons.items():
        network = train(scenes=scenes, start=start.network, seed=pair, training=scale.training)
        result[name] = marks(DrawnDetector(network), originals, mutants)
    return result


# -- the tables ------------------------------------------------------------------------------------

TITLES = {
    "mutants": "mutants: missed or added",
    "rotate": "the class that was turned",
    "upright": "the same class, before it was turned",
    "delete": "the class that was deleted",
    "turned": "score of the turned object",
    "ghost": "score where an object was deleted",
    "gt": "ground-truth oracle",
    "exclusion": "metamorphic: lost",
    "inclusion": "metamorphic: gained",
    "originals": "originals: missed or added",
    "accuracy": "originals: found",
}
PAIRS = (("mutants", "originals"), ("mutants", "wrong"))


def tables(
    runs: list[dict[str, dict[str, Floats]]], originals: list[Question], mutants: list[Question]
) -> str:
    """Rates of each arm, and differences with intervals by seed and scene."""
    shares = weights(originals, mutants)
    groups = {
        at: np.unique([one.scene for one in pictures], return_inverse=True)[1]
        for at, pictures in (("originals", originals), ("mutants", mutants))
    }

    def rates(arm: str, measure: str) -> Floats:
        return np.array([run[arm][measure] for run in runs]) / shares[measure]

    def difference(pair: tuple[str, str], measure: str) -> Difference:
        clusters: Ints = groups["originals" if measure in ("originals", "accuracy") else "mutants"]
        return paired_difference(rates(pair[0], measure) - rates(pair[1], measure), clusters)

    every = ("before", *ARMS)
    lines = [f"| | {' | '.join(every)} |", f"| :-- |{' --: |' * len(every)}"]
    for measure, title in TITLES.items():
        cells = (f"{rates(arm, measure).mean():.3f}" for arm in every)
        lines.append(f"| {title} | {' | '.join(cells)} |")
    lines += [
        "",
        f"| | {' | '.join(f'{a} − {b}' for a, b in PAIRS)} |",
        "| :-- | --: | --: |",
    ]
    for measure, title in TITLES.items():
        cells = (_interval(difference(pair, measure)) for pair in PAIRS)
        lines.append(f"| {title} | {' | '.join(cells)} |")
    lines += ["", "| pair | " + " | ".join(f"{a} − {b}" for a, b in PAIRS) + " |"]
    lines.append("| --: | --: | --: |")
    for at in range(len(runs)):  # of the turned object's score
        cells = (f"{(rates(a, 'turned') - rates(b, 'turned'))[at].mean():+.3f}" for a, b in PAIRS)
        lines.append(f"| {at} | {' | '.join(cells)} |")
    lines += ["", "| class | objects | before | originals | mutants | mutants − originals | p |"]
    lines.append("| :-- | --: | --: | --: | --: | --: | --: |")
    known = [label for label in LABELS if shares[f"mutants {label}"]]
    found = [difference(PAIRS[0], f"mutants {label}") for label in known]
    both = [2 * min(one.p_above_zero, 1 - one.p_above_zero) if one.mean else 1.0 for one in found]
    for label, one, p in zip(known, found, holm(both), strict=True):
        name = f"mutants {label}"
        cells = (f"{rates(arm, name).mean():.3f}" for arm in ("before", "originals", "mutants"))
        count = round(shares[name] * len(mutants))
        lines.append(f"| {label} | {count} | {' | '.join(cells)} | {_interval(one)} | {p:.3f} |")
    return "\n".join(lines)


def _interval(one: Difference) -> str:
    return f"{one.mean:+.3f} ({one.low(SIDE):+.3f} to {one.high(SIDE):+.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--first-pair", type=int, default=0)
    parser.add_argument("--unseen", type=int, default=UNSEEN, help="the seed of unseen streets")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        originals, mutants = questions(Path(folder), seed=asked.unseen)
    objects = sum(one.there.total() for one in mutants)
    print(f"{len(originals)} unseen streets, {len(mutants)} mutants with {objects} objects")
    runs = []
    for pair in range(asked.first_pair, asked.first_pair + asked.pairs):
        runs.append(measured(pair, originals, mutants))
        print(f"\nPairs up to {pair}, {time.process_time():.0f} CPU seconds\n")
        print(tables(runs, originals, mutants), flush=True)


if __name__ == "__main__":
    main()
