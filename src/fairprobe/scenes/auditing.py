"""`fp.scenes.audit`: which classes of objects a recogniser fails when a scene becomes unusual.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024.

    paper                               here
    clusters, ⟨Θ_c, min_c, max_c⟩       `distribution`, planned in `plan`
    algorithm 1, the three operators    `plan`, `making`; `insertion`, `deletion`, `rotation`
    algorithm 3, GT and MT oracle       `oracles`
    algorithm 2, violations             `analysis`, brought together in `judging`
    RQ2, RQ5, RQ6                       `comparisons`
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairprobe.errors import SettingError, StorageError
from fairprobe.present.scene_tables import scene_tables
from fairprobe.scenes.analysis import Analysis
from fairprobe.scenes.detectors import open_detector
from fairprobe.scenes.detectors.function import FunctionDetector
from fairprobe.scenes.gathering import Evidence, OnStage, Settings, gather
from fairprobe.scenes.judging import ALL, compared, judged
from fairprobe.scenes.labels import common
from fairprobe.scenes.oracles import Test
from fairprobe.scenes.plan import MUTATIONS, Asked, Mutation
from fairprobe.scenes.recognition import Detector
from fairprobe.scenes.scene import Scenes
from fairprobe.scenes.study import quality, survey_of, write_survey
from fairprobe.scenes.telling import telling
from fairprobe.statistics.rates import CONFIDENCE
from fairprobe.storage import write_text
from fairprobe.versions import versions

FORMAT = 1
NOTHING_SHOWN = (
    "So nothing was shown, neither that classes are treated alike nor that they are not. More"
    " scenes, other mutations, or fewer objects that a class must have may help."
)


@dataclass(frozen=True)
class SceneAudit:
    """What was found: `tests` one by one, `analyses`, and all of it as plain data. Pictures and
    answers lie in the folder.
    """

    evidence: Evidence
    analyses: tuple[Analysis, ...]
    document: dict[str, Any]

    @property
    def tests(self) -> list[Test]:
        return self.evidence.tests

    @property
    def unfair(self) -> dict[str, tuple[str, ...]]:
        """Of each recogniser the classes that it fails more than others, by any oracle and
        mutation, where the evidence holds.
        """
        return _unfair(self.evidence, self.analyses)

    def to_dict(self) -> dict[str, Any]:
        return self.document

    def report(self, path: Path | str) -> Path:
        """Writes the report, one HTML file that needs nothing else."""
        from fairprobe.present.scenes_page import render_scenes

        write_text(Path(path), render_scenes(self.document))
        return Path(path)

    def survey(self, folder: Path | str, *, each: int = 10, seed: int = 0) -> Path:
        """Writes the page that asks people how real the pictures are, with so many mutants of each
        operator, and its key `survey.json`.
        """
        title = str(self.document["title"])
        return write_survey(
            self.evidence,
            survey_of(self.evidence, self.analyses, title, each=each, seed=seed),
            Path(folder),
        )

    def save(self, folder: Path | str) -> Path:
        """Writes the report, whose path it returns, all numbers, the paper's tables and, where
        pictures are many enough, the survey.
        """
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"Cannot write into {place}: {error.strerror}. Choose another folder."
            ) from error
        write_text(
            place / "audit.json", json.dumps(self.document, indent=1, ensure_ascii=False) + "\n"
        )
        write_text(place / "tests.csv", _table(self.tests))
        write_text(place / "tables.md", scene_tables(self.document))
        if self.evidence.made:
            with suppress(SettingError):  # too few pictures for an order that gives nothing away
                self.survey(place)
        return self.report(place / "report.html")


def audit(
    scenes: Scenes | Path | str,
    detectors: Sequence[Detector | Callable[..., Any] | str] | Detector | Callable[..., Any] | str,
    *,
    annotations: Path | str | None = None,
    mutations: Sequence[Mutation] = MUTATIONS,
    classes: Sequence[str] | None = None,
    repeats: int = 5,
    clusters: int = 3,
    seed: int = 0,
    inpainting: str = "exemplars",
    cutouts: Path | str | None = None,
    folder: Path | str | None = None,
    workers: int = 1,
    timeout: float | None = 60.0,
    rate: float | None = None,
    fewest: int = 10,
    title: str = "",
    progress: OnStage | None = None,
) -> SceneAudit:
    """Tests recognisers on mutated scenes.

    `scenes` are given, or read from a folder of pictures with their `annotations`. A detector is a
    file.onnx, a function of a picture, or what `scenes.detectors.open_detector` takes. Pictures and
    answers go to `folder`, where a second run finds them, or to a temporary one; answers of a
    function only if it has an attribute `identity`, a text that changes whenever they may.
    `cutouts` is a folder label/*.png of objects to insert instead of the scenes' own. A class with
    fewer than `fewest` objects is not judged.
    """
    from fairprobe.scenes.sources import open_scenes

    several = detectors if isinstance(detectors, list | tuple) else [detectors]
    opened = [_opened(one) for one in several]
    source = (
        scenes
        if isinstance(scenes, Scenes)
        else open_scenes(Path(scenes), Path(annotations or scenes))
    )
    place = (
        Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="fairprobe-scenes-"))
    )
    wanted = tuple(dict.fromkeys(map(common, classes))) if classes else None
    asked = Asked(tuple(dict.fromkeys(mutations)), wanted, repeats, clusters, seed)
    settings = Settings(asked, inpainting, workers, timeout, rate, fewest)
    tell: OnStage = progress or (lambda *_: None)
    evidence = gather(
        source,
        opened,
        settings,
        folder=place,
        cutouts=None if cutouts is None else Path(cutouts),
        progress=tell,
    )
    found = judged(evidence)
    comparisons = (
        {**compared(evidence, found), "quality": quality(evidence, tell)} if evidence.tests else {}
    )
    name = title or (
        str(Path(scenes).name) if isinstance(scenes, Path | str) else type(source).__name__
    )
    return SceneAudit(evidence, found, _document(evidence, found, comparisons, name))


def _opened(detector: Any) -> Detector:
    if isinstance(detector, Detector):
        return detector
    return (
        open_detector(str(detector))
        if isinstance(detector, str | Path)
        else FunctionDetector(detector)
    )


def _unfair(evidence: Evidence, found: Sequence[Analysis]) -> dict[str, tuple[str, ...]]:
    """By any analysis: that there are several is allowed for in each."""
    labels: dict[str, set[str]] = {detector.name: set() for detector in evidence.detectors}
    for one in found:
        if one.kind == "ood":
            labels[one.detector] |= set(one.unfair)
    return {name: tuple(sorted(several)) for name, several in labels.items()}


def _main(found: Sequence[Analysis]) -> list[Analysis]:
    """The analyses that the plain rule is told of: all mutations together, or the only one."""
    unusual = [one for one in found if one.kind == "ood"]
    return [one for one in unusual if one.operator == ALL] or unusual


def _document(
    evidence: Evidence, found: Sequence[Analysis], comparisons: dict[str, Any], name: str
) -> dict[str, Any]:
    settings, asked = evidence.settings, evidence.settings.asked
    verdict, details = _sentences(evidence, found)
    skipped = Counter(
        ("control" if task.kind == "control" else task.operator, task.label, reason)
        for task, reason in evidence.left.items()
    )
    objects = sum((known.counts for known in evidence.known.values()), Counter[str]())
    return {
        "format": FORMAT,
        "kind": "scenes",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "title": name,
        "partial": evidence.partial,
        "judged": any(one.classes for one in _main(found)),
        "verdict": verdict,
        "details": details,
        "data": {
            "name": name,
            "scenes": len(evidence.known),
            "clusters": len(set(evidence.usual.members.values())) if evidence.usual else 0,
            "objects": dict(objects.most_common()),
        },
        "detectors": [
            {"name": one.name, "identity": one.identity, "remote": one.is_remote}
            for one in evidence.detectors
        ],
        "mutations": list(asked.mutations),
        "classes": sorted({task.label for task in evidence.made}),
        "seed": asked.seed,
        "repeats": asked.repeats,
        "confidence": CONFIDENCE,
        "least_objects": settings.fewest,
        "settings": {
            "clusters": asked.clusters,
            "in-painting": settings.inpainting,
            "time-out (seconds)": settings.timeout,
        },
        "versions": versions("opencv-python-headless", "onnxruntime", "numpy", "pillow"),
        "seconds": evidence.seconds,
        "results": [
            {key: value for key, value in one.to_dict().items() if key != "examples"}
            for one in found
        ],
        "comparisons": comparisons,
        "telling": telling(evidence, found),
        "skipped": [
            {"operator": operator, "label": label, "reason": reason, "count": count}
            for (operator, label, reason), count in skipped.most_common()
        ],
        "failures": [
            {"detector": detector, "reason": reason, "count": count}
            for (detector, reason), count in evidence.failures.most_common()
        ],
        "messages": evidence.messages,
    }


def _sentences(evidence: Evidence, found: Sequence[Analysis]) -> tuple[str, list[str]]:
    """The verdict, and what must be said beside it."""
    main = _main(found)
    by_detector = {
        one.detector: _unfair(evidence, found)[one.detector] for one in main if one.classes
    }
    if not main:
        return "Nothing could be judged: no mutated picture was made and answered.", [NOTHING_SHOWN]
    if not by_detector:
        return (
            (
                "Nothing could be judged: no class that was not mutated has"
                f" {evidence.settings.fewest} objects or more."
            ),
            [NOTHING_SHOWN],
        )
    verdict, details = _shown(by_detector, main)
    others = [detector.name for detector in evidence.detectors if detector.name not in by_detector]
    return verdict, (
        [*details, f"Of {_listed(others)} nothing could be judged, so nothing is shown."]
        if others
        else details
    )


def _shown(
    by_detector: dict[str, tuple[str, ...]], main: Sequence[Analysis]
) -> tuple[str, list[str]]:
    """The verdict on the recognisers that could be judged."""
    plain = {(one.detector, label) for one in main for label in one.violations}
    told = [
        f"{name} fails {_listed(labels)} more often than other classes"
        for name, labels in by_detector.items()
        if labels
    ]
    fair = [name for name, labels in by_detector.items() if not labels]
    if not told:
        return (
            (
                "No recogniser is shown to fail a class more often than others once scenes become"
                " unusual."
            ),
            [_plain_rule(len(plain))] if plain else [],
        )
    details = [f"For {_listed(fair)} the evidence holds for no class."] if fair else []
    details.append(_plain_rule(len(plain)))
    return "; ".join(told) + " once scenes become unusual.", details


def _plain_rule(count: int) -> str:
    return (
        f"By the paper's plain rule {count} {'class lies' if count == 1 else 'classes lie'} above"
        " the mean error rate, as some always do."
    )


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _table(tests: Sequence[Test]) -> str:
    """Every test as a row; counts are written as JSON."""
    import csv
    from io import StringIO

    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        (
            "detector",
            "scene",
            "operator",
            "label",
            "kind",
            "repeat",
            "objects",
            "image",
            "original",
            "found",
            "truth",
        )
    )
    for one in tests:
        counts = (
            json.dumps(dict(sorted(part.items()))) for part in (one.original, one.found, one.truth)
        )
        writer.writerow(
            (
                one.detector,
                one.scene,
                one.operator,
                one.label,
                one.kind,
                one.repeat,
                one.objects,
                one.image,
                *counts,
            )
        )
    return text.getvalue()
