"""Scenes from pictures without annotation: a panoptic segmenter of `transformers` finds the objects
and the ground.

Mask2Former, MaskFormer and DETR are supported, from a folder or by name from the Hugging Face hub,
of which only configuration and safetensors are downloaded: weights in pickles are refused. The name
of a class decides between objects and stuff (`labels.is_stuff`), since such models do not say; a
model that sees all traffic lights of a street as one region makes one object of them. The library
could fuse regions of stuff itself, but then gives two segments the same number.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.errors import DAMAGED, DataError, ModelError, StorageError
from fairprobe.models import one_thread
from fairprobe.models.formats.file_checks import first_line
from fairprobe.scenes.detectors.transformers import digest, import_transformers, loading
from fairprobe.scenes.geometry import Numbers
from fairprobe.scenes.labels import UNKNOWN, common, is_stuff
from fairprobe.scenes.scene import Picture, Scene, Scenes
from fairprobe.scenes.sources.files import (
    MessageLog,
    PictureFolder,
    Segment,
    picture_size,
    read_picture,
    scene_of,
)
from fairprobe.storage import make_folder, replacing

SUPPORTED = ("mask2former", "maskformer", "detr")
DOWNLOADED = ("*.json", "*.safetensors")


class SegmentedScenes(Scenes):
    """Scenes of the pictures in a folder, as a model sees them.

    With a `cache` folder each picture is segmented only once.
    """

    def __init__(
        self, images: Path | str, model: Path | str, *, cache: Path | str | None = None
    ) -> None:
        folder, log = PictureFolder(Path(images)), MessageLog()
        names = folder.names()
        self._pictures = {
            names[path]: path for path in folder.paths if picture_size(path, log) is not None
        }
        if not self._pictures:
            why = " ".join(log.messages())
            raise DataError(f"There is no readable picture in {images}. {why}".rstrip())
        self.names, self.messages = tuple(self._pictures), log.messages()
        self._source = _download(model)
        self._segmenter: tuple[Any, Any] | None = _load(self._source)
        self._identity = digest(*self._segmenter)
        self._cache = None if cache is None else make_folder(Path(cache))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_segmenter": None}  # another process loads it when needed

    def read(self, name: str) -> Scene:
        image = read_picture(self._pictures[name], upright=True)
        numbers, names = self._segments(image)
        labels = map(common, names)
        segments = [Segment(label, label != UNKNOWN and not is_stuff(label)) for label in labels]
        return scene_of(name, image, numbers, segments)

    def _segments(self, image: Picture) -> tuple[Numbers, list[str]]:
        """Return the map of segments and the model's name of each."""
        if self._cache is None:
            return self._segment(image)
        key = hashlib.sha256(f"{self._identity} {image.shape} ".encode() + image.tobytes())
        path = self._cache / f"{key.hexdigest()}.npz"
        found = _read_segments(path, image.shape[:2])
        if found is None:
            found = self._segment(image)
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.savez_compressed(
                    file, numbers=found[0], labels=np.array(found[1], dtype=np.str_)
                )
        return found

    def _segment(self, image: Picture) -> tuple[Numbers, list[str]]:
        import torch

        if self._segmenter is None:
            self._segmenter = _load(self._source)
        processor, model = self._segmenter
        with one_thread(), torch.inference_mode():
            outputs = model(**processor(images=image, return_tensors="pt"))
            result = processor.post_process_panoptic_segmentation(
                outputs, label_ids_to_fuse=set(), target_sizes=[image.shape[:2]]
            )[0]
        given = result["segmentation"].numpy().astype(np.int32)
        numbers = np.zeros(given.shape, dtype=np.int32)
        for at, segment in enumerate(result["segments_info"], start=1):
            numbers[given == segment["id"]] = at
        names = model.config.id2label
        return numbers, [names[segment["label_id"]] for segment in result["segments_info"]]


def _download(model: Path | str) -> Path:
    """Return the folder of a model: the given one, or a download from the hub, tried once."""
    folder = Path(model)
    if folder.is_dir():
        return folder
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ModelError(
            "Models of the Hugging Face hub need transformers. Install it: pip install"
            ' "fairprobe[segment]".'
        ) from error
    try:
        return Path(snapshot_download(str(model), allow_patterns=list(DOWNLOADED)))
    except (OSError, ValueError) as error:
        raise StorageError(
            f"There is no folder {model}, and the Hugging Face hub gave no model of that name"
            f" ({first_line(error).rstrip(':')}). Give the folder of a downloaded model, or its"
            " name on the hub, such as facebook/mask2former-swin-tiny-coco-panoptic."
        ) from error


def _load(folder: Path) -> tuple[Any, Any]:
    transformers, what = import_transformers(folder), "panoptic segmenter"
    with loading(folder, what):
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    if config.model_type not in SUPPORTED:
        raise ModelError(
            f"{folder} is a model of the kind '{config.model_type}'. Expected a {what}:"
            f" {', '.join(SUPPORTED)}."
        )
    with loading(folder, what):
        processor = transformers.AutoImageProcessor.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModelForUniversalSegmentation.from_pretrained(
            folder, local_files_only=True, use_safetensors=True
        )
    return processor, model.eval()


def _read_segments(path: Path, size: tuple[int, ...]) -> tuple[Numbers, list[str]] | None:
    """Read the segments of an earlier run; a damaged file is ignored."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            numbers = file["numbers"].astype(np.int32)
            labels = [str(label) for label in file["labels"]]
    except DAMAGED:
        return None
    is_valid = numbers.shape == size and numbers.min() >= 0 and numbers.max() <= len(labels)
    return (numbers, labels) if is_valid else None
