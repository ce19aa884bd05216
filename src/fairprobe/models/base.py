"""`Model`: a black box that turns coded rows into class probabilities. It wraps any callable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.errors import FairprobeError, ModelError
from fairprobe.models.chain import Passed
from fairprobe.models.decision import Decision, DecisionRule

if TYPE_CHECKING:
    from fairprobe.datasets.base import Outline
    from fairprobe.models.join import Joint


SCORES = (  # what to do about single numbers that are no probabilities
    "If the model answers with amounts or scores, audit it so: --target amount, or"
    " fairprobe.audit(...). If these are logits, apply a sigmoid first."
)


@dataclass(frozen=True)
class About:
    """Describe a user's own model: its kind and name, why it is a black box, and the
    attributes it is not given.

    `origin` describes how it was loaded, as plain data, so that it can be loaded again.
    """

    kind: str
    name: str
    why: str = ""
    blind_to: tuple[str, ...] = ()
    origin: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Own:
    """Write a user's own network again in the format it came in: the `name` of its file,
    `write` for a module of the same shape with other weights, and `reopen` for what was written,
    with the options of the first time.
    """

    name: str
    write: Callable[[nn.Module, Path], None]
    reopen: Callable[[Path], Model]


class Model:
    """Black-box classifier: `predict` takes (n, A) rows and returns (n, C) probabilities, or
    (n,) of class 1.

    >>> Model(classifier.predict_proba)  # scikit-learn, XGBoost, an HTTP client …
    """

    def __init__(self, predict: Callable[[Rows], Any], *, batch: int = 16384) -> None:
        self._predict = predict
        self._batch = batch
        self.about: About | None = None  # of a model that was loaded
        self.original: Model | None = None  # the user's own program, if this was rebuilt from it
        self.own: Own | None = None  # of a user's network that can be written again
        self.joint: Joint | None = None  # of a user's own program: how it was joined with the data
        self.decision: DecisionRule | None = None  # None: a person gets the most probable class
        # Of a model whose answers vary: ask again about rows, so that `probabilities` is a tie
        # wherever the answers differ.
        self.settle: Callable[[Rows], None] | None = None
        # Of the same: (N, C + 1) how often each class was answered, and last how often none was.
        self.answer_shares: Callable[[Rows], Floats] | None = None

    def probabilities(self, x: Rows) -> Rows:
        """Return (N, C) class probabilities, computed in batches to bound memory."""
        if len(x) <= self._batch:
            return self._checked(x, 0)
        parts = [
            self._checked(x[first : first + self._batch], first)
            for first in range(0, len(x), self._batch)
        ]
        if len(widths := {part.shape[1] for part in parts}) > 1:
            raise ModelError(
                "The model returned different numbers of classes:"
                f" {', '.join(map(str, sorted(widths)))}."
            )
        return np.concatenate(parts)

    def probabilities_and_logits(self, x: Rows) -> tuple[Rows, Rows | None]:
        """Return (N, C) class probabilities, and their logits where these are known."""
        return self.probabilities(x), None

    def log_odds(self, x: Rows) -> tuple[Rows, Passed | None] | None:
        """Return (N,) the log-odds of class 1 where a network of two classes computes them
        directly, and its intermediate results where these are known; else None.
        """
        del x
        return None

    def labels(self, x: Rows) -> Ints:
        """Return (N,) the answer for each row: the most probable class, or the one by the decision
        rule.
        """
        best: Ints = self.scores(x, self.probabilities(x)).argmax(axis=1)
        return best

    def scores(self, x: Rows, p: Rows) -> Rows:
        """Return (N, C) scores of rows with these probabilities: the highest is the answer."""
        return p if self.decision is None else self.decision.scores(x, p)

    def with_decision(self, decision: Decision | None, data: Outline) -> Self:
        """Return the same model with another decision rule; with None, unchanged."""
        if decision is None:
            return self
        model = self._copy()
        model.decision = decision.bind(data)
        if self.original is not None:
            model.original = self.original.with_decision(decision, data)
        return model

    def without_original(self) -> Self:
        """Return the same model without the user's own program, as a search uses it."""
        model = self._copy()
        model.original = model.own = None
        return model

    def _copy(self) -> Self:
        model = copy(self)
        if getattr(self._predict, "__self__", None) is self:
            model._predict = MethodType(self._predict.__func__, model)
        return model

    def _checked(self, x: Rows, first: int) -> Rows:
        with self._explaining(x):
            # A copy: a model that scales its input in place must not change the caller's rows.
            answer = self._predict(x.copy())
        return check_probabilities(answer, len(x), first)

    @contextmanager
    def _explaining(self, x: Rows) -> Iterator[None]:
        """Say what the model was given when it fails."""
        try:
            yield
        except FairprobeError:
            raise
        except Exception as error:
            raise ModelError(
                f"The model failed on {len(x)} rows of {x.shape[1]} columns"
                f" ({type(error).__name__}: {error}). It is given a NumPy array of codes, a column"
                " for each attribute; wrap it in a function if it needs something else, such as a"
                " DataFrame."
            ) from error


def check_probabilities(answer: Any, rows: int, first: int) -> Rows:
    """Return the result of a model as (rows, C) probabilities, or raise an error that says what is
    wrong with it.
    """
    if isinstance(answer, Tensor):
        answer = answer.detach().cpu()
    try:
        p = np.asarray(answer, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ModelError(f"The model did not return a table of probabilities: {error}.") from error
    if p.ndim == 2 and p.shape[1] == 1:
        p = p[:, 0]
    is_single = p.ndim == 1 and len(p) == rows
    if is_single:
        p = np.stack([1 - p, p], axis=1)
    if p.ndim != 2 or len(p) != rows or p.shape[1] == 0:
        raise ModelError(
            f"The model returned shape {p.shape} for {rows} rows; expected ({rows}, classes) or"
            f" ({rows},)."
        )
    # One sum detects every NaN and infinity; the row is searched only for the message.
    if not np.isfinite(p.sum()):
        row = int(np.argmax(~np.isfinite(p).all(axis=1)))
        raise ModelError(
            f"The model's output for row {first + row} is not finite ({p[row].tolist()}). Check its"
            " weights and the scale of its inputs."
        )
    if rows and (p.min() < -1e-3 or p.max() > 1 + 1e-3):
        row = int(np.argmax((p < -1e-3).any(axis=1) | (p > 1 + 1e-3).any(axis=1)))
        raise ModelError(
            f"The model's output for row {first + row} is not a probability ({p[row].tolist()})."
            f" {SCORES if is_single else 'Wrap logits in a softmax first.'}"
        )
    return p
