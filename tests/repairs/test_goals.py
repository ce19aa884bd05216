"""Several sensitive attributes at once, goals for groups beside those for single people, and which
point of the trade-off is chosen.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.documents.people import IFR
from fairprobe.documents.repair import Limits, Point
from fairprobe.errors import SettingError
from fairprobe.models import TorchModel
from fairprobe.networks import Batch, Training, dense, train
from fairprobe.repairs import Counterfactual
from fairprobe.repairs.comparisons import Answers, Trial
from fairprobe.repairs.counterfactual import GroupPenalty
from fairprobe.repairs.curve import best_setting, check_choice
from fairprobe.repairs.panel import Panel
from fairprobe.repairs.verdict import decide
from fairprobe.results import Estimate, Rate
from tests.repairs.test_repairs import biased_data, same

TRUTH = np.zeros(400, dtype=np.int64)


def batch(x: Rows, y: Ints, p: Rows) -> Batch:
    logits, codes = torch.from_numpy(p).log(), torch.from_numpy(x)
    return Batch(codes, codes, torch.from_numpy(y), logits, logits, lambda z: z)


def test_the_group_penalty_is_the_spread_of_the_groups_worked_out_by_hand() -> None:
    data = biased_data(60)
    x, y, group = data.x, data.y, data.domain.own_value(data.x)
    p = np.random.default_rng(0).dirichlet([1, 1], 60).astype(np.float32)

    def spread(rows: Mask) -> float:
        parts = [p[rows & (group == g)] for g in (0, 1)]
        middle = p[rows].mean(axis=0)
        squares = [len(part) * ((part.mean(axis=0) - middle) ** 2).sum() for part in parts]
        return float(sum(squares) / rows.sum())

    everybody = np.ones(60, dtype=bool)
    got = float(GroupPenalty(data.domain, 3.0, "parity")(batch(x, y, p)))
    assert got == pytest.approx(3 * spread(everybody), rel=1e-4)
    got = float(GroupPenalty(data.domain, 3.0, "odds")(batch(x, y, p)))
    assert got == pytest.approx(3 * (spread(y == 0) + spread(y == 1)), rel=1e-4)


def test_a_goal_for_groups_narrows_the_gap_between_them() -> None:
    data, training = biased_data(1_200), Training(epochs=30, learning_rate=0.01)
    model = train(dense(data.domain, (8,)), data, training=training)
    panel = Panel(data, 0, None, 200, ("parity",))
    gaps = [
        panel.answers(network).gaps["parity"]
        for network in (
            model,
            Counterfactual(strength=50.0, individual=0.0, parity=1.0, training=training)(
                model, data
            ),
        )
    ]
    assert gaps[0] > 0.1
    assert gaps[1] < 0.6 * gaps[0], gaps


@pytest.mark.parametrize("goals", [(0.0, 0.0, 0.0), (-1.0, 1.0, 0.0), (1.0, np.inf, 0.0)])
def test_impossible_priorities_are_refused(goals: tuple[float, float, float]) -> None:
    individual, parity, odds = goals
    with pytest.raises(SettingError, match="priorities of the goals individual, parity and odds"):
        Counterfactual(individual=individual, parity=parity, odds=odds)


def test_each_of_several_attributes_is_looked_at_alone() -> None:
    data = biased_data(300)
    names = [name for name in data.domain.names if name not in data.domain.sensitive][:1]
    several = data.with_sensitive([*data.domain.sensitive, *names])
    panel = Panel(several, 0, None, 100)
    answers = panel.answers(TorchModel(dense(several.domain, (4,))))
    assert set(answers.alone) == set(several.domain.sensitive)
    assert Panel(data, 0, None, 100).alone == ()


def trials(together: tuple[float, float], alone: tuple[float, float]) -> list[Trial]:
    """Six seeds; the shares with the control and the repair, of both attributes and of one."""
    rng = np.random.default_rng(0)

    def answers(place: int) -> Answers:
        affected = rng.random(400) < together[place]
        return Answers(TRUTH, affected, alone={"race": rng.random(400) < alone[place]})

    return [Trial(seed, answers(0), answers(1)) for seed in range(6)]


def test_a_repair_of_two_attributes_that_makes_one_worse_is_refused() -> None:
    limits, names = Limits(), ("sex", "race")
    good = decide(trials((0.4, 0.1), (0.1, 0.08)), TRUTH, names, limits)
    assert good.outcome == "accepted"
    assert [each.by for each in good.comparisons if "alone" in each.by] == ["race alone"]
    bad = decide(trials((0.4, 0.1), (0.05, 0.2)), TRUTH, names, limits)
    assert bad.outcome == "refused"
    assert "discrimination by race alone worse" in bad.reasons[0]


def test_a_repair_that_widens_the_gap_between_groups_that_it_was_to_narrow_is_refused() -> None:
    def with_gaps(control: float, repaired: float) -> list[Trial]:
        return [
            replace(
                trial,
                control=replace(trial.control, gaps={"parity": control + 0.001 * trial.seed}),
                repaired=replace(trial.repaired, gaps={"parity": repaired - 0.001 * trial.seed}),
            )
            for trial in trials((0.4, 0.1), (0.1, 0.1))
        ]

    limits, names = Limits(), ("sex", "race")
    assert decide(with_gaps(0.2, 0.1), TRUTH, names, limits).outcome == "accepted"
    wider = decide(with_gaps(0.1, 0.3), TRUTH, names, limits)
    assert "widens the gap between groups (parity)" in wider.reasons[0]


def point(setting: float, accuracy: int, alike: float) -> Point:
    ifr = IFR(estimate=alike, low=alike, high=alike, samples=100, pairs=100, confidence=0.95)
    nothing = Estimate(None, None, None, 0)
    return Point(
        setting=setting,
        accuracy=Rate.of(accuracy, 100),
        ifr_b=ifr,
        ifr_p=ifr,
        dm_rs=Rate.of(1, 10),
        dp=nothing,
        is_constant=False,
        is_best=False,
        is_chosen=False,
    )


def test_the_fairest_point_is_chosen_or_the_most_accurate_one_half_way_there() -> None:
    points = [point(0, 85, 0.5), point(1, 86, 0.6), point(2, 84, 0.8), point(3, 83, 0.9)]
    points += [point(4, 70, 1.0)]
    assert best_setting(points, 0.82, default=9) == 3
    assert best_setting(points, 0.82, default=9, choose="accuracy") == 2
    assert best_setting(points, 0.60, default=9) == 4
    assert best_setting(points, 0.99, default=9, choose="accuracy") == 9


def test_a_point_that_does_not_exist_is_refused() -> None:
    repair = Counterfactual()
    for good in (True, False, "accuracy", "fairness", 2, 6):
        check_choice(good, repair)
    for bad in ("best", 0, 7):
        with pytest.raises(SettingError, match="number from 1 to 6"):
            check_choice(bad, repair)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="Point 1 of the trade-off is no repair"):
        check_choice(1, repair)


def test_a_repair_without_labels_learns_what_the_network_answered() -> None:
    data = biased_data(600)
    model = train(dense(data.domain, (8,)), data, training=Training(epochs=10))
    own = model.labels(data.x)
    wrong = replace(data, y=1 - own)
    repair = Counterfactual(labels="own", training=Training(epochs=3))
    assert np.array_equal(repair.lessons(model, wrong).y, own)
    repaired = repair(model, wrong)
    assert (repaired.labels(data.x) == own).mean() > 0.6
    assert same(repaired.module, repair(model, replace(data, y=own)).module)
    with pytest.raises(SettingError, match=r"'truth'.*'own'.*'guess'"):
        Counterfactual(labels="guess")  # type: ignore[arg-type]
