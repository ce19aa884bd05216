"""The controls of an audit on pictures.

Without them, NeuronFair's search on images would find pictures near the decision boundary of a
network that knows nothing about the attribute. So every number is compared with what is found with
noise of the same size, with a head trained on shuffled labels, with random steps, by an independent
network, and after plain fine-tuning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Generic, Literal, TypeAlias, TypeVar

from fairprobe.results import Result

# Controls that replace the change of the attribute by another change.
ControlChange: TypeAlias = Literal["random_signs", "shuffled_labels"]
RANDOM_SIGNS: Final = "random_signs"
SHUFFLED_LABELS: Final = "shuffled_labels"
CHANGES: dict[ControlChange, str] = {
    RANDOM_SIGNS: "random signs",
    SHUFFLED_LABELS: "shuffled labels",
}
OWN = "own"  # the change of the attribute itself
INDEPENDENT = "independent"  # the network that shares nothing with the audited one
T = TypeVar("T")


class Compared(Result, Generic[T], frozen=True, kw_only=True):
    """A result for the change of the attribute, and for each control change that was tried."""

    own: T
    controls: dict[ControlChange, T]

    @classmethod
    def of(cls, results: Mapping[str, T]) -> Compared[T]:
        """Divide results by change, of which one is `OWN`."""
        controls = {key: results[key] for key in CHANGES if key in results}
        return Compared(own=results[OWN], controls=controls)

    @property
    def named(self) -> dict[str, T]:
        """Return the results by the name of their change."""
        names = {CHANGES[key]: result for key, result in self.controls.items()}
        return {"the attribute change": self.own, **names}
