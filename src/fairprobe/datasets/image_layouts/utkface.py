"""UTKFace: `[age]_[gender]_[race]_[date].jpg`, or `.jpg.chip.jpg` for the aligned faces. There is
no test part.

Zhang, Song and Qi, "Age Progression/Regression by Conditional Adversarial Autoencoder", CVPR 2017.
Ages are grouped into FairFace's bands. Some names of the published files lack a part; those
pictures are left out and reported.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from fairprobe.datasets.image_layouts.base import ImageAttribute, Listing
from fairprobe.datasets.image_layouts.fairface import AGES, GENDERS
from fairprobe.datasets.pictures import MessageLog, picture_files

RACES = ("White", "Black", "Asian", "Indian", "Others")
BANDS = (3, 10, 20, 30, 40, 50, 60, 70)  # the first year of each of FairFace's bands but the lowest
NAME = re.compile(r"(\d{1,3})_([01])_([0-4])_(\d+)(\.\w+)+")


def listing(root: Path) -> Listing | None:
    """The pictures of a UTKFace folder; None if no picture is named like UTKFace's."""
    matches = [(path, NAME.fullmatch(path.name)) for path in picture_files(root)]
    named = [(path, match) for path, match in matches if match]
    if not named:
        return None
    log = MessageLog(root)
    log.note("unnamed", (path for path, match in matches if not match))
    age, gender, race = np.array(
        [[int(match[at]) for at in (1, 2, 3)] for _, match in named], dtype=np.int64
    ).T
    attributes = {
        "gender": ImageAttribute(GENDERS, gender),
        "race": ImageAttribute(RACES, race),
        "age": ImageAttribute(AGES, np.searchsorted(BANDS, age, side="right").astype(np.int64)),
    }
    paths = tuple(path for path, _ in named)
    return Listing("UTKFace", paths, attributes, messages=log.messages())
