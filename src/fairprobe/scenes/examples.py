"""Pictures of a run: for each class that fails more, its worst tests, for the report; and
`pairs.zip` with all originals, reduced, and everything that recognizers returned.
"""

from __future__ import annotations

import base64
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import msgspec
import numpy as np
from PIL import Image

from fairprobe.errors import FairprobeError
from fairprobe.report import Box
from fairprobe.report import Picture as ShownPicture
from fairprobe.report.formats import SPACE, listed
from fairprobe.results import Count, Result
from fairprobe.scenes.analysis import ALL, Analysis, worst_tests
from fairprobe.scenes.collect import Evidence, Seen
from fairprobe.scenes.detectors.base import Corners, Detection, overlaps
from fairprobe.scenes.mutants import MadePicture, read_mutant
from fairprobe.scenes.oracles import Oracle, Test
from fairprobe.scenes.scene import Mutation, Picture
from fairprobe.storage import replacing

WIDEST = 480  # pixels in the report
QUALITY = 82
OF_A_CLASS = 2
CLASSES = 4  # of a recognizer
PAIRS, ANSWERS = "pairs.zip", "answers.json"  # in a run; in that file, `SceneAnswers`
SAME_PLACE = 0.5  # intersection over union from which two boxes are the same object
DONE = {
    "insert": "more of class {} in the picture",
    "delete": "every {} taken away",
    "rotate": "one {} turned",
}
Pixels: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=100_000)]


class OriginalPicture(Result, frozen=True, kw_only=True):
    """A picture as a data URL, and what was recognized in it."""

    src: str
    width: Pixels
    height: Pixels
    detections: list[Detection]


class MutatedPicture(OriginalPicture, frozen=True, kw_only=True):
    """The picture after the mutation, and where it was mutated."""

    places: list[Corners]


class Example(Result, frozen=True, kw_only=True):
    """A test with many errors in one class: original and mutant. Objects of the class: `known` in
    the original, `recognized` there, and `recognized_now`.
    """

    detector: str
    label: str
    operator: Mutation
    mutated_label: str
    oracle: Oracle
    scene: str
    image: str
    known: Count
    recognized: Count
    recognized_now: Count
    original: OriginalPicture
    mutated: MutatedPicture


class OriginalSize(Result, frozen=True, kw_only=True):
    """A small copy of an original in `pairs.zip`, and the size of the original itself."""

    picture: str
    width: Pixels
    height: Pixels


class SceneAnswers(Result, frozen=True, kw_only=True):
    """What recognizers saw in all pictures of a run, in pixels of these: by recognizer, and there
    by scene or by the mutant's path below the run.
    """

    sizes: dict[str, OriginalSize]
    originals: dict[str, dict[str, list[Detection]]]
    mutants: dict[str, dict[str, list[Detection]]]


def find_examples(evidence: Evidence, results: Sequence[Analysis]) -> list[Example]:
    """Select tests of classes that are shown to fail more; without any, of those farthest above the
    mean.
    """
    pictures = evidence.pictures()
    return [
        _example(evidence, pictures[test.image], test, label, analysis.oracle)
        for detector in evidence.detectors
        for label, analysis in _classes(
            [result for result in results if result.detector == detector.name]
        )
        for test in worst_tests(analysis, label, evidence.tests)[:OF_A_CLASS]
    ]


def data_url(image: Picture) -> str:
    """Encode a small JPEG to embed in a page."""
    return "data:image/jpeg;base64," + base64.b64encode(small_jpeg(image)).decode()


def small_jpeg(image: Picture) -> bytes:
    """Encode a reduced copy as JPEG."""
    picture = Image.fromarray(image)
    if picture.width > WIDEST:
        height = max(1, round(picture.height * WIDEST / picture.width))
        picture = picture.resize((WIDEST, height), Image.Resampling.LANCZOS)
    file = BytesIO()
    picture.save(file, format="jpeg", quality=QUALITY)
    return file.getvalue()


def _classes(results: Sequence[Analysis]) -> Iterator[tuple[str, Analysis]]:
    """Choose classes of one recognizer, each with the analysis in which it is farthest above."""
    unusual = [analysis for analysis in results if analysis.kind == "ood"]
    several = any(analysis.operator == ALL for analysis in unusual)
    rows = [
        (row, analysis)
        for analysis in unusual
        for row in analysis.classes
        if row.images
        and (row.is_unfair or (row.is_above and (analysis.operator == ALL or not several)))
    ]
    rows.sort(key=lambda pair: (not pair[0].is_unfair, -pair[0].excess))
    chosen: dict[str, Analysis] = {}
    for row, analysis in rows:
        chosen.setdefault(row.label, analysis)
    yield from list(chosen.items())[:CLASSES]


def _example(
    evidence: Evidence, made: MadePicture, test: Test, label: str, oracle: Oracle
) -> Example:
    original, mutated = evidence.scenes.read(test.scene).image, read_mutant(made.path)
    scale = min(1.0, WIDEST / original.shape[1])
    height, width = (round(side * scale) for side in original.shape[:2])
    seen = evidence.originals[test.detector][test.scene]
    return Example(
        detector=test.detector,
        label=label,
        operator=made.task.operator,
        mutated_label=test.label,
        oracle=oracle,
        scene=test.scene,
        image=test.image,
        known=test.truth[label],
        recognized=test.original[label],
        recognized_now=test.found[label],
        original=OriginalPicture(
            src=data_url(original), width=width, height=height, detections=_scaled(seen, scale)
        ),
        mutated=MutatedPicture(
            src=data_url(mutated),
            width=width,
            height=height,
            detections=_scaled(evidence.answers[test.detector][test.image], scale),
            places=[_corners(box, scale) for box in made.places],
        ),
    )


def _scaled(detections: Sequence[Detection], scale: float) -> list[Detection]:
    return [
        detection
        if detection.box is None
        else Detection(detection.label, detection.score, _corners(detection.box, scale))
        for detection in detections
    ]


def _corners(box: Corners, scale: float) -> Corners:
    left, top, right, bottom = (round(side * scale, 1) for side in box)
    return left, top, right, bottom


def write_pairs(path: Path, evidence: Evidence) -> None:
    """Write the file. An original that cannot be read any more is left out."""
    shown = {test.scene for test in evidence.tests}
    sizes: dict[str, OriginalSize] = {}
    with replacing(path) as part, zipfile.ZipFile(part, "w") as file:
        for name in sorted(shown):
            try:
                image = evidence.scenes.read(name).image
            except (FairprobeError, OSError):
                continue
            picture = f"{len(sizes)}.jpg"
            file.writestr(picture, small_jpeg(image))
            height, width = image.shape[:2]
            sizes[name] = OriginalSize(picture=picture, width=width, height=height)
        answers = SceneAnswers(
            sizes=sizes,
            originals=_every(evidence.originals, shown),
            mutants=_every(evidence.answers, {test.image for test in evidence.tests}),
        )
        file.writestr(ANSWERS, msgspec.json.encode(answers), zipfile.ZIP_DEFLATED)


def _every(seen: Mapping[str, Seen], shown: set[str]) -> dict[str, dict[str, list[Detection]]]:
    return {
        detector: {
            name: _scaled(detections, 1.0) for name, detections in answers.items() if name in shown
        }
        for detector, answers in seen.items()
    }


# -- in the report ---------------------------------------------------------------------------------


def example_sentence(example: Example) -> str:
    """Describe what the mutation changed for a class."""
    return (
        f"With {DONE[example.operator].format(example.mutated_label)}, {example.detector}"
        f" recognizes {example.recognized_now} of class {example.label}; before, it recognized"
        f" {example.recognized}, and {example.known} are known to be there."
    )


def example_pictures(example: Example) -> list[ShownPicture]:
    """Return original and mutant of an example."""
    sides = example.original, example.mutated
    return facing_pictures(*sides, mutated=example.mutated_label, scene=example.scene)


def facing_pictures(
    before: OriginalPicture, after: OriginalPicture, *, mutated: str, scene: str
) -> list[ShownPicture]:
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


def _picture(picture: OriginalPicture, seen: Compared, lost: Compared, title: str) -> ShownPicture:
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
    return ShownPicture(picture.src, caption, f"{title} {caption}", boxes=boxes)


def _counted(counts: Counter[str]) -> str:
    """Write 3 × car, 2 × person and 1 × sign."""
    return listed(f"{number}{SPACE}×{SPACE}{label}" for label, number in counts.most_common())
