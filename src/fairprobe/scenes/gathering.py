"""Gathering the evidence against recognisers: read scenes, ask, plan, paint, ask again.

An interrupt keeps what was painted and answered: both lie in the folder, and what can be judged of
it is judged.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from fairprobe.errors import DataError, FairprobeError, ModelError, SettingError
from fairprobe.scenes.asking import Failure, ask, check_pace
from fairprobe.scenes.cutouts import Cutouts, cutouts_in, cutouts_of, unused_cutouts
from fairprobe.scenes.inpainting import inpainter
from fairprobe.scenes.making import Left, Made, Studio, make, read_picture
from fairprobe.scenes.oracles import Test, reference_counts
from fairprobe.scenes.plan import Asked, Known, Task, Usual, planned, usual
from fairprobe.scenes.recognition import Detection, Detector, counted
from fairprobe.scenes.scene import Picture, Scenes

OnStage: TypeAlias = Callable[[str, int, int, str], None]
Seen: TypeAlias = dict[str, tuple[Detection, ...]]  # by scene or by picture

READING, ASKING, PAINTING, AGAIN = (
    "Reading scenes",
    "Asking about originals",
    "Painting mutants",
    "Asking about mutants",
)


@dataclass(frozen=True)
class Settings:
    """How an audit is made, beside what is planned."""

    asked: Asked
    inpainting: str = "exemplars"
    workers: int = 1
    timeout: float | None = 60.0
    rate: float | None = None
    """Requests a second to recognisers elsewhere."""
    fewest: int = 10
    """Objects of a class below which it is not judged."""

    def __post_init__(self) -> None:
        check_pace(self.timeout, self.rate)


@dataclass
class Evidence:
    """Everything that was seen, from which the document is made."""

    scenes: Scenes
    detectors: tuple[Detector, ...]
    settings: Settings
    folder: Path
    known: dict[str, Known] = field(default_factory=dict)
    originals: dict[str, Seen] = field(default_factory=dict)
    usual: Usual | None = None
    plans: dict[str, list[Task]] = field(default_factory=dict)
    cutouts: Cutouts = field(default_factory=dict)
    made: dict[Task, Made] = field(default_factory=dict)
    left: dict[Task, str] = field(default_factory=dict)
    answers: dict[str, Seen] = field(default_factory=dict)
    """Of each recogniser, by the picture's path below the folder."""
    tests: list[Test] = field(default_factory=list)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)
    partial: bool = False
    seconds: float = 0.0

    def counts(self, detector: str) -> dict[str, Counter[str]]:
        """What a recogniser counts in the originals."""
        return {name: counted(found) for name, found in self.originals[detector].items()}

    def named(self) -> set[str]:
        """The classes that any recogniser names in any picture; the others say nothing about
        any.
        """
        every = (*self.originals.values(), *self.answers.values())
        return {one.label for seen in every for found in seen.values() for one in found}

    def pictures(self) -> dict[str, Made]:
        """The mutated pictures by their path below the folder."""
        return {str(made.path.relative_to(self.folder)): made for made in self.made.values()}


def gather(
    scenes: Scenes,
    detectors: Sequence[Detector],
    settings: Settings,
    *,
    folder: Path,
    cutouts: Path | None = None,
    progress: OnStage,
) -> Evidence:
    """Asks, paints and asks again. What is interrupted after the originals were answered is
    kept.
    """
    begun = time.perf_counter()
    inpainter(settings.inpainting)  # a mistake is told before the work begins
    evidence = Evidence(
        scenes, _named_apart(detectors), settings, folder, messages=list(scenes.messages)
    )
    if cutouts is not None:
        _take_given(evidence, cutouts)
    _read(evidence, progress)
    _check_classes(evidence)
    _ask_first(evidence, progress)
    try:
        _paint(evidence, progress, cuts_out=cutouts is None)
        _ask_again(evidence, progress)
    except KeyboardInterrupt:
        evidence.partial = True
        evidence.messages += [
            f"{detector.name} will be asked about all pictures again: answers of a function are"
            " only kept if it has an 'identity'."
            for detector in evidence.detectors
            if detector.identity is None
        ]
    evidence.tests = list(_tests(evidence))
    evidence.seconds = time.perf_counter() - begun
    return evidence


def _take_given(evidence: Evidence, folder: Path) -> None:
    """The user's own cut-outs: all classes that were asked for by name, else those that are
    there.
    """
    if not folder.is_dir():
        raise SettingError(
            f"There is no folder {folder}. Expected one with a folder of PNGs for each class."
        )
    asked = evidence.settings.asked
    if "insert" not in asked.mutations:
        evidence.messages.append(
            f"The cut-outs of {folder} are not used: 'insert' is not among the mutations."
        )
        return
    labels = asked.labels("insert")
    evidence.cutouts = cutouts_in(folder, labels, each=asked.classes is not None)
    if asked.classes is None and (unused := unused_cutouts(folder, labels)):
        evidence.messages.append(f"{unused} To insert them, name them among the classes.")


def _read(evidence: Evidence, progress: OnStage) -> None:
    names = evidence.scenes.names
    for at, name in enumerate(names, start=1):
        try:
            evidence.known[name] = Known.of(evidence.scenes.read(name))
        except FairprobeError as error:
            evidence.messages.append(f"{name} is left out. {error}")
        progress(READING, at, len(names), f"{at:,} of {len(names):,}")
    if not evidence.known:
        raise DataError(f"No scene could be read. {' '.join(evidence.messages[:3])}".rstrip())


def _check_classes(evidence: Evidence) -> None:
    """Classes that no scene has cannot be deleted or rotated; before anything is asked, since
    answers may cost money.
    """
    asked = evidence.settings.asked
    there = sorted({label for known in evidence.known.values() for label in known.counts})
    needing = [operator for operator in asked.mutations if operator != "insert"]
    missing = sorted(
        {label for operator in needing for label in asked.labels(operator)} - set(there)
    )
    if not missing or (asked.classes is None and "insert" in asked.mutations):
        return
    told = (
        f"No scene has an object of these classes: {', '.join(missing)}. There are:"
        f" {', '.join(there) or 'none'}."
    )
    if needing == list(asked.mutations) and not {
        label for operator in needing for label in asked.labels(operator)
    } & set(there):
        raise SettingError(told)
    evidence.messages.append(told)


def _ask_first(evidence: Evidence, progress: OnStage) -> None:
    """What each recogniser sees in the originals. One that sees nothing of any is told of, and the
    others are tested.
    """
    silent = []
    for detector in evidence.detectors:
        found = dict(
            _asked(evidence, detector, _originals(evidence), len(evidence.known), ASKING, progress)
        )
        if found:
            evidence.originals[detector.name] = found
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


def _originals(evidence: Evidence) -> Iterator[tuple[str, Picture]]:
    return ((name, evidence.scenes.read(name).image) for name in evidence.known)


def _asked(
    evidence: Evidence,
    detector: Detector,
    pictures: Iterable[tuple[str, Picture]],
    total: int,
    stage: str,
    progress: OnStage,
) -> Iterator[tuple[str, tuple[Detection, ...]]]:
    """The answers; failures are counted and the rest goes on."""
    settings = evidence.settings
    told = f"{stage}: {detector.name}"
    answers = ask(
        detector,
        pictures,
        cache=evidence.folder / "answers",
        timeout=settings.timeout,
        rate=settings.rate if detector.is_remote else None,
        progress=lambda done, failed: progress(
            told, done, total, f"{done:,} of {total:,}" + (f", {failed:,} failed" if failed else "")
        ),
    )
    for key, answer in answers:
        if isinstance(answer, Failure):
            evidence.failures[detector.name, answer.reason] += 1
        else:
            yield key, answer


def _paint(evidence: Evidence, progress: OnStage, *, cuts_out: bool) -> None:
    asked = evidence.settings.asked
    seen = {detector.name: evidence.counts(detector.name) for detector in evidence.detectors}
    evidence.usual = usual(evidence.known, seen, asked)
    evidence.plans = planned(evidence.known, seen, asked, evidence.usual)
    if "insert" in asked.mutations:
        labels = asked.labels("insert")
        if cuts_out:
            evidence.cutouts = cutouts_of(evidence.scenes, labels)
        missing = [label for label in labels if not evidence.cutouts.get(label)]
        if missing:
            reason = (
                "there is no whole object to cut out"
                if cuts_out
                else "there are no cut-outs of them"
            )
            evidence.messages.append(
                f"Nothing of these classes can be inserted, since {reason}: {', '.join(missing)}."
            )
    tasks = dict.fromkeys(
        task
        for plan in evidence.plans.values()
        for task in plan
        if task.operator != "insert" or evidence.cutouts.get(task.label)
    )
    studio = Studio(
        evidence.scenes,
        evidence.cutouts,
        evidence.settings.inpainting,
        evidence.folder / "pictures",
        asked.seed,
        _fingerprint(evidence),
        {name: known.digest for name, known in evidence.known.items()},
    )

    def told(done: int, total: int) -> None:
        progress(PAINTING, done, total, f"{done:,} of {total:,}")

    for one in make(studio, list(tasks), workers=evidence.settings.workers, progress=told):
        if isinstance(one, Left):
            evidence.left[one.task] = one.reason
        else:
            evidence.made[one.task] = one


def _fingerprint(evidence: Evidence) -> str:
    """Of what a picture depends on beside its scene and task: the version, the seed, how holes are
    filled, and the cut-outs.
    """
    from fairprobe import __version__

    settings = evidence.settings
    digest = hashlib.sha256(
        json.dumps([__version__, settings.inpainting, settings.asked.seed]).encode()
    )
    method, _, path = settings.inpainting.partition(":")
    if method == "lama":
        digest.update(Path(path).read_bytes())
    for label, several in sorted(evidence.cutouts.items()):
        for one in several:
            digest.update(
                repr((label, one.image.shape, one.light, one.side)).encode()
                + one.image.tobytes()
                + one.cover.tobytes()
            )
    return digest.hexdigest()[:16]


def _ask_again(evidence: Evidence, progress: OnStage) -> None:
    for detector in evidence.detectors:
        own = [
            evidence.made[one]
            for task in evidence.plans[detector.name]
            for one in _with_control(task)
            if one in evidence.made
        ]
        kept: Seen = {}
        evidence.answers[detector.name] = kept
        pictures = (
            (str(made.path.relative_to(evidence.folder)), read_picture(made.path)) for made in own
        )
        for path, found in _asked(evidence, detector, pictures, len(own), AGAIN, progress):
            kept[path] = found


def _with_control(task: Task) -> tuple[Task, ...]:
    return (task, replace(task, kind="control"))


def _tests(evidence: Evidence) -> Iterator[Test]:
    """One for each mutated picture and recogniser that answered. Classes that no recogniser ever
    names are left out.
    """
    named = evidence.named()
    unnamed = sorted({label for known in evidence.known.values() for label in known.counts} - named)
    if unnamed:
        evidence.messages.append(
            "No recogniser names these classes of the annotation, so they are not judged:"
            f" {', '.join(unnamed)}."
        )
    counts = {detector: evidence.counts(detector) for detector in evidence.originals}
    truth = {
        name: reference_counts(
            Counter({label: count for label, count in known.counts.items() if label in named}),
            [seen[name] for seen in counts.values() if name in seen],
        )
        for name, known in evidence.known.items()
    }
    by_path = evidence.pictures()
    for detector, answers in evidence.answers.items():
        for path, found in answers.items():
            made = by_path[path]
            task = made.task
            yield Test(
                scene=task.scene,
                detector=detector,
                operator=task.operator,
                label=task.label,
                kind=task.kind,
                repeat=task.repeat,
                image=path,
                original=counts[detector][task.scene],
                found=counted(found),
                truth=truth[task.scene],
                objects=made.objects,
            )


def _named_apart(detectors: Sequence[Detector]) -> tuple[Detector, ...]:
    if not detectors:
        raise SettingError(
            "There is no recogniser to test. Name one or more: a file.onnx, module:function,"
            " detr:NAME, google, amazon, azure."
        )
    seen: Counter[str] = Counter()
    by_identity: dict[str, str] = {}
    for detector in detectors:
        seen[detector.name] += 1
        if seen[detector.name] > 1:
            detector.name = f"{detector.name} #{seen[detector.name]}"
        if detector.identity is None:
            continue
        if detector.identity in by_identity:
            raise SettingError(
                f"{by_identity[detector.identity]} and {detector.name} cannot be told apart, so one"
                " would get the other's answers. Name each recogniser once; functions with an"
                " attribute 'identity' must have different ones."
            )
        by_identity[detector.identity] = detector.name
    return tuple(detectors)
