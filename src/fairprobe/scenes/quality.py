"""Whether mutation spoils pictures: measures of image quality from libraries, of originals and
mutants.

    similarity   full reference: structural similarity of a mutant and its original (scikit-image);
                 1 where nothing changed
    blur         no reference: the blur effect of Crete et al. (scikit-image); 0 sharp, 1 blurred
    clip_iqa     no reference: CLIP-IQA of Wang et al. (piq), the measure of the DistroFair paper; 0
                 bad, 1 good

    clip_realism no reference: CLIP-IQA with the paper's own prompts, "Realistic photo" against
                 "Unrealistic photo", by a CLIP model in a folder that the user names

CLIP-IQA of piq runs if it is installed and its weights are on disk; nothing is downloaded without
the user's knowledge. It knows only the prompts "Good photo." and "Bad photo.".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from fairprobe.errors import DataError, FairprobeError, SettingError, StorageError
from fairprobe.models import one_thread
from fairprobe.results import Count, RankTest, Result
from fairprobe.scenes.collect import Evidence
from fairprobe.scenes.detectors.transformers import import_transformers, loading
from fairprobe.scenes.mutants import MadePicture, read_mutant
from fairprobe.scenes.plan import random_for
from fairprobe.scenes.scene import Mutation, Picture
from fairprobe.statistics.ranks import rank_test

SAMPLE = 30  # pictures of an operator whose quality is measured
SMALLEST = 7  # pixels a side: the window of structural similarity
CLIP_FILES = ("RN50.pt", "clipiqa_tokens.pt")  # piq stores them in ~/.cache/clip
PROMPTS = ("Realistic photo", "Unrealistic photo")  # of the paper
Score: TypeAlias = Callable[[Picture], float]


class QualityMeasure(Result, frozen=True, kw_only=True):
    """A measure of image quality: means over originals and mutants, and whether the two differ."""

    name: str
    original: float | None
    mutated: float
    operators: dict[Mutation, float]
    test: RankTest | None


class ImageQuality(Result, frozen=True, kw_only=True):
    """All measures that could be taken, and what was left out."""

    pictures: Count = 0
    measures: list[QualityMeasure] = msgspec.field(default_factory=list)
    messages: list[str] = msgspec.field(default_factory=list)


class MutantPair(NamedTuple):
    """A mutant and its original."""

    scene: str
    operator: Mutation
    original: Picture
    mutated: Picture


def measure_quality(evidence: Evidence, progress: Callable[[int, int, str], None]) -> ImageQuality:
    """Measure a sample of the mutants."""
    try:
        clip = None if evidence.settings.clip is None else clip_realism(evidence.settings.clip)
        return image_quality(_pairs(evidence, progress), realism=clip)
    except FairprobeError as error:
        return ImageQuality(messages=[str(error)])


def _pairs(evidence: Evidence, progress: Callable[[int, int, str], None]) -> Iterator[MutantPair]:
    sample = _sample(evidence)
    name, original = "", None
    for done, made in enumerate(sample, start=1):
        if original is None or made.task.scene != name:
            name = made.task.scene
            original = evidence.scenes.read(name).image
        yield MutantPair(made.task.scene, made.task.operator, original, read_mutant(made.path))
        progress(done, len(sample), f"{done:,} of {len(sample):,}")


def _sample(evidence: Evidence) -> list[MadePicture]:
    """Draw equally many pictures of each operator by the seed."""
    rng = random_for(evidence.settings.seed, "quality")
    found: list[MadePicture] = []
    for operator in evidence.settings.mutations:
        own = sorted(
            (
                made
                for made in evidence.made.values()
                if made.task.operator == operator and made.task.kind == "ood"
            ),
            key=lambda made: str(made.path),
        )
        found += [own[at] for at in sorted(rng.permutation(len(own))[:SAMPLE])]
    return sorted(found, key=lambda made: made.task.scene)


def image_quality(
    pairs: Iterable[MutantPair], *, with_clip: bool = True, realism: Score | None = None
) -> ImageQuality:
    """Measure mutants and their originals; an original of several mutants counts once."""
    scores: dict[str, Score] = {"blur": blur}
    if realism is not None:
        scores["clip_realism"] = realism
    messages = []
    if with_clip:
        clip = clip_iqa()
        if isinstance(clip, str):
            messages.append(clip)
        else:
            scores["clip_iqa"] = clip
    taken = {name: _Values() for name in ("similarity", *scores)}
    pictures = 0
    for scene, operator, original, mutated in pairs:
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
    measures = [values.measure(name) for name, values in taken.items()] if pictures else []
    return ImageQuality(pictures=pictures, measures=measures, messages=messages)


def similarity(original: Picture, mutated: Picture) -> float:
    """Return the mean structural similarity, −1 to 1."""
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
    """Return the blur effect, 0 to 1."""
    try:
        from skimage.measure import blur_effect
    except ImportError as error:
        raise _without_skimage() from error
    return float(blur_effect(image, channel_axis=-1))  # type: ignore[no-untyped-call]


def clip_iqa() -> Score | str:
    """Load CLIP-IQA, or return the reason why it is not available."""
    try:
        piq = import_module("piq")
    except ImportError:
        return "CLIP-IQA was left out, since piq is not installed. Install it: pip install piq."
    folder = Path.home() / ".cache" / "clip"
    missing = [name for name in CLIP_FILES if not (folder / name).is_file()]
    if missing:
        return (
            f"CLIP-IQA was left out, since its weights are missing: {' and '.join(missing)} in"
            f' {folder}. This downloads them: python -c "import piq; piq.CLIPIQA()".'
        )
    import torch

    metric = piq.CLIPIQA(data_range=255)

    def score(image: Picture) -> float:
        planes = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))).float()
        with torch.no_grad():
            return float(metric(planes[None]))

    return score


def clip_realism(folder: Path | str) -> Score:
    """Load a score of "Realistic photo" against "Unrealistic photo", 0 to 1, of a CLIP model of
    `transformers` in a folder.
    """
    place = Path(folder)
    if not place.is_dir():
        raise StorageError(
            f"There is no folder {place}. Expected a CLIP model, as save_pretrained writes it."
        )
    transformers = import_transformers(place)
    import torch

    with loading(place, "CLIP model"):
        model = transformers.CLIPModel.from_pretrained(
            place, local_files_only=True, use_safetensors=True
        ).eval()
        pictures = transformers.CLIPImageProcessor.from_pretrained(place, local_files_only=True)
        words = transformers.AutoTokenizer.from_pretrained(place, local_files_only=True)
        prompts = words(list(PROMPTS), padding=True, return_tensors="pt")

    def score(image: Picture) -> float:
        with one_thread(), torch.inference_mode():
            given = pictures(images=image, return_tensors="pt")
            alike = model(**prompts, **given).logits_per_image[0]  # 100 × the cosine, as trained
            return float(alike.softmax(0)[0])

    return score


@dataclass
class _Values:
    """The values of one measure so far."""

    originals: dict[str, float] = field(default_factory=dict)
    mutated: dict[Mutation, list[float]] = field(default_factory=dict)

    def add(self, operator: Mutation, value: float) -> None:
        self.mutated.setdefault(operator, []).append(value)

    def measure(self, name: str) -> QualityMeasure:
        originals = list(self.originals.values())
        mutated = [value for values in self.mutated.values() for value in values]
        test = rank_test(originals, mutated) if originals else None
        return QualityMeasure(
            name=name,
            original=float(np.mean(originals)) if originals else None,
            mutated=float(np.mean(mutated)),
            operators={
                operator: float(np.mean(values))
                for operator, values in sorted(self.mutated.items())
            },
            test=test,
        )


def _without_skimage() -> SettingError:
    return SettingError(
        "Measuring image quality needs scikit-image, which is not installed. Install it: pip"
        ' install "fairprobe[scenes]".'
    )
