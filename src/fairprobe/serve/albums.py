"""The pictures of a run folder: every pair in `findings.npz` of an audit on pictures; every test in
`tests.csv` of an audit of scenes, with what was recognized in its pictures in `pairs.zip`.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec
import numpy as np
from PIL import Image

from fairprobe.documents.files import file_in, read_bytes
from fairprobe.errors import DAMAGED, StorageError
from fairprobe.images.run import ImagesRun
from fairprobe.scenes.examples import ANSWERS, PAIRS, SceneAnswers
from fairprobe.storage import check_unpacked

FOUND, TESTS = "findings.npz", "tests.csv"
MOST_PICTURES = 512 * 2**20  # bytes of one array of pictures that are held in memory
MOST_TESTS = 100_000
MOST_FILE = 64 * 2**20
MOST_ANSWERS = 256 * 2**20
UNREADABLE: tuple[type[Exception], ...] = (*DAMAGED, csv.Error, Image.DecompressionBombError)
VERDICTS = ("others lost", "others appear", "others unchanged")


@dataclass(frozen=True)
class FoundPair:
    """Two pictures that differ in the change of the attribute, and what the detector answers."""

    method: str
    place: int  # among those that the method found
    row: int
    value: str
    labels: tuple[str, str]
    probabilities: tuple[float, float]
    is_strict: bool


@dataclass(frozen=True)
class SceneTest:
    """A mutated scene: what was recognized in the original and in the mutant, by class."""

    detector: str
    scene: str
    operator: str
    label: str
    kind: str
    image: str
    original: dict[str, int]
    found: dict[str, int]

    @property
    def lost(self) -> Counter[str]:
        """Count objects of other classes that are not recognized any more."""
        return self._others(self.original) - self._others(self.found)

    @property
    def new(self) -> Counter[str]:
        """Count objects of other classes that are recognized only in the mutant."""
        return self._others(self.found) - self._others(self.original)

    def _others(self, counts: dict[str, int]) -> Counter[str]:
        return Counter({label: many for label, many in counts.items() if label != self.label})

    @property
    def verdict(self) -> str:
        """Compare the classes that were not mutated."""
        return VERDICTS[0 if self.lost else 1 if self.new else 2]


@dataclass
class ImageAlbum:
    """All pairs of an audit on pictures, those that count strictly and are surest first."""

    path: Path
    pairs: list[FoundPair]
    _pictures: dict[tuple[str, str], Any] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def open(cls, folder: Path, run: ImagesRun) -> ImageAlbum:
        """Read the pairs that were found, without those of controls."""
        path = _file(folder, FOUND)
        methods = [search.method for search in run.generation if not search.is_control]
        with _opened(path) as file:
            pairs = [pair for method in methods for pair in _pairs_of(file, method, run)]
        pairs.sort(key=lambda pair: (not pair.is_strict, -min(pair.probabilities)))
        return cls(path, pairs)

    def png(self, method: str, place: int, side: str) -> bytes:
        """Encode one picture."""
        if (method, place) not in {(pair.method, pair.place) for pair in self.pairs}:
            raise LookupError(place)
        with self._lock:
            key = (method, side)
            if key not in self._pictures:
                with _opened(self.path) as file:
                    self._pictures[key] = file[f"{method}_{side}"]
            pixels = self._pictures[key][place]
        buffer = io.BytesIO()
        Image.fromarray(np.ascontiguousarray(pixels.transpose(1, 2, 0))).save(buffer, "PNG")
        return buffer.getvalue()


@dataclass(frozen=True)
class SceneAlbum:
    """All tests of an audit of scenes, those that lost objects of other classes first, and what was
    recognized in their pictures.
    """

    folder: Path
    tests: list[SceneTest]
    answers: SceneAnswers

    @classmethod
    def open(cls, folder: Path) -> SceneAlbum:
        """Read the tests and the answers of a run."""
        tests = sorted(_tests(_file(folder, TESTS)), key=lambda test: VERDICTS.index(test.verdict))
        path = _file(folder, PAIRS)
        with _unzipped(path) as file:
            if file.getinfo(ANSWERS).file_size > MOST_ANSWERS:
                raise StorageError(f"{path} has more answers than fit into memory.")
            answers = msgspec.json.decode(file.read(ANSWERS), type=SceneAnswers)
        return cls(folder, tests, answers)

    def original(self, test: SceneTest) -> bytes:
        """Read the small copy of the original picture, as JPEG."""
        size = self.answers.sizes[test.scene]
        path = _file(self.folder, PAIRS)
        with _unzipped(path) as file:
            if file.getinfo(size.picture).file_size <= MOST_FILE:
                return file.read(size.picture)
        raise StorageError(f"{size.picture} in {path} is larger than {MOST_FILE // 2**20} MiB.")

    def mutant(self, test: SceneTest) -> bytes:
        """Read the mutated picture."""
        if not test.image.endswith(".png"):
            raise StorageError(f"'{test.image}' is not a picture of a run.")
        return read_bytes(file_in(self.folder, test.image), MOST_FILE)

    def size(self, test: SceneTest) -> tuple[int, int]:
        """Read width and height of the mutated picture, without decoding it."""
        try:
            with Image.open(file_in(self.folder, test.image), formats=["PNG"]) as picture:
                return picture.width, picture.height
        except StorageError:
            raise
        except UNREADABLE as error:
            raise StorageError(f"The picture {test.image} cannot be read: {error}.") from error


def _file(folder: Path, name: str) -> Path:
    try:
        return file_in(folder, name)
    except FileNotFoundError as error:
        raise StorageError(
            f"{folder} has no {name}, which contains the pairs. Run the audit again."
        ) from error


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with zipfile.ZipFile(path) as file:
            sizes = [each.file_size for each in file.infolist()]
        check_unpacked(path, sum(sizes))
        _check_size(path, max(sizes, default=0))
        with np.load(path, allow_pickle=False) as arrays:
            yield arrays
    except StorageError:
        raise
    except DAMAGED as error:
        raise StorageError(f"{path} is damaged: {error}. Run the audit again.") from error


def _check_size(path: Path, size: int) -> None:
    if size > MOST_PICTURES:
        raise StorageError(
            f"{path} holds more pictures than fit into {MOST_PICTURES // 2**20} MiB. Open it with"
            " NumPy."
        )


def _pairs_of(file: Any, method: str, run: ImagesRun) -> list[FoundPair]:
    classes, values = run.data.classes, [value.name for value in run.data.values]
    rows, codes, labels, sure, strict = (
        file[f"{method}_{name}"] for name in ("rows", "values", "labels", "probabilities", "strict")
    )
    if min(codes.min(initial=0), labels.min(initial=0)) < 0:
        raise ValueError("a class is negative")
    return [
        FoundPair(
            method,
            place,
            int(rows[place]),
            values[int(codes[place])],
            (classes[int(labels[place, 0])], classes[int(labels[place, 1])]),
            (float(sure[place, 0]), float(sure[place, 1])),
            bool(strict[place]),
        )
        for place in range(len(rows))
    ]


def _tests(path: Path) -> list[SceneTest]:
    try:
        lines = io.StringIO(read_bytes(path, MOST_FILE).decode("utf-8"))
        return [
            _test(row) for row, _ in zip(csv.DictReader(lines), range(MOST_TESTS), strict=False)
        ]
    except StorageError:
        raise
    except UNREADABLE as error:
        raise StorageError(f"{path} is damaged: {error}. Run the audit again.") from error


def _test(row: dict[str, str]) -> SceneTest:
    texts = {name: row[name] for name in ("detector", "scene", "operator", "label", "kind")}
    before, after = (
        msgspec.json.decode(row[name], type=dict[str, int]) for name in ("original", "found")
    )
    return SceneTest(**texts, image=row["image"], original=before, found=after)


@contextmanager
def _unzipped(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as file:
            yield file
    except DAMAGED as error:
        raise StorageError(f"{path} is damaged: {error}. Run the audit again.") from error
