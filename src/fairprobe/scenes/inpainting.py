"""In-painting: fill a part of a picture as if nothing had been there.

Navier–Stokes (Bertalmio et al., 2000) and Telea's method come with OpenCV and smear large holes;
exemplars keep texture but are slower; LaMa (Suvorov et al., "Resolution-robust Large Mask
Inpainting with Fourier Convolutions", 2022) runs from a user-supplied ONNX file. With every method,
the pixels of the mask are computed from the pixels outside it only, and no other pixel changes.

Exemplars: Criminisi, Pérez, Toyama, "Region Filling and Object Removal by Exemplar-Based Image
Inpainting", IEEE Trans. on Image Processing 2004.

    paper                           here
    Ω, the target region            `_Fill._open`
    Φ, the source region            `_Fill._sources`, the middles of patches wholly outside it
    C(p), D(p), P(p)                `_Fill._trust`, the strength of lines in `_Fill._judge`,
                                    `_Fill._priority`
    Ψ, a patch                      `_Fill._side` pixels to each side of its middle

Deliberate deviations: sources are searched for in a smaller copy of the picture and copied at full
scale, which is many times faster; they come from a wide and low window, since a street changes more
from top to bottom than along a row, and another row costs a little; other objects are never copied,
which would put new ones into the picture; where the background is annotated, asphalt is continued
by asphalt and walls by walls; and the pieces are blended where they meet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from fairprobe.arrays import Ints, Mask
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.models.formats.file_checks import check_exists, first_line
from fairprobe.scenes.detectors.onnx import open_session
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


# -- exemplars -------------------------------------------------------------------------------------


SEARCHED_AT = 180  # rows of the smaller picture in which sources are searched for
COARSEST = 4
SIDES = (2, 4)  # pixels to each side of a patch's middle, for small and large holes
HOLE_SIDES = 9  # a hole is about this many patch sides wide
REACH = 14  # rows from a patch to its source, unless there is none
BESIDE = 60  # columns from the hole to the furthest sources
OTHER_ROW = 2.0  # what a row of difference costs, in squared levels of each number
OTHER_KIND = 4000.0  # what another kind of background costs, in the same unit
FLAT = 0.02  # the priority where no line runs in, beside the strongest line's
STRONGEST = 1020.0  # Sobel's response to a step from black to white
MOST_ROUNDS = 150  # of conjugate gradients
SMOOTH_ENOUGH = 0.05  # squared levels a pixel that may be left
HOLD = 1 / 64  # how strongly a pixel keeps its color, beside the step to its neighbor
NEXT = np.ones((3, 3), np.uint8)

Floats32 = npt.NDArray[np.float32]
Kinds = npt.NDArray[np.uint8]
_Part: TypeAlias = tuple[slice, ...]
_Links: TypeAlias = tuple[_Part, _Part, Floats32, Floats32]  # neighbors, which, what is missing


def fill_by_exemplars(
    image: Picture, hole: Mask, avoid: Mask, cv2: Any, kinds: Kinds | None = None
) -> Picture:
    """Return the picture with the hole filled. Pixels under `avoid` are neither copied nor matched,
    and pixels of another kind, which is a number for each pixel, are copied at a price.
    """
    step = int(np.clip(image.shape[0] // SEARCHED_AT, 1, COARSEST))
    room = [(0, -size % step) for size in hole.shape]
    image_room = np.pad(image, (*room, (0, 0)), mode="edge")
    hole_small, avoid_small = (
        _any_within(np.pad(mask, room), step) for mask in (hole, avoid | hole)
    )
    small = cv2.resize(image_room, hole_small.shape[::-1], interpolation=cv2.INTER_AREA).astype(
        np.float32
    )
    if kinds is None:
        kinds = np.zeros(hole.shape, dtype=np.uint8)
    kinds_small = np.pad(kinds, room, mode="edge")[step // 2 :: step, step // 2 :: step]
    rows, columns = _indices(hole_small.shape)
    count, pieces = cv2.connectedComponents(hole_small.astype(np.uint8), connectivity=8)
    for piece in range(1, count):
        part = _around(pieces == piece)
        here = (pieces == piece)[part]
        found = _Fill(small[part], here, avoid_small[part], kinds_small[part], cv2).done()
        if found is None:  # nothing around to copy from
            flat = cv2.inpaint(image, hole.astype(np.uint8), 3, cv2.INPAINT_NS)
            return np.asarray(flat, dtype=np.uint8)
        rows[part][here], columns[part][here] = (
            found[0][here] + part[0].start,
            found[1][here] + part[1].start,
        )
    filled, sources = _copied(image_room, hole, (rows, columns), step)
    count, pieces = cv2.connectedComponents(hole.astype(np.uint8), connectivity=8)
    blended = filled.copy()
    for piece in range(1, count):
        _blend(blended, filled, pieces == piece, hole | avoid, sources)
    return blended


def _any_within(mask: Mask, step: int) -> Mask:
    """Return the pixels of the smaller picture that contain any of the mask."""
    rows = np.logical_or.reduce([mask[first::step] for first in range(step)])
    found: Mask = np.logical_or.reduce([rows[:, first::step] for first in range(step)])
    return found


def _indices(shape: tuple[int, ...]) -> tuple[Ints, Ints]:
    """Return the row and the column of each pixel."""
    rows, columns = np.meshgrid(np.arange(shape[0]), np.arange(shape[1]), indexing="ij")
    return rows, columns


def _around(mask: Mask) -> tuple[slice, slice]:
    """Return the box of a hole and of all places that its patches may come from."""
    ends = [np.flatnonzero(mask.any(axis=axis))[[0, -1]] for axis in (1, 0)]
    reach = [far + SIDES[1] + 1 for far in (REACH, BESIDE)]
    down, across = (
        slice(max(0, int(end[0]) - far), min(size, int(end[1]) + far + 1))
        for end, far, size in zip(ends, reach, mask.shape, strict=True)
    )
    return down, across


def _copied(
    image: Picture, hole: Mask, sources: tuple[Ints, Ints], step: int
) -> tuple[Picture, tuple[Ints, Ints]]:
    """Copy each pixel of the hole from where the small picture's comes from; also return the row
    and column of each source.
    """
    rows, columns = np.nonzero(hole)
    from_rows, from_columns = (source[rows // step, columns // step] * step for source in sources)
    filled = image[: hole.shape[0], : hole.shape[1]].copy()
    taken = _indices(hole.shape)
    for at, (from_small, within) in enumerate(((from_rows, rows), (from_columns, columns))):
        taken[at][hole] = np.minimum(from_small + within % step, hole.shape[at] - 1)
    filled[hole] = filled[taken[0][hole], taken[1][hole]]
    return filled, taken


def _blend(
    blended: Picture, filled: Picture, hole: Mask, unknown: Mask, sources: tuple[Ints, Ints]
) -> None:
    """Remove the seams of one hole: the steps from pixel to pixel are those of the copied pieces,
    the mean of both where two pieces meet, and the rest follows from what is around the hole
    (Pérez, Gangnet, Blake, "Poisson Image Editing", 2003).
    """
    part = tuple(
        slice(max(0, int(ends[0]) - 1), int(ends[-1]) + 2)
        for ends in (np.flatnonzero(hole.any(axis=axis)) for axis in (1, 0))
    )
    inside, is_used = hole[part], hole[part] | ~unknown[part]
    values = filled[part].astype(np.float32)
    links: list[_Links] = []
    for axis in (0, 1):
        first, second = _neighbors(axis)
        used = (inside[first] | inside[second]) & is_used[first] & is_used[second]
        sums, found = np.zeros((*used.shape, 3), np.float32), np.zeros((*used.shape, 1), np.float32)
        for here, offset in ((first, 1), (second, -1)):
            at = [source[part][here] for source in sources]
            beyond = at.copy()
            beyond[axis] = np.clip(at[axis] + offset, 0, hole.shape[axis] - 1)
            is_copied = (inside[here] & ~unknown[tuple(beyond)])[..., None]
            change = filled[tuple(beyond)].astype(np.float32) - filled[tuple(at)]
            sums += np.where(is_copied, offset * change, 0)
            found += is_copied
        plain = values[second] - values[first]
        off = np.where(found > 0, sums / np.maximum(found, 1) - plain, 0)
        links.append((first, second, used[..., None].astype(np.float32), off))
    values += _smoothed(links, inside[..., None].astype(np.float32))
    blended[part][inside] = np.clip(np.rint(values), 0, 255).astype(np.uint8)[inside]


def _smoothed(links: list[_Links], inside: Floats32) -> Floats32:
    """Compute the change within a hole whose steps are as near as possible to those that are
    missing, by conjugate gradients.
    """

    def spread(change: Floats32) -> Floats32:
        total = np.zeros_like(change)
        for first, second, used, _ in links:
            _flow(total, first, second, used * (change[second] - change[first]))
        return np.asarray((total + HOLD * change) * inside)

    left = np.zeros((*inside.shape[:2], 3), np.float32)
    for first, second, used, off in links:
        _flow(left, first, second, used * off)
    left *= inside
    change, way = np.zeros_like(left), left.copy()
    size = float((left**2).sum())
    for _ in range(MOST_ROUNDS):
        along = spread(way)
        bend = float((way * along).sum())
        if bend <= 0:
            break
        change += size / bend * way
        left -= size / bend * along
        before, size = size, float((left**2).sum())
        if size < SMOOTH_ENOUGH * inside.sum():
            break
        way = left + size / before * way
    return change


def _flow(total: Floats32, first: _Part, second: _Part, amount: Floats32) -> None:
    total[second] += amount
    total[first] -= amount


def _neighbors(axis: int) -> tuple[_Part, _Part]:
    """Slice all pixels but the last along an axis, and the next one of each."""
    every, first, second = slice(None), slice(None, -1), slice(1, None)
    return ((first, every), (second, every)) if axis == 0 else ((every, first), (every, second))


class _Fill:
    """One hole of the small picture, with its surroundings."""

    def __init__(self, image: Floats32, hole: Mask, avoid: Mask, kinds: Kinds, cv2: Any) -> None:
        self._cv2 = cv2
        narrow = min(int(np.ptp(np.flatnonzero(hole.any(axis=axis)))) for axis in (0, 1)) + 1
        self._side = int(np.clip(narrow // HOLE_SIDES, *SIDES))
        side, size = self._side, 2 * self._side + 1
        self._image = np.pad(image, ((side, side), (side, side), (0, 0)))
        self._gray = self._image.mean(axis=2)
        self._open, self._known = np.pad(hole, side), np.pad(~(hole | avoid), side)
        self._from_rows, self._from_columns = _indices(self._open.shape)
        self._confidence = self._known.astype(np.float32)
        whole = cv2.erode(
            self._known.astype(np.uint8),
            np.ones((size, size), np.uint8),
            borderType=cv2.BORDER_CONSTANT,
            borderValue=0,
        )
        self._sources = np.nonzero(whole)
        at = self._sources[0] - side, self._sources[1] - side
        windows = np.lib.stride_tricks.sliding_window_view
        self._patches = windows(self._image, (size, size), axis=(0, 1))[at].reshape(
            len(at[0]), -1
        )  # channels, rows, columns
        self._squares = windows(np.square(self._image).sum(axis=2), (size, size))[at].reshape(
            len(at[0]), -1
        )
        self._kinds = np.pad(kinds, side, mode="edge")
        self._source_kinds = windows(self._kinds, (size, size))[at].reshape(len(at[0]), -1)
        self._other: dict[int, Floats32] = {}
        self._trust, self._priority = (
            np.zeros(self._open.shape, np.float32),
            np.full(self._open.shape, -1, np.float32),
        )
        self._judge(np.s_[0 : self._open.shape[0], 0 : self._open.shape[1]])

    def done(self) -> tuple[Ints, Ints] | None:
        """Fill the hole; return the row and column of each pixel's source, None if there is nothing
        to copy.
        """
        if not len(self._patches):
            return None
        left = int(self._open.sum())
        while left:
            left -= self._fill_one()
        inner = np.s_[self._side : -self._side, self._side : -self._side]
        return self._from_rows[inner] - self._side, self._from_columns[inner] - self._side

    def _fill_one(self) -> int:
        """Fill the patch with the highest priority; return the number of pixels filled."""
        row, column = np.unravel_index(int(np.argmax(self._priority)), self._open.shape)
        if not self._open[row, column]:  # the rest is enclosed by what must not be matched
            row, column = np.argwhere(self._open)[0]
        here = self._patch(int(row), int(column))
        source = self._patch(*self._nearest(int(row), int(column)))
        gap = self._open[here].copy()
        filled = int(gap.sum())
        changed: tuple[npt.NDArray[Any], ...] = (
            self._image,
            self._gray,
            self._from_rows,
            self._from_columns,
        )
        for values in changed:
            values[here][gap] = values[source][gap]
        self._confidence[here][gap] = self._trust[row, column]
        self._known[here] |= gap
        self._open[here] = False
        self._judge(self._patch(int(row), int(column), wider=self._side + 2))
        return filled

    def _patch(self, row: int, column: int, *, wider: int = 0) -> tuple[slice, slice]:
        far = self._side + wider
        rows = slice(max(0, row - far), row + far + 1)
        return rows, slice(max(0, column - far), column + far + 1)

    def _nearest(self, row: int, column: int) -> tuple[int, int]:
        """Find the middle of the source most like the known part of the patch; in nearby rows if
        any.
        """
        rows, columns = self._sources
        first, last = np.searchsorted(rows, (row - REACH, row + REACH + 1))
        if first == last:
            first, last = 0, len(rows)
        here = self._patch(row, column)
        known = self._known[here].astype(np.float32)
        seen = (self._image[here] * known[..., None]).transpose(2, 0, 1).ravel()
        off = self._squares[first:last] @ known.ravel() - 2 * (self._patches[first:last] @ seen)
        off += (3 * OTHER_ROW * known.sum() * np.abs(rows[first:last] - row)).astype(np.float32)
        wanted = self._kinds[here].ravel()
        off += 3 * OTHER_KIND * np.float32(known.sum()) * self._others(wanted)[first:last]
        best = int(first) + int(np.argmin(off))
        return int(rows[best]), int(columns[best])

    def _others(self, wanted: Kinds) -> Floats32:
        """Return the share of pixels of another kind, of each source. Most patches are of one
        kind.
        """
        kind = int(wanted[0])
        if (wanted != kind).any():
            mixed: Floats32 = (self._source_kinds != wanted).mean(axis=1, dtype=np.float32)
            return mixed
        if kind not in self._other:
            self._other[kind] = (self._source_kinds != kind).mean(axis=1, dtype=np.float32)
        return self._other[kind]

    def _judge(self, part: tuple[slice, slice]) -> None:
        """Update priorities at the hole's edge: how much is known around a pixel times how strong a
        line runs towards the hole.
        """
        cv2, size = self._cv2, 2 * self._side + 1
        more = self._side + 3
        wide = tuple(slice(max(0, side.start - more), side.stop + more) for side in part)
        inner = tuple(
            slice(one.start - around.start, one.stop - around.start)
            for one, around in zip(part, wide, strict=True)
        )
        known, hole = self._known[wide].astype(np.uint8), self._open[wide].astype(np.float32)
        trust = cv2.boxFilter(
            self._confidence[wide], -1, (size, size), normalize=True, borderType=cv2.BORDER_CONSTANT
        )
        sure, gray = cv2.erode(known, NEXT), self._gray[wide]
        across, down = (
            cv2.dilate(np.abs(cv2.Sobel(gray, cv2.CV_32F, *way)) * sure, NEXT)
            for way in ((1, 0), (0, 1))
        )
        inward, below = (np.abs(cv2.Sobel(hole, cv2.CV_32F, *way)) for way in ((1, 0), (0, 1)))
        edges = (
            (across * below + down * inward)
            / (np.hypot(inward, below) + np.float32(1e-3))
            / STRONGEST
        )
        border = self._open[wide] & (cv2.dilate(known, NEXT) > 0)
        self._trust[part] = trust[inner]
        self._priority[part] = np.where(border, trust * (FLAT + edges), -1)[inner]
