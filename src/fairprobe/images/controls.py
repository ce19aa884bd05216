"""The controls of an audit on pictures.

Without them, NeuronFair's search on images would find pictures near the decision boundary of a
network that knows nothing about the attribute. So every figure stands beside what is found with
noise of the same size, with a head trained on shuffled labels, with random steps, by an independent
network, and after plain fine-tuning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

OWN = "own"  # the change of the attribute itself, beside the control changes
RANDOM_SIGNS: Final = "random_signs"
SHUFFLED_LABELS: Final = "shuffled_labels"
INDEPENDENT, RANDOM_DIRECTION, WITHOUT_IDIS = "independent", "random_direction", "without_idis"

# The controls that replace the change of the attribute by another one.
CHANGES: tuple[Literal["random_signs", "shuffled_labels"], ...] = (RANDOM_SIGNS, SHUFFLED_LABELS)


@dataclass(frozen=True)
class Control:
    """A control's name, and what it shows."""

    name: str
    says: str


CONTROLS = {
    RANDOM_SIGNS: Control(
        "random signs",
        "A change of the same size with random signs: what any noise of this size does.",
    ),
    SHUFFLED_LABELS: Control(
        "shuffled labels",
        "A change made with a head that was trained on shuffled labels: what a change does that"
        " cannot know the attribute.",
    ),
    INDEPENDENT: Control(
        "independent network",
        "A separate network for the attribute: whether anything but the head on the audited"
        " network sees the attribute change.",
    ),
    RANDOM_DIRECTION: Control(
        "random direction",
        "Steps of the same length in random directions: what trial and error finds.",
    ),
    WITHOUT_IDIS: Control(
        "without IDIs",
        "The same fine-tuning with clean pictures instead of the IDIs: what more training alone"
        " changes.",
    ),
}
