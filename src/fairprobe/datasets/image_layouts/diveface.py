"""DiveFace: `Group1_Male/PERSON/*.jpg`, …, `Group3_Female/PERSON/*.jpg`, as its authors' script
copies them from MegaFace. There is no test part; every person is in one folder.

Morales, Fierrez, Vera-Rodriguez and Tolosana, "SensitiveNets: Learning Agnostic Representations
with Application to Face Images", TPAMI 2021.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from fairprobe.datasets.image_layouts.base import ImageAttribute, Listing
from fairprobe.datasets.image_layouts.fairface import GENDERS
from fairprobe.datasets.pictures import picture_files

RACES = ("East Asian", "Sub-Saharan and South Indian", "Caucasian")  # groups 1 to 3
NAME = re.compile(r"Group([123])_(Male|Female)")


def listing(root: Path) -> Listing | None:
    """The pictures of a DiveFace folder; None for any other folder."""
    folders = [
        (path, match)
        for path in (sorted(root.iterdir()) if root.is_dir() else [])
        if path.is_dir() and (match := NAME.fullmatch(path.name))
    ]
    if not folders:
        return None
    paths: list[Path] = []
    rows: list[tuple[int, int, int]] = []
    people: dict[str, int] = {}
    for folder, match in folders:
        for path in picture_files(folder):
            person = path.relative_to(root).parent.as_posix()
            paths.append(path)
            number = people.setdefault(person, len(people))
            rows.append((GENDERS.index(match[2]), int(match[1]) - 1, number))
    gender, race, person_of = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    attributes = {"gender": ImageAttribute(GENDERS, gender), "race": ImageAttribute(RACES, race)}
    return Listing("DiveFace", tuple(paths), attributes, people=person_of)
