"""What the workers do for the InsideBias paper's faces: train a network for gender on a mixture of
groups, and look at each group in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fairprobe.arrays import Floats, Ints
from fairprobe.datasets.cache import FAIRFACE, placed
from fairprobe.datasets.image_sets import ImageSet, open_images
from fairprobe.datasets.pictures import Bytes
from fairprobe.errors import DataError
from fairprobe.interpret.excitement import excitement
from fairprobe.interpret.insidebias import compare
from fairprobe.models import one_thread
from fairprobe.networks.vision import resnet, vgg
from fairprobe.networks.vision_training import AT_ONCE, ON_IMAGES, train_on_images
from fairprobe.papers.jobs import Plain

NETWORKS = {"vgg": vgg, "resnet": resnet}
GROUPS = {  # the paper's three, in FairFace's words; it names the Middle East in none of them
    "a": ("East Asian", "Southeast Asian"),
    "b": ("Black", "Indian"),
    "c": ("White", "Latino_Hispanic"),
}
OWN, OTHER = 0.9, 0.05  # shares of the groups in a biased training
LATE_RATE = 2e-4
MOVED = 16  # a face is moved by up to so small a part of its side
SEEDS = 1_000  # apart are those of two epochs, so that no two networks share any


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


def regrouped(data: ImageSet) -> tuple[Faces, Faces]:
    """Those to learn from and the held-out ones. Faces of races that belong to no group, or of
    unknown gender, are left out.
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
    learnt, held_out = (Faces(data.images[rows], gender[rows], group[rows]) for rows in parts)
    for part, what in ((learnt, "learn from"), (held_out, "test on")):
        if len(np.unique(part.group * 2 + part.gender)) < 2 * len(GROUPS):
            raise DataError(
                f"The faces to {what} lack women or men of one of the three groups. Take another"
                " collection."
            )
    return learnt, held_out


def mixed(faces: Faces, images: int, own: str | None, rng: np.random.Generator) -> Faces:
    """So many faces, half women and half men: nine tenths of the group `own` and a twentieth of
    each other, or a third of each.

    Where a group has too few for its share, all shares shrink alike.
    """
    shares = [(OWN if name == own else OTHER) if own else 1 / len(GROUPS) for name in GROUPS]
    pools = [
        [np.flatnonzero((faces.group == at) & (faces.gender == gender)) for gender in (0, 1)]
        for at in range(len(GROUPS))
    ]
    scale = min(
        1.0,
        *(
            len(pool) / (images * share / 2)
            for share, both in zip(shares, pools, strict=True)
            for pool in both
        ),
    )
    chosen = [
        rng.choice(pool, max(1, int(images * share * scale / 2 + 1e-9)), replace=False)
        for share, both in zip(shares, pools, strict=True)
        for pool in both
    ]
    return faces.take(np.concatenate(chosen))


@lru_cache(maxsize=2)
def _faces(source: Path, side: int) -> tuple[Faces, Faces]:
    return regrouped(open_images(source, size=side))


def look(settings: Plain, inputs: Mapping[str, Plain]) -> Plain:
    """Trains a network on the mixture that the settings name, and compares the groups on the
    held-out faces.
    """
    del inputs
    source, seed, side = placed(FAIRFACE), settings["seed"], settings["side"]
    learnt, asked = _faces(source, side)
    lessons = mixed(learnt, settings["images"], settings["own"], np.random.default_rng(seed))
    network = NETWORKS[settings["network"]]((3, side, side), 2, seed=seed)
    learn(network, lessons, settings)
    sure = _probabilities(network, asked)
    excited = excitement(network, asked.groups())
    found = compare(excited, tau=settings["tau"], seed=seed)
    rng = np.random.default_rng([seed, settings["count"]])
    few = [
        compare(
            excited.sample(settings["count"], rng),
            tau=settings["tau"],
            resamples=settings["resamples"],
            seed=draw,
        )
        for draw in range(settings["draws"])
    ]
    return {
        "source": source.name,
        "learnt": {name: int((lessons.group == at).sum()) for at, name in enumerate(GROUPS)},
        "tested": {name: int((asked.group == at).sum()) for at, name in enumerate(GROUPS)},
        "right": _by_group(asked, (sure > 0.5).astype(np.float64)),
        "score": _by_group(asked, sure),
        "found": found.to_dict(),
        "few": {
            "below_tau": float(np.mean([one.is_below for one in few])),
            "ratio": float(np.mean([one.ratio for one in few])),
        },
    }


def learn(network: nn.Module, lessons: Faces, settings: Plain) -> None:
    """An epoch shows every face twice, each time varied: there are few faces, and a network soon
    knows them by heart.

    In the last epochs it learns more slowly, which steadies what it has learnt.
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
    """The images, each moved by some pixels, and every other mirrored by chance: neither changes a
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
    """What the network gives each face's true gender."""
    network.eval()
    with one_thread(), torch.inference_mode():
        starts = range(0, len(faces.images), AT_ONCE)
        parts = [
            network(torch.from_numpy(faces.images[at : at + AT_ONCE]))
            .softmax(dim=1)
            .double()
            .numpy()
            for at in starts
        ]
    chosen: Floats = np.concatenate(parts)[np.arange(len(faces.gender)), faces.gender]
    return chosen


def _by_group(faces: Faces, values: Floats) -> dict[str, float]:
    return {name: float(values[faces.group == at].mean()) for at, name in enumerate(GROUPS)}
