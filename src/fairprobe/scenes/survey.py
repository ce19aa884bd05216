"""The realism study: choosing and ordering its pictures, and evaluating the answers.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 4.2, table 5 and 10).

Half of the pictures are mutated, as many by each operator, half are their originals. Each is rated
from 0 to 10 for realism and for how likely its scene is. Consecutive pictures never have the same
operator, and a mutant is never next to its original. (Originals have no operator and may follow
each other: if they could not, real and mutated would alternate, and participants would soon know
which is which.)

Participants are validated by counting vehicles: of the pictures with few vehicles, five on which
more than 75 % agree with the annotation are drawn, and who has three of the five right (60 %) is
valid. Where participants agree on too few, the ones with most agreement are taken.

The table has the form of the paper's table 10: mean ratings of real and mutated pictures and by
operator, of all pictures and of those that make some recogniser err, for each data set and in
total, and the ratio to the real ones in per cent.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.errors import DataError, SettingError
from fairprobe.statistics.ranks import RankTest, rank_test

REAL = "real"  # stands where mutants have their operator
QUESTIONS = ("realism", "likelihood")
COLUMNS = ("participant", "picture", *QUESTIONS, "vehicles")
EACH = 10  # mutants of an operator
TRIES = 1000  # to find an order
FEW = range(1, 5)  # vehicles that are easily counted
COUNTED = 5  # pictures by which a participant is validated
AGREED = 0.75  # of the participants must see as many vehicles as the annotation
RIGHT = 0.6  # of the counts make a participant valid
TOP = 10  # of the scale
SHOWN = 20  # bad lines of a file


@dataclass(frozen=True)
class Candidate:
    """A mutant that could be shown, and its original. `vehicles` are by annotation; None: not
    known.
    """

    scene: str
    operator: str
    image: str
    original: str
    dataset: str = ""
    is_inducing: bool = False
    """Whether it makes some recogniser err."""
    vehicles: int | None = None
    original_vehicles: int | None = None


@dataclass(frozen=True)
class SurveyPicture:
    """A picture of the study. Its name is all that participants see of it, and says nothing."""

    name: str
    image: str
    scene: str
    operator: str
    dataset: str
    is_inducing: bool
    vehicles: int | None

    def may_follow(self, other: SurveyPicture) -> bool:
        """Neither a mutant beside its original, nor two mutants of one operator."""
        return self.scene != other.scene and (
            self.operator == REAL or self.operator != other.operator
        )


@dataclass(frozen=True)
class Survey:
    """The pictures in the order in which they are shown, and in sentences what could not be had."""

    pictures: tuple[SurveyPicture, ...]
    messages: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "pictures": [vars(picture) for picture in self.pictures],
            "messages": list(self.messages),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Survey:
        """Back from `to_dict`."""
        try:
            return cls(
                tuple(SurveyPicture(**picture) for picture in document["pictures"]),
                tuple(document.get("messages", ())),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                "This does not describe the pictures of a survey. Take the file that was written"
                " with its page."
            ) from error


# -- choosing --------------------------------------------------------------------------------------


def choose(candidates: Sequence[Candidate], *, each: int = EACH, seed: int = 0) -> Survey:
    """As many mutants of each operator, all of different scenes, with their originals, in a random
    order that gives nothing away.
    """
    if each < 1:
        raise SettingError(f"A survey needs at least one mutant of each operator; got {each}.")
    rng = np.random.default_rng(seed)
    chosen, messages = _chosen(candidates, each, rng)
    pictures = [
        picture
        for one in chosen
        for picture in (
            SurveyPicture(
                "", one.image, one.scene, one.operator, one.dataset, one.is_inducing, one.vehicles
            ),
            SurveyPicture(
                "", one.original, one.scene, REAL, one.dataset, False, one.original_vehicles
            ),
        )
    ]
    for _ in range(TRIES):
        order = _order(pictures, rng)
        if order:
            width = len(str(len(order)))
            return Survey(
                tuple(
                    SurveyPicture(**{**vars(one), "name": f"p{at:0{width}}"})
                    for at, one in enumerate(order, start=1)
                ),
                tuple(messages),
            )
    raise SettingError(
        f"{len(chosen)} mutated pictures are too few for an order in which none is next to its"
        " original. Mutate more scenes."
    )


def _chosen(
    candidates: Sequence[Candidate], each: int, rng: np.random.Generator
) -> tuple[list[Candidate], list[str]]:
    """In turns, so that operators share scarce scenes."""
    operators = sorted({one.operator for one in candidates})
    in_order = sorted(candidates, key=lambda one: (one.scene, one.image))
    waiting = [in_order[at] for at in rng.permutation(len(in_order))]
    taken: dict[str, Candidate] = {}
    numbers = dict.fromkeys(operators, 0)
    for _ in range(each):
        for operator in operators:
            free = next(
                (one for one in waiting if one.operator == operator and one.scene not in taken),
                None,
            )
            if free:
                taken[free.scene] = free
                numbers[operator] += 1
    messages = [
        f"There were scenes for only {number} of {each} '{operator}' pictures."
        for operator, number in numbers.items()
        if number < each
    ]
    return list(taken.values()), messages


def _order(pictures: Sequence[SurveyPicture], rng: np.random.Generator) -> list[SurveyPicture]:
    """One after another at random among those that may follow; nothing where it comes to a dead
    end.
    """
    left = list(pictures)
    order: list[SurveyPicture] = []
    while left:
        fitting = [at for at, one in enumerate(left) if not order or one.may_follow(order[-1])]
        if not fitting:
            return []
        order.append(left.pop(fitting[int(rng.integers(len(fitting)))]))
    return order


# -- reading answers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What one participant says of one picture."""

    participant: str
    picture: str
    realism: float
    likelihood: float
    vehicles: int | None


@dataclass(frozen=True)
class Answers:
    """All that could be used, and in sentences what could not."""

    answers: tuple[Answer, ...]
    messages: tuple[str, ...]


def read_answers(paths: Iterable[Path], survey: Survey) -> Answers:
    """The answers of these CSV files. What cannot be used is named and left out, and the rest goes
    on.
    """
    known = {picture.name for picture in survey.pictures}
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
    realism, likelihood = (_number(row[column], column) for column in QUESTIONS)
    vehicles = (row["vehicles"] or "").strip()
    if vehicles and not (vehicles.isascii() and vehicles.isdigit() and len(vehicles) < 10):
        raise DataError(f"vehicles must be a whole number or empty; got '{vehicles}'.")
    return Answer(participant, picture, realism, likelihood, int(vehicles) if vehicles else None)


def _number(text: str | None, column: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = np.nan
    if not 0 <= value <= TOP:
        raise DataError(f"{column} must be a number from 0 to {TOP}; got '{text or ''}'.")
    return value


# -- evaluating ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rating:
    """The mean rating of some pictures, and of those among them that make some recogniser err; None
    where there is no answer.
    """

    answers: int
    mean: float | None
    inducing: float | None


@dataclass(frozen=True)
class RatingRow:
    """A row of table 10: by question and then "real", "mutated" and each operator. In the row of
    ratios, per cent of the real ones.
    """

    name: str
    ratings: dict[str, dict[str, Rating]]

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **{
                question: {key: vars(one) for key, one in row.items()}
                for question, row in self.ratings.items()
            },
        }


@dataclass(frozen=True)
class Evaluation:
    """What the study says. `tests` compare real (first) and mutated pictures."""

    participants: int
    valid: tuple[str, ...]
    counted: tuple[str, ...]
    """The pictures whose vehicles validate a participant."""
    rows: tuple[RatingRow, ...]
    """Each data set, the total, and the ratio."""
    tests: dict[str, RankTest]
    messages: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "participants": self.participants,
            "valid": list(self.valid),
            "counted": list(self.counted),
            "rows": [row.to_dict() for row in self.rows],
            "tests": {question: test.to_dict() for question, test in self.tests.items()},
            "messages": list(self.messages),
        }


def evaluate(survey: Survey, answers: Answers, *, seed: int = 0) -> Evaluation:
    """Ratings of the valid participants."""
    if not answers.answers:
        raise DataError(
            f"There is no answer that can be used. {' '.join(answers.messages)}".rstrip()
        )
    participants = sorted({one.participant for one in answers.answers})
    counted, messages = _counted(
        survey, answers.answers, len(participants), np.random.default_rng(seed)
    )
    valid = _valid(survey, answers.answers, participants, counted)
    pictures = {picture.name: picture for picture in survey.pictures}
    rated = [
        (pictures[one.picture], one) for one in answers.answers if one.participant in set(valid)
    ]
    datasets = sorted({picture.dataset for picture in survey.pictures})
    total = _row("total", rated, survey)
    rows = (
        [_row(name, [one for one in rated if one[0].dataset == name], survey) for name in datasets]
        if len(datasets) > 1
        else []
    )
    tests = {
        question: rank_test(
            *(
                [
                    getattr(one, question)
                    for picture, one in rated
                    if (picture.operator == REAL) is real
                ]
                for real in (True, False)
            )
        )
        for question in QUESTIONS
    }
    return Evaluation(
        len(participants),
        tuple(valid),
        counted,
        (*rows, total, _ratios(total)),
        tests,
        (*answers.messages, *messages),
    )


def _counted(
    survey: Survey, answers: Sequence[Answer], participants: int, rng: np.random.Generator
) -> tuple[tuple[str, ...], list[str]]:
    """The pictures that validate participants."""
    few = {picture.name: picture.vehicles for picture in survey.pictures if picture.vehicles in FEW}
    if not few:
        return (), [
            "No picture has few vehicles by annotation, so participants could not be validated and"
            " all count."
        ]
    right = dict.fromkeys(sorted(few), 0)
    for one in answers:
        if one.picture in few and one.vehicles == few[one.picture]:
            right[one.picture] += 1
    agreed = [name for name, number in right.items() if number > AGREED * participants]
    if len(agreed) >= COUNTED:
        return tuple(sorted(rng.choice(agreed, size=COUNTED, replace=False).tolist())), []
    most = sorted(right, key=lambda name: (-right[name], name))[:COUNTED]
    message = (
        f"More than {AGREED:.0%} of the participants agree on the vehicles of {len(agreed)}"
        f" pictures, not of {COUNTED}; "
    )
    return tuple(sorted(most)), [message + f"the {len(most)} with most agreement validate them."]


def _valid(
    survey: Survey, answers: Sequence[Answer], participants: Sequence[str], counted: Sequence[str]
) -> list[str]:
    true = {
        picture.name: picture.vehicles for picture in survey.pictures if picture.name in counted
    }
    right = dict.fromkeys(participants, 0)
    for one in answers:
        if one.picture in true and one.vehicles == true[one.picture]:
            right[one.participant] += 1
    return [name for name in participants if right[name] >= RIGHT * len(counted)]


def _row(name: str, rated: Sequence[tuple[SurveyPicture, Answer]], survey: Survey) -> RatingRow:
    operators = sorted({picture.operator for picture in survey.pictures} - {REAL})
    groups: dict[str, set[str]] = {
        REAL: {REAL},
        "mutated": set(operators),
        **{operator: {operator} for operator in operators},
    }
    ratings = {}
    for question in QUESTIONS:
        ratings[question] = {
            key: _rating(
                [
                    (getattr(one, question), picture.is_inducing)
                    for picture, one in rated
                    if picture.operator in members
                ]
            )
            for key, members in groups.items()
        }
    return RatingRow(name, ratings)


def _rating(values: Sequence[tuple[float, bool]]) -> Rating:
    inducing = [value for value, is_inducing in values if is_inducing]
    return Rating(
        len(values),
        float(np.mean([value for value, _ in values])) if values else None,
        float(np.mean(inducing)) if inducing else None,
    )


def _ratios(total: RatingRow) -> RatingRow:
    """Per cent of the real pictures' rating."""

    def ratio(value: float | None, real: float | None) -> float | None:
        return None if value is None or not real else 100 * value / real

    ratings = {
        question: {
            key: Rating(
                one.answers, ratio(one.mean, row[REAL].mean), ratio(one.inducing, row[REAL].mean)
            )
            for key, one in row.items()
            if key != REAL
        }
        for question, row in total.ratings.items()
    }
    return RatingRow("ratio", ratings)
