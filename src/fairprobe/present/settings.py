"""Settings as names and values that people read."""

from __future__ import annotations

from typing import Any


def told(settings: dict[str, Any]) -> list[tuple[str, str]]:
    """Each with its value in words."""
    return [(str(name).replace("_", " "), _words(value)) for name, value in settings.items()]


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(f"{name} {words}" for name, words in told(value)) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_words(one) for one in value) or "none"
    return "none" if value is None else str(value)
