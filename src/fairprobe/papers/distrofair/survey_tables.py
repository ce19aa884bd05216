"""DistroFair's tables 5 and 10 and its figure 4, from surveys: which pictures were shown, and how
real people found them.

A survey is a folder with the files that `fairprobe scenes` or `fairprobe mix-surveys` writes; the
CSV files of its participants lie in its folder `answers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from fairprobe.documents.experiment import Bar, BarGroup, Bars, Figure, Measure, Provenance
from fairprobe.documents.survey import Rating, SurveyKey, SurveyPicture
from fairprobe.errors import DataError
from fairprobe.papers.base import Plan
from fairprobe.papers.distrofair.answers import (
    QUESTIONS,
    TOP,
    Rated,
    rating_row,
    read_answers,
    valid_ratings,
)
from fairprobe.papers.distrofair.runs import (
    DATASETS,
    MUTATIONS,
    SceneExperiment,
    known_dataset,
    named_folder,
)
from fairprobe.papers.distrofair.survey import REAL, read_key
from fairprobe.papers.jobs import Outcome
from fairprobe.papers.tables import Cell

ANSWERS = "answers"
EVERY, INDUCING = "every", "inducing"
TITLES: Mapping[str, str] = {
    **SceneExperiment.titles,
    EVERY: "all pictures",
    INDUCING: "error-inducing pictures",
    REAL: "real pictures",
}


class SurveyExperiment(SceneExperiment):
    """Made from surveys."""

    titles = TITLES

    def provenance(self, plan: Plan) -> Provenance:
        keys = [key for _, key in keys_of(plan)]
        return Provenance(scale=f"{sum(len(key.pictures) for key in keys)} pictures")


class Table5(SurveyExperiment):
    """The pictures of the study."""

    name = "distrofair-table5"
    title = "DistroFair, Table 5: pictures of the user study"
    about = "Pictures shown to participants, by data set and mutation."
    table = "table5"
    measures = (Measure("images", "Pictures", "count"),)

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
    title = "DistroFair, Table 10: realism and likelihood"
    about = "Mean ratings from 0 to 10 by valid participants, and their ratio to real pictures."
    table = "table10"
    measures = (
        Measure("realism", "Realism", "number", "From 0 to 10."),
        Measure("likelihood", "Likelihood of the scene", "number", "From 0 to 10."),
        Measure("realism_ratio", "Realism, of that of real pictures", "share"),
        Measure("likelihood_ratio", "Likelihood, of that of real pictures", "share"),
    )
    remarks = (
        "Ratings of one participant or of one picture are not independent; no interval is given.",
    )

    def measured(self, plan: Plan) -> Sequence[Cell]:
        rated = ratings_of(plan)
        datasets = sorted({picture.dataset for picture, _ in rated})
        cells: list[Cell] = []
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
    title = "DistroFair, Figure 4: how often each score of realism was given"
    about = "Answers of valid participants on real and on mutated pictures."
    table = "figure4"
    measures = (
        Measure("answers", "Answers", "count"),
        Measure("low", "Scores from 0 to 3", "share", "Pictures that do not look real."),
    )
    kinds: ClassVar[tuple[str, str]] = (REAL, MUTATIONS)
    remarks = ("The paper's bars have no numbers. Its axis begins at 1, its scale at 0.",)

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

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Figure]:
        del outcome
        counts = {kind: Counter(map(round, own)) for kind, own in self._scores(plan).items()}
        groups = [
            BarGroup(
                str(score),
                [
                    Bar("real" if kind == REAL else "mutated", counts[kind][score])
                    for kind in self.kinds
                ],
            )
            for score in range(TOP + 1)
        ]
        return [Bars("Figure 4: scores of realism", groups, "score", "count")]

    def _scores(self, plan: Plan) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {kind: [] for kind in self.kinds}
        for picture, one in ratings_of(plan):
            found[REAL if picture.operator == REAL else MUTATIONS].append(one.realism)
        return found


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


def ratings_of(plan: Plan) -> Rated:
    """The answers of valid participants to all surveys."""
    rated: Rated = []
    for folder, key in keys_of(plan):
        paths = sorted((folder / ANSWERS).glob("*.csv"))
        if not paths:
            raise DataError(
                f"There are no answers in {folder / ANSWERS}. Put the CSV files of the participants"
                " there, as the survey's page gives them."
            )
        rated += valid_ratings(key, read_answers(paths, key)).rated
    return rated
