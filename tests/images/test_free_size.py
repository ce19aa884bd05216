"""Files of networks that take pictures of any size: they are opened for the size of the pictures,
compute what their author's network computes there, and refuse sizes that they exclude.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.export import Dim

from fairprobe.errors import ModelError
from fairprobe.images.networks import Network, open_network
from fairprobe.models.formats.free_size import of_expression
from fairprobe.models.load import open_model
from tests.cli.test_cli import ask
from tests.images.architectures import resnet

EXPORTS = ("onnx", "dynamo.onnx", "pt2")
Size = tuple[int, int]


class Patches(nn.Module):
    """The maxima of patches of 8 × 8 pixels, so height and width are multiples of 8."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        count, _, height, width = x.shape
        x = torch.relu(self.conv(x)).reshape(count, 4, height // 8, 8, width // 8, 8)
        answer: Tensor = self.fc(x.amax((3, 5)).mean((2, 3)))
        return answer


def export(network: nn.Module, path: Path, height: Any = None, width: Any = None) -> Path:
    """The network as a file with a free number of pictures, height and width."""
    x = torch.rand(2, 3, 32, 40 if height is None or height is not width else 32)
    free = {0: Dim("rows"), 2: height or Dim("height", min=8), 3: width or Dim("width", min=8)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own
        if path.suffix == ".pt2":
            torch.export.save(torch.export.export(network, (x,), dynamic_shapes=(free,)), path)
        elif path.name.startswith("dynamo"):
            torch.onnx.export(network, (x,), path, dynamo=True, dynamic_shapes=(free,))
        else:
            axes = {0: "n", 2: "height", 3: "height" if height and height is width else "width"}
            torch.onnx.export(
                network, (x,), path, dynamo=False, input_names=["x"], dynamic_axes={"x": axes}
            )
    return path


def answers(network: Network, x: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = network.module.eval()(x)
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("free")
    for name in EXPORTS:
        export(resnet(2), root / ("dynamo.onnx" if "dynamo" in name else f"resnet.{name}"))
    return root


def named(files: Path, name: str) -> Path:
    return files / (name if "dynamo" in name else f"resnet.{name}")


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(16, 16), (24, 40)])
@pytest.mark.parametrize("name", EXPORTS)
def test_a_file_of_any_size_answers_as_its_network_does_at_that_size(
    name: str, size: Size, files: Path
) -> None:
    path = named(files, name)
    network = open_network(str(path), size=size)
    x = torch.rand(5, 3, *size, generator=torch.Generator().manual_seed(1))
    found = answers(network, x)
    with torch.no_grad():
        torch.testing.assert_close(found, resnet(2)(x), rtol=1e-4, atol=1e-5)
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (own,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        np.testing.assert_allclose(found.numpy(), own, rtol=1e-4, atol=1e-5)
    assert network.size == size
    assert network.says_size(0) == [
        f"{path.name} takes pictures of any size; {size[1]} × {size[0]} pixels are used."
    ]
    with pytest.raises(ModelError, match=f"takes pictures of {size[1]} × {size[0]} pixels; got"):
        network.module(torch.rand(2, 3, size[0] + 8, size[1]))


@pytest.mark.parametrize("name", EXPORTS)
def test_for_a_table_a_file_of_pictures_of_any_size_is_still_refused(
    name: str, files: Path
) -> None:
    with pytest.raises(ModelError, match=r"of unknown size|with their size known"):
        open_model(str(named(files, name)))


# -- sizes that a file excludes --------------------------------------------------------------------

SQUARE = Dim("side", min=8)
EXCLUDED: dict[str, tuple[Callable[[], nn.Module], Any, Any, Size, str]] = {
    "too small": (
        lambda: resnet(2),
        Dim("h", min=16, max=64),
        Dim("w", min=8),
        (12, 40),
        "takes pictures with a height from 16 to 64 pixels; got 12",
    ),
    "too large": (
        lambda: resnet(2),
        Dim("h", min=8),
        Dim("w", min=16, max=64),
        (32, 80),
        "takes pictures with a width from 16 to 64 pixels; got 80",
    ),
    "no multiple": (
        Patches,
        8 * Dim("a", min=2, max=16),
        8 * Dim("b", min=2),
        (30, 40),
        "a height from 16 to 128 pixels in steps of 8; got 30",
    ),
    "no square": (lambda: resnet(2), SQUARE, SQUARE, (32, 40), "one free size, such as squares"),
}


@pytest.mark.parametrize("case", EXCLUDED.values(), ids=EXCLUDED)
def test_an_exported_file_refuses_a_size_that_its_symbols_exclude_and_takes_others(
    case: tuple[Callable[[], nn.Module], Any, Any, Size, str], tmp_path: Path
) -> None:
    build, height, width, size, words = case
    network = build().eval()
    path = export(network, tmp_path / "m.pt2", height, width)
    with pytest.raises(ModelError, match=words):
        open_network(str(path), size=size)
    x = torch.rand(3, 3, 48, 48)
    with torch.no_grad():
        found = answers(open_network(str(path), size=(48, 48)), x)
        torch.testing.assert_close(found, network(x), rtol=1e-4, atol=1e-5)


def test_an_onnx_file_refuses_a_size_that_it_cannot_compute(tmp_path: Path) -> None:
    network = Patches().eval()
    path = str(export(network, tmp_path / "m.onnx"))
    with pytest.raises(ModelError, match=r"cannot run m\.onnx on pictures of 3 × 30 × 40"):
        open_network(path, size=(30, 40))
    x = torch.rand(3, 3, 24, 40)
    with torch.no_grad():
        torch.testing.assert_close(answers(open_network(path, size=(24, 40)), x), network(x))


def test_an_onnx_file_with_one_symbol_for_both_sides_takes_squares_only(tmp_path: Path) -> None:
    path = str(export(resnet(2), tmp_path / "m.onnx", SQUARE, SQUARE))
    assert open_network(path, size=(24, 24)).size == (24, 24)
    with pytest.raises(ModelError, match="one free size, such as squares; got 40 × 24 pixels"):
        open_network(path, size=(24, 40))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "Pow(Symbol('s0'), Integer(2))",
        "Mul(Symbol('s0'), Symbol('s1'))",
        "Mul(Integer(-2), Symbol('s0'))",
        "Integer(" * 5000,
        "",
    ],
)
def test_an_expression_that_is_no_multiple_of_a_symbol_is_not_read(text: str) -> None:
    assert of_expression(text, {}) is None


def test_an_expression_is_a_multiple_of_a_symbol_plus_a_number() -> None:
    text = "Add(Integer(-1), Mul(Integer(4), Symbol('s0', positive=True, integer=True)))"
    free = of_expression(text, {"s0": {"min_val": 2, "max_val": 2**63 - 2}})
    assert free is not None
    assert (free.step, free.start, free.least, free.most) == (4, -1, 2, None)
    assert free.number(11, "height", "m") == 3


# -- the commands ----------------------------------------------------------------------------------


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """Bright and dark faces of 20 × 24 pixels, in the layout of LFW."""
    rng = np.random.default_rng(0)
    root = tmp_path / "faces"
    for gender, level in (("male", 180), ("female", 70)):
        names = []
        for person in range(12):
            name = f"{gender}_{person}"
            (root / name).mkdir(parents=True)
            for number in (1, 2):
                pixels = np.clip(rng.normal(level, 25, (24, 20, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(root / name / f"{name}_{number:04}.png")
                names.append(f"{name}_{number:04}.png")
        (root / f"{gender}_names.txt").write_text("\n".join(names), encoding="utf-8")
    return root


def grouped(faces: Path, root: Path) -> Path:
    for path in faces.rglob("*.png"):
        place = root / path.name.split("_")[0]
        place.mkdir(parents=True, exist_ok=True)
        (place / path.name).write_bytes(path.read_bytes())
    return root


USED = "takes pictures of any size; 20 × 24 pixels are used."


@pytest.mark.parametrize("name", ["onnx", "pt2"])
def test_audit_images_says_the_size_it_used(
    name: str, files: Path, faces: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    words = ["--sensitive", "gender", "--methods", "adf", "--set", "iterations=2", "--no-repair"]
    answer = ask(
        "audit-images", faces, "--model", named(files, name), *words, "--json", "--out", run
    )
    assert answer.code == 0, answer.said
    body = json.loads(answer.out)
    assert (body["data"]["height"], body["data"]["width"]) == (24, 20)
    assert any(message.endswith(USED) for message in body["messages"])
    assert USED in (run / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["onnx", "pt2"])
def test_insidebias_says_the_size_it_used(
    name: str, files: Path, faces: Path, tmp_path: Path
) -> None:
    groups, model = grouped(faces, tmp_path / "groups"), named(files, name)
    page = tmp_path / "page.html"
    answer = ask("insidebias", "--model", model, "--groups", groups, "--json", "--report", page)
    assert answer.code == 0, answer.said
    body = json.loads(answer.out)
    assert (body["height"], body["width"]) == (24, 20)
    assert any(message.endswith(USED) for message in body["messages"])
    assert "20 × 24\N{NO-BREAK SPACE}pixels" in page.read_text(encoding="utf-8")


def test_pictures_of_several_sizes_are_refused_until_a_size_is_named(
    files: Path, faces: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in sorted(faces.rglob("*.png"))[:3]:
        Image.open(path).resize((40, 40)).save(path)
    groups, model = grouped(faces, tmp_path / "groups"), named(files, "onnx")
    words: list[str | Path] = ["--model", model, "--sensitive", "gender"]
    answer = ask("audit-images", faces, *words)
    assert answer.code == 2
    assert "most 20 × 24 pixels, 3 another. Say which to use (--size 20)" in answer.said
    answer = ask("insidebias", "--model", model, "--groups", groups)
    assert answer.code == 2
    assert "3 another. Bring them to one size." in answer.said
    fast = [
        "--methods",
        "adf",
        "--faces",
        "4",
        "--set",
        "iterations=1",
        "--no-controls",
        "--no-repair",
    ]
    answer = ask("audit-images", faces, *words, *fast, "--size", "20", "--json")
    assert answer.code == 0, answer.said
    assert json.loads(answer.out)["data"]["width"] == 20
    assert json.loads(answer.out)["data"]["height"] == 20
