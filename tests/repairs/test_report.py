"""What the report says of a repair: its verdict, what changed, tables and the trade-off."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairprobe.documents.repair import Point, Proof
from fairprobe.errors import StorageError
from fairprobe.repairs import report
from fairprobe.report import Table
from fairprobe.results import Estimate, from_dict
from tests.present.test_report import parsed, read
from tests.present.test_report_documents import (
    Document,
    collapsed,
    decision,
    refused,
    repair,
    repaired,
)


def proof_of(body: Document) -> Proof:
    return from_dict(body["repair"], Proof)


# -- the verdict -----------------------------------------------------------------------------------


def test_an_accepted_repair_says_what_changed_with_intervals() -> None:
    text = parsed(repaired).text
    for words in (
        "Fairness audit of a repaired network", "Repair accepted",
        "Changing gender changed the decision for 4.5 % of the people in the data before the"
        " repair (95 % interval 4.0 % to 5.0 %) "
        "and changes it for 0.31 % after it (0 % to 0.81 %), 93.1 % less. Of plausible people, it"
        " was 4.5 % and is 0.31 % (0 % to 0.81 %), 93.1 % less. Of all possible people, it was"
        " 4.5 % and is 0.31 %, 93.1 % less.",
        "Accuracy goes from 84.0 % to 83.7 % (−0.3 points), IFRb"
        " from 90.9 % to 98.7 %, IFRp from 37.5 % to 97.1 %.",
        "The verdict rests on 4 seeds: on average the repaired networks discriminate against 0.30 %"
        " of people held out instead of 4.4 % and 0.40 % of plausible people instead of 5.0 % with"
        " the same network trained again without a repair.",
        "Over 4 seeds",
        "Delivered is the network of seed 17",
        "322 comparisons of groups",
        "relationship Wife",
    ):  # fmt: skip
        assert words in text, words


def test_a_refused_repair_says_why_and_that_a_change_may_be_chance() -> None:
    text = parsed(refused).text
    assert "Repair refused: the accuracy falls by 7.9 points; at most 1.5 are allowed" in text
    assert "2.0 % more, which may be chance: the intervals overlap." in text
    assert "IFRp from 37.5 % to not defined" in text
    assert "Repair accepted" not in text


def test_a_repair_accepted_all_the_same_names_every_reason_and_the_collapse() -> None:
    text = parsed(collapsed).text
    assert "Accepted although 2 reasons speak against it" in text
    assert "It gives everybody the same answer." in text
    assert "“after” gives everybody the same answer: such numbers look perfect" in text


@pytest.mark.parametrize(
    ("reasons", "doubts", "forced", "words"),
    [
        ((), (), False, "Repair accepted"),
        (("It costs too much.",), (), False, "Repair refused: it costs too much"),
        (("IFR_b falls.",), (), False, "Repair refused: IFR_b falls"),
        (("a", "b"), (), False, "Repair refused for 2 reasons"),
        (("It decides nothing.",), (), True, "Accepted although it decides nothing"),
        ((), ("Open.",), False, "Repair undecided: 4 seeds did not settle whether it helps"),
        ((), ("Open.",), True, "Accepted although 4 seeds did not settle whether it helps"),
    ],
)
def test_the_headline_is_a_sentence(
    reasons: tuple[str, ...], doubts: tuple[str, ...], forced: bool, words: str
) -> None:
    outcome = "refused" if reasons else "undecided" if doubts else "accepted"
    accepted = forced or outcome == "accepted"
    verdict = {"outcome": outcome, "forced": forced, "accepted": accepted}
    body = repair() | verdict | {"decision": decision(reasons, doubts)}
    assert report.headline(from_dict(body, Proof)) == words
    if doubts:
        assert doubts[0] in read(repaired() | {"repair": body}).text


def test_a_document_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(StorageError, match="was not trained"):
        from_dict(repair() | {"delivered": 3}, Proof)
    after = repair()["after"] | {"others": []}
    with pytest.raises(StorageError, match="against its reasons"):
        from_dict(repair() | {"decision": decision(("It costs too much.",))}, Proof)
    with pytest.raises(StorageError, match="measured alike"):
        from_dict(repair() | {"after": after}, Proof)


# -- tables ----------------------------------------------------------------------------------------


def shown_table(body: Document) -> Table:
    return report.before_and_after(proof_of(body), body["data"]["classes"])


def row(body: Document, name: str) -> list[Any]:
    return next(cells for label, *cells in shown_table(body).cells if label.text.startswith(name))


def test_the_table_has_a_column_for_before_after_and_each_control() -> None:
    table = shown_table(repaired())
    assert table.head == (
        *("", "before", "after", "without the sensitive columns"),
        *("trained again", "with random people"),
    )
    wanted = [
        "Accuracy",
        "F1",
        "Matthews’ correlation (MCC)",
        "Share selected",
        "People in the data affected",
        "Plausible people affected",
        "Possible people affected (DM-RS)",
        "Pairs with the same answer (IFR_b)",
        "Pairs with nearly the same probabilities (IFR_p)",
        "Demographic parity difference",
        "ΔEO, truth “<=50K”",
        "ΔEO, truth “>50K”",
        "Cases found by the search (IDIs)",
        "AUC of the neurons",
        "Scale-free AUC",
    ]
    assert [label.text for label, *_ in table.cells] == wanted
    assert all(len(cells) == 5 for _, *cells in table.cells)


def test_only_what_lies_apart_from_before_is_marked() -> None:
    body = repaired()
    marks = {
        "Accuracy": ["", "", "", "", ""],
        "Possible people": ["", "better", "better", "", "worse"],
        "Pairs with nearly": ["", "better", "better", "", "worse"],
        "Share selected": [""] * 5,
        "Cases": [""] * 5,
        "AUC": [""] * 5,
    }
    assert {name: [cell.kind for cell in row(body, name)] for name in marks} == marks


def test_a_network_that_decides_nothing_is_never_better_but_can_be_worse() -> None:
    body = collapsed()
    assert [cell.kind for cell in row(body, "Possible people")][:2] == ["", ""]
    assert [cell.kind for cell in row(body, "Accuracy")][:2] == ["", "worse"]
    assert row(body, "AUC")[1].text == "–"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.2))
def test_nothing_is_marked_while_intervals_touch(was: float, now: float, half: float) -> None:
    first, second, without = (
        Estimate(at, low, high, 9, 0.95)
        for at, low, high in (
            (was, was - half, was + half),
            (now, now - half, now + half),
            (now, None, None),
        )
    )
    assert report.lie_apart(first, second) == (was + half < now - half or now + half < was - half)
    assert not report.lie_apart(first, first)
    assert not report.lie_apart(first, without)


def test_attributes_that_fare_worse_are_marked() -> None:
    table = report._other_attributes(proof_of(refused()))
    assert [[cell.kind for cell in cells] for _, *cells in table.cells] == [
        ["", "worse", "", ""],
        ["", "", "", ""],
    ]
    assert "Other protected attributes" not in parsed(collapsed).text


# -- the trade-off ---------------------------------------------------------------------------------


def test_the_picture_labels_every_point_and_the_table_has_its_numbers() -> None:
    text = parsed(repaired).text
    for words in (
        "The trade-off: accuracy and IFRp, by strength",
        "Strength 20 was chosen",
        "chosen, not beaten",
        "96.7 % to 97.7 %",
    ):
        assert words in text, words


def test_points_without_a_rate_are_listed() -> None:
    assert "same answer for all" in parsed(collapsed).text
    point = proof_of(collapsed()).curve[0]
    assert isinstance(point, Point)
    assert point.ifr_p is not None
    assert point.ifr_p.estimate is None
