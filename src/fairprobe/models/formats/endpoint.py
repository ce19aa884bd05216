"""Models behind an HTTP address: rows are sent as JSON in batches, and probabilities come back.

    POST {"instances": [{"age": 39, "sex": "Male"}, …]}       with form="records"
         {"instances": [[39, 1], …]}                          with form="rows"
    ->   {"predictions": [0.2, …]}                            the probability of class 1,
         {"predictions": [[0.8, 0.2], …]}                     of every class,
         {"predictions": [{"no": 0.8, "yes": 0.2}, …]}        or of every class by name
    ->   {"predictions": [1250.5, …]}                         the amount, where that is audited

A bare list and {"probabilities": …} are accepted as well, labels too. Other servers have protocols
of their own:

    json        {"instances": rows}                             {"predictions": […]}
    mlflow      {"dataframe_split": {…}}, {"inputs": rows}      {"predictions": […]}
    kserve-v2   {"inputs": [{"name", "shape", "datatype"…}]}    {"outputs": [{"shape", "data"…}]}
    tf-serving  {"instances": rows}                             {"predictions": […]}
    seldon      {"data": {"names": […], "ndarray": rows}}       {"data": {"ndarray": […]}}
    bentoml     rows, or {PARAMETER: rows}                      […]

An address shows its protocol by its path; where it does not, a refused first request may. Failed
connections, time-outs, 429 and 5xx are retried with growing pauses.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import isfinite, prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.models.formats.base import Format, Opened, Trial
from fairprobe.models.formats.http import SHOWN, RefusedError, Send, Service, beginning, decoded

MAX_CONCURRENCY = 32  # requests
Form = Literal["records", "rows"]
Records = list[dict[str, Any]]
Lists = list[list[Any]]


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
        if not 1 <= concurrency <= MAX_CONCURRENCY:
            raise SettingError(
                f"An endpoint's concurrency is from 1 to {MAX_CONCURRENCY}; got {concurrency}."
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
            shape = (0,) if self._amounts else (0, len(self.classes or "01"))
            return np.empty(shape, dtype=np.float32)
        starts = list(range(0, len(x), self.batch))
        # The first alone: its answer shows the protocol and names the classes.
        first = self._batches(x, starts[:1])
        shares = [starts[1 + turn :: self._concurrency] for turn in range(self._concurrency)]
        shares = [share for share in shares if share]
        if len(shares) > 1:
            with ThreadPoolExecutor(len(shares)) as pool:
                batches = dict(chain(first, *pool.map(partial(self._batches, x), shares)))
        else:
            batches = dict(chain(first, *(self._batches(x, share) for share in shares)))
        if len({batch.shape[1:] for batch in batches.values()}) > 1:
            raise ModelError(
                f"{self.shown} answered with different numbers of classes in different batches."
            )
        return np.concatenate([batches[start] for start in starts])

    def _batches(self, x: pd.DataFrame | Rows, starts: list[int]) -> list[tuple[int, Rows]]:
        """Fetch the answers to the batches that start at these rows, by one connection."""
        with self._service.session() as send:
            return [(at, self._predict(send, x[at : at + self.batch], at)) for at in starts]

    def _predict(self, send: Send, x: pd.DataFrame | Rows, first: int) -> Rows:
        """Fetch the probabilities or amounts of a batch, whose first row is number `first`."""
        which = f"rows {first} to {first + len(x) - 1}"
        what = f"{self.shown} ({which})"
        rows: Any = records(x) if isinstance(x, pd.DataFrame) else _lists(x)

        def body() -> bytes:
            content = self._protocol.body(rows, self._rows_field)
            try:
                return json.dumps(content, default=_plain, allow_nan=False).encode()
            except (TypeError, ValueError) as error:
                raise ModelError(f"Cannot write {which} as JSON: {error}.") from error

        try:
            content = send(body(), what)
        except RefusedError as refusal:
            hinted = (
                each for each in PROTOCOLS if each.hint and re.search(each.hint, refusal.said)
            )
            protocol = None if self._is_sure else next(hinted, None)
            if protocol is None:
                raise
            self._protocol = protocol
            content = send(body(), what)
        self._is_sure = True
        answer = decoded(content, what, '{"predictions": [0.2, 0.7]}')
        answer = _predictions(answer, self._answer_fields, what, is_amount=self._amounts)
        if not isinstance(answer, list):
            raise ModelError(
                f"{what} answered with {_beginning(answer)}; expected a list of predictions."
            )
        if len(answer) != len(x):
            raise ModelError(
                f"{what} answered with {len(answer)} predictions to {len(x)} rows; expected one for"
                " each row."
            )
        answer = [_unwrapped(entry, is_amount=self._amounts) for entry in answer]
        read = self._numbers if self._amounts else self._table
        return read(answer, first, what)

    def _numbers(self, answer: list[Any], first: int, what: str) -> Rows:
        for row, value in enumerate(answer, start=first):
            if not _is_number(value) or not isfinite(value):
                raise ModelError(
                    f"{what} answered {_beginning(value)} for row {row}; expected one number,"
                    " because the label is audited as an amount. If the model answers with"
                    " classes, use --target classes."
                )
        return np.asarray(answer, dtype=np.float64)

    def _table(self, answer: list[Any], first: int, what: str) -> Rows:
        if isinstance(answer[0], dict):
            answer = self._by_name(answer, first, what)
        elif (labeled := as_labels(answer, self._labels, what)) is not None:
            answer, self.classes = labeled, self._labels
        for row, entry in enumerate(answer, start=first):
            numbers = entry if isinstance(entry, list) else [entry]
            if not numbers or not all(_is_number(p) and -1e-3 <= p <= 1 + 1e-3 for p in numbers):
                raise ModelError(
                    f"{what} answered {_beginning(entry)} for row {row}; expected a probability,"
                    " or a list with one for each class."
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
    trial = trial or Trial()
    try:
        endpoint = Endpoint(url, labels=trial.classes, amounts=trial.is_amount, **settings)
    except TypeError as error:
        raise SettingError(f"Invalid settings for an endpoint: {error}.") from error
    return Opened(
        kind="endpoint",
        name=endpoint.shown,
        takes="words" if endpoint.form == "records" else "numbers",
        predict=endpoint,
        outputs="amounts" if trial.is_amount else "probabilities",
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


# -- requests --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Protocol:
    """Define how to talk to a model server.

    - `body`: the request for rows; `field` is where rows go, or the name of the input, if the user
      says so
    - `path`: what its addresses look like, None if they have no form of their own
    - `hint`: words of a server that expects this protocol and was sent another
    """

    name: str
    body: Callable[[Records | Lists, str | None], Any]
    path: str | None = None
    hint: str | None = None


def _instances(rows: Records | Lists, field: str | None) -> Any:
    return {field or "instances": rows}


def _mlflow(rows: Records | Lists, field: str | None) -> Any:
    if not isinstance(rows[0], dict):
        return {field or "inputs": rows}
    data = [list(row.values()) for row in rows if isinstance(row, dict)]
    return {field or "dataframe_split": {"columns": list(rows[0]), "data": data}}


def _seldon(rows: Records | Lists, field: str | None) -> Any:
    if not isinstance(rows[0], dict):
        return {"data": {field or "ndarray": rows}}
    data = [list(row.values()) for row in rows if isinstance(row, dict)]
    return {"data": {"names": list(rows[0]), field or "ndarray": data}}


def _bentoml(rows: Records | Lists, field: str | None) -> Any:
    return {field: rows} if field else rows


def _v2(rows: Records | Lists, field: str | None) -> Any:
    """Write one tensor of numbers, or one for each column, as pandas' content type has it."""
    if not isinstance(rows[0], dict):
        flat = [value for row in rows for value in row]
        shape = [len(rows), len(rows[0])]
        return {"inputs": [_tensor(field or "input-0", shape, "FP32", flat)]}
    inputs = [
        _column(name, [row[name] for row in rows if isinstance(row, dict)]) for name in rows[0]
    ]
    return {"parameters": {"content_type": "pd"}, "inputs": inputs}


def _tensor(name: str, shape: list[int], kind: str, data: list[Any]) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": kind, "data": data}


def _column(name: str, values: list[Any]) -> dict[str, Any]:
    plain = [value.item() if hasattr(value, "item") else value for value in values]
    kinds = {type(value) for value in plain if value is not None}
    shape = [len(values), 1]
    if kinds <= {int} and None not in plain:
        return _tensor(name, shape, "INT64", plain)
    if kinds <= {int, float}:
        return _tensor(name, shape, "FP64", plain)
    if kinds == {bool} and None not in plain:
        return _tensor(name, shape, "BOOL", plain)
    words = [value if value is None else str(value) for value in plain]
    return {**_tensor(name, shape, "BYTES", words), "parameters": {"content_type": "str"}}


JSON = Protocol("json", _instances)
PROTOCOLS = (
    Protocol("mlflow", _mlflow, r"/invocations/?$", r"dataframe_split|dataframe_records"),
    Protocol(  # the Open Inference Protocol of MLServer and Triton, too
        "kserve-v2",
        _v2,
        r"/v2/models/[^/]+(/versions/[^/]+)?/infer/?$",
        r"datatype|\"body\", ?\"inputs\"",
    ),
    Protocol("tf-serving", _instances, r"/v1/models/[^/]+:predict/?$"),
    Protocol("seldon", _seldon, r"/api/v[01](\.[01])?/predictions/?$", r"ndarray"),
    Protocol("bentoml", _bentoml),
    JSON,
)


def protocol_of(name: str, path: str) -> Protocol:
    """Return the protocol of this name; with "auto", the one that the path of an address shows."""
    if name == "auto":
        fitting = (each for each in PROTOCOLS if each.path and re.search(each.path, path))
        return next(fitting, JSON)
    known = {protocol.name: protocol for protocol in PROTOCOLS}
    if name not in known:
        raise SettingError(
            f"There is no protocol '{name}'. Protocols are {', '.join(known)}."
            f"{suggest(name, known)}"
        )
    return known[name]


def records(frame: pd.DataFrame) -> Records:
    """Return the rows of a table by the names of its columns, with None for a gap."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(name): row[name] for name in row} for row in plain.to_dict("records")]


def _lists(x: Rows) -> Lists:
    rows = np.asarray(x)
    return [[None if value != value else value for value in row] for row in rows.tolist()]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a value of type {type(value).__name__} cannot be written")


# -- answers ---------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _beginning(value: Any) -> str:
    return beginning(json.dumps(value).encode())


def _predictions(answer: Any, fields: Sequence[str], what: str, *, is_amount: bool) -> Any:
    """Find the list of predictions in an answer of any protocol, one for each row."""
    if not isinstance(answer, dict):
        return answer
    if (field := next((name for name in fields if name in answer), None)) is not None:
        return answer[field]
    outputs, data = answer.get("outputs"), answer.get("data")
    if isinstance(outputs, list) and all(isinstance(output, dict) for output in outputs):
        return _from_tensors(outputs, what, is_amount=is_amount)
    if isinstance(outputs, list):
        return outputs
    if isinstance(data, dict) and isinstance(data.get("ndarray"), list):
        return data["ndarray"]
    if isinstance(data, dict) and isinstance(data.get("tensor"), dict):
        return _shaped(data["tensor"].get("values"), data["tensor"].get("shape"), what)
    expected = " or ".join(f"'{name}'" for name in fields)
    raise ModelError(
        f"{what} answered without {expected}; it has"
        f" {', '.join(map(repr, list(answer)[:8])) or 'no fields'}."
    )


def _from_tensors(outputs: list[dict[str, Any]], what: str, *, is_amount: bool) -> Any:
    """Choose the output of probabilities among those of the Open Inference Protocol, else the
    widest. Of amounts there must be one output only.
    """
    names = [str(output.get("name", "")) for output in outputs]
    if not outputs:
        raise ModelError(f"{what} answered without outputs.")
    if is_amount and len(outputs) > 1:
        raise ModelError(
            f"{what} answered with several outputs ({', '.join(names[:8])}); an amount is one."
            " Serve a model with a single output."
        )

    def preference(place: int) -> tuple[bool, int]:
        shape = outputs[place].get("shape")
        return "prob" in names[place].lower(), len(shape) if isinstance(shape, list) else 0

    chosen = outputs[max(range(len(outputs)), key=preference)]
    return _shaped(chosen.get("data"), chosen.get("shape"), what)


def _shaped(values: Any, shape: Any, what: str) -> Any:
    """Cut a flat list into a list for each row."""
    whole = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
    if not isinstance(values, list) or not whole or not shape:
        raise ModelError(f"{what} answered with a tensor without data or shape.")
    if values and isinstance(values[0], list):
        return values
    width = prod(shape[1:])
    if len(values) != shape[0] * width:
        raise ModelError(
            f"{what} answered with {len(values)} numbers for a tensor of shape {tuple(shape)}."
        )
    if len(shape) == 1 or width == 1:
        return values
    return [values[start : start + width] for start in range(0, len(values), width)]


def _unwrapped(entry: Any, *, is_amount: bool) -> Any:
    """Take a prediction out of what servers put around it: of several outputs the one of
    probabilities, a list of one number as the number, and of amounts a record of one number, too.
    """
    if isinstance(entry, dict) and is_amount:
        entry = next(iter(entry.values())) if len(entry) == 1 else entry
    elif isinstance(entry, dict):
        named = [
            value
            for name, value in entry.items()
            if "prob" in str(name).lower() and isinstance(value, list | dict)
        ]
        label = entry.get("label", entry.get("prediction")) if len(entry) < 3 else None
        if named:
            entry = named[0]
        elif isinstance(label, str) or (len(entry) == 1 and label is not None):
            entry = label
    is_single = isinstance(entry, list) and len(entry) == 1 and not isinstance(entry[0], list)
    return entry[0] if is_single else entry


def as_labels(
    answer: list[Any], classes: tuple[str, ...] | None, what: str
) -> list[list[float]] | None:
    """Turn labels into certain probabilities of the data's classes; None if the predictions are
    numbers that can be probabilities.
    """
    if classes is None or not all(isinstance(label, str | bool | int | float) for label in answer):
        return None
    words = any(isinstance(label, str) for label in answer)
    whole = all(not isinstance(label, str) and float(label).is_integer() for label in answer)
    if not words and not whole:
        return None
    names = [str(each if isinstance(each, str | bool) else int(each)).strip() for each in answer]
    named = set(names) <= set(classes) and all(isinstance(label, int) for label in answer)
    if not words and len(classes) == 2 and set(names) <= {"0", "1"} and not named:
        return None  # the probability of the second class, or its number
    if not words and not set(names) <= set(classes):
        classes = tuple(str(number) for number in range(len(classes)))
    if unknown := [name for name in names if name not in classes]:
        raise ModelError(
            f"{what} answered with the label '{unknown[0]}'; the classes of the data are"
            f" {', '.join(classes)}. Name them as the model does, or return probabilities."
        )
    return [[float(name == known) for known in classes] for name in names]
