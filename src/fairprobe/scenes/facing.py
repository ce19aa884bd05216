"""Original and mutated pictures next to each other, with what was recognized in them."""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias

import numpy as np

from fairprobe.report import Box, Picture
from fairprobe.report.formats import SPACE, listed
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.detectors.boxes import overlaps
from fairprobe.scenes.examples import Example, OriginalPicture

SAME_PLACE = 0.5  # intersection over union from which two boxes are the same object
DONE = {
    "insert": "more of class {} in the picture",
    "delete": "every {} taken away",
    "rotate": "one {} turned",
}


def example_sentence(example: Example) -> str:
    """Describe what the mutation changed for a class."""
    return (
        f"With {DONE[example.operator].format(example.mutated_label)}, {example.detector}"
        f" recognizes {example.recognized_now} of class {example.label}; before, it recognized"
        f" {example.recognized}, and {example.known} are known to be there."
    )


def example_pictures(example: Example) -> list[Picture]:
    """Return original and mutant of an example."""
    sides = example.original, example.mutated
    return facing_pictures(*sides, mutated=example.mutated_label, scene=example.scene)


def facing_pictures(
    before: OriginalPicture, after: OriginalPicture, *, mutated: str, scene: str
) -> list[Picture]:
    """Return original and mutant with what was recognized. The mutant also shows what was lost."""
    first = _compared(before, after, "lost", mutated)
    second = _compared(after, before, "new", mutated)
    lost = [pair for pair in first if pair[1] == "lost"]
    return [
        _picture(before, first, [], f"Original picture of {scene}."),
        _picture(after, second, lost, f"Mutated picture of {scene}."),
    ]


Compared: TypeAlias = list[tuple[Detection, Literal["same", "mutated", "lost", "new"]]]


def _compared(
    picture: OriginalPicture,
    other: OriginalPicture,
    changed: Literal["lost", "new"],
    mutated: str,
) -> Compared:
    """Compare with the other picture: an object without a partner of its class in the same place
    is lost or new; each partner counts once. The mutated class had to change.
    """
    free, compared = list(other.detections), Compared()
    for detection in picture.detections:
        partners = [partner for partner in free if partner.label == detection.label]
        best = max(partners, key=lambda partner: _overlap(detection, partner), default=None)
        is_same = best is not None and _overlap(detection, best) >= SAME_PLACE
        if best is not None and is_same:
            free.remove(best)
        if detection.label == mutated:
            compared.append((detection, "mutated"))
        else:
            compared.append((detection, "same" if is_same else changed))
    return compared


def _overlap(one: Detection, other: Detection) -> float:
    """Return intersection over union; without boxes only the class counts."""
    if one.box is None or other.box is None:
        return 1.0
    return float(overlaps(np.array([one.box, other.box], dtype=np.float64))[0, 1])


def _picture(picture: OriginalPicture, seen: Compared, lost: Compared, title: str) -> Picture:
    counts = Counter(detection.label for detection, _ in seen)
    caption = f"Recognized: {_counted(counts)}." if counts else "Nothing is recognized."
    if lost:
        caption += f" Lost: {_counted(Counter(detection.label for detection, _ in lost))}."
    labeled = [(detection, kind, f" {detection.score:.2f}") for detection, kind in seen]
    labeled += [(detection, kind, ": lost") for detection, kind in lost]
    boxes = [
        Box(
            detection.box[0] / picture.width,
            detection.box[1] / picture.height,
            (detection.box[2] - detection.box[0]) / picture.width,
            (detection.box[3] - detection.box[1]) / picture.height,
            detection.label + detail,
            kind,
        )
        for detection, kind, detail in labeled
        if detection.box is not None
    ]
    return Picture(picture.src, caption, f"{title} {caption}", boxes=boxes)


def _counted(counts: Counter[str]) -> str:
    """Write 3 × car, 2 × person and 1 × sign."""
    return listed(f"{number}{SPACE}×{SPACE}{label}" for label, number in counts.most_common())
