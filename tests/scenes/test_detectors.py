"""Recognizers in files and functions, and asking them: layouts by hand, suppression against brute
force, real detectors on photographs.
"""

from __future__ import annotations

import json
import math
import pickle
import re
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from fairprobe.arrays import Floats
from fairprobe.errors import ModelError, SettingError, StorageError
from fairprobe.scenes.detectors import open_detector
from fairprobe.scenes.detectors.base import (
    Detection,
    Detector,
    TryAgainError,
    count_labels,
    overlaps,
    suppress,
)
from fairprobe.scenes.detectors.function import FunctionDetector, OwnDetector
from fairprobe.scenes.detectors.layouts import DecodedYolox, FastestDet, Ssd, Yolox
from fairprobe.scenes.detectors.onnx import OnnxDetector
from fairprobe.scenes.detectors.transformers import DetrDetector
from fairprobe.scenes.labels import COCO_IDS, COCO_NAMES
from fairprobe.scenes.queries import IN_VAIN, Failure, RequestCap, query
from fairprobe.scenes.scene import Picture
from tests.helpers import assets

CAR = COCO_NAMES.index("car")


def plain(height: int = 40, width: int = 60, color: tuple[int, int, int] = (0, 0, 0)) -> Picture:
    return np.full((height, width, 3), color, dtype=np.uint8)


# -- suppression -----------------------------------------------------------------------------------


def test_overlap_worked_out_by_hand() -> None:
    boxes = np.array(
        [[0, 0, 10, 10], [5, 0, 15, 10], [0, 0, 10, 5], [20, 20, 20, 30]], dtype=np.float64
    )
    shared = np.array([[15, 5, 7.5, 0], [5, 15, 3, 0], [7.5, 3, 15, 0], [0] * 4]) / 15
    np.testing.assert_allclose(overlaps(boxes), shared)


def test_suppression_worked_out_by_hand() -> None:
    # The second is hidden by the first (0.5 > 0.4); the third only overlaps the second, which is
    # gone; the fourth is of another class.
    boxes = np.array(
        [[0, 0, 10, 10], [0, 0, 10, 5], [0, 3, 10, 5], [0, 0, 10, 10]], dtype=np.float64
    )
    scores, classes = np.array([0.9, 0.8, 0.7, 0.95]), np.array([1, 1, 1, 2])
    assert suppress(boxes, scores, classes, 0.4).tolist() == [3, 0, 2]
    # Exactly as much is allowed.
    assert suppress(boxes, scores, classes, 0.5).tolist() == [3, 0, 1, 2]
    assert suppress(boxes[:0], scores[:0], classes[:0], 0.4).tolist() == []


def brute_force(boxes: Floats, scores: Floats, classes: list[int], limit: float) -> list[int]:
    """Pixel by pixel, one box after another."""
    pixels = [
        {(x, y) for x in range(int(a), int(c)) for y in range(int(b), int(d))}
        for a, b, c, d in boxes
    ]

    def overlap(first: int, second: int) -> float:
        union = pixels[first] | pixels[second]
        return len(pixels[first] & pixels[second]) / len(union) if union else 0.0

    kept: list[int] = []
    for box in sorted(range(len(boxes)), key=lambda at: (-scores[at], at)):
        rivals = [other for other in kept if classes[other] == classes[box]]
        if all(overlap(box, other) <= limit for other in rivals):
            kept.append(box)
    return kept


@given(
    st.lists(
        st.tuples(*[st.integers(0, 8)] * 4, st.integers(0, 4), st.integers(0, 2)), max_size=12
    ),
    st.sampled_from([0.0, 0.3, 0.45, 1.0]),
)
def test_suppression_agrees_with_counting_pixels(rows: list[tuple[int, ...]], limit: float) -> None:
    corners = [(x, y, x + w, y + h) for x, y, w, h, _, _ in rows]
    boxes = np.array(corners, dtype=np.float64).reshape(-1, 4)
    scores, classes = np.array([row[4] / 4 for row in rows]), [row[5] for row in rows]
    kept = suppress(boxes, scores, np.array(classes, dtype=np.int64), limit).tolist()
    assert kept == brute_force(boxes, scores, classes, limit)


# -- layouts ---------------------------------------------------------------------------------------


def test_the_classes_of_coco_and_their_ids() -> None:
    assert len(COCO_NAMES) == len(set(COCO_NAMES)) == len(COCO_IDS) == 80
    by_id = dict(zip(COCO_IDS, COCO_NAMES, strict=True))
    some = {1: "person", 3: "car", 10: "traffic light", 13: "stop sign", 27: "backpack"}
    some |= {11: "fire hydrant", 44: "bottle", 67: "dining table", 90: "toothbrush"}
    assert {number: by_id[number] for number in some} == some


def test_each_layout_gets_its_colors_scale_and_frame() -> None:
    red = plain(16, 32, (255, 0, 0))
    planes = FastestDet(32, 32).prepare(red)[0]
    assert planes.shape == (3, 32, 32)
    assert [plane.mean() for plane in planes] == [0, 0, 1]  # blue, green, red
    framed = Yolox(64, 64).prepare(red)[0]
    assert [plane[:32].mean() for plane in framed] == [0, 0, 255]  # twice as large, at the top
    assert (framed[:, 32:] == 114).all()
    whole = Ssd(30, 30).prepare(red)
    assert whole.shape == (1, 30, 30, 3)
    assert whole[0, 0, 0].tolist() == [255, 0, 0]


def yolox_answer(height: int, width: int) -> Any:
    """One car in the cell of row 1 and column 2 of stride 16, its center half a cell further, 32×16
    pixels large.
    """
    cells = [(height // stride) * (width // stride) for stride in (8, 16, 32)]
    rows = np.zeros((1, sum(cells), 85), dtype=np.float32)
    row = rows[0, cells[0] + (width // 16) + 2]
    row[:5] = 0.5, 0.5, np.log(2), np.log(1), 0.9
    row[5 + CAR] = 0.8
    return rows


def ssd_answer() -> tuple[Any, Any]:
    scores, boxes = np.zeros((1, 7, 90), dtype=np.float32), np.zeros((1, 7, 1, 4), dtype=np.float32)
    scores[0, 4, 3 - 1] = 0.72  # COCO's id of a car is 3
    scores[0, 5, 12 - 1] = 0.99  # an id that means nothing
    boxes[0, 4, 0] = 0.25, 0.5, 0.75, 1.0
    return scores, boxes


def fastestdet_answer() -> Any:
    """One car in the cell of row 1 and column 2 of a grid of 4×4, its center half a cell further,
    half as wide as the picture.
    """
    grid = np.zeros((1, 85, 4, 4), dtype=np.float32)
    grid[0, 0, 1, 2] = 0.9
    grid[0, 1:5, 1, 2] = np.arctanh(0.5), np.arctanh(0.5), 0.0, -np.log(3)
    grid[0, 5 + CAR, 1, 2] = 0.8
    return grid


def network(
    path: Path, shape: list[Any], outputs: dict[str, Any], *, kind: int = TensorProto.FLOAT
) -> Path:
    """An ONNX file that answers the same whatever it is shown."""
    nodes = [
        helper.make_node("ReduceMean", ["picture"], ["mean"], keepdims=0),
        helper.make_node("Sub", ["mean", "mean"], ["nothing"]),
    ]
    nodes += [helper.make_node("Add", [f"{name} before", "nothing"], [name]) for name in outputs]
    graph = helper.make_graph(
        nodes,
        "detector",
        [helper.make_tensor_value_info("picture", kind, shape)],
        [helper.make_tensor_value_info(name, kind, value.shape) for name, value in outputs.items()],
        [numpy_helper.from_array(value, f"{name} before") for name, value in outputs.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    return path


def test_a_yolox_file_is_recognized_and_its_box_put_back_into_the_picture(tmp_path: Path) -> None:
    detector = OnnxDetector(
        network(tmp_path / "x.onnx", [1, 3, 64, 96], {"out": yolox_answer(64, 96)})
    )
    (car,) = detector.detect(plain(128, 192))  # twice as large as what the network sees
    assert (detector.layout, car.label) == (Yolox(64, 96), "car")
    assert car.score == pytest.approx(0.9 * 0.8)
    assert car.box == pytest.approx((2 * (40 - 16), 2 * (24 - 8), 2 * (40 + 16), 2 * (24 + 8)))


def decoding(height: int, width: int) -> tuple[Any, Any]:
    """Column and row of every cell of the three grids, and its stride, cell by cell."""
    cells = [
        (column, row, stride)
        for stride in (8, 16, 32)
        for row in range(height // stride)
        for column in range(width // stride)
    ]
    found = np.array(cells, dtype=np.float32)[None]
    return found[:, :, :2], found[:, :, 2:]


def with_decoded_boxes(path: Path, height: int, width: int, to: Path) -> Path:
    """The same network with the nodes that an export with `decode_in_inference` has at its end."""
    model = onnx.load(path)
    graph, cells, strides = model.graph, *decoding(height, width)
    raw = graph.output[0].name
    for name, value in {
        "cells": cells,
        "strides": strides,
        **{f"at {at}": np.array([at], dtype=np.int64) for at in (0, 2, 4, 85)},
        "last axis": np.array([2], dtype=np.int64),
    }.items():
        graph.initializer.append(numpy_helper.from_array(value, name))
    graph.node.extend(
        [
            *(
                helper.make_node("Slice", [raw, f"at {start}", f"at {stop}", "last axis"], [part])
                for part, start, stop in (("center", 0, 2), ("size", 2, 4), ("scores", 4, 85))
            ),
            helper.make_node("Add", ["center", "cells"], ["in cells"]),
            helper.make_node("Mul", ["in cells", "strides"], ["in pixels"]),
            helper.make_node("Exp", ["size"], ["size in cells"]),
            helper.make_node("Mul", ["size in cells", "strides"], ["size in pixels"]),
            helper.make_node(
                "Concat", ["in pixels", "size in pixels", "scores"], ["decoded"], axis=2
            ),
        ]
    )
    graph.output.remove(graph.output[0])
    graph.output.append(
        helper.make_tensor_value_info("decoded", TensorProto.FLOAT, [1, cells.shape[1], 85])
    )
    onnx.save(model, to)
    return to


def test_a_yolox_file_whose_boxes_are_decoded_already_gives_the_same_boxes(tmp_path: Path) -> None:
    raw = network(tmp_path / "x.onnx", [1, 3, 64, 96], {"out": yolox_answer(64, 96)})
    file = with_decoded_boxes(raw, 64, 96, tmp_path / "d.onnx")
    assert [one.name for one in OnnxDetector(file).candidates] == ["yolox-decoded", "yolov6"]
    with pytest.raises(ModelError, match=r"fit several layouts: YOLOX, boxes decoded, YOLOv6\. Na"):
        OnnxDetector(file).detect(plain(128, 192))
    decoded = OnnxDetector(file, layout="yolox-decoded")
    (car,) = decoded.detect(plain(128, 192))
    assert decoded.layout == DecodedYolox(64, 96)
    assert car.box == pytest.approx((48, 32, 112, 64))  # as in the test before
    assert "decoded" in str(decoded.identity)  # answers kept from a wrong reading are not used
    assert pickle.loads(pickle.dumps(decoded)).detect(plain(128, 192)) == (car,)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(160, 160), (128, 256)]),
    st.floats(0.1, 1.2),
    st.floats(-1, 3),
)
def test_raw_and_decoded_boxes_are_recognized_by_their_values(
    seed: int, size: tuple[int, int], spread: float, larger: float
) -> None:
    rng = np.random.default_rng(seed)
    cells, strides = decoding(*size)
    raw = np.zeros((1, cells.shape[1], 85), dtype=np.float32)
    raw[..., :2] = rng.normal(0.5, spread, cells.shape)
    raw[..., 2:4] = rng.normal(larger, 1.0, cells.shape)
    decoded = raw.copy()
    decoded[..., :2] = (raw[..., :2] + cells) * strides
    decoded[..., 2:4] = np.exp(raw[..., 2:4]) * strides
    layout = Yolox(*size)
    assert layout.are_raw([raw]) is True
    assert layout.are_raw([decoded]) is False
    np.testing.assert_allclose(
        layout.read([raw], size)[0],
        DecodedYolox(*size).read([decoded], size)[0],
        rtol=1e-4,
        atol=1e-2,
    )


def test_boxes_that_could_be_either_are_refused_until_the_layout_is_named(tmp_path: Path) -> None:
    for value in (1000.0, np.nan):
        answer = yolox_answer(64, 96)
        answer[:, :, :2] = value
        path = network(tmp_path / "x.onnx", [1, 3, 64, 96], {"out": answer})
        several = r"layouts: YOLOX, YOLOX, boxes decoded, YOLOv6\. Name one, as in yolox:"
        with pytest.raises(ModelError, match=several):
            OnnxDetector(path).detect(plain())
    for form, layout in (("yolox", Yolox), ("yolox-decoded", DecodedYolox)):
        detector = open_detector(f"{form}:{path}")
        assert isinstance(detector, OnnxDetector)
        assert type(detector.layout) is layout
    path = network(tmp_path / "f.onnx", [1, 3, 64, 64], {"out": fastestdet_answer()})
    with pytest.raises(ModelError, match=r"f\.onnx is no YOLOX: it has the inputs picture 1×3×64"):
        open_detector(f"yolox:{path}")
    with pytest.raises(SettingError, match="Unknown layout 'yolo'"):
        OnnxDetector(path, layout="yolo")


def test_an_ssd_file_is_recognized_in_either_order_of_its_outputs(tmp_path: Path) -> None:
    scores, boxes = ssd_answer()
    for outputs in ({"a": scores, "b": boxes}, {"a": boxes, "b": scores}):
        path = network(tmp_path / "s.onnx", [1, 30, 30, 3], outputs)
        (car,) = OnnxDetector(path).detect(plain(40, 60))
        assert car.label == "car"
        assert car.score == pytest.approx(0.72)
        assert car.box == pytest.approx((30, 10, 60, 30))


def test_a_fastestdet_file_is_recognized_and_its_box_cut_at_the_edge(tmp_path: Path) -> None:
    detector = OnnxDetector(
        network(tmp_path / "f.onnx", ["batch", 3, 64, 64], {"out": fastestdet_answer()})
    )
    (car,) = detector.detect(plain(40, 80))
    assert isinstance(detector.layout, FastestDet)
    assert car.score == pytest.approx(0.9**0.6 * 0.8**0.4)
    x, y = 80 * 2.5 / 4, 40 * 1.5 / 4
    assert car.box == pytest.approx((x - 80 / 4, y - 40 / 8, x + 80 / 4, y + 40 / 8))
    answer = fastestdet_answer()
    answer[0, 3, 1, 2] = 30.0  # as wide as the picture
    wide_network = network(tmp_path / "w.onnx", [1, 3, 64, 64], {"out": answer})
    (wide,) = OnnxDetector(wide_network).detect(plain(40, 80))
    assert wide.box is not None
    assert wide.box[2] == 80


def test_thresholds_are_settings_and_part_of_the_identity(tmp_path: Path) -> None:
    path = network(tmp_path / "f.onnx", [1, 3, 64, 64], {"out": fastestdet_answer()})
    usual, strict = OnnxDetector(path), OnnxDetector(path, threshold=0.9)
    assert (usual.threshold, usual.overlap, usual.name) == (0.65, 0.45, "f")
    assert strict.detect(plain()) == ()
    assert len({usual.identity, strict.identity, OnnxDetector(path, overlap=0.9).identity}) == 3
    with pytest.raises(SettingError, match="between 0 and 1; got 65"):
        OnnxDetector(path, threshold=65)


def test_an_unsupported_file_is_refused_with_what_it_has_and_what_is_supported(
    tmp_path: Path,
) -> None:
    path = network(
        tmp_path / "other.onnx", [1, 3, 64, 64], {"cls": np.zeros((1, 9, 2), dtype=np.float32)}
    )
    supported = r"cls 1×9×2\. Supported are yolox, .* ssd, .* fastestdet, .*module:function"
    with pytest.raises(ModelError, match=f"picture 1×3×64×64 and the outputs {supported}"):
        OnnxDetector(path)
    (tmp_path / "broken.onnx").write_bytes(b"no network")
    with pytest.raises(ModelError, match=r"broken\.onnx is not an ONNX file that onnxruntime can"):
        OnnxDetector(tmp_path / "broken.onnx")
    with pytest.raises(StorageError, match=r"Cannot read .*none\.onnx"):
        open_detector(str(tmp_path / "none.onnx"))


def test_scores_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    nothing = np.full((1, 85, 4, 4), np.nan, dtype=np.float32)
    detector = OnnxDetector(network(tmp_path / "n.onnx", [1, 3, 64, 64], {"out": nothing}))
    with pytest.raises(ModelError, match="scores that are not finite numbers"):
        detector.detect(plain())


def test_more_objects_than_any_picture_has_are_refused(tmp_path: Path) -> None:
    """As a YOLOv6 that is read as a YOLOX: an orange in every cell."""
    answer = yolox_answer(128, 192)
    answer[0, :, 4:] = 0.9
    detector = OnnxDetector(
        network(tmp_path / "v6.onnx", [1, 3, 128, 192], {"out": answer}), layout="yolox"
    )
    with pytest.raises(ModelError, match=r"v6\.onnx returned \d+ objects for one picture"):
        detector.detect(plain(128, 192))


def test_a_missing_library_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = network(tmp_path / "f.onnx", [1, 3, 64, 64], {"out": fastestdet_answer()})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ModelError, match=r'pip install "fairprobe\[scenes\]"'):
        OnnxDetector(path)


def test_another_process_opens_the_file_again_and_notices_another_one(tmp_path: Path) -> None:
    path = network(tmp_path / "f.onnx", [1, 3, 64, 64], {"out": fastestdet_answer()})
    detector = OnnxDetector(path)
    sent = pickle.dumps(detector)
    assert len(sent) < 2000
    assert pickle.loads(sent).detect(plain()) == detector.detect(plain())
    network(path, [1, 3, 64, 64], {"out": fastestdet_answer() * 0.5})
    with pytest.raises(ModelError, match="has changed since it was opened"):
        pickle.loads(sent).detect(plain())


@pytest.mark.parametrize("name", ["FastestDet", "yolox_nano", "coco_ssd_lite_mobilenet_v2"])
def test_real_detectors_find_people_and_cars_in_photographs_of_the_right_colors(name: str) -> None:
    folder = assets() / "vision"
    detector = open_detector(str(folder / f"{name}.onnx"))
    bus, street = (
        np.asarray(Image.open(folder / file).convert("RGB"))
        for file in ("bus.jpg", "mmdet_demo.jpg")
    )
    found = detector.detect(bus)
    assert count_labels(found)["person"] >= 2
    assert count_labels(found)["bus"] == 1
    (place,) = [one.box for one in found if one.label == "bus"]
    assert place == pytest.approx((17, 230, 805, 750), abs=90)
    cars = count_labels(detector.detect(street))["car"]
    exchanged = count_labels(detector.detect(street[:, :, ::-1].copy()))["car"]
    assert exchanged < cars >= 5  # a car is less of a car with red and blue exchanged


def test_a_real_yolox_sees_the_same_with_its_boxes_decoded(tmp_path: Path) -> None:
    folder = assets() / "vision"
    raw = OnnxDetector(folder / "yolox_nano.onnx")
    path = with_decoded_boxes(raw.path, 416, 416, tmp_path / "decoded.onnx")
    decoded = OnnxDetector(path, layout="yolox-decoded")
    assert (raw.layout, decoded.layout) == (Yolox(416, 416), DecodedYolox(416, 416))
    for file in ("bus.jpg", "mmdet_demo.jpg"):
        picture = np.asarray(Image.open(folder / file).convert("RGB"))
        wanted, found = raw.detect(picture), decoded.detect(picture)
        assert len(wanted) >= 3
        for detection, other in zip(found, wanted, strict=True):
            assert (detection.label, detection.score) == (other.label, other.score)
            assert detection.box == pytest.approx(other.box, abs=0.01)


def test_a_real_detector_of_another_kind_is_refused() -> None:
    with pytest.raises(ModelError, match=r"yunet.* cls_8 1×6400×1, .* and 8 more\. Supported are"):
        OnnxDetector(assets() / "vision" / "yunet_n_640_640.onnx")


# -- transformers ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A DETR and a YOLOS with random weights, as `save_pretrained` writes them."""
    tf: Any = pytest.importorskip("transformers")
    from transformers.models.detr.image_processing_pil_detr import DetrImageProcessorPil
    from transformers.models.yolos.image_processing_pil_yolos import YolosImageProcessorPil

    tf.utils.logging.disable_progress_bar()
    names: dict[str, Any] = {
        "id2label": {0: "N/A", 1: "Person", 2: "motorbike"},
        "label2id": {"N/A": 0, "Person": 1, "motorbike": 2},
    }
    backbone = tf.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], out_features=["stage4"]
    )
    small = {
        f"{part}_{name}": size
        for part in ("encoder", "decoder")
        for name, size in (("layers", 1), ("ffn_dim", 16), ("attention_heads", 2))
    }
    small |= {"d_model": 16, "num_queries": 30}
    about = tf.DetrConfig(use_timm_backbone=False, backbone_config=backbone, **small, **names)
    sizes: dict[str, Any] = dict.fromkeys(("hidden_size", "intermediate_size", "patch_size"), 16)
    sizes |= {"num_hidden_layers": 1, "num_attention_heads": 2}
    tokens = tf.YolosConfig(**sizes, image_size=[64, 96], num_detection_tokens=30, **names)
    size = {"shortest_edge": 64, "longest_edge": 96}
    found = {}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for name, model, processor in (
            ("detr", tf.DetrForObjectDetection(about), DetrImageProcessorPil(size=size)),
            ("yolos", tf.YolosForObjectDetection(tokens), YolosImageProcessorPil(size=size)),
        ):
            found[name] = tmp_path_factory.mktemp(name)
            torch.nn.init.constant_(
                model.get_parameter(f"{HEADS[name]}.bias")[1:3], 2.0
            )  # rather than no object at all
            model.save_pretrained(found[name])
            processor.save_pretrained(found[name])
    return found


HEADS = {"detr": "class_labels_classifier", "yolos": "class_labels_classifier.layers.2"}


def expected(folder: Path, image: Picture) -> list[tuple[str, float, list[float]]]:
    """From the network's raw answer: the likeliest class but the last ("nothing"), and center and
    size as shares of the picture.
    """
    tf: Any = pytest.importorskip("transformers")
    processor = tf.AutoImageProcessor.from_pretrained(folder)
    with torch.inference_mode():
        raw = tf.AutoModelForObjectDetection.from_pretrained(folder)(
            **processor(images=image, return_tensors="pt")
        )
    found = []
    for logits, (x, y, w, h) in zip(
        raw.logits[0].double().softmax(-1).tolist(), raw.pred_boxes[0].tolist(), strict=True
    ):
        best = int(np.argmax(logits[:3]))
        box = [90 * (x - w / 2), 60 * (y - h / 2), 90 * (x + w / 2), 60 * (y + h / 2)]
        found.append((("nothing", "person", "motorcycle")[best], logits[best], box))
    return [one for one in found if one[0] != "nothing"]


@pytest.mark.parametrize("name", ["detr", "yolos"])
def test_a_transformers_detector_is_read_from_a_folder(name: str, folders: dict[str, Path]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    detector = open_detector(f"detr:{folders[name]}")
    assert isinstance(detector, DetrDetector)
    everything = DetrDetector(str(folders[name]), threshold=0.0)
    found = everything.detect(image)
    wanted = expected(folders[name], image)
    assert [one.label for one in found] == [label for label, _, _ in wanted]
    assert wanted
    for one, (_, score, box) in zip(found, wanted, strict=True):
        assert one.score == pytest.approx(score, abs=1e-5)
        assert one.box == pytest.approx(box, abs=1e-3)
    assert detector.detect(image) == tuple(one for one in found if one.score > 0.5)
    assert pickle.loads(pickle.dumps(everything)).detect(image) == found
    assert detector.identity != everything.identity


def test_a_transformers_folder_without_a_trained_detector_is_refused(
    folders: dict[str, Path], tmp_path: Path
) -> None:
    from safetensors.numpy import load_file, save_file

    with pytest.raises(ModelError, match=r"be loaded as a detector: .*Expected config\.json"):
        DetrDetector(str(tmp_path))
    for path in folders["detr"].glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    weights = load_file(folders["detr"] / "model.safetensors")
    kept = {name: value for name, value in weights.items() if "class_labels" not in name}
    save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(
        ModelError, match=r"lacks weights of its detector \(class_labels_classifier"
    ):
        DetrDetector(str(tmp_path))


# -- functions -------------------------------------------------------------------------------------

CODE = """
calls = []

def brightness(image):
    calls.append(image.shape)
    return [("Pedestrian", image.mean() / 255), {"label": "motor bike", "score": 0.5, "box": (0, 0,
    10.5, 20)}, ("cat", 1, [1, 2, 3, 4])]

def fails(image):
    return [("cat", 1 / image.min())]

def made():
    return brightness

def nonsense(image):
    return "cat"

def two(image, more):
    return []
"""


def test_a_function_in_a_file_is_a_detector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "my_recognizer.py"
    path.write_text(CODE)
    image = plain(color=(255, 255, 255))
    for name in ("brightness", "made"):
        detector = open_detector(f"{path}:{name}")
        seen = dict(query(detector, [("white", image)]))["white"]
        assert seen == (
            Detection("person", 1.0),
            Detection("motor bike", 0.5, (0.0, 0.0, 10.5, 20.0)),
            Detection("cat", 1.0, (1.0, 2.0, 3.0, 4.0)),
        )
        assert pickle.loads(pickle.dumps(detector)).detect(image) == detector.detect(image)
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_detector("my_recognizer:brightness"), OwnDetector)


def test_answers_of_a_function_are_kept_only_under_an_identity_that_the_user_gives(
    tmp_path: Path,
) -> None:
    path = tmp_path / "my_recognizer.py"
    known = {}
    texts = ("", *(f"brightness.identity = {text}\n" for text in ("'May'", "'June'", "'June'#")))
    for version, text in enumerate(texts):
        path.write_text(CODE + text)
        known[version] = open_detector(f"{path}:brightness").identity
    assert known.pop(0) is None
    assert len(set(known.values())) == 3  # another text, or another file
    assert open_detector(f"{path}:brightness").identity == known[3]
    path.write_text(CODE + "brightness.identity = 3\n")
    with pytest.raises(ModelError, match=r"'identity' of .*brightness' must be a text .*got 3\."):
        open_detector(f"{path}:brightness")


def test_a_changed_network_does_not_get_the_answers_of_the_one_before(tmp_path: Path) -> None:
    """Neither trained on in place, nor loaded anew under the same name, nor behind a method, a
    partial or a default.
    """
    network = torch.nn.Linear(1, 1)

    class Wrapped:
        def __init__(self) -> None:
            self.network = network

        def __call__(self, image: Picture) -> list[tuple[str, float]]:
            brightness = torch.tensor([[image.mean() / 255]], dtype=torch.float32)
            with torch.inference_mode():
                return [("cat", float(self.network(brightness).sigmoid()))]

        def see(self, image: Picture) -> list[tuple[str, float]]:
            return self(image)

    def enclosed(image: Picture) -> list[tuple[str, float]]:
        return Wrapped()(image)

    def default(image: Picture, wrapped: Wrapped = Wrapped()) -> list[tuple[str, float]]:  # noqa: B008
        return wrapped(image)

    held = Wrapped()
    detectors = [
        FunctionDetector(one)
        for one in (held, held.see, enclosed, default, partial(default, wrapped=held))
    ]

    def scores() -> list[float]:
        answers = [
            dict(query(one, [(0, plain(4, 4, (200, 0, 0)))], cache=tmp_path))[0]
            for one in detectors
        ]
        return [answer[0].score for answer in answers if not isinstance(answer, Failure)]

    seen = []
    for value in (-2.0, 2.0):
        with torch.no_grad():
            network.weight.fill_(value)
            network.bias.fill_(value)
        seen.append(scores())
    assert [len(set(several)) for several in seen] == [1, 1]
    assert all(before < 0.5 < after for before, after in zip(*seen, strict=True))
    assert not list(tmp_path.iterdir())


def test_a_function_that_fails_or_returns_nonsense_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "my_recognizer.py"
    path.write_text(CODE)
    failed = r"fails' failed on a picture of 60×40 pixels .*recognizer\.py:10"
    with np.errstate(divide="raise"), pytest.raises(ModelError, match=failed):
        open_detector(f"{path}:fails").detect(plain())
    with pytest.raises(ModelError, match="returned a str; expected a list of"):
        open_detector(f"{path}:nonsense").detect(plain())
    with pytest.raises(ModelError, match="two' is neither a function of one picture"):
        open_detector(f"{path}:two")
    with pytest.raises(SettingError, match=r"There is no 'brigtness' .*Did you mean 'brightness'"):
        open_detector(f"{path}:brigtness")


def test_an_unknown_detector_is_refused() -> None:
    with pytest.raises(
        SettingError, match=r"Unknown detector 'gogle'\. Did you mean 'google'\? Known: file\.onnx"
    ):
        open_detector("gogle")
    with pytest.raises(ModelError, match="function of a picture; got one of type int"):
        FunctionDetector(3)  # type: ignore[arg-type]


# -- asking ----------------------------------------------------------------------------------------


class Scripted(Detector):
    """Does what the script says, one entry a question, then sees a cat."""

    name = "scripted"
    identity = "scripted 1"
    CAT: ClassVar = (Detection("cat", 0.5, (0.0, 1.0, 2.0, 3.0)),)

    def __init__(self, *script: Any) -> None:
        self.script, self.asked_at = list(script), list[float]()

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        self.asked_at.append(time.monotonic())
        step = self.script.pop(0) if self.script else self.CAT
        if isinstance(step, BaseException):
            raise step
        answer: tuple[Detection, ...] = step() if callable(step) else step
        return answer


def pictures(count: int) -> Iterator[tuple[int, Picture]]:
    return ((number, plain(4, 4, (number, 0, 0))) for number in range(count))


def test_an_exception_of_one_picture_is_its_failure_and_order_is_kept() -> None:
    detector = Scripted(
        Scripted.CAT, ZeroDivisionError("by nothing\nat all"), SystemExit(3), ModelError("Broken.")
    )
    answers = list(query(detector, pictures(5)))
    assert answers == [
        (0, Scripted.CAT),
        (1, Failure("scripted failed: ZeroDivisionError: by nothing.")),
        (2, Failure("scripted failed: SystemExit: 3.")),
        (3, Failure("scripted: Broken.")),
        (4, Scripted.CAT),
    ]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "returned None; expected a list"),
        (("cat",), "returned 'cat'; expected a detection"),
        ((Detection("", 0.5),), "the label ''"),
        ((Detection(7, 0.5),), "the label 7"),  # type: ignore[arg-type]
        ((Detection("cat", 50.0),), "the score 50.0 for 'cat'; expected a number from 0 to 1"),
        ((Detection("cat", float("nan")),), "the score nan"),
        ((Detection("cat", True),), "the score True"),
        ((Detection("cat", 0.5, (0, 0, 1, float("inf"))),), "the box .*inf"),
        ((Detection("cat", 0.5, (0, 0, 1)),), "the box .*expected left, top"),  # type: ignore[arg-type]
        ((Detection("cat", 0.5, (5, 0, 1, 1)),), "right or bottom lies before"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_failure(
    answer: Any, message: str, tmp_path: Path
) -> None:
    detector = Scripted(answer)
    first, second = (found for _, found in query(detector, pictures(2), cache=tmp_path))
    assert isinstance(first, Failure)
    assert re.search(message, first.reason)
    assert second == Scripted.CAT
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_numbers_of_numpy_become_plain_ones() -> None:
    odd: Any = Detection("cat", np.float32(0.5), np.array([0, 1, 2, 3]))  # type: ignore[arg-type]
    assert dict(query(Scripted((odd,)), pictures(1))) == {0: Scripted.CAT}


def test_waiting_doubles_with_a_chance_by_seed_and_heeds_what_is_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.append(seconds) if seconds else None)
    detector = Scripted(*(TryAgainError("busy", after) for after in (0, 0.01, 5, 3600)))
    assert dict(query(detector, pictures(1), pause=0.1, seed=3)) == {0: Scripted.CAT}
    chances = np.random.default_rng(3).uniform(0.5, 1.0, 2)
    assert slept == pytest.approx([0.1 * chances[0], 0.2 * chances[1], 5, 60])


def test_requests_keep_to_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    detector = Scripted(TryAgainError("busy"))
    list(query(detector, pictures(3), rate=20, pause=0))
    assert detector.asked_at == pytest.approx([100, 100.05, 100.1, 100.15])


def test_several_requests_are_under_way_together_and_answers_keep_their_order() -> None:
    meeting = threading.Barrier(3, timeout=20)

    class Meets(Detector):
        name = "meets"

        def detect(self, image: Picture) -> tuple[Detection, ...]:
            meeting.wait()  # until three requests are here
            return (Detection(str(int(image[0, 0, 0])), 0.5),)

    images = [(at, plain(2, 2, (at, 0, 0))) for at in range(6)]
    answers = list(query(Meets(), images, at_once=3))
    assert answers == [(at, (Detection(str(at), 0.5),)) for at in range(6)]


def test_the_cap_on_requests_counts_tries_and_holds_for_all_recognizers_together() -> None:
    cap = RequestCap(4)
    first = list(query(Scripted(TryAgainError("busy")), pictures(2), pause=0, cap=cap))
    assert (cap.made, [found for _, found in first]) == (3, [Scripted.CAT] * 2)
    second = list(query(Scripted(), pictures(3), cap=cap, at_once=2))
    failed = [found for _, found in second if isinstance(found, Failure)]
    assert len(failed) == 2
    assert "the cap of 4 requests is reached. Raise it" in failed[0].reason


def test_a_detector_that_hangs_is_given_up_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for_ever, join = threading.Event(), threading.Thread.join
    waits = iter([0.0, None])  # the first answer is not waited for, the second as long as it takes
    monkeypatch.setattr(threading.Thread, "join", lambda thread, _: join(thread, next(waits)))
    answers = list(query(Scripted(for_ever.wait), pictures(2), timeout=0.5))
    for_ever.set()
    assert [found for _, found in answers] == [
        Failure("scripted did not answer within 0.5 seconds."),
        Scripted.CAT,
    ]


def test_one_that_never_answers_is_not_queried_forever(tmp_path: Path) -> None:
    list(query(Scripted(), [(0, plain())], cache=tmp_path))
    detector = Scripted(*[TryAgainError("busy")] * 100)
    found = [
        answer
        for _, answer in query(
            detector, [*pictures(IN_VAIN + 2), (99, plain())], retries=1, pause=0.0, cache=tmp_path
        )
    ]
    assert len(detector.asked_at) == 2 * IN_VAIN
    assert found[IN_VAIN - 1] == Failure("scripted gave no answer in 2 tries: busy.")
    assert found[IN_VAIN] == Failure(
        f"scripted was not tried, since it gave no answer to the {IN_VAIN} pictures before."
    )
    assert found[-1] == Scripted.CAT  # known from before


def test_stored_answers_are_not_queried_and_belong_to_one_identity_and_picture(
    tmp_path: Path,
) -> None:
    first = Scripted()
    list(query(first, pictures(3), cache=tmp_path / "new" / "cache"))
    second = Scripted()
    assert dict(query(second, pictures(4), cache=tmp_path / "new" / "cache")) == dict.fromkeys(
        range(4), Scripted.CAT
    )
    assert (len(first.asked_at), len(second.asked_at)) == (3, 1)
    other = Scripted()
    other.identity = "scripted 2"
    list(query(other, [(0, plain(4, 4)), (1, plain(2, 8))], cache=tmp_path / "new" / "cache"))
    assert len(other.asked_at) == 2


def test_a_stored_answer_that_is_damaged_is_queried_again(tmp_path: Path) -> None:
    for content in ("{", "[]", '{"detections": [["cat", 7, null]]}', '{"detections": [["cat"]]}'):
        list(query(Scripted(), pictures(1), cache=tmp_path))
        (path,) = tmp_path.rglob("*.json")
        path.write_text(content)
        detector = Scripted()
        assert dict(query(detector, pictures(1), cache=tmp_path)) == {0: Scripted.CAT}
        assert len(detector.asked_at) == 1
        assert json.loads(path.read_text())["identity"] == "scripted 1"


def test_an_interruption_keeps_what_was_answered(tmp_path: Path) -> None:
    answers = query(Scripted(), pictures(5), cache=tmp_path)
    _ = next(answers), next(answers)
    answers.close()  # type: ignore[attr-defined]
    detector = Scripted()
    list(query(detector, pictures(5), cache=tmp_path))
    assert len(detector.asked_at) == 3


def test_a_folder_that_cannot_store_answers_stops_the_queries(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    detector = Scripted()
    with pytest.raises(StorageError, match="Cannot make the folder"):
        query(detector, pictures(1), cache=tmp_path / "file" / "cache")
    cache = tmp_path / "cache"
    questions = query(detector, pictures(3), cache=cache)
    next(questions)
    for path in cache.iterdir():
        (path / next(path.iterdir()).name).unlink()
        path.rmdir()
    cache.rmdir()
    cache.write_text("in the way")
    with pytest.raises(StorageError, match="Cannot make the folder"):
        next(questions)
    assert len(detector.asked_at) == 2


def test_what_a_detector_does_to_a_picture_is_seen_nowhere_else(tmp_path: Path) -> None:
    def scribbles(image: Picture) -> list[tuple[str, float]]:
        image[:] = 7
        return [("cat", 0.5)]

    scribbles.identity = "1"  # type: ignore[attr-defined]
    image = plain()
    list(query(FunctionDetector(scribbles), [(0, image)], cache=tmp_path))
    assert not image.any()
    (kept,) = tmp_path.rglob("*.json")
    kept.write_text(kept.read_text().replace("cat", "dog"))
    assert dict(query(FunctionDetector(scribbles), [(0, image)], cache=tmp_path)) == {
        0: (Detection("dog", 0.5),)
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"timeout": 0},
        {"timeout": math.nan},
        {"timeout": math.inf},
        {"retries": -1},
        {"rate": 0},
        {"rate": math.nan},
        {"pause": -1},
        {"at_once": 0},
        {"at_once": 1000},
    ],
)
def test_settings_that_mean_nothing_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"greater than 0|not be negative|From 1 to 64 requests"):
        query(Scripted(), pictures(1), **wrong)
