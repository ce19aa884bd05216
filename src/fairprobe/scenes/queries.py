"""Query a recognizer for many pictures: one failure affects no other, and no answer is paid twice.

Answers are stored on disk as soon as they arrive, each in a file named after the query (the
recognizer's identity and the pixels), even those that arrive after the time-out. Failures are not
stored: the next run tries again. Nor are answers of a recognizer without an identity, since it may
have changed by then.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import tenacity

from fairprobe.errors import FairprobeError, ModelError, SettingError, StorageError
from fairprobe.models.formats.file_checks import first_line
from fairprobe.scenes.detectors.base import Detection, Detector, TryAgainError
from fairprobe.scenes.plan import check_pace
from fairprobe.scenes.scene import Picture
from fairprobe.storage import make_folder, write_text

Key = TypeVar("Key", bound=Hashable)

FIRST_PAUSE = 0.5  # seconds before the second try; doubled before each further one
MAX_PAUSE = 60.0  # even if a service requests more
IN_VAIN = 5  # pictures in a row without any answer, after which the others are not tried


@dataclass(frozen=True)
class Failure:
    """Why there is no answer, in a sentence."""

    reason: str


Answer: TypeAlias = tuple[Detection, ...] | Failure


class _NoAnswerError(Exception):
    """Not even a refusal arrived: a time-out, or all tries ended in "later"."""


def query(
    detector: Detector,
    images: Iterable[tuple[Key, Picture]],
    *,
    cache: Path | None = None,
    timeout: float | None = 60.0,
    retries: int = 4,
    rate: float | None = None,
    at_once: int = 1,
    cap: RequestCap | None = None,
    pause: float = FIRST_PAUSE,
    seed: int = 0,
) -> Iterator[tuple[Key, Answer]]:
    """Query the recognizer for each picture, in order; a Failure if there is no answer.

    `timeout` is in seconds for a picture and try. `retries` counts the tries after the first, made
    only where waiting may help, after growing pauses (`pause` seconds at first, randomized by
    `seed`, and at least what the service requests). `rate` is the most requests a second, `at_once`
    the most that are under way together, `cap` the most that are made at all. After `IN_VAIN`
    pictures in a row without any answer the rest is not tried.
    """
    check_pace(timeout, rate, at_once)
    if retries < 0 or pause < 0:
        raise SettingError(
            f"The retries and the pause must not be negative; got retries={retries}, pause={pause}."
        )
    store = None if cache is None or detector.identity is None else _Store(cache, detector)
    client = _Client(detector, store, timeout, retries, rate, cap or RequestCap(), pause, seed)
    return _in_order(client, images, at_once)


def _in_order(
    client: _Client, images: Iterable[tuple[Key, Picture]], at_once: int
) -> Iterator[tuple[Key, Answer]]:
    """Yield answers in the order of the pictures, with several requests at a time; one more is
    queued so that requests continue while the consumer is busy.
    """
    if at_once == 1 and not client.detector.is_remote:
        yield from ((key, client.answer(image)) for key, image in images)
        return
    pool = ThreadPoolExecutor(at_once, "query")
    try:
        pending: deque[tuple[Key, Future[Answer]]] = deque()
        for key, image in images:
            pending.append((key, pool.submit(client.answer, image)))
            if len(pending) > at_once:
                first, answer = pending.popleft()
                yield first, answer.result()
        yield from ((key, answer.result()) for key, answer in pending)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class RequestCap:
    """The most requests that several queries make together; None: any number."""

    def __init__(self, most: int | None = None) -> None:
        if most is not None and most < 1:
            raise SettingError(f"The cap on requests must be at least 1; got {most}.")
        self.most, self.made = most, 0
        self._lock = threading.Lock()

    def take(self) -> bool:
        """Return True if one more request may be made, and count it."""
        with self._lock:
            if self.most is not None and self.made >= self.most:
                return False
            self.made += 1
            return True


@dataclass
class _Client:
    """One recognizer, queried picture by picture."""

    detector: Detector
    store: _Store | None
    timeout: float | None
    retries: int
    rate: float | None
    cap: RequestCap
    pause: float
    seed: int

    def __post_init__(self) -> None:
        self._lock, self._next_turn = threading.Lock(), 0.0
        self._rng = np.random.default_rng(self.seed)
        self._in_vain = 0

    def answer(self, image: Picture) -> Answer:
        name, place = self.detector.name, None
        if self.store is not None:
            place = self.store.place(image)
            if (kept := self.store.read(place)) is not None:
                return kept
        if self._in_vain >= IN_VAIN:
            return Failure(
                f"{name} was not tried, since it gave no answer to the {IN_VAIN} pictures before."
            )
        try:
            found: Answer = self._retry(image, place)
        except _NoAnswerError as error:
            self._in_vain += 1
            return Failure(f"{name} {error}.")
        except _StoreError:
            raise
        except FairprobeError as error:
            found = Failure(f"{name}: {first_line(error)}.")
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the recognizer's own code)
            found = Failure(f"{name} failed: {type(error).__name__}: {first_line(error)}.")
        self._in_vain = 0
        return found

    def _retry(self, image: Picture, place: Path | None) -> tuple[Detection, ...]:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TryAgainError),
            stop=tenacity.stop_after_attempt(self.retries + 1),
            wait=self._wait_before_retry,
            sleep=time.sleep,
            reraise=True,
        )
        try:
            return retrying(self._try_once, image, place)
        except TryAgainError as error:
            tries = f"{self.retries + 1} tries" if self.retries else "one try"
            raise _NoAnswerError(f"gave no answer in {tries}: {first_line(error)}") from error

    def _wait_before_retry(self, state: tenacity.RetryCallState) -> float:
        # Randomized, so that clients that failed together do not come back together.
        with self._lock:
            spread = self._rng.uniform(0.5, 1.0)
        wanted = self.pause * 2 ** (state.attempt_number - 1) * spread
        failure = state.outcome and state.outcome.exception()
        requested = failure.after if isinstance(failure, TryAgainError) else 0.0
        return float(min(max(wanted, requested), MAX_PAUSE))

    def _try_once(self, image: Picture, place: Path | None) -> tuple[Detection, ...]:
        """Try once in a new thread: a hanging one is abandoned, but a late answer is stored.

        The recognizer gets a copy of the picture, so that it cannot change ours.
        """
        if not self.cap.take():
            raise ModelError(
                f"the cap of {self.cap.most:,} requests is reached. Raise it; answers so far are"
                " kept"
            )
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next_turn)
            self._next_turn = turn + (1 / self.rate if self.rate else 0.0)
        time.sleep(turn - now)
        result: list[tuple[Detection, ...] | BaseException] = []
        copy = image.copy()

        def detect() -> None:
            try:
                found = check_answer(self.detector.detect(copy))
                if self.store is not None and place is not None:
                    self.store.write(place, found)
                result.append(found)
            except BaseException as error:  # noqa: BLE001  (raised again in the waiting thread)
                result.append(error)

        thread = threading.Thread(target=detect, daemon=True, name=f"query {self.detector.name}")
        thread.start()
        thread.join(self.timeout)
        if not result:
            raise _NoAnswerError(f"did not answer within {self.timeout:g} seconds")
        if isinstance(result[0], BaseException):
            raise result[0]
        return result[0]


# -- storing ---------------------------------------------------------------------------------------


class _StoreError(StorageError):
    """An answer cannot be stored, so no more queries are made."""


class _Store:
    """Answers on disk. Several processes may share a folder."""

    def __init__(self, folder: Path, detector: Detector) -> None:
        self._folder, self._detector = folder, detector
        make_folder(folder)

    def place(self, image: Picture) -> Path:
        """Return the file of this query."""
        query = hashlib.sha256(f"{self._detector.identity}\n{image.shape}\n".encode())
        query.update(np.ascontiguousarray(image).data)
        name = query.hexdigest()
        return self._folder / name[:2] / f"{name}.json"

    def read(self, place: Path) -> tuple[Detection, ...] | None:
        """Read the stored answer; a damaged file is ignored."""
        try:
            rows = json.loads(place.read_text(encoding="utf-8"))["detections"]
            return check_answer([Detection(label, score, box) for label, score, box in rows])
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None

    def write(self, place: Path, found: tuple[Detection, ...]) -> None:
        rows = [[detection.label, detection.score, detection.box] for detection in found]
        about = {"detector": self._detector.name, "identity": self._detector.identity}
        try:
            make_folder(place.parent)
            write_text(place, json.dumps({**about, "detections": rows}))
        except StorageError as error:
            raise _StoreError(*error.args) from error


# -- valid answers ---------------------------------------------------------------------------------


def check_answer(answer: Any) -> tuple[Detection, ...]:
    """Convert the answer to plain numbers; raise ModelError for an invalid one."""
    if not isinstance(answer, tuple | list):
        raise ModelError(f"It returned {_shown(answer)}; expected a list of detections.")
    return tuple(map(_check_detection, answer))


def _check_detection(detection: Any) -> Detection:
    if not isinstance(detection, Detection):
        raise ModelError(f"It returned {_shown(detection)}; expected a detection.")
    label, score, box = detection.label, detection.score, detection.box
    if not isinstance(label, str) or not label.strip():
        raise ModelError(f"It returned the label {_shown(label)}; expected the name of a class.")
    if not _is_number(score) or not 0 <= score <= 1:
        raise ModelError(
            f"It returned the score {_shown(score)} for '{label}'; expected a number from 0 to 1."
        )
    if box is None:
        return Detection(label, float(score))
    if (
        not isinstance(box, tuple | list | np.ndarray)
        or len(box) != 4
        or not all(map(_is_number, box))
    ):
        raise ModelError(
            f"It returned the box {_shown(box)} for '{label}'; expected left, top, right and"
            " bottom in pixels."
        )
    left, top, right, bottom = map(float, box)
    if right < left or bottom < top:
        raise ModelError(
            f"It returned the box {_shown(box)} for '{label}', whose right or bottom lies"
            " before its left or top."
        )
    return Detection(label, float(score), (left, top, right, bottom))


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float | np.integer | np.floating)
    return is_real and not isinstance(value, bool) and math.isfinite(value)


def _shown(value: Any) -> str:
    return first_line(repr(value))[:80]
