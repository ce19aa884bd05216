"""`Lexicon`: words of each group that can be exchanged for each other, and words of the control.
Some are packaged; a user can write a TOML file of the same form:

    name = "age"
    title = "age"
    words = "fixed"                     # the question is about these words; or "sample": they
                                        # are examples of others like them, as names are
    except = ["old testament"]          # phrases in which a word is not about people

    [control]                           # neutral words by kind; without them, the control
    adjective = ["tall", "quiet"]       # exchanges words of the same group

    [[entries]]                         # words that can replace each other
    kind = "adjective"
    [entries.groups]
    old = ["elderly", "+old"]           # +: put into texts, but not looked for in them
    young = ["young"]

A noun is written "man/men" where its plural is irregular. A pronoun that has several roles is
written "her:object", "her:possessive", "his:alone".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from fairprobe.documents.files import read_toml
from fairprobe.errors import SettingError, suggest
from fairprobe.results import Result

LEXICONS = ("race", "gender", "religion", "orientation", "names")
Words: TypeAlias = Literal["fixed", "sample"]
WITHOUT_PLURAL = ("adjective", "pronoun", "name", "title", "belief")
ROLES = ("object", "possessive", "alone", "reflexive")


class EntryFile(Result, frozen=True, kw_only=True):
    """Words that can replace each other, by group."""

    kind: str
    groups: dict[str, list[str]]


class LexiconFile(Result, frozen=True, kw_only=True, rename={"exceptions": "except"}):
    """A lexicon in its TOML file."""

    name: str
    entries: list[EntryFile]
    title: str = ""
    about: str = ""
    words: Words = "fixed"
    exceptions: list[str] = msgspec.field(default_factory=list)
    control: dict[str, list[str] | dict[str, list[str]]] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """A word or phrase, its plural if any, and its role if it is a pronoun. Only forms that are
    `sought` are looked for in texts; all are put into texts.
    """

    word: str
    plural: str | None = None
    role: str = ""
    sought: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, kind: str) -> Term:
        """Parse a term of a lexicon."""
        rest, _, role = text.partition(":")
        word, slash, plural = rest.partition("/")
        if kind not in WITHOUT_PLURAL and not slash:
            plural = ("+" if word.startswith("+") else "") + regular_plural(word.lstrip("+"))
        if word.endswith(("self", "selves")) and kind == "pronoun":
            role = "reflexive"
        sought = tuple(form for form in (word, plural) if form and not form.startswith("+"))
        return cls(word.lstrip("+"), plural.lstrip("+") or None, role, sought)


@dataclass(frozen=True)
class Entry:
    """Words that can replace each other, by group."""

    kind: str
    groups: Mapping[str, tuple[Term, ...]]


@dataclass(frozen=True)
class Lexicon:
    """The words of each group, in entries, and those of the control by kind: neutral ones, or by
    group. `words`: "fixed" if the question is about these words, "sample" if they are examples.
    """

    name: str
    title: str
    about: str
    words: Words
    exceptions: tuple[str, ...]
    entries: tuple[Entry, ...]
    control: Mapping[str, tuple[Term, ...] | Mapping[str, tuple[Term, ...]]]

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """Return all groups in the order of the file."""
        return tuple(dict.fromkeys(name for entry in self.entries for name in entry.groups))

    def terms(self) -> Iterator[tuple[Entry, str, Term]]:
        """Yield every term with its entry and group."""
        for entry in self.entries:
            for group, terms in entry.groups.items():
                for term in terms:
                    yield entry, group, term

    def control_words(self, kind: str, group: str) -> tuple[Term, ...]:
        """Return the words of the control for a place of this kind, if there are any."""
        words = self.control.get(kind, ())
        return words.get(group, ()) if isinstance(words, Mapping) else words


def open_lexicon(source: Lexicon | Path | str) -> Lexicon:
    """Open a packaged lexicon by its name, or a TOML file."""
    if isinstance(source, Lexicon):
        return source
    if str(source) in LEXICONS:
        with as_file(files("fairprobe.language") / "lexicons" / f"{source}.toml") as path:
            return _read(path)
    if Path(source).suffix != ".toml":
        raise SettingError(
            f"There is no lexicon '{source}'.{suggest(str(source), LEXICONS)} Or name a TOML file."
        )
    return _read(Path(source))


def read_settings(path: Path, what: str) -> dict[str, Any]:
    """Read a user's TOML file; `what` names it in messages."""
    try:
        return read_toml(path)
    except ValueError as error:
        why = str(error).partition("\n")[0]
        raise SettingError(f"The {what} {path} is not valid TOML: {why}.") from error
    except OSError as error:
        raise SettingError(
            f"The {what} {path} cannot be read: {error.strerror or error}."
        ) from error


def _read(path: Path) -> Lexicon:
    body = read_settings(path, "lexicon")
    try:
        return from_file(msgspec.convert(body, LexiconFile))
    except msgspec.ValidationError as error:
        raise SettingError(
            f"The lexicon {path} is not valid: {error}. It needs a name and [[entries]], each with"
            " a kind and a table of groups."
        ) from None
    except ValueError as error:
        raise SettingError(f"The lexicon {path} is not valid: {error}") from error


def from_file(file: LexiconFile) -> Lexicon:
    """Check a lexicon and parse its words; raise ValueError if it is not valid."""
    if not file.entries:
        raise ValueError("it has no [[entries]]. Add at least one.")
    for number, entry in enumerate(file.entries, start=1):
        if len(entry.groups) < 2:
            raise ValueError(f"entry {number} has fewer than two groups. Name another group.")
    return Lexicon(
        name=file.name,
        title=file.title or file.name,
        about=file.about,
        words=file.words,
        exceptions=tuple(file.exceptions),
        entries=tuple(
            Entry(entry.kind, _parsed_groups(entry.groups, entry.kind)) for entry in file.entries
        ),
        control={
            kind: _parsed(words, kind) if isinstance(words, list) else _parsed_groups(words, kind)
            for kind, words in file.control.items()
        },
    )


def _parsed_groups(groups: Mapping[str, list[str]], kind: str) -> dict[str, tuple[Term, ...]]:
    return {name: _parsed(words, kind) for name, words in groups.items()}


def _parsed(words: Sequence[str], kind: str) -> tuple[Term, ...]:
    terms = tuple(Term.parse(word, kind) for word in words)
    for term, written in zip(terms, words, strict=True):
        if not re.search(r"\w", term.word):
            raise ValueError(f"'{written}' is not a word. Write one, such as 'quiet'.")
        if term.role and term.role not in ROLES:
            raise ValueError(
                f"'{written}' has an unknown role. Use one of {', '.join(ROLES)}, or none for a"
                " subject."
            )
    if not terms:
        raise ValueError("a group has no words. Give it at least one.")
    return terms


def regular_plural(word: str) -> str:
    """Form the plural: neighbor → neighbors, library → libraries, church → churches."""
    lower = word.lower()
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    if re.search(r"[^aeiou]y$", lower):
        return f"{word[:-1]}ies"
    return f"{word}s"
