"""Painting the planned pictures in worker processes. Each is written once: what lies there from an
earlier run is taken as it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.errors import FairprobeError, SettingError, StorageError
from fairprobe.scenes.cutouts import Cutouts
from fairprobe.scenes.deletion import control, delete
from fairprobe.scenes.distribution import ClassRange
from fairprobe.scenes.inpainting import inpainter
from fairprobe.scenes.insertion import insert
from fairprobe.scenes.mutant import Mutant, Skipped
from fairprobe.scenes.plan import Task, drawn
from fairprobe.scenes.rotation import rotate
from fairprobe.scenes.scene import Box, Picture, Scene, Scenes
from fairprobe.storage import replacing, write_text


@dataclass(frozen=True)
class Made:
    """A mutated picture on disk. `seconds` is what its mutation took, reading and writing not
    counted.
    """

    task: Task
    path: Path
    objects: int
    places: tuple[Box, ...]
    seconds: float


@dataclass(frozen=True)
class Left:
    """A task without a picture, and why."""

    task: Task
    reason: str


@dataclass(frozen=True)
class Studio:
    """Everything a worker needs."""

    scenes: Scenes
    cutouts: Cutouts
    inpainting: str
    folder: Path
    seed: int
    fingerprint: str
    """Of all that a picture depends on beside its scene and task."""
    digests: Mapping[str, str]
    """Of each scene as it is now."""

    def mark(self, task: Task) -> str:
        """Stands beside a picture; one that has another is painted anew."""
        return f"{self.fingerprint} {self.digests[task.scene]}"


def make(
    studio: Studio,
    tasks: Sequence[Task],
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Made | Left]:
    """All pictures, scene by scene. With one worker it is done here."""
    ordered = sorted(tasks, key=lambda task: task.scene)
    jobs = [list(group) for _, group in groupby(ordered, key=lambda task: task.scene)]
    done = 0
    for results, count in _worked(studio, jobs, workers):
        done += count
        yield from results  # before progress is told, which may end in an interrupt
        if progress is not None:
            progress(done, len(tasks))


def read_picture(path: Path) -> Picture:
    """A picture that was painted before."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError) as error:
        raise StorageError(
            f"{path} cannot be read any more. Delete it and start again: it is then painted anew."
        ) from error


def _worked(
    studio: Studio, jobs: list[list[Task]], workers: int
) -> Iterator[tuple[list[Made | Left], int]]:
    if workers <= 1 or len(jobs) <= 1:
        for job in jobs:
            yield _of_scene(studio, job), len(job)
        return
    # Not forked: a fork of a process in which torch or onnxruntime has started threads may hang.
    pool = ProcessPoolExecutor(
        min(workers, len(jobs)),
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(studio,),
    )
    try:
        with _uninterrupted():
            waiting: dict[Future[list[Made | Left]], int] = {
                pool.submit(_in_worker, job): len(job) for job in jobs
            }
        for future in as_completed(waiting):
            yield future.result(), waiting[future]
    except BrokenProcessPool as error:
        raise SettingError(
            "A process that paints has ended before its time; perhaps memory is short. Take fewer"
            " workers: what was painted is kept. (In a Python script, start the audit below: if"
            " __name__ == '__main__'.)"
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """What is started here never sees Ctrl-C, not even before `_begin`; here it takes effect
    afterwards.
    """
    import signal

    if not hasattr(signal, "pthread_sigmask"):  # not on Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_STUDIO: list[Studio] = []  # of this worker process


def _begin(studio: Studio) -> None:
    import signal

    import cv2

    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the parent process decides what an interrupt means
    cv2.setNumThreads(1)
    _STUDIO[:] = [studio]


def _in_worker(job: list[Task]) -> list[Made | Left]:
    return _of_scene(_STUDIO[0], job)


def _of_scene(studio: Studio, tasks: list[Task]) -> list[Made | Left]:
    try:
        return _painted(studio, tasks)
    except FairprobeError as error:
        return [Left(task, str(error)) for task in tasks]


def _painted(studio: Studio, tasks: list[Task]) -> list[Made | Left]:
    found: list[Made | Left] = []
    scene: Scene | None = None
    for task in tasks:
        kept = _kept_of_task(studio, task)
        if kept:
            found += kept
            continue
        scene = scene or studio.scenes.read(task.scene)
        found += _of_task(studio, scene, task)
    return found


def _kept_of_task(studio: Studio, task: Task) -> list[Made | Left]:
    """What an earlier run has of a task: its picture and, where something is in-painted, that of
    its control; nothing if not all.
    """
    first = _kept(studio, task)
    if first is None or isinstance(first, Left) or task.operator == "insert":
        return [] if first is None else [first]
    plain = _kept(studio, replace(task, kind="control"))
    return [] if plain is None else [first, plain]


def _of_task(studio: Studio, scene: Scene, task: Task) -> list[Made | Left]:
    rng = drawn(studio.seed, task.scene, task.operator, task.label, task.kind, task.repeat)
    begun = time.perf_counter()
    mutant = _mutated(studio, scene, task, rng)
    found = [_written(studio, task, mutant, time.perf_counter() - begun)]
    if task.operator != "insert" and isinstance(mutant, Mutant):
        begun = time.perf_counter()
        plain = control(scene, mutant, inpainter=inpainter(studio.inpainting), rng=rng)
        found.append(
            _written(studio, replace(task, kind="control"), plain, time.perf_counter() - begun)
        )
    return found


def _mutated(
    studio: Studio, scene: Scene, task: Task, rng: np.random.Generator
) -> Mutant | Skipped:
    if task.operator == "insert":
        return insert(scene, task.label, task.objects, studio.cutouts, rng=rng)
    if task.operator == "delete":
        return delete(scene, task.label, inpainter=inpainter(studio.inpainting))
    is_unusual = ClassRange(0, 0, angles=task.usual).is_unusual
    return rotate(
        scene, task.label, inpainter=inpainter(studio.inpainting), rng=rng, is_unusual=is_unusual
    )


# -- on disk ---------------------------------------------------------------------------------------


def _written(studio: Studio, task: Task, mutant: Mutant | Skipped, seconds: float) -> Made | Left:
    """The picture first and what is known of it afterwards: a picture without its note is painted
    anew.
    """
    path = studio.folder / task.file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot make the folder {path.parent}: {error.strerror}. Choose another folder for the"
            " run."
        ) from error
    if isinstance(mutant, Skipped):
        _note(path, studio, task, {"reason": mutant.reason})
        return Left(task, mutant.reason)
    from PIL import Image

    with replacing(path) as temporary:
        Image.fromarray(mutant.image).save(temporary, format="png", compress_level=1)
    _note(
        path,
        studio,
        task,
        {
            "objects": mutant.objects,
            "places": [list(box) for box in mutant.places],
            "seconds": seconds,
        },
    )
    return Made(task, path, mutant.objects, mutant.places, seconds)


def _note(path: Path, studio: Studio, task: Task, body: dict[str, Any]) -> None:
    write_text(path.with_suffix(".json"), json.dumps({"fingerprint": studio.mark(task), **body}))


def _kept(studio: Studio, task: Task) -> Made | Left | None:
    path = studio.folder / task.file
    try:
        body = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if body["fingerprint"] != studio.mark(task):
            return None
        if "reason" in body:
            return Left(task, str(body["reason"]))
        if not path.is_file():
            return None
        places = tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in body["places"])
        return Made(task, path, int(body["objects"]), places, float(body["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
