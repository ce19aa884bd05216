"""Detectors for images, and what their trunks know of an attribute."""

from __future__ import annotations

import copy
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from safetensors.torch import save_file
from sklearn.metrics import balanced_accuracy_score
from torch import Tensor, nn

from fairprobe.arrays import Ints
from fairprobe.errors import DataError, FairprobeError, ModelError, SettingError, StorageError
from fairprobe.images.attribute import attribute_head, attribute_network
from fairprobe.images.change import Change
from fairprobe.images.detector import (
    Detector,
    Mirror,
    dense_head,
    own_detector,
    small_detector,
    train_detector,
    trunk_detector,
)
from fairprobe.images.interpret import image_bias
from fairprobe.images.measure import recalls
from fairprobe.images.models import DetectorSource
from fairprobe.models.trace import layer_names
from fairprobe.networks import Training
from fairprobe.networks.vision import DEVIATION, MEAN
from fairprobe.networks.vision_training import labels_of

SHAPE = (3, 16, 16)
FEW = Training(batch=32, epochs=5, patience=None)
Bytes = npt.NDArray[np.uint8]


def pictures(count: int = 160, *, seed: int = 0) -> tuple[Bytes, Ints, Ints]:
    """Dark noise; a bright square in the middle of every second one is its class, a bright bar
    above or below is its value.
    """
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 90, size=(count, *SHAPE)).astype(np.uint8)
    y, codes = np.arange(count, dtype=np.int64) % 2, rng.integers(0, 2, size=count)
    images[y == 1, :, 5:11, 5:11] += 110
    images[codes == 0, :, 1:3] += 100
    images[codes == 1, :, 13:15] += 100
    return images, y, codes


@pytest.fixture(scope="module")
def detector() -> Detector:
    images, y, _ = pictures()
    return train_detector(small_detector(SHAPE), images, y, training=FEW)


def balanced_accuracy(network: nn.Module, images: Bytes, codes: Ints) -> float:
    return float(balanced_accuracy_score(codes, labels_of(network, images)))


def widths(head: nn.Module) -> list[int]:
    return [part.out_features for part in head.modules() if isinstance(part, nn.Linear)]


# -- building --------------------------------------------------------------------------------------


def test_the_small_detector_has_six_convolutions_and_five_hidden_dense_layers() -> None:
    network = small_detector((3, 32, 32))
    assert sum(isinstance(part, nn.Conv2d) for part in network.trunk.modules()) == 6
    names, ends_in_probabilities = layer_names(network.eval(), torch.zeros(1, 3, 32, 32))
    assert names == [f"trunk.relu{number}" for number in range(1, 7)] + [
        f"head.relu{number}" for number in range(1, 6)
    ]
    assert not ends_in_probabilities


@pytest.mark.parametrize("shape", [(3, 8, 8), (1, 33, 47), (3, 64, 64)])
def test_a_detector_takes_images_of_any_size(shape: tuple[int, int, int]) -> None:
    assert small_detector(shape, 3).eval()(torch.zeros(2, *shape)).shape == (2, 3)


def test_the_head_is_as_wide_as_the_papers_or_in_proportion_to_its_features() -> None:
    assert widths(dense_head(2048, 2)) == [512, 256, 128, 64, 16, 2]
    assert widths(dense_head(8192, 2)) == [512, 256, 128, 64, 16, 2]
    assert widths(dense_head(1024, 7)) == [256, 128, 64, 32, 16, 7]
    assert widths(dense_head(64, 2)) == [16, 16, 16, 16, 16, 2]


def test_bytes_and_numbers_from_0_to_1_are_the_same_picture() -> None:
    network = small_detector(SHAPE).eval()
    images = torch.from_numpy(pictures(6)[0])
    assert torch.equal(network(images), network(images.float() / 255))
    assert torch.equal(network(images), network.head(network.features(images)))


def test_the_seed_decides_the_weights_and_touches_no_other_random_number() -> None:
    state = torch.get_rng_state()
    one, same, other = (
        small_detector(SHAPE, seed=3),
        small_detector(SHAPE, seed=3),
        small_detector(SHAPE, seed=4),
    )
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not all(
        torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True)
    )


def test_pictures_are_mirrored_only_while_a_network_learns() -> None:
    images = torch.from_numpy(pictures(40)[0])
    mirror = Mirror()
    assert torch.equal(mirror.eval()(images), images)
    shown = mirror.train()(images)
    turned = [bool((a == b.flip(-1)).all()) for a, b in zip(shown, images, strict=True)]
    kept = [bool((a == b).all()) for a, b in zip(shown, images, strict=True)]
    assert all(a != b for a, b in zip(turned, kept, strict=True))
    assert 5 < sum(turned) < 35


def test_a_detector_learns_and_the_same_seed_gives_the_same_one(detector: Detector) -> None:
    images, y, _ = pictures(seed=1)
    assert (labels_of(detector, images) == y).mean() > 0.95
    few = Training(batch=32, epochs=1, patience=None)
    one, same = (
        train_detector(small_detector(SHAPE), images[:64], y[:64], seed=5, training=few)
        for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: small_detector((3, 4, 16)), "8 × 8 pixels"),
        (lambda: small_detector(SHAPE, 1), "two classes"),
        (lambda: trunk_detector("vgg19", (3, 32, 32)), "vgg16"),
        (lambda: trunk_detector("vgg16", (3, 31, 32)), "32 × 32 pixels"),
        (lambda: trunk_detector("vgg16", (1, 32, 32)), "3 color channels"),
        (lambda: own_detector(nn.Sequential()), "Name the trunk or the head"),
        (
            lambda: own_detector(nn.Sequential(), trunk="a", head="b", outputs="auto"),
            "logits or probabilities",
        ),
    ],
)
def test_a_wrong_setting_is_refused_with_words(make: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        make()


# -- known trunks ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vgg() -> Detector:
    return trunk_detector("vgg16", (3, 32, 32), seed=1)


def test_a_vgg16_has_thirteen_convolutions_and_a_gradient_by_every_picture(vgg: Detector) -> None:
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert len(layer_names(vgg.eval(), images)[0]) == 13 + 5
    assert vgg.features(images).shape == (2, 512, 1, 1)
    assert widths(vgg.head) == [128, 64, 32, 16, 16, 2]
    assert sum(value.numel() for value in vgg.trunk.parameters()) == 14_714_688  # as published
    images.requires_grad_()
    (gradient,) = torch.autograd.grad(vgg(images)[:, 0].sum(), images)
    assert bool((gradient.flatten(1).abs().amax(dim=1) > 0).all())


def test_a_resnet50_has_the_published_number_of_layers_and_weights() -> None:
    network = trunk_detector("resnet50", (3, 32, 32), 2, seed=2)
    assert len(layer_names(network.eval(), torch.zeros(1, 3, 32, 32))[0]) == 49 + 5
    assert sum(value.numel() for value in network.trunk.parameters()) == 23_508_032  # as published
    assert network.features(torch.zeros(1, 3, 32, 32)).shape == (1, 2048)


def test_weights_of_a_whole_network_fit_a_trunk_which_scales_pictures_as_imagenets(
    vgg: Detector, tmp_path: Path
) -> None:
    weights = {name: value * 0.5 for name, value in vgg.trunk.state_dict().items()}
    file = tmp_path / "vgg16.safetensors"
    save_file({**weights, "classifier.0.weight": torch.zeros(3, 3)}, file)
    given = trunk_detector("vgg16", (3, 32, 32), weights=file).eval()
    images = torch.rand(2, 3, 32, 32)
    mean, deviation = (torch.tensor(each).view(1, 3, 1, 1) for each in (MEAN, DEVIATION))
    x = (images - mean) / deviation
    places = [name.removesuffix(".weight") for name in weights if name.endswith(".weight")]
    pooled = {"features.2", "features.7", "features.14", "features.21", "features.28"}
    for place in places:
        x = F.relu(F.conv2d(x, weights[f"{place}.weight"], weights[f"{place}.bias"], padding=1))
        x = F.max_pool2d(x, 2) if place in pooled else x
    torch.testing.assert_close(given.features(images), x)


def test_weights_that_are_missing_damaged_or_of_another_network_are_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(StorageError, match=r"nowhere\.safetensors"):
        trunk_detector("vgg16", (3, 32, 32), weights=tmp_path / "nowhere.safetensors")
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"no weights at all")
    with pytest.raises(ModelError, match=r"bad\.safetensors is not a readable"):
        trunk_detector("vgg16", (3, 32, 32), weights=bad)
    save_file({"conv1.weight": torch.zeros(2)}, bad)
    with pytest.raises(ModelError, match="are not those of vgg16"):
        trunk_detector("vgg16", (3, 32, 32), weights=bad)
    pickle = tmp_path / "vgg16.pth"
    pickle.write_bytes(b"x")
    with pytest.raises(ModelError, match="may be a pickle"):
        trunk_detector("vgg16", (3, 32, 32), weights=pickle)


# -- a network of the user's own -------------------------------------------------------------------


class Own(nn.Module):
    """Something happens between trunk and head that neither of them does."""

    def __init__(self, outputs: int, *, final: nn.Module | None = None, skip: bool = False) -> None:
        super().__init__()
        self.eyes = nn.Sequential(OrderedDict(conv=nn.Conv2d(3, 4, 3), relu=nn.ReLU()))
        self.mind = nn.Linear(4, outputs)
        self.final, self.skip = final, skip

    def forward(self, images: Tensor) -> Tensor:
        seen: Tensor = self.eyes((images - 0.5) * 2).mean(dim=(2, 3))
        answer: Tensor = seen if self.skip else self.mind(seen)
        return answer if self.final is None else self.final(answer)


def test_an_own_network_runs_as_its_author_wrote_it() -> None:
    module = Own(3)
    network = own_detector(module, trunk="eyes", head="mind")
    images = torch.rand(4, *SHAPE)
    assert torch.equal(network(images), module(images))
    assert network.trunk is module.eyes
    assert network.head is module.mind
    torch.testing.assert_close(network.head(network.features(images)), module(images))
    assert len(network.state_dict()) == len(module.state_dict())  # no weight is there twice
    other = copy.deepcopy(network)
    assert other.head is not module.mind
    assert torch.equal(other(images), network(images))


def test_one_logit_and_probabilities_become_logits_of_two_classes() -> None:
    images = torch.rand(4, *SHAPE)
    one = Own(1)
    torch.testing.assert_close(
        own_detector(one, trunk="eyes", head="mind")(images).softmax(dim=1)[:, 1],
        one(images)[:, 0].sigmoid(),
    )
    sure = Own(1, final=nn.Sigmoid())
    answer = own_detector(sure, trunk="eyes", head="mind", outputs="probabilities")(images)
    torch.testing.assert_close(answer.softmax(dim=1)[:, 1], sure(images)[:, 0])


def test_an_own_network_with_a_wrong_name_or_a_head_that_is_never_called_is_refused() -> None:
    with pytest.raises(ModelError, match="Did you mean 'mind'"):
        own_detector(Own(2), trunk="eyes", head="mindd")
    with pytest.raises(ModelError, match="never calls its head"):
        own_detector(Own(2, skip=True), trunk="eyes", head="mind").features(torch.rand(1, *SHAPE))


class Odd(Own):
    """An own network with something wrong."""

    def __init__(self, wrong: str) -> None:
        super().__init__(2)
        self.wrong = wrong

    def forward(self, images: Tensor) -> Any:
        if self.wrong == "fails":
            raise KeyError
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.wrong != "no gradient"):
            answer = super().forward(images)
        broken = answer.index_fill(0, torch.tensor([0]), torch.nan)
        kinds = {
            "a tuple": (answer, images),
            "maps": images,
            "not finite": broken,
            "large": answer + 9,
            "shares": answer.softmax(dim=1),
        }
        return kinds.get(self.wrong, answer)


@pytest.mark.parametrize(
    ("network", "settings", "message"),
    [
        (
            Odd("fails"),
            {},
            (
                r"cannot take 2 pictures of 8 × 8 pixels, as float32 from 0 to 1 \(KeyError;"
                r" .*test_detector.py:"
            ),
        ),
        (Odd("a tuple"), {}, "returns a tuple for 2 pictures; expected a tensor"),
        (Odd("maps"), {}, r"returns numbers \(2, 3, 8, 8\) for 2 pictures"),
        (Odd("no gradient"), {}, "No gradient flows from the network's outputs"),
        (Odd("not finite"), {}, r"not finite \(NaN or infinite\) for 1 of 2 pictures"),
        (Odd("shares"), {}, "returns probabilities, but logits were expected"),
        (Own(1, final=nn.Sigmoid()), {}, "returns probabilities, but logits were expected"),
        (Odd("large"), {"outputs": "probabilities"}, "which are not probabilities"),
        (Own(2), {"trunk": "mind", "head": "eyes"}, "Are the two names swapped"),
        (Own(2), {"trunk": "eyes", "head": "eyes"}, "is named as the trunk and as the head"),
        (
            nn.Sequential(OrderedDict(eyes=nn.Flatten(), mind=nn.Linear(192, 2))),
            {},
            "no hidden layer with an activation function",
        ),
    ],
)
def test_an_own_network_that_does_not_behave_as_described_is_refused_at_once(
    network: nn.Module, settings: Any, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        DetectorSource(model=network, **{"trunk": "eyes", "head": "mind"} | settings).open(
            (3, 8, 8), 2, seed=0
        )


def test_a_head_may_be_given_its_features_by_name() -> None:
    class Named(Own):
        def forward(self, images: Tensor) -> Tensor:
            answer: Tensor = self.mind(input=self.eyes(images).mean(dim=(2, 3)))
            return answer

    network = DetectorSource(model=Named(2), trunk="eyes", head="mind").open(SHAPE, 2, seed=0)
    assert network.features(torch.rand(5, *SHAPE)).shape == (5, 4)


def test_a_final_sigmoid_is_no_hidden_layer_of_an_own_network_and_its_layers_keep_their_names() -> (
    None
):
    images = np.random.default_rng(0).random((6, *SHAPE), dtype=np.float32)
    network = own_detector(
        Own(1, final=nn.Sigmoid()), trunk="eyes", head="mind", outputs="probabilities"
    )
    change = Change(np.zeros_like(images), np.ones(6, dtype=bool), np.zeros(6))
    assert [layer.name for layer in image_bias(network, images, change).layers] == ["eyes.relu"]


def test_a_new_head_fits_an_own_trunk() -> None:
    images, _, codes = pictures(60)
    network = own_detector(Own(2), trunk="eyes", head="mind")
    head = attribute_head(network, images, codes, 2, training=Training(epochs=1, patience=None))
    assert head(torch.from_numpy(images)).shape == (60, 2)


# -- the attribute ---------------------------------------------------------------------------------


def test_a_head_on_the_frozen_trunk_learns_the_attribute_and_leaves_the_detector_alone(
    detector: Detector,
) -> None:
    images, _, codes = pictures(seed=2)
    others, _, other_codes = pictures(seed=3)
    before = copy.deepcopy(detector.state_dict())
    seen: list[tuple[int, int]] = []
    training = Training(batch=32, epochs=10, patience=None)
    head = attribute_head(
        detector, images, codes, 2, training=training, progress=lambda *done: seen.append(done)
    )
    assert balanced_accuracy(head, others, other_codes) > 0.9
    assert all(torch.equal(value, before[name]) for name, value in detector.state_dict().items())
    assert all(value.requires_grad for value in detector.parameters())
    assert seen == [(epoch, 10) for epoch in range(1, 11)]
    for a, b in zip(head.detector.parameters(), detector.parameters(), strict=True):
        assert a is not b
        assert torch.equal(a, b)


def test_the_shuffled_control_learns_the_same_labels_in_another_order(detector: Detector) -> None:
    images, _, codes = pictures(40, seed=2)
    short = Training(batch=20, epochs=1, patience=None)
    control = attribute_head(detector, images, codes, 2, seed=4, shuffled=True, training=short)
    mixed = np.random.default_rng(4).permutation(codes)
    assert (mixed != codes).any()
    expected = attribute_head(detector, images, mixed, 2, seed=4, training=short)
    assert all(
        torch.equal(a, b) for a, b in zip(control.parameters(), expected.parameters(), strict=True)
    )


def test_a_rare_value_counts_as_much_as_a_common_one(detector: Detector) -> None:
    """Nine of ten equal pictures have the common value: whoever counts heads says 9 to 1, whoever
    weights the values 1 to 1.
    """
    images = pictures(1)[0].repeat(80, axis=0)
    codes = (np.arange(80) % 10 == 0).astype(np.int64)
    head = attribute_head(
        detector, images, codes, 2, training=Training(epochs=60, batch=160, patience=None)
    )
    with torch.no_grad():
        chance = float(head(torch.from_numpy(images[:1])).softmax(dim=1)[0, 1])
    assert chance == pytest.approx(0.5, abs=0.05)


def test_an_independent_network_learns_the_attribute() -> None:
    images, _, codes = pictures(seed=2)
    others, _, other_codes = pictures(seed=3)
    training = Training(learning_rate=3e-3, batch=32, epochs=8, patience=None)
    assert (
        balanced_accuracy(
            attribute_network(images, codes, 2, seed=1, training=training), others, other_codes
        )
        > 0.9
    )
    short = Training(batch=20, epochs=1, patience=None)
    one, same = (
        attribute_network(images[:40], codes[:40], 2, seed=1, training=short) for _ in range(2)
    )
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))


def test_balanced_accuracy_is_that_of_scikit_learn(detector: Detector) -> None:
    images, _, codes = pictures(31, seed=5)
    measured = recalls(detector, images, codes, ("a", "b"))
    assert measured.balanced_accuracy == pytest.approx(balanced_accuracy(detector, images, codes))


@pytest.mark.parametrize(
    ("images", "codes", "values", "words"),
    [
        (pictures(6)[0], np.array([0, 1, 0, 1, 0, -1]), 2, "Leave out"),
        (pictures(6)[0], np.array([0, 1, 0, 1, 0, 2]), 2, "from 0 to 1"),
        (pictures(6)[0], np.zeros(6, dtype=np.int64), 2, "same value"),
        (pictures(6)[0], np.zeros(5, dtype=np.int64), 2, "a code for each"),
        (pictures(6)[0][0], np.zeros(3, dtype=np.int64), 2, "two images or more"),
    ],
)
def test_codes_that_cannot_be_learned_are_refused(
    images: Bytes, codes: Ints, values: int, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        attribute_network(images, codes, values)
    with pytest.raises(DataError, match=words):
        attribute_head(small_detector(SHAPE), images, codes, values)


def test_a_training_that_diverges_is_an_error() -> None:
    images, _, codes = pictures(40)
    with pytest.raises(FairprobeError, match="diverged"):
        attribute_network(
            images, codes, 2, training=Training(learning_rate=1e30, epochs=3, patience=None)
        )
