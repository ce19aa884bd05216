"""`Format`: a kind of model that can be loaded, described beside its code. `Opened`: a model that
was opened and is not yet joined with a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pandas as pd
from torch import nn

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import ModelError
from fairprobe.models.formats.trees import Ensemble
from fairprobe.models.torch_model import Outputs

Takes = Literal["numbers", "words"]
SCALES = (0.1, 1.0, 10.0, 100.0)
TRIED = 64  # random rows at each scale
WriteBack: TypeAlias = Callable[[nn.Module, Path], None]  # a network with new weights, and where to


@dataclass(frozen=True)
class Input:
    """Input of a model: its name, its number of columns, and whether it takes whole
    numbers, such as the positions of categories.
    """

    name: str
    width: int
    whole: bool = False


class Trial:
    """Provide rows to try a model with when it is opened. Without data they are random, small
    and large, always the same, and a model may refuse some of them; see `models.join` for rows of
    the data.
    """

    knows_people = False
    classes: tuple[str, ...] | None = None  # of the data
    is_amount = False  # whether the label of the data is an amount
    size: tuple[int, int] | None = None  # height and width, of pictures

    def rows(self, inputs: Sequence[Input], name: str) -> Rows:
        """Return (N, columns) rows for the inputs of the model `name`, side by side."""
        del name
        width = sum(part.width for part in inputs)
        return random_rows(width, whole=any(part.whole for part in inputs))

    def layouts(self, names: Sequence[str], *, coded: bool = False) -> list[tuple[Input, ...]]:
        """Return the possible inputs of a model that does not say how wide they are. A network with
        embeddings takes categories by position (`coded`).
        """
        del names, coded
        return []


def random_rows(width: int, *, whole: bool = False) -> Rows:
    """Draw rows to try a model with, small and large, always the same. `whole`: no fractions."""
    rng = np.random.default_rng(20)
    rows = np.concatenate(
        [rng.normal(scale=scale, size=(TRIED, width)) for scale in SCALES]
    ).astype(np.float32)
    return np.rint(rows) if whole else rows


@runtime_checkable
class Varying(Protocol):
    """Program that may answer the same rows differently (`Model.settle`, `answer_shares`)."""

    def settle(self, frame: pd.DataFrame) -> None: ...

    def shares(self, frame: pd.DataFrame) -> Floats: ...


@dataclass(frozen=True, kw_only=True)
class Opened:
    """Describe a user's own model: what it takes, how it predicts, and its network if accessible.

    It takes *numbers*, a float32 array (n, width) of the columns that it was trained on, or
    *words*, a pandas DataFrame of the table's own columns and values. `predict` is the user's own
    program, unchanged: it returns (n, C) or (n,) scores of kind `outputs`. `network` is the same as
    a torch module on numbers, and `encode` turns what the model takes into these numbers (a
    pipeline's first steps). `why` says in a sentence why there is no network. `width`, `columns`
    and `classes` are None where the model does not say. `write_back` writes a network like
    `network`, with other weights, to a file of the same format with this `ending`; None where that
    is not possible. `inputs` are those of a model that has several; side by side they are its
    columns. `program` is what a post-hoc repair is built around: a fitted classifier, or an
    ONNX graph (`onnx_file.Graph`). `trees` reads the trees of a model that adds them up.
    `is_sized` says that a file takes pictures of any size and was opened for that of the trial.
    """

    kind: str
    name: str
    takes: Takes
    predict: Callable[[Any], Any]
    width: int | None = None
    columns: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    network: nn.Module | None = None
    encode: Callable[[Any], Any] | None = None
    outputs: Outputs = "auto"
    why: str = ""
    write_back: WriteBack | None = None
    ending: str = ""
    inputs: tuple[Input, ...] = ()
    program: Any = None
    trees: Callable[[], Ensemble | None] | None = None
    is_sized: bool = False

    @classmethod
    def of_numbers(cls, inputs: Sequence[Input], **fields: Any) -> Opened:
        """Describe a model that takes these inputs side by side, as one table of numbers."""
        several = len(inputs) > 1
        return cls(
            takes="numbers",
            width=sum(part.width for part in inputs),
            columns=tuple(part.name for part in inputs) if several else None,
            inputs=tuple(inputs) if several else (),
            **fields,
        )


@dataclass(frozen=True, kw_only=True)
class Format:
    """Describe a kind of model that can be loaded.

    - `name`, `title`, `about`: for lists; `about` is one sentence
    - `given`: what to pass as the model, such as "file.onnx"
    - `endings`: of its files, in lower case; none if it is not a file
    - `white_box`: whether the network inside is accessible, and on what condition
    - `install`: the package to install first, if any
    - `open`: reads it
    - `is_tried`: whether `open` takes a `Trial`, because a model is run when it is opened
    - `write_back`: writes a copy of the file `source` with the weights of a repaired network, which
      has the shape of the one that `open` returns; `written` says in a few words what comes out
    """

    name: str
    title: str
    about: str
    given: str
    white_box: str
    open: Callable[..., Opened]
    endings: tuple[str, ...] = ()
    install: str = ""
    is_tried: bool = False
    write_back: Callable[..., None] | None = None
    written: str = "not by training: its weights are not accessible"


def import_library(module: str, what: str, install: str) -> Any:
    """Import a library that a format needs, or raise an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ModelError(
            f'Reading {what} needs {module}. Install it: pip install "{install}".'
        ) from error
