"""Short rules for who is affected most: they are found, and no more certain than they can be."""

from __future__ import annotations

import numpy as np
import pytest

from fairprobe.arrays import Mask, Rows
from fairprobe.documents.people import RuleRate
from fairprobe.models import Model
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.table.people import people
from fairprobe.table.rules import find_rules

TOWNS = ("Aachen", "Bonn", "Celle", "Dresden", "Essen", "Fulda")
DOMAIN = Domain(
    (
        Attribute(name="town", kind="categorical", categories=TOWNS),
        Attribute(name="age", low=1, high=9, bin=10, missing=100),
        Attribute(name="income", kind="real", low=0, high=200_000),
        Attribute(name="hours", low=0, high=99),
        Attribute(name="gender", kind="categorical", categories=("female", "male")),
    ),
    ("gender",),
)


def table(n: int, rng: np.random.Generator) -> Rows:
    """People whose attributes are independent of each other."""
    return np.column_stack(
        [
            rng.integers(0, 6, n),
            rng.integers(1, 10, n),
            rng.lognormal(10.5, 0.6, n).clip(0, 200_000),
            rng.integers(0, 100, n),
            rng.integers(0, 2, n),
        ]
    ).astype(np.float32)


def planted(x: Rows, group: Mask, rng: np.random.Generator, *, other: float = 0.05) -> Mask:
    """Of the group 70 % are affected, of the others few."""
    return np.asarray(rng.random(len(x)) < np.where(group, 0.7, other))


def outcomes(found: list[RuleRate]) -> list[str]:
    return [rule.rule for rule in found]


def test_a_planted_group_is_found_and_described_in_the_right_words() -> None:
    rng = np.random.default_rng(0)
    x = table(8000, rng)
    # Their codes, 1 and 4, are no neighbors.
    group = np.isin(x[:, 0], [1, 4]) & (x[:, 1] >= 4) & (x[:, 1] <= 5)
    found = find_rules(DOMAIN, x, planted(x, group, rng))
    assert set(found[0].rule.split(" and ")) in (
        {"town Bonn or Essen", "age 40–59"},
        {"town Essen or Bonn", "age 40–59"},
    )
    assert found[0].low < 0.7 < found[0].high
    assert all(rule.high < 0.2 for rule in found[1:])
    assert sum(rule.samples for rule in found) == 4000  # the half that was not grown on


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (lambda x: x[:, 3] > 45, "hours above 45"),
        (lambda x: x[:, 3] <= 45, "hours up to 45"),
        (lambda x: x[:, 1] > 4, "age above 49"),
        (lambda x: x[:, 1] == 100, "age not known"),
        (lambda x: x[:, 1] > 4, "age above 49 or not known"),
        (lambda x: x[:, 0] == 2, "town Celle"),
        (lambda x: x[:, 0] != 2, "town not Celle"),
        (lambda x: x[:, 2] > 70_100, "income above 69,910"),  # as far as 4,000 people show
    ],
)
def test_one_condition_in_words(where: object, words: str) -> None:
    rng = np.random.default_rng(1)
    x = table(4000, rng)
    if "not known" in words:
        x[:400, 1] = 100
    found = find_rules(DOMAIN, x, planted(x, where(x), rng))  # type: ignore[operator]
    assert len(found) == 2
    assert outcomes(found)[0].startswith(words)


def test_real_numbers_are_cut_at_the_roundest_number_between_two_people() -> None:
    rng = np.random.default_rng(2)
    x = table(1000, rng)
    x[:, 2] = np.where(rng.random(1000) < 0.5, 33_333.25, 78_912.5)
    assert outcomes(find_rules(DOMAIN, x, planted(x, x[:, 2] > 50_000, rng))) == [
        "income above 60,000",
        "income up to 60,000",
    ]


def test_rare_categories_are_one_and_long_lists_are_cut() -> None:
    names = tuple(f"c{place}" for place in range(30))
    domain = Domain(
        (Attribute(name="job", kind="categorical", categories=names), DOMAIN["gender"]), ("gender",)
    )
    rng = np.random.default_rng(3)
    # Ten common jobs and twenty that few people have.
    jobs = np.where(rng.random(6000) < 0.9, rng.integers(0, 10, 6000), rng.integers(10, 30, 6000))
    x = np.column_stack([jobs, rng.integers(0, 2, 6000)]).astype(np.float32)
    (most, rest) = outcomes(find_rules(domain, x, planted(x, jobs >= 10, rng)))
    assert most == "job a rarer one"
    assert rest == "job not a rarer one"
    (most, rest) = outcomes(find_rules(domain, x, planted(x, jobs < 6, rng)))
    assert most.endswith("or 2 more") or most.startswith("job not")
    assert len(most.split(",")) <= 5


def test_a_name_with_a_comma_or_an_or_is_quoted() -> None:
    names = ("none", "200 DM or more", "less, but some")
    domain = Domain(
        (Attribute(name="account", kind="categorical", categories=names), DOMAIN["gender"]),
        ("gender",),
    )
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)]).astype(np.float32)
    found = outcomes(find_rules(domain, x, planted(x, x[:, 0] > 0, rng)))
    assert found[0] in {
        "account “200 DM or more” or “less, but some”",
        "account “less, but some” or “200 DM or more”",
    }


def test_where_nothing_tells_the_affected_people_apart_there_is_no_rule() -> None:
    rng = np.random.default_rng(5)
    divided = 0
    for _ in range(60):
        x = table(600, rng)
        divided += bool(find_rules(DOMAIN, x, rng.random(600) < 0.2))
    assert divided <= 9  # 5 % of the tables are expected, 15 % would be very unlucky


@pytest.mark.parametrize("share", [0.03, 0.3])
def test_the_intervals_of_all_rules_together_hold_the_true_rate_in_95_of_100_tables(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Everybody is affected at random, so the true rate of every rule is the same. Without the
    # comparison with chance the tree divides the people all the same.
    monkeypatch.setattr("fairprobe.table.rules.SHUFFLES", 0)
    rng = np.random.default_rng(6)
    held, most = 0, 0
    for seed in range(300):
        x = table(1000, rng)
        found = find_rules(DOMAIN, x, rng.random(1000) < share, seed=seed)
        most = max(most, len(found))
        held += all(rule.low <= share <= rule.high for rule in found)
    assert most >= 6
    assert held / 300 >= 0.95


def test_no_group_is_listed_by_chance_in_95_of_100_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    # The cents of the income decide, which no group knows. A group is listed if its interval
    # lies above the share of everybody.
    monkeypatch.setattr("fairprobe.table.rules.SHUFFLES", 0)
    rng = np.random.default_rng(7)
    model = Model(lambda x: np.where(x[:, 2] % 1 < 0.3, x[:, 4], 0))
    listed, shares = 0, []
    for _ in range(300):
        found = people(DOMAIN, model, table(1000, rng))
        assert found.groups_compared > 10
        listed += bool(found.groups)
        shares.append(found.estimate)
    assert np.mean(shares) == pytest.approx(0.3, abs=0.02)
    assert listed / 300 <= 0.05


def test_the_same_seed_finds_the_same_rules_and_another_seed_divides_people_otherwise() -> None:
    rng = np.random.default_rng(8)
    x = table(3000, rng)
    affected = planted(x, x[:, 3] > 45, rng)
    assert find_rules(DOMAIN, x, affected, seed=1) == find_rules(DOMAIN, x, affected, seed=1)
    assert find_rules(DOMAIN, x, affected, seed=1) != find_rules(DOMAIN, x, affected, seed=2)


@pytest.mark.parametrize("n", [0, 1, 60, 199])
def test_few_people_have_no_rules(n: int) -> None:
    rng = np.random.default_rng(9)
    x = table(n, rng)
    assert find_rules(DOMAIN, x, x[:, 3] > 45) == []


def test_where_everybody_or_nobody_is_affected_there_is_no_rule() -> None:
    x = table(1000, np.random.default_rng(10))
    for affected in (np.zeros(1000, dtype=bool), np.ones(1000, dtype=bool)):
        assert find_rules(DOMAIN, x, affected) == []
