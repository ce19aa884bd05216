"""Whom people were compared with: said in the report, in the card and in the terminal, whenever the
schema couples something.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairprobe.present import counterparts, render, sentences
from fairprobe.present.markdown import model_card
from fairprobe.present.page import python
from fairprobe.present.table_summary import numbers
from fairprobe.report.formats import plain
from tests.helpers import typed
from tests.present.test_report_documents import (
    Document,
    bare_counterparts,
    document,
    repaired,
    twins,
)

FIGURES = (
    "relationship (Wife ↔ Husband) with gender",
    "22,047 people in the data have such a category; 4 of them have one that otherwise goes with"
    " another gender",
    "By bare counterparts (nothing but gender changes, as in the papers) 9.2 % of everybody are"
    " affected. 93.1 % of them are people with relationship “Wife” or “Husband”",
    "The others are 0.64 % of everybody, and 1.2 % of the people with another relationship.",
    "By twins 6.5 % of everybody are affected (95 % interval 6.2 % to 6.7 %), and 12.9 % of the"
    " people with relationship “Wife” or “Husband”.",
)


@pytest.mark.parametrize("make", [twins, bare_counterparts])
def test_report_and_card_state_what_each_kind_of_counterpart_finds(
    make: Callable[[], Document],
) -> None:
    page, card = plain(render(typed(make()))), plain(model_card(typed(make())))
    for figure in FIGURES:
        assert figure in " ".join(page.split()), figure
        assert figure in card, figure
    used = "twins" if make is twins else "bare counterparts"
    assert f"This audit used {used}" in page
    assert ("declared in the schema" if make is twins else "found in the table") in page


def test_a_verdict_by_twins_does_not_say_that_nothing_else_changed() -> None:
    by_twins, bare = sentences.verdict(typed(twins())), sentences.verdict(typed(document()))
    assert by_twins.startswith("Changing gender and, with it, relationship changes the network's")
    assert "of the 48,842 people in the data and for 5.0 % of plausible people" in by_twins
    assert bare.startswith("Changing nothing but gender changes the network's decision for 9.2 %")
    assert "only gender" not in sentences.affected(typed(twins()))
    assert "only gender" in sentences.affected(typed(document()))
    assert "a copy that differs in gender and in nothing else" in counterparts.definition(
        typed(bare_counterparts())
    )


def lines(body: Document) -> dict[str, str]:
    return {str(row[0]): plain(str(row[1])) for row in numbers(typed(body)).rows}


def test_the_terminal_names_the_counterparts_and_who_has_none() -> None:
    rows = lines(twins())
    assert rows["Counterparts"] == (
        "twins: relationship (Wife ↔ Husband) with gender; by bare counterparts 9.2 % of people in"
        " the data"
    )
    assert rows["No counterpart"] == "3 people, counted apart"
    assert lines(bare_counterparts())["Counterparts"].startswith("bare; by twins, relationship")
    assert "Counterparts" not in lines(document())


def test_people_without_a_counterpart_are_said_to_be_counted_apart() -> None:
    page = plain(render(typed(twins())))
    assert "3 people have no counterpart that the rules allow, and are counted apart" in page
    one = counterparts.no_counterpart(typed(bare_counterparts()))
    assert one.startswith("1 person has no counterpart that the rules allow, and is counted apart")
    assert counterparts.no_counterpart(typed(document())) == ""


def test_what_the_table_suggests_is_named_though_it_is_not_used() -> None:
    body = document()
    body["counterparts"]["suggested"] = ["relationship (Wife ↔ Husband) with gender"]
    page = render(typed(body))
    assert "suggests that this changes along as well: relationship (Wife ↔ Husband)" in page
    assert "too weak to assume it" in page


def test_nothing_is_said_where_nothing_is_coupled() -> None:
    assert counterparts.sentences(typed(repaired())) == []
    assert "bare" not in render(typed(document()))


def test_many_categories_are_not_all_named() -> None:
    body = twins()
    coupling = body["counterparts"]["couplings"][0]
    coupling["roles"] = [{"Female": f"f{n}", "Male": f"m{n}"} for n in range(9)]
    text = " ".join(counterparts.sentences(typed(body)))
    assert "f5 ↔ m5, 3 more) with gender" in text
    assert "people with a coupled category" in text


def test_the_python_of_a_bare_run_asks_for_bare_counterparts() -> None:
    assert "    counterparts='bare'," in python(typed(bare_counterparts()))
    assert "counterparts" not in python(typed(twins()))
