"""The comparisons of a scenes audit as tables, each with what it can show and what it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairprobe.present.formats import SPACE, count, number, percent, ratio, seconds
from fairprobe.present.table import UNDEFINED, Table

Rows = Sequence[dict[str, Any]]

TINY = 1e-9  # what rounding leaves of nothing
NOTABLE = 0.05  # p values below it are called a difference
OPERATORS = {
    "insert": "insertion",
    "delete": "deletion",
    "rotate": "rotation",
    "control": "in-painting control",
    "all": "all together",
    "total": "all together",
}
ORACLES = {"gt": "ground truth", "exclusion": "lost objects", "inclusion": "added objects"}
QUALITIES = {  # what a measure is, and what is good
    "similarity": "structural similarity to the original; 1: nothing changed",
    "blur": "blur effect; 0: sharp, 1: blurred",
    "clip_iqa": "CLIP-IQA; 0: bad, 1: good",
}
CAUSES = {
    "in-painting": "in-painting alone does half of it or more",
    "mutation": "the mutation",
    "not distinguishable": "cannot be told",
}


@dataclass(frozen=True)
class Comparison:
    """A question, what to see in its answer, and the numbers."""

    heading: str
    about: str
    table: Table
    is_ranked: bool = False
    """Whether it rests on the rank test."""


def operator_name(operator: str) -> str:
    """A mutation as the page calls it."""
    return OPERATORS.get(operator, operator)


def rate(value: float) -> str:
    """Errors for each object: no share, so it may be negative, or more than all."""
    if abs(value) < TINY:
        return percent(0)
    size = percent(abs(value)) if abs(value) <= 1 else f"{100 * abs(value):,.0f}{SPACE}%"
    return f"−{size}" if value < 0 else size


def between(row: dict[str, Any]) -> str:
    """The interval of a rate."""
    return (
        UNDEFINED
        if row["low"] is None or row["high"] is None
        else f"{rate(row['low'])}{SPACE}to{SPACE}{rate(row['high'])}"
    )


def comparisons(compared: dict[str, Any]) -> list[Comparison]:
    """Those that were made, in the paper's order; our controls come first, since they say how far
    to trust the rest.
    """
    made = [
        _causes(compared.get("causes")),
        _tested(compared.get("ood_vs_control"), "Mutation against in-painting alone", "control"),
        _tested(compared.get("ood_vs_original"), "Mutated against original pictures", "original"),
        _originals(compared.get("originals")),
        _tested(
            compared.get("ood_vs_id"), "Unusual against usual insertions (OOD against ID)", "usual"
        ),
        _usual(compared.get("usual")),
        _overlaps(compared.get("overlaps")),
        _accuracies(
            compared.get("rq5"),
            ("pairs", "real", "generated"),
            "Generated against real pictures with the same objects",
            "How many of the counted objects are recognised, in pictures with inserted objects and"
            " in real ones with equally many objects of each class (RQ5, Algorithm 4). Inserted"
            " objects stand free and in focus: a higher number does not say that they look real.",
        ),
        _accuracies(
            compared.get("rq6"),
            ("images", "original", "mutated"),
            "Classes that were not mutated, in pictures with errors",
            "How many objects of the other classes are recognised in the pictures with an error,"
            " before and after the mutation (RQ6). They were chosen for their errors, so some loss"
            " is there by choice, not by finding.",
        ),
        _quality(compared.get("quality")),
        _times(compared.get("times")),
    ]
    return [one for one in made if one is not None]


# -- our controls ----------------------------------------------------------------------------------


def _causes(rows: Rows | None) -> Comparison | None:
    lines = [
        (
            f"{row['label']}, {row['detector']}",
            f"{operator_name(row['operator'])}, {ORACLES.get(row['oracle'], row['oracle'])}",
            rate(row["rate"]),
            rate(row["control"]),
            rate(row["difference"]),
            between(row),
            CAUSES.get(row["cause"], str(row["cause"])),
        )
        for row in rows or []
    ]
    about = (
        "Classes above the mean, with what the same in-painting on plain background does to them."
        " Intervals of the difference are not corrected for the number of classes: they qualify"
        " what was found above, and find nothing themselves."
    )
    head = (
        "class, recogniser",
        "mutation, oracle",
        "rate",
        "control",
        "difference",
        "interval",
        "errors made by",
    )
    return (
        Comparison("Mutation or in-painting, class by class", about, Table(head, lines))
        if lines
        else None
    )


def _tested(rows: Rows | None, heading: str, second: str) -> Comparison | None:
    lines = [
        (
            row["detector"],
            _mean(row["first_mean"]),
            count(row["first_images"]),
            _mean(row["second_mean"]),
            count(row["second_images"]),
            UNDEFINED if row["u"] is None else f"{row['u']:,.1f}",
            p_value(row["p"]),
            _share(row.get("superiority")),
            _reading(row, second),
        )
        for row in rows or []
    ]
    head = (
        "recogniser",
        "mutated: mean",
        "pictures",
        f"{second}: mean",
        "pictures",
        "U",
        "p",
        "mutated is higher",
        "reading",
    )
    about = "The error rates of single pictures, the mutated class left out."
    return Comparison(heading, about, Table(head, lines), is_ranked=True) if lines else None


def _mean(value: float | None) -> str:
    return UNDEFINED if value is None else number(value)


def p_value(p: float | None) -> str:
    """A p value that is tiny says so without pretending to more."""
    return (
        UNDEFINED
        if p is None
        else f"<{SPACE}0.001"
        if p < 0.001
        else f"{p:.3f}"
        if p < 0.1
        else f"{p:.2f}"
    )


def _reading(row: dict[str, Any], second: str) -> str:
    """By the ranks, as the test goes; by the means where the document does not tell."""
    first_mean, second_mean, p = row["first_mean"], row["second_mean"], row["p"]
    if p is None or first_mean is None or second_mean is None:
        return "not defined"
    if p >= NOTABLE:
        return "no difference shown"
    higher = row.get("superiority")
    is_more = first_mean > second_mean if higher is None else higher > 0.5
    return (
        f"more errors on mutated than on {second} pictures"
        if is_more
        else f"fewer errors on mutated than on {second} pictures"
    )


# -- the paper's -----------------------------------------------------------------------------------


def _originals(found: dict[str, Any] | None) -> Comparison | None:
    if not found:
        return None
    cells = (
        count(found["originals"]),
        count(found["mutants"]),
        count(found["both"]),
        _share(found["only_mutants"]),
        _share(found["covered"]),
    )
    about = (
        "Classes of all recognisers that are worse off than the mean, by the plain rule: found on"
        " the originals alone, and found by mutating them. The plain rule names some by chance on"
        " both sides."
    )
    head = (
        "classes",
        "on originals",
        "by mutation",
        "by both",
        "only by mutation",
        "of the originals’, found by mutation",
    )
    return Comparison(
        "What only mutation shows", about, Table(head, [("worse off than the mean", *cells)])
    )


def _usual(rows: Rows | None) -> Comparison | None:
    lines = [
        (
            f"{row['detector']}, {ORACLES.get(row['oracle'], row['oracle'])}",
            *(
                percent(row[kind][name])
                for name in ("violation_rate", "error_rate")
                for kind in ("unusual", "usual")
            ),
            _gain(row["violation_gain"]),
            _gain(row["error_gain"]),
        )
        for row in rows or []
    ]
    about = (
        "Insertions that make a scene unusual (OOD) beside those that keep to what is usual (ID),"
        " once each, no class being too rare."
    )
    head = (
        "recogniser, oracle",
        "OOD: classes above the mean",
        "ID: the same",
        "OOD: error rate",
        "ID: the same",
        "gain in classes",
        "gain in errors",
    )
    return Comparison("Does it take the unusual?", about, Table(head, lines)) if lines else None


def _gain(per_cent: float | None) -> str:
    return (
        UNDEFINED
        if per_cent is None
        else percent(0)
        if abs(per_cent) < 0.5
        else f"{per_cent:+.0f}{SPACE}%".replace("-", "−")
    )


def _overlaps(rows: Rows | None) -> Comparison | None:
    lines = [
        (
            row["detector"]
            + (f", {operator_name(row['operator'])}" if row.get("operator") else ""),
            count(row["gt"]),
            count(row["mt"]),
            count(row["both"]),
            _share(row["covered"]),
        )
        for row in rows or []
    ]
    about = (
        "Classes above the mean by the ground truth, and by comparing the two pictures alone"
        " (metamorphic), which needs no annotation: the more of the first the second covers, the"
        " less is missed without annotation."
    )
    head = ("recogniser", "by ground truth", "metamorphic", "by both", "ground truth covered")
    return Comparison("With and without ground truth", about, Table(head, lines)) if lines else None


def _accuracies(
    rows: Rows | None, keys: tuple[str, str, str], heading: str, about: str
) -> Comparison | None:
    many, first, second = keys
    lines = [
        (
            row["detector"],
            count(row[many]),
            _share(row[first]),
            _share(row[second]),
            _over(row[second], row[first]),
        )
        for row in rows or []
    ]
    pictures = "pairs of pictures" if many == "pairs" else "pictures"
    head = (
        "recogniser",
        pictures,
        f"accuracy, {first}",
        f"accuracy, {second}",
        f"{second} ÷ {first}",
    )
    return Comparison(heading, about, Table(head, lines)) if lines else None


def _share(value: float | None) -> str:
    return UNDEFINED if value is None else percent(value)


def _over(value: float | None, base: float | None) -> str:
    return UNDEFINED if not base or value is None else f"×{SPACE}{ratio(value / base)}"


def _quality(found: dict[str, Any] | None) -> Comparison | None:
    if not found or not found["measures"]:
        return None
    operators = list(dict.fromkeys(name for one in found["measures"] for name in one["operators"]))
    lines = [
        (
            QUALITIES.get(one["name"], one["name"].replace("_", " ")),
            _mean(one["original"]),
            _mean(one["mutated"]),
            *(_mean(one["operators"].get(name)) for name in operators),
            p_value(one["test"]["p_value"]) if one["test"] else UNDEFINED,
        )
        for one in found["measures"]
    ]
    about = (
        f"Measures of libraries over {count(found['pictures'])} mutated pictures, without people:"
        " they see blur and noise, not whether a scene makes sense. The survey page asks people."
        f" {' '.join(found['messages'])}"
    )
    head = ("measure", "original", "mutated", *(operator_name(name) for name in operators), "p")
    return Comparison("Quality of the pictures", about.strip(), Table(head, lines))


def _times(rows: Rows | None) -> Comparison | None:
    lines = [
        (
            operator_name(row["operator"]),
            count(row["images"]),
            UNDEFINED if row["seconds"] is None else seconds(row["seconds"]),
        )
        for row in rows or []
    ]
    about = "Making one mutated picture, without reading, writing, or asking any recogniser."
    return (
        Comparison("Time", about, Table(("mutation", "pictures", "time for one"), lines))
        if lines
        else None
    )
