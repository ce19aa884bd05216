"""What COCO's instance and panoptic files share: the pictures and categories that they list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairprobe.errors import DataError
from fairprobe.scenes.labels import GROUND, common, is_stuff
from fairprobe.scenes.sources.files import PictureFolder
from fairprobe.scenes.sources.pairs import readable_size
from fairprobe.scenes.sources.segments import Segment
from fairprobe.scenes.sources.told import Told, listed

Id = int | str
PARTS = ("images", "annotations", "categories")


@dataclass(frozen=True)
class Listed:
    """A picture that is named by the file and is there."""

    name: str
    path: Path
    size: tuple[int, int]


def looks_like_coco(document: object) -> bool:
    """Whether a document has the three lists of a COCO file."""
    return isinstance(document, dict) and all(
        isinstance(document.get(part), list) for part in PARTS
    )


def looks_panoptic(document: object) -> bool:
    """Whether it describes maps and not single masks."""
    return looks_like_coco(document) and any(
        "segments_info" in entry for entry in entries(document, "annotations")
    )


def check(document: object, path: Path) -> None:
    """Whether a file is COCO's at all."""
    if not looks_like_coco(document):
        raise DataError(
            f"{path} is no COCO annotation file: expected lists called {', '.join(PARTS)}. Is it"
            " the right file, and whole?"
        )


def entries(document: Any, part: str) -> Iterator[dict[str, Any]]:
    """The records of one part, without what is no record."""
    return (entry for entry in document[part] if isinstance(entry, dict))


def read_categories(document: Any) -> dict[Id, Segment]:
    """The named categories. The file's word `isthing` decides what is an object; without it, the
    name does.
    """
    found = {}
    for entry in entries(document, "categories"):
        number, name = entry.get("id"), entry.get("name")
        if isinstance(number, Id) and isinstance(name, str) and name.strip():
            label = common(name)
            found[number] = Segment(
                label, bool(entry["isthing"]) if "isthing" in entry else not is_stuff(label)
            )
    return found


def read_pictures(document: Any, folder: PictureFolder, told: Told) -> dict[Id, Listed]:
    """The listed pictures that are there, readable, and as large as the file says."""
    names, found, seen = folder.names(), {}, set()
    for entry in entries(document, "images"):
        number, file_name = entry.get("id"), entry.get("file_name")
        if not isinstance(number, Id) or not isinstance(file_name, str):
            told.note(
                f"the picture {str(file_name or number)[:80]}",
                "is listed without an id or a file name and is left out",
            )
            continue
        path = folder.find(file_name)
        if path is None:
            told.note(file_name, f"is annotated, but there is no such picture below {folder.root}")
        elif path in seen or number in found:
            told.note(file_name, "is listed twice, of which the first counts")
        elif size := _fitting_size(path, entry, told):
            found[number] = Listed(names[path], path, size)
        if path is not None:
            seen.add(path)
    for path in folder.paths:
        if path not in seen:
            told.note(folder.place(path), "has no annotation and is left out")
    return found


def _fitting_size(path: Path, entry: dict[str, Any], told: Told) -> tuple[int, int] | None:
    size = readable_size(path, told)
    if size is None:
        return None
    if (entry.get("height", size[0]), entry.get("width", size[1])) != size:
        told.note(path.name, "is not as large as its annotation says and is left out")
        return None
    return size


def tell_of_classes(categories: dict[Id, Segment], seen: Iterable[str], told: Told) -> None:
    """Say which classes nobody annotated, and whether there is ground to stand on."""
    labels = set(seen)
    empty = sorted({segment.label for segment in categories.values() if segment.is_object} - labels)
    if empty:
        told.say(f"Nothing is annotated for {len(empty)} of the classes: {listed(empty)}.")
    if not labels & GROUND:
        told.say(
            "No ground (road, earth, floor, pavement, grass) is annotated, so nothing can be"
            " inserted by the ground that it stands on."
        )


def none_left(path: Path, told: Told) -> DataError:
    """When nothing could be used."""
    return DataError(f"No scene could be made from {path}. {' '.join(told.messages())}".rstrip())
