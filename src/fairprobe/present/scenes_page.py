"""An audit of recognizers on scenes as one self-contained HTML page: which classes fail, the
evidence, and pictures that show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairprobe.documents.scenes import AnalysisDocument, ClassRate, ScenesDocument
from fairprobe.present import fill_template
from fairprobe.present.blocks import Card, Figure
from fairprobe.present.picture_plots import ClassBar, Spread, class_bars
from fairprobe.present.scene_comparisons import (
    OPERATORS,
    ORACLES,
    comparisons,
    looks_real,
    p_value,
    rate,
    rate_interval,
)
from fairprobe.present.scene_tables import control_of
from fairprobe.present.shots import Shot, shots
from fairprobe.present.table import UNDEFINED, Cell, Table
from fairprobe.report.formats import (
    count,
    date,
    in_words,
    interval,
    level,
    listed,
    percent,
    plural,
)

ALL = "all"
BARS = 24  # more would be unreadable; the table has them all


@dataclass(frozen=True)
class Recognizer:
    """One recognizer: what was found in a sentence, figures, and the same by mutation as tables."""

    name: str
    sentence: str
    figures: Sequence[Figure]
    tables: Sequence[Table]


@dataclass(frozen=True)
class ShownExample:
    """Original and mutated side by side."""

    heading: str
    sentence: str
    before: Shot
    after: Shot


def render_scenes(document: ScenesDocument) -> str:
    """The page's HTML; the same document gives the same text."""
    return fill_template("scenes.html.j2", page(document))


def page(document: ScenesDocument) -> dict[str, Any]:
    """The template's variables."""
    unfair = _named(document, "is_unfair")
    is_judged = any(one.classes for one in _unusual(document))
    return {
        "document": document,
        "version": document.versions.get("fairprobe", ""),
        "status": "found" if unfair else "none" if is_judged else "unknown",
        "headline": _headline(document, unfair, is_judged=is_judged),
        "facts": _facts(document),
        "cards": _cards(document, unfair, is_judged=is_judged),
        "recognizers": [
            _recognizer(document, detector.name, place)
            for place, detector in enumerate(document.detectors)
        ],
        "is_over_all": any(one.operator == ALL for one in document.results),
        "has_control": any(one.kind == "control" for one in document.results),
        "summaries": [
            (words, table)
            for oracle, words in ORACLES.items()
            if (table := _summary(document, oracle)).rows
        ],
        "galleries": _galleries(document, unfair),
        "comparisons": comparisons(document.comparisons),
        "skipped": _skipped(document),
        "failures": _failures(document),
        "settings": in_words(document.settings),
        "confidence": level(document.confidence),
    }


# -- the verdict -----------------------------------------------------------------------------------


def _unusual(document: ScenesDocument, **wanted: str) -> list[AnalysisDocument]:
    """The analyses of unusual mutations whose fields have these values."""
    return [
        one
        for one in document.results
        if one.kind == "ood" and all(getattr(one, name) == value for name, value in wanted.items())
    ]


def _drawn(document: ScenesDocument, detector: str, oracle: str) -> list[AnalysisDocument]:
    """The analyses over all mutations if there are any, otherwise those of each mutation."""
    found = _unusual(document, detector=detector, oracle=oracle)
    return [one for one in found if one.operator == ALL] or found


def _named(document: ScenesDocument, rule: str) -> list[tuple[str, str]]:
    """Recognizer and class, each once, over all oracles. The evidence of mutations names nobody
    whom the primary analyses do not name.
    """
    found = [
        (detector.name, row.label)
        for detector in document.detectors
        for oracle in ORACLES
        for one in (
            _drawn(document, detector.name, oracle)
            if rule == "is_above"
            else _unusual(document, detector=detector.name, oracle=oracle)
        )
        for row in one.classes
        if getattr(row, rule)
    ]
    return list(dict.fromkeys(found))


def _headline(
    document: ScenesDocument, unfair: Sequence[tuple[str, str]], *, is_judged: bool
) -> str:
    if not is_judged:
        return "There is no result yet" if document.partial else "Nothing could be judged"
    if not unfair:
        return "No class was shown to fail more than the others"
    classes = listed(dict.fromkeys(label for _, label in unfair))
    who = list(dict.fromkeys(detector for detector, _ in unfair))
    several = f"{count(len(who))} of {plural(len(document.detectors), 'recognizer')}"
    return f"Failed more than other classes, at {who[0] if len(who) == 1 else several}: {classes}"


def _facts(document: ScenesDocument) -> list[tuple[str, str]]:
    data = document.data
    return [
        ("Date", date(document.created)),
        ("Scenes", f"{data.name}, {plural(data.scenes, 'scene')}"),
        ("Recognizers", listed(detector.name for detector in document.detectors)),
        ("Mutations", listed(OPERATORS[operator] for operator in document.mutations)),
        ("Classes mutated", listed(document.classes)),
        ("Repeats", count(document.repeats)),
        ("Seed", str(document.seed)),
    ]


def _cards(
    document: ScenesDocument, unfair: Sequence[tuple[str, str]], *, is_judged: bool
) -> list[Card]:
    pictures = max((one.tests for one in _unusual(document)), default=0)
    plain = len(_named(document, "is_above"))
    cards = [
        Card(
            "Mutated pictures judged",
            count(pictures),
            [
                f"from {plural(document.data.scenes, 'scene')}",
                f"by {plural(len(document.detectors), 'recognizer')}",
            ],
        ),
        Card(
            "Classes shown to fail more",
            count(len(unfair)) if is_judged else UNDEFINED,
            (
                ["where the evidence holds", f"by the paper’s plain rule: {count(plain)}"]
                if is_judged
                else ["none was judged"]
            ),
        ),
    ]
    return [*cards, *_error_card(document), *_control_card(document)]


def _error_card(document: ScenesDocument) -> list[Card]:
    """The share of pictures with an error in a class above the mean, by the first oracle."""
    for oracle, words in ORACLES.items():
        rates = [
            (
                one.detector
                if one.operator == ALL
                else f"{one.detector}, {OPERATORS[one.operator]}",
                one.error_rate,
            )
            for detector in document.detectors
            for one in _drawn(document, detector.name, oracle)
        ]
        if rates:
            name = f"Pictures with an error in a class above the mean ({words.title.lower()})"
            return [_rate_card(name, rates)]
    return []


def _control_card(document: ScenesDocument) -> list[Card]:
    """The mean of all classes with in-painting alone, for a mutation that in-paints."""
    for oracle in ("exclusion", "gt", "inclusion"):
        for operator in ("delete", "rotate"):
            rates = [
                (one.detector, one.mean)
                for one in document.results
                if (one.kind, one.operator, one.oracle) == ("control", operator, oracle)
                and one.classes
            ]
            if rates:
                about = f"{ORACLES[oracle].title.lower()}, {OPERATORS[operator]}"
                return [_rate_card(f"Mean of all classes with in-painting alone ({about})", rates)]
    return []


def _rate_card(name: str, rates: Sequence[tuple[str, float]]) -> Card:
    """The highest rate in large, then all of them."""
    lines = [f"{who}: {rate(share)}" for who, share in rates]
    highest = rate(max(share for _, share in rates))
    return Card(name, highest, lines[:4] if len(lines) > 1 else [rates[0][0]])


# -- classes ---------------------------------------------------------------------------------------


def _recognizer(document: ScenesDocument, name: str, place: int) -> Recognizer:
    drawn = [one for oracle in ORACLES for one in _drawn(document, name, oracle) if one.classes]
    figures = [
        _figure(document, one, f"classes{place}-{number}") for number, one in enumerate(drawn)
    ]
    tables = [
        _class_table(one, _controls(document, one))
        for one in _unusual(document, detector=name)
        if one.classes and not any(one is other for other in drawn)
    ]
    return Recognizer(name, _found(document, name), figures, tables)


def _title(one: AnalysisDocument) -> str:
    title = ORACLES[one.oracle].title
    return title if one.operator == ALL else f"{title}, {OPERATORS[one.operator]}"


def _controls(document: ScenesDocument, one: AnalysisDocument) -> dict[str, ClassRate]:
    """The classes of an analysis's control."""
    control = control_of(document, one)
    return {} if control is None else {row.label: row for row in control.classes}


def _found(document: ScenesDocument, name: str) -> str:
    """Which classes of one recognizer, by which rule."""
    if not any(one.classes for one in _unusual(document, detector=name)):
        return "Nothing could be judged, so nothing is shown."
    sure, above = (
        [label for detector, label in _named(document, rule) if detector == name]
        for rule in ("is_unfair", "is_above")
    )
    plain = [label for label in above if label not in sure]
    said = (
        f"Shown to fail more than other classes in equal situations: {listed(sure)}."
        if sure
        else "No class is shown to fail more than others in equal situations."
    )
    if plain:
        said += (
            f" Above the mean, but perhaps by chance: {listed(plain)}. The paper’s plain rule would"
            " name them, too."
        )
    return said


def _figure(document: ScenesDocument, one: AnalysisDocument, name: str) -> Figure:
    about, controls = ORACLES[one.oracle].about, _controls(document, one)
    only = (
        f" Of {count(len(one.classes))} classes these are the {BARS} with the highest rate; the"
        " table has all."
        if len(one.classes) > BARS
        else ""
    )
    left = f" Left out, since too rare: {listed(one.left_out)}." if one.left_out else ""
    return Figure(
        _title(one),
        class_bars(
            name,
            [_bar(row, controls.get(row.label)) for row in _ordered(one)[:BARS]],
            mean=(f"mean of all classes: {rate(one.mean)}", one.mean),
            says=(
                f"Bars: errors for each object of a class, at {one.detector}; the same numbers are"
                " in the table below."
            ),
        ),
        f"{about[:1].upper()}{about[1:]}.{only}{left}",
        _class_table(one, controls),
    )


def _ordered(one: AnalysisDocument) -> list[ClassRate]:
    return sorted(one.classes, key=lambda row: -row.rate)


def _bar(row: ClassRate, control: ClassRate | None) -> ClassBar:
    remark = " ▲" if row.is_unfair else ", above the mean" if row.is_above else ""
    return ClassBar(
        f"{row.label} ({count(row.objects)}){remark}",
        rate(row.rate),
        Spread(row.rate, row.low, row.high),
        Spread(control.rate, control.low, control.high) if control else None,
        row.is_unfair,
    )


def _class_table(one: AnalysisDocument, controls: dict[str, ClassRate]) -> Table:
    head = ("class", "objects", "errors", "rate", "interval of the rate", "plain rule",
            "against equals", "adjusted p", "evidence", "control",
            "interval of the control")  # fmt: skip
    rows = []
    for row in _ordered(one):
        control = controls.get(row.label)
        rows.append(
            (
                row.label,
                count(row.objects),
                str(row.errors).replace("-", "−"),
                rate(row.rate),
                rate_interval(row),
                "above the mean" if row.is_above else "no",
                rate(row.matched),
                p_value(row.p_adjusted),
                "fails more" if row.is_unfair else "not shown",
                UNDEFINED if control is None else rate(control.rate),
                UNDEFINED if control is None else rate_interval(control),
            )
        )
    return Table(head, rows, _title(one))


def _summary(document: ScenesDocument, oracle: str) -> Table:
    """The paper's table: a row for each recognizer and mutation."""
    head = ("recognizer, mutation", "classes", "above the mean", "shown to fail more", "mean rate",
            "mean rate, control", "pictures", "with an error", "error rate",
            "look real")  # fmt: skip
    rows = []
    for one in _unusual(document, oracle=oracle):
        control = control_of(document, one)
        error_interval = interval({"low": one.error_low, "high": one.error_high})
        real = looks_real(document.comparisons, one.operator)
        rows.append(
            (
                Cell(f"{one.detector}, {OPERATORS[one.operator]}"),
                Cell(count(len(one.classes))),
                Cell(count(len(one.violations)), percent(one.violation_rate)),
                Cell(count(len(one.unfair))),
                Cell(rate(one.mean)),
                Cell(UNDEFINED if control is None else rate(control.mean)),
                Cell(count(one.tests)),
                Cell(count(one.error_inducing)),
                Cell(percent(one.error_rate), error_interval),
                Cell(UNDEFINED if real is None else percent(real)),
            )
        )
    return Table(head, rows)


# -- pictures, and what went wrong -----------------------------------------------------------------


def _galleries(
    document: ScenesDocument, unfair: Sequence[tuple[str, str]]
) -> list[tuple[str, list[ShownExample]]]:
    """The examples of each class at each recognizer."""
    groups: dict[tuple[str, str], list[ShownExample]] = {}
    for example in document.examples:
        before, after = shots(example)
        what = f"{OPERATORS[example.operator].capitalize()} of {example.mutated_label}"
        groups.setdefault((example.detector, example.label), []).append(
            ShownExample(f"{what}, scene {example.scene}", example.sentence, before, after)
        )
    return [
        (
            f"“{key[1]}” at {key[0]}"
            + ("" if key in unfair else ": above the mean, perhaps by chance"),
            pictures,
        )
        for key, pictures in groups.items()
    ]


def _skipped(document: ScenesDocument) -> Table | None:
    rows = [
        (OPERATORS[one.operator], one.label or UNDEFINED, count(one.count), one.reason)
        for one in sorted(document.skipped, key=lambda one: -one.count)
    ]
    return Table(("mutation", "class", "pictures", "reason"), rows) if rows else None


def _failures(document: ScenesDocument) -> Table | None:
    rows = [(one.detector, count(one.count), one.reason) for one in document.failures]
    return Table(("recognizer", "pictures", "reason"), rows) if rows else None
