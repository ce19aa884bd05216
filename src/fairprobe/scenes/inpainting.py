"""In-painting: fill a part of a picture as if nothing had been there.

Navier–Stokes (Bertalmio et al., 2000) and Telea's method come with OpenCV and smear large holes;
exemplars (Criminisi et al., 2004) keep texture but are slower; LaMa (Suvorov et al.,
"Resolution-robust Large Mask Inpainting with Fourier Convolutions", 2022) runs from a user-supplied
ONNX file. With every method, the pixels of the mask are computed from the pixels outside it only,
and no other pixel changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from fairprobe.arrays import Mask
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.models.formats.file_checks import check_exists, first_line
from fairprobe.scenes.detectors.onnx import open_session
from fairprobe.scenes.exemplars import fill_by_exemplars
from fairprobe.scenes.scene import Picture

METHODS = ("ns", "telea", "exemplars", "lama:PATH")
RADIUS = 3  # pixels that OpenCV's methods look at around each pixel
MARGIN = 16  # pixels around the mask that these methods need
MULTIPLE = 8  # LaMa halves a picture three times
BYTES = 2.0  # an output above this is in 0–255, not in 0–1


class Inpainter(ABC):
    """Fill masks. It can be sent to another process."""

    name: str

    def fill(
        self,
        image: Picture,
        mask: Mask,
        *,
        avoid: Mask | None = None,
        kinds: npt.NDArray[np.uint8] | None = None,
    ) -> Picture:
        """Return a copy with the mask filled. No pixel is copied from under `avoid`; pixels of the
        same kind of background are preferred (a number for each pixel, also of the mask).
        """
        filled = image.copy()
        if mask.any():
            filled[mask] = 0  # so that no method can use what was there
            avoid = np.zeros_like(mask) if avoid is None else avoid
            filled[mask] = self._painted(filled, mask, avoid, kinds)[mask]
        return filled

    @abstractmethod
    def _painted(
        self, image: Picture, mask: Mask, avoid: Mask, kinds: npt.NDArray[np.uint8] | None
    ) -> Picture:
        """Return the whole picture, of which only the pixels under the mask are used."""


class Remembering(Inpainter):
    """The same method for one picture: what was filled before, as an object that is turned several
    times, is not filled again.
    """

    def __init__(self, method: Inpainter) -> None:
        self.name, self._method = method.name, method
        self._filled: dict[tuple[bytes, ...], Picture] = {}

    def _painted(
        self, image: Picture, mask: Mask, avoid: Mask, kinds: npt.NDArray[np.uint8] | None
    ) -> Picture:
        parts = (mask, avoid) if kinds is None else (mask, avoid, kinds)
        key = tuple(sha256(part.tobytes()).digest() for part in parts)
        if key not in self._filled:
            self._filled[key] = self._method._painted(image, mask, avoid, kinds)[mask]
        painted = image.copy()
        painted[mask] = self._filled[key]
        return painted


@lru_cache(maxsize=8)
def inpainter(name: str) -> Inpainter:
    """Open the method of this name: "ns" (Navier–Stokes), "telea", "exemplars" or "lama:PATH"."""
    method, _, path = name.partition(":")
    if method == "lama" and path:
        return LamaInpainter(Path(path))
    if name in METHODS[:-1]:
        return OpenCVInpainter(name)
    raise SettingError(f"Unknown in-painting method '{name}'.{suggest(name, METHODS)}")


class OpenCVInpainter(Inpainter):
    """Navier–Stokes, Telea, or exemplars built on OpenCV."""

    def __init__(self, method: str) -> None:
        self.name = method
        self._opencv()

    def _painted(
        self, image: Picture, mask: Mask, avoid: Mask, kinds: npt.NDArray[np.uint8] | None
    ) -> Picture:
        cv2 = self._opencv()
        if self.name == "exemplars":
            return fill_by_exemplars(image, mask, avoid, cv2, kinds)
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        part = np.s_[
            max(0, rows[0] - MARGIN) : rows[-1] + MARGIN + 1,
            max(0, columns[0] - MARGIN) : columns[-1] + MARGIN + 1,
        ]
        flag = cv2.INPAINT_NS if self.name == "ns" else cv2.INPAINT_TELEA
        painted = image.copy()
        painted[part] = cv2.inpaint(
            np.ascontiguousarray(image[part]), mask[part].astype(np.uint8), RADIUS, flag
        )
        return painted

    @staticmethod
    def _opencv() -> Any:
        try:
            import cv2
        except ImportError as error:
            raise SettingError(
                "In-painting needs OpenCV, which is not installed. Install it: pip install"
                ' "fairprobe[scenes]".'
            ) from error
        return cv2


class LamaInpainter(Inpainter):
    """An ONNX network from an image (1, 3, height, width; 0–1) and a mask (1, 1, height, width; 1:
    fill) to an image.
    """

    def __init__(self, path: Path) -> None:
        check_exists(path, "ONNX file of the in-painter")
        self.name, self._path = f"lama:{path}", path
        self._session: Any = self._opened()
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
        self._size = (height, width) if isinstance(height, int) and isinstance(width, int) else None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}

    def _opened(self) -> Any:
        return open_session(self._path.read_bytes(), self._path.name)

    def _painted(
        self,
        image: Picture,
        mask: Mask,
        avoid: Mask,  # noqa: ARG002
        kinds: npt.NDArray[np.uint8] | None,  # noqa: ARG002
    ) -> Picture:
        if self._session is None:
            self._session = self._opened()
        height, width = mask.shape
        if self._size is not None:
            # The same filter, so that every pixel that a hidden one was mixed into is hidden too.
            shown = _resized(image, self._size)
            hidden = _resized(mask.astype(np.uint8) * np.uint8(255), self._size) > 0
        else:
            room = (-height % MULTIPLE, -width % MULTIPLE)
            shown = np.pad(image, ((0, room[0]), (0, room[1]), (0, 0)), mode="edge")
            hidden = np.pad(mask, ((0, room[0]), (0, room[1])))
        pixels = np.ascontiguousarray(shown.transpose(2, 0, 1)[None], dtype=np.float32) / 255
        inputs = (pixels, hidden[None, None].astype(np.float32))
        try:
            answer = self._session.run(None, dict(zip(self._names, inputs, strict=True)))[0]
        except Exception as error:  # onnxruntime's errors have no common class
            raise ModelError(
                f"{self._path.name} cannot in-paint a picture of {shown.shape[0]} ×"
                f" {shown.shape[1]}: {first_line(error)}."
            ) from error
        painted = np.asarray(answer, dtype=np.float32)
        if painted.shape != pixels.shape or not np.isfinite(painted).all():
            raise ModelError(
                f"{self._path.name} must return finite numbers of shape {pixels.shape}; it returned"
                f" {painted.shape}."
            )
        scale = 1 if painted.max() > BYTES else 255
        whole: Picture = np.clip(np.rint(painted[0].transpose(1, 2, 0) * scale), 0, 255).astype(
            np.uint8
        )
        if self._size is not None:
            return _resized(whole, (height, width))
        return whole[:height, :width]


def _resized(image: Picture, size: tuple[int, int]) -> Picture:
    return np.asarray(Image.fromarray(image).resize((size[1], size[0]), Image.Resampling.BILINEAR))
