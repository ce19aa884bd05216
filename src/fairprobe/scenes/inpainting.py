"""Painting over a part of a picture as if nothing had been there.

Navier–Stokes (Bertalmio et al., 2000) and Telea's method come with OpenCV and smear large holes;
exemplars (Criminisi et al., 2004) keep texture, at some cost; LaMa (Suvorov et al., 2022) is run
from a file of the user's, in TorchScript or ONNX. Whatever the method: every pixel of the mask is
computed anew, from the pixels outside it only, and no other pixel changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.arrays import Mask
from fairprobe.errors import SettingError, suggest
from fairprobe.scenes.exemplars import fill_by_exemplars
from fairprobe.scenes.scene import Picture

METHODS = ("ns", "telea", "exemplars", "lama:PATH")
RADIUS = 3  # pixels that OpenCV's methods look at around each pixel
MARGIN = 16  # pixels around the mask that are enough for them


class Inpainter(ABC):
    """Fills masks. It can be sent to another process."""

    name: str

    def fill(self, image: Picture, mask: Mask, *, avoid: Mask | None = None) -> Picture:
        """A copy in which the mask is painted over. Objects under `avoid` are not copied by methods
        that copy.
        """
        filled = image.copy()
        if mask.any():
            filled[mask] = 0  # so that no method can look at what was there
            filled[mask] = self._painted(
                filled, mask, np.zeros_like(mask) if avoid is None else avoid
            )[mask]
        return filled

    @abstractmethod
    def _painted(self, image: Picture, mask: Mask, avoid: Mask) -> Picture:
        """The whole picture; only what it says of the mask is taken."""


@lru_cache(maxsize=8)
def inpainter(name: str) -> Inpainter:
    """By name: "ns" (Navier–Stokes), "telea", "exemplars", or "lama:PATH", a TorchScript or ONNX
    file that takes an image and a mask.
    """
    method, _, path = name.partition(":")
    if method == "lama" and path:
        from fairprobe.scenes.lama import (
            LamaInpainter,
        )  # loads torch, which processes that only paint need not wait for

        return LamaInpainter(Path(path))
    if name in METHODS[:-1]:
        return OpenCVInpainter(name)
    raise SettingError(f"There is no in-painting '{name}'.{suggest(name, METHODS)}")


class OpenCVInpainter(Inpainter):
    """Navier–Stokes, Telea or, made of OpenCV's parts, exemplars."""

    def __init__(self, method: str) -> None:
        self.name = method
        self._opencv()

    def _painted(self, image: Picture, mask: Mask, avoid: Mask) -> Picture:
        cv2 = self._opencv()
        if self.name == "exemplars":
            return fill_by_exemplars(image, mask, avoid, cv2)
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
