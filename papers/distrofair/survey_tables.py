"""DistroFair's tables 5 and 10 and its figure 4, from surveys: which pictures were shown, and how
real people found them.

A survey is a folder with the files that `python -m papers survey-page` or `mix-surveys` writes; the
CSV files of its participants lie in its folder `answers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log10
from pathlib import Path
from typing import ClassVar

import msgspec

from fairprobe.errors import DataError
from fairprobe.report import Plot
from fairprobe.results import RankTest
from papers.base import Plan
from papers.distrofair.answers import (
    QUESTIONS,
    TOP,
    Rated,
    Rating,
    ValidRatings,
    evaluate_survey,
    rating_row,
    read_answers,
    valid_ratings,
)
from papers.distrofair.runs import (
    DATASETS,
    MUTATIONS,
    RECOGNIZERS,
    SceneExperiment,
    SceneRun,
    known_dataset,
    named_folder,
    read_runs,
)
from papers.distrofair.survey import REAL, SurveyKey, SurveyPicture, read_key
from papers.jobs import Outcome
from papers.page import grouped_bars
from papers.tables import Cell, Provenance

ANSWERS = "answers"
EVERY, INDUCING = "every", "inducing"


class SurveyExperiment(SceneExperiment):
    """A table made from surveys."""

    def provenance(self, plan: Plan) -> Provenance:
        keys = [key for _, key in keys_of(plan)]
        return Provenance(scale=f"{sum(len(key.pictures) for key in keys)} pictures")


class Table5(SurveyExperiment):
    """The pictures of the study."""

    name = "distrofair-table5"
    printed_in = "table5"

    def measured(self, plan: Plan) -> Sequence[Cell]:
        counts: Counter[tuple[str, str, str]] = Counter()
        for _, key in keys_of(plan):
            for one in key.pictures:
                kinds = [EVERY, INDUCING] if one.is_inducing else [EVERY]
                rows = [one.operator] if one.operator == REAL else [one.operator, MUTATIONS]
                for dataset in (one.dataset, DATASETS):
                    counts.update((dataset, row, kind) for row in rows for kind in kinds)
        return [
            Cell(dataset, row, kind, "", "images", (float(count),))
            for (dataset, row, kind), count in counts.items()
        ]


class Table10(SurveyExperiment):
    """How real and how likely the pictures look."""

    name = "distrofair-table10"
    printed_in = "table10"

    def measured(self, plan: Plan) -> Sequence[Cell]:
        found = ratings_of(plan)
        rated = [one for ratings in found for one in ratings.rated]
        datasets = sorted({picture.dataset for picture, _ in rated})
        people = (
            ("participants", sum(one.participants for one in found)),
            ("valid", sum(len(one.valid) for one in found)),
        )
        cells = [Cell(DATASETS, "", kind, "", "participants", (float(n),)) for kind, n in people]
        for dataset in (*datasets, DATASETS):
            own = [one for one in rated if dataset in (one[0].dataset, DATASETS)]
            cells += self._row(dataset, own)
        return cells

    def _row(self, dataset: str, rated: Rated) -> Iterator[Cell]:
        operators = sorted({picture.operator for picture, _ in rated} - {REAL})
        row = rating_row(dataset, rated, operators)
        for question in QUESTIONS:
            groups: dict[str, Rating] = getattr(row, question)
            real = groups[REAL].mean
            for group, rating in groups.items():
                name = MUTATIONS if group == "mutated" else group
                for kind, value in ((EVERY, rating.mean), (INDUCING, rating.inducing)):
                    if value is None:
                        continue
                    yield Cell(dataset, name, kind, "", question, (value,))
                    if real and group != REAL and dataset == DATASETS:
                        ratio = f"{question}_ratio"
                        yield Cell(dataset, name, kind, "", ratio, (value / real,))


class Figure4(SurveyExperiment):
    """The histogram of the ratings of realism."""

    name = "distrofair-figure4"
    printed_in = "figure4"
    kinds: ClassVar[tuple[str, str]] = (REAL, MUTATIONS)

    def measured(self, plan: Plan) -> Sequence[Cell]:
        cells = []
        for kind, scores in self._scores(plan).items():
            low = sum(score <= 3 for score in scores) / len(scores) if scores else None
            for key, value in (("answers", float(len(scores))), ("low", low)):
                cells.append(
                    Cell(DATASETS, kind, EVERY, "", key, () if value is None else (value,))
                )
        return cells

    def printed(self) -> list[Cell]:
        return []

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Plot]:
        del outcome
        counts = {kind: Counter(map(round, own)) for kind, own in self._scores(plan).items()}
        names = {REAL: "real", MUTATIONS: "mutated"}
        groups = {
            str(score): {names[kind]: float(counts[kind][score]) for kind in self.kinds}
            for score in range(TOP + 1)
        }
        return [grouped_bars("Figure 4: scores of realism", groups, "score", kind="count")]

    def _scores(self, plan: Plan) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {kind: [] for kind in self.kinds}
        for ratings in ratings_of(plan):
            for picture, one in ratings.rated:
                found[REAL if picture.operator == REAL else MUTATIONS].append(one.realism)
        return found


class RankTests(SceneExperiment):
    """RQ2 and RQ4: whether mutants can be told from other pictures."""

    name = "distrofair-tests"
    printed_in = "tests"

    def measured(self, plan: Plan) -> Sequence[Cell]:
        cells: list[Cell] = []

        def add(dataset: str, row: str, method: str, *values: float | None) -> None:
            cells.extend(
                Cell(dataset, row, method, "", measure.key, () if value is None else (value,))
                for measure, value in zip(self.measures, values, strict=True)
            )

        runs = read_runs(plan.runs)
        for run in runs:
            found = run.document.comparisons
            # A single run is all that there is, and stands beside the paper's.
            datasets = (run.dataset, DATASETS) if len(runs) == 1 else (run.dataset,)
            for row, several in (("originals", found.ood_vs_original), ("usual", found.ood_vs_id)):
                for detector, test in several.items():
                    means = (test.first_mean, test.second_mean)
                    add(run.dataset, row, detector, *means, test.statistic, _power(test.p_value))
            for row, test in _looks(run):
                numbers = (test.second_mean, test.first_mean, test.statistic, _power(test.p_value))
                for dataset in datasets:
                    add(dataset, row, RECOGNIZERS, *numbers)
        return cells

    def beside(self, cell: Cell) -> Cell:
        """The paper prints p, not its logarithm."""
        if cell.measure != "log_p":
            return super().beside(cell)
        return replace(cell, paper=_power(super().beside(replace(cell, measure="p")).paper))

    def printed(self) -> list[Cell]:
        cells = super().printed()
        powers = (replace(cell, measure="log_p") for cell in cells if cell.measure == "u")
        return [*cells, *map(self.beside, powers)]


def _power(p: float | None) -> float | None:
    return log10(p) if p else None


def _looks(run: SceneRun) -> Iterator[tuple[str, RankTest]]:
    """How originals (first) and mutants look to people, and to CLIP with the paper's prompts."""
    quality = run.document.comparisons.quality
    for measure in quality.measures if quality else ():
        if measure.name == "clip_realism" and measure.test:
            yield "clip", measure.test
    paths = sorted((run.folder / ANSWERS).glob("*.csv"))
    if paths:
        yield "people", evaluate_survey(run.folder, paths).tests["realism"]


def keys_of(plan: Plan) -> list[tuple[Path, SurveyKey]]:
    """The surveys, with the paper's names of the data sets; NAME=FOLDER names the one of all its
    pictures.
    """
    found = []
    for text in plan.runs:
        name, folder = named_folder(text)
        key = read_key(Path(folder))

        def renamed(one: SurveyPicture, name: str = name) -> SurveyPicture:
            return msgspec.structs.replace(one, dataset=known_dataset(name or one.dataset))

        pictures = list(map(renamed, key.pictures))
        found.append((Path(folder), msgspec.structs.replace(key, pictures=pictures)))
    return found


def ratings_of(plan: Plan) -> list[ValidRatings]:
    """The answers of valid participants to each survey."""
    found = []
    for folder, key in keys_of(plan):
        paths = sorted((folder / ANSWERS).glob("*.csv"))
        if not paths:
            raise DataError(
                f"There are no answers in {folder / ANSWERS}. Put the CSV files of the participants"
                " there, as the survey's page gives them."
            )
        found.append(valid_ratings(key, read_answers(paths, key)))
    return found
