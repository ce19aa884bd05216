"""Evidence on recognizers: scenes, pictures, answers and tests, from which the results are made."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from fairprobe.scenes.cutouts import Cutouts
from fairprobe.scenes.detectors.base import Detection, Detector, count_labels, renamed_counts
from fairprobe.scenes.detectors.self_test import LayoutAgreement
from fairprobe.scenes.mutants import MadePicture
from fairprobe.scenes.oracles import Test, reference_counts
from fairprobe.scenes.plan import SceneFacts, Settings, Task, Usual
from fairprobe.scenes.queries import RequestCap
from fairprobe.scenes.scene import Scenes
from fairprobe.storage import Scratch

Seen: TypeAlias = dict[str, tuple[Detection, ...]]  # by scene or by picture


@dataclass
class Evidence:
    """Scenes, plans, pictures and answers so far."""

    scenes: Scenes
    detectors: tuple[Detector, ...]
    settings: Settings
    folder: Path
    facts: dict[str, SceneFacts] = field(default_factory=dict)
    originals: dict[str, Seen] = field(default_factory=dict)
    usual: Usual | None = None
    plans: dict[str, list[Task]] = field(default_factory=dict)
    cutouts: Cutouts = field(default_factory=dict)
    made: dict[Task, MadePicture] = field(default_factory=dict)
    skipped: dict[Task, str] = field(default_factory=dict)
    answers: dict[str, Seen] = field(default_factory=dict)
    """For each recognizer, by the picture's path below the folder."""
    tests: list[Test] = field(default_factory=list)
    agreements: dict[str, LayoutAgreement] = field(default_factory=dict)
    """Of recognizers that return boxes, with annotated pictures."""
    realism: dict[str, float] = field(default_factory=dict)
    """How real mutants look, 0 to 1, by their path below the folder."""
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)
    cap: RequestCap = field(default_factory=RequestCap)
    """On all requests to remote recognizers together."""
    temporary: Scratch | None = None  # holds the folder if it is a temporary one

    def counts(self, detector: str) -> dict[str, Counter[str]]:
        """Count the objects that a recognizer finds in the originals."""
        return {name: count_labels(found) for name, found in self.originals[detector].items()}

    def named(self, detector: str) -> set[str]:
        """Return the classes that a recognizer names in any picture."""
        seen = (self.originals.get(detector, {}), self.answers.get(detector, {}))
        return {detection.label for part in seen for found in part.values() for detection in found}

    def annotated(self) -> dict[str, Counter[str]]:
        """Return the annotated counts under the names that classes count as, like those of
        recognizers.
        """
        counted_as = self.scenes.counted_as
        return {
            name: renamed_counts(facts.counts, counted_as) for name, facts in self.facts.items()
        }

    def annotations(self) -> dict[str, Counter[str]]:
        """Return the annotated counts without classes that no recognizer names in any picture."""
        every = {*self.originals, *self.answers}
        named = {label for detector in every for label in self.named(detector)}
        return {
            name: Counter({label: n for label, n in counts.items() if label in named})
            for name, counts in self.annotated().items()
        }

    def truth(self) -> dict[str, Counter[str]]:
        """Return the content of each original: the annotation and what all recognizers found."""
        counts = [self.counts(detector) for detector in self.originals]
        return {
            name: reference_counts(annotation, [seen[name] for seen in counts if name in seen])
            for name, annotation in self.annotations().items()
        }

    def pictures(self) -> dict[str, MadePicture]:
        """Return the mutated pictures by their path below the folder."""
        return {str(made.path.relative_to(self.folder)): made for made in self.made.values()}
