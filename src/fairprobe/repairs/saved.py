"""Post-hoc repair as a file: what is written, in the format the model came in where that has one
that can hold it.

    a classifier of scikit-learn, XGBoost or LightGBM      .skops, a classifier around it
    an ONNX file of numbers                                .onnx, one graph
    everything else that was opened by name: endpoints,    .py, a function around it, which opens
    own code, ONNX files of text, XGBoost's own files      the model where it is
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np

from fairprobe.arrays import Floats
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError
from fairprobe.models import Model, ScoreModel
from fairprobe.models.formats.base import Trial
from fairprobe.models.formats.onnx_file import Graph
from fairprobe.models.join import Joint, class_order, softmax
from fairprobe.models.load import open_model
from fairprobe.repairs.onnx_graph import Scores, composed
from fairprobe.repairs.plans import Plan, decoded, plan_of
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.wrappers import fitted_classifier
from fairprobe.storage import replacing

PEOPLE = 2_000  # whose labels show which label belongs to which class
FUNCTION = '''\
"""{title}, around {source}.

Written by fairprobe. The model is opened when the function is first called:

    from {module} import predict

    predict({argument})  # {shape}
"""

import json

{imports}
from fairprobe.repairs.saved import saved_function

MODEL = json.loads({model})
PLAN = json.loads({plan})

_answer = saved_function(MODEL, PLAN)


def predict({argument}: {kind}) -> np.ndarray:
    """{returns} after the repair."""
    return _answer({argument})
'''


def save_repaired(
    repair: PostHoc, repaired: Model, joint: Joint, data: Dataset, folder: Path, name: str
) -> tuple[Path, dict[str, Any]] | None:
    """Write a repaired model into a folder under its name, with the ending of what it becomes.
    Return the file, and the options that it is opened with in place of the first ones; None for a
    model without a name, which no file can hold.
    """
    program, stem = joint.opened.program, name.rpartition(":")[2].partition("?")[0]
    if isinstance(repaired, ScoreModel):
        program = None  # only a function holds an average of amounts
    if isinstance(program, Graph):
        plan = plan_of(repair, repaired, data, to_numbers=joint.to_numbers, order=joint.order)
        return _save_onnx(program, plan, joint, data, folder / name), {}
    if program is not None:
        plan = plan_of(repair, repaired, data, to_numbers=joint.to_numbers, order=joint.order)
        return _save_skops(program, plan, folder / f"{Path(stem).stem or 'model'}.skops"), {}
    if repaired.about is None or (origin := _origin(repaired)) is None:
        return None
    plan = plan_of(repair, repaired, data, to_numbers=joint.to_numbers)
    file = folder / "repaired.py"
    text = _function(repair, plan, joint, data, origin)
    with replacing(file) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return file, {"outputs": "auto", "classes": None}


def _origin(repaired: Model) -> Mapping[str, Any] | None:
    given = getattr(repaired, "given", repaired)
    return None if given.about is None else given.about.origin


def _save_skops(estimator: Any, plan: Plan, file: Path) -> Path:
    import skops.io

    with replacing(file) as temporary:
        skops.io.dump(fitted_classifier(estimator, plan), temporary)
    return file


def _save_onnx(graph: Graph, plan: Plan, joint: Joint, data: Dataset, file: Path) -> Path:
    if graph.rows is not None:
        raise ModelError(
            f"{file.name} takes {graph.rows} rows at a time, so counterparts cannot be predicted"
            " with them. Export it with a free number of rows."
        )
    assert joint.to_numbers is not None
    scores = _scores(graph, joint, joint.to_numbers(data.x[:PEOPLE]), file.name)
    made = composed(graph.model, plan, scores, graph.widths)
    with replacing(file) as temporary:
        temporary.write_bytes(made.SerializeToString())
    return file


def _scores(graph: Graph, joint: Joint, numbers: Any, name: str) -> Scores:
    """Recognize the outputs of a graph by its answers about people."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        graph.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds, start = {}, 0
    kinds = {entry.name: entry.type for entry in session.get_inputs()}
    for each, width in graph.widths.items():
        kind = {"tensor(float)": "float32", "tensor(double)": "float64"}.get(
            kinds[each], kinds[each].removeprefix("tensor(").rstrip(")")
        )
        feeds[each] = numbers[:, start : start + width].astype(kind)
        start += width
    names = [entry.name for entry in session.get_outputs()]
    answers = dict(zip(names, session.run(names, feeds), strict=True))
    found = answers.pop(graph.output)
    if not isinstance(found, np.ndarray) or found.ndim > 2:
        raise ModelError(
            f"{name} returns a dictionary for each row. Export it with a table of probabilities"
            " (zipmap=False)."
        )
    columns = found.shape[1] if found.ndim == 2 else 0
    middle = 0.5 if joint.scores == "probabilities" else 0.0
    best = found.argmax(axis=1) if columns > 1 else (found.reshape(-1) > middle).astype(int)
    labels = {
        each: _labels(values, best, max(2, columns), name) for each, values in answers.items()
    }
    kind = "logits" if joint.scores == "logits" else "probabilities"
    return Scores(graph.output, columns, kind, labels)  # type: ignore[arg-type]


def _labels(values: Any, best: Any, classes: int, name: str) -> list[Any]:
    """Find the label of each class."""
    table = np.asarray(values)
    if table.shape != best.shape or table.dtype.kind not in "iuOUS":
        raise ModelError(
            f"{name} has a further output that is not a label for each row. Export it without it."
        )
    labels = [set(table[best == number].tolist()) for number in range(classes)]
    if any(len(each) != 1 for each in labels):
        raise ModelError(
            f"{name} returns labels, and the people in the data do not show which label belongs to"
            " which class. Export it without the labels."
        )
    return [each.pop() for each in labels]


# -- functions -------------------------------------------------------------------------------------


def _function(
    repair: PostHoc, plan: Plan, joint: Joint, data: Dataset, origin: Mapping[str, Any]
) -> str:
    words, is_amount = joint.opened.takes == "words", plan.amounts
    rows = "N," if is_amount else f"N, {len(data.classes)}"
    names = data.label if is_amount else f"probabilities of {', '.join(data.classes)}"
    model = {
        "source": origin["source"],
        "weights": origin["weights"],
        "endpoint": origin["endpoint"],
        "scores": joint.scores,
        "order": joint.order,
        "data": data.name,
        "classes": list(data.classes),
    }
    return FUNCTION.format(
        title=_plain(f"The post-hoc repair '{repair.name}'"),
        source=_plain(str(origin["source"])),
        module="repaired",
        argument="people" if words else "numbers",
        shape=f"({rows}) {_plain(names)}",
        returns="The amount" if is_amount else "The probability of each class",
        imports="import numpy as np\nimport pandas as pd\n" if words else "import numpy as np\n",
        model=repr(json.dumps(model)),
        plan=repr(msgspec.json.encode(plan).decode()),
        kind="pd.DataFrame" if words else "np.ndarray",
    )


def _plain(text: str) -> str:
    """Replace characters that could end a docstring."""
    return "".join(each if each.isalnum() or each in " .,:/_-<>=?&'" else "_" for each in text)


def saved_function(model: dict[str, Any], plan: dict[str, Any]) -> Callable[[Any], Floats]:
    """Return the function of a saved file: `model` says how the user's model is opened and what its
    scores are, `plan` is the repair.
    """
    how = decoded(plan)

    @cache
    def opened() -> Callable[[Any], Any]:
        trial = Trial()
        trial.is_amount = how.amounts
        return open_model(
            model["source"],
            weights=model["weights"],
            endpoint=model["endpoint"] or {},
            trial=trial,
        ).predict

    def query(table: Any) -> Any:
        predict = opened()
        scores = np.asarray(predict(table), dtype=np.float64)
        if how.amounts:
            return scores
        if model["scores"] == "logits":
            scores = softmax(scores)
        order = model["order"]
        if (classes := getattr(predict, "classes", None)) is not None:
            # An endpoint names its classes with its first answer.
            named: Any = SimpleNamespace(name=model["data"], classes=model["classes"])
            order = class_order(classes, model["source"], named)
        if order is None:
            return scores
        return scores[:, order] if scores.ndim == 2 and scores.shape[1] > 1 else 1 - scores

    def answer(table: Any) -> Floats:
        found = how.answer(table, query)[0]
        return found[:, 0] if how.amounts else found

    return answer
