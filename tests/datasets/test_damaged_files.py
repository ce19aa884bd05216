"""Tables and pictures from damaged or hostile files end in a sentence, never in a traceback."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fairprobe.datasets import image_sets, open_table
from fairprobe.datasets.image_sets import open_images
from fairprobe.errors import FairprobeError
from fairprobe.schema.domain_file import read_domain

ROWS = ["age,sex,y", *(f"{20 + row % 40},{'fm'[row % 2]},{row % 3 % 2}" for row in range(90))]
DEEP = ("a = " + "[" * 100_000, "a = " + "{x=" * 100_000, "[" * 100_000, "a." * 20_000 + "b = 1")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_table_may_end_its_lines_as_any_system_does(tmp_path: Path, end: str) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes((end.join(ROWS) + end).encode())
    data = open_table(path, label="y", sensitive="sex")
    assert len(data) == 90
    assert data.domain.names == ("age", "sex")


def test_ragged_rows_with_old_line_ends_are_named(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes("\r".join([*ROWS[:5], "1,2,3,4", *ROWS[5:]]).encode())
    with pytest.raises(FairprobeError, match="Line 6 of"):
        open_table(path, label="y", sensitive="sex")


@pytest.mark.parametrize("text", DEEP)
def test_a_domain_file_that_is_nested_too_deep_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "domain.toml"
    path.write_text(text)
    with pytest.raises(FairprobeError):
        read_domain(path)


def header(text: bytes) -> bytes:
    """An array of numpy's format with this header."""
    line = text + b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


HEADERS = {
    "an open bracket": header(b"{'descr': '|u1', 'fortran_order': False, 'shape': (1, "),
    "an odd letter": header(b"{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }\x0c\x00\\"),
    "too many numbers": header(b"{'descr': '|u1', 'fortran_order': False, 'shape': (%d,)}" % 2**62),
    "negative numbers": header(b"{'descr': '|u1', 'fortran_order': False, 'shape': (-5, -5)}"),
    "an object": header(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"),
    "a deep expression": header(b"(" * 3_000),
    "an odd type": header(b"{'descr': [('a', '|u1')] * 10, 'fortran_order': 1, 'shape': ()}"),
    "an endless type": header(b"{'descr': '|S%d', 'fortran_order': False, 'shape': (9,)}" % 2**40),
    "nothing": b"",
}


@pytest.mark.parametrize("what", HEADERS)
def test_an_npz_with_a_damaged_array_is_refused(tmp_path: Path, what: str) -> None:
    path = tmp_path / "faces.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("images.npy", HEADERS[what])
    with pytest.raises(FairprobeError):
        open_images(path)


def test_an_npz_with_any_byte_damaged_is_read_or_refused(tmp_path: Path) -> None:
    whole = io.BytesIO()
    np.savez_compressed(whole, images=np.zeros((4, 8, 8, 3), np.uint8), gender=np.arange(4) % 2)
    content, rng = whole.getvalue(), np.random.default_rng(0)
    path = tmp_path / "faces.npz"
    for place in rng.integers(0, len(content), 300):
        broken = bytearray(content)
        broken[place] ^= int(rng.integers(1, 256))
        path.write_bytes(broken)
        try:
            open_images(path)
        except FairprobeError as error:
            assert str(error)  # noqa: PT017


def test_an_npz_that_unpacks_to_more_than_memory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, images=np.zeros((4, 8, 8, 3), np.uint8))
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02")  # its entry in the directory
    content[place + 24 : place + 28] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_sets, "MOST_BYTES", 2**30)
        patch.setattr("fairprobe.storage.UNPACKED", 2**40)
        with pytest.raises(FairprobeError, match="unpacks to"):
            open_images(path)


def test_an_npz_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, images=np.zeros((9_000, 8, 8, 3), np.uint8))
    assert len(open_images(path).images) == 9_000
    monkeypatch.setattr("fairprobe.storage.UNPACKED", 2**20)
    with pytest.raises(FairprobeError, match="would unpack to"):
        open_images(path)


def test_a_table_in_gzip_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress("\n".join([*ROWS, *["20,f,0"] * 300_000]).encode()))
    assert len(open_table(path, label="y", sensitive="sex")) == 300_090
    monkeypatch.setattr("fairprobe.storage.UNPACKED", 2**20)
    with pytest.raises(FairprobeError, match="would unpack to"):
        open_table(path, label="y", sensitive="sex")


def test_a_table_with_an_endless_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress(("\n".join([*ROWS, "a" * 2**25])).encode()))
    with pytest.raises(FairprobeError, match="a line of more than 16 MiB"):
        open_table(path, label="y", sensitive="sex")


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    for name in ("people.csv", "people.parquet", "faces.npz"):
        os.mkfifo(tmp_path / name)
    for name in ("people.csv", "people.parquet"):
        with pytest.raises(FairprobeError, match="not a regular file but a pipe or a device"):
            open_table(tmp_path / name, label="y", sensitive="sex")
    with pytest.raises(FairprobeError, match="not a regular file but a pipe or a device"):
        open_images(tmp_path / "faces.npz")
