"""The verdict on a repair: what speaks against it, which setting is chosen, and what the controls
are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairprobe.datasets import Dataset
from fairprobe.errors import DomainError, ModelError, SettingError
from fairprobe.judgement import judge
from fairprobe.metrics import IFR, Estimate, Rate, dm_rs, fairness
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.networks import Training, dense, train
from fairprobe.repairs import Blind, Counterfactual, Measured, Proof, Retrain, prove, repair_named
from fairprobe.repairs.verdict import (
    OtherAttribute,
    Point,
    _marked,
    _Workshop,
    best_setting,
    is_harmed,
    objections,
)
from fairprobe.search import Budget, loop
from tests.helpers import blind, merit, planted, tiny_domain

SHORT = Training(learning_rate=0.02, batch=64, epochs=10, patience=None)
SMALL: dict[str, Any] = {"budget": Budget(seeds=30, local_iterations=20), "samples": 2000}


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Networks this small are faster on one core, much faster on a busy machine."""
    with one_thread():
        yield


def fair_data(n: int = 800) -> Dataset:
    domain = tiny_domain()
    x = domain.sample(n, rng=np.random.default_rng(0))
    return Dataset(
        "tiny",
        domain,
        x,
        (merit(domain, x) > 7).astype(np.int64),
        ("no", "yes"),
        favourable=1,
        protected=("gender", "race"),
    )


def biased_data() -> Dataset:
    """Some men who deserve a no get a yes, too few to make it worth while."""
    data = fair_data()
    unfair = TorchModel(planted(data.domain, bias=4.0, cut=7.25)).labels(data.x)
    some = np.random.default_rng(1).random(len(data)) < 0.6
    return replace(data, y=np.where(some, unfair, data.y))


# -- objections ------------------------------------------------------------------------------------


def ifr(estimate: float | None) -> IFR:
    return IFR(estimate, estimate, estimate, 100, 100)


def measured(
    *,
    right: int = 150,
    of: int = 200,
    hits: int = 100,
    b: float | None = 0.9,
    race: int = 100,
    dead: bool = False,
) -> Measured:
    """A network with this accuracy, these discriminatory people among 1000, and this IFR_b; `race`
    like `hits`, but not repaired.
    """
    nothing = Estimate(None, None, None, of)
    return Measured(
        accuracy=Rate(right, of),
        f1=nothing,
        mcc=nothing,
        selected=Rate(1, 2),
        ifr_b=ifr(b),
        ifr_p=ifr(b),
        dp=nothing,
        eo=(),
        people=Rate(hits, 1000),
        plausible=Rate(hits, 1000),
        dm_rs=Rate(hits, 1000),
        idis=1,
        tried=2,
        auc=0.5,
        auc_scale_free=0.5,
        others=(OtherAttribute("race", Rate(race, 1000), ifr(0.9)),),
        is_constant=dead,
    )


def against(
    before: Measured, after: Measured, *, drop: float = 0.02, harm: float = 1.3
) -> tuple[str, ...]:
    return objections(before, after, ("gender",), max_accuracy_drop=drop, max_harm=harm)


BEFORE = measured()


def test_nothing_speaks_against_a_repair_that_helps() -> None:
    assert against(BEFORE, measured(hits=10, b=0.99)) == ()


def test_a_fall_of_accuracy_is_told_beyond_the_limit_and_not_at_it() -> None:
    assert against(BEFORE, measured(right=146, hits=10)) == ()
    (said,) = against(BEFORE, measured(right=145, hits=10))
    assert said == "The repair costs 2.5 points of accuracy; 2.0 are allowed."
    assert against(BEFORE, measured(right=145, hits=10), drop=0.025) == ()
    assert against(BEFORE, measured(right=0, hits=10), drop=1.0) == ()


@given(st.integers(4, 200))
def test_a_fall_of_exactly_what_is_allowed_is_allowed_however_it_is_rounded(right: int) -> None:
    assert against(measured(right=right), measured(right=right - 4, hits=10)) == ()


def test_no_fall_at_all_may_be_asked_for() -> None:
    assert against(BEFORE, measured(hits=10), drop=0.0) == ()
    assert len(against(BEFORE, measured(right=149, hits=10), drop=0.0)) == 1


def test_a_network_that_died_is_refused_unless_it_was_dead_before() -> None:
    (said,) = against(BEFORE, measured(hits=0, b=1.0, dead=True))
    assert said == "The repaired network gives everybody the same answer; it decides nothing."
    assert against(measured(dead=True, hits=0), measured(dead=True, hits=0)) == ()


def test_a_repair_that_helps_nobody_is_refused() -> None:
    assert against(BEFORE, measured()) == (
        "The repair helps nobody: changing gender changes as many decisions as before.",
    )
    assert against(BEFORE, measured(hits=99)) == ()
    assert (
        against(BEFORE, measured(hits=100, b=0.91)) == ()
    )  # possible people fare as before, real ones better
    assert len(against(BEFORE, measured(hits=100, b=None))) == 1
    assert len(against(measured(b=None), measured(hits=101, b=0.95))) == 1


def test_where_there_was_nothing_to_repair_nobody_need_be_helped() -> None:
    assert against(measured(hits=0, b=1.0), measured(hits=0, b=1.0)) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (measured(hits=0, b=1.0), measured(hits=300, b=0.7)),
        (measured(hits=100, b=0.9), measured(hits=400, b=0.91)),
    ],
    ids=["from nothing", "while real people fare a little better"],
)
def test_a_repair_that_makes_its_own_attribute_worse_is_refused(
    before: Measured, after: Measured
) -> None:
    assert len(against(before, after)) == 1


def test_harm_by_another_attribute_is_told_with_its_numbers() -> None:
    (said,) = against(BEFORE, measured(hits=10, race=200))
    assert (
        said
        == "The repair makes discrimination by race worse: from 10 % to 20 % of possible people,"
        " more than 1.3 times as many."
    )
    assert against(BEFORE, measured(hits=10, race=200), harm=2.0) == ()  # exactly twice
    assert (
        against(BEFORE, measured(hits=10, race=131)) == ()
    )  # more than 1.3 times, but the intervals touch
    assert against(BEFORE, measured(hits=10, race=50)) == ()


def test_harm_is_beyond_chance_and_beyond_the_factor() -> None:
    was, now = Rate(100, 1000), Rate(150, 1000)
    assert now.low > was.high
    assert is_harmed(was, now, 1.3)
    assert not is_harmed(was, now, 1.5)
    assert not is_harmed(Rate(1, 10), Rate(3, 10), 1.3)
    assert is_harmed(Rate(0, 1000), Rate(10, 1000), 100.0)
    assert not is_harmed(Rate(0, 1000), Rate(0, 1000), 1.0)
    assert not is_harmed(Rate(0, 0), Rate(0, 0), 1.0)


def test_all_that_speaks_against_a_repair_is_said() -> None:
    assert len(against(BEFORE, measured(right=100, hits=200, b=0.5, race=500, dead=True))) == 4


# -- the trade-off ---------------------------------------------------------------------------------


def point(
    setting: float, right: int, p: float | None, *, hits: int = 10, dead: bool = False
) -> Point:
    return Point(
        setting=setting,
        accuracy=Rate(right, 100),
        ifr_b=ifr(p),
        ifr_p=ifr(p),
        dm_rs=Rate(hits, 1000),
        dp=Estimate(None, None, None, 100),
        is_constant=dead,
        is_best=False,
        is_chosen=False,
    )


def test_the_fairest_setting_that_is_accurate_enough_is_chosen() -> None:
    points = [
        point(0, 90, 0.99),
        point(1, 85, 0.7),
        point(2, 83, 0.8),
        point(3, 82, 0.95),
        point(4, 84, 1.0, dead=True),
    ]
    assert (
        best_setting(points, 0.85 - 0.02, own=1) == 2
    )  # 83 of 100 is exactly enough; 0 is no repair, 4 decides nothing
    assert best_setting(points, 0.80, own=1) == 3
    assert best_setting(points, 0.95, own=2.5) == 2.5
    assert best_setting([], 0.0, own=7) == 7


def test_a_tie_is_decided_by_possible_people_and_no_rate_is_the_worst() -> None:
    assert best_setting([point(1, 80, 0.9, hits=30), point(2, 80, 0.9, hits=20)], 0.5, own=1) == 2
    assert best_setting([point(1, 80, None, hits=0), point(2, 80, 0.1, hits=20)], 0.5, own=1) == 2
    assert best_setting([point(1, 80, None), point(2, 80, None)], 0.5, own=2) == 1


def test_the_best_trade_offs_are_those_that_no_other_beats() -> None:
    points = [
        point(0, 90, 0.5),  # the most accurate
        point(1, 85, 0.9),  # between
        point(2, 85, 0.9),  # the same: neither beats the other
        point(3, 85, 0.8),  # beaten by 1
        point(4, 80, 0.9),  # beaten by 1
        point(5, 70, 1.0),  # the fairest
        point(6, 99, 1.0, dead=True),  # decides nothing, and beats nobody
        point(7, 60, None),  # beaten by all
    ]
    marked = _marked(points, 3)
    assert [each.setting for each in marked if each.is_best] == [0, 1, 2, 5]
    assert [each.setting for each in marked if each.is_chosen] == [3]
    assert [each.setting for each in _marked([point(1, 50, None)], 9) if each.is_best] == [1]


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 5)), st.booleans()),
        max_size=8,
    )
)
def test_every_living_point_is_best_or_beaten_by_a_best_one(
    drawn: list[tuple[int, int | None, bool]],
) -> None:
    points = [
        point(n, right, None if p is None else p / 5, dead=dead)
        for n, (right, p, dead) in enumerate(drawn)
    ]
    marked = _marked(points, 0)
    best = [each for each in marked if each.is_best]
    for each in marked:
        assert not (each.is_best and each.is_constant)
        at_least = [
            one
            for one in best
            if one.accuracy.hits >= each.accuracy.hits
            and (one.ifr_p.estimate or 0) >= (each.ifr_p.estimate or 0)
        ]
        assert at_least or each.is_constant


# -- a whole proof ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def biased() -> tuple[Dataset, TorchModel]:
    data = biased_data()
    return data, train(dense(data.domain, (12, 6)), data, training=replace(SHORT, epochs=25))


@pytest.fixture(scope="module")
def accepted(biased: tuple[Dataset, TorchModel]) -> Proof:
    data, model = biased
    return prove(
        model, data, Counterfactual(training=SHORT), max_accuracy_drop=0.2, max_harm=10.0, **SMALL
    )


def test_a_repair_of_a_planted_bias_is_accepted_with_all_its_controls(accepted: Proof) -> None:
    assert accepted.accepted
    assert accepted.reasons == ()
    assert accepted.before.dm_rs.estimate > 0.1
    assert accepted.after.dm_rs.estimate < 0.2 * accepted.before.dm_rs.estimate
    assert list(accepted.controls) == ["blind", "retrained", "random points"]
    nobody = accepted.controls["blind"]
    assert (nobody.dm_rs.hits, nobody.idis, nobody.ifr_b.estimate, nobody.ifr_p.estimate) == (
        0,
        0,
        1.0,
        1.0,
    )
    assert accepted.controls["retrained"].dm_rs.estimate > 0.5 * accepted.before.dm_rs.estimate
    assert [other.name for other in accepted.before.others] == ["race"]


def test_before_and_after_are_what_the_metrics_say_of_the_people_held_out(
    biased: tuple[Dataset, TorchModel], accepted: Proof
) -> None:
    data, model = biased
    test = data.split(0).test
    for network, told in ((model, accepted.before), (accepted.model, accepted.after)):
        people = fairness(data, network, test)
        assert (told.accuracy, told.f1, told.mcc, told.selected) == (
            people.accuracy,
            people.scores["f1"],
            people.scores["mcc"],
            people.selected,
        )
        assert (told.ifr_b, told.ifr_p) == (people.individual.b, people.individual.p)
        assert (told.dp, told.eo) == (people.groups[0].dp, people.groups[0].eo)
        assert told.dm_rs == dm_rs(
            data.domain, network, rng=np.random.default_rng([0, 0]), samples=2000
        )
        other = data.with_sensitive("race").domain
        assert told.others[0].dm_rs == dm_rs(
            other, network, rng=np.random.default_rng([0, 0]), samples=2000
        )


def test_the_curve_shows_every_setting_and_the_chosen_one_is_the_network_that_is_kept(
    biased: tuple[Dataset, TorchModel], accepted: Proof
) -> None:
    data, _ = biased
    assert [each.setting for each in accepted.curve] == pytest.approx([0, 0.6, 2, 6, 20, 60])
    (chosen,) = [each for each in accepted.curve if each.is_chosen]
    assert accepted.repair.dial_at == chosen.setting > 0
    validation = data.split(0).validation
    right = int((accepted.model.labels(data.x[validation]) == data.y[validation]).sum())
    assert chosen.accuracy == Rate(right, len(validation))
    assert any(each.is_best for each in accepted.curve)


def test_the_setting_is_not_chosen_by_the_test_people(biased: tuple[Dataset, TorchModel]) -> None:
    data, model = biased
    rows = data.split(0).test
    y = data.y.copy()
    y[rows] = 1 - y[rows]
    repair = Counterfactual(training=replace(SHORT, epochs=2))
    how = {**SMALL, "samples": 100, "budget": Budget(seeds=2, local_iterations=1)}
    one, other = (
        prove(model, each, repair, max_accuracy_drop=0.3, **how)
        for each in (data, replace(data, y=y))
    )
    assert one.repair == other.repair
    assert one.curve == other.curve
    assert one.after.accuracy != other.after.accuracy


def test_without_choosing_the_repairs_own_setting_is_kept(
    biased: tuple[Dataset, TorchModel],
) -> None:
    data, model = biased
    repair = Counterfactual(strength=3.0, possible=0.0, training=replace(SHORT, epochs=1))
    how = {**SMALL, "samples": 100, "budget": Budget(seeds=2, local_iterations=1)}
    proof = prove(model, data, repair, choose=False, **how)
    assert proof.repair == repair
    assert [each.setting for each in proof.curve if each.is_chosen] == [3.0]
    alone = prove(model, data, repair, curve=False, **how)
    assert alone.curve == ()
    assert alone.after.accuracy == proof.after.accuracy


def test_what_speaks_against_a_repair_refuses_it_unless_it_is_forced(
    biased: tuple[Dataset, TorchModel],
) -> None:
    data, model = biased
    deadly = Counterfactual(strength=1e6, training=replace(SHORT, learning_rate=0.5))
    forced = prove(model, data, deadly, curve=False, force=True, **SMALL)
    refused = replace(forced, forced=False)
    assert forced.accepted
    assert not refused.accepted
    assert any("decides nothing" in reason for reason in refused.reasons)
    assert any("points of accuracy" in reason for reason in refused.reasons)


def test_a_proof_repeats_itself(biased: tuple[Dataset, TorchModel]) -> None:
    data, model = biased
    repair = Retrain(
        share=1.0, budget=Budget(seeds=10, local_iterations=10), training=replace(SHORT, epochs=1)
    )
    one, two = (prove(model, data, repair, curve=False, **SMALL) for _ in range(2))
    assert (one.before, one.after, one.controls, one.reasons) == (
        two.before,
        two.after,
        two.controls,
        two.reasons,
    )


def test_a_network_that_ignores_the_attribute_has_nothing_to_be_repaired() -> None:
    data = fair_data()
    model = TorchModel(blind(data.domain))
    proof = prove(
        model,
        data,
        Blind(training=SHORT),
        curve=False,
        max_accuracy_drop=1.0,
        max_harm=1e9,
        **SMALL,
    )
    assert (proof.before.dm_rs.hits, proof.before.idis, proof.after.dm_rs.hits) == (0, 0, 0)
    assert proof.accepted
    assert proof.reasons == ()


def test_every_repair_can_be_proved_also_with_three_classes_and_nobody_selected() -> None:
    """Favourable is nothing, no attribute is protected, the sensitive ones are two."""
    domain = tiny_domain("gender", "race")
    x = domain.sample(200, rng=np.random.default_rng(0))
    data = Dataset("three", domain, x, (x[:, 0] // 4).astype(np.int64), ("a", "b", "c"))
    model = train(dense(domain, (6,), classes=3), data, training=SHORT)
    how = {"samples": 200, "budget": Budget(seeds=5, local_iterations=3), "curve": False}
    for name in ("counterfactual", "iifr", "laftr", "cfair+iifr"):
        proof = prove(model, data, repair_named(name, training=replace(SHORT, epochs=1)), **how)  # type: ignore[arg-type]
        assert proof.after.others == ()
        assert proof.after.selected == Rate(0, 0)
        assert proof.after.dp.estimate is None


# -- controls --------------------------------------------------------------------------------------


def test_random_points_are_people_who_are_not_discriminated_against_labelled_by_the_network(
    biased: tuple[Dataset, TorchModel],
) -> None:
    data, model = biased
    workshop = _Workshop(
        model,
        data,
        Counterfactual(),
        0,
        None,
        "neuronfair",
        None,
        SMALL["budget"],
        100,
        lambda *_: None,
    )
    points = workshop._random_points()
    assert not judge(data.domain, model, points.x).is_discriminatory.any()
    assert np.array_equal(points.y, model.labels(points.x))
    women, men = points.x[::2], points.x[1::2]
    assert (women[:, 1] == 0).all()
    assert (men[:, 1] == 1).all()
    assert np.array_equal(np.delete(women, 1, axis=1), np.delete(men, 1, axis=1))
    assert len(points.y) <= len(data.split(0).train)
    assert len(points.y) > 0.9 * len(data.split(0).train)


def test_the_controls_are_trained_as_the_repair_is(biased: tuple[Dataset, TorchModel]) -> None:
    data, model = biased
    repair = Counterfactual(training=replace(SHORT, epochs=2))
    told: list[tuple[str, int]] = []
    workshop = _Workshop(
        model,
        data,
        repair,
        0,
        None,
        "neuronfair",
        None,
        SMALL["budget"],
        100,
        lambda stage, _, total, __: told.append((stage, total)),
    )
    for name in ("blind", "retrained", "random points"):
        network = workshop.control(name)
        assert network is not model
        assert told[-1] == (f"Control: {name}", 2)
    again = repair.at(0.0)(model, data)
    mine, theirs = workshop.control("retrained").module.state_dict(), again.module.state_dict()
    assert all((mine[key] == theirs[key]).all() for key in mine)


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_accuracy_drop": -0.1}, "share"),
        ({"max_accuracy_drop": 2.0}, "got 2.0"),
        ({"max_accuracy_drop": float("nan")}, "got nan"),
        ({"max_harm": 0.9}, "a factor"),
        ({"max_harm": float("nan")}, "nan"),
        ({"max_harm": float("inf")}, "inf"),
        ({"samples": 0}, "samples must be at least 1; got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_trained(
    settings: dict[str, Any], words: str
) -> None:
    data = fair_data(100)
    with pytest.raises(SettingError, match=words):
        prove(TorchModel(dense(data.domain, (4,))), data, Counterfactual(), **settings)


def test_a_black_box_and_data_without_a_sensitive_attribute_are_refused() -> None:
    data = fair_data(100)
    model = TorchModel(dense(data.domain, (4,)))
    with pytest.raises(ModelError, match="Only a network can be repaired"):
        prove(Model(model.probabilities), data, Counterfactual())
    with pytest.raises(DomainError, match="No sensitive attribute"):
        prove(model, replace(data, domain=replace(data.domain, sensitive=())), Counterfactual())


def test_another_attribute_that_cannot_be_compared_is_left_out() -> None:
    data = fair_data(200)
    x = data.x.copy()
    x[:, 3] = 0
    data = replace(data, x=x)
    how = {"samples": 200, "budget": Budget(seeds=5, local_iterations=3), "curve": False}
    proof = prove(
        TorchModel(dense(data.domain, (4,))),
        data,
        Blind(training=replace(SHORT, epochs=1)),
        **how,  # type: ignore[arg-type]
    )
    assert proof.after.others == ()


def test_half_a_search_is_no_proof(
    biased: tuple[Dataset, TorchModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, model = biased

    def stop(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "judge", stop)
    with pytest.raises(KeyboardInterrupt):
        prove(model, data, Blind(training=SHORT), curve=False, **SMALL)
