"""NeuronFair's interpretation, worked out by hand on tiny networks, and calibrated on the reference
census network.
"""

from __future__ import annotations

from collections import OrderedDict
from importlib import import_module
from math import sqrt, tanh

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fairprobe.arrays import Floats
from fairprobe.errors import DataError, DomainError, ModelError
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import TorchModel
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search.neuron_bias import GRID, THRESHOLDS, LayerBias, NeuronBias, neuron_bias
from fairprobe.table.ablation import ablation
from tests.helpers import (
    blind,
    census_domain,
    census_network,
    census_rows,
    everybody,
    linear,
    merit,
    planted,
    tiny_domain,
)

# -- by hand ---------------------------------------------------------------------------------------
#
# Attributes a (0–3) and s (0, 1; sensitive); neurons  h0 = relu(a),  h1 = relu(a + 2s − 1),  h2 =
# relu(s / 10).
#
# row (a, s)    h1    h1 of the counterpart    |difference|        h2: the difference is always 1/10
# (0, 0)        0     1                        1                   h0: it is always 0 (1, 1)
# 2     0                        2 (3, 0)        2     4                        2
#
# ActDiff: 0, 5/3, 1/10.

HAND_ROWS = np.array([[0, 0], [1, 1], [3, 0]], dtype=np.float32)


def hand_domain() -> Domain:
    return Domain((Attribute(name="a", high=3), Attribute(name="s", high=1)), ("s",))


def hand_network() -> TorchModel:
    inner = linear(
        torch.tensor([[1.0, 0.0], [1.0, 2.0], [0.0, 0.1]]), torch.tensor([0.0, -1.0, 0.0])
    )
    return TorchModel(
        nn.Sequential(OrderedDict(inner=inner, hidden=nn.ReLU(), out=nn.Linear(3, 2)))
    )


def hand_layer() -> LayerBias:
    found = neuron_bias(hand_domain(), hand_network(), HAND_ROWS)
    assert [layer.name for layer in found.layers] == ["hidden"]
    assert found.pairs == 3
    return found.most_biased


def test_the_activation_difference_is_the_mean_over_the_pairs() -> None:
    layer = hand_layer()
    assert layer.neurons == 3
    assert layer.difference == pytest.approx([0, 5 / 3, 0.1])
    assert layer.squashed == pytest.approx([0, 0.9311096, 0.0996680], abs=1e-6)


def test_the_curve_is_the_share_of_neurons_above_each_threshold() -> None:
    curve = hand_layer().curve
    assert len(curve) == len(THRESHOLDS) == 201
    assert GRID == 0.005
    # Two neurons lie above 0 … 0.095 (20 thresholds), one above 0.1 … 0.93 (167), none from 0.935
    # on.
    assert curve == pytest.approx([2 / 3] * 20 + [1 / 3] * 167 + [0] * 14)


def test_the_area_the_threshold_and_the_biased_neurons_follow_from_the_curve() -> None:
    layer = hand_layer()
    assert layer.auc == pytest.approx(0.005 * (20 * 2 / 3 + 167 / 3))  # 0.345
    assert layer.threshold == pytest.approx(0.335)  # the first on the grid that is not below 1/3
    assert layer.biased.tolist() == [1]
    assert layer.biased.dtype == np.int64


def test_the_scale_free_area_divides_by_the_deviation_over_the_data() -> None:
    layer = hand_layer()
    # h0 is 0, 1, 3 over the data; h1 is 0, 2, 2; h2 is 0, 1/10, 0.
    assert layer.deviation == pytest.approx([sqrt(14) / 3, sqrt(8) / 3, sqrt(2) / 30], abs=1e-6)
    # tanh of difference / deviation: 0, tanh(1.7678) = 0.9433, tanh(2.1213) = 0.9717. Two above 0 …
    # 0.94 (189), one above 0.945 … 0.97 (6).
    assert layer.auc_scale_free == pytest.approx(0.005 * (189 * 2 / 3 + 6 / 3))  # 0.64


def test_with_more_than_two_values_the_difference_is_the_mean_over_all_others() -> None:
    domain = Domain((Attribute(name="a", high=3), Attribute(name="s", high=2)), ("s",))
    inner = linear(
        torch.tensor([[0.0, 1.0], [0.0, -1.0]]), torch.tensor([0.0, 1.0])
    )  # relu(s), relu(1 − s)
    model = TorchModel(nn.Sequential(inner, nn.ReLU(), nn.Linear(2, 2)))

    def difference(*values: int) -> list[float]:
        found = neuron_bias(domain, model, np.array([[0, s] for s in values], dtype=np.float32))
        assert found.pairs == 2 * len(values)
        return [float(value) for value in found.most_biased.difference]

    assert difference(0) == pytest.approx([1.5, 1])  # |0−1|, |0−2|; |1−0|, |1−0|
    assert difference(1) == pytest.approx([1, 0.5])  # |1−0|, |1−2|; |0−1|, |0−0|
    assert difference(2) == pytest.approx([1.5, 0.5])
    assert difference(0, 1, 2) == pytest.approx([4 / 3, 2 / 3])


def test_combinations_of_sensitive_attributes_are_all_compared() -> None:
    domain = tiny_domain("gender", "race")
    first = torch.tensor([[0.0, 1.0, 0.0, 3.0]])  # gender + 3 · race: 0 … 7
    model = TorchModel(nn.Sequential(linear(first, torch.zeros(1)), nn.ReLU(), nn.Linear(1, 2)))
    found = neuron_bias(domain, model, np.array([[0, 0, 1, 0]], dtype=np.float32))
    assert found.pairs == 5
    assert found.most_biased.difference == pytest.approx([(1 + 3 + 4 + 6 + 7) / 5])


def test_the_most_biased_layer_has_the_largest_area_and_is_not_the_output() -> None:
    domain = hand_domain()
    # first: s / 10; second: 5 s; output: a sigmoid that reacts most of all.
    module = nn.Sequential(
        OrderedDict(
            a=linear(torch.tensor([[0.0, 0.1]]), torch.zeros(1)),
            small=nn.ReLU(),
            b=linear(torch.tensor([[50.0]]), torch.zeros(1)),
            large=nn.ReLU(),
            c=linear(torch.tensor([[100.0]]), torch.tensor([-5.0])),
            out=nn.Sigmoid(),
        )
    )
    found = neuron_bias(domain, TorchModel(module), HAND_ROWS)
    assert [layer.name for layer in found.layers] == ["small", "large"]
    assert found.most_biased.name == "large"
    assert found.auc == found.layers[1].auc > found.layers[0].auc > 0


@pytest.mark.parametrize("sensitive", [("gender",), ("race",), ("gender", "race")])
def test_a_network_that_does_not_look_has_area_zero_and_no_biased_neuron(
    sensitive: tuple[str, ...],
) -> None:
    domain = tiny_domain(*sensitive)
    found = neuron_bias(domain, TorchModel(blind(domain)), everybody(domain))
    assert found.auc == 0.0
    for layer in found.layers:
        assert layer.auc == 0.0
        assert layer.auc_scale_free == 0.0
        assert layer.threshold == 0.0
        assert layer.biased.tolist() == []


def test_rows_are_taken_in_parts_with_the_same_result_and_progress_to_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domain = tiny_domain("race")
    model = TorchModel(planted(domain))
    x = everybody(domain)
    whole = neuron_bias(domain, model, x)
    monkeypatch.setattr(import_module("fairprobe.search.neuron_bias"), "ROWS_AT_ONCE", 50)
    seen: list[tuple[int, int]] = []
    parts = neuron_bias(domain, model, x, progress=lambda done, total: seen.append((done, total)))
    for one, other in zip(whole.layers, parts.layers, strict=True):
        assert one.difference == pytest.approx(other.difference)
        assert one.deviation == pytest.approx(other.deviation)
    assert len(seen) == 19
    assert seen[-1] == (300, 300)
    assert seen == sorted(seen)


def test_a_large_constant_activation_has_no_deviation_but_a_small_true_one_stays() -> None:
    domain = hand_domain()
    inner = linear(
        torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([1000.0, 1000.0])
    )  # 1000 + s, 1000 + a
    model = TorchModel(nn.Sequential(inner, nn.ReLU(), nn.Linear(2, 2)))
    x = np.array([[0, 0], [1, 0], [2, 0], [3, 0]], dtype=np.float32)
    layer = neuron_bias(domain, model, x).most_biased
    assert layer.difference == pytest.approx([1, 0])
    assert layer.deviation == pytest.approx([0, sqrt(1.25)], rel=1e-6)
    assert (
        layer.auc_scale_free == 0
    )  # a neuron that never changes in the data has no scale to compare with


def test_interpreting_needs_rows_hidden_layers_finite_activations_and_sensitive_values_inside() -> (
    None
):
    domain = hand_domain()
    with pytest.raises(DataError, match="at least one row"):
        neuron_bias(domain, hand_network(), HAND_ROWS[:0])
    with pytest.raises(ModelError, match="no hidden layer with an activation function"):
        neuron_bias(domain, TorchModel(nn.Linear(2, 2)), HAND_ROWS)
    endless = nn.Sequential(
        linear(torch.tensor([[0.0, float("inf")]]), torch.zeros(1)), nn.ReLU(), nn.Linear(1, 2)
    )
    with pytest.raises(ModelError, match="Layer '1' gives values that are not finite"):
        neuron_bias(domain, TorchModel(endless), HAND_ROWS)
    with pytest.raises(DomainError, match="Row 0 has 5 for the sensitive attribute 's'"):
        neuron_bias(domain, hand_network(), np.array([[0, 5]], dtype=np.float32))


def test_rows_outside_the_bounds_of_other_attributes_are_interpreted_as_they_are() -> None:
    layer = neuron_bias(
        hand_domain(), hand_network(), np.array([[100, 0]], dtype=np.float32)
    ).most_biased
    assert layer.difference == pytest.approx([0, 2, 0.1])


# -- properties of the curve -----------------------------------------------------------------------


def layer_of(*squashed: float) -> LayerBias:
    """A layer whose neurons have these values after the tanh."""
    values = np.array(squashed, dtype=np.float64)
    return LayerBias("layer", np.arctanh(values), np.ones_like(values))


@pytest.mark.parametrize(
    ("squashed", "threshold", "biased"),
    [
        # Half of the neurons reach above one half.
        ((0.9, 0.9, 0.1, 0.1), 0.5, [0, 1]),
        # Three quarters would, but one of them falls out on the way: above 0.6 only half are left.
        ((0.9, 0.9, 0.598, 0.1), 0.6, [0, 1]),
        # All alike: nobody lies above the crossing, so those just before it count.
        ((0.302, 0.302), 0.305, [0, 1]),
        ((0.987, 0.987, 0.987, 0.987), 0.99, [0, 1, 2, 3]),
        ((0.302, 0.302, 0.0), 0.305, [0, 1]),
        # One strong neuron in ten.
        ((0.95, *[0.001] * 9), 0.1, [0]),
        ((0.0, 0.0), 0.0, []),
    ],
)
def test_the_threshold_is_the_first_whose_share_is_not_above_it(
    squashed: tuple[float, ...], threshold: float, biased: list[int]
) -> None:
    layer = layer_of(*squashed)
    assert layer.threshold == pytest.approx(threshold)
    assert layer.biased.tolist() == biased


def test_a_neuron_saturated_at_one_counts_below_one_and_not_at_one() -> None:
    layer = LayerBias("layer", np.array([1000.0, 0.0]), np.ones(2))
    assert layer.curve.tolist() == [0.5] * 200 + [0]
    assert layer.auc == pytest.approx(0.5)


def by_the_paper(difference: Floats) -> tuple[float, float, list[int]]:
    """Algorithm 1 in plain loops: area, threshold, biased neurons."""
    squashed = [tanh(z) for z in difference]
    area, crossing = 0.0, None
    for step in range(201):
        t = step * 0.005
        share = sum(value > t for value in squashed) / len(squashed)
        area += share * 0.005
        if crossing is None and share <= t:
            crossing = t
    assert crossing is not None
    return area, crossing, [k for k, value in enumerate(squashed) if value > crossing]


@given(st.lists(st.floats(0, 5, allow_subnormal=False), min_size=1, max_size=40))
def test_area_threshold_and_neurons_are_those_of_the_algorithm_in_plain_loops(
    values: list[float],
) -> None:
    layer = LayerBias("layer", np.array(values), np.ones(len(values)))
    area, crossing, biased = by_the_paper(layer.difference)
    assert layer.auc == pytest.approx(area)
    assert layer.threshold == pytest.approx(crossing)
    assert layer.biased.tolist() == biased or (
        not biased and len(layer.biased) == (layer.squashed > crossing - 0.005).sum()
    )
    assert (np.diff(layer.curve) <= 0).all()
    assert (len(layer.biased) > 0) == (layer.auc > 0)


@given(st.lists(st.floats(0.01, 3), min_size=1, max_size=10), st.floats(0.01, 100))
def test_the_scale_free_area_does_not_change_when_a_layer_is_rescaled(
    values: list[float], factor: float
) -> None:
    one = LayerBias("layer", np.array(values), np.full(len(values), 0.7))
    other = LayerBias("layer", np.array(values) * factor, np.full(len(values), 0.7) * factor)
    assert one.auc_scale_free == pytest.approx(other.auc_scale_free, abs=GRID)


# -- ablation --------------------------------------------------------------------------------------


def shared_merit(domain: Domain, cut: float) -> TorchModel:
    """Class 1 when merit + 3 · gender > cut; seven neurons share the merit, the eighth alone
    carries the gender.
    """
    weight = torch.zeros(8, len(domain))
    weight[:7, torch.from_numpy(domain.other_columns)] = 1 / 7
    weight[7, torch.from_numpy(domain.sensitive_columns)] = 3
    out = torch.ones(2, 8)
    out[0] = 0
    inner = linear(weight, -weight @ torch.from_numpy(domain.low))
    return TorchModel(
        nn.Sequential(
            OrderedDict(inner=inner, hidden=nn.ReLU(), out=linear(out, torch.tensor([0.0, -cut])))
        )
    )


def test_silencing_the_one_neuron_that_carries_the_bias_ends_it_and_silencing_others_does_not() -> (
    None
):
    domain = tiny_domain()
    x = everybody(domain)
    model = shared_merit(domain, cut=7.4)
    y = (merit(domain, x) > 7.4).astype(np.int64)  # what the network would answer without its bias
    layer = neuron_bias(domain, model, x).most_biased
    assert layer.biased.tolist() == [7]
    found = ablation(domain, model, layer, x, y, rng=np.random.default_rng(0), samples=4000)
    share = float(((merit(domain, x) > 4.4) & (merit(domain, x) < 7.4)).mean())
    assert found.before == pytest.approx(share, abs=0.03)
    assert found.biased_zeroed == 0
    assert found.random_zeroed > share / 2
    assert found.accuracy_before == pytest.approx(
        1 - share / 2
    )  # the men among those people are wrongly promoted
    assert found.accuracy_biased_zeroed == 1
    assert 0 < found.accuracy_random_zeroed < 1
    assert (found.silenced, found.samples) == (1, 4000)
    assert found.repeats > 1


def test_without_a_biased_neuron_nothing_is_silenced_and_nothing_changes() -> None:
    domain = tiny_domain()
    x = everybody(domain)
    model = TorchModel(blind(domain))
    y = model.labels(x)
    layer = neuron_bias(domain, model, x).most_biased
    found = ablation(domain, model, layer, x, y, rng=np.random.default_rng(0), samples=500)
    assert (found.before, found.biased_zeroed, found.random_zeroed, found.silenced) == (0, 0, 0, 0)
    assert (found.accuracy_before, found.accuracy_biased_zeroed, found.accuracy_random_zeroed) == (
        1,
        1,
        1,
    )


def test_the_same_generator_gives_the_same_ablation() -> None:
    domain = tiny_domain()
    x = everybody(domain)
    model = TorchModel(planted(domain))
    layer = neuron_bias(domain, model, x).layers[0]
    assert layer.biased.tolist() == [1]
    one, other = (
        ablation(
            domain, model, layer, x, model.labels(x), rng=np.random.default_rng(3), samples=500
        )
        for _ in range(2)
    )
    assert one == other
    assert one.before > one.biased_zeroed == 0


# -- calibration on the reference network (METHODS.md) ---------------------------------------------


@pytest.fixture(scope="module")
def census() -> NeuronBias:
    x, _ = census_rows()
    return neuron_bias(census_domain(), census_network(), x)


def test_the_census_rows_and_network_are_those_of_the_calibration() -> None:
    x, y = census_rows()
    model = census_network()
    assert x.shape == (32_561, 13)
    assert len(census_domain().outside(x)) == 2_427
    assert list(model.layers(x).values()) == [64, 32, 16, 8, 4]
    assert (model.labels(x) == y).mean() == pytest.approx(0.8600, abs=5e-5)


def test_the_second_hidden_layer_of_the_census_network_is_the_most_biased(
    census: NeuronBias,
) -> None:
    assert census.pairs == 32_561
    assert census.most_biased.name == "hidden2"
    assert census.auc == pytest.approx(0.7519, abs=0.002)
    assert len(census.most_biased.biased) == 24


def test_the_other_layers_of_the_census_network_have_the_areas_of_the_calibration(
    census: NeuronBias,
) -> None:
    first, _, third, fourth, fifth = census.layers
    assert first.auc == pytest.approx(0.2932, abs=5e-4)
    assert first.threshold == pytest.approx(0.33)
    assert len(first.biased) == 21
    assert third.auc == pytest.approx(0.6734, abs=5e-4)
    assert max(fourth.auc, fifth.auc) < 0.3


def test_about_one_in_a_hundred_uniform_people_is_discriminated_by_the_census_network() -> None:
    rate = dm_rs(census_domain(), census_network(), rng=np.random.default_rng(0))
    assert rate.estimate == pytest.approx(0.010, abs=0.0015)
    assert rate.low < 0.0102 < rate.high  # of 3,000,000 drawn and judged in plain numpy


def test_silencing_the_biased_neurons_of_the_census_network_lowers_discrimination(
    census: NeuronBias,
) -> None:
    x, y = census_rows()
    found = ablation(
        census_domain(),
        census_network(),
        census.most_biased,
        x,
        y,
        rng=np.random.default_rng(0),
        samples=4000,
    )
    assert found.silenced == 24
    assert found.biased_zeroed < found.before
    assert found.accuracy_before == pytest.approx(0.86, abs=5e-4)
