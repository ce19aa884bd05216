"""What people say about the pictures of the realism study: read, validated and evaluated.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 4.2, table 10, figure 4).

Participants are validated by counting vehicles: of the pictures with few vehicles, five on which
more than 75 % agree with the annotation are drawn, and a participant with three of the five right
(60 %) is valid. If participants agree on too few, the ones with most agreement are used.

The table has the form of the paper's table 10: mean ratings of real and mutated pictures and by
operator, of all pictures and of those that make some recognizer err, for each data set and in
total, and the ratio to the real ones in percent.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rich.console import RenderableType

from fairprobe.errors import DataError
from fairprobe.report import Table
from fairprobe.report.sections import UNDEFINED
from fairprobe.report.terminal import table as in_terminal
from fairprobe.results import Count, RankTest, Result
from fairprobe.statistics.ranks import rank_test
from papers.distrofair.survey import REAL, SurveyKey, SurveyPicture, read_key

QUESTIONS = ("realism", "likelihood")
COLUMNS = ("participant", "picture", *QUESTIONS, "vehicles")
FEW = range(1, 5)  # vehicles that are easily counted
COUNTED = 5  # pictures by which a participant is validated
AGREED = 0.75  # of the participants must count as many vehicles as the annotation
RIGHT = 0.6  # of the counts make a participant valid
TOP = 10  # of the scale
SHOWN = 20  # bad lines of a file


class Rating(Result, frozen=True, kw_only=True):
    """The mean rating of some pictures, and of the error-inducing ones among them."""

    answers: Count
    mean: float | None
    inducing: float | None


class RatingRow(Result, frozen=True, kw_only=True):
    """A row of table 10: ratings of real and mutated pictures, and by operator.

    The row of ratios is in percent of the real pictures' ratings.
    """

    name: str
    realism: dict[str, Rating]
    likelihood: dict[str, Rating]


class SurveyEvaluation(Result, frozen=True, kw_only=True):
    """Ratings of the valid participants; `tests` compare real (first) and mutated pictures."""

    participants: Count
    valid: list[str]
    counted: list[str]
    """The pictures whose vehicles validate a participant."""
    rows: list[RatingRow]
    """Each data set if there are several, the total, and the ratio."""
    tests: dict[str, RankTest]
    messages: list[str]


@dataclass(frozen=True)
class Answer:
    """What one participant says about one picture."""

    participant: str
    picture: str
    realism: float
    likelihood: float
    vehicles: int | None


@dataclass(frozen=True)
class Answers:
    """The usable answers, and messages about the others."""

    answers: tuple[Answer, ...]
    messages: tuple[str, ...]


def read_answers(paths: Iterable[Path], key: SurveyKey) -> Answers:
    """The answers of these CSV files. What cannot be used is reported and left out."""
    known = {picture.name for picture in key.pictures}
    answers: dict[tuple[str, str], Answer] = {}
    messages: list[str] = []
    for path in paths:
        bad: list[str] = []
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                _read(csv.DictReader(file), known, answers, bad)
        except OSError as error:
            bad.append(f"it cannot be read: {error.strerror or error}.")
        except (UnicodeDecodeError, csv.Error):
            bad.append("it is not a CSV file in UTF-8. Save the answers again as CSV.")
        messages += [f"{path.name}: {one}" for one in bad[:SHOWN]]
        if len(bad) > SHOWN:
            messages.append(f"{path.name}: {len(bad) - SHOWN} more lines cannot be used.")
    return Answers(tuple(answers.values()), tuple(messages))


def _read(
    rows: csv.DictReader[str],
    known: set[str],
    answers: dict[tuple[str, str], Answer],
    bad: list[str],
) -> None:
    missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
    if missing:
        bad.append(
            f"it has no column {', '.join(missing)}, and is left out. Expected:"
            f" {', '.join(COLUMNS)}."
        )
        return
    for row in rows:
        try:
            answer = _answer(row, known)
        except DataError as error:
            bad.append(f"line {rows.line_num}: {error}")
            continue
        if (answer.participant, answer.picture) in answers:
            bad.append(
                f"line {rows.line_num}: {answer.participant} has answered for {answer.picture}"
                " before; the first answer counts."
            )
        else:
            answers[answer.participant, answer.picture] = answer


def _answer(row: Mapping[str, str | None], known: set[str]) -> Answer:
    participant, picture = ((row[column] or "").strip() for column in ("participant", "picture"))
    if not participant:
        raise DataError("the participant is missing.")
    if picture not in known:
        raise DataError(f"the survey has no picture '{picture}'.")
    realism, likelihood = (_rated(row[column], column) for column in QUESTIONS)
    vehicles = (row["vehicles"] or "").strip()
    if vehicles and not (vehicles.isascii() and vehicles.isdigit() and len(vehicles) < 10):
        raise DataError(f"vehicles must be a whole number or empty; got '{vehicles}'.")
    return Answer(participant, picture, realism, likelihood, int(vehicles) if vehicles else None)


def _rated(text: str | None, column: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = np.nan
    if not 0 <= value <= TOP:
        raise DataError(f"{column} must be a number from 0 to {TOP}; got '{text or ''}'.")
    return value


# -- evaluating ------------------------------------------------------------------------------------


def evaluate_survey(folder: Path, answers: Sequence[Path]) -> SurveyEvaluation:
    """Evaluate what participants say about the pictures of a run."""
    key = read_key(folder)
    return evaluate(key, read_answers(answers, key))


Rated: TypeAlias = list[tuple[SurveyPicture, Answer]]


@dataclass(frozen=True)
class ValidRatings:
    """The answers of valid participants, with their pictures."""

    rated: Rated
    participants: int
    valid: list[str]
    counted: list[str]
    messages: list[str]


def valid_ratings(key: SurveyKey, answers: Answers, *, seed: int = 0) -> ValidRatings:
    """Leave out participants who do not count vehicles well enough."""
    if not answers.answers:
        raise DataError(f"There is no usable answer. {' '.join(answers.messages)}".rstrip())
    participants = sorted({one.participant for one in answers.answers})
    rng = np.random.default_rng(seed)
    counted, messages = _counted(key, answers.answers, len(participants), rng)
    valid = _valid(key, answers.answers, participants, counted)
    pictures = {picture.name: picture for picture in key.pictures}
    rated = [(pictures[one.picture], one) for one in answers.answers if one.participant in valid]
    return ValidRatings(rated, len(participants), valid, counted, [*answers.messages, *messages])


def evaluate(key: SurveyKey, answers: Answers, *, seed: int = 0) -> SurveyEvaluation:
    """The ratings of the valid participants."""
    found = valid_ratings(key, answers, seed=seed)
    rated = found.rated
    operators = sorted({picture.operator for picture in key.pictures} - {REAL})
    datasets = sorted({picture.dataset for picture in key.pictures})
    total = rating_row("total", rated, operators)
    rows = [
        rating_row(name, [one for one in rated if one[0].dataset == name], operators)
        for name in datasets
        if len(datasets) > 1
    ]
    tests = {}
    for question in QUESTIONS:
        real, mutated = (
            [
                getattr(one, question)
                for picture, one in rated
                if (picture.operator == REAL) is is_real
            ]
            for is_real in (True, False)
        )
        tests[question] = rank_test(real, mutated)
    return SurveyEvaluation(
        participants=found.participants,
        valid=found.valid,
        counted=found.counted,
        rows=[*rows, total, _ratios(total)],
        tests=tests,
        messages=found.messages,
    )


def _counted(
    key: SurveyKey, answers: Sequence[Answer], participants: int, rng: np.random.Generator
) -> tuple[list[str], list[str]]:
    """The pictures that validate participants."""
    few = {picture.name: picture.vehicles for picture in key.pictures if picture.vehicles in FEW}
    if not few:
        return [], [
            "No picture has few vehicles by annotation, so participants could not be validated and"
            " all count."
        ]
    right = dict.fromkeys(sorted(few), 0)
    for one in answers:
        if one.picture in few and one.vehicles == few[one.picture]:
            right[one.picture] += 1
    agreed = [name for name, number in right.items() if number > AGREED * participants]
    if len(agreed) >= COUNTED:
        return sorted(rng.choice(agreed, size=COUNTED, replace=False).tolist()), []
    most = sorted(right, key=lambda name: (-right[name], name))[:COUNTED]
    message = (
        f"More than {AGREED:.0%} of the participants agree on the vehicles of {len(agreed)}"
        f" pictures, not of {COUNTED}; the {len(most)} with most agreement validate them."
    )
    return sorted(most), [message]


def _valid(
    key: SurveyKey, answers: Sequence[Answer], participants: Sequence[str], counted: Sequence[str]
) -> list[str]:
    true = {picture.name: picture.vehicles for picture in key.pictures if picture.name in counted}
    right = dict.fromkeys(participants, 0)
    for one in answers:
        if one.picture in true and one.vehicles == true[one.picture]:
            right[one.participant] += 1
    return [name for name in participants if right[name] >= RIGHT * len(counted)]


def rating_row(name: str, rated: Rated, operators: Sequence[str]) -> RatingRow:
    """A row of table 10."""
    groups = {REAL: {REAL}, "mutated": {*operators}, **{one: {one} for one in operators}}
    ratings = {
        question: {
            group: _rating(
                [
                    (getattr(one, question), picture.is_inducing)
                    for picture, one in rated
                    if picture.operator in members
                ]
            )
            for group, members in groups.items()
        }
        for question in QUESTIONS
    }
    return RatingRow(name=name, **ratings)


def _rating(values: Sequence[tuple[float, bool]]) -> Rating:
    inducing = [value for value, is_inducing in values if is_inducing]
    return Rating(
        answers=len(values),
        mean=float(np.mean([value for value, _ in values])) if values else None,
        inducing=float(np.mean(inducing)) if inducing else None,
    )


def _ratios(total: RatingRow) -> RatingRow:
    """In percent of the real pictures' rating."""

    def ratios(row: dict[str, Rating]) -> dict[str, Rating]:
        real = row[REAL].mean

        def ratio(value: float | None) -> float | None:
            return None if value is None or not real else 100 * value / real

        return {
            group: Rating(answers=one.answers, mean=ratio(one.mean), inducing=ratio(one.inducing))
            for group, one in row.items()
            if group != REAL
        }

    return RatingRow(
        name="ratio", realism=ratios(total.realism), likelihood=ratios(total.likelihood)
    )


def table(evaluation: SurveyEvaluation) -> RenderableType:
    """Tabulate mean ratings from 0 to 10 of real and mutated pictures and by mutation; the last row
    is in percent of the real ones.
    """
    columns = list(evaluation.rows[0].realism)
    rows = []
    for row in evaluation.rows:
        for question, ratings in (("realism", row.realism), ("likelihood", row.likelihood)):
            means = [ratings[column].mean if column in ratings else None for column in columns]
            cells = (UNDEFINED if mean is None else f"{mean:.2f}" for mean in means)
            rows.append((row.name, question, *cells))
    return in_terminal(Table(("pictures", "question", *columns), rows), unbroken=2)
