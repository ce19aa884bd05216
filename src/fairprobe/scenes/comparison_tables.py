"""Words of the report on scenes, and the tables of its comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from msgspec import structs

from fairprobe.report import Cell, Notes, Number, Section, Table, Text
from fairprobe.report.formats import SPACE, count, interval, percent
from fairprobe.report.sections import UNDEFINED, Unit
from fairprobe.results import Result
from fairprobe.scenes.analysis import Total
from fairprobe.scenes.comparisons import Comparisons
from fairprobe.scenes.quality import ImageQuality, QualityMeasure
from fairprobe.scenes.scene import Mutation

Columns: TypeAlias = Mapping[str, Callable[[Any], str | Number | Cell]]

TINY = 1e-9  # of a rate: rounding
MAX_ROWS = 12  # of a table that is not folded
WORDS = {
    "insert": "insertion",
    "delete": "deletion",
    "rotate": "rotation",
    "control": "control",
    "all": "all together",
    "total": "all together",
    "gt": "ground truth",
    "exclusion": "lost objects",
    "inclusion": "added objects",
    "mutation": "the mutation",
    "not distinguishable": "undecided",
}


class OracleWords(NamedTuple):
    """The name of an oracle, and what its errors are."""

    title: str
    about: str


ORACLES = {
    "gt": OracleWords(
        "Ground truth",
        "Errors against the true objects, more or fewer than in the original picture; below zero"
        " if the mutation helps.",
    ),
    "exclusion": OracleWords(
        "Lost objects",
        "Objects recognized in the original picture and no longer in the mutated one.",
    ),
    "inclusion": OracleWords(
        "Added objects",
        "Objects recognized in the mutated picture and not in the original one.",
    ),
}
# How the fields of comparisons are called and written; others by their names, as shares.
HEADS = {
    "detector": "recognizer",
    "operator": "mutation",
    "label": "class",
    "cause": "errors caused by",
    "first": "mutated pictures",
    "second": "other pictures",
    "first_mean": "mutated: mean",
    "second_mean": "others: mean",
    "statistic": "U",
    "p_value": "p",
    "superiority": "mutated is higher",
    "gt": "by ground truth",
    "mt": "metamorphic",
    "both": "by both",
    "originals": "on originals",
    "mutants": "by mutation",
    "only_mutants": "only by mutation",
    "unusual": "OOD",
    "usual": "ID",
    "passed": "look real",
    "threshold": "least score",
}
UNITS: dict[str, Unit] = {
    "first_mean": "number",
    "second_mean": "number",
    "statistic": "number",
    "threshold": "number",
    "seconds": "seconds",
}
RANKED = {
    "ood_vs_control": "in-painting alone",
    "ood_vs_original": "originals",
    "ood_vs_id": "usual insertions",
}
COMPARISONS = {
    "causes": (
        "Mutation or control, class by class",
        "Classes above the mean, with what the same in-painting on plain background does to them;"
        " for insertions, what pasting the picture's own objects back in their places does."
        " Intervals of the difference are not corrected for the number of classes.",
    ),
    "ranks": (
        "Mutated against other pictures",
        "Error rates of single pictures, the mutated class left out, by Mann–Whitney’s two-sided U"
        " test. It assumes independent pictures, which those made from one scene are not, so p is"
        " too small. “Mutated is higher”: how often a mutated picture has the higher error rate of"
        " two drawn at random.",
    ),
    "originals": (
        "What only mutation shows",
        "Classes of all recognizers that are worse off than the mean, by the plain rule, which"
        " names some by chance: on the originals alone, and by mutating them.",
    ),
    "usual": (
        "Does it take the unusual?",
        "Insertions that make a scene unusual (OOD) and insertions within what is usual (ID), once"
        " each, no class being too rare; gains in percent of the latter.",
    ),
    "overlaps": (
        "With and without ground truth",
        "Classes above the mean by the ground truth, and by comparing the two pictures alone"
        " (metamorphic), which needs no annotation.",
    ),
    "rq5": (
        "Generated against real pictures with the same objects",
        "How many of the counted objects are recognized, in pictures with inserted objects and in"
        " real ones (reference) with equally many objects of each class (RQ5, Algorithm 4)."
        " Inserted objects are unobstructed and in focus: a higher number does not mean that they"
        " look real.",
    ),
    "rq6": (
        "Classes that were not mutated, in pictures with errors",
        "How many objects of the other classes are recognized in the pictures with an error, before"
        " the mutation (reference) and after it (RQ6). They were chosen for their errors, so some"
        " loss is expected.",
    ),
    "realism": (
        "How many mutants look real",
        "A small classifier separates real from mutated patches by light, contrast, color,"
        " sharpness and seams, and objects by how usual their height, ground and outline are. A"
        " mutant passes if it scores no less than nine of ten real patches, so about 90 % would"
        " pass if none could be distinguished. No patch is scored by a classifier that saw its"
        " scene or its object.",
    ),
    "times": ("Time", "Making one mutated picture, without reading, writing, or querying."),
}
QUALITIES = {
    "similarity": "structural similarity to the original; 1: nothing changed",
    "blur": "blur effect; 0: sharp, 1: blurred",
    "clip_iqa": "CLIP-IQA; 0: bad, 1: good",
    "clip_realism": "CLIP, “Realistic photo” against “Unrealistic photo”; 1: realistic",
}


# -- comparisons -----------------------------------------------------------------------------------


def table_of(rows: Iterable[Any], columns: Columns, caption: str = "", **options: Any) -> Table:
    """Make a table of results from each column's head and how it is written."""
    cells = [tuple(write(row) for write in columns.values()) for row in rows]
    return Table(tuple(columns), cells, caption, **options)


def comparisons_section(comparisons: Comparisons) -> Section:
    """Show the comparisons that were made; controls come first, since they say how far to trust the
    rest.
    """
    sections: list[Section] = []
    for name, (title, about) in COMPARISONS.items():
        if name == "ranks":
            cells = list(_rank_tests(comparisons))
        else:
            value = getattr(comparisons, name)
            rows = value if isinstance(value, list) else [value] if value is not None else []
            cells = [dict(_cells(row)) for row in rows]
        if cells:
            words = [index for index, cell in enumerate(cells[0].values()) if isinstance(cell, str)]
            rows = [tuple(row.values()) for row in cells]
            is_long = len(rows) > MAX_ROWS
            caption = f"All {len(rows)} rows" if is_long else ""
            table = Table(tuple(cells[0]), rows, caption, words=words, folded=is_long)
            sections.append(Section(title, [Text(about, "note"), table]))
    return Section("Comparisons", [*sections, _quality(comparisons.quality or ImageQuality())])


def _rank_tests(comparisons: Comparisons) -> Iterator[dict[str, str | Number | Cell]]:
    for name, words in RANKED.items():
        for detector, test in getattr(comparisons, name).items():
            yield {"recognizer": detector, "compared with": words, **dict(_cells(test))}


def _cells(row: Result) -> Iterator[tuple[str, str | Number | Cell]]:
    """Write each field of a result as a cell, an interval with the number before it."""
    values = structs.asdict(row)
    fields = list(values)
    for index, name in enumerate(fields):
        value, head = values[name], HEADS.get(name, name.replace("_", " "))
        if isinstance(value, Total):
            yield f"{head}: above the mean", _violations(value)
            yield f"{head}: error rate", _error_inducing(value)
        elif name in ("low", "high"):
            continue
        elif isinstance(value, str):
            yield head, WORDS.get(value, value)
        elif isinstance(value, int):
            yield head, Number(value, unit="count")
        elif name in UNITS:
            yield head, Number(value, unit=UNITS[name])
        elif name == "p_value":
            yield head, Cell(p_value(value))
        elif name.endswith("gain"):
            yield head, Cell(_gain(value))
        else:
            ends = interval(values) if fields[index + 1 : index + 2] == ["low"] else ""
            yield head, Cell(share(value), ends)


def _violations(total: Total) -> Cell:
    return Cell(share(total.violation_rate), f"{count(total.violations)} of {count(total.classes)}")


def _error_inducing(total: Total) -> Cell:
    return Cell(share(total.error_rate), f"{count(total.error_inducing)} of {count(total.tests)}")


def _gain(percents: float | None) -> str:
    return UNDEFINED if percents is None else f"{percents:+.0f}{SPACE}%".replace("-", "−")


def _quality(quality: ImageQuality) -> Section:
    operators = list(dict.fromkeys(name for row in quality.measures for name in row.operators))
    columns: Columns = {
        "measure": lambda row: QUALITIES.get(row.name, row.name),
        "original": lambda row: _number(row.original),
        "mutated": lambda row: _number(row.mutated),
        **{WORDS[name]: partial(_of_operator, operator=name) for name in operators},
        "p": lambda row: UNDEFINED if row.test is None else p_value(row.test.p_value),
    }
    about = (
        f"Measures of libraries over {count(quality.pictures)} mutated pictures, without people:"
        " they react to blur and noise, not to whether a scene makes sense."
    )
    table = table_of(quality.measures, columns)
    notes = Notes(quality.messages)
    return Section(
        "Quality of the pictures", [Text(about, "note"), table, notes] if table else [notes]
    )


def _of_operator(row: QualityMeasure, operator: Mutation) -> Number:
    return _number(row.operators.get(operator))


def _number(value: float | None) -> Number:
    return Number(value, unit="number")


def share(value: float | None) -> str:
    """Write errors per object: not a share, so it may be negative or above 100 %."""
    if value is None:
        return UNDEFINED
    return percent(0.0 if abs(value) < TINY else value)


def p_value(p: float | None) -> str:
    """Write a p value; a tiny one is only called small."""
    if p is None:
        return UNDEFINED
    return f"<{SPACE}0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
