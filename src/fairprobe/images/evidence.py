"""What an image audit has measured, filled stage by stage, so that an interrupt leaves what was
found until then.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fairprobe.arrays import Ints
from fairprobe.datasets.image_sets import ImageSet
from fairprobe.errors import SettingError, StorageError, suggest
from fairprobe.images.change import Change, ChangeSettings
from fairprobe.images.controls import OWN
from fairprobe.images.detector import Detector
from fairprobe.images.document import document
from fairprobe.images.folder import AUDIT, FINDINGS, REPORT, new_run
from fairprobe.images.interpret import By
from fairprobe.images.measure import Quality, Reading
from fairprobe.images.pairs import Pair
from fairprobe.images.repair import Repaired
from fairprobe.images.search import ImageFindings, ImageSearch
from fairprobe.interpret import NeuronBias
from fairprobe.present.images_page import render_images
from fairprobe.statistics.rates import Rate
from fairprobe.storage import reason, replacing, write_text
from fairprobe.versions import versions

METHODS: tuple[Literal["neuronfair", "adf", "eidig"], ...] = ("neuronfair", "adf", "eidig")


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """What was asked for; `faces` None takes all."""

    methods: tuple[str, ...] = METHODS
    faces: int | None = 250
    epsilon: float = 0.03
    cap: float | None = None
    smallest: bool = False
    step: float = 0.15
    iterations: int = 20
    by: By = "position"
    repair: bool = True
    controls: bool = True

    def __post_init__(self) -> None:
        if not self.methods:
            raise SettingError(f"Name at least one method to search with: {', '.join(METHODS)}.")
        for method in self.methods:
            if method not in METHODS:
                raise SettingError(
                    f"There is no method '{method}' for images.{suggest(method, METHODS)}"
                )
        if self.faces is not None and self.faces < 1:
            raise SettingError(f"The search must start from 1 face or more; got {self.faces}.")
        if self.iterations < 1:
            raise SettingError(f"The search must make 1 step or more; got {self.iterations}.")
        if self.by not in ("position", "channel"):
            raise SettingError(
                f"A neuron of a convolution is a position or a channel; got '{self.by}'."
            )
        self.change, self.search(self.methods[0])  # they refuse what they cannot work with

    @property
    def change(self) -> ChangeSettings:
        return ChangeSettings(epsilon=self.epsilon, cap=self.cap, smallest=self.smallest)

    def search(self, method: str) -> ImageSearch:
        return ImageSearch(method=method, step=self.step, max_iter=self.iterations)  # type: ignore[arg-type]


@dataclass
class ImageAudit:
    """The evidence. Changes, interpretations and findings are there for the attribute's own change
    and for those it is compared with.

    `rows` are the faces that were tried, as rows of the data; `changes` are theirs. Searches start
    from `seeds`, the faces among them whose attribute the change flips. `stopped` says where an
    interrupt ended the audit, or an error, which is then `failed`.
    """

    data: ImageSet
    sensitive: str
    detector: Detector
    name: str
    trained_here: bool
    settings: AuditSettings
    seed: int
    created: str
    quality: Quality
    readings: dict[str, Reading]
    rows: Ints
    changes: dict[str, Change]
    seen_change: dict[str, Rate] = field(default_factory=dict)
    bias: dict[str, NeuronBias] = field(default_factory=dict)
    found: dict[str, dict[str, ImageFindings]] = field(default_factory=dict)  # by method, by change
    seen: dict[tuple[str, str], Rate] = field(default_factory=dict)  # by the independent network
    seen_by_head: dict[str, Rate] = field(default_factory=dict)
    repaired: Repaired | None = None
    pairs: list[Pair] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    stopped: str | None = None
    failed: bool = False
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

    def change_of_seeds(self, which: str = OWN) -> Change:
        """A change, of the seeds alone: the same faces for every control."""
        return self.changes[which].take(self.changes[OWN].flipped)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data, the content of `audit.json`."""
        return document(self)

    def report(self, path: Path | str = "report.html") -> Path:
        """Writes the report, one self-contained HTML file, and returns its path."""
        write_text(Path(path), render_images(self.to_dict()))
        return Path(path)

    def save(self, folder: Path | str, *, overwrite: bool = False) -> Path:
        """Writes the run folder: all numbers, the report, and the findings."""
        with new_run(folder, overwrite=overwrite) as staged:
            self.write(staged)
        return Path(folder)

    def write(self, folder: Path, *, command: str = "") -> dict[str, Any]:
        """Fills a folder and returns the plain data. If that fails, all is kept in a temporary
        folder that the error names.
        """
        body = self.to_dict() | {"command": command}
        try:
            self._fill(folder, body)
        except OSError as error:
            raise StorageError(f"{reason(error, folder)}. {self._rescued(body)}") from error
        return body

    def _fill(self, folder: Path, body: dict[str, Any]) -> None:
        """The findings first: they cannot be made again in a moment."""
        with replacing(folder / FINDINGS) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self._arrays())
        write_text(
            folder / AUDIT, json.dumps(body, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        )
        write_text(folder / REPORT, render_images(body))

    def _rescued(self, body: dict[str, Any]) -> str:
        """Tries the system's temporary folder; a sentence about how that went."""
        try:
            place = Path(tempfile.mkdtemp(prefix="fairprobe-rescued-"))
            self._fill(place, body)
        except OSError:
            return "Neither can a temporary folder be written."
        return f"Nothing is lost: the whole run is in {place}."

    def _arrays(self) -> dict[str, Any]:
        """The seeds with their Δ_sens, and for each method which of them it made differ, by which
        Δ_bias. `rows` are rows of the data.
        """
        arrays: dict[str, Any] = {"seeds": self.seeds, "change": self.change_of_seeds().delta}
        for method, found in self.findings.items():
            arrays |= {
                f"{method}_rows": self.seeds[found.rows],
                f"{method}_delta": found.delta,
                f"{method}_iterations": found.iterations,
                f"{method}_at_seed": found.at_seed,
            }
        return arrays
