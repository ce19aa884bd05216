"""Training on images: the settings, batches and optimizer of the loop for tables, without encoder,
penalties and early stopping.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from fairprobe.arrays import Ints
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.models import one_thread
from fairprobe.networks.training import Training, batches, optimizer_of

Images: TypeAlias = npt.NDArray[np.uint8] | npt.NDArray[np.float32]  # (N, channels, height, width)

ON_IMAGES = Training(batch=64, epochs=3, patience=None)
AT_ONCE = 256


def train_on_images(
    network: nn.Module,
    images: Images,
    labels: Ints,
    *,
    seed: int = 0,
    training: Training = ON_IMAGES,
    sgd: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> nn.Module:
    """Train the network in place on all these images for a fixed number of epochs; the same seed
    gives the same weights. `sgd` takes plain gradient descent instead of the settings' optimizer.
    """
    if training.patience is not None:
        raise SettingError(
            "Training on images has no validation part to stop by: set patience to None."
        )
    _check(images, labels)
    part, classes = torch.from_numpy(images), torch.from_numpy(labels)
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # for the order of the batches, and dropout
        optimizer = (
            torch.optim.SGD(network.parameters(), lr=training.learning_rate)
            if sgd
            else optimizer_of(network, (), training)
        )
        for epoch in range(training.epochs):
            network.train()
            total = torch.zeros(())
            for rows in batches(torch.randperm(len(classes)), training.batch):
                optimizer.zero_grad(set_to_none=True)
                loss = F.cross_entropy(network(part[rows]), classes[rows])
                torch.autograd.backward(loss)
                optimizer.step()
                total += loss.detach() * len(rows)
            if not torch.isfinite(total):
                raise ModelError(
                    "The training diverged: the loss is not finite. Lower the learning rate, or"
                    " check the pixels' scale."
                )
            if progress is not None:
                progress(epoch + 1, training.epochs)
    return network.eval()


def labels_of(network: nn.Module, images: Images) -> Ints:
    """Return the class that the network predicts for each image."""
    network.eval()
    with one_thread(), torch.inference_mode():
        parts = [
            network(torch.from_numpy(images[at : at + AT_ONCE])).argmax(dim=1).numpy()
            for at in range(0, len(images), AT_ONCE)
        ]
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, dtype=np.int64)


def _check(images: Images, labels: Ints) -> None:
    if images.ndim != 4 or len(images) < 2 or labels.shape != (len(images),):
        raise DataError(
            "Training on images needs two or more images (number, channels, height, width) and a"
            f" class for each; got images {images.shape} and classes {labels.shape}."
        )
