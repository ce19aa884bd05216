"""Spread, cells, distance and striking pairs, against brute force and tables made by hand."""

from __future__ import annotations

from dataclasses import fields
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import fairprobe as fp
from fairprobe import datasets, networks
from fairprobe.arrays import Rows
from fairprobe.findings import Findings, Generation
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.table.generation import (
    cells,
    gsr,
    ms_per_1000_idis,
    seed_distance,
    spread,
    striking_pairs,
)
from tests.helpers import tiny_domain


def test_success_rate_and_speed_do_not_divide_by_zero() -> None:
    assert gsr(3, 12) == 0.25
    assert gsr(0, 0) == 0
    assert ms_per_1000_idis(2.0, 4000) == 500  # half a second for a thousand
    assert ms_per_1000_idis(2.0, 0) is None


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
    monkeypatch.setattr("fairprobe.table.generation.CANDIDATES", 2)
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
