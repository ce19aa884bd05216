"""Individual fairness rates against scipy, the judge, and tables worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import binomtest

from fairprobe.arrays import Floats, Rows
from fairprobe.documents.people import IFR
from fairprobe.errors import DataError, DomainError, ModelError, SettingError
from fairprobe.judgement import TIE, judge
from fairprobe.metrics import (
    boundary_tau,
    ifr_b,
    ifr_p,
    individual,
    individual_fairness,
    js,
    over_tau,
)
from fairprobe.metrics.individual import Over
from fairprobe.models import Model, TorchModel
from fairprobe.schema.domain import Attribute, Constraint, Domain
from tests.helpers import blind, everybody, planted, tiny_domain


def binary(*favourable: float) -> Floats:
    """(N, 2) from the probabilities of class 1."""
    p = np.array(favourable)
    return np.stack([1 - p, p], axis=1)


def distributions(classes: int, rows: int) -> st.SearchStrategy[Floats]:
    weights = st.lists(
        st.one_of(st.just(0.0), st.floats(1e-9, 1)), min_size=classes, max_size=classes
    ).filter(lambda row: sum(row) > 0)
    return st.lists(weights, min_size=rows, max_size=rows).map(
        lambda table: np.array(table) / np.sum(table, axis=1, keepdims=True)
    )


PAIRS = st.tuples(st.integers(2, 4), st.integers(1, 8)).flatmap(
    lambda size: st.tuples(distributions(*size), distributions(*size))
)


def table_domain(kinds: int, values: int, *constraints: Constraint) -> Domain:
    return Domain(
        (Attribute(name="kind", high=kinds - 1), Attribute(name="s", high=values - 1)),
        ("s",),
        constraints,
    )


def from_table(table: Any) -> Model:
    """A model that looks its answer up: table[kind][s] is the probability of class 1, or of every
    class.
    """
    answers = np.array(table, dtype=np.float64)
    return Model(lambda x: answers[x[:, 0].astype(int), x[:, 1].astype(int)])


def numbers(result: IFR) -> tuple[float, float, float]:
    assert result.estimate is not None
    assert result.low is not None
    assert result.high is not None
    return result.estimate, result.low, result.high


# -- the divergence --------------------------------------------------------------------------------


def test_the_worked_example_of_the_paper_is_in_nats() -> None:
    p, q = binary(0.47), binary(0.52)
    assert js(p, q)[0] == pytest.approx(0.0013, abs=5e-5)
    assert js(p, q, base="bits")[0] == pytest.approx(0.0018, abs=5e-5)


@given(PAIRS)
def test_the_divergence_is_that_of_scipy(tables: tuple[Floats, Floats]) -> None:
    p, q = tables
    assert js(p, q) == pytest.approx(jensenshannon(p, q, axis=1) ** 2, abs=1e-12)
    assert js(p, q, base="bits") == pytest.approx(
        jensenshannon(p, q, base=2, axis=1) ** 2, abs=1e-12
    )


@given(PAIRS)
def test_the_divergence_is_symmetric_and_bounded(tables: tuple[Floats, Floats]) -> None:
    p, q = tables
    np.testing.assert_allclose(js(p, q), js(q, p), atol=1e-15)
    assert ((js(p, q) >= 0) & (js(p, q) <= log(2))).all()
    assert (js(p, q, base="bits") <= 1).all()
    assert (js(p, p) == 0).all()


def test_zeros_are_exact() -> None:
    assert js(binary(0, 1, 0), binary(1, 1, 0)).tolist() == [log(2), 0, 0]
    assert js(binary(0), binary(1), base="bits")[0] == 1
    tiny = np.array([[1.0, 5e-324]])
    assert js(tiny, binary(0))[0] == 0
    assert js(binary(0, 1).astype(np.float32), binary(0, 1)).tolist() == [0, 0]
    assert js(np.empty((0, 2)), np.empty((0, 2))).shape == (0,)


# -- rates from probabilities ----------------------------------------------------------------------


def test_the_rates_of_four_pairs_by_hand() -> None:
    p, q = (
        binary(0.47, 0.9, 0.9, 0.2),
        binary(0.52, 0.8, 0.9001, 0.2),
    )  # a flip; far apart; near; equal
    b, fair = ifr_b(p, q), ifr_p(p, q)
    assert (b.estimate, b.samples, b.pairs) == (0.75, 4, 4)
    assert (fair.estimate, fair.samples, fair.pairs) == (0.5, 4, 4)
    exact = binomtest(3, 4).proportion_ci(method="exact")
    assert [b.low, b.high] == pytest.approx([exact.low, exact.high])


@given(PAIRS, st.floats(0, 0.7), st.floats(0, 0.7), st.sampled_from(["nats", "bits"]))
def test_fair_by_probability_is_fair_by_label_and_more(
    tables: tuple[Floats, Floats], one: float, other: float, base: Any
) -> None:
    p, q = tables
    strict, loose = (
        ifr_p(p, q, tau=min(one, other), base=base),
        ifr_p(p, q, tau=max(one, other), base=base),
    )
    b = ifr_b(p, q)
    assert numbers(strict)[0] <= numbers(loose)[0] <= numbers(b)[0]
    assert ifr_p(p, q, tau=1, base=base) == b


def test_a_tie_is_no_evidence_of_a_difference() -> None:
    within, beyond = 0.5 + 0.4 * TIE, 0.5 + 0.6 * TIE  # leads of .8 and 1.2 TIE
    assert ifr_b(binary(within), binary(0.1)).estimate == 1
    assert ifr_b(binary(0.1), binary(within)).estimate == 1
    assert ifr_b(binary(0.1), binary(beyond)).estimate == 0


def test_several_counterparts_count_as_pairs_and_those_denied_do_not() -> None:
    p = binary(0.9, 0.9, 0.1)
    others = np.stack([binary(0.9, 0.1, 0.1), binary(0.1, 0.1, 0.1)], axis=1)
    b = ifr_b(p, others)
    assert (b.estimate, b.samples, b.pairs) == (0.5, 3, 6)
    allowed = np.array([[True, False], [True, True], [False, False]])
    b = ifr_b(p, others, allowed=allowed)
    assert b.estimate == pytest.approx(1 / 3)
    assert (b.samples, b.pairs) == (2, 3)
    one_each = ifr_b(p, others, allowed=np.array([[True, False], [False, True], [False, True]]))
    exact = binomtest(2, 3).proportion_ci(method="exact")
    assert numbers(one_each) == pytest.approx((2 / 3, exact.low, exact.high))
    assert ifr_b(p, others[:, 0], allowed=np.array([True, True, False])).samples == 2


def test_the_pairs_of_a_person_hang_together() -> None:
    rng = np.random.default_rng(0)
    is_fair = (
        rng.random(400) < 0.7
    )  # all nine pairs of a person are alike: nine times the pairs, no more evidence
    p = binary(*np.full(400, 0.9))
    others = np.repeat(binary(*np.where(is_fair, 0.9, 0.1))[:, None], 9, axis=1)
    estimate, low, high = numbers(ifr_b(p, others))
    once = numbers(ifr_b(p, others[:, 0]))
    assert estimate == once[0] == is_fair.mean()
    assert [low, high] == pytest.approx(once[1:], abs=0.01)


def test_the_interval_over_several_pairs_is_that_of_drawing_people() -> None:
    rng = np.random.default_rng(0)
    same = rng.random((300, 4)) < rng.random((300, 1))
    _, low, high = numbers(
        ifr_b(binary(*np.full(300, 0.9)), np.where(same[..., None], binary(0.9), binary(0.1)))
    )
    drawn = same.mean(axis=1)[rng.integers(0, 300, (4000, 300))].mean(axis=1)
    assert [low, high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.006)


def test_when_all_pairs_are_fair_the_interval_is_that_of_the_people() -> None:
    p = binary(*np.full(20, 0.9))
    exact = binomtest(20, 20).proportion_ci(method="exact")
    assert numbers(ifr_b(p, np.repeat(p[:, None], 3, axis=1))) == pytest.approx((1, exact.low, 1))
    unfair = ifr_b(p, np.repeat(1 - p[:, None], 3, axis=1))
    assert numbers(unfair) == pytest.approx((0, 0, 1 - exact.low))


def test_groups_have_their_own_rates() -> None:
    p, q = binary(0.9, 0.9, 0.9, 0.9), binary(0.9, 0.1, 0.9, 0.1)
    b = ifr_b(p, q, sensitive_features=["f", "f", "m", None])
    assert [(group.name, group.estimate, group.samples) for group in b.groups] == [
        ("f", 0.5, 2),
        ("m", 1, 1),
    ]
    assert b.samples == 4
    assert ifr_b(p, q).groups == []
    assert ifr_p(p, q, sensitive_features=np.array([0, 0, 1, 1])).groups[0].estimate == 0.5


def test_of_nobody_nothing_is_known() -> None:
    nobody = IFR(estimate=None, low=None, high=None, samples=0, pairs=0, confidence=0.95)
    assert (
        ifr_b(np.empty((0, 2)), np.empty((0, 2)))
        == ifr_p(np.empty((0, 2)), np.empty((0, 3, 2)))
        == nobody
    )
    assert ifr_b(binary(0.5), binary(0.5), allowed=np.array([[False]])) == nobody


# -- a model on data -------------------------------------------------------------------------------


@pytest.mark.parametrize("sensitive", [("gender",), ("race",), ("gender", "race")])
def test_over_people_the_rate_is_what_the_judge_leaves(sensitive: tuple[str, ...]) -> None:
    domain = tiny_domain(*sensitive)
    model, x = TorchModel(planted(domain)), everybody(domain)
    found = judge(domain, model, x).is_discriminatory
    result = individual_fairness(domain, model, x, over="people")
    assert result.b.estimate == (~found).mean()
    assert result.b.samples == len(x)
    assert result.b.pairs == len(x) * (domain.value_count - 1)
    own = domain.own_value(x)
    assert [group.name for group in result.b.groups] == [
        domain.describe_value(v) for v in range(domain.value_count)
    ]
    for value, group in enumerate(result.b.groups):
        assert group.estimate == (~found[own == value]).mean()
    assert numbers(result.p)[0] <= numbers(result.b)[0]


TIES = st.sampled_from([0.1, 0.4, 0.5, 0.5 + 0.4 * TIE, 0.5 - 0.4 * TIE, 0.5 + 0.6 * TIE, 0.6, 0.9])


@given(
    st.lists(st.lists(TIES, min_size=3, max_size=3), min_size=1, max_size=5),
    st.sets(st.tuples(st.integers(0, 4), st.integers(0, 2))),
)
def test_ties_and_constraints_are_those_of_the_judge(
    table: list[list[float]], denied: set[tuple[int, int]]
) -> None:
    def holds(columns: Mapping[str, Rows]) -> Any:
        return np.array(
            [
                (int(kind), int(s)) not in denied
                for kind, s in zip(columns["kind"], columns["s"], strict=True)
            ],
            dtype=bool,
        )

    for constraints in ((), (Constraint("may be", holds),)):
        domain = table_domain(len(table) + 1, 3, *constraints)
        model = from_table([*table, [0.9, 0.9, 0.9]])
        x = everybody(domain)
        people = individual_fairness(domain, model, x, over="people")
        verdict = judge(domain, model, x)
        paired = verdict.has_counterpart
        rate = 1 - verdict.is_discriminatory[paired].mean() if paired.any() else None
        assert people.b.estimate == pytest.approx(rate, abs=1e-15)
        assert people.b.samples == paired.sum()
        assert not verdict.is_discriminatory[~paired].any()
        pairs = individual_fairness(domain, model, x)
        assert pairs.b.pairs == people.b.pairs
        p = model.probabilities(domain.counterparts(x).reshape(-1, 2)).reshape(len(x), 3, 2)
        own = domain.own_value(x)
        allowed = domain.satisfies(domain.counterparts(x).reshape(-1, 2)).reshape(len(x), 3)
        allowed = (
            allowed & allowed[np.arange(len(x)), own][:, None] & (own[:, None] != np.arange(3))
        )
        direct = ifr_p(p[np.arange(len(x)), own], p, allowed=allowed)
        assert (direct.estimate, direct.low, direct.high) == (
            pairs.p.estimate,
            pairs.p.low,
            pairs.p.high,
        )


@given(st.lists(st.tuples(TIES, TIES), min_size=1, max_size=6))
def test_one_counterpart_is_unfair_exactly_where_the_judge_says_so(
    table: list[tuple[float, float]],
) -> None:
    domain = table_domain(len(table) + 1, 2)
    model, x = from_table([*table, (0.9, 0.9)]), everybody(domain)
    found = judge(domain, model, x).is_discriminatory
    p = model.probabilities(x)
    other = x.copy()
    other[:, 1] = 1 - x[:, 1]
    assert ifr_b(p, model.probabilities(other)).estimate == (~found).mean()


def test_for_a_binary_attribute_pairs_and_people_are_the_same() -> None:
    domain = tiny_domain()
    model, x = TorchModel(planted(domain)), everybody(domain)
    pairs, people = (
        individual_fairness(domain, model, x, over=over) for over in ("pairs", "people")
    )
    assert (pairs.b, pairs.p) == (people.b, people.p)
    assert (pairs.over, people.over) == ("pairs", "people")
    assert pairs.b.estimate == 0.8  # 20 % are discriminatory by design
    assert [group.name for group in pairs.b.groups] == ["female", "male"]


def test_three_values_by_hand() -> None:
    domain = table_domain(2, 3)
    model = from_table([[0.9, 0.9, 0.1], [0.9, 0.9, 0.8]])
    x = everybody(domain)
    pairs, people = (
        individual_fairness(domain, model, x),
        individual_fairness(domain, model, x, over="people"),
    )
    assert pairs.b.estimate == pytest.approx(
        8 / 12
    )  # of kind 0, only the first two values agree with each other
    assert pairs.b.pairs == 12
    assert (people.b.estimate, people.b.samples) == (0.5, 6)
    one = [
        individual_fairness(domain, model, x, over="single", rng=np.random.default_rng(draw)).b
        for draw in range(200)
    ]
    assert {each.pairs for each in one} == {6}  # the paper's t', one for each person
    assert np.mean([each.estimate for each in one]) == pytest.approx(8 / 12, abs=0.03)
    for wrong in ({"over": "single"}, {"rng": np.random.default_rng(0)}):
        with pytest.raises(SettingError, match="needs a generator"):
            individual_fairness(domain, model, x, **wrong)
    assert pairs.p.estimate == pytest.approx(4 / 12)  # .9 and .8 lie farther apart than τ
    assert people.p.estimate == 0
    assert individual_fairness(domain, model, x, tau=1).p == pairs.b
    assert [group.estimate for group in pairs.p.groups] == pytest.approx([2 / 4, 2 / 4, 0])


def test_tau_is_the_divergence_at_the_decision_boundary() -> None:
    by_hand = float(js(binary(0.525), binary(0.475))[0])
    assert boundary_tau() == by_hand == pytest.approx(0.00125, abs=1e-5)
    domain = table_domain(2, 2)
    model, x = from_table([[0.51, 0.54], [0.9, 0.6]]), everybody(domain)
    rates = [each.p.estimate for each in over_tau(domain, model, x, (0, boundary_tau(), 1))]
    assert rates == [0, 0.5, 1]
    with pytest.raises(SettingError, match="from 0 to 1; got 2"):
        boundary_tau(2)


def test_several_taus_give_what_each_gives_alone_and_ask_the_model_once() -> None:
    domain, asked = table_domain(3, 4), []
    answers = np.random.default_rng(0).uniform(0, 1, (3, 4))

    def ask(x: Any) -> Any:
        asked.append(len(x))
        return answers[x[:, 0].astype(int), x[:, 1].astype(int)]

    model, x, taus = Model(ask), everybody(domain), [0.01, 0.0, 0.1, 0.001]
    over: Over
    for over in ("pairs", "people"):
        alone = [individual_fairness(domain, model, x, tau=tau, over=over) for tau in taus]
        each = len(asked) / len(taus)
        asked.clear()
        together = individual_fairness(domain, model, x, tau=taus, over=over)
        assert len(asked) == each
        asked.clear()
        assert [(rate.tau, (rate.estimate, rate.low, rate.high)) for rate in together.by_tau] == [
            (one.tau, numbers(one.p)) for one in alone
        ]
        assert (together.p, together.tau, together.b) == (alone[0].p, 0.01, alone[0].b)
        assert len({one.p.estimate for one in alone}) > 1  # the thresholds do differ
    for wrong, said in (([], "at least one tau"), ([0.1, 0.1], "given once"), ([1, -1], "is -1")):
        with pytest.raises(SettingError, match=said):
            individual_fairness(domain, model, x, tau=wrong)


def test_a_blind_model_is_fair_to_all() -> None:
    domain = tiny_domain("gender", "race")
    result = individual_fairness(domain, TorchModel(blind(domain)), everybody(domain))
    assert result.b.estimate == result.p.estimate == 1


def test_memory_stays_flat_and_the_parts_make_the_same_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domain = tiny_domain("race")
    asked = []

    def predict(x: Rows) -> Any:
        asked.append(len(x))
        return (x[:, 0] + x[:, 3]) / 12

    x = everybody(domain)
    whole = individual_fairness(domain, Model(predict), x)
    monkeypatch.setattr(individual, "ROWS_AT_ONCE", 30)
    asked.clear()
    assert individual_fairness(domain, Model(predict), x) == whole
    assert max(asked) == 30


def test_people_without_counterparts_are_counted_apart() -> None:
    domain = table_domain(1, 2)
    x = np.array([[0, 0], [0, 1], [0, 7]], dtype=np.float32)
    result = individual_fairness(domain, from_table([[0.2, 0.9]]), x)
    assert (result.left_out, result.b.samples, result.b.estimate) == (1, 2, 0)
    only_one = individual_fairness(domain, from_table([[0.2, 0.9]]), x[:1])
    assert [(group.name, group.samples) for group in only_one.b.groups] == [("0", 1), ("1", 0)]
    nobody = individual_fairness(domain, from_table([[0.2, 0.9]]), np.empty((0, 2)))
    assert nobody.b.estimate is None
    assert nobody.p.samples == 0


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        (binary(0.1, 0.2), binary(0.1), r"p has shape \(2, 2\) and .*\(1, 2\)"),
        (binary(0.1), np.array([[0.2, 0.3, 0.5]]), r"\(1, 3\)"),
        (
            binary(0.1, np.nan),
            binary(0.1, 0.1),
            r"Row 1 of p does not hold .*: \[nan, nan\]",
        ),
        (
            binary(0.1),
            np.array([[-3.0, 4.0]]),
            r"Row 0 of \w+ does not hold probabilities: \[-3\.0, 4\.0\]",
        ),
        (binary(0.1), np.zeros((1, 2)), "not all may be 0"),
        (
            np.array([0.1, 0.2]),
            np.array([0.1, 0.2]),
            r"p has shape \(2,\); expected a column for each class",
        ),
        (binary(0.1), [["a", "b"]], "must be a table of probabilities"),
    ],
)
def test_bad_probabilities_are_refused_with_the_reason(p: Any, q: Any, message: str) -> None:
    for metric in (js, ifr_b, ifr_p):
        with pytest.raises(DataError, match=message):
            metric(p, q)


def test_bad_settings_are_refused_with_the_reason() -> None:
    p = binary(0.1)
    for wrong in (-0.1, float("nan")):
        with pytest.raises(SettingError, match="`tau` is the greatest divergence"):
            ifr_p(p, p, tau=wrong)
    with pytest.raises(SettingError, match="`base` must be 'nats' or 'bits'"):
        js(p, p, base="e")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="`allowed` is"):
        ifr_b(p, p, allowed=np.array([[True, False]]))
    with pytest.raises(DataError, match=r"Row \(0, 1\) of p_other"):
        ifr_b(p, np.array([[[0.5, 0.5], [np.nan, 0.5]]]))
    with pytest.raises(DataError, match=r"expected \(rows, classes\)"):
        js(np.ones((1, 2, 2)), np.ones((1, 2, 2)))
    with pytest.raises(DataError, match=r"sensitive_features \(group\) has 2 values for 1 people"):
        ifr_b(p, p, sensitive_features=["a", "b"])


def test_bad_models_and_domains_are_refused_with_the_reason() -> None:
    domain = table_domain(1, 2)
    x = np.array([[0, 0]], dtype=np.float32)
    with pytest.raises(SettingError, match="`over` must be 'pairs', 'people' or 'single'"):
        individual_fairness(domain, from_table([[0.2, 0.9]]), x, over="rows")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="no probability for any class"):
        individual_fairness(domain, Model(lambda rows: np.zeros((len(rows), 2))), x)
    with pytest.raises(DomainError, match="No sensitive attribute is chosen"):
        individual_fairness(Domain(domain.attributes), from_table([[0.2, 0.9]]), x)
    with pytest.raises(DomainError, match="have shape"):
        individual_fairness(domain, from_table([[0.2, 0.9]]), np.zeros((1, 3)))


def test_one_person_with_several_pairs_says_little() -> None:
    """One of two pairs is fair: a bootstrap over one person would have no width."""
    found = ifr_b(np.array([[0.9, 0.1]]), np.array([[[0.8, 0.2], [0.1, 0.9]]]))
    assert found.estimate == 0.5
    assert found.low is not None
    assert found.high is not None
    assert (found.low < 0.2, found.high > 0.8) == (True, True)
