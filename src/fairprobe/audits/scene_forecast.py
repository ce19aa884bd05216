"""What an audit of scenes will take, before anything is paid for.

The pictures are planned with the annotated counts in place of what recognizers will see. A short
trial paints a few of them and queries local recognizers: it shows how many mutations are possible
and how long both take. No remote recognizer is queried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

import numpy as np

from fairprobe.audits.base import Stages
from fairprobe.audits.scene_evidence import (
    SETTLING,
    plan_pictures,
    read_scenes,
    studio_of,
    use_given_cutouts,
)
from fairprobe.present.formats import seconds
from fairprobe.scenes.detectors.base import Detector, renamed
from fairprobe.scenes.detectors.onnx import OnnxDetector
from fairprobe.scenes.detectors.self_test import check_answers, sample_of, settle
from fairprobe.scenes.evidence import Evidence
from fairprobe.scenes.mutants import make_mutants, mutate_without_painting
from fairprobe.scenes.plan import Settings, Task
from fairprobe.scenes.queries import check_answer
from fairprobe.scenes.scene import Mutant, Scenes
from fairprobe.storage import scratch

TRYING = "Painting a few pictures"
FEWEST = 2  # mutations of each kind that are painted, and answers that are timed
MOST = 12  # mutations of each kind that are painted
ENOUGH = 5.0  # seconds, after which no more than the fewest are tried
RESPONSE = 1.0  # seconds that a service is assumed to take for an answer


@dataclass(frozen=True)
class Trial:
    """Mutations of one kind that were tried: the share that was possible, and how long one of these
    takes.
    """

    possible: float
    seconds: float

    @property
    def expected_seconds(self) -> float:
        """For a mutation of which it is not known whether it is possible."""
        return self.possible * self.seconds


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
    most_requests: int | None = None

    def cost(self, price: float) -> tuple[float, float]:
        """What remote recognizers are expected to cost, and at most, without retries."""
        counts = (
            sum(kind[name] for name in self.remote) for kind in (self.expected, self.requests)
        )
        about, most = (
            count if self.most_requests is None else min(count, self.most_requests)
            for count in counts
        )
        return price * about, price * most

    def sentences(self, price: float | None) -> list[str]:
        """What a run takes, for people."""
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
        local = {one.name: _time(one, evidence) for one in detectors if not one.is_remote}
    seen = {one.name: evidence.annotated() for one in detectors}
    tasks = plan_pictures(evidence, seen, cuts_out=cutouts is None)
    tried = _try_tasks(evidence, tasks, stages)
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
        remote=tuple(one.name for one in detectors if one.is_remote),
        seconds={name: number * local.get(name, pace) for name, number in expected.items()},
        painting=sum(tried[task.operator].expected_seconds for task in tasks) / settings.workers,
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
                if tried >= FEWEST and monotonic() - start > ENOUGH:
                    break
            start, painted = monotonic(), 0
            for task in possible[:MOST]:
                list(make_mutants(studio, [task]))
                painted += 1
                if painted >= FEWEST and monotonic() - start > ENOUGH:
                    break
            each = (monotonic() - start) / painted if painted else 0.0
            found[operator] = Trial(len(possible) / tried, each)
    return found


def _time(detector: Detector, evidence: Evidence) -> float:
    """Seconds that a local recognizer takes for an answer; one that the audit would refuse is. The
    first answer, for which something may be loaded, does not count.
    """
    scenes = evidence.scenes
    settle(detector, scenes)
    sample = sample_of(scenes) or [scenes.read(name) for name in list(evidence.facts)[:FEWEST]]
    images = [one.image for one in sample]
    detector.detect(images[0].copy())
    start, answers = monotonic(), []
    for image in images:
        answers.append(check_answer(detector.detect(image.copy())))
        enough = monotonic() - start > ENOUGH or isinstance(detector, OnnxDetector)
        if len(answers) >= FEWEST and enough:
            break
    if len(answers) == len(sample) and not isinstance(detector, OnnxDetector):
        counted = [renamed(one, scenes.counted_as) for one in answers]
        check_answers(detector, counted, sample, scenes.counted_as)
    return (monotonic() - start) / len(answers)
