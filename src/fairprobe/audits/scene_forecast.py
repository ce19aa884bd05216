"""What an audit of scenes will take, before anything is painted or paid for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fairprobe.audits.base import Stages
from fairprobe.errors import DataError, FairprobeError
from fairprobe.scenes.detectors.base import Detector
from fairprobe.scenes.detectors.self_test import settle
from fairprobe.scenes.plan import SceneFacts, Settings, find_usual, plan_tasks
from fairprobe.scenes.scene import Scenes

READING = "Reading scenes"
TIMED = 2  # pictures for which a local recognizer is queried to learn how long it takes


@dataclass(frozen=True)
class Forecast:
    """The most pictures and requests of an audit. Mutations that turn out to be impossible, and
    answers that are kept from before, make them fewer; retries make more requests.
    """

    scenes: int
    mutants: dict[str, int]
    """Pictures to paint, by operation, with their controls."""
    requests: dict[str, int]
    """By recognizer: the originals and the pictures made for it."""
    remote: tuple[str, ...]
    seconds: dict[str, float]
    """How long all requests to a local recognizer will take."""

    def cost(self, price: float) -> float:
        """Of the remote recognizers, at this price for each request."""
        return price * sum(self.requests[name] for name in self.remote)


def forecast(
    scenes: Scenes, detectors: Sequence[Detector], settings: Settings, stages: Stages
) -> Forecast:
    """Plan an audit with the annotated counts in place of what recognizers will see."""
    facts: dict[str, SceneFacts] = {}
    with stages.stage(READING) as step:
        for at, name in enumerate(scenes.names, start=1):
            try:
                facts[name] = SceneFacts.of(scenes.read(name))
            except FairprobeError:  # the audit names it
                continue
            step(at, len(scenes), f"{at:,} of {len(scenes):,}")
    if not facts:
        raise DataError("No scene could be read.")
    seen = {one.name: {name: fact.counts for name, fact in facts.items()} for one in detectors}
    plans = plan_tasks(facts, seen, settings, find_usual(facts, seen, settings))
    tasks = {task for plan in plans.values() for task in plan}
    mutants = Counter[str]()
    for task in tasks:
        mutants[task.operator] += 1 + task.has_control
    requests = {
        name: len(facts) + sum(1 + task.has_control for task in plan)
        for name, plan in plans.items()
    }
    for detector in detectors:
        settle(detector, scenes)
    local = [one for one in detectors if not one.is_remote]
    return Forecast(
        len(facts),
        dict(mutants),
        requests,
        tuple(one.name for one in detectors if one.is_remote),
        {one.name: requests[one.name] * _seconds(one, scenes, list(facts)) for one in local},
    )


def _seconds(detector: Detector, scenes: Scenes, names: list[str]) -> float:
    """How long one request takes; the first, which may load something, does not count."""
    images = [scenes.read(names[at % len(names)]).image for at in range(TIMED + 1)]
    detector.detect(images[0])
    start = time.monotonic()
    for image in images[1:]:
        detector.detect(image)
    return (time.monotonic() - start) / TIMED
