"""What the terminal shows of a scenes audit."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from fairprobe.documents.scenes import AnalysisDocument, Comparisons, ScenesDocument
from fairprobe.present.scene_comparisons import ORACLES, looks_real
from fairprobe.present.table import UNDEFINED, Table
from fairprobe.report.formats import count


def scenes_summary(document: ScenesDocument) -> RenderableType:
    """The verdict and a table for each recognizer. Sentences must not be cropped: the terminal
    wraps them.
    """
    sentences = (
        Text(sentence, no_wrap=True, overflow="ignore")
        for sentence in (document.verdict, *document.details)
    )
    return Group(*sentences, Text(), class_tables(document.results, document.comparisons))


def class_tables(results: Sequence[AnalysisDocument], comparisons: Comparisons) -> RenderableType:
    """For each recognizer how many classes lie above the mean and which are shown to fail more, and
    how many mutants look real, in 80 columns.
    """
    unusual = [one for one in results if one.kind == "ood"]
    parts: list[RenderableType] = []
    for name in dict.fromkeys(one.detector for one in unusual):
        rows = [
            (
                one.operator,
                ORACLES[one.oracle].title.lower().removesuffix(" objects"),
                str(len(one.classes)),
                str(len(one.violations)),
                f"{one.error_rate:.1%}",
                count(one.tests),
                UNDEFINED
                if (real := looks_real(comparisons, one.operator)) is None
                else f"{real:.0%}",
                ", ".join(one.unfair) or UNDEFINED,
            )
            for one in unusual
            if one.detector == name
        ]
        head = ("mutation", "errors", "classes", "above\nthe mean", "error\nrate", "images",
                "look\nreal", "shown to fail more")  # fmt: skip
        table = Table(head, rows, words=(0, 1, 7)).terminal(unbroken=7)
        parts += [Text(name, style="bold"), table, Text()]
    return Group(*parts)
