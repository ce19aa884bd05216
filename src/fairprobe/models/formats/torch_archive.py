"""Copies of TorchScript and torch.export archives in which some records hold other numbers.

Everything else in an archive stays as it is, byte for byte: its program, its names, its versions.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from torch import nn

from fairprobe.models.formats.write_back import Array, Arrays, with_weights, write_bytes

ALIGNED = 64  # bytes; torch begins every record at a multiple, so that it can be mapped to memory
HEADER = 30  # bytes of a local header, without the name
PADDING = b"FB"  # torch's name of the field that fills a header up


def write_records(
    source: Path,
    kinds: Mapping[str, str],
    read: Callable[[zipfile.ZipFile], nn.Module],
    network: nn.Module,
    target: Path,
) -> None:
    """Write a copy of an archive with the weights of `network`. `kinds` are its records of
    floating-point numbers with their types, `read` rebuilds the network of an archive.
    """
    content = source.read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        held = {name: np.frombuffer(file.read(name), kind) for name, kind in kinds.items()}

    def read_with(arrays: Arrays) -> nn.Module:
        with zipfile.ZipFile(io.BytesIO(_with_records(content, arrays))) as changed:
            return read(changed)

    new = with_weights(read_with, held, network, source.name)
    write_bytes(target, _with_records(content, new))


def _with_records(content: bytes, arrays: Mapping[str, Array]) -> bytes:
    made = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as new,
    ):
        for entry in old.infolist():
            name = entry.filename
            array = arrays.get(name)
            start = made.tell() + HEADER + len(name.encode()) + 4
            filled = -start % ALIGNED
            copied = zipfile.ZipInfo(name, entry.date_time)
            copied.extra = PADDING + filled.to_bytes(2, "little") + b"Z" * filled
            new.writestr(copied, old.read(entry) if array is None else array.tobytes())
    return made.getvalue()
