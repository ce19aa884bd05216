"""What the readers of model files share: is there a file, what do its answers look like, and does a
network answer the same.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.errors import FairprobeError, ModelError, StorageError
from fairprobe.models.torch_model import Outputs

Ask = Callable[[Rows], Any]

# how far a network rebuilt in torch may be from the file's own program; more is another network
TOLERANCE = 1e-4
SCALES = (0.1, 1.0, 10.0, 100.0)
TRIED = 64  # random rows at each scale
WIDEST = 512  # columns tried where a model does not say how many it takes


def check_exists(path: Path, kind: str) -> None:
    """Refuses what is no file, or an empty one."""
    if path.is_dir():
        raise StorageError(f"{path} is a folder; name the {kind} itself.")
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise StorageError(
            f"Cannot read {path}: {error.strerror}. Check the path of the {kind}."
        ) from error
    if size == 0:
        raise StorageError(f"{path} is empty; write the {kind} anew.")


@contextmanager
def archive(path: Path, kind: str) -> Iterator[zipfile.ZipFile]:
    """The zip archive that a file is; whatever is broken about it is said in a sentence."""
    try:
        with zipfile.ZipFile(path) as file:
            yield file
    except FairprobeError:
        raise
    except (
        zipfile.BadZipFile,
        KeyError,
        OSError,
        EOFError,
        ValueError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise ModelError(
            f"{path.name} is no whole {kind} ({first_line(error)}); write it anew."
        ) from error


def first_line(error: BaseException | str) -> str:
    """What a library says about its failure, without its stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:300]


def random_rows(width: int, *, whole: bool = False) -> Rows:
    """Rows to try a model with, small and large; always the same ones. `whole`: no fractions."""
    rng = np.random.default_rng(20)
    rows = np.concatenate(
        [rng.normal(scale=scale, size=(TRIED, width)) for scale in SCALES]
    ).astype(np.float32)
    return np.rint(rows) if whole else rows


def checked(ask: Ask, name: str, width: int | None) -> Ask:
    """The same function, with its rows and its answer looked at."""

    def careful(rows: Rows) -> Rows:
        given = np.asarray(rows, dtype=np.float32)
        if given.ndim != 2 or (width is not None and given.shape[1] != width):
            shown = given.shape[1] if given.ndim == 2 else f"shape {given.shape}"
            raise ModelError(
                f"{name} takes rows of {width if width is not None else 'several'} columns; it was"
                f" given {shown}."
            )
        try:
            answer = ask(given)
        except FairprobeError:
            raise
        except Exception as error:  # whatever the library raises inside the user's model
            raise ModelError(
                f"{name} cannot take {len(given)} rows of {given.shape[1]} columns:"
                f" {first_line(error)}."
            ) from error
        return scores(answer, len(given), name)

    return careful


def scores(answer: Any, rows: int, name: str) -> Rows:
    """(rows, C) or (rows,) class scores, or an error that says what came instead."""
    values = np.asarray(answer)
    if values.dtype.kind not in "f":
        raise ModelError(
            f"{name} answers labels ({values.dtype}), no class scores; save it so that it answers"
            " probabilities or logits."
        )
    if values.ndim not in (1, 2) or len(values) != rows or 0 in values.shape[1:]:
        raise ModelError(
            f"{name} answers shape {values.shape} to {rows} rows; expected ({rows}, classes) or"
            f" ({rows},)."
        )
    return values.astype(np.float32, copy=False)


def kind_of_scores(values: Rows) -> Outputs:
    """Whether a black box answers "probabilities" or "logits", judged by its answers to random
    rows.
    """
    within = bool(((values >= -1e-6) & (values <= 1 + 1e-6)).all())
    if values.ndim == 2 and values.shape[1] > 1:
        within = within and bool((np.abs(values.sum(axis=1) - 1) < 1e-3).all())
    return "probabilities" if within else "logits"


def difference(ask: Ask, network: Ask, rows: Rows) -> float:
    """The greatest difference of two models' answers, absolute for small numbers and relative for
    large ones.
    """
    worst = 0.0
    for start in range(0, len(rows), TRIED):
        ours, theirs = (
            np.squeeze(np.asarray(asked(rows[start : start + TRIED]), dtype=np.float64))
            for asked in (network, ask)
        )
        if ours.shape != theirs.shape or not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
            return float("inf")
        finite = np.isfinite(theirs)
        if finite.any():
            worst = max(
                worst,
                float(np.abs(ours - theirs)[finite].max() / max(1.0, np.abs(theirs[finite]).max())),
            )
    return worst


def find_widths(ask: Ask, likely: set[int]) -> list[int]:
    """The numbers of columns that a model takes, by trying these and all small ones."""
    tried = sorted({size for size in likely if 0 < size <= 1 << 16} | set(range(1, WIDEST + 1)))
    taken = [width for width in tried if _takes(ask, width)]
    return [
        width for width in taken if width > 1
    ] or taken  # one column is often spread over as many as are wanted


def _takes(ask: Ask, width: int) -> bool:
    try:
        ask(np.zeros((2, width), dtype=np.float32))
    except FairprobeError:  # it takes them, but what it answers is no good
        raise
    except (RuntimeError, ValueError, IndexError):
        return False
    return True
