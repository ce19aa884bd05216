"""Networks of the `transformers` library; its detectors (DETR, YOLOS and relatives)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from fairprobe.errors import ModelError
from fairprobe.models.formats.file_checks import first_line
from fairprobe.scenes.detectors.base import Detection, Detector, check_share
from fairprobe.scenes.labels import common
from fairprobe.scenes.scene import Picture

EXPECTED = "config.json, preprocessor_config.json and model.safetensors"


def import_transformers(place: object) -> Any:
    """Import the library; an error says how to install it."""
    try:
        return import_module("transformers")
    except ImportError as error:
        raise ModelError(
            f'{place} needs transformers. Install it: pip install "fairprobe[segment]".'
        ) from error


@contextmanager
def loading(place: object, what: str) -> Iterator[None]:
    """Turn the library's many kinds of errors into one, and hide its progress bars and advice."""
    logging = import_transformers(place).utils.logging
    verbosity, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    except Exception as error:
        raise ModelError(
            f"{place} cannot be loaded as a {what}: {first_line(error)}. Expected {EXPECTED}, as"
            " save_pretrained writes them."
        ) from error
    finally:
        logging.set_verbosity(verbosity)
        if has_bars:
            logging.enable_progress_bar()


def digest(processor: Any, model: Any) -> str:
    """Hash everything that the outputs depend on."""
    import torch

    found = hashlib.sha256((processor.to_json_string() + model.config.to_json_string()).encode())
    for name, tensor in sorted(model.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


NO_CLASS = frozenset({"n/a", "no object", "no-object"})  # in place of ids that COCO never used


class DetrDetector(Detector):
    """`place` is a folder that `save_pretrained` wrote, or a name on the hub.

    Weights are read from safetensors only. `threshold` is the least score. These networks return
    each object once, so nothing is suppressed.
    """

    def __init__(self, place: str, *, threshold: float = 0.5) -> None:
        check_share("score threshold", threshold)
        self.place, self.threshold = place, threshold
        self.name = Path(place).name
        self._opened: Any = _open(place)
        self.identity = f"transformers sha256:{digest(*self._opened)} score {threshold:g}"

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        import torch

        if self._opened is None:
            self._opened = _open(self.place)
        processor, model = self._opened
        with torch.inference_mode():
            outputs = model(**processor(images=image, return_tensors="pt"))
            (found,) = processor.post_process_object_detection(
                outputs, threshold=self.threshold, target_sizes=[image.shape[:2]]
            )
        names = model.config.id2label
        detections = (
            Detection(common(names[int(label)]), float(score), tuple(box.tolist()))
            for label, score, box in zip(
                found["labels"], found["scores"], found["boxes"], strict=True
            )
        )
        return tuple(detection for detection in detections if detection.label not in NO_CLASS)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}  # another process reads the weights itself


def _open(place: str) -> tuple[Any, Any]:
    transformers = import_transformers(place)
    with loading(place, "detector"):
        processor = transformers.AutoImageProcessor.from_pretrained(place)
        model, loaded = transformers.AutoModelForObjectDetection.from_pretrained(
            place, use_safetensors=True, output_loading_info=True
        )
    if loaded["missing_keys"]:
        missing = ", ".join(sorted(loaded["missing_keys"])[:3])
        raise ModelError(
            f"{place} lacks weights of its detector ({missing}, …), which would be random. Save the"
            " whole trained network."
        )
    return processor, model.eval()
