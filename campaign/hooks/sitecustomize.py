"""Loaded by Python itself at the start of a command that the campaign kills: dies by SIGKILL right
after its n-th move of a file or folder (CAMPAIGN_DIE_AFTER), or lists where they went
(CAMPAIGN_MOVES). Only the command's own moves are counted, not those of its workers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

_moves = 0


def _counted(move: Callable[..., Any]) -> Callable[..., Any]:
    def moved(source: Any, target: Any, *given: Any, **options: Any) -> Any:
        global _moves
        result = move(source, target, *given, **options)
        _moves += 1
        if place := os.environ.get("CAMPAIGN_MOVES"):
            with open(place, "a") as file:  # noqa: PTH123
                file.write(f"{os.path.abspath(target)}\n")  # noqa: PTH100
        if os.environ.get("CAMPAIGN_DIE_AFTER") == str(_moves):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return moved


is_watched = "CAMPAIGN_MOVES" in os.environ or "CAMPAIGN_DIE_AFTER" in os.environ
if is_watched and os.getpid() == os.getsid(0):
    os.rename, os.replace = _counted(os.rename), _counted(os.replace)
