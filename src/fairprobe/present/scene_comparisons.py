"""The comparisons of a scenes audit as tables, each with what it can show and what it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairprobe.documents.scenes import (
    Comparisons,
    ControlRate,
    ImageQuality,
    OperatorRealism,
    OperatorTime,
    OracleOverlap,
    OriginalsOverlap,
    RankedComparison,
    RealComparison,
    UnmodifiedComparison,
    UsualComparison,
)
from fairprobe.present.table import UNDEFINED, Table
from fairprobe.report.formats import (
    SPACE,
    Interval,
    count,
    decimal,
    interval,
    percent,
    ratio,
    seconds,
)

TINY = 1e-9  # what rounding leaves of nothing
NOTABLE = 0.05  # p values below it are called a difference
OPERATORS = {
    "insert": "insertion",
    "delete": "deletion",
    "rotate": "rotation",
    "control": "control",
    "all": "all together",
    "total": "all together",
}


class OracleWords(NamedTuple):
    """What an oracle is called, and what its errors are."""

    title: str
    short: str
    about: str


ORACLES = {
    "gt": OracleWords(
        "Ground truth",
        "GT",
        "errors against the true objects, more or fewer than in the original picture; below zero"
        " where the mutation helps",
    ),
    "exclusion": OracleWords(
        "Lost objects",
        "Ex.",
        "objects recognized in the original picture and no longer in the mutated one",
    ),
    "inclusion": OracleWords(
        "Added objects",
        "Inc.",
        "objects recognized in the mutated picture and not in the original one",
    ),
}
QUALITIES = {
    "similarity": "structural similarity to the original; 1: nothing changed",
    "blur": "blur effect; 0: sharp, 1: blurred",
    "clip_iqa": "CLIP-IQA; 0: bad, 1: good",
    "clip_realism": "CLIP, “Realistic photo” against “Unrealistic photo”; 1: realistic",
}
CAUSES = {
    "in-painting": "the control does half of it or more",
    "mutation": "the mutation",
    "not distinguishable": "cannot be distinguished",
    "no errors": "no errors",
}


@dataclass(frozen=True)
class Comparison:
    """A question, what to see in its answer, and the numbers."""

    heading: str
    about: str
    table: Table
    is_ranked: bool = False
    """Whether it rests on the rank test."""


def rate(value: float) -> str:
    """Errors for each object: not a share, so it may be negative or above 100 %."""
    if abs(value) < TINY:
        return percent(0)
    size = percent(abs(value)) if abs(value) <= 1 else f"{100 * abs(value):,.0f}{SPACE}%"
    return f"−{size}" if value < 0 else size


def rate_interval(row: Interval) -> str:
    """The interval of a rate."""
    return interval(row, rate) or UNDEFINED


def comparisons(found: Comparisons) -> list[Comparison]:
    """Those that were made, in the paper's order; the controls come first, since they say how far
    to trust the rest.
    """
    made = [
        _causes(found.causes),
        _ranked(found.ood_vs_control, "Mutation against in-painting alone", "control"),
        _ranked(found.ood_vs_original, "Mutated against original pictures", "original"),
        _originals(found.originals),
        _ranked(found.ood_vs_id, "Unusual against usual insertions (OOD against ID)", "usual"),
        _usual(found.usual),
        _overlaps(found.overlaps),
        _real(found.rq5),
        _unmodified(found.rq6),
        _realism(found.realism),
        _quality(found.quality),
        _times(found.times),
    ]
    return [one for one in made if one is not None and one.table.rows]


# -- controls --------------------------------------------------------------------------------------


def _causes(rows: Sequence[ControlRate]) -> Comparison:
    head = ("class, recognizer", "mutation, oracle", "rate", "control", "difference", "interval",
            "errors caused by")  # fmt: skip
    return Comparison(
        "Mutation or control, class by class",
        "Classes above the mean, with what the same in-painting on plain background does to them;"
        " for insertions, what pasting the picture's own objects back in their places does."
        " Intervals of the difference are not corrected for the number of classes: they qualify"
        " what was found above, and find nothing themselves.",
        Table(
            head,
            [
                (
                    f"{row.label}, {row.detector}",
                    f"{OPERATORS[row.operator]}, {ORACLES[row.oracle].title.lower()}",
                    rate(row.rate),
                    rate(row.control),
                    rate(row.difference),
                    rate_interval(row),
                    CAUSES[row.cause],
                )
                for row in rows
            ],
        ),
    )


def _ranked(rows: Sequence[RankedComparison], heading: str, second: str) -> Comparison:
    head = ("recognizer", "mutated: mean", "pictures", f"{second}: mean", "pictures", "U", "p",
            "mutated is higher", "reading")  # fmt: skip
    lines = [
        (
            row.detector,
            _mean(row.first_mean),
            count(row.first_images),
            _mean(row.second_mean),
            count(row.second_images),
            UNDEFINED if row.u is None else f"{row.u:,.1f}",
            p_value(row.p),
            _share(row.superiority),
            _reading(row, second),
        )
        for row in rows
    ]
    about = "The error rates of single pictures, the mutated class left out."
    return Comparison(heading, about, Table(head, lines), is_ranked=True)


def _mean(value: float | None) -> str:
    return UNDEFINED if value is None else decimal(value)


def _share(value: float | None) -> str:
    return UNDEFINED if value is None else percent(value)


def p_value(p: float | None) -> str:
    """A p value; a tiny one is only called small."""
    if p is None:
        return UNDEFINED
    return f"<{SPACE}0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def _reading(row: RankedComparison, second: str) -> str:
    """What the ranks say."""
    if row.p is None or row.superiority is None:
        return "not defined"
    if row.p >= NOTABLE:
        return "no difference shown"
    many = "more" if row.superiority > 0.5 else "fewer"
    return f"{many} errors on mutated than on {second} pictures"


# -- the paper's -----------------------------------------------------------------------------------


def _originals(found: OriginalsOverlap | None) -> Comparison | None:
    if found is None:
        return None
    head = ("classes", "on originals", "by mutation", "by both", "only by mutation",
            "of the originals’, found by mutation")  # fmt: skip
    row = (
        "worse off than the mean",
        count(found.originals),
        count(found.mutants),
        count(found.both),
        _share(found.only_mutants),
        _share(found.covered),
    )
    return Comparison(
        "What only mutation shows",
        "Classes of all recognizers that are worse off than the mean, by the plain rule: found on"
        " the originals alone, and found by mutating them. The plain rule names some by chance on"
        " both sides.",
        Table(head, [row]),
    )


def _usual(rows: Sequence[UsualComparison]) -> Comparison:
    head = ("recognizer, oracle", "OOD: classes above the mean", "ID: the same", "OOD: error rate",
            "ID: the same", "gain in classes", "gain in errors")  # fmt: skip
    return Comparison(
        "Does it take the unusual?",
        "Insertions that make a scene unusual (OOD) beside those that keep to what is usual (ID),"
        " once each, no class being too rare.",
        Table(
            head,
            [
                (
                    f"{row.detector}, {ORACLES[row.oracle].title.lower()}",
                    percent(row.unusual.violation_rate),
                    percent(row.usual.violation_rate),
                    percent(row.unusual.error_rate),
                    percent(row.usual.error_rate),
                    _gain(row.violation_gain),
                    _gain(row.error_gain),
                )
                for row in rows
            ],
        ),
    )


def _gain(value: float | None) -> str:
    if value is None:
        return UNDEFINED
    return percent(0) if abs(value) < 0.5 else f"{value:+.0f}{SPACE}%".replace("-", "−")


def _overlaps(rows: Sequence[OracleOverlap]) -> Comparison:
    head = ("recognizer", "by ground truth", "metamorphic", "by both", "ground truth covered")
    return Comparison(
        "With and without ground truth",
        "Classes above the mean by the ground truth, and by comparing the two pictures alone"
        " (metamorphic), which needs no annotation: the more of the first the second covers, the"
        " less is missed without annotation.",
        Table(
            head,
            [
                (row.detector, count(row.gt), count(row.mt), count(row.both), _share(row.covered))
                for row in rows
            ],
        ),
    )


def _real(rows: Sequence[RealComparison]) -> Comparison:
    head = ("recognizer", "pairs of pictures", "accuracy, real", "accuracy, generated",
            "generated ÷ real")  # fmt: skip
    return Comparison(
        "Generated against real pictures with the same objects",
        "How many of the counted objects are recognized, in pictures with inserted objects and in"
        " real ones with equally many objects of each class (RQ5, Algorithm 4). Inserted objects"
        " stand free and in focus: a higher number does not say that they look real.",
        Table(
            head, [_accuracies(row.detector, row.pairs, row.real, row.generated) for row in rows]
        ),
    )


def _unmodified(rows: Sequence[UnmodifiedComparison]) -> Comparison:
    head = ("recognizer", "pictures", "accuracy, original", "accuracy, mutated",
            "mutated ÷ original")  # fmt: skip
    return Comparison(
        "Classes that were not mutated, in pictures with errors",
        "How many objects of the other classes are recognized in the pictures with an error, before"
        " and after the mutation (RQ6). They were chosen for their errors, so some loss is there by"
        " choice, not by finding.",
        Table(
            head, [_accuracies(row.detector, row.images, row.original, row.mutated) for row in rows]
        ),
    )


def _accuracies(
    detector: str, pictures: int, base: float | None, value: float | None
) -> tuple[str, ...]:
    over = UNDEFINED if not base or value is None else f"×{SPACE}{ratio(value / base)}"
    return detector, count(pictures), _share(base), _share(value), over


def _quality(found: ImageQuality | None) -> Comparison | None:
    if found is None:
        return None
    operators = list(dict.fromkeys(name for one in found.measures for name in one.operators))
    lines = [
        (
            QUALITIES.get(one.name, one.name),
            _mean(one.original),
            _mean(one.mutated),
            *(_mean(one.operators.get(name)) for name in operators),
            UNDEFINED if one.test is None else p_value(one.test.p_value),
        )
        for one in found.measures
    ]
    about = (
        f"Measures of libraries over {count(found.pictures)} mutated pictures, without people: they"
        " see blur and noise, not whether a scene makes sense. The survey page asks people."
        f" {' '.join(found.messages)}"
    )
    head = ("measure", "original", "mutated", *(OPERATORS[name] for name in operators), "p")
    return Comparison("Quality of the pictures", about.strip(), Table(head, lines))


def _realism(rows: Sequence[OperatorRealism]) -> Comparison:
    head = ("mutation", "pictures", "look real", "share", "interval", "real patches")
    return Comparison(
        "How many mutants look real",
        "A small classifier tells real from mutated patches by light, contrast, color, sharpness"
        " and seams, and objects by how usual their height, ground and outline are. A mutant"
        " passes if it scores no less than nine of ten real patches, so about 90 % would pass if"
        " none could be told apart. No patch is scored by a classifier that saw its scene or its"
        " object.",
        Table(
            head,
            [
                (
                    OPERATORS[row.operator],
                    count(row.pictures),
                    count(row.passed),
                    percent(row.share),
                    rate_interval(row),
                    count(row.real),
                )
                for row in rows
            ],
        ),
    )


def looks_real(found: Comparisons, operator: str) -> float | None:
    """The share of an operator's mutants that pass the realism check; of all, for "all"."""
    rows = [row for row in found.realism if operator in (row.operator, "all")]
    pictures = sum(row.pictures for row in rows)
    return sum(row.passed for row in rows) / pictures if pictures else None


def _times(rows: Sequence[OperatorTime]) -> Comparison:
    return Comparison(
        "Time",
        "Making one mutated picture, without reading, writing, or querying any recognizer.",
        Table(
            ("mutation", "pictures", "time for one"),
            [
                (
                    OPERATORS[row.operator],
                    count(row.images),
                    UNDEFINED if row.seconds is None else seconds(row.seconds),
                )
                for row in rows
            ],
        ),
    )
