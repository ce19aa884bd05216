"""Hostile archives and run folders: bombs, names that leave their folder, documents that name
somebody else's code. Adds to `WRITERS` as the files do.
"""

from __future__ import annotations

import gzip
import io
import json
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from campaign.hostile_files import QUICK, WRITERS, Case, case, packed
from campaign.originals import TABLE

BOMB = 3 * 2**30  # bytes that a small file unpacks to

# -- archives --------------------------------------------------------------------------------------


def _bomb(prefix: bytes = b"") -> tuple[bytes, int]:
    """A deflate stream of a prefix and BOMB zero bytes, and its checksum."""
    block = bytes(2**20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    stream = packer.compress(prefix) + packer.flush(zlib.Z_FULL_FLUSH)
    one = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = zlib.crc32(prefix)
    for _ in range(BOMB // len(block)):
        checksum = zlib.crc32(block, checksum)
    return stream + one * (BOMB // len(block)) + packer.flush(), checksum


def _zip_bomb(name: str, prefix: bytes, others: dict[str, bytes]) -> bytes:
    """An archive of which one record unpacks to BOMB bytes."""
    stream, checksum = _bomb(prefix)
    entry = name.encode()
    sizes = struct.pack("<III", checksum, len(stream), BOMB + len(prefix))
    local = b"PK\x03\x04" + struct.pack("<HHHHH", 20, 0, 8, 0, 33) + sizes
    local += struct.pack("<HH", len(entry), 0) + entry + stream
    central = b"PK\x01\x02" + struct.pack("<HHHHHH", 20, 20, 0, 8, 0, 33) + sizes
    central += struct.pack("<HHHHHII", len(entry), 0, 0, 0, 0, 0, 0) + entry
    ending = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(central), len(local), 0)
    archive = local + central + b"PK\x05\x06" + ending
    buffer = io.BytesIO(archive)
    with zipfile.ZipFile(buffer, "a") as file:
        for other, content in others.items():
            file.writestr(other, content)
    return buffer.getvalue()


def _records(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def _bombed(given: Case, kind: str, ending: str, record: str) -> list[str]:
    records = _records(given.originals / kind / f"model.{ending}")
    found = next(name for name in records if record in name)
    return given.model(f"model.{ending}", _zip_bomb(found, records.pop(found), records))


@case("a zip bomb as .keras")
def _keras_bomb(given: Case) -> list[str]:
    return _bombed(given, "keras", "keras", "config.json")


@case("a zip bomb as torch.export")
def _export_bomb(given: Case) -> list[str]:
    return _bombed(given, "pt2", "pt2", ".json")


@case("a zip bomb as .skops")
def _skops_bomb(given: Case) -> list[str]:
    return _bombed(given, "skops", "skops", "schema.json")


@case("a zip bomb as .npz")
def _npz_bomb(given: Case) -> list[str]:
    records = _records(given.originals / "npz" / "faces.npz")
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118)
    shape = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({BOMB},), }}"
    records.pop("images.npy")
    path = given.folder / "faces.npz"
    path.write_bytes(_zip_bomb("images.npy", header + shape.ljust(117).encode() + b"\n", records))
    return ["audit-images", str(path), "--sensitive", "gender", "--out", str(given.folder / "out")]


@case("a gzip bomb as table")
def _gzip_bomb(given: Case) -> list[str]:
    block = gzip.compress(b"1,2,female,nurse,yes\n" * 50_000, mtime=0)
    head = gzip.compress(b"age,score,sex,job,hired\n", mtime=0)
    path = given.folder / "people.csv.gz"
    path.write_bytes(head + gzip.compress(b"a" * 2**20, mtime=0) * (BOMB // 2**20) + block)
    return ["audit", str(path), *TABLE, *QUICK, "--out", str(given.folder / "out")]


@case("an archive with names that leave its folder")
def _traversal(given: Case) -> list[str]:
    records = _records(given.originals / "keras" / "model.keras")
    evil = {f"{'../' * 12}{str(given.canary)[1:]}": b"escaped", str(given.canary): b"escaped"}
    return given.model("model.keras", packed({**records, **evil}))


@case("a .skops with names that leave its folder")
def _skops_traversal(given: Case) -> list[str]:
    records = _records(given.originals / "skops" / "model.skops")
    return given.model("model.skops", packed({**records, str(given.canary): b"escaped"}))


@case("a tar archive as table")
def _tar(given: Case) -> list[str]:
    path = given.folder / "people.csv"
    with tarfile.open(path, "w:gz") as file:
        entry = tarfile.TarInfo(f"../../..{given.canary}")
        entry.size = 2
        file.addfile(entry, io.BytesIO(b"xx"))
    return ["audit", str(path), *TABLE, *QUICK, "--out", str(given.folder / "out")]


# -- run folders -----------------------------------------------------------------------------------


def forged(given: Case, source: str, **origin: Any) -> Path:
    """A run folder whose document names another model, with the right digest."""
    run = given.folder / "run"
    shutil.copytree(given.originals / "own-run" / "run", run)
    document = json.loads((run / "audit.json").read_text())
    file = source.rpartition(":")[0] if source.endswith(".py:build") else source
    path = Path(file)
    digests = {file: sha256(path.read_bytes()).hexdigest()} if path.is_file() else {}
    document["model"]["origin"] |= {"source": source, "files": digests, **origin}
    (run / "audit.json").write_text(json.dumps(document))
    uncertain = (document["dm_rs"]["low"] + document["dm_rs"]["high"]) / 2
    (given.folder / "policy.toml").write_text(
        f'uncertain = "more"\nmost_samples = 100000\n[limits]\ndm_rs = {uncertain}\n'
    )
    return run


def _evil_code(given: Case) -> str:
    path = given.folder / "evil.py"
    path.write_text(
        f"{given.program}from torch import nn\n\ndef build():\n    return nn.Linear(4, 2)\n"
    )
    return f"{path}:build"


def _check(given: Case, run: Path) -> list[str]:
    return ["check", str(run), "--policy", str(given.folder / "policy.toml")]


RUN_COMMANDS: dict[str, Callable[[Case, Path], list[str]]] = {
    "check": _check,
    "audit --model": lambda given, run: given.audit("--model", run),
    "repair": lambda given, run: [
        *("repair", str(run), "--no-curve", "--samples", "200", "--max-seeds", "3", "--quiet"),
        *("--out", str(given.folder / "out")),
    ],
}
for _verb, _words in RUN_COMMANDS.items():
    WRITERS[f"a forged run that names a Python file, for {_verb}"] = (
        lambda given, words=_words: words(given, forged(given, _evil_code(given)))  # type: ignore[misc]
    )
    WRITERS[f"a forged run that names an address, for {_verb}"] = (
        lambda given, words=_words: words(given, forged(given, f"{given.server}/predict"))  # type: ignore[misc]
    )


@case("a forged run that names an encoder in code")
def _run_encoder(given: Case) -> list[str]:
    model = str(given.originals / "onnx" / "model.onnx")
    return _check(given, forged(given, model, encoder=_evil_code(given)))


@case("a forged run with rates of -1")
def _negative_rates(given: Case) -> list[str]:
    run = forged(given, str(given.originals / "onnx" / "model.onnx"))
    document = json.loads((run / "audit.json").read_text())
    for name in ("estimate", "low", "high"):
        if name in document["dm_rs"]:
            document["dm_rs"][name] = -1
    (run / "audit.json").write_text(json.dumps(document))
    return _check(given, run)


@case("a run whose weights are a link to another file")
def _linked_weights(given: Case) -> list[str]:
    run = given.folder / "run"
    shutil.copytree(given.originals / "table-run" / "run", run)
    weights = run / "model" / "model.safetensors"
    weights.unlink()
    weights.symlink_to("/etc/passwd")
    return given.audit("--model", run)
