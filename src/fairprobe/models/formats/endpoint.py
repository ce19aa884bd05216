"""A model behind an HTTP address: rows are sent as JSON in batches, and probabilities come back.

    POST {"instances": [{"age": 39, "sex": "Male"}, …]}       with form="records"
         {"instances": [[39, 1], …]}                          with form="rows"
    ->   {"predictions": [0.2, …]}                            the probability of class 1,
         {"predictions": [[0.8, 0.2], …]}                     of every class,
         {"predictions": [{"no": 0.8, "yes": 0.2}, …]}        or of every class by name
    ->   {"predictions": [1250.5, …]}                         the amount, where that is audited

A bare list and {"probabilities": …} are accepted as well, labels too, and what other serving
protocols send (`protocols.py`). Failed connections, time-outs, 429 and
5xx are retried with growing pauses.
"""

from __future__ import annotations

import datetime
import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, SettingError
from fairprobe.models.formats.base import Format, Opened, Trial
from fairprobe.models.formats.http import SHOWN, RefusedError, Send, Service, beginning, decoded
from fairprobe.models.formats.protocols import (
    JSON,
    as_labels,
    hinted,
    plain_rows,
    predictions,
    protocol_of,
)

MOST_AT_ONCE = 32  # requests
Form = Literal["records", "rows"]


class Endpoint:
    """Call a service: from a DataFrame (form "records") or an array (form "rows") to probabilities.

    `concurrency` is how many requests are under way at once; a server that asks for a pause gets
    one from all of them. `labels` are the classes of the data, for servers that answer with labels;
    with `amounts` the answers are numbers of any size.
    `service` are the settings of `Service`: `timeout`, `retries`, `per_second`, `header`, `pause`,
    `ca`, `certificate`.
    """

    def __init__(
        self,
        url: str,
        *,
        form: Form = "records",
        batch: int = 512,
        rows_field: str | None = None,
        answer_field: str | None = None,
        protocol: str = "auto",
        concurrency: int = 1,
        labels: tuple[str, ...] | None = None,
        amounts: bool = False,
        **service: Any,
    ) -> None:
        if form not in ("records", "rows"):
            raise SettingError(f"An endpoint is sent 'records' or 'rows'; got '{form}'.")
        if batch < 1:
            raise SettingError(f"An endpoint's batch must be at least 1; got batch={batch}.")
        if not 1 <= concurrency <= MOST_AT_ONCE:
            raise SettingError(
                f"An endpoint's concurrency is from 1 to {MOST_AT_ONCE}; got {concurrency}."
            )
        self._service = Service(url, pauses_all=concurrency > 1, **service)
        self._protocol = protocol_of(protocol, self._service.url.path)
        self._is_sure = protocol != "auto" or self._protocol is not JSON
        self._concurrency, self._labels, self._amounts = concurrency, labels, amounts
        self.shown = self._service.shown
        self.form, self.batch = form, batch
        self.classes: tuple[str, ...] | None = None
        self._rows_field = rows_field
        self._answer_fields = (answer_field,) if answer_field else ("predictions", "probabilities")

    def __call__(self, x: pd.DataFrame | Rows) -> Rows:
        if not len(x):
            if self._amounts:
                return np.empty(0, dtype=np.float32)
            return np.empty((0, len(self.classes or "01")), dtype=np.float32)
        starts = list(range(0, len(x), self.batch))
        # The first alone: its answer shows the protocol and names the classes.
        parts = self._batches(x, starts[:1])
        shares = [starts[1 + turn :: self._concurrency] for turn in range(self._concurrency)]
        shares = [share for share in shares if share]
        if len(shares) > 1:
            with ThreadPoolExecutor(len(shares)) as pool:
                answers = list(pool.map(partial(self._batches, x), shares))
            by_start = {
                start: part
                for share, some in zip(shares, answers, strict=True)
                for start, part in zip(share, some, strict=True)
            }
            parts += [by_start[start] for start in starts[1:]]
        elif shares:
            parts += self._batches(x, shares[0])
        if len({part.shape[1:] for part in parts}) > 1:
            raise ModelError(
                f"{self.shown} answered with different numbers of classes in different batches."
            )
        return np.concatenate(parts)

    def _batches(self, x: pd.DataFrame | Rows, starts: list[int]) -> list[Rows]:
        """Fetch the probabilities of the batches that start at these rows, by one connection."""
        with self._service.session() as send:
            return [self._predict(send, x[at : at + self.batch], at) for at in starts]

    def _predict(self, send: Send, x: pd.DataFrame | Rows, first: int) -> Rows:
        """Fetch the probabilities or amounts of a batch, whose first row is number `first`."""
        which = f"rows {first} to {first + len(x) - 1}"
        what = f"{self.shown} ({which})"
        rows: Any = _records(x) if isinstance(x, pd.DataFrame) else _lists(x)

        def body() -> bytes:
            content = self._protocol.body(rows, self._rows_field)
            try:
                return json.dumps(content, default=_plain, allow_nan=False).encode()
            except (TypeError, ValueError) as error:
                raise ModelError(f"Cannot write {which} as JSON: {error}.") from error

        try:
            content = send(body(), what)
        except RefusedError as refusal:
            protocol = None if self._is_sure else hinted(refusal.said)
            if protocol is None:
                raise
            self._protocol = protocol
            content = send(body(), what)
        self._is_sure = True
        answer = self._predictions(decoded(content, what, '{"predictions": [0.2, 0.7]}'), what)
        answer = plain_rows(answer, is_amount=self._amounts)
        if len(answer) != len(x):
            raise ModelError(
                f"{what} answered with {len(answer)} predictions to {len(x)} rows; expected one for"
                " each row."
            )
        return (
            self._numbers(answer, first, what)
            if self._amounts
            else self._table(answer, first, what)
        )

    # -- reading the answer ------------------------------------------------------------------------

    def _predictions(self, answer: Any, what: str) -> list[Any]:
        answer = predictions(answer, self._answer_fields, what, is_amount=self._amounts)
        if not isinstance(answer, list):
            raise ModelError(
                f"{what} answered with {beginning(json.dumps(answer).encode())}; expected a list"
                " of predictions."
            )
        return answer

    def _numbers(self, answer: list[Any], first: int, what: str) -> Rows:
        for row, value in enumerate(answer, start=first):
            if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
                raise ModelError(
                    f"{what} answered {beginning(json.dumps(value).encode())} for row {row};"
                    " expected one number, because the label is audited as an amount. If the model"
                    " answers with classes, use --target classes."
                )
        return np.asarray(answer, dtype=np.float64)

    def _table(self, answer: list[Any], first: int, what: str) -> Rows:
        if isinstance(answer[0], dict):
            answer = self._by_name(answer, first, what)
        elif (labeled := as_labels(answer, self._labels, what)) is not None:
            answer, self.classes = labeled, self._labels
        for row, entry in enumerate(answer, start=first):
            numbers = entry if isinstance(entry, list) else [entry]
            if not numbers or not all(
                isinstance(p, int | float) and not isinstance(p, bool) and -1e-3 <= p <= 1 + 1e-3
                for p in numbers
            ):
                raise ModelError(
                    f"{what} answered {beginning(json.dumps(entry).encode())} for row {row};"
                    " expected a probability, or a list with one for each class."
                )
        if len({len(entry) if isinstance(entry, list) else 0 for entry in answer}) > 1:
            raise ModelError(f"{what} answered with lists of different lengths.")
        return np.asarray(answer, dtype=np.float32)

    def _by_name(self, answer: list[Any], first: int, what: str) -> list[Any]:
        """Sort the probabilities in the order of the class names, numbers before words."""
        names = self.classes or tuple(
            sorted(
                answer[0],
                key=lambda name: (float(name), name) if name.isdecimal() else (np.inf, name),
            )
        )
        for row, entry in enumerate(answer, start=first):
            if not isinstance(entry, dict) or set(entry) != set(names):
                came = ", ".join(entry) if isinstance(entry, dict) else json.dumps(entry)[:SHOWN]
                raise ModelError(
                    f"{what} named other classes for row {row} ({came}) than before"
                    f" ({', '.join(names)})."
                )
        self.classes = names
        return [[entry[name] for name in names] for entry in answer]


def open_endpoint(url: str, trial: Trial | None = None, **settings: Any) -> Opened:
    """Open a model behind an address, as a black box; the settings are those of `Endpoint`."""
    try:
        labels = None if trial is None else trial.classes
        is_amount = trial is not None and trial.is_amount
        endpoint = Endpoint(url, labels=labels, amounts=is_amount, **settings)
    except TypeError as error:
        raise SettingError(f"Invalid settings for an endpoint: {error}.") from error
    return Opened(
        kind="endpoint",
        name=endpoint.shown,
        takes="words" if endpoint.form == "records" else "numbers",
        predict=endpoint,
        outputs="amounts" if is_amount else "probabilities",
        why="It is behind an address: it can be queried, but its inside cannot be seen.",
    )


ENDPOINT = Format(
    name="endpoint",
    title="A service",
    about=(
        "A model behind an HTTP address that takes rows and returns probabilities, labels or"
        " amounts as JSON."
    ),
    given="https://…",
    white_box="no",
    open=open_endpoint,
)


# -- JSON ------------------------------------------------------------------------------------------


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(name): row[name] for name in row} for row in plain.to_dict("records")]


def _lists(x: Rows) -> list[list[float | None]]:
    rows = np.asarray(x)
    lists: list[list[float | None]] = rows.tolist()
    if np.isnan(rows).any():
        lists = [[None if value != value else value for value in row] for row in lists]
    return lists


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written")
