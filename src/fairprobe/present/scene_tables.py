"""The tables of a scenes audit as Markdown, in the form of the paper's tables 6 to 9, 11 and 12,
with evidence and in-painting control.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from fairprobe.documents.scenes import AnalysisDocument, ScenesDocument
from fairprobe.present.scene_comparisons import OPERATORS, ORACLES, looks_real
from fairprobe.present.table import UNDEFINED, Table
from fairprobe.report.markdown import joined


def scene_tables(document: ScenesDocument) -> str:
    """All tables, one after another."""
    found = document.comparisons
    tables = (
        _effectiveness("Table 6: ground-truth oracle", document, ("gt",)),
        _effectiveness(
            "Table 7: metamorphic oracle (exclusion, inclusion)",
            document,
            ("exclusion", "inclusion"),
        ),
        _usual(document),
        _times(document),
        _accuracy(
            "Table 11: accuracy on real and on generated pictures with the same objects (RQ5)",
            ("real", "generated", "generated over real", "pairs"),
            [(one.detector, one.real, one.generated, one.pairs) for one in found.rq5],
        ),
        _accuracy(
            "Table 12: accuracy on classes that were not mutated, in error-inducing pictures (RQ6)",
            ("original", "mutated", "mutated over original", "pictures"),
            [(one.detector, one.original, one.mutated, one.images) for one in found.rq6],
        ),
        _compared(document),
        _realism(document),
        _by_class(document),
    )
    return joined(f"## {table.title}\n\n{table.markdown()}" for table in tables if table.rows)


def control_of(document: ScenesDocument, one: AnalysisDocument) -> AnalysisDocument | None:
    """The in-painting control of an analysis, if it judged any class."""
    return next(
        (
            other
            for other in document.results
            if other.kind == "control"
            and other.classes
            and (other.detector, other.operator, other.oracle)
            == (one.detector, one.operator, one.oracle)
        ),
        None,
    )


def _effectiveness(title: str, document: ScenesDocument, oracles: Sequence[str]) -> Table:
    head = ("recognizer", "mutation", "oracle", "classes", "above the mean", "violation rate",
            "evidence holds", "error-inducing", "images", "error rate (95 %)", "mean class rate",
            "the same, control", "look real")  # fmt: skip
    rows = []
    for oracle in oracles:
        for one in document.results:
            if one.kind != "ood" or one.oracle != oracle:
                continue
            control = control_of(document, one)
            interval = f"{_number(one.error_low)}–{_number(one.error_high)}"
            rows.append(
                (
                    one.detector,
                    OPERATORS[one.operator],
                    ORACLES[oracle].short,
                    str(len(one.classes)),
                    str(len(one.violations)),
                    _number(one.violation_rate, 2),
                    ", ".join(one.unfair) or "none",
                    str(one.error_inducing),
                    str(one.tests),
                    f"{_number(one.error_rate)} ({interval})",
                    _number(one.mean),
                    _number(None if control is None else control.mean),
                    _number(looks_real(document.comparisons, one.operator), 2),
                )
            )
    return Table(head, rows, title)


def _realism(document: ScenesDocument) -> Table:
    rows = [
        (
            OPERATORS[row.operator],
            str(row.pictures),
            str(row.passed),
            _number(row.share),
            f"{_number(row.low)}–{_number(row.high)}",
            _number(row.threshold),
            str(row.real),
        )
        for row in document.comparisons.realism
    ]
    head = ("mutation", "mutants", "look real", "share", "95 %", "least score", "real patches")
    return Table(head, rows, "Realism check: mutants that score like nine of ten real patches")


def _usual(document: ScenesDocument) -> Table:
    head = ("recognizer", "oracle", "violations ID", "violations OOD", "error-inducing ID",
            "error-inducing OOD", "violation gain", "error gain")  # fmt: skip
    rows = [
        (
            row.detector,
            ORACLES[row.oracle].short,
            f"{row.usual.violations} of {row.usual.classes}",
            f"{row.unusual.violations} of {row.unusual.classes}",
            f"{row.usual.error_inducing} of {row.usual.tests}",
            f"{row.unusual.error_inducing} of {row.unusual.tests}",
            *(
                UNDEFINED if gain is None else f"{gain:+.0f} %"
                for gain in (row.violation_gain, row.error_gain)
            ),
        )
        for row in document.comparisons.usual
    ]
    return Table(head, rows, "Table 8: insertion within (ID) and beyond (OOD) what is usual")


def _times(document: ScenesDocument) -> Table:
    rows = [
        (
            OPERATORS[row.operator],
            str(row.images),
            _number(row.seconds),
            _number(3600 / row.seconds, 0),
        )
        for row in document.comparisons.times
        if row.seconds
    ]
    return Table(
        ("mutation", "images", "seconds an image", "images an hour"), rows, "Table 9: time"
    )


def _accuracy(
    title: str,
    names: tuple[str, str, str, str],
    rows: Sequence[tuple[str, float | None, float | None, int]],
) -> Table:
    """Two accuracies of each recognizer and their ratio; the last row has the means."""

    def ratio(first: float | None, second: float | None) -> float | None:
        return second / first if first and second is not None else None

    lines = [
        (name, _number(first), _number(second), _number(ratio(first, second)), str(count))
        for name, first, second, count in rows
    ]
    if len(rows) > 1:
        columns = (
            [first for _, first, _, _ in rows],
            [second for _, _, second, _ in rows],
            [ratio(first, second) for _, first, second, _ in rows],
        )
        known = ([value for value in column if value is not None] for column in columns)
        means = [_number(fmean(column)) if column else UNDEFINED for column in known]
        lines.append(("average", means[0], means[1], means[2], str(sum(row[3] for row in rows))))
    return Table(("recognizer", *names), lines, title)


def _by_class(document: ScenesDocument) -> Table:
    """Algorithm 2: errors, objects and erroneous pictures of every class."""
    rows = [
        (
            one.detector,
            OPERATORS[one.operator],
            ORACLES[one.oracle].short,
            rate.label,
            str(rate.errors),
            str(rate.objects),
            _number(rate.rate),
            UNDEFINED if rate.images is None else str(rate.images),
            "yes" if rate.is_above else "no",
        )
        for one in document.results
        if one.kind == "ood"
        for rate in one.classes
    ]
    head = ("recognizer", "mutation", "oracle", "class", "errors", "objects", "error rate",
            "erroneous pictures", "above the mean")  # fmt: skip
    return Table(head, rows, "Errors by class (algorithm 2)")


def _compared(document: ScenesDocument) -> Table:
    found = document.comparisons
    kinds = {
        "original": found.ood_vs_original,
        "usual insertion (ID)": found.ood_vs_id,
        "in-painting alone": found.ood_vs_control,
    }
    rows = [
        (
            row.detector,
            name,
            _number(row.first_mean),
            _number(row.second_mean),
            f"{row.first_images}, {row.second_images}",
            _number(row.u, 0),
            UNDEFINED if row.p is None else f"{row.p:.2g}",
        )
        for name, several in kinds.items()
        for row in several
    ]
    return Table(
        (
            "recognizer",
            "mutants against",
            "error rate of mutants",
            "of the others",
            "pictures",
            "U",
            "p",
        ),
        rows,
        "Mutants against what they could be mistaken for (Mann–Whitney)",
    )


def _number(value: float | None, places: int = 3) -> str:
    return UNDEFINED if value is None else f"{value:.{places}f}"
