"""Twins: counterparts whose coupled attributes change along, by hand and against walking the roles
one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairprobe.arrays import Mask, Rows
from fairprobe.errors import DomainError
from fairprobe.findings import Findings, Generation
from fairprobe.judgement import judge
from fairprobe.metrics import individual_fairness
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import Model
from fairprobe.schema import Attribute, Constraint, Coupling, Domain
from fairprobe.search.ledger import LOCAL, Ledger
from fairprobe.table.people import people
from tests.helpers import everybody

RELATIONSHIPS = ("Wife", "Own-child", "Husband", "Unmarried")
SPOUSES = Coupling("relationship", "gender", ({"Male": "Husband", "Female": "Wife"},))


def family(*sensitive: str, **changes: Any) -> Domain:
    """gender, relationship, age group, three incomes: 48 people; husbands and wives are twins."""
    given: dict[str, Any] = {"couplings": (SPOUSES,)} | changes
    return Domain(
        (
            Attribute(name="income", high=2),
            Attribute(name="relationship", kind="categorical", categories=RELATIONSHIPS),
            Attribute(name="gender", kind="categorical", categories=("Female", "Male")),
            Attribute(name="old", kind="categorical", categories=("no", "yes")),
        ),
        sensitive=sensitive or ("gender",),
        **given,
    )


def person(domain: Domain, income: int, relationship: str, gender: str, old: str = "no") -> Rows:
    codes = [
        domain["relationship"].code_of(relationship),
        domain["gender"].code_of(gender),
        domain["old"].code_of(old),
    ]
    return np.array([[income, *codes]], dtype=np.float32)


def words(domain: Domain, rows: Rows) -> list[tuple[str, str]]:
    described = [domain.describe(row) for row in rows]
    return [(each["relationship"], each["gender"]) for each in described]


# -- counterparts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relationship", "gender", "twins"),
    [
        ("Husband", "Male", [("Wife", "Female"), ("Husband", "Male")]),
        ("Wife", "Female", [("Wife", "Female"), ("Husband", "Male")]),
        ("Unmarried", "Male", [("Unmarried", "Female"), ("Unmarried", "Male")]),
        ("Husband", "Female", [("Husband", "Female"), ("Wife", "Male")]),
    ],
)
def test_the_twin_of_a_husband_is_a_wife(
    relationship: str, gender: str, twins: list[tuple[str, str]]
) -> None:
    domain = family()
    x = person(domain, 1, relationship, gender)
    assert words(domain, domain.counterparts(x)[0]) == twins
    assert (domain.counterparts(x)[0][domain.own_value(x)[0]] == x).all()
    bare = words(domain, domain.bare().counterparts(x)[0])
    assert bare == [(relationship, "Female"), (relationship, "Male")]


def test_a_case_is_the_same_whoever_of_it_is_met_first() -> None:
    domain = family()
    x = everybody(domain)
    every = domain.counterparts(x)
    again = domain.counterparts(every.reshape(-1, len(domain))).reshape(len(x), 2, 2, -1)
    assert (again == every[:, None]).all()
    assert (domain.key(every.reshape(-1, 4)).reshape(-1, 2) == domain.key(x)[:, None]).all()
    assert len(np.unique(domain.key(x))) == len(x) // 2  # each case is stored once
    assert (domain.canonical(domain.canonical(x))[:, 2] == x[:, 2]).all()


def test_without_an_active_coupling_nothing_else_changes() -> None:
    x = everybody(family())
    for domain in (family("old"), family("gender", "relationship")):
        assert domain.active_couplings == ()
        assert domain.changing == domain.sensitive
        assert (domain.counterparts(x) == domain.bare().counterparts(x)).all()
        assert domain.canonical(x) is x
    assert family().changing == ("gender", "relationship")
    assert family().bare().changing == ("gender",)
    plain = family(couplings=())
    assert plain.bare() is plain


def test_a_gap_in_a_coupled_attribute_stays_a_gap() -> None:
    domain = family()
    attributes = list(domain.attributes)
    attributes[1] = replace(attributes[1], missing=100)
    domain = replace(domain, attributes=tuple(attributes))
    x = np.array([[0, 100, 1, 0], [0, 2, 1, 0]], dtype=np.float32)
    assert domain.counterparts(x)[:, :, 1].tolist() == [[100, 100], [0, 2]]
    assert domain.canonical(x)[:, 1].tolist() == [100, 0]


THREE = ("f", "m", "x")
CATEGORIES = ("a", "b", "c", "d", "e")


@st.composite
def couplings(draw: st.DrawFn, attribute: str, sensitive: str, values: tuple[str, ...]) -> Coupling:
    """Random roles in which no category occurs twice."""
    left = list(draw(st.permutations(CATEGORIES)))
    roles: list[dict[str, str]] = []
    while left and (not roles or draw(st.booleans())):
        own = [left.pop() for _ in range(draw(st.integers(1, min(len(left), len(values)))))]
        roles.append({value: draw(st.sampled_from(own)) for value in values})
    return Coupling(attribute, sensitive, tuple(roles))


@given(couplings("kind", "s", THREE), couplings("kind", "t", ("no", "yes")))
def test_cases_are_disjoint_sets_that_follow_the_roles(one: Coupling, two: Coupling) -> None:
    domain = Domain(
        (
            Attribute(name="kind", kind="categorical", categories=CATEGORIES),
            Attribute(name="s", kind="categorical", categories=THREE),
            Attribute(name="t", kind="categorical", categories=("no", "yes")),
            Attribute(name="n", high=1),
        ),
        sensitive=("s", "t"),
        couplings=(one, two),
    )
    x = everybody(domain)
    cases: dict[int, set[tuple[float, ...]]] = {}
    for key, every in zip(domain.key(x).tolist(), domain.counterparts(x), strict=True):
        rows = {tuple(row) for row in every.tolist()}
        assert len(rows) == 6
        assert cases.setdefault(key, rows) == rows
    assert len(cases) == len(x) // 6
    assert sum(map(len, cases.values())) == len(set().union(*cases.values())) == len(x)
    alone = replace(domain, sensitive=("s",), couplings=(one,))
    for role in one.roles:  # a role under the first value is the same role under every value
        start = np.array([[alone["kind"].code_of(role["f"]), 0, 0, 0]], dtype=np.float32)
        kinds = [CATEGORIES[int(row[0])] for row in alone.counterparts(start)[0]]
        assert kinds == [role[value] for value in THREE]


def test_every_partial_map_becomes_a_permutation() -> None:
    attribute = Attribute(name="kind", kind="categorical", categories=CATEGORIES)
    sensitive = Attribute(name="s", kind="categorical", categories=("f", "m"))
    for a, b, c, d in permutations(CATEGORIES, 4):
        table = Coupling("kind", "s", ({"f": a, "m": b}, {"f": c, "m": d})).permutations(
            attribute, sensitive
        )
        assert np.array_equal(np.sort(table, axis=1), np.tile(np.arange(5), (2, 1)))
        mapped = {CATEGORIES[i]: CATEGORIES[j] for i, j in enumerate(table[1])}
        assert (mapped[a], mapped[b], mapped[c], mapped[d]) == (b, a, d, c)


@given(couplings("kind", "s", THREE), couplings("kind", "t", ("no", "yes")))
def test_merged_rows_of_a_case_differ_in_nothing_but_the_sensitive_columns(
    one: Coupling, two: Coupling
) -> None:
    domain = Domain(
        (
            Attribute(name="kind", kind="categorical", categories=CATEGORIES),
            Attribute(name="s", kind="categorical", categories=THREE),
            Attribute(name="t", kind="categorical", categories=("no", "yes")),
        ),
        sensitive=("s", "t"),
        couplings=(one, two),
    )
    x = everybody(domain)
    kinds = domain.merged(x)[:, 0]
    every = domain.merged(domain.counterparts(x).reshape(-1, 3))[:, 0].reshape(len(x), -1)
    assert (every == kinds[:, None]).all()
    # No more than that is merged: each merged category is reached by going from twin to twin.
    reached = np.eye(5, dtype=bool)
    for (before, *_), others in zip(x.astype(int), domain.counterparts(x), strict=True):
        reached[before, others[:, 0].astype(int)] = True
    for _ in range(5):
        reached = reached @ reached
    assert ((kinds[:, None] == kinds) == reached[x[:, 0].astype(int)][:, x[:, 0].astype(int)]).all()


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coupling", "message"),
    [
        (Coupling("relation", "gender", SPOUSES.roles), "there is no attribute 'relation'"),
        (Coupling("relationship", "sex", SPOUSES.roles), "there is no attribute 'sex'"),
        (Coupling("gender", "gender", SPOUSES.roles), "cannot change along with itself"),
        (Coupling("income", "gender", SPOUSES.roles), "'income' is integer; only categories can"),
        (Coupling("relationship", "gender", ()), "no role is given"),
        (
            Coupling("relationship", "gender", ({"Male": "Husband"},)),
            "the role {Male = 'Husband'} names no category for gender = 'Female'",
        ),
        (
            Coupling("relationship", "gender", ({"Man": "Husband", "Female": "Wife"},)),
            "'Man' is not a value of 'gender'",
        ),
        (
            Coupling("relationship", "gender", ({"Male": "Husbando", "Female": "Wife"},)),
            "'Husbando' is not a category of 'relationship'.*Husband",
        ),
        (
            Coupling(
                "relationship", "gender", (*SPOUSES.roles, {"Male": "Wife", "Female": "Unmarried"})
            ),
            "'Wife' is in two roles",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_refused_by_name(coupling: Coupling, message: str) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        family(couplings=(coupling,))
    where = f"Twins of '{coupling.attribute}' with '{coupling.sensitive}': "
    assert str(caught.value).startswith(where)


def test_a_rule_is_declared_once_and_within_the_bounds() -> None:
    with pytest.raises(DomainError, match="they are declared twice"):
        family(couplings=(SPOUSES, SPOUSES))
    domain = family()
    attributes = list(domain.attributes)
    attributes[1] = replace(attributes[1], high=1)
    with pytest.raises(DomainError, match="the bounds of 'relationship' exclude 'Husband'"):
        replace(domain, attributes=tuple(attributes))


def husbands_are_men(columns: Mapping[str, Rows]) -> Mask:
    return np.asarray((columns["relationship"] != 2) | (columns["gender"] == 1))


def wives_are_women(columns: Mapping[str, Rows]) -> Mask:
    return np.asarray((columns["relationship"] != 0) | (columns["gender"] == 0))


MEN = Constraint("husbands are men", husbands_are_men)
WOMEN = Constraint("wives are women", wives_are_women)


def test_a_rule_that_contradicts_a_constraint_is_refused() -> None:
    assert family(constraints=(MEN, WOMEN)).couplings == (SPOUSES,)
    wrong = Coupling("relationship", "gender", ({"Male": "Wife", "Female": "Husband"},))
    message = r"\('husbands are men'\) allow nobody with gender = 'Female' and relationship = 'Hus"
    with pytest.raises(DomainError, match=message):
        family(couplings=(wrong,), constraints=(MEN,))


def test_a_rule_agrees_with_a_constraint_that_few_people_obey() -> None:
    def poor(columns: Mapping[str, Rows]) -> Mask:
        return np.asarray((columns["relationship"] != 2) | (columns["income"] == 0))

    def made_poor(columns: Mapping[str, Rows]) -> dict[str, Rows]:
        return {"income": np.where(columns["relationship"] == 2, 0, columns["income"])}

    rule = Constraint("husbands are poor", poor, made_poor)
    domain = family(constraints=(rule,))
    attributes = list(domain.attributes)
    attributes[0] = replace(attributes[0], high=1_000_000)
    replace(domain, attributes=tuple(attributes))


# -- the judge, the ledger, the findings -----------------------------------------------------------


def answers(domain: Domain, favoured: str) -> Model:
    """A model that favours one relationship and ignores the gender."""
    code, column = domain["relationship"].code_of(favoured), domain.index("relationship")
    return Model(lambda x: np.where(x[:, column] == code, 0.9, 0.1))


@pytest.mark.parametrize(("favoured", "twins", "bare"), [("Husband", 24, 0), ("Own-child", 0, 0)])
def test_a_model_must_ignore_what_is_coupled_as_well(favoured: str, twins: int, bare: int) -> None:
    domain = family()
    model, x = answers(domain, favoured), everybody(domain)
    assert judge(domain, model, x).is_discriminatory.sum() == twins
    assert judge(domain.bare(), model, x).is_discriminatory.sum() == bare
    assert dm_rs(domain, model, rng=np.random.default_rng(0), samples=500).hits == 0


def test_a_model_that_treats_spouses_alike_yields_exactly_zero() -> None:
    domain = family()

    def by_marriage(x: Rows) -> Rows:
        married = np.isin(x[:, 1], (0, 2))
        return np.asarray(0.2 * x[:, 0] + 0.3 * married, dtype=np.float32)

    verdict = judge(domain, Model(by_marriage), everybody(domain))
    assert not verdict.is_discriminatory.any()
    assert (verdict.gap == 0).all()


def test_the_verdict_is_that_of_asking_every_twin() -> None:
    domain = family("gender", "old")
    table = np.random.default_rng(3).random(len(everybody(domain)))
    rows = {tuple(row): p for row, p in zip(everybody(domain).tolist(), table, strict=True)}
    model = Model(lambda x: np.array([rows[tuple(row)] for row in x.tolist()]))
    x = everybody(domain)
    expected = []
    for income, relationship, gender, _ in x.tolist():
        other = {0: 2, 2: 0}.get(relationship, relationship)
        case = [(relationship, gender), (other, 1 - gender)]
        labels = {rows[income, r, g, old] > 0.5 for r, g in case for old in (0, 1)}
        expected.append(len(labels) == 2)
    verdict = judge(domain, model, x)
    assert verdict.is_discriminatory.tolist() == expected
    others = {tuple(row) for row in verdict.x_other.tolist()}
    assert others <= rows.keys()
    assert verdict.has_counterpart.all()


def test_who_has_no_counterpart_is_counted_apart_and_never_as_fair() -> None:
    def no_female_husbands(columns: Mapping[str, Rows]) -> Mask:
        return husbands_are_men(columns) & wives_are_women(columns)

    bare = family(couplings=(), constraints=(Constraint("spouses", no_female_husbands),))
    x = everybody(bare)
    x = x[bare.satisfies(x)]
    spouses = np.isin(x[:, 1], (0, 2))
    verdict = judge(bare, answers(bare, "Husband"), x)
    assert (verdict.has_counterpart == ~spouses).all()
    assert not verdict.is_discriminatory[spouses].any()
    found = people(bare, answers(bare, "Husband"), x)
    assert (found.no_counterpart, found.samples) == (spouses.sum(), (~spouses).sum())
    assert sum(value.samples for value in found.values) == (~spouses).sum()
    fair = individual_fairness(bare, answers(bare, "Husband"), x, over="people")
    assert fair.b.samples == (~spouses).sum()

    twins = replace(bare, couplings=(SPOUSES,))
    verdict = judge(twins, answers(bare, "Husband"), x)
    assert verdict.has_counterpart.all()
    assert (verdict.is_discriminatory == spouses).all()
    impossible = person(bare, 0, "Husband", "Female")
    assert not judge(twins, answers(bare, "Husband"), impossible).has_counterpart[0]


@pytest.mark.parametrize("exact", [True, False])
def test_a_case_is_stored_once_with_what_changed(exact: bool, tmp_path: Path) -> None:
    domain = family()
    if not exact:
        attributes = (Attribute(name="size", kind="real", low=0, high=1), *domain.attributes[1:])
        domain = replace(domain, attributes=attributes)
        assert not domain.exact_keys
    x = np.concatenate(
        [
            person(domain, 1, "Husband", "Male"),
            person(domain, 1, "Wife", "Female"),  # the same case
            person(domain, 1, "Wife", "Male"),
            person(domain, 1, "Unmarried", "Male"),  # not discriminatory
        ]
    )
    ledger = Ledger(domain)
    verdict = judge(domain, answers(domain, "Husband"), x)
    ledger.add(x, verdict, origin=np.arange(4), phase=LOCAL)
    assert (ledger.count_found(), ledger.count_tried()) == (2, 3)
    about = Generation(
        method="m",
        variant="v",
        seeds=1,
        global_iterations=0,
        local_iterations=0,
        tried=3,
        judged=4,
        stopped="complete",
        wall_seconds=0,
        cpu_seconds=0,
    )
    findings = Findings.from_records(domain, ledger.found, about)
    loaded = Findings.load(findings.save(tmp_path / "findings.parquet"), domain)
    frame = loaded.to_pandas()
    pairs = set(
        zip(frame["gender"], frame["relationship"], frame["relationship_other"], strict=True)
    )
    assert pairs == {("Male", "Husband", "Wife"), ("Male", "Wife", "Husband")}
    assert (frame["gender_other"] == "Female").all()
    assert {tuple(row) for row in loaded.x_other.tolist()} == {(1, 0, 0, 0), (1, 2, 0, 0)}
    assert len(loaded.merge(loaded)) == 2
    with pytest.raises(DomainError, match="different domains"):
        loaded.merge(Findings.from_records(domain.bare(), lambda: [], about))
