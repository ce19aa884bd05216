"""Two networks of the InsideBias paper, for images of any size: a VGG with eight convolutions and a
ResNet with three blocks.

Serna et al., "InsideBias: Measuring Bias in Deep Networks and Application to Face Gender
Biometrics", ICPR 2020. The paper gives the number of layers and of parameters (more than 660,000
and 370,000), not the widths; those here match its numbers and are narrow where the maps are large,
so that training on a digit takes less than a millisecond. Images are bytes, or numbers from 0 to 1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from fairprobe.errors import ModelError, SettingError, StorageError, suggest

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
    """Chain of convolutions and a shortcut with its own convolution around it; the first may halve
    the image.
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
    """Return a new Network 1 for images (channels, height, width). The seed determines its weights
    and affects no other random number.
    """
    return _new(VGG, shape, classes, seed)


def resnet(shape: tuple[int, int, int], classes: int, *, seed: int = 0) -> ResNet:
    """Return a new Network 2, with weights determined by the seed."""
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


# -- trunks of published networks ------------------------------------------------------------------

TrunkName = Literal["vgg16", "resnet50"]
VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)  # 0: pooling
RESNET50 = ((64, 3), (128, 4), (256, 6), (512, 3))  # width and blocks of each stage
WIDER = 4
TRUNK_SMALLEST = 32  # pixels: five halvings leave one
# of ImageNet's pixels, red first; pretrained weights expect pictures scaled by them
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLASSIFIERS = ("classifier.", "fc.")  # what files have beyond the trunk


class Trunk(nn.Module):
    """Pictures scaled as ImageNet's, then convolutions."""

    mean: Tensor
    deviation: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name, values in (("mean", MEAN), ("deviation", DEVIATION)):
            self.register_buffer(name, torch.tensor(values).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.maps((images - self.mean) / self.deviation)

    def maps(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class VGG16Trunk(Trunk):
    """Thirteen convolutions in five parts, each halved by a pooling."""

    def __init__(self) -> None:
        super().__init__()
        pieces: list[nn.Module] = []
        before = 3
        for after in VGG16:
            if after == 0:
                pieces.append(nn.MaxPool2d(2))
            else:
                pieces += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
                before = after
        self.features = nn.Sequential(*pieces)

    def maps(self, x: Tensor) -> Tensor:
        answer: Tensor = self.features(x)
        return answer


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut around them."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = width * WIDER
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, after, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU()
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride=stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        inner = self.relu(self.bn1(self.conv1(x)))
        inner = self.relu(self.bn2(self.conv2(inner)))
        answer: Tensor = self.relu(self.bn3(self.conv3(inner)) + self.downsample(x))
        return answer


class ResNet50Trunk(Trunk):
    """Stem, sixteen blocks in four stages, and the mean of each map."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        before = 64
        for number, (width, blocks) in enumerate(RESNET50, start=1):
            stage = []
            for at in range(blocks):
                stage.append(Bottleneck(before, width, 2 if at == 0 and number > 1 else 1))
                before = width * WIDER
            setattr(self, f"layer{number}", nn.Sequential(*stage))
        self.avgpool = nn.AdaptiveAvgPool2d(1)

    def maps(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for number in range(1, len(RESNET50) + 1):
            x = getattr(self, f"layer{number}")(x)
        answer: Tensor = self.avgpool(x).flatten(1)
        return answer


TRUNKS: dict[str, Callable[[], Trunk]] = {"vgg16": VGG16Trunk, "resnet50": ResNet50Trunk}


def trunk(name: str, *, weights: Path | None = None) -> Trunk:
    """Return a trunk with weights of a safetensors file, or drawn by He's rule with torch's current
    generator.
    """
    if name not in TRUNKS:
        raise SettingError(f"There is no trunk '{name}'.{suggest(name, TRUNKS)}")
    network = TRUNKS[name]()
    if weights is not None:
        _load(network, weights, name)
        return network
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return network


def _load(network: Trunk, path: Path, name: str) -> None:
    if not path.is_file():
        raise StorageError(f"There is no file of weights {path}.")
    if path.suffix != ".safetensors":
        raise ModelError(
            f"The weights of {name} are read from .safetensors only; {path} may be a pickle, which"
            " would run whatever program is in it. Convert it yourself if you trust it:"
            f" safetensors.torch.save_file(model.state_dict(), '{path.stem}.safetensors')."
        )
    try:
        given = load_file(path)
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"{path} is not a readable safetensors file ({str(error).rstrip('.')}). Write it again"
            " with save_file."
        ) from error
    own = network.state_dict()
    fitting = {key: value for key, value in given.items() if not key.startswith(CLASSIFIERS)}
    wrong = sorted(
        key
        for key in own.keys() | fitting.keys()
        if key not in own or key not in fitting or own[key].shape != fitting[key].shape
    )
    if wrong:
        raise ModelError(
            f"The weights in {path} are not those of {name}: {', '.join(wrong[:3])} and"
            f" {len(wrong) - len(wrong[:3])} others differ or are missing. Expected the names of"
            " the usual PyTorch files (features.0.weight, layer1.0.conv1.weight)."
        )
    network.load_state_dict(fitting)
