"""ONNX files that take text: one input of strings, and an output of class scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError
from fairprobe.models.formats import onnx_file
from fairprobe.models.formats.file_checks import are_probabilities, check_exists, first_line
from fairprobe.models.text import PROBE, TextModel

LOCALE = (
    "Words are put into lower case by the plain rules (locale C), because the locale that the file"
    " wants is not installed here; letters other than A to Z keep their case."
)


def open_onnx_text(source: str | Path, *, classes: Sequence[str] | None = None) -> TextModel:
    """An ONNX classifier of texts, run by onnxruntime."""
    path = Path(source)
    check_exists(path, onnx_file.KIND)
    model = onnx_file.read_graph(path)
    inputs = onnx_file.inputs_of(model, path.name)
    if len(inputs) != 1 or inputs[0].number != "object":
        raise ModelError(
            f"{path.name} takes {', '.join(f'{part.name} ({part.number})' for part in inputs)};"
            " expected one input of text. Export it together with its tokenizer, or give a function"
            " that calls it."
        )
    session, notes = _session(path, model)
    taken = inputs[0]
    axes = len(session.get_inputs()[0].shape or [])

    def run(texts: list[str], wanted: list[str] | None) -> list[Any]:
        given = np.array(texts, dtype=object)
        feeds = {taken.name: given if axes < 2 else given.reshape(-1, 1)}
        try:
            answer: list[Any] = session.run(wanted, feeds)
        except Exception as error:  # the errors of onnxruntime have no common class
            raise ModelError(
                f"onnxruntime cannot run {path.name} on {len(texts)} texts: {first_line(error)}."
            ) from error
        return answer

    names = [entry.name for entry in session.get_outputs()]
    some = dict(zip(names, map(onnx_file.plain, run([PROBE, PROBE], None)), strict=True))
    output, own = onnx_file.choose_output(some, path.name)
    is_logits = not are_probabilities(np.asarray(some[output][0], dtype=np.float32))

    def predict(texts: list[str]) -> Rows:
        values, _ = onnx_file.plain(run(texts, [output])[0])
        scores = np.asarray(values, dtype=np.float32).reshape(len(texts), -1)
        return probabilities_of(scores) if is_logits else scores

    return TextModel(
        predict,
        name=path.name,
        kind="ONNX file",
        classes=classes if classes is not None else own,
        origin=str(path),
        notes=notes,
    )


def _session(path: Path, model: Any) -> tuple[Any, list[str]]:
    """The session; where the file wants a locale that is not installed, the plain one is used."""
    try:
        return onnx_file.session_of(path, model), []
    except ModelError as error:
        if "locale" not in str(error):
            raise
    import onnx

    for node in model.graph.node:
        if node.op_type == "StringNormalizer":
            kept = [each for each in node.attribute if each.name != "locale"]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute("locale", "C")])
    return onnx_file.session_of(path, model, content=model.SerializeToString()), [LOCALE]


def probabilities_of(scores: Rows) -> Rows:
    """Logits as probabilities: a softmax, or a sigmoid where there is one column."""
    if scores.shape[1] == 1:
        one: Rows = (1 / (1 + np.exp(-scores))).astype(np.float32)
        return np.concatenate([1 - one, one], axis=1)
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: Rows = (raised / raised.sum(axis=1, keepdims=True)).astype(np.float32)
    return shares
