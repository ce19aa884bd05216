"""How severe it is for the affected people."""

from __future__ import annotations

import numpy as np
import pytest

from fairprobe.arrays import Rows
from fairprobe.documents.people import People
from fairprobe.judgement import answers
from fairprobe.models import Model
from fairprobe.schema.domain import Attribute, Constraint, Domain
from fairprobe.table.people import people
from fairprobe.table.severity import count_decisions

RACES = Domain(
    (
        Attribute(name="points", low=0, high=99),
        Attribute(name="race", kind="categorical", categories=("a", "b", "c")),
    ),
    ("race",),
)


def grades(x: Rows) -> Rows:
    """Three answers: below 10 points race a gets 0, b gets 1, c gets 2; below 30 only a gets
    another one; everybody else gets 2. Race changes the probability by more, the fewer points.
    """
    p = np.full((len(x), 3), 0.2)
    answer = np.where(x[:, 0] < 10, x[:, 1], np.where((x[:, 0] < 30) & (x[:, 1] == 0), 0, 2))
    p[np.arange(len(x)), answer.astype(int)] = 0.6
    return p


def decided(found: People) -> list[tuple[int, int]]:
    assert found.severity is not None
    return [(each.decisions, each.people) for each in found.severity.decisions]


def test_people_are_counted_by_how_many_decisions_they_could_get() -> None:
    x = np.array([[points, points % 3] for points in range(100)], dtype=np.float32)
    found = people(RACES, Model(grades), x)
    assert found.hits == 30
    assert decided(found) == [(1, 70), (2, 20), (3, 10)]
    assert found.severity is not None
    assert found.severity.gap_median.estimate == pytest.approx(0.4)


def test_the_gap_of_affected_people_has_its_median_and_its_90th_percentile() -> None:
    # The 40 people with 0 … 39 points are affected, by 0.02 × (points + 1).
    domain = Domain(
        (Attribute(name="points", low=0, high=99), Attribute(name="s", low=0, high=1)), ("s",)
    )

    def model(x: Rows) -> Rows:
        half = np.where(x[:, 0] < 40, 0.01 * (x[:, 0] + 1), 0)
        p = 0.5 + np.where(x[:, 1] == 1, half, -half) + np.where(x[:, 0] < 40, 0, 0.3)
        return p.astype(np.float32)

    x = np.array([[points, 1] for points in range(100)], dtype=np.float32)
    severity = people(domain, Model(model), x).severity
    assert severity is not None
    gaps = 0.02 * np.arange(1, 41)
    assert severity.gap_median.estimate == pytest.approx(np.median(gaps), abs=1e-6)
    assert severity.gap_p90.estimate == pytest.approx(np.quantile(gaps, 0.9), abs=1e-6)
    # By the table of the binomial distribution, n = 40: the 14th and the 27th value.
    assert severity.gap_median.low == pytest.approx(0.28, abs=1e-6)
    assert severity.gap_median.high == pytest.approx(0.54, abs=1e-6)
    assert severity.gap_median.samples == 40


def test_where_nobody_is_affected_there_is_no_gap() -> None:
    x = np.array([[50, 1]] * 10, dtype=np.float32)
    found = people(RACES, Model(grades), x)
    severity = found.severity
    assert severity is not None
    assert severity.gap_median.estimate is None
    assert severity.gap_p90.samples == 0
    assert decided(found) == [(1, 10)]
    assert decided(people(RACES, Model(grades), x[:0])) == []


def test_ties_and_forbidden_counterparts_are_no_decisions() -> None:
    labels = np.array([[0, 1, 2], [0, 1, 2], [1, 1, 0]])
    evidence = np.array([[True] * 3, [True, False, True], [True, True, False]])
    assert count_decisions(labels, evidence).tolist() == [3, 2, 1]

    def no_c(columns: object) -> object:
        return columns["race"] < 2  # type: ignore[index]

    domain = Domain(RACES.attributes, ("race",), (Constraint("no c", no_c),))  # type: ignore[arg-type]
    x = np.array([[5, 0], [20, 1]], dtype=np.float32)
    ((labels, evidence),) = answers(domain, Model(grades), x)
    assert labels.tolist() == [[0, 1, 2], [0, 2, 2]]
    assert evidence.tolist() == [[True, True, False]] * 2
    tie = Model(lambda x: np.full((len(x), 3), 1 / 3))
    ((_, evidence),) = answers(RACES, tie, x)
    assert not evidence.any()


def test_the_answers_come_in_parts_that_bound_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([[points, 0] for points in range(100)], dtype=np.float32)
    whole = next(answers(RACES, Model(grades), x))
    monkeypatch.setattr("fairprobe.judgement.ROWS_AT_ONCE", 30)
    parts = list(answers(RACES, Model(grades), x))
    assert len(parts) == 10
    for each in (0, 1):
        np.testing.assert_array_equal(np.concatenate([part[each] for part in parts]), whole[each])
