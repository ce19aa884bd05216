"""InsideBias says no more than its evidence: sizes and coverages by simulation, brightness and
contrast, a reference network, networks that are no good, and transformers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import linregress
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints
from fairprobe.errors import DataError, ModelError
from fairprobe.images.activation_ratio import compare, insidebias
from fairprobe.images.excitement import Excitement, excitement
from fairprobe.networks.vision import vgg
from tests.helpers import linear
from tests.images.test_insidebias import Groups, drawn, lights, seeing


def one_layer(values: list[Floats], pixels: list[Floats] | None = None) -> Excitement:
    """Groups of one layer with these activations, and brightness and contrast of their images."""
    names = tuple("abcdefgh"[: len(values)])
    columns = tuple(part.reshape(-1, 1) for part in values)
    held = None if pixels is None else tuple(pixels)
    return Excitement(names, ("layer",), (1,), (True,), (columns,), "image", held)


# -- coverage and size, by simulation --------------------------------------------------------------


@pytest.mark.parametrize(
    ("means", "count"), [((1, 1), 10), ((1, 0.95, 0.9), 5), ((1, 0.6, 0.5, 0.9), 30)]
)
def test_the_interval_of_the_ratio_holds_the_truth_as_often_as_it_says(
    means: tuple[float, ...], count: int
) -> None:
    rng = np.random.default_rng(2)
    found = [
        compare(drawn(*means, count=count, rng=rng), resamples=300, seed=at).decisive
        for at in range(400)
    ]
    assert np.mean([(one.low or 0) <= min(means) <= (one.high or 0) for one in found]) >= 0.93


@pytest.mark.parametrize(("means", "count"), [((1, 1), 10), ((1, 0.8), 30), ((1, 0.9, 0.7), 10)])
def test_the_interval_against_a_reference_holds_the_truth_as_often_as_it_says(
    means: tuple[float, ...], count: int
) -> None:
    """Both networks see the same images, some of which excite any network more."""
    rng = np.random.default_rng(3)
    held = []
    for at in range(400):
        common = [rng.gamma(4, 1 / 4, size=count) for _ in means]
        own, other = (
            one_layer([mean * one * rng.gamma(20, 1 / 20, size=count) for mean, one in pairs])
            for pairs in (
                list(zip(means, common, strict=True)),
                [(1.0, one) for one in common],
            )
        )
        measured = compare(own, [other], resamples=300, seed=at).references[0]
        less, more = (means["abc".index(name)] for name in (measured.less, measured.more))
        held.append(measured.factor_low <= less / more <= measured.factor_high)
    assert np.mean(held) >= 0.93


def test_an_untrained_network_and_exchangeable_groups_give_a_small_p_value_in_one_of_twenty() -> (
    None
):
    network = vgg((3, 12, 12), 2, seed=0)
    rng = np.random.default_rng(0)
    images = rng.random((240, 3, 12, 12), dtype=np.float32) * rng.uniform(0.3, 1, (240, 1, 1, 1))
    every = excitement(network, {"all": images[:120], "rest": images[120:]}, layers=["relu8"])
    pool, pixels = np.concatenate(every.values[0]), np.concatenate(every.pixels or ())
    raw, equal = [], []
    for at in range(400):
        order = rng.permutation(240)[:40]
        parts = (order[:15], order[15:])
        found = compare(
            one_layer([pool[rows] for rows in parts], [pixels[rows] for rows in parts]),
            resamples=199,
            seed=at,
        )
        assert found.decisive.p_value is not None
        assert found.pixels is not None
        assert found.pixels.p_value is not None
        raw.append(found.decisive.p_value <= 0.05)
        equal.append(found.pixels.p_value <= 0.05)
    assert 0.025 <= np.mean(raw) <= 0.08
    assert 0.02 <= np.mean(equal) <= 0.08


# -- brightness and contrast -----------------------------------------------------------------------


def bright_and_dark(count: int, rng: np.random.Generator, gap: float) -> list[Floats]:
    """Brightness and contrast of two groups, of which the second is darker by `gap`."""
    return [
        np.column_stack([rng.normal(0.6 - gap * at, 0.1, count), rng.normal(0.2, 0.03, count)])
        for at in range(2)
    ]


def test_a_difference_that_brightness_makes_is_explained_by_it_and_the_size_is_right() -> None:
    rng = np.random.default_rng(1)
    raw, equal = [], []
    for at in range(300):
        pixels = bright_and_dark(20, rng, 0.15)
        values = [1 + 2 * part[:, 0] + part[:, 1] + rng.normal(0, 0.1, 20) for part in pixels]
        found = compare(one_layer(values, pixels), resamples=199, seed=at)
        assert found.pixels is not None
        assert found.pixels.p_value is not None
        raw.append(found.verdict == "different")
        equal.append(found.pixels.p_value <= 0.05)
    assert np.mean(raw) >= 0.9
    assert np.mean(equal) <= 0.08


def test_a_difference_beyond_brightness_remains() -> None:
    rng = np.random.default_rng(2)
    pixels = bright_and_dark(60, rng, 0.1)
    values = [
        (1 - 0.3 * at) + part[:, 0] + rng.normal(0, 0.1, 60) for at, part in enumerate(pixels)
    ]
    found = compare(one_layer(values, pixels))
    assert found.pixels is not None
    assert found.pixels.p_value is not None
    assert found.pixels.p_value <= 0.01
    # about (0.7 + 0.55) / (1 + 0.55), at the mean brightness of all
    assert found.pixels.ratio == pytest.approx(1.25 / 1.55, abs=0.03)


def test_the_ratio_at_equal_brightness_is_that_of_a_regression_worked_out_by_hand() -> None:
    rng = np.random.default_rng(3)
    pixels = [np.column_stack([rng.random(6), np.ones(6)]) for _ in range(2)]  # one contrast
    values = [2 + part[:, 0] + rng.random(6) for part in pixels]
    slope = linregress(
        np.concatenate([part[:, 0] - part[:, 0].mean() for part in pixels]),
        np.concatenate([one - one.mean() for one in values]),
    ).slope
    middle = np.concatenate(pixels)[:, 0].mean()
    levels = [
        one.mean() + slope * (middle - part[:, 0].mean())
        for one, part in zip(values, pixels, strict=True)
    ]
    found = compare(one_layer(values, pixels)).pixels
    assert found is not None
    assert found.ratio == pytest.approx(min(levels) / max(levels))
    assert found.contrast_ratio == pytest.approx(1)
    assert found.contrast_p_value == 1


def test_brightness_and_contrast_are_those_of_the_images() -> None:
    groups = {
        "a": np.full((5, 3, 4, 4), 51, dtype=np.uint8),
        "b": np.tile(np.array([0, 255], dtype=np.uint8), (5, 3, 4, 2)),
    }

    class Sees(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x.float() + 1).flatten(1) * 1

    found = insidebias(Sees(), groups).pixels
    assert found is not None
    assert found.brightness == pytest.approx({"a": 0.2, "b": 0.5})
    assert found.contrast == pytest.approx({"a": 0, "b": 0.5})
    assert found.brightness_ratio == pytest.approx(0.4)


def test_two_images_a_group_are_too_few_to_hold_anything_equal() -> None:
    found = insidebias(seeing(1.0, 0.5, 1.0), lights(2, 0), resamples=100)
    assert found.pixels is not None
    assert (found.pixels.ratio is None) == (found.pixels.p_value is None)
    pair = {name: images for name, images in lights(2, 0).items() if name != "blue"}
    two = insidebias(seeing(1.0, 0.5, 1.0), pair, resamples=100)
    assert two.pixels is not None
    assert two.pixels.ratio is None


# -- a reference -----------------------------------------------------------------------------------


def test_a_reference_shows_which_group_excites_the_network_less() -> None:
    groups = lights(60, 1)
    found = insidebias(seeing(0.5, 1.0, 1.0), groups, references=[seeing(1.0, 1.0, 1.0)])
    (measured,) = found.references
    assert measured.less == "red"
    assert measured.factor == pytest.approx(0.5, abs=1e-6)
    assert measured.factor_low <= 0.5 <= measured.factor_high < 1
    assert measured.p_value < 0.01


def test_a_network_is_no_different_from_itself_however_the_images_differ() -> None:
    groups = lights(60, 1)
    network = seeing(0.3, 1.0, 1.0)
    found = insidebias(network, groups, references=[network])
    assert found.verdict == "different"
    (measured,) = found.references
    assert (measured.factor, measured.p_value) == (1, 1)
    assert measured.ratio == found.ratio


def test_a_reference_of_another_architecture_is_refused() -> None:
    other = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Softplus(), nn.Flatten(), nn.Linear(64, 2))
    with pytest.raises(ModelError, match="other layers"):
        insidebias(seeing(1.0, 1.0, 1.0), lights(5, 0), references=[other])


# -- networks that are no good ---------------------------------------------------------------------


def labels(groups: Groups, rng: np.random.Generator) -> dict[str, Ints]:
    return {name: rng.integers(0, 2, len(images)) for name, images in groups.items()}


def test_a_network_no_better_than_the_commonest_label_is_noted() -> None:
    groups = lights(30, 0)
    rng = np.random.default_rng(0)
    dull = seeing(1.0, 1.0, 1.0)
    with torch.no_grad():
        for part in dull.parameters():
            part.abs_()
    dull.append(linear(torch.zeros(2, 2), torch.tensor([0.0, 1.0])))
    found = insidebias(dull, groups, labels=labels(groups, rng)).answers
    assert found is not None
    assert found.is_constant
    assert found.is_no_better_than_chance
    assert found.right is not None
    assert found.right.samples == 90
    unknown = {name: np.full(len(images), -1) for name, images in groups.items()}
    nothing = insidebias(dull, groups, labels=unknown).answers
    assert nothing is not None
    assert (nothing.right, nothing.is_no_better_than_chance) == (None, False)
    with pytest.raises(DataError, match="a label for each of the 30 images of group 'red'"):
        insidebias(dull, groups, labels={"red": np.zeros(3, dtype=np.int64)})


def test_a_network_that_knows_the_answer_is_not_warned_about() -> None:
    groups = lights(30, 0)

    class Red(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x).mean(dim=(2, 3))[:, :1] - 0.01

    right = {name: np.full(30, int(name == "red")) for name in groups}
    found = insidebias(Red(), groups, labels=right).answers
    assert found is not None
    assert (found.is_constant, found.is_no_better_than_chance) == (False, False)
    assert found.right is not None
    assert found.right.hits == 90


# -- transformers ----------------------------------------------------------------------------------


class SmallViT(nn.Module):
    """Patches of 4 × 4 pixels as tokens, one block of attention, the mean of the tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.block = nn.TransformerEncoderLayer(
            8, 2, dim_feedforward=16, activation="gelu", batch_first=True
        )
        self.dense = nn.Linear(8, 6)
        self.neck = nn.Sequential(self.dense, nn.ReLU())
        self.head = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        out: Tensor = self.head(self.neck(self.block(tokens).mean(dim=1)))
        return out


class MixerBlock(nn.Module):
    """No attention, but channels last in four dimensions, as in Swin and ConvNeXt."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.dense = nn.Conv2d(3, 8, 4, stride=4), nn.Linear(8, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, x: Tensor) -> Tensor:
        maps = nn.functional.gelu(self.dense(self.patches(x).permute(0, 2, 3, 1)))
        out: Tensor = self.head(maps.mean(dim=(1, 2)))
        return out


def pictures() -> Groups:
    rng = np.random.default_rng(0)
    return {name: rng.random((6, 3, 16, 16), dtype=np.float32) for name in "ab"}


@pytest.mark.parametrize("network", [SmallViT, MixerBlock])
def test_tokens_are_refused_with_a_reason(network: Any) -> None:
    with pytest.raises(ModelError, match=r"tokens.*InsideBias compares feature maps"):
        insidebias(network(), pictures())


def test_a_dense_layer_behind_the_tokens_can_be_named() -> None:
    torch.manual_seed(0)
    network = SmallViT()
    nn.init.constant_(network.dense.bias, 1.0)
    found = insidebias(network, pictures(), layers=["neck.1"])
    assert (found.decisive.maps, found.decisive.is_convolution) == (6, False)


def test_the_vision_transformer_of_transformers_is_refused() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=16,
        patch_size=4,
    )
    with pytest.raises(ModelError, match="vision transformer"):
        insidebias(transformers.ViTForImageClassification(config), pictures())


def test_a_convolutional_network_with_a_dense_gate_is_not_taken_for_a_transformer() -> None:
    class Gated(nn.Module):
        """Squeeze and excitation: a dense layer weighs the maps of a convolution."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.gate = nn.Conv2d(3, 4, 3), nn.Linear(4, 4)
            self.second, self.head = nn.Conv2d(4, 4, 3), nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            maps = torch.relu(self.first(x) + 1)
            gate = torch.sigmoid(self.gate(maps.mean(dim=(2, 3))))
            maps = torch.relu(self.second(maps * gate[:, :, None, None]) + 1)
            out: Tensor = self.head(maps.mean(dim=(2, 3)))
            return out

    assert len(insidebias(Gated(), pictures()).layers) == 3
