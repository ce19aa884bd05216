"""What an audit on pictures will take, before it begins: at most so much time, and about so much
memory.

The network is timed on a few pictures, forward and with its gradient, and the memory that a
gradient keeps is counted. The passes that each stage makes are known; searches end early where they
find something, so the time is an upper end.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import process_time

import numpy as np
import torch
from torch import nn

from fairprobe.images.attribute import ON_HEADS, ON_NETWORKS, independent_network
from fairprobe.images.change import ChangeSettings, pieces
from fairprobe.images.controls import CHANGES
from fairprobe.images.detector import ON_DETECTORS, Detector
from fairprobe.images.repair import ON_REPAIRS
from fairprobe.images.search import ImageSearch
from fairprobe.models import one_thread
from fairprobe.networks.vision_training import Images

TIMED = 8  # pictures
TRAINING = 1.5  # a step of training, in gradients by the pixels
NUMBER = 4  # bytes
MARGIN = 1.25
ROOMY = 2 * 2**30  # bytes that the pictures of one batch may keep for a gradient


@dataclass(frozen=True)
class Forecast:
    """Seconds of one core, at most, and bytes beside what Python and torch need. `batch` is how
    many pairs a search takes at once, fewer where their gradients would need too much memory.
    """

    seconds: float
    bytes: float
    batch: int


@dataclass(frozen=True)
class Work:
    """What is to be done, in numbers of pictures."""

    to_learn: int  # all pictures that a detector may learn from
    faces: int  # those of people, from which the attribute is learned
    held_out: int
    seeds: int
    attacked: int
    methods: int
    controls: bool
    repair: bool
    trains: bool  # a detector is trained here


def forecast(
    detector: Detector,
    images: Images,
    values: int,
    work: Work,
    change: ChangeSettings,
    search: ImageSearch,
) -> Forecast:
    """Time the network, and add up the passes."""
    forward, gradient, kept, features = _measured(detector, images[:TIMED])
    changes = 1 + (len(CHANGES) if work.controls else 0)
    heads = 2 if work.controls else 1
    pairs = 2 * work.seeds
    steps = search.max_iter + 1
    seconds = 0.0
    if work.trains:
        seconds += ON_DETECTORS.epochs * work.to_learn * TRAINING * gradient
    # Learning the attribute: features of faces and their mirror images.
    learning = 2 * work.faces * forward + 2 * work.faces * ON_HEADS.epochs * _head_cost(features)
    seconds += heads * learning + work.held_out * forward * (heads + 1)
    if work.controls:
        own = independent_network(images.shape[1], values)
        _, own_gradient, _, _ = _measured(own, images[:TIMED])
        seconds += ON_NETWORKS.epochs * work.faces * TRAINING * own_gradient
    seconds += heads * work.seeds * (gradient + len(change.sizes) * forward)
    seconds += changes * pairs * forward  # interpretation
    one_search = pairs * steps * gradient
    seconds += changes * work.methods * one_search + (pairs * steps * forward) * work.controls
    if work.repair:
        attack = 2 * work.attacked * steps * gradient
        states = 3 if work.controls else 2
        seconds += states * (learning + attack + 4 * work.attacked * forward)
        more = work.to_learn + 2 * work.seeds * work.methods
        seconds += (states - 1) * ON_REPAIRS.epochs * more * TRAINING * gradient
    batch = int(np.clip(ROOMY // max(2 * kept, 1), 1, search.batch))
    parameters = sum(value.numel() for value in detector.parameters()) * NUMBER
    picture = images[0].size
    memory = (
        (work.to_learn + work.held_out) * picture * (2 if work.repair else 1)
        + 4 * work.faces * features * NUMBER  # both mirror images, and a copy while they are joined
        + 2 * batch * kept
        + (heads + 4) * parameters
        + changes * (1 + work.methods) * work.seeds * picture * NUMBER
    )
    return Forecast(MARGIN * seconds, MARGIN * memory, batch)


def _measured(network: nn.Module, images: Images) -> tuple[float, float, float, int]:
    """For one picture: the seconds of a pass and of a gradient by the pixels, the bytes that the
    gradient keeps, and the number of features.
    """
    kept = 0

    def count(value: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += value.numel() * value.element_size()
        return value

    network.eval()
    ((_, x),) = pieces(network, images, len(images))
    times = []
    with one_thread():
        with torch.no_grad():
            network(x[:1])  # whatever is made once
            start = process_time()
            network(x)
            times.append(process_time() - start)
        with torch.inference_mode(False), torch.enable_grad():
            z = x.clone().requires_grad_()
            start = process_time()
            with torch.autograd.graph.saved_tensors_hooks(count, lambda value: value):
                logits = network(z)
            torch.autograd.grad(logits.sum(), z, allow_unused=True, materialize_grads=True)
            times.append(process_time() - start)
        features = 0
        if isinstance(network, Detector):
            with torch.no_grad():
                features = network.features(x[:1]).numel()
    return times[0] / len(x), times[1] / len(x), kept / len(x), features


def _head_cost(features: int) -> float:
    """Seconds that an attribute head needs to learn from one picture's features, roughly: its first
    layer decides, at a cautious billion multiplications a second.
    """
    width = min(512, max(16, features // 4))
    return 6 * features * width / 1e9
