"""`pairs.zip` of a run: a small copy of each original, and what every recognizer saw in originals
and mutants, so that all pairs can be looked at side by side.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from fairprobe.documents.scenes import ANSWERS, DetectedObject, OriginalSize, SceneAnswers
from fairprobe.errors import FairprobeError
from fairprobe.scenes.evidence import Evidence, Seen
from fairprobe.scenes.examples import objects, small_jpeg
from fairprobe.storage import replacing


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
