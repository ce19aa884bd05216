"""Pictures of a run: for each class that fails more, its worst tests, for the report; and
`pairs.zip` with all originals, reduced, and everything that recognizers returned.
"""

from __future__ import annotations

import base64
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

import msgspec
from PIL import Image

from fairprobe.documents.scenes import (
    ANSWERS,
    Corners,
    DetectedObject,
    Example,
    MutatedPicture,
    Oracle,
    OriginalPicture,
    OriginalSize,
    SceneAnswers,
)
from fairprobe.errors import FairprobeError
from fairprobe.scenes.analysis import ALL, Analysis
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.evidence import Evidence, Seen
from fairprobe.scenes.mutants import read_mutant
from fairprobe.scenes.oracles import Test
from fairprobe.scenes.scene import Picture
from fairprobe.storage import replacing

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
    """Select tests of classes that are shown to fail more; without any, of those farthest above the
    mean.
    """
    return [
        _example(evidence, test, label, oracle)
        for detector in evidence.detectors
        for label, oracle, tests in _classes(
            [
                analysis
                for analysis in found
                if analysis.detector == detector.name and analysis.kind == "ood"
            ]
        )
        for test in tests[:OF_A_CLASS]
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


def _classes(own: Sequence[Analysis]) -> Iterator[tuple[str, Oracle, Sequence[Test]]]:
    several = any(analysis.operator == ALL for analysis in own)
    rows = [
        (row, analysis)
        for analysis in own
        for row in analysis.classes
        if (row.is_above or row.is_unfair)
        and analysis.examples.get(row.label)
        and (row.is_unfair or analysis.operator == ALL or not several)
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
    """Convert detections to results, with boxes in a picture of another size."""
    return [
        DetectedObject(
            label=detection.label,
            score=detection.score,
            box=None if detection.box is None else _scaled(detection.box, scale),
        )
        for detection in detections
    ]


def _scaled(box: Corners, scale: float) -> Corners:
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


def _every(seen: Mapping[str, Seen], shown: set[str]) -> dict[str, dict[str, list[DetectedObject]]]:
    return {
        detector: {name: objects(found) for name, found in answers.items() if name in shown}
        for detector, answers in seen.items()
    }
