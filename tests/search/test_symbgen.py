"""SymbGen: paths of a tree, regions and the solver, the ranked queue, and what the whole search
keeps.
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from fairprobe.arrays import Ints, Mask, Rows
from fairprobe.errors import DomainError, SettingError
from fairprobe.findings import Findings
from fairprobe.judgement import Verdict, judge
from fairprobe.models import Encoder, Model, TorchModel, one_thread
from fairprobe.networks import dense
from fairprobe.schema.domain import Attribute, Constraint, Domain
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.loop import context_of
from fairprobe.search.methods.base import Proposal
from fairprobe.search.methods.symbgen import Child, RankedQueue, SymbGen, _Family
from fairprobe.search.paths import Predicate, Region, RegionSolver, draw_marginals, path_of
from tests.helpers import (
    blind,
    census_domain,
    census_network,
    census_rows,
    everybody,
    planted,
    tiny_domain,
)

SKILL, GENDER, EFFORT, RACE = range(4)

MIXED = Domain(
    (
        Attribute(name="whole", low=-5, high=30),
        Attribute(name="share", kind="real", low=0, high=1),
        Attribute(name="kind", kind="categorical", categories=tuple("abcdef"), one_hot=True),
        Attribute(name="wide", kind="real", low=-1e6, high=3e7),
        Attribute(name="gender", low=0, high=1),
    ),
    sensitive=("gender",),
)


def rule(holds: Mask) -> Rows:
    """Certain probabilities: class 1 where the rule holds."""
    return np.stack([~holds, holds], axis=1).astype(np.float32)


def skilled(x: Rows) -> Rows:
    return rule(x[:, SKILL] > 6)


def favours_men(x: Rows) -> Rows:
    return rule((x[:, SKILL] > 6) | ((x[:, SKILL] > 3) & (x[:, EFFORT] > 3) & (x[:, GENDER] == 1)))


def medium_domain() -> Domain:
    """A few hundred thousand people, so that a short search does not see them all."""
    names = ("skill", "effort", "years", "tests")
    attributes = tuple(Attribute(name=name, low=low, high=20) for low, name in enumerate(names))
    return Domain((*attributes, Attribute(name="gender", low=0, high=1)), sensitive=("gender",))


def run(
    domain: Domain,
    model: Model,
    *,
    inputs: int | None = 60,
    seconds: float | None = None,
    wanted: int | None = None,
    seed: int = 0,
    samples: int = 500,
) -> Findings:
    rng = np.random.default_rng(seed)
    x = domain.sample(1000, rng=rng)
    seeds = choose_seeds(domain, x, 20, rng=rng)
    return search(
        domain,
        model,
        SymbGen(x=x, samples=samples, inputs=inputs, seconds=None),
        seeds,
        Budget(seconds=seconds, wanted=wanted),
        rng=rng,
    )


def proposals(
    domain: Domain, model: Model, method: SymbGen, seeds: Rows, limit: int = 100
) -> list[tuple[Proposal, Verdict]]:
    """The first proposals of a search, with their verdicts."""
    plan = method.propose(context_of(domain, model, method), seeds, np.random.default_rng(0))
    seen: list[tuple[Proposal, Verdict]] = []
    with one_thread(), suppress(StopIteration):
        proposal = next(plan)
        while len(seen) < limit:
            seen.append((proposal, judge(domain, model, proposal.x)))
            proposal = plan.send(seen[-1][1])
    return seen


# -- paths -----------------------------------------------------------------------------------------


def path_on(row: Rows, x: Rows, labels: Ints) -> list[Predicate]:
    """The path of a row in a tree grown on just these rows."""
    return path_of(row, x, labels, rng=np.random.default_rng(0))


def test_the_path_of_a_model_with_one_threshold_is_one_predicate() -> None:
    x = everybody(tiny_domain())
    labels = Model(skilled).labels(x)
    assert path_on(x[0], x, labels) == [Predicate(SKILL, True, 6.5, 0.7)]
    assert path_on(x[-1], x, labels) == [Predicate(SKILL, False, 6.5, 0.3)]


def test_a_path_leads_the_row_to_its_own_label() -> None:
    domain = tiny_domain()
    x = everybody(domain)
    labels = Model(favours_men).labels(x)
    for row, label in zip(x[::7], labels[::7], strict=True):
        region = Region.of(domain, path_on(row, x, labels))
        inside = ((x >= region.low) & (x <= region.high)).all(axis=1)
        assert ((row >= region.low) & (row <= region.high)).all()
        assert (labels[inside] == label).all()


def test_the_path_is_that_of_the_tree_and_its_confidences_are_shares_of_the_sample() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 4)).astype(np.float32)
    labels = (x @ np.array([1, 2, -1, 0.5]) + x[:, 0] * x[:, 1] > 0).astype(np.int64)
    for row in x[:20]:
        here = np.ones(len(x), dtype=bool)
        for column, at_most, threshold, confidence in path_on(row, x, labels):
            goes = here & ((x[:, column] <= threshold) == at_most)
            assert (float(row[column]) <= threshold) == at_most
            assert confidence == pytest.approx(goes.sum() / here.sum())
            here = goes
        assert len(np.unique(labels[here])) == 1


def test_marginals_are_drawn_as_common_as_they_are_and_apart() -> None:
    x = np.array([[0, 10], [0, 10], [0, 20], [3, 20]], dtype=np.float32)
    drawn = draw_marginals(x, 20_000, rng=np.random.default_rng(0))
    assert (drawn[:, 0] == 3).mean() == pytest.approx(1 / 4, abs=0.02)
    assert (drawn[:, 1] == 20).mean() == pytest.approx(1 / 2, abs=0.02)
    assert ((drawn[:, 0] == 3) & (drawn[:, 1] == 10)).mean() == pytest.approx(
        1 / 8, abs=0.02
    )  # nobody in the data


def test_a_negated_predicate_has_the_rest_of_the_confidence() -> None:
    assert Predicate(2, True, 4.5, 0.75).negated() == Predicate(2, False, 4.5, 0.25)


def test_one_label_everywhere_gives_no_path() -> None:
    x = everybody(tiny_domain())
    assert path_on(x[3], x, np.zeros(len(x), dtype=np.int64)) == []
    assert path_on(x[3], x, np.ones(len(x), dtype=np.int64)) == []


def test_equal_rows_with_different_labels_give_no_path() -> None:
    x = np.zeros((4, 2), dtype=np.float32)
    assert path_on(x[0], x, np.array([0, 1, 0, 1])) == []


# -- regions and the solver ------------------------------------------------------------------------

SOLVER = RegionSolver(MIXED)


@st.composite
def conditions(draw: st.DrawFn) -> list[Predicate]:
    predicates = []
    for column in draw(st.lists(st.integers(0, 3), min_size=1, max_size=8)):
        low, high = MIXED.attributes[column].low, MIXED.attributes[column].high
        threshold = draw(st.floats(low - 1, high + 1))
        predicates.append(Predicate(column, draw(st.booleans()), threshold, 0.5))
    return predicates


def obeys(row: Rows, predicates: list[Predicate]) -> bool:
    """As scikit-learn compares: a float32 row with a float64 threshold."""
    return all((float(row[each.column]) <= each.threshold) == each.at_most for each in predicates)


@given(condition=conditions(), seed=st.integers(0, 100))
def test_answers_obey_the_path_and_the_bounds_and_keep_the_rest(
    condition: list[Predicate], seed: int
) -> None:
    parent = MIXED.sample(1, rng=np.random.default_rng(seed))[0]
    columns = sorted({each.column for each in condition})
    region = Region.of(MIXED, condition)
    answer = SOLVER.solve(region, parent, columns)
    if answer is None:
        assert (region.low > region.high).any()
        return
    assert obeys(answer, condition)
    MIXED.require_inside(answer)
    others = np.setdiff1d(np.arange(len(MIXED)), columns)
    assert (answer[others] == parent[others]).all()


@given(condition=conditions(), seed=st.integers(0, 100))
def test_a_condition_that_somebody_obeys_has_an_answer(
    condition: list[Predicate], seed: int
) -> None:
    witness = MIXED.sample(1, rng=np.random.default_rng(seed))[0]
    true_of_witness = [each if obeys(witness, [each]) else each.negated() for each in condition]
    assert SOLVER.solve(Region.of(MIXED, true_of_witness), witness, [0, 1, 2, 3]) is not None


def test_contradictions_have_no_answer() -> None:
    parent = MIXED.low.copy()
    for condition in (
        [Predicate(0, True, 3.5, 1), Predicate(0, False, 3.5, 1)],
        [Predicate(0, False, 30, 1)],
        [Predicate(0, False, 3.2, 1), Predicate(0, True, 3.9, 1)],  # no whole number between
        [Predicate(1, False, 1.0, 1)],
        [Predicate(1, False, 0.25, 1), Predicate(1, True, 0.25, 1)],
    ):
        assert SOLVER.solve(Region.of(MIXED, condition), parent, [condition[0].column]) is None


def test_above_is_strict_for_a_real_attribute() -> None:
    for threshold in (0.0, 0.1, 0.3, 0.99999999):
        answer = SOLVER.solve(
            Region.of(MIXED, [Predicate(1, False, threshold, 1)]), MIXED.low.copy(), [1]
        )
        assert answer is not None
        assert threshold < float(answer[1]) <= 1


def test_regions_are_the_same_when_predicates_add_nothing() -> None:
    narrow = Predicate(0, True, 3.5, 0.2)
    assert (
        Region.of(MIXED, [narrow]).key()
        == Region.of(MIXED, [Predicate(0, True, 9.5, 0.9), narrow]).key()
    )
    assert Region.of(MIXED, [narrow]).key() != Region.of(MIXED, [narrow.negated()]).key()


# -- children --------------------------------------------------------------------------------------


def test_children_of_a_path_by_hand() -> None:
    domain = tiny_domain()
    row = np.array([5, 1, 2, 0], dtype=np.float32)
    path = [
        Predicate(SKILL, False, 3.5, 0.6),
        Predicate(GENDER, False, 0.5, 0.5),
        Predicate(EFFORT, True, 3.5, 0.4),
    ]
    near = list(_Family(domain).local(path, Child(0, row, 7)))
    assert [child.rank for child in near] == pytest.approx(
        [1 + (0.4 + 0.5 + 0.4) / 3, 1 + (0.6 + 0.5 + 0.6) / 3]
    )
    assert near[0].row[SKILL] <= 3
    assert near[1].row[EFFORT] > 3
    for child, column in zip(near, (SKILL, EFFORT), strict=True):
        assert child.origin == 7
        assert (
            np.delete(child.row, column) == np.delete(row, column)
        ).all()  # gender and race, and the other predicate's attribute
    far = list(_Family(domain).far(path, Child(0, row, 7), 0.3))
    assert [child.rank for child in far] == pytest.approx([10 - 0.4, 10 - (0.6 + 0.6) / 2])
    assert far[0].row[SKILL] <= 3
    assert far[0].row[EFFORT] == 2
    assert far[1].row[SKILL] > 3
    assert far[1].row[EFFORT] > 3
    assert all((child.row[[GENDER, RACE]] == row[[GENDER, RACE]]).all() for child in far)


def test_the_global_search_stops_where_confidence_is_low() -> None:
    row = np.array([5, 1, 2, 0], dtype=np.float32)
    path = [
        Predicate(SKILL, False, 3.5, 0.6),
        Predicate(EFFORT, True, 3.5, 0.2),
        Predicate(RACE, True, 0.5, 0.9),
    ]
    assert len(list(_Family(tiny_domain()).far(path, Child(0, row, 0), 0.3))) == 1
    assert len(list(_Family(tiny_domain()).far(path, Child(0, row, 0), 0.1))) == 3


def test_a_visited_path_is_not_solved_again() -> None:
    row = np.array([5, 1, 2, 0], dtype=np.float32)
    family, path = (
        _Family(tiny_domain()),
        [
            Predicate(SKILL, False, 3.5, 0.6),
            Predicate(EFFORT, True, 3.5, 0.4),
        ],
    )
    assert len(list(family.local(path, Child(0, row, 0)))) == 2
    assert list(family.local(path, Child(0, row, 0))) == []


def test_one_threshold_gives_the_other_side() -> None:
    domain, model = tiny_domain(), Model(skilled)
    seed = np.array([[2, 0, 4, 1]], dtype=np.float32)
    (first, _), *rest = proposals(
        domain, model, SymbGen(x=everybody(domain), samples=2000, confidence=0.5), seed
    )
    assert (first.x == seed).all()
    children = np.concatenate([proposal.x for proposal, _ in rest])
    assert (children[:, 1:] == seed[:, 1:]).all()
    assert (
        len(children) == 1
    )  # the way back is not taken: three in ten are skilled, less than the least confidence
    assert children[0, SKILL] > 6


# -- the queue -------------------------------------------------------------------------------------


def waiting(rank: float, origin: int) -> Child:
    return Child(rank, np.zeros(1, dtype=np.float32), origin)


def test_the_queue_serves_local_before_seeds_before_global_and_equals_in_turn() -> None:
    queue = RankedQueue(10)
    for origin, rank in enumerate((9.4, 5, 1.9, 5, 1.2, 9.1)):
        queue.put(waiting(rank, origin), origin == 4)
    taken = [queue.take() for _ in range(len(queue))]
    assert [each.origin for each, _ in taken] == [4, 2, 1, 3, 5, 0]
    assert [found for _, found in taken] == [True, False, False, False, False, False]


def test_a_full_queue_drops_the_worst() -> None:
    queue = RankedQueue(3)
    for origin, rank in enumerate((5, 9, 1, 8, 5, 10)):
        queue.put(waiting(rank, origin), False)
        assert len(queue) <= 3
    assert [queue.take()[0].origin for _ in range(3)] == [2, 0, 4]


# -- the whole search ------------------------------------------------------------------------------


def test_planted_bias_is_found_and_every_finding_is_real() -> None:
    domain = medium_domain()
    model = TorchModel(planted(domain))
    findings = run(domain, model, wanted=12, inputs=None)
    assert len(findings) >= 12
    assert judge(domain, model, findings.x).is_discriminatory.all()


def test_a_blind_network_yields_nothing() -> None:
    domain = medium_domain()
    assert len(run(domain, TorchModel(blind(domain)))) == 0


def test_nobody_is_proposed_twice_and_sensitive_codes_stay_the_seeds() -> None:
    domain = tiny_domain("gender", "race")
    model = TorchModel(planted(domain))
    seeds = domain.sample(30, rng=np.random.default_rng(2))
    tried = proposals(domain, model, SymbGen(x=everybody(domain), samples=300), seeds, limit=400)
    x = np.concatenate([proposal.x for proposal, _ in tried])
    origin = np.concatenate([proposal.origin for proposal, _ in tried])
    assert len(np.unique(domain.key(x))) == len(x) > 20
    assert (x[:, domain.sensitive_columns] == seeds[origin][:, domain.sensitive_columns]).all()


def test_local_children_come_from_discriminatory_inputs_by_one_attribute() -> None:
    domain = medium_domain()
    model = TorchModel(planted(domain))
    x = domain.sample(500, rng=np.random.default_rng(3))
    tried = proposals(domain, model, SymbGen(x=x, samples=300), x[:40])
    assert tried[0][0].phase == "global"
    assert len(tried[0][0].x) == 40
    idis = np.concatenate([proposal.x[verdict.is_discriminatory] for proposal, verdict in tried])
    near = [proposal.x for proposal, _ in tried if proposal.phase == "local" and len(proposal.x)]
    assert near
    for children in near:
        changes = (children[:, None] != idis[None]).sum(axis=2)
        assert (changes == 1).all(axis=0).any()  # one parent explains them all


def test_the_same_generator_gives_the_same_search() -> None:
    domain = medium_domain()
    model, x = (
        Model(TorchModel(planted(domain)).probabilities),
        domain.sample(500, rng=np.random.default_rng(4)),
    )
    first, second = (
        proposals(domain, model, SymbGen(x=x, samples=400), x[:20], limit=40) for _ in range(2)
    )
    for (one, _), (other, _) in zip(first, second, strict=True):
        assert one.phase == other.phase
        assert np.array_equal(one.x, other.x)
        assert np.array_equal(one.origin, other.origin)


# The BLAS sets the flag of an invalid operation now and then, without one.
@pytest.mark.filterwarnings("ignore:invalid value encountered in matmul:RuntimeWarning")
@pytest.mark.parametrize("kind", ["forest", "regression"])
def test_a_black_box_is_enough(kind: str) -> None:
    domain = medium_domain()
    rng = np.random.default_rng(5)
    x = domain.sample(2000, rng=rng)
    y = x[:, :4].sum(axis=1) + 8 * x[:, 4] > 48
    classifier = (
        RandomForestClassifier(10, random_state=0)
        if kind == "forest"
        else LogisticRegression(max_iter=1000)
    )
    model = Model(classifier.fit(x, y).predict_proba)
    findings = run(domain, model, wanted=10, inputs=None)
    assert len(findings) >= 10
    assert findings.generation.stopped == "wanted"


@pytest.mark.parametrize("kind", ["one-hot", "real"])
def test_other_kinds_of_attributes(kind: str) -> None:
    odd = (
        Attribute(
            name="charge", kind="categorical", categories=tuple("abcdefghijklmnop"), one_hot=True
        )
        if kind == "one-hot"
        else Attribute(name="share", kind="real", low=-1, high=3)
    )
    domain = Domain((*medium_domain().attributes, odd), sensitive=("gender",))
    encoder = Encoder(domain)
    model = TorchModel(
        dense(domain, (12, 6), seed=1), encoder=None if encoder.is_identity else encoder
    )
    findings = run(domain, model)
    assert findings.generation.tried > 20
    domain.require_inside(findings.x)
    assert judge(domain, model, findings.x).is_discriminatory.all()


@pytest.mark.usefixtures("ticking")
def test_the_seconds_of_the_budget_end_it_and_without_them_its_own() -> None:
    domain = medium_domain()
    model = TorchModel(planted(domain))
    assert run(domain, model, seconds=5, inputs=None).generation.stopped == "seconds"
    seeds = domain.sample(5, rng=np.random.default_rng(0))
    own = SymbGen(x=seeds, seconds=3, samples=100)
    found = search(domain, model, own, seeds, rng=np.random.default_rng(0))
    assert found.generation.stopped == "seconds"


def test_the_clock_is_looked_at_when_there_is_nobody_new() -> None:
    """A tiny domain is soon known by heart; the inputs that wait must not hold the search beyond
    its time.
    """
    domain = tiny_domain()
    tried = proposals(
        domain,
        TorchModel(planted(domain)),
        SymbGen(x=everybody(domain), samples=300),
        everybody(domain),
        limit=10_000,
    )
    assert (
        len(tried) > len(tried[0][0].x) == 150
    )  # one for every input taken, although all were proposed at once


def test_one_class_ends_quietly() -> None:
    domain = tiny_domain()
    findings = run(domain, Model(lambda x: rule(np.ones(len(x), dtype=bool))))
    assert len(findings) == 0
    assert findings.generation.stopped == "complete"
    assert findings.generation.tried == 20


def test_constraints_are_kept() -> None:
    plain = medium_domain()
    repairable = Constraint(
        "years",
        lambda c: c["years"] <= c["effort"] + 10,
        lambda c: {"years": np.minimum(c["years"], c["effort"] + 10)},
    )
    strict = Constraint("even", lambda c: (c["tests"] + c["skill"]) % 2 == 0)
    domain = Domain(plain.attributes, plain.sensitive, (repairable, strict))
    model = TorchModel(planted(domain))
    seeds = domain.sample(20, rng=np.random.default_rng(1))
    tried = proposals(
        domain,
        model,
        SymbGen(x=plain.sample(500, rng=np.random.default_rng(0)), samples=300),
        seeds,
        limit=50,
    )
    assert sum(len(proposal.x) for proposal, _ in tried) > 30
    assert all(domain.satisfies(proposal.x).all() for proposal, _ in tried)


def test_seeds_twice_are_proposed_once_and_no_seeds_are_no_search() -> None:
    domain, model = tiny_domain(), Model(skilled)
    method = SymbGen(x=everybody(domain), samples=100)
    one = everybody(domain)[:1]
    assert len(proposals(domain, model, method, np.concatenate([one, one]))[0][0].x) == 1
    assert sum(len(proposal.x) for proposal, _ in proposals(domain, model, method, one[:0])) == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"samples": 1}, "at least 2"),
        ({"confidence": 1.5}, "between 0 and 1"),
        ({"queue": 0}, "at least 1 input"),
        ({"seconds": 0.0}, "more than 0"),
        ({"x": np.zeros((0, 4), dtype=np.float32)}, "at least one row"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        SymbGen(**{"x": np.zeros((1, 4), dtype=np.float32), **settings})  # type: ignore[arg-type]


def test_training_data_of_another_width_is_refused() -> None:
    domain = tiny_domain()
    with pytest.raises(DomainError, match="training data"):
        search(
            domain,
            Model(skilled),
            SymbGen(x=np.zeros((3, 2), dtype=np.float32)),
            everybody(domain)[:2],
            rng=np.random.default_rng(0),
        )


def test_settings_are_shown_without_the_data() -> None:
    assert (
        repr(SymbGen(x=np.zeros((1, 4), dtype=np.float32)))
        == "SymbGen(samples=5000, confidence=0.3, queue=10000, inputs=None, seconds=60.0)"
    )


def test_the_reference_network_discriminates_by_gender() -> None:
    domain, model, (x, _) = census_domain(), census_network(), census_rows()
    rng = np.random.default_rng(0)
    findings = search(
        domain,
        model,
        SymbGen(x=x, inputs=60, seconds=None),
        choose_seeds(domain, x, 100, rng=rng),
        rng=rng,
    )
    assert len(findings) / findings.generation.tried > 0.05  # uniform draws: 0.01 to 0.02
