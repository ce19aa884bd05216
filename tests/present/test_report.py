"""The report: readable, self-contained, honest, and safe whatever the document says."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairprobe.present import render, sentences
from fairprobe.present.figures import inside_figures
from fairprobe.present.network_picture import DOTS, Picture
from fairprobe.report import formats
from tests.helpers import VARIANTS, typed
from tests.present.test_report_documents import (
    KINDS,
    Document,
    bare,
    black_box,
    constant,
    document,
    interrupted,
    many_values,
    multi_class,
    nothing_found,
    refused,
    repaired,
    searched_by,
    themis,
    three_attributes,
    without_pairs,
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
    return Page(render(typed(body)))


@cache
def rendered(make: Callable[[], Document]) -> str:
    """Drawing takes most of the time of these tests, so each kind of report is made once."""
    return render(typed(make()))


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
    assert page.tags == parsed(make).tags
    assert page.open == []
    assert "<script>alert(1)</script>" in page.text
    assert "49" not in re.findall(r"東京 🚲 (\d+)", page.text)


def test_hostile_texts_are_shown_as_they_are() -> None:
    page = read(with_texts(document(), lambda text: EVIL + text if text else text))
    for field in (
        "Adult (Census Income)",
        "income",
        ">50K",
        "60–69",
        "UCI",
        "fairprobe audit adult",
        "hidden2",
        "age",
        "0.1.0",
        "adult",
    ):
        assert EVIL + field in page.text
    assert [value for _, name, value in page.attributes if name == "aria-label" and EVIL in value]
    compile(page.code[-1], "the lines that repeat the audit", "exec")


@settings(max_examples=6, deadline=None)
@given(st.text(min_size=1, max_size=30))
def test_any_text_is_only_text(text: str) -> None:
    page = read(with_texts(document(), lambda old: text + old if old else old))
    assert page.tags == parsed(document).tags


def test_same_document_same_page_whatever_the_style_and_from_every_thread() -> None:
    body, settings_before = document(), dict(mpl.rcParams)
    kept = copy.deepcopy(body)
    with mpl.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.facecolor": "red"}):
        first = render(typed(body))
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(render, [typed(body)] * 4)) == {first}
    assert body == kept
    assert dict(mpl.rcParams) == settings_before


def test_needs_no_torch_no_pyplot_and_matplotlib_only_when_it_draws() -> None:
    code = """
import json, sys
from fairprobe.documents import TableDocument, from_dict
from fairprobe.present import render
assert "matplotlib" not in sys.modules
assert len(render(from_dict(json.loads(sys.stdin.read()), TableDocument))) > 10000
assert not {"matplotlib.pyplot", "torch", "fairprobe.audits", "fairprobe.models"} & set(sys.modules)
"""
    subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        input=json.dumps(document()),
        text=True,
        check=True,
    )


def test_shows_the_numbers_of_the_document() -> None:
    text = parsed(document).text
    for number in (
        "4,491 of 48,842", "9.2 %", "8.9 % to 9.4 %", "1,000 of 20,000", "4.7 % to 5.3 %",
        "414,449", "474,380", "84.0 %", "75.9 %",
        # who
        "11.8 %", "85.9 % would get the favourable answer (income: >50K) as “Male”,"
        " and 14.1 % as “Female”", "21.2 %",
        "92.9 % probable", "79.5 % probable", "72.4 percentage points", "seed 764",  # pairs
        "0.255", "0.314", "from 4.9 % to 2.6 %", "4.0 % (mean of 10 choices)",  # inside
        # measured
        "603 in the global and 413,846 in the local phase", "87.4 %", "0.267", "3.1 s",
        "7.6 ms for 1,000 cases",
        "15 November 2026", "3,665: age 3,665", "78 parameters", "seed=7", "--sensitive gender",
        "gender_other",
    ):  # fmt: skip
        assert number in text, number
    for sentence in (document()["verdict"], *document()["notes"]):
        assert sentence in text


def test_marks_the_favourable_answer_in_words() -> None:
    text = parsed(document).text
    assert text.count("✓ favourable answer") == 2
    assert text.count("✗ not the favourable answer") == 2
    assert "favourable answer" not in parsed(multi_class).text.replace(
        "No answer of this network was declared the favourable one", ""
    )


def test_calm_when_nothing_was_found() -> None:
    html, text = rendered(nothing_found), parsed(nothing_found).text
    assert "No decision that depends on gender was found" in text
    assert 'class="verdict none"' in html
    assert "evidence, not a certificate" in text
    assert "None of the 48,842 people in the data would get another decision" in text
    assert "No neuron reacts" in text
    assert "There was no biased neuron to silence" in text
    assert "no pair to show" in text
    assert "Not defined: it needs at least two cases" in text
    assert "shows that they exist" not in text


def test_a_constant_network_is_called_that() -> None:
    text = parsed(constant).text
    assert "The network gives everybody the same answer" in text
    assert "The neurons react, but no decision was seen to change" in text
    assert "the test proves nothing" in text


def test_says_that_the_search_was_interrupted() -> None:
    assert "The search was interrupted." in parsed(interrupted).text
    assert "This search ended early" in parsed(interrupted).text
    assert "interrupted" not in parsed(document).text


def test_without_a_command_the_lines_of_python_remain() -> None:
    with_command, without = parsed(document), parsed(bare)
    assert with_command.code[0] == document()["command"]
    assert len(without.code) == 1
    assert "your own data" in without.code[0]
    assert "your network" in without.code[0]
    assert "fp.datasets.load('adult')" in with_command.code[1]
    for page in (with_command, without):
        compile(page.code[-1], "the lines that repeat the audit", "exec")


def test_many_values_and_layers_are_shortened_and_said_so() -> None:
    text = parsed(many_values).text
    assert "Of 60 values these are the 24 with the highest lower end" in text
    assert "the 12 that would help most and the 12 that would help least" in text
    assert "Male, 0 (nobody in the data)" in text
    assert "all other layers" in text
    assert "a dot stands for 4 neighbouring neurons" in text
    assert "by gender and age" in text


ABLATIONS = {
    "carry a part of the discrimination": {},
    "no better than always giving the commonest answer (75.9 %). A network": {
        "accuracy_biased_zeroed": 0.7
    },
    "does not single out": {"random_zeroed": 0.02},
    "raises the share of possible people affected from 4.9 % to 6.0 %": {"biased_zeroed": 0.06},
    "The share did not fall": {"biased_zeroed": 0.06},
    "leaves the share of possible people affected at 4.9 %": {"biased_zeroed": 0.04881},
    "the test proves nothing": {"before": 0.0, "biased_zeroed": 0.0},
    "no biased neuron to silence": {"silenced": 0},
    "the 3 biased neurons": {"silenced": 3},
}


@pytest.mark.parametrize(("words", "changes"), ABLATIONS.items())
def test_tells_honestly_what_silencing_did(words: str, changes: Document) -> None:
    body = document()
    body["interpretation"]["ablation"] |= changes
    said = " ".join(sentences.ablation(typed(body))).replace(formats.SPACE, " ")
    assert words in said
    assert words in read(body).text


def picture_of(body: Document) -> Picture:
    shown = inside_figures(typed(body))
    assert shown is not None
    return shown.picture


def test_every_neuron_is_a_dot_and_every_biased_one_has_a_ring() -> None:
    drawn = picture_of(document())
    assert [column.neurons for column in drawn.columns] == [3, 8, 4, 2]
    dots, rings = (
        re.findall(rf'class="{kind}[^"]*"[^>]* d="([^"]*)"', drawn.svg) for kind in ("dots", "ring")
    )
    assert "".join(dots).count("M") == 3 + 8 + 4 + 2
    assert "".join(rings).count("M") == 1
    large = picture_of(many_values()).columns[-2]
    assert large.each * len(large.dots) == 2000
    assert len(large.dots) <= DOTS


def test_the_picture_stays_inside_its_frame() -> None:
    for body in (make() for make in KINDS):
        if body["interpretation"] is None:
            continue
        svg = picture_of(body).svg
        found = re.search(r'viewBox="0 (\S+) (\S+) (\S+)"', svg)
        assert found
        top, width, height = (float(number) for number in found.groups())
        for x, y in re.findall(r"M([\d.]+) (-?[\d.]+)h", svg):
            assert 0 < float(x) < width
            assert top < float(y) < top + height


# -- the people held out ---------------------------------------------------------------------------


def test_individual_fairness_rates_are_told_with_intervals_and_by_group() -> None:
    text = parsed(document).text
    for words in (
        "Of 9,769 pairs of a person held out and a counterpart who differs only in gender,"
        " 90.9 % get the same decision",
        "90.3 % to 91.4 %", "37.5 %", "36.5 % to 38.5 %", "at most 0.001 nats", "Female (3,276)",
        "96.1 %", "95.3 % to 96.7 %", "34.7 %",
    ):  # fmt: skip
        assert words in text, words


def test_groups_are_listed_with_rates_ratios_and_the_rule_of_thumb() -> None:
    text = parsed(document).text
    for words in (
        "1,751 of the 9,769 people held out (17.9 %) are given the answer “>50K”", "Local Law 144",
        "0.26", "0.23 to 0.30", "below 0.8",
        "highest rate", "a rule of thumb, not a verdict", "ΔEO, truth “>50K”", "0.177",
        "0.164 to 0.190", "has perfect scores",
        "On the people held out: 0.632 (95 % interval 0.614 to 0.650).",
        "On the people held out: 0.540",
    ):  # fmt: skip
        assert words in text, words
    assert "the interval reaches it" not in text
    assert "No answer was declared" not in text


def test_the_true_labels_of_the_groups_stand_beside_what_the_model_says() -> None:
    text = parsed(document).text
    for words in (
        "True labels in the data, by gender", "label “>50K”", "16,192", "10.9 %",
        "10.4 % to 11.4 %", "2 people with another value are left out.",
        "Of very small groups the labels are not shown",
    ):  # fmt: skip
        assert words in text, words
    assert "True labels" not in parsed(bare).text


def test_ifr_p_is_shown_at_every_tau_and_repeated_in_python() -> None:
    assert "How much hangs on τ" not in parsed(document).text
    body = document()
    rate = body["fairness"]["individual"]["p"]
    body["fairness"]["individual"] |= {
        "tau": 0.5,
        "by_tau": [
            {name: value for name, value in {**rate, **changes}.items() if name != "groups"}
            for changes in ({"tau": 0.5, "high": 0.4444}, {"tau": 0.25, "high": 0.5555})
        ],
    }
    text = Page(render(typed(body))).text
    for words in ("How much hangs on τ", "36.5 % to 44.4 %", "36.5 % to 55.5 %", "at most τ = 0.5"):
        assert words in text, words
    assert "tau=[0.5, 0.25]," in text
    assert "about 87 to 92.5 %" not in text  # true of 0.001 alone


def test_every_reaction_of_a_neuron_is_drawn_with_the_threshold_of_its_layer() -> None:
    text = parsed(document).text
    assert "Every neuron’s reaction" in text
    for layer in document()["interpretation"]["layers"]:
        assert f"{max(layer['differences']):.3f}" in text


def test_small_empty_and_unknown_groups_are_named() -> None:
    text = parsed(many_values).text
    assert "Groups without anybody among the people held out: “Male, 0”." in text
    assert "Small groups, with fewer than 2.0 % of the people: “Male, 1”, “Male, 2”" in text
    assert "and 23 more. Their numbers are shown but say little" in text
    assert "Of 12 people the group is unknown" in text
    assert "12 people with a sensitive value outside the domain had to be left out." in text
    assert "and so without a rate: “Male, 0”." in text
    assert "small group (under 2.0 %)" in text
    assert "below 0.8, but the interval reaches it" in text
    assert "Of 59 groups these are the 24 with the lowest" in text


def test_every_attribute_and_the_intersection_have_their_own_table() -> None:
    page = parsed(many_values)
    assert all(
        f"Impact ratio, by {attribute}" in page.text
        for attribute in ("gender", "age", "gender and age")
    )
    assert "All 60 groups" in page.text


def test_pairs_of_three_attributes_are_folded_and_what_was_left_out_is_named() -> None:
    html, text = rendered(three_attributes), parsed(three_attributes).text
    for attribute in ("gender and race", "gender and country"):
        assert f"<details><summary>By {attribute}: 2 groups</summary>" in html
        assert f"<h3>Impact ratio, by {attribute}</h3>" not in html
    assert text.count("By two attributes together") == 1
    assert "<h3>Impact ratio, by gender and race and country</h3>" in html
    assert (
        "Pairs of attributes with too many combinations to compare were left out: “race and"
        " country”." in text
    )
    assert "by gender and race and country" in text
    for make in (document, many_values):
        assert "By two attributes together" not in parsed(make).text
        assert "were left out" not in parsed(make).text


def test_without_a_favourable_answer_groups_are_not_compared() -> None:
    text = parsed(multi_class).text
    assert "The decision has 3 answers, and none was declared the favourable one." in text
    assert "impact ratio" not in text
    assert "ΔDP" not in text


def test_an_assumed_favourable_answer_is_said_to_be_assumed() -> None:
    assert "the second of the two counts as it" in parsed(bare).text


def test_rates_of_nobody_are_no_rates() -> None:
    text = parsed(without_pairs).text
    assert (
        "No person held out has a counterpart that differs only in gender, so there is no rate"
        "." in text
    )
    assert "everybody held out" not in text


def test_where_nobody_is_selected_there_is_no_ratio() -> None:
    assert "Impact ratio, by" not in parsed(constant).text
    assert "not defined" in parsed(constant).text


def test_only_a_repaired_network_has_a_repair() -> None:
    assert 'id="repair"' not in rendered(document)
    assert 'id="repair"' in rendered(repaired)
    assert 'class="banner refused"' in rendered(refused)


# -- black boxes, and methods ----------------------------------------------------------------------


def test_a_black_box_has_no_neurons_no_network_and_says_so() -> None:
    html, text = rendered(black_box), parsed(black_box).text
    assert 'id="inside"' not in html
    assert not re.search(r"neuron|network|AUC of a layer|hidden|parameters", text, re.IGNORECASE)
    assert "RandomForestClassifier, a black box" in text
    assert "The run folder does not keep the model" in text
    assert "model/" not in text
    assert "whom the model answers differently" in text
    assert "...  # your model" in parsed(black_box).code[-1]


@pytest.mark.parametrize("method", VARIANTS)
def test_every_method_is_told_in_a_sentence_without_gaps(method: str) -> None:
    body = searched_by(document(), method=method)
    said = sentences.searched(typed(body))
    assert "{" not in said
    assert said.endswith(".")
    assert ("1,000 people" in said) == (method not in ("themis", "probe"))
    assert ("1,000 steps" in said) == (method not in ("themis", "symbgen", "probe"))
    assert ("starts from" in said) == (method not in ("themis", "aequitas", "probe"))


def test_a_method_of_the_users_own_is_told_in_general_words() -> None:
    page = read(searched_by(document(), method="mine"))
    assert "a method of the user’s own" in page.text
    assert "method=...,  # your own: 'mine'" in page.code[-1]
    compile(page.code[-1], "the lines that repeat the audit", "exec")


def test_where_people_come_from_is_true_for_the_method() -> None:
    assert "starts at people in the data" in parsed(document).text
    assert "from seed 764" in parsed(document).text
    assert "from start 764" in parsed(black_box).text
    assert "Found as draw 764." in parsed(themis).text
    for make in (black_box, themis):
        assert "people in the data and changes" not in parsed(make).text
        assert "draws people at random from everything the attributes allow" in parsed(make).text


def test_the_scores_of_themis_are_shown_with_their_intervals() -> None:
    text = parsed(themis).text
    for number in (
        "131,072 people",
        "4.5 %",
        "4.4 % to 4.7 %",
        "12.3 %",
        "10.0 % to 15.0 %",
        "99 % interval",
        "2.0 percentage points",
    ):
        assert number in text, number
    assert "local phase" not in text.replace("has no local phase", "").replace(
        "global or local", ""
    )
    assert 'id="scores"' not in rendered(black_box)


def test_a_group_score_that_may_be_nothing_is_said_to_be_so() -> None:
    body = themis()
    body["generation"]["scores"]["group_low"] = 0.0
    assert (
        "may be chance"
        in read(body).text.partition("Group score")[2].partition("striking pairs")[0]
    )
    assert (
        "may be chance"
        not in parsed(themis).text.partition("Group score")[2].partition("striking pairs")[0]
    )


def test_a_score_that_was_never_measured_is_not_shown() -> None:
    for nothing in ({"draws": 0}, {"causal": None}):
        body = themis()
        body["generation"]["scores"] |= nothing
        assert 'id="scores"' not in render(typed(body))


REPEATED: dict[str, tuple[Document, str]] = {
    "a name": ({"method": "adf", "variant": "walk"}, "method='adf',\n    variant='walk',"),
    "a name without variants": (
        {"method": "random", "variant": ""},
        "method='random',\n    budget=",
    ),
    "settings": (
        {"method": "themis", "variant": "", "settings": {"error": 0.02}},
        "method='themis',\n    settings={'error': 0.02},\n    samples=",
    ),
    "settings and a variant": (
        {"method": "aequitas", "variant": "semi", "settings": {"learning": 0.1}},
        "method='aequitas',\n    variant='semi',\n    settings={'learning': 0.1},",
    ),
    "rows": (
        {"method": "symbgen", "variant": "", "settings": {"queue": 9}},
        "method='symbgen',\n    settings={'queue': 9},",
    ),
    "a layer": (
        {"settings": {"random_share": 0.5}},
        "variant='revert',\n    settings={'random_share': 0.5},",
    ),
    "no global steps": (
        {"method": "aequitas", "global_iterations": 0, "local_iterations": 0},
        "budget=fp.Budget(seeds=1000, local_iterations=0),",
    ),
}


@pytest.mark.parametrize("what", REPEATED)
def test_the_lines_that_repeat_the_audit_name_its_method(what: str) -> None:
    changes, lines = REPEATED[what]
    code = read(searched_by(document(), **changes)).code[-1]
    assert lines in code
    compile(code, "the lines that repeat the audit", "exec")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50.0 %"),
        (0.04, "4.0 %"),
        (0.0996, "10.0 %"),
        (0.000074, "0.0074 %"),
        (1e-9, "below 0.001 %"),
        (0.9999, "above 99.9 %"),
    ],
)
def test_percent(share: float, text: str) -> None:
    assert formats.percent(share).replace(formats.SPACE, " ") == text


def test_other_formats() -> None:
    assert formats.date("yesterday") == "yesterday"
    assert formats.seconds(0.1528).replace(formats.SPACE, " ") == "0.15 s"
    assert formats.seconds(3661).replace(formats.SPACE, " ") == "61 min 1 s"
    assert formats.milliseconds(1234.5).replace(formats.SPACE, " ") == "1,234 ms"
    assert formats.listed(["a", "b", "c"]) == "a, b and c"
    assert formats.plural(1, "person", "people") == "1 person"
    assert formats.decimal(0.0) == "0"


@given(st.text(), st.integers(3, 40))
def test_shortened_fits(text: str, width: int) -> None:
    short = formats.shortened(text, width)
    assert len(short) <= width
    assert "\n" not in short
    assert short == " ".join(text.split()) or short.endswith(formats.ELLIPSIS)
