"""The realism study: choose and order its pictures, write its page, and evaluate the answers.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 4.2, table 5 and 10).

Half of the pictures are mutated, as many by each operator, half are their originals. Each is rated
from 0 to 10 for realism and for how likely its scene is. Consecutive pictures never have the same
operator, and a mutant is never next to its original. (Originals have no operator and may follow
each other: otherwise real and mutated would alternate, and participants would soon know which is
which.)

Participants are validated by counting vehicles: of the pictures with few vehicles, five on which
more than 75 % agree with the annotation are drawn, and a participant with three of the five right
(60 %) is valid. If participants agree on too few, the ones with most agreement are used.

The table has the form of the paper's table 10: mean ratings of real and mutated pictures and by
operator, of all pictures and of those that make some recognizer err, for each data set and in
total, and the ratio to the real ones in percent.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from fairprobe.audits.scenes import SceneAudit
from fairprobe.documents import decode, encode
from fairprobe.documents.base import RankTestDocument
from fairprobe.documents.survey import (
    Rating,
    RatingRow,
    SurveyEvaluation,
    SurveyKey,
    SurveyPicture,
)
from fairprobe.errors import DataError, SettingError, StorageError
from fairprobe.present.survey_page import PagePicture, render_survey
from fairprobe.scenes.examples import data_url
from fairprobe.scenes.mutants import read_mutant
from fairprobe.statistics.ranks import rank_test
from fairprobe.storage import write_text

PAGE, KEY = "survey.html", "survey.json"
REAL = "real"  # in place of a mutant's operator
QUESTIONS = ("realism", "likelihood")
COLUMNS = ("participant", "picture", *QUESTIONS, "vehicles")
VEHICLES = frozenset({"car", "truck", "bus", "motorcycle"})
EACH = 10  # mutants of an operator
TRIES = 1000  # to find an order
FEW = range(1, 5)  # vehicles that are easily counted
COUNTED = 5  # pictures by which a participant is validated
AGREED = 0.75  # of the participants must count as many vehicles as the annotation
RIGHT = 0.6  # of the counts make a participant valid
TOP = 10  # of the scale
SHOWN = 20  # bad lines of a file


# -- choosing --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """A mutant that could be shown, and its original; vehicles are by annotation, if known."""

    scene: str
    operator: str
    image: str
    original: str
    dataset: str = ""
    is_inducing: bool = False
    """Whether it makes some recognizer err."""
    vehicles: int | None = None
    original_vehicles: int | None = None


def write_survey(audit: SceneAudit, folder: Path | str, *, each: int = EACH, seed: int = 0) -> Path:
    """Write the page that asks people how real the pictures of an audit are, with `each` mutants of
    each operator, and beside it the key that says which picture is which.
    """
    evidence, key = audit.evidence, choose(_candidates(audit), each=each, seed=seed)
    pictures = []
    for one in key.pictures:
        image = (
            evidence.scenes.read(one.scene).image
            if one.operator == REAL
            else read_mutant(evidence.folder / one.image)
        )
        pictures.append(PagePicture(one.name, data_url(image), image.shape[1], image.shape[0]))
    # The browser stores answers under this name; those to other pictures must not be reused.
    study = hashlib.sha256("".join(one.src for one in pictures).encode()).hexdigest()[:16]
    page = Path(folder) / PAGE
    write_text(page, render_survey("How real are these pictures?", study, pictures))
    write_text(Path(folder) / KEY, encode(key).decode())
    return page


def _candidates(audit: SceneAudit) -> list[Candidate]:
    evidence = audit.evidence
    inducing = {test.image for one in audit.analyses if one.kind == "ood" for test in one.inducing}
    candidates = []
    for path, made in sorted(evidence.pictures().items()):
        task = made.task
        if task.kind != "ood":
            continue
        vehicles = sum(evidence.facts[task.scene].counts[label] for label in VEHICLES)
        change = {"insert": made.objects, "delete": -made.objects, "rotate": 0}[task.operator]
        candidates.append(
            Candidate(
                scene=task.scene,
                operator=task.operator,
                image=path,
                original=task.scene,
                dataset=audit.document.title,
                is_inducing=path in inducing,
                vehicles=vehicles + (change if task.label in VEHICLES else 0),
                original_vehicles=vehicles,
            )
        )
    return candidates


def choose(candidates: Sequence[Candidate], *, each: int = EACH, seed: int = 0) -> SurveyKey:
    """As many mutants of each operator, all of different scenes, with their originals, in a random
    order that reveals nothing.
    """
    if each < 1:
        raise SettingError(f"A survey needs at least one mutant of each operator; got {each}.")
    rng = np.random.default_rng(seed)
    chosen, messages = _chosen(candidates, each, rng)
    pictures = [
        SurveyPicture(
            name="",
            image=image,
            scene=one.scene,
            operator=operator,
            dataset=one.dataset,
            is_inducing=is_inducing,
            vehicles=vehicles,
        )
        for one in chosen
        for image, operator, is_inducing, vehicles in (
            (one.image, one.operator, one.is_inducing, one.vehicles),
            (one.original, REAL, False, one.original_vehicles),
        )
    ]
    for _ in range(TRIES):
        order = _order(pictures, rng)
        if order:
            width = len(str(len(order)))
            named = [
                msgspec.structs.replace(one, name=f"p{at:0{width}}")
                for at, one in enumerate(order, start=1)
            ]
            return SurveyKey(pictures=named, messages=messages)
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
    """A random order, one picture after another; empty at a dead end."""
    left = list(pictures)
    order: list[SurveyPicture] = []
    while left:
        fitting = [at for at, one in enumerate(left) if not order or _may_follow(one, order[-1])]
        if not fitting:
            return []
        order.append(left.pop(fitting[int(rng.integers(len(fitting)))]))
    return order


def _may_follow(one: SurveyPicture, before: SurveyPicture) -> bool:
    """Neither a mutant next to its original, nor two mutants of one operator."""
    return one.scene != before.scene and (one.operator == REAL or one.operator != before.operator)


# -- reading answers -------------------------------------------------------------------------------


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
    path = folder / KEY
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StorageError(
            f"There is no {path}: {folder} is not a run of 'fairprobe scenes', or it has too few"
            " pictures for a survey."
        ) from error
    key = decode(data, SurveyKey, name=str(path))
    return evaluate(key, read_answers(answers, key))


def evaluate(key: SurveyKey, answers: Answers, *, seed: int = 0) -> SurveyEvaluation:
    """The ratings of the valid participants."""
    if not answers.answers:
        raise DataError(f"There is no usable answer. {' '.join(answers.messages)}".rstrip())
    participants = sorted({one.participant for one in answers.answers})
    counted, messages = _counted(
        key, answers.answers, len(participants), np.random.default_rng(seed)
    )
    valid = _valid(key, answers.answers, participants, counted)
    pictures = {picture.name: picture for picture in key.pictures}
    rated = [(pictures[one.picture], one) for one in answers.answers if one.participant in valid]
    operators = sorted({picture.operator for picture in key.pictures} - {REAL})
    datasets = sorted({picture.dataset for picture in key.pictures})
    total = _row("total", rated, operators)
    rows = [
        _row(name, [one for one in rated if one[0].dataset == name], operators)
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
        tests[question] = RankTestDocument(**vars(rank_test(real, mutated)))
    return SurveyEvaluation(
        participants=len(participants),
        valid=valid,
        counted=counted,
        rows=[*rows, total, _ratios(total)],
        tests=tests,
        messages=[*answers.messages, *messages],
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


def _row(
    name: str, rated: Sequence[tuple[SurveyPicture, Answer]], operators: Sequence[str]
) -> RatingRow:
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
