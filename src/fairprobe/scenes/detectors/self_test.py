"""Whether a recognizer's boxes agree with annotated pictures, and which layout a file has.

Families share shapes (a YOLOv6 has those of a YOLOX) but not the way they take a picture, and a
wrong reading returns plausible nonsense. So every candidate is tried on a few annotated pictures,
and so are functions and services. The agreement is an F1 score in which a match counts by its
overlap: twice the summed overlap of matched boxes, over the number of annotated plus recognized
objects. A match has the annotated class and an overlap of at least a half. Annotated objects too
small to be seen do not count, nor do recognized objects of classes that the pictures do not
annotate, nor annotated ones of classes that the recognizer does not know. (The classes of a
function or service are unknown: those that it names.)

A reading is accepted if its agreement is at least `LEAST`, and at least `TIMES` what it reaches
with the annotations of other pictures, which is chance; pictures of one place are alike, so from
`SURE` on chance does not matter. Below `USUAL` it may be half wrong: on CamVid's photographs small
detectors reach .31 to .40 if read rightly, but .20 without the normalization that the network
expects and .14 with some class names in another order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from fairprobe.errors import FairprobeError, ModelError
from fairprobe.results import Count, Result, Share
from fairprobe.scenes.detectors.base import Detection, Detector, overlaps, renamed
from fairprobe.scenes.detectors.layout import Layout
from fairprobe.scenes.detectors.onnx import OnnxDetector
from fairprobe.scenes.scene import Scene, Scenes

PICTURES = 12
SMALLEST = 0.06  # of the picture's height: lower objects are not expected to be seen
MATCH = 0.5
LEAST = 0.1
USUAL = 0.25
SURE = 0.6
TIMES = 2.0
MANY = 0.25  # of the annotated objects, in boxes of other classes: these are mixed up
SURPLUS = 3  # times as many objects as annotated ones: the threshold is too low
UNCHECKED = "--unchecked uses it all the same."


class LayoutAgreement(Result, frozen=True, kw_only=True):
    """How well the boxes of a recognizer agree with annotated pictures: of a file, read in one
    layout (`title`), or of any other, where both are empty.

    `score` is an F1 score in which a match counts by its overlap; `by_chance` is the same with the
    annotations of other pictures.
    """

    layout: str
    title: str
    pictures: Count
    annotated: Count
    recognized: Count
    matched: Count
    score: Share
    by_chance: Share
    matched_boxes: Count
    """Matches of any class."""

    def __post_init__(self) -> None:
        if self.matched > min(self.annotated, self.recognized):
            raise ValueError(f"{self.matched} matches of {self.annotated} annotated objects")


def is_good(found: LayoutAgreement) -> bool:
    """Return True if a layout is accepted."""
    above_chance = found.score >= TIMES * found.by_chance or found.score >= SURE
    return found.score >= LEAST and above_chance


def settle(detector: Detector, scenes: Scenes) -> LayoutAgreement | None:
    """Choose the layout of a file that agrees best; raise ModelError if none does.

    None for recognizers that are no files, and where no picture has an object that it knows.
    """
    if not isinstance(detector, OnnxDetector):
        return None
    names = {name for candidate in detector.candidates for name in candidate.names}
    sample = sample_of(scenes, {scenes.counted_as.get(name, name) for name in names})
    if not sample:
        return None
    found = [_try_layout(detector, at, sample, scenes.counted_as) for at in detector.candidates]
    found.sort(key=lambda result: (result.layout in detector.failures, -result.score))
    best = found[0]
    detector.use(next(layout for layout in detector.candidates if layout.name == best.layout))
    if detector.is_unchecked:
        return best
    if failure := detector.failures.get(best.layout):
        raise failure
    if is_good(best):
        return best
    if detector.is_named:
        raise ModelError(
            f"{_said(detector, best)} That is hardly more than chance. {advice(best)} Without a"
            f" named layout, all that fit the file are compared. {UNCHECKED}"
        )
    tried = "; ".join(
        f"{result.title}: {result.matched} of {result.annotated} objects" for result in found
    )
    raise ModelError(
        f"No layout of {detector.path.name} agrees with the annotation of {len(sample)} pictures"
        f" ({tried}). Check that it was trained for pictures like these. {advice(best)} You can"
        f" also wrap it in a Python function. {UNCHECKED}"
    )


def _try_layout(
    detector: OnnxDetector, layout: Layout, sample: Sequence[Scene], counted_as: Mapping[str, str]
) -> LayoutAgreement:
    """Measure the agreement of a file in one layout with annotated scenes."""
    known = {counted_as.get(name, name) for name in layout.names}
    answers = [renamed(detector.try_layout(layout, scene.image), counted_as) for scene in sample]
    return _agreement(answers, sample, counted_as, known, layout.name, layout.title)


def check_answers(
    detector: Detector,
    answers: Sequence[Sequence[Detection]],
    sample: Sequence[Scene],
    counted_as: Mapping[str, str],
) -> LayoutAgreement | None:
    """Measure the agreement of renamed answers with annotated scenes; raise ModelError if there is
    hardly any.

    None if nothing was recognized, or without boxes.
    """
    objects = [detection for answer in answers for detection in answer]
    if not objects or any(detection.box is None for detection in objects):
        return None
    named = {detection.label for detection in objects}
    there = {
        detection.label for scene in sample for detection in _annotated(scene, None, counted_as)
    }
    found = _agreement(answers, sample, counted_as, named & there or there)
    if not is_good(found) and not detector.is_unchecked:
        others = ""
        if not named & there:
            others = (
                f" It names {_some(named)}, the annotation {_some(there)}: if they mean the same,"
                " use --count-as."
            )
        raise ModelError(
            f"{_said(detector, found)} That is hardly more than chance.{others} {advice(found)}"
            f" {UNCHECKED}"
        )
    return found


def doubt(detector: Detector, found: LayoutAgreement) -> str | None:
    """Warn of a recognizer that is used although its agreement is low."""
    if not is_good(found):
        return (
            f"{_said(detector, found)} That is hardly more than chance; it is used all the same"
            " (--unchecked)."
        )
    if found.score < USUAL:
        return (
            f"{_said(detector, found)} Detectors that are read rightly usually reach an agreement"
            f" of .3 or more, so what follows may be wrong. {advice(found)}"
        )
    return None


def advice(found: LayoutAgreement) -> str:
    """Suggest what may be wrong with a layout."""
    if found.matched_boxes > max(2 * found.matched, MANY * found.annotated):
        return (
            f"Its boxes fit {found.matched_boxes} annotated objects, but its classes do not: check"
            " the order of its class names (--detector-classes; of a function, its attribute"
            " 'classes')."
        )
    if found.matched_boxes and found.recognized > SURPLUS * found.annotated:
        return "It reports far more objects than are annotated: raise its least score (--score)."
    return (
        "Check how it takes a picture (scale, order of the colors, whether values are normalized by"
        " ImageNet's mean and deviation), what its boxes are (center and size or corners, in pixels"
        " or shares), and the order of its class names (--detector-classes)."
    )


def sample_of(scenes: Scenes, names: Collection[str] | None = None) -> list[Scene]:
    """Draw up to `PICTURES` scenes in which something can be recognized; only classes of these
    `names` count.
    """
    found: list[Scene] = []
    order = np.random.default_rng(0).permutation(len(scenes.names))
    for at in order:
        try:
            scene = scenes.read(scenes.names[at])
        except FairprobeError:  # reported when all scenes are read
            continue
        if _annotated(scene, names, scenes.counted_as):
            found.append(scene)
        if len(found) == PICTURES:
            break
    return found


def _said(detector: Detector, found: LayoutAgreement) -> str:
    read = f", read as {found.title}," if found.title else ""
    return (
        f"{detector.name}{read} recognizes {found.matched} of {found.annotated} objects in"
        f" {found.pictures} annotated pictures and reports {found.recognized} (agreement"
        f" {found.score:.2f})."
    )


def _some(labels: Collection[str]) -> str:
    return ", ".join(sorted(labels)[:5])


def _annotated(
    scene: Scene, labels: Collection[str] | None, counted_as: Mapping[str, str]
) -> list[Detection]:
    """Return the objects that can be seen, under the names that they count as."""
    least = SMALLEST * scene.size[0]
    seen = (
        Detection(
            instance.label,
            1.0,
            (instance.box[0], instance.box[1], instance.box[2], instance.box[3]),
        )
        for instance in scene.instances
        if instance.height >= least
    )
    return [
        detection
        for detection in renamed(seen, counted_as)
        if labels is None or detection.label in labels
    ]


def _agreement(
    answers: Sequence[Sequence[Detection]],
    sample: Sequence[Scene],
    counted_as: Mapping[str, str],
    known: Collection[str],
    layout: str = "",
    title: str = "",
) -> LayoutAgreement:
    labels = {
        counted_as.get(instance.label, instance.label)
        for scene in sample
        for instance in scene.instances
    }
    labels &= set(known)
    judged = [
        [detection for detection in answer if detection.label in labels] for answer in answers
    ]
    annotated = [_annotated(scene, labels, counted_as) for scene in sample]
    matched, score = _compare(judged, annotated)
    others = [*annotated[1:], *annotated[:1]]
    _, by_chance = _compare(judged, others) if len(sample) > 1 else (0, 0.0)
    matched_boxes, _ = _compare(_without_classes(answers), _without_classes(annotated))
    return LayoutAgreement(
        layout=layout,
        title=title,
        pictures=len(sample),
        annotated=sum(map(len, annotated)),
        recognized=sum(map(len, judged)),
        matched=matched,
        score=score,
        by_chance=by_chance,
        matched_boxes=matched_boxes,
    )


def _without_classes(answers: Sequence[Sequence[Detection]]) -> list[list[Detection]]:
    return [[replace(detection, label="") for detection in answer] for answer in answers]


def _compare(
    answers: Sequence[Sequence[Detection]], annotated: Sequence[Sequence[Detection]]
) -> tuple[int, float]:
    """Count matches and compute the agreement."""
    matches = [
        overlap for pair in zip(answers, annotated, strict=True) for overlap in _matches(*pair)
    ]
    total = sum(map(len, answers)) + sum(map(len, annotated))
    return len(matches), 2 * sum(matches) / total if total else 0.0


def _matches(answers: Sequence[Detection], annotated: Sequence[Detection]) -> list[float]:
    """Return the overlap of every match, the largest first; each object is matched once."""
    boxes = [detection.box for detection in (*answers, *annotated) if detection.box is not None]
    if len(boxes) != len(answers) + len(annotated) or not answers or not annotated:
        return []
    shared = overlaps(np.array(boxes, dtype=np.float64))[: len(answers), len(answers) :]
    is_same = np.array(
        [[detection.label == other.label for other in annotated] for detection in answers]
    )
    shared = np.where(is_same, shared, 0)
    found: list[float] = []
    while shared.max() >= MATCH:
        row, column = np.unravel_index(shared.argmax(), shared.shape)
        found.append(float(shared[row, column]))
        shared[row], shared[:, column] = 0, 0
    return found
