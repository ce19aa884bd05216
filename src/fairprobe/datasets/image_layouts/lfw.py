"""Labeled Faces in the Wild: `Aaron_Eckhart/Aaron_Eckhart_0001.jpg`, in a folder for each person.

Huang, Ramesh, Berg and Learned-Miller, "Labeled Faces in the Wild", 2007. Gender and race are from
`lfw_attributes.txt` (Kumar, Berg, Belhumeur and Nayar, ICCV 2009: outputs of classifiers, above 0
if the attribute is present; the race is the greatest of four), or gender alone from the hand-made
lists `male_names.txt` and `female_names.txt`, which take precedence. All pictures of a person are
either for training or held out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fairprobe.datasets.image_layouts.base import ImageAttribute, Listing, first_file, table
from fairprobe.datasets.pictures import picture_files
from fairprobe.errors import DataError

GENDERS = ("female", "male")
RACES = ("White", "Black", "Asian", "Indian")
LISTS = {"male_names.txt": 1, "female_names.txt": 0}
FOLDERS = ("", "lfw/", "lfw-deepfunneled/", "lfw_funneled/")


def listing(root: Path) -> Listing | None:
    """The pictures of an LFW folder; None for any other folder."""
    attributes = first_file(root, [f"{folder}lfw_attributes.txt" for folder in FOLDERS])
    lists = {
        name: path
        for name in LISTS
        if (path := first_file(root, [f"{folder}{name}" for folder in FOLDERS])) is not None
    }
    if attributes is None and len(lists) < len(LISTS):
        return None
    paths = [path for path in picture_files(root) if path.name.startswith(f"{path.parent.name}_")]
    keys = [path.stem for path in paths]
    scores = _scores(attributes) if attributes is not None else {}
    gender = {key: int(one[0] > 0) for key, one in scores.items()}
    for name, path in lists.items():
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        gender |= {Path(line.strip()).stem: LISTS[name] for line in lines if line.strip()}
    race = {key: int(np.argmax(one[1:])) for key, one in scores.items()}
    found = {"gender": _attribute(GENDERS, keys, gender)}
    if race:
        found["race"] = _attribute(RACES, keys, race)
    _, people = np.unique([path.parent.name for path in paths], return_inverse=True)
    return Listing("LFW", tuple(paths), found, people=people.astype(np.int64))


def _attribute(values: tuple[str, ...], keys: list[str], known: dict[str, int]) -> ImageAttribute:
    return ImageAttribute(values, np.array([known.get(key, -1) for key in keys], dtype=np.int64))


def _scores(path: Path) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The scores of `Male` and the four races of each picture. The header is the second line and
    begins with #.
    """
    wanted = ["Male", *RACES]
    with path.open(encoding="utf-8", errors="replace") as file:
        file.readline()
        names = file.readline().lstrip("#").strip().split("\t")
    options = {"sep": "\t", "skiprows": 2, "names": names, "header": None, "index_col": False}
    frame = table(path, ["person", "imagenum", *wanted], **options)
    try:
        numbers = frame[wanted].astype(float).to_numpy()
        keys = [
            f"{person.replace(' ', '_')}_{int(number):04d}"
            for person, number in zip(frame["person"], frame["imagenum"], strict=True)
        ]
    except ValueError as error:
        raise DataError(
            f"{path} holds scores that are not numbers: {error}. Download the file again."
        ) from error
    return dict(zip(keys, numbers, strict=True))
