"""Chunks of seeds: what a search consists of, what is kept of each, and where that is kept.

A chunk has its own random numbers, so what is found from it depends on nothing else. A `Checkpoint`
holds the results of finished chunks in a folder, with a fingerprint of all they depend on.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.errors import FairprobeError, SettingError
from fairprobe.locks import FINGERPRINT
from fairprobe.search.ledger import Entered, Ledger, in_memory, size, unique
from fairprobe.search.merge import Batch
from fairprobe.search.methods.base import Method
from fairprobe.storage import replacing, write_text


@dataclass(frozen=True)
class Chunk:
    """Seeds from `start` to `stop`, and the random numbers of their search."""

    start: int
    stop: int
    rng: np.random.Generator

    def __len__(self) -> int:
        return self.stop - self.start


def chunks_of(method: Method, seeds: int, values: int, rng: np.random.Generator) -> list[Chunk]:
    """Return the chunks of a search. They do not depend on where they are searched."""
    whole = Chunk(0, seeds, rng)
    return divided(method, whole, values) if method.by_seeds else [whole]


def divided(method: Method, chunk: Chunk, values: int) -> list[Chunk]:
    """Return a chunk in parts as large as the method works on at once."""
    size = method.seeds_at_once(values)
    starts = range(chunk.start, chunk.stop, size)
    return [
        Chunk(first, min(first + size, chunk.stop), rng)
        for first, rng in zip(starts, chunk.rng.spawn(len(starts)), strict=True)
    ]


@dataclass(frozen=True)
class ChunkResult:
    """Result of a chunk: all records found and tried, or the files they are in, and a row for
    each batch: how many were judged, where its records end among those found and tried, and its
    seconds of computing. `far` is how far the findings are from the records of the data, where it
    matters. `stopped` says why the chunk is not complete, `failure` what went wrong.
    """

    found: Entered
    tried: Entered
    steps: Floats  # (batches, 4)
    far: Floats | None = None
    stopped: str = ""
    failure: FairprobeError | None = None

    @classmethod
    def of(cls, batches: list[Batch], *, together: bool, **ended: Any) -> ChunkResult:
        """Put batches one behind the other. `together`: it does not matter which batch a record
        came with, so each is kept once.
        """
        found = np.concatenate([batch.found for batch in batches])
        tried = np.concatenate([batch.tried for batch in batches])
        steps = np.array(
            [(batch.judged, len(batch.found), len(batch.tried), batch.cpu) for batch in batches]
        )
        if together:
            found, tried = unique(found), unique(tried)
            steps = np.array([(steps[:, 0].sum(), len(found), len(tried), steps[:, 3].sum())])
        steps[:, 1:3] = steps[:, 1:3].cumsum(axis=0)
        return cls(found, tried, steps, **ended)

    @classmethod
    def of_ledger(cls, ledger: Ledger, judged: int, cpu: float, **ended: Any) -> ChunkResult:
        """All that a chunk has entered, each once, where it does not matter which batch a record
        came with.
        """
        found, tried = ledger.hand_over()
        return cls(found, tried, np.array([(judged, size(found), size(tried), cpu)]), **ended)

    def batches(self) -> Iterator[Batch]:
        """Return the batches again, in their order."""
        if not (isinstance(self.found, np.ndarray) and isinstance(self.tried, np.ndarray)):
            yield Batch(int(self.steps[0, 0]), self.found, self.tried, float(self.steps[0, 3]))
            return
        at_found = at_tried = 0
        for judged, found, tried, cpu in self.steps.tolist():
            rows = slice(at_found, int(found))
            far = None if self.far is None else self.far[rows]
            yield Batch(int(judged), self.found[rows], self.tried[at_tried : int(tried)], cpu, far)
            at_found, at_tried = int(found), int(tried)


class Checkpoint:
    """Results of finished chunks in a folder. What another fingerprint left there is refused."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.seconds = 0.0  # until the last chunk was finished
        check_fingerprint(folder, fingerprint)

    def numbers(self) -> set[int]:
        """Return the numbers of the chunks that are here."""
        return {int(path.stem[-6:]) for path in self.folder.glob("chunk-*.npz")}

    def read(self, number: int, kinds: tuple[np.dtype[Any], np.dtype[Any]]) -> ChunkResult | None:
        """Return the result of a chunk, with records of these types; None if it is missing or
        damaged.
        """
        try:
            with self._path(number).open("rb") as stream, np.load(stream) as file:
                found, tried, steps = file["found"], file["tried"], file["steps"]
                seconds = float(file["seconds"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            return None
        if (found.dtype, tried.dtype) != kinds or steps.shape[1:] != (4,):
            return None
        self.seconds = max(self.seconds, seconds)
        return ChunkResult(found, tried, steps)

    def write(
        self,
        number: int,
        result: ChunkResult,
        seconds: float,
        kinds: tuple[np.dtype[Any], np.dtype[Any]],
    ) -> None:
        """Keep the result of a chunk, with records of these types, that was finished after so many
        seconds. Where there is no room, it is searched again when it is needed.
        """
        found, tried = (
            in_memory(each, kind)
            for each, kind in zip((result.found, result.tried), kinds, strict=True)
        )
        with suppress(OSError), replacing(self._path(number)) as path, path.open("wb") as file:
            np.savez(file, found=found, tried=tried, steps=result.steps, seconds=seconds)

    def _path(self, number: int) -> Path:
        return self.folder / f"chunk-{number:06d}.npz"


def check_fingerprint(folder: Path, fingerprint: str) -> None:
    """Write the fingerprint of what a new folder is for; refuse a folder with another one."""
    try:
        found = (folder / FINGERPRINT).read_text(encoding="utf-8")
    except OSError:
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / FINGERPRINT, fingerprint)
        return
    if found != fingerprint:
        raise SettingError(
            "What is kept of the unfinished run was made from other data, another model, other"
            " settings or by another version of fairprobe. Repeat the command as it was, or start"
            " anew without --resume."
        )
