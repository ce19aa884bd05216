"""A YOLOX file re-encoded in the conventions of other families.

The network stays; nodes before it turn the other family's picture into YOLOX's, and nodes behind it
turn its raw boxes into the other family's outputs. So each layout can be tried on photographs, with
answers that are known: those of the original.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fairprobe.scenes.detectors.layout import cells
from fairprobe.scenes.labels import COCO_IDS, COCO_NAMES

QUERIES = 100
TINY = 1e-6


class Graph:
    """Nodes that are added to a network, each by one call."""

    def __init__(self, path: Path) -> None:
        self.model = onnx.load(path)
        graph = self.model.graph
        self.image, self.output = graph.input[0], graph.output[0]
        self.height, self.width = (
            one.dim_value for one in self.image.type.tensor_type.shape.dim[2:]
        )
        self.before: list[Any] = []
        self.after: list[Any] = []
        self._nodes = self.before
        self._count = 0

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; arrays among its inputs become constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        found = [self._new() for _ in range(outputs)]
        self._nodes.append(helper.make_node(kind, names, found, **attributes))
        return found[0] if outputs == 1 else found

    def constant(self, value: Any) -> str:
        array = np.asarray(value)
        if array.dtype == np.float64:
            array = array.astype(np.float32)
        name = self._new()
        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def prepare(self, make: Callable[[Graph, str], str], shape: list[int]) -> None:
        """Let the network receive what `make` returns for the new input."""
        old = self.image.name
        self._nodes = self.before
        made = make(self, "picture")
        for node in self.model.graph.node:
            for at, name in enumerate(node.input):
                if name == old:
                    node.input[at] = made
        del self.model.graph.input[0]
        self.model.graph.input.insert(
            0, helper.make_tensor_value_info("picture", TensorProto.FLOAT, shape)
        )

    def parts(self) -> tuple[str, str, str, str]:
        """Center and size in pixels, (1, N, 2) each; scores (1, N, 80); objectness (1, N, 1)."""
        self._nodes = self.after
        places, strides = cells(self.height, self.width, (8, 16, 32))
        raw = [self.cut(self.output.name, *ends) for ends in ((0, 2), (2, 4), (4, 5), (5, 85))]
        centers = self.op("Mul", self.op("Add", raw[0], places[None]), strides[None])
        sides = self.op("Mul", self.op("Exp", raw[1]), strides[None])
        return centers, sides, self.op("Mul", raw[2], raw[3]), raw[2]

    def cut(self, what: str, start: int, stop: int, axis: int = 2) -> str:
        ends = [np.array([one], dtype=np.int64) for one in (start, stop, axis)]
        found: str = self.op("Slice", what, *ends)
        return found

    def best(self, count: int, boxes: str, scores: str) -> tuple[str, str, str, str]:
        """Boxes, scores, best score and its class of the cells that are surest."""
        most = self.op("ReduceMax", scores, axes=[2], keepdims=0)
        top, places = self.op("TopK", most, np.array([count], dtype=np.int64), outputs=2, axis=1)
        flat = self.op("Reshape", places, np.array([-1], dtype=np.int64))
        some = self.op("Gather", boxes, flat, axis=1)
        all_scores = self.op("Gather", scores, flat, axis=1)
        classes = self.op("ArgMax", all_scores, axis=2, keepdims=0)
        return some, all_scores, top, classes

    def suppressed(self, corners: str, scores: str) -> str:
        """Scores (1, N, 80) without those of boxes that a better one of their class overlaps."""
        turned = self.op("Transpose", scores, perm=[0, 2, 1])
        limits = (np.array([QUERIES], dtype=np.int64), np.array([0.45]), np.array([0.05]))
        kept = self.op("NonMaxSuppression", corners, turned, *limits)
        places = self.cut(kept, 1, 3, axis=1)
        ones = self.op(
            "ConstantOfShape",
            self.cut(self.op("Shape", kept), 0, 1, axis=0),
            value=helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0]),
        )
        count = sum((self.height // stride) * (self.width // stride) for stride in (8, 16, 32))
        mask = self.op("ScatterND", np.zeros((80, count), dtype=np.float32), places, ones)
        wanted = self.op("Transpose", self.op("Unsqueeze", mask, axes=[0]), perm=[0, 2, 1])
        found: str = self.op("Mul", scores, wanted)
        return found

    def corners(self, centers: str, sides: str, scale: Any = 1.0) -> str:
        half = self.op("Mul", sides, np.float32(0.5))
        both = [self.op("Sub", centers, half), self.op("Add", centers, half)]
        found: str = self.op("Mul", self.op("Concat", *both, axis=2), np.asarray(scale))
        return found

    def save(self, path: Path, outputs: dict[str, Any], **about: str) -> Path:
        """Write the file. `outputs` maps names to a tensor, its shape and its type."""
        graph = self.model.graph
        nodes = [*self.before, *graph.node, *self.after]
        for name, (tensor, _, _) in outputs.items():
            nodes.append(helper.make_node("Identity", [tensor], [name]))
        del graph.node[:]
        graph.node.extend(nodes)
        del graph.output[:]
        graph.output.extend(
            helper.make_tensor_value_info(name, kind, shape)
            for name, (_, shape, kind) in outputs.items()
        )
        for key, value in about.items():
            self.model.metadata_props.add(key=key, value=value)
        onnx.save(self.model, path)
        return path

    def _new(self) -> str:
        self._count += 1
        return f"added {self._count}"


# -- pictures --------------------------------------------------------------------------------------


def _flipped(graph: Graph, picture: str) -> str:
    found: str = graph.op("Gather", picture, np.array([2, 1, 0], dtype=np.int64), axis=1)
    return found


def from_rgb_shares(graph: Graph, picture: str) -> str:
    """RGB from 0 to 1."""
    found: str = graph.op("Mul", _flipped(graph, picture), np.float32(255))
    return found


def from_normal(mean: Any, deviation: Any, *, is_bgr: bool) -> Callable[[Graph, str], str]:
    """With a mean and a deviation, on the scale of 0 to 255."""

    def make(graph: Graph, picture: str) -> str:
        mean_, deviation_ = (
            np.asarray(one, dtype=np.float32)[None, :, None, None] for one in (mean, deviation)
        )
        plain = graph.op("Add", graph.op("Mul", picture, deviation_), mean_)
        return plain if is_bgr else _flipped(graph, plain)

    return make


def from_pixels(graph: Graph, picture: str) -> str:
    """RGB from 0 to 255, channels last."""
    return _flipped(graph, graph.op("Transpose", picture, perm=[0, 3, 1, 2]))


# -- families --------------------------------------------------------------------------------------


def encode(path: Path, layout: str, to: Path, **about: str) -> Path:
    """Write the YOLOX file `path` as if it had another layout."""
    graph = Graph(path)
    height, width = graph.height, graph.width
    planes, size = [1, 3, height, width], [width, height]
    single = TensorProto.FLOAT
    count = sum((height // stride) * (width // stride) for stride in (8, 16, 32))
    if layout in ("ssd", "tf-detection"):
        graph.prepare(from_pixels, [1, height, width, 3])
    elif layout in ("detr", "deformable-detr"):
        imagenet = np.array([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
        graph.prepare(from_normal(*(255 * imagenet), is_bgr=False), planes)
    elif layout.startswith("nanodet"):
        mean, deviation = [103.53, 116.28, 123.675], [57.375, 57.12, 58.395]
        graph.prepare(from_normal(mean, deviation, is_bgr=True), planes)
    elif layout != "yolox-decoded":
        graph.prepare(from_rgb_shares, planes)
    centers, sides, scores, objectness = graph.parts()
    if layout in ("yolox-decoded", "yolov6", "yolov5"):
        classes = graph.cut(graph.output.name, 5, 85)
        rows = graph.op("Concat", centers, sides, objectness, classes, axis=2)
        if layout == "yolov5":  # three boxes a cell, two of which see nothing
            nothing = graph.op("Mul", rows, np.float32(0))
            rows, count = graph.op("Concat", rows, nothing, nothing, axis=1), 3 * count
        return graph.save(to, {"out": (rows, [1, count, 85], single)}, **about)
    if layout == "yolov8":
        rows = graph.op("Concat", centers, sides, scores, axis=2)
        turned = graph.op("Transpose", rows, perm=[0, 2, 1])
        return graph.save(to, {"out": (turned, [1, 84, count], single)}, **about)
    if layout.startswith("nanodet"):
        return _nanodet(graph, to, centers, sides, scores, 0.5 if layout == "nanodet" else 0.0)
    return _decided(graph, layout, to, (centers, sides, scores), size, **about)


def _decided(
    graph: Graph, layout: str, to: Path, parts: tuple[str, str, str], size: list[int], **about: str
) -> Path:
    """Families that return a fixed number of objects."""
    centers, sides, scores = parts
    single, whole = TensorProto.FLOAT, TensorProto.INT64
    shares = graph.op(
        "Div", graph.op("Concat", centers, sides, axis=2), np.array(size * 2, dtype=np.float32)
    )
    pixels = graph.corners(centers, sides)
    if layout == "ssd":
        relative = graph.corners(centers, sides, 1 / np.array(size * 2))
        ordered = graph.op("Gather", relative, np.array([1, 0, 3, 2], dtype=np.int64), axis=2)
        count = sum((size[0] // stride) * (size[1] // stride) for stride in (8, 16, 32))
        spread = graph.op("MatMul", scores, _to_ids())
        return graph.save(
            to,
            {"scores": (spread, [1, count, 90], single), "boxes": (ordered, [1, count, 4], single)},
        )
    scores = graph.suppressed(pixels, scores)
    boxes, some, top, classes = graph.best(
        QUERIES, pixels if layout in ("yolov10", "yolov7-nms", "torchvision") else shares, scores
    )
    numbers = graph.op("Unsqueeze", graph.op("Cast", classes, to=single), axes=[2])
    sure = graph.op("Unsqueeze", top, axes=[2])
    if layout == "yolov10":
        rows = graph.op("Concat", boxes, sure, numbers, axis=2)
        return graph.save(to, {"out": (rows, [1, QUERIES, 6], single)}, **about)
    if layout == "yolov7-nms":
        first = graph.op("Mul", sure, np.float32(0))
        rows = graph.op("Concat", first, boxes, numbers, sure, axis=2)
        flat = graph.op("Squeeze", rows, axes=[0])
        return graph.save(to, {"out": (flat, ["objects", 7], single)}, **about)
    if layout == "rt-detr-joined":
        rows = graph.op("Concat", boxes, some, axis=2)
        return graph.save(to, {"out": (rows, [1, QUERIES, 84], single)}, **about)
    if layout in ("detr", "rt-detr", "deformable-detr"):
        safe = graph.op("Clip", some, np.float32(TINY), np.float32(1 - TINY))
        rest = graph.op("Sub", np.float32(1), safe)
        logits = graph.op("Log", graph.op("Div", safe, rest))
        width = 80
        if layout == "detr":  # softmax over the classes and "no object" gives the same scores
            logits = graph.op("Log", safe)
            left = graph.op("Sub", np.float32(1), graph.op("ReduceSum", safe, axes=[2]))
            none = graph.op("Log", graph.op("Clip", left, np.float32(TINY), np.float32(1)))
            logits, width = graph.op("Concat", logits, none, axis=2), 81
        outputs: dict[str, Any] = {
            "logits": (logits, [1, QUERIES, width], single),
            "pred_boxes": (boxes, [1, QUERIES, 4], single),
        }
        return graph.save(to, outputs)
    ids = graph.op("Gather", np.array(COCO_IDS, dtype=np.int64), classes)
    flat_ids = graph.op("Squeeze", ids, axes=[0])
    if layout == "torchvision":
        outputs = {
            "boxes": (graph.op("Squeeze", boxes, axes=[0]), ["objects", 4], single),
            "labels": (flat_ids, ["objects"], whole),
            "scores": (graph.op("Squeeze", top, axes=[0]), ["objects"], single),
        }
        return graph.save(to, outputs)
    if layout == "tf-detection":
        halves = [graph.cut(boxes, 0, 2), graph.op("Mul", graph.cut(boxes, 2, 4), np.float32(0.5))]
        ends = graph.op("Concat", graph.op("Sub", *halves), graph.op("Add", *halves), axis=2)
        ordered = graph.op("Gather", ends, np.array([1, 0, 3, 2], dtype=np.int64), axis=2)
        outputs = {
            "num_detections": (graph.constant(np.array([QUERIES], dtype=np.float32)), [1], single),
            "detection_scores": (top, [1, QUERIES], single),
            "detection_classes": (graph.op("Cast", ids, to=single), [1, QUERIES], single),
            "detection_boxes": (ordered, [1, QUERIES, 4], single),
        }
        return graph.save(to, outputs)
    assert layout == "rt-detr-decided"
    graph.model.graph.input.append(
        helper.make_tensor_value_info("orig_target_sizes", TensorProto.INT64, [1, 2])
    )
    given = graph.op("Cast", "orig_target_sizes", to=single)
    scale = graph.op("Unsqueeze", graph.op("Concat", given, given, axis=1), axes=[1])
    halves = [graph.cut(boxes, 0, 2), graph.op("Mul", graph.cut(boxes, 2, 4), np.float32(0.5))]
    ends = graph.op("Concat", graph.op("Sub", *halves), graph.op("Add", *halves), axis=2)
    outputs = {
        "labels": (classes, [1, QUERIES], whole),
        "boxes": (graph.op("Mul", ends, scale), [1, QUERIES, 4], single),
        "scores": (top, [1, QUERIES], single),
    }
    return graph.save(to, outputs)


def _nanodet(graph: Graph, to: Path, centers: str, sides: str, scores: str, offset: float) -> Path:
    """Distances up to seven cells, each written as a distribution over two neighboring numbers."""
    places, strides = cells(graph.height, graph.width, (8, 16, 32))
    middles = ((places + offset) * strides)[None]
    half = graph.op("Mul", sides, np.float32(0.5))
    near = graph.op("Sub", middles, graph.op("Sub", centers, half))
    far = graph.op("Sub", graph.op("Add", centers, half), middles)
    distances = graph.op("Div", graph.op("Concat", near, far, axis=2), strides[None])
    kept = graph.op("Clip", distances, np.float32(0), np.float32(7))
    each = graph.op("Unsqueeze", kept, axes=[3])
    apart = graph.op("Abs", graph.op("Sub", each, np.arange(8, dtype=np.float32)[None, None, None]))
    weight = graph.op(
        "Clip", graph.op("Sub", np.float32(1), apart), np.float32(TINY), np.float32(1)
    )
    count = places.shape[0]
    flat = graph.op("Reshape", graph.op("Log", weight), np.array([1, count, 32], dtype=np.int64))
    rows = graph.op("Concat", scores, flat, axis=2)
    return graph.save(to, {"out": (rows, [1, count, 112], TensorProto.FLOAT)})


def _to_ids() -> Any:
    """Scores of COCO's 80 classes as those of its 90 ids."""
    found = np.zeros((len(COCO_NAMES), 90), dtype=np.float32)
    found[np.arange(len(COCO_NAMES)), np.array(COCO_IDS) - 1] = 1
    return found
