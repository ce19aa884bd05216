"""Serving protocols: how rows are written for a server, and how its answer is read.

    json        {"instances": rows}                             {"predictions": […]}
    mlflow      {"dataframe_split": {…}}, {"inputs": rows}      {"predictions": […]}
    kserve-v2   {"inputs": [{"name", "shape", "datatype"…}]}    {"outputs": [{"shape", "data"…}]}
    tf-serving  {"instances": rows}                             {"predictions": […]}
    seldon      {"data": {"names": […], "ndarray": rows}}       {"data": {"ndarray": […]}}
    bentoml     rows, or {PARAMETER: rows}                      […]

Rows are records (`{"age": 39, "sex": "Male"}`) or lists of numbers. An address shows its protocol
by its path; where it does not, a refused first request may (`hinted`). Answers are read alike for
all protocols: probabilities, labels, or amounts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from fairprobe.errors import ModelError, SettingError, suggest

Records = list[dict[str, Any]]
Lists = list[list[Any]]


@dataclass(frozen=True)
class Protocol:
    """Define how to talk to a model server.

    - `path`: what its addresses look like, None if they have no form of their own
    - `hint`: words of a server that expects this protocol and was sent another
    - `body`: the request for rows; `field` is where rows go, or the name of the input, if the user
      says so
    """

    name: str
    title: str
    body: Callable[[Records | Lists, str | None], Any]
    path: str | None = None
    hint: str | None = None


def _instances(rows: Records | Lists, field: str | None) -> Any:
    return {field or "instances": rows}


def _mlflow(rows: Records | Lists, field: str | None) -> Any:
    if not isinstance(rows[0], dict):
        return {field or "inputs": rows}
    columns = list(rows[0])
    data = [[row[name] for name in columns] for row in rows if isinstance(row, dict)]
    return {field or "dataframe_split": {"columns": columns, "data": data}}


def _seldon(rows: Records | Lists, field: str | None) -> Any:
    if not isinstance(rows[0], dict):
        return {"data": {field or "ndarray": rows}}
    columns = list(rows[0])
    data = [[row[name] for name in columns] for row in rows if isinstance(row, dict)]
    return {"data": {"names": columns, field or "ndarray": data}}


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


JSON = Protocol("json", "JSON with instances and predictions", _instances)
PROTOCOLS: tuple[Protocol, ...] = (
    Protocol(
        "mlflow",
        "MLflow's scoring server",
        _mlflow,
        r"/invocations/?$",
        r"dataframe_split|dataframe_records",
    ),
    Protocol(
        "kserve-v2",
        "Open Inference Protocol (KServe V2, MLServer, Triton)",
        _v2,
        r"/v2/models/[^/]+(/versions/[^/]+)?/infer/?$",
        r"datatype|\"body\", ?\"inputs\"",
    ),
    Protocol(
        "tf-serving", "TensorFlow Serving and KServe V1", _instances, r"/v1/models/[^/]+:predict/?$"
    ),
    Protocol("seldon", "Seldon Core 1", _seldon, r"/api/v[01](\.[01])?/predictions/?$", r"ndarray"),
    Protocol("bentoml", "BentoML", _bentoml),
    JSON,
)


def protocol_of(name: str, path: str) -> Protocol:
    """Return the protocol of this name; with "auto", the one that the path of an address shows."""
    if name == "auto":
        fitting = (
            protocol for protocol in PROTOCOLS if protocol.path and re.search(protocol.path, path)
        )
        return next(fitting, JSON)
    for protocol in PROTOCOLS:
        if protocol.name == name:
            return protocol
    names = [protocol.name for protocol in PROTOCOLS]
    raise SettingError(
        f"There is no protocol '{name}'. Protocols are {', '.join(names)}.{suggest(name, names)}"
    )


def hinted(refusal: str) -> Protocol | None:
    """Return the protocol that a server expects, by what it said to another one."""
    fitting = (
        protocol for protocol in PROTOCOLS if protocol.hint and re.search(protocol.hint, refusal)
    )
    return next(fitting, None)


# -- answers ---------------------------------------------------------------------------------------


def predictions(answer: Any, fields: Sequence[str], what: str, *, is_amount: bool = False) -> Any:
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
        tensor = data["tensor"]
        return _shaped(tensor.get("values"), tensor.get("shape"), what)
    expected = " or ".join(f"'{name}'" for name in fields)
    raise ModelError(
        f"{what} answered without {expected}; it has"
        f" {', '.join(map(repr, list(answer)[:8])) or 'no fields'}."
    )


def _from_tensors(outputs: list[dict[str, Any]], what: str, *, is_amount: bool) -> Any:
    """Choose the output of probabilities among those of the Open Inference Protocol, else the
    widest. Of amounts there must be one output only.
    """
    if not outputs:
        raise ModelError(f"{what} answered without outputs.")
    if is_amount:
        if len(outputs) > 1:
            names = ", ".join(str(output.get("name", "")) for output in outputs[:8])
            raise ModelError(
                f"{what} answered with several outputs ({names}); an amount is one. Serve a model"
                " with a single output."
            )
        return _shaped(outputs[0].get("data"), outputs[0].get("shape"), what)
    named = [output for output in outputs if "prob" in str(output.get("name", "")).lower()]

    def width(output: dict[str, Any]) -> int:
        shape = output.get("shape")
        return len(shape) if isinstance(shape, list) else 0

    chosen = named[0] if named else max(outputs, key=width)
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


def plain_rows(answer: list[Any], *, is_amount: bool = False) -> list[Any]:
    """Unwrap the predictions from what servers put around them: of a row's several outputs the one
    of probabilities, a list of one number as the number, and of amounts a record of one number,
    too.
    """
    plain = []
    for entry in answer:
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
        if isinstance(entry, list) and len(entry) == 1 and not isinstance(entry[0], list):
            entry = entry[0]
        plain.append(entry)
    return plain


def as_labels(
    answer: list[Any], classes: tuple[str, ...] | None, what: str
) -> list[list[float]] | None:
    """Turn labels into certain probabilities of the data's classes; None if the predictions are
    numbers that can be probabilities.
    """
    single = all(isinstance(label, str | bool | int | float) for label in answer)
    if not single or classes is None:
        return None
    words = any(isinstance(label, str) for label in answer)
    whole = all(not isinstance(label, str) and float(label).is_integer() for label in answer)
    if not words and not whole:
        return None
    names = [_name(label) for label in answer]
    named = set(names) <= set(classes) and all(isinstance(label, int) for label in answer)
    if not words and len(classes) == 2 and set(names) <= {"0", "1"} and not named:
        return None  # the probability of the second class, or its number
    classes_in_order = list(classes)
    if not set(names) <= set(classes_in_order) and not words:
        classes_in_order = [str(number) for number in range(len(classes))]
    if unknown := [name for name in names if name not in classes_in_order]:
        raise ModelError(
            f"{what} answered with the label '{unknown[0]}'; the classes of the data are"
            f" {', '.join(classes)}. Name them as the model does, or return probabilities."
        )
    return [[float(name == cls) for cls in classes_in_order] for name in names]


def _name(label: Any) -> str:
    plain = label if isinstance(label, str | bool) else int(label)
    return str(plain).strip()
