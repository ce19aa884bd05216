"""How fast scenes are mutated, without reading, writing and the recognizer.

    python -m benchmarks.scenes                drawn streets, 480 × 360
    python -m benchmarks.scenes --camvid       the street photographs of FAIRPROBE_ASSETS, 480 × 360

Insertion of two objects, deletion and rotation, of persons and cars in turn; one process, one
thread. A mutation that is skipped costs its time too, and counts as no image.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import cv2
import numpy as np

from fairprobe.scenes.cutouts import Cutouts, cutouts_of
from fairprobe.scenes.deletion import delete
from fairprobe.scenes.inpainting import inpainter
from fairprobe.scenes.insertion import insert
from fairprobe.scenes.rotation import rotate
from fairprobe.scenes.scene import Mutant, Scene, Scenes, Skipped
from tools.streets.drawn import DrawnScenes

OPERATORS = ("insert", "delete", "rotate")
LABELS = ("person", "car")


def photographs() -> Scenes:
    from fairprobe.scenes.sources import open_scenes

    folder = Path(os.environ["FAIRPROBE_ASSETS"]) / "vision" / "camvid"
    return open_scenes(folder / "images", folder / "masks")


def mutate(
    operator: str, scene: Scene, label: str, cutouts: Cutouts, method: str, seed: int
) -> Mutant | Skipped:
    rng = np.random.default_rng(seed)
    if operator == "insert":
        return insert(scene, label, 2, cutouts, rng=rng)
    if operator == "delete":
        return delete(scene, label, inpainter=inpainter(method))
    return rotate(scene, label, inpainter=inpainter(method), rng=rng, is_unusual=lambda _: True)


def row(*cells: str) -> None:
    print("".join(f"{cell:>12}" for cell in cells), flush=True)


def measure(scenes: list[Scene], cutouts: Cutouts, method: str) -> None:
    images, spent = dict.fromkeys(OPERATORS, 0), dict.fromkeys(OPERATORS, 0.0)
    skipped = dict.fromkeys(OPERATORS, 0)
    for seed, scene in enumerate(scenes):
        for operator in OPERATORS:
            for label in LABELS:
                begun = time.process_time()
                mutant = mutate(operator, scene, label, cutouts, method, seed)
                spent[operator] += time.process_time() - begun
                images[operator] += isinstance(mutant, Mutant)
                skipped[operator] += isinstance(mutant, Skipped)
    for operator in OPERATORS:
        made, seconds = images[operator], spent[operator]
        row(
            method,
            operator,
            str(made),
            str(skipped[operator]),
            f"{1000 * seconds / max(1, made):.0f}",
            f"{made / seconds:.1f}",
        )
    # the same number of each, as a mix
    mean = float(np.mean([spent[operator] / max(1, images[operator]) for operator in OPERATORS]))
    row(
        method,
        "mix",
        str(sum(images.values())),
        str(sum(skipped.values())),
        f"{1000 * mean:.0f}",
        f"{1 / mean:.1f}",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--camvid", action="store_true")
    parser.add_argument("--scenes", type=int, default=30)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    source = photographs() if options.camvid else DrawnScenes(options.scenes)
    given = list(source)[: options.scenes]
    print(f"{len(given)} scenes of {given[0].size[1]} × {given[0].size[0]}, one thread, CPU time")
    row("in-painting", "operator", "images", "skipped", "ms/image", "images/s")
    taken = cutouts_of(source, LABELS)
    for name in ("ns", "telea", "exemplars"):
        measure(given, taken, name)
