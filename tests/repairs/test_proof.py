"""The proof of a repair: what it measures, which setting is chosen, what the controls are, and
repairs that only look good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from torch import Tensor, nn

from fairprobe.datasets import Dataset
from fairprobe.documents.people import IFR
from fairprobe.documents.repair import Decision, Limits, Point
from fairprobe.errors import DomainError, ModelError, SettingError
from fairprobe.judgement import judge
from fairprobe.metrics import as_estimate, fairness
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import Model, TorchModel, one_thread
from fairprobe.networks import Training, dense, train
from fairprobe.repairs import Blind, Counterfactual, Proof, Repair, Retrain, prove, repair_named
from fairprobe.repairs.base import OnEpoch
from fairprobe.repairs.curve import best_setting
from fairprobe.repairs.curve import marked as _marked
from fairprobe.repairs.panel import Panel
from fairprobe.repairs.series import RETRAINED, Series, Trainer
from fairprobe.results import Estimate, Rate
from fairprobe.search import Budget, loop
from tests.helpers import blind, known, merit, planted, tiny_domain

SHORT = Training(learning_rate=0.02, batch=64, epochs=10, patience=None)
SMALL: dict[str, Any] = {
    "budget": Budget(seeds=30, local_iterations=20),
    "samples": 2000,
    "max_seeds": 4,
}


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
    some = np.random.default_rng(1).random(len(data)) < 0.45
    return replace(data, y=np.where(some, unfair, data.y))


def ifr(estimate: float | None) -> IFR:
    return IFR(
        estimate=estimate, low=estimate, high=estimate, samples=100, pairs=100, confidence=0.95
    )


# -- the trade-off ---------------------------------------------------------------------------------


def point(
    setting: float, right: int, p: float | None, *, hits: int = 10, dead: bool = False
) -> Point:
    return Point(
        setting=setting,
        accuracy=Rate.of(right, 100),
        ifr_b=ifr(p),
        ifr_p=ifr(p),
        dm_rs=Rate.of(hits, 1000),
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
        best_setting(points, 0.85 - 0.02, default=1) == 2
    )  # 83 of 100 is exactly enough; 0 is no repair, 4 decides nothing
    assert best_setting(points, 0.80, default=1) == 3
    assert best_setting(points, 0.95, default=2.5) == 2.5
    assert best_setting([], 0.0, default=7) == 7


def test_a_tie_is_decided_by_possible_people_and_no_rate_is_the_worst() -> None:
    assert (
        best_setting([point(1, 80, 0.9, hits=30), point(2, 80, 0.9, hits=20)], 0.5, default=1) == 2
    )
    assert (
        best_setting([point(1, 80, None, hits=0), point(2, 80, 0.1, hits=20)], 0.5, default=1) == 2
    )
    assert best_setting([point(1, 80, None), point(2, 80, None)], 0.5, default=2) == 1


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
            one for one in best if one.quality >= each.quality and one.fairness >= each.fairness
        ]
        assert at_least or each.is_constant


# -- a whole proof ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def biased() -> tuple[Dataset, TorchModel]:
    data = biased_data()
    return data, train(dense(data.domain, (12, 6)), data, training=replace(SHORT, epochs=25))


@pytest.fixture(scope="module")
def proved(biased: tuple[Dataset, TorchModel]) -> tuple[Proof, Model]:
    data, model = biased
    return prove(
        model, data, Counterfactual(training=SHORT), max_accuracy_drop=0.2, max_harm=10.0, **SMALL
    )


@pytest.fixture(scope="module")
def accepted(proved: tuple[Proof, Model]) -> Proof:
    return proved[0]


def test_a_repair_of_a_planted_bias_is_accepted_with_all_its_controls(accepted: Proof) -> None:
    assert accepted.accepted
    assert accepted.reasons == ()
    assert accepted.before.dm_rs.estimate > 0.1
    assert accepted.after.dm_rs.estimate < 0.2 * accepted.before.dm_rs.estimate
    assert list(accepted.controls) == ["blind", "retrained", "random points"]
    nobody = accepted.controls["blind"]
    assert (
        nobody.dm_rs.hits,
        nobody.idis,
        known(nobody.ifr_b).estimate,
        known(nobody.ifr_p).estimate,
    ) == (
        0,
        0,
        1.0,
        1.0,
    )
    assert accepted.controls["retrained"].dm_rs.estimate > 0.5 * accepted.before.dm_rs.estimate
    assert [other.name for other in accepted.before.others] == ["race"]


def test_before_and_after_are_what_the_metrics_say_of_the_people_held_out(
    biased: tuple[Dataset, TorchModel], proved: tuple[Proof, Model]
) -> None:
    data, model = biased
    accepted, repaired = proved
    test = data.split(0).test
    for network, measured in ((model, accepted.before), (repaired, accepted.after)):
        people = fairness(data, network, test)
        assert people.group is not None
        whole = people.group.tables[-1]
        assert (measured.accuracy, measured.f1, measured.mcc, measured.selected) == (
            people.quality.accuracy,
            as_estimate(people.quality.scores["f1"]),
            as_estimate(people.quality.scores["mcc"]),
            people.group.selected,
        )
        assert (measured.ifr_b, measured.ifr_p) == (people.individual.b, people.individual.p)
        assert (measured.dp, measured.eo) == (whole.dp, tuple(map(as_estimate, whole.eo)))
        assert measured.dm_rs == dm_rs(
            data.domain, network, rng=np.random.default_rng([0, 0]), samples=2000
        )
        other = data.with_sensitive("race").domain
        assert measured.others[0].dm_rs == dm_rs(
            other, network, rng=np.random.default_rng([0, 0]), samples=2000
        )


def test_the_curve_shows_every_setting_and_the_chosen_one_is_the_network_that_is_kept(
    biased: tuple[Dataset, TorchModel], accepted: Proof
) -> None:
    data, model = biased
    assert [each.setting for each in accepted.curve] == pytest.approx([0, 2, 6, 20, 60, 200])
    (chosen,) = [each for each in accepted.curve if each.is_chosen]
    assert accepted.dial.value == chosen.setting > 0
    validation = data.split(0).validation
    repair = Counterfactual(training=SHORT).at(chosen.setting)
    first = Trainer(model, data, 0).repaired(repair, 0)  # the curve is of the first seed
    right = int((first.labels(data.x[validation]) == data.y[validation]).sum())
    assert chosen.accuracy == Rate.of(right, len(validation))
    assert any(each.is_best for each in accepted.curve)


def test_the_setting_is_not_chosen_by_the_test_people(biased: tuple[Dataset, TorchModel]) -> None:
    data, model = biased
    rows = data.split(0).test
    y = data.y.copy()
    y[rows] = 1 - y[rows]
    repair = Counterfactual(training=replace(SHORT, epochs=2))
    how = {**SMALL, "samples": 100, "budget": Budget(seeds=2, local_iterations=1), "max_seeds": 2}
    one, other = (
        prove(model, each, repair, max_accuracy_drop=0.3, **how)[0]
        for each in (data, replace(data, y=y))
    )
    assert one.dial == other.dial
    assert one.curve == other.curve
    assert one.after.accuracy != other.after.accuracy


def test_without_choosing_the_repairs_own_setting_is_kept(
    biased: tuple[Dataset, TorchModel],
) -> None:
    data, model = biased
    repair = Counterfactual(strength=3.0, possible=0.0, training=replace(SHORT, epochs=1))
    how = {**SMALL, "samples": 100, "budget": Budget(seeds=2, local_iterations=1), "max_seeds": 2}
    proof, _ = prove(model, data, repair, choose=False, **how)
    assert proof.dial.value == 3.0
    assert [each.setting for each in proof.curve if each.is_chosen] == [3.0]
    alone, _ = prove(model, data, repair, curve=False, **how)
    assert alone.curve == ()
    assert alone.after.accuracy == proof.after.accuracy


def test_what_speaks_against_a_repair_refuses_it_unless_it_is_forced(
    biased: tuple[Dataset, TorchModel],
) -> None:
    data, model = biased
    deadly = Counterfactual(strength=1e6, training=replace(SHORT, learning_rate=0.5))
    forced, _ = prove(model, data, deadly, curve=False, force=True, **SMALL)
    refused = structs.replace(forced, forced=False, accepted=False)
    assert forced.accepted
    assert not refused.accepted
    assert any("decides nothing" in reason for reason in refused.reasons)


def test_a_proof_repeats_itself(biased: tuple[Dataset, TorchModel]) -> None:
    data, model = biased
    repair = Retrain(
        share=1.0, budget=Budget(seeds=10, local_iterations=10), training=replace(SHORT, epochs=1)
    )
    one, two = (prove(model, data, repair, curve=False, **SMALL)[0] for _ in range(2))
    assert (one.before, one.after, one.controls, one.reasons) == (
        two.before,
        two.after,
        two.controls,
        two.reasons,
    )


def test_a_network_that_ignores_the_attribute_has_nothing_to_be_repaired() -> None:
    data = fair_data()
    model = TorchModel(blind(data.domain))
    proof, _ = prove(
        model,
        data,
        Blind(training=SHORT),
        curve=False,
        max_accuracy_drop=1.0,
        max_harm=1e9,
        **SMALL,
    )
    assert (proof.before.dm_rs.hits, proof.before.idis, proof.after.dm_rs.hits) == (0, 0, 0)
    assert proof.before.people.hits == 0


def test_every_repair_can_be_proved_also_with_three_classes_and_nobody_selected() -> None:
    """Favourable is nothing, no attribute is protected, the sensitive ones are two."""
    domain = tiny_domain("gender", "race")
    x = domain.sample(200, rng=np.random.default_rng(0))
    data = Dataset("three", domain, x, (x[:, 0] // 4).astype(np.int64), ("a", "b", "c"))
    model = train(dense(domain, (6,), classes=3), data, training=SHORT)
    how = {
        "samples": 200,
        "budget": Budget(seeds=5, local_iterations=3),
        "curve": False,
        "max_seeds": 2,
    }
    for name in ("counterfactual", "iifr", "laftr", "cfair+iifr"):
        proof, _ = prove(model, data, repair_named(name, training=replace(SHORT, epochs=1)), **how)  # type: ignore[arg-type]
        assert proof.after.others == ()
        assert proof.after.selected == Rate.of(0, 0)
        assert known(proof.after.dp).estimate is None


# -- controls --------------------------------------------------------------------------------------


def test_random_points_are_people_who_are_not_discriminated_against_labelled_by_the_network(
    biased: tuple[Dataset, TorchModel],
) -> None:
    data, model = biased
    points = Trainer(model, data, 0).random_points()
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
    stages: list[tuple[str, int]] = []
    trainer = Trainer(model, data, 0, lambda stage, _, total, __: stages.append((stage, total)))
    for name in ("blind", "retrained", "random points"):
        network = trainer.control(repair, name, 0)
        assert network is not model
        assert stages[-1] == (f"Control: {name}", 2)
    again = repair.at(0.0)(model, data)
    mine, theirs = (
        trainer.control(repair, RETRAINED, 0).module.state_dict(),
        again.module.state_dict(),
    )
    assert all((mine[key] == theirs[key]).all() for key in mine)


# -- repairs that only look good -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Trick(Repair):
    """Trains as a repair does that never asks for gender, and then changes the network."""

    name: ClassVar[str] = "trick"
    dial: ClassVar[str] = "none"
    dial_means: ClassVar[str] = "it has none"
    has_dial: ClassVar[bool] = False
    none: float = 0.0
    wrap: Callable[[nn.Module], nn.Module] = nn.Sequential

    def train(
        self,
        network: nn.Module,
        given: TorchModel,
        data: Dataset,
        *,
        seed: int,
        progress: OnEpoch | None,
    ) -> TorchModel:
        honest = Counterfactual(training=self.training)
        model = honest.train(network, given, data, seed=seed, progress=progress)
        return TorchModel(
            self.wrap(model.module), encoder=model.encoder, outputs=given.outputs(data.x)
        )


class Squeezed(nn.Module):
    """Every decision stays, every lead is a tie."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, z: Tensor) -> Tensor:
        return 2e-6 * torch.sign(self.network(z) - self.network(z).mean(dim=1, keepdim=True))


class Refuses(Squeezed):
    """Nobody of the second race is given a yes."""

    def forward(self, z: Tensor) -> Tensor:
        answers: Tensor = self.network(z)
        return torch.where(z[:, 3:4] == 1, torch.tensor([3.0, -3.0]), answers)


def series(biased: tuple[Dataset, TorchModel], repair: Repair) -> Decision:
    data, model = biased
    limits = Limits(max_accuracy_drop=1.0, max_harm=1e9)
    return Series(Trainer(model, data, 0), repair, Panel(data, 0, None, 500), limits).run(4)[0]


def test_decisions_that_hang_by_a_thread_are_no_evidence_of_fairness(
    biased: tuple[Dataset, TorchModel],
) -> None:
    decision = series(biased, Trick(training=SHORT, wrap=Squeezed))
    assert decision.outcome == "refused"
    assert any("such ties are no evidence" in reason for reason in decision.reasons)


def test_a_network_that_refuses_everybody_of_a_group_is_refused_and_the_group_is_named(
    biased: tuple[Dataset, TorchModel],
) -> None:
    decision = series(biased, Trick(training=SHORT, wrap=Refuses))
    assert decision.outcome == "refused"
    (reason,) = decision.reasons
    assert reason.startswith("The repair harms people with race ")
    assert "100 % of" in reason


def test_a_repair_that_does_nothing_at_all_is_not_accepted(
    biased: tuple[Dataset, TorchModel],
) -> None:
    assert series(biased, Counterfactual(strength=0.0, training=SHORT)).outcome != "accepted"


def test_the_networks_of_all_seeds_hold_out_the_same_people(
    biased: tuple[Dataset, TorchModel],
) -> None:
    data, model = biased
    trainer = Trainer(model, data, 0)
    network = trainer.repaired(Counterfactual(training=replace(SHORT, epochs=1)), 99)
    assert network.trained_on == ("tiny", 0)
    assert np.array_equal(trainer.pinned.split(99).test, data.split(0).test)


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
        ({"max_seeds": 1}, "at least 2 seeds"),
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
    how = {
        "samples": 200,
        "budget": Budget(seeds=5, local_iterations=3),
        "curve": False,
        "max_seeds": 2,
    }
    proof, _ = prove(
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
