"""Networks of the tests' own as people have them: a residual network and a vision transformer, as a
module and as files.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

SIDE, CLASSES = 16, 3
LABELS = {0: "old", 1: "young", 2: "child"}
RELUS = [
    "relu",
    *(
        f"layer{stage}.{block}.relu{call}"
        for stage in (1, 2)
        for block in (0, 1)
        for call in ("", "#2")
    ),
]
GELUS = [f"vit.layers.{layer}.mlp.activation_fn" for layer in (0, 1)]


class Block(nn.Module):
    """A block of a ResNet-18: two convolutions, one ReLU that is called twice, and a shortcut."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(
                nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
            )

    def forward(self, x: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        answer: Tensor = self.relu(inner + self.downsample(x))
        return answer


class ResNet(nn.Module):
    """Like a ResNet-18, with two stages of two blocks."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(Block(8, 8), Block(8, 8))
        self.layer2 = nn.Sequential(Block(8, 16, 2), Block(16, 16))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x)))))
        answer: Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return answer


class Wrapped(nn.Module):
    """A network within another that scales the pixels, as people often wrap theirs."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.backbone = network

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.backbone((x - 0.5) / 0.25)
        return answer


def resnet(classes: int = CLASSES, *, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ResNet(classes).eval()


def vit(*, seed: int = 0) -> Any:
    """A classifier of Hugging Face's transformers; it answers with `.logits`."""
    from transformers import ViTConfig, ViTForImageClassification

    settings = ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        image_size=SIDE,
        patch_size=4,
        id2label=LABELS,
        label2id={name: at for at, name in LABELS.items()},
        initializer_range=0.5,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: Any = ViTForImageClassification(settings)
        return network.eval()


def folder_resnet(*, seed: int = 0) -> Any:
    """A residual network of transformers."""
    import transformers

    library: Any = transformers  # its classes have no types
    settings = library.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        layer_type="basic",
        id2label=LABELS,
        label2id={name: at for at, name in LABELS.items()},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return library.ResNetForImageClassification(settings).eval()


class Logits(nn.Module):
    """Answers with a tensor, as exporters need it; the parts keep their names."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.vit, self.classifier = network.vit, network.classifier

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.classifier(self.vit(x).last_hidden_state[:, 0])
        return answer


def export(
    network: nn.Module,
    path: Path,
    x: Tensor | None = None,
    *,
    dynamo: bool = False,
    channels: int = 3,
) -> Path:
    """The network as a file, by the ending of its name."""
    x = torch.rand(2, channels, SIDE, SIDE) if x is None else x
    free = {0: torch.export.Dim("rows")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own
        if path.suffix == ".pt2":
            torch.export.save(torch.export.export(network, (x,), dynamic_shapes=(free,)), path)
        elif dynamo:
            torch.onnx.export(network, (x,), path, dynamo=True, dynamic_shapes=(free,))
        else:
            torch.onnx.export(
                network, (x,), path, dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "n"}}
            )
    return path
