"""In-painting: fill a part of a picture as if nothing had been there.

Navier–Stokes (Bertalmio et al., 2000) and Telea's method come with OpenCV and smear large holes;
exemplars (Criminisi et al., 2004) keep texture but are slower; LaMa (Suvorov et al., 2022) runs
from the user's TorchScript or ONNX file. With every method, the pixels of the mask are computed
from the pixels outside it only, and no other pixel changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fairprobe.arrays import Mask
from fairprobe.errors import SettingError, suggest
from fairprobe.scenes.exemplars import fill_by_exemplars
from fairprobe.scenes.scene import Picture

METHODS = ("ns", "telea", "exemplars", "lama:PATH")
RADIUS = 3  # pixels that OpenCV's methods look at around each pixel
MARGIN = 16  # pixels around the mask that these methods need


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
        """A copy with the mask filled. Methods that copy pixels copy none from under `avoid`, and
        prefer those of the same kind of background, a number for each pixel, also of the mask.
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
        """The whole picture, of which only the pixels under the mask are used."""


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
    """The method of this name: "ns" (Navier–Stokes), "telea", "exemplars" or "lama:PATH"."""
    method, _, path = name.partition(":")
    if method == "lama" and path:
        from fairprobe.scenes.lama import LamaInpainter  # imports torch, which takes seconds

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
