"""TorchScript archives that lie about their tensors, or are nested so deep that torch crashes."""

from __future__ import annotations

import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fairprobe.errors import FairprobeError, ModelError
from fairprobe.models.formats.torch_file import open_torch
from fairprobe.models.formats.torch_records import check_records

Edit = Callable[[str, bytes], bytes]


class Embedded(nn.Module):
    """A network that takes codes, with a buffer that is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(10, 4), nn.Linear(12, 2)
        self.register_buffer("view", torch.arange(12.0).reshape(3, 4).t())

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.table(x.long()).flatten(1))  # type: ignore[no-any-return]


def saved(module: nn.Module, path: Path, example: Tensor | None = None) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(module) if example is None else torch.jit.trace(module, example)  # type: ignore[no-untyped-call]
        torch.jit.save(script, str(path))
    return path


@pytest.fixture
def good(tmp_path: Path) -> Path:
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    return saved(network, tmp_path / "good.pt")


def altered(good: Path, edit: Edit) -> Path:
    """A copy whose parts went through `edit`, with valid checksums."""
    path = good.with_name("altered.pt")
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            new.writestr(
                zipfile.ZipInfo(entry.filename), edit(entry.filename, old.read(entry.filename))
            )
    return path


def of(end: str, change: Callable[[bytes], bytes]) -> Edit:
    return lambda name, content: change(content) if name.endswith(end) else content


def statement(text: str) -> Edit:
    """A line before the first `return` of the program."""
    line = f"y = {text}\n    return".encode()
    return of(".py", lambda content: content.replace(b"return", line, 1))


LIES: dict[str, tuple[Edit, str]] = {
    "a shorter record": (of("/data/0", lambda record: record[:4]), "needs 48 bytes, and has 4"),
    "an empty record": (of("/data/0", lambda _: b""), "needs 48 bytes, and has 0"),
    "more numbers than the record": (
        of("data.pkl", lambda text: text.replace(b"K\x0ctQ", b"J\xff\xff\xff\x0ftQ", 1)),
        "and has 48",
    ),
    "a shape beyond the storage": (
        of("data.pkl", lambda text: text.replace(b"(K\x04K\x03t", b"(K\xffK\x03t", 1)),
        "reaches to number 764",
    ),
    "strides beyond the storage": (
        of("data.pkl", lambda text: text.replace(b"(K\x03K\x01t", b"(K\xffK\x01t", 1)),
        "reaches to number 767",
    ),
    "a negative stride": (
        of("data.pkl", lambda text: text.replace(b"(K\x03K\x01t", b"(J\xff\xff\xff\xffK\x01t", 1)),
        "without a valid shape",
    ),
    "a shape that repeats one number": (
        of(
            "data.pkl",
            lambda text: text.replace(
                b"(K\x04K\x03t(K\x03K\x01t", b"(J\xff\xff\xff\x7fK\x03t(K\x00K\x01t", 1
            ),
        ),
        "repeats record 0",
    ),
    "a function of Python": (
        of("constants.pkl", lambda _: pickle.dumps(print, protocol=4)),
        "in a pickle",
    ),
    "a memo of gigabytes": (
        of("constants.pkl", lambda _: b"\x80\x02)r" + struct.pack("<i", 2**31 - 1) + b"."),
        "counts wrong",
    ),
    "deep tuples": (
        of("constants.pkl", lambda _: b"\x80\x02)" + b"\x85" * 1_000_000 + b"."),
        "nested too deep",
    ),
    "half a pickle": (of("data.pkl", lambda text: text[: len(text) // 2]), "is incomplete"),
    "deep brackets": (statement("(" * 100_000 + "1" + ")" * 100_000), "too long"),
    "a long sum": (statement("1" + "+1" * 100_000), "too long"),
    "a sum over many lines": (statement("(1" + "\n+1" * 100_000 + ")"), "too long"),
    "deep blocks": (of(".py", lambda text: text + b"\n" + b" " * 5_000 + b"pass\n"), "too deep"),
}


@pytest.mark.parametrize("what", LIES)
def test_an_archive_that_would_make_torch_read_foreign_memory_or_crash_is_refused(
    good: Path, what: str
) -> None:
    edit, reason = LIES[what]
    path = altered(good, edit)
    if path.read_bytes() == good.read_bytes():
        pytest.fail("nothing was altered")
    with pytest.raises(ModelError, match="it is not loaded") as caught:
        open_torch(path)
    assert reason in str(caught.value)


def test_what_torch_and_zipfile_would_read_differently_is_refused(good: Path) -> None:
    for name, content in (("good/DATA/0", b"\0" * 48), ("good/model.json", b"{}"), ("x/y", b"")):
        path = altered(good, lambda _, content: content)
        with zipfile.ZipFile(path, "a") as file:
            file.writestr(name, content)
        with pytest.raises(ModelError, match="damaged or was altered"):
            open_torch(path)
    commented = altered(good, lambda _, content: content)
    with zipfile.ZipFile(commented, "a") as file:
        file.comment = b"anything"
    with pytest.raises(ModelError, match="before or after"):
        open_torch(commented)


def test_views_shared_storages_and_empty_tensors_are_fine(tmp_path: Path) -> None:
    network = Embedded()
    network.register_buffer("empty", torch.zeros(0, 5))
    network.register_buffer("repeated", torch.ones(1).expand(6))
    network.register_buffer("part", network.last.weight.detach()[:, 3:5])
    path = saved(network, tmp_path / "views.pt")
    with zipfile.ZipFile(path) as file:
        check_records(path.name, file)


@pytest.mark.parametrize("traced", [True, False])
def test_a_network_with_an_embedding_is_opened_and_answers_as_torch_does(
    tmp_path: Path, traced: bool
) -> None:
    network = Embedded().eval()
    path = saved(network, tmp_path / "codes.pt", torch.ones(2, 3) if traced else None)
    opened = open_torch(path)
    rows = np.random.default_rng(0).integers(0, 10, (20, 3)).astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(opened.predict(rows), expected, rtol=1e-5)
    with pytest.raises(ModelError, match="cannot take"):
        opened.predict(rows + 100)


def test_damage_at_any_byte_is_reported_in_a_sentence(good: Path) -> None:
    content = good.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 60):
        broken = bytearray(content)
        broken[place] ^= int(rng.integers(1, 256))
        path = good.with_name("broken.pt")
        path.write_bytes(broken)
        try:
            open_torch(path)
        except FairprobeError as error:
            assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.slow
def test_an_archive_that_unpacks_to_much_more_than_it_is_is_refused(good: Path) -> None:
    path = good.with_name("bomb.pt")
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry.filename))
        with new.open("good/extra/zeros", "w", force_zip64=True) as file:
            for _ in range(18):
                file.write(b"\0" * 2**26)
    with pytest.raises(FairprobeError, match="would unpack to"):
        open_torch(path)


def test_a_compressed_part_that_is_damaged_is_reported_in_a_sentence(good: Path) -> None:
    path = good.with_name("packed.pt")
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry.filename))
    content = path.read_bytes()
    for place in range(30, len(content), 97):
        broken = bytearray(content)
        broken[place : place + 4] = b"\xff\xff\xff\xff"
        path.write_bytes(broken)
        try:
            open_torch(path)
        except FairprobeError as error:
            assert "\n" not in str(error)  # noqa: PT017
