"""`Lexicon`: the words of each group that can be exchanged for each other, and the words of the
control. Ours are packaged; a user's own is a TOML file of the same form:

    name = "age"
    title = "age"
    words = "fixed"                     # the question is about these words; or "sample": they
                                        # stand for others like them, as names do
    except = ["old testament"]          # phrases in which a word is not about people

    [control]                           # neutral words by kind; without them, words of the same
    adjective = ["tall", "quiet"]       # group are exchanged as the control

    [[entries]]                         # words that can stand in each other's place
    kind = "adjective"
    [entries.groups]
    old = ["elderly", "+old"]           # +: is put into texts, but not looked for in them
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
from typing import Literal, TypeAlias

import msgspec

from fairprobe.documents import Document, read_toml
from fairprobe.errors import SettingError, suggest

LEXICONS = ("race", "gender", "religion", "orientation", "names")
Words: TypeAlias = Literal["fixed", "sample"]
WITHOUT_PLURAL = ("adjective", "pronoun", "name", "title", "belief")
ROLES = ("object", "possessive", "alone", "reflexive")


class EntryFile(Document, frozen=True, kw_only=True):
    """Words that can stand in each other's place, by group."""

    kind: str
    groups: dict[str, list[str]]


class LexiconFile(Document, frozen=True, kw_only=True, rename={"exceptions": "except"}):
    """A lexicon as its TOML file has it."""

    name: str
    entries: list[EntryFile]
    title: str = ""
    about: str = ""
    words: Words = "fixed"
    exceptions: list[str] = msgspec.field(default_factory=list)
    control: dict[str, list[str] | dict[str, list[str]]] = msgspec.field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """A word or phrase, its plural where it has one, and its role if it is a pronoun. Forms that
    are not `sought` are put into texts, but not looked for in them.
    """

    word: str
    plural: str | None = None
    role: str = ""
    sought: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str, kind: str) -> Term:
        """A term as it is written in a lexicon."""
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
    """Words that can stand in each other's place, by group."""

    kind: str
    groups: Mapping[str, tuple[Term, ...]]


@dataclass(frozen=True)
class Lexicon:
    """The words of each group, in entries, and those of the control by kind: neutral ones, or by
    group. `words` says whether the words are the question or a sample.
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
        """All groups, in the order of the file."""
        return tuple(dict.fromkeys(name for entry in self.entries for name in entry.groups))

    def terms(self) -> Iterator[tuple[Entry, str, Term]]:
        """Every term with its entry and group."""
        for entry in self.entries:
            for group, terms in entry.groups.items():
                for term in terms:
                    yield entry, group, term

    def control_words(self, kind: str, group: str) -> tuple[Term, ...]:
        """The words of the control for a place of this kind; none if the lexicon has none."""
        found = self.control.get(kind, ())
        return found.get(group, ()) if isinstance(found, Mapping) else found


def open_lexicon(source: Lexicon | Path | str) -> Lexicon:
    """One of ours by its name, or a user's own TOML file."""
    if isinstance(source, Lexicon):
        return source
    if str(source) in LEXICONS:
        with as_file(files("fairprobe.language") / "lexicons" / f"{source}.toml") as path:
            return _read(path)
    path = Path(source)
    if path.suffix != ".toml":
        raise SettingError(
            f"There is no lexicon '{source}'.{suggest(str(source), LEXICONS)} Or name a TOML file"
            " of your own."
        )
    return _read(path)


def _read(path: Path) -> Lexicon:
    try:
        body = read_toml(path)
    except ValueError as error:
        why = str(error).partition("\n")[0]
        raise SettingError(f"The lexicon {path} is not valid TOML: {why}.") from error
    except OSError as error:
        raise SettingError(
            f"The lexicon {path} cannot be read: {error.strerror or error}."
        ) from error
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
    """Check a lexicon and parse its words; ValueError says what is wrong."""
    entries = tuple(
        Entry(
            entry.kind,
            {name: _parsed(words, entry.kind) for name, words in entry.groups.items()},
        )
        for entry in file.entries
    )
    if not entries:
        raise ValueError("it has no [[entries]]. Add at least one.")
    for number, entry in enumerate(entries, start=1):
        if len(entry.groups) < 2:
            raise ValueError(f"entry {number} has fewer than two groups. Name another group.")
    return Lexicon(
        name=file.name,
        title=file.title or file.name,
        about=file.about,
        words=file.words,
        exceptions=tuple(file.exceptions),
        entries=entries,
        control={
            kind: _parsed(words, kind)
            if isinstance(words, list)
            else {group: _parsed(each, kind) for group, each in words.items()}
            for kind, words in file.control.items()
        },
    )


def _parsed(words: Sequence[str], kind: str) -> tuple[Term, ...]:
    terms = tuple(Term.parse(word, kind) for word in words)
    for term, written in zip(terms, words, strict=True):
        if not re.search(r"\w", term.word):
            raise ValueError(f"'{written}' is not a word. Write one, such as 'quiet'.")
        if term.role and term.role not in ROLES:
            raise ValueError(
                f"'{written}' has an unknown role. Known: {', '.join(ROLES)}; without one, it is a"
                " subject."
            )
    if not terms:
        raise ValueError("a group has no words. Give it at least one.")
    return terms


def regular_plural(word: str) -> str:
    """neighbor → neighbors, library → libraries, church → churches."""
    lower = word.lower()
    if lower.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    if re.search(r"[^aeiou]y$", lower):
        return f"{word[:-1]}ies"
    return f"{word}s"
