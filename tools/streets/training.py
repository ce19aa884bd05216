"""Train the recognizer of drawn streets that `fairprobe audit-scenes demo` tests.

One core takes less than two minutes. Training has no randomness but the seed's: `train()` gives the
packaged weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Rows
from fairprobe.models import one_thread
from fairprobe.networks.training import batches
from fairprobe.scenes.demo import LABELS, STRIDE, USUAL_SIZE, Network
from fairprobe.scenes.scene import Instance, Scene
from tools.streets.drawn import HEIGHT, USUAL, WIDTH, draw_scene

ROWS, COLUMNS = HEIGHT // STRIDE, WIDTH // STRIDE
LEAST = 2  # of each class, in the fullest of the training scenes
TRAINED_ON = 9_000_000  # part of their seed, so that no scene is used for training and testing


@dataclass(frozen=True)
class DetectorTraining:
    """How long it is trained."""

    scenes: int = 300
    epochs: int = 6
    batch: int = 2
    rate: float = 3e-3


DEFAULTS = DetectorTraining()


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
