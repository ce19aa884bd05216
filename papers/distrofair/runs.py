"""Scene runs as the rows of DistroFair's tables: which data set they are about, beside which of the
paper's numbers.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from fairprobe.errors import SettingError, StorageError
from fairprobe.report.formats import plural
from fairprobe.runs.store import read_run
from fairprobe.scenes.audit import ScenesRun
from papers import paper
from papers.base import Experiment, Plan, in_brackets
from papers.jobs import Job, Outcome
from papers.tables import Cell, ExperimentTable, Provenance

DATASETS, MUTATIONS, RECOGNIZERS = "all data sets", "all mutations", "all recognizers"
PAPER = {DATASETS: "all", MUTATIONS: "all", RECOGNIZERS: "all"}  # as the paper's numbers name them
# How the data sets of the paper are spelled, in small letters and without signs between them.
KNOWN = {
    "coco": re.compile(r"(ms|microsoft)?coco(train|val|test)?(14|17|2014|2017)?(train|val|test)?"),
    "cityscapes": re.compile(r"cityscapes?(dataset)?(train|val|test)?(bremen)?"),
}
NOTHING = "–"  # where the runs, or they and the paper, have no number
ORDER = ("insert", "delete", "rotate", MUTATIONS)


@dataclass(frozen=True)
class SceneRun:
    """A run of `fairprobe audit-scenes`, and the name of its data set."""

    dataset: str
    folder: Path
    document: ScenesRun


def read_runs(named: Iterable[str]) -> list[SceneRun]:
    """Read the runs of these folders; each is FOLDER, or NAME=FOLDER to name its data set.
    "MS-COCO", "coco_val2017" or "Cityscapes" is the paper's data set, "cocoa farm" another.
    """
    runs: list[SceneRun] = []
    for text in named:
        name, folder = named_folder(text)
        document = read_run(folder)
        if not isinstance(document, ScenesRun):
            raise StorageError(
                f"The run {folder} is an audit of {document.kind}. Name one of scenes, as"
                " `fairprobe audit-scenes` writes it."
            )
        known = known_dataset(name or document.title)
        for other in runs:
            twice = {one.name for one in document.detectors} & {
                one.name for one in other.document.detectors
            }
            if known == other.dataset and twice:
                raise SettingError(
                    f"{other.folder} and {folder} both test {sorted(twice)[0]} on '{known}'. If the"
                    f" data sets differ, name them: --run NAME={folder}."
                )
        runs.append(SceneRun(known, Path(folder), document))
    return runs


def named_folder(text: str) -> tuple[str, str]:
    """Split NAME=FOLDER; the name of a mere FOLDER is empty."""
    name, _, folder = text.rpartition("=")
    is_path = not name or Path(text).exists() or "/" in name  # the sign is a part of the path
    return ("", text) if is_path else (name, folder)


class SceneExperiment(Experiment):
    """A table made from runs that exist; it has no jobs."""

    from_runs = True
    citation = paper.PAPERS["DISTROFAIR"]
    printed_in: ClassVar[str]  # the name of the paper's table

    @abstractmethod
    def measured(self, plan: Plan) -> Sequence[Cell]:
        """Return our numbers, without the paper's."""

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        del plan
        return ()

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        """Return our numbers, each beside the paper's; then those that only the paper has. Totals
        are last.
        """
        del outcome
        ours = [self.beside(cell) for cell in self.measured(plan)]
        places = {cell.place for cell in ours}
        others = [cell for cell in self.printed() if cell.place not in places]
        return _whole(ours, others)

    def beside(self, cell: Cell) -> Cell:
        """Add the paper's number."""
        names = (cell.dataset, cell.sensitive, cell.variant, cell.method, cell.measure)
        key = (f"distrofair-{self.printed_in}", *(PAPER.get(name, name) for name in names))
        return replace(cell, paper=paper.values().get(key))

    def printed(self) -> list[Cell]:
        """Return the paper's numbers without ours."""
        keys = {measure.key for measure in self.measures}
        return [
            Cell(
                _named(one.dataset, DATASETS),
                _named(one.sensitive, MUTATIONS),
                _named(one.method, RECOGNIZERS),
                one.phase,
                one.measure,
                paper=one.value,
                failed=NOTHING,
            )
            for one in paper.figures(f"distrofair-{self.printed_in}")
            if one.measure in keys
        ]

    def table(
        self, plan: Plan, outcome: Outcome, about: Provenance | None = None
    ) -> ExperimentTable:
        """Tabulate what the runs show, and when and how they were made."""
        del about
        return super().table(plan, outcome, self.provenance(plan))

    def size(self, plan: Plan, about: Provenance) -> str:
        """Return scenes and recognizers, and what the runs have of repeats, seed and commit."""
        del plan
        repeats = [plural(about.repeats, "repeat")] if about.repeats else []
        seed = [] if about.seed is None else [f"seed {about.seed}"]
        return in_brackets([about.scale, *repeats, *seed], about)

    def provenance(self, plan: Plan) -> Provenance:
        """Describe all runs together."""
        runs = read_runs(plan.runs)
        documents = [run.document for run in runs]
        recognizers = len({one.name for document in documents for one in document.detectors})
        versions = {name: text for one in documents for name, text in one.versions.items()}
        if "commit" in versions:
            commits = {one.versions.get("commit", "unknown") for one in documents}
            versions["commit"] = " and ".join(sorted(commits))
        return Provenance(
            date=max((one.created for one in documents), default="")[:10],
            scale="; ".join(
                f"{run.document.data.scenes} scenes of {self.titles.get(run.dataset, run.dataset)}"
                for run in runs
            )
            + f", {plural(recognizers, 'recognizer')}",
            repeats=max((one.repeats for one in documents), default=0),
            seed=documents[0].seed if len({one.seed for one in documents}) == 1 else None,
            seconds=round(sum(sum(one.seconds.values()) for one in documents)),
            versions=versions,
        )


def _whole(ours: Sequence[Cell], others: Sequence[Cell]) -> list[Cell]:
    """All cells in the order of rows and columns, our own before the paper's and totals last; a
    place without a number says so.
    """
    cells = {cell.place: cell for cell in (*ours, *others)}
    datasets, methods = (
        sorted(
            dict.fromkeys(getattr(cell, name) for cell in cells.values()),
            key=lambda name: name in (DATASETS, RECOGNIZERS),
        )
        for name in ("dataset", "method")
    )
    rows = dict.fromkeys((cell.dataset, cell.sensitive, cell.variant) for cell in cells.values())
    operators = {name: at for at, name in enumerate(ORDER)}
    ordered = sorted(
        rows, key=lambda row: (datasets.index(row[0]), operators.get(row[1], -1), row[2])
    )
    found = []
    for measure in dict.fromkeys(cell.measure for cell in cells.values()):
        own = {cell.place for cell in cells.values() if cell.measure == measure}
        shown = {place[2] for place in own}
        for row in ordered:
            if any((place[0], place[1], place[3]) == row for place in own):
                for method in (name for name in methods if name in shown):
                    place = (row[0], row[1], method, row[2], measure)
                    found.append(cells.get(place) or Cell(*place, failed=NOTHING))
    return found


def known_dataset(name: str) -> str:
    """The paper's name of a data set, where it is one of the paper's."""
    plain = re.sub(r"[\W_]+", "", name.casefold())
    return next((one for one, spelling in KNOWN.items() if spelling.fullmatch(plain)), name)


def _named(name: str, total: str) -> str:
    return total if name == "all" else name
