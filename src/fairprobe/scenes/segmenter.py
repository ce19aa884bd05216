"""Scenes from pictures that nobody has annotated: a panoptic segmenter of `transformers` finds the
objects and the ground.

Mask2Former, MaskFormer and DETR are known, from a folder or by their name on the Hugging Face hub,
of which only configuration and safetensors are fetched: weights in pickles are refused. What a
class name stands for decides between objects and stuff (`labels.is_stuff`), since such models do
not say; a model that sees all traffic lights of a street as one region makes one object of them.
The library can fuse regions of stuff itself, but then gives two segments the same number; here that
is left to the stuff map.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from fairprobe.errors import DataError, ModelError, StorageError
from fairprobe.models import one_thread
from fairprobe.scenes.geometry import Numbers
from fairprobe.scenes.labels import UNKNOWN, common, is_stuff
from fairprobe.scenes.scene import Picture, Scene, Scenes
from fairprobe.scenes.sources.files import PictureFolder, read_picture
from fairprobe.scenes.sources.pairs import readable_size
from fairprobe.scenes.sources.segments import Segment, scene_of
from fairprobe.scenes.sources.told import Told
from fairprobe.storage import replacing

KNOWN = ("mask2former", "maskformer", "detr")
FETCHED = ("*.json", "*.safetensors")


@dataclass(frozen=True)
class _Segmenter:
    processor: Any
    model: Any
    identity: str


class Segmented(Scenes):
    """Scenes of the pictures in a folder, as a model sees them. With a `cache` folder each picture
    is segmented once and never again.
    """

    def __init__(
        self, images: Path | str, model: Path | str, *, cache: Path | str | None = None
    ) -> None:
        folder, told = PictureFolder(Path(images)), Told()
        names = folder.names()
        self._pictures = {
            names[path]: path for path in folder.paths if readable_size(path, told) is not None
        }
        if not self._pictures:
            why = " ".join(told.messages())
            raise DataError(f"There is no picture in {images} that can be read. {why}".rstrip())
        self.names = tuple(self._pictures)
        self.messages = told.messages()
        self._source = fetched(model)
        self._segmenter: _Segmenter | None = _load(self._source)
        self._identity = self._segmenter.identity
        self._cache = None if cache is None else Path(cache)
        if self._cache is not None:
            _make(self._cache)

    def __getstate__(self) -> dict[str, Any]:
        """Another process loads the model itself, when it needs it."""
        return {**self.__dict__, "_segmenter": None}

    def read(self, name: str) -> Scene:
        image = read_picture(self._pictures[name], upright=True)
        numbers, labels = self._segments(image)
        return scene_of(
            name,
            image,
            numbers,
            [
                Segment(label, label != UNKNOWN and not is_stuff(label))
                for label in map(common, labels)
            ],
        )

    def _segments(self, image: Picture) -> tuple[Numbers, list[str]]:
        """The map of segments, and what the model calls each."""
        if self._cache is None:
            return self._segment(image)
        key = hashlib.sha256(
            f"{self._identity} {image.shape} ".encode() + image.tobytes()
        ).hexdigest()
        path = self._cache / f"{key}.npz"
        kept = _kept(path, image.shape[:2])
        if kept is None:
            kept = self._segment(image)
            with replacing(path) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, numbers=kept[0], labels=np.array(kept[1], dtype=np.str_))
        return kept

    def _segment(self, image: Picture) -> tuple[Numbers, list[str]]:
        import torch

        if self._segmenter is None:
            self._segmenter = _load(self._source)
        processor, model = self._segmenter.processor, self._segmenter.model
        with one_thread(), torch.inference_mode():
            outputs = model(**processor(images=image, return_tensors="pt"))
            result = processor.post_process_panoptic_segmentation(
                outputs, label_ids_to_fuse=set(), target_sizes=[image.shape[:2]]
            )[0]
        given = result["segmentation"].numpy().astype(np.int32)
        found = result["segments_info"]
        numbers = np.zeros(given.shape, dtype=np.int32)
        for at, segment in enumerate(found, start=1):
            numbers[given == segment["id"]] = at
        return numbers, [model.config.id2label[segment["label_id"]] for segment in found]


def fetched(model: Path | str) -> Path:
    """The folder of a model: the one given, or what the hub sent. A hub that cannot be reached is
    asked once, not for minutes.
    """
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
        return Path(snapshot_download(str(model), allow_patterns=list(FETCHED)))
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".:")
        raise StorageError(
            f"There is no folder {model}, and the Hugging Face hub gave no model of that name"
            f" ({reason}). Give the folder of a downloaded model, or its name on the hub, such as"
            " facebook/mask2former-swin-tiny-coco-panoptic."
        ) from error


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"Cannot make the folder {folder}: {error.strerror}. Choose another place for what is"
            " kept."
        ) from error


def _load(folder: Path) -> _Segmenter:
    try:
        transformers: Any = import_module("transformers")
    except ImportError as error:
        raise ModelError(
            f'{folder} needs transformers to be read. Install it: pip install "fairprobe[segment]".'
        ) from error
    with _loading(folder):
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    if config.model_type not in KNOWN:
        raise ModelError(
            f"{folder} is a model of the kind '{config.model_type}'. Expected a panoptic segmenter:"
            f" {', '.join(KNOWN)}."
        )
    with _loading(folder), _quiet(transformers.utils.logging):
        processor = transformers.AutoImageProcessor.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModelForUniversalSegmentation.from_pretrained(
            folder, local_files_only=True, use_safetensors=True
        )
    return _Segmenter(processor, model.eval(), _identity(processor, model))


@contextmanager
def _loading(folder: Path) -> Iterator[None]:
    """The library raises many kinds of errors on files that are not what they should be."""
    try:
        yield
    except (
        OSError,
        ValueError,
        RuntimeError,
        ImportError,
        KeyError,
        TypeError,
        AttributeError,
        SafetensorError,
    ) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise ModelError(
            f"{folder} cannot be loaded as a panoptic segmenter: {reason}. Expected config.json,"
            " preprocessor_config.json and model.safetensors, as save_pretrained writes them."
        ) from error


def _identity(processor: Any, model: Any) -> str:
    """A hash of everything that the answers depend on."""
    import torch

    digest = hashlib.sha256(
        f"{model.config.to_json_string()} {processor.to_json_string()}".encode()
    )
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(
            tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        )
    return digest.hexdigest()


def _kept(path: Path, size: tuple[int, ...]) -> tuple[Numbers, list[str]] | None:
    """What an earlier run found; a damaged file counts as none."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            numbers, labels = (
                file["numbers"].astype(np.int32),
                [str(label) for label in file["labels"]],
            )
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError):
        return None
    return (
        (numbers, labels)
        if numbers.shape == size and numbers.min() >= 0 and numbers.max() <= len(labels)
        else None
    )


@contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Loading draws a progress bar, which is of no use for a local file."""
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()
