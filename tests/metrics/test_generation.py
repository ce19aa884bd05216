"""Rates, diversity, people and pairs, against scipy, brute force and tables made by hand."""

from __future__ import annotations

from dataclasses import fields
from itertools import combinations
from math import inf, isnan

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import binomtest

import fairprobe as fp
from fairprobe import datasets, networks
from fairprobe.arrays import Rows
from fairprobe.errors import DataError
from fairprobe.findings import Findings, Generation
from fairprobe.metrics import (
    Rate,
    cells,
    coverage_rate,
    dm_rs,
    generation,
    generation_diversity,
    gsr,
    ms_per_1000_idis,
    pairs,
    people,
    seed_distance,
    spread,
    striking_pairs,
)
from fairprobe.models import Model, TorchModel
from fairprobe.schema.domain import Attribute, Constraint, Domain
from tests.helpers import blind, everybody, merit, planted, tiny_domain

# -- rates -----------------------------------------------------------------------------------------


@given(
    st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_the_interval_of_a_rate_is_the_exact_one(
    counts: tuple[int, int], confidence: float
) -> None:
    hits, samples = counts
    rate = Rate.of(hits, samples, confidence)
    exact = binomtest(hits, samples).proportion_ci(confidence_level=confidence, method="exact")
    assert rate.low == pytest.approx(exact.low, abs=1e-12)
    assert rate.high == pytest.approx(exact.high, abs=1e-12)
    assert rate.low <= rate.estimate <= rate.high
    assert rate.estimate == hits / samples


@pytest.mark.parametrize(
    ("hits", "samples", "low", "high"),
    [
        (0, 10, 0, 0.3085),
        (10, 10, 0.6915, 1),
        (1, 10, 0.0025, 0.4450),
        (5, 10, 0.1871, 0.8129),
        (0, 1, 0, 0.975),
        (0, 0, 0, 1),
    ],
)
def test_the_interval_of_a_rate_is_that_of_the_tables(
    hits: int, samples: int, low: float, high: float
) -> None:
    rate = Rate.of(hits, samples)
    assert [rate.low, rate.high] == pytest.approx([low, high], abs=1e-4)


def test_success_rate_and_speed_do_not_divide_by_zero() -> None:
    assert gsr(3, 12) == 0.25
    assert gsr(0, 0) == 0
    assert ms_per_1000_idis(2.0, 4000) == 500  # half a second for a thousand
    assert ms_per_1000_idis(2.0, 0) is None


def test_the_discrimination_rate_is_that_of_counting_the_whole_domain() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    merits = merit(domain, everybody(domain))
    truth = float(
        ((merits > 5.25) & (merits < 7.25)).mean()
    )  # the greatest merit is 15: the cut is 7.25, the bias 2
    assert truth == 0.2
    rate = dm_rs(domain, model, rng=np.random.default_rng(0), samples=20_000)
    assert rate.samples == 20_000
    assert rate.estimate == pytest.approx(truth, abs=0.01)
    assert rate.low < truth < rate.high


def test_the_interval_of_the_discrimination_rate_contains_the_truth_as_often_as_it_says() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    rates = [
        dm_rs(domain, model, rng=np.random.default_rng(seed), samples=200) for seed in range(200)
    ]
    covered = np.mean([rate.low <= 0.2 <= rate.high for rate in rates])
    assert covered >= 0.93  # at least 95 % are promised; two standard errors below
    assert np.mean([rate.estimate for rate in rates]) == pytest.approx(0.2, abs=0.006)


def test_the_discrimination_rate_of_a_blind_network_is_zero_and_of_a_mirror_one() -> None:
    domain = tiny_domain()
    assert (
        dm_rs(domain, TorchModel(blind(domain)), rng=np.random.default_rng(0), samples=2000).hits
        == 0
    )
    mirror = Model(lambda x: x[:, 1])
    rate = dm_rs(domain, mirror, rng=np.random.default_rng(0), samples=2000)
    assert (rate.hits, rate.estimate, rate.high) == (2000, 1, 1)


def test_more_samples_than_fit_at_once_are_all_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = tiny_domain()
    asked = []
    model = Model(lambda x: asked.append(len(x)) or x[:, 1])  # type: ignore[func-returns-value]
    monkeypatch.setattr(generation, "SAMPLES", 30)
    rate = dm_rs(domain, model, rng=np.random.default_rng(0), samples=100)
    assert rate == Rate.of(100, 100)
    assert asked == [60, 60, 60, 20]


def test_the_discrimination_rate_counts_only_people_who_can_exist() -> None:
    # Only people of little skill are treated unequally, and the constraint leaves a tenth of them.
    rule = Constraint(
        "skilled or diligent", lambda c: np.asarray((c["skill"] >= 5) | (c["effort"] == 5))
    )
    domain = Domain(tiny_domain().attributes, ("gender",), (rule,))
    model = Model(lambda x: np.where(x[:, 0] < 5, x[:, 1], 0.0))
    rate = dm_rs(domain, model, rng=np.random.default_rng(0), samples=20_000)
    assert rate.low < 1 / 6 < rate.high  # of 30 kinds of skill and effort, 5 × 5 + 5 × 1 may exist


# -- findings by hand ------------------------------------------------------------------------------


def findings_of(
    domain: Domain,
    x: Rows,
    *,
    gap: list[float] | None = None,
    plausibility: list[tuple[float | None, float | None]] | None = None,
) -> Findings:
    """Findings with these instances; the counterpart's sensitive values are the lowest ones."""
    n = len(x)
    columns = {name: x[:, place] for place, name in enumerate(domain.names)}
    columns |= {
        f"{name}_other": np.full(n, domain[name].low, dtype=np.float32) for name in domain.sensitive
    }
    columns |= {"label": np.ones(n, dtype=np.int32), "label_other": np.zeros(n, dtype=np.int32)}
    columns |= {
        "probability": np.full(n, 0.75, dtype=np.float32),
        "probability_other": np.full(n, 0.625, dtype=np.float32),
    }
    columns |= {
        "gap": np.array(gap if gap is not None else np.linspace(1, 0.5, n), dtype=np.float32)
    }
    columns |= {
        name: pa.array([each[side] for each in plausibility or [(None, None)] * n], pa.float32())
        for side, name in enumerate(("plausibility", "plausibility_other"))
    }
    table = pa.table({**columns, "phase": ["local"] * n, "origin": np.arange(n)})
    how = {
        field.name: {"str": "hand", "float": 1.0, "bool": False}.get(str(field.type), n)
        for field in fields(Generation)
    }
    return Findings(domain, Generation(**how), table=table)  # type: ignore[arg-type]


def mixed_domain() -> Domain:
    return Domain(
        (
            Attribute(name="age", low=1, high=9),
            Attribute(
                name="colour", kind="categorical", categories=("red", "green", "blue"), one_hot=True
            ),
            Attribute(name="share", kind="real", low=-0.5, high=1.5),
            Attribute(name="sex", high=1),
            Attribute(name="constant", low=4, high=4),
        ),
        ("sex",),
    )


def by_all_pairs(domain: Domain, x: Rows) -> float:
    total = []
    for one, other in combinations(x.astype(np.float64), 2):
        parts = []
        for column in domain.other_columns:
            attribute = domain.attributes[column]
            reach = max(attribute.high - attribute.low, 1e-12)
            difference = abs(one[column] - other[column])
            parts.append(float(difference > 0) if attribute.one_hot else difference / reach)
        total.append(np.mean(parts))
    return float(np.mean(total))


@pytest.mark.parametrize("n", [2, 3, 40])
def test_the_spread_is_the_mean_distance_over_all_pairs(n: int) -> None:
    domain = tiny_domain("gender")
    x = domain.sample(n, rng=np.random.default_rng(n))
    assert spread(findings_of(domain, x)) == pytest.approx(by_all_pairs(domain, x))


@pytest.mark.parametrize("n", [2, 40])
def test_the_spread_of_one_hot_and_real_attributes_is_the_mean_distance_over_all_pairs(
    n: int,
) -> None:
    domain = mixed_domain()
    x = domain.sample(n, rng=np.random.default_rng(n))
    assert spread(findings_of(domain, x)) == pytest.approx(
        by_all_pairs(domain, x), abs=1e-3
    )  # real values are binned


def test_the_spread_by_hand() -> None:
    domain = Domain(
        (
            Attribute(name="a", high=10),
            Attribute(name="b", low=1, high=3),
            Attribute(name="s", high=1),
        ),
        ("s",),
    )
    x = np.array([[0, 1, 0], [10, 3, 1], [5, 1, 1]], dtype=np.float32)
    # Pairs: (1 + 1) / 2, (0.5 + 0) / 2, (0.5 + 1) / 2; the sensitive attribute does not count.
    assert spread(findings_of(domain, x)) == pytest.approx((1 + 0.25 + 0.75) / 3)
    assert spread(findings_of(domain, x[:2])) == pytest.approx(1)  # as far apart as can be
    assert spread(findings_of(domain, x[[0, 0, 0]])) == 0
    assert spread(findings_of(domain, x[:1])) is None
    assert spread(findings_of(domain, x[:0])) is None
    seeds = np.array([[0, 1, 0], [0, 3, 0], [5, 3, 0]], dtype=np.float32)
    assert seed_distance(findings_of(domain, x), seeds) == pytest.approx((0 + 0.5 + 0.5) / 3)
    assert seed_distance(findings_of(domain, x), seeds[:2]) is None  # one came from elsewhere
    assert seed_distance(findings_of(domain, x[:0]), seeds) is None


def test_the_cells_by_hand() -> None:
    domain = Domain(
        (
            Attribute(name="a", high=7),  # quarters: 0–1, 2–3, 4–5, 6–7
            Attribute(name="b", low=1, high=3),  # three values, three parts
            Attribute(name="s", high=1),
        ),
        ("s",),
    )
    x = np.array(
        [[0, 1, 0], [1, 1, 1], [2, 1, 0], [3, 1, 0], [2, 2, 1], [7, 3, 0], [6, 3, 1], [6, 2, 1]],
        dtype=np.float32,
    )
    # Cells: (0, 0) twice, (1, 0) twice, (1, 1), (3, 2) twice, (3, 1).
    assert cells(findings_of(domain, x)) == 5 / 8
    assert cells(findings_of(domain, x[:2])) == 1 / 2  # a sensitive value makes no other cell
    assert cells(findings_of(domain, x[:1])) == 1
    assert cells(findings_of(domain, x[:0])) is None


def test_a_real_attribute_is_cut_into_quarters_of_its_range() -> None:
    domain = Domain(
        (Attribute(name="share", kind="real", low=-1, high=1), Attribute(name="s", high=1)), ("s",)
    )
    share = np.array([-1, -0.51, -0.5, -0.01, 0, 0.49, 0.5, 1], dtype=np.float32)
    x = np.stack([share, np.zeros_like(share)], axis=1)
    assert cells(findings_of(domain, x)) == 4 / 8


def test_cells_are_counted_among_findings_drawn_at_random() -> None:
    domain = tiny_domain("gender")
    found = findings_of(domain, domain.sample(60, rng=np.random.default_rng(1)))
    shares = {cells(found, drawn=10, seed=seed) for seed in range(20)}
    assert cells(found, drawn=10, seed=3) == cells(found, drawn=10, seed=3)
    assert len(shares) > 1
    assert all(share is not None and 1 <= share * 10 <= 10 for share in shares)
    assert cells(found, drawn=60) == cells(found)


def test_cells_show_a_concentration_that_the_spread_misses() -> None:
    domain = Domain(
        (*(Attribute(name=f"a{i}", high=15) for i in range(8)), Attribute(name="s", high=1)), ("s",)
    )
    rng = np.random.default_rng(5)
    crowds = domain.sample(100, rng=rng)[rng.integers(0, 100, 2000)]
    crowds[:, 0] = rng.integers(0, 16, 2000)
    everywhere, crowded = (findings_of(domain, x) for x in (domain.sample(2000, rng=rng), crowds))
    assert spread(crowded) == pytest.approx(spread(everywhere), rel=0.05)
    assert (cells(everywhere) or 0) > 0.95
    assert (cells(crowded) or 1) < 0.25


# -- coverage and diversity ------------------------------------------------------------------------


@given(
    seed=st.integers(0, 10**6),
    of=st.integers(1, 30),
    by=st.integers(1, 30),
    radius=st.sampled_from([0.001, 0.01, 0.05, 0.1, 0.3, 0.9]),
)
def test_the_coverage_rate_is_that_of_all_cosine_distances(
    seed: int, of: int, by: int, radius: float
) -> None:
    rng = np.random.default_rng(seed)
    one, other = (rng.integers(1, 10, (n, 4)).astype(np.float32) for n in (of, by))
    distances = cdist(one.astype(np.float64), other.astype(np.float64), metric="cosine")
    if np.abs(distances - radius).min() > 1e-12:
        assert coverage_rate(one, other, radius) == pytest.approx(
            float((distances.min(axis=1) <= radius).mean())
        )


def test_the_coverage_rate_by_hand() -> None:
    of = np.array([[1, 0], [1, 1], [0, 1], [-1, 0]], dtype=np.float32)
    by = np.array([[2, 0]], dtype=np.float32)
    # Cosine distances: 0, 1 − 1/√2 = 0.293, 1, 2; the length of a row does not matter.
    assert [coverage_rate(of, by, radius) for radius in (0.1, 0.3, 1.1, 2.1)] == [
        0.25,
        0.5,
        0.75,
        1,
    ]


def test_large_sets_are_compared_in_parts_with_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    one, other = (
        rng.normal(size=(50, 3)).astype(np.float32),
        rng.normal(size=(20, 3)).astype(np.float32),
    )
    whole = coverage_rate(one, other, 0.05)
    monkeypatch.setattr(generation, "PAIRS_AT_ONCE", 45)
    assert coverage_rate(one, other, 0.05) == whole
    assert 0 < whole < 1


def test_every_row_covers_itself_at_any_radius() -> None:
    x = np.random.default_rng(0).integers(1, 100, (200, 13)).astype(np.float32)
    assert coverage_rate(x, x, 1e-9) == 1
    assert coverage_rate(x, x, 0.0) == 1


def test_a_row_of_zeros_is_at_distance_one_from_all() -> None:
    zeros, ones = np.zeros((1, 3), dtype=np.float32), np.ones((1, 3), dtype=np.float32)
    assert coverage_rate(zeros, ones, 0.99) == 0
    assert coverage_rate(ones, zeros, 0.99) == 0
    assert coverage_rate(zeros, ones, 1.01) == 1


def test_nothing_covers_nothing_and_the_coverage_of_nothing_is_not_defined() -> None:
    x = np.ones((3, 2), dtype=np.float32)
    assert coverage_rate(x, x[:0], 0.5) == 0
    with pytest.raises(DataError, match="the first set is empty"):
        coverage_rate(x[:0], x, 0.5)
    with pytest.raises(DataError, match="empty"):
        generation_diversity(x[:0], x, 0.5)


def test_the_diversity_is_the_share_we_reach_of_theirs_over_the_share_they_reach_of_ours() -> None:
    ours = np.array([[1, 0], [1, 1], [0, 1]], dtype=np.float32)
    theirs = np.array([[1, 0], [2, 0.01]], dtype=np.float32)
    # We reach both of theirs; they reach one of our three.
    assert generation_diversity(ours, theirs, 0.01) == pytest.approx(3)
    assert generation_diversity(theirs, ours, 0.01) == pytest.approx(1 / 3)
    assert generation_diversity(ours, ours, 0.01) == 1


def test_the_diversity_of_sets_that_do_not_reach_each_other_is_not_a_number() -> None:
    east, north = np.array([[1, 0]], dtype=np.float32), np.array([[0, 1]], dtype=np.float32)
    assert isnan(generation_diversity(east, north, 0.1))


def test_the_diversity_is_never_infinite_because_reaching_is_mutual() -> None:
    rng = np.random.default_rng(1)
    for radius in (0.001, 0.01, 0.1):
        value = generation_diversity(
            rng.normal(size=(5, 3)).astype(np.float32),
            rng.normal(size=(9, 3)).astype(np.float32),
            radius,
        )
        assert isnan(value) or 0 < value < inf


# -- people ----------------------------------------------------------------------------------------
#
# Everybody in department a is judged by gender alone; in b nobody is; c is small, and treated like
# a; in d (one person) too.

DEPARTMENTS = Domain(
    (
        Attribute(name="department", kind="categorical", categories=("a", "b", "c", "d")),
        Attribute(name="gender", kind="categorical", categories=("female", "male")),
        Attribute(name="years", low=0, high=99),
    ),
    ("gender",),
)


def staff() -> Rows:
    def team(department: int, women: int, men: int) -> list[tuple[int, int, int]]:
        return [(department, 0, 1)] * women + [(department, 1, 1)] * men

    return np.array(
        [*team(0, 40, 20), *team(1, 50, 50), *team(2, 5, 5), *team(3, 1, 0)], dtype=np.float32
    )


def plain(rate: Rate) -> Rate:
    return Rate(**{name: getattr(rate, name) for name in Rate.__struct_fields__})


def boss() -> Model:
    return Model(lambda x: np.where(x[:, 0] == 1, 0.0, x[:, 1]))


def test_the_affected_people_are_counted_altogether_and_for_each_sensitive_value() -> None:
    found = people(DEPARTMENTS, boss(), staff())
    assert plain(found) == Rate.of(71, 171)
    assert [(group.attribute, group.value, plain(group)) for group in found.values] == [
        ("gender", "female", Rate.of(46, 96)),
        ("gender", "male", Rate.of(25, 75)),
    ]
    assert found.absent == []


def test_the_groups_are_those_clearly_above_average_and_small_ones_are_left_out() -> None:
    found = people(DEPARTMENTS, boss(), staff())
    # b is never affected; c and d are, but have 10 people and 1; years = 1 for all is just the
    # average.
    assert [(group.attribute, group.value, plain(group)) for group in found.groups] == [
        ("department", "a", Rate.of(60, 60, 1 - 0.05 / 3))
    ]
    # Three groups have fifty people or more, and their intervals hold together.
    assert found.groups_compared == 3


def test_the_advantage_is_how_often_each_value_brings_the_favourable_answer_to_the_affected() -> (
    None
):
    found = people(DEPARTMENTS, boss(), staff(), favourable=1)
    assert [(advantage.value, advantage.share) for advantage in found.advantages] == [
        ("male", 1),
        ("female", 0),
    ]
    other = people(DEPARTMENTS, boss(), staff(), favourable=0)
    assert [(advantage.value, advantage.share) for advantage in other.advantages] == [
        ("female", 1),
        ("male", 0),
    ]
    assert people(DEPARTMENTS, boss(), staff()).advantages == []


def test_people_whose_sensitive_value_is_not_known_are_left_out() -> None:
    x = staff()
    x[0, 1] = 7
    x[1, 2] = 500
    found = people(DEPARTMENTS, boss(), x)
    assert plain(found) == Rate.of(70, 170)


def test_sensitive_values_that_nobody_has_are_named() -> None:
    x = staff()
    found = people(DEPARTMENTS, boss(), x[x[:, 1] == 0])
    assert [group.value for group in found.values] == ["female"]
    assert found.absent == ["male"]


def test_an_attribute_of_many_values_is_divided_into_quarters() -> None:
    # Years 0 … 99, each twice; those of 75 years and more are judged by gender.
    x = np.array([[1, s, years] for years in range(100) for s in (0, 1)] * 2, dtype=np.float32)
    model = Model(lambda x: np.where(x[:, 2] >= 75, x[:, 1], 0.0))
    found = people(DEPARTMENTS, model, x)
    assert plain(found) == Rate.of(100, 400)
    assert [(group.attribute, group.value, plain(group)) for group in found.groups] == [
        ("years", "75 to 99", Rate.of(100, 100, 1 - 0.05 / 5))
    ]


def test_a_group_needs_fifty_people() -> None:
    def groups(size: int) -> list[str]:
        x = np.array([(0, n % 2, 1) for n in range(size)] + [(1, 0, 1)] * 100, dtype=np.float32)
        return [group.value for group in people(DEPARTMENTS, boss(), x).groups]

    assert groups(49) == []
    assert groups(50) == ["a"]


def test_the_groups_are_ordered_by_what_is_certain_about_them() -> None:
    # Of a 60 people are all affected, of c 950 of 1,000: fewer in a hundred, but more for certain;
    # of d 20 of 50, near the average of 0.31.
    x = np.array(
        [(0, 0, 1)] * 60
        + [(2, 0, 1)] * 950
        + [(2, 0, 2)] * 50
        + [(3, 0, 1)] * 20
        + [(3, 0, 2)] * 30
        + [(1, 0, 3)] * 2200
    )
    model = Model(
        lambda x: np.where((x[:, 0] == 1) | ((x[:, 0] >= 2) & (x[:, 2] == 2)), 0.0, x[:, 1])
    )
    found = people(DEPARTMENTS, model, x.astype(np.float32))
    assert plain(found) == Rate.of(1030, 3310)
    assert [(group.value, group.hits, group.samples) for group in found.groups] == [
        ("1", 1030, 1030),
        ("c", 950, 1000),  # at least 0.93, corrected for 7 groups
        ("a", 60, 60),  # at least 0.91
    ]
    assert [group.low for group in found.groups] == sorted(
        (group.low for group in found.groups), reverse=True
    )
    assert Rate.of(20, 50).estimate > found.estimate > Rate.of(20, 50).low  # so d is not among them


def test_nobody_at_all_is_no_error() -> None:
    for x in (staff()[:0], np.array([[0, 9, 1]], dtype=np.float32)):
        found = people(DEPARTMENTS, boss(), x, favourable=1)
        assert plain(found) == Rate.of(0, 0)
        assert (found.values, found.groups, found.advantages) == ([], [], [])
        assert found.absent == ["female", "male"]


def test_a_blind_network_affects_nobody() -> None:
    found = people(DEPARTMENTS, TorchModel(blind(DEPARTMENTS)), staff(), favourable=1)
    assert plain(found) == Rate.of(0, 171)
    assert found.groups == []
    assert found.advantages == []


# -- striking pairs --------------------------------------------------------------------------------


def line_domain() -> Domain:
    return Domain((Attribute(name="a", high=100), Attribute(name="s", high=1)), ("s",))


def on_a_line(*places: int) -> Rows:
    return np.array([[place, 1] for place in places], dtype=np.float32).reshape(-1, 2)


def test_the_striking_pairs_start_with_the_widest_gap_and_lie_far_apart() -> None:
    found = findings_of(line_domain(), on_a_line(1, 50, 0, 100, 51), gap=[0.9, 0.8, 0.7, 0.6, 0.5])
    # First the widest gap (at 1); the farthest from it is 100; 50 and 51 are as far from both, and
    # 50 has the wider gap.
    assert [int(pair.x[0]) for pair in striking_pairs(found, 3)] == [1, 50, 100]
    assert [round(pair.gap, 3) for pair in striking_pairs(found, 3)] == [0.9, 0.8, 0.6]
    assert len(striking_pairs(found, 10)) == 5


def test_a_pair_carries_everything_about_the_finding() -> None:
    (pair,) = striking_pairs(findings_of(line_domain(), on_a_line(7), gap=[0.25]), 6)
    assert pair.x.tolist() == [7, 1]
    assert pair.x_other.tolist() == [7, 0]
    assert (pair.label, pair.label_other, pair.probability, pair.probability_other, pair.gap) == (
        1,
        0,
        0.75,
        0.625,
        0.25,
    )
    assert (pair.phase, pair.origin) == ("local", 0)


def test_only_the_findings_with_the_widest_gaps_are_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "CANDIDATES", 2)
    found = findings_of(line_domain(), on_a_line(0, 100, 3, 5), gap=[0.1, 0.2, 0.9, 0.8])
    assert [int(pair.x[0]) for pair in striking_pairs(found, 4)] == [3, 5]


def test_no_more_pairs_than_asked_for_and_no_person_twice() -> None:
    assert striking_pairs(findings_of(line_domain(), on_a_line()), 3) == []
    assert len(striking_pairs(findings_of(line_domain(), on_a_line(4, 4, 4)), 3)) == 1
    for count in (0, 1, 2):
        assert len(striking_pairs(findings_of(line_domain(), on_a_line(4, 5, 6)), count)) == count


def test_an_unlikely_person_counts_for_less_and_the_clearest_pair_comes_first() -> None:
    # The value of a pair: 0.9 × 4 × 0.1 = 0.36; 0.5 (both are usual); 0.8 × 4 × 0.2 = 0.64, because
    # the other side is unusual; 0.7 where nothing is known.
    found = findings_of(
        line_domain(),
        on_a_line(0, 30, 60, 90),
        gap=[0.9, 0.5, 0.8, 0.7],
        plausibility=[(0.1, 0.9), (0.3, 0.9), (0.9, 0.2), (None, None)],
    )
    shown = striking_pairs(found, 4)
    assert [int(pair.x[0]) for pair in shown] == [90, 60, 30, 0]
    assert [(pair.plausibility, pair.plausibility_other) for pair in shown[:2]] == [
        (None, None),
        (pytest.approx(0.9), pytest.approx(0.2)),
    ]


def test_nobody_equal_to_a_record_is_shown_unless_records_are_asked_for() -> None:
    found = findings_of(line_domain(), on_a_line(0, 50, 100), gap=[0.9, 0.8, 0.7])
    # Whatever their sensitive value, and however many there are of them.
    records = np.array([[0, 0]] + [[100, 1]] * 9, dtype=np.float32)
    assert [int(pair.x[0]) for pair in striking_pairs(found, records=records)] == [50]
    every = striking_pairs(found, records=records, show_records=True)
    assert [(int(pair.x[0]), pair.is_record) for pair in every] == [
        (0, True),
        (50, False),
        (100, True),
    ]


def test_nobody_in_the_data_is_shown_as_a_pair() -> None:
    data = datasets.german().with_sensitive("gender")
    audit = fp.audit(
        data,
        networks.train(networks.dense(data.domain, (8,), seed=0), data, seed=0),
        "gender",
        people="possible",
        budget=fp.Budget(seeds=300, global_iterations=2, local_iterations=1),
        samples=500,
    )
    records = data.domain.key(data.domain.clip(data.x))
    found = data.domain.key(audit.findings.x)
    shown = data.domain.key(np.stack([pair.x for pair in audit.pairs]))
    assert np.isin(found, records).any()
    assert not np.isin(shown, records).any()
