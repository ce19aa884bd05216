"""The two networks of the InsideBias paper, for images of any size: a VGG with eight convolutions
and a ResNet with three blocks.

Serna et al., "InsideBias: Measuring Bias in Deep Networks and Application to Face Gender
Biometrics", ICPR 2020. The paper gives the number of layers and of parameters (more than 660,000
and 370,000), not the widths; those here match its numbers and are narrow where the maps are large,
so that training on a digit takes less than a millisecond. Images are bytes, or numbers from 0 to 1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import torch
from torch import Tensor, nn

from fairprobe.errors import SettingError

VGG_WIDTHS = (8, 8, 16, 16, 32, 32, 128, 128)  # of the convolutions; pooling after each pair
VGG_DENSE = 400
RESNET_STEM = 16
RESNET_WIDTHS = (24, 40, 72)
RESNET_DEPTH = 6  # convolutions of a block; with the stem and three shortcuts, the paper's 22
FACE = 3  # of the pooled maps, so that the dense layers do not depend on the image's size
DROPOUT = 0.5
SMALLEST = 8  # pixels; three poolings halve them

Network = TypeVar("Network", bound=nn.Module)


class Pixels(nn.Module):
    """Turns bytes into numbers from 0 to 1 and leaves numbers unchanged, so that a set of images
    can be kept as bytes, in a quarter of the memory.

    The channels of a pixel are stored side by side, which makes narrow convolutions nearly twice as
    fast on a CPU.
    """

    def forward(self, images: Tensor) -> Tensor:
        numbers = images.to(torch.float32) / 255 if images.dtype == torch.uint8 else images
        return numbers.contiguous(memory_format=torch.channels_last)


class VGG(nn.Sequential):
    """Network 1: `conv1` … `conv8`, each with its ReLU `relu1` …, then a dense layer with dropout
    and one logit for each class.
    """

    def __init__(self, channels: int, classes: int) -> None:
        pieces: OrderedDict[str, nn.Module] = OrderedDict(pixels=Pixels())
        for number, (before, after) in enumerate(pairwise((channels, *VGG_WIDTHS)), start=1):
            pieces[f"conv{number}"] = nn.Conv2d(before, after, 3, padding=1)
            pieces[f"relu{number}"] = nn.ReLU()
            if number in (2, 4, 6):
                pieces[f"pool{number}"] = nn.MaxPool2d(2)
        pieces["pool8"] = nn.AdaptiveMaxPool2d(FACE)
        pieces["flat"] = nn.Flatten()
        pieces["drop1"] = nn.Dropout(DROPOUT)
        pieces["dense1"] = nn.Linear(VGG_WIDTHS[-1] * FACE**2, VGG_DENSE)
        pieces["relu9"] = nn.ReLU()
        pieces["drop2"] = nn.Dropout(DROPOUT)
        pieces["output"] = nn.Linear(VGG_DENSE, classes)
        super().__init__(pieces)


class Block(nn.Module):
    """A chain of convolutions and a shortcut with its own convolution around it; the first may
    halve the image.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        pieces: list[nn.Module] = []
        for number in range(RESNET_DEPTH):
            width, step = (before, stride) if number == 0 else (after, 1)
            pieces.append(nn.Conv2d(width, after, 3, stride=step, padding=1, bias=False))
            pieces.append(nn.BatchNorm2d(after))
            if number < RESNET_DEPTH - 1:
                pieces.append(nn.ReLU())
        self.body = nn.Sequential(*pieces)
        self.shortcut = nn.Sequential(
            nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
        )
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.relu(self.body(x) + self.shortcut(x))
        return answer


class ResNet(nn.Sequential):
    """Network 2: a stem, three blocks, the mean of each map, and one logit for each class."""

    def __init__(self, channels: int, classes: int) -> None:
        pieces: OrderedDict[str, nn.Module] = OrderedDict(
            pixels=Pixels(),
            conv1=nn.Conv2d(channels, RESNET_STEM, 3, padding=1, bias=False),
            norm1=nn.BatchNorm2d(RESNET_STEM),
            relu1=nn.ReLU(),
        )
        for number, (before, after) in enumerate(pairwise((RESNET_STEM, *RESNET_WIDTHS)), start=1):
            pieces[f"block{number}"] = Block(before, after, stride=1 if number == 1 else 2)
        pieces["pool"] = nn.AdaptiveAvgPool2d(1)
        pieces["flat"] = nn.Flatten()
        pieces["output"] = nn.Linear(RESNET_WIDTHS[-1], classes)
        super().__init__(pieces)


def vgg(shape: tuple[int, int, int], classes: int, *, seed: int = 0) -> VGG:
    """A new Network 1 for images (channels, height, width). The seed determines its weights and
    affects no other random number.
    """
    return _new(VGG, shape, classes, seed)


def resnet(shape: tuple[int, int, int], classes: int, *, seed: int = 0) -> ResNet:
    """A new Network 2, with weights determined by the seed."""
    return _new(ResNet, shape, classes, seed)


def _new(
    build: Callable[[int, int], Network], shape: tuple[int, int, int], classes: int, seed: int
) -> Network:
    if len(shape) != 3 or shape[0] < 1 or min(shape[1:]) < SMALLEST or classes < 2:
        raise SettingError(
            f"A network for images needs channels, a height and a width of {SMALLEST} pixels or"
            f" more, and two classes or more; got images {' × '.join(map(str, shape))} and"
            f" {classes} classes."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = build(shape[0], classes)
        # With torch's own initial weights, eight layers without batch norm hardly start to learn.
        for layer in network.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
