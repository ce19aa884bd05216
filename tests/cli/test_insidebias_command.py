"""`fairprobe insidebias`: networks from code and files, folders of images with everything wrong in
them, and words for every mistake.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from fairprobe.datasets.image_folders import read_groups
from fairprobe.errors import DataError, StorageError
from fairprobe.images import InsideBias, insidebias
from fairprobe.images.activation_ratio import ImageGroup, LayerActivation, PixelControl
from fairprobe.images.insidebias_report import report
from fairprobe.images.insidebias_run import InsideBiasRun
from fairprobe.networks.vision import vgg
from fairprobe.report.html import page
from fairprobe.report.markdown import markdown
from fairprobe.results import from_dict, to_dict
from tests.cli.test_cli import ask
from tests.model_files import (
    dense,
    keras_on_torch,
    save_keras,
    write_export,
    write_graph,
    write_onnx,
)

SIDE = 12
CODE = """
import torch
from torch import nn
from fairprobe.networks.vision import vgg

def sees_red():
    layer = nn.Conv2d(3, 2, 1, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 0.2, 0.2], [0.1, 0.1, 0.1]])[:, :, None, None])
    return nn.Sequential(layer, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 2))

def sees_all():
    network = sees_red()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[1.0, 1, 1], [0.1, 0.1, 0.1]])[:, :, None, None])
    return network

def is_sure_of_red():
    network = sees_red()
    with torch.no_grad():
        network[4].weight.copy_(torch.tensor([[0.0, 0.0], [12.0, 0.0]]))
        network[4].bias.copy_(torch.tensor([0.0, -2.0]))
    return network

def sees_dark():
    layer = nn.Conv2d(3, 1, 1)
    with torch.no_grad():
        layer.weight.fill_(-1 / 3)
        layer.bias.fill_(1.0)
    return nn.Sequential(layer, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 2))

def sees_grey():
    return nn.Sequential(nn.Conv2d(1, 1, 1), nn.Sigmoid(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    nn.Linear(1, 2))

def digits():
    return vgg((3, 12, 12), 10, seed=0)

def linear():
    return nn.Sequential(nn.Flatten(), nn.Linear(432, 2))

def function(x):
    return x
"""


def picture(
    rng: np.random.Generator, channel: int | None = None, side: int = SIDE
) -> npt.NDArray[np.uint8]:
    image = rng.integers(100, 200, size=(side, side, 3)).astype(np.uint8)
    if channel is not None:
        image[..., [other for other in range(3) if other != channel]] = 0
    return image


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    """Ten red and ten blue images."""
    rng = np.random.default_rng(0)
    for name, channel in (("red", 0), ("blue", 2)):
        folder = tmp_path / "faces" / name
        folder.mkdir(parents=True)
        for at in range(10):
            Image.fromarray(picture(rng, channel)).save(folder / f"{at}.png")
    return tmp_path / "faces"


@pytest.fixture
def code(tmp_path: Path) -> str:
    (tmp_path / "own_vision.py").write_text(CODE)
    return str(tmp_path / "own_vision.py")


def as_numbers(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    return (images / np.float32(255)).astype(np.float32)


# -- the command -----------------------------------------------------------------------------------


def test_a_network_of_own_code_that_reacts_differently_is_found_out(
    faces: Path, code: str, tmp_path: Path
) -> None:
    answer = ask(
        "insidebias",
        "--model",
        f"{code}:sees_red",
        "--groups",
        faces,
        "--out",
        tmp_path / "bias.json",
        "--json",
    )
    assert answer.code == 0
    body = json.loads(answer.out)
    assert body == json.loads((tmp_path / "bias.json").read_text())
    assert body["messages"] == []
    result = from_dict(body["result"], InsideBias)
    assert result.verdict == "different"
    assert result.ratio == pytest.approx(0.2, abs=0.01)
    assert body["result"]["pixels"]["p_value"] <= 0.01
    assert not {"highest", "lowest", "tau"} & set(body["result"])


def test_the_terminal_shows_a_sentence_and_every_layer_and_names_no_group(
    faces: Path, code: str
) -> None:
    answer = ask("insidebias", "--model", f"{code}:sees_red", "--groups", faces)
    assert answer.code == 0
    headline, said, *_ = answer.out.splitlines()
    assert headline == "The network reacts differently to the groups"
    assert said.startswith(
        "The images of the groups activate it differently: Λ = 0.20 in layer '1'"
    )
    assert "p = 0.001" in said
    assert "Brightness and contrast alone do not explain it" in said
    assert "'blue'" not in said
    assert "This does not show which group the network knows less" in said
    assert "Without labels it is not known whether the network is any good." in said
    assert "Activation Ratio Λ" in answer.out
    assert ask("insidebias", "--model", f"{code}:sees_red", "--groups", faces, "--quiet").out == ""


def test_several_criteria_are_compared_in_one_run_and_labels_give_accuracy_by_group(
    faces: Path, code: str, tmp_path: Path
) -> None:
    """By color the groups differ; by the parity of their number they do not. The network always
    says one class, so one half of the labels is right.
    """
    names = [f"{color}/{at}.png" for color in ("red", "blue") for at in range(10)]
    lines = [f"{name},{name.split('/')[0]},{'even' if at % 2 else 'odd'}"
             for at, name in enumerate(names)]  # fmt: skip
    criteria, labels = tmp_path / "people.csv", tmp_path / "labels.csv"
    criteria.write_text("\n".join(["file,color,parity", *lines]) + "\n")
    labels.write_text("\n".join(["file,label", *(f"{name},{at % 2}" for at, name in
                                                 enumerate(names))]))  # fmt: skip
    words: list[str | Path] = [
        "--model",
        f"{code}:sees_red",
        "--groups",
        faces,
        "--criteria",
        criteria,
    ]
    answer = ask("insidebias", *words, "--labels", labels, "--over-maps", "average", "--json",
                 "--out", tmp_path / "bias.json", "--report", tmp_path / "bias.html")  # fmt: skip
    assert answer.code == 0, answer.err
    bodies = json.loads(answer.out)
    color, parity = (from_dict(body, InsideBiasRun) for body in bodies)
    assert (color.criterion, parity.criterion) == ("color", "parity")
    verdicts = (color.result.verdict, parity.result.verdict)
    assert verdicts == ("different", "no difference found")
    assert color.p_adjusted == pytest.approx(2 * color.result.p_value)
    assert color.result.answers is not None
    rates = [one.right for one in color.result.answers.groups]
    assert [rate and (rate.estimate, rate.samples) for rate in rates] == [(0.5, 10)] * 2
    assert json.loads((tmp_path / "bias-parity.json").read_text()) == bodies[1]
    page = (tmp_path / "bias-color.html").read_text()
    assert "Answers by group" in page
    assert "One scale for all groups" in page
    said = ask("insidebias", *words)
    assert "adjusted for all criteria" in said.out
    assert "score S" in said.out
    criteria.write_text("file,color\nnothing.png,red\n")
    wrong = ask("insidebias", *words)
    assert (wrong.code, "names none of the images" in wrong.err) == (2, True)


@pytest.fixture
def people(faces: Path) -> list[str | Path]:
    """Criteria of the red and blue images: their color, and the parity of their number. Labels say
    that all are red.
    """
    names = [f"{color}/{at}.png" for color in ("red", "blue") for at in range(10)]
    criteria, labels = faces.parent / "people.csv", faces.parent / "labels.csv"
    rows = [f"{name},{name[0]},{'even' if at % 2 else 'odd'}" for at, name in enumerate(names)]
    criteria.write_text("\n".join(["file,color,parity", *rows]))
    labels.write_text("\n".join(["file,label", *(f"{name},1" for name in names)]))
    return ["--groups", faces, "--criteria", criteria, "--labels", labels]


def test_accuracy_is_that_of_all_images_not_of_those_chosen_by_confidence(
    code: str, people: list[str | Path], tmp_path: Path
) -> None:
    """The network is right and sure of red images, and wrong on blue ones."""
    words = ["insidebias", "--model", f"{code}:is_sure_of_red", *people, "--confident", "0.9"]
    answer = ask(*words, "--report", tmp_path / "bias.html")
    assert answer.code == 0, answer.err
    assert "surer than 0.9" in answer.out
    assert "50.0 %" in answer.out
    page = (tmp_path / "bias-parity.html").read_text(encoding="utf-8")
    assert "Score and accuracy are those of all images" in page
    parity = json.loads(ask(*words, "--json").out)[-1]["result"]
    assert [group["images"] for group in parity["groups"]] == [5, 5]
    for group in parity["answers"]["groups"]:
        assert (group["images"], group["right"]["estimate"]) == (10, 0.5)


def test_a_criterion_with_too_few_confident_images_is_not_judged_and_the_others_go_on(
    code: str, people: list[str | Path], tmp_path: Path
) -> None:
    """The network is never sure of a blue image."""
    words = ["insidebias", "--model", f"{code}:is_sure_of_red", *people]
    answer = ask(*words, "--confident", "0.9", "--json", "--out", tmp_path / "bias.json",
                 "--report", tmp_path / "bias.html")  # fmt: skip
    assert answer.code == 0
    reason = "surer than 0.9 of 0 images of group 'b'; 2 or more are needed"
    assert f"Not judged by color: The network is {reason}" in answer.said
    color, parity = json.loads(answer.out)
    assert (color["kind"], color["criterion"]) == ("insidebias-not-judged", "color")
    assert reason in color["reason"]
    assert (parity["criterion"], parity["p_adjusted"]) == ("parity", None)
    assert json.loads((tmp_path / "bias-color.json").read_text()) == color
    assert sorted(path.name for path in tmp_path.glob("*.html")) == ["bias-parity.html"]
    none = ask(*words, "--confident", "0.999999")
    assert (none.code, none.out) == (3, "")
    assert none.said.count("Not judged by") == 2


@pytest.mark.parametrize("network", ["digits", "sees_dark"])
def test_a_difference_that_is_only_about_brightness_is_named(
    tmp_path: Path, code: str, network: str
) -> None:
    """Neither was ever trained, and neither knows a group. One reacts less to dark images, the
    other more.
    """
    rng = np.random.default_rng(0)
    for name, share in (("dark", 0.6), ("bright", 0.9)):
        (tmp_path / "groups" / name).mkdir(parents=True)
        for at in range(20):
            image = rng.uniform(share - 0.25, share + 0.1) * picture(rng)
            Image.fromarray(image.astype(np.uint8)).save(tmp_path / "groups" / name / f"{at}.png")
    answer = ask(
        "insidebias", "--model", f"{code}:{network}", "--groups", tmp_path / "groups", "--json"
    )
    body = json.loads(answer.out)
    result = from_dict(body["result"], InsideBias)
    assert (result.verdict, result.ratio < 0.85) == ("different", True)
    pixels = body["result"]["pixels"]
    assert pixels["brightness"]["dark"] < pixels["brightness"]["bright"]
    assert pixels["brightness_p_value"] <= 0.01
    assert pixels["p_value"] > 0.05
    assert pixels["ratio"] > 0.95
    assert "Brightness and contrast can explain it" in markdown(
        report(from_dict(body, InsideBiasRun))
    )


def test_an_untrained_network_that_answers_alike_is_warned_about(faces: Path, code: str) -> None:
    """Its labels are known, and it is no better than the commonest of them."""
    lines = ["file,label", *(f"red/{at}.png,0" for at in range(10))]
    (faces.parent / "labels.csv").write_text("\n".join([*lines, "blue/0.png,1", "blue/1.png,7"]))
    words: list[str | Path] = ["insidebias", "--model", f"{code}:digits", "--groups", faces]
    answer = ask(*words, "--labels", faces.parent / "labels.csv")
    assert answer.code == 0
    assert "The network is right on " in answer.out
    assert "not shown to be better than always giving the commonest label (83.3 %)" in answer.out
    assert "8 images have no label" in answer.said
    assert "Without labels" not in answer.out
    body = json.loads(ask(*words, "--json").out)
    assert body["result"]["answers"]["is_constant"] == ("the same answer" in answer.out)
    for text, message in (
        ("name,label\nred/0.png,1", "has no column 'file'; expected file, label, got name, label"),
        ("file,label\nred/0.png,cat", "gives red/0.png the label 'cat'; expected the number"),
        ("file,label\nred/77.png,1", "names none of the images"),
    ):
        (faces.parent / "wrong.csv").write_text(text)
        wrong = ask(*words, "--labels", faces.parent / "wrong.csv")
        assert wrong.code == 2
        assert message in wrong.said


def test_a_group_is_named_only_where_several_references_agree(
    faces: Path, code: str, tmp_path: Path
) -> None:
    words: list[str | Path] = ["insidebias", "--model", f"{code}:sees_red", "--groups", faces]
    every = ["--reference", f"{code}:sees_all"]
    named = "'blue' excites this network less"
    one = ask(*words, *every, "--report", tmp_path / "bias.html")
    assert one.code == 0
    assert "compared with it, the ratio of 'blue' to 'red' is × 0.20" in one.out
    assert "one reference names no group" in one.out
    assert named not in one.out
    assert "Λ of the reference network" in (tmp_path / "bias.html").read_text(encoding="utf-8")
    two = ask(*words, *every, *every)
    assert f"Compared with all 2 reference networks, {named}." in two.out
    split = ask(*words, *every, "--reference", f"{code}:sees_red")
    assert "The reference networks do not agree on a group beyond chance." in split.out
    for wrong, message in (
        (["--reference", f"{code}:digits"], "Give one of the same architecture"),
        (["--reference-weights", "w.safetensors"], "0 reference networks and 1 files"),
    ):
        answer = ask(*words, *wrong)
        assert answer.code == 2
        assert message in answer.said


def test_the_report_shows_what_was_found_and_trusts_no_name(
    faces: Path, code: str, tmp_path: Path
) -> None:
    (faces / "blue").rename(faces / "<script>alert(1)</script>".replace("/", "∕"))
    answer = ask(
        "insidebias",
        "--model",
        f"{code}:sees_red",
        "--groups",
        faces,
        "--report",
        tmp_path / "bias.html",
    )
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == f"Report: {tmp_path / 'bias.html'}"
    html = (tmp_path / "bias.html").read_text(encoding="utf-8")
    assert "<script" not in html
    assert "The network reacts differently to the groups" in html
    assert "&lt;script&gt;" in html
    assert html.count('<svg class="plot"') == 3
    assert "with brightness and contrast held equal, Λ is 0.20" in html
    assert "default-src 'none'" in html
    lost = ask(
        "insidebias",
        "--model",
        f"{code}:sees_red",
        "--groups",
        faces,
        "--report",
        tmp_path / "nowhere" / "bias.html",
    )
    assert lost.code == 2
    assert "Cannot write" in lost.said


@pytest.mark.parametrize(
    ("p_value", "equal", "headline"),
    [
        (0.01, 0.01, "The network reacts differently to the groups"),
        (0.01, 0.4, "perhaps because of the brightness and contrast of their images"),
        (0.01, None, "perhaps because of the brightness and contrast of their images"),
        (0.4, 0.4, "No difference between the groups was found"),
        (0.4, 0.01, "No difference between the groups was found"),
    ],
)
def test_the_headline_of_a_report_says_no_more_than_the_control_allows(
    p_value: float, equal: float | None, headline: str
) -> None:
    html = page(report(a_run(p_value, equal)))
    assert headline in html
    assert ('class="verdict found"' in html) == (p_value == equal == 0.01)
    assert ("(control)" in html) == (equal is not None)
    assert "b/1.png is grey." in html
    for claim in ("knows “", "Unbiased", "More images would"):
        assert claim not in html


def test_the_papers_rule_is_shown_beside_the_verdict_and_never_as_it(
    faces: Path, code: str, tmp_path: Path
) -> None:
    words: list[str | Path] = ["insidebias", "--model", f"{code}:sees_red", "--groups", faces]
    plain, ruled = ask(*words), ask(*words, "--tau", "0.8", "--report", tmp_path / "bias.html")
    assert ruled.code == 0
    assert "rule" not in plain.out
    assert ruled.out.splitlines()[:2] == plain.out.splitlines()[:2]  # the verdict is the same
    for text in (ruled.out, (tmp_path / "bias.html").read_text(encoding="utf-8")):
        flat = " ".join(text.replace("\N{NO-BREAK SPACE}", " ").replace("&#39;", "'").split())
        assert "The paper's rule calls the network biased: Λ = 0.20 is below τ = 0.8." in flat
        assert "This is not the verdict." in flat
        assert "a false alarm in 52 % of samples of five images a group" in flat
    assert (
        json.loads(ask(*words, "--tau", "0.1", "--json").out)["result"]["rule"]["is_biased"]
        is False
    )
    assert ask(*words, "--tau", "0").code == ask(*words, "--tau", "2").code == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": {"tau": 0.8, "is_biased": False, "by_chance": 0.1}}, "contradicts the ratio 0.7"),
        ({"rule": {"tau": 0.6, "is_biased": True, "by_chance": 0.1}}, "contradicts the ratio 0.7"),
        ({"rule": {"tau": -1, "is_biased": False, "by_chance": 0.1}}, "tau"),
        ({"layers": []}, "'relu' that decides is not compared"),
        ({"groups": [{"name": "a", "images": 5}]}, "has other groups"),
    ],
)
def test_a_result_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(StorageError, match=message):
        from_dict(to_dict(a_result(0.01, None)) | changes, InsideBias)


def a_result(p_value: float, equal: float | None) -> InsideBias:
    dead = LayerActivation(
        name="dead", maps=1, is_convolution=True, activation={"a": 1.0, "b": 0.0}
    )
    layer = LayerActivation(
        name="relu",
        maps=1,
        is_convolution=True,
        activation={"a": 1.0, "b": 0.7},
        ratio=0.7,
        low=0.6,
        high=0.75,
        p_value=p_value,
        by_chance=0.95,
        detectable=0.9,
    )
    pixels = PixelControl(
        brightness={"a": 0.5, "b": 0.4},
        contrast={"a": 0.1, "b": 0.1},
        brightness_ratio=0.8,
        brightness_p_value=0.02,
        contrast_ratio=None,
        contrast_p_value=None,
        ratio=None if equal is None else 0.8,
        p_value=equal,
    )
    return InsideBias(
        groups=[ImageGroup(name=name, images=5) for name in "ab"],
        layers=[dead, layer],
        decisive=layer,
        order="image",
        resamples=1000,
        pixels=pixels,
    )


def a_run(p_value: float, equal: float | None) -> InsideBiasRun:
    return InsideBiasRun(
        created="2026-01-02T03:04:05+00:00",
        command="fairprobe insidebias",
        versions={"fairprobe": "1"},
        seed=0,
        messages=["b/1.png is grey."],
        model="mine",
        height=12,
        width=12,
        result=a_result(p_value, equal),
    )


def test_the_report_is_this_markdown(golden: Any) -> None:
    golden("insidebias.md", markdown(report(a_run(0.01, 0.4))))


def test_the_layer_can_be_chosen(faces: Path, code: str) -> None:
    words: list[str | Path] = [
        "insidebias",
        "--model",
        f"{code}:digits",
        "--groups",
        faces,
        "--json",
    ]
    whole = json.loads(ask(*words).out)["result"]
    assert whole["decisive"]["name"] == "relu8"
    first = json.loads(ask(*words, "--layer", "relu1").out)["result"]
    assert [layer["name"] for layer in first["layers"]] == ["relu1"]
    assert first["decisive"]["ratio"] == whole["layers"][0]["ratio"]


def test_weights_go_into_the_network(faces: Path, code: str, tmp_path: Path) -> None:
    trained = vgg((3, SIDE, SIDE), 10, seed=5)
    save_file(
        {name: value.contiguous() for name, value in trained.state_dict().items()},
        tmp_path / "w.safetensors",
    )
    body = json.loads(
        ask(
            "insidebias",
            "--model",
            f"{code}:digits",
            "--weights",
            tmp_path / "w.safetensors",
            "--groups",
            faces,
            "--json",
        ).out
    )
    images = {name: as_numbers(group) for name, group in read_groups(faces).images.items()}
    assert body["result"]["decisive"]["ratio"] == pytest.approx(
        insidebias(trained, images).ratio, rel=1e-5
    )


def check_activations(body: dict[str, Any], faces: Path, weight: npt.NDArray[np.float32]) -> None:
    """λ of a layer of 3 × 3 convolutions (maps, channels, height, width) with ReLU, as torch works
    it out.
    """
    (layer,) = body["result"]["layers"]
    assert (layer["maps"], layer["is_convolution"]) == (len(weight), True)
    for name, images in read_groups(faces).images.items():
        maps = torch.relu(
            torch.nn.functional.conv2d(
                torch.from_numpy(as_numbers(images)), torch.from_numpy(weight)
            )
        ).mean(dim=(2, 3))
        assert layer["activation"][name] == pytest.approx(float(maps.amax(dim=1).mean()), rel=1e-4)


def test_an_onnx_network_for_images_is_looked_into(faces: Path, tmp_path: Path) -> None:
    from onnx.helper import make_node

    rng = np.random.default_rng(0)
    weight = rng.normal(size=(4, 3, 3, 3)).astype(np.float32)
    nodes = [
        make_node("Conv", ["x", "weight"], ["c"]),
        make_node("Relu", ["c"], ["r"]),
        make_node("GlobalAveragePool", ["r"], ["p"]),
        make_node("Flatten", ["p"], ["f"]),
        make_node("Gemm", ["f", "last"], ["y"], transB=1),
    ]
    constants = {"weight": weight, "last": rng.normal(size=(2, 4)).astype(np.float32)}
    path = write_graph(
        nodes,
        tmp_path / "m.onnx",
        constants,
        inputs={"x": ["n", 3, SIDE, SIDE]},
        outputs={"y": ["n", 2]},
    )
    check_activations(
        json.loads(ask("insidebias", "--model", path, "--groups", faces, "--json").out),
        faces,
        weight,
    )


def test_an_exported_network_for_images_is_looked_into(faces: Path, tmp_path: Path) -> None:
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    layer = torch.nn.Conv2d(3, 4, 3, bias=False)
    layer.weight = torch.nn.Parameter(torch.from_numpy(weight))
    network = torch.nn.Sequential(
        layer,
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 2),
    ).eval()
    path = write_export(network, tmp_path / "m.pt2", example=torch.rand(5, 3, SIDE, SIDE))
    check_activations(
        json.loads(ask("insidebias", "--model", path, "--groups", faces, "--json").out),
        faces,
        weight,
    )


def test_a_keras_network_has_its_channels_last(faces: Path, tmp_path: Path) -> None:
    keras = keras_on_torch()
    model = keras.Sequential(
        [keras.Input((SIDE, SIDE, 3)), keras.layers.Conv2D(4, 3, activation="relu", use_bias=False)]
    )
    weight = np.random.default_rng(0).normal(size=(4, 3, 3, 3)).astype(np.float32)
    model.layers[0].set_weights([weight.transpose(2, 3, 1, 0)])
    model.add(keras.layers.GlobalAveragePooling2D())
    model.add(keras.layers.Dense(2))
    save_keras(model, tmp_path / "m.keras")
    answer = ask("insidebias", "--model", tmp_path / "m.keras", "--groups", faces, "--json")
    check_activations(json.loads(answer.out), faces, weight)


def test_a_network_of_one_channel_gets_grey_images(faces: Path, code: str) -> None:
    answer = ask("insidebias", "--model", f"{code}:sees_grey", "--groups", faces, "--quiet")
    assert answer.code == 0
    assert "20 images: each has colors and is converted to gray" in answer.said


MISTAKES: dict[str, tuple[list[str], str]] = {
    "an unknown layer": (
        ["--model", "{code}:digits", "--groups", "{faces}", "--layer", "relu88"],
        "no layer 'relu88'. Did you mean 'relu8'?",
    ),
    "no such folder": (
        ["--model", "{code}:digits", "--groups", "{faces}/none"],
        "There is no folder",
    ),
    "no groups": (["--model", "{code}:digits", "--groups", "{faces}/red"], "has no folders"),
    "no activations": (["--model", "{code}:linear", "--groups", "{faces}"], "no hidden layer"),
    "a function": (["--model", "{code}:function", "--groups", "{faces}"], "cannot be looked into"),
    "no model": (["--model", "none.onnx", "--groups", "{faces}"], "There is no model at none.onnx"),
    "no such criteria": (
        ["--model", "{code}:digits", "--groups", "{faces}", "--criteria", "{faces}/no.csv"],
        "no.csv: No such file or directory. Expected a CSV in UTF-8 with the column 'file'",
    ),
    "no such labels": (
        ["--model", "{code}:digits", "--groups", "{faces}", "--labels", "{faces}"],
        "Is a directory. Expected a CSV in UTF-8 with the column 'file'",
    ),
    "no place for the result": (
        ["--model", "{code}:digits", "--groups", "{faces}", "--out", "{faces}/no/x.json"],
        "Cannot write",
    ),
}


@pytest.mark.parametrize(("words", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_a_sentence(faces: Path, code: str, words: list[str], message: str) -> None:
    answer = ask("insidebias", *(word.format(code=code, faces=faces) for word in words))
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.said


# -- folders of images -----------------------------------------------------------------------------


def test_whatever_is_wrong_with_an_image_is_named_and_the_rest_goes_on(
    faces: Path, code: str
) -> None:
    rng = np.random.default_rng(1)
    (faces / "red" / "broken.png").write_bytes(b"no image")
    (faces / "red" / "half.png").write_bytes((faces / "red" / "0.png").read_bytes()[:200])
    Image.fromarray(picture(rng)[..., 0]).save(faces / "blue" / "grey.png")
    Image.fromarray(np.dstack([picture(rng), np.full((SIDE, SIDE), 90, dtype=np.uint8)])).save(
        faces / "blue" / "alpha.png"
    )
    Image.fromarray(picture(rng, side=20)).save(faces / "blue" / "large.png")
    Image.fromarray(rng.integers(0, 60_000, size=(SIDE, SIDE)).astype(np.uint16)).save(
        faces / "blue" / "deep.png"
    )
    (faces / "empty").mkdir()
    (faces / "single").mkdir()
    Image.fromarray(picture(rng)).save(faces / "single" / "one.jpg")
    (faces / "red" / ".hidden").write_text("")
    answer = ask("insidebias", "--model", f"{code}:sees_red", "--groups", faces, "--json")
    assert answer.code == 0
    body: dict[str, Any] = json.loads(answer.out)
    assert body["result"]["groups"] == [
        {"name": "blue", "images": 12},
        {"name": "red", "images": 10},
    ]
    assert body["messages"] == [
        "2 images: each cannot be read as an image and is left out (red/broken.png, red/half.png).",
        "blue/deep.png has more than 8 bits a channel and is left out.",
        "blue/large.png is not 12 × 12 pixels like most and is left out.",
        "blue/alpha.png has an alpha channel, which is dropped.",
        "blue/grey.png is gray and gets three equal channels.",
        "Group 'empty' has no usable image and is left out.",
        "Group 'single' has only one usable image and is left out.",
    ]
    assert all(message in answer.said for message in body["messages"])


def test_pixels_are_read_as_they_are(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    colour, grey = picture(rng), picture(rng)[..., 0]
    for group in ("a", "b"):
        (tmp_path / group).mkdir()
        Image.fromarray(colour).save(tmp_path / group / "0.png")
        Image.fromarray(grey).save(tmp_path / group / "1.png")
        Image.fromarray(np.dstack([colour, grey])).save(tmp_path / group / "2.png")
    images = read_groups(tmp_path).images["a"]
    assert np.array_equal(images[0], colour.transpose(2, 0, 1))
    assert np.array_equal(images[1], np.stack([grey] * 3))
    assert np.array_equal(images[2], images[0])
    assert read_groups(tmp_path, channels=1).images["a"].shape == (3, 1, SIDE, SIDE)
    assert np.array_equal(read_groups(tmp_path, channels=1).images["a"][1, 0], grey)


def test_many_names_are_not_all_listed(faces: Path) -> None:
    for at in range(8):
        (faces / "red" / f"broken{at}.png").write_bytes(b"")
    (message,) = read_groups(faces).messages
    assert message.startswith("8 images: each cannot be read")
    assert message.endswith("red/broken4.png and 3 more).")


def test_folders_without_any_image_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="There is no folder"):
        read_groups(tmp_path / "none")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "notes.txt").write_text("none")
    with pytest.raises(
        DataError, match=r"No image in .* could be read.*a/notes.txt cannot be read"
    ):
        read_groups(tmp_path)


def test_one_group_that_is_left_is_not_compared(faces: Path, code: str) -> None:
    for path in (faces / "blue").iterdir():
        path.unlink()
    answer = ask("insidebias", "--model", f"{code}:digits", "--groups", faces)
    assert answer.code == 2
    assert "1 can be used. Group 'blue' has no usable image" in answer.said


def test_images_of_a_size_that_a_file_does_not_take_are_an_error(
    faces: Path, tmp_path: Path
) -> None:
    answer = ask(
        "insidebias",
        "--model",
        write_onnx(dense(100, 8, 2), tmp_path / "m.onnx"),
        "--groups",
        faces,
    )
    assert answer.code == 2
    assert "takes 100 numbers; an image of 12 × 12 pixels has 144, or 432 in color" in answer.said
    assert (
        ask(
            "insidebias",
            "--model",
            write_onnx(dense(144, 8, 2), tmp_path / "g.onnx"),
            "--groups",
            faces,
            "--quiet",
        ).code
        == 0
    )
