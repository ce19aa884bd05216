"""How usual a person is: the parts of the score against other libraries and numbers worked out one
by one, and the score against people whose population is known.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from math import log

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

import fairprobe as fp
from fairprobe.arrays import Ints, Rows
from fairprobe.people import Plausibility, PlausiblePeople
from fairprobe.people.plausibility import MOST, SUSPICIOUS, Table, mutual_information
from fairprobe.schema.domain import Attribute, Domain
from tests.people.population import AGE, DOMAIN, GENDER, PREGNANT, STATUS, draw_people


def categories(*sizes: int) -> Domain:
    return Domain(
        tuple(
            Attribute(
                name=f"c{number}", kind="categorical", categories=tuple(map(str, range(size)))
            )
            for number, size in enumerate(sizes)
        )
    )


def cross_table(a: Ints, b: Ints) -> Table:
    counts = np.zeros((a.max() + 1, b.max() + 1), dtype=np.int32)
    np.add.at(counts, (a, b), 1)
    return counts


def information(counts: Table) -> float:
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return float(mutual_information(counts.astype(np.int64), expected, np.array([0]))[0])


# -- mutual information and the tree ---------------------------------------------------------------


@pytest.mark.parametrize("linked", [0.0, 0.3, 1.0])
def test_mutual_information_is_the_one_of_scikit_learn_less_the_chance_term(linked: float) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 5, 3000)
    b = np.where(rng.random(3000) < linked, a // 2, rng.integers(0, 3, 3000))
    wanted = mutual_info_score(a, b) - 4 * 2 / (2 * 3000)  # (rows − 1)(columns − 1) / 2n
    assert information(cross_table(a, b)) == pytest.approx(max(wanted, 0), abs=1e-12)


def test_the_chance_term_is_what_independent_columns_show_on_average() -> None:
    rng = np.random.default_rng(0)
    shown = [
        mutual_info_score(rng.integers(0, 4, 500), rng.integers(0, 6, 500)) for _ in range(300)
    ]
    assert np.mean(shown) == pytest.approx(3 * 5 / 1000, rel=0.1)


def test_values_that_nobody_has_do_not_count() -> None:
    counts = np.zeros((5, 7), dtype=np.int32)
    counts[1, 2], counts[3, 4] = 30, 70
    wanted = -0.3 * log(0.3) - 0.7 * log(0.7) - 1 / 200
    assert information(counts) == pytest.approx(wanted)


def test_the_tree_finds_a_planted_chain() -> None:
    rng = np.random.default_rng(0)
    chain = [2, 0, 4, 1, 3]  # each depends on the one before
    x = np.empty((4000, 5), dtype=np.float32)
    x[:, chain[0]] = rng.integers(0, 4, 4000)
    for before, column in pairwise(chain):
        x[:, column] = np.where(rng.random(4000) < 0.8, x[:, before], rng.integers(0, 4, 4000))
    tree = Plausibility.fit(categories(4, 4, 4, 4, 4), x).tree
    edges = {frozenset((column, above)) for column, above in enumerate(tree.parent) if above >= 0}
    assert edges == {frozenset(pair) for pair in pairwise(chain)}
    assert sorted(tree.order) == [0, 1, 2, 3, 4]
    for column, above in enumerate(tree.parent):
        wanted = 0.0 if above < 0 else mutual_info_score(x[:, column], x[:, above]) - 9 / 8000
        assert tree.information[column] == pytest.approx(wanted, abs=1e-9)


def test_of_a_wide_table_fewer_people_choose_the_pairs_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.random.default_rng(0).integers(0, 4, (4000, 6)).astype(np.float32)
    x[:, 5] = x[:, 0]
    monkeypatch.setattr("fairprobe.people.plausibility.COMPARISONS", 1)
    monkeypatch.setattr("fairprobe.people.plausibility.FEWEST_COMPARED", 500)
    model = Plausibility.fit(categories(4, 4, 4, 4, 4, 4), x)
    assert model.tree.parent[5] == 0
    entropy = -np.log(np.bincount(x[:500, 0].astype(int)) / 500) @ np.bincount(
        x[:500, 0].astype(int)
    )
    assert model.tree.information[5] == pytest.approx(entropy / 500 - 9 / 1000)
    conditional = np.exp(model.tree.tables[list(model.tree.order).index(5)]).reshape(5, 5)
    everybody = np.bincount(x[:, 0].astype(int))
    share = (everybody + 0.5) / (4000 + 2.5)
    wanted = (everybody + share) / (everybody + 1)
    np.testing.assert_allclose(np.sort(np.diag(conditional)[:4]), np.sort(wanted), rtol=1e-6)


# -- the two measures, counted in plain Python -----------------------------------------------------


@pytest.fixture(scope="module")
def small() -> tuple[Plausibility, Rows]:
    """People with three categories, of which one pair never occurs together."""
    rng = np.random.default_rng(3)
    a, c = rng.integers(0, 3, 600), rng.integers(0, 2, 600)
    b = np.where(a == 0, rng.integers(0, 2, 600), rng.integers(0, 4, 600))
    x = np.stack([a, b, c], axis=1).astype(np.float32)
    return Plausibility.fit(categories(3, 5, 2), x), x


def every_row() -> Rows:
    axes = [np.arange(size, dtype=np.float32) for size in (3, 5, 2)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def test_the_likelihood_is_the_one_counted_by_hand(small: tuple[Plausibility, Rows]) -> None:
    model, x = small
    people = [tuple(map(int, row)) for row in x]
    single = [Counter(row[column] for row in people) for column in range(3)]

    def share(column: int, value: int) -> float:
        # Half a person more for each value that occurs, and for all that do not together.
        return (single[column][value] + 0.5) / (len(people) + 0.5 * (len(single[column]) + 1))

    def likelihood(row: tuple[int, ...]) -> float:
        total = 0.0
        for column, above in enumerate(model.tree.parent):
            if above < 0:
                total += log(share(column, row[column]))
                continue
            both = sum(each[column] == row[column] and each[above] == row[above] for each in people)
            alone = single[above][row[above]]
            total += log((both + share(column, row[column])) / (alone + 1))
        return total

    asked = every_row()
    wanted = [likelihood(tuple(map(int, row))) for row in asked]
    np.testing.assert_allclose(model._measure(asked)[0], wanted, rtol=1e-5)
    # It is a distribution: over all rows, those that the table cannot tell apart once.
    assert np.exp(wanted).sum() <= 1


def test_the_worst_lift_is_the_one_counted_by_hand(small: tuple[Plausibility, Rows]) -> None:
    model, x = small
    people = [tuple(map(int, row)) for row in x]

    def lift(a: int, b: int, one: int, other: int) -> float:
        both = sum(row[a] == one and row[b] == other for row in people)
        alone = sum(row[a] == one for row in people), sum(row[b] == other for row in people)
        return log((both + 0.5) / (alone[0] * alone[1] / len(people) + 0.5))

    telling = [
        (a, b)
        for a, b in combinations(range(3), 2)
        if min(lift(a, b, one, other) for one in range(3) for other in range(4)) < SUSPICIOUS
    ]
    assert telling == [(0, 1)] == [(a, b) for a, b, _ in model.lifts]
    asked = every_row()
    wanted = [min(0.0, lift(0, 1, int(row[0]), int(row[1]))) for row in asked]
    np.testing.assert_allclose(model._measure(asked)[1], wanted, rtol=1e-5, atol=1e-7)
    assert min(wanted) < SUSPICIOUS


# -- the score -------------------------------------------------------------------------------------


def test_of_new_people_a_twentieth_scores_below_a_twentieth(
    people: PlausiblePeople, fresh: Rows
) -> None:
    score = people.score(fresh)
    assert (score < 0.05).mean() == pytest.approx(0.05, abs=0.01)
    assert (score < 0.5).mean() == pytest.approx(0.5, abs=0.02)
    assert score.min() > 0
    assert score.max() <= 1


def test_people_who_are_all_alike_are_all_usual() -> None:
    x = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [9000, 940, 60]))
    x = x.astype(np.float32)[:, None]
    common, tenth, rare = Plausibility.fit(categories(3), x).score(
        np.arange(3, dtype=np.float32)[:, None]
    )
    assert common == 1
    assert tenth == pytest.approx(0.1, abs=0.001)  # as unusual as these are 10 %
    assert rare == pytest.approx(0.006, abs=0.001)


@pytest.mark.parametrize("seed", range(5))
def test_the_score_is_calibrated_in_every_sample(seed: int, fresh: Rows) -> None:
    model = Plausibility.fit(DOMAIN, draw_people(16_000, np.random.default_rng([7, seed])))
    assert (model.score(fresh) < 0.05).mean() == pytest.approx(0.05, abs=0.01)


def test_the_score_is_calibrated_on_the_census() -> None:
    data = fp.datasets.adult()
    split = data.split(0)
    model = Plausibility.fit(data.domain, data.x[np.concatenate([split.train, split.validation])])
    assert (model.score(data.x[split.test]) < 0.05).mean() == pytest.approx(0.05, abs=0.01)


def test_impossible_combinations_are_not_plausible(people: PlausiblePeople, fresh: Rows) -> None:
    pregnant_men = fresh[fresh[:, GENDER] == 1]
    pregnant_men[:, PREGNANT] = 1
    wives_who_are_men = fresh[(fresh[:, GENDER] == 0) & (fresh[:, STATUS] == 2)]
    wives_who_are_men[:, GENDER] = 1
    old_and_pregnant = fresh[(fresh[:, GENDER] == 0) & (fresh[:, AGE] >= 55)]
    old_and_pregnant[:, PREGNANT] = 1
    for impossible in (pregnant_men, wives_who_are_men, old_and_pregnant):
        assert len(impossible) > 500
        assert people.score(impossible).max() < 0.05
        assert not people.is_plausible(impossible).any()
    assert people.is_plausible(fresh).mean() > 0.94  # the control


def test_a_score_never_is_zero(people: PlausiblePeople) -> None:
    nobody = people.domain.high[None] + 1000  # values that nobody has
    assert 0 < people.score(nobody)[0] < 0.001


def test_a_more_unusual_person_never_scores_higher(people: PlausiblePeople, fresh: Rows) -> None:
    score = people.score(fresh)
    likelihoods, worst = people.plausibility._measure(fresh)
    best, order = 0.0, np.lexsort((worst, likelihoods))
    rng = np.random.default_rng(0)
    for one, other in rng.choice(order, (2000, 2)):
        if likelihoods[one] <= likelihoods[other] and worst[one] <= worst[other]:
            assert score[one] <= score[other]
            best = max(best, float(score[other]))
    assert best > 0.5  # some were compared


# -- tables that are hardly tables -----------------------------------------------------------------


def test_one_attribute_is_a_table() -> None:
    x = np.repeat([0, 1, 2], [700, 290, 10]).astype(np.float32)[:, None]
    x = np.random.default_rng(0).permutation(x)
    model = Plausibility.fit(categories(4), x)
    common, rarer, rare, never = model.score(np.arange(4, dtype=np.float32)[:, None])
    assert common == 1
    assert common > rarer > rare >= never > 0
    assert rare < 0.05


def test_constants_are_a_table() -> None:
    model = Plausibility.fit(categories(3, 3), np.ones((300, 2), dtype=np.float32))
    same, other = model.score(np.array([[1, 1], [1, 2]], dtype=np.float32))
    assert same == 1
    assert 0 < other < 0.05


def test_as_many_categories_as_people_are_a_table() -> None:
    rng = np.random.default_rng(0)
    x = np.stack([rng.permutation(10_000), rng.integers(0, 2, 10_000)], axis=1)
    model = Plausibility.fit(categories(10_000, 2), x.astype(np.float32))
    # Nobody stands out, but for the few whose category is a bin of its own.
    assert (model.score(x.astype(np.float32)) <= 0.05).sum() < MOST
