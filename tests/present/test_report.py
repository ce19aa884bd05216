"""The report: readable, self-contained, honest, and safe whatever the document says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from rich.console import Console

from fairprobe.report.html import notebook
from fairprobe.report.html import page as rendered_page
from fairprobe.report.markdown import markdown
from fairprobe.report.terminal import terminal
from fairprobe.table.evidence import bias_audit, evidence
from fairprobe.table.figure import figure
from fairprobe.table.report import notes, report
from fairprobe.table.words import headline, status, verdict
from tests.helpers import typed
from tests.present.test_report_documents import (
    KINDS,
    Document,
    bare_counterparts,
    black_box,
    constant,
    document,
    interrupted,
    many_values,
    multi_class,
    nothing_found,
    themis,
    three_attributes,
    twins,
)

VOID = {"meta", "link", "br", "img", "input", "hr"}
# Markup, quotes, mathematics, our own slots and sentinel colours, a template, a back-reference,
# wide characters, a very long word.
EVIL = (
    "<script>alert(1)</script> \"q\" 's' & $x^2$ \\1 @0@ @99@ #010101 {{ 7 * 7 }} {% raw %} -->"
    " 東京 🚲 " + "Donaudampfschiff" * 9
)


class Page(HTMLParser):
    """What a browser would see: tags in order, their attributes, text, and whether all that was
    opened was closed.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.pieces: list[str] = []
        self.code: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.pieces.append(data)
        if self.open[-2:] == ["pre", "code"]:
            self.code.append(data)

    @property
    def text(self) -> str:
        """One line; a space is a space."""
        return " ".join("".join(self.pieces).split())


def read(body: Document) -> Page:
    return Page(rendered_page(report(typed(body))))


@cache
def rendered(make: Callable[[], Document]) -> str:
    """Drawing takes most of the time of these tests, so each kind of report is made once."""
    return rendered_page(report(typed(make())))


@cache
def parsed(make: Callable[[], Document]) -> Page:
    return Page(rendered(make))


def with_texts(body: Any, change: Callable[[str], str], key: str = "") -> Any:
    """The document with all its texts changed, but for those that are words of a fixed list."""
    if isinstance(body, str):
        is_fixed = key in {"stopped", "phase", "unit", "outcome", "share"} or (key, body) in {
            ("kind", "table"),
            ("kind", "twins"),
            ("kind", "bare"),
            ("people", "possible"),
            ("source", "declared"),
            ("source", "mined"),
            ("command", ""),
        }
        return body if is_fixed else change(body)
    if isinstance(body, list):
        return [with_texts(item, change, key) for item in body]
    if isinstance(body, dict):
        free = key in {"shared", "by_attribute", "roles"} or (
            key == "sensitive" and isinstance(body, dict)
        )
        return {
            (change(name) if free else name): with_texts(item, change, name)
            for name, item in body.items()
        }
    return body


@pytest.mark.parametrize("make", KINDS)
def test_is_one_small_well_formed_file_that_loads_nothing(make: Callable[[], Document]) -> None:
    html, page = rendered(make), parsed(make)
    assert html.startswith("<!doctype html>")
    assert len(html.encode()) < 400_000
    assert page.open == []
    assert "script" not in page.tags
    assert "://" not in html
    assert "@import" not in html
    assert set(re.findall(r"url\(.", html)) <= {"url(#"}
    links = [
        value
        for _, name, value in page.attributes
        if name in {"src", "href", "xlink:href", "srcset", "data", "action"}
    ]
    assert all(link.startswith(("#", "data:,")) for link in links)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert any(tag == "meta" and "default-src 'none'" in value for tag, _, value in page.attributes)


@pytest.mark.parametrize("make", KINDS)
def test_ids_are_unique_and_every_reference_has_its_id(make: Callable[[], Document]) -> None:
    page = parsed(make)
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert max(Counter(ids).values()) == 1
    wanted = {
        value[1:]
        for _, name, value in page.attributes
        if name in {"href", "xlink:href"} and value.startswith("#")
    }
    wanted |= {
        found for _, _, value in page.attributes for found in re.findall(r"url\(#([^)]*)\)", value)
    }
    wanted |= {value for _, name, value in page.attributes if name == "aria-labelledby"}
    assert wanted <= set(ids)


@pytest.mark.parametrize("make", KINDS)
def test_never_calls_a_network_fair(make: Callable[[], Document]) -> None:
    assert not re.search(
        r"\bunbiased\b|\bfair (model|network)\b|\bis fair\b|\bbias-free\b|\bno bias\b",
        parsed(make).text,
        re.IGNORECASE,
    )


@pytest.mark.parametrize("make", KINDS)
def test_headings_and_pictures_are_accessible(make: Callable[[], Document]) -> None:
    page = parsed(make)
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert ("html", "lang", "en") in page.attributes
    described = [
        value
        for tag, name, value in page.attributes
        if tag == "svg" and name in {"aria-label", "aria-hidden"}
    ]
    assert len(described) == page.tags.count("svg")
    assert all(described)


@pytest.mark.parametrize("make", KINDS)
def test_whatever_the_texts_say_the_page_stays_the_same(make: Callable[[], Document]) -> None:
    page = read(with_texts(make(), lambda text: EVIL + text if text else text))
    assert page.open == []
    assert "script" not in page.tags
    assert "<script>alert(1)</script>" in page.text
    assert "49" not in re.findall(r"東京 🚲 (\d+)", page.text)


@pytest.mark.parametrize("make", KINDS)
def test_every_renderer_renders_every_kind_of_audit(make: Callable[[], Document]) -> None:
    run = typed(make())
    for tree in (report(run), bias_audit(run), evidence(run, [])):
        assert markdown(tree).startswith(f"## {tree.title.split(',')[0]}")
    assert headline(run) in notebook(report(run))
    assert headline(run) in shown(make())
    assert 1 <= len(figure(report(run)).axes) <= 4


def shown(body: Document, width: int = 100) -> str:
    console = Console(width=width, record=True, file=StringIO())
    console.print(terminal(report(typed(body))), crop=False)
    return console.export_text()


def visible(html: str) -> int:
    """Count the words of a page before anything is unfolded."""
    text = re.sub(r"<(style|head)\b.*?</\1>", " ", html, flags=re.DOTALL)
    while "<details" in text:
        start = text.rindex("<details")
        end = text.index("</details>", start)
        text = (
            text[:start]
            + " ".join(re.findall(r"<summary>(.*?)</summary>", text[start:end]))[:60]
            + text[end + len("</details>") :]
        )
    return len(re.sub(r"<[^>]+>", " ", text).split())


@pytest.mark.parametrize("make", [document, twins, nothing_found, black_box, themis])
def test_a_report_is_short(make: Callable[[], Document]) -> None:
    assert visible(rendered(make)) <= 1500
    assert len(shown(make()).splitlines()) <= 25


def test_the_first_screen_answers_who_how_many_how_sure_and_what_now() -> None:
    text = shown(document())
    for answer in ("Male (", "48,842", "% to", "What now", "fairprobe repair"):
        assert answer in text


@pytest.mark.parametrize(
    ("make", "kind", "title", "says"),
    [
        (document, "found", "Decisions that depend on gender were found", "Changing only gender"),
        (nothing_found, "none", "were not found", "95\u00a0% confidence at most"),
        (constant, "constant", "gives everybody the same answer", "That is not fairness"),
        (twins, "found", "Decisions that depend on", "and, with it, relationship"),
        (bare_counterparts, "found", "Decisions that depend on", "only gender"),
        (three_attributes, "found", "gender, race and country", "gender, race and country"),
    ],
)
def test_the_verdict_says_which_case_this_is(
    make: Callable[[], Document], kind: str, title: str, says: str
) -> None:
    run = typed(make())
    assert status(run) == kind
    assert title in headline(run)
    assert says in verdict(run)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"generation": {"stopped": "interrupted"}}, "The search was interrupted"),
        ({"generation": {"refuted": 7}}, "7 that it did not confirm were dropped"),
        ({"model": {"blind_to": ["gender"]}}, "does not use gender"),
        ({"people": {"absent": ["Other"]}}, "No person in the data has these values: “Other”"),
        ({"data": {"constraints": ["age before years"]}}, "obey these rules: age before years"),
    ],
)
def test_notes_say_what_a_reader_must_know(change: dict[str, Any], says: str) -> None:
    run = typed(document())
    for part, fields in change.items():
        part_changed = msgspec.structs.replace(getattr(run, part), **fields)
        run = msgspec.structs.replace(run, **{part: part_changed})
    assert any(says in note for note in notes(run))


@pytest.mark.parametrize("make", [interrupted, many_values, multi_class])
def test_long_lists_are_folded_and_endings_are_named(make: Callable[[], Document]) -> None:
    assert visible(rendered(make)) <= 2000


def test_the_card_of_an_audit_stays_what_it_is(golden: Callable[[str, str], None]) -> None:
    golden("table.md", markdown(report(typed(twins()))))
