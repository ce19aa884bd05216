"""Photographs with what was recognised in them drawn on top: what stayed, what was lost, and what
is new.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup, escape

from fairprobe.present.formats import SPACE, listed

Detection = dict[str, Any]
Kind = Literal["same", "lost", "new", "mutated"]
Box = Sequence[float]

PICTURE = re.compile(r"data:image/(?:png|jpeg|webp|gif);base64,[A-Za-z0-9+/]+=*")
SAME_PLACE = (
    0.5  # overlap (intersection over union) from which two boxes are taken for the same object
)
LETTER = 30  # letters of this share of the width are read on a phone and on a desk
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
    """A picture that the page itself holds; whatever else the document names is not loaded."""
    return text if isinstance(text, str) and PICTURE.fullmatch(text) else ""


def shots(telling: dict[str, Any]) -> tuple[Shot, Shot]:
    """Original and mutated. In the mutated picture a dashed box shows where something was
    recognised before.
    """
    before, after = telling["original"], telling["mutated"]
    mutated = telling["mutated_label"]
    lost, new = (
        _changed(side["detections"], other["detections"])
        for side, other in ((before, after), (after, before))
    )
    scene = telling.get("scene") or "the scene"
    first = [
        _Drawn(one, _kind(one, is_changed, "lost", mutated))
        for one, is_changed in zip(before["detections"], lost, strict=True)
    ]
    second = [
        _Drawn(one, _kind(one, is_changed, "new", mutated))
        for one, is_changed in zip(after["detections"], new, strict=True)
    ]
    ghosts = [_Drawn(one.detection, "lost", is_ghost=True) for one in first if one.kind == "lost"]
    return (
        _shot(before, first, f"Original picture of {scene}."),
        _shot(after, second + ghosts, f"Mutated picture of {scene}."),
    )


@dataclass(frozen=True)
class _Drawn:
    detection: Detection
    kind: Kind
    is_ghost: bool = False

    @property
    def words(self) -> str:
        if self.is_ghost:
            return f"{self.detection['label']}: lost"
        score = self.detection.get("score")
        return str(self.detection["label"]) + ("" if score is None else f" {score:.2f}")


@dataclass(frozen=True)
class _Place:
    """Where a word stands."""

    x: float
    y: float
    wide: float
    high: float

    def meets(self, other: _Place) -> bool:
        return (
            self.x < other.x + other.wide
            and other.x < self.x + self.wide
            and self.y < other.y + other.high
            and other.y < self.y + self.high
        )


def _kind(
    detection: Detection, is_changed: bool, changed: Literal["lost", "new"], mutated: str
) -> Kind:
    """What was mutated had to change, so it is no error."""
    if detection["label"] == mutated:
        return "mutated"
    return changed if is_changed else "same"


def _changed(here: Sequence[Detection], there: Sequence[Detection]) -> list[bool]:
    """Which detections have no partner in the other picture: of the same class, in the same place;
    each partner counts once.
    """
    free = list(range(len(there)))
    changed = []
    for one in here:
        fitting = [place for place in free if there[place]["label"] == one["label"]]
        best = max(
            fitting,
            key=lambda place: _overlap(one.get("box"), there[place].get("box")),
            default=None,
        )
        found = best is not None and _overlap(one.get("box"), there[best].get("box")) >= SAME_PLACE
        if found and best is not None:
            free.remove(best)
        changed.append(bool(one["changed"]) if one.get("changed") is not None else not found)
    return changed


def _overlap(one: Box | None, other: Box | None) -> float:
    """Intersection over union; recognisers without boxes are only asked for the class."""
    if one is None or other is None:
        return 1.0
    wide, high = (
        min(one[2], other[2]) - max(one[0], other[0]),
        min(one[3], other[3]) - max(one[1], other[1]),
    )
    if wide <= 0 or high <= 0:
        return 0.0
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return wide * high / (sum(areas) - wide * high)


def _shot(side: dict[str, Any], drawn: Sequence[_Drawn], what: str) -> Shot:
    found, lost = (
        [one.detection["label"] for one in drawn if one.is_ghost is ghost]
        for ghost in (False, True)
    )
    said = f"Recognised: {_counted(found)}." if found else "Nothing is recognised."
    gone = f" Lost: {_counted(lost)}." if lost else ""
    width, height = int(side.get("width") or 480), int(side.get("height") or 360)
    return Shot(
        source(side.get("src")),
        f"{what} {said}{gone}",
        width,
        height,
        _overlay(drawn, width, height),
        said + gone,
    )


def _counted(labels: Sequence[str]) -> str:
    """3 × car, 2 × person and 1 × sign."""
    return listed(f"{many}{SPACE}×{SPACE}{label}" for label, many in Counter(labels).most_common())


def _overlay(drawn: Sequence[_Drawn], width: int, height: int) -> Markup:
    """Boxes first, then words, so that no box crosses a word; what changed lies on top."""
    order: dict[Kind, int] = {"mutated": 0, "same": 1, "new": 2, "lost": 3}
    ordered = sorted(
        (one for one in drawn if one.detection.get("box")), key=lambda one: order[one.kind]
    )
    size, taken, words = width / LETTER, list[_Place](), list[str]()
    for one in reversed([one for one in ordered if one.kind in ("lost", "new")]):
        place = _place(one, size, width, height, taken)
        taken.append(place)
        words.append(_words(one, size, place))
    opening = f'<svg class="boxes" viewBox="0 0 {width} {height}" aria-hidden="true">'
    return Markup("".join([opening, *map(_box, ordered), *words, "</svg>"]))  # noqa: S704  (made here; the document's texts are escaped)


def _box(one: _Drawn) -> str:
    left, top, right, bottom = (float(edge) for edge in one.detection["box"])
    place = (
        f'x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0):.1f}"'
        f' height="{max(bottom - top, 0):.1f}"'
    )
    ghost = " ghost" if one.is_ghost else ""
    return (
        f'<rect class="edge" {place}/><rect class="box {one.kind}{ghost}"'
        f" {place}><title>{escape(one.words)}</title></rect>"
    )


def _place(one: _Drawn, size: float, width: int, height: int, taken: Sequence[_Place]) -> _Place:
    """Above the box, below it, or within it, wherever no other word is; never outside the
    picture.
    """
    left, top, _, bottom = (float(edge) for edge in one.detection["box"])
    wide, high = (len(one.words) + 1) * LETTER_WIDTH * size, 1.3 * size
    x = min(max(left, 0.0), max(width - wide, 0.0))
    rows = [top - high, bottom, top, bottom - high, top - 2 * high, bottom + high]
    places = [_Place(x, y, wide, high) for y in rows if 0 <= y <= height - high]
    free = [place for place in places if not any(place.meets(other) for other in taken)]
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
