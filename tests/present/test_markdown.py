"""An audit as Markdown: what it says, that it says nothing more, and that it stays what it is
whatever the names contain.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from fairprobe.documents import TableDocument
from fairprobe.present.markdown import audit_table, model_card
from fairprobe.report.formats import SPACE, shortened
from fairprobe.report.markdown import MAX_NAME, escaped, fenced, named, table
from tests.helpers import typed
from tests.present.test_report import EVIL, with_texts
from tests.present.test_report_documents import (
    KINDS,
    Document,
    bare,
    black_box,
    collapsed,
    constant,
    document,
    interrupted,
    many_values,
    multi_class,
    nothing_found,
    pair,
    refused,
    repaired,
    selection_row,
    selection_table,
    themis,
    three_attributes,
    without_pairs,
)

WRITERS = [model_card, audit_table]
PLAIN = {
    "text",
    "text_special",
    "softbreak",
    "strong_open",
    "strong_close",
    "em_open",
    "em_close",
    "code_inline",
}
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
# Everything that begins something in Markdown, and some of it together.
TEXTS = st.lists(
    st.sampled_from(
        [
            *"\\`*_[]()<>|~$#&!-+=.:;/ \n\t\r\x00\u202e1aé東",
            "&lt;",
            "&#60;",
            "<b>",
            "~~",
            "1. ",
            "- ",
            "---",
            "```",
            "a_b",
        ]
    ),
    max_size=12,
).map("".join)


@dataclass
class Read:
    """What a reader sees: headings, tables as cells, code, and all text in one line."""

    headings: list[tuple[int, str]] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.pieces).split())

    def rows(self, under: str) -> list[list[str]]:
        """The rows of the table whose first column has this name."""
        return next(rows for rows in self.tables if rows[0][0] == under)


def plain(token: Token) -> str:
    """The text of a line; anything but text and emphasis in it is a mistake."""
    children = token.children or []
    assert {child.type for child in children} <= PLAIN, token.content
    return "".join(" " if child.type == "softbreak" else child.content for child in children)


def read(text: str) -> Read:
    seen, stack = Read(), [""]
    for token in PARSER.parse(text):
        if token.type == "inline":
            seen.pieces.append(plain(token))
            if stack[-1] in {"th", "td"}:
                seen.tables[-1][-1].append(plain(token))
            if stack[-1].startswith("h") and stack[-1][1:].isdigit():
                seen.headings.append((int(stack[-1][1:]), plain(token)))
        elif token.type == "fence":
            seen.code.append(token.content)
        elif token.nesting == 1:
            assert token.tag in {
                "h2",
                "h3",
                "p",
                "ul",
                "li",
                "table",
                "thead",
                "tbody",
                "tr",
                "th",
                "td",
            }, token
            stack.append(token.tag)
            if token.tag == "table":
                seen.tables.append([])
            elif token.tag == "tr":
                seen.tables[-1].append([])
        else:
            assert token.nesting == -1, token
            stack.pop()
    return seen


def card(make: Callable[[], Document]) -> Read:
    return read(model_card(typed(make())))


def audited(make: Callable[[], Document]) -> Read:
    return read(audit_table(typed(make())))


# -- whatever the names contain --------------------------------------------------------------------


def cleaned(text: str) -> str:
    return " ".join(re.sub("[\x00\u202e]", " ", text).split())


@given(TEXTS | st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf")), max_size=30))
def test_a_text_is_shown_as_it_is_in_a_line_a_list_a_heading_and_a_cell(text: str) -> None:
    shown = escaped(text)
    assert "\n" not in shown
    wanted = cleaned(text)
    assert read(shown).text == wanted
    assert read(f"- {shown}").text == wanted
    assert read(f"## A {shown}").headings == [(2, f"A {wanted}".strip())]
    assert read(table(("head", shown), [(shown, "1"), ("b", shown)])).tables == [
        [["head", wanted], [wanted, "1"], ["b", wanted]]
    ]


@given(st.text(st.sampled_from("`\n a~"), max_size=20))
def test_nothing_within_code_closes_its_fence(text: str) -> None:
    (code,) = read(fenced(text)).code
    assert code.rstrip("\n") == "\n".join(text.splitlines()).rstrip("\n")


def test_addresses_are_text_and_no_links() -> None:
    assert escaped("https://x.org WWW.x.org") == r"https:\//x.org WWW\.x.org"


@pytest.mark.parametrize("write", WRITERS)
def test_no_reader_of_markdown_takes_a_name_for_a_tag_a_link_or_a_picture(
    write: Callable[[TableDocument], str],
) -> None:
    """Readers other than GitHub's do not know a backslash before a tag."""
    name = "<script>alert(1)</script><img src=x onerror=alert(1)>![a](javascript:b)&lt;[c](d)"
    text = write(typed(with_texts(document(), lambda old: f"{old}{name}")))
    shown = re.sub(r"(?ms)^(`{3,}).*?^\1$", "", text)  # code stands for itself
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert r"!\[a\](javascript:b)&amp;lt;\[c\](d)" in shown
    assert not re.search(r"<|(?<!\\)\[", shown)


def test_words_with_an_underscore_or_a_full_stop_are_left_as_they_are() -> None:
    for text in ("capital_gain", "IFR_b 0.5", "a & b", "30-39", "income: x (y)"):
        assert escaped(text) == text


def test_a_very_long_name_is_cut_in_tables_and_headings() -> None:
    assert len(named("Donaudampfschiff" * 100)) == MAX_NAME
    body = document()
    body["fairness"]["group"]["tables"][0]["rows"][0]["name"] = "東" * 500
    assert (
        max(len(line) for line in audit_table(typed(body)).splitlines() if line.startswith("|"))
        < 200
    )


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("make", KINDS)
def test_every_kind_of_document_is_valid_markdown_with_good_and_with_evil_names(
    make: Callable[[], Document], write: Callable[[TableDocument], str]
) -> None:
    good = read(write(typed(make())))
    assert good.headings[0][0] == 2
    assert {level for level, _ in good.headings[1:]} <= {3}
    seen: dict[str, int] = {}

    def change(text: str) -> str:
        count = seen.setdefault(text, len(seen))
        return f"{count} | {EVIL}\n\n# {text} ```\n"

    evil = read(write(typed(with_texts(make(), change))))
    assert [level for level, _ in evil.headings] == [level for level, _ in good.headings]
    assert [[len(row) for row in rows] for rows in evil.tables] == [
        [len(row) for row in rows] for rows in good.tables
    ]
    assert len(evil.code) == len(good.code)


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("make", KINDS)
def test_the_words_are_measured_and_the_spaces_ordinary(
    make: Callable[[], Document], write: Callable[[TableDocument], str]
) -> None:
    text = write(typed(make()))
    assert not re.search(
        r"\bunbiased\b|\bfair (model|network)\b|\bis fair\b|\bbias-free\b|\bno bias\b|debias",
        text,
        re.IGNORECASE,
    )
    assert SPACE not in text
    assert not re.search(r"\bNone\b(?! of)", text)
    assert "nan" not in text.split()
    assert text.endswith("\n")
    assert "\n\n\n" not in text


# -- the model card --------------------------------------------------------------------------------


def test_a_card_has_a_section_for_each_question() -> None:
    assert [text for _, text in card(document).headings] == [
        "Fairness audit: Adult (Census Income), by gender",
        "What was audited",
        "How it was measured",
        "Measures",
        "Groups",
        "Who is affected most",
        "The most striking pair",
        "Limits",
        "How to reproduce",
    ]


def test_a_card_says_what_was_audited_and_how() -> None:
    text = card(document).text
    for words in (
        (
            "Decisions that depend on gender were found. Changing nothing but gender changes the"
            " network's decision for 9.2 %"
        ),
        (
            "Model: DenseNetwork, 3 inputs, hidden layers of 8 and 4 neurons, 78 parameters;"
            " trained by fairprobe on this data."
        ),
        (
            "Data: Adult (Census Income). 48,842 rows, 3 attributes. Source: UCI. Licence: CC BY"
            " 4.0. Citation: R. Kohavi, KDD 1996."
        ),
        "Decision: income, “<=50K” or “>50K”; “>50K” is declared the favourable answer.",
        "Sensitive: gender.",
        (
            "Accuracy: 84.0 % (83.3 % to 84.8 %) of 9,769 rows; always giving the commonest answer:"
            " 75.9 %."
        ),
        "Everybody in the data was asked (48,842), and 50,000 possible people drawn uniformly",
        "method “neuronfair”, variant “revert”",
        "starts from 1,000 people (seeds)",
        "Counted on 9,769 rows of Adult (Census Income) that were kept out of the training.",
    ):
        assert words in text, words


def test_every_measure_stands_with_its_interval_and_the_seed() -> None:
    read_card = card(document)
    rows = {row[0]: row[1:] for row in read_card.rows("Measure")}
    assert rows["Measure"] == ["Value", "95 % interval", "Measured on"]
    assert rows["People in the data affected"] == ["9.2 %", "8.9 % to 9.4 %", "48,842 people"]
    assert rows["Possible people affected (DM-RS)"] == [
        "4.5 %",
        "4.3 % to 4.7 %",
        "50,000 possible people",
    ]
    assert rows["Pairs with the same answer (IFR_b)"] == [
        "90.9 %",
        "90.3 % to 91.4 %",
        "9,769 pairs",
    ]
    assert rows["Pairs with nearly the same probabilities (IFR_p)"] == [
        "37.5 %",
        "36.5 % to 38.5 %",
        "9,769 pairs",
    ]
    assert rows["Cases found by the search (IDIs)"] == ["414,449", "–", "474,380 tried"]
    tried = rows["Different people tried by the search (input space)"]
    assert tried == ["474,380", "–", "530,112 judged"]
    assert rows["Distance of the cases to their seeds"] == ["0.214", "–", "414,449 cases"]
    assert rows["Success rate of the search (GSR), no population rate"][0] == "87.4 %"
    assert rows["Reaction of the most biased layer (AUC)"][2] == "48,842 pairs, layer “hidden2”"
    assert rows["F1"] == ["0.632", "0.614 to 0.650", "9,769 people measured"]
    assert (
        "All with seed 7. Nearly the same means a Jensen–Shannon divergence of at most 0.001 nats."
        in read_card.text
    )


def test_groups_have_a_row_for_each_division_with_the_lowest_ratio() -> None:
    head, *rows = card(many_values).rows("Groups")
    assert head == [
        "Groups",
        "ΔDP",
        "ΔEO, truth “<=50K”",
        "ΔEO, truth “>50K”",
        "Lowest impact ratio",
        "of",
    ]
    dp, eo, other = "0.177 (0.164 to 0.190)", "0.071 (0.060 to 0.083)", "0.091 (0.050 to 0.131)"
    assert rows[0] == ["by gender", dp, eo, other, "0.26 (0.23 to 0.30)", "Female"]
    assert rows[1] == ["by age", dp, eo, other, "0.50 (0.40 to 0.60)", "20–29"]
    assert rows[2][4:] == ["0.79 (0.70 to 0.85)", "Male, 30"], "small groups are passed over"


def test_of_many_classes_only_the_favourable_one_has_its_column() -> None:
    body = multi_class()
    body["data"]["favourable"] = 2
    divided = selection_table("gender", [selection_row("a", 1, 9, None)])
    divided["eo"] = [
        {**divided["eo"][0], "given": name, "estimate": place / 10, "low": 0, "high": 0.5}
        for place, name in enumerate(("low", "middle", "high"))
    ]
    divided["eo_sd"] = divided["eo"]
    body["fairness"] |= {
        "positive": 2,
        "group": {"selected": document()["dm_rs"], "tables": [divided]},
    }
    head, row = read(model_card(typed(body))).rows("Groups")
    assert head[2:] == ["ΔEO, truth “high”", "Lowest impact ratio", "of"]
    assert row[2:] == ["0.200 (0 to 0.500)", "not defined", "–"]


def test_who_is_affected_most_stands_with_the_strongest_evidence_first() -> None:
    read_card = card(document)
    assert read_card.rows("Group")[1:] == [
        ["gender: Male", "32,650", "11.8 %", "11.5 % to 12.2 %"],
        ["gender: Female", "16,192", "3.8 %", "3.5 % to 4.2 %"],
        ["education: Masters", "2,657", "21.2 %", "19.7 % to 22.8 %"],
    ]
    assert (
        "85.9 % would get the favourable answer (income: >50K) as “Male”, and 14.1 % as “Female”."
        in read_card.text
    )
    many = card(many_values).rows("Group")
    assert [row[0] for row in many[1:]] == [
        *(f"gender and age: Male, {age}" for age in range(5)),
        "education: Masters",
    ]


def test_the_most_striking_pair_is_told_in_words() -> None:
    assert (
        "Two people who are alike in everything else (age 60–69; education Masters). With gender"
        " “Female” the network decides “<=50K” (probability 92.9 %), with gender “Male” it decides"
        " “>50K” (probability 79.5 %)." in card(document).text
    )
    body = document()
    body["pairs"] = [pair() | {"shared": {f"a{place}": "x" for place in range(25)}}]
    assert "a9 x; and 15 more)" in read(model_card(typed(body))).text


def test_where_nothing_was_found_a_card_says_so_and_shows_no_pair() -> None:
    read_card = card(nothing_found)
    assert (
        "No decision that depends on gender was found. No discrimination by gender was found."
        in read_card.text
    )
    assert "None of the 48,842 people in the data would get another decision" in read_card.text
    assert "The most striking pair" not in read_card.text
    assert not any(rows[0][0] == "Group" for rows in read_card.tables)
    assert "gives everybody the same answer" in card(constant).text


def test_limits_are_the_notes_and_how_to_repeat_it_is_the_command_and_the_versions() -> None:
    read_card = card(document)
    for note in document()["notes"]:
        assert note in read_card.text
    assert "can be mitigated, not proved absent" in read_card.text
    assert read_card.code == ["fairprobe audit adult --sensitive gender\n"]
    assert (
        "The same seed (7) and the same versions (fairprobe 0.1.0, python 3.11.7) give the same"
        " numbers" in read_card.text
    )
    assert "Audited on 15 November 2026." in read_card.text
    assert "a repetition may find another number" not in read_card.text
    assert "a repetition may find another number" in card(interrupted).text
    assert card(bare).code == []
    assert "The audit was made in Python" in card(bare).text


def test_a_black_box_is_called_one_and_has_no_neurons() -> None:
    read_card = card(black_box)
    assert (
        "RandomForestClassifier, 3 inputs; given by the user; a black box, which can be asked but"
        " not looked into." in read_card.text
    )
    assert not re.search(r"neuron|network|layer|hidden|parameter", read_card.text, re.IGNORECASE)
    body = black_box()
    body["model"]["kind"] = "scikit-learn classifier"
    assert (
        "RandomForestClassifier (scikit-learn classifier), 3 inputs"
        in read(model_card(typed(body))).text
    )


def test_themis_has_its_scores_with_its_own_confidence() -> None:
    rows = {row[0]: row[1:] for row in card(themis).rows("Measure")}
    assert rows["Causal score of Themis"] == ["4.5 %", "4.4 % to 4.7 % (99 %)", "131,072 draws"]
    assert "Causal score of Themis" not in card(document).text


def test_rates_and_groups_that_are_not_defined_say_why() -> None:
    assert (
        "No person held out has a counterpart that differs only in gender"
        in card(without_pairs).text
    )
    assert "none was declared the favourable one" in card(multi_class).text
    assert not any(rows[0][0] == "Groups" for rows in card(multi_class).tables)
    assert "“>50K” is taken for it" in card(bare).text


def test_a_repair_is_told_before_and_after_and_beside_its_controls() -> None:
    read_card = card(repaired)
    rows = {
        row[0]: row[1:] for row in next(rows for rows in read_card.tables if "before" in rows[0])
    }
    assert rows["Measure"] == ["before", "after", "blind", "retrained", "random points"]
    assert rows["Possible people affected (DM-RS)"][:2] == [
        "4.5 % (4.0 % to 5.0 %)",
        "0.31 % (0 % to 0.81 %)",
    ]
    assert rows["Cases found by the same search"] == ["1,234"] * 5
    assert (
        "Repair accepted. To mitigate what was found, the model was repaired with “counterfactual”."
        in read_card.text
    )
    assert "93.1 % less" in read_card.text
    assert "Repair refused: the accuracy falls by 7.9 points" in card(refused).text
    assert "not defined" in card(refused).text
    assert "It gives everybody the same answer. IFR_b says nothing then." in card(collapsed).text
    assert "The repair, before and after" not in card(document).text


# -- the table of a bias audit ---------------------------------------------------------------------


def test_the_table_has_people_rates_and_ratios_of_each_group() -> None:
    read_table = audited(document)
    assert read_table.headings == [
        (2, "Bias audit: Adult (Census Income), by gender"),
        (3, "By gender"),
        (3, "About this table"),
    ]
    assert read_table.tables == [
        [
            ["Group", "People", "Selected", "Selection rate", "Impact ratio", "Remark"],
            [
                "Female",
                "3,276",
                "204",
                "6.2 % (1.0 % to 90.0 %)",
                "0.26 (0.23 to 0.30)",
                "below 0.8",
            ],
            [
                "Male",
                "6,493",
                "1,547",
                "23.8 % (1.0 % to 90.0 %)",
                "1.00 (1.00 to 1.00)",
                "highest rate",
            ],
        ]
    ]
    for words in (
        (
            "1,751 of the 9,769 people held out (17.9 %) are given the answer “>50K”: they count as"
            " selected. This answer is declared the favourable one."
        ),
        "There is nobody whose group is unknown.",
        "Local Law 144",
        "fewer than 2.0 % of the people whose group is known. In brackets: 95 % intervals.",
        "Audited on 15 November 2026 with fairprobe 0.1.0, python 3.11.7, seed 7.",
    ):
        assert words in read_table.text, words


def test_small_empty_and_unknown_groups_are_marked_and_counted() -> None:
    read_table = audited(many_values)
    assert [text for _, text in read_table.headings[1:-1]] == [
        "By gender",
        "By age",
        "By gender and age",
    ]
    rows = {row[0]: row for row in read_table.tables[2]}
    assert rows["Male, 0"] == ["Male, 0", "0", "0", "–", "–", "nobody"]
    assert rows["Male, 1"][-1] == "small group (under 2.0 %)"
    assert len(rows) == 61
    for words in (
        "Of 12 people the group is unknown: they are in no row.",
        "Groups without anybody among the people held out: “Male, 0”.",
        "no other group is compared with them",
    ):
        assert words in read_table.text, words
    assert read_table.text.count("There is nobody whose group is unknown.") == 2


def test_an_assumed_favourable_answer_is_said_to_be_assumed() -> None:
    text = audited(bare).text
    assert (
        "No answer was declared the favourable one, so the second of the two counts as it." in text
    )
    assert "This answer is declared" not in text


def test_without_a_favourable_answer_there_is_a_sentence_and_no_table() -> None:
    read_table = audited(multi_class)
    assert read_table.tables == []
    assert (
        "The decision has 3 answers, and none was declared the favourable one." in read_table.text
    )


def test_where_nobody_is_selected_there_is_no_ratio_and_a_sentence() -> None:
    read_table = audited(constant)
    assert [row[4] for row in read_table.tables[0][1:]] == ["–", "–"]
    assert (
        "Nobody is selected in any group that could be the reference, so there is no impact ratio."
        in read_table.text
    )


def test_pairs_of_attributes_have_their_tables_and_those_left_out_are_named() -> None:
    read_table = audited(three_attributes)
    divided = [
        "gender",
        "race",
        "country",
        "gender and race",
        "gender and country",
        "gender and race and country",
    ]
    assert [text for _, text in read_table.headings[1:-1]] == [
        f"By {attribute}" for attribute in divided
    ]
    assert "too many combinations to compare were left out: “race and country”." in read_table.text


def test_names_are_shown_as_they_are_in_the_table() -> None:
    body: Any = document()
    names = ["a|b", "<b>*x*</b>\nnext", "`rm` _y_"]
    body["fairness"]["group"]["tables"] = [
        selection_table("a | b", [selection_row(name, 1, 9, (1.0, 1.0, 1.0)) for name in names])
    ]
    read_table = read(audit_table(typed(body)))
    assert [row[0] for row in read_table.tables[0][1:]] == [
        shortened(name, MAX_NAME) for name in names
    ]
    assert read_table.headings[1] == (3, "By a | b")
