"""`domain.toml`: a round trip changes nothing, and each mistake is reported in one sentence."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairprobe.datasets import (
    Coding,
    Declared,
    adult,
    bank,
    compas,
    german,
    open_table,
    read_domain,
    write_domain,
)
from fairprobe.errors import DomainError, StorageError
from fairprobe.schema.attributes import Constraint
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.schema.rules import RuleText, constraint_of
from fairprobe.schema.twins import Coupling, Source, values_of
from tests.helpers import tiny_domain

GOOD = """
label = "income"
favourable = "high"
sensitive = ["sex"]

[attributes.age]
kind = "integer"
low = 17
high = 90
missing = 16
subtract = 38
divide_by = 13.5

[attributes."capital-gain"]
kind = "integer"
low = 0
high = 99
bin = 1_000

[attributes.rate]
kind = "real"
low = 0.0
high = 0.5
grain = 0.25

[attributes.sex]
kind = "categorical"
categories = ["female", "male"]
values = [2, 1]

[attributes.group]
kind = "categorical"
categories = ["young", "old"]
one_hot = true
cuts = [40]
values = [30, 50]

[[constraints]]
name = "the young gain nothing"
when = "age < 18"
then = "`capital-gain` == 0"

[[constraints]]
name = "low rates"
rule = "rate <= 0.4"
"""


def domain_file(folder: Path, text: str) -> Path:
    path = folder / "domain.toml"
    path.write_text(text, encoding="utf-8")
    return path


# -- what a file says ------------------------------------------------------------------------------


def test_every_key_of_a_file_is_read(tmp_path: Path) -> None:
    declared = read_domain(domain_file(tmp_path, GOOD))
    domain = declared.coding.domain
    assert (declared.label, declared.favourable, domain.sensitive) == ("income", "high", ("sex",))
    assert domain.attributes == (
        Attribute(name="age", low=17, high=90, missing=16),
        Attribute(name="capital-gain", low=0, high=99, bin=1000),
        Attribute(name="rate", kind="real", low=0, high=0.5, grain=0.25),
        Attribute(name="sex", kind="categorical", categories=("female", "male")),
        Attribute(name="group", kind="categorical", categories=("young", "old"), one_hot=True),
    )
    assert declared.scaling == {"age": (38, 13.5)}
    table = pd.DataFrame(
        {
            "age": [17, 40],
            "capital-gain": [5500, 0],
            "rate": [0.1, 0.5],
            "sex": [1, 2],
            "group": [39, 40],
        }
    )
    rows = declared.coding.rows(table)
    np.testing.assert_array_equal(
        rows, np.array([[17, 5, 0.1, 1, 0], [40, 0, 0.5, 0, 1]], dtype=np.float32)
    )
    assert domain.satisfies(rows).tolist() == [False, False]
    assert domain.repair(rows)[:, 1].tolist() == [0, 0]
    assert domain.satisfies(domain.repair(rows)).all()


def test_choosing_other_sensitive_attributes_keeps_the_rules(tmp_path: Path) -> None:
    domain = read_domain(domain_file(tmp_path, GOOD)).coding.domain.with_sensitive("group")
    assert [constraint.name for constraint in domain.constraints] == [
        "the young gain nothing",
        "low rates",
    ]


# -- round trips -----------------------------------------------------------------------------------


def test_writing_what_was_read_changes_nothing(tmp_path: Path) -> None:
    declared = read_domain(domain_file(tmp_path, GOOD))
    write_domain(declared, tmp_path / "again.toml")
    again = read_domain(tmp_path / "again.toml")
    assert again == declared
    assert len(again.rules) == 2
    assert again.rules == declared.rules


@pytest.mark.parametrize("load", [adult, bank, compas, german])
def test_the_domain_of_a_packaged_data_set_survives_a_round_trip(tmp_path: Path, load: Any) -> None:
    data = load()
    write_domain(data.with_sensitive(data.protected[0]), tmp_path / "domain.toml")
    declared = read_domain(tmp_path / "domain.toml")
    assert declared.coding.domain == data.domain.with_sensitive(data.protected[0])
    assert declared.label == data.label
    assert declared.favourable == data.classes[data.favourable]


def test_the_domain_of_a_table_survives_a_round_trip_with_its_rules(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "age": np.arange(60),
            "sex": [1, 2] * 30,
            "pay": [0.1, np.nan, 3.7] * 20,
            "work": ["a", None, "c d"] * 20,
            "ok": [True, False] * 30,
            "y": ["no", "yes"] * 30,
        }
    )
    data = open_table(frame, label="y", sensitive=["sex", "age"], favourable="yes")
    write_domain(data, tmp_path / "domain.toml")
    text = (tmp_path / "domain.toml").read_text(encoding="utf-8")
    rule = "\n[[constraints]]\nname = 'r'\nrule = \"work == 'a' or pay > 1\"\n"
    declared = read_domain(domain_file(tmp_path, text + rule))
    assert declared.coding == data.coding
    assert declared.coding.values["sex"] == (1, 2)
    again = open_table(frame, label="y", domain=tmp_path / "domain.toml")
    np.testing.assert_array_equal(again.x, data.x)
    assert (again.domain, again.favourable) == (data.domain, 1)
    write_domain(again, tmp_path / "again.toml")
    assert read_domain(tmp_path / "again.toml").rules == (RuleText("r", "work == 'a' or pay > 1"),)


NAMES = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ['"', "'", "a.b", "a\nb", "\\", "\x7f\x00", "é ☃", "", "'''", "#"]
)


@st.composite
def attributes(draw: st.DrawFn, name: str) -> tuple[Attribute, dict[str, Any]]:
    kind = draw(st.sampled_from(["integer", "real", "categorical"]))
    missing = draw(st.booleans())
    if kind == "categorical":
        categories = tuple(draw(st.lists(NAMES, min_size=2, max_size=5, unique=True)))
        one_hot, low = draw(st.booleans()), draw(st.integers(0, 1))
        more: dict[str, Any] = {}
        if draw(st.booleans()):
            cuts = draw(
                st.lists(
                    st.floats(-1000, 1000, width=16),
                    min_size=len(categories),
                    max_size=len(categories),
                    unique=True,
                )
            )
            more = {
                "cuts": np.array(sorted(cuts)[1:], dtype=np.float32),
                "values": tuple(sorted(cuts)),
            }
        elif draw(st.booleans()):
            more = {
                "values": (
                    tuple(range(len(categories)))
                    if draw(st.booleans())
                    else tuple(f"w{place}" for place in range(len(categories)))
                )
            }
        attribute = Attribute(
            name=name,
            kind="categorical",
            categories=categories,
            one_hot=one_hot,
            low=low,
            missing=-1 if missing else None,
        )
        return attribute, more
    low, width = draw(st.integers(-(10**6), 10**6)), draw(st.integers(1, 10**6))
    more = (
        {"scaling": (draw(st.floats(-100, 100)), draw(st.floats(0.1, 100)))}
        if draw(st.booleans())
        else {}
    )
    code = low - 1 if missing else None
    if kind == "integer":
        return (
            Attribute(
                name=name,
                low=low,
                high=low + width,
                bin=draw(st.sampled_from([1, 10, 0.5])),
                missing=code,
            ),
            more,
        )
    grain = draw(st.sampled_from([0, 0.125]))
    return (
        Attribute(
            name=name,
            kind="real",
            low=low / 7,
            high=(low + width) / 7,
            grain=grain,
            missing=code and code / 7,
        ),
        more,
    )


@st.composite
def couplings(draw: st.DrawFn, domain: Domain) -> tuple[Coupling, ...]:
    """One role of the first categorical attribute that is not sensitive, if there is one."""
    for attribute in domain.attributes:
        if domain.sensitive and attribute.name not in domain.sensitive and attribute.categories:
            words = attribute.categories[int(attribute.low) :]
            values = values_of(domain[domain.sensitive[0]])
            role = {value: draw(st.sampled_from(words)) for value in values}
            source: Source = draw(st.sampled_from(["declared", "mined"]))
            return (Coupling(attribute.name, domain.sensitive[0], (role,), source=source),)
    return ()


@st.composite
def declarations(draw: st.DrawFn) -> Declared:
    names = draw(st.lists(NAMES, min_size=2, max_size=4, unique=True))
    made = [draw(attributes(name)) for name in names]
    domain = Domain(tuple(attribute for attribute, _ in made))
    whole = [
        attribute.name for attribute in domain.attributes if (attribute.size or 0) in range(2, 10)
    ]
    domain = domain.with_sensitive(whole[0]) if whole else domain
    parts = {
        key: {name: more[key] for name, (_, more) in zip(names, made, strict=True) if key in more}
        for key in ("cuts", "values", "scaling")
    }
    coding = Coding(domain, parts["cuts"], parts["values"], parts["scaling"], gaps=True)
    rules = []
    if draw(st.booleans()) and domain.attributes[0].kind != "categorical" and names[0]:
        quoted = "`" + names[0].replace("`", "``") + "`"
        rules = [
            RuleText(draw(NAMES), rule=f"{quoted} < 3"),
            RuleText("other\nrule", when=f"{quoted} > 3", then=f"{quoted}\n<= 9.5"),
        ]
        rules = rules[:1] if rules[0].name == rules[1].name else rules
    ruled = replace(
        domain,
        constraints=tuple(constraint_of(rule, coding) for rule in rules),
        couplings=() if rules else draw(couplings(domain)),
    )
    return Declared(replace(coding, domain=ruled), draw(st.none() | NAMES), draw(st.none() | NAMES))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(declarations())
def test_every_declaration_survives_a_round_trip(tmp_path: Path, declared: Declared) -> None:
    write_domain(declared, tmp_path / "domain.toml")
    again = read_domain(tmp_path / "domain.toml")
    assert again == declared
    assert again.rules == declared.rules
    sources = [each.source for each in again.coding.domain.couplings]
    assert sources == [each.source for each in declared.coding.domain.couplings]
    assert [[type(value) for value in values] for values in again.coding.values.values()] == [
        [type(value) for value in values] for values in declared.coding.values.values()
    ]


def test_a_file_explains_its_keys_and_leaves_out_constraints_made_of_code(tmp_path: Path) -> None:
    domain = Domain(
        tiny_domain().attributes,
        ("gender",),
        (Constraint("code", lambda columns: columns["skill"] > 3),),
    )
    write_domain(Coding.of_domain(domain), tmp_path / "domain.toml")
    text = (tmp_path / "domain.toml").read_text(encoding="utf-8")
    assert text.startswith("# The schema of a table")
    assert "\n[[constraints]]" not in text
    assert read_domain(tmp_path / "domain.toml").coding.domain == domain


def test_values_that_toml_cannot_hold_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    coding = Coding.of(pd.DataFrame({"bin": pd.cut([1, 5, 9], 3), "x": [1, 2, 3]}))
    with pytest.raises(DomainError, match=r"is Interval\. Turn such categories into words"):
        write_domain(coding, tmp_path / "domain.toml")
    assert list(tmp_path.iterdir()) == []


# -- mistakes --------------------------------------------------------------------------------------

AGE = '[attributes.age]\nkind = "integer"\nlow = 0\nhigh = 9\n'
WORK = "[attributes.work]\nkind = 'categorical'\ncategories = ['a', 'b']\n"
SEX = '[attributes.sex]\nkind = "categorical"\ncategories = ["f", "m"]\n'
MISTAKES: dict[str, tuple[str, str]] = {
    "syntax": ("[attributes.age]\nkind = integer\n", "not valid TOML: .*line 2"),
    "table twice": (AGE + AGE, "not valid TOML: .*line 5"),
    "empty": ("", "declares no attribute"),
    "attributes is not a table": ("attributes = 3", "`attributes` must be a table, not 3"),
    "attribute is not a table": ("[attributes]\nage = 3", "Attribute 'age' must be a table"),
    "unknown key at the top": (
        "lable = 'x'\n" + AGE,
        "has the unknown key 'lable'. Did you mean 'label'",
    ),
    "unknown key": (
        AGE + "hihg = 3",
        "Attribute 'age' has the unknown key 'hihg'. Did you mean 'high'",
    ),
    "key of another kind": (
        AGE + "one_hot = true",
        "Attribute 'age' has the unknown key 'one_hot'",
    ),
    "no kind": ("[attributes.age]\nlow = 3", "Attribute 'age' has no `kind`"),
    "unknown kind": (
        "[attributes.age]\nkind = 'whole'",
        "Attribute 'age': `kind` must be integer, real or categorical, not 'whole'",
    ),
    "kind is a number": (
        "[attributes.age]\nkind = 3",
        "`kind` must be integer, real or categorical, not 3",
    ),
    "no bound": (
        "[attributes.age]\nkind = 'real'\nlow = 3",
        "Attribute 'age' is real and needs `high`",
    ),
    "no categories": (
        "[attributes.sex]\nkind = 'categorical'",
        "Attribute 'sex' is categorical and needs `categories`",
    ),
    "empty categories": (
        SEX.replace('"f", "m"', ""),
        "Attribute 'sex' is categorical and needs the names",
    ),
    "category twice": (SEX.replace('"m"', '"f"'), "Attribute 'sex' names a category twice"),
    "category is a number": (
        SEX.replace('"m"', "3"),
        "Attribute 'sex': `categories` must be a list of words .* holds 3",
    ),
    "word for a number": (
        AGE.replace("9", '"9"'),
        "Attribute 'age': `high` must be a number, not '9'",
    ),
    "truth for a number": (
        AGE.replace("9", "true"),
        "Attribute 'age': `high` must be a number, not True",
    ),
    "infinite": (AGE.replace("9", "inf"), "Attribute 'age': `high` must be finite"),
    "number for a truth": (
        SEX + "one_hot = 1",
        "Attribute 'sex': `one_hot` must be true or false, not 1",
    ),
    "low above high": (
        AGE.replace("low = 0", "low = 10"),
        "Attribute 'age' needs finite bounds with low ≤ high; got 10 to 9",
    ),
    "fraction for a whole number": (
        AGE.replace("9", "9.5"),
        "Attribute 'age' is integer; its bounds must be whole",
    ),
    "missing inside": (
        AGE + "missing = 5",
        "Attribute 'age': the code 5 for a missing value lies inside",
    ),
    "no bin": (AGE + "bin = 0", "Attribute 'age': `bin` and `grain` must be more than 0"),
    "division by nothing": (AGE + "divide_by = 0", "Attribute 'age': `divide_by` must not be 0"),
    "too few values": (SEX + "values = [1]", "Attribute 'sex' has 2 categories but 1 `values`"),
    "value twice": (SEX + "values = [1, 1.0]", "Attribute 'sex': `values` must be different"),
    "value is a list": (
        SEX + "values = [[1], 2]",
        "Attribute 'sex': `values` must be different words",
    ),
    "cut is a word": (
        SEX + "cuts = ['a']\nvalues = [1, 2]",
        "Attribute 'sex': `cuts` must be numbers",
    ),
    "too many cuts": (
        SEX + "cuts = [1, 2]\nvalues = [1, 2]",
        "Attribute 'sex' has 2 categories and needs 1 rising `cuts`",
    ),
    "cuts without values": (SEX + "cuts = [1]", "Attribute 'sex' has `cuts` and needs `values`"),
    "value in another category": (
        SEX + "cuts = [1]\nvalues = [1, 2]",
        "Attribute 'sex': each of the `values` must lie in its own",
    ),
    "unknown sensitive": (
        "sensitive = ['sxe']\n" + SEX,
        "There is no attribute 'sxe'. Did you mean 'sex'",
    ),
    "sensitive is a word": ("sensitive = 'sex'\n" + SEX, "`sensitive` must be a list, not 'sex'"),
    "sensitive is a number": ("sensitive = [3]\n" + SEX, "`sensitive` must be a list of words"),
    "constraint without name": (
        AGE + "[[constraints]]\nrule = 'age > 3'",
        "Constraint 1 needs a `name`",
    ),
    "constraint without rule": (
        AGE + "[[constraints]]\nname = 'r'",
        "Constraint 'r' needs either `rule`, or `when`",
    ),
    "constraint twice": (
        AGE + "[[constraints]]\nname = 'r'\nrule = 'age > 3'\n" * 2,
        "More than one constraint is named 'r'",
    ),
    "constraint is a word": ("constraints = ['age > 3']\n" + AGE, "Constraint 1 must be a table"),
    "constraint with another key": (
        AGE + "[[constraints]]\nname = 'r'\nif = 'age > 3'",
        "Constraint 'r' has the unknown key 'if'",
    ),
    "twins are a word": ("twins = ['work']\n" + SEX + WORK, "Twins 1 must be a table"),
    "twins without roles": (
        SEX + WORK + "[[twins]]\nattribute = 'work'\nwith = 'sex'",
        "Twins 1 needs `roles`",
    ),
    "twins with another key": (
        SEX + WORK + "[[twins]]\nattribute = 'work'\nsame = []",
        "Twins 1 has the unknown key 'same'",
    ),
    "twins of a word": (
        SEX + WORK + "[[twins]]\nattribute = 'work'\nwith = 'sex'\nroles = ['a']",
        "Twins 1: a role names a category for each value",
    ),
    "twins from nowhere": (
        SEX + WORK + "[[twins]]\nattribute='work'\nwith='sex'\nroles=[]\nsource='x'",
        "Twins 1: `source` must be declared or mined, not 'x'",
    ),
    "twins that contradict a constraint": (
        SEX
        + WORK
        + "[[constraints]]\nname = 'r'\nwhen = \"work == 'a'\"\nthen = \"sex == 'f'\"\n"
        + "[[twins]]\nattribute = 'work'\nwith = 'sex'\nroles = [{f = 'b', m = 'a'}]",
        "Twins of 'work' with 'sex': the constraints \\('r'\\) allow nobody with sex = 'm'",
    ),
    "bad rule": (
        AGE + "[[constraints]]\nname = 'r'\nrule = 'agee > 3'",
        "Constraint 'r', rule: there is no attribute 'agee'",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_that_names_the_file_and_the_attribute(
    tmp_path: Path, name: str
) -> None:
    text, message = MISTAKES[name]
    path = domain_file(tmp_path, text)
    with pytest.raises(DomainError, match=message) as caught:
        read_domain(path)
    assert re.search(r"domain\.toml", str(caught.value))
    assert "\n" not in str(caught.value)


def test_a_missing_or_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="Cannot read the domain file"):
        read_domain(tmp_path / "domain.toml")
    with pytest.raises(StorageError, match="Cannot read the domain file"):
        read_domain(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"label = '\xe9'")
    with pytest.raises(DomainError, match="is not UTF-8"):
        read_domain(tmp_path / "latin.toml")
    with pytest.raises(StorageError, match="Cannot write"):
        write_domain(Coding.of_domain(tiny_domain()), tmp_path / "nowhere" / "domain.toml")
