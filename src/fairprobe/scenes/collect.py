"""Collect the evidence on recognizers: read scenes, query, plan, make mutants, query again.

An interrupt keeps the pictures and answers so far: both are in the folder, and whatever they allow
is judged.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from fairprobe.errors import DataError, FairprobeError, ModelError, SettingError
from fairprobe.runs.stages import Stages
from fairprobe.scenes.cutouts import (
    PAPER,
    Cutouts,
    CutoutSettings,
    SceneCutouts,
    cutouts_in,
    cutouts_of,
    unused_cutouts,
)
from fairprobe.scenes.deletion import knows_background
from fairprobe.scenes.detectors import FORMS
from fairprobe.scenes.detectors.base import (
    Detection,
    Detector,
    count_labels,
    renamed,
    renamed_counts,
)
from fairprobe.scenes.detectors.onnx import OnnxDetector
from fairprobe.scenes.detectors.self_test import (
    LayoutAgreement,
    check_answers,
    doubt,
    sample_of,
    settle,
)
from fairprobe.scenes.inpainting import inpainter
from fairprobe.scenes.mutants import (
    Craft,
    MadePicture,
    SkippedTask,
    Studio,
    make_mutants,
    read_mutant,
)
from fairprobe.scenes.oracles import Test, reference_counts
from fairprobe.scenes.perspective import Views
from fairprobe.scenes.plan import SceneFacts, Settings, Task, Usual, find_usual, plan_tasks
from fairprobe.scenes.queries import Answer, Failure, RequestCap, query
from fairprobe.scenes.scene import Picture, Scenes
from fairprobe.storage import Scratch

Seen: TypeAlias = dict[str, tuple[Detection, ...]]  # by scene or by picture


@dataclass
class Evidence:
    """Scenes, plans, pictures and answers so far."""

    scenes: Scenes
    detectors: tuple[Detector, ...]
    settings: Settings
    folder: Path
    facts: dict[str, SceneFacts] = field(default_factory=dict)
    originals: dict[str, Seen] = field(default_factory=dict)
    usual: Usual | None = None
    plans: dict[str, list[Task]] = field(default_factory=dict)
    cutouts: Cutouts = field(default_factory=dict)
    made: dict[Task, MadePicture] = field(default_factory=dict)
    skipped: dict[Task, str] = field(default_factory=dict)
    answers: dict[str, Seen] = field(default_factory=dict)
    """For each recognizer, by the picture's path below the folder."""
    tests: list[Test] = field(default_factory=list)
    agreements: dict[str, LayoutAgreement] = field(default_factory=dict)
    """Of recognizers that return boxes, with annotated pictures."""
    realism: dict[str, float] = field(default_factory=dict)
    """How real mutants look, 0 to 1, by their path below the folder."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)
    cap: RequestCap = field(default_factory=RequestCap)
    """On all requests to remote recognizers together."""
    temporary: Scratch | None = None  # holds the folder if it is a temporary one

    def counts(self, detector: str) -> dict[str, Counter[str]]:
        """Count the objects that a recognizer finds in the originals."""
        return {name: count_labels(found) for name, found in self.originals[detector].items()}

    def named(self, detector: str) -> set[str]:
        """Return the classes that a recognizer names in any picture."""
        seen = (self.originals.get(detector, {}), self.answers.get(detector, {}))
        return {detection.label for part in seen for found in part.values() for detection in found}

    def annotated(self) -> dict[str, Counter[str]]:
        """Return the annotated counts under the names that classes count as, like those of
        recognizers.
        """
        counted_as = self.scenes.counted_as
        return {
            name: renamed_counts(facts.counts, counted_as) for name, facts in self.facts.items()
        }

    def annotations(self) -> dict[str, Counter[str]]:
        """Return the annotated counts without classes that no recognizer names in any picture."""
        every = {*self.originals, *self.answers}
        named = {label for detector in every for label in self.named(detector)}
        return {
            name: Counter({label: n for label, n in counts.items() if label in named})
            for name, counts in self.annotated().items()
        }

    def truth(self) -> dict[str, Counter[str]]:
        """Return the content of each original: the annotation and what all recognizers found."""
        counts = [self.counts(detector) for detector in self.originals]
        return {
            name: reference_counts(annotation, [seen[name] for seen in counts if name in seen])
            for name, annotation in self.annotations().items()
        }

    def pictures(self) -> dict[str, MadePicture]:
        """Return the mutated pictures by their path below the folder."""
        return {str(made.path.relative_to(self.folder)): made for made in self.made.values()}


SETTLING = "Checking detectors on annotated pictures"
READING = "Reading scenes"
ORIGINALS = "Querying originals"
MAKING = "Making mutants"
MUTANTS = "Querying mutants"


def collect(
    scenes: Scenes,
    detectors: Sequence[Detector],
    settings: Settings,
    *,
    folder: Path,
    cutouts: Path | None = None,
    stages: Stages,
) -> Evidence:
    """Query, mutate and query again. After the originals were answered, an interrupt keeps all."""
    inpainter(settings.inpainting)  # reports a mistake before the work begins
    if not detectors:
        raise SettingError(f"There is no recognizer to test. Name one or more: {', '.join(FORMS)}.")
    evidence = Evidence(
        scenes,
        tuple(detectors),
        settings,
        folder,
        messages=list(scenes.messages),
        cap=RequestCap(settings.most_requests),
    )
    _settle(evidence, stages)
    if cutouts is not None:
        use_given_cutouts(evidence, cutouts)
    read_scenes(evidence, stages)
    _check_classes(evidence)
    _query_originals(evidence, stages)
    with stages.keep_partial(lambda: False):
        _make(evidence, stages, cuts_out=cutouts is None)
        _query_mutants(evidence, stages)
    if stages.stopped is not None:
        evidence.messages += [
            f"{detector.name} will be queried for all pictures again: answers of a function are"
            " only stored if it has an 'identity'."
            for detector in evidence.detectors
            if detector.identity is None
        ]
    evidence.tests = list(_tests(evidence))
    return evidence


def _settle(evidence: Evidence, stages: Stages) -> None:
    """Compare every possible layout of a file with the annotation, which ends the audit if none
    fits; and tell recognizers apart by name and identity.
    """
    detectors, numbers = evidence.detectors, Counter[str]()
    by_identity: dict[str, str] = {}
    with stages.stage(SETTLING) as step:
        for done, detector in enumerate(detectors, start=1):
            agreement = settle(detector, evidence.scenes)
            numbers[detector.name] += 1
            if numbers[detector.name] > 1:
                detector.name = f"{detector.name} #{numbers[detector.name]}"
            if detector.identity is not None:
                first = by_identity.setdefault(detector.identity, detector.name)
                if first != detector.name:
                    raise SettingError(
                        f"{first} and {detector.name} have the same identity, so one would get the"
                        " other's answers. Name each recognizer once; functions with an attribute"
                        " 'identity' must have different ones."
                    )
            _report_agreement(evidence, detector, agreement)
            if detector.is_remote and detector.identity is None:
                evidence.messages.append(
                    f"{detector.name} queries a service, and every run pays for its answers again:"
                    " they are only stored if it has an attribute 'identity', a text that changes"
                    " with them."
                )
            step(done, len(detectors), f"{done:,} of {len(detectors):,}")
    if evidence.scenes.counted_as:
        merged = sorted(f"{name} as {wider}" for name, wider in evidence.scenes.counted_as.items())
        evidence.messages.append(f"Classes are counted so: {', '.join(merged)}.")


def _report_agreement(
    evidence: Evidence, detector: Detector, agreement: LayoutAgreement | None
) -> None:
    if agreement is not None:
        evidence.agreements[detector.name] = agreement
        if message := doubt(detector, agreement):
            evidence.messages.append(message)
        if isinstance(detector, OnnxDetector) and detector.assumes_names:
            evidence.messages.append(
                f"{detector.name} does not name its classes, so they are assumed to be COCO's. If"
                " they are others, list them with --detector-classes."
            )


def use_given_cutouts(evidence: Evidence, folder: Path) -> None:
    """Return the user's cut-outs: of all classes that were named, otherwise of those that are
    there.
    """
    if not folder.is_dir():
        raise SettingError(
            f"There is no folder {folder}. Expected one with a folder of PNGs for each class."
        )
    settings = evidence.settings
    if "insert" not in settings.mutations:
        evidence.messages.append(
            f"The cut-outs of {folder} are not used: 'insert' is not among the mutations."
        )
        return
    labels = settings.labels("insert")
    evidence.cutouts = cutouts_in(folder, labels, each=settings.classes is not None)
    if settings.classes is None and (unused := unused_cutouts(folder, labels)):
        evidence.messages.append(f"{unused} To insert them, name them among the classes.")


def read_scenes(evidence: Evidence, stages: Stages) -> None:
    """Keep the facts of every scene that can be read."""
    names, bare = evidence.scenes.names, 0
    with stages.stage(READING) as step:
        for at, name in enumerate(names, start=1):
            try:
                scene = evidence.scenes.read(name)
                evidence.facts[name] = SceneFacts.of(scene)
                bare += not knows_background(scene)
            except FairprobeError as error:
                evidence.messages.append(f"{name} is left out. {error}")
            step(at, len(names), f"{at:,} of {len(names):,}")
    if not evidence.facts:
        raise DataError(f"No scene could be read. {' '.join(evidence.messages[:3])}".rstrip())
    if bare and {"delete", "rotate"} & set(evidence.settings.mutations):
        evidence.messages.append(
            f"The background of {bare:,} of {len(evidence.facts):,} scenes is not annotated. What"
            " is copied into a hole there may show objects that are not annotated either; a"
            " recognizer that finds them is counted as wrong."
        )


def _check_classes(evidence: Evidence) -> None:
    """Report classes that no scene has before any query, since answers may cost money."""
    settings = evidence.settings
    there = sorted({label for facts in evidence.facts.values() for label in facts.counts})
    needing = [operator for operator in settings.mutations if operator != "insert"]
    needed = {label for operator in needing for label in settings.labels(operator)}
    missing = sorted(needed - set(there))
    if not missing or (settings.classes is None and "insert" in settings.mutations):
        return
    message = (
        f"No scene has an object of these classes: {', '.join(missing)}. There are:"
        f" {', '.join(there) or 'none'}."
    )
    if needing == list(settings.mutations) and not needed & set(there):
        raise SettingError(message)
    evidence.messages.append(message)


def _query_originals(evidence: Evidence, stages: Stages) -> None:
    """Query every recognizer for the originals, and warn about those that returned nothing. The
    first pictures show whether functions and services agree with the annotation.
    """
    seen: dict[str, Seen] = {detector.name: {} for detector in evidence.detectors}
    first = [detector for detector in evidence.detectors if not isinstance(detector, OnnxDetector)]
    sample = sample_of(evidence.scenes) if first else []
    sampled = {scene.name for scene in sample} & {*evidence.facts}
    _query_scenes(evidence, seen, {detector.name: sampled for detector in first}, SETTLING, stages)
    for detector in first:
        answers = seen[detector.name]
        answered = [scene for scene in sample if scene.name in answers]
        agreement = check_answers(
            detector,
            [answers[scene.name] for scene in answered],
            answered,
            evidence.scenes.counted_as,
        )
        _report_agreement(evidence, detector, agreement)
    left = {
        detector.name: {*evidence.facts} - (sampled if detector in first else set())
        for detector in evidence.detectors
    }
    _query_scenes(evidence, seen, left, ORIGINALS, stages)
    silent = []
    for detector in evidence.detectors:
        if answers := seen[detector.name]:
            evidence.originals[detector.name] = {
                name: answers[name] for name in evidence.facts if name in answers
            }
        else:
            reason = next(
                reason
                for (name, reason), _ in evidence.failures.most_common()
                if name == detector.name
            )
            silent.append(f"{detector.name} answered for no picture. {reason}")
    evidence.detectors = tuple(
        detector for detector in evidence.detectors if detector.name in evidence.originals
    )
    if not evidence.detectors:
        raise ModelError(" ".join(silent))
    evidence.messages += silent


def _query_scenes(
    evidence: Evidence,
    seen: dict[str, Seen],
    wanted: Mapping[str, Set[str]],
    stage: str,
    stages: Stages,
) -> None:
    """Add the answers of each recognizer for the originals that it is `wanted` for."""
    jobs = []
    for detector in evidence.detectors:
        if names := [name for name in evidence.facts if name in wanted.get(detector.name, ())]:
            pictures = ((name, evidence.scenes.read(name).image) for name in names)
            jobs.append(_Job(detector, pictures, len(names)))
    for name, scene, detections in _query(evidence, jobs, stage, stages):
        seen[name][scene] = detections


@dataclass(frozen=True)
class _Job:
    """Pictures for which a recognizer is queried."""

    detector: Detector
    pictures: Iterable[tuple[str, Picture]]
    total: int


def _query(
    evidence: Evidence, jobs: Sequence[_Job], stage: str, stages: Stages
) -> Iterator[tuple[str, str, tuple[Detection, ...]]]:
    """Yield recognizer, picture and answer; failures are counted. Local recognizers are queried one
    after another, remote ones by turns, so that requests to all of them are under way together.
    """
    remote = [job for job in jobs if job.detector.is_remote]
    local = [[job] for job in jobs if not job.detector.is_remote]
    for group in (*local, *([remote] if remote else [])):
        total = sum(job.total for job in group)
        done = failed = 0
        with stages.stage(f"{stage}: {', '.join(job.detector.name for job in group)}") as step:
            for detector, key, answer in _by_turns(
                {job.detector.name: _answers(evidence, job) for job in group}
            ):
                done += 1
                if isinstance(answer, Failure):
                    failed += 1
                    evidence.failures[detector, answer.reason] += 1
                else:  # before the step, which may raise an interrupt
                    yield detector, key, renamed(answer, evidence.scenes.counted_as)
                more = f", {failed:,} failed" if failed else ""
                step(done, total, f"{done:,} of {total:,}{more}")


def _answers(evidence: Evidence, job: _Job) -> Iterator[tuple[str, Answer]]:
    settings, is_remote = evidence.settings, job.detector.is_remote
    return query(
        job.detector,
        job.pictures,
        cache=evidence.folder / "answers",
        timeout=settings.timeout,
        rate=settings.rate if is_remote else None,
        at_once=settings.at_once if is_remote else 1,
        cap=evidence.cap if is_remote else None,
    )


def _by_turns(
    streams: Mapping[str, Iterator[tuple[str, Answer]]],
) -> Iterator[tuple[str, str, Answer]]:
    """Return one of each until all have ended."""
    left = dict(streams)
    while left:
        for name in list(left):
            answer = next(left[name], None)
            if answer is None:
                del left[name]
            else:
                yield name, *answer


def _make(evidence: Evidence, stages: Stages, *, cuts_out: bool) -> None:
    seen = {detector.name: evidence.counts(detector.name) for detector in evidence.detectors}
    tasks = plan_pictures(evidence, seen, cuts_out=cuts_out)
    with stages.stage(MAKING) as step:
        outcomes = make_mutants(
            studio_of(evidence),
            tasks,
            workers=evidence.settings.workers,
            progress=lambda done, total: step(done, total, f"{done:,} of {total:,}"),
        )
        for outcome in outcomes:
            if isinstance(outcome, SkippedTask):
                evidence.skipped[outcome.task] = outcome.reason
            else:
                evidence.made[outcome.task] = outcome


def plan_pictures(
    evidence: Evidence, seen: Mapping[str, Mapping[str, Counter[str]]], *, cuts_out: bool
) -> list[Task]:
    """Return the pictures for all recognizers, by what they have `seen` in the originals. Classes
    without cut-outs are not inserted; `cuts_out`: they come from the scenes themselves.
    """
    settings = evidence.settings
    evidence.usual = find_usual(evidence.facts, seen, settings)
    evidence.plans = plan_tasks(evidence.facts, seen, settings, evidence.usual)
    if "insert" in settings.mutations:
        labels = settings.labels("insert")
        if cuts_out:
            kept = PAPER if settings.variant == "paper" else CutoutSettings()
            evidence.cutouts = cutouts_of(evidence.scenes, labels, kept)
        else:
            evidence.cutouts = SceneCutouts(evidence.cutouts, Views.of(evidence.scenes))
        missing = [label for label in labels if not evidence.cutouts.get(label)]
        if missing:
            why = "there is no whole object to cut out" if cuts_out else "there are no cut-outs"
            evidence.messages.append(
                f"These classes cannot be inserted, since {why}: {', '.join(missing)}."
            )
    every = (task for plan in evidence.plans.values() for task in plan)
    return [
        task
        for task in dict.fromkeys(every)
        if task.operator != "insert" or evidence.cutouts.get(task.label)
    ]


def studio_of(evidence: Evidence) -> Studio:
    """Collect everything that makes the pictures."""
    settings = evidence.settings
    digests = {name: facts.digest for name, facts in evidence.facts.items()}
    folder, craft = evidence.folder / "pictures", Craft.of(settings)
    inputs = (evidence.scenes, evidence.cutouts, settings.inpainting)
    return Studio(*inputs, folder, settings.seed, _fingerprint(evidence), digests, craft)


def _fingerprint(evidence: Evidence) -> str:
    """Return a hash of what a picture depends on besides its scene and task: the version, the seed,
    how pictures are mutated and in-painted, and the cut-outs.
    """
    from fairprobe import __version__

    settings = evidence.settings
    about = [__version__, settings.inpainting, settings.seed, repr(Craft.of(settings))]
    digest = hashlib.sha256(json.dumps(about).encode())
    method, _, path = settings.inpainting.partition(":")
    if method == "lama":
        digest.update(Path(path).read_bytes())
    if isinstance(evidence.cutouts, SceneCutouts):
        digest.update(repr(sorted(evidence.cutouts.views.sights.items())).encode())
    for label, several in sorted(evidence.cutouts.items()):
        for cutout in several:
            where = (cutout.light, cutout.side, cutout.place, cutout.ground)
            facts = repr((label, cutout.image.shape, *where)).encode()
            digest.update(facts + cutout.image.tobytes() + cutout.cover.tobytes())
    return digest.hexdigest()[:16]


def _query_mutants(evidence: Evidence, stages: Stages) -> None:
    jobs = []
    for detector in evidence.detectors:
        own = [
            evidence.made[made]
            for task in evidence.plans[detector.name]
            for made in (task, *([replace(task, kind="control")] if task.has_control else []))
            if made in evidence.made
        ]
        evidence.answers[detector.name] = {}
        jobs.append(_Job(detector, _mutants(evidence, own), len(own)))
    for name, path, found in _query(evidence, jobs, MUTANTS, stages):
        evidence.answers[name][path] = found


def _mutants(evidence: Evidence, made: Sequence[MadePicture]) -> Iterator[tuple[str, Picture]]:
    return (
        (str(picture.path.relative_to(evidence.folder)), read_mutant(picture.path))
        for picture in made
    )


def _tests(evidence: Evidence) -> Iterator[Test]:
    """Return one for each mutated picture and recognizer that answered."""
    annotated = {label for counts in evidence.annotated().values() for label in counts}
    known = {label for counts in evidence.annotations().values() for label in counts}
    if unnamed := sorted(annotated - known):
        evidence.messages.append(
            "No recognizer names these classes of the annotation, so they are not judged:"
            f" {', '.join(unnamed)}."
        )
    counts = {detector: evidence.counts(detector) for detector in evidence.originals}
    truth, by_path = evidence.truth(), evidence.pictures()
    annotations, counted_as = evidence.annotations(), evidence.scenes.counted_as
    held_by = evidence.scenes.held_by.items()
    for detector, answers in evidence.answers.items():
        for path, found in answers.items():
            task = by_path[path].task
            yield Test(
                scene=task.scene,
                detector=detector,
                operator=task.operator,
                label=counted_as.get(task.label, task.label),
                kind=task.kind,
                repeat=task.repeat,
                image=path,
                original=counts[detector][task.scene],
                found=count_labels(found),
                truth=truth[task.scene],
                objects=by_path[path].objects,
                annotation=annotations[task.scene],
                held=frozenset(
                    counted_as.get(inner, inner) for inner, outer in held_by if outer == task.label
                ),
                as_printed=evidence.settings.variant == "paper",
            )
