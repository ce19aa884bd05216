"""In-painting by LaMa from a user's file.

Suvorov et al., "Resolution-robust Large Mask Inpainting with Fourier Convolutions", 2022.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fairprobe.arrays import Mask
from fairprobe.errors import ModelError
from fairprobe.models import one_thread
from fairprobe.models.formats.file_checks import archive, check_exists, first_line
from fairprobe.models.formats.torch_file import REFUSED_WORDS
from fairprobe.scenes.detectors.onnx import open_session
from fairprobe.scenes.inpainting import Inpainter
from fairprobe.scenes.scene import Picture

MULTIPLE = 8  # LaMa halves a picture three times
BYTES = 2.0  # an output above this is in 0–255, not in 0–1


class LamaInpainter(Inpainter):
    """A network from an image (1, 3, height, width; 0–1) and a mask (1, 1, height, width; 1: fill)
    to an image.
    """

    def __init__(self, path: Path) -> None:
        check_exists(path, "TorchScript or ONNX file of the in-painter")
        self.name, self._path = f"lama:{path}", path
        self._network: Any = self._opened()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_network": None}

    def _opened(self) -> Any:
        with self._path.open("rb") as file:
            is_archive = file.read(2) == b"PK"
        return _Script(self._path) if is_archive else _Onnx(self._path)

    def _painted(
        self,
        image: Picture,
        mask: Mask,
        avoid: Mask,  # noqa: ARG002
        kinds: npt.NDArray[np.uint8] | None,  # noqa: ARG002
    ) -> Picture:
        if self._network is None:
            self._network = self._opened()
        height, width = mask.shape
        fixed = self._network.size
        if fixed is not None:
            # The same filter, so that every pixel that a hidden one was mixed into is hidden too.
            shown = _resized(image, fixed)
            hidden = _resized(mask.astype(np.uint8) * np.uint8(255), fixed) > 0
        else:
            room = (-height % MULTIPLE, -width % MULTIPLE)
            shown = np.pad(image, ((0, room[0]), (0, room[1]), (0, 0)), mode="edge")
            hidden = np.pad(mask, ((0, room[0]), (0, room[1])))
        given = np.ascontiguousarray(shown.transpose(2, 0, 1)[None], dtype=np.float32) / 255
        try:
            answer = np.asarray(
                self._network.run(given, hidden[None, None].astype(np.float32)), dtype=np.float32
            )
        except Exception as error:  # anything that the library raises inside the user's network
            raise ModelError(
                f"{self._path.name} cannot in-paint a picture of {shown.shape[0]} ×"
                f" {shown.shape[1]}: {first_line(error)}."
            ) from error
        if answer.shape != given.shape or not np.isfinite(answer).all():
            raise ModelError(
                f"{self._path.name} must return finite numbers of shape {given.shape}; it returned"
                f" {answer.shape}."
            )
        scale = 1 if answer.max() > BYTES else 255
        pixels = np.clip(np.rint(answer[0].transpose(1, 2, 0) * scale), 0, 255).astype(np.uint8)
        return _resized(pixels, (height, width)) if fixed is not None else pixels[:height, :width]


def _resized(image: Picture, size: tuple[int, int]) -> Picture:
    return np.asarray(Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BILINEAR))


class _Script:
    """TorchScript; a program that could do more than compute is not loaded."""

    size: tuple[int, int] | None = None

    def __init__(self, path: Path) -> None:
        import torch

        with archive(path, "TorchScript file") as file:
            for entry in file.infolist():
                if entry.filename.lower().endswith(".py") and (
                    word := REFUSED_WORDS.search(file.read(entry))
                ):
                    raise ModelError(
                        f"The program in {path.name} uses '{word[0].decode()}', so it could do more"
                        " than compute; it is not loaded."
                    )
        try:
            self._module = torch.jit.load(str(path), map_location="cpu").eval()  # type: ignore[no-untyped-call]
        except (RuntimeError, ValueError, AttributeError, OSError) as error:
            raise ModelError(
                f"{path.name} is not a complete TorchScript file ({first_line(error)}). Export it"
                " again."
            ) from error

    def run(self, image: npt.NDArray[np.float32], mask: npt.NDArray[np.float32]) -> Any:
        import torch

        with one_thread(), torch.inference_mode():
            return self._module(torch.from_numpy(image), torch.from_numpy(mask)).numpy()


class _Onnx:
    """ONNX. The input with three channels is the image, that with one is the mask."""

    def __init__(self, path: Path) -> None:
        self._session = open_session(path.read_bytes(), path.name)
        inputs = {
            part.shape[1]: part for part in self._session.get_inputs() if len(part.shape) == 4
        }
        if set(inputs) != {1, 3}:
            raise ModelError(
                f"{path.name} must take an image (1, 3, height, width) and a mask (1, 1, height,"
                " width); it takes other inputs."
            )
        self._names = inputs[3].name, inputs[1].name
        height, width = inputs[3].shape[2:]
        self.size = (height, width) if isinstance(height, int) and isinstance(width, int) else None

    def run(self, image: npt.NDArray[np.float32], mask: npt.NDArray[np.float32]) -> Any:
        return self._session.run(None, dict(zip(self._names, (image, mask), strict=True)))[0]
