"""An audit of recognisers on scenes as one self-contained HTML page: which classes fail, how sure
that is, and pictures to see it in.

The document is plain data, as `scenes.audit` gives it. All its numbers are worked out there; here
they are only written down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairprobe.present import _environment
from fairprobe.present.blocks import Card, Figure
from fairprobe.present.formats import count, date, interval, level, listed, percent, plural
from fairprobe.present.measures import Measures
from fairprobe.present.picture_plots import ClassBar, Spread, class_bars
from fairprobe.present.scene_comparisons import between, comparisons, operator_name, rate
from fairprobe.present.settings import told
from fairprobe.present.shots import Shot, shots
from fairprobe.present.table import UNDEFINED, Cell, Table

Document = dict[str, Any]
Result = dict[str, Any]
Row = dict[str, Any]

ALL = "all"
ORACLES = {
    "gt": (
        "Ground truth",
        (
            "errors against the true objects, more or fewer than in the original picture; below"
            " zero where the mutation helps"
        ),
    ),
    "exclusion": (
        "Lost objects",
        "objects recognised in the original picture and no longer in the mutated one",
    ),
    "inclusion": (
        "Added objects",
        "objects recognised in the mutated picture and not in the original one",
    ),
}
BARS = 24  # more make a figure that nobody reads; its table has them all


@dataclass(frozen=True)
class Recogniser:
    """One detector: what is found in a sentence, figures, and the same by mutation as tables."""

    name: str
    sentence: str
    figures: Sequence[Figure]
    tables: Sequence[tuple[str, Table]]


@dataclass(frozen=True)
class Telling:
    """Original and mutated side by side."""

    heading: str
    sentence: str
    before: Shot
    after: Shot


def render_scenes(document: Document) -> str:
    """The page's HTML; the same document gives the same text."""
    return _environment().get_template("scenes.html.j2").render(page(document))


def page(document: Document) -> dict[str, Any]:
    """The template's variables."""
    unfair = _named(document, "is_unfair")
    return {
        "document": document,
        "version": (document.get("versions") or {}).get("fairprobe", ""),
        "status": "found" if unfair else "none" if _is_judged(document) else "unknown",
        "headline": _headline(document, unfair),
        "facts": _facts(document),
        "cards": _cards(document, unfair),
        "recognisers": [
            _recogniser(document, detector["name"], place)
            for place, detector in enumerate(document["detectors"])
        ],
        "is_over_all": any(result["operator"] == ALL for result in document["results"]),
        "has_control": any(result["kind"] == "control" for result in document["results"]),
        "summaries": [
            (*ORACLES[oracle], _summary(document, oracle))
            for oracle in ORACLES
            if _results(document, oracle=oracle)
        ],
        "galleries": _galleries(document, unfair),
        "comparisons": comparisons(document.get("comparisons") or {}),
        "skipped": _skipped(document),
        "failures": _failures(document),
        "settings": told(document.get("settings") or {}),
        "confidence": level(document["confidence"]),
    }


# -- the verdict -----------------------------------------------------------------------------------


def _results(document: Document, kind: str = "ood", **wanted: str) -> list[Result]:
    return [
        one
        for one in document["results"]
        if one["kind"] == kind and all(one[name] == value for name, value in wanted.items())
    ]


def _is_judged(document: Document, **wanted: str) -> bool:
    """Whether any class was seen often enough; without, that none fails means nothing."""
    return any(result["classes"] for result in _results(document, **wanted))


def _of_detector(document: Document, detector: str, oracle: str) -> list[Result]:
    return _results(document, detector=detector, oracle=oracle)


def _drawn_results(document: Document, detector: str, oracle: str) -> list[Result]:
    """Those over all mutations where there are; else those of each mutation."""
    found = _of_detector(document, detector, oracle)
    return [one for one in found if one["operator"] == ALL] or found


def _named(document: Document, rule: str) -> list[tuple[str, str]]:
    """Recogniser and class, each once, over all oracles. Evidence may come from any mutation: that
    there are several is allowed for.
    """
    found = [
        (detector["name"], row["label"])
        for detector in document["detectors"]
        for oracle in ORACLES
        for result in (_drawn_results if rule == "is_above" else _of_detector)(
            document, detector["name"], oracle
        )
        for row in result["classes"]
        if row[rule]
    ]
    return list(dict.fromkeys(found))


def _headline(document: Document, unfair: Sequence[tuple[str, str]]) -> str:
    if not _is_judged(document):
        return "There is no result yet" if document["partial"] else "Nothing could be judged"
    if not unfair:
        return "No class was shown to fail more than the others"
    classes = listed(dict.fromkeys(label for _, label in unfair))
    who = list(dict.fromkeys(detector for detector, _ in unfair))
    recognisers = (
        who[0]
        if len(who) == 1
        else f"{count(len(who))} of {plural(len(document['detectors']), 'recogniser')}"
    )
    return f"Failed more than other classes, at {recognisers}: {classes}"


def _facts(document: Document) -> list[tuple[str, str]]:
    data = document["data"]
    return [
        ("Date", date(document["created"])),
        ("Scenes", f"{data['name']}, {plural(data['scenes'], 'scene')}"),
        ("Recognisers", listed(detector["name"] for detector in document["detectors"])),
        ("Mutations", listed(operator_name(operator) for operator in document["mutations"])),
        ("Classes mutated", listed(document["classes"])),
        ("Repeats", count(document["repeats"])),
        ("Seed", str(document["seed"])),
    ]


def _cards(document: Document, unfair: Sequence[tuple[str, str]]) -> list[Card]:
    plain = _named(document, "is_above")
    pictures = {
        detector["name"]: max(
            (result["tests"] for result in _results(document, detector=detector["name"])), default=0
        )
        for detector in document["detectors"]
    }
    asked, is_judged = plural(len(document["detectors"]), "recogniser"), _is_judged(document)
    cards = [
        Card(
            "Mutated pictures judged",
            count(max(pictures.values(), default=0)),
            [f"from {plural(document['data']['scenes'], 'scene')}", f"by {asked}"],
        ),
        Card(
            "Classes shown to fail more",
            count(len(unfair)) if is_judged else UNDEFINED,
            (
                ["where the evidence holds", f"by the paper’s plain rule: {count(len(plain))}"]
                if _is_judged(document)
                else ["none was judged"]
            ),
        ),
    ]
    return [*cards, *_error_card(document), *_control_card(document)]


def _error_card(document: Document) -> list[Card]:
    """The share of pictures with an error in a class above the mean; of the oracle that knows
    most.
    """
    for oracle, (name, _) in ORACLES.items():
        found = [
            result
            for detector in document["detectors"]
            for result in _drawn_results(document, detector["name"], oracle)
        ]
        if found:
            rates = [(_who(result), result["error_rate"]) for result in found]
            return [
                _rate_card(
                    f"Pictures with an error in a class above the mean ({name.lower()})", rates
                )
            ]
    return []


def _control_card(document: Document) -> list[Card]:
    """The mean of all classes where nothing but in-painting happened, beside the mutation that
    in-paints.
    """
    for oracle in ("exclusion", "gt", "inclusion"):
        for operator in ("delete", "rotate"):
            controls = _results(document, "control", operator=operator, oracle=oracle)
            rates = [(one["detector"], one["mean"]) for one in controls if one["classes"]]
            if rates:
                about = f"{ORACLES[oracle][0].lower()}, {operator_name(operator)}"
                return [_rate_card(f"Mean of all classes with in-painting alone ({about})", rates)]
    return []


def _rate_card(name: str, rates: Sequence[tuple[str, float]]) -> Card:
    """The highest rate in large, then all of them."""
    lines = [f"{who}: {rate(share)}" for who, share in rates]
    return Card(
        name, rate(max(share for _, share in rates)), lines[:4] if len(lines) > 1 else [rates[0][0]]
    )


def _who(result: Result) -> str:
    name = str(result["detector"])
    return name if result["operator"] == ALL else f"{name}, {operator_name(result['operator'])}"


# -- classes ---------------------------------------------------------------------------------------


def _recogniser(document: Document, name: str, place: int) -> Recogniser:
    drawn = [
        result
        for oracle in ORACLES
        for result in _drawn_results(document, name, oracle)
        if result["classes"]
    ]
    figures = [
        _figure(document, result, f"classes{place}-{number}") for number, result in enumerate(drawn)
    ]
    others = [
        result
        for result in _results(document, detector=name)
        if result["classes"] and not any(result is one for one in drawn)
    ]
    tables = [
        (_title(result), _class_table(result, _control(document, result))) for result in others
    ]
    return Recogniser(name, _found(document, name), figures, tables)


def _title(result: Result) -> str:
    title = ORACLES[result["oracle"]][0]
    return title if result["operator"] == ALL else f"{title}, {operator_name(result['operator'])}"


def _control(document: Document, result: Result) -> dict[str, Row]:
    """The classes of the control that belongs to a result."""
    same = {name: result[name] for name in ("detector", "operator", "oracle")}
    return {
        row["label"]: row
        for control in _results(document, "control", **same)
        for row in control["classes"]
    }


def _found(document: Document, name: str) -> str:
    """Which classes of one recogniser, by which rule."""
    if not _is_judged(document, detector=name):
        return "Nothing could be judged, so nothing is shown."
    sure, above = (
        [label for detector, label in _named(document, rule) if detector == name]
        for rule in ("is_unfair", "is_above")
    )
    plain = [label for label in above if label not in sure]
    said = (
        f"Shown to fail more than the mean of all classes: {listed(sure)}."
        if sure
        else "No class is shown to fail more than the mean."
    )
    if plain:
        said += (
            f" Above the mean, but perhaps by chance: {listed(plain)}. The paper’s plain rule would"
            " name them, too."
        )
    return said


def _figure(document: Document, result: Result, name: str) -> Figure:
    about, control = ORACLES[result["oracle"]][1], _control(document, result)
    rows = _ordered(result)
    only = (
        f" Of {count(len(rows))} classes these are the {BARS} with the highest rate; the table has"
        " all."
        if len(rows) > BARS
        else ""
    )
    left = f" Left out, since too rare: {listed(result['left_out'])}." if result["left_out"] else ""
    return Figure(
        _title(result),
        class_bars(
            name,
            [_bar(row, control.get(row["label"])) for row in rows[:BARS]],
            mean=(f"mean of all classes: {rate(result['mean'])}", result["mean"]),
            says=(
                f"Bars: errors for each object of a class, at {result['detector']}; the same"
                " numbers are in the table below."
            ),
        ),
        f"{about[:1].upper()}{about[1:]}.{only}{left}",
        _class_table(result, control),
    )


def _ordered(result: Result) -> list[Row]:
    return sorted(result["classes"], key=lambda row: -float(row["rate"]))


def _bar(row: Row, control: Row | None) -> ClassBar:
    remark = " ▲" if row["is_unfair"] else ", above the mean" if row["is_above"] else ""
    return ClassBar(
        f"{row['label']} ({count(row['objects'])}){remark}",
        rate(row["rate"]),
        Spread(row["rate"], row["low"], row["high"]),
        Spread(control["rate"], control["low"], control["high"]) if control else None,
        row["is_unfair"],
    )


def _class_table(result: Result, control: dict[str, Row]) -> Table:
    rows = [
        (
            row["label"],
            count(row["objects"]),
            str(row["errors"]).replace("-", "−"),
            rate(row["rate"]),
            between(row),
            "above the mean" if row["is_above"] else "no",
            "fails more" if row["is_unfair"] else "not shown",
            *(
                (rate(control[row["label"]]["rate"]), between(control[row["label"]]))
                if row["label"] in control
                else (UNDEFINED, UNDEFINED)
            ),
        )
        for row in _ordered(result)
    ]
    return Table(
        (
            "class",
            "objects",
            "errors",
            "rate",
            "interval",
            "plain rule",
            "evidence",
            "control",
            "interval of the control",
        ),
        rows,
    )


def _summary(document: Document, oracle: str) -> Measures:
    """The paper's table: a row for each recogniser and mutation."""
    rows = []
    for result in _results(document, oracle=oracle):
        names = {"detector": result["detector"], "operator": result["operator"], "oracle": oracle}
        control = next(
            (one for one in _results(document, "control", **names) if one["classes"]), None
        )
        sure = sum(bool(row["is_unfair"]) for row in result["classes"])
        plain = sum(bool(row["is_above"]) for row in result["classes"])
        cells = [
            Cell(count(len(result["classes"]))),
            Cell(count(plain), percent(result["violation_rate"])),
            Cell(count(sure)),
            Cell(rate(result["mean"])),
            Cell(UNDEFINED if control is None else rate(control["mean"])),
            Cell(count(result["tests"])),
            Cell(count(result["error_inducing"])),
            Cell(
                percent(result["error_rate"]),
                interval({"low": result["error_low"], "high": result["error_high"]}),
            ),
        ]
        rows.append((f"{result['detector']}, {operator_name(result['operator'])}", cells))
    classes = ("classes", "above the mean", "shown to fail more", "mean rate", "mean rate, control")
    return Measures(
        ("recogniser, mutation", *classes, "pictures", "with an error", "error rate"), rows
    )


# -- pictures, and what went wrong -----------------------------------------------------------------


def _galleries(
    document: Document, unfair: Sequence[tuple[str, str]]
) -> list[tuple[str, list[Telling]]]:
    """The telling pictures of each class at each recogniser."""
    groups: dict[tuple[str, str], list[Telling]] = {}
    for telling in document["telling"]:
        before, after = shots(telling)
        what = f"{operator_name(telling['operator']).capitalize()} of {telling['mutated_label']}"
        pictures = groups.setdefault((telling["detector"], telling["label"]), [])
        pictures.append(
            Telling(
                f"{what}, scene {telling['scene']}" if telling.get("scene") else what,
                telling["sentence"],
                before,
                after,
            )
        )
    remarks = {
        key: "" if key in unfair else ": above the mean, perhaps by chance" for key in groups
    }
    return [
        (f"“{label}” at {detector}{remarks[detector, label]}", pictures)
        for (detector, label), pictures in groups.items()
    ]


def _skipped(document: Document) -> Table | None:
    rows = [
        (
            operator_name(one["operator"]),
            one.get("label") or UNDEFINED,
            count(one["count"]),
            one["reason"],
        )
        for one in sorted(document.get("skipped") or [], key=lambda one: -int(one["count"]))
    ]
    return Table(("mutation", "class", "pictures", "reason"), rows) if rows else None


def _failures(document: Document) -> Table | None:
    rows = [
        (one["detector"], count(one["count"]), one["reason"])
        for one in document.get("failures") or []
    ]
    return Table(("recogniser", "pictures", "reason"), rows) if rows else None
