"""Loaded by Python itself at the start of a command that the campaign kills: dies by SIGKILL right
after its n-th move of a file or folder (CAMPAIGN_DIE_AFTER), or counts them (CAMPAIGN_COUNT).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

_moves = 0


def _counted(move: Callable[..., Any]) -> Callable[..., Any]:
    def moved(*given: Any, **options: Any) -> Any:
        global _moves
        result = move(*given, **options)
        _moves += 1
        if place := os.environ.get("CAMPAIGN_COUNT"):
            with open(place, "w") as file:  # noqa: PTH123
                file.write(str(_moves))
        if os.environ.get("CAMPAIGN_DIE_AFTER") == str(_moves):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return moved


if "CAMPAIGN_COUNT" in os.environ or "CAMPAIGN_DIE_AFTER" in os.environ:
    os.rename, os.replace = _counted(os.rename), _counted(os.replace)
