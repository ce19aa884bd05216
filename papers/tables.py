"""Cells of a table beside the paper's, and the files that are written of it.

A `Cell` holds what was measured. `experiment_document` computes means, intervals and ratios once,
and everything that shows them reads only that document.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from math import isfinite
from pathlib import Path
from statistics import median

import msgspec

from fairprobe.documents import encode
from fairprobe.errors import SettingError, StorageError
from fairprobe.escapes import spreadsheet_cell
from fairprobe.statistics.repeats import CONFIDENCE, Repeats, t_test
from fairprobe.storage import write_text
from papers import paper
from papers.document import (
    CellDocument,
    Center,
    ExperimentDocument,
    Figure,
    Measure,
    Provenance,
    Row,
)
from papers.page import markdown, page

TITLES = {  # as their papers spell them
    "neuronfair": "NeuronFair",
    "adf": "ADF",
    "eidig": "EIDIG",
    "aequitas": "Aequitas",
    "symbgen": "SymbGen",
    "themis": "Themis",
    "random": "Random",
    "probe": "Probe",
    "adult": "Adult",
    "german": "German Credit",
    "bank": "Bank",
    "compas": "COMPAS",
    "meps": "MEPS",
}
COLUMNS = (  # of the CSV file
    *("dataset", "sensitive", "method", "variant", "measure"),
    *("mean", "median", "sd", "low", "high", "repeats"),
    *("paper", "ratio", "p_value", "against", "values", "failed"),
)


@dataclass(frozen=True)
class Cell:
    """One of our numbers with its repeats, beside the paper's. Values that are not finite are left
    out of the mean, and counted.
    """

    dataset: str
    sensitive: str
    method: str
    variant: str
    measure: str
    values: tuple[float, ...] = ()  # one for each repeat
    paper: float | None = None
    failed: str = ""  # why a repeat has no number: "not fetched", "failed: out of memory"
    against: tuple[str, float] | None = None  # the reference method and the p value of the t-test
    interval: tuple[float, float] | None = None  # of a number that is not a mean of repeats

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        return self.dataset, self.sensitive, self.method, self.variant, self.measure

    def to_document(self, center: Center = "mean") -> CellDocument:
        repeats = Repeats(tuple(float(value) for value in self.values if isfinite(value)))
        low, high = self.interval or repeats.interval or (None, None)
        middle = median(repeats.values) if repeats.values else None
        shown = repeats.mean if center == "mean" else middle
        missing = len(self.values) - repeats.n
        undefined = "not defined" if missing else ""
        if missing and repeats.n:
            undefined += f" in {missing} of {len(self.values)} repeats, which are left out"
        return CellDocument(
            dataset=self.dataset,
            sensitive=self.sensitive,
            method=self.method,
            variant=self.variant,
            measure=self.measure,
            values=[float(value) if isfinite(value) else None for value in self.values],
            repeats=repeats.n,
            mean=repeats.mean,
            median=middle,
            sd=repeats.sd,
            low=low,
            high=high,
            paper=self.paper,
            ratio=shown / self.paper if shown is not None and self.paper else None,
            against=self.against[0] if self.against else None,
            p_value=self.against[1] if self.against else None,
            failed=self.failed or undefined,
        )


def experiment_document(
    title: str,
    measures: Sequence[Measure],
    cells: Sequence[Cell],
    *,
    intro: str = "",
    notes: Sequence[str] = (),
    figures: Sequence[Figure] = (),
    about: Provenance | None = None,
    citation: str = paper.NEURONFAIR,
    titles: Mapping[str, str] | None = None,
    center: Center = "mean",
    rows: Row = "subject",
) -> ExperimentDocument:
    """The document of an experiment, with all numbers computed.

    `titles` says how names are printed, `center` which number stands for the repeats, `rows`
    whether a row is a subject or a subject and a variant.
    """
    known = {measure.key for measure in measures}
    seen: set[tuple[str, ...]] = set()
    for cell in cells:
        if cell.measure not in known:
            raise SettingError(
                f"A cell has the measure '{cell.measure}', which the table does not have:"
                f" {', '.join(sorted(known))}."
            )
        if cell.place in seen:
            raise SettingError(
                f"Two cells have the same place: {', '.join(cell.place)}. Give each method or"
                " variant its own name."
            )
        seen.add(cell.place)
    return ExperimentDocument(
        confidence=CONFIDENCE,
        center=center,
        rows=rows,
        title=title,
        intro=intro,
        citation=citation,
        titles={**TITLES, **(titles or {})},
        measures=measures,
        cells=[cell.to_document(center) for cell in cells],
        notes=notes,
        figures=figures,
        about=about or Provenance(),
    )


def compare_with(cells: Iterable[Cell], reference: str, variant: str = "") -> list[Cell]:
    """The cells, each with its p value against the reference method on the same data set, attribute
    and measure, where both were repeated.
    """
    cells = list(cells)
    name = f"{reference} ({variant})" if variant else reference
    values = {
        (cell.dataset, cell.sensitive, cell.measure): _finite(cell)
        for cell in cells
        if (cell.method, cell.variant) == (reference, variant)
    }

    def compared(cell: Cell) -> Cell:
        other = values.get((cell.dataset, cell.sensitive, cell.measure))
        if other is None or (cell.method, cell.variant) == (reference, variant):
            return cell
        p_value = t_test(_finite(cell), other)
        return cell if p_value is None else replace(cell, against=(name, p_value))

    return [compared(cell) for cell in cells]


def _finite(cell: Cell) -> list[float]:
    return [value for value in cell.values if isfinite(value)]


# -- files -----------------------------------------------------------------------------------------


def write(document: ExperimentDocument, folder: Path, name: str) -> list[Path]:
    """Write name.md, name.csv, name.html and name.json, each atomically."""
    texts = {
        "md": markdown(document),
        "csv": csv_text(document),
        "html": page(document),
        "json": encode(document).decode(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot create the folder {folder}: {error.strerror}. Choose another place."
        ) from error
    paths = [folder / f"{name}.{ending}" for ending in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        write_text(path, text)
    return paths


def csv_text(document: ExperimentDocument) -> str:
    """The long format, one line for each cell. A missing number is empty; repeats are separated by
    semicolons.
    """
    text = StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for cell in document.cells:
        values = ";".join("nan" if value is None else repr(value) for value in cell.values)
        row = {**msgspec.structs.asdict(cell), "values": values}
        writer.writerow({name: spreadsheet_cell(value) for name, value in row.items()})
    return text.getvalue()
