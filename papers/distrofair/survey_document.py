"""The documents of the realism survey: its key, and what participants said."""

from __future__ import annotations

import msgspec

from fairprobe.documents.base import Count, Document
from fairprobe.results import RankTest


class SurveyPicture(Document, frozen=True, kw_only=True):
    """A picture of the study. Participants see only its name, which reveals nothing."""

    name: str
    image: str
    scene: str
    operator: str
    dataset: str
    is_inducing: bool
    """Whether it makes some detector err."""
    vehicles: Count | None
    """By annotation, if known."""


class SurveyKey(Document, frozen=True, kw_only=True):
    """The pictures in the order in which they are shown, and messages about missing ones."""

    pictures: list[SurveyPicture]
    messages: list[str] = msgspec.field(default_factory=list)


class Rating(Document, frozen=True, kw_only=True):
    """The mean rating of some pictures, and of the error-inducing ones among them."""

    answers: Count
    mean: float | None
    inducing: float | None


class RatingRow(Document, frozen=True, kw_only=True):
    """A row of table 10: ratings of real and mutated pictures, and by operator.

    The row of ratios is in percent of the real pictures' ratings.
    """

    name: str
    realism: dict[str, Rating]
    likelihood: dict[str, Rating]


class SurveyEvaluation(Document, frozen=True, kw_only=True):
    """Ratings of the valid participants; `tests` compare real (first) and mutated pictures."""

    participants: Count
    valid: list[str]
    counted: list[str]
    """The pictures whose vehicles validate a participant."""
    rows: list[RatingRow]
    """Each data set if there are several, the total, and the ratio."""
    tests: dict[str, RankTest]
    messages: list[str]
