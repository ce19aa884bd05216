"""Examples for the report: for each class that fails more, its worst tests, original and mutant."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from io import BytesIO

from PIL import Image

from fairprobe.documents.scenes import (
    Corners,
    DetectedObject,
    Example,
    MutatedPicture,
    Oracle,
    OriginalPicture,
)
from fairprobe.scenes.analysis import ALL, Analysis
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.evidence import Evidence
from fairprobe.scenes.mutants import read_mutant
from fairprobe.scenes.oracles import Test
from fairprobe.scenes.scene import Picture

WIDEST = 480  # pixels in the report
QUALITY = 82
OF_A_CLASS = 2
CLASSES = 4  # of a recognizer
DONE = {
    "insert": "more of class {mutated} in the picture",
    "delete": "every {mutated} taken away",
    "rotate": "one {mutated} turned",
}


def find_examples(evidence: Evidence, found: Sequence[Analysis]) -> list[Example]:
    """Tests of classes for which the evidence holds; without any, of those farthest above the
    mean.
    """
    return [
        _example(evidence, test, label, oracle)
        for detector in evidence.detectors
        for label, oracle, tests in _classes(
            [one for one in found if one.detector == detector.name and one.kind == "ood"]
        )
        for test in tests[:OF_A_CLASS]
    ]


def data_url(image: Picture) -> str:
    """A small JPEG to embed in a page."""
    return "data:image/jpeg;base64," + base64.b64encode(small_jpeg(image)).decode()


def small_jpeg(image: Picture) -> bytes:
    """A copy for a page."""
    picture = Image.fromarray(image)
    if picture.width > WIDEST:
        height = max(1, round(picture.height * WIDEST / picture.width))
        picture = picture.resize((WIDEST, height), Image.Resampling.LANCZOS)
    file = BytesIO()
    picture.save(file, format="jpeg", quality=QUALITY)
    return file.getvalue()


def _classes(own: Sequence[Analysis]) -> Iterator[tuple[str, Oracle, Sequence[Test]]]:
    several = any(one.operator == ALL for one in own)
    rows = [
        (row, one)
        for one in own
        for row in one.classes
        if (row.is_above or row.is_unfair)
        and one.examples.get(row.label)
        and (row.is_unfair or one.operator == ALL or not several)
    ]
    rows.sort(key=lambda pair: (not pair[0].is_unfair, -pair[0].excess))
    seen: set[str] = set()
    for row, one in rows:
        if row.label not in seen and len(seen) < CLASSES:
            seen.add(row.label)
            yield row.label, one.oracle, one.examples[row.label]


def _example(evidence: Evidence, test: Test, label: str, oracle: Oracle) -> Example:
    made = evidence.pictures()[test.image]
    original, mutated = evidence.scenes.read(test.scene).image, read_mutant(made.path)
    scale = min(1.0, WIDEST / original.shape[1])
    done = DONE[made.task.operator].format(mutated=test.label)
    return Example(
        detector=test.detector,
        label=label,
        operator=made.task.operator,
        mutated_label=test.label,
        oracle=oracle,
        scene=test.scene,
        image=test.image,
        sentence=(
            f"With {done}, {test.detector} recognizes {test.found[label]} of class {label}; before,"
            f" it recognized {test.original[label]}, and {test.truth[label]} are known to be there."
        ),
        original=OriginalPicture(
            src=data_url(original),
            width=round(original.shape[1] * scale),
            height=round(original.shape[0] * scale),
            detections=objects(evidence.originals[test.detector][test.scene], scale),
        ),
        mutated=MutatedPicture(
            src=data_url(mutated),
            width=round(mutated.shape[1] * scale),
            height=round(mutated.shape[0] * scale),
            detections=objects(evidence.answers[test.detector][test.image], scale),
            places=[_scaled(box, scale) for box in made.places],
        ),
    )


def objects(detections: Sequence[Detection], scale: float = 1.0) -> list[DetectedObject]:
    """What was recognized, as a document has it; boxes in a picture of another size."""
    return [
        DetectedObject(
            label=one.label,
            score=one.score,
            box=None if one.box is None else _scaled(one.box, scale),
        )
        for one in detections
    ]


def _scaled(box: Corners, scale: float) -> Corners:
    left, top, right, bottom = (round(side * scale, 1) for side in box)
    return left, top, right, bottom
