"""A small recognizer for drawn streets, so that the whole pipeline runs without a download.

A one-stage network that finds the middles of objects (one map for each class, an eighth of the
picture's size) and their sizes. It is trained on drawn scenes on one core within two minutes; the
usual one comes with the package, others are stored in the cache folder. It is good at usual scenes
and no better than that, as a recognizer under test should be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.datasets.cache import cache_folder
from fairprobe.errors import StorageError
from fairprobe.models import one_thread
from fairprobe.networks.training import batches
from fairprobe.papers.distrofair.drawn import HEIGHT, LABELS, USUAL, WIDTH, draw_scene
from fairprobe.scenes.detectors.base import Detection, Detector
from fairprobe.scenes.detectors.boxes import suppress
from fairprobe.scenes.scene import Instance, Picture, Scene
from fairprobe.storage import replacing

STRIDE = 8
ROWS, COLUMNS = HEIGHT // STRIDE, WIDTH // STRIDE
USUAL_SIZE = 40.0  # pixels: sizes are learned as logarithms relative to it
THRESHOLD = 0.35
OVERLAP = 0.6
LEAST = 2  # of each class, in the fullest of the training scenes
TRAINED_ON = 9_000_000  # part of their seed, so that no scene is used for training and testing
VERSION = 1  # of drawings and network together; another version is trained again
PACKAGED = Path(__file__).with_name(f"drawn-detector-{VERSION}.safetensors")
"""Trained with the defaults and seed 0."""


@dataclass(frozen=True)
class DetectorTraining:
    """How long it is trained."""

    scenes: int = 300
    epochs: int = 6
    batch: int = 2
    rate: float = 3e-3


DEFAULTS = DetectorTraining()


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
    """The trained network as a recognizer."""

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


def drawn_detector(
    *,
    seed: int = 0,
    training: DetectorTraining = DEFAULTS,
    folder: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> DrawnDetector:
    """The recognizer with this seed: the packaged one, from the cache folder (or `folder`), or
    trained now.
    """
    if folder is None and seed == 0 and training == DEFAULTS and PACKAGED.exists():
        return DrawnDetector(_rebuilt(load_file(PACKAGED)))
    where = cache_folder() if folder is None else folder
    settings = f"{training.scenes}-{training.epochs}-{training.batch}-{training.rate:g}"
    path = where / f"drawn-detector-{VERSION}-{settings}-{seed}.safetensors"
    try:
        return DrawnDetector(_rebuilt(load_file(path)))
    except (OSError, SafetensorError, RuntimeError):  # not there, or not whole
        weights = train(seed=seed, training=training, progress=progress).state_dict()
    kept = {name: value.contiguous() for name, value in weights.items()}
    try:
        where.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"The cache folder {where} cannot be written: {error}. Set FAIRPROBE_CACHE to a folder"
            " that can."
        ) from error
    with replacing(path) as temporary:
        save_file(kept, temporary)
    return DrawnDetector(_rebuilt(kept))


def _rebuilt(weights: dict[str, Tensor]) -> Network:
    """Rebuild the network, so that a new one and one from the cache answer bit for bit alike."""
    with torch.random.fork_rng(devices=[]):
        network = Network()
    network.load_state_dict(weights)
    return network


# -- training --------------------------------------------------------------------------------------


def train(
    *,
    scenes: Iterable[Scene] | None = None,
    start: Network | None = None,
    seed: int = 0,
    training: DetectorTraining = DEFAULTS,
    progress: Callable[[int, int], None] | None = None,
) -> Network:
    """Train a network on drawn scenes, or on others of their size and classes, such as exported
    mutants; the same seed gives the same weights. `start` is a network to continue from, which is
    not changed.
    """
    given = training_streets(training.scenes, seed) if scenes is None else scenes
    pictures, target = _lessons(given)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network() if start is None else deepcopy(start).train()
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimizer = torch.optim.AdamW(network.parameters(), lr=training.rate, weight_decay=1e-4)
        steps = training.epochs * -(-len(pictures) // training.batch)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, training.rate, total_steps=steps)
        for epoch in range(training.epochs):
            for rows in batches(torch.randperm(len(pictures)), training.batch):
                mirrored = bool(torch.rand(()) < 0.5)
                loss = _loss(
                    network, pictures[rows], tuple(part[rows] for part in target), mirrored=mirrored
                )
                optimizer.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                optimizer.step()
                schedule.step()
            if progress is not None:
                progress(epoch + 1, training.epochs)
    network.eval()
    return network


def training_streets(count: int, seed: int) -> Iterator[Scene]:
    """Scenes to learn from; what is rare in a street is less rare here."""
    for at in range(count):
        rng = np.random.default_rng([TRAINED_ON, seed, at])
        counts = {
            label: int(rng.integers(max(LEAST, most) + 1)) for label, (most, _) in USUAL.items()
        }
        yield draw_scene(rng, name=f"street-{at:04d}", counts=counts)


def _lessons(scenes: Iterable[Scene]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Pictures and their targets."""
    pictures: list[Tensor] = []
    found: list[tuple[Tensor, ...]] = []
    for scene in scenes:
        pictures.append(torch.from_numpy(scene.image.transpose(2, 0, 1).copy()))
        found.append(tuple(torch.from_numpy(part) for part in _target(scene)))
    targets = tuple(torch.stack(parts) for parts in zip(*found, strict=True))
    return torch.stack(pictures), targets


def _loss(
    network: nn.Module, pictures: Tensor, target: tuple[Tensor, ...], *, mirrored: bool
) -> Tensor:
    """Focal loss of the middles, and the errors of offsets and sizes where an object is."""
    if mirrored:
        pictures, target = pictures.flip(-1), tuple(part.flip(-1) for part in target)
        places = target[1].clone()
        places[:, 0] = 1 - places[:, 0]
        target = target[0], places, target[2]
    heat, places, there = target
    found, placed = network(pictures)
    at_middle, count = heat == 1, (heat == 1).sum().clamp(min=1)
    likely = found.sigmoid().clamp(1e-4, 1 - 1e-4)
    hit = (1 - likely) ** 2 * likely.log() * at_middle
    missed = (1 - heat) ** 4 * likely**2 * (1 - likely).log() * ~at_middle
    off = ((placed - places).abs() * there[:, None]).sum() / there.sum().clamp(min=1)
    loss: Tensor = off - (hit.sum() + missed.sum()) / count
    return loss


def _target(scene: Scene) -> tuple[Rows, Rows, Rows]:
    """Where the middles are (1, falling off around them), their offsets and sizes, and where these
    count.
    """
    heat = np.zeros((len(LABELS), ROWS, COLUMNS), np.float32)
    places, there = np.zeros((4, ROWS, COLUMNS), np.float32), np.zeros((ROWS, COLUMNS), np.float32)
    rows, columns = np.arange(ROWS)[:, None], np.arange(COLUMNS)[None, :]
    for one in scene.instances:
        (x, row), (y, column), size = *_middle(one), (one.box[2] - one.box[0], one.height)
        spread = [max(0.5, part / STRIDE / 8) for part in size]
        bell = np.exp(
            -(((columns - column) / spread[0]) ** 2) / 2 - ((rows - row) / spread[1]) ** 2 / 2
        )
        heat[LABELS.index(one.label)] = np.maximum(heat[LABELS.index(one.label)], bell)
        heat[LABELS.index(one.label), row, column] = 1
        places[:, row, column] = (x - column, y - row, *np.log(np.array(size) / USUAL_SIZE))
        there[row, column] = 1
    return heat, places, there


def _middle(one: Instance) -> tuple[tuple[float, int], tuple[float, int]]:
    """The middle of its box in units of the map, and the place of the map that holds it."""
    x, y = (one.box[0] + one.box[2]) / 2 / STRIDE, (one.box[1] + one.box[3]) / 2 / STRIDE
    return (x, min(ROWS - 1, int(y))), (y, min(COLUMNS - 1, int(x)))
