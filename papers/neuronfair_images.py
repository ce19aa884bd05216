"""NeuronFair's tables 10 and 11: a face detector is searched for image IDIs and retrained with
them, each number beside its controls.

The paper's faces and detectors are not ours, so its numbers stand in rows of their own: CelebA and
LFW against ImageNet, with VGG16 and ResNet50. Whoever has those data names them, with a trunk
(`--set faces=… --set others=… --set trunk=vgg16`). Both tables are made of the same jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.datasets.image_sets import open_images
from fairprobe.errors import DataError, SettingError
from fairprobe.images.audit import audit_images
from fairprobe.images.measure import people
from fairprobe.images.models import DetectorSource
from fairprobe.images.repair import Measured, Task, fine_tuned, idi_pictures, measure
from fairprobe.images.run import Found, ImageAudit
from fairprobe.images.settings import ImageAuditSettings, search_settings
from fairprobe.results import Result
from fairprobe.runs.store import verdict_of
from papers import paper
from papers.base import Grid, Plan, Subject, Variant, faces_in, remark, require_paths, with_options
from papers.data.fetching import FACES_AND_OTHERS
from papers.jobs import Inputs, Job, Outcome, Plain
from papers.tables import Cell, Measure

OURS = "faces"
SENSITIVE = ("gender", "race")
METHODS = ("adf", "eidig", "neuronfair")
RANDOM = "random"
SIGNS, SHUFFLED = "random_signs", "shuffled_labels"
BEFORE, CONTROL = "before", "without_idis"
NOT_OURS = "not run here"
TRUNKS = {"vgg16": "VGG16", "resnet50": "ResNet50"}  # as the paper spells them

Places = Mapping[str, Sequence[tuple[str, str]]]  # of a measure: methods with their variants
Numbers = dict[str, float | None]


# -- the work --------------------------------------------------------------------------------------


class DetectorResult(Result, frozen=True, kw_only=True):
    """All numbers of both tables for one attribute and one seed, by measure, method and variant."""

    source: str
    messages: list[str]
    verdict: str
    numbers: dict[str, dict[str, dict[str, float | None]]]
    used: str = ""  # which pictures, which detector, how many faces


def look(settings: Plain, inputs: Inputs) -> DetectorResult:
    """Audit a face detector with all controls, and retrain it with each method's IDIs."""
    del inputs
    given: Mapping[str, str] = settings.get("options") or {}
    source = faces_in(given, FACES_AND_OTHERS)
    data = open_images(
        source,
        others=given.get("others"),
        size=int(given["size"]) if "size" in given else None,
        labels=given.get("labels"),
        limit=settings["limit"],
    )
    audited = audit_images(
        data,
        given.get("trunk"),
        settings["sensitive"],
        weights=given.get("weights"),
        variant=given.get("variant", "default"),  # type: ignore[arg-type]
        optimizer=given.get("optimizer", "adam"),  # type: ignore[arg-type]
        also=[name for name in SENSITIVE if name in data.attributes and _is_other(name, settings)],
        faces=settings["faces"],
        seed=settings["seed"],
        repair=False,
    )
    if len(audited.seeds) == 0:
        raise DataError(
            f"Δ_sens flipped the {settings['sensitive']} of no face, so there is nothing to search"
            " from. Choose another seed or more faces."
        )
    document = audited.document
    result = DetectorResult(
        source=source.name,
        messages=document.messages,
        verdict=verdict_of(document),
        numbers={},
        used=_used(audited, given),
    )

    def add(method: str, values: Numbers, variant: str = "") -> None:
        for key, value in values.items():
            result.numbers.setdefault(key, {}).setdefault(method, {})[variant] = value

    attribute, change = document.attribute, document.change
    add("detector", {"accuracy": document.detector.quality.accuracy.estimate})
    for name, network in (("head", attribute.head), ("independent", attribute.independent)):
        add(name, {"balanced": None if network is None else network.balanced_accuracy})
    others = [one.changed for one in change.others]
    other = max((one.own.estimate for one in others), default=None)
    add("change", {"flips": change.flips.own.flips.estimate, "other": other})
    for variant, control in change.flips.controls.items():
        other = max((one.controls[variant].estimate for one in others), default=None)
        add("change", {"flips": control.flips.estimate, "other": other}, variant)
    for one in document.generation:
        add(one.method, {"milliseconds": one.ms_an_image, **_generated(one.found.own)})
        for variant, found in one.found.controls.items():
            add(one.method, _generated(found), variant)
    for name, state in retrained(audited).items():
        add(name, state)
    return result


def _used(audited: ImageAudit, given: Mapping[str, str]) -> str:
    """What was searched, in words."""
    data, detector = audited.document.data, audited.document.detector
    search = audited.settings.search("neuronfair")
    faces, others = _names(given)
    steps = (
        f"{search.max_iter} steps along plain gradients"
        if given.get("variant") == "paper"
        else f"{search.max_iter} steps of L2 length {search.step:g}"
    )
    return (
        f"{data.faces:,} faces of {faces} and {data.others:,} pictures of {others or faces} without"
        f" a face, at {data.width} × {data.height} pixels; detector: {detector.name};"
        f" {steps} from {len(audited.rows):,} faces."
    )


def _names(given: Mapping[str, str]) -> tuple[str, str]:
    """The data set of the faces and, where it is another one, that of the other pictures."""
    if "faces" not in given:
        return "FairFace", "CIFAR-10"
    faces, others = Path(given["faces"]).absolute(), given.get("others")
    name = faces.stem if faces.suffix == ".npz" else faces.name
    return name, Path(others).absolute().name if others else ""


def _is_other(name: str, settings: Plain) -> bool:
    return bool(name != settings["sensitive"])


def retrained(audited: ImageAudit) -> dict[str, Numbers]:
    """The detector as it was, after further training with the clean pictures of all seeds, and
    with each method's IDIs in their place.

    The measures that end in `_kept` are relative to the clean ones.
    """
    data, seeds, how = audited.data, audited.seeds, audited.settings
    known = people(data) & (data.attributes[audited.sensitive].codes >= 0)
    held_out = np.flatnonzero(known & data.held_out)
    some = np.random.default_rng(audited.seed).permutation(held_out)[: how.faces]
    task = Task(
        data,
        audited.sensitive,
        np.flatnonzero(known & ~data.held_out),
        np.sort(some),
        how.change,
        how.search("neuronfair"),
        how.by,
        audited.seed,
    )
    before = measure(audited.detector, task)
    states = {BEFORE: _state(before)}
    images, change = data.images[seeds], audited.change_of_seeds()
    more: dict[str, tuple[Any, Ints]] = {
        CONTROL: (np.concatenate([images, images]), np.tile(seeds, 2))
    }
    for method in METHODS:
        found = audited.findings[method]
        more[method] = (idi_pictures(images, change, found), np.tile(seeds[found.rows], 2))
    for name, (pictures, rows) in more.items():
        new = fine_tuned(audited.detector, data, pictures, data.y[rows], seed=audited.seed)
        states[name] = _state(measure(new, task, before=before))
    for method in METHODS:
        for key in ("auc", "differing", "attack"):
            ours, clean = states[method][key], states[CONTROL][key]
            states[method][f"{key}_kept"] = ours / clean if ours is not None and clean else None
    return states


def _generated(found: Found) -> Numbers:
    seen, strict, loose = found.seen_by_independent, found.strict, found.loose
    return {
        "strict_gsr": strict.gsr.estimate,
        "strict_idis": strict.idis,
        "gsr": loose.gsr.estimate,
        "idis": loose.idis,
        "at_seed": loose.at_seed.estimate if loose.at_seed.samples else None,
        "l2": loose.l2.mean if loose.l2 else None,
        "seen": seen.estimate if seen else None,
    }


def _state(measured: Measured) -> Numbers:
    state = measured.state
    differing, faces = state.differing, state.differing_faces.loose
    return {
        "auc": state.auc,
        "auc_noise": state.auc_random_signs,
        "detection_rate": state.detection_rate.estimate,
        "accuracy": state.accuracy.estimate,
        "differing": differing.loose.estimate if differing.loose.samples else None,
        "strict_differing": differing.strict.estimate if differing.strict.samples else None,
        "differing_faces": faces.estimate if faces.samples else None,
        "attack": float(measured.l2.mean()) if len(measured.l2) else None,
    }


# -- the tables ------------------------------------------------------------------------------------


class Images(Grid[DetectorResult]):
    """Cells of both tables: a measure of a method, or of its control."""

    quick_once = True
    rows = "variant"
    result = DetectorResult
    places: ClassVar[Places]

    def titles_of(self, plan: Plan) -> Mapping[str, str]:
        trunk = plan.options.get("trunk", "")
        pictures = " and ".join(filter(None, _names(plan.options)))
        ours = ", ".join(filter(None, (pictures, TRUNKS.get(trunk, trunk))))
        return {**self.titles, OURS: ours}

    def subjects_of(self, plan: Plan) -> list[Subject]:
        return [Subject(OURS, name) for name in (SENSITIVE if plan.is_full else SENSITIVE[:1])]

    def variants_of(self, plan: Plan) -> Sequence[Variant]:
        del plan
        places = dict.fromkeys(place for places in self.places.values() for place in places)
        return [Variant(*place) for place in places]

    def has(self, variant: Variant, measure: Measure) -> bool:
        return (variant.method, variant.variant) in self.places[measure.key]

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        """Return the job of a repeat, which has all methods and both tables."""
        del variant
        faces = int(plan.options.get("searched", 250 if plan.is_full else 60)) or None
        size = {"limit": None if plan.is_full else 1_000, "faces": faces}
        extra: Plain = {"options": dict(plan.options)} if plan.options else {}
        return Job(
            id=with_options(f"images-{plan.scale}-{subject.sensitive}-{repeat}", plan.options),
            work=f"{__name__}:look",
            settings={
                "sensitive": subject.sensitive,
                "seed": plan.seed + repeat,
                **size,
                **extra,
            },
        )

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        _check(plan.options)
        return super().stages(plan)

    def check(self, plan: Plan) -> None:
        require_paths(plan.options, "faces", "others", "labels", "weights")
        faces_in(plan.options, FACES_AND_OTHERS)

    def cells(self, plan: Plan, outcome: Outcome) -> Sequence[Cell]:
        ours = super().cells(plan, outcome)
        theirs = [
            Cell(*names, "", one.measure, paper=one.value, failed=NOT_OURS)
            for one in paper.figures(self.name.removeprefix("neuronfair-"))
            for names in [(one.dataset, one.sensitive, one.method)]
        ]
        return [*ours, *theirs]

    def value(self, result: DetectorResult, cell: Cell) -> float:
        value = result.numbers.get(cell.measure, {}).get(cell.method, {}).get(cell.variant)
        return nan if value is None else value

    def notes(self, plan: Plan, outcome: Outcome) -> Sequence[str]:
        messages: dict[str, None] = {}
        attributes: dict[str, dict[str, None]] = {}  # by what was used for them
        for subject in self.subjects_of(plan):
            for result in outcome.read(self.jobs(plan, subject, Variant(RANDOM)), DetectorResult):
                messages |= dict.fromkeys(result.messages)
                attributes.setdefault(result.used, {})[subject.sensitive] = None
        used = [f"Here ({', '.join(own)}): {what}" for what, own in attributes.items() if what]
        difference = () if "faces" in plan.options else (remark("@DIFFERENCE"),)
        return (*used, remark("@THEIRS"), *difference, *self.remarks, *messages)


def _check(options: Mapping[str, str]) -> None:
    """Refuse options that no job could take, before one begins."""
    for name, what in (("size", "of pixels"), ("searched", "of faces, 0 for all")):
        value = options.get(name, "64")
        if not value.isdecimal():
            raise SettingError(f"The option {name} is a whole number {what}; got '{value}'.")
    if "faces" not in options and {"others", "labels"} & options.keys():
        raise SettingError("The options others and labels need a folder of faces: --set faces=…")
    DetectorSource(model=options.get("trunk"), weights=options.get("weights")).check()
    ImageAuditSettings(
        optimizer=options.get("optimizer", "adam"),  # type: ignore[arg-type]
        search_settings=search_settings(options.get("variant", "default"), {}),
    )


class Table10(Images):
    """Image IDIs of each method."""

    name = "neuronfair-table10"
    places: ClassVar[Places] = {
        **dict.fromkeys(
            ("strict_gsr", "strict_idis", "gsr", "idis", "at_seed", "l2", "seen"),
            (
                *((method, variant) for variant in ("", SIGNS, SHUFFLED) for method in METHODS),
                (RANDOM, ""),
            ),
        ),
        "milliseconds": tuple((method, "") for method in (*METHODS, RANDOM)),
        "accuracy": (("detector", ""),),
        "balanced": (("head", ""), ("independent", "")),
        "flips": (("change", ""), ("change", SIGNS)),
        "other": (("change", ""), ("change", SIGNS)),
    }


class Table11(Images):
    """Fairness of detectors that are retrained with the IDIs of each method."""

    name = "neuronfair-table11"
    places: ClassVar[Places] = {
        measure[0]: [(name, "") for name in names]
        for texts, names in (
            ("IMAGES_OF_ALL", (BEFORE, CONTROL, *METHODS)),
            ("IMAGES_OF_REPAIRED", METHODS),
        )
        for measure in paper.TEXTS["measures"][texts]
    }
