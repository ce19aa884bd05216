"""Experiments on the smallest data set, with short searches."""

from __future__ import annotations

from typing import Any

import pytest

from papers import neuronfair
from papers.base import Plan, Subject, Variant
from papers.jobs import Job
from papers.neuronfair import Searches
from papers.neuronfair_figures import Figure5, Figure6

GERMAN = (Subject("german", "gender"),)
SHORT = {"local_iterations": 40, "wanted": 40, "instances": 50}


def short_searches(patch: pytest.MonkeyPatch) -> None:
    """The experiments on the smallest data set alone, with searches that end early."""
    real = neuronfair.search_job

    def short(plan: Plan, subject: Subject, variant: Variant, repeat: int, **settings: Any) -> Job:
        shorter = {key: value for key, value in SHORT.items() if settings.get(key)}
        return real(plan, subject, variant, repeat, **settings | shorter)

    patch.setattr(neuronfair, "search_job", short)
    for table in (Searches, Figure5, Figure6):
        patch.setattr(table, "subjects", GERMAN)
