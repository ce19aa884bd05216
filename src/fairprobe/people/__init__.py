"""People who could exist: how usual a person is, and new people made from those in the data."""

from fairprobe.people.plausibility import Plausibility
from fairprobe.people.plausible import PlausiblePeople

__all__ = ["Plausibility", "PlausiblePeople"]
