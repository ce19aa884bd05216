"""The two people of a pair, as the report, the terminal and the model card show them."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from fairprobe.documents import PairDocument, TableDocument, from_dict
from fairprobe.present import pair_sentences
from fairprobe.present.markdown import model_card
from fairprobe.present.table_summary import table_summary
from fairprobe.report.formats import one_in
from tests.present.test_report import read
from tests.present.test_report_documents import document, pair

Document = dict[str, Any]


def shown(**changes: Any) -> Document:
    return document() | {"pairs": [pair() | changes]}


def terminal(body: Document) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table_summary(from_dict(body, TableDocument)))
    return capture.get()


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1, "Nearly all"),
        (0.93, "9 in 10"),
        (0.7, "2 in 3"),
        (0.5, "1 in 2"),
        (0.41, "1 in 2"),
        (0.34, "1 in 3"),
        (0.021, "1 in 48"),
        (0.00421, "1 in 240"),
        (1 / 48_842, "1 in 49,000"),
        (0, "None of the"),
    ],
)
def test_shares_of_people_as_they_are_said(share: float, text: str) -> None:
    assert one_in(share) == text


def test_how_usual_both_people_are_is_said_where_it_is_known() -> None:
    said = (
        "1 in 3 people in the data are at least as unusual as the first of these two, and 1 in 48"
        " as the second."
    )
    both = "1 in 3 people in the data are at least as unusual as these two."
    for show in (lambda body: read(body).text, terminal, model_card_of):
        assert said in show(document())
        assert both in show(shown(plausibility_other=0.33))
        assert "unusual" not in show(shown(plausibility=None, plausibility_other=None))
    assert "for people who are usual" in read(document()).text
    assert "for people who are usual" not in read(shown(plausibility=None)).text


def model_card_of(body: Document) -> str:
    return model_card(from_dict(body, TableDocument))


def test_ten_attributes_are_shown_and_the_rest_is_folded() -> None:
    many = shown(shared={f"a{place}": "x" for place in range(17)})
    page = read(many)
    assert page.tags.count("details") == read(document()).tags.count("details") + 1
    assert "a9x and 7 more a10x" in " ".join(page.text.split())
    assert "Both: a0 x, a1 x" in terminal(many)
    assert "a9 x, and 7 more" in terminal(many)
    assert "a10" not in terminal(many)
    ten = shown(shared={f"a{place}": "x" for place in range(10)})
    assert "and 0 more" not in read(ten).text + terminal(ten)


def test_what_changes_along_with_the_sensitive_attribute_is_shown_for_both_and_marked() -> None:
    body = shown(
        sensitive={"gender": ["Female", "Male"], "relationship": ["Wife", "Husband"]},
        shared={"age": "60–69"},
    )
    text = " ".join(read(body).text.split())
    assert "genderFemale relationship (changes along)Wife" in text
    assert "genderMale relationship (changes along)Husband" in text
    assert text.index("Husband") < text.index("Both of them")


def test_a_record_is_marked_and_the_lines_that_repeat_the_audit_ask_for_it() -> None:
    page = read(shown(is_record=True))
    assert "One of these two is a person in the data." in page.text
    assert "Records of the data are shown as well" in page.text
    assert "not records" not in page.text
    assert "show_records=True" in page.code[-1]
    assert "show_records" not in read(document()).code[-1]
    assert pair_sentences.record(from_dict(pair(), PairDocument)) == ""
