"""The input domain: what it refuses, what it draws, who is a counterpart of whom, and who is the
same person.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from fairprobe.arrays import Mask, Rows
from fairprobe.errors import DomainError, InputError
from fairprobe.schema.domain import Attribute, Constraint, Domain
from tests.helpers import everybody, tiny_domain

COLOURS = ("red", "green", "blue")


def rows_of(*rows: tuple[float, ...]) -> Rows:
    return np.array(rows, dtype=np.float32)


# -- attributes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"kind": "ordinal", "high": 3},
            "'a': kind must be integer, categorical or real, not 'ordinal'",
        ),
        ({}, "'a' needs finite bounds with low ≤ high; got 0 to -1"),
        ({"low": 3, "high": 2}, "low ≤ high; got 3 to 2"),
        ({"high": float("inf")}, "finite bounds"),
        ({"kind": "real", "low": float("nan"), "high": 1}, "finite bounds"),
        ({"kind": "real", "low": 0, "high": float("inf")}, "finite bounds"),
        ({"low": 0.5, "high": 3}, r"its bounds must be whole, not 0\.5 to 3"),
        ({"high": 3.5}, "must be whole"),
        ({"high": 2**24 + 1}, "'a' reaches 16,777,217; integers are exact up to 16,777,216"),
        ({"low": -(2**24) - 1, "high": 0}, "larger unit, or declare it real"),
        ({"kind": "categorical"}, "needs the names of its categories"),
        ({"kind": "categorical", "categories": ("x", "y", "x")}, "names a category twice"),
        (
            {"kind": "categorical", "categories": COLOURS, "high": 3},
            "has 3 categories, numbered from 0, but bounds 0 to 3",
        ),
        ({"kind": "categorical", "categories": COLOURS, "low": -1}, "but bounds -1 to"),
        ({"high": 3, "one_hot": True}, "only a categorical attribute can be one-hot"),
        (
            {"kind": "real", "high": 1, "one_hot": True},
            "only a categorical attribute can be one-hot",
        ),
    ],
)
def test_an_attribute_that_makes_no_sense_is_refused_with_its_name_and_the_reason(
    given: dict[str, Any], message: str
) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        Attribute(name="a", **given)
    assert "'a'" in str(caught.value)
    assert isinstance(caught.value, InputError)
    assert isinstance(caught.value, ValueError)


def test_a_missing_code_inside_the_bounds_is_refused_because_it_would_be_generated() -> None:
    with pytest.raises(DomainError, match="missing"):
        Attribute(name="a", low=0, high=5, missing=3)


@pytest.mark.parametrize(
    "given",
    [
        {"high": 5, "grain": 0.5},
        {"high": 5, "grain": -1},
        {"kind": "real", "high": 1, "grain": -0.1},
    ],
)
def test_a_search_step_that_leaves_whole_numbers_or_goes_backwards_is_refused(
    given: dict[str, Any],
) -> None:
    with pytest.raises(DomainError, match="grain"):
        Attribute(name="a", **given)


def test_bounds_that_float32_cannot_hold_are_refused() -> None:
    with pytest.raises(DomainError, match="'a'"):
        Domain((Attribute(name="a", kind="real", low=0, high=1e39),)).check([[0.0]])


def test_the_size_counts_the_values_and_a_real_attribute_has_none() -> None:
    assert Attribute(name="a", low=3, high=9).size == 7
    assert Attribute(name="a", low=4, high=4).size == 1
    assert Attribute(name="a", kind="categorical", categories=COLOURS).size == 3
    assert Attribute(name="a", kind="categorical", categories=COLOURS, low=1).size == 2
    assert Attribute(name="a", kind="real", high=1).size is None
    assert Attribute(name="a", low=-5, high=-1).size == 5


def test_a_search_step_is_one_code_or_a_hundredth_of_a_real_range_unless_given() -> None:
    assert Attribute(name="a", low=0, high=500).grain == 1
    assert Attribute(name="a", kind="real", low=-1, high=1).grain == pytest.approx(0.02)
    assert Attribute(name="a", kind="real", low=-1, high=1, grain=0.5).grain == 0.5


def test_codes_read_as_categories_ranges_numbers_and_not_known() -> None:
    colour = Attribute(name="colour", kind="categorical", categories=COLOURS, low=1, missing=7)
    assert [colour.describe(code) for code in (0, 1, 2, 3, 7)] == [
        "red",
        "green",
        "blue",
        "code 3",
        "not known",
    ]
    decade = Attribute(name="age", low=1, high=9, bin=10, missing=100)
    assert [decade.describe(code) for code in (1, 9, 100)] == ["10–19", "90–99", "not known"]
    assert Attribute(name="income", low=0, high=99, bin=1000).describe(12) == "12,000–12,999"
    assert Attribute(name="fee", low=0, high=99_999).describe(12_345) == "12,345"
    share = Attribute(name="share", kind="real", high=1)
    for value, text in {
        0.123456: "0.1235",
        0.5: "0.5",
        0: "0",
        45.25: "45.25",
        999.96: "1,000",
        70_100: "70,100",
        -2_500.4: "-2,500",
        1_234_567_890: "1,234,568,000",  # a row holds seven digits
        2e17: "2e+17",
    }.items():
        assert share.describe(value) == text


def test_the_code_of_a_category_is_found_by_name_and_a_slip_is_answered_with_the_nearest() -> None:
    colour = Attribute(name="colour", kind="categorical", categories=COLOURS)
    assert [colour.code_of(name) for name in COLOURS] == [0, 1, 2]
    with pytest.raises(
        DomainError,
        match=(
            r"'gren' is not a category of 'colour'\. Did you mean 'green'\? Known: red, green, blue"
        ),
    ):
        colour.code_of("gren")


# -- domains ---------------------------------------------------------------------------------------


def test_a_domain_needs_attributes_with_different_names() -> None:
    with pytest.raises(DomainError, match="at least one attribute"):
        Domain(())
    with pytest.raises(DomainError, match="given twice: a"):
        Domain(
            (Attribute(name="a", high=1), Attribute(name="b", high=1), Attribute(name="a", high=2))
        )


@pytest.mark.parametrize(
    ("sensitive", "message"),
    [
        (
            "gendr",
            (
                r"There is no attribute 'gendr'\. Did you mean 'gender'\? Known: skill, gender,"
                r" effort, race"
            ),
        ),
        ("height", r"There is no attribute 'height'\. Known: skill"),
        (("gender", "gender"), "named twice: gender, gender"),
        ((), "Name at least one sensitive attribute"),
        (("skill", "gender", "effort", "race"), "Every attribute is sensitive"),
    ],
)
def test_a_wrong_choice_of_sensitive_attributes_is_explained(
    sensitive: str | tuple[str, ...], message: str
) -> None:
    with pytest.raises(DomainError, match=message):
        tiny_domain().with_sensitive(sensitive)


def test_a_real_or_single_valued_attribute_cannot_be_sensitive() -> None:
    domain = Domain(
        (
            Attribute(name="a", high=3),
            Attribute(name="weight", kind="real", high=1),
            Attribute(name="one", low=2, high=2),
        )
    )
    with pytest.raises(DomainError, match=r"'weight' is real; .* Bin it"):
        domain.with_sensitive("weight")
    with pytest.raises(DomainError, match="'one' has a single value"):
        domain.with_sensitive("one")


def test_too_many_combinations_of_sensitive_values_are_refused_and_counted() -> None:
    domain = Domain(
        (
            Attribute(name="a", high=63),
            Attribute(name="b", high=63),
            Attribute(name="c", high=1),
            Attribute(name="d", high=1),
        )
    )
    assert domain.with_sensitive(["a", "b"]).value_count == 4096
    with pytest.raises(DomainError, match="a, b, c have 8,192 combinations; at most 4,096"):
        domain.with_sensitive(["a", "b", "c"])


def test_choosing_the_sensitive_attributes_keeps_the_rest_and_the_original() -> None:
    rule = Constraint("any", lambda c: np.ones(len(c["skill"]), dtype=bool))
    domain = Domain(tiny_domain().attributes, ("gender",), (rule,))
    other = domain.with_sensitive(iter(["race", "gender"]))
    assert domain.sensitive == ("gender",)
    assert other.sensitive == ("race", "gender")
    assert other.constraints == (rule,)
    assert other.sensitive_columns.tolist() == [3, 1]
    assert other.other_columns.tolist() == [0, 2]
    assert other != domain
    assert other.with_sensitive("gender") == domain


# -- membership ------------------------------------------------------------------------------------


def mixed_domain(*sensitive: str) -> Domain:
    return Domain(
        (
            Attribute(name="age", low=1, high=9),
            Attribute(name="colour", kind="categorical", categories=COLOURS, one_hot=True),
            Attribute(name="share", kind="real", low=-0.5, high=0.5),
            Attribute(name="sex", high=1),
        ),
        sensitive=sensitive or ("sex",),
    )


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            [[1, 2, 3]],
            r"shape \(1, 3\); expected \(rows, 4\), one column for each of age, colour, share, sex",
        ),
        ([1, 2, 0, 1, 1], r"shape \(1, 5\)"),
        (np.zeros((2, 2, 4)), r"shape \(2, 2, 4\)"),
        (3.0, "expected"),
        ([], "expected"),
        (
            [[1, 0, 0, 0], [1, 0, float("nan"), 0]],
            r"Row 1 of the people has no finite value for 'share' \(it is nan\)",
        ),
        (
            [[1, 0, 0, 0], [1, 0, 0, 1], [float("inf"), 0, 0, 1]],
            "Row 2 of the people has no finite value for 'age'",
        ),
        ([[1, None, 0, 0]], "Row 0 of the people has no finite value for 'colour'"),
        (
            [[1, 0, 0.25, 0], [1, 0.5, 0.25, 0]],
            (
                r"Row 1 of the people has 0\.5 for 'colour', which is categorical and takes whole"
                r" numbers"
            ),
        ),
        ([[1.5, 0, 0.25, 0]], r"has 1\.5 for 'age', which is integer"),
        ([["one", 0, 0, 0]], "The people must be numbers"),
        ([[1, 0, 0, 0], [1, 0]], "The people must be numbers"),
        ([[1, 0, 1e300, 0]], "Row 0 of the people has no finite value for 'share'"),
    ],
)
def test_rows_that_cannot_be_codes_are_refused_with_the_row_and_the_attribute(
    x: Any, message: str
) -> None:
    with pytest.raises(DomainError, match=message):
        mixed_domain().check(x, what="people")


def test_good_rows_become_float32_from_lists_frames_and_single_rows() -> None:
    domain = mixed_domain()
    for given_rows in (
        [[12, 2, 0.25, 0]],
        [12, 2, 0.25, 0],
        np.array([[12, 2, 0.25, 0]]),
        pd.DataFrame([[12, 2, 0.25, 0]]),
    ):
        rows = domain.check(given_rows)
        assert rows.dtype == np.float32
        assert rows.tolist() == [
            [12, 2, 0.25, 0]
        ]  # outside the bounds, which `check` does not look at


def test_rows_outside_are_counted_by_attribute_and_told() -> None:
    domain = mixed_domain()
    x = rows_of((1, 0, 0, 0), (0, 0, 0.6, 0), (10, 3, -0.5, 1), (9, 2, 0.5, 1), (5, 0, -0.51, 0))
    outside = domain.outside(x)
    assert outside.rows.tolist() == [False, True, True, False, True]
    assert outside.by_attribute == {"age": 2, "colour": 1, "share": 2}
    assert len(outside) == 3
    assert str(outside) == "3 of 5 rows lie outside the domain (age 2, share 2, colour 1)"
    assert str(domain.outside(x[:1])) == "all rows lie inside the domain"


def test_rows_outside_are_refused_with_the_first_one_named() -> None:
    domain = mixed_domain()
    assert domain.require_inside([[1, 0, -0.5, 0], [9, 2, 0.5, 1]]).shape == (2, 4)
    with pytest.raises(
        DomainError,
        match=r"In the seeds, 1 of 2 rows .* row 1 has 3 for 'colour', whose bounds are 0 to 2",
    ):
        domain.require_inside([[1, 0, 0, 0], [1, 3, 0, 0]], what="seeds")


@given(st.lists(st.tuples(*[st.integers(-20, 20)] * 4), min_size=1, max_size=20))
def test_clipping_gives_the_nearest_row_inside_and_leaves_inner_rows_alone(
    values: list[tuple[int, ...]],
) -> None:
    domain = mixed_domain()
    x = rows_of(*values)
    clipped = domain.clip(x)
    assert clipped.dtype == np.float32
    assert len(domain.outside(clipped)) == 0
    assert (domain.clip(clipped) == clipped).all()
    for row, near in zip(values, clipped.tolist(), strict=True):
        assert near == [
            min(max(code, low), high)
            for code, low, high in zip(row, domain.low.tolist(), domain.high.tolist(), strict=True)
        ]


# -- sampling --------------------------------------------------------------------------------------


def test_samples_lie_inside_are_whole_where_they_must_and_reach_every_value() -> None:
    domain = mixed_domain()
    x = domain.sample(5000, rng=np.random.default_rng(1))
    assert x.shape == (5000, 4)
    assert x.dtype == np.float32
    domain.require_inside(x)
    assert sorted(set(x[:, 0].tolist())) == list(range(1, 10))
    assert sorted(set(x[:, 1].tolist())) == [0, 1, 2]
    assert len(set(x[:, 2].tolist())) > 4900


def test_the_same_generator_draws_the_same_and_none_may_be_asked_for() -> None:
    domain = mixed_domain()
    first, second = (domain.sample(50, rng=np.random.default_rng(7)) for _ in range(2))
    assert (first == second).all()
    assert domain.sample(0, rng=np.random.default_rng(7)).shape == (0, 4)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 6), (-3, 3), (1990, 1996), (10_000_000, 10_000_006), (-(2**24), -(2**24) + 6)],
)
def test_every_value_of_an_attribute_is_drawn_equally_often(low: int, high: int) -> None:
    domain = Domain((Attribute(name="a", low=low, high=high), Attribute(name="b", high=1)))
    x = domain.sample(70_000, rng=np.random.default_rng(2)).astype(np.int64)
    counts = np.bincount(x[:, 0] - low, minlength=7)
    assert counts.sum() == 70_000
    assert chisquare(counts).pvalue > 1e-4
    joint = np.bincount(
        (x[:, 0] - low) * 2 + x[:, 1], minlength=14
    )  # and independently of the others
    assert chisquare(joint).pvalue > 1e-4


def test_a_real_attribute_is_drawn_uniformly() -> None:
    domain = Domain((Attribute(name="r", kind="real", low=-2, high=6),))
    x = domain.sample(20_000, rng=np.random.default_rng(3))[:, 0].astype(np.float64)
    assert kstest(x, "uniform", args=(-2, 8)).pvalue > 1e-4


def diagonal(columns: Mapping[str, Rows]) -> Mask:
    return np.asarray(columns["a"] == columns["b"])


def test_samples_obey_the_constraints_and_stay_uniform_among_what_is_left() -> None:
    domain = Domain(
        (Attribute(name="a", high=3), Attribute(name="b", high=3)),
        constraints=(Constraint("a = b", diagonal),),
    )
    x = domain.sample(8000, rng=np.random.default_rng(4))
    assert x.shape == (8000, 2)
    assert (x[:, 0] == x[:, 1]).all()
    assert chisquare(np.bincount(x[:, 0].astype(np.int64), minlength=4)).pvalue > 1e-4
    assert domain.satisfies(rows_of((1, 1), (1, 2))).tolist() == [True, False]


@pytest.mark.parametrize("n", [1, 2, 100])
def test_constraints_that_nothing_obeys_end_in_an_error_that_names_them(n: int) -> None:
    never = Constraint("taller than tall", lambda c: np.zeros(len(c["a"]), dtype=bool))
    with pytest.raises(
        DomainError,
        match=f"constraints taller than tall exclude almost all of the domain: 0 of {n} rows",
    ):
        Domain((Attribute(name="a", high=3),), constraints=(never,)).sample(
            n, rng=np.random.default_rng(0)
        )


def test_a_repair_makes_a_rare_rule_hold_and_never_touches_sensitive_attributes() -> None:
    calls = []

    def copy_a(columns: Mapping[str, Rows]) -> Mapping[str, Rows]:
        calls.append(len(columns["a"]))
        return {"b": columns["a"], "s": np.zeros_like(columns["s"])}

    attributes = (
        Attribute(name="a", high=99_999),
        Attribute(name="b", high=99_999),
        Attribute(name="s", high=1),
    )
    domain = Domain(attributes, ("s",), (Constraint("a = b", diagonal, copy_a),))
    x = domain.sample(500, rng=np.random.default_rng(5))
    assert calls
    assert (x[:, 0] == x[:, 1]).all()
    assert set(x[:, 2].tolist()) == {0.0, 1.0}
    before = rows_of((3, 5, 1), (4, 4, 1))
    assert domain.repair(before).tolist() == [[3, 3, 1], [4, 4, 1]]
    assert before.tolist() == [[3, 5, 1], [4, 4, 1]]  # the caller's rows are not changed


def test_a_repair_that_leaves_the_bounds_does_not_lead_out_of_the_domain() -> None:
    below = Constraint(
        "b ≤ a − 3", lambda c: np.asarray(c["b"] <= c["a"] - 3), lambda c: {"b": c["a"] - 3}
    )
    domain = Domain(
        (Attribute(name="a", high=9), Attribute(name="b", high=9)), constraints=(below,)
    )
    x = domain.sample(300, rng=np.random.default_rng(6))
    assert len(x) == 300
    assert str(domain.outside(x)) == "all rows lie inside the domain"
    assert domain.satisfies(x).all()


def test_a_constraint_that_does_not_answer_row_by_row_is_explained() -> None:
    domain = Domain(
        (Attribute(name="a", high=3),),
        constraints=(Constraint("odd", lambda c: c["a"] % 2),),  # type: ignore[arg-type,return-value]
    )
    with pytest.raises(
        DomainError,
        match=r"Constraint 'odd' must return one True or False for each of the 2 rows; .* float32",
    ):
        domain.satisfies(rows_of((1,), (2,)))


# -- counterparts ----------------------------------------------------------------------------------


def test_counterparts_run_over_every_value_and_change_nothing_else() -> None:
    domain = tiny_domain("race")
    x = rows_of((3, 1, 2, 0), (9, 0, 5, 2))
    every = domain.counterparts(x)
    assert every.tolist() == [
        [[3, 1, 2, 0], [3, 1, 2, 1], [3, 1, 2, 2]],
        [[9, 0, 5, 0], [9, 0, 5, 1], [9, 0, 5, 2]],
    ]
    assert domain.own_value(x).tolist() == [0, 2]
    assert x.tolist() == [[3, 1, 2, 0], [9, 0, 5, 2]]


def test_counterparts_of_several_attributes_are_all_combinations_in_the_order_named() -> None:
    domain = Domain(
        (
            Attribute(name="a", low=5, high=7),
            Attribute(name="b", high=3),
            Attribute(name="c", low=-1, high=0),
        ),
        ("c", "a"),
    )
    x = everybody(domain)
    every = domain.counterparts(x)
    assert domain.value_count == 6
    assert every.shape == (24, 6, 3)
    assert [(row[2], row[0]) for row in every[0].tolist()] == list(product([-1, 0], [5, 6, 7]))
    assert (every[:, :, 1] == x[:, None, 1]).all()
    assert (every[np.arange(24), domain.own_value(x)] == x).all()
    assert domain.describe_value(4) == "0, 6"


def test_a_row_whose_sensitive_value_is_out_of_bounds_has_no_place_and_is_not_comparable() -> None:
    domain = tiny_domain()
    x = rows_of((1, 0, 1, 0), (99, 1, 1, 0), (1, 2, 1, 0))
    assert domain.comparable(x).tolist() == [True, True, False]
    with pytest.raises(
        DomainError,
        match="Row 2 has 2 for the sensitive attribute 'gender', whose bounds are 0 to 1",
    ):
        domain.own_value(x)


def test_without_a_sensitive_attribute_nobody_has_counterparts() -> None:
    domain = Domain(tiny_domain().attributes)
    with pytest.raises(
        DomainError, match=r"No sensitive attribute is chosen; use `domain\.with_sensitive"
    ):
        domain.counterparts(everybody(domain))
    with pytest.raises(DomainError, match="No sensitive attribute"):
        domain.own_value(everybody(domain))


# -- identity --------------------------------------------------------------------------------------


@st.composite
def attributes(draw: st.DrawFn, name: str, *, real: bool = True) -> Attribute:
    """A small, a large, a categorical or a real attribute."""
    kind = draw(st.sampled_from(["small", "large", "categorical", *(["real"] if real else [])]))
    if kind == "categorical":
        return Attribute(
            name=name,
            kind="categorical",
            categories=COLOURS,
            low=draw(st.integers(0, 1)),
            one_hot=draw(st.booleans()),
        )
    if kind == "real":
        return Attribute(name=name, kind="real", low=-1.5, high=draw(st.sampled_from([0.0, 2.0])))
    low = draw(st.integers(-5, 5)) if kind == "small" else draw(st.integers(-(2**24), 0))
    return Attribute(
        name=name,
        low=low,
        high=draw(
            st.integers(low + 1, low + 4) if kind == "small" else st.integers(low + 1, 2**24)
        ),
    )


@st.composite
def domains(draw: st.DrawFn) -> Domain:
    others = [draw(attributes(f"a{number}")) for number in range(draw(st.integers(1, 8)))]
    chosen = [
        draw(attributes(f"s{number}", real=False).filter(lambda a: (a.size or 99) <= 6))
        for number in range(draw(st.integers(1, 2)))
    ]
    order = draw(st.permutations([*others, *chosen]))
    return Domain(tuple(order), tuple(attribute.name for attribute in chosen))


@st.composite
def pairs_of_rows(draw: st.DrawFn) -> tuple[Domain, Rows]:
    """A domain and two of its rows, the second mostly like the first; the ends of every range come
    often.
    """
    domain = draw(domains())

    def code(attribute: Attribute) -> float:
        if attribute.kind == "real":
            return draw(
                st.one_of(
                    st.sampled_from([attribute.low, 0.0, -0.0, attribute.high]),
                    st.floats(-1.5, attribute.high, width=32),
                )
            )
        low, high = int(attribute.low), int(attribute.high)
        near_ends = st.sampled_from([low, low + 1, high - 1, high])
        return draw(st.one_of(near_ends, st.integers(low, high)))

    first = [code(attribute) for attribute in domain.attributes]
    second = [
        code(attribute) if draw(st.booleans()) else value
        for attribute, value in zip(domain.attributes, first, strict=True)
    ]
    return domain, rows_of(tuple(first), tuple(second))


@given(pairs_of_rows())
def test_two_rows_have_the_same_key_exactly_when_they_agree_outside_the_sensitive_attributes(
    given: tuple[Domain, Rows],
) -> None:
    domain, x = given
    first, second = domain.key(x)
    assert domain.key(x).dtype == np.uint64
    assert (first == second) == bool(
        (x[0, domain.other_columns] == x[1, domain.other_columns]).all()
    )


@given(pairs_of_rows())
def test_every_counterpart_has_the_key_of_its_row_and_its_own_place(
    given: tuple[Domain, Rows],
) -> None:
    domain, x = given
    every = domain.counterparts(x)
    assert every.shape == (2, domain.value_count, len(domain))
    assert (
        domain.key(every.reshape(-1, len(domain))).reshape(2, -1) == domain.key(x)[:, None]
    ).all()
    assert (every[np.arange(2), domain.own_value(x)] == x).all()
    assert len(np.unique(every[0][:, domain.sensitive_columns], axis=0)) == domain.value_count


@given(pairs_of_rows())
def test_packing_loses_nothing(given: tuple[Domain, Rows]) -> None:
    domain, x = given
    packed = domain.pack(x)
    back = domain.unpack(packed)
    assert packed.nbytes <= x.nbytes
    assert back.dtype == np.float32
    assert (back == x).all()
    some = domain.sensitive_columns
    assert (domain.unpack(domain.pack(x, some), some) == x[:, some]).all()


def test_packing_takes_the_smallest_type() -> None:
    def packed(high: int) -> str:
        domain = Domain((Attribute(name="a", low=-3, high=high - 3),))
        assert domain.unpack(domain.pack(rows_of((high - 3,)))).tolist() == [[high - 3]]
        return str(domain.pack(rows_of((high - 3,))).dtype)

    assert [packed(255), packed(256), packed(65_535), packed(65_536)] == [
        "uint8",
        "uint16",
        "uint16",
        "uint32",
    ]
    assert str(mixed_domain().pack(rows_of((1, 0, 0.25, 0))).dtype) == "float32"


def wide_domain(*highs: int) -> Domain:
    names = tuple(Attribute(name=f"a{number}", high=high) for number, high in enumerate(highs))
    return Domain((Attribute(name="s", low=1, high=2), *names), ("s",))


def test_keys_are_exact_as_long_as_the_domain_fits_64_bits_and_not_beyond() -> None:
    just = wide_domain(*[2**16 - 1] * 4)
    assert just.exact_keys
    assert just.key(
        rows_of((1, 0, 0, 0, 0), (2, *[2**16 - 1] * 4), (1, 1, 0, 0, 0), (1, 0, 0, 0, 1))
    ).tolist() == [0, 2**64 - 1, 1, 2**48]
    assert not wide_domain(2**16 - 1, 2**16 - 1, 2**16 - 1, 2**16).exact_keys
    assert not mixed_domain().exact_keys


@pytest.mark.parametrize("place", [0, 2, 4])
def test_an_attribute_with_a_single_value_adds_nothing_to_the_key_even_when_64_bits_are_full(
    place: int,
) -> None:
    highs = [2**16 - 1] * 4
    highs.insert(place, 0)
    domain = wide_domain(*highs)
    assert domain.exact_keys
    assert domain.key(rows_of((1, *[0] * 5), (1, *highs))).tolist() == [0, 2**64 - 1]


def test_keys_of_a_whole_small_domain_number_its_people() -> None:
    domain = tiny_domain("gender", "race")
    keys = domain.key(everybody(domain))
    assert sorted(np.unique(keys).tolist()) == list(range(50))
    assert (np.unique(keys, return_counts=True)[1] == 6).all()


def test_keys_stay_apart_where_the_range_of_an_integer_is_wider_than_float32_can_count() -> None:
    domain = Domain(
        (Attribute(name="a", low=-(2**24), high=2**24), Attribute(name="s", high=1)), ("s",)
    )
    x = rows_of(
        *((float(code), 0) for code in (-(2**24), -(2**24) + 1, -1, 0, 1, 2**24 - 1, 2**24))
    )
    assert len(np.unique(domain.key(x))) == 7
    assert (domain.unpack(domain.pack(x)) == x).all()


def test_hashed_keys_tell_a_million_people_apart() -> None:
    domain = Domain(
        (
            Attribute(name="r", kind="real", high=1),
            *(Attribute(name=f"a{n}", high=9) for n in range(6)),
            Attribute(name="s", high=1),
        ),
        ("s",),
    )
    assert not domain.exact_keys
    digits = np.arange(10**6)[:, None] // 10 ** np.arange(6) % 10
    x = np.concatenate([np.full((10**6, 1), 0.5), digits, np.zeros((10**6, 1))], axis=1).astype(
        np.float32
    )
    assert len(np.unique(domain.key(x))) == 10**6


def test_minus_zero_is_zero_to_the_key() -> None:
    for domain in (
        mixed_domain(),
        Domain(mixed_domain().attributes[:2] + mixed_domain().attributes[3:], ("sex",)),
    ):
        zeros = np.zeros((1, len(domain)), dtype=np.float32)
        zeros[0, 0] = 1
        minus = np.where(zeros == 0, np.float32(-0.0), zeros)
        assert np.signbit(minus).any()
        assert domain.key(minus).tolist() == domain.key(zeros).tolist()


# -- for people ------------------------------------------------------------------------------------


def test_a_row_reads_as_words() -> None:
    domain = tiny_domain("gender", "race")
    assert domain.describe(rows_of((7, 1, 2, 0))[0]) == {
        "skill": "7",
        "gender": "male",
        "effort": "2",
        "race": "a",
    }
    assert [domain.describe_value(place) for place in range(6)] == [
        "female, a",
        "female, b",
        "female, c",
        "male, a",
        "male, b",
        "male, c",
    ]
