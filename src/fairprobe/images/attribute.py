"""What a detector's trunk knows about a sensitive attribute: a new head on the frozen trunk, and an
independent network as a control.

Zheng et al., "NeuronFair", ICSE 2022, §3.3: the attribute classifier is a new dense head on the
detector's frozen trunk. Deliberate choices: rare values count as much as common ones (class
weights); features are computed once, and the head learns from them.

Two controls are added. A head trained on shuffled labels knows nothing about the attribute, so what
its changes find has nothing to do with it. A network that shares nothing with the detector shows
whether a change of the attribute can be seen by others at all.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fairprobe.arrays import Ints
from fairprobe.errors import DataError, ModelError
from fairprobe.images.detector import Detector, Mirror, dense_head, numbers
from fairprobe.models import one_thread
from fairprobe.networks.training import Training, batches
from fairprobe.networks.vision import Pixels
from fairprobe.networks.vision_training import Images

AT_ONCE = 256  # images
ON_HEADS = Training(batch=64, epochs=10, patience=None)
ON_NETWORKS = Training(learning_rate=3e-3, batch=32, epochs=45, patience=None)
WIDTHS = (16, 32, 32, 64, 64, 128)  # maps of the independent network
DROPOUT = 0.3
TONE = 0.3
DECAY = 5e-2  # of the weights
# of the labels: few faces are soon memorized, and the gradients of an overconfident network say
# little
SMOOTHING = 0.1


class AttributeHead(nn.Module):
    """The detector's frozen trunk, and a head that recognizes the attribute's value."""

    def __init__(self, detector: Detector, head: nn.Module) -> None:
        super().__init__()
        self.detector, self.head = detector, head

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.head(self.detector.features(images))
        return answer


def attribute_head(
    detector: Detector,
    images: Images,
    codes: Ints,
    values: int,
    *,
    seed: int = 0,
    shuffled: bool = False,
    training: Training = ON_HEADS,
    progress: Callable[[int, int], None] | None = None,
) -> AttributeHead:
    """Train a head to recognize the attribute's value, 0 … `values` − 1, from the trunk's features.
    The detector is copied and not changed.

    `shuffled` is the control that learns the same labels in random order.
    """
    _check(images, codes, values)
    if shuffled:
        codes = np.random.default_rng(seed).permutation(codes)
    detector = copy.deepcopy(detector).eval()
    features = torch.cat([_features(detector, images), _features(detector, images[..., ::-1])])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = dense_head(features.shape[1], values)
    learn(head, features, np.concatenate([codes, codes]), values, seed, training, progress)
    return AttributeHead(detector, head).eval()


def _features(detector: Detector, images: Images) -> Tensor:
    parts = [
        torch.from_numpy(np.ascontiguousarray(images[at : at + AT_ONCE]))
        for at in range(0, len(images), AT_ONCE)
    ]
    device = next((parameter.device for parameter in detector.parameters()), torch.device("cpu"))
    with one_thread(), torch.no_grad():
        return torch.cat([detector.features(part.to(device)).flatten(1) for part in parts])


def attribute_network(
    images: Images,
    codes: Ints,
    values: int,
    *,
    seed: int = 0,
    training: Training = ON_NETWORKS,
    progress: Callable[[int, int], None] | None = None,
) -> nn.Module:
    """Train an independent network for the attribute, which shares nothing with any detector."""
    _check(images, codes, values)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _Independent(images.shape[1], values)
    learn(network, torch.from_numpy(images), codes, values, seed, training, progress)
    return network.eval()


class _Independent(nn.Module):
    """Six convolutions with batch norms, and the mean of each map. A picture and its mirror image
    have the same output.
    """

    def __init__(self, channels: int, values: int) -> None:
        super().__init__()
        self.varied = nn.Sequential(Mirror(), _Shift(), _Tone(), Pixels())
        pieces: OrderedDict[str, nn.Module] = OrderedDict()
        for number, (before, after) in enumerate(pairwise((channels, *WIDTHS)), start=1):
            pieces[f"conv{number}"] = nn.Conv2d(before, after, 3, padding=1, bias=False)
            pieces[f"norm{number}"] = nn.BatchNorm2d(after)
            pieces[f"relu{number}"] = nn.ReLU()
            if number in (1, 3, 5):
                pieces[f"pool{number}"] = nn.MaxPool2d(2)
        pieces["mean"] = nn.AdaptiveAvgPool2d(1)
        pieces["flat"] = nn.Flatten()
        pieces["drop"] = nn.Dropout(DROPOUT)
        pieces["output"] = nn.Linear(WIDTHS[-1], values)
        self.layers = nn.Sequential(pieces).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, images: Tensor) -> Tensor:
        seen = self.varied(numbers(images))
        answer: Tensor = (
            self.layers(seen)
            if self.training
            else (self.layers(seen) + self.layers(seen.flip(-1))) / 2
        )
        return answer


class _Shift(nn.Module):
    """In training, move each picture by up to a tenth of its size, and repeat its border."""

    def forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        most = min(height, width) // 10
        if not self.training or most == 0:
            return images
        down, right = torch.randint(-most, most + 1, (2, len(images), 1))
        rows = (torch.arange(height) + down).clamp_(0, height - 1).to(images.device)
        columns = (torch.arange(width) + right).clamp_(0, width - 1).to(images.device)
        each = torch.arange(len(images), device=images.device)
        return images.permute(0, 2, 3, 1)[
            each[:, None, None], rows[:, :, None], columns[:, None, :]
        ].permute(0, 3, 1, 2)


class _Tone(nn.Module):
    """In training, change the contrast of each picture by up to TONE, and its brightness by up to
    half as much.
    """

    def forward(self, images: Tensor) -> Tensor:
        if not self.training:
            return images
        drawn = ((2 * torch.rand(2, len(images), 1, 1, 1) - 1) * TONE).to(images.device)
        return images * (1 + drawn[0]) + drawn[1] / 2


def learn(
    network: nn.Module,
    inputs: Tensor,
    codes: Ints,
    values: int,
    seed: int,
    training: Training,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Train a network for the attribute in place, on pictures or on features."""
    labels = torch.from_numpy(codes)
    counts = torch.bincount(labels, minlength=values).float()
    weights = (len(labels) / counts.clamp(min=1) / values)[labels]
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # the order of the batches, dropout, mirroring
        optimizer = torch.optim.AdamW(network.parameters(), weight_decay=DECAY)
        steps = training.epochs * len(batches(torch.arange(len(labels)), training.batch))
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=training.learning_rate, total_steps=steps
        )
        for epoch in range(training.epochs):
            network.train()
            total = 0.0
            for rows in batches(torch.randperm(len(labels)), training.batch):
                optimizer.zero_grad(set_to_none=True)
                # Images are weighted, not classes: torch would weight the smoothing as well and
                # favor rare values.
                losses = F.cross_entropy(
                    network(inputs[rows]), labels[rows], reduction="none", label_smoothing=SMOOTHING
                )
                loss = (losses * weights[rows]).sum() / weights[rows].sum()
                torch.autograd.backward(loss)
                optimizer.step()
                schedule.step()
                total += float(loss.detach())
            if not np.isfinite(total):
                raise ModelError(
                    "The training for the attribute diverged: the loss is not finite. Lower the"
                    " learning rate."
                )
            if progress is not None:
                progress(epoch + 1, training.epochs)


def _check(images: Images, codes: Ints, values: int) -> None:
    if images.ndim != 4 or len(images) < 2 or codes.shape != (len(images),):
        raise DataError(
            "An attribute is learned from two images or more (number, channels, height, width) and"
            f" a code for each; got images {images.shape} and codes {codes.shape}."
        )
    if values < 2 or codes.min() < 0 or codes.max() >= values:
        raise DataError(
            f"The codes of an attribute with {values} values must be from 0 to {values - 1}; got"
            f" {codes.min()} to {codes.max()}. Leave out images whose value is unknown."
        )
    if len(np.unique(codes)) < 2:
        raise DataError("All images have the same value of the attribute, so it cannot be learned.")
