"""Networks as people have them: the tool finds their trunk and head, names their layers as their
authors did, in every format, and does not take tokens for maps.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from safetensors.torch import load
from torch import Tensor, nn

from fairprobe.datasets.image_sets import open_images
from fairprobe.errors import DataError, FairprobeError, ModelError, StorageError
from fairprobe.images.change import Change
from fairprobe.images.checks import with_target
from fairprobe.images.detector import Detector, OwnDetector, own_detector, small_detector
from fairprobe.images.excitement import excitement
from fairprobe.images.export import exported
from fairprobe.images.insidebias_run import InsideBiasRun, look_inside
from fairprobe.images.interpret import Tap, hidden_layers, image_bias, layer_layouts
from fairprobe.images.models import DetectorSource
from fairprobe.images.networks import FromFolder, Preparation, _preparation, open_network
from fairprobe.images.parts import Parts, _calls
from fairprobe.images.search import ImageSearch, search_images
from tests.images.architectures import (
    CLASSES,
    GELUS,
    LABELS,
    RELUS,
    SIDE,
    Logits,
    Wrapped,
    export,
    folder_resnet,
    resnet,
    vit,
)

SHAPE = (3, SIDE, SIDE)


def images(count: int = 6) -> Any:
    return np.random.default_rng(1).random((count, *SHAPE), dtype=np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both networks, as files and as a folder of transformers."""
    root = tmp_path_factory.mktemp("networks")
    transformer = vit()
    transformer.save_pretrained(root / "vit")
    for ending in ("onnx", "pt2"):
        export(resnet(), root / f"resnet.{ending}")
        export(Logits(transformer).eval(), root / f"vit.{ending}")
    return root


def opened(model: Any, **names: str) -> OwnDetector:
    """The network as the audit takes it."""
    found = DetectorSource(model=model, **names).open(SHAPE, CLASSES, seed=0)  # type: ignore[arg-type]
    assert isinstance(found, OwnDetector)
    return found


def given(name: str, folder: Path) -> Any:
    return {"resnet": resnet, "vit": vit}[name]() if "." not in name else str(folder / name)


@pytest.mark.parametrize("name", ["resnet", "resnet.onnx", "resnet.pt2"])
def test_a_residual_network_is_divided_before_fc_and_its_layers_keep_their_names(
    name: str, folder: Path
) -> None:
    detector = opened(given(name, folder))
    x = torch.from_numpy(images())
    with torch.no_grad():
        torch.testing.assert_close(detector(x), resnet()(x))
        features = detector.features(x)
    assert detector.parts == Parts("layer2.1.conv2", "fc", 10, is_found=True)
    assert features.shape == (6, 16)
    torch.testing.assert_close(resnet().get_submodule("fc")(features), resnet()(x))
    assert hidden_layers(detector, x[:1]) == RELUS
    assert set(layer_layouts(detector, images(1)).values()) == {"maps"}


@pytest.mark.parametrize(
    "file",
    ["none", "a.onnx", "a.pt2", pytest.param("dynamo.onnx", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_every_convolution_of_a_residual_network_has_its_authors_name(
    file: str, is_wrapped: bool, tmp_path: Path
) -> None:
    network = Wrapped(resnet()).eval() if is_wrapped else resnet()
    weighted = {
        name for name, part in network.named_modules() if isinstance(part, nn.Conv2d | nn.Linear)
    }
    path = tmp_path / file
    if file != "none":
        export(network, path, dynamo="dynamo" in file)
    detector = opened(network if file == "none" else str(path))
    calls, _ = _calls(detector.module, torch.from_numpy(images(2)), detector.module)
    assert {call.name for call in calls} == weighted
    assert f"{'backbone.' * is_wrapped}layer2.0.downsample.0" in weighted
    activations = hidden_layers(detector, torch.from_numpy(images(1)))
    assert activations == [f"{'backbone.' * is_wrapped}{name}" for name in RELUS]


@pytest.mark.parametrize("name", ["vit", "vit.onnx", "vit.pt2", "folder"])
def test_a_vision_transformer_is_divided_before_its_classifier_and_has_tokens_not_maps(
    name: str, folder: Path
) -> None:
    model = str(folder / "vit") if name == "folder" else given(name, folder)
    detector = opened(model)
    x = torch.from_numpy(images())
    with torch.no_grad():
        torch.testing.assert_close(detector(x), vit()(x).logits, rtol=1e-3, atol=1e-4)
        features = detector.features(x)
        torch.testing.assert_close(
            vit().classifier(features), vit()(x).logits, rtol=1e-3, atol=1e-4
        )
    parts = detector.parts
    assert (parts.trunk, parts.head) == ("vit.layers.1.mlp.fc2", "classifier")
    assert parts.attends
    assert layer_layouts(detector, images(1)) == dict.fromkeys(GELUS, "tokens")


def test_a_residual_network_of_transformers_has_maps_and_a_classifier(tmp_path: Path) -> None:
    network = folder_resnet()
    network.save_pretrained(tmp_path / "resnet")
    for model in (network, str(tmp_path / "resnet")):
        detector = opened(model)
        x = torch.from_numpy(images())
        with torch.no_grad():
            torch.testing.assert_close(detector(x), network(x).logits)
            features = detector.features(x)
            torch.testing.assert_close(network.classifier(features), network(x).logits)
        assert detector.parts.head == "classifier.1"
        assert not detector.parts.attends
        layouts = layer_layouts(detector, images(1))
        assert set(layouts.values()) == {"maps"}
        assert next(reversed(layouts)) == "resnet.encoder.stages.1.layers.0.activation"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet", "vit"])
def test_the_newer_onnx_exporter_gives_the_same_parts(name: str, tmp_path: Path) -> None:
    network = resnet() if name == "resnet" else Logits(vit()).eval()
    path = export(network, tmp_path / "network.onnx", dynamo=True)
    detector = opened(str(path))
    assert detector.parts.head == {"resnet": "fc", "vit": "classifier"}[name]
    assert hidden_layers(detector, torch.from_numpy(images(1))) == (
        RELUS if name == "resnet" else GELUS
    )


@pytest.mark.parametrize("name", ["vit", "vit.onnx", "vit.pt2"])
def test_insidebias_gives_no_verdict_on_tokens(name: str, folder: Path) -> None:
    network = open_network(given(name, folder)).module
    groups = {"a": images(4), "b": images(4)}
    with pytest.raises(ModelError, match="sequence of tokens"):
        excitement(network, groups)


def test_a_neuron_of_tokens_is_a_channel_of_one_token_or_of_all() -> None:
    """Against the activations themselves, taken by a hook."""
    network, x = vit(), images(5)
    delta = np.random.default_rng(2).normal(0, 0.05, x.shape).astype(np.float32)
    delta = np.clip(x + delta, 0, 1) - x
    change = Change(delta, np.ones(5, dtype=bool), np.full(5, 0.05))
    detector = opened(network)
    seen: list[Tensor] = []
    part = network.vit.layers[0].mlp.activation_fn
    hook = part.register_forward_hook(lambda _, __, output: seen.append(output))
    with torch.no_grad():
        for pictures in (x, x + delta):
            network(torch.from_numpy(pictures))
    hook.remove()
    apart = (seen[0] - seen[1]).abs().double()  # (images, tokens, channels)
    by_position = image_bias(detector, x, change).layers[0]
    by_channel = image_bias(detector, x, change, by="channel").layers[0]
    assert by_position.neurons == 17 * 24
    assert by_channel.neurons == 24
    np.testing.assert_allclose(by_position.difference, apart.mean(dim=0).flatten(), rtol=1e-4)
    np.testing.assert_allclose(by_channel.difference, apart.mean(dim=(0, 1)), rtol=1e-4)


@pytest.mark.parametrize("by", ["position", "channel"])
def test_neuronfair_searches_in_tokens(by: Any) -> None:
    x = images(4)
    change = Change(np.zeros_like(x), np.ones(4, dtype=bool), np.zeros(4))
    detector = opened(vit())
    bias = image_bias(detector, x, change, by=by)
    found = search_images(
        detector,
        x,
        change,
        ImageSearch(max_iter=2),
        bias=bias,
        rng=np.random.default_rng(0),
    )
    assert len(found) == 0  # nothing is changed, so nothing differs
    assert found.seeds == 4


def test_a_gelu_that_a_file_spells_out_is_one_layer(tmp_path: Path) -> None:
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(768, 8), nn.GELU(), nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 3)
    ).eval()
    x = torch.from_numpy(images())
    path = tmp_path / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (x,),
            path,
            dynamo=False,
            opset_version=17,
            input_names=["x"],
            dynamic_axes={"x": {0: "n"}},
        )
    assert "Erf" in {node.op_type for node in onnx.load(path).graph.node}
    detector = opened(str(path))
    assert hidden_layers(detector, x[:1]) == ["2", "4"]
    with torch.no_grad():
        torch.testing.assert_close(detector(x), network(x), rtol=1e-4, atol=1e-5)


def test_a_silu_that_a_file_spells_out_is_seen_as_the_product_and_not_as_its_gate(
    tmp_path: Path,
) -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.SiLU(), nn.Conv2d(4, 4, 3), nn.Sigmoid(), nn.Flatten()
    ).eval()
    x = torch.from_numpy(images())
    path = tmp_path / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (x,),
            path,
            dynamo=False,
            opset_version=17,
            dynamic_axes={"input": {0: "n"}},
            input_names=["input"],
        )
    assert "Mul" in {node.op_type for node in onnx.load(path).graph.node}
    seen: list[Tensor] = []
    opened_file = open_network(str(path)).module
    with torch.no_grad(), Tap(lambda call, output, last: seen.append(output)):
        opened_file(x)
    torch.testing.assert_close(seen[0], network[:2](x), rtol=1e-4, atol=1e-5)
    assert seen[1].min() > 0  # a sigmoid that multiplies nothing stays one
    assert len(seen) == 2


def test_insidebias_takes_a_convolutional_network_and_a_folder(
    folder: Path, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    for group in ("a", "b"):
        (tmp_path / group).mkdir()
        for number in range(5):
            pixels = rng.integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / group / f"{number}.png")
    for name in ("resnet.onnx", "resnet.pt2"):
        (document,) = look_inside(str(folder / name), tmp_path)
        assert isinstance(document, InsideBiasRun)
        assert document.result.decisive.name == RELUS[-1]
        assert [layer.name for layer in document.result.layers] == RELUS
    with pytest.raises(ModelError, match="sequence of tokens"):
        look_inside(str(folder / "vit"), tmp_path)


# -- trunk and head --------------------------------------------------------------------------------


def test_trunk_and_head_can_be_named_instead() -> None:
    x = torch.from_numpy(images())
    network = resnet()
    with torch.no_grad():
        at_trunk = opened(network, trunk="layer1")
        assert at_trunk.features(x).shape == (6, 8, SIDE, SIDE)
        at_head = opened(network, head="layer2")
        torch.testing.assert_close(at_head.features(x), at_trunk.features(x))


def test_in_a_file_the_head_is_named_as_the_author_named_it(folder: Path) -> None:
    detector = opened(str(folder / "resnet.onnx"), head="layer2.0.conv1")
    assert detector.features(torch.from_numpy(images())).shape == (6, 8, SIDE, SIDE)
    with pytest.raises(ModelError, match=r"Did you mean 'layer2\.0\.conv1'"):
        opened(str(folder / "resnet.onnx"), head="layer2.0.conv11")
    with pytest.raises(ModelError, match=r"name the head: one of .*fc"):
        opened(str(folder / "resnet.onnx"), trunk="fc")


class Classifier(nn.Module):
    """Convolutions and three dense layers, as in VGG16."""

    def __init__(self, *, ends_dense: bool = True) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU())
        dense = [nn.Flatten(), nn.Linear(196, 8), nn.ReLU(), nn.Linear(8, CLASSES)]
        last = [nn.Conv2d(4, CLASSES, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        self.classifier = nn.Sequential(*(dense if ends_dense else last))

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.classifier(self.features(x))
        return answer


def test_several_dense_layers_are_one_head_and_a_last_convolution_is_one_too() -> None:
    def parts(network: nn.Module) -> Parts:
        return opened(network).parts

    assert parts(Classifier()) == Parts("features.0", "classifier.1", 1, is_found=True)
    assert parts(Classifier(ends_dense=False)).head == "classifier.0"
    plain = nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    assert parts(plain) == Parts("1", "3", 1, is_found=True)


# -- folders of transformers -----------------------------------------------------------------------


def test_a_folder_says_its_classes_and_how_to_prepare_pictures(
    folder: Path, tmp_path: Path
) -> None:
    network = vit()
    network.save_pretrained(tmp_path / "own")
    (tmp_path / "own" / "preprocessor_config.json").write_text(
        json.dumps(
            {
                "image_mean": [0.5, 0.4, 0.3],
                "image_std": [0.2, 0.25, 0.5],
                "size": {"height": SIDE, "width": SIDE},
            }
        )
    )
    own = open_network(str(tmp_path / "own"))
    assert own.classes == tuple(LABELS.values())
    x = torch.rand(2, *SHAPE)
    mean, deviation = (
        torch.tensor(each).view(1, 3, 1, 1) for each in ([0.5, 0.4, 0.3], [0.2, 0.25, 0.5])
    )
    with torch.no_grad():
        torch.testing.assert_close(own.module(x), network((x - mean) / deviation).logits)
        larger = own.module(torch.rand(2, 3, 40, 40))  # brought to the size it takes
    assert larger.shape == (2, CLASSES)


def processors() -> dict[str, Any]:
    """Image processors of transformers, each with another way to bring pictures to a size."""
    import transformers

    library: Any = transformers  # its classes have no types
    scale = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.25, 0.5]}
    square, edge = {"height": SIDE, "width": SIDE}, {"shortest_edge": SIDE}
    return {
        "square": library.ViTImageProcessor(size=square, resample=2, **scale),
        "bicubic": library.ViTImageProcessor(size=square, resample=3, **scale),
        "share": library.ConvNextImageProcessor(size=edge, crop_pct=0.8, **scale),
        "crop": library.MobileNetV2ImageProcessor(
            size={"shortest_edge": SIDE + 5}, crop_size=square, do_center_crop=True, **scale
        ),
        "levit": library.LevitImageProcessor(size=edge, crop_size=square, **scale),
        "pool": library.PoolFormerImageProcessor(
            size=edge, crop_size=square, crop_pct=0.9, **scale
        ),
        "reversed": library.MobileViTImageProcessor(size=edge, crop_size=square),
        "twice": library.EfficientNetImageProcessor(
            size=square, resample=2, include_top=True, **scale
        ),
    }


@pytest.mark.parametrize(
    "name", ["square", "bicubic", "share", "crop", "levit", "pool", "reversed", "twice"]
)
@pytest.mark.parametrize("size", [(24, 40), (33, 21), (12, 12)])
def test_a_folder_prepares_pictures_as_its_own_image_processor_does(
    name: str, size: tuple[int, int], tmp_path: Path
) -> None:
    processor = processors()[name]
    processor.save_pretrained(tmp_path)
    pixels = np.random.default_rng(3).integers(60, 196, (3, *size, 3), dtype=np.uint8)
    expected = processor([Image.fromarray(one) for one in pixels], return_tensors="pt")
    prepared = FromFolder(nn.Identity(), _preparation(tmp_path))
    found = prepared(torch.from_numpy(pixels).movedim(-1, 1) / 255)
    assert found.shape == (3, 3, SIDE, SIDE)
    apart = (found - expected["pixel_values"]).abs() * 255  # in bytes
    apart = apart if prepared.deviation is None else apart * prepared.deviation
    assert float(apart.max()) < 1.3  # the processor rounds to whole bytes, twice


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_folder_in_half_precision_is_computed_in_full(kind: torch.dtype, tmp_path: Path) -> None:
    network = vit().to(kind)
    network.save_pretrained(tmp_path)
    x = torch.from_numpy(images())
    with torch.no_grad():
        torch.testing.assert_close(opened(str(tmp_path))(x), network.float()(x).logits)


def damaged(folder: Path, what: str) -> Path:
    """A copy of the folder with something wrong."""
    vit().save_pretrained(folder)
    if what == "pickle":
        (folder / "model.safetensors").unlink()
        (folder / "pytorch_model.bin").write_bytes(b"x")
    elif what == "config":
        (folder / "config.json").write_text("{")
    elif what == "weights":
        (folder / "model.safetensors").write_bytes(b"x" * 100)
    else:
        (folder / "preprocessor_config.json").write_text(what)
    return folder


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("pickle", "no weights as safetensors"),
        ("config", "cannot be opened as an image classifier"),
        ("weights", "cannot be opened as an image classifier"),
        ("[]", "does not say how to prepare pictures"),
        ("{", "does not say how to prepare pictures"),
        ('{"do_rescale": false}', "only 1/255 is supported"),
        ('{"size": 1000000}', "a size of"),
        ('{"image_mean": ["a"]}', "does not say how to prepare pictures"),
        ('{"resample": 1}', "its resample is 1"),
        ('{"do_pad": true}', "its do_pad is not supported"),
        ('{"size": {"longest_edge": 9}}', "its size has longest_edge"),
        ('{"do_center_crop": true}', "without a crop_size"),
        ('{"size": 16, "crop_pct": 1e-9}', "its crop_pct is 1e-09"),
    ],
)
def test_a_damaged_folder_ends_in_a_sentence(what: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(FairprobeError, match=words):
        open_network(str(damaged(tmp_path / "network", what)))


def test_a_detector_is_saved_without_the_warning_of_torch_about_its_weights(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, size=(8, 3, 16, 16)).astype(np.uint8)
    detector = small_detector((3, 16, 16), 2, seed=0).eval()
    assert_reopened(detector, pixels, tmp_path)  # a warning is an error here


@pytest.mark.parametrize("resampling", ["bilinear", "bicubic", "nearest-exact"])
def test_a_folder_that_resizes_pictures_is_saved_whole(resampling: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, size=(8, 3, 24, 24)).astype(np.uint8)
    folder = FromFolder(vit(), Preparation(size=(SIDE, SIDE), resampling=resampling))
    x = torch.from_numpy(pixels) / 255
    assert_reopened(own_detector(folder.eval(), images=x), pixels, tmp_path)


def assert_reopened(detector: Detector, pixels: np.ndarray, folder: Path) -> None:
    ending, content = exported(detector, pixels)
    assert ending == "pt2"
    (folder / "detector.pt2").write_bytes(content)
    again = open_network(str(folder / "detector.pt2")).module
    x = torch.from_numpy(pixels) / 255
    with torch.no_grad():
        torch.testing.assert_close(again(x), detector(x), rtol=1e-4, atol=1e-5)


class Branching(nn.Module):
    """Its path depends on the numbers, so torch.export does not take it."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.head = nn.Sequential(nn.Flatten(), nn.Linear(768, 4)), nn.Linear(4, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.head(torch.relu(self.trunk(images)))
        return answer if float(answer.detach().sum()) > -1e9 else -answer


def test_of_a_network_that_torch_export_does_not_take_the_weights_are_saved() -> None:
    pixels = np.random.default_rng(0).integers(0, 255, size=(8, 3, 16, 16)).astype(np.uint8)
    ending, content = exported(own_detector(Branching()), pixels)
    assert ending == "safetensors"
    assert load(content)["module.head.weight"].shape == (2, 4)


# -- pictures of another shape ---------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["onnx", "pt2"])
@pytest.mark.parametrize("size", [(32, 32), (8, 8), (8, 32)])
def test_a_file_refuses_pictures_of_another_size_instead_of_cutting_them_again(
    ending: str, size: tuple[int, int], folder: Path
) -> None:
    network = open_network(str(folder / f"resnet.{ending}")).module
    height, width = size
    words = f"takes pictures of 16 × 16 pixels; got {width} × {height} pixels.*--size 16"
    with pytest.raises(ModelError, match=words):
        network(torch.rand(4, 3, *size))
    with pytest.raises(ModelError, match=words):
        DetectorSource(model=str(folder / f"resnet.{ending}")).open((3, *size), CLASSES, seed=0)


def gray_network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(196, CLASSES)
    ).eval()


@pytest.mark.parametrize("ending", ["onnx", "pt2"])
def test_a_file_that_takes_gray_pictures_gets_them_as_pillow_makes_them(
    ending: str, tmp_path: Path
) -> None:
    network = gray_network()
    path = export(network, tmp_path / f"gray.{ending}", channels=1)
    pixels = np.random.default_rng(0).integers(0, 256, (6, SIDE, SIDE, 3), dtype=np.uint8)
    x = torch.from_numpy(pixels).movedim(-1, 1) / 255
    gray = torch.stack(
        [torch.from_numpy(np.array(Image.fromarray(one).convert("L"))) for one in pixels]
    )
    opened_file = open_network(str(path)).module
    with torch.no_grad():
        expected = network(gray[:, None] / 255)
        torch.testing.assert_close(opened_file(x), expected, rtol=0, atol=5e-3)  # whole bytes
        torch.testing.assert_close(opened_file(gray[:, None] / 255), expected)
    with pytest.raises(ModelError, match=r"16 × 16 pixels in gray; got 8 × 8 pixels in gray"):
        opened_file(torch.rand(4, 3, 8, 8))


def test_a_file_of_rows_takes_pictures_of_as_many_numbers_only(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Linear(768, 8), nn.ReLU(), nn.Linear(8, CLASSES)).eval()
    path = tmp_path / "rows.pt2"
    free = {0: torch.export.Dim("rows")}
    rows = torch.rand(2, 768)
    torch.export.save(torch.export.export(network, (rows,), dynamic_shapes=(free,)), path)
    opened_file = open_network(str(path)).module
    torch.testing.assert_close(opened_file(rows.reshape(2, *SHAPE)), network(rows))
    with pytest.raises(ModelError, match=r"takes 768 numbers; a picture of 8 × 8 pixels has 192"):
        opened_file(torch.rand(2, 3, 8, 8))


class Two(nn.Module):
    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        return (one + other).flatten(1)[:, :CLASSES]


def test_a_file_with_two_inputs_is_refused_with_their_names(tmp_path: Path) -> None:
    path, x = tmp_path / "two.pt2", torch.rand(2, *SHAPE)
    rows = {0: torch.export.Dim("rows")}
    torch.export.save(torch.export.export(Two(), (x, x), dynamic_shapes=(rows, rows)), path)
    with pytest.raises(ModelError, match=r"takes 2 inputs \(one, other\); expected one"):
        open_network(str(path))


# -- messages --------------------------------------------------------------------------------------


def test_a_missing_file_is_answered_with_what_a_network_may_be() -> None:
    with pytest.raises(
        StorageError, match=r"no model at none\.onnx.*\.pt2.*file\.py:function"
    ) as said:
        open_network("none.onnx")
    assert "XGBoost" not in str(said.value)


class Normalized(nn.Module):
    """Subtracts the mean of each color, which makes one picture of rows of numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.full((1, 3, 1, 1), 0.5))
        self.network = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
        )

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.network(x - self.mean)
        return found


def test_a_torchscript_program_is_to_be_saved_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "network.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(Normalized().eval(), torch.rand(2, *SHAPE)).save(path)  # type: ignore[no-untyped-call]
    with pytest.raises(ModelError, match=r"is a TorchScript file.*\.pt2.* ONNX"):
        open_network(str(path))


class Failing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise ValueError("one line\n  and another")


def test_an_error_of_the_users_network_is_one_line_and_names_no_file_of_ours() -> None:
    with pytest.raises(ModelError, match=r"one line and another; .*test_networks") as said:
        opened(Failing())
    assert "\n" not in str(said.value)
    with pytest.raises(ModelError) as said:
        opened(nn.Sequential(nn.Flatten(), nn.Linear(5, CLASSES)))
    assert "src/fairprobe/" not in str(said.value)


def test_a_target_that_defines_no_classes_is_refused_with_the_reason(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (8, SIDE, SIDE, 3), dtype=np.uint8)
    gender = np.arange(8) % 2
    for age, words in (
        (np.zeros(8, dtype=np.int64), "All people whose age is known have"),
        (np.arange(5), r"has the shape \(5,\) beside 8 images"),
        (np.linspace(0, 1, 8), "neither whole numbers nor words but float64"),
    ):
        np.savez(tmp_path / "faces.npz", images=pixels, gender=gender, age=age)
        with pytest.raises(DataError, match=f"'age' cannot be the target in 'faces'.*{words}"):
            with_target(open_images(tmp_path / "faces.npz"), "age", "gender")
