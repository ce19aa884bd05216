"""Whether mutation spoils pictures: measures of image quality from libraries, of originals and
mutants.

    similarity   full reference: structural similarity of a mutant and its original (scikit-image);
                 1 where nothing changed
    blur         no reference: the blur effect of Crete et al. (scikit-image); 0 sharp, 1 blurred
    clip_iqa     no reference: CLIP-IQA of Wang et al. (piq), the measure of the DistroFair paper; 0
                 bad, 1 good

CLIP-IQA runs where piq is installed and its weights are at hand; nothing is fetched behind the
user's back. The paper asks it for "Realistic photo" against "Unrealistic photo"; the released piq
knows only "Good photo." against "Bad photo.", so that is what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fairprobe.errors import DataError, SettingError
from fairprobe.scenes.scene import Picture
from fairprobe.statistics.ranks import RankTest, rank_test

SMALLEST = 7  # pixels a side: the window of structural similarity
CLIP_FILES = ("RN50.pt", "clipiqa_tokens.pt")  # where piq keeps them, below ~/.cache/clip
Score: TypeAlias = Callable[[Picture], float]


class Mutation(NamedTuple):
    """A mutant beside its original."""

    scene: str
    operator: str
    original: Picture
    mutated: Picture


@dataclass(frozen=True)
class Measure:
    """One measure: its mean over originals and mutants, by operator, and whether the two can be
    told apart (no reference only).
    """

    name: str
    original: float | None
    mutated: float
    operators: dict[str, float]
    test: RankTest | None

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "test": self.test.to_dict() if self.test else None}


@dataclass(frozen=True)
class Quality:
    """All measures that could be taken, and in sentences what was left out."""

    pictures: int
    measures: tuple[Measure, ...]
    messages: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        return {
            "pictures": self.pictures,
            "measures": [measure.to_dict() for measure in self.measures],
            "messages": list(self.messages),
        }


def image_quality(mutations: Iterable[Mutation], *, with_clip: bool = True) -> Quality:
    """Measures mutants and their originals; an original of several mutants counts once."""
    scores: dict[str, Score] = {"blur": blur}
    messages = []
    if with_clip:
        clip = clip_iqa()
        if isinstance(clip, str):
            messages.append(clip)
        else:
            scores["clip_iqa"] = clip
    taken = {name: _Taken() for name in ("similarity", *scores)}
    pictures = 0
    for scene, operator, original, mutated in mutations:
        try:
            taken["similarity"].add(operator, similarity(original, mutated))
        except DataError as error:
            messages.append(f"The {operator} mutant of {scene} was not measured: {error}")
            continue
        pictures += 1
        for name, score in scores.items():
            taken[name].add(operator, score(mutated))
            if scene not in taken[name].originals:
                taken[name].originals[scene] = score(original)
    measures = tuple(one.measure(name) for name, one in taken.items()) if pictures else ()
    return Quality(pictures, measures, tuple(messages))


def similarity(original: Picture, mutated: Picture) -> float:
    """The mean structural similarity, −1 to 1."""
    if original.shape != mutated.shape:
        raise DataError(
            f"It must have the size of its original, {original.shape[:2]}; it has"
            f" {mutated.shape[:2]}."
        )
    if min(original.shape[:2]) < SMALLEST:
        raise DataError(
            f"A picture needs {SMALLEST} pixels a side to be measured; got {original.shape[:2]}."
        )
    try:
        from skimage.metrics import structural_similarity
    except ImportError as error:
        raise _without_skimage() from error
    return float(structural_similarity(original, mutated, channel_axis=2, data_range=255))  # type: ignore[no-untyped-call]


def blur(image: Picture) -> float:
    """The blur effect, 0 to 1."""
    try:
        from skimage.measure import blur_effect
    except ImportError as error:
        raise _without_skimage() from error
    return float(blur_effect(image, channel_axis=-1))  # type: ignore[no-untyped-call]


def clip_iqa() -> Score | str:
    """CLIP-IQA, or the reason why it cannot be had."""
    try:
        piq = import_module("piq")
    except ImportError:
        return "CLIP-IQA was left out, since piq is not installed. Install it: pip install piq."
    folder = Path.home() / ".cache" / "clip"
    missing = [name for name in CLIP_FILES if not (folder / name).is_file()]
    if missing:
        return (
            f"CLIP-IQA was left out, since its weights are not at hand: {' and '.join(missing)} in"
            f' {folder}. Where the network allows it, this fetches them: python -c "import piq;'
            ' piq.CLIPIQA()".'
        )
    import torch

    metric = piq.CLIPIQA(data_range=255)

    def score(image: Picture) -> float:
        with torch.no_grad():
            return float(
                metric(
                    torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float()[None]
                )
            )

    return score


@dataclass
class _Taken:
    """The values of one measure so far."""

    originals: dict[str, float] = field(default_factory=dict)
    mutated: dict[str, list[float]] = field(default_factory=dict)

    def add(self, operator: str, value: float) -> None:
        self.mutated.setdefault(operator, []).append(value)

    def measure(self, name: str) -> Measure:
        originals, mutated = (
            list(self.originals.values()),
            [value for values in self.mutated.values() for value in values],
        )
        return Measure(
            name,
            original=float(np.mean(originals)) if originals else None,
            mutated=float(np.mean(mutated)),
            operators={
                operator: float(np.mean(values))
                for operator, values in sorted(self.mutated.items())
            },
            test=rank_test(originals, mutated) if originals else None,
        )


def _without_skimage() -> SettingError:
    return SettingError(
        "Measuring image quality needs scikit-image, which is not installed. Install it: pip"
        ' install "fairprobe[scenes]"'
    )
