"""What an audit on pictures returns: the evidence, and what a run folder holds of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from fairprobe.arrays import Ints, Mask
from fairprobe.audits.image_document import images_document
from fairprobe.audits.image_settings import Expected, ImageAuditSettings
from fairprobe.datasets.image_sets import ImageSet
from fairprobe.documents.images import ImagesDocument
from fairprobe.images.change import (
    Change,
)
from fairprobe.images.controls import OWN
from fairprobe.images.detector import Detector
from fairprobe.images.export import exported
from fairprobe.images.measure import (
    Quality,
    Recalls,
    answers,
)
from fairprobe.images.pairs import Pair
from fairprobe.images.repair import Repaired
from fairprobe.images.search import ImageFindings
from fairprobe.results import Rate
from fairprobe.runs.store import AuditResult, Write
from fairprobe.search.neuron_bias import NeuronBias
from fairprobe.storage import replacing
from fairprobe.versions import versions

FINDINGS = "findings.npz"


@dataclass(frozen=True)
class OtherAttribute:
    """Another attribute than the sensitive one: how well a head on the trunk recognizes it, and how
    often each change changes what that head sees.
    """

    recalls: Recalls
    changed: dict[str, Rate]


@dataclass(repr=False)
class ImageAudit(AuditResult[ImagesDocument]):
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
    others: dict[str, OtherAttribute] = field(default_factory=dict)
    layouts: dict[str, str] = field(default_factory=dict)  # of the layers, by name
    bias: dict[str, NeuronBias] = field(default_factory=dict)
    found: dict[str, dict[str, ImageFindings]] = field(default_factory=dict)  # by method, by change
    strict: dict[tuple[str, str], Mask] = field(default_factory=dict)  # by method and change
    seen: dict[tuple[str, str], Rate] = field(default_factory=dict)  # by the independent network
    repaired: Repaired | None = None
    pairs: list[Pair] = field(default_factory=list)
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
        """What each method found with the attribute's own change."""
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
        """A change of the seeds alone: the same faces for every control."""
        return self.changes[which].take(self.changes[OWN].flipped)

    @property
    def document(self) -> ImagesDocument:
        """All of it as a typed document."""
        return images_document(self)

    def files(self) -> dict[str, Write]:
        """The findings: the seeds with their Δ_sens, and for each method which of them it made
        differ, by which Δ_bias, the two pictures that this gives, whether they count strictly, the
        attribute's value, and what the detector answers to both, with its probability. And the
        networks that were trained: the detector, unless it was given, and the repaired one.
        """
        files: dict[str, Write] = {FINDINGS: self._write_findings}
        if self.trained_here:
            files |= self._network("detector", self.detector)
        if self.repaired is not None and self.repaired.after is not None:
            files |= self._network("repaired", self.repaired.detector)
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
