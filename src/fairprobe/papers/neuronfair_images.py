"""NeuronFair's tables 10 and 11: a face detector is searched for image IDIs and retrained with
them, each figure beside its controls.

The paper's faces and detectors are not ours, so its numbers stand in rows of their own: CelebA and
LFW against ImageNet, with VGG16 and ResNet50. Both tables are made of the same jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from fairprobe.papers import paper
from fairprobe.papers.base import Experiment, Plan, introduction
from fairprobe.papers.jobs import Job, Outcome, Plain
from fairprobe.papers.tables import Cell, Measure, Table

WORK = "fairprobe.papers.neuronfair_images_work:look"
OURS = "faces"
SENSITIVE = ("gender", "race")
METHODS = ("adf", "eidig", "neuronfair")
RANDOM = "random"
SIGNS, SHUFFLED = "random_signs", "shuffled_labels"
BEFORE, CONTROL = "before", "without_idis"
NOT_OURS = "not run: other data and another detector"
TITLES = {
    OURS: "FairFace and CIFAR-10",
    "celeba_imagenet": "paper: CelebA and ImageNet, VGG16",
    "lfw_imagenet": "paper: LFW and ImageNet, ResNet50",
    RANDOM: "random direction (control)",
    SIGNS: "Δ with random signs (control)",
    SHUFFLED: "Δ of shuffled labels (control)",
    BEFORE: "before",
    CONTROL: "without IDIs (control)",
    "head": "head on the detector's trunk",
    "independent": "independent network (control)",
    "detector": "detector",
    "change": "Δ_sens",
}
DIFFERENCE = (
    "The data are not the paper's. Ours are 1,400 faces of FairFace and 1,400 pictures of CIFAR-10"
    " at 32 × 32 pixels, and a detector of six convolutions; the paper has 60,000 faces of CelebA"
    " (10,000 of LFW) and as many pictures of ImageNet at 64 × 64, and a VGG16 (ResNet50). So no"
    " number can be compared with the paper's one by one, only what each method gives beside the"
    " others."
)
BOUNDARY = (
    "An image IDI is mostly a picture near the decision boundary. So read each figure beside its"
    " controls: a Δ of a head that learnt shuffled labels knows nothing of the attribute, and an"
    " independent network says in how many pairs anybody else sees it change."
)
GSR = (
    "The share of faces that become an IDI, of those that are none from the start: each face gives"
    " one picture."
)

Places = Mapping[str, Sequence[tuple[str, str]]]  # of a measure: methods with their variants


class _Images(Experiment):
    """What both tables share."""

    measures: ClassVar[tuple[Measure, ...]]
    places: ClassVar[Places]
    notes: ClassVar[tuple[str, ...]]
    about = (
        "For gender and for race: a face detector is trained, its attribute head and Δ_sens (ε ="
        " 0.03) are made, and ADF, EIDIG and NeuronFair search from 250 faces for 20 steps of L2"
        " length 0.15. Then it is trained on with the IDIs of each method, and measured with a"
        " fresh Δ_sens on held-out faces beside the same training without IDIs."
    )
    quick = "gender alone, 1,000 pictures, 60 faces, one repeat."

    def stages(self, plan: Plan) -> Sequence[Sequence[Job]]:
        return [[job for jobs in _jobs(plan).values() for job in jobs]]

    def table(self, plan: Plan, outcome: Outcome) -> Table:
        ours = [
            Cell(
                OURS,
                sensitive,
                method,
                variant,
                measure.key,
                values=tuple(
                    _value(outcome.results[job.id], measure.key, method, variant)
                    for job in jobs
                    if job.id in outcome.results
                ),
                failed=_failed(jobs, outcome),
            )
            for measure in self.measures
            for sensitive, jobs in _jobs(plan).items()
            for method, variant in self.places[measure.key]
        ]
        theirs = [
            Cell(
                one.dataset,
                one.sensitive,
                one.method,
                "",
                one.measure,
                paper=one.value,
                failed=NOT_OURS,
            )
            for one in paper.figures(self.name.removeprefix("neuronfair-"))
        ]
        said = dict.fromkeys(
            sentence for result in outcome.results.values() for sentence in result["messages"]
        )
        return Table(
            title=self.title,
            intro=introduction(self, plan),
            measures=self.measures,
            cells=[*ours, *theirs],
            notes=(DIFFERENCE, *self.notes, *said),
            titles=TITLES,
            rows="variant",
        )


class Table10(_Images):
    """Which method makes more image IDIs?"""

    name = "neuronfair-table10"
    title = "NeuronFair, Table 10: image IDIs of the global phase"
    measures = (
        Measure("gsr", "GSR", "share", GSR),
        Measure("idis", "IDIs", "count", "Those from the start among them."),
        Measure(
            "at_seed", "IDIs before any step", "share", "Faces where Δ alone changes the verdict."
        ),
        Measure("l2", "L2 of Δ_bias", "number", "The mean over the IDIs that were made."),
        Measure("seen", "Pairs in which an independent network sees the attribute change", "share"),
        Measure(
            "milliseconds",
            "Milliseconds for a face",
            "number",
            "On a shared machine: compare methods, not machines.",
        ),
        Measure(
            "accuracy",
            "Accuracy of the detector",
            "share",
            "On held-out pictures, as everything below.",
        ),
        Measure("balanced", "Balanced accuracy for the attribute", "share"),
        Measure("flips", "Faces whose attribute Δ flips, for the head", "share"),
    )
    places: ClassVar[Places] = {
        **dict.fromkeys(
            ("gsr", "idis", "at_seed", "l2", "seen"),
            (
                *((method, variant) for variant in ("", SIGNS, SHUFFLED) for method in METHODS),
                (RANDOM, ""),
            ),
        ),
        "milliseconds": tuple((method, "") for method in (*METHODS, RANDOM)),
        "accuracy": (("detector", ""),),
        "balanced": (("head", ""), ("independent", "")),
        "flips": (("change", ""), ("change", SIGNS)),
    }
    notes = (
        BOUNDARY,
        (
            "The paper divides IDIs by pictures generated, in its words non-duplicate ones, and"
            " does not say how many pictures one face gives."
        ),
    )


class Table11(_Images):
    """Which method's IDIs make a detector fairer, and is it they that do?"""

    name = "neuronfair-table11"
    title = "NeuronFair, Table 11: face detectors retrained with image IDIs"
    measures = (
        Measure(
            "auc",
            "AUC",
            "number",
            "Of the most biased layer, with a fresh Δ_sens for each network; lower is better.",
        ),
        Measure(
            "auc_noise",
            "AUC for noise of the same size",
            "number",
            "AUC depends on a layer's scale; this is what noise alone gives.",
        ),
        Measure("detection_rate", "Detection rate", "share", "Of held-out faces."),
        Measure("accuracy", "Accuracy of the detector", "share"),
        Measure(
            "differing",
            "Pairs that differ",
            "share",
            "IDIs that were made of held-out faces against the detector before; whether a fresh"
            " Δ_sens still changes the verdict on them.",
        ),
        Measure(
            "differing_faces",
            "Faces that differ",
            "share",
            "Held-out faces as they are, whose verdict a fresh Δ_sens changes.",
        ),
        Measure("attack", "L2 that a new NeuronFair attack needs", "number", "Higher is better."),
        Measure(
            "auc_kept",
            "AUC, over that without IDIs",
            "number",
            "Below 1 is what the IDIs themselves improve.",
        ),
        Measure(
            "differing_kept", "Pairs that differ, over those without IDIs", "number", "Likewise."
        ),
        Measure(
            "attack_kept",
            "L2 of an attack, over that without IDIs",
            "number",
            "Above 1 is what the IDIs themselves improve.",
        ),
    )
    places: ClassVar[Places] = {
        **dict.fromkeys(
            (
                "auc",
                "auc_noise",
                "detection_rate",
                "accuracy",
                "differing",
                "differing_faces",
                "attack",
            ),
            tuple((name, "") for name in (BEFORE, CONTROL, *METHODS)),
        ),
        **dict.fromkeys(
            ("auc_kept", "differing_kept", "attack_kept"), tuple((name, "") for name in METHODS)
        ),
    }
    notes = (
        (
            "An old Δ_sens does not transfer to a new network, so any training would seem to help"
            " with it: each network here gets its own. The paper does not say which one it used."
        ),
    )


def _jobs(plan: Plan) -> dict[str, list[Job]]:
    """The repeats for each attribute."""
    attributes, repeats = (SENSITIVE, plan.repeats) if plan.is_full else (SENSITIVE[:1], 1)
    size = {"limit": None, "faces": 250} if plan.is_full else {"limit": 1_000, "faces": 60}
    return {
        sensitive: [
            Job(
                id=f"images-{plan.scale}-{sensitive}-{number}",
                work=WORK,
                settings={"sensitive": sensitive, "seed": plan.seed + number, **size},
            )
            for number in range(repeats)
        ]
        for sensitive in attributes
    }


def _value(result: Plain, measure: str, method: str, variant: str) -> float:
    """NaN where it is not defined, as the length of no steps."""
    value = result["numbers"][measure][method][variant]
    return float("nan") if value is None else float(value)


def _failed(jobs: Sequence[Job], outcome: Outcome) -> str:
    failures = [outcome.failures[job.id] for job in jobs if job.id in outcome.failures]
    return f"failed: {len(failures)} of {len(jobs)} repeats, {failures[0]}" if failures else ""
