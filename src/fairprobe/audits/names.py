"""The names experiment: the same résumés under different names, sent to a model that decides on
them. After Bertrand and Mullainathan, "Are Emily and Greg more employable than Lakisha and Jamal?",
2004.

Every name stands on every résumé. A group of names is compared with the others by the mean outcome;
beside it stands the excess of differences between groups over those between names of the same group
(`statistics/crossed.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe.arrays import Floats
from fairprobe.datasets.resumes import SLOT, NameSet, name_set, partners, resumes
from fairprobe.errors import DataError, SettingError, suggest
from fairprobe.models.formats.chat import Usage
from fairprobe.models.formats.chat_models import ChatText
from fairprobe.models.text import load_text_model
from fairprobe.statistics.crossed import Crossed, crossed
from fairprobe.statistics.paired import holm
from fairprobe.statistics.rates import CONFIDENCE

NUMBER = re.compile(r"-?\d+(\.\d+)?")
AT_ONCE = 64  # résumés between two reports of progress


@dataclass(frozen=True)
class GroupResult:
    """One group of names against the others; `p_adjusted` holds for all groups together."""

    attribute: str
    group: str
    names: int
    mean: float
    result: Crossed
    p_adjusted: float

    @property
    def is_found(self) -> bool:
        """Whether the difference is not chance, at the confidence of the intervals."""
        return self.p_adjusted <= 1 - CONFIDENCE


@dataclass(frozen=True)
class NamesExperiment:
    """What was found. `outcomes` (résumés, names) is the probability of the favorable class, or the
    mean rating where all classes are numbers. `usage` is that of a chat endpoint.
    """

    names: NameSet
    model: str
    outcome: str
    outcomes: Floats
    groups: tuple[GroupResult, ...]
    seed: int
    usage: Usage | None = None

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "kind": "names",
            "set": self.names.title,
            "source": self.names.source,
            "model": self.model,
            "outcome": self.outcome,
            "resumes": len(self.outcomes),
            "confidence": CONFIDENCE,
            "seed": self.seed,
            "names": [
                {"name": name, "mean": float(mean)}
                | {attribute: groups[place] for attribute, groups in self.names.groups.items()}
                for place, (name, mean) in enumerate(
                    zip(self.names.names, self.outcomes.mean(axis=0), strict=True)
                )
            ],
            "groups": [asdict(each) | {"is_found": each.is_found} for each in self.groups],
            "usage": None
            if self.usage is None
            else asdict(self.usage) | {"served": sorted(self.usage.served)},
        }


def names_experiment(
    model: object,
    names: str | NameSet = "audit",
    *,
    cvs: Sequence[str] | Path | str | None = None,
    favorable: str | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> NamesExperiment:
    """Put every name of a set on every résumé, and compare the answers.

    - `model` is anything that `load_text_model` takes: a function of a list of texts, or
      "chat:https://…" with the option `prompt`.
    - `names`: "audit" (the 36 names of Bertrand and Mullainathan), "gender", "surnames", or a set
      of your own.
    - `cvs`: texts with the slot {name}, or a folder of such files; ours by default.
    - `favorable`: the class that is counted; the first one by default. Classes that are all numbers
      are ratings.
    """
    chosen = names if isinstance(names, NameSet) else name_set(names)
    texts = resumes(cvs) if cvs is None or isinstance(cvs, str | Path) else list(cvs)
    if len(texts) < 2 or any(SLOT not in text for text in texts):
        raise DataError(f"At least two résumés are needed, each with the slot {SLOT}.")
    asked = load_text_model(model, **options)
    worth, outcome = _worth(asked.classes, favorable)
    other = partners(chosen.kind)
    letters = [
        text.replace(SLOT, chosen.full(name, other[place % len(other)]))
        for place, text in enumerate(texts)
        for name in chosen.names
    ]
    parts = []
    for first in range(0, len(letters), AT_ONCE):
        if progress is not None:
            progress(first, len(letters))
        parts.append(asked.probabilities(letters[first : first + AT_ONCE]) @ worth)
    y = np.concatenate(parts).astype(float).reshape(len(texts), -1)
    return NamesExperiment(
        chosen,
        asked.name,
        outcome,
        y,
        _groups(chosen, y, seed),
        seed,
        asked.chat.usage if isinstance(asked, ChatText) else None,
    )


def _worth(classes: Sequence[str], favorable: str | None) -> tuple[Floats, str]:
    """What each class counts, and what the sum is called."""
    if favorable is None and sum(bool(NUMBER.fullmatch(each)) for each in classes) > 2:
        rated = [float(each) if NUMBER.fullmatch(each) else 0.0 for each in classes]
        return np.array(rated), "the mean rating; no answer counts 0"
    wanted = classes[0] if favorable is None else favorable
    if wanted not in classes:
        raise SettingError(f"There is no class '{wanted}'.{suggest(wanted, classes)}")
    return np.array([float(each == wanted) for each in classes]), f"the share of '{wanted}'"


def _groups(names: NameSet, y: Floats, seed: int) -> tuple[GroupResult, ...]:
    rng, found = np.random.default_rng(seed), []
    for attribute, groups in names.groups.items():
        of = np.array(groups)
        values = list(dict.fromkeys(groups))
        others = [each for name, each in names.groups.items() if name != attribute]
        labels = [" ".join(each) for each in zip(*others, strict=True)] or [""] * len(of)
        strata = np.unique(labels, return_inverse=True)[1]
        for value in values if len(values) > 2 else values[:1]:  # of two, one says it all
            is_in = of == value
            result = crossed(y, is_in, strata, rng=rng)
            mean = float(y[:, is_in].mean())
            found.append(GroupResult(attribute, value, int(is_in.sum()), mean, result, 1.0))
    adjusted = holm([each.result.p for each in found])
    return tuple(
        GroupResult(each.attribute, each.group, each.names, each.mean, each.result, float(p))
        for each, p in zip(found, adjusted, strict=True)
    )
