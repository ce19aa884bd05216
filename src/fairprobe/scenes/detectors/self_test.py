"""Which layout a file has: the one whose boxes agree with annotated pictures.

Families share shapes (a YOLOv6 has those of a YOLOX) but not the way they take a picture, and a
wrong reading returns plausible nonsense. So every candidate is tried on a few annotated pictures.
Its agreement is an F1 score in which a match counts by its overlap: twice the summed overlap of
matched boxes, over the number of annotated plus recognized objects. A match has the annotated
class and an overlap of at least a half. Annotated objects too small to be seen do not count, nor do
recognized objects of classes that the pictures do not annotate.

A layout is accepted if its agreement is at least `LEAST`, and at least `TIMES` what it reaches with
the annotations of other pictures, which is chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fairprobe.documents.scenes import LayoutAgreement
from fairprobe.errors import FairprobeError, ModelError
from fairprobe.scenes.detectors.base import Detection, Detector, renamed
from fairprobe.scenes.detectors.boxes import overlaps
from fairprobe.scenes.detectors.onnx import OnnxDetector
from fairprobe.scenes.scene import Scene, Scenes

PICTURES = 12
SMALLEST = 0.06  # of the picture's height: lower objects are not expected to be seen
MATCH = 0.5
LEAST = 0.1
TIMES = 2.0


def is_good(found: LayoutAgreement) -> bool:
    """Whether a layout is accepted."""
    return found.score >= LEAST and found.score >= TIMES * found.by_chance


def settle(detector: Detector, scenes: Scenes) -> LayoutAgreement | None:
    """Let a detector of unknown layout use the one that agrees best; a ModelError if none does.

    None for detectors that need no layout, and where no picture has an object that it knows.
    """
    if not isinstance(detector, OnnxDetector):
        return None
    names = {name for one in detector.candidates for name in one.names}
    sample = _sample(scenes, names | {scenes.counted_as.get(name, name) for name in names})
    if not sample:
        return None
    found = sorted(
        (
            agreement(detector, at, sample, scenes.counted_as)
            for at in range(len(detector.candidates))
        ),
        key=lambda one: -one.score,
    )
    best = found[0]
    layout = next(one for one in detector.candidates if one.name == best.layout)
    if not is_good(best) and not detector.is_named:
        tried = "; ".join(f"{one.title}: {one.matched} of {one.annotated} objects" for one in found)
        raise ModelError(
            f"No layout of {detector.path.name} agrees with the annotation of {len(sample)}"
            f" pictures ({tried}). Check that it was trained for pictures like these and knows"
            " their classes (--detector-classes), name its layout, as in"
            f" {best.layout}:{detector.path}, or wrap it in a Python function."
        )
    detector.use(layout)
    return best


def agreement(
    detector: OnnxDetector,
    candidate: int,
    sample: Sequence[Scene],
    counted_as: Mapping[str, str],
) -> LayoutAgreement:
    """The agreement of one of a detector's candidates with annotated scenes."""
    layout = detector.candidates[candidate]
    known = {counted_as.get(name, name) for name in layout.names}
    labels = {one.label for scene in sample for one in scene.instances} & known
    answers = [
        [
            one
            for one in renamed(detector.try_layout(layout, scene.image), counted_as)
            if one.label in labels
        ]
        for scene in sample
    ]
    annotated = [_annotated(scene, labels) for scene in sample]
    matched, score = _compare(answers, annotated)
    others = [annotated[(at + 1) % len(sample)] for at in range(len(sample))]
    _, by_chance = _compare(answers, others) if len(sample) > 1 else (0, 0.0)
    return LayoutAgreement(
        layout=layout.name,
        title=layout.title,
        pictures=len(sample),
        annotated=sum(map(len, annotated)),
        recognized=sum(map(len, answers)),
        matched=matched,
        score=score,
        by_chance=by_chance,
    )


def _sample(scenes: Scenes, names: set[str]) -> list[Scene]:
    """Up to `PICTURES` scenes, evenly spread, in which something can be recognized."""
    found: list[Scene] = []
    order = np.random.default_rng(0).permutation(len(scenes.names))
    for at in order:
        try:
            scene = scenes.read(scenes.names[at])
        except FairprobeError:  # reported when all scenes are read
            continue
        if _annotated(scene, names):
            found.append(scene)
        if len(found) == PICTURES:
            break
    return found


def _annotated(scene: Scene, labels: Iterable[str]) -> list[Detection]:
    wanted, height = set(labels), scene.size[0]
    return [
        Detection(one.label, 1.0, (one.box[0], one.box[1], one.box[2], one.box[3]))
        for one in scene.instances
        if one.label in wanted and one.height >= SMALLEST * height
    ]


def _compare(
    answers: Sequence[Sequence[Detection]], annotated: Sequence[Sequence[Detection]]
) -> tuple[int, float]:
    """The number of matches and the agreement."""
    matches = [one for pair in zip(answers, annotated, strict=True) for one in _matches(*pair)]
    total = sum(map(len, answers)) + sum(map(len, annotated))
    return len(matches), 2 * sum(matches) / total if total else 0.0


def _matches(answers: Sequence[Detection], annotated: Sequence[Detection]) -> list[float]:
    """The overlap of every match, the largest first; each object is matched once."""
    boxes = [one.box for one in (*answers, *annotated) if one.box is not None]
    if len(boxes) != len(answers) + len(annotated) or not answers or not annotated:
        return []
    shared = overlaps(np.array(boxes, dtype=np.float64))[: len(answers), len(answers) :]
    is_same = np.array([[one.label == other.label for other in annotated] for one in answers])
    shared = np.where(is_same, shared, 0)
    found: list[float] = []
    while shared.max() >= MATCH:
        row, column = np.unravel_index(shared.argmax(), shared.shape)
        found.append(float(shared[row, column]))
        shared[row], shared[:, column] = 0, 0
    return found
