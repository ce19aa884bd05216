"""The five controls of an image audit: what the same figures are where the sensitive attribute
cannot be the reason.

An image IDI is found by a change that flips a *classifier's* opinion about the attribute, and by
steps along a network's own gradient. Both would find pictures near the decision boundary of a
network that knows nothing of the attribute. So every figure stands beside what noise of the same
size, a head that learnt nonsense, random steps, an independent network and plain fine-tuning give.
"""

from __future__ import annotations

from dataclasses import dataclass

OWN = "own"  # the change of the attribute itself, among the changes it is compared with
RANDOM_SIGNS, SHUFFLED_LABELS, INDEPENDENT = "random_signs", "shuffled_labels", "independent"
RANDOM_DIRECTION, WITHOUT_IDIS = "random_direction", "without_idis"
CHANGES = (
    RANDOM_SIGNS,
    SHUFFLED_LABELS,
)  # controls that put another change in the place of the attribute's


@dataclass(frozen=True)
class Control:
    """A control by its name, with a sentence about what it means."""

    name: str
    says: str


CONTROLS = {
    RANDOM_SIGNS: Control(
        "random signs",
        "A change of the same size with random signs: what any noise of this size does.",
    ),
    SHUFFLED_LABELS: Control(
        "shuffled labels",
        "A change made with a head that learnt shuffled labels: what a change does that cannot know"
        " the attribute.",
    ),
    INDEPENDENT: Control(
        "independent network",
        "A network of its own for the attribute: whether anybody but the detector's own head sees"
        " the attribute change.",
    ),
    RANDOM_DIRECTION: Control(
        "random direction",
        "Steps of the same length in random directions: what trying alone finds.",
    ),
    WITHOUT_IDIS: Control(
        "without IDIs",
        "The same fine-tuning with the clean pictures in the place of the IDIs: what more training"
        " alone changes.",
    ),
}
