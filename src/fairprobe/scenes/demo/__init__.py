"""Data of `fairprobe audit-scenes demo`: drawn streets with COCO annotations and a recognizer.

Both were made once, by `tools/streets`.
The recognizer is a one-stage network that finds the middles of objects (one map for each class, an
eighth of the picture's size) and their sizes. It is good at usual scenes and no better than that,
as a recognizer under test should be.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import load_file
from torch import Tensor, nn

from fairprobe.models import one_thread
from fairprobe.scenes.detectors.base import Detection, Detector, suppress
from fairprobe.scenes.scene import Picture

FOLDER = Path(__file__).parent
PICTURES, ANNOTATIONS = FOLDER / "streets" / "images", FOLDER / "streets" / "instances.json"
WEIGHTS = FOLDER / "drawn-detector-1.safetensors"
COUNT, SEED = 12, 2026  # of the drawn streets; the recognizer was not trained on them
LABELS = (
    *("person", "car", "truck", "bus", "motorcycle", "bicycle"),
    *("dog", "cat", "bird", "traffic light"),
)
STRIDE = 8
USUAL_SIZE = 40.0  # pixels: sizes are learned as logarithms relative to it
THRESHOLD = 0.35
OVERLAP = 0.6


class Network(nn.Module):
    """Two steps down to an eighth, then layers with growing reach; maps of middles, offsets and
    sizes.
    """

    def __init__(self) -> None:
        super().__init__()
        first = nn.Conv2d(3, 24, 6, stride=4, padding=1, bias=False)
        self.stem = nn.Sequential(first, nn.BatchNorm2d(24), nn.ReLU(), _layer(24, 48, stride=2))
        self.body = nn.ModuleList([_layer(48, 48, dilation=dilation) for dilation in (1, 2, 4, 1)])
        self.middles = nn.Conv2d(48, len(LABELS), 1)
        assert self.middles.bias is not None
        nn.init.constant_(self.middles.bias, -3.0)  # most places hold nothing
        self.places = nn.Conv2d(48, 4, 1)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.stem(
            (pictures.to(torch.float32) / 128 - 1).contiguous(memory_format=torch.channels_last)
        )
        for layer in self.body:
            seen = seen + layer(seen)
        return self.middles(seen), self.places(seen)


def _layer(before: int, after: int, *, stride: int = 1, dilation: int = 1) -> nn.Module:
    convolution = nn.Conv2d(
        before, after, 3, stride=stride, padding=dilation, dilation=dilation, bias=False
    )
    return nn.Sequential(convolution, nn.BatchNorm2d(after), nn.ReLU())


class DrawnDetector(Detector):
    """Recognize objects in drawn streets with a trained network."""

    def __init__(self, network: Network, *, threshold: float = THRESHOLD) -> None:
        self.name = "drawn"
        self.network, self._threshold = network.eval(), threshold
        digest = hashlib.sha256()
        for name, value in sorted(network.state_dict().items()):
            digest.update(name.encode() + value.numpy().tobytes())
        self.identity = f"drawn sha256:{digest.hexdigest()} score {threshold:g}"

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        with one_thread(), torch.inference_mode():
            height, width = image.shape[:2]
            pixels = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))[None]
            room = (0, -width % STRIDE, 0, -height % STRIDE)
            middles, places = self.network(F.pad(pixels, room))
        likely = middles[0].sigmoid()
        peaks = (likely == F.max_pool2d(likely[None], 3, stride=1, padding=1)[0]) & (
            likely >= self._threshold
        )
        classes, rows, columns = (part.numpy() for part in torch.nonzero(peaks, as_tuple=True))
        scores = likely[peaks].numpy().astype(np.float64)
        x, y, wide, high = places[0][:, rows, columns].numpy().astype(np.float64)
        x, y = (columns + x) * STRIDE, (rows + y) * STRIDE
        wide, high = (USUAL_SIZE * np.exp(np.clip(size, -4, 3)) / 2 for size in (wide, high))
        boxes = np.clip(
            np.column_stack([x - wide, y - high, x + wide, y + high]),
            0,
            (width, height, width, height),
        )
        kept = suppress(boxes, scores, classes, OVERLAP)
        return tuple(
            Detection(LABELS[classes[at]], float(scores[at]), tuple(boxes[at].tolist()))
            for at in kept
        )


def drawn_detector() -> DrawnDetector:
    """Load the packaged recognizer."""
    with torch.random.fork_rng(devices=[]):
        network = Network()
    network.load_state_dict(load_file(WEIGHTS))
    return DrawnDetector(network)
