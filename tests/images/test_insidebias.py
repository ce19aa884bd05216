"""InsideBias: λ and Λ by hand, networks with and without a planted bias, and what chance does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fairprobe.arrays import Floats
from fairprobe.errors import DataError, InputError, ModelError, SettingError
from fairprobe.images import InsideBias, insidebias
from fairprobe.images.activation_ratio import compare
from fairprobe.images.excitement import Excitement, Order, excitement
from fairprobe.results import from_dict
from papers.data.mnist import COLORS
from tests.helpers import linear

Groups = dict[str, npt.NDArray[np.float32]]


def convolution(*maps: tuple[list[float], float]) -> nn.Conv2d:
    """A 1 × 1 convolution: of each map the weight of every channel, and the shift."""
    layer = nn.Conv2d(len(maps[0][0]), len(maps), 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weights for weights, _ in maps])[:, :, None, None])
        layer.bias.copy_(torch.tensor([shift for _, shift in maps]))  # type: ignore[union-attr]
    return layer


# Two maps: the pixel itself, and twice the pixel less four.
TWO_MAPS = nn.Sequential(
    convolution(([1.0], 0.0), ([2.0], -4.0)), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)
)
STEPS: Groups = {
    # means of the maps: (2.5, 1.5) and (2, 3)
    "a": np.array([[[[1, 2], [3, 4]]], [[[0, 0], [0, 8]]]], dtype=np.float32),
    # (1, 0) and (1, 0)
    "b": np.ones((2, 1, 2, 2), dtype=np.float32),
}


def activation(found: InsideBias) -> tuple[float, ...]:
    return tuple(found.decisive.activation.values())


def sizes(found: InsideBias) -> tuple[int, ...]:
    return tuple(group.images for group in found.groups)


def seeing(*weights: float) -> nn.Sequential:
    """A network that sees the three channels so strongly; the dense layer after it sees nothing."""
    return nn.Sequential(
        convolution((list(weights), 0.0)),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(1, 2),
        nn.ReLU(),
    )


def lights(count: int, seed: int, *, spread: float = 0.5) -> Groups:
    """Images of one channel each, whose brightness varies from image to image."""
    rng = np.random.default_rng(seed)
    groups = {}
    for at, name in enumerate(COLORS):
        images = np.zeros((count, 3, 4, 4), dtype=np.float32)
        images[:, at] = rng.gamma(1 / spread**2, spread**2, size=(count, 1, 1)) * rng.uniform(
            0.9, 1.1, size=(count, 4, 4)
        )
        groups[name] = images
    return groups


def drawn(*means: float, count: int, rng: np.random.Generator) -> Excitement:
    """Groups of one layer with these true λ."""
    values: tuple[Floats, ...] = tuple(rng.gamma(4, mean / 4, size=(count, 1)) for mean in means)
    return Excitement(
        tuple("abcdefgh"[: len(means)]), ("layer",), (1,), (True,), (values,), "image"
    )


# -- by hand ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "expected"), [("image", (2.75, 1.0)), ("group", (2.25, 1.0))])
def test_the_strongest_map_is_taken_for_each_image_or_of_the_groups_mean(
    order: Any, expected: tuple[float, float]
) -> None:
    found = insidebias(TWO_MAPS, STEPS, order=order)
    assert activation(found) == pytest.approx(expected)
    assert found.ratio == pytest.approx(expected[1] / expected[0])
    assert found.highest == "a"
    assert (found.decisive.name, found.decisive.maps, sizes(found)) == ("1", 2, (2, 2))


def test_the_average_over_maps_is_the_paper_s_alternative() -> None:
    """Means of the maps (2.5, 1.5) and (2, 3): on average 2 and 2.5, so 2.25; of b 0.5."""
    orders: tuple[Order, ...] = ("image", "group")
    for order in orders:
        found = insidebias(TWO_MAPS, STEPS, order=order, over_maps="average")
        assert activation(found) == pytest.approx((2.25, 0.5))
    assert found.over_maps == "average"
    with pytest.raises(SettingError, match="maximum or the average"):
        insidebias(TWO_MAPS, STEPS, over_maps="median")  # type: ignore[arg-type]


def test_a_common_maximum_keeps_the_distance_between_groups() -> None:
    found = insidebias(TWO_MAPS, STEPS)
    for own, name in ((found.curves, "its own"), (found.common_curves, "common")):
        assert max(own["a"]) == 1, name
    rows = np.array([list(layer.activation.values()) for layer in found.layers])
    for at, group in enumerate(found.groups):
        assert found.common_curves[group.name] == pytest.approx(rows[:, at] / rows.max())
    assert max(found.common_curves["b"]) == pytest.approx(rows[:, 1].max() / rows[:, 0].max())


class Convolved(nn.Module):
    """Answers with the logit of the first pixel for class 1, behind a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first = convolution(([1.0], 0.0))

    def forward(self, x: Any) -> Any:
        seen = torch.relu(self.first(x))
        return torch.stack([torch.zeros(len(x)), x[:, 0, 0, 0]], dim=1) + 0 * seen.mean()


def test_images_are_chosen_by_confidence_and_scores_and_accuracy_stand_by_group() -> None:
    """Logits 6, 6, 1 of group a and 6, 5, −6 of b: with labels 1 everywhere, S is the mean sigmoid,
    and what is surer than .99 are two of a and two of b.
    """
    logits = {"a": [6.0, 6.0, 1.0], "b": [6.0, 5.0, -6.0]}
    groups = {
        name: np.full((3, 1, 2, 2), np.array(own)[:, None, None, None], dtype=np.float32)
        for name, own in logits.items()
    }
    truth = {name: np.ones(3, dtype=np.int64) for name in groups}
    answers = insidebias(Convolved(), groups, labels=truth, resamples=100).answers
    assert answers is not None
    share = {name: 1 / (1 + np.exp(-np.array(own))) for name, own in logits.items()}
    assert [one.score for one in answers.groups] == pytest.approx(
        [share["a"].mean(), share["b"].mean()], abs=1e-6
    )
    assert [one.right and one.right.hits for one in answers.groups] == [3, 2]
    chosen = insidebias(Convolved(), groups, labels=truth, confident=0.99, resamples=100)
    assert (sizes(chosen), chosen.confident) == ((2, 2), 0.99)
    assert activation(chosen) == pytest.approx((6, 5.5))
    assert chosen.answers == answers  # of all images: the chosen ones are right by construction
    # Without labels the network is sure of its own wrong answer, too.
    alone = insidebias(Convolved(), {**groups, "b": abs(groups["b"])}, confident=0.99)
    assert sizes(alone) == (2, 3)
    assert alone.answers is not None
    assert alone.answers.groups[0].right is None
    with pytest.raises(DataError, match=r"surer than 0.999 of 0 images of group 'a'"):
        insidebias(Convolved(), groups, labels=truth, confident=0.999)
    with pytest.raises(SettingError, match="from 0 to below 1"):
        insidebias(Convolved(), groups, confident=1)


def test_the_papers_rule_compares_the_ratio_with_tau_and_says_how_often_chance_does_the_same() -> (
    None
):
    """Group b has half the activation of a. Of the 6 ways to deal 1, 1, 2, 2 to two groups of two,
    2 have a ratio of .5, and 4 have a ratio of 1.
    """
    groups = {
        name: np.full((2, 1, 2, 2), value, dtype=np.float32)
        for name, value in (("a", 2.0), ("b", 1.0))
    }
    found = insidebias(Convolved(), groups, tau=0.8, resamples=2000)
    assert found.rule is not None
    assert (found.ratio, found.rule.tau, found.rule.is_biased) == (0.5, 0.8, True)
    assert found.rule.by_chance == pytest.approx(1 / 3, abs=0.04)
    assert found.verdict == "no difference found"
    exactly = insidebias(Convolved(), groups, tau=0.5, resamples=100).rule
    assert exactly is not None
    assert (exactly.is_biased, exactly.by_chance) == (False, 0)
    assert insidebias(Convolved(), groups, resamples=100).rule is None
    for tau in (0, 1.1, float("nan")):
        with pytest.raises(SettingError, match="τ is above 0 and at most 1"):
            insidebias(Convolved(), groups, tau=tau)


def test_a_neuron_of_a_dense_layer_is_a_map_of_one_pixel() -> None:
    network = nn.Sequential(
        linear(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.zeros(2)),
        nn.ReLU(),
        linear(torch.tensor([[1.0, 1.0]]), torch.zeros(1)),
        nn.ReLU(),
    )
    network.append(nn.Linear(1, 2))
    rows = {
        "a": np.array([[1, 1], [3, 1]], dtype=np.float32),
        "b": np.array([[1, 0], [1, 0]], dtype=np.float32),
    }
    found = insidebias(network, rows)
    first, second = found.layers
    assert tuple(first.activation.values()) == pytest.approx(
        ((2 + 3) / 2, 1)
    )  # the stronger of (1, 2), then of (3, 2)
    assert tuple(second.activation.values()) == pytest.approx(((3 + 5) / 2, 1))
    assert found.decisive is second  # without convolutions, the last hidden layer
    assert found.ratio == pytest.approx(0.25)
    assert found.curves == {"a": pytest.approx((2.5 / 4, 1)), "b": pytest.approx((1, 1))}


def test_the_last_convolution_decides_however_many_dense_layers_follow() -> None:
    network = nn.Sequential(
        convolution(([1.0], 0.0)), nn.ReLU(), convolution(([2.0], 0.0)), nn.ReLU(), nn.Flatten()
    )
    network.extend([nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)])
    found = insidebias(network, STEPS)
    assert [layer.is_convolution for layer in found.layers] == [True, True, False]
    assert found.decisive.name == "3"
    assert activation(found) == pytest.approx((2 * (2.5 + 2) / 2, 2))


class Functional(nn.Module):
    """Activations in place and as functions, one of them changed afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = convolution(([1.0], 0.0), ([2.0], -4.0))

    def forward(self, x: Tensor) -> Tensor:
        h: Tensor = self.convolution(x)
        F.relu_(h)
        h *= 100  # no longer what the activation function gave
        return h.flatten(1) + 0


def test_functions_that_work_in_place_are_seen_at_their_moment() -> None:
    assert activation(insidebias(Functional(), STEPS)) == pytest.approx((2.75, 1.0))


def test_maps_may_have_their_channels_last() -> None:
    class Last(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            maps = TWO_MAPS[0](x).permute(0, 2, 3, 1)
            return F.relu(maps).flatten(1) * 1

    assert tuple(
        insidebias(Last(), STEPS, channels_last=True).decisive.activation.values()
    ) == pytest.approx((2.75, 1.0))


def test_only_the_layers_that_are_named_are_looked_at() -> None:
    network = nn.Sequential(
        convolution(([1.0], 0.0)), nn.ReLU(), convolution(([2.0], 0.0)), nn.ReLU(), nn.Flatten()
    )
    network.append(nn.Linear(4, 2))
    found = insidebias(network, STEPS, layers=["1"])
    assert [layer.name for layer in found.layers] == ["1"]
    with pytest.raises(SettingError, match="no layer 'relu7'"):
        insidebias(network, STEPS, layers=["relu7"])


def test_the_result_is_plain_data() -> None:
    found = insidebias(seeing(1.0, 1.0, 1.0), lights(10, 0))
    body = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert body["groups"] == [{"name": name, "images": 10} for name in COLORS]
    assert body["decisive"]["ratio"] == found.ratio
    assert body["layers"][0]["activation"] == found.layers[0].activation
    assert max(found.curves["red"]) == 1
    assert from_dict(body, InsideBias) == found


def test_the_network_is_left_as_it_was_and_dropout_does_not_act() -> None:
    network = nn.Sequential(nn.Dropout(0.5), *seeing(1.0, 1.0, 1.0))
    network[5].eval()
    before = [part.training for part in network.modules()]
    first, second = (insidebias(network, lights(10, 0)) for _ in range(2))
    assert first == second
    assert [part.training for part in network.modules()] == before


def test_batches_and_tensors_change_nothing() -> None:
    groups = lights(23, 1)
    whole = insidebias(seeing(1.0, 0.7, 0.4), groups, batch=100)
    steps: list[tuple[int, int]] = []
    parts = insidebias(
        seeing(1.0, 0.7, 0.4),
        {k: torch.from_numpy(v) for k, v in groups.items()},
        batch=5,
        progress=lambda *at: steps.append(at),
    )
    assert activation(parts) == pytest.approx(activation(whole))
    assert parts.verdict == whole.verdict
    assert steps[-1] == (69, 69)


# -- bias and chance -------------------------------------------------------------------------------


def test_a_planted_difference_is_found() -> None:
    found = insidebias(seeing(0.3, 1.0, 0.6), lights(100, 2))
    assert found.verdict == "different"
    assert found.highest == "green"
    assert found.pixels is not None
    assert found.pixels.p_value is not None
    assert found.pixels.p_value <= 0.01  # the groups are equally bright
    assert found.decisive.low is not None
    assert found.decisive.high is not None
    assert found.decisive.low < 0.3 < found.decisive.high < 0.8


def test_five_images_a_group_show_a_large_difference() -> None:
    assert insidebias(seeing(0.1, 1.0, 1.0), lights(5, 3)).verdict == "different"


def test_where_no_difference_is_found_the_smallest_that_would_be_is_named() -> None:
    fair = seeing(1.0, 1.0, 1.0)
    many, few = (insidebias(fair, lights(count, 4)) for count in (300, 5))
    assert many.verdict == few.verdict == "no difference found"
    assert few.ratio < 0.8  # the paper's rule would raise an alarm
    assert many.decisive.detectable is not None
    assert few.decisive.detectable is not None
    assert few.decisive.detectable < few.ratio
    assert few.decisive.detectable < 0.8 < many.decisive.detectable < many.ratio


def test_chance_seldom_raises_an_alarm_where_the_threshold_alone_often_does() -> None:
    rng = np.random.default_rng(0)
    said = [compare(drawn(1, 1, 1, count=5, rng=rng), resamples=199, seed=at) for at in range(400)]
    assert np.mean([one.ratio < 0.8 for one in said]) > 0.5
    assert 0.02 <= np.mean([one.verdict == "different" for one in said]) <= 0.08


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    groups = lights(20, 7)
    network = seeing(1.0, 0.8, 0.9)
    one, same, other = (insidebias(network, groups, seed=seed) for seed in (0, 0, 1))
    assert one == same
    assert one.ratio == other.ratio
    assert one.decisive.low != other.decisive.low


def test_the_p_value_is_that_of_all_exchanges_when_they_can_be_counted() -> None:
    # Two groups of two: of the six ways to deal them, two (the groups and their mirror) are as far
    # apart as 1, 1 against 4, 4.
    values = (np.array([[1.0], [1.0]]), np.array([[4.0], [4.0]]))
    found = compare(
        Excitement(("a", "b"), ("layer",), (1,), (True,), (values,), "image"), resamples=20_000
    )
    assert found.decisive.p_value == pytest.approx(1 / 3, abs=0.01)
    assert found.decisive.by_chance == pytest.approx(1.0)
    assert found.verdict == "no difference found"


def test_a_group_that_some_resamples_show_as_silent_has_a_wide_interval() -> None:
    values = (np.array([[0.0], [0.0], [0.0], [4.0]]), np.full((4, 1), 4.0))
    found = compare(Excitement(("a", "b"), ("layer",), (1,), (True,), (values,), "image"))
    assert found.decisive.low == pytest.approx(0)
    assert found.decisive.high == 1


def test_samples_are_drawn_from_each_group() -> None:
    excited = excitement(seeing(1.0, 1.0, 1.0), lights(30, 8))
    few = excited.sample(5, np.random.default_rng(0))
    assert [len(part) for part in few.values[0]] == [5, 5, 5]
    assert all(
        np.isin(some, every).all()
        for some, every in zip(few.values[0], excited.values[0], strict=True)
    )
    for wrong in (1, 31):
        with pytest.raises(SettingError, match="2 images of each group or more, and 30 at most"):
            excited.sample(wrong, np.random.default_rng(0))


def test_of_large_images_only_one_number_a_layer_is_kept() -> None:
    network = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    )
    groups = {name: torch.rand(6, 1, 64, 64) for name in "ab"}
    assert [part.shape for part in excitement(network, groups).values[0]] == [(6, 1), (6, 1)]
    assert [part.shape for part in excitement(network, groups, order="group").values[0]] == [
        (6, 8),
        (6, 8),
    ]


# -- mistakes --------------------------------------------------------------------------------------


def nan(groups: Groups) -> Groups:
    groups["green"][0, 0, 0, 0] = np.nan
    return groups


MISTAKES: dict[str, tuple[Callable[[Groups], dict[str, Any]], type[InputError], str]] = {
    "one group": (lambda groups: {"red": groups["red"]}, DataError, "two or more; got 1"),
    "a group without images": (
        lambda groups: {**groups, "none": np.zeros((0, 3, 4, 4))},
        DataError,
        "Group 'none' has no image",
    ),
    "a group of one image": (
        lambda groups: {**groups, "one": np.zeros((1, 3, 4, 4))},
        DataError,
        "Group 'one' has one image only",
    ),
    "another size": (
        lambda groups: {**groups, "large": np.zeros((5, 3, 8, 8))},
        DataError,
        "Images of group 'large' are 3 × 8 × 8, those of group 'red' 3 × 4 × 4",
    ),
    "no images at all": (
        lambda groups: {**groups, "flat": np.zeros(7)},
        DataError,
        r"Group 'flat' has the shape \(7,\)",
    ),
    "not a number": (nan, DataError, "Group 'green' has pixels that are not finite"),
    "wrong channels": (
        lambda groups: {name: images[:, :1] for name, images in groups.items()},
        ModelError,
        r"does not take images of shape \(1, 4, 4\)",
    ),
}


@pytest.mark.parametrize(("change", "kind", "words"), MISTAKES.values(), ids=MISTAKES)
def test_wrong_groups_are_refused_in_a_sentence(
    change: Callable[[Groups], dict[str, Any]], kind: type[InputError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        insidebias(seeing(1.0, 1.0, 1.0), change(lights(5, 0)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"resamples": 10}, "100 resamples or more"),
        ({"batch": 0}, "1 image or more"),
        ({"order": "layer"}, "got 'layer'"),
        ({"seed": -1}, "whole number from 0; got -1"),
    ],
)
def test_wrong_settings_are_refused_in_a_sentence(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        insidebias(seeing(1.0, 1.0, 1.0), lights(5, 0), **settings)


class Failing(nn.Module):
    """Takes one image, or so many at a time, and raises without a word otherwise."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > self.most:
            raise AssertionError
        return 2 * torch.relu(images.mean(dim=(2, 3)))


@pytest.mark.parametrize(
    ("most", "words"), [(0, "does not take images of shape"), (1, "failed on images of group '")]
)
def test_an_error_of_the_network_is_reported_with_its_place(most: int, words: str) -> None:
    with pytest.raises(
        ModelError, match=words + r".*\(AssertionError; .*test_insidebias\.py:\d+\)"
    ):
        insidebias(Failing(most), lights(5, 0))


def test_a_network_without_activations_is_refused() -> None:
    with pytest.raises(ModelError, match="no hidden layer with an activation function"):
        insidebias(nn.Sequential(nn.Flatten(), nn.Linear(48, 2)), lights(5, 0))


def test_a_ratio_of_nothing_or_of_negative_values_is_refused() -> None:
    with pytest.raises(ModelError, match="some group's λ is not above 0"):
        insidebias(seeing(-1.0, 1.0, 1.0), lights(5, 0))
    negative = nn.Sequential(
        convolution(([-1.0, -1.0, -1.0], 0.0)), nn.Tanh(), nn.Flatten(), nn.Linear(16, 2)
    )
    with pytest.raises(ModelError, match="negative values"):
        insidebias(negative, lights(5, 0))


def test_a_dead_layer_that_does_not_decide_has_no_ratio_and_does_no_harm() -> None:
    network = nn.Sequential(
        *list(seeing(1.0, 1.0, 1.0))[:4],
        linear(torch.tensor([[-1.0]]), torch.zeros(1)),
        nn.ReLU(),
        nn.Linear(1, 2),
    )
    found = insidebias(network, lights(5, 0))
    assert found.layers[1].ratio is None
    assert found.layers[1].low is None
    assert [curve[1] for curve in found.curves.values()] == [0, 0, 0]


def test_values_that_are_not_finite_inside_the_network_are_an_error() -> None:
    with pytest.raises(ModelError, match="not finite for images of group 'red'"):
        insidebias(seeing(float("inf"), 1.0, 1.0), lights(5, 0))


def test_the_public_name_is_the_function() -> None:
    assert isinstance(insidebias(seeing(1.0, 1.0, 1.0), lights(5, 0)), InsideBias)
