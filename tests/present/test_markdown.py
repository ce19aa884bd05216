"""An audit as Markdown: what it says, that it says nothing more, and that it stays what it is
whatever the names contain.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from fairprobe.documents.table import TableRun
from fairprobe.report.formats import SPACE
from fairprobe.report.markdown import MAX_NAME, escaped, fenced, markdown, named, table
from fairprobe.table.evidence import bias_audit
from fairprobe.table.report import report
from tests.helpers import typed
from tests.present.test_report import EVIL, with_texts
from tests.present.test_report_documents import KINDS, Document, document

WRITERS: list[Callable[[TableRun], str]] = [
    lambda run: markdown(report(run)),
    lambda run: markdown(bias_audit(run)),
]
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
                "h4",
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
    write: Callable[[TableRun], str],
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
        max(
            len(line)
            for line in markdown(bias_audit(typed(body))).splitlines()
            if line.startswith("|")
        )
        < 200
    )


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("make", KINDS)
def test_every_kind_of_document_is_valid_markdown_with_good_and_with_evil_names(
    make: Callable[[], Document], write: Callable[[TableRun], str]
) -> None:
    good = read(write(typed(make())))
    assert good.headings[0][0] == 2
    assert {level for level, _ in good.headings[1:]} <= {3, 4}
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
    make: Callable[[], Document], write: Callable[[TableRun], str]
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
