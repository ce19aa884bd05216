"""Mining: the spouses of Adult are found, shuffled columns yield nothing, and a disadvantage is not
taken for an impossibility.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairprobe.arrays import Rows
from fairprobe.datasets import Dataset, load, open_table, read_domain, write_domain
from fairprobe.datasets.own import dataset_of
from fairprobe.errors import DataError
from fairprobe.schema import Attribute, Coupling, Domain
from fairprobe.schema.mining import (
    mine_implications,
    mine_missing,
    mine_twins,
    with_mined,
)

SPOUSES = ({"Female": "Wife", "Male": "Husband"},)


def category(name: str, words: str) -> Attribute:
    return Attribute(name=name, kind="categorical", categories=tuple(words.split()))


# -- twins -----------------------------------------------------------------------------------------


def test_the_spouses_of_adult_are_found_by_mining_alone() -> None:
    data = load("adult").with_sensitive(("gender", "race"))
    (found,) = mine_twins(data.domain.bare(), data.x)
    assert found.coupling == Coupling("relationship", "gender", SPOUSES)
    assert found.coupling.source == "mined"
    assert found.is_impossible
    assert found.distance == pytest.approx(0.096, abs=0.001)
    assert [str(each) for each in found.missing] == [
        "relationship = Wife with gender = Male: 3 people, 1,558 expected by chance",
        "relationship = Husband with gender = Female: 1 person, 6,536 expected by chance",
    ]
    assert mine_missing(data.domain.bare(), data.x) == ()


@pytest.mark.parametrize(
    ("name", "sensitive"),
    [("german", "gender"), ("german", "age"), ("bank", "age"), ("compas", "race")],
)
def test_other_packaged_tables_suggest_no_twins(name: str, sensitive: str) -> None:
    data = load(name).with_sensitive(sensitive)
    assert mine_twins(data.domain.bare(), data.x) == ()


@pytest.mark.parametrize(
    ("name", "sensitive"), [("adult", "gender"), ("german", "gender"), ("compas", "race")]
)
def test_a_shuffled_sensitive_column_has_no_twins(name: str, sensitive: str) -> None:
    data = load(name).with_sensitive(sensitive)
    rng, x, proposed = np.random.default_rng(0), data.x.copy(), 0
    column = data.domain.index(sensitive)
    for _ in range(100):
        x[:, column] = rng.permutation(x[:, column])
        proposed += len(mine_twins(data.domain.bare(), x)) + len(mine_missing(data.domain, x))
    assert proposed <= 1


def people(n: int, shares: Any, *, words: str = "low middle high", seed: int = 0) -> Dataset:
    """A score that group b reaches with other shares than group a, and three attributes that are
    independent of both.
    """
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    score = [rng.choice(len(shares[0]), p=shares[which]) for which in group]
    others = [rng.integers(0, 5, n) for _ in range(3)]
    domain = Domain(
        (
            category("score", words),
            category("group", "a b"),
            *(Attribute(name=f"other{number}", high=4) for number in range(3)),
        ),
        sensitive=("group",),
    )
    x = np.stack([score, group, *others], axis=1).astype(np.float32)
    return Dataset("people", domain, x, rng.integers(0, 2, n), ("no", "yes"))


def test_a_score_that_one_group_rarely_reaches_is_no_twin() -> None:
    rare = people(20_000, [[0.3, 0.4, 0.3], [0.594, 0.4, 0.006]])
    assert mine_twins(rare.domain, rare.x) == ()
    assert mine_missing(rare.domain, rare.x) == ()
    # A group that is never at the top while the other one is everywhere: no category is missing
    # from the other one, so there is no twin; whether it cannot be is for a person to decide.
    never = people(20_000, [[0.3, 0.4, 0.3], [0.6, 0.4, 0.0]])
    assert with_mined(never.domain, never.x).couplings == ()
    assert mine_twins(never.domain, never.x) == ()
    (missing,) = mine_missing(never.domain, never.x)
    assert (missing.category, missing.values) == ("high", ("b",))
    # Both ends, as if the other group were kept from the bottom: rare, and so not applied.
    both = people(20_000, [[0.006, 0.4, 0.594], [0.594, 0.4, 0.006]])
    (found,) = mine_twins(both.domain, both.x)
    assert not found.is_impossible
    assert with_mined(both.domain, both.x).couplings == ()


def test_planted_twins_are_found_and_those_of_another_kind_of_people_are_not() -> None:
    data = people(20_000, [[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]], words="groom guest bride")
    (found,) = mine_twins(data.domain, data.x)
    assert found.coupling.roles == ({"a": "groom", "b": "bride"},)
    assert with_mined(data.domain, data.x).couplings == (found.coupling,)
    x = data.x.copy()
    x[x[:, 0] == 2, 2:] = 4  # brides are another kind of people now
    assert mine_twins(data.domain, x) == ()
    assert {each.category for each in mine_missing(data.domain, x)} == {"groom", "bride"}


def test_a_third_value_that_few_people_have_does_not_hide_twins() -> None:
    data = people(20_000, [[0.6, 0.4, 0.0], [0.0, 0.4, 0.6]], words="groom guest bride")
    attributes = list(data.domain.attributes)
    attributes[1] = category("group", "a b c")
    x = data.x.copy()
    x[:30, 1], x[:30, 0] = 2, 2
    (found,) = mine_twins(Domain(tuple(attributes), ("group",)), x)
    assert found.coupling.roles == ({"a": "groom", "b": "bride", "c": "bride"},)


def test_declared_twins_are_kept_and_nothing_is_declared_twice() -> None:
    data = load("adult").bare().with_sensitive("gender")
    own = Coupling("relationship", "gender", ({"Female": "Unmarried", "Male": "Husband"},))
    domain = Domain(data.domain.attributes, ("gender",), couplings=(own,))
    assert with_mined(domain, data.x).couplings == (own,)
    other = Coupling("workclass", "race", (dict.fromkeys(domain["race"].categories, "Private"),))
    domain = Domain(data.domain.attributes, ("gender",), couplings=(other,))
    assert [each.attribute for each in with_mined(domain, data.x).couplings] == [
        "workclass",
        "relationship",
    ]


# -- tables of the user's own ----------------------------------------------------------------------


def small_adult(tmp_path: Path, rows: int = 20_000) -> Path:
    data = load("adult")
    frame = data.words(data.x[:rows])
    frame["income"] = np.array(data.classes)[data.y[:rows]]
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


def test_a_table_of_ones_own_gets_twins_and_a_file_that_names_them(tmp_path: Path) -> None:
    path = small_adult(tmp_path)
    data = open_table(path, label="income", sensitive="gender")
    assert [each.roles for each in data.domain.couplings] == [SPOUSES]
    assert data.with_sensitive("gender").domain.couplings == data.domain.couplings
    assert open_table(path, label="income").domain.couplings == ()
    chosen_later = open_table(path, label="income").with_sensitive("gender")
    assert chosen_later.domain.couplings == data.domain.couplings
    assert data.bare().with_sensitive("gender").domain.couplings == ()

    file = tmp_path / "domain.toml"
    write_domain(data, file)
    text = file.read_text(encoding="utf-8")
    assert "# Found in the table (relationship = Husband with gender = Female: 1 person" in text
    assert read_domain(file).coding.domain.couplings == data.domain.couplings
    again = open_table(path, label="income", domain=file)
    assert [each.source for each in again.domain.couplings] == ["mined"]
    assert again.with_sensitive("gender").domain == data.domain

    file.write_text(text.partition("# Found in the table")[0], encoding="utf-8")
    without = open_table(path, label="income", domain=file).with_sensitive("gender")
    assert without.domain.couplings == ()  # the file decides


def test_what_a_person_should_decide_is_suggested_and_can_be_uncommented(tmp_path: Path) -> None:
    path = small_adult(tmp_path)
    frame = pd.read_csv(path).rename(columns={"gender": "sex (m/f)"})
    frame["code"] = frame["relationship"].map({"Husband": 1, "Wife": 2}).fillna(3).astype(int)
    frame["code"] = frame["code"].astype("category")
    data = open_table(frame, label="income", sensitive="sex (m/f)")
    file = tmp_path / "domain.toml"
    write_domain(data.bare(), file)
    text = file.read_text(encoding="utf-8")
    assert read_domain(file).coding.domain.couplings == ()
    assert "all but vanish where the others are common" in text
    assert "then = \"`sex (m/f)` == 'Female'\"" in text
    start = text.index("# These categories all but vanish")
    uncommented = [
        line.removeprefix("# ")
        for line in text[start:].splitlines()
        if re.match(r"# (\[\[|(attribute|with|roles|name|when|then) = )", line)
    ]
    file.write_text(text[:start] + "\n".join(uncommented), encoding="utf-8")
    declared = read_domain(file)
    assert [each.source for each in declared.coding.domain.couplings] == ["declared"] * 2
    assert len(declared.rules) >= 4
    again = open_table(frame, label="income", domain=file)
    write_domain(again, tmp_path / "again.toml")  # what is declared is not suggested again
    assert "remove the # signs" not in (tmp_path / "again.toml").read_text(encoding="utf-8")


def test_few_rows_constants_and_many_categories_suggest_nothing(tmp_path: Path) -> None:
    fifty = open_table(pd.read_csv(small_adult(tmp_path, 50)), label="income", sensitive="gender")
    assert fifty.domain.couplings == ()
    constants = pd.DataFrame({"sex": ["f", "m"] * 400, "same": "x", "one": 1})
    data = dataset_of(constants, [0, 1] * 400, sensitive="sex")
    assert data.domain.couplings == ()
    write_domain(data, tmp_path / "constants.toml")
    assert read_domain(tmp_path / "constants.toml").coding.domain == data.domain

    rng = np.random.default_rng(0)
    words = np.array([f"w{number}" for number in range(10_000)])
    wide = Domain(
        (
            Attribute(name="word", kind="categorical", categories=tuple(words)),
            category("sex", "f m"),
            Attribute(name="n", high=9),
        ),
        sensitive=("sex",),
    )
    columns = [rng.integers(0, high, 20_000) for high in (10_000, 2, 10)]
    x = np.stack(columns, axis=1).astype(np.float32)
    assert with_mined(wide, x).couplings == ()
    assert mine_implications(wide, x) == ()
    frame = pd.DataFrame({"word": words.repeat(2), "sex": "f", "y": [0, 1] * 10_000})
    with pytest.raises(DataError, match="'word' has 10,000 different words; at most 1,000"):
        open_table(frame, label="y")


# -- implications ----------------------------------------------------------------------------------


def rows_of(counts: dict[tuple[int, int], int]) -> Rows:
    return np.repeat(np.array(list(counts), dtype=np.float32), list(counts.values()), axis=0)


def test_an_implication_has_support_confidence_and_something_to_say() -> None:
    domain = Domain((category("a", "x y z"), category("b", "u v w")))
    counts = {(0, 0): 199, (0, 1): 1, (1, 1): 300, (1, 0): 200, (2, 2): 99, (1, 2): 1}
    (found,) = mine_implications(domain, rows_of(counts))
    assert (found.attribute, found.category, found.other_category) == ("a", "x", "u")
    assert (found.support, found.exceptions, found.both) == (200, 1, False)
    assert found.lift == pytest.approx((199 / 200) / (399 / 800))
    assert mine_implications(domain, rows_of(counts | {(0, 1): 2})) == ()  # too many exceptions
    assert mine_implications(domain, rows_of(counts | {(1, 0): 400})) == ()  # most people have u
    both = mine_implications(domain, rows_of(counts | {(2, 2): 300}))
    assert [(each.category, each.other_category, each.both) for each in both] == [
        ("z", "w", True),  # once, though it holds both ways
        ("x", "u", False),
    ]


def test_at_most_twenty_implications_are_suggested_those_about_most_people_first() -> None:
    rng = np.random.default_rng(0)
    same = rng.integers(0, 5, 4_000)
    names = [f"a{number}" for number in range(6)]
    domain = Domain(tuple(category(name, "p q r s t") for name in names))
    found = mine_implications(domain, np.stack([same] * 6, axis=1).astype(np.float32))
    assert len(found) == 20
    assert [each.support for each in found] == sorted(
        (each.support for each in found), reverse=True
    )
