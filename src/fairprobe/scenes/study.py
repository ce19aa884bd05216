"""How good the mutated pictures are: measured by a library, and asked of people by a page that is
written with the run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairprobe.errors import DataError, FairprobeError, StorageError
from fairprobe.scenes.analysis import Analysis
from fairprobe.scenes.gathering import Evidence, OnStage
from fairprobe.scenes.making import Made, read_picture
from fairprobe.scenes.plan import drawn
from fairprobe.scenes.quality import Mutation, image_quality
from fairprobe.scenes.survey import REAL, Candidate, Survey, choose, evaluate, read_answers
from fairprobe.scenes.telling import as_source
from fairprobe.storage import write_text

MEASURING = "Measuring image quality"
MEASURED = 30  # pictures of an operator whose quality is measured
VEHICLES = frozenset({"car", "truck", "bus", "motorcycle"})
PAGE, KEY = "survey.html", "survey.json"


def quality(evidence: Evidence, progress: OnStage) -> dict[str, Any]:
    """The measures, and in sentences what could not be measured. An interrupt leaves them out, and
    keeps everything else.
    """
    try:
        return image_quality(_mutations(evidence, progress)).to_dict()
    except FairprobeError as error:
        return {"pictures": 0, "measures": [], "messages": [str(error)]}
    except KeyboardInterrupt:
        evidence.partial = True
        evidence.messages.append("Image quality was not measured, since the run was interrupted.")
        return {"pictures": 0, "measures": [], "messages": []}


def _mutations(evidence: Evidence, progress: OnStage) -> Iterator[Mutation]:
    """One after another: whoever takes the next has measured the one before."""
    sample = _sample(evidence)
    for done, made in enumerate(sample, start=1):
        yield Mutation(
            made.task.scene,
            made.task.operator,
            evidence.scenes.read(made.task.scene).image,
            read_picture(made.path),
        )
        progress(MEASURING, done, len(sample), f"{done:,} of {len(sample):,}")


def _sample(evidence: Evidence) -> list[Made]:
    """As many pictures of each operator, drawn by the seed."""
    rng = drawn(evidence.settings.asked.seed, "quality")
    found: list[Made] = []
    for operator in evidence.settings.asked.mutations:
        own = sorted(
            (
                one
                for one in evidence.made.values()
                if one.task.operator == operator and one.task.kind == "ood"
            ),
            key=_path,
        )
        found += [own[at] for at in sorted(rng.permutation(len(own))[:MEASURED])]
    return sorted(found, key=lambda made: made.task.scene)


def _path(made: Made) -> str:
    return str(made.path)


# -- asking people ---------------------------------------------------------------------------------


def survey_of(
    evidence: Evidence, found: Sequence[Analysis], title: str, *, each: int = 10, seed: int = 0
) -> Survey:
    """Mutants of all operators and their originals, in an order that gives nothing away."""
    inducing = {test.image for one in found if one.kind == "ood" for test in one.inducing}
    candidates = []
    for path, made in sorted(evidence.pictures().items()):
        task = made.task
        if task.kind != "ood":
            continue
        vehicles = sum(evidence.known[task.scene].counts[label] for label in VEHICLES)
        change = (
            {"insert": made.objects, "delete": -made.objects, "rotate": 0}[task.operator]
            if task.label in VEHICLES
            else 0
        )
        candidates.append(
            Candidate(
                scene=task.scene,
                operator=task.operator,
                image=path,
                original=task.scene,
                dataset=title,
                is_inducing=path in inducing,
                vehicles=vehicles + change,
                original_vehicles=vehicles,
            )
        )
    return choose(candidates, each=each, seed=seed)


def write_survey(evidence: Evidence, survey: Survey, folder: Path) -> Path:
    """The page for participants, and beside it the key that says which picture is what."""
    from fairprobe.present.survey_page import render_survey

    pictures = []
    for one in survey.pictures:
        image = (
            evidence.scenes.read(one.scene).image
            if one.operator == REAL
            else read_picture(evidence.folder / one.image)
        )
        pictures.append(
            {
                "id": one.name,
                "src": as_source(image),
                "width": image.shape[1],
                "height": image.shape[0],
            }
        )
    # Answers are kept in the browser under this name: those to other pictures must not be taken up.
    study = hashlib.sha256("".join(str(one["src"]) for one in pictures).encode()).hexdigest()[:16]
    write_text(
        folder / PAGE,
        render_survey(
            {"title": "How real are these pictures?", "study": study, "pictures": pictures}
        ),
    )
    write_text(folder / KEY, json.dumps(survey.to_dict(), indent=1, ensure_ascii=False) + "\n")
    return folder / PAGE


def evaluate_survey(folder: Path, answers: Sequence[Path]) -> dict[str, Any]:
    """What participants say of the pictures of a run, as plain data."""
    key = folder / KEY
    try:
        document = json.loads(key.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(
            f"There is no {key}: {folder} is no run of 'fairprobe scenes', or it has too few"
            " pictures for a survey."
        ) from error
    except ValueError as error:
        raise DataError(f"{key} is damaged. Make the run again.") from error
    survey = Survey.from_dict(document)
    return evaluate(survey, read_answers(answers, survey)).to_dict()
