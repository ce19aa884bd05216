"""What the numbers in class masks mean: names, which of them are objects, and how small an object
may be.

A names file is a JSON object:

    {"0": "sky", "3": "road", "8": "car", "9": "pedestrian", "objects": ["car", "pedestrian"],
    "least_pixels": 50}

or a text file with one name a line, the first for number 0. Without `objects`, the name decides
(`labels.is_stuff`). `least_pixels` keeps specks from counting as objects: at 480 × 360, fifty
pixels are a car of about nine by six, which no recogniser sees. For masks that number the objects
and not the classes (0 is nothing) write {"instances_of": "person"}.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairprobe.errors import DataError, SettingError, StorageError, suggest
from fairprobe.scenes.labels import UNKNOWN, common, is_stuff
from fairprobe.scenes.sources.files import read_json
from fairprobe.scenes.sources.segments import Segment

LEAST_PIXELS = 50
SETTINGS = ("objects", "least_pixels", "instances_of")


@dataclass(frozen=True)
class ClassNames:
    """The segment that each number stands for. With `instances_of`, each number but 0 is an object
    of that class.
    """

    segments: dict[int, Segment]
    least_pixels: int = LEAST_PIXELS
    instances_of: str | None = None


CAMVID_NAMES = [
    "sky",
    "building",
    "pole",
    "road",
    "pavement",
    "tree",
    "sign",
    "fence",
    "car",
    "pedestrian",
    "bicyclist",
    "unlabelled",
]
"""In CamVid's eleven classes, `car` stands for every vehicle with a motor, and `sign` for signs and
traffic lights.
"""


def camvid() -> ClassNames:
    """The numbers of CamVid with eleven classes: cars, pedestrians and bicyclists are objects."""
    return ClassNames(_segments(dict(enumerate(CAMVID_NAMES)), None, "CamVid"))


def read_names(path: Path) -> ClassNames:
    """What a names file says."""
    if path.suffix.lower() == ".json":
        return _from_json(read_json(path), path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is no text in UTF-8. Expected one name of a class on each line."
        ) from error
    except OSError as error:
        raise StorageError(
            f"Cannot read {path}: {error.strerror or error}. Expected a file with the names of the"
            " classes."
        ) from error
    return ClassNames(
        _segments(
            {at: line.strip() for at, line in enumerate(lines) if line.strip()}, None, str(path)
        )
    )


def _from_json(document: Any, path: Path) -> ClassNames:
    if not isinstance(document, dict):
        raise DataError(
            f'{path} must hold a JSON object such as {{"8": "car", "9": "pedestrian", "objects":'
            ' ["car"]}.'
        )
    names, settings = {}, {}
    for key, value in document.items():
        if key in SETTINGS:
            settings[key] = value
        elif not key.isdecimal():
            raise DataError(
                f"{path} says '{key}', which is neither the number of a class nor a"
                f" setting.{suggest(key, SETTINGS)}"
            )
        elif not isinstance(value, str) or not value.strip():
            raise DataError(f"{path} has no name for class {key}: expected a text.")
        else:
            names[int(key)] = value
    least, single = settings.get("least_pixels", LEAST_PIXELS), settings.get("instances_of")
    if type(least) is not int or least < 1:
        raise DataError(f"{path} says least_pixels {least}: expected a whole number of at least 1.")
    if single is not None and (not isinstance(single, str) or names):
        raise DataError(
            f"{path}: instances_of is the name of the one class there is; it stands alone, without"
            " numbers of classes."
        )
    return ClassNames(
        _segments(names, settings.get("objects"), str(path)),
        least,
        None if single is None else common(single),
    )


def _segments(names: dict[int, str], objects: Any, source: str) -> dict[int, Segment]:
    labels = {number: common(name) for number, name in names.items()}
    if objects is None:
        chosen = {label for label in labels.values() if not is_stuff(label)} - {UNKNOWN}
    elif isinstance(objects, list) and all(isinstance(name, str) for name in objects):
        chosen = {common(name) for name in objects}
    else:
        raise DataError(
            f'{source}: objects must be a list of names, such as ["car", "pedestrian"].'
        )
    for name in sorted(chosen - set(labels.values())):
        raise SettingError(
            f"{source} calls '{name}' an object, but names no such"
            f" class.{suggest(name, sorted(set(labels.values())))}"
        )
    return {number: Segment(label, label in chosen) for number, label in labels.items()}
