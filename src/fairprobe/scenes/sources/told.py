"""What happened to which pictures and objects, gathered into few sentences."""

from __future__ import annotations

from collections.abc import Iterable

SHOWN = 5  # names in a message


class Told:
    """Notes of the same kind become one sentence."""

    def __init__(self) -> None:
        self._subjects: dict[str, list[str]] = {}
        self._sentences: list[str] = []

    def note(self, subject: str, ending: str) -> None:
        """Something about one picture or object: "a.png" "cannot be read and is left out"."""
        self._subjects.setdefault(ending, []).append(subject)

    def say(self, sentence: str) -> None:
        """Something about the whole."""
        self._sentences.append(sentence)

    def messages(self) -> tuple[str, ...]:
        return (
            *(_sentence(subjects, ending) for ending, subjects in self._subjects.items()),
            *self._sentences,
        )


def listed(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    known = list(names)
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return ", ".join(known[:SHOWN]) + more


def _sentence(subjects: list[str], ending: str) -> str:
    if len(subjects) == 1:
        return f"{subjects[0]} {ending}."
    return f"{len(subjects)} times: {ending} ({listed(subjects)})."
