"""A toy world for scenes: objects are boxes of one color on a gray road, so that a recognizer can
be perfect, or unfair on purpose.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy import ndimage

from fairprobe.arrays import Mask
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.scene import GivenScenes, Instance, Picture, Scene

HEIGHT, WIDTH, HORIZON = 240, 320, 70
COLORS = {"person": (220, 20, 20), "car": (20, 20, 220), "bicycle": (20, 200, 20)}
SHAPES = {
    "person": (1.0, 0.4),
    "car": (1.0, 1.5),
    "bicycle": (0.5, 1.2),
}  # height beside a person's, width beside its own height
DEEPEST = 40  # pixels of one color that are still an object


def height_at(row: int) -> float:
    """A person whose feet are in this row."""
    return 0.45 * (row - HORIZON)


def toy_scene(name: str, counts: dict[str, int], rng: np.random.Generator) -> Scene:
    image = np.full((HEIGHT, WIDTH, 3), 110, dtype=np.uint8)
    image[:HORIZON] = 190
    stuff = np.ones((HEIGHT, WIDTH), dtype=np.uint8)
    stuff[:HORIZON] = 2
    taken = np.zeros((HEIGHT, WIDTH), dtype=bool)
    instances = []
    for label, count in counts.items():
        for _ in range(count):
            mask = _free_place(label, taken, rng)
            taken |= ndimage.binary_dilation(mask, iterations=4)
            image[mask] = COLORS[label]
            instances.append(Instance.of(label, mask))
    return Scene(name, image, tuple(instances), stuff, ("unknown", "road", "sky"))


def _free_place(label: str, taken: Mask, rng: np.random.Generator) -> Mask:
    share, wide = SHAPES[label]
    for _ in range(1000):
        foot = int(rng.integers(130, HEIGHT - 6))
        tall = max(4, round(share * height_at(foot)))
        left = int(rng.integers(4, WIDTH - 4 - round(wide * tall)))
        mask = np.zeros((HEIGHT, WIDTH), dtype=bool)
        mask[foot - tall + 1 : foot + 1, left : left + round(wide * tall)] = True
        if not (mask & taken).any():
            return mask
    raise AssertionError("no place left")


def toy_scenes(count: int, seed: int = 0) -> GivenScenes:
    """Up to two people and a car or two in each, and always a bicycle."""
    rng = np.random.default_rng(seed)
    return GivenScenes(
        [
            toy_scene(
                f"street {at}",
                {"person": int(rng.integers(1, 3)), "car": int(rng.integers(1, 3)), "bicycle": 1},
                rng,
            )
            for at in range(count)
        ]
    )


def fair(image: Picture) -> list[Detection]:
    """Finds every box by its color."""
    found = []
    pixels = image.astype(np.int64)
    for label, color in COLORS.items():
        strongest = int(np.argmax(color))
        others = np.delete(pixels, strongest, axis=2).max(axis=2)
        pieces, _ = ndimage.label(pixels[..., strongest] > others + 60)
        for at, place in enumerate(ndimage.find_objects(pieces), start=1):
            if (pieces[place] == at).sum() >= DEEPEST:
                rows, columns = place
                found.append(
                    Detection(label, 0.9, (columns.start, rows.start, columns.stop, rows.stop))
                )
    return found


def unfair(image: Picture) -> list[Detection]:
    """Misses every bicycle when more than two people are in the picture."""
    found = fair(image)
    crowded = Counter(one.label for one in found)["person"] > 2
    return [one for one in found if one.label != "bicycle" or not crowded]
