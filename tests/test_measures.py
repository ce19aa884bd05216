"""Measures: what they say about themselves and what they read from the document of an audit."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from fairprobe.catalogue import MEASURES
from fairprobe.documents.table import ModelSummary, TableMeasurements, TableRun
from fairprobe.errors import StorageError
from fairprobe.measures import CONSTANT, Measure, Reading, by, check_description
from fairprobe.results import Rate, from_dict
from tests.present.test_report_documents import black_box, document, multi_class

PROVED = ("proved_share", "proved_people", "upper_bound")  # of a run that was certified
OPTIONAL = ("auc", "leaning", *PROVED)
NOT_BETTER_IF_CONSTANT = ("auc", "ties", "accuracy", "f1", "mcc", "input_space", "distance")
CERTIFICATE = {
    **{"way": "bounds", "proved": 0.9, "upper_bound": 0.1, "affected": None, "rest": None},
    **{"outside": 0, "cases": 1e6, "values": 2, "boxes": 9, "seconds": 1.0, "stopped": ""},
    "network": "0" * 64,
    "people": [{"radius": r, **Rate.of(9, 10).to_dict()} for r in (0, 1)],
}
NOTHING = TableMeasurements(
    dataset="d", sensitive=["a", "b", "c"], seed=0, model=ModelSummary(network="n", blind_to=[])
)


def typed(body: dict[str, Any]) -> TableRun:
    return from_dict({"command": "", **body}, TableRun)


AMOUNTS = ("change", "change_sd", "change_p90", "scoring_ratio", "mean_difference", "r2")
TABLES = [name for name in MEASURES.own if MEASURES[name].of == "table" and name not in AMOUNTS]
OF_NETWORKS = [name for name in TABLES if name != "leaning"]  # which is of a chat endpoint


def measure(**changes: Any) -> Measure:
    given = {"name": "m", "title": "M", "about": "A.", "unit": "share", "direction": "at most"}
    return Measure(**{"read": lambda _: [], **given, **changes})


@pytest.mark.parametrize("name", OF_NETWORKS)
def test_every_measure_describes_itself_and_reads_a_whole_document(name: str) -> None:
    described = MEASURES[name]
    check_description(described)
    assert described.name == name
    assert described.about.endswith(".")
    readings = described.readings(typed({**document(), "certificate": CERTIFICATE}))
    assert readings
    for reading in readings:
        assert reading.estimate is not None
        assert not reading.missing
        assert "gender" in reading.what or name in (
            *("accuracy", "ties", "f1", "mcc", "proved_people"),
        )


def test_what_a_document_does_not_hold_is_missing_with_a_reason() -> None:
    (auc,) = MEASURES["auc"].readings(typed(black_box()))
    assert auc.estimate is None
    assert "no neurons can be seen" in auc.missing
    elsewhere = document()
    elsewhere["generation"]["distance"] = None
    (distance,) = MEASURES["distance"].readings(typed(elsewhere))
    assert distance.estimate is None
    assert "does not set out from seeds" in distance.missing
    (space,) = MEASURES["input_space"].readings(typed(document()))
    assert (space.estimate, space.measured_on) == (474_380, "530,112 judged")
    for name in PROVED:
        (reading,) = MEASURES[name].readings(typed(document()))
        assert reading.estimate is None
        assert "fairprobe certify RUN" in reading.missing
    for name in ("demographic_parity", "equalized_odds", "impact_ratio"):
        (reading,) = MEASURES[name].readings(typed(multi_class()))
        assert reading.estimate is None
        assert "Name the favorable answer" in reading.missing


@pytest.mark.parametrize("name", [name for name in TABLES if name not in OPTIONAL])
def test_a_document_without_the_part_that_a_measure_reads_is_refused(name: str) -> None:
    with pytest.raises(StorageError, match=f"'{name}' cannot be read .*: it was not measured"):
        MEASURES[name].readings(NOTHING)


def test_a_model_that_decides_nothing_is_not_praised() -> None:
    body = document()
    body["model"]["constant"] = True
    for name in TABLES:
        notes = {reading.note for reading in MEASURES[name].readings(typed(body))}
        assert (notes == {CONSTANT}) == (name not in NOT_BETTER_IF_CONSTANT)


def test_a_number_that_is_not_finite_is_missing() -> None:
    for wrong in (nan, inf):
        for field in ("estimate", "low", "high"):
            numbers: dict[str, Any] = {"estimate": 0.5, "low": 0.4, "high": 0.6, field: wrong}
            reading = Reading(what="w", **numbers)
            (read,) = measure(read=lambda _, reading=reading: [reading]).readings(NOTHING)
            assert read.estimate is read.low is read.high is None
            assert "not a finite number" in read.missing


def test_a_reader_that_fails_is_one_sentence() -> None:
    with pytest.raises(StorageError, match=r"'m' cannot be read from this document: division"):
        measure(read=lambda _: [1 / 0]).readings(NOTHING)


def test_a_score_is_read_from_the_document_by_its_name() -> None:
    described = measure(name="f1", read=None, score=lambda _: None)
    (reading,) = described.readings(typed(document()))
    assert (reading.estimate, reading.measured_on) == (0.6321, "9,769 people measured")
    (unknown,) = replace(described, name="new").readings(typed(document()))
    assert unknown.estimate is None
    assert unknown.missing == "this run did not measure it. Run the audit again"
    body = document()
    body["fairness"]["quality"]["scores"]["f1"].update(estimate=None, low=None, high=None)
    (undefined,) = described.readings(typed(body))
    assert undefined.missing == "it is not defined for these answers. Add rows"


def test_attributes_are_listed_in_words() -> None:
    assert by(NOTHING) == "a, b and c"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"title": ""}, "no title"),
        ({"about": ""}, "no about"),
        ({"unit": "percent"}, "unit must be share, number or count"),
        ({"direction": "down"}, "direction must be 'at most' or 'at least'"),
        ({"read": None}, "either `read` or `score`"),
        ({"score": lambda _: None}, "either `read` or `score`"),
    ],
)
def test_a_description_with_gaps_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(TypeError, match=why):
        check_description(measure(**changes))
    with pytest.raises(TypeError, match="must be a fairprobe"):
        check_description(changes)
