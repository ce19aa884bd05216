"""The language of constraints: what each rule means for rows worked out by hand, how it repairs
them, and what is refused.
"""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairprobe.arrays import Rows
from fairprobe.errors import DomainError
from fairprobe.schema.coding import Coding
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.schema.rules import RuleText, WrittenConstraint, constraint_of

CODING = Coding(
    Domain(
        (
            Attribute(name="age", low=0, high=90, missing=-1),
            Attribute(name="capital-gain", low=0, high=99, bin=1000),
            Attribute(name="rate", kind="real", low=0, high=1, missing=-1),
            Attribute(
                name="work",
                kind="categorical",
                categories=("None", "Private", "O'Brien & Co"),
                missing=-1,
            ),
            Attribute(name="region", kind="categorical", categories=("1", "2", "30"), missing=-1),
            Attribute(name="married", kind="categorical", categories=("False", "True"), missing=-1),
            Attribute(name="odd`name", low=0, high=9),
        ),
        sensitive=("married",),
    ),
    values={"region": (1, 2, 30), "married": (False, True)},
    gaps=True,
)
TABLE = pd.DataFrame(
    {
        "age": [10, 30, 60, np.nan],
        "capital-gain": [0, 5000, 99000, 0],
        "rate": [0.1, 0.5, 1.0, np.nan],
        "work": ["None", "Private", "O'Brien & Co", None],
        "region": [1, 2, 30, np.nan],
        "married": pd.Series([False, True, True, np.nan], dtype=object),
        "odd`name": [0, 1, 2, 3],
    }
)
ROWS = CODING.rows(TABLE)


def columns(x: Rows) -> dict[str, Rows]:
    return {name: x[:, place] for place, name in enumerate(CODING.domain.names)}


def parsed(name: str = "mine", **parts: str) -> WrittenConstraint:
    return constraint_of(RuleText(name, **parts), CODING)


def held(rule: str, rows: Rows = ROWS) -> list[bool]:
    answer = parsed(rule=rule).holds(columns(rows))
    assert answer.dtype == np.bool_
    return list(map(bool, answer))


def with_rules(*rules: dict[str, str]) -> Domain:
    return Domain(
        CODING.domain.attributes,
        ("married",),
        tuple(parsed(f"rule {place}", **rule) for place, rule in enumerate(rules)),
    )


# -- what rules mean -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("age <= 30", [True, True, False]),
        ("age < 30", [True, False, False]),
        ("30 > age", [True, False, False]),
        ("age == 30", [False, True, False]),
        ("age != 30", [True, False, True]),
        ("10 < age <= 60", [False, True, True]),
        ("rate <= 0.1", [True, False, False]),
        ("rate == 0.1", [True, False, False]),
        ("`capital-gain` >= 5000", [False, True, True]),
        ("`capital-gain` > age * 100", [False, True, True]),
        ("age / 10 + 1 == 4", [False, True, False]),
        ("-age > -31", [True, True, False]),
        ("age - -5 > 20", [False, True, True]),
        ("age in [10, 60]", [True, False, True]),
        ("age not in (10, 60)", [False, True, False]),
        ("age + 1 in {11}", [True, False, False]),
        ("work == 'Private'", [False, True, False]),
        ("'Private' != work", [True, False, True]),
        ("work in ['None', 'Private']", [True, True, False]),
        ('work == "O\'Brien & Co"', [False, False, True]),
        ("work not in ['None']", [False, True, True]),
        ("region == 30", [False, False, True]),
        ("region < 3", [True, True, False]),
        ("region in [1, 30]", [True, False, True]),
        ("married == True", [False, True, True]),
        ("married == 'False'", [True, False, False]),
        ("`odd``name` >= 1", [False, True, True]),
        ("not age < 30", [False, True, True]),
        ("age < 20 or work == 'O\\'Brien & Co' and rate == 1", [True, False, True]),
        ("  (age < 20 or\n rate == 1) and region != 1", [False, False, True]),
        ("age / `odd``name` <= 30", [False, True, True]),
        ("age / `odd``name` != 30", [False, False, False]),
    ],
)
def test_a_rule_holds_for_these_rows(rule: str, expected: list[bool]) -> None:
    assert held(rule, ROWS[:3]) == expected


@pytest.mark.parametrize(
    "rule",
    [
        "age > 100",
        "rate > 2",
        "work == 'None'",
        "region == 1",
        "married == True",
        "age > 100 and `odd``name` > 5",
    ],
)
def test_whoever_has_a_gap_fulfils_the_rule(rule: str) -> None:
    assert held(rule)[3]


def test_a_rule_about_other_attributes_concerns_rows_with_gaps_too() -> None:
    assert held("`odd``name` < 3") == [True, True, True, False]


def test_then_is_required_only_where_when_holds() -> None:
    constraint = parsed(when="age < 40", then="work == 'None'")
    assert constraint.holds(columns(ROWS)).tolist() == [True, False, True, True]


@given(st.integers(0, 90), st.integers(0, 90), st.floats(0, 1, width=32))
def test_rules_agree_with_python_on_numbers(age: int, limit: int, rate: float) -> None:
    row = np.array([[age, 7, rate, 0, 0, 0, 0]], dtype=np.float32)
    assert held(f"age * 2 - 3 < {limit} or not age >= {limit} / 2", row) == [
        age * 2 - 3 < limit or not age >= limit / 2
    ]
    assert held(f"{limit} <= age < {limit} + 10", row) == [limit <= age < limit + 10]


# -- repairs ---------------------------------------------------------------------------------------

REPAIRABLE: list[dict[str, str]] = [
    {"when": "age < 16", "then": "work == 'None'"},
    {"when": "work == 'None'", "then": "`capital-gain` == 0 and rate == 0.3"},
    {"rule": "`odd``name` <= age / 10"},
    {"rule": "`odd``name` < age - 14"},
    {"rule": "rate >= 0.7"},
    {"rule": "rate < 0.1"},
    {"rule": "0.2 < rate <= 0.25"},
    {"when": "rate > 0.5", "then": "`capital-gain` >= 20500"},
    {"when": "rate > 0.5", "then": "5000 > `capital-gain`"},
    {"rule": "work in ['Private', 'None']"},
]


@pytest.mark.parametrize("rule", REPAIRABLE, ids=str)
def test_repaired_rows_obey_the_rule(rule: dict[str, str]) -> None:
    domain = with_rules(rule)
    assert domain.constraints[0].repair is not None
    rows = Domain(domain.attributes, ("married",)).sample(2000, rng=np.random.default_rng(0))
    rows = (
        rows[rows[:, 0] >= 15] if "age" in str(rule) and "rule" in rule else rows
    )  # below that age no code of odd`name is left
    assert not domain.satisfies(rows).all()
    repaired = domain.repair(rows)
    assert domain.satisfies(repaired).all()
    obeyed = domain.satisfies(rows)
    np.testing.assert_array_equal(repaired[obeyed], rows[obeyed])


def test_a_repair_changes_only_what_it_must() -> None:
    constraint = parsed(when="age < 40", then="`capital-gain` <= 3500 and work == 'None'")
    assert constraint.repair is not None
    changed = constraint.repair(columns(ROWS))
    assert changed["capital-gain"].tolist() == [0, 3, 99, 0]
    assert changed["work"].tolist() == [0, 0, 2, -1]


@pytest.mark.parametrize(
    "rule",
    [
        "age > 3 or rate > 0.5",
        "not age > 3",
        "age != 3",
        "age + 1 < 3 + rate",
        "region == 2",
        "age in [1, 2]",
        "work != 'None'",
    ],
)
def test_a_rule_that_implies_no_repair_has_none(rule: str) -> None:
    assert parsed(rule=rule).repair is None


def test_a_sample_obeys_rules_with_and_without_repair() -> None:
    domain = with_rules(
        REPAIRABLE[0],
        {"rule": "age > 40 or rate > 0.5"},
        {"when": "age < 30", "then": "married == False"},
    )
    rows = domain.sample(500, rng=np.random.default_rng(1))
    assert len(rows) == 500
    assert domain.satisfies(rows).all()


def test_a_domain_with_rules_can_be_sent_to_another_process() -> None:
    domain = with_rules(*REPAIRABLE)
    again = pickle.loads(pickle.dumps(domain))
    np.testing.assert_array_equal(again.satisfies(ROWS), domain.satisfies(ROWS))


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("agee > 3", "there is no attribute 'agee'. Did you mean 'age'"),
        ("`capital gain` > 3", "Did you mean 'capital-gain'"),
        ("work == 'Privat'", "'Privat' is not a category of 'work'. Did you mean 'Private'"),
        ("work in ['None', 'x']", "'x' is not a category of 'work'"),
        ("work < 'Private'", "'work' is a category; it can be compared by ==, != and in, not by <"),
        ("'Private' < work", "not by >"),
        ("work == 3", "compare it with the name of one, such as 'None'"),
        ("work == married", "both categories"),
        ("work in [1]", "must hold names of its categories"),
        ("work + 1 > 3", "nothing can be calculated with it"),
        ("'a' * 2 > age", "'a' is not a number"),
        ("age == 'old'", "'old' is compared with a number"),
        ("work == 'a\\d'", "is not a category"),
        ("age", "age is not a condition"),
        ("age + 3", "is not a condition"),
        ("`capital-gain`", ": `capital-gain` is not a condition"),
        ("age in 3", "needs a list"),
        ("age in []", "needs a list"),
        ("age in ['x']", "list of plain values"),
        ("'x' in ['x']", "list of plain values"),
        ("age is 3", "write == or !="),
        ("age >", "cannot be read"),
        (" \n", "the text is empty"),
        ("age > 3) or (rate > 1", "cannot be read"),
        ("`age > 3", "a backtick is not closed"),
        ("age ** 2 > 3", "not part of the language"),
        ("age > 1e999", "not part of the language"),
        ("age > 1j", "not part of the language"),
        ("abs(age) > 3", "not part of the language"),
        ("age.real > 3", "not part of the language"),
        ("__import__('os').system('true') == 0", "not part of the language"),
        ("[x for x in age] == 3", "not part of the language"),
        ("(lambda: 3)() < age", "not part of the language"),
        ("f'{age}' == 'x'", "not part of the language"),
        ("(age := 3) > 2", "not part of the language"),
        ("age > 3 if rate else 4", "is not a condition"),
        ("-'a' < age", "is not a number"),
        ("age > 3\x00", "cannot be read"),
        ("(" * 5000 + "age > 3" + ")" * 5000, "at most|cannot be read"),
        ("not " * 3000 + "age > 3", "at most|cannot be read"),
    ],
)
def test_an_invalid_rule_is_refused_when_it_is_read(rule: str, message: str) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        parsed(rule=rule)
    assert str(caught.value).startswith("Constraint 'mine', rule: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"when": "age > 3"},
        {"then": "age > 3"},
        {"rule": "age > 3", "when": "age > 3", "then": "age > 3"},
    ],
)
def test_a_constraint_needs_a_rule_or_both_when_and_then(parts: dict[str, Any]) -> None:
    with pytest.raises(DomainError, match="either `rule`, or `when` together with `then`"):
        parsed(**parts)
