"""Legends of figures: an entry for each line, or for each color of bars."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairprobe.present.experiment_plots import line_styles
from fairprobe.present.svg import coloured


@dataclass(frozen=True)
class Key:
    """An entry, drawn as a stroke in the color of a line or of bars."""

    color: str
    width: float
    dash: str
    name: str


def bar_legend(names: Iterable[str]) -> list[Key]:
    """The entries for bars with these names, in the order of their colors."""
    all_names = list(names)
    styles = line_styles(len(all_names))
    return [
        Key(coloured(style.colour), 10, "", name)
        for style, name in zip(styles, all_names, strict=True)
    ]


def line_legend(names: Iterable[str]) -> list[Key]:
    """The entries for lines with these names, in the order of their styles."""
    all_names = list(names)
    styles = line_styles(len(all_names))
    return [
        Key(coloured(style.colour), style.width, " ".join(f"{step:g}" for step in style.dash), name)
        for style, name in zip(styles, all_names, strict=True)
    ]
