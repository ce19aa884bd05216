"""What an audit of scenes will take, before anything is paid for.

The pictures are planned with the annotated counts in place of what recognizers will see. A short
trial paints a few of them, measures their quality, describes them and real patches for the realism
check, and queries local recognizers: it shows how many mutations are possible and how long all of
this takes. No remote recognizer is queried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, process_time

import numpy as np

from fairprobe.errors import FairprobeError
from fairprobe.report.formats import seconds
from fairprobe.runs.stages import Stages
from fairprobe.scenes.collect import (
    SETTLING,
    Evidence,
    plan_pictures,
    read_scenes,
    studio_of,
    use_given_cutouts,
)
from fairprobe.scenes.detectors.base import Detector, renamed
from fairprobe.scenes.detectors.onnx import OnnxDetector
from fairprobe.scenes.detectors.self_test import check_answers, sample_of, settle
from fairprobe.scenes.mutants import (
    MadePicture,
    make_mutants,
    mutate_without_painting,
    read_mutant,
)
from fairprobe.scenes.plan import Settings, Task
from fairprobe.scenes.quality import SAMPLE, MutantPair, clip_realism, image_quality
from fairprobe.scenes.queries import check_answer
from fairprobe.scenes.realism import BLOCKS, Look, Patches, scores
from fairprobe.scenes.realism_check import MAX_SCENES, real_patches
from fairprobe.scenes.scene import Mutant, Scenes
from fairprobe.storage import scratch

TRYING = "Painting a few pictures"
MIN_TRIED = 2  # mutations of each kind that are painted, and answers that are timed
MAX_PAINTED = 12  # mutations of each kind that are painted
MAX_SECONDS = 5.0  # seconds, after which no more than the fewest are tried
PATCHES_SCORED = 200  # patches of each side that classifiers score on trial
CHECKING = "Measuring and checking a few pictures"
RESPONSE = 1.0  # seconds that a service is assumed to take for an answer


@dataclass(frozen=True)
class Trial:
    """Mutations of one kind that were tried: the share that was possible, the expected seconds of a
    planned one, possible or not, and pictures that were made. Times are those of the processor:
    they are the same if others use it, too.
    """

    possible: float
    seconds: float
    made: tuple[MadePicture, ...] = ()


@dataclass(frozen=True)
class Forecast:
    """What an audit takes. Answers that are kept from before make requests fewer, retries more."""

    scenes: int
    mutants: dict[str, int]
    """The most pictures to paint, by operation, with their controls."""
    requests: dict[str, int]
    """By recognizer: the originals and the most pictures made for it."""
    expected: dict[str, int]
    """The same, with as many impossible mutations as in the trial."""
    remote: tuple[str, ...]
    seconds: dict[str, float]
    """How long the expected requests to each recognizer will take; services are assumed to answer
    within `RESPONSE`.
    """
    painting: float
    """How long it takes to paint the pictures."""
    checking: float = 0.0
    """How long it takes to measure their quality and to check their realism."""
    most_requests: int | None = None

    def cost(self, price: float) -> tuple[float, float]:
        """Return the expected and the highest cost of remote recognizers, without retries."""
        counts = (
            sum(kind[name] for name in self.remote) for kind in (self.expected, self.requests)
        )
        about, most = (
            count if self.most_requests is None else min(count, self.most_requests)
            for count in counts
        )
        return price * about, price * most

    def sentences(self, price: float | None) -> list[str]:
        """Describe what a run takes."""
        painted = ", ".join(f"{number:,} {name}" for name, number in sorted(self.mutants.items()))
        found = [
            f"{self.scenes:,} scenes; at most {painted or 'no'} pictures are painted, which takes"
            f" about {seconds(self.painting)}."
        ]
        for name, most in self.requests.items():
            service = " if it answers within a second" if name in self.remote else ""
            found.append(
                f"{name}: at most {most:,} requests, about {self.expected[name]:,} if as many"
                " mutations are impossible as in a trial; these take about"
                f" {seconds(self.seconds[name])}{service}."
            )
        found.append(
            f"Measuring image quality and checking realism take about {seconds(self.checking)}."
        )
        if self.remote and price is None:
            found.append("Say what a request costs with --price to see what they may cost.")
        elif price is not None:
            about, limit = self.cost(price)
            found.append(
                f"At {price:g} a request they cost about {about:,.2f}, at most {limit:,.2f}."
            )
        return found


def forecast(
    scenes: Scenes,
    detectors: Sequence[Detector],
    settings: Settings,
    stages: Stages,
    *,
    cutouts: Path | None = None,
) -> Forecast:
    """Plan an audit and try a little of it; a ModelError names a recognizer that it refuses."""
    temporary = scratch()
    evidence = Evidence(scenes, tuple(detectors), settings, temporary.path, temporary=temporary)
    if cutouts is not None:
        use_given_cutouts(evidence, cutouts)
    read_scenes(evidence, stages)
    with stages.stage(SETTLING):
        local = {
            detector.name: _time(detector, evidence)
            for detector in detectors
            if not detector.is_remote
        }
    seen = {detector.name: evidence.annotated() for detector in detectors}
    tasks = plan_pictures(evidence, seen, cuts_out=cutouts is None)
    tried = _try_tasks(evidence, tasks, stages)
    with stages.stage(CHECKING):
        checking = _checking(evidence, tasks, tried)
    planned = {*tasks}
    plans = {
        name: [task for task in plan if task in planned] for name, plan in evidence.plans.items()
    }
    count = len(evidence.facts)
    expected = {
        name: count + round(sum(_pictures(task) * tried[task.operator].possible for task in plan))
        for name, plan in plans.items()
    }
    pace = max(RESPONSE / settings.at_once, 1 / settings.rate if settings.rate else 0.0)
    mutants = Counter[str]()
    for task in tasks:
        mutants[task.operator] += _pictures(task)
    return Forecast(
        scenes=count,
        mutants=dict(mutants),
        requests={name: count + sum(map(_pictures, plan)) for name, plan in plans.items()},
        expected=expected,
        remote=tuple(detector.name for detector in detectors if detector.is_remote),
        seconds={name: number * local.get(name, pace) for name, number in expected.items()},
        painting=sum(tried[task.operator].seconds for task in tasks) / settings.workers,
        checking=checking,
        most_requests=settings.most_requests,
    )


def _pictures(task: Task) -> int:
    return 1 + task.has_control


def _try_tasks(evidence: Evidence, tasks: Sequence[Task], stages: Stages) -> dict[str, Trial]:
    """Try mutations of each kind in a random order: many without painting, to see which are
    possible, and some of these with.
    """
    settings, studio = evidence.settings, studio_of(evidence)
    rng = np.random.default_rng(settings.seed)
    found: dict[str, Trial] = {}
    for operator in dict.fromkeys(task.operator for task in tasks):
        own = [task for task in tasks if task.operator == operator]
        with stages.stage(f"{TRYING}: {operator}") as step:
            possible: list[Task] = []
            start, tried = monotonic(), 0
            for at in rng.permutation(len(own)):
                scene = evidence.scenes.read(own[at].scene)
                mutant = mutate_without_painting(scene, own[at], evidence.cutouts, settings)
                possible += [own[at]] if isinstance(mutant, Mutant) else []
                tried += 1
                step(tried, len(own))
                if tried >= MIN_TRIED and monotonic() - start > MAX_SECONDS:
                    break
            start, used, painted = monotonic(), process_time(), 0
            made: list[MadePicture] = []
            # All of one class in a scene together: rotations of an object share a hole.
            for place in dict.fromkeys((task.scene, task.label) for task in possible):
                several = [task for task in own if (task.scene, task.label) == place]
                outcomes = list(make_mutants(studio, several))
                made += [outcome for outcome in outcomes if isinstance(outcome, MadePicture)]
                painted = sum(picture.task.kind != "control" for picture in made)
                is_slow = painted >= MIN_TRIED and monotonic() - start > MAX_SECONDS
                if painted >= MAX_PAINTED or is_slow:
                    break
            share = len(possible) / tried
            expected = share * (process_time() - used) / painted if painted else 0.0
            unusual = tuple(picture for picture in made if picture.task.kind == "ood")
            found[operator] = Trial(share, expected, unusual)
    return found


def _checking(evidence: Evidence, tasks: Sequence[Task], tried: Mapping[str, Trial]) -> float:
    """Estimate the seconds that the measures of quality and the realism check will take. Both look
    at samples of a known size, so that the trial shows the time of one, and the plan how many there
    are.
    """
    made = [picture for trial in tried.values() for picture in trial.made]
    if not made:
        return 0.0
    unusual = Counter[str](task.operator for task in tasks if task.kind == "ood")
    counts = {name: round(trial.possible * unusual[name]) for name, trial in tried.items()}
    names, labels = list(evidence.facts), {task.label for task in tasks}
    start, real = process_time(), list[int]()
    for name in names[:MAX_PAINTED]:
        objects, background = real_patches([evidence.scenes.read(name)], labels)
        real.append(max(len(objects.looks), len(background.looks)))
        if len(real) >= MIN_TRIED and process_time() - start > MAX_SECONDS:
            break
    used = min(MAX_SCENES, len(names)) / len(real)
    describing = (process_time() - start) * used
    looks = [picture.look for picture in made if picture.look is not None]
    patches = sum(count + round(sum(real) * used) for count in counts.values())
    scoring = _scoring(looks, names) * patches if looks and len(names) >= BLOCKS else 0.0
    sampled = sum(min(SAMPLE, count) for count in counts.values())
    return describing + scoring + _measuring(evidence, made, sampled)


def _scoring(looks: Sequence[Look], names: Sequence[str]) -> float:
    """Measure the seconds to score a patch by classifiers, on noise of as many numbers."""
    rng = np.random.default_rng(0)
    width, around = len(looks[0].fit), looks[0].around

    def noise() -> Patches:
        noisy = [
            Look(tuple(row), around) for row in rng.normal(size=(PATCHES_SCORED, width)).tolist()
        ]
        scenes = [names[at] for at in rng.integers(len(names), size=PATCHES_SCORED).tolist()]
        return Patches(scenes, scenes, noisy)

    real, mutants = noise(), noise()
    start = process_time()
    scores(real, mutants)
    return (process_time() - start) / (2 * PATCHES_SCORED)


def _measuring(evidence: Evidence, made: Sequence[MadePicture], count: int) -> float:
    """Estimate the seconds to measure this many pictures: loading, and then each one."""
    scenes = evidence.scenes
    pairs = [
        MutantPair(task.scene, task.operator, scenes.read(task.scene).image, read_mutant(path))
        for task, path in ((picture.task, picture.path) for picture in made[:: -(-len(made) // 4)])
    ]
    start = process_time()
    try:
        clip = evidence.settings.clip
        rated = None if clip is None else clip_realism(clip)
        image_quality(pairs[:1], realism=rated)
        loaded = process_time()
        image_quality(pairs, realism=rated)
    except FairprobeError:  # as in the audit, which reports it
        return process_time() - start
    # Several mutants share an original, which is measured once.
    each = (process_time() - loaded) / (len(pairs) + len({pair.scene for pair in pairs}))
    return loaded - start + each * (count + min(count, len(evidence.facts)))


def _time(detector: Detector, evidence: Evidence) -> float:
    """Measure the seconds per answer of a local recognizer; reject one that the audit would reject.
    The first answer, for which something may be loaded, does not count.
    """
    scenes = evidence.scenes
    settle(detector, scenes)
    sample = sample_of(scenes) or [scenes.read(name) for name in list(evidence.facts)[:MIN_TRIED]]
    images = [scene.image for scene in sample]
    detector.detect(images[0].copy())
    start, answers = monotonic(), []
    for image in images:
        answers.append(check_answer(detector.detect(image.copy())))
        enough = monotonic() - start > MAX_SECONDS or isinstance(detector, OnnxDetector)
        if len(answers) >= MIN_TRIED and enough:
            break
    if len(answers) == len(sample) and not isinstance(detector, OnnxDetector):
        counted = [renamed(answer, scenes.counted_as) for answer in answers]
        check_answers(detector, counted, sample, scenes.counted_as)
    return (monotonic() - start) / len(answers)
