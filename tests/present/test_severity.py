"""How severe it is and who is affected most, as the report, the terminal and the card say it."""

from __future__ import annotations

from typing import Any

from fairprobe.documents import TableDocument, from_dict
from fairprobe.present.markdown import model_card
from fairprobe.report.formats import plain
from tests.present.test_pairs import terminal
from tests.present.test_report import parsed, read
from tests.present.test_report_documents import document, measure, multi_class, nothing_found

Document = dict[str, Any]


def text_of(body: Document) -> str:
    return " ".join(plain(read(body).text).split())


def card_of(body: Document) -> str:
    return plain(model_card(from_dict(body, TableDocument)))


def test_the_change_of_probability_is_told_with_its_intervals() -> None:
    said = (
        "For half of the affected people the probability of their decision changes by 31.2"
        " percentage points or more (95 % interval 30.1 to 32.4), for one in ten by 62.0 percentage"
        " points or more (95 % interval 61.0 to 63.5)."
    )
    assert said in text_of(document())
    assert said in card_of(document())
    assert (
        "probability changes by 31.2 percentage points or more for half of them, by 62.0 percentage"
        " points or more for one in ten" in plain(terminal(document()))
    )


def test_the_number_of_decisions_is_told_where_there_are_more_than_two() -> None:
    said = (
        "Over all sensitive values, 4,000 people could get 2 and 491 people could get 3 different"
        " decisions."
    )
    assert said in text_of(multi_class())
    assert "decisions that a person could get" in text_of(multi_class())
    assert "up to 3 different decisions" in terminal(multi_class())
    assert "could get 2" not in text_of(document())


def test_a_model_without_probabilities_is_not_called_severe() -> None:
    body = document()
    body["people"]["severity"]["gap_median"] = measure(1.0, 1.0, 1.0, 4491)
    assert "gives decisions without probabilities" in text_of(body)


def test_rules_that_stand_out_are_shown_and_all_of_them_are_folded() -> None:
    text = text_of(document())
    assert "A small tree divides the people in the data into 3 groups." in text
    assert "The intervals of all its rules hold together with 95 % confidence." in text
    shown, _, folded = text.partition("All 3 rules")
    assert "relationship Husband or Wife and age 40–59" in shown
    assert "relationship not Husband or Wife" not in shown
    assert "relationship not Husband or Wife" in folded
    assert (
        "Most affected, by a short rule: relationship Husband or Wife and age 40–59. Of 3,935 such"
        " people 37.7 % are affected (interval 35.6 % to 39.8 %, corrected for 3 rules)."
        in card_of(document())
    )


def test_where_no_rule_stands_out_the_report_says_so() -> None:
    body = document()
    body["people"]["rules"] = body["people"]["rules"][1:]
    assert "None of them lies clearly above the share of everybody, 9.2 %." in text_of(body)
    assert "by a short rule" not in card_of(body)
    body["people"]["rules"] = []
    assert "No short rule says who is affected" in text_of(body)


def test_the_groups_say_how_many_were_compared() -> None:
    said = (
        "87 groups were compared; their intervals are wide enough to hold all together with 95 %"
        " confidence."
    )
    assert said in text_of(document())
    assert said in card_of(document())
    assert "Most affected of 87 groups in the data" in terminal(document())


def test_where_nobody_is_affected_nothing_is_severe() -> None:
    text = parsed(nothing_found).text
    assert "How severe" not in text
    assert "short rule" not in text
    assert "How severe" not in terminal(nothing_found())
