"""Shared by the readers of model files: checks of the file, of what its model returns, and of a
network that was rebuilt from it; and new weights put into the file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.errors import DAMAGED, FairprobeError, ModelError, StorageError
from fairprobe.models.formats.base import SCALES, TRIED, Input, Trial, random_rows
from fairprobe.models.formats.graph import Unsupported
from fairprobe.models.torch_model import Outputs
from fairprobe.storage import check_regular, check_unpacked, replacing

Predict = Callable[[Rows], Any]
Array: TypeAlias = np.ndarray[Any, Any]
Arrays: TypeAlias = dict[str, Array]
Read: TypeAlias = Callable[[Arrays], nn.Module]
CANNOT: tuple[type[Exception], ...] = (Unsupported, *DAMAGED)

# The greatest difference between a rebuilt network and the file's own program.
TOLERANCE = 1e-4
ENCODED = (
    "It was given people of the data as numbers, by the encoder or else categories by their"
    " position or one-hot; give the encoder that it was trained with (--encoder)."
)
PICKLE = "a pickle, and opening a pickle runs whatever program is in it, so it is not opened"


# -- files -----------------------------------------------------------------------------------------


def check_exists(path: Path, kind: str) -> None:
    """Refuse a folder, a pipe, a missing, unreadable or empty file."""
    if path.is_dir():
        raise StorageError(f"{path} is a folder; name the {kind} itself.")
    check_regular(path)
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise StorageError(
            f"Cannot read {path}: {error.strerror}. Check the path of the {kind}."
        ) from error
    if size == 0:
        raise StorageError(f"{path} is empty; write the {kind} again.")


@contextmanager
def archive(path: Path, kind: str) -> Iterator[zipfile.ZipFile]:
    """Open the zip archive that a file is; report any damage in a sentence."""
    try:
        with zipfile.ZipFile(path) as file:
            yield file
    except FairprobeError:
        raise
    except DAMAGED as error:
        raise damaged(path.name, kind, error) from error


def check_archive(path: Path, file: zipfile.ZipFile) -> None:
    """Refuse an archive that unpacks to much more than it is, or of which a part differs from its
    checksum.
    """
    check_unpacked(path, sum(entry.file_size for entry in file.infolist()))
    if (broken := file.testzip()) is not None:
        raise ModelError(
            f"{path.name} is damaged (the checksum of {broken} differs); write it again."
        )


def damaged(name: str, kind: str, error: BaseException | str) -> ModelError:
    """Return the error about a file that is incomplete or not of its kind."""
    return ModelError(f"{name} is not a complete {kind} ({first_line(error)}); write it again.")


def first_line(error: BaseException | str) -> str:
    """Return the first line of a library's message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:300]


# -- answers ---------------------------------------------------------------------------------------


def tried(predict: Predict, trial: Trial, inputs: Sequence[Input], name: str) -> Rows:
    """Return rows that a model takes: people of the data, or those random ones that it does not
    refuse. An embedding refuses all but small whole numbers.
    """
    rows = trial.rows(inputs, name)
    if trial.knows_people:
        try:
            predict(rows)
        except ModelError as error:
            raise ModelError(f"{error} {ENCODED}") from error
        return rows
    small = np.abs(np.rint(rows[:TRIED])) % 2
    taken = []
    for part in (*np.split(rows, range(TRIED, len(rows), TRIED)), small):
        with suppress(ModelError):
            predict(part)
            taken.append(part)
    if not taken:
        predict(small * 0)
        taken = [small * 0]
    return np.concatenate(taken)


def predicting(
    module: nn.Module, *, dtype: torch.dtype = torch.float32, device: torch.device | None = None
) -> Predict:
    """Return a network as a function from rows to scores."""

    def predict(rows: Rows) -> Any:
        # A copy: a network that changes its input in place must not change the caller's rows.
        tensor = torch.from_numpy(np.array(rows, dtype=np.float32, order="C"))
        with torch.no_grad():
            answer = module(tensor.to(device, dtype))
        if not isinstance(answer, Tensor):
            raise ModelError(
                "The network must return one tensor of class scores; it returned"
                f" {type(answer).__name__}."
            )
        return (answer.float() if answer.is_floating_point() else answer).cpu().numpy()

    return predict


def checked(predict: Predict, name: str, width: int | None) -> Predict:
    """Return the same function, with checks of its rows and of what it returns."""

    def careful(rows: Rows) -> Rows:
        table = np.asarray(rows, dtype=np.float32)
        if table.ndim != 2 or (width is not None and table.shape[1] != width):
            shown = table.shape[1] if table.ndim == 2 else f"shape {table.shape}"
            raise ModelError(
                f"{name} takes rows of {width if width is not None else 'several'} columns; it was"
                f" given {shown}."
            )
        try:
            answer = predict(table)
        except FairprobeError:
            raise
        except Exception as error:  # whatever the library raises inside the user's model
            raise ModelError(
                f"{name} cannot take {len(table)} rows of {table.shape[1]} columns:"
                f" {first_line(error)}."
            ) from error
        return scores(answer, len(table), name)

    return careful


def scores(answer: Any, rows: int, name: str) -> Rows:
    """Return (rows, C) or (rows,) class scores, or raise an error that says what was returned
    instead.
    """
    values = np.asarray(answer)
    if values.dtype.kind not in "f":
        raise ModelError(
            f"{name} returns labels ({values.dtype}), not class scores; save it so that it returns"
            " probabilities or logits."
        )
    if values.ndim not in (1, 2) or len(values) != rows or 0 in values.shape[1:]:
        raise ModelError(
            f"{name} returns shape {values.shape} for {rows} rows; expected ({rows}, classes) or"
            f" ({rows},)."
        )
    return values.astype(np.float32, copy=False)


def dense(answer: Any, rows: int, what: str) -> Rows:
    """Return the result of an encoder as a float32 array (rows, width), or an error that says what
    is wrong with it.
    """
    if isinstance(answer, Tensor):
        answer = answer.detach().cpu()
    elif hasattr(answer, "toarray"):
        answer = answer.toarray()
    try:
        table = np.asarray(answer, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"{what} must turn every column into numbers: {str(error).rstrip('.')}. Encode words as"
            " numbers, too."
        ) from error
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != rows:
        raise ModelError(
            f"{what} returned shape {table.shape} for {rows} rows; expected ({rows}, columns)."
        )
    return table


def kind_of_scores(predict: Predict, rows: Rows) -> Outputs:
    """Return True if a black box returns "probabilities" or "logits", judged by its scores of these
    rows and of random ones that it takes.
    """
    tables = [predict(rows)]
    for part in np.split(random_rows(rows.shape[1]), len(SCALES)):
        with suppress(ModelError):
            tables.append(predict(part))
    return "probabilities" if all(map(are_probabilities, tables)) else "logits"


def are_probabilities(values: Rows) -> bool:
    """Return True if scores are between 0 and 1, and those of several classes add up to 1."""
    within = bool(((values >= -1e-6) & (values <= 1 + 1e-6)).all())
    if values.ndim == 2 and values.shape[1] > 1:
        within = within and bool((np.abs(values.sum(axis=1) - 1) < 1e-3).all())
    return within


def difference(predict: Predict, network: Predict, rows: Rows) -> float:
    """Return the greatest difference between two models' scores, absolute for small numbers and
    relative for large ones.
    """
    worst = 0.0
    for start in range(0, len(rows), TRIED):
        ours, theirs = (
            np.squeeze(np.asarray(model(rows[start : start + TRIED]), dtype=np.float64))
            for model in (network, predict)
        )
        if ours.shape != theirs.shape or not np.array_equal(np.isfinite(ours), np.isfinite(theirs)):
            return float("inf")
        finite = np.isfinite(theirs)
        if finite.any():
            apart = np.abs(ours - theirs)[finite].max() / max(1.0, np.abs(theirs[finite]).max())
            worst = max(worst, float(apart))
    return worst


# -- writing back ----------------------------------------------------------------------------------
# A reader transposes, joins and copies a file's numbers on their way into a network, each in its
# own way. Where a weight comes from is found by asking the reader: it reads the file again with
# every array filled with its own number, and once more with every number replaced by its position.
# What the network then holds says for each weight which number of which array it is. In the end the
# new arrays are read once more, and must give exactly the new network; otherwise they are not
# written.


def with_weights(read: Read, held: Mapping[str, Array], network: nn.Module, name: str) -> Arrays:
    """Put the weights of `network` into the float arrays `held` by a file. `read` is what the
    reader makes of such arrays; `name` is that of the file, for messages.
    """
    new = {key: np.array(value) for key, value in held.items()}
    try:
        before = _values(read(dict(new)))
        which = _values(read({key: np.full_like(new[key], n) for n, key in enumerate(new, 1)}))
        where = _values(read({key: _positions(value) for key, value in new.items()}))
    except CANNOT as error:
        raise refused(name, f"it cannot be read with other weights ({error})") from error
    wanted = _values(network)
    if before.keys() != wanted.keys():
        raise refused(name, "the repair changed the shape of the network")
    keys = list(new)
    for weight, value in wanted.items():
        if torch.equal(value, before[weight]):
            continue
        arrays = np.unique(which[weight].numpy())
        if len(arrays) != 1 or arrays[0] not in range(1, len(keys) + 1):
            raise refused(name, f"its weights '{weight}' are computed from several of its numbers")
        key = keys[int(arrays[0]) - 1]
        old, places = before[weight].numpy(), where[weight].numpy().astype(np.int64) - 1
        inside = places.min() >= 0 and places.max() < new[key].size
        if not inside or not np.array_equal(held[key].flat[places].astype(old.dtype), old):
            raise refused(name, f"its weights '{weight}' are computed from its numbers")
        new[key].flat[places] = value.numpy()
    after = _values(read(dict(new)))
    for weight, value in wanted.items():
        if not torch.equal(value, after[weight]):
            raise refused(name, f"its weights '{weight}' are used in several places")
    return new


def refused(name: str, why: str) -> ModelError:
    """Return the error about new weights that have no place in a file."""
    return ModelError(
        f"The repaired weights cannot be written into {name}: {why}. Repair the network in Python"
        " (fairprobe.repair) and save it there."
    )


def write_bytes(path: Path, content: bytes) -> None:
    """Write the whole file, or nothing."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _positions(array: Array) -> Array:
    """Replace every number by its position, from 1 on; positions that the array's type cannot
    distinguish stay wrong, and are recognized by their values.
    """
    return np.arange(1, array.size + 1).astype(array.dtype).reshape(array.shape)


def _values(network: nn.Module) -> dict[str, Tensor]:
    return {
        name: value.detach().cpu().clone()
        for name, value in network.state_dict().items()
        if isinstance(value, Tensor)
    }
