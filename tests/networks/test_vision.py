"""The two networks for images, and training them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from fairprobe.arrays import Ints
from fairprobe.errors import DataError, FairprobeError, ModelError, SettingError
from fairprobe.models.trace import layer_names
from fairprobe.networks import Training
from fairprobe.networks.vision import resnet, vgg
from fairprobe.networks.vision_training import ON_IMAGES, labels_of, train_on_images

Network = Callable[..., nn.Module]
SMALL = (3, 12, 12)
FEW = Training(batch=16, epochs=4, patience=None)


def halves(count: int = 96) -> tuple[npt.NDArray[np.uint8], Ints]:
    """Images whose upper or lower half is bright: class 0 or 1."""
    rng = np.random.default_rng(0)
    labels = np.arange(count, dtype=np.int64) % 2
    images = rng.integers(0, 100, size=(count, *SMALL)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 6 * label : 6 * label + 6] += 150
    return images, labels


def size(network: nn.Module) -> int:
    return sum(value.numel() for value in network.parameters())


def convolutions(network: nn.Module) -> int:
    return sum(isinstance(part, nn.Conv2d) for part in network.modules())


@pytest.mark.parametrize(("shape", "classes"), [((3, 28, 28), 10), ((3, 120, 120), 2)])
def test_network_1_has_the_papers_layers_and_parameters(
    shape: tuple[int, int, int], classes: int
) -> None:
    network = vgg(shape, classes)
    assert convolutions(network) == 8
    assert sum(isinstance(part, nn.Linear) for part in network.modules()) == 2
    assert sum(isinstance(part, nn.Dropout) for part in network.modules()) == 2
    assert 660_000 < size(network) < 670_000
    assert network.eval()(torch.zeros(2, *shape)).shape == (2, classes)
    assert layer_names(network, torch.zeros(1, *shape))[0] == [
        f"relu{number}" for number in range(1, 10)
    ]


@pytest.mark.parametrize(("shape", "classes"), [((3, 28, 28), 10), ((3, 120, 120), 2)])
def test_network_2_has_the_papers_blocks_and_parameters(
    shape: tuple[int, int, int], classes: int
) -> None:
    network = resnet(shape, classes)
    assert convolutions(network) == 22  # as the caption of the paper's figure 4 says
    assert 370_000 < size(network) < 380_000
    assert network.eval()(torch.zeros(2, *shape)).shape == (2, classes)
    assert layer_names(network, torch.zeros(1, *shape))[0][-1] == "block3.relu"


@pytest.mark.parametrize("build", [vgg, resnet])
def test_the_seed_decides_the_weights_and_touches_nothing_else(build: Network) -> None:
    state = torch.random.get_rng_state()
    one, same, other = (build(SMALL, 2, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("build", [vgg, resnet])
def test_bytes_and_numbers_from_0_to_1_are_the_same_image(build: Network) -> None:
    network = build(SMALL, 2).eval()
    images = torch.from_numpy(halves(4)[0])
    assert torch.allclose(network(images), network(images.float() / 255))


@pytest.mark.parametrize(
    ("shape", "classes"), [((0, 28, 28), 2), ((3, 4, 28), 2), ((3, 28, 28), 1)]
)
def test_images_that_are_too_small_are_refused(shape: tuple[int, int, int], classes: int) -> None:
    with pytest.raises(SettingError, match="8 pixels or more"):
        vgg(shape, classes)


@pytest.mark.parametrize("build", [vgg, resnet])
def test_training_learns_and_the_same_seed_gives_the_same_weights(build: Network) -> None:
    images, labels = halves()
    state, threads, steps = torch.random.get_rng_state(), torch.get_num_threads(), []
    networks = []
    for seed in (3, 3, 4):
        network = build(SMALL, 2, seed=0)
        train_on_images(
            network, images, labels, seed=seed, training=FEW, progress=lambda *at: steps.append(at)
        )
        networks.append(network)
    one, same, other = (network.state_dict() for network in networks)
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)
    assert (labels_of(networks[0], images) == labels).mean() > 0.9
    assert not networks[0].training
    assert steps[:4] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.get_num_threads() == threads


def test_the_labels_of_no_images_are_none() -> None:
    assert labels_of(vgg(SMALL, 2), np.zeros((0, *SMALL), dtype=np.uint8)).shape == (0,)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"labels": np.zeros(3, dtype=np.int64)}, DataError, "a class for each"),
        ({"images": np.zeros((96, 12, 12), dtype=np.uint8)}, DataError, "two or more images"),
        ({"training": Training()}, SettingError, "patience to None"),
        ({"images": np.full((96, *SMALL), np.nan, dtype=np.float32)}, ModelError, "diverged"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    given: dict[str, Any], kind: type[FairprobeError], words: str
) -> None:
    images, labels = halves()
    settings: dict[str, Any] = {"images": images, "labels": labels, "training": FEW, **given}
    with pytest.raises(kind, match=words):
        train_on_images(vgg(SMALL, 2), **settings)


def test_the_usual_training_is_three_epochs_to_the_end() -> None:
    assert (ON_IMAGES.epochs, ON_IMAGES.patience, ON_IMAGES.optimizer) == (3, None, "adam")
