"""The model of texts in a run: what it is called, of which kind, and its classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairprobe.measures import ModelInfo
from fairprobe.models.text import TextModel, TextSource, load_text_model
from fairprobe.runs.stages import Stages


class TextModelInfo(ModelInfo, frozen=True, kw_only=True):
    """A model of texts."""

    classes: list[str]
    origin: str | None = None
    notes: list[str] = msgspec.field(default_factory=list)

    @classmethod
    def of(cls, model: TextModel) -> TextModelInfo:
        """Describe a model."""
        return cls(
            network=model.name,
            kind=model.kind,
            classes=list(model.classes),
            origin=model.origin,
            notes=list(model.notes),
        )


def open_model(
    source: TextSource, classes: Sequence[str] | None, options: Mapping[str, Any], stages: Stages
) -> TextModel:
    """Open a model and find out its classes, which may be named only in its answers."""
    with stages.stage("Opening the model"):
        model = load_text_model(source, classes=classes, **options)
        model.classes  # noqa: B018
    return model
