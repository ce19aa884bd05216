"""Where a network's channels are: tokens that a convolution mixes stay tokens, a convolutional
network with attention has maps, and a file that takes its channels last gets them so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from fairprobe.errors import ModelError
from fairprobe.images.change import Change
from fairprobe.images.excitement import excitement
from fairprobe.images.insidebias_run import InsideBiasRun, look_inside
from fairprobe.images.interpret import image_bias, layer_layouts
from fairprobe.images.networks import open_network
from tests.images.architectures import CLASSES, LABELS, SIDE, export, folder_resnet, resnet


def tokens_between_convolutions(kind: str, *, seed: int = 0) -> Any:
    """PVTv2 or SegFormer of transformers: linear layers, and a convolution of the tokens between
    them. The hidden layers have 16 and 32 channels of 16 and 4 tokens.
    """
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[8, 16],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        id2label=LABELS,
        label2id={name: at for at, name in LABELS.items()},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return getattr(transformers, f"{kind}ForImageClassification")(config).eval()


class ConvolutionsWithAttention(nn.Module):
    """A convolutional network with one block of attention: all its layers are maps."""

    def __init__(self, *, by_hand: bool = False) -> None:
        super().__init__()
        self.conv1, self.relu1 = nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU()
        self.all_three = nn.Conv2d(12, 36, 1)
        self.bn, self.relu2 = nn.BatchNorm2d(12), nn.ReLU()
        self.conv2, self.relu3 = nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU()
        self.fc = nn.Linear(24, CLASSES)
        self.by_hand = by_hand

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu1(self.conv1(x))
        query, key, value = self.all_three(x).flatten(2).transpose(1, 2).chunk(3, -1)
        if self.by_hand:
            mixed = torch.softmax(query @ key.transpose(1, 2) / 12**0.5, -1) @ value
        else:
            mixed = nn.functional.scaled_dot_product_attention(query, key, value)
        x = self.relu2(self.bn(x + mixed.transpose(1, 2).reshape(x.shape)))
        answer: Tensor = self.fc(self.relu3(self.conv2(x)).mean((2, 3)))
        return answer


class MoveChannels(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.permute(0, 2, 3, 1)


class ChannelsLast(nn.Module):
    """A network that takes pictures (N, height, width, channels)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.network(x.permute(0, 3, 1, 2))
        return answer


def images(count: int = 6) -> Any:
    return np.random.default_rng(1).random((count, 3, SIDE, SIDE), dtype=np.float32)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of pictures whose rows, columns and channels differ."""
    root, rng = tmp_path_factory.mktemp("groups"), np.random.default_rng(0)
    for group in ("a", "b"):
        (root / group).mkdir()
        for number in range(5):
            pixels = rng.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
            pixels[: SIDE // 2, :, 0] = 255
            Image.fromarray(pixels).save(root / group / f"{number}.png")
    return root


def activations(model: Path, groups: Path, **more: Any) -> dict[str, dict[str, float]]:
    (document,) = look_inside(str(model), groups, **more)
    assert isinstance(document, InsideBiasRun)
    return {layer.name: dict(layer.activation) for layer in document.result.layers}


@pytest.mark.parametrize("kind", ["PvtV2", "Segformer"])
def test_tokens_that_a_convolution_mixes_stay_tokens(kind: str, tmp_path: Path) -> None:
    tokens_between_convolutions(kind).save_pretrained(tmp_path / "network")
    network = open_network(str(tmp_path / "network")).module
    layouts = layer_layouts(network, images(1))
    assert list(layouts.values()) == ["tokens", "tokens"]
    x = images(4)
    change = Change(np.full_like(x, 0.02), np.ones(4, dtype=bool), np.full(4, 0.02))
    bias = image_bias(network, x, change, by="channel")
    assert [layer.neurons for layer in bias.layers] == [16, 32]
    with pytest.raises(ModelError, match="sequence of tokens"):
        excitement(network, {"a": x, "b": x})


@pytest.mark.parametrize("ending", ["", ".pt2", ".onnx"])
@pytest.mark.parametrize("by_hand", [True, False])
def test_a_convolutional_network_with_attention_has_maps(
    by_hand: bool, ending: str, tmp_path: Path
) -> None:
    network = ConvolutionsWithAttention(by_hand=by_hand).eval()
    path = tmp_path / f"network{ending}"
    opened = open_network(str(export(network, path)) if ending else network).module
    assert layer_layouts(opened, images(1)) == dict.fromkeys(["relu1", "relu2", "relu3"], "maps")
    found = excitement(opened, {"a": images(4), "b": images(5)})
    assert found.maps == (12, 12, 24)


@pytest.mark.parametrize("ending", ["onnx", "pt2"])
def test_insidebias_gives_a_file_its_channels_last(
    ending: str, groups: Path, tmp_path: Path
) -> None:
    first = activations(export(resnet(), tmp_path / f"first.{ending}"), groups)
    x = torch.rand(2, SIDE, SIDE, 3)
    last = activations(
        export(ChannelsLast(resnet()).eval(), tmp_path / f"last.{ending}", x), groups
    )
    assert len(first) == len(last)
    for one, other in zip(first.values(), last.values(), strict=True):
        assert one == pytest.approx(other, rel=1e-5)


def test_activations_with_their_channels_last_behind_a_convolution_are_maps() -> None:
    end = [nn.ReLU(), nn.Flatten(), nn.Linear(4 * (SIDE - 2) ** 2, 2)]
    network = nn.Sequential(nn.Conv2d(3, 4, 3), MoveChannels(), *end).eval()
    plain = nn.Sequential(network[0], *end).eval()
    x = {"a": images(4), "b": images(4)}
    one, other = excitement(network, x), excitement(plain, x)
    assert one.maps == other.maps == (4,)
    np.testing.assert_allclose(one.values[0][0], other.values[0][0], rtol=1e-6)


def test_a_layer_of_a_folder_is_named_as_its_author_did(groups: Path, tmp_path: Path) -> None:
    folder_resnet().save_pretrained(tmp_path / "network")
    name = "resnet.encoder.stages.1.layers.0.activation"
    assert list(activations(tmp_path / "network", groups, layer=name)) == [name]
