"""Photographs with what was recognized in them drawn on top: what stayed, was lost, or is new."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup, escape

from fairprobe.report.formats import SPACE, listed
from fairprobe.scenes.detectors.base import Corners, Detection
from fairprobe.scenes.examples import Example, OriginalPicture

Kind = Literal["same", "lost", "new", "mutated"]

PICTURE = re.compile(r"data:image/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+=*")
SAME_PLACE = 0.5  # intersection over union from which two boxes are the same object
LETTER = 30  # letters of this share of the width can be read on a phone and on a desk
LETTER_WIDTH = 0.58  # of its height, on average


@dataclass(frozen=True)
class Shot:
    """A picture, its size, what is drawn over it, and both in words. Without a source there is
    nothing to show.
    """

    src: str
    alt: str
    width: int
    height: int
    overlay: Markup
    said: str


def source(text: Any) -> str:
    """A picture that the page itself holds; anything else that a document names is not loaded."""
    return text if isinstance(text, str) and PICTURE.fullmatch(text) else ""


def shots(example: Example) -> tuple[Shot, Shot]:
    """The pictures of an example: original and mutated."""
    sides = example.original, example.mutated
    return shots_of(*sides, mutated=example.mutated_label, scene=example.scene)


def shots_of(
    before: OriginalPicture, after: OriginalPicture, *, mutated: str, scene: str
) -> tuple[Shot, Shot]:
    """Original and mutated. In the mutated picture a dashed box shows where something was
    recognized before.
    """
    first = _drawn(before.detections, after.detections, "lost", mutated)
    second = _drawn(after.detections, before.detections, "new", mutated)
    ghosts = [_Drawn(one.object, "lost", is_ghost=True) for one in first if one.kind == "lost"]
    return (
        _shot(before, first, f"Original picture of {scene}."),
        _shot(after, second + ghosts, f"Mutated picture of {scene}."),
    )


@dataclass(frozen=True)
class _Drawn:
    object: Detection
    kind: Kind
    is_ghost: bool = False

    @property
    def words(self) -> str:
        return self.object.label + (": lost" if self.is_ghost else f" {self.object.score:.2f}")


@dataclass(frozen=True)
class _Place:
    """Where a word stands."""

    x: float
    y: float
    wide: float
    high: float

    def overlaps(self, other: _Place) -> bool:
        return (
            self.x < other.x + other.wide
            and other.x < self.x + self.wide
            and self.y < other.y + other.high
            and other.y < self.y + self.high
        )


def _drawn(
    here: Sequence[Detection],
    there: Sequence[Detection],
    changed: Literal["lost", "new"],
    mutated: str,
) -> list[_Drawn]:
    """Objects without a partner of the same class in the same place of the other picture are lost
    or new; each partner counts once. What was mutated had to change, so it is not an error.
    """
    free = list(range(len(there)))
    drawn = []
    for one in here:
        fitting = [place for place in free if there[place].label == one.label]
        best = max(fitting, key=lambda place: _overlap(one.box, there[place].box), default=None)
        kind: Kind = changed
        if best is not None and _overlap(one.box, there[best].box) >= SAME_PLACE:
            free.remove(best)
            kind = "same"
        drawn.append(_Drawn(one, "mutated" if one.label == mutated else kind))
    return drawn


def _overlap(one: Corners | None, other: Corners | None) -> float:
    """Intersection over union; without boxes only the class counts."""
    if one is None or other is None:
        return 1.0
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    if wide <= 0 or high <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return wide * high / (sum(areas) - wide * high)


def _shot(side: OriginalPicture, drawn: Sequence[_Drawn], what: str) -> Shot:
    found, lost = (
        [one.object.label for one in drawn if one.is_ghost is ghost] for ghost in (False, True)
    )
    said = f"Recognized: {_counted(found)}." if found else "Nothing is recognized."
    if lost:
        said += f" Lost: {_counted(lost)}."
    return Shot(
        source(side.src),
        f"{what} {said}",
        side.width,
        side.height,
        _overlay(drawn, side.width, side.height),
        said,
    )


def _counted(labels: Sequence[str]) -> str:
    """3 × car, 2 × person and 1 × sign."""
    return listed(f"{many}{SPACE}×{SPACE}{label}" for label, many in Counter(labels).most_common())


def _overlay(drawn: Sequence[_Drawn], width: int, height: int) -> Markup:
    """Boxes first, then words, so that no box crosses a word; what changed lies on top."""
    order: dict[Kind, int] = {"mutated": 0, "same": 1, "new": 2, "lost": 3}
    boxed = [(one, one.object.box) for one in drawn if one.object.box is not None]
    boxed.sort(key=lambda pair: order[pair[0].kind])
    size, taken, words = width / LETTER, list[_Place](), list[str]()
    for one, box in reversed([pair for pair in boxed if pair[0].kind in ("lost", "new")]):
        place = _place(one.words, box, size, (width, height), taken)
        taken.append(place)
        words.append(_words(one, size, place))
    boxes = [_box(one, box) for one, box in boxed]
    opening = f'<svg class="boxes" viewBox="0 0 {width} {height}" aria-hidden="true">'
    return Markup("".join([opening, *boxes, *words, "</svg>"]))  # noqa: S704  (made here; the document's texts are escaped)


def _box(one: _Drawn, box: Corners) -> str:
    left, top, right, bottom = box
    place = (
        f'x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0):.1f}"'
        f' height="{max(bottom - top, 0):.1f}"'
    )
    ghost = " ghost" if one.is_ghost else ""
    return (
        f'<rect class="edge" {place}/><rect class="box {one.kind}{ghost}"'
        f" {place}><title>{escape(one.words)}</title></rect>"
    )


def _place(
    text: str, box: Corners, size: float, picture: tuple[int, int], taken: Sequence[_Place]
) -> _Place:
    """Above the box, below it, or within it, wherever no other word is; always inside the
    picture.
    """
    (left, top, _, bottom), (width, height) = box, picture
    wide, high = (len(text) + 1) * LETTER_WIDTH * size, 1.3 * size
    x = min(max(left, 0.0), max(width - wide, 0.0))
    rows = [top - high, bottom, top, bottom - high, top - 2 * high, bottom + high]
    places = [_Place(x, y, wide, high) for y in rows if 0 <= y <= height - high]
    free = [place for place in places if not any(place.overlaps(other) for other in taken)]
    return next(iter(free or places), _Place(x, min(max(top, 0.0), height - high), wide, high))


def _words(one: _Drawn, size: float, place: _Place) -> str:
    text = (
        f'<text x="{place.x + place.wide / 2:.1f}" y="{place.y + 0.98 * size:.1f}"'
        f' font-size="{size:.1f}"'
    )
    return (
        f'<g class="word {one.kind}"><rect x="{place.x:.1f}" y="{place.y:.1f}"'
        f' width="{place.wide:.1f}" height="{place.high:.1f}"/>{text}'
        f' textLength="{place.wide - 0.6 * size:.1f}" lengthAdjust="spacingAndGlyphs"'
        f' text-anchor="middle">{escape(one.words)}</text></g>'
    )
