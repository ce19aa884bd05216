"""An audit of a network on pictures: the run, its evidence, and the files of its folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from torch import nn

from fairprobe.arrays import Ints, Mask
from fairprobe.catalogue import METHODS
from fairprobe.datasets.image_sets import ImageSet
from fairprobe.images.change import Change, Flips, Spread
from fairprobe.images.controls import INDEPENDENT, OWN, SHUFFLED_LABELS, Compared
from fairprobe.images.detector import Detector
from fairprobe.images.export import exported
from fairprobe.images.forecast import Forecast
from fairprobe.images.interpret import ImageInterpretation, interpretation
from fairprobe.images.measure import Quality, Recalls, answers, people
from fairprobe.images.pairs import ImagePair
from fairprobe.images.parts import Parts
from fairprobe.images.repair import ImageRepair
from fairprobe.images.search import ImageFindings
from fairprobe.images.settings import Expected, ImageAuditSettings
from fairprobe.results import Count, Number, Rate, Result, Run, Seconds, Settings
from fairprobe.runs.store import AuditResult, Write
from fairprobe.search.neuron_bias import NeuronBias
from fairprobe.storage import replacing
from fairprobe.versions import versions

FORMAT: Final = 4  # raised when the meaning of a field changes
FINDINGS = "findings.npz"
RANDOM = "random"  # the search in random directions, a control


# -- results ---------------------------------------------------------------------------------------


class GroupSize(Result, frozen=True, kw_only=True):
    """The pictures of people with one value of the attribute."""

    name: str
    images: Count
    held_out: Count


class ImageData(Result, frozen=True, kw_only=True):
    """The pictures that were audited."""

    name: str
    images: Count
    faces: Count
    others: Count
    height: Count
    width: Count
    classes: list[str]
    learnt_from: Count
    held_out: Count
    values: list[GroupSize]


class DetectorInfo(Result, frozen=True, kw_only=True):
    """The audited network, and how good it is on held-out pictures."""

    name: str
    trained_here: bool
    parameters: Count
    parts: Parts
    quality: Quality


class AttributeInfo(Result, frozen=True, kw_only=True):
    """How well the attribute of held-out faces is recognized: by the head on the network's trunk,
    by an independent network, and by a head that was trained on shuffled labels.
    """

    values: list[str]
    head: Recalls
    independent: Recalls | None
    shuffled_labels: Recalls | None

    @property
    def chance(self) -> float:
        return 1 / len(self.values)


class OtherAttribute(Result, frozen=True, kw_only=True):
    """Another attribute than the sensitive one: how well a head on the trunk recognizes it, and how
    often each change changes its answer.
    """

    name: str
    head: Recalls
    changed: Compared[Rate]

    @property
    def chance(self) -> float:
        return 1 / len(self.head.rates)


class ChangeInfo(Result, frozen=True, kw_only=True):
    """The change of the attribute, Δ_sens, and the control changes, made for `faces`."""

    epsilon: Number
    cap: Number
    smallest: bool
    faces: Count
    flips: Compared[Flips]
    others: list[OtherAttribute]


class CountedPairs(Result, frozen=True, kw_only=True):
    """Pairs of a search as shares of the faces: all, those before any step, and those that the
    search made of the faces that it had to move (GSR); and how far it moved them.
    """

    success: Rate
    at_seed: Rate
    gsr: Rate
    l2: Spread | None

    @property
    def idis(self) -> int:
        return self.success.hits


class Found(Result, frozen=True, kw_only=True):
    """Pairs that a search found with one change. Strictly counted: where the search ended, both the
    detector and the head that the change was made with change their answer. Loosely, as in the
    paper: the head need only see the change at the start.
    """

    strict: CountedPairs
    loose: CountedPairs
    seen_by_independent: Rate | None

    def __post_init__(self) -> None:
        for what, strict, loose in (
            ("pairs", self.strict.success, self.loose.success),
            ("pairs before any step", self.strict.at_seed, self.loose.at_seed),
        ):
            if strict.hits > loose.hits:
                raise ValueError(
                    f"{strict.hits} {what} count strictly, but only {loose.hits} loosely"
                )
        if self.strict.success.samples != self.loose.success.samples:
            raise ValueError("the strict and the loose count are of different numbers of faces")
        seen = self.seen_by_independent
        if seen is not None and seen.samples != self.strict.idis:
            raise ValueError(
                f"{seen.samples} pairs were shown to others, but {self.strict.idis} count"
            )


class ImageGeneration(Result, frozen=True, kw_only=True):
    """A search: what it found with each change, how many steps it took, and its time."""

    method: str
    title: str
    is_control: bool
    seeds: Count
    generated: Count
    iterations: Spread | None
    ms_an_image: Seconds
    stopped: str
    found: Compared[Found]


class ImagesRun(Run, frozen=True, kw_only=True):
    """An audit of a detector, or of a classifier of the attribute `target`."""

    kind: Literal["images"] = "images"
    format: Literal[4] = FORMAT
    sensitive: str
    target: str | None
    settings: Settings
    forecast: Forecast
    data: ImageData
    detector: DetectorInfo
    attribute: AttributeInfo
    change: ChangeInfo
    interpretation: ImageInterpretation | None
    generation: list[ImageGeneration]
    repair: ImageRepair | None
    pairs: list[ImagePair]

    @property
    def is_detector(self) -> bool:
        """Return True if the network finds faces, rather than an attribute of the people."""
        return not self.detector.quality.by_class

    @property
    def network(self) -> str:
        return "detector" if self.is_detector else "classifier"

    @property
    def guided(self) -> list[ImageGeneration]:
        """Return the searches that follow a method, without the random control."""
        return [search for search in self.generation if not search.is_control]

    @property
    def best_search(self) -> ImageGeneration | None:
        """Return the search that found most, of those that began."""
        begun = [search for search in self.guided if search.seeds]

        def pairs(search: ImageGeneration) -> tuple[int, int]:
            found = search.found.own
            return found.strict.idis, found.loose.idis

        return max(begun, key=pairs, default=None)


def count_pairs(found: ImageFindings, strict: Mask, seen: Rate | None) -> Found:
    """Count the pairs of a search; `seen` are the strict ones that an independent network sees."""

    def count(pairs: ImageFindings) -> CountedPairs:
        return CountedPairs(
            success=Rate.of(len(pairs), pairs.seeds),
            at_seed=Rate.of(int(pairs.at_seed.sum()), pairs.seeds),
            gsr=Rate.of(pairs.made, found.tried),
            l2=Spread.of(pairs.moved_by),
        )

    return Found(
        strict=count(found.only(strict)),
        loose=count(found),
        seen_by_independent=seen if seen is not None and seen.samples else None,
    )


# -- the evidence ----------------------------------------------------------------------------------


@dataclass(repr=False)
class ImageAudit(AuditResult[ImagesRun]):
    """The evidence, filled stage by stage, so that an interrupt leaves what was found until then.

    `rows` are the faces that were tried, as rows of the data. `changes`, `bias` and `found` hold
    what belongs to the attribute's own change (`OWN`) and to the control changes. Searches start
    from `seeds`, the faces whose attribute the own change flips. `strict` says which pairs count
    where the search ended, asked of the classifier that the change was made with (`heads`).
    `stopped` says why the audit ended early; `failed`, that an error was the reason.
    """

    data: ImageSet
    sensitive: str
    detector: Detector
    name: str
    trained_here: bool
    settings: ImageAuditSettings
    seed: int
    created: str
    quality: Quality
    recalls: dict[str, Recalls]
    rows: Ints
    heads: dict[str, nn.Module]
    changes: dict[str, Change]
    expected: Expected
    independent: nn.Module | None = None
    seen_change: dict[str, Rate] = field(default_factory=dict)
    others: list[OtherAttribute] = field(default_factory=list)
    layouts: dict[str, str] = field(default_factory=dict)  # of the layers, by name
    bias: dict[str, NeuronBias] = field(default_factory=dict)
    found: dict[str, dict[str, ImageFindings]] = field(default_factory=dict)  # by method, by change
    strict: dict[tuple[str, str], Mask] = field(default_factory=dict)  # by method and change
    seen: dict[tuple[str, str], Rate] = field(default_factory=dict)  # by the independent network
    repaired: Detector | None = None
    repair: ImageRepair | None = None
    pairs: list[ImagePair] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    stopped: str | None = None
    failed: bool = False
    target: str | None = None  # the attribute that a classifier should say
    versions: dict[str, str] = field(default_factory=lambda: versions("torch", "numpy"))

    @property
    def seeds(self) -> Ints:
        return self.rows[self.changes[OWN].flipped]

    @property
    def findings(self) -> dict[str, ImageFindings]:
        """Return what each method found with the attribute's own change."""
        return {
            method: by_change[OWN] for method, by_change in self.found.items() if OWN in by_change
        }

    @property
    def strict_findings(self) -> dict[str, ImageFindings]:
        """Those of them that count strictly."""
        return {
            method: found.only(self.strict[method, OWN]) for method, found in self.findings.items()
        }

    def change_of_seeds(self, which: str = OWN) -> Change:
        """Return a change of the seeds alone: the same faces for every control."""
        return self.changes[which].take(self.changes[OWN].flipped)

    @property
    def document(self) -> ImagesRun:
        data, how = self.data, self.settings.change
        return ImagesRun(
            created=self.created,
            command="",
            versions=self.versions,
            seed=self.seed,
            seconds=self.seconds,
            stopped=self.stopped,
            messages=[
                *data.messages,
                *data.attribute_messages.get(self.sensitive, ()),
                *self.messages,
            ],
            sensitive=self.sensitive,
            target=self.target,
            settings=asdict(self.settings),
            forecast=self.expected.forecast,
            data=_data(data, self.sensitive),
            detector=DetectorInfo(
                name=self.name,
                trained_here=self.trained_here,
                parameters=sum(parameter.numel() for parameter in self.detector.parameters()),
                parts=self.expected.parts,
                quality=self.quality,
            ),
            attribute=AttributeInfo(
                values=list(data.attributes[self.sensitive].values),
                head=self.recalls[OWN],
                independent=self.recalls.get(INDEPENDENT),
                shuffled_labels=self.recalls.get(SHUFFLED_LABELS),
            ),
            change=ChangeInfo(
                epsilon=how.epsilon,
                cap=how.epsilon if how.cap is None else how.cap,
                smallest=how.smallest,
                faces=len(self.rows),
                flips=Compared.of(
                    {key: one.flips(self.seen_change.get(key)) for key, one in self.changes.items()}
                ),
                others=self.others,
            ),
            interpretation=interpretation(self.bias, self.layouts, self.settings.by)
            if OWN in self.bias
            else None,
            generation=[self._generation(method) for method in self.findings],
            repair=self.repair,
            pairs=self.pairs,
        )

    def _generation(self, method: str) -> ImageGeneration:
        own, strict = self.findings[method], self.strict_findings[method]
        is_control = method == RANDOM
        return ImageGeneration(
            method=method,
            title="random direction" if is_control else METHODS[method].title,
            is_control=is_control,
            seeds=own.seeds,
            generated=own.generated,
            iterations=Spread.of(strict.iterations[~strict.at_seed]),
            ms_an_image=1000 * own.seconds / own.seeds if own.seeds else 0.0,
            stopped=own.stopped,
            found=Compared.of(
                {
                    change: count_pairs(
                        found, self.strict[method, change], self.seen.get((method, change))
                    )
                    for change, found in self.found[method].items()
                }
            ),
        )

    def files(self) -> dict[str, Write]:
        """Return what writes the findings: the seeds with their Δ_sens, and for each method which
        of them it made differ, by which Δ_bias, the two pictures that this gives, whether they
        count strictly, the attribute's value, and what the detector answers to both, with its
        probability. And the networks that were trained: the detector, unless it was given, and the
        repaired one.
        """
        files: dict[str, Write] = {FINDINGS: self._write_findings}
        if self.trained_here:
            files |= self._network("detector", self.detector)
        if self.repaired is not None:
            files |= self._network("repaired", self.repaired)
        return files

    def _network(self, name: str, network: Detector) -> dict[str, Write]:
        ending, content = exported(network, self.data.images[self.rows])

        def write(path: Path) -> None:
            with replacing(path) as temporary:
                temporary.write_bytes(content)

        return {f"{name}.{ending}": write}

    def _write_findings(self, path: Path) -> None:
        change, images = self.change_of_seeds(), self.data.images[self.seeds]
        arrays: dict[str, Any] = {"seeds": self.seeds, "change": change.delta}
        codes = self.data.attributes[self.sensitive].codes
        for method, found in self.findings.items():
            without, changed = found.pictures(images, change)
            labels, sure = answers(self.detector, without, changed)
            arrays |= {
                f"{method}_rows": self.seeds[found.rows],
                f"{method}_delta": found.delta,
                f"{method}_iterations": found.iterations,
                f"{method}_at_seed": found.at_seed,
                f"{method}_strict": self.strict[method, OWN],
                f"{method}_without": without,
                f"{method}_with": changed,
                f"{method}_values": codes[self.seeds[found.rows]],
                f"{method}_labels": labels,
                f"{method}_probabilities": sure,
            }
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **arrays)


def _data(data: ImageSet, sensitive: str) -> ImageData:
    attribute, faces = data.attributes[sensitive], int(people(data).sum())
    return ImageData(
        name=data.name,
        images=len(data),
        faces=faces,
        others=len(data) - faces,
        height=data.images.shape[2],
        width=data.images.shape[3],
        classes=list(data.classes),
        learnt_from=int((~data.held_out).sum()),
        held_out=int(data.held_out.sum()),
        values=[
            GroupSize(
                name=value,
                images=int((attribute.codes == code).sum()),
                held_out=int((data.held_out & (attribute.codes == code)).sum()),
            )
            for code, value in enumerate(attribute.values)
        ],
    )
