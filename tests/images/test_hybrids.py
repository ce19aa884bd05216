"""InsideBias in networks of convolutions and attention: feature maps are compared, tokens never."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from PIL import Image
from torch import Tensor, nn

from fairprobe.errors import FairprobeError, ModelError
from fairprobe.images import InsideBias, insidebias
from fairprobe.images.excitement import excitement
from fairprobe.images.insidebias_run import InsideBiasRun, look_inside
from fairprobe.images.networks import open_network
from fairprobe.results import from_dict, to_dict
from tests.cli.test_cli import ask
from tests.images.architectures import SIDE, export

TOKENS = ["blocks.0.act", "blocks.1.act"]


class Squeeze(nn.Module):
    """Weighs the channels by their means, as in CoAtNet: its maps have one place."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.relu, self.up = nn.Conv2d(8, 4, 1), nn.ReLU(), nn.Conv2d(4, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        weights: Tensor = self.up(self.relu(self.down(x.mean((2, 3), keepdim=True))))
        return x * torch.softmax(weights, dim=1)


class Block(nn.Module):
    """Attention and a dense part on tokens (images, tokens, channels)."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.up, self.down = nn.Linear(8, 24), nn.Linear(8, 16), nn.Linear(16, 8)
        self.act = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        x = x + torch.softmax(q @ k.transpose(1, 2) / 8**0.5, dim=-1) @ v
        answer: Tensor = x + self.down(self.act(self.up(x)))
        return answer


class Hybrid(nn.Module):
    """A stem of convolutions, then blocks of attention, then a dense head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1), nn.ReLU())
        )
        self.squeeze = Squeeze()
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.squeeze(self.stem(x)).flatten(2).transpose(1, 2)
        answer: Tensor = self.head(self.blocks(tokens).mean(dim=1))
        return answer


class Heads(nn.Module):
    """Attention whose heads (images, heads, channels, tokens) a convolution computes, as in
    EfficientViT: four axes, and no maps.
    """

    def __init__(self, *, stem: bool) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU() if stem else nn.Identity())
        self.qkv, self.relu, self.head = nn.Conv2d(8, 24, 1), nn.ReLU(), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.stem(x)).reshape(x.shape[0], 2, 12, -1).chunk(3, dim=2)
        q = self.relu(q)
        mixed = (v @ k.transpose(2, 3)) @ q
        answer: Tensor = self.head(mixed.reshape(x.shape[0], 8, -1).mean(dim=2))
        return answer


class Folded(nn.Module):
    """Tokens of all images in one table, as some code has them."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.up = nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.relu(self.conv(x)).flatten(2).transpose(1, 2)
        rows = F.gelu(self.up(tokens.flatten(0, 1)))
        answer: Tensor = self.head(rows.reshape(x.shape[0], -1, 8).mean(dim=1))
        return answer


def built(kind: type[nn.Module] = Hybrid, **more: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return kind(**more).eval()


def groups(count: int = 12) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        name: level * torch.rand(count, 3, SIDE, SIDE, generator=generator)
        for name, level in (("bright", 1.0), ("dark", 0.4))
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The groups as pictures."""
    root = tmp_path / "groups"
    for name, images in groups().items():
        (root / name).mkdir(parents=True)
        for number, image in enumerate(images):
            pixels = (255 * image).round().byte().permute(1, 2, 0).numpy()
            Image.fromarray(pixels).save(root / name / f"{number}.png")
    return root


def given(ending: str, tmp_path: Path, network: nn.Module | None = None) -> Any:
    """The hybrid as it is, or as a file."""
    network = network or built()
    if not ending:
        return network
    return str(export(network, tmp_path / f"network{ending[-5:]}", dynamo="dynamo" in ending))


@pytest.mark.parametrize("ending", ["", ".onnx", ".dynamo.onnx", ".pt2"])
def test_the_last_feature_maps_of_a_hybrid_decide_and_tokens_are_left_out(
    ending: str, tmp_path: Path
) -> None:
    """λ is that of the stem alone; the squeezed maps after it have one place and do not decide."""
    found = insidebias(open_network(given(ending, tmp_path)).module, groups())
    assert found.decisive.name == "stem.3"
    assert list(found.tokens) == TOKENS
    assert [layer.name for layer in found.layers] == ["stem.1", "stem.3", "squeeze.relu", "head.1"]
    with torch.no_grad():
        stem = [built().stem(images).mean((2, 3)).amax(1).mean() for images in groups().values()]
    expected = [float(one) for one in stem]
    assert list(found.decisive.activation.values()) == pytest.approx(expected, rel=1e-5)
    assert found.ratio == pytest.approx(float(min(stem) / max(stem)), rel=1e-5)


@pytest.mark.parametrize("ending", ["", ".onnx", ".pt2"])
def test_a_named_layer_overrides_the_choice_but_tokens_stay_refused(
    ending: str, tmp_path: Path
) -> None:
    network = open_network(given(ending, tmp_path)).module
    assert insidebias(network, groups(), layers=["stem.1"]).decisive.name == "stem.1"
    assert insidebias(network, groups(), layers=["stem.1"]).tokens == []
    for name in TOKENS:
        with pytest.raises(ModelError, match="sequence of tokens"):
            insidebias(network, groups(), layers=[name])


@pytest.mark.parametrize("ending", ["", ".onnx", ".pt2"])
def test_heads_that_a_convolution_computes_are_not_taken_for_maps(
    ending: str, tmp_path: Path
) -> None:
    network = open_network(given(ending, tmp_path, built(Heads, stem=True))).module
    found = insidebias(network, groups())
    assert (found.decisive.name, found.tokens) == ("stem.1", ["relu"])
    (tmp_path / "none").mkdir()
    bare = open_network(given(ending, tmp_path / "none", built(Heads, stem=False))).module
    with pytest.raises(ModelError, match="sequence of tokens"):
        excitement(bare, groups())


def test_tokens_of_all_images_in_one_table_are_not_taken_for_a_dense_layer() -> None:
    found = insidebias(built(Folded), groups())
    assert found.decisive.name == "relu"
    assert len(found.tokens) == len(found.layers) == 1


def test_references_of_a_hybrid_are_compared_in_the_same_layer() -> None:
    found = insidebias(built(), groups(), references=[built(), built()])
    assert [one.ratio for one in found.references] == [found.ratio] * 2


@pytest.mark.parametrize("ending", [".onnx", ".pt2"])
def test_output_report_and_document_say_which_layers_are_tokens_and_which_was_taken(
    ending: str, folder: Path, tmp_path: Path
) -> None:
    model, page, out = given(ending, tmp_path), tmp_path / "page.html", tmp_path / "out.json"
    answer = ask("insidebias", "--model", model, "--groups", folder, "--report", page, "--out", out)
    assert answer.code == 0, answer.said
    said = " ".join(answer.out.split())
    for text in (said, page.read_text(encoding="utf-8")):
        assert "hybrid of convolutions and attention" in text
        assert all(name in text for name in TOKENS)
        assert "decides, the last layer with feature maps; --layer names another." in " ".join(
            text.replace("\N{NO-BREAK SPACE}", " ").split()
        )
    body = json.loads(out.read_text(encoding="utf-8"))
    assert (body["result"]["decisive"]["name"], body["result"]["tokens"]) == ("stem.3", TOKENS)
    named = ask("insidebias", "--model", model, "--groups", folder, "--layer", "stem.1", "--json")
    assert json.loads(named.out)["result"]["tokens"] == []
    refused = ask("insidebias", "--model", model, "--groups", folder, "--layer", TOKENS[0])
    assert refused.code == 2
    assert "sequence of tokens" in refused.said


def test_a_document_whose_deciding_layer_holds_tokens_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    (document,) = look_inside(given(".onnx", tmp_path), folder)
    assert isinstance(document, InsideBiasRun)
    body = to_dict(document.result) | {"tokens": ["stem.3"]}
    with pytest.raises(FairprobeError, match="contains tokens"):
        from_dict(body, InsideBias)
