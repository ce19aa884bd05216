"""Where scenes come from: COCO (instances and panoptic), Cityscapes, class masks."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from fairprobe.errors import DataError, SettingError, StorageError, suggest
from fairprobe.scenes.scene import Scenes
from fairprobe.scenes.sources.cityscapes import CityscapesScenes, annotation_files
from fairprobe.scenes.sources.coco import (
    CocoScenes,
    PanopticScenes,
    looks_like_coco,
    looks_panoptic,
)
from fairprobe.scenes.sources.files import listed, read_json
from fairprobe.scenes.sources.masks import MaskScenes, read_names

__all__ = ["Kind", "open_scenes"]

Kind = Literal["coco", "panoptic", "cityscapes", "masks"]


def open_scenes(
    images: Path | str,
    annotations: Path | str,
    *,
    kind: Kind | None = None,
    names: Path | str | None = None,
) -> Scenes:
    """Open annotated pictures as scenes. Unusable ones are left out and named in `messages`.

    `annotations` is a JSON file of COCO (instances, or panoptic with its folder of PNGs beside it),
    or a folder: of Cityscapes (gtFine), of class masks, or with one JSON file of COCO. `kind` says
    which, where it cannot be recognized. `names` says what the numbers in class masks mean (see
    `sources.masks`); by default they are CamVid's. Only the headers of pictures are read here, so
    reading a scene can still raise a DataError.
    """
    folder, given = Path(images), Path(annotations)
    if kind is not None and kind not in get_args(Kind):
        raise SettingError(f"Unknown kind of annotation '{kind}'.{suggest(kind, get_args(Kind))}")
    if not given.exists():
        raise StorageError(
            f"There are no annotations at {given}. Expected a JSON file, or a folder of masks or of"
            " Cityscapes' gtFine."
        )
    if given.is_dir() and kind in (None, "coco", "panoptic"):
        kind, given = _recognize_folder(given, kind)
    if names is not None and kind != "masks":
        raise SettingError(
            f"Names are for class masks; {kind or given} brings its own. Leave the names out, or"
            " say that these are masks."
        )
    if kind == "cityscapes":
        return CityscapesScenes(folder, given)
    if kind == "masks":
        return MaskScenes(folder, given, None if names is None else read_names(Path(names)))
    document = read_json(given)
    if kind == "panoptic" or (kind is None and looks_panoptic(document)):
        return PanopticScenes(folder, given, document)
    return CocoScenes(folder, given, document)


def _recognize_folder(folder: Path, kind: Kind | None) -> tuple[Kind | None, Path]:
    """Return the kind of a folder, or the one annotation file in it."""
    if kind is None and annotation_files(folder):
        return "cityscapes", folder
    files = [
        path
        for path in sorted(folder.glob("*.json"))
        if kind is not None or looks_like_coco(read_json(path))
    ]
    if len(files) == 1:
        return kind, files[0]
    if files:
        raise SettingError(
            f"{folder} has several annotation files ({listed(path.name for path in files)}). Name"
            " the one you mean."
        )
    if kind is None and any(folder.rglob("*.png")):
        return "masks", folder
    raise DataError(
        f"{folder} has no annotations in a known format. Expected COCO's JSON, Cityscapes' gtFine"
        " files, or class masks as PNG."
    )
