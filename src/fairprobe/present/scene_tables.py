"""The tables of a scenes audit as Markdown, in the form of the paper's tables 6 to 9 with what we
add: evidence and in-painting control.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairprobe.present.markdown_text import joined, named, table

ALL = "all"
EFFECTIVENESS = (
    *(
        "recogniser",
        "mutation",
        "oracle",
        "classes",
        "above the mean",
        "violation rate",
        "evidence holds",
        "error-inducing",
        "images",
    ),
    *("error rate (95 %)", "mean class rate", "the same, in-painting alone"),
)
OPERATORS = {"insert": "insertion", "delete": "deletion", "rotate": "rotation", ALL: "all together"}
ORACLES = {"gt": "GT", "exclusion": "Ex.", "inclusion": "Inc."}


def scene_tables(document: dict[str, Any]) -> str:
    """All tables, one after another."""
    parts = [
        _effectiveness("Table 6: ground-truth oracle", document, ("gt",)),
        _effectiveness(
            "Table 7: metamorphic oracle (exclusion, inclusion)",
            document,
            ("exclusion", "inclusion"),
        ),
        _usual(document),
        _times(document),
        _compared(document),
    ]
    return joined(part for part in parts if part)


def _effectiveness(title: str, document: dict[str, Any], oracles: Sequence[str]) -> str:
    rows = [
        (
            named(one["detector"]),
            OPERATORS.get(one["operator"], one["operator"]),
            ORACLES[one["oracle"]],
            str(len(one["classes"])),
            str(len(one["violations"])),
            _number(one["violation_rate"], 2),
            ", ".join(map(named, one["unfair"])) or "none",
            str(one["error_inducing"]),
            str(one["tests"]),
            (
                f"{_number(one['error_rate'])}"
                f" ({_number(one['error_low'])}–{_number(one['error_high'])})"
            ),
            _number(one["mean"]),
            _number(_control(document, one)),
        )
        for oracle in oracles
        for one in document["results"]
        if one["kind"] == "ood" and one["oracle"] == oracle
    ]
    return f"## {title}\n\n{table(EFFECTIVENESS, rows)}" if rows else ""


def _control(document: dict[str, Any], one: dict[str, Any]) -> float | None:
    same = ("detector", "operator", "oracle")
    found = (
        other
        for other in document["results"]
        if other["kind"] == "control" and all(other[key] == one[key] for key in same)
    )
    return next((float(other["mean"]) for other in found if other["classes"]), None)


def _usual(document: dict[str, Any]) -> str:
    rows = [
        (
            named(row["detector"]),
            ORACLES[row["oracle"]],
            *(
                f"{row[kind]['violations']} of {row[kind]['classes']}"
                for kind in ("usual", "unusual")
            ),
            *(
                f"{row[kind]['error_inducing']} of {row[kind]['tests']}"
                for kind in ("usual", "unusual")
            ),
            _gain(row["violation_gain"]),
            _gain(row["error_gain"]),
        )
        for row in document["comparisons"].get("usual", ())
    ]
    head = (
        "recogniser",
        "oracle",
        "violations ID",
        "violations OOD",
        "error-inducing ID",
        "error-inducing OOD",
        "violation gain",
        "error gain",
    )
    return (
        f"## Table 8: insertion within (ID) and beyond (OOD) what is usual\n\n{table(head, rows)}"
        if rows
        else ""
    )


def _times(document: dict[str, Any]) -> str:
    rows = [
        (
            OPERATORS.get(row["operator"], row["operator"]),
            str(row["images"]),
            _number(row["seconds"]),
            _number(3600 / row["seconds"], 0),
        )
        for row in document["comparisons"].get("times", ())
        if row["seconds"]
    ]
    return (
        "## Table 9:"
        f" time\n\n{table(('mutation', 'images', 'seconds an image', 'images an hour'), rows)}"
        if rows
        else ""
    )


def _compared(document: dict[str, Any]) -> str:
    names = {
        "ood_vs_original": "original",
        "ood_vs_id": "usual insertion (ID)",
        "ood_vs_control": "in-painting alone",
    }
    rows = [
        (
            named(row["detector"]),
            name,
            _number(row["first_mean"]),
            _number(row["second_mean"]),
            f"{row['first_images']}, {row['second_images']}",
            "–" if row["u"] is None else f"{row['u']:.0f}",
            "–" if row["p"] is None else f"{row['p']:.2g}",
        )
        for key, name in names.items()
        for row in document["comparisons"].get(key, ())
    ]
    head = (
        "recogniser",
        "mutants against",
        "error rate of mutants",
        "of the others",
        "pictures",
        "U",
        "p",
    )
    return (
        f"## Mutants against what they could be mistaken for (Mann–Whitney)\n\n{table(head, rows)}"
        if rows
        else ""
    )


def _number(value: float | None, places: int = 3) -> str:
    return "–" if value is None else f"{value:.{places}f}"


def _gain(value: float | None) -> str:
    return "–" if value is None else f"{value:+.0f} %"
