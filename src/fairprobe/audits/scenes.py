"""`audit_scenes`: which classes of objects a recognizer fails when a scene becomes unusual.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024.

    paper                               here (in `fairprobe.scenes`)
    clusters, ⟨Θ_c, min_c, max_c⟩       `distribution`, planned in `plan`
    algorithm 1, the three operators    `plan`, `mutants`; `insertion`, `deletion`, `rotation`
    algorithm 3, GT and MT oracle       `oracles`
    algorithm 2, violations             `analysis`
    RQ2, RQ5, RQ6                       `comparisons`, `controls`
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import msgspec

from fairprobe.audits.scene_evidence import collect
from fairprobe.documents.scenes import (
    PAIRS,
    Comparisons,
    DetectorDocument,
    DetectorFailures,
    ImageQuality,
    Mutation,
    OperatorRealism,
    SceneData,
    ScenesDocument,
    SkippedTasks,
)
from fairprobe.errors import SettingError, StorageError
from fairprobe.escapes import spreadsheet_cell
from fairprobe.present.scene_tables import scene_tables
from fairprobe.runs.stages import OnStage, Stages
from fairprobe.runs.store import AUDIT, AuditResult, Write, run_files
from fairprobe.scenes.analysis import ALL, Analysis, every_analysis
from fairprobe.scenes.comparisons import compare
from fairprobe.scenes.detectors import open_detector
from fairprobe.scenes.detectors.base import Detector
from fairprobe.scenes.detectors.function import FunctionDetector
from fairprobe.scenes.evidence import Evidence
from fairprobe.scenes.examples import find_examples, write_pairs
from fairprobe.scenes.export import export_coco
from fairprobe.scenes.labels import common
from fairprobe.scenes.oracles import Test
from fairprobe.scenes.plan import MUTATIONS, Settings, Variant
from fairprobe.scenes.quality import measure_quality
from fairprobe.scenes.realism_check import check_realism
from fairprobe.scenes.scene import Scenes
from fairprobe.scenes.sources import open_scenes
from fairprobe.statistics.rates import CONFIDENCE
from fairprobe.storage import in_use, scratch, write_text
from fairprobe.versions import commit, versions

MEASURING = "Measuring image quality"
CHECKING = "Checking realism"
EVIDENCE = (
    "Each class is compared with all classes in equal situations, by the ground truth and by the"
    " objects lost, all mutations together; p is adjusted for all of these and for all recognizers"
    " (max-T, over scenes and over classes exchanged within situations)."
)
NOTHING_SHOWN = (
    "So nothing was shown, neither that classes are treated alike nor that they are not. More"
    " scenes, other mutations, or fewer objects that a class must have may help."
)
COLUMNS = ("detector", "scene", "operator", "label", "kind", "repeat", "objects", "image")
COUNTS = ("original", "found", "truth")


@dataclass(frozen=True, repr=False)
class SceneAudit(AuditResult[ScenesDocument]):
    """What was found: `tests` one by one, `analyses`, and the document. Pictures and answers are in
    the folder of the evidence.
    """

    evidence: Evidence
    analyses: tuple[Analysis, ...]
    content: ScenesDocument

    @property
    def document(self) -> ScenesDocument:
        """All of it as a typed document."""
        return self.content

    @property
    def tests(self) -> list[Test]:
        return self.evidence.tests

    @property
    def unfair(self) -> dict[str, tuple[str, ...]]:
        """The classes that each recognizer fails more than others, by its primary analyses: all
        mutations together, against the ground truth and by the objects lost.
        """
        return _unfair(self.evidence, self.analyses)

    @property
    def inducing(self) -> dict[str, list[str]]:
        """The unusual pictures in which a class fails that lies above the mean, by any oracle, and
        the recognizers that fail it.
        """
        found: dict[str, set[str]] = {}
        for one in self.analyses:
            for test in one.inducing if one.kind == "ood" else ():
                found.setdefault(test.image, set()).add(test.detector)
        return {image: sorted(names) for image, names in found.items()}

    def files(self) -> dict[str, Write]:
        """All tests one by one, what was recognized in their pictures, and the paper's tables."""
        return {
            "tests.csv": lambda path: write_text(path, _table(self.tests, self.evidence.realism)),
            PAIRS: lambda path: write_pairs(path, self.evidence),
            "tables.md": lambda path: write_text(path, scene_tables(self.document)),
        }

    def save(self, folder: Path | str, *, overwrite: bool = True) -> Path:
        """Write the results into a folder, beside pictures and answers, and return its path."""
        place = Path(folder)
        if not overwrite and (place / AUDIT).exists():
            raise SettingError(
                f"{place} holds a run. Name another folder, or allow overwriting it."
            )
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"Cannot write into {place}: {error.strerror}. Choose another folder."
            ) from error
        for name, write in run_files(self, self.document).items():
            write(place / name)
        return place

    def export_coco(self, folder: Path | str) -> Path:
        """Write the mutated pictures with updated annotations as COCO, to retrain a recognizer."""
        return export_coco(self.evidence, folder, self.inducing)

    def with_command(self, command: str) -> SceneAudit:
        """The same, with the command that made it in the document."""
        return replace(self, content=msgspec.structs.replace(self.content, command=command))


def audit_scenes(
    scenes: Scenes | Path | str,
    detectors: Sequence[Detector | Callable[..., Any] | str] | Detector | Callable[..., Any] | str,
    *,
    annotations: Path | str | None = None,
    mutations: Sequence[Mutation] = MUTATIONS,
    classes: Sequence[str] | None = None,
    repeats: int = 5,
    clusters: int = 3,
    cluster_by: Sequence[str] | None = None,
    seed: int = 0,
    inpainting: str = "exemplars",
    clip: Path | str | None = None,
    cutouts: Path | str | None = None,
    folder: Path | str | None = None,
    workers: int = 1,
    timeout: float | None = 60.0,
    rate: float | None = None,
    at_once: int = 4,
    most_requests: int | None = None,
    fewest: int = 10,
    counted_as: Mapping[str, str] | None = None,
    variant: Variant = "default",
    any_angle: bool = False,
    title: str = "",
    progress: OnStage | None = None,
) -> SceneAudit:
    """Test recognizers on mutated scenes.

    `scenes` are given, or read from a folder of pictures with their `annotations`. A detector is a
    file.onnx, a function of a picture, or what `fairprobe.scenes.open_detector` takes. Pictures and
    answers go to `folder`, where a second run finds them, or to a temporary one that goes with the
    result; answers of a function only if it has an attribute `identity`, a text that changes
    whenever they may.
    `cutouts` is a folder label/*.png of objects to insert instead of the scenes' own. A class with
    fewer than `fewest` objects is not judged. Services get at most `rate` requests a second,
    `at_once` together, and `most_requests` in all. `counted_as` maps classes of the recognizers to
    those of the annotation: {"van": "car"}. Pictures are clustered by the classes `cluster_by`, by
    default those of roads, or by ["all"]. `clip` is a folder of a CLIP model, which then rates how
    realistic pictures are. `variant="paper"` mutates and counts errors as DistroFair prints it;
    `any_angle` lifts the limit of rotations to what can occur.
    """
    several = detectors if isinstance(detectors, list | tuple) else [detectors]
    opened = [_open(one) for one in several]
    source = (
        scenes
        if isinstance(scenes, Scenes)
        else open_scenes(Path(scenes), Path(annotations or scenes))
    )
    if counted_as:
        source.counted_as = {**source.counted_as, **_common(counted_as)}
    settings = Settings.of(
        mutations=mutations,
        classes=classes,
        repeats=repeats,
        clusters=clusters,
        cluster_by=cluster_by,
        seed=seed,
        inpainting=inpainting,
        clip=clip,
        workers=workers,
        timeout=timeout,
        rate=rate,
        at_once=at_once,
        most_requests=most_requests,
        fewest=fewest,
        variant=variant,
        any_angle=any_angle,
    )
    stages = Stages(progress)
    temporary = None if folder else scratch()
    place = Path(folder or "") if temporary is None else temporary.path
    with in_use(place):
        evidence = collect(
            source,
            opened,
            settings,
            folder=place,
            cutouts=None if cutouts is None else Path(cutouts),
            stages=stages,
        )
    evidence.temporary = temporary
    found = every_analysis(evidence.tests, fewest=settings.fewest, seed=settings.seed)
    comparisons = Comparisons()
    if evidence.tests:
        comparisons = compare(evidence, found, _quality(evidence, stages))
        realism = _realism(evidence, stages)
        comparisons = msgspec.structs.replace(comparisons, realism=realism)
    if not title:
        title = Path(scenes).name if isinstance(scenes, Path | str) else type(source).__name__
    seconds = sum(stages.seconds.values())
    return SceneAudit(evidence, found, _document(evidence, found, comparisons, title, seconds))


def _common(counted_as: Mapping[str, str]) -> dict[str, str]:
    return {common(name): common(wider) for name, wider in counted_as.items()}


def _open(detector: Any) -> Detector:
    if isinstance(detector, Detector):
        return detector
    if isinstance(detector, str | Path):
        return open_detector(str(detector))
    return FunctionDetector(detector)


def _quality(evidence: Evidence, stages: Stages) -> ImageQuality:
    """An interrupt leaves the measures out and keeps everything else."""
    with stages.keep_partial(lambda: False), stages.stage(MEASURING) as step:
        return measure_quality(evidence, step)
    evidence.partial = True
    evidence.messages.append("Image quality was not measured, since the run was interrupted.")
    return ImageQuality()


def _realism(evidence: Evidence, stages: Stages) -> list[OperatorRealism]:
    """An interrupt leaves the check out and keeps everything else."""
    with stages.keep_partial(lambda: False), stages.stage(CHECKING) as step:
        return check_realism(evidence, step)
    evidence.partial = True
    evidence.messages.append("Realism was not checked, since the run was interrupted.")
    return []


def _unfair(evidence: Evidence, found: Sequence[Analysis]) -> dict[str, tuple[str, ...]]:
    """By the primary analyses of each recognizer."""
    labels: dict[str, set[str]] = {detector.name: set() for detector in evidence.detectors}
    for one in found:
        if one.kind == "ood" and one.is_primary:
            labels[one.detector] |= set(one.unfair)
    return {name: tuple(sorted(several)) for name, several in labels.items()}


# -- the document ----------------------------------------------------------------------------------


def _document(
    evidence: Evidence,
    found: Sequence[Analysis],
    comparisons: Comparisons,
    title: str,
    seconds: float,
) -> ScenesDocument:
    settings = evidence.settings
    main = _main(found)
    verdict, details = _sentences(evidence, found, main)
    skipped = Counter(
        ("control" if task.kind == "control" else task.operator, task.label, reason)
        for task, reason in evidence.skipped.items()
    )
    objects = sum((facts.counts for facts in evidence.facts.values()), Counter[str]())
    return ScenesDocument(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        title=title,
        partial=evidence.partial,
        judged=any(one.classes for one in main),
        verdict=verdict,
        details=details,
        data=SceneData(
            name=title,
            scenes=len(evidence.facts),
            clusters=len(set(evidence.usual.members.values())) if evidence.usual else 0,
            objects=dict(objects.most_common()),
        ),
        detectors=[
            DetectorDocument(
                name=one.name,
                identity=one.identity,
                remote=one.is_remote,
                named=len(evidence.named(one.name)),
                agreement=evidence.agreements.get(one.name),
            )
            for one in evidence.detectors
        ],
        mutations=list(settings.mutations),
        classes=sorted({task.label for task in evidence.made}),
        seed=settings.seed,
        repeats=settings.repeats,
        confidence=CONFIDENCE,
        least_objects=settings.fewest,
        settings={
            "clusters": settings.clusters,
            **({"clustered by": ", ".join(settings.cluster_by)} if settings.cluster_by else {}),
            "in-painting": settings.inpainting,
            **({"variant": settings.variant} if settings.variant != "default" else {}),
            **({"rotations": "by any angle"} if settings.any_angle else {}),
            "time-out (seconds)": settings.timeout,
        },
        versions=versions("opencv-python-headless", "onnxruntime", "numpy", "pillow")
        | ({"commit": commit()} if commit() else {}),
        seconds=seconds,
        results=[one.document() for one in found],
        comparisons=comparisons,
        examples=find_examples(evidence, found),
        skipped=[
            SkippedTasks(operator=operator, label=label, reason=reason, count=count)
            for (operator, label, reason), count in skipped.most_common()
        ],
        failures=[
            DetectorFailures(detector=detector, reason=reason, count=count)
            for (detector, reason), count in evidence.failures.most_common()
        ],
        messages=evidence.messages,
    )


def _main(found: Sequence[Analysis]) -> list[Analysis]:
    """The analyses of all mutations together, or of the only one."""
    unusual = [one for one in found if one.kind == "ood"]
    return [one for one in unusual if one.operator == ALL] or unusual


def _sentences(
    evidence: Evidence, found: Sequence[Analysis], main: Sequence[Analysis]
) -> tuple[str, list[str]]:
    """The verdict, and what must be said beside it."""
    unfair = _unfair(evidence, found)
    judged = {one.detector: unfair[one.detector] for one in main if one.classes}
    if not judged:
        why = "no mutated picture was made and answered"
        if main:
            why = f"no class that was not mutated has {evidence.settings.fewest} objects or more"
        return f"Nothing could be judged: {why}.", [NOTHING_SHOWN]
    above = len({(one.detector, label) for one in main for label in one.violations})
    plain_rule = (
        f"By the paper's plain rule {above} {'class lies' if above == 1 else 'classes lie'} above"
        " the mean error rate, as some always do."
    )
    failing = [
        f"{name} fails {_listed(labels)} more often than other classes"
        for name, labels in judged.items()
        if labels
    ]
    fair = [name for name, labels in judged.items() if not labels]
    details = [EVIDENCE, plain_rule] if failing or above else [EVIDENCE]
    if failing:
        verdict = f"{'; '.join(failing)} once scenes become unusual."
        if fair:
            details.insert(1, f"For {_listed(fair)} the evidence holds for no class.")
    else:
        verdict = (
            "No recognizer is shown to fail a class more often than others once scenes become"
            " unusual."
        )
    others = [detector.name for detector in evidence.detectors if detector.name not in judged]
    if others:
        details.append(f"Nothing could be judged of {_listed(others)}, so nothing is shown.")
    return verdict, details


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _table(tests: Sequence[Test], realism: Mapping[str, float]) -> str:
    """Every test as a row of CSV; counts are written as JSON."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*COLUMNS, *COUNTS, "realism"))
    for one in tests:
        counts = (json.dumps(dict(sorted(getattr(one, part).items()))) for part in COUNTS)
        score = realism.get(one.image)
        look = "" if score is None else f"{score:.3f}"
        cells = (*(getattr(one, column) for column in COLUMNS), *counts, look)
        writer.writerow(map(spreadsheet_cell, cells))
    return text.getvalue()
