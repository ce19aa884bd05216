"""The pictures that show most: for each class that is worse off, its worst tests, original and
mutant beside each other.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from PIL import Image

from fairprobe.scenes.analysis import Analysis
from fairprobe.scenes.gathering import Evidence
from fairprobe.scenes.judging import ALL
from fairprobe.scenes.making import read_picture
from fairprobe.scenes.oracles import Oracle, Test
from fairprobe.scenes.recognition import Detection
from fairprobe.scenes.scene import Box, Picture

WIDEST = 480  # pixels in the report
QUALITY = 82
OF_A_CLASS = 2
CLASSES = 4  # of a recogniser
DONE = {
    "insert": "more of class {mutated} in the picture",
    "delete": "every {mutated} taken away",
    "rotate": "one {mutated} turned",
}


def telling(evidence: Evidence, found: Sequence[Analysis]) -> list[dict[str, Any]]:
    """Classes for which the evidence holds; of a recogniser without such, those farthest above the
    mean.
    """
    shown: list[dict[str, Any]] = []
    for detector in evidence.detectors:
        own = [one for one in found if one.detector == detector.name and one.kind == "ood"]
        for label, oracle, tests in _classes(own):
            shown += [_shown(evidence, test, label, oracle) for test in tests[:OF_A_CLASS]]
    return shown


def as_source(image: Picture) -> str:
    """A small JPEG, written into the page itself."""
    picture = Image.fromarray(image)
    if picture.width > WIDEST:
        picture = picture.resize(
            (WIDEST, max(1, round(picture.height * WIDEST / picture.width))),
            Image.Resampling.LANCZOS,
        )
    file = BytesIO()
    picture.save(file, format="jpeg", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def _classes(own: Sequence[Analysis]) -> Iterator[tuple[str, Oracle, Sequence[Test]]]:
    several = any(one.operator == ALL for one in own)
    rows = [
        (row, one)
        for one in own
        for row in one.classes
        if row.is_above
        and one.examples.get(row.label)
        and (row.is_unfair or one.operator == ALL or not several)
    ]
    rows.sort(key=lambda pair: (not pair[0].is_unfair, -pair[0].excess))
    seen: set[str] = set()
    for row, one in rows:
        if row.label not in seen and len(seen) < CLASSES:
            seen.add(row.label)
            yield row.label, one.oracle, one.examples[row.label]


def _shown(evidence: Evidence, test: Test, label: str, oracle: Oracle) -> dict[str, Any]:
    made = evidence.pictures()[test.image]
    original = evidence.scenes.read(test.scene).image
    scale = min(1.0, WIDEST / original.shape[1])
    operator = made.task.operator
    done = DONE[operator].format(mutated=test.label)
    return {
        "detector": test.detector,
        "label": label,
        "operator": operator,
        "mutated_label": test.label,
        "oracle": oracle,
        "scene": test.scene,
        "image": test.image,
        "sentence": (
            f"With {done}, {test.detector} recognises {test.found[label]} of class {label}; before,"
            f" it recognised {test.original[label]}, and {test.truth[label]} are known to be there."
        ),
        "original": _side(original, evidence.originals[test.detector][test.scene], scale),
        "mutated": {
            **_side(read_picture(made.path), evidence.answers[test.detector][test.image], scale),
            "places": [_scaled(box, scale) for box in made.places],
        },
    }


def _side(image: Picture, detections: Sequence[Detection], scale: float) -> dict[str, Any]:
    return {
        "src": as_source(image),
        "width": round(image.shape[1] * scale),
        "height": round(image.shape[0] * scale),
        "detections": [
            {
                "label": one.label,
                "score": one.score,
                "box": None if one.box is None else _scaled(one.box, scale),
            }
            for one in detections
        ],
    }


def _scaled(box: Box | tuple[float, float, float, float], scale: float) -> list[float]:
    return [round(side * scale, 1) for side in box]
