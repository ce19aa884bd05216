"""The realism study: choose and order its pictures, and write its page.

Rajan et al., "Distribution-aware fairness test generation", Journal of Systems and Software, 2024
(section 4.2, table 5).

Half of the pictures are mutated, as many by each operator, half are their originals. Each is rated
from 0 to 10 for realism and for how likely its scene is. Consecutive pictures never have the same
operator, and a mutant is never next to its original. (Originals have no operator and may follow
each other: otherwise real and mutated would alternate, and participants would soon know which is
which.)

As in the paper, four of five mutants make some recognizer err (24 of 30, table 5), where there are
so many. Pictures of several runs can be mixed in one study (`mix_surveys`; the paper has 20 of
MS-COCO and 10 of Cityscapes).
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from markupsafe import Markup
from PIL import Image
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from fairprobe.arrays import Floats
from fairprobe.documents.files import file_in, read_bytes
from fairprobe.errors import SettingError, StorageError
from fairprobe.report.html import environment
from fairprobe.results import Count, Result, decode, encode
from fairprobe.scenes.audit import SceneAudit
from fairprobe.scenes.examples import data_url
from fairprobe.scenes.mutants import read_mutant
from fairprobe.storage import replacing, write_text

PAGE, KEY = "survey.html", "survey.json"
REAL = "real"  # in place of a mutant's operator
VEHICLES = frozenset({"car", "truck", "bus", "motorcycle"})
EACH = 10  # mutants of an operator
TRIES = 1000  # to find an order
INDUCING = 0.8  # of the mutants make some recognizer err: 24 of 30
SHOTS = "survey"  # the folder of the pictures as they are shown


class SurveyPicture(Result, frozen=True, kw_only=True):
    """A picture of the study. Participants see only its name, which reveals nothing; `is_inducing`
    mutants make some detector err, `vehicles` are by annotation, if known.
    """

    name: str
    image: str
    scene: str
    operator: str
    dataset: str
    is_inducing: bool
    vehicles: Count | None


class SurveyKey(Result, frozen=True, kw_only=True):
    """The pictures in the order in which they are shown, and messages about missing ones."""

    pictures: list[SurveyPicture]
    messages: list[str] = msgspec.field(default_factory=list)


class PagePicture(NamedTuple):
    """A picture of the page: its name, a data URL, and its size."""

    id: str
    src: str
    width: int
    height: int


def render_survey(title: str, study: str, pictures: Sequence[PagePicture]) -> str:
    """Render the page that asks people (section 4.2), with the pictures in this order.

    It holds its pictures and its one script and loads nothing; answers stay in the participant's
    browser, under `study`, until they are downloaded.
    """
    script = files("papers").joinpath("templates", "survey.js").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        environment("papers")
        .get_template("survey.html.j2")
        .render(
            title=title,
            study=study,
            pictures_shown=pictures,
            script=Markup(script),  # noqa: S704  (our own file)
            script_hash=f"'sha256-{digest}'",
        )
    )


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


def write_survey(
    audit: SceneAudit,
    folder: Path | str,
    *,
    each: int = EACH,
    inducing: float | None = INDUCING,
    seed: int = 0,
) -> Path:
    """Write the page that asks people how real the pictures of an audit are, with `each` mutants of
    each operator, of which a share `inducing` makes some recognizer err; and beside it the pictures
    and the key that says which is which.
    """
    evidence = audit.evidence
    key = choose(_candidates(audit), each=each, inducing=inducing, seed=seed)
    shots = []
    for one in key.pictures:
        image = (
            evidence.scenes.read(one.scene).image
            if one.operator == REAL
            else read_mutant(evidence.folder / one.image)
        )
        shots.append(base64.b64decode(data_url(image).partition(",")[2]))
    return _write(key, shots, Path(folder))


def mix_surveys(
    folders: Mapping[str, Path],
    out: Path | str,
    *,
    mix: Mapping[str, int] | None = None,
    each: int = EACH,
    inducing: float | None = INDUCING,
    seed: int = 0,
) -> Path:
    """One study from the surveys of several runs, by the name of their data set; `mix` is how many
    mutants of each are shown.
    """
    for name in mix or {}:
        if name not in folders:
            raise SettingError(f"No run has the name '{name}'. There are: {', '.join(folders)}.")
    shots: dict[tuple[str, str], bytes] = {}
    candidates = []
    for dataset, folder in folders.items():
        pictures = read_key(folder).pictures
        real = {one.scene: one for one in pictures if one.operator == REAL}
        for one in pictures:
            scene = f"{dataset}/{one.scene}"
            shots[scene, one.operator] = _read_shot(folder, one.name)
            if one.operator != REAL and one.scene in real:
                candidates.append(
                    Candidate(
                        scene=scene,
                        operator=one.operator,
                        image=f"{dataset}/{one.image}",
                        original=scene,
                        dataset=dataset,
                        is_inducing=one.is_inducing,
                        vehicles=one.vehicles,
                        original_vehicles=real[one.scene].vehicles,
                    )
                )
    key = choose(candidates, each=each, inducing=inducing, mix=mix, seed=seed)
    return _write(key, [shots[one.scene, one.operator] for one in key.pictures], Path(out))


def read_key(folder: Path) -> SurveyKey:
    """Which picture of a survey is which."""
    path = folder / KEY
    try:
        data = read_bytes(file_in(folder, KEY))
    except FileNotFoundError as error:
        raise StorageError(
            f"There is no {path}: {folder} is not a run of 'fairprobe audit-scenes', or it has too"
            " few pictures for a survey."
        ) from error
    return decode(data, SurveyKey, name=str(path))


def _read_shot(folder: Path, name: str) -> bytes:
    try:
        return read_bytes(file_in(folder, f"{SHOTS}/{name}.jpg"))
    except FileNotFoundError as error:
        raise StorageError(
            f"There is no {folder / SHOTS / name}.jpg: an earlier version wrote the survey. Run the"
            " same `fairprobe audit-scenes` command with --overwrite; no picture is made again."
        ) from error


def _write(key: SurveyKey, shots: Sequence[bytes], folder: Path) -> Path:
    pictures = []
    try:
        (folder / SHOTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot write into {folder}: {error.strerror}. Choose another folder."
        ) from error
    for one, shot in zip(key.pictures, shots, strict=True):
        with Image.open(BytesIO(shot)) as image:
            width, height = image.size
        source = f"data:image/jpeg;base64,{base64.b64encode(shot).decode()}"
        pictures.append(PagePicture(one.name, source, width, height))
        with replacing(folder / SHOTS / f"{one.name}.jpg") as part:
            part.write_bytes(shot)
    # The browser stores answers under this name; those to other pictures must not be reused.
    study = hashlib.sha256("".join(one.src for one in pictures).encode()).hexdigest()[:16]
    write_text(folder / PAGE, render_survey("How real are these pictures?", study, pictures))
    write_text(folder / KEY, encode(key).decode())
    return folder / PAGE


def _candidates(audit: SceneAudit) -> list[Candidate]:
    evidence = audit.evidence
    inducing = audit.inducing
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


def choose(
    candidates: Sequence[Candidate],
    *,
    each: int = EACH,
    inducing: float | None = None,
    mix: Mapping[str, int] | None = None,
    seed: int = 0,
) -> SurveyKey:
    """As many mutants of each operator, all of different scenes, with their originals, in a random
    order that reveals nothing. A share `inducing` of them makes some recognizer err, and `mix` says
    how many are of each data set, as far as there are so many.
    """
    if each < 1:
        raise SettingError(f"A survey needs at least one mutant of each operator; got {each}.")
    if inducing is not None and not 0 <= inducing <= 1:
        raise SettingError(f"The share of error-inducing pictures is from 0 to 1; got {inducing}.")
    rng = np.random.default_rng(seed)
    chosen, messages = _chosen(candidates, each, inducing, mix, rng)
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
    candidates: Sequence[Candidate],
    each: int,
    inducing: float | None,
    mix: Mapping[str, int] | None,
    rng: np.random.Generator,
) -> tuple[list[Candidate], list[str]]:
    """The pictures, and what of all that is wanted cannot be had."""
    operators = sorted({one.operator for one in candidates})
    in_order = sorted(candidates, key=lambda one: (one.scene, one.image))
    waiting: dict[tuple[str, str, str, bool], Candidate] = {}  # one of those that are alike
    for at in rng.permutation(len(in_order)):
        one = in_order[at]
        if mix is None or mix.get(one.dataset, 0):
            waiting.setdefault((one.scene, one.operator, one.dataset, one.is_inducing), one)
    wanted = None if inducing is None else round(inducing * each * len(operators))
    taken = _best(list(waiting.values()), operators, each, wanted, mix, rng)
    numbers = Counter(one.operator for one in taken)
    shares = Counter(one.dataset for one in taken)
    messages = [
        f"There were scenes for only {numbers[operator]} of {each} '{operator}' pictures."
        for operator in operators
        if numbers[operator] < each
    ]
    hits = sum(one.is_inducing for one in taken)
    if wanted is not None and hits != wanted:
        messages.append(f"{hits} mutants make a recognizer err, not {wanted}: there are no others.")
    messages += [
        f"{shares[name]} mutants are of {name}, not {number}."
        for name, number in (mix or {}).items()
        if shares[name] != number
    ]
    return taken, messages


def _best(
    waiting: Sequence[Candidate],
    operators: Sequence[str],
    each: int,
    wanted: int | None,
    mix: Mapping[str, int] | None,
    rng: np.random.Generator,
) -> list[Candidate]:
    """One of each scene at most, and no more of an operator or a data set than are wanted. Of all
    such choices those with the most pictures; of them those in which the rarest operator has most;
    then those with the number that makes a recognizer err; and of them a random one.

    An integer program: a variable for each candidate, the number of the rarest operator, and how
    many error-inducing ones are too few and too many.
    """
    if not waiting:
        return []
    size = len(waiting)
    rarest, too_few, too_many = np.eye(size + 3)[size:]

    def chosen(values: Iterable[bool]) -> Floats:
        return np.array([*values, 0, 0, 0], dtype=np.float64)

    names, of_scene = np.unique([one.scene for one in waiting], return_inverse=True)
    once = coo_array((np.ones(size), (of_scene, np.arange(size))), (len(names), size + 3))
    limits = [LinearConstraint(once, ub=1)]
    for operator in operators:
        own = chosen(one.operator == operator for one in waiting)
        limits += [LinearConstraint(own, ub=each), LinearConstraint(own - rarest, lb=0)]
    for name, number in (mix or {}).items():
        limits.append(LinearConstraint(chosen(one.dataset == name for one in waiting), ub=number))
    if wanted is not None:
        hits = chosen(one.is_inducing for one in waiting)
        limits.append(LinearConstraint(hits + too_few - too_many, lb=wanted, ub=wanted))
    bounds = Bounds(0, np.array([*np.ones(size), np.inf, np.inf, np.inf]))
    whole = np.ones(size + 3, dtype=np.int64)
    weights = np.array([*rng.random(size), 0, 0, 0])
    for cost in (-chosen(True for _ in waiting), -rarest, too_few + too_many, weights):
        found = milp(cost, integrality=whole, bounds=bounds, constraints=limits)
        values = np.rint(np.asarray(found.x, dtype=np.float64))  # nothing at all is a solution
        limits.append(LinearConstraint(cost, ub=float(cost @ values)))
    return [one for one, value in zip(waiting, values[:size], strict=True) if value]


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
