"""Make the planned pictures in worker processes; those of an earlier run are used again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import groupby
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
from PIL import Image

from fairprobe.arrays import Mask
from fairprobe.errors import FairprobeError, SettingError, StorageError
from fairprobe.scenes import deletion, insertion, rotation
from fairprobe.scenes.cutouts import Cutouts
from fairprobe.scenes.deletion import DeletionSettings
from fairprobe.scenes.inpainting import Inpainter, Remembering, inpainter
from fairprobe.scenes.insertion import InsertionSettings
from fairprobe.scenes.plan import ClassRange, Settings, Task, random_for
from fairprobe.scenes.realism import Look, look_of
from fairprobe.scenes.rotation import RotationSettings
from fairprobe.scenes.scene import Box, Mutant, Picture, Scene, Scenes, Skipped
from fairprobe.storage import make_folder, replacing, write_text
from fairprobe.workers.base import interrupts_blocked


@dataclass(frozen=True)
class MadePicture:
    """A mutated picture on disk. `seconds` is the time of its mutation alone."""

    task: Task
    path: Path
    objects: int
    places: tuple[Box, ...]
    seconds: float
    look: Look | None = None
    """Of the largest place, for the realism check."""
    source: str = ""
    """The scene that the object there comes from."""


@dataclass(frozen=True)
class SkippedTask:
    """A task without a picture, and why."""

    task: Task
    reason: str


Outcome: TypeAlias = MadePicture | SkippedTask


@dataclass(frozen=True)
class Craft:
    """How pictures are mutated."""

    insertion: InsertionSettings
    deletion: DeletionSettings
    rotation: RotationSettings

    @classmethod
    def of(cls, settings: Settings) -> Craft:
        if settings.variant == "paper":
            return cls(insertion.PAPER, deletion.PAPER, rotation.PAPER)
        turned = RotationSettings(any_angle=settings.any_angle)
        return cls(insertion.DEFAULTS, deletion.DEFAULTS, turned)


@dataclass(frozen=True)
class Studio:
    """Everything that a worker needs."""

    scenes: Scenes
    cutouts: Cutouts
    inpainting: str
    folder: Path
    seed: int
    fingerprint: str
    """Of everything that a picture depends on besides its scene and task."""
    digests: Mapping[str, str]
    """Of each scene as it is now."""
    craft: Craft

    def mark(self, task: Task) -> str:
        """Return the mark stored with a picture; a picture with another mark is made again."""
        return f"{self.fingerprint} {self.digests[task.scene]}"


def make_mutants(
    studio: Studio,
    tasks: Sequence[Task],
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Outcome]:
    """Make all pictures, scene by scene; one worker works in this process."""
    ordered = sorted(tasks, key=lambda task: task.scene)
    jobs = [list(group) for _, group in groupby(ordered, key=lambda task: task.scene)]
    done = 0
    for outcomes, count in _outcomes(studio, jobs, workers):
        done += count
        yield from outcomes  # before the progress call, which may raise an interrupt
        if progress is not None:
            progress(done, len(tasks))


def read_mutant(path: Path) -> Picture:
    """Read a picture that was made before."""
    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError) as error:
        raise StorageError(
            f"{path} cannot be read. Delete it and start again, which makes it again."
        ) from error


def _outcomes(
    studio: Studio, jobs: list[list[Task]], workers: int
) -> Iterator[tuple[list[Outcome], int]]:
    if workers <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield _of_scene(studio, job), len(job)
        return
    # Not forked: a fork of a process in which torch or onnxruntime has started threads may hang.
    pool = ProcessPoolExecutor(
        min(workers, len(jobs)),
        mp_context=get_context("spawn"),
        initializer=_start_worker,
        initargs=(studio,),
    )
    try:
        with interrupts_blocked():
            waiting: dict[Future[list[Outcome]], int] = {
                pool.submit(_in_worker, job): len(job) for job in jobs
            }
        for future in as_completed(waiting):
            yield future.result(), waiting[future]
    except BrokenProcessPool as error:
        raise SettingError(
            "A worker process ended early; perhaps memory is short. Use fewer workers: finished"
            " pictures are kept. (In a Python script, start the audit under: if __name__ =="
            " '__main__'.)"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_STUDIO: list[Studio] = []  # of this worker process


def _start_worker(studio: Studio) -> None:
    import cv2

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles interrupts
    Thread(target=_end_with_parent, daemon=True).start()
    cv2.setNumThreads(1)
    _STUDIO[:] = [studio]


def _end_with_parent() -> None:
    """End this worker when its parent is killed; it would wait for work forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _in_worker(job: list[Task]) -> list[Outcome]:
    return _of_scene(_STUDIO[0], job)


def _of_scene(studio: Studio, tasks: list[Task]) -> list[Outcome]:
    found: list[Outcome] = []
    scene, fill = None, None
    try:
        for task in tasks:
            outcomes = _kept_of_task(studio, task)
            if not outcomes:
                scene = scene or studio.scenes.read(task.scene)
                fill = fill or Remembering(inpainter(studio.inpainting))
                outcomes = _of_task(studio, scene, task, fill)
            found += outcomes
    except FairprobeError as error:
        return [SkippedTask(task, str(error)) for task in tasks]
    return found


def _kept_of_task(studio: Studio, task: Task) -> list[Outcome]:
    """Return an earlier run's picture and its control; empty if not complete."""
    first = _kept(studio, task)
    if first is None or isinstance(first, SkippedTask) or not task.has_control:
        return [] if first is None else [first]
    second = _kept(studio, replace(task, kind="control"))
    return [] if second is None else [first, second]


def _of_task(studio: Studio, scene: Scene, task: Task, fill: Inpainter) -> list[Outcome]:
    rng = random_for(studio.seed, task.scene, task.operator, task.label, task.kind, task.repeat)
    start = time.perf_counter()
    mutant = _mutate(studio.cutouts, scene, task, rng, fill, studio.craft)
    # A picture whose control is missing is kept: a kill may come between the two.
    seconds = time.perf_counter() - start
    found = [_kept(studio, task) or _write(studio, scene, task, mutant, seconds)]
    if task.has_control and isinstance(mutant, Mutant):
        start = time.perf_counter()
        plain = (
            insertion.control(scene, task.label, task.objects, settings=studio.craft.insertion)
            if task.operator == "insert"
            else deletion.control(
                scene, mutant, inpainter=fill, rng=rng, settings=studio.craft.deletion
            )
        )
        seconds = time.perf_counter() - start
        found.append(_write(studio, scene, replace(task, kind="control"), plain, seconds))
    return found


def mutate_without_painting(
    scene: Scene, task: Task, cutouts: Cutouts, settings: Settings
) -> Mutant | Skipped:
    """Repeat the mutation of a picture on disk with black holes: cheap, with the same objects
    removed and added.
    """
    parts = (task.scene, task.operator, task.label, task.kind, task.repeat)
    rng = random_for(settings.seed, *parts)
    return _mutate(cutouts, scene, task, rng, _Unpainted(), Craft.of(settings))


class _Unpainted(Inpainter):
    """Leave holes black."""

    name = "none"

    def _painted(
        self, image: Picture, mask: Mask, avoid: Mask, kinds: npt.NDArray[np.uint8] | None
    ) -> Picture:
        del mask, avoid, kinds
        return image


def _mutate(
    cutouts: Cutouts,
    scene: Scene,
    task: Task,
    rng: np.random.Generator,
    fill: Inpainter,
    craft: Craft,
) -> Mutant | Skipped:
    if task.operator == "insert":
        return insertion.insert(
            scene, task.label, task.objects, cutouts, rng=rng, settings=craft.insertion
        )
    if task.operator == "delete":
        return deletion.delete(scene, task.label, inpainter=fill, settings=craft.deletion)
    return rotation.rotate(
        scene,
        task.label,
        inpainter=fill,
        rng=rng,
        is_unusual=ClassRange(0, 0, angles=task.usual).is_unusual,
        settings=craft.rotation,
        deletion=craft.deletion,
    )


# -- on disk ---------------------------------------------------------------------------------------


def _write(
    studio: Studio, scene: Scene, task: Task, mutant: Mutant | Skipped, seconds: float
) -> Outcome:
    """Write the picture first and its note afterwards: a picture without a note is made again."""
    path = studio.folder / task.file
    make_folder(path.parent)
    outcome: Outcome
    if isinstance(mutant, Skipped):
        outcome = SkippedTask(task, mutant.reason)
    else:
        with replacing(path) as temporary:
            Image.fromarray(mutant.image).save(temporary, format="png", compress_level=1)
        about = (mutant.objects, mutant.places, seconds, *look_of(scene, mutant))
        outcome = MadePicture(task, path, *about)
    facts = {name: value for name, value in vars(outcome).items() if name not in ("task", "path")}
    note = msgspec.json.encode({"fingerprint": studio.mark(task), **facts})
    write_text(path.with_suffix(".json"), note.decode())
    return outcome


class _Note(msgspec.Struct):
    """What is stored with a picture, or instead of one."""

    fingerprint: str
    reason: str | None = None
    objects: int = 0
    places: tuple[Box, ...] = ()
    seconds: float = 0.0
    look: Look | None = None
    source: str = ""


def _kept(studio: Studio, task: Task) -> Outcome | None:
    path = studio.folder / task.file
    try:
        note = msgspec.json.decode(path.with_suffix(".json").read_bytes(), type=_Note)
    except (OSError, ValueError, RecursionError):
        return None
    if note.fingerprint != studio.mark(task):
        return None
    if note.reason is not None:
        return SkippedTask(task, note.reason)
    if not path.is_file():
        return None
    return MadePicture(task, path, note.objects, note.places, note.seconds, note.look, note.source)
