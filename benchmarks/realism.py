"""How many mutants of CamVid's photographs look real, by two versions of the code.

    git worktree add /tmp/before 4d6c89d
    PYTHONPATH=/tmp/before/src:. python -m benchmarks.realism make /tmp/realism/before
    python -m benchmarks.realism make /tmp/realism/after
    python -m benchmarks.realism score /tmp/realism/before /tmp/realism/after

`make` runs with the mutations of whichever fairprobe is on the path and writes what the realism
check sees of each mutant, and two contact sheets of 20 mutants for each operator (original left,
mutant right). `score` is one check for all: the classifiers learn from the mutants of all folders,
in equal parts, and score none whose scene, or inserted object, they saw.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw

import fairprobe
from fairprobe.scenes import insertion
from fairprobe.scenes.cutouts import cutouts_of
from fairprobe.scenes.deletion import delete
from fairprobe.scenes.inpainting import inpainter
from fairprobe.scenes.plan import random_for
from fairprobe.scenes.rotation import rotate
from fairprobe.scenes.scene import Instance, Mutant, Scene, Scenes
from fairprobe.scenes.sources import open_scenes

OPERATORS = ("insert", "delete", "rotate")
LABELS = ("person", "car")
REPEATS = 3
LOOKED_AT = 40  # mutants of each operator on contact sheets
WIDE, HIGH, ACROSS, DOWN = 240, 180, 3, 7


def photographs() -> Scenes:
    folder = Path(os.environ["FAIRPROBE_ASSETS"]) / "vision" / "camvid"
    return open_scenes(folder / "images", folder / "masks")


def realism() -> ModuleType:
    """The realism check of this tree, whatever fairprobe is on the path."""
    file = Path(__file__).parents[1] / "src" / "fairprobe" / "scenes" / "realism.py"
    spec = importlib.util.spec_from_file_location("realism", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["realism"] = module
    spec.loader.exec_module(module)
    return module


def mutants(scenes: Scenes, operator: str) -> Iterator[tuple[Scene, Mutant, str]]:
    """Mutants, and the scene that the largest inserted object comes from."""
    cutouts = cutouts_of(scenes, LABELS) if operator == "insert" else {}
    pasted: list[Any] = []
    paste = insertion._paste

    def watched(canvas: Any, scene: Any, *rest: Any) -> None:
        # The older code does not say which cut-out it pastes.
        pasted.extend(one for one in rest if hasattr(one, "cutout"))
        paste(canvas, scene, *rest)

    insertion._paste = watched  # type: ignore[assignment]
    for repeat in range(1 if operator == "delete" else REPEATS):
        for scene in scenes:
            for label in LABELS:
                rng = random_for(0, scene.name, operator, label, repeat)
                pasted.clear()
                if operator == "insert":
                    one = insertion.insert(scene, label, 2, cutouts, rng=rng)
                elif operator == "delete":
                    one = delete(scene, label, inpainter=inpainter("exemplars"))
                else:
                    one = rotate(
                        scene,
                        label,
                        inpainter=inpainter("exemplars"),
                        rng=rng,
                        is_unusual=lambda _: True,
                    )
                if isinstance(one, Mutant):
                    source = scene.name
                    if pasted:
                        box = largest(one).box
                        source = next(each.cutout.scene for each in pasted if each.box == box)
                    yield scene, one, source
    insertion._paste = paste


def largest(mutant: Mutant) -> Instance:
    """The largest shape that was changed, which the check looks at."""
    return max(mutant.added or mutant.removed, key=lambda one: int(one.mask.sum()))


def make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    appearance, scenes = realism().appearance, photographs()
    found: list[dict[str, Any]] = []
    for operator in OPERATORS:
        made = list(mutants(scenes, operator))
        drawn = np.random.default_rng(0).permutation(len(made))[:LOOKED_AT].tolist()
        for at, (scene, mutant, source) in enumerate(made):
            found.append(
                {
                    "operator": operator,
                    "scene": scene.name,
                    "label": mutant.label,
                    "source": source,
                    "look": appearance(mutant.image, largest(mutant)),
                    "looked_at": at in drawn,
                }
            )
        for page in range(2):
            sheet([made[at] for at in drawn[page::2]]).save(folder / f"{operator}-{page}.png")
        print(f"{operator}: {len(made)} mutants by {fairprobe.__file__}", flush=True)
    (folder / "looks.json").write_text(json.dumps(found), encoding="utf-8")


def sheet(made: list[tuple[Scene, Mutant, str]]) -> Image.Image:
    page = Image.new("RGB", (2 * WIDE * ACROSS, HIGH * DOWN))
    for at, (scene, mutant, _) in enumerate(made):
        row, column = divmod(at, ACROSS)
        for side, picture in enumerate((scene.image, mutant.image)):
            small = Image.fromarray(picture).resize((WIDE, HIGH))
            if side == 0:
                scale = WIDE / picture.shape[1]
                draw = ImageDraw.Draw(small)
                for box in mutant.places:
                    draw.rectangle([scale * corner for corner in box], outline=(255, 0, 0))
            page.paste(small, ((2 * column + side) * WIDE, row * HIGH))
    return page


def score(folders: list[Path]) -> None:
    from fairprobe.scenes.realism import Patches, scores, threshold_of
    from fairprobe.scenes.realism_check import real_patches

    objects, background = real_patches(list(photographs()), set(LABELS), seed=0)
    every = [json.loads((folder / "looks.json").read_text(encoding="utf-8")) for folder in folders]
    print("| mutation | code | mutants | look real | of the 40 looked at |")
    print("| :-- | :-- | --: | --: | --: |")
    for operator in OPERATORS:
        real = background if operator == "delete" else objects
        rows = [
            (folder.name, one)
            for folder, found in zip(folders, every, strict=True)
            for one in found
            if one["operator"] == operator and one["look"] is not None
        ]
        judged = Patches(
            [one["scene"] for _, one in rows],
            [one["source"] for _, one in rows],
            np.array([one["look"] for _, one in rows]),
        )
        of_real, of_mutants = scores(real, judged)
        passes = of_mutants >= threshold_of(of_real)
        for folder in folders:
            own = np.array([name == folder.name for name, _ in rows])
            seen = own & np.array([one["looked_at"] for _, one in rows])
            print(
                f"| {operator} | {folder.name} | {own.sum()} | {passes[own].mean():.1%} |"
                f" {passes[seen].sum()} of {seen.sum()} = {passes[seen].mean():.1%} |",
                flush=True,
            )
        print(f"| {operator} | real patches | {len(of_real)} | 90.0% | |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("make", "score"))
    parser.add_argument("folders", nargs="+", type=Path)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    if options.step == "make":
        make(options.folders[0])
    else:
        score(options.folders)
