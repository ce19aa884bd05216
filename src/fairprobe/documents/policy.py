"""The document of a policy: what a run must reach, as a TOML file says it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from fairprobe.results import Result

Uncertain: TypeAlias = Literal["fail", "pass", "more"]


class PolicyDocument(Result, frozen=True, kw_only=True):
    """Limits by measure. Which measures there are, and in which unit, the gate knows."""

    limits: dict[str, Any] = msgspec.field(default_factory=dict)
    uncertain: Uncertain = "fail"
    most_samples: Annotated[int, msgspec.Meta(ge=1)] = 2_000_000
    baseline: dict[str, Any] = msgspec.field(default_factory=dict)
