"""How many mutants of CamVid's photographs look real, by two versions of the code; and whether the
realism check can be trusted.

    git worktree add /tmp/before 4d6c89d
    PYTHONPATH=/tmp/before/src:. python -m benchmarks.realism make /tmp/realism/before
    python -m benchmarks.realism make /tmp/realism/after
    python -m benchmarks.realism score /tmp/realism/before /tmp/realism/after
    python -m benchmarks.realism control
    python -m benchmarks.realism pictures /tmp/realism/before /tmp/realism/after

`make` runs with the mutations of whichever fairprobe is on the path. It writes the mutants, and two
contact sheets of 20 for each operator (original left, mutant right). `score` is one check for all:
the classifiers learn from the mutants of all folders, and score none whose scene, or inserted
object, they saw; some rules were chosen on the first, third, … scene, so the others are counted
apart as well. `control` checks mutants that are made wrong on purpose, and real objects pasted
back; each set by itself, as in an audit that made nothing else. `pictures` joins an original and
the first mutant of both versions, for docs/images/scenes.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
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
DOCS = Path("docs/images/scenes")
SHOWN = {
    "delete-person": ("delete", "person", "Seq05VD_f03360"),
    "insert-persons": ("insert", "person", "Seq05VD_f01200"),
    "rotate-car": ("rotate", "car", "Seq05VD_f04080"),
}
WIDE, HIGH, ACROSS, DOWN = 240, 180, 3, 7


def photographs() -> Scenes:
    folder = Path(os.environ["FAIRPROBE_ASSETS"]) / "vision" / "camvid"
    return open_scenes(folder / "images", folder / "masks")


# -- making ----------------------------------------------------------------------------------------


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
    scenes, notes = photographs(), []
    for operator in OPERATORS:
        made = list(mutants(scenes, operator))
        drawn = np.random.default_rng(0).permutation(len(made))[:LOOKED_AT].tolist()
        for at, (scene, mutant, source) in enumerate(made):
            file = f"{operator}-{at}.png"
            Image.fromarray(mutant.image).save(folder / file, compress_level=1)
            shape = largest(mutant)
            notes.append(
                {
                    "operator": operator,
                    "scene": scene.name,
                    "label": mutant.label,
                    "source": source,
                    "box": shape.box,
                    "mask": np.packbits(shape.mask).tobytes().hex(),
                    "file": file,
                    "looked_at": at in drawn,
                }
            )
        for page in range(2):
            sheet([made[at][:2] for at in drawn[page::2]]).save(
                folder / f"sheet-{operator}-{page}.png"
            )
        print(f"{operator}: {len(made)} mutants by {fairprobe.__file__}", flush=True)
    (folder / "mutants.json").write_text(json.dumps(notes), encoding="utf-8")


def sheet(made: list[tuple[Scene, Mutant]]) -> Image.Image:
    page = Image.new("RGB", (2 * WIDE * ACROSS, HIGH * DOWN))
    for at, (scene, mutant) in enumerate(made):
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


# -- scoring ---------------------------------------------------------------------------------------


def mutant_of(note: dict[str, Any], folder: Path) -> Mutant:
    """A mutant that was written by any version of the code."""
    left, top, right, bottom = note["box"]
    size = bottom - top, right - left
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(note["mask"]), np.uint8))
    shape = Instance(
        note["label"],
        (left, top, right, bottom),
        bits[: size[0] * size[1]].reshape(size).astype(bool),
    )
    with Image.open(folder / note["file"]) as opened:
        image = np.asarray(opened.convert("RGB"))
    is_gone = note["operator"] == "delete"
    return Mutant(
        note["scene"],
        note["operator"],
        note["label"],
        image,
        1,
        (shape.box,),
        removed=(shape,) if is_gone else (),
        added=() if is_gone else (shape,),
        sources=() if is_gone else (note["source"],),
    )


def score(folders: list[Path]) -> None:
    from fairprobe.scenes.realism import Patches, look_of, scores, threshold_of
    from fairprobe.scenes.realism_check import real_patches

    scenes = {scene.name: scene for scene in photographs()}
    objects, background = real_patches(scenes.values(), set(LABELS))
    every = [
        json.loads((folder / "mutants.json").read_text(encoding="utf-8")) for folder in folders
    ]
    held_out = set(sorted(scenes)[1::2])
    print("| mutation | code | mutants | look real | in every second scene | of 40 looked at |")
    print("| :-- | :-- | --: | --: | --: | --: |")
    for operator in OPERATORS:
        real = background if operator == "delete" else objects
        rows = []
        for folder, notes in zip(folders, every, strict=True):
            for note in notes:
                if note["operator"] == operator:
                    look, source = look_of(scenes[note["scene"]], mutant_of(note, folder))
                    if look is not None:
                        rows.append((folder.name, note, look, source))
        judged = Patches(
            [note["scene"] for _, note, _, _ in rows],
            [source for _, _, _, source in rows],
            [look for _, _, look, _ in rows],
        )
        of_real, of_mutants = scores(real, judged)
        passes = of_mutants >= threshold_of(of_real)
        for folder in folders:
            own = np.array([name == folder.name for name, *_ in rows])
            seen = own & np.array([note["looked_at"] for _, note, _, _ in rows])
            out = own & np.array([note["scene"] in held_out for _, note, _, _ in rows])
            print(
                f"| {operator} | {folder.name} | {own.sum()} | {passes[own].mean():.1%} |"
                f" {passes[out].sum()} of {out.sum()} = {passes[out].mean():.1%} |"
                f" {passes[seen].sum()} of {seen.sum()} = {passes[seen].mean():.1%} |",
                flush=True,
            )
        print(f"| {operator} | real patches | {len(of_real)} | 90.0% | | |", flush=True)


# -- pictures of the documentation -----------------------------------------------------------------


def pictures(folders: list[Path]) -> None:
    scenes = photographs()
    for name, (operator, label, scene) in SHOWN.items():
        shown = [Image.fromarray(scenes.read(scene).image)]
        for folder in folders:
            notes = json.loads((folder / "mutants.json").read_text(encoding="utf-8"))
            wanted = {"operator": operator, "label": label, "scene": scene}
            note = next(note for note in notes if wanted.items() <= note.items())
            shown.append(Image.open(folder / note["file"]))
        page = Image.new("RGB", (len(shown) * (WIDE + 2) - 2, HIGH), "white")
        for at, picture in enumerate(shown):
            small = picture.convert("RGB").resize((WIDE, HIGH), Image.Resampling.LANCZOS)
            page.paste(small, (at * (WIDE + 2), 0))
        page.save(DOCS / f"{name}.jpg", quality=85, optimize=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("step", choices=("make", "score", "control", "pictures"))
    parser.add_argument("folders", nargs="*", type=Path)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    if options.step == "make":
        make(options.folders[0])
    elif options.step == "score":
        score(options.folders)
    elif options.step == "pictures":
        pictures(options.folders)
    else:
        from benchmarks.realism_control import control

        control(photographs())
