"""What an audit measures on the people held out, against numbers worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from fairprobe.arrays import Rows
from fairprobe.datasets import Dataset
from fairprobe.documents.people import Fairness
from fairprobe.metrics import fairness
from fairprobe.models import Model, TorchModel
from fairprobe.report.markdown import markdown
from fairprobe.results import to_dict
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.table.report import report
from tests.helpers import merit, planted, typed
from tests.present.test_report_documents import Document, document

ATTRIBUTES = (
    Attribute(name="skill", low=0, high=30),
    Attribute(name="gender", kind="categorical", categories=("female", "male")),
    Attribute(name="race", kind="categorical", categories=("a", "b", "c", "d")),
)
CUT = 15.25


def people(*sensitive: str, n: int = 400, **options: Any) -> Dataset:
    """Nobody is of race "d", and one in a hundred of race "c"."""
    domain = Domain(ATTRIBUTES, sensitive=sensitive or ("gender",))
    x = domain.sample(n, rng=np.random.default_rng(5))
    x[:, 2] = np.where(np.arange(n) % 100 == 0, 2, x[:, 2] % 2)
    y = (x[:, 0] > CUT).astype(np.int64)
    settings: dict[str, Any] = {"classes": ("refused", "hired"), "favourable": 1} | options
    return Dataset(name="toy", domain=domain, x=x, y=y, label="job", **settings)


def measured(data: Dataset, model: Model | None = None) -> Fairness:
    return fairness(
        data, model or TorchModel(planted(data.domain, bias=4, cut=CUT)), np.arange(len(data))
    )


def as_document(data: Dataset, model: Model | None = None) -> Document:
    body = to_dict(measured(data, model))
    assert json.loads(json.dumps(body, allow_nan=False)) == body
    return body


def test_rates_ratios_and_differences_are_what_can_be_counted() -> None:
    data = people()
    score, is_male = merit(data.domain, data.x), data.x[:, 1] == 1
    hired = score + 4 * is_male > CUT
    affected = (score < CUT) & (score + 4 > CUT)
    body = as_document(data)
    assert (body["rows"], body["positive"], body["positive_assumed"]) == (400, 1, False)
    assert body["individual"]["b"]["estimate"] == pytest.approx(1 - affected.mean())
    female, male = body["individual"]["b"]["groups"]
    assert (female["name"], male["name"]) == ("female", "male")
    assert female["estimate"] == pytest.approx(1 - affected[~is_male].mean())
    assert body["individual"]["p"]["estimate"] <= body["individual"]["b"]["estimate"]
    assert body["group"]["selected"]["hits"] == int(hired.sum())
    (table,) = body["group"]["tables"]
    rates = hired[~is_male].mean(), hired[is_male].mean()
    assert [row["estimate"] for row in table["rows"]] == pytest.approx(rates)
    assert [row["impact_ratio"]["estimate"] for row in table["rows"]] == pytest.approx(
        [rates[0] / rates[1], 1.0]
    )
    assert table["dp"]["estimate"] == pytest.approx(rates[1] - rates[0])
    assert [each["given"] for each in table["eo"]] == ["refused", "hired"]
    refused = data.y == 0
    assert table["eo"][0]["estimate"] == pytest.approx(
        hired[is_male & refused].mean() - hired[~is_male & refused].mean()
    )
    right = hired == (data.y == 1)
    assert body["quality"]["accuracy"]["hits"] == int(right.sum())
    both = (hired & (data.y == 1)).sum()
    assert body["quality"]["scores"]["f1"]["estimate"] == pytest.approx(
        2 * both / (hired.sum() + data.y.sum())
    )


def test_groups_are_those_of_each_attribute_and_of_both_and_small_and_empty_ones_are_named() -> (
    None
):
    tables = as_document(people("gender", "race"))["group"]["tables"]
    assert [table["attribute"] for table in tables] == ["gender", "race", "gender and race"]
    race = {row["name"]: row for row in tables[1]["rows"]}
    assert list(race) == ["a", "b", "c", "d"]
    assert (race["c"]["samples"], race["c"]["is_small"], race["c"]["is_empty"]) == (4, True, False)
    assert (race["d"]["samples"], race["d"]["is_small"], race["d"]["is_empty"]) == (0, False, True)
    assert race["d"]["impact_ratio"]["estimate"] is None
    assert [row["name"] for row in tables[2]["rows"]][:2] == ["female, a", "female, b"]
    assert len(tables[2]["rows"]) == 8


def three(*, towns: int = 8) -> Dataset:
    """Three sensitive attributes; towns are drawn after all else, so that the others are as
    before.
    """
    small, rng = people(), np.random.default_rng(6)
    town = Attribute(
        name="town", kind="categorical", categories=tuple(f"t{number}" for number in range(towns))
    )
    domain = Domain((*ATTRIBUTES, town), sensitive=("gender", "race", "town"))
    x = np.column_stack([small.x, rng.integers(0, towns, len(small))]).astype(np.float32)
    return Dataset(
        name="toy",
        domain=domain,
        x=x,
        y=small.y,
        label="job",
        classes=("refused", "hired"),
        favourable=1,
    )


def hired_by_skill(x: Rows) -> Rows:
    high = x[:, 0] > CUT
    return np.stack([~high, high], axis=1).astype(np.float64)


def test_of_three_attributes_each_pair_is_measured_between_each_alone_and_all_together() -> None:
    data = three()
    tables = as_document(data, Model(hired_by_skill))["group"]["tables"]
    alone, pairs = (
        ["gender", "race", "town"],
        [
            "gender and race",
            "gender and town",
            "race and town",
        ],
    )
    assert [table["attribute"] for table in tables] == [*alone, *pairs, "gender and race and town"]
    assert [len(table["rows"]) for table in tables] == [2, 4, 8, 8, 16, 32, 64]
    both = {row["name"]: row for row in tables[4]["rows"]}["male, t3"]
    within = (data.x[:, 1] == 1) & (data.x[:, 3] == 3)
    assert (both["hits"], both["samples"]) == (
        int((data.x[within, 0] > CUT).sum()),
        int(within.sum()),
    )
    assert (
        tables[3]["rows"]
        == as_document(people("gender", "race"), Model(hired_by_skill))["group"]["tables"][2][
            "rows"
        ]
    )


@pytest.mark.parametrize(
    ("towns", "pairs"),
    [
        (50, ["gender and race", "gender and town", "race and town"]),
        (51, ["gender and race", "gender and town"]),
    ],
)
def test_a_pair_with_more_than_two_hundred_combinations_is_left_out(
    towns: int, pairs: list[str]
) -> None:
    tables = as_document(three(towns=towns), Model(hired_by_skill))["group"]["tables"]
    assert [table["attribute"] for table in tables[3:]] == [*pairs, "gender and race and town"]


def test_people_with_a_value_outside_the_domain_are_counted_apart() -> None:
    data = people("gender", "race")
    data.x[:3, 2] = 9
    body = as_document(data)
    assert body["individual"]["left_out"] == 3
    assert [table["unknown"] for table in body["group"]["tables"]] == [0, 3, 3]


def test_of_two_classes_the_second_is_assumed_and_said_to_be() -> None:
    body = as_document(people(favourable=None))
    assert (body["positive"], body["positive_assumed"]) == (1, True)
    assert "the second of the two counts as it" in card(body)


def classes_of_three(x: Rows) -> Rows:
    """By skill: the first, the second, never the third."""
    high = x[:, 0] > CUT
    return np.stack(
        [np.where(high, 0.1, 0.8), np.where(high, 0.8, 0.1), np.full(len(x), 0.1)], axis=1
    )


@pytest.mark.parametrize("favourable", [None, 2])
def test_of_more_classes_without_a_favourable_one_no_group_is_compared(
    favourable: int | None,
) -> None:
    data = people(classes=("low", "middle", "high"), favourable=favourable)
    body = as_document(data, Model(classes_of_three))
    assert body["positive"] == favourable
    assert not body["positive_assumed"]
    assert (body["group"] is None) == (favourable is None)
    assert body["individual"]["b"]["estimate"] == 1.0
    assert body["quality"]["scores"]["f1"]["estimate"] is None
    if favourable is None:
        assert "none was declared the favorable one, so groups were not compared" in card(body)
    else:
        assert body["group"]["selected"]["hits"] == 0
        assert body["group"]["tables"][0]["dp"]["estimate"] == 0
        assert body["group"]["tables"][0]["rows"][0]["impact_ratio"]["estimate"] is None


def test_f1_of_three_classes_is_their_mean() -> None:
    data = people(classes=("low", "middle", "high"), favourable=None)
    data.y[:10] = 2
    body = as_document(data, Model(classes_of_three))
    predicted = (data.x[:, 0] > CUT).astype(np.int64)
    each = [
        2
        * ((data.y == k) & (predicted == k)).sum()
        / ((data.y == k).sum() + (predicted == k).sum())
        for k in range(3)
    ]
    assert body["quality"]["scores"]["f1"]["estimate"] == pytest.approx(np.mean(each))


def test_a_model_that_says_the_same_to_all_has_perfect_differences_and_no_ratio_below_one() -> None:
    body = as_document(people(), Model(lambda rows: np.tile([0.2, 0.8], (len(rows), 1))))
    assert body["individual"]["p"]["estimate"] == 1.0
    table = body["group"]["tables"][0]
    assert table["dp"]["estimate"] == 0
    assert [row["impact_ratio"]["estimate"] for row in table["rows"]] == [1.0, 1.0]
    assert body["quality"]["scores"]["mcc"]["estimate"] == 0


def test_small_and_unknown_groups_are_in_the_notes() -> None:
    data = people("race")
    data.x[:3, 2] = 9
    said = card(as_document(data))
    assert "Small groups by race, under 2.0 % of the people: “c”." in said
    assert "3 people with unknown race are in no group." in said


def card(measured_people: Document) -> str:
    return markdown(report(typed(document_with(measured_people))))


def document_with(measured_people: Document) -> Document:
    return document() | {
        "fairness": measured_people,
        "people": document()["people"] | {"absent": []},
    }
