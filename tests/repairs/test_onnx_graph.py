"""Post-hoc repairs inside ONNX files: one file answers as the plan does around the given file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import nn

from fairprobe.errors import ModelError
from fairprobe.repairs.onnx_graph import HANDED_OVER, Scores, composed
from fairprobe.repairs.plans import Coupled, Numbers, Plan
from tests.model_files import dense, write_graph, write_onnx

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

WIDTH = 7
# Columns 1 and 2: sex, one-hot. Columns 4 and 5: a role, which is called otherwise for each sex.
ALONE = Numbers([1, 2], [[1.0, 0.0], [0.0, 1.0]])
TWINS = Numbers(
    [1, 2], ALONE.values, [Coupled([4, 5], [[1, 0], [0, 1], [0, 0]], [[0, 1, 2], [1, 0, 2]])]
)
PLANS = {
    "average": Plan(repair="average", shares=[0.3, 0.7], numbers=ALONE),
    "average of twins": Plan(repair="average", shares=[0.5, 0.5], numbers=TWINS),
    "thresholds": Plan(
        repair="thresholds", shares=[0.5, 0.5], thresholds=[0.3, 0.6, 0.45], numbers=ALONE
    ),
    "abstain": Plan(repair="abstain", shares=[0.5, 0.5], numbers=TWINS),
    "abstain at a threshold": Plan(
        repair="abstain", shares=[0.5, 0.5], thresholds=[0.4], numbers=ALONE
    ),
}


def people(n: int = 400) -> Any:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(n, WIDTH)).astype(np.float32)
    sex = rng.integers(0, 2, n)
    x[:, 1], x[:, 2] = sex == 0, sex == 1
    x[:, 4:6] = np.array([[1, 0], [0, 1], [0, 0], [9, 9]])[rng.integers(0, 4, n)]
    x[:5, 1:3] = 0  # their sex is not known
    return x


def session(model: Any) -> Any:
    content = model if isinstance(model, str | bytes) else model.SerializeToString()
    return ort.InferenceSession(content, providers=["CPUExecutionProvider"])


def in_probabilities(scores: Any, kind: str) -> Any:
    if kind == "logits":
        if scores.shape[1] == 1:
            return 1 / (1 + np.exp(-scores))
        return np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return scores


SHAPES: list[tuple[int, nn.Module | None, str]] = [
    (2, None, "logits"),
    (2, nn.Softmax(dim=1), "probabilities"),
    (1, None, "logits"),
    (1, nn.Sigmoid(), "probabilities"),
    (3, nn.Softmax(dim=1), "probabilities"),
]


@pytest.mark.parametrize(
    ("plan", "classes", "final", "kind"),
    [
        (plan, *shape)
        for plan in PLANS.values()
        for shape in SHAPES
        if shape[0] < 3 or not plan.thresholds  # which decide between two classes
    ],
)
def test_one_file_answers_as_the_plan_around_the_given_one(
    plan: Plan, classes: int, final: nn.Module | None, kind: Any, tmp_path: Path
) -> None:
    path = write_onnx(dense(WIDTH, 8, classes, final=final), tmp_path / "given.onnx")
    given = onnx.load(path)
    given.metadata_props.add(key="owner", value="somebody")
    (output,) = [each.name for each in given.graph.output]
    made = composed(given, plan, Scores(output, classes, kind), {"x": WIDTH})
    onnx.checker.check_model(made, full_check=True)
    x, inner = people(), session(given)
    expected, handed = plan.answer(
        x, lambda z: in_probabilities(inner.run([output], {"x": z.astype(np.float32)})[0], kind)
    )
    answers = dict(
        zip(
            [each.name for each in made.graph.output],
            session(made).run(None, {"x": x}),
            strict=True,
        )
    )
    ours = in_probabilities(answers[output], kind)
    ours = np.concatenate([1 - ours, ours], axis=1) if classes == 1 else ours
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    if plan.repair == "abstain":
        np.testing.assert_array_equal(answers[HANDED_OVER], handed)
        assert 0 < handed.mean() < 1
    assert [each.name for each in made.graph.input] == ["x"]
    assert [each.name for each in made.graph.output][:1] == [output]
    assert made.opset_import == given.opset_import
    assert made.metadata_props == given.metadata_props
    assert len(session(made).run(None, {"x": x[:1]})[0]) == 1  # any number of rows


def test_the_average_is_bit_for_bit_the_same_for_both_sexes(tmp_path: Path) -> None:
    path = write_onnx(dense(WIDTH, 8, 2), tmp_path / "given.onnx")
    made = session(
        composed(onnx.load(path), PLANS["average"], Scores("v2", 2, "logits"), {"x": WIDTH})
    )
    x = people()[5:]
    other = x.copy()
    other[:, [1, 2]] = x[:, [2, 1]]
    before = session(str(path))
    assert not np.allclose(before.run(None, {"x": x})[0], before.run(None, {"x": other})[0])
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], made.run(None, {"x": other})[0])


def test_labels_follow_the_repaired_scores_and_inputs_may_be_several(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    network = dense(WIDTH, 2)
    weight, bias = (each.detach().numpy() for each in network[0].parameters())
    nodes = [
        helper.make_node("Cast", ["sex"], ["sex_float"], to=TensorProto.FLOAT),
        helper.make_node("Concat", ["age", "sex_float", "rest"], ["x"], axis=1),
        helper.make_node("Gemm", ["x", "weight", "bias"], ["z"], transB=1),
        helper.make_node("Softmax", ["z"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["z"], ["best"], axis=1, keepdims=0),
        helper.make_node("Gather", ["names", "best"], ["label"]),
    ]
    path = write_graph(
        nodes,
        tmp_path / "given.onnx",
        {"weight": weight, "bias": bias, "names": np.array([10, 20])},
        inputs={"age": ["n", 1], "sex": ["n", 1], "rest": ["n", WIDTH - 2]},
        outputs={"label": ["n"], "probabilities": ["n", 2]},
        types={"sex": TensorProto.INT64, "label": TensorProto.INT64},
    )
    numbers = Numbers([1], [[0.0], [1.0]])
    scores = Scores("probabilities", 2, "probabilities", {"label": [10, 20]})
    widths = {"age": 1, "sex": 1, "rest": WIDTH - 2}
    x = people()
    feeds = {"age": x[:, :1], "sex": (x[:, 2:3] > 0).astype(np.int64), "rest": x[:, 2:]}
    for repair, more in (("average", {}), ("thresholds", {"thresholds": [0.2, 0.7, 0.5]})):
        plan = Plan(repair=repair, shares=[0.5, 0.5], numbers=numbers, **more)  # type: ignore[arg-type]
        label, p = session(composed(onnx.load(path), plan, scores, widths)).run(
            ["label", "probabilities"], feeds
        )
        np.testing.assert_array_equal(label, np.array([10, 20])[p.argmax(axis=1)])
    given = session(str(path)).run(["probabilities"], feeds)[0]
    limit = np.where(feeds["sex"][:, 0] == 1, 0.7, 0.2)
    np.testing.assert_array_equal(label == 20, given[:, 1] >= limit)
    plan = Plan(repair="abstain", shares=[0.5, 0.5], numbers=numbers)
    label, handed = session(composed(onnx.load(path), plan, scores, widths)).run(
        ["label", HANDED_OVER], feeds
    )
    np.testing.assert_array_equal(label == -1, handed)
    assert 0 < handed.mean() < 1


def test_what_cannot_be_composed_is_refused_with_a_sentence(tmp_path: Path) -> None:
    given = onnx.load(write_onnx(dense(WIDTH, 8, 2), tmp_path / "given.onnx"))
    with pytest.raises(ModelError, match="'v2' holds neither class scores nor labels"):
        composed(given, PLANS["average"], Scores("other", 2, "logits"), {"x": WIDTH})
    given.opset_import[0].version = 9
    with pytest.raises(ModelError, match="version 9 of the operators"):
        composed(given, PLANS["average"], Scores("v2", 2, "logits"), {"x": WIDTH})
