"""The InsideBias paper's faces: tables I and II, and figure 4. Networks
learn gender mostly from one ethnic group, or from all alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import nan
from pathlib import Path
from statistics import fmean, pstdev
from typing import ClassVar

import numpy as np
import torch
from scipy.stats import mannwhitneyu
from torch import nn

from fairprobe.arrays import Floats, Ints
from fairprobe.datasets.image_sets import ImageSet, open_images
from fairprobe.datasets.pictures import Bytes
from fairprobe.errors import DataError, SettingError
from fairprobe.images.activation_ratio import compare
from fairprobe.images.excitement import Excitement, excitement
from fairprobe.models import one_thread
from fairprobe.networks.vision import resnet, vgg
from fairprobe.networks.vision_training import AT_ONCE, ON_IMAGES, train_on_images
from fairprobe.report import Plot
from fairprobe.results import Count, Share
from papers import paper
from papers.base import Plan, Subject, Variant, faces_in, require_paths, with_options
from papers.data.fetching import DIVEFACE, FAIRFACE
from papers.insidebias import (
    FEWEST,
    TAU,
    UNBIASED,
    Examination,
    ExaminedNetwork,
    Networks,
    Samples,
    correlations,
    curves,
    small_samples,
)
from papers.jobs import Inputs, Job, Outcome, Plain
from papers.tables import Measure

GROUPS = {  # the paper's three, in FairFace's words and DiveFace's; the Middle East is in none
    "a": ("East Asian", "Southeast Asian"),
    "b": ("Black", "Indian", "Sub-Saharan and South Indian"),
    "c": ("White", "Latino_Hispanic", "Caucasian"),
}


# -- the work --------------------------------------------------------------------------------------

FACES = (*DIVEFACE, *FAIRFACE)  # the paper's own first, where there is one
NETWORKS = {"vgg": vgg, "resnet": resnet}
OWN, OTHER = 0.9, 0.05  # shares of the groups in a biased training
LATE_RATE = 2e-4
SURE = 0.99  # the paper's choice of images
MOVED = 16  # a face is moved by up to this fraction of its side: a sixteenth
SEEDS = 1_000  # between the seeds of two epochs, so that no two networks share any


class FaceNetwork(ExaminedNetwork, frozen=True, kw_only=True):
    """A network that knows gender: the faces of each group that it learned from and was tested on,
    and its mean probability of the true gender.
    """

    learnt: dict[str, Count]
    tested: dict[str, Count]
    score: dict[str, Share]
    few: Samples
    sure: Samples | None = None
    """As `few`, of faces of whose gender the network is surer than 99 %."""


@dataclass(frozen=True)
class Faces:
    """Faces (N, 3, side, side), their gender, and their group as a place in `GROUPS`."""

    images: Bytes
    gender: Ints
    group: Ints

    def take(self, rows: Ints) -> Faces:
        return Faces(self.images[rows], self.gender[rows], self.group[rows])

    def groups(self) -> dict[str, Bytes]:
        return {name: self.images[self.group == at] for at, name in enumerate(GROUPS)}

    def counts(self) -> dict[str, int]:
        return {name: len(images) for name, images in self.groups().items()}

    def means(self, values: Floats) -> dict[str, float]:
        """The mean of a value in each group."""
        return {name: float(values[self.group == at].mean()) for at, name in enumerate(GROUPS)}


def regrouped(data: ImageSet) -> tuple[Faces, Faces]:
    """Those to learn from and the held-out ones. Faces of other races, or of unknown gender, are
    left out.
    """
    if not {"gender", "race"} <= data.attributes.keys():
        raise DataError(
            f"The faces must have a gender and a race; those of {data.name} have"
            f" {', '.join(data.attributes) or 'neither'}."
        )
    race, gender = data.attributes["race"], data.attributes["gender"].codes
    of_race = [
        next((at for at, races in enumerate(GROUPS.values()) if value in races), -1)
        for value in race.values
    ]
    group = np.array([*of_race, -1], dtype=np.int64)[race.codes]
    usable = (group >= 0) & (gender >= 0)
    parts = (np.flatnonzero(usable & ~data.held_out), np.flatnonzero(usable & data.held_out))
    train, test = (Faces(data.images[rows], gender[rows], group[rows]) for rows in parts)
    for part, what in ((train, "learn from"), (test, "test on")):
        if len(np.unique(part.group * 2 + part.gender)) < 2 * len(GROUPS):
            raise DataError(
                f"The faces to {what} lack women or men of one of the three groups. Use another"
                " collection."
            )
    return train, test


def mixed(faces: Faces, images: int, own: str | None, rng: np.random.Generator) -> Faces:
    """Draw faces, half women and half men: nine tenths of the group `own` and a twentieth of each
    other, or a third of each.

    Where a group has too few for its share, all shares shrink alike.
    """
    shares = [(OWN if name == own else OTHER) if own else 1 / len(GROUPS) for name in GROUPS]
    pools = [
        (share, np.flatnonzero((faces.group == at) & (faces.gender == gender)))
        for at, share in enumerate(shares)
        for gender in (0, 1)
    ]
    scale = min(1.0, *(len(pool) / (images * share / 2) for share, pool in pools))
    chosen = [
        rng.choice(pool, max(1, int(images * share * scale / 2 + 1e-9)), replace=False)
        for share, pool in pools
    ]
    return faces.take(np.concatenate(chosen))


@lru_cache(maxsize=2)
def _faces(source: Path, side: int) -> tuple[Faces, Faces]:
    return regrouped(open_images(source, size=side))


def look(settings: Plain, inputs: Inputs) -> FaceNetwork:
    """Train a network on the mixture that the settings name, and compare the groups on the held-out
    faces.
    """
    del inputs
    source = faces_in(settings, FACES)
    seed, side = settings["seed"], settings["side"]
    train, test = _faces(source, side)
    lessons = mixed(train, settings["images"], settings["own"], np.random.default_rng(seed))
    network = NETWORKS[settings["network"]]((3, side, side), 2, seed=seed)
    learn(network, lessons, settings)
    sure = _probabilities(network, test)
    genders = {name: test.gender[test.group == at] for at, name in enumerate(GROUPS)}
    excited = excitement(network, test.groups(), labels=genders)
    return FaceNetwork(
        source=source.name,
        learnt=lessons.counts(),
        tested=test.counts(),
        right=test.means((sure > 0.5).astype(np.float64)),
        score=test.means(sure),
        found=compare(excited, seed=seed),
        few=small_samples(excited, settings["count"], settings),
        sure=_surest(excited, settings),
    )


def _surest(excited: Excitement, settings: Plain) -> Samples | None:
    """Small samples as the paper chooses them; None where too few faces of a group are so sure."""
    rows = [np.flatnonzero(one.sure > SURE) for one in excited.given or ()]
    if not rows or min(map(len, rows)) < settings["count"]:
        return None
    return small_samples(excited.take(rows), settings["count"], settings)


def learn(network: nn.Module, lessons: Faces, settings: Plain) -> None:
    """Train a network. An epoch shows every face twice, each time varied: there are few faces, and
    a network soon knows them by heart. The last epochs have a lower learning rate.
    """
    rng = np.random.default_rng([settings["seed"], settings["epochs"]])
    genders = np.tile(lessons.gender, 2)
    for number in range(settings["epochs"]):
        is_late = number >= settings["epochs"] - settings["late"]
        training = replace(
            ON_IMAGES,
            epochs=1,
            batch=settings["batch"],
            learning_rate=LATE_RATE if is_late else ON_IMAGES.learning_rate,
        )
        images = np.concatenate([varied(lessons.images, rng) for _ in range(2)])
        train_on_images(
            network, images, genders, seed=settings["seed"] + SEEDS * number, training=training
        )


def varied(images: Bytes, rng: np.random.Generator) -> Bytes:
    """The images, each moved by some pixels, and half of them mirrored: neither changes a
    gender.
    """
    side = images.shape[-1]
    reach = side // MOVED
    larger = np.pad(images, ((0, 0), (0, 0), (reach, reach), (reach, reach)), mode="reflect")
    starts = rng.integers(0, 2 * reach + 1, size=(len(images), 2))
    moved = np.stack(
        [
            one[:, top : top + side, left : left + side]
            for one, (top, left) in zip(larger, starts, strict=True)
        ]
    )
    mirrored = rng.random(len(images)) < 0.5
    moved[mirrored] = moved[mirrored, ..., ::-1]
    return moved


def _probabilities(network: nn.Module, faces: Faces) -> Floats:
    """The network's probability of each face's true gender."""
    network.eval()
    with one_thread(), torch.inference_mode():
        parts = [
            network(torch.from_numpy(faces.images[at : at + AT_ONCE])).softmax(dim=1).double()
            for at in range(0, len(faces.images), AT_ONCE)
        ]
    chosen: Floats = torch.cat(parts).numpy()[np.arange(len(faces.gender)), faces.gender]
    return chosen


# -- the tables ------------------------------------------------------------------------------------

KINDS = (*(f"biased_{name}" for name in GROUPS), UNBIASED)
CERTAIN = 0.05
# The same for all seeds and mixtures; the table's notes say how they were chosen.
TRAININGS: dict[str, Plain] = {
    "vgg": {"epochs": 24, "late": 4, "batch": 32},
    "resnet": {"epochs": 10, "late": 2, "batch": 64},
}
QUICK: dict[str, Plain] = {"vgg": {"epochs": 4, "late": 1, "batch": 32}}
SIDE = 32


class FaceTables(Examination[FaceNetwork]):
    """Accuracy and Λ of networks for gender that hardly saw an ethnic group."""

    name = "insidebias-faces"
    result = FaceNetwork
    of_biased: ClassVar[frozenset[str]] = frozenset({"shift", "highest", "separated"})

    def check(self, plan: Plan) -> None:
        require_paths(plan.options, "faces")
        faces_in(plan.options, FACES)

    def subjects_of(self, plan: Plan) -> Sequence[Subject]:
        return [Subject(network, "race") for network in (TRAININGS if plan.is_full else QUICK)]

    def variants_of(self, plan: Plan) -> Sequence[Variant]:
        return list(map(Variant, KINDS if plan.is_full else (KINDS[0], UNBIASED)))

    def job(self, plan: Plan, subject: Subject, variant: Variant, repeat: int) -> Job:
        network, kind = subject.dataset, variant.method
        given = plan.options
        extra: Plain = {"faces": given["faces"]} if "faces" in given else {}
        name = f"insidebias-faces-{plan.scale}-{network}-{kind}-{repeat}"
        return Job(
            id=with_options(name, given),
            work=f"{__name__}:look",
            settings={
                "network": network,
                "own": None if kind == UNBIASED else kind.removeprefix("biased_"),
                "seed": plan.seed + repeat,
                # 90 % of 1,776 is what our part of FairFace has of a group
                "images": _whole(given, "images", 1_776 if plan.is_full else 600),
                "tau": TAU,
                "count": 5,
                "draws": 20,
                "resamples": 200,
                "side": _side(plan),
                **extra,
                **(TRAININGS if plan.is_full else QUICK)[network],
            },
            weight=3.0 if network == "resnet" else 1.0,
        )

    def values(self, measure: str, kind: str, networks: Networks[FaceNetwork]) -> tuple[float, ...]:
        if measure != "shift":
            return super().values(measure, kind, networks)
        return tuple(  # a biased network is compared with the unbiased one of its seed
            shift(kind.removeprefix("biased_"), one.right, beside.right)
            for one, beside in zip(networks[kind], networks[UNBIASED], strict=True)
            if one is not None and beside is not None
        )

    def number(
        self, measure: str, own: str, network: FaceNetwork, unbiased: Sequence[float]
    ) -> float:
        right = network.right
        if measure == "accuracy":
            return fmean(right.values())
        if measure == "accuracy_sd":
            return pstdev(right.values())
        if measure.startswith("accuracy_"):
            return right[measure.removeprefix("accuracy_")]
        if measure == "below":
            return network.few.below_tau
        if measure == "sure":
            return nan if network.sure is None else network.sure.ratio
        if measure.startswith("score_"):
            return network.score[measure.removeprefix("score_")]
        return super().number(measure, own, network, unbiased)

    def printed(
        self, plan: Plan, subject: Subject, variant: Variant, measure: Measure
    ) -> float | None:
        """Return the paper's number; its shift follows from its accuracies."""
        del plan

        def figure(key: str, kind: str) -> float | None:
            table = f"insidebias-table{1 if key.startswith('accuracy') else 2}"
            return paper.figure(table, *subject.names, kind, key)

        if measure.key != "shift":
            return figure(measure.key, variant.method)
        biased, unbiased = (
            {name: figure(f"accuracy_{name}", kind) or 0.0 for name in GROUPS}
            for kind in (variant.method, UNBIASED)
        )
        return shift(variant.method.removeprefix("biased_"), biased, unbiased)

    def figures(self, plan: Plan, outcome: Outcome) -> Sequence[Plot]:
        names = {name: f"group {name.upper()}" for name in GROUPS}
        return [
            curves(
                f"Figure 4: {self.titles[subject.dataset]}, {self.titles[kind]}",
                found,
                names,
                is_common=is_common,
            )
            for subject in self.subjects_of(plan)
            for kind, own in self.networks(plan, outcome, subject).items()
            if (found := [network for network in own if network is not None])
            for is_common in (False, True)
        ]

    def notes(self, plan: Plan, outcome: Outcome) -> Sequence[str]:
        verdicts, done = [], []
        for subject in self.subjects_of(plan):
            networks = self.networks(plan, outcome, subject)
            verdicts.append(verdict(self.titles[subject.dataset], networks))
            done += [one for own in networks.values() for one in own if one is not None]
        shares = [
            {name: count / sum(one.learnt.values()) for name, count in one.learnt.items()}
            for one in done
        ]
        said = [*verdicts, correlations(done, {"share in training": shares})]
        return (*filter(None, said), *_data(done, _side(plan)), *self.remarks)


def _whole(options: Mapping[str, str], name: str, usual: int) -> int:
    text = options.get(name, str(usual))
    if not text.isdecimal() or int(text) < 8:
        raise SettingError(f"The option {name} is a whole number of 8 or more; got '{text}'.")
    return int(text)


def _side(plan: Plan) -> int:
    return _whole(plan.options, "side", SIDE)


def shift(own: str, biased: Mapping[str, float], unbiased: Mapping[str, float]) -> float:
    """The own group's gain in accuracy over the unbiased network, minus the mean change of the
    others.
    """
    change = {name: biased[name] - unbiased[name] for name in GROUPS}
    return change[own] - fmean(change[name] for name in GROUPS if name != own)


def verdict(title: str, networks: Networks[FaceNetwork]) -> str:
    """Say whether Λ is lower in biased networks than in unbiased ones; empty where one of both is
    missing.
    """
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for kind, own in networks.items():
        ratios[kind == UNBIASED] += [one.found.ratio for one in own if one is not None]
    unbiased, biased = ratios[True], ratios[False]
    if not biased or not unbiased:
        return ""
    ranges = f"Λ of biased networks is {_range(biased)}, of unbiased ones {_range(unbiased)}"
    if min(len(biased), len(unbiased)) < FEWEST:
        return f"{title}: {ranges}. So few networks cannot show whether Λ is lower in biased ones."
    p_value = float(mannwhitneyu(biased, unbiased, alternative="less").pvalue)
    lower = "Λ is lower in biased networks"
    result = lower if p_value <= CERTAIN else "that biased ones have a lower Λ is not shown"
    return f"{title}: {ranges}; {result} (Mann–Whitney, p = {p_value:.2g})."


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _data(networks: Sequence[FaceNetwork], side: int) -> list[str]:
    """Which faces the networks learned from and were tested on, and how many."""
    if not networks:
        return []
    sources = ", ".join(sorted({one.source for one in networks}))
    counts = sorted({sum(one.learnt.values()) for one in networks})
    learned = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    tested = ", ".join(
        f"{count} of group {name.upper()}" for name, count in networks[0].tested.items()
    )
    return [
        f"Faces from {sources}, brought to {side} × {side} pixels: a network learns from {learned},"
        f" and is tested on {tested}."
    ]
