"""Post-hoc repair inside an ONNX file: one graph with the same inputs and outputs, which makes
the counterparts of its rows, passes all of them to the given graph in one batch and combines the
answers.

    average       every row is repeated with each combination of sensitive values; the probabilities
                  are averaged (logits by way of probabilities)
    thresholds    the group of a row is recognized, and its scores are weighed so that the highest
                  is the answer that the threshold of the group gives
    abstain       as for the average; where the answers differ, the scores are a tie, and a further
                  output `handed_over` is true

Only operators that every version since 11 has in the same form are used: sums are products with
ones, and columns are exchanged by `Gather`, so that no other cell is computed with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fairprobe.errors import ModelError
from fairprobe.repairs.plans import SAME, Coupled, Numbers, Plan

PREFIX, OURS = "given_", "repair_"
HANDED_OVER = "handed_over"
OLDEST = 11  # operator set
LEAST = 1e-37  # a probability whose logarithm single precision has
FLOATS = {1: np.float32, 11: np.float64}
LABELS = {7: -1, 8: "ask a human"}  # of type int64 and text: what a human decides


@dataclass(frozen=True)
class Scores:
    """Output that contains class scores: its `name`, the number of `columns` (0: it has one axis),
    and what they are. `labels` are further outputs with a label for each row: that of each class.
    """

    name: str
    columns: int
    kind: Literal["probabilities", "logits"]
    labels: dict[str, list[Any]] = field(default_factory=dict)


def composed(model: Any, plan: Plan, scores: Scores, widths: dict[str, int]) -> Any:
    """Put the given ONNX model behind the repair. `widths` are the columns of each input, which
    follow each other as the columns of the plan do.
    """
    from onnx import ModelProto, compose, helper

    _check(model, plan, scores)
    inner = compose.add_prefix(model, PREFIX)
    graph = _Graph(model, plan, scores, widths)
    graph.query()
    graph.nodes += inner.graph.node
    outputs = graph.answer()
    made = ModelProto()
    made.CopyFrom(inner)
    made.graph.CopyFrom(
        helper.make_graph(
            graph.nodes,
            model.graph.name or "repaired",
            graph.inputs,
            outputs,
            initializer=[*inner.graph.initializer, *graph.constants],
        )
    )
    return made


def _check(model: Any, plan: Plan, scores: Scores) -> None:
    """Raise ModelError for a file that cannot be composed."""
    if plan.numbers is None:
        raise ModelError("An ONNX file that takes text is not composed with a repair.")
    version = next(
        (each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0
    )
    if version < OLDEST:
        raise ModelError(
            f"The file uses version {version} of the operators; at least {OLDEST} is needed."
        )
    known = {scores.name, *scores.labels}
    for output in model.graph.output:
        if output.name not in known:
            raise ModelError(
                f"The output '{output.name}' holds neither class scores nor labels. Export the"
                " model without it."
            )


class _Graph:
    """Build the nodes around the given graph."""

    def __init__(self, model: Any, plan: Plan, scores: Scores, widths: dict[str, int]) -> None:
        self.model, self.plan, self.scores, self.widths = model, plan, scores, widths
        constants = {each.name for each in model.graph.initializer}
        self.inputs = [each for each in model.graph.input if each.name not in constants]
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        assert plan.numbers is not None
        self.numbers: Numbers = plan.numbers
        kinds = {each.name: each.type.tensor_type.elem_type for each in self.inputs}
        self.types = {name: _numpy_type(kind) for name, kind in kinds.items()}
        output = next(each for each in model.graph.output if each.name == scores.name)
        self.real = FLOATS.get(output.type.tensor_type.elem_type)
        if self.real is None:
            raise ModelError("The class scores of the file are neither float nor double.")
        self.copies = 1 if plan.repair == "thresholds" else len(self.numbers.values)

    # -- building blocks ---------------------------------------------------------------------------

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"{OURS}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, value: Any, kind: Any = None) -> str:
        from onnx import numpy_helper

        name = f"{OURS}constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=kind), name))
        return name

    def shaped(self, name: str, *shape: int) -> str:
        return self.node("Reshape", name, self.constant(shape, np.int64))

    def cast(self, name: str, kind: Any) -> str:
        from onnx import helper

        number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return self.node("Cast", name, to=number)

    # -- counterparts ------------------------------------------------------------------------------

    def query(self) -> None:
        """Feed the given graph: every row with all combinations of values, then as it is."""
        start = 0
        for entry in self.inputs:
            width, name = self.widths[entry.name], entry.name
            mine = [c - start for c in self.numbers.columns if start <= c < start + width]
            made = [self._with_values(name, mine, start, place) for place in range(self.copies)]
            if self.plan.repair == "thresholds":
                made = [name]
            elif self.plan.repair == "abstain":
                made.append(name)
            from onnx import helper

            operator = "Concat" if len(made) > 1 else "Identity"
            axis: dict[str, Any] = {"axis": 0} if len(made) > 1 else {}
            self.nodes.append(helper.make_node(operator, made, [PREFIX + name], **axis))
            start += width

    def _with_values(self, name: str, mine: list[int], start: int, place: int) -> str:
        """Set the combination of values at this place in the columns of an input."""
        width, kind = self.widths[name], self.types[name]
        pieces, index = [name], list(range(width))
        if mine:
            values = dict(zip(self.numbers.columns, self.numbers.values[place], strict=True))
            row = self.constant([[values[start + column] for column in mine]], kind)
            pieces.append(self._for_every_row(row, name, len(mine)))
            for position, column in enumerate(mine):
                index[column] = width + position
        taken = width + len(mine)
        for coupled in self.numbers.coupled:
            here = [c for c in coupled.columns if start <= c < start + width]
            if here:
                pieces.append(self.cast(self._renamed(coupled, place), kind))
                for position, column in enumerate(coupled.columns):
                    if column in here:
                        index[column - start] = taken + position
                taken += len(coupled.columns)
        if len(pieces) == 1:
            return name
        whole = self.node("Concat", *pieces, axis=1)
        return self.node("Gather", whole, self.constant(index, np.int64), axis=1)

    def _for_every_row(self, row: str, like: str, width: int) -> str:
        rows = self.node("Gather", self.node("Shape", like), self.constant([0], np.int64), axis=0)
        shape = self.node("Concat", rows, self.constant([width], np.int64), axis=0)
        return self.node("Expand", row, shape)

    def _columns(self, columns: list[int]) -> str:
        """(N, k) these columns of all inputs, as floats."""
        parts, start = [], 0
        for entry in self.inputs:
            width = self.widths[entry.name]
            here = [c - start for c in columns if start <= c < start + width]
            if here:
                part = self.node("Gather", entry.name, self.constant(here, np.int64), axis=1)
                parts.append(self.cast(part, np.float32))
            start += width
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=1)

    def recognized(self, columns: list[int], known: list[list[float]]) -> tuple[str, str]:
        """(N,) the index of each row among known combinations of numbers, and whether it is one."""
        count, width = len(known), len(columns)
        cells = self.shaped(self._columns(columns), -1, 1, width)
        values = np.asarray(known, dtype=np.float32)
        limit = np.maximum(1, np.abs(values)) * np.float32(SAME)
        apart = self.node("Abs", self.node("Sub", cells, self.constant(values[None])))
        same = self.cast(self.node("Less", apart, self.constant(limit[None])), np.float32)
        counts = self.node("MatMul", same, self.constant(np.ones((width, 1)), np.float32))
        hits = self.node(
            "Greater", self.shaped(counts, -1, count), self.constant(width - 0.5, np.float32)
        )
        matched = self.cast(hits, np.float32)
        which = self.node("ArgMax", matched, axis=1, keepdims=0)
        total = self.node("MatMul", matched, self.constant(np.ones((count, 1)), np.float32))
        is_known = self.node("Greater", total, self.constant(0.5, np.float32))
        return which, self.shaped(is_known, -1)

    def _renamed(self, coupled: Coupled, place: int) -> str:
        """(N, k) the cells of coupled columns under the combination of values at this place."""
        own, own_known = self.recognized(self.numbers.columns, self.numbers.values)
        category, category_known = self.recognized(coupled.columns, coupled.categories)
        onto = np.asarray(coupled.onto, dtype=np.int64)
        first = self.node(
            "Add",
            self.node("Mul", own, self.constant(onto.shape[1], np.int64)),
            category,
        )
        table = onto[place][onto.argsort(axis=1)].reshape(-1)  # of each value and category
        new = self.node("Gather", self.constant(table, np.int64), first, axis=0)
        numbers = self.constant(coupled.categories, np.float32)
        cells = self.node("Gather", numbers, new, axis=0)
        known = self.shaped(self.node("And", own_known, category_known), -1, 1)
        return self.node("Where", known, cells, self._columns(coupled.columns))

    # -- answers -----------------------------------------------------------------------------------

    def answer(self) -> list[Any]:
        """Return the outputs of the whole graph, under their own names."""
        from onnx import TensorProto, helper

        answered = getattr(self, f"_{self.plan.repair}")(PREFIX + self.scores.name)
        scores, handed = answered if isinstance(answered, tuple) else (answered, None)
        shape = (-1, self.scores.columns) if self.scores.columns else (-1,)
        self._output(self.shaped(scores, *shape), self.scores.name)
        for name, labels in self.scores.labels.items():
            self._label(name, labels, scores, handed)
        outputs = list(self.model.graph.output)
        if handed is not None:
            self._output(self.shaped(handed, -1), HANDED_OVER)
            outputs.append(helper.make_tensor_value_info(HANDED_OVER, TensorProto.BOOL, [None]))
        return outputs

    def _output(self, value: str, name: str) -> None:
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [value], [name]))

    @property
    def _width(self) -> int:
        return max(1, self.scores.columns)

    def _average(self, scores: str) -> str:
        """(N, C)"""
        p = self._probabilities(self.shaped(scores, -1, self._width))
        flat = self.shaped(p, self.copies, -1)
        shares = np.asarray(self.plan.shares)[None]
        means = self.node("MatMul", self.constant(shares / shares.sum(), self.real), flat)
        return self._as_given(self.shaped(means, -1, self._width))

    def _probabilities(self, scores: str) -> str:
        if self.scores.kind == "probabilities":
            return scores
        if self._width == 1:
            return self.node("Sigmoid", scores)
        return self.node("Softmax", scores, axis=1)

    def _as_given(self, p: str) -> str:
        """Probabilities as scores of the kind that the given graph has."""
        if self.scores.kind == "probabilities":
            return p
        least = self.constant(LEAST, self.real)
        score = self.node("Log", self.node("Max", p, least))
        if self._width > 1:
            return score
        other = self.node("Max", self.node("Sub", self.constant(1, self.real), p), least)
        return self.node("Sub", score, self.node("Log", other))

    def _thresholds(self, scores: str) -> str:
        limits = list(self.plan.thresholds)
        own, is_known = self.recognized(self.numbers.columns, self.numbers.values)
        last = self.constant(len(limits) - 1, np.int64)
        which = self.node("Where", is_known, own, last) if len(limits) > 1 else None
        table = np.asarray(limits)[:, None]
        weights = np.repeat(table, max(2, self._width), axis=1)
        weights[:, self.plan.positive] = 1 - table[:, 0]
        single = self._width == 1  # the score of the second class
        if single or self.scores.kind == "logits":
            weights = np.log(weights)
            weights = weights[:, 1:2] - weights[:, :1] if single else weights
        chosen = self.constant(weights, self.real)
        if which is not None:
            chosen = self.node("Gather", chosen, which, axis=0)
        given = self.shaped(scores, -1, self._width)
        if self.scores.kind == "logits":
            return self.node("Add", given, chosen)
        if single:
            one = self.constant(1, self.real)
            odds = self.node("Div", given, self.node("Sub", one, given))
            return self.node("Sigmoid", self.node("Add", self.node("Log", odds), chosen))
        weighed = self.node("Mul", given, chosen)
        ones = self.constant(np.ones((self._width, 1)), self.real)
        return self.node("Div", weighed, self.node("MatMul", weighed, ones))

    def _abstain(self, scores: str) -> tuple[str, str]:
        """Return the scores of the rows, ties where answers differ; and where they do."""
        p = self.shaped(self._probabilities(self.shaped(scores, -1, self._width)), -1, self._width)
        if self.plan.thresholds or self._width == 1:
            column = p
            limit = self.plan.thresholds[0] if self.plan.thresholds else 0.5
            if self._width > 1:
                place = self.constant([self.plan.positive], np.int64)
                column = self.node("Gather", p, place, axis=1)
            elif self.plan.positive == 0:
                limit = 1 - limit
            labels = self.node("Less", column, self.constant(limit, self.real))
        else:
            labels = self.node("ArgMax", p, axis=1, keepdims=0)
        rows = self.shaped(self.cast(labels, np.float32), self.copies + 1, -1)
        own = self.node("Gather", rows, self.constant([self.copies], np.int64), axis=0)
        apart = self.node("Abs", self.node("Sub", rows, own))
        ones = self.constant(np.ones((1, self.copies + 1)), np.float32)
        total = self.node("MatMul", ones, apart)
        handed = self.shaped(self.node("Greater", total, self.constant(0.5, np.float32)), -1, 1)
        blocks = self.shaped(scores, self.copies + 1, -1)
        last = self.node("Gather", blocks, self.constant([self.copies], np.int64), axis=0)
        tie = self.constant([self._tie()], self.real)
        return self.node("Where", handed, tie, self.shaped(last, -1, self._width)), handed

    def _tie(self) -> list[float]:
        tie = np.full(max(2, self._width), 1 / max(2, self._width))
        if self.plan.thresholds:
            tie[:] = 1 - self.plan.thresholds[0]
            tie[self.plan.positive] = self.plan.thresholds[0]
        if self.scores.kind == "logits":
            tie = np.log(tie)
            return tie.tolist() if self._width > 1 else [float(tie[1] - tie[0])]
        return tie.tolist() if self._width > 1 else [float(tie[1])]

    def _label(self, name: str, labels: list[Any], scores: str, handed: str | None) -> None:
        if self._width > 1:
            best = self.node("ArgMax", scores, axis=1, keepdims=0)
        else:
            middle = 0.5 if self.scores.kind == "probabilities" else 0.0
            above = self.node("Greater", scores, self.constant(middle, self.real))
            best = self.shaped(self.cast(above, np.int64), -1)
        entry = next(each for each in self.model.graph.output if each.name == name)
        kind = entry.type.tensor_type.elem_type
        table = self.constant(labels, np.int64 if kind == 7 else object)
        chosen = self.node("Gather", table, best, axis=0)
        if handed is not None:
            other = self.constant([LABELS[kind]], np.int64 if kind == 7 else object)
            chosen = self.node("Where", self.shaped(handed, -1), other, chosen)
        self._output(chosen, name)


def _numpy_type(kind: int) -> Any:
    from onnx import helper

    return helper.tensor_dtype_to_np_dtype(kind)
