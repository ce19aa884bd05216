"""`audit_scenes`: which classes of objects a recognizer fails when a scene becomes unusual.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024.

    paper                               here (in `fairprobe.scenes`)
    clusters, ⟨Θ_c, min_c, max_c⟩       `distribution`, planned in `plan`
    algorithm 1, the three operators    `plan`, `mutants`; `insertion`, `deletion`, `rotation`
    algorithm 3, GT and MT oracle       `oracles`
    algorithm 2, violations             `analysis`
    RQ2, RQ5, RQ6                       `comparisons`

Mutated pictures can be exported with annotations that say what is in them now, for retraining
(DistroFair leaves that to its users). Inserted and turned objects are added with the pixels that
are visible, deleted ones are left out, and objects behind new ones lose the pixels that these
cover. Classes keep the numbers and names of the user's own COCO file, so that both can be trained
on together. Each picture names the recognizers that it makes err, as the paper proposes.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from io import StringIO
from itertools import count
from pathlib import Path
from shutil import copyfile
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np

from fairprobe.arrays import Mask
from fairprobe.errors import SettingError, StorageError
from fairprobe.escapes import spreadsheet_cell
from fairprobe.report.markdown import markdown
from fairprobe.results import CONFIDENCE, Count, Result, Run, Share
from fairprobe.runs.kinds import report_of
from fairprobe.runs.stages import OnStage, Stages
from fairprobe.runs.store import AUDIT, AuditResult, Write, run_files
from fairprobe.scenes.analysis import ALL, Analysis, every_analysis, inducing_tests
from fairprobe.scenes.collect import Evidence, collect
from fairprobe.scenes.comparisons import Comparisons, compare
from fairprobe.scenes.detectors import open_detector
from fairprobe.scenes.detectors.base import Detector
from fairprobe.scenes.detectors.function import FunctionDetector
from fairprobe.scenes.detectors.self_test import LayoutAgreement
from fairprobe.scenes.examples import PAIRS, Example, find_examples, write_pairs
from fairprobe.scenes.mutants import MadePicture, mutate_without_painting
from fairprobe.scenes.oracles import Test
from fairprobe.scenes.plan import MUTATIONS, Settings, Variant
from fairprobe.scenes.quality import ImageQuality, measure_quality
from fairprobe.scenes.realism_check import OperatorRealism, check_realism
from fairprobe.scenes.scene import Instance, Mutant, Mutation, Operation, Scene, Scenes
from fairprobe.scenes.sources import open_scenes
from fairprobe.storage import in_use, make_folder, replacing, scratch, write_text
from fairprobe.versions import commit, versions

FORMAT: Final = 4  # raised when the meaning of a field changes
MEASURING = "Measuring image quality"
CHECKING = "Checking realism"
COLUMNS = ("detector", "scene", "operator", "label", "kind", "repeat", "objects", "image")
COUNTS = ("original", "found", "truth")


# -- results ---------------------------------------------------------------------------------------


class SceneData(Result, frozen=True, kw_only=True):
    """The scenes: how many, their clusters, and the objects of each class."""

    name: str
    scenes: Count
    clusters: Count
    objects: dict[str, Count]


class DetectorInfo(Result, frozen=True, kw_only=True):
    """A detector under test; `identity` names all that its answers depend on.

    `named` is the number of different classes that it named in any picture.
    """

    name: str
    identity: str | None
    remote: bool
    named: Count
    agreement: LayoutAgreement | None


class SkippedTasks(Result, frozen=True, kw_only=True):
    """Mutations that were not possible, and why."""

    operator: Operation
    label: str
    reason: str
    count: Count


class DetectorFailures(Result, frozen=True, kw_only=True):
    """Pictures for which a detector gave no answer, and why."""

    detector: str
    reason: str
    count: Count


class ScenesRun(Run, frozen=True, kw_only=True):
    """An audit of detectors on scenes."""

    kind: Literal["scenes"] = "scenes"
    format: Literal[4] = FORMAT
    title: str
    data: SceneData
    detectors: list[DetectorInfo]
    mutations: list[Mutation]
    classes: list[str]
    repeats: Count
    confidence: Share
    least_objects: Count
    settings: dict[str, Any]
    results: list[Analysis]
    comparisons: Comparisons
    examples: list[Example]
    skipped: list[SkippedTasks]
    failures: list[DetectorFailures]

    def unusual(self, **wanted: str) -> list[Analysis]:
        """Select the analyses of unusual mutations whose fields have these values."""
        return [
            analysis
            for analysis in self.results
            if analysis.kind == "ood"
            and all(getattr(analysis, name) == value for name, value in wanted.items())
        ]

    def main(self, **wanted: str) -> list[Analysis]:
        """Select the analyses of all mutations together, or those of each if there are none."""
        unusual = self.unusual(**wanted)
        return [analysis for analysis in unusual if analysis.operator == ALL] or unusual

    @property
    def judged(self) -> bool:
        """Return True if any class could be judged."""
        return any(analysis.classes for analysis in self.main())

    @property
    def unfair(self) -> dict[str, tuple[str, ...]]:
        """Return the classes that each recognizer fails more than others, by its primary analyses:
        all mutations together, by the ground truth and by the objects lost.
        """
        labels: dict[str, set[str]] = {detector.name: set() for detector in self.detectors}
        for analysis in self.unusual():
            if analysis.is_primary:
                labels[analysis.detector] |= {*analysis.unfair}
        return {name: tuple(sorted(several)) for name, several in labels.items()}


@dataclass(frozen=True, repr=False)
class SceneAudit(AuditResult[ScenesRun]):
    """The run, and the evidence: `tests` one by one. Pictures and answers are in its folder."""

    evidence: Evidence
    run: ScenesRun

    @property
    def document(self) -> ScenesRun:
        """Return the results."""
        return self.run

    @property
    def tests(self) -> list[Test]:
        return self.evidence.tests

    @property
    def unfair(self) -> dict[str, tuple[str, ...]]:
        """Return the classes that each recognizer fails more than others."""
        return self.run.unfair

    @cached_property
    def inducing(self) -> dict[str, list[str]]:
        """Return the unusual pictures in which a class fails that lies above the mean, by any
        oracle, and the recognizers that fail it.
        """
        recognizers: dict[str, set[str]] = {}
        for analysis in self.run.unusual():
            for test in inducing_tests(analysis, self.tests):
                recognizers.setdefault(test.image, set()).add(test.detector)
        return {image: sorted(names) for image, names in recognizers.items()}

    def files(self) -> dict[str, Write]:
        """Return what writes all tests, what was recognized in their pictures, and the tables."""
        return {
            "tests.csv": lambda path: write_text(path, _table(self.tests, self.evidence.realism)),
            PAIRS: lambda path: write_pairs(path, self.evidence),
            "tables.md": lambda path: write_text(path, markdown(report_of(self.run))),
        }

    def save(self, folder: Path | str, *, overwrite: bool = True) -> Path:
        """Write the results into a folder with pictures and answers, and return its path."""
        target = Path(folder)
        if not overwrite and (target / AUDIT).exists():
            raise SettingError(
                f"{target} contains a run. Name another folder, or allow overwriting it."
            )
        make_folder(target)
        for name, write in run_files(self, self.run).items():
            write(target / name)
        return target

    def export_coco(self, folder: Path | str) -> Path:
        """Write the mutated pictures with updated annotations as COCO, to retrain a recognizer."""
        return export_coco(self.evidence, folder, self.inducing)

    def with_command(self, command: str) -> SceneAudit:
        """Add the command line to the run."""
        return replace(self, run=msgspec.structs.replace(self.run, command=command))


# -- the audit -------------------------------------------------------------------------------------


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
    opened = [_open(analysis) for analysis in several]
    source = (
        scenes
        if isinstance(scenes, Scenes)
        else open_scenes(Path(scenes), Path(annotations or scenes))
    )
    source.count_as(counted_as or {})
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
    results = every_analysis(evidence.tests, fewest=settings.fewest, seed=settings.seed)
    comparisons = Comparisons()
    if evidence.tests:
        quality, realism = _pictures(evidence, stages)
        comparisons = compare(evidence, results, quality, realism)
    if not title:
        title = Path(scenes).name if isinstance(scenes, Path | str) else type(source).__name__
    return SceneAudit(evidence, _run(evidence, results, comparisons, title, stages))


def _open(detector: Any) -> Detector:
    if isinstance(detector, Detector):
        return detector
    if isinstance(detector, str | Path):
        return open_detector(str(detector))
    return FunctionDetector(detector)


def _pictures(evidence: Evidence, stages: Stages) -> tuple[ImageQuality, list[OperatorRealism]]:
    """Judge the pictures themselves; an interrupt ends this and keeps everything else."""
    quality, realism = ImageQuality(), list[OperatorRealism]()
    with stages.keep_partial(lambda: False):
        with stages.stage(MEASURING) as step:
            quality = measure_quality(evidence, step)
        with stages.stage(CHECKING) as step:
            realism = check_realism(evidence, step)
    return quality, realism


def _run(
    evidence: Evidence,
    results: Sequence[Analysis],
    comparisons: Comparisons,
    title: str,
    stages: Stages,
) -> ScenesRun:
    settings = evidence.settings
    skipped = Counter(
        ("control" if task.kind == "control" else task.operator, task.label, reason)
        for task, reason in evidence.skipped.items()
    )
    objects = sum((facts.counts for facts in evidence.facts.values()), Counter[str]())
    return ScenesRun(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command="",
        versions=versions("opencv-python-headless", "onnxruntime", "numpy", "pillow")
        | ({"commit": commit()} if commit() else {}),
        seed=settings.seed,
        seconds=stages.seconds,
        stopped=stages.stopped,
        messages=evidence.messages,
        title=title,
        data=SceneData(
            name=title,
            scenes=len(evidence.facts),
            clusters=len(set(evidence.usual.members.values())) if evidence.usual else 0,
            objects=dict(objects.most_common()),
        ),
        detectors=[
            DetectorInfo(
                name=detector.name,
                identity=detector.identity,
                remote=detector.is_remote,
                named=len(evidence.named(detector.name)),
                agreement=evidence.agreements.get(detector.name),
            )
            for detector in evidence.detectors
        ],
        mutations=list(settings.mutations),
        classes=sorted({task.label for task in evidence.made}),
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
        results=list(results),
        comparisons=comparisons,
        examples=find_examples(evidence, results),
        skipped=[
            SkippedTasks(operator=operator, label=label, reason=reason, count=count)
            for (operator, label, reason), count in skipped.most_common()
        ],
        failures=[
            DetectorFailures(detector=detector, reason=reason, count=count)
            for (detector, reason), count in evidence.failures.most_common()
        ],
    )


def _table(tests: Sequence[Test], realism: Mapping[str, float]) -> str:
    """Write every test as a row of CSV; counts are written as JSON."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*COLUMNS, *COUNTS, "realism"))
    for test in tests:
        counts = (json.dumps(dict(sorted(getattr(test, part).items()))) for part in COUNTS)
        score = realism.get(test.image)
        look = "" if score is None else f"{score:.3f}"
        cells = (*(getattr(test, column) for column in COLUMNS), *counts, look)
        writer.writerow(map(spreadsheet_cell, cells))
    return text.getvalue()


# -- COCO ------------------------------------------------------------------------------------------


Size: TypeAlias = tuple[int, int]  # height and width
ANNOTATIONS, PICTURES = "instances.json", "images"
LEAST_PIXELS = 25  # of an object: what is left of it is no object


def instances_after(scene: Scene, mutant: Mutant) -> tuple[Instance, ...]:
    """List the objects of a mutated picture."""
    covered = scene.mask_of(mutant.added)
    left = []
    for instance in scene.others(mutant.removed):
        mask = instance.whole(scene.size) & ~covered
        if mask.any() and mask.sum() >= min(LEAST_PIXELS, instance.mask.sum()):
            left.append(Instance.of(instance.label, mask))
    new = (
        Instance.of(instance.label, instance.whole(scene.size))
        for instance in mutant.added
        if instance.mask.any()
    )
    return (*left, *new)


def export_coco(
    evidence: Evidence, folder: Path | str, inducing: Mapping[str, Sequence[str]]
) -> Path:
    """Copy the mutated pictures into `folder`/images and write `folder`/instances.json; its path.

    In-painting controls and usual insertions are left out. `inducing` names the recognizers that
    err in a picture, by its path below the run's folder.
    """
    place = Path(folder)
    if (place / ANNOTATIONS).exists():
        raise SettingError(f"{place} holds an export. Name another folder.")
    pictures = _copied(evidence, make_folder(place / PICTURES), inducing)
    return write_coco(place, pictures, evidence.scenes.categories)


def write_coco(
    folder: Path,
    pictures: Iterable[tuple[dict[str, Any], Size, tuple[Instance, ...]]],
    categories: Mapping[str, tuple[int | str, str]] | None = None,
) -> Path:
    """Write `folder`/instances.json for pictures that are in `folder`/images; its path.

    A picture is its entry (`file_name`, and whatever else is to be said of it), its size and its
    objects. `categories` are those of the original file; other classes get numbers of their own.
    """
    known = dict(categories or {})
    free = count(1 + max((one for one, _ in known.values() if isinstance(one, int)), default=0))
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for at, (entry, size, found) in enumerate(pictures, start=1):
        images.append({"id": at, **entry, "height": size[0], "width": size[1]})
        for instance in found:
            if instance.label not in known:
                known[instance.label] = (next(free), instance.label)
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": at,
                    "category_id": known[instance.label][0],
                    "iscrowd": 0,
                    "area": int(instance.mask.sum()),
                    "bbox": [*instance.box[:2], instance.box[2] - instance.box[0], instance.height],
                    "segmentation": {"size": list(size), "counts": _runs(instance.whole(size))},
                }
            )
    body = {
        "info": {"description": "Written by fairprobe: what is in each picture now."},
        "images": images,
        "annotations": annotations,
        "categories": [{"id": at, "name": name} for at, name in known.values()],
    }
    write_text(folder / ANNOTATIONS, json.dumps(body))
    return folder / ANNOTATIONS


def _copied(
    evidence: Evidence, folder: Path, inducing: Mapping[str, Sequence[str]]
) -> Iterator[tuple[dict[str, Any], Size, tuple[Instance, ...]]]:
    """Copy every mutant; its entry names the mutation, the scene and the recognizers that err."""
    for made, size, found in _mutants(evidence):
        task = made.task
        name = task.file.replace("/", "-")
        with replacing(folder / name) as temporary:
            copyfile(made.path, temporary)
        done = {"scene": task.scene, "mutation": task.operator, "mutated_class": task.label}
        errs = list(inducing.get(str(made.path.relative_to(evidence.folder)), ()))
        yield {"file_name": name, **done, "error_inducing": errs}, size, found


def _mutants(evidence: Evidence) -> Iterator[tuple[MadePicture, Size, tuple[Instance, ...]]]:
    """List every unusual picture, its size and its objects, scene by scene."""
    made = [picture for picture in evidence.made.values() if picture.task.kind == "ood"]
    scene: Scene | None = None
    for picture in sorted(made, key=lambda picture: (picture.task.scene, str(picture.path))):
        if scene is None or scene.name != picture.task.scene:
            scene = evidence.scenes.read(picture.task.scene)
        mutant = mutate_without_painting(scene, picture.task, evidence.cutouts, evidence.settings)
        if not isinstance(mutant, Mutant) or mutant.places != picture.places:
            raise StorageError(
                f"{picture.path} cannot be annotated: it was not made from these scenes and"
                " cut-outs. Delete it, run the audit again, and export then."
            )
        yield picture, scene.size, instances_after(scene, mutant)


def _runs(mask: Mask) -> list[int]:
    """Compute COCO's run lengths, column by column, starting outside the mask."""
    flat = mask.T.ravel()
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    lengths = np.diff(np.concatenate([[0], changes, [flat.size]]))
    return [*([0] if flat[0] else []), *map(int, lengths)]
