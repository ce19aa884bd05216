"""Asking a recogniser for many pictures: whatever happens to one, the others are asked, and no
answer is paid for twice.

Answers are kept on disk as soon as they come, each in a file named after what was asked (the
recogniser's identity and the pixels), even one that comes after we gave up waiting for it. Failures
are not kept: the next run asks again. Nor are answers of a recogniser of which nobody knows what
they depend on (without an identity), since it may have changed by then.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from fairprobe.errors import FairprobeError, ModelError, SettingError, StorageError
from fairprobe.models.formats.file_checks import first_line
from fairprobe.scenes.detectors.trouble import TryAgainError
from fairprobe.scenes.recognition import Detection, Detector
from fairprobe.scenes.scene import Picture
from fairprobe.storage import write_text

Key = TypeVar("Key", bound=Hashable)

FIRST_PAUSE = 0.5  # seconds before the second try; doubled before each further one
LONGEST_PAUSE = 60.0  # whatever a service asks for
LONGEST_WAIT = 86_400  # seconds, a day: clocks do not take any number
IN_VAIN = 5  # pictures in a row without any answer, after which the others are not asked


@dataclass(frozen=True)
class Failure:
    """Why there is no answer, in a sentence."""

    reason: str


Answer: TypeAlias = tuple[Detection, ...] | Failure


class _NoAnswerError(Exception):
    """Not even a refusal came: the time was up, or every try ended in "later"."""


def ask(
    detector: Detector,
    images: Iterable[tuple[Key, Picture]],
    *,
    cache: Path | None = None,
    timeout: float | None = 60.0,
    retries: int = 4,
    rate: float | None = None,
    pause: float = FIRST_PAUSE,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[Key, Answer]]:
    """What the recogniser sees in each picture, in their order; a picture without an answer has a
    Failure instead.

    `timeout` is in seconds a picture and try; `retries` counts the tries after the first, which
    come later and later (`pause` seconds at first, with some chance in it by `seed`, and never
    before the service asked for), and only where waiting may help; `rate` is the most requests a
    second. `progress` is told how many pictures are done and how many of them failed. After five
    pictures in a row without any answer (`IN_VAIN`) the rest is not asked.
    """
    check_pace(timeout, rate)
    if retries < 0 or pause < 0:
        raise SettingError(
            f"The retries and the pause must not be negative; got retries={retries}, pause={pause}."
        )
    kept = None if cache is None or detector.identity is None else _Cache(cache, detector)
    asking = _Asking(detector, kept, timeout, retries, rate, pause, seed)
    return _answers(asking, images, progress)


def check_pace(timeout: float | None, rate: float | None) -> None:
    """Refuses waiting times that are none."""
    if timeout is not None and not 0 < timeout <= LONGEST_WAIT:
        raise SettingError(
            f"The time-out must be greater than 0 and at most {LONGEST_WAIT:,} seconds; got"
            f" {timeout:g}."
        )
    if rate is not None and not 1 / LONGEST_WAIT <= rate < math.inf:
        raise SettingError(
            "The rate of asking must be a number of requests a second, greater than 0; got"
            f" {rate:g}."
        )


def _answers(
    asking: _Asking,
    images: Iterable[tuple[Key, Picture]],
    progress: Callable[[int, int], None] | None,
) -> Iterator[tuple[Key, Answer]]:
    failed = 0
    for done, (key, image) in enumerate(images, start=1):
        answer = asking.answer(image)
        failed += isinstance(answer, Failure)
        yield key, answer  # before progress is told, which may end in an interrupt
        if progress is not None:
            progress(done, failed)


class _Asking:
    """One recogniser, asked in turn."""

    def __init__(
        self,
        detector: Detector,
        cache: _Cache | None,
        timeout: float | None,
        retries: int,
        rate: float | None,
        pause: float,
        seed: int,
    ) -> None:
        self._detector, self._cache, self._timeout, self._retries, self._pause = (
            detector,
            cache,
            timeout,
            retries,
            pause,
        )
        self._interval, self._free_at = (0.0 if rate is None else 1 / rate), 0.0
        self._rng = np.random.default_rng(seed)
        self._in_vain = 0

    def answer(self, image: Picture) -> Answer:
        name, place = self._detector.name, None
        if self._cache is not None:
            place = self._cache.place(image)
            if (kept := self._cache.read(place)) is not None:
                return kept
        if self._in_vain >= IN_VAIN:
            return Failure(
                f"{name} was not asked, since the {IN_VAIN} pictures before got no answer from it"
                " either."
            )
        try:
            found: Answer = self._patiently(image, place)
        except _NoAnswerError as error:
            self._in_vain += 1
            return Failure(f"{name} {error}.")
        except _KeepingError:
            raise
        except FairprobeError as error:
            found = Failure(f"{name}: {first_line(error)}.")
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the recogniser's own code)
            found = Failure(f"{name} failed: {type(error).__name__}: {first_line(error)}.")
        self._in_vain = 0
        return found

    def _patiently(self, image: Picture, place: Path | None) -> tuple[Detection, ...]:
        for attempt in range(self._retries + 1):
            self._wait_for_turn()
            try:
                return self._once(image, place)
            except TryAgainError as error:
                if attempt == self._retries:
                    tries = f"{attempt + 1} times" if attempt else "once"
                    raise _NoAnswerError(
                        f"gave no answer, asked {tries}: {first_line(error)}"
                    ) from error
                # Clients that failed together do not come back together.
                wanted = self._pause * 2**attempt * self._rng.uniform(0.5, 1.0)
                time.sleep(min(max(wanted, error.after), LONGEST_PAUSE))
        raise AssertionError

    def _wait_for_turn(self) -> None:
        now = time.monotonic()
        turn = max(now, self._free_at)
        self._free_at = turn + self._interval
        time.sleep(turn - now)

    def _once(self, image: Picture, place: Path | None) -> tuple[Detection, ...]:
        """One try, in a thread of its own: one that hangs is left behind, and a late answer is kept
        all the same.
        """
        call = _Call(
            self._detector,
            image,
            None if self._cache is None or place is None else partial(self._cache.write, place),
        )
        call.start()
        call.join(self._timeout)
        if call.is_alive():
            raise _NoAnswerError(f"did not answer within {self._timeout:g} seconds")
        if call.error is not None:
            raise call.error
        assert call.found is not None
        return call.found


class _Call(threading.Thread):
    """One question. The recogniser gets a copy of the picture, so that nothing it does to it is
    seen elsewhere.
    """

    def __init__(
        self,
        detector: Detector,
        image: Picture,
        keep: Callable[[tuple[Detection, ...]], None] | None,
    ) -> None:
        super().__init__(daemon=True, name=f"asking {detector.name}")
        self._detector, self._image, self._keep = detector, image.copy(), keep
        self.found: tuple[Detection, ...] | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            found = checked(self._detector.detect(self._image))
            if self._keep is not None:
                self._keep(found)
            self.found = found
        except BaseException as error:  # noqa: BLE001  (raised again where the answer is waited for)
            self.error = error


# -- keeping ---------------------------------------------------------------------------------------


class _KeepingError(StorageError):
    """An answer that came cannot be kept: no more are asked for, since they would have to be paid
    for again.
    """


class _Cache:
    """Answers on disk. Several processes may share a folder."""

    def __init__(self, folder: Path, detector: Detector) -> None:
        self._folder, self._detector = folder, detector
        self._make(folder)

    def place(self, image: Picture) -> Path:
        """The file of this question."""
        asked = hashlib.sha256(f"{self._detector.identity}\n{image.shape}\n".encode())
        asked.update(np.ascontiguousarray(image).data)
        name = asked.hexdigest()
        return self._folder / name[:2] / f"{name}.json"

    def read(self, place: Path) -> tuple[Detection, ...] | None:
        """What was answered before; a file that is broken counts for nothing."""
        try:
            rows = json.loads(place.read_text(encoding="utf-8"))["detections"]
            return checked([Detection(label, score, box) for label, score, box in rows])
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def write(self, place: Path, found: tuple[Detection, ...]) -> None:
        rows = [[one.label, one.score, one.box] for one in found]
        text = json.dumps(
            {
                "detector": self._detector.name,
                "identity": self._detector.identity,
                "detections": rows,
            }
        )
        self._make(place.parent)
        try:
            write_text(place, text)
        except StorageError as error:
            raise _KeepingError(*error.args) from error

    @staticmethod
    def _make(folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _KeepingError(
                f"Answers cannot be kept in {folder}: {error.strerror}. Choose another folder."
            ) from error


# -- answers that make sense -----------------------------------------------------------------------


def checked(answer: Any) -> tuple[Detection, ...]:
    """The answer in plain numbers; one that makes no sense is a ModelError."""
    if not isinstance(answer, tuple | list):
        raise ModelError(f"It answered {_shown(answer)} where a list of detections was expected.")
    return tuple(map(_checked, answer))


def _checked(one: Any) -> Detection:
    if not isinstance(one, Detection):
        raise ModelError(f"It answered {_shown(one)} where a detection was expected.")
    if not isinstance(one.label, str) or not one.label.strip():
        raise ModelError(
            f"It answered the label {_shown(one.label)}; expected the name of a class."
        )
    if not _is_number(one.score) or not 0 <= one.score <= 1:
        raise ModelError(
            f"It answered the score {_shown(one.score)} for '{one.label}'; expected a number from 0"
            " to 1."
        )
    if one.box is None:
        return Detection(one.label, float(one.score))
    if (
        not isinstance(one.box, tuple | list | np.ndarray)
        or len(one.box) != 4
        or not all(map(_is_number, one.box))
    ):
        raise ModelError(
            f"It answered the box {_shown(one.box)} for '{one.label}'; expected left, top, right"
            " and bottom in pixels."
        )
    left, top, right, bottom = map(float, one.box)
    if right < left or bottom < top:
        raise ModelError(
            f"It answered the box {_shown(one.box)} for '{one.label}', whose right or bottom lies"
            " before its left or top."
        )
    return Detection(one.label, float(one.score), (left, top, right, bottom))


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float | np.integer | np.floating)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def _shown(value: Any) -> str:
    return first_line(repr(value))[:80]
