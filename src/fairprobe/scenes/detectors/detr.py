"""Detectors of the `transformers` library (DETR, YOLOS and their relatives), from a folder or by
their name on the hub.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairprobe.errors import ModelError, SettingError
from fairprobe.models.formats.file_checks import first_line
from fairprobe.scenes.labels import common
from fairprobe.scenes.recognition import Detection, Detector
from fairprobe.scenes.scene import Picture

NO_CLASS = frozenset({"n/a", "no object", "no-object"})  # in the place of ids that COCO never used


class DetrDetector(Detector):
    """`place` is a folder that `save_pretrained` wrote, or a name on the hub; weights are read from
    safetensors only.

    `threshold` is the least score. These networks answer each object once, so nothing is
    suppressed.
    """

    def __init__(self, place: str, *, threshold: float = 0.5) -> None:
        if not 0 <= threshold <= 1:
            raise SettingError(
                f"The score threshold of a detector lies between 0 and 1; got {threshold}."
            )
        self.place, self.threshold = place, threshold
        self.name = Path(place).name
        self._opened: Any = _open(place)
        self.identity = f"transformers sha256:{_hash(*self._opened)} score {threshold:g}"

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        import torch

        if self._opened is None:
            self._opened = _open(self.place)
        processor, model = self._opened
        with torch.inference_mode():
            answer = model(**processor(images=image, return_tensors="pt"))
            (found,) = processor.post_process_object_detection(
                answer, threshold=self.threshold, target_sizes=[image.shape[:2]]
            )
        names = model.config.id2label
        detections = (
            Detection(common(names[int(label)]), float(score), tuple(box.tolist()))
            for label, score, box in zip(
                found["labels"], found["scores"], found["boxes"], strict=True
            )
        )
        return tuple(one for one in detections if one.label not in NO_CLASS)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}  # weights are read again rather than sent


def _open(place: str) -> tuple[Any, Any]:
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError as error:
        raise ModelError(
            'A DETR needs transformers to be run. Install it: pip install "fairprobe[segment]".'
        ) from error
    try:
        with _quietly(transformers.utils.logging):
            processor = transformers.AutoImageProcessor.from_pretrained(place)
            model, loaded = transformers.AutoModelForObjectDetection.from_pretrained(
                place, use_safetensors=True, output_loading_info=True
            )
    except (
        Exception
    ) as error:  # its own errors, those of the hub, and those of a library that a network needs
        raise ModelError(
            f"transformers cannot open the detector {place}: {first_line(error)}. Expected a folder"
            " with config.json, preprocessor_config.json and model.safetensors, or a name on the"
            " hub."
        ) from error
    if loaded["missing_keys"]:
        missing = ", ".join(sorted(loaded["missing_keys"])[:3])
        raise ModelError(
            f"{place} lacks weights of its detector ({missing}, …), which would be random. Save the"
            " whole trained network."
        )
    model.eval()
    return processor, model


@contextmanager
def _quietly(logging: Any) -> Iterator[None]:
    """Without the library's progress bars and advice."""
    before, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if had_bars:
            logging.enable_progress_bar()


def _hash(processor: Any, model: Any) -> str:
    """Of everything that the answers depend on."""
    found = hashlib.sha256((processor.to_json_string() + model.config.to_json_string()).encode())
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.contiguous().numpy().data)
    return found.hexdigest()
