"""Layouts of detectors: outputs worked out by hand, a real detector re-encoded in every layout, and
the self-test on annotated pictures that chooses among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.scenes import GivenScenes, Scene, open_scenes
from fairprobe.scenes.audit import SceneAudit, audit_scenes
from fairprobe.scenes.detectors import open_detector
from fairprobe.scenes.detectors.base import Detection
from fairprobe.scenes.detectors.function import FunctionDetector
from fairprobe.scenes.detectors.layout import Layout, Port, Signature, names_in
from fairprobe.scenes.detectors.layouts import LAYOUTS, candidates
from fairprobe.scenes.detectors.onnx import OnnxDetector
from fairprobe.scenes.detectors.self_test import check_answers, doubt, settle
from fairprobe.scenes.labels import COCO_IDS, COCO_NAMES
from fairprobe.scenes.oracles import Test, errors, reference
from fairprobe.scenes.scene import Instance, Picture
from fairprobe.scenes.sources.masks import read_names
from tests.detector_encodings import encode
from tests.helpers import assets
from tests.scenes.test_detectors import network, plain

CAR = COCO_NAMES.index("car")
# Of the picture: the network's 64 × 64 hold it as 32 × 64, from row 16 if centered.
SIZE = (50, 100)
CENTER, SIDES = (32.0, 32.0), (16.0, 8.0)  # in pixels of the network
SHARES = (0.5, 0.5, 0.25, 0.125)
CENTERED = (100 * 24 / 64, 50 * 12 / 32, 100 * 40 / 64, 50 * 20 / 32)
STRETCHED = (100 * 24 / 64, 50 * 28 / 64, 100 * 40 / 64, 50 * 36 / 64)


def scored(score: float, classes: int = 80, at: int = CAR) -> list[float]:
    return [score if place == at else 0.0 for place in range(classes)]


def rows(columns: Sequence[float], count: int = 84) -> Any:
    """One object among empty rows, as many as there are cells in 64 × 64."""
    found = np.zeros((1, count, len(columns)), dtype=np.float32)
    found[0, 7] = columns
    return found


def nanodet_row() -> list[float]:
    """The cell in row 3 and column 3 of stride 8: its middle is at 28; sides at 24, 28, 40, 36."""
    distances = {"left": 0.5, "top": 0.0, "right": 1.5, "bottom": 1.0}  # in cells
    bins = np.full((4, 8), -50.0)
    for at, distance in enumerate(distances.values()):
        low = int(distance)
        share = distance - low
        bins[at, low], bins[at, low + 1] = np.log(1 - share + 1e-9), np.log(share + 1e-9)
    return [*scored(0.8), *bins.ravel().tolist()]


def nanodet() -> Any:
    found = np.full((1, 84, 112), -50.0, dtype=np.float32)
    found[0, :, :80] = 0
    found[0, 3 * 8 + 3] = nanodet_row()
    return found


def detr_logits(classes: int, *, none: bool) -> Any:
    found = np.full((1, 5, classes), -20.0, dtype=np.float32)
    if none:
        found[0, :, -1] = 0.0
    found[0, 2, CAR], found[0, 2, -1] = np.log(0.8), np.log(0.2) if none else -20.0
    if not none:
        found[0, 2, CAR] = np.log(0.8 / 0.2)
    return found


def queries(*values: float) -> Any:
    found = np.zeros((1, 5, len(values)), dtype=np.float32)
    found[0, 2] = values
    return found


BOX = (24.0, 28.0, 40.0, 36.0)
SCORES = np.array([0, 0, 0.8, 0, 0], dtype=np.float32)
CASES: dict[str, tuple[list[Any], tuple[float, ...], float]] = {
    "yolov5": ([rows([*CENTER, *SIDES, 0.9, *scored(0.8)], 252)], CENTERED, 0.72),
    "yolov6": ([rows([*CENTER, *SIDES, 1.0, *scored(0.8)])], CENTERED, 0.8),
    "yolov8": ([rows([*CENTER, *SIDES, *scored(0.8)]).transpose(0, 2, 1)], CENTERED, 0.8),
    "yolov10": ([queries(*BOX, 0.8, CAR)], CENTERED, 0.8),
    "yolov7-nms": ([queries(0, *BOX, CAR, 0.8)[0]], CENTERED, 0.8),
    "detr": ([detr_logits(81, none=True), queries(*SHARES)], STRETCHED, 0.8),
    "rt-detr": ([detr_logits(80, none=False), queries(*SHARES)], STRETCHED, 0.8),
    "rt-detr-joined": ([queries(*SHARES, *scored(0.8))], STRETCHED, 0.8),
    "torchvision": ([queries(*BOX)[0], np.array([0, 0, 3, 0, 0]), SCORES], STRETCHED, 0.8),
    "nanodet": ([nanodet()], STRETCHED, 0.8),
}


@pytest.mark.parametrize("name", CASES)
def test_outputs_worked_out_by_hand_give_the_same_car(name: str) -> None:
    outputs, box, score = CASES[name]
    types = ["tensor(int64)" if one.dtype == np.int64 else "tensor(float)" for one in outputs]
    file = Signature(
        (Port("images", (1, 3, 64, 64)),),
        tuple(
            Port(str(at), one.shape, kind)
            for at, (one, kind) in enumerate(zip(outputs, types, strict=True))
        ),
    )
    assert name in [one.name for one in candidates(file)]
    (layout,) = LAYOUTS[name].match(file)
    boxes, scores = layout.read([outputs[at] for at in layout.places] or outputs, SIZE)
    at = int(scores.max(axis=1).argmax())
    assert layout.names[scores[at].argmax()] == "car"
    assert scores[at].max() == pytest.approx(score, abs=1e-6)
    assert boxes[at].tolist() == pytest.approx(box, abs=1e-3)
    others = np.delete(scores.max(axis=1), at)
    assert others.max() < 0.01


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_box_keeps_its_place_in_the_picture(name: str) -> None:
    """What a layout paints into its input is found there again."""
    layout = LAYOUTS[name](64, 96)
    image = plain(60, 50)
    image[20:40, 10:30] = 255
    channels = layout.prepare(image)[0]
    seen = channels[..., 0] if layout.by_pixels else channels[0]
    inside = np.argwhere(seen >= (seen.max() + np.median(seen)) / 2)
    (top, left), (bottom, right) = inside.min(axis=0), inside.max(axis=0) + 1
    found = layout.in_picture([[left, top, right, bottom]], (60, 50))[0]
    assert found.tolist() == pytest.approx((10, 20, 30, 40), abs=1.2)


def test_class_names_come_from_the_file_or_the_user_and_are_not_guessed(tmp_path: Path) -> None:
    assert names_in({"names": "{0: 'Person', 1: 'Motorbike'}"}) == ("person", "motorcycle")
    assert names_in({"names": '["dog", "cat"]'}) == ("dog", "cat")
    for bad in ("", "__import__('os')", "{0: 1}", "{3: 'car'}", "[" * 100_000, "x" * 300_000):
        assert names_in({"names": bad}) is None
    for word in ("coco", "/data/coco.names", "80"):  # of the names, not a name
        assert names_in({"classes": word}) is None
    spelled = {
        "Names": "('dog', 'cat')",
        "classes": "dog, cat",
        "class_names": "dog\ncat",
        "labels": "{'cat': 1, 'dog': 0}",
        "id2label": '{"0": "dog", "1": "cat"}',
    }
    for key, text in spelled.items():
        assert names_in({key: text}) == ("dog", "cat"), key
    assert names_in({"id2label": '{"1": "dog", "3": "cat"}'}) == ("", "dog", "", "cat")
    answer = np.zeros((1, 6, 189), dtype=np.float32)
    answer[0, :, 3] = 32, 32, 16, 8, 0.1, 0.9
    path = network(tmp_path / "two.onnx", [1, 3, 96, 96], {"out": answer})
    with pytest.raises(
        ModelError, match=r"YOLO11 \(classes: 2\) .*, but .* names is 0\. .*--detector-classes"
    ):
        OnnxDetector(path)
    (truck,) = OnnxDetector(path, names=["bus", "Lorry"]).detect(plain(64, 64))
    assert truck.label == "truck"
    with pytest.raises(ModelError, match=r"\(classes: 2\) .*, but the number of class names is 3"):
        OnnxDetector(path, names=["bus", "lorry", "car"])


def test_the_exporter_in_the_metadata_rules_other_families_out() -> None:
    shape = Port("out", (1, 189, 85))
    file = Signature((Port("images", (1, 3, 96, 96)),), (shape,))
    assert {one.name for one in candidates(file)} == {"yolox", "yolox-decoded", "yolov6"}
    said = Signature(file.inputs, file.outputs, {"author": "Ultralytics", "imgsz": "[64, 64]"})
    assert [one.name for one in candidates(said)] == []
    free = Signature(
        (Port("images", (None, 3, None, None)),), (Port("out", (None, 84, None)),), said.metadata
    )
    assert candidates(free) == [LAYOUTS["yolov8"](64, 64)]


# -- the self-test ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def streets() -> GivenScenes:
    folder = assets() / "vision" / "camvid"
    scenes = open_scenes(folder / "images", folder / "masks")
    crowded = sorted(map(scenes.read, scenes.names), key=lambda one: -len(one.instances))
    found = GivenScenes(crowded[:5])
    found.counted_as = scenes.counted_as
    return found


@pytest.mark.parametrize("name", [name for name in LAYOUTS if name not in ("yolox", "fastestdet")])
def test_a_real_detector_in_another_layout_is_recognized_by_its_agreement(
    name: str, streets: GivenScenes, tmp_path: Path
) -> None:
    file = encode(assets() / "vision" / "yolox_nano.onnx", name, tmp_path / "other.onnx")
    detector = open_detector(str(file))
    found = settle(detector, streets)
    assert found is not None
    assert found.layout == name
    assert found.score > 0.2 > 4 * found.by_chance
    original = OnnxDetector(assets() / "vision" / "yolox_nano.onnx")
    image = streets.read(streets.names[0]).image
    seen, wanted = detector.detect(image), original.detect(image)
    sure = [one for one in wanted if one.score > 0.6]
    for one in sure:  # the same objects at the same places, to the rounding of another frame
        near = [
            other
            for other in seen
            if other.label == one.label and np.allclose(other.box, one.box, atol=0.06 * 480)  # type: ignore[arg-type]
        ]
        assert near, (one, seen)


def exported(file: Path, change: Callable[[Any], None]) -> Path:
    """The file after a change of its graph."""
    model = onnx.load(file)
    change(model.graph)
    onnx.save(model, file)
    return file


def with_type(graph: Any, kind: int) -> None:
    """Take pictures of this type, bytes as they are; return half precision instead of single."""
    image = graph.input[0]
    scale = numpy_helper.from_array(
        np.array(1 / 255 if kind == TensorProto.UINT8 else 1, dtype=np.float32), "scale"
    )
    graph.initializer.append(scale)
    graph.node.insert(0, helper.make_node("Cast", ["given"], ["single"], to=TensorProto.FLOAT))
    graph.node.insert(1, helper.make_node("Mul", ["single", "scale"], [image.name]))
    image.name, image.type.tensor_type.elem_type = "given", kind
    for port in graph.output:
        old = port.name
        graph.node.append(helper.make_node("Cast", [old], [f"half {old}"], to=TensorProto.FLOAT16))
        port.name, port.type.tensor_type.elem_type = f"half {old}", TensorProto.FLOAT16


def with_raw_grids(graph: Any) -> None:
    """As YOLOv5 up to 6.0 and YOLOv7 are exported: the raw grids follow."""
    for cells in (52, 26, 13):
        shape = [1, 3, cells, cells, 85]
        grid = numpy_helper.from_array(np.zeros(shape, dtype=np.float32), f"zeros {cells}")
        graph.node.append(helper.make_node("Constant", [], [f"grid {cells}"], value=grid))
        graph.output.append(
            helper.make_tensor_value_info(f"grid {cells}", TensorProto.FLOAT, shape)
        )


def with_unknown_sizes(graph: Any) -> None:
    """An output whose sizes only an answer shows."""
    (port,) = graph.output
    old = port.name
    graph.initializer.append(numpy_helper.from_array(np.zeros((), dtype=np.int64), "zero"))
    for kind, inputs, output, more in (
        ("ReduceMax", [old], "largest", {"keepdims": 0}),
        ("Cast", ["largest"], "whole", {"to": TensorProto.INT64}),
        ("Mul", ["whole", "zero"], "no size", {}),
        ("Shape", [old], "stated", {}),
        ("Add", ["stated", "no size"], "computed", {}),
        ("Reshape", [old, "computed"], "reshaped", {}),
    ):
        graph.node.append(helper.make_node(kind, inputs, [output], **more))
    del graph.output[:]
    graph.output.append(
        helper.make_tensor_value_info("reshaped", TensorProto.FLOAT, ["a", "b", "c"])
    )


def without_batch(graph: Any) -> None:
    """As TorchVision exports: one picture, 3×H×W."""
    image = graph.input[0]
    graph.node.insert(0, helper.make_node("Unsqueeze", ["one"], [image.name], axes=[0]))
    image.name = "one"
    del image.type.tensor_type.shape.dim[0]


def with_real_sizes(graph: Any) -> None:
    """The picture's size as real numbers."""
    graph.input[1].type.tensor_type.elem_type = TensorProto.FLOAT


@pytest.mark.parametrize(
    ("layout", "change"),
    [
        ("yolov8", partial(with_type, kind=TensorProto.FLOAT16)),
        ("detr", partial(with_type, kind=TensorProto.FLOAT16)),
        ("yolov8", partial(with_type, kind=TensorProto.UINT8)),
        ("yolov5", with_raw_grids),
        ("yolov8", with_unknown_sizes),
        ("torchvision", without_batch),
        ("rt-detr-decided", with_real_sizes),
    ],
)
def test_what_exporters_vary_is_read_like_the_usual_file(
    layout: str, change: Callable[[Any], None], streets: GivenScenes, tmp_path: Path
) -> None:
    file = encode(assets() / "vision" / "yolox_nano.onnx", layout, tmp_path / "usual.onnx")
    usual = open_detector(str(file))
    settle(usual, streets)
    image = streets.read(streets.names[0]).image
    wanted = usual.detect(image)
    other = open_detector(str(exported(file.rename(tmp_path / "other.onnx"), change)))
    found = settle(other, streets)
    assert found is not None
    assert found.layout == layout
    seen = other.detect(image)
    assert [one.label for one in seen] == [one.label for one in wanted]
    for one, same in zip(seen, wanted, strict=True):
        assert one.box == pytest.approx(same.box, abs=2)


def test_a_detector_with_one_or_two_classes_is_told_from_other_layouts(
    streets: GivenScenes, tmp_path: Path
) -> None:
    """A box, a score and a class are six numbers, and so are a box and two scores."""
    file = encode(assets() / "vision" / "yolox_nano.onnx", "rt-detr-joined", tmp_path / "all.onnx")
    for labels in (("person",), ("person", "car")):
        detector = open_detector(
            str(exported(_copy(file), partial(_with_classes, labels=labels))), names=labels
        )
        found = settle(detector, streets)
        assert found is not None
        assert found.layout == "rt-detr-joined"


def _copy(file: Path) -> Path:
    copy = file.with_name("some.onnx")
    copy.write_bytes(file.read_bytes())
    return copy


def _with_classes(graph: Any, labels: Sequence[str]) -> None:
    """Of the scores of COCO's classes, only these."""
    (port,) = graph.output
    columns = np.array([0, 1, 2, 3, *(4 + COCO_NAMES.index(label) for label in labels)])
    graph.initializer.append(numpy_helper.from_array(columns, "columns"))
    graph.node.append(helper.make_node("Gather", [port.name, "columns"], ["some"], axis=2))
    port.name = "some"
    port.type.tensor_type.shape.dim[2].dim_value = len(columns)


def test_numbers_that_cannot_be_scores_or_classes_are_refused_with_their_reason(
    streets: GivenScenes, tmp_path: Path
) -> None:
    answer = rows([*CENTER, *SIDES, *scored(1.4)]).transpose(0, 2, 1)
    path = network(tmp_path / "logits.onnx", [1, 3, 64, 64], {"out": answer})
    with pytest.raises(ModelError, match=r"returned scores from 0 to 1\.4; .* last sigmoid"):
        settle(open_detector(str(path)), streets)
    path = network(tmp_path / "v10.onnx", [1, 3, 64, 64], {"out": queries(*BOX, 0.8, 212)})
    with pytest.raises(ModelError, match=r"class number 212, but only 80 classes have names"):
        settle(open_detector(str(path)), streets)
    four = network(tmp_path / "four.onnx", [4, 3, 64, 64], {"out": answer})
    with pytest.raises(ModelError, match=r"four\.onnx takes 4 pictures at once"):
        open_detector(str(four))


def test_classes_that_are_taken_for_coco_s_without_a_sign_are_reported(
    streets: GivenScenes, tmp_path: Path
) -> None:
    file = encode(assets() / "vision" / "yolox_nano.onnx", "yolov10", tmp_path / "v10.onnx")
    said = []
    for names in (None, COCO_NAMES):
        detector = open_detector(str(file), names=names)
        audit = audit_scenes(streets, detector, mutations=["delete"], classes=["bicycle"])
        said.append([one for one in audit.document.messages if "assumed to be COCO's" in one])
    assert [len(one) for one in said] == [1, 0]


def test_names_that_are_numbered_from_1_fit_scores_with_and_without_a_background() -> None:
    names = names_in({"id2label": '{"1": "dog", "2": "cat"}'})
    file = Signature((Port("image", (1, 3, 64, 64)),), (), names=names)
    counted = [file.classes(count) for count in (1, 2, 3, 4)]
    assert counted == [None, ("dog", "cat"), ("", "dog", "cat"), None]
    assert file.classes_by_id() == ("", "dog", "cat")


def test_a_named_layout_takes_a_file_that_does_not_state_its_sizes(tmp_path: Path) -> None:
    answer = rows([*CENTER, *SIDES, *scored(0.8)]).transpose(0, 2, 1)
    path = network(tmp_path / "open.onnx", [1, 3, 64, 64], {"out": answer})
    named = open_detector(f"yolov8:{exported(path, with_unknown_sizes)}")
    assert isinstance(named, OnnxDetector)
    (car,) = named.detect(plain(64, 64))
    assert (named.layout.name, car.label) == ("yolov8", "car")


@pytest.mark.parametrize(
    ("name", "names", "outputs"),
    [
        ("rt-detr", ("car", "b", "c", "d"), ("logits", "pred_boxes")),
        ("deformable-detr", ("car", "b", "c", "d"), ("dets", "labels")),
        ("detr", ("car", "b", "c"), ("pred_boxes", "logits")),
    ],
)
def test_as_many_logits_as_sides_of_a_box_are_told_apart_by_their_names(
    name: str, names: tuple[str, ...], outputs: tuple[str, ...], tmp_path: Path
) -> None:
    logits = np.full((1, 5, 4), -9, dtype=np.float32)
    logits[0, :, -1] = 9 if name == "detr" else -9
    logits[0, 2] = 9, -9, -9, -9
    answers = {
        one: queries(*SHARES) if one in ("pred_boxes", "dets") else logits for one in outputs
    }
    path = network(tmp_path / "four.onnx", [1, 3, 64, 64], answers)
    (car,) = OnnxDetector(path, layout=name, names=names).detect(plain(*SIZE))
    assert car.label == "car"
    assert car.box == pytest.approx(STRETCHED, abs=1e-3)


def test_a_network_of_ultralytics_for_another_task_is_refused_by_its_name(tmp_path: Path) -> None:
    answer = np.zeros((1, 56, 84), dtype=np.float32)  # a box, a score and 17 points
    path = network(tmp_path / "pose.onnx", [1, 3, 64, 64], {"out": answer})
    model = onnx.load(path)
    helper.set_model_props(
        model, {"author": "Ultralytics", "task": "pose", "names": "{0: 'person'}"}
    )
    onnx.save(model, path)
    with pytest.raises(ModelError, match=r"exported for the task 'pose'; expected 'detect'\."):
        open_detector(str(path))


def test_a_named_background_is_no_class() -> None:
    outputs = (
        Port("boxes", (None, 4)),
        Port("labels", (None,), "tensor(int64)"),
        Port("scores", (None,)),
    )
    for named in (["bicycle", "car"], ["__background__", "bike", "car"], ["N/A", "bike", "car"]):
        names = names_in({"names": str(named)})
        file = Signature((Port("image", (3, 64, 64)),), outputs, names=names)
        assert [one.names for one in candidates(file)] == [("", "bicycle", "car")]


def test_a_file_that_agrees_in_no_layout_is_refused_and_so_is_one_that_is_named_unless_told(
    streets: GivenScenes, tmp_path: Path
) -> None:
    file = encode(assets() / "vision" / "yolox_nano.onnx", "yolov6", tmp_path / "v6.onnx")
    said = (
        r"v6, read as YOLOX.*, recognizes \d of \d+ objects .* hardly more than chance.*--unchecked"
    )
    with pytest.raises(ModelError, match=said):
        settle(open_detector(f"yolox-decoded:{file}"), streets)
    misread = open_detector(f"yolox-decoded:{file}", unchecked=True)
    found = settle(misread, streets)
    assert found is not None
    assert found.score < 0.1  # pictures on the wrong scale
    assert "used all the same" in (doubt(misread, found) or "")
    mirrored = GivenScenes(
        [
            Scene(one.name, one.image[::-1].copy(), one.instances, one.stuff, one.stuff_names)
            for one in streets
        ]
    )
    with pytest.raises(ModelError, match=r"No layout of v6\.onnx agrees .* YOLOv6: \d+ of \d+ obj"):
        settle(open_detector(str(file)), mirrored)


def test_a_half_wrong_reading_is_used_with_a_warning_that_says_what_may_be_wrong(
    streets: GivenScenes, tmp_path: Path
) -> None:
    file = encode(assets() / "vision" / "yolox_nano.onnx", "yolov8", tmp_path / "v8.onnx")
    detector = open_detector(str(file))
    right = settle(detector, streets)
    assert right is not None
    assert doubt(detector, right) is None
    # A third of the objects under another name: boxes fit, classes do not.
    mixed = msgspec.structs.replace(right, score=0.15, matched=2, matched_boxes=20)
    assert "its classes do not: check the order of its class names" in (
        doubt(detector, mixed) or ""
    )
    dark = msgspec.structs.replace(right, score=0.2, matched=10, matched_boxes=11)
    assert "normalized by ImageNet's mean and deviation" in (doubt(detector, dark) or "")
    many = msgspec.structs.replace(right, score=0.2, matched=10, matched_boxes=11, recognized=500)
    assert "raise its least score (--score)" in (doubt(detector, many) or "")


def toy_scene(name: str, *objects: tuple[str, int]) -> Scene:
    mask = np.ones((20, 20), dtype=bool)
    instances = tuple(Instance(label, (x, 20, x + 20, 40), mask) for label, x in objects)
    return Scene(name, plain(60, 100), instances, np.zeros((60, 100), dtype=np.uint8), ("",))


def test_agreement_worked_out_by_hand(tmp_path: Path) -> None:
    # It sees a car four pixels beside the first one in every picture: an overlap of 16 / 24.
    scale, top = 64 / 100, (64 - 38) // 2
    answer = np.zeros((1, 84, 84), dtype=np.float32)
    answer[0, :, 0] = (34 * scale, 30 * scale + top, 20 * scale, 20 * scale, *scored(0.9))
    path = network(tmp_path / "a.onnx", [1, 3, 64, 64], {"out": answer})
    scenes = GivenScenes([toy_scene("a", ("car", 20)), toy_scene("b", ("car", 20), ("car", 70))])
    detector = OnnxDetector(path, layout="yolov8")
    detector.is_unchecked = True
    found = settle(detector, scenes)
    assert found is not None
    assert (found.pictures, found.annotated, found.recognized, found.matched) == (2, 3, 2, 2)
    assert found.score == pytest.approx(2 * 2 * (16 / 24) / 5, abs=0.03)
    assert found.by_chance == found.score  # it sees the same everywhere
    with pytest.raises(ModelError, match=r"YOLOv8.*: 2 of 3 objects"):
        settle(OnnxDetector(path), scenes)


def test_no_agreement_is_claimed_without_annotated_objects_that_the_detector_knows(
    tmp_path: Path,
) -> None:
    answer = np.zeros((1, 84, 84), dtype=np.float32)
    path = network(tmp_path / "a.onnx", [1, 3, 64, 64], {"out": answer})
    assert settle(OnnxDetector(path), GivenScenes([toy_scene("a", ("lantern", 20))])) is None
    assert settle(FunctionDetector(lambda image: []), GivenScenes([toy_scene("a")])) is None
    with pytest.raises(ModelError, match="YOLOv8, YOLOv9 or YOLO11: 0 of 1 objects"):
        settle(OnnxDetector(path), GivenScenes([toy_scene("a", ("car", 20))]))


# -- functions in the style of libraries -----------------------------------------------------------


def torchvision_style(image: Picture) -> Any:
    del image
    return [
        {
            "boxes": torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 9.0, 9.0]]),
            "labels": torch.tensor([COCO_IDS[CAR], 1]),
            "scores": torch.tensor([0.5, 0.25], requires_grad=True),
        }
    ]


def ultralytics_style(image: Picture) -> Any:
    del image
    boxes = SimpleNamespace(
        xyxy=torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 9.0, 9.0]]),
        cls=torch.tensor([1.0, 0.0]),
        conf=torch.tensor([0.5, 0.25]),
    )
    return [SimpleNamespace(boxes=boxes, names={0: "Person", 1: "car"})]


def with_words(image: Picture) -> Any:
    (found,) = torchvision_style(image)
    return {**found, "labels": ["Car", "Person"]}


def pipeline_style(image: Picture) -> Any:
    """As transformers' pipeline."""
    del image
    sides = ("xmin", "ymin", "xmax", "ymax")
    return [
        {"label": "car", "score": 0.5, "box": dict(zip(sides, (1, 2, 3, 4), strict=True))},
        {"label": "person", "score": 0.25, "box": dict(zip(sides, (0, 0, 9, 9), strict=True))},
    ]


def test_the_classes_of_an_answer_are_numbers_or_all_names() -> None:
    def answer(labels: Any) -> FunctionDetector:
        found = {"boxes": [[1, 2, 3, 4]], "labels": labels, "scores": [0.9]}
        return FunctionDetector(lambda image: found, "own")

    for labels in (3, torch.tensor(3), [3.0], np.array(["Car"])):
        assert [one.label for one in answer(labels).detect(plain())] == ["car"]
    wrong: list[tuple[list[Any], str]] = [
        ([None], "the class nan, which has no name"),
        (["car", 3], "not numbers"),
        ([float("nan")], "the class nan, which has no name"),
        ([2.7], "the class 2.7, which has no name"),
    ]
    for broken, words in wrong:
        with pytest.raises(ModelError, match=words):
            answer(broken).detect(plain())


@pytest.mark.parametrize(
    "function", [torchvision_style, with_words, ultralytics_style, pipeline_style]
)
def test_answers_in_the_style_of_libraries_are_understood(function: Callable[..., Any]) -> None:
    car = Detection("car", 0.5, (1, 2, 3, 4))
    person = Detection("person", 0.25, (0, 0, 9, 9))
    assert FunctionDetector(function, threshold=0.2).detect(plain()) == (car, person)
    # Without a threshold, TorchVision's and ultralytics' usual ones: .5 and .25.
    usual = (car,) if function in (torchvision_style, with_words) else (car, person)
    assert FunctionDetector(function).detect(plain()) == usual
    assert FunctionDetector(function, threshold=0.51).detect(plain()) == ()


def test_a_threshold_of_a_function_also_holds_for_lists_and_is_part_of_its_identity() -> None:
    def detect(image: Picture) -> Any:
        del image
        return [("car", 0.06), ("dog", np.float32(0.7)), Detection("cat", 0.8)]

    detect.identity = "May"  # type: ignore[attr-defined]
    every, some = FunctionDetector(detect), FunctionDetector(detect, threshold=0.5)
    assert [one.label for one in every.detect(plain())] == ["car", "dog", "cat"]
    assert [one.label for one in some.detect(plain())] == ["dog", "cat"]
    assert every.identity != some.identity
    with pytest.raises(SettingError, match=r"score threshold of a detector lies between 0 and 1"):
        FunctionDetector(detect, threshold=50)


# -- functions beside the annotation ---------------------------------------------------------------


def seen_at(*objects: tuple[str, int], shift: int = 0) -> Callable[[Picture], list[Detection]]:
    """The objects of a toy scene by the number in its first pixel."""

    def detect(image: Picture) -> list[Detection]:
        label, left = objects[image[0, 0, 0] % len(objects)]
        return [Detection(label, 0.9, (left + shift, 20, left + shift + 20, 40))]

    return detect


def numbered(*objects: tuple[str, int]) -> GivenScenes:
    found = []
    for at, one in enumerate(objects):
        scene = toy_scene(str(at), one)
        scene.image[0, 0] = at
        found.append(scene)
    return GivenScenes(found)


PLACES = (("car", 0), ("dog", 40), ("car", 80))


def answered(detect: Callable[[Picture], list[Detection]], scenes: GivenScenes, **more: Any) -> Any:
    detector = FunctionDetector(detect, "own")
    detector.is_unchecked = bool(more.pop("unchecked", False))
    answers = [detector.detect(one.image) for one in scenes]
    return check_answers(detector, answers, list(scenes), more.pop("counted_as", {}))


def test_the_boxes_of_a_function_are_compared_with_the_annotation() -> None:
    scenes = numbered(*PLACES)
    found = answered(seen_at(*PLACES), scenes)
    assert (found.matched, found.annotated, found.score, found.by_chance) == (3, 3, 1, 0)
    # Boxes as (left, top, width, height), or in shares of the picture, would be elsewhere, too.
    with pytest.raises(ModelError, match=r"recognizes 0 of 3 .*hardly more than chance.*colors"):
        answered(seen_at(*PLACES, shift=15), scenes)
    assert answered(seen_at(*PLACES, shift=15), scenes, unchecked=True).score == 0


def test_a_function_that_names_other_classes_is_refused_unless_they_count_as_the_annotated() -> (
    None
):
    scenes = numbered(*PLACES)
    vans = seen_at(*(("van", left) for _, left in PLACES))
    refused = (
        "It names van, the annotation car, dog:.*--count-as.* Its boxes fit 3 annotated objects"
    )
    with pytest.raises(ModelError, match=refused):
        answered(vans, scenes)


def test_a_function_without_boxes_or_objects_needs_no_agreement() -> None:
    scenes = numbered(*PLACES)
    assert answered(lambda image: [Detection("car", 0.9)], scenes) is None
    assert answered(lambda image: [], scenes) is None


def test_pictures_of_one_place_are_alike_and_nobody_is_refused_for_that() -> None:
    same = (("car", 20),) * 3
    found = answered(seen_at(*same), numbered(*same))
    assert (found.score, found.by_chance) == (1, 1)


def test_annotated_objects_count_as_what_recognizers_see_of_them() -> None:
    # A bus that is annotated and recognized as a bus is a car for both.
    scenes = numbered(("bus", 0), ("car", 40))
    renames = {"bus": "car"}
    cars = seen_at(("car", 0), ("car", 40))
    found = answered(cars, scenes, counted_as=renames)
    assert (found.annotated, found.matched) == (2, 2)


def test_numbers_without_a_name_are_refused() -> None:
    def detect(image: Picture) -> Any:
        del image
        return {"boxes": [[0, 0, 1, 1]], "labels": [500], "scores": [0.9]}

    with pytest.raises(ModelError, match=r"returned the class 500, which has no name.*'classes'"):
        FunctionDetector(detect).detect(plain())
    detect.classes = {500: "kiosk"}  # type: ignore[attr-defined]
    assert FunctionDetector(detect).detect(plain())[0].label == "kiosk"

    def uneven(image: Picture) -> Any:
        del image
        return {"boxes": [[0, 0, 1, 1]], "labels": [1, 2], "scores": [0.9]}

    with pytest.raises(ModelError, match="1 boxes, 2 classes and 1 scores"):
        FunctionDetector(uneven).detect(plain())


def test_every_layout_describes_itself() -> None:
    for name, layout in LAYOUTS.items():
        assert issubclass(layout, Layout)
        assert layout.name == name
        assert all((layout.title, layout.shapes, layout.about))


# -- classes that contain others -------------------------------------------------------------------


def audit_deletion(
    detect: Callable[[Picture], list[Detection]],
    second: str,
    deleted: str,
    counted_as: dict[str, str],
) -> SceneAudit:
    """Delete a class from two streets with a car, a `second` object and a dog, which is blue."""
    image = plain(200, 300, (120, 120, 120))
    image[20:40, 20:40] = image[20:40, 120:140] = (255, 0, 0)
    image[20:40, 250:270] = (0, 0, 255)
    mask = np.ones((20, 20), dtype=bool)
    objects = (("car", 20), (second, 120), ("dog", 250))
    instances = tuple(Instance(label, (x, 20, x + 20, 40), mask) for label, x in objects)
    road = np.ones((200, 300), dtype=np.uint8)
    return audit_scenes(
        GivenScenes([Scene(name, image.copy(), instances, road, ("", "road")) for name in "ab"]),
        [detect],
        mutations=["delete"],
        classes=[deleted],
        inpainting="telea",
        clusters=1,
        fewest=1,
        counted_as=counted_as,
    )


def test_a_bus_in_a_mask_of_cars_counts_as_a_car_and_its_deletion_is_no_error() -> None:
    def sees_buses(image: Picture) -> list[Detection]:
        """Every object in red is a bus, however the annotation calls it, every blue one a dog."""
        found = []
        for label, channel in (("bus", 0), ("dog", 2)):
            for place in (20, 120, 250):
                part = image[20:40, place : place + 20]
                if part[..., channel].mean() > 200 > part[..., 1].mean() + 100:
                    found.append(Detection(label, 0.9, (place, 20, place + 20, 40)))
        return found

    def errors_of(counted_as: dict[str, str]) -> tuple[int, int]:
        audit = audit_deletion(sees_buses, "car", "car", counted_as)
        tests = [one for one in audit.tests if one.kind == "ood"]
        lost = sum((errors(one, "exclusion") for one in tests), Counter[str]())
        return len(tests), lost["bus"]

    assert errors_of({}) == (2, 4)  # two buses in each of two scenes, although cars were deleted
    assert errors_of({"Bus": "Car"}) == (2, 0)


def test_an_annotated_bus_that_counts_as_a_car_stays_in_the_truth() -> None:
    """By hand: a car, a bus and a dog are annotated. The recognizer finds the car and the dog, and
    once the dog is deleted, the bus too. Two cars are there, so it was one short and is right now:
    |2 - 2| - |1 - 2| = -1. Without the annotated bus one would be there: |2 - 1| - |1 - 1| = 1.
    """

    def gets_better(image: Picture) -> list[Detection]:
        car, bus = (
            Detection("car", 0.9, (20, 20, 40, 40)),
            Detection("bus", 0.9, (120, 20, 140, 40)),
        )
        dog = Detection("dog", 0.9, (250, 20, 270, 40))
        there = image[20:40, 250:270, 2].mean() > 200
        return [car, dog] if there else [car, bus]

    audit = audit_deletion(gets_better, "bus", "dog", {"bus": "car"})
    tests = [one for one in audit.tests if one.kind == "ood"]
    cars = [(test.truth["car"], test.original["car"], test.found["car"]) for test in tests]
    assert cars == [(2, 1, 2)] * 2
    assert [errors(one, "gt") for one in tests] == [Counter(car=-1)] * 2
    assert all("bus" not in one.truth + one.annotation for one in tests)
    assert not any("No recognizer names" in message for message in audit.document.messages)


def test_people_are_not_judged_where_masks_of_bicycles_hold_them(tmp_path: Path) -> None:
    names = tmp_path / "names.json"
    names.write_text('{"1": "bicyclist", "held_by": {"pedestrian": "bicyclist"}}')
    assert read_names(names).held_by == {"person": "bicycle"}
    names.write_text('{"1": "bicyclist", "counted_as": ["bus"]}')
    with pytest.raises(
        DataError, match=r'counted_as and held_by map names to names, such as \{"bus": "car"\}'
    ):
        read_names(names)
    seen, left = Counter(person=2, bicycle=1, car=1), Counter(car=1)
    one = Test("a", "d", "delete", "bicycle", "ood", 0, "a.png", seen, left, seen)
    assert errors(one, "exclusion") == Counter(person=2)
    rider = replace(one, held=frozenset({"person"}))
    assert (errors(rider, "exclusion"), reference(rider, "gt")) == (Counter(), Counter(car=1))
