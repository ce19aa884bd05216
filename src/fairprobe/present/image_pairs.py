"""Pairs of small pictures that a detector judges differently: with and without the change of an
attribute, and what they were made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fairprobe.present.formats import percent, ratio
from fairprobe.present.shots import source

Document = dict[str, Any]


@dataclass(frozen=True)
class Face:
    """A small picture with its words; without a source there is nothing to show."""

    src: str
    alt: str
    name: str
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class Side:
    """One half of a pair: the picture, the detector's verdict, and what two others see in it."""

    face: Face
    label: str
    sure: str
    seen: Sequence[str]
    is_changed: bool


@dataclass(frozen=True)
class Pair:
    """The two pictures that get different verdicts, and what they were made of."""

    heading: str
    sides: Sequence[Side]
    made: Sequence[Face]
    origin: str


def pair_of(document: Document, pair: Document, place: int) -> Pair:
    """A pair of the document; `place` counts from 1."""
    name, pictures, verdicts = document["sensitive"], pair["pictures"], pair["verdicts"]
    factor, first = f"× {pair['amplified']:g}", verdicts["original"]
    titles = {one["method"]: one["title"] for one in document.get("generation") or []}
    shown = [("without", f"Without the {name} change", 0), ("with", f"With the {name} change", 1)]
    is_changed = verdicts["without"]["label"] != verdicts["with"]["label"]
    made = [
        Face(
            _png(pictures, "original"),
            f"Original face: {first['label']}",
            "Original",
            [f"{first['label']}, {percent(first['probability'])}"],
        ),
        Face(
            _png(pictures, "bias"),
            "The bias perturbation, amplified",
            "Δ bias",
            [f"shown {factor}", f"L2 {ratio(pair['l2_bias'])}"],
        ),
        Face(
            _png(pictures, "change"),
            f"The {name} change, amplified",
            f"Δ {name}",
            [f"shown {factor}", f"L2 {ratio(pair['l2_change'])}"],
        ),
    ]
    search = titles.get(pair["method"], pair["method"])
    steps = (
        "The verdict changed before the search took any step."
        if pair["at_seed"]
        else "Grey in Δ is no change."
    )
    origin = f"Found by {search}, from picture {pair['row']}. {steps}"
    sides = [
        _side(pair, which, title, at, is_changed=is_changed and at == 1)
        for which, title, at in shown
    ]
    return Pair(f"Pair {place}: {pair['value']}", sides, made, origin)


def _side(pair: Document, which: str, title: str, at: int, *, is_changed: bool) -> Side:
    verdict, independent = pair["verdicts"][which], pair.get("independent")
    seen = [
        f"the detector’s head sees {pair['head'][at]}",
        *([f"the independent network sees {independent[at]}"] if independent else []),
    ]
    face = Face(_png(pair["pictures"], which), f"{title}: {verdict['label']}", title)
    return Side(
        face, verdict["label"], f"{percent(verdict['probability'])} probable", seen, is_changed
    )


def _png(pictures: dict[str, Any], key: str) -> str:
    return source(f"data:image/png;base64,{pictures[key]}") if pictures.get(key) else ""
