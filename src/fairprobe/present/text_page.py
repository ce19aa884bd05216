"""The report of an audit of texts: the excess beside its control, groups, pairs of texts with the
exchanged words marked, and what the result rests on.
"""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from fairprobe.documents.text import ExcessDocument, SideDocument, TextDocument
from fairprobe.present.blocks import Card, Figure
from fairprobe.present.experiment_plots import Bar, Group, bar_figure, bar_names
from fairprobe.present.legends import Key, bar_legend
from fairprobe.present.plots import CONTROL_DASH, curves_beside_control
from fairprobe.present.svg import MARK, MUTED, coloured
from fairprobe.present.table import Cell, Table
from fairprobe.present.text_sentences import bare, headline, status
from fairprobe.report.formats import (
    count,
    date,
    decimal,
    in_words,
    interval,
    level,
    listed,
    percent,
    plural,
    points,
    ratio,
    seconds,
)

CROSS, CONTROL = "another group", "control"
CURVES = [
    Key(coloured(MARK), 2.6, "", "another group"),
    Key(coloured(MARK), 1.6, " ".join(f"{step:g}" for step in CONTROL_DASH), "control"),
    Key(coloured(MUTED), 0.7, "", "other layers, another group"),
]
SHOWN = 10  # pairs of groups that are drawn
LONGEST = 1_500  # characters of a text on the page
AROUND = 300  # characters kept around the exchanged words of a longer one


def page(document: TextDocument) -> dict[str, Any]:
    """The template's variables. What an interrupted audit did not reach is empty."""
    return {
        "document": document,
        "version": document.versions.get("fairprobe", ""),
        "title": f"{document.dataset}, by {document.lexicon.title}",
        "status": status(document),
        "headline": headline(document),
        "facts": _facts(document),
        "cards": _cards(document),
        "pairs_figure": _pairs_figure(document),
        "pairs_legend": bar_legend(bar_names(_bars(document))),
        "pair_table": pair_table(document),
        "group_table": group_table(document),
        "word_table": word_table(document),
        "marked": marked,
        "curves_figure": _curves_figure(document),
        "curves_legend": CURVES,
        "layer_table": layer_table(document),
        "search_table": search_table(document),
        "sentences": [one for one in document.sentences if one != document.stopped],
        "settings": in_words(document.settings),
        "in_words": in_words,
        "times": [
            *((name, seconds(each)) for name, each in document.seconds.items()),
            ("All together", seconds(sum(document.seconds.values()))),
        ],
    }


def _facts(document: TextDocument) -> list[tuple[str, str]]:
    data, model = document.data, document.model
    return [
        ("Date", date(document.created)),
        ("Texts", f"{data.name}, {plural(data.used, 'text')} used of {count(data.texts)}"),
        ("Model", f"{model.network} ({model.kind}): {listed(model.classes)}"),
        ("Lexicon", f"{document.lexicon.name}: {listed(document.lexicon.groups)}"),
        ("Seed", str(document.seed)),
    ]


def _cards(document: TextDocument) -> list[Card]:
    flips, gaps, calls = document.flips, document.gaps, document.calls
    return [
        Card(
            "Excess of changed answers, in points",
            bare(flips.estimate),
            [_level(flips), "shown" if flips.is_shown else "no excess is shown"],
        ),
        Card(
            "Answers that change with another group",
            percent(flips.cross),
            [f"{plural(flips.texts, 'text')}", f"with the control: {percent(flips.control)}"],
        ),
        Card(
            "Excess change of the probability, in points",
            bare(gaps.estimate),
            [
                _level(gaps),
                f"another group {points(gaps.cross)}",
                f"control {points(gaps.control)}",
            ],
        ),
        Card("Texts the model was asked", count(calls), ["each different text once"]),
    ]


def _level(found: ExcessDocument) -> str:
    return f"{level(found.confidence)} interval {interval(found, bare)}"


# -- groups ----------------------------------------------------------------------------------------


def _bars(document: TextDocument) -> list[Group]:
    return [
        Group(
            label=" ↔ ".join(each.groups),
            bars=[
                Bar(name=CROSS, value=each.flips.cross, text=percent(each.flips.cross)),
                Bar(name=CONTROL, value=each.flips.control, text=percent(each.flips.control)),
            ],
        )
        for each in document.by_pair[:SHOWN]
    ]


def _pairs_figure(document: TextDocument) -> Figure | None:
    if not document.by_pair:
        return None
    title = "Answers that change, by the two groups that were exchanged"
    drawing = bar_figure(
        _bars(document), value_title="Share of exchanges", title=title, percent=True, name="pairs"
    )
    hidden = len(document.by_pair) - SHOWN
    more = f" The other {plural(hidden, 'pair')} are in the table." if hidden > 0 else ""
    caption = (
        "How often the answer changes when the words of one group are exchanged for those of the"
        " other, and in the control of the same texts. Only the difference is about the groups."
        f"{more}"
    )
    return Figure(title, drawing, caption, None)


def pair_table(document: TextDocument) -> Table:
    """The excess of every two groups."""
    rows = [
        (
            " ↔ ".join(each.groups),
            count(each.flips.texts),
            percent(each.flips.cross),
            percent(each.flips.control),
            excess_cell(each.flips),
        )
        for each in document.by_pair
    ]
    return Table(("groups", "texts", "changed", "control", "excess (points)"), rows)


def excess_cell(found: ExcessDocument) -> Cell:
    """An excess with its interval in small print."""
    remark = "" if found.is_shown else "not shown"
    return Cell(bare(found.estimate), interval(found, bare), remark)


def group_table(document: TextDocument) -> Table:
    """What the texts are answered with the words of each group."""
    rows = [
        (each.name, count(each.texts), *(percent(share) for share in each.answers))
        for each in document.groups
    ]
    return Table(("words of", "texts", *document.model.classes), rows)


def word_table(document: TextDocument) -> Table:
    """What remains without each word."""
    rows = [
        (
            each.word,
            Cell(each.group, kind="words"),
            count(each.texts),
            Cell(bare(each.estimate), interval(each, bare)),
        )
        for each in document.words
    ]
    head = ("without the word", "of", "texts it is in", "excess that remains (points)")
    return Table(head, rows, words=(0, 1))


# -- inside and search -----------------------------------------------------------------------------


def _curves_figure(document: TextDocument) -> Figure | None:
    inside = document.interpretation
    if inside is None or not inside.most_biased_layer.auc:
        return None
    title = f"How strongly the neurons of “{inside.most_biased}” react"
    says = (
        "Curves: the share of neurons that react more than a threshold, to an exchange of groups"
        " and to the control."
    )
    caption = (
        "The area under a curve is the layer’s AUC. What lies between the solid and the dashed"
        " curve is about the groups; the rest is what any exchange of words does."
    )
    return Figure(title, curves_beside_control("curves", inside, says=says), caption, None)


def layer_table(document: TextDocument) -> Table | None:
    """How each layer reacts, beside the control."""
    inside = document.interpretation
    if inside is None:
        return None
    rows = [
        (
            each.name + (" ▲" if each.name == inside.most_biased else ""),
            count(each.neurons),
            decimal(each.auc),
            decimal(each.auc_control),
            "–" if each.ratio is None else f"× {ratio(each.ratio)}",
            percent(each.top_share),
            count(len(each.biased)),
        )
        for each in inside.layers
    ]
    head = ("layer", "neurons", "AUC", "control", "difference to control", "in a fifth of them")
    return Table((*head, "biased"), rows)


def search_table(document: TextDocument) -> Table | None:
    """The search beside its rivals."""
    if not document.searches:
        return None
    rows = [
        (
            each.title + (" (control)" if each.is_control else ""),
            count(each.calls),
            count(each.findings),
            f"{each.per_1000:.1f}",
            f"{count(each.seeds_hit)} of {count(each.seeds)}",
            count(each.refuted),
        )
        for each in document.searches
    ]
    head = ("search", "calls", "findings", "for 1,000 calls", "seeds hit", "refuted")
    return Table(head, rows)


# -- pairs of texts --------------------------------------------------------------------------------


def marked(side: SideDocument) -> Markup:
    """A text with its exchanged words marked; a long one is cut around them."""
    first, last = 0, len(side.text)
    if last > LONGEST and side.spans:
        first = max(side.spans[0][0] - AROUND, 0)
        last = min(max(side.spans[-1][1] + AROUND, first + AROUND), first + LONGEST)
    parts, at = [], first
    for start, end in side.spans:
        if start < at or end > last:
            continue
        parts += [escape(side.text[at:start]), Markup("<mark>")]
        parts += [escape(side.text[start:end]), Markup("</mark>")]
        at = end
    parts.append(escape(side.text[at:last]))
    before, after = ("… " if first else ""), (" …" if last < len(side.text) else "")
    return Markup("").join([escape(before), *parts, escape(after)])


def summary_tables(document: TextDocument) -> list[Table]:
    """What the terminal shows below the verdict."""
    tables = (pair_table, group_table, layer_table, search_table)
    return [table for write in tables if (table := write(document)) is not None and table.rows]
