"""Find the words of a lexicon in a text, and write other words in their places.

The replacement keeps case (black, Black, BLACK), plurals, possessives (women's, ladies'), a and an,
and the role of a pronoun: her becomes him or his, and his becomes her or hers, by the next word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from fairprobe.language.lexicon import Entry, Lexicon, Term

# Before one of these, or at the end, "her" is an object and "his" stands alone; before any other
# word they are possessive. The same distinguishes "a Christian and …" from "a Christian family".
FUNCTION_WORDS = frozenset(
    """a about above across after again against all along already also although always am among an
    and any are around as at away back be because been before behind being below beneath beside
    between beyond both but by came can come could did do does doing down during each either else
    enough even ever every except for from get go goes going gone got had has have having he her
    here herself him himself his however how i if in inside instead into is it its itself just last
    later like may me might more most must near neither never no nor not now of off often on once
    one only onto or our out outside over perhaps quite rather right said says shall she should
    since so some soon still such than that the their them themselves then there these they this
    those though through till to today together tomorrow tonight too toward towards under until
    up upon us very was we well were what when where whether which while who whom whose why will
    with within without would yesterday yet you your""".split()  # noqa: SIM905
)
STARTS = re.compile(r"(?:^|[.!?:\n]\s+|^[\"'“‘(]+)$")
ARTICLE = re.compile(r"\b(an?)(\s+)$", re.IGNORECASE)
NEXT = re.compile(r"\s+([^\W\d_]+)")
SPOKEN_CONSONANT = re.compile(r"(?:eu|one\b|once\b|u(?:ni|se|su|ra|ti)|ubi)", re.IGNORECASE)
SILENT_H = re.compile(r"(?:hour|honest|hono|heir)", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """A word of a group in a text, from `start` to `end`."""

    start: int
    end: int
    entry: Entry
    group: str
    term: Term
    is_plural: bool


class Finder:
    """Finds the words of a lexicon in texts."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._forms: dict[str, list[tuple[Entry, str, Term, bool]]] = {}
        for entry, group, term in lexicon.terms():
            for form in term.sought:
                self._add(form, (entry, group, term, form == term.plural))

    def _add(self, form: str, meaning: tuple[Entry, str, Term, bool]) -> None:
        meanings = self._forms.setdefault(_key(form), [])
        entry, _, term, _ = meaning
        if all(other is not entry or role.role != term.role for other, _, role, _ in meanings):
            meanings.append(meaning)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _any_of(self._forms)

    @cached_property
    def _exceptions(self) -> re.Pattern[str] | None:
        return _any_of(self.lexicon.exceptions) if self.lexicon.exceptions else None

    def places(self, text: str) -> list[Place]:
        """Return all places in the order of the text."""
        phrases = [] if self._exceptions is None else list(self._exceptions.finditer(text))
        places = []
        for word in self._pattern.finditer(text):
            if any(each.start() < word.end() and word.start() < each.end() for each in phrases):
                continue
            entry, group, term, is_plural = self._meaning(text, word)
            places.append(Place(word.start(), word.end(), entry, group, term, is_plural))
        return places

    def _meaning(self, text: str, word: re.Match[str]) -> tuple[Entry, str, Term, bool]:
        """Choose among words of the same form by the next word."""
        options = self._forms[_key(word[0])]
        if len(options) == 1:
            return options[0]
        after = NEXT.match(text, word.end())
        is_before_noun = after is not None and after[1].lower() not in FUNCTION_WORDS
        wanted = ("adjective", "possessive") if is_before_noun else ("noun", "object", "alone")
        return next(
            (each for each in options if each[0].kind in wanted or each[2].role in wanted),
            options[0],
        )


def fill(
    text: str, places: Sequence[Place], choose: Callable[[Place], tuple[Term, str] | None]
) -> tuple[str, list[tuple[int, int]]]:
    """Return the text with another term in each place for which `choose` names one (the term and
    the kind of its entry), and the spans of the new words.
    """
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    last = length = 0
    for place in places:
        chosen = choose(place)
        if chosen is None:
            continue
        word = _in_form(text, place, *chosen)
        before = _with_article(text[last : place.start], word)
        parts += [before, word]
        spans.append((length + len(before), length + len(before) + len(word)))
        length += len(before) + len(word)
        last = place.end
        rest = text[last : last + 2].replace("’", "'")
        ends_in_s = word.lower().endswith("s")
        if place.is_plural and rest == "'s" and ends_in_s:
            last += 2
            parts.append("'")
            length += 1
        elif place.is_plural and rest[:1] == "'" and rest != "'s" and not ends_in_s:
            last += 1
            parts.append("'s")
            length += 2
    return "".join([*parts, text[last:]]), spans


def _in_form(text: str, place: Place, term: Term, kind: str) -> str:
    """Return the term in the form and case of the place."""
    word = term.plural if place.is_plural and term.plural else term.word
    if place.entry.kind == "pronoun" != kind and place.term.role in ("possessive", "alone"):
        word = f"{word}'s"
    surface = text[place.start : place.end]
    original = (place.term.plural if place.is_plural else None) or place.term.word
    letters = [letter for letter in surface if letter.isalpha()]
    if len(letters) > 1 and all(map(str.isupper, letters)) and not original.isupper():
        return word.upper()
    is_start = STARTS.search(text[: place.start]) is not None
    if surface[0].isupper() and (is_start or not original[0].isupper()):
        return word[0].upper() + word[1:]
    if surface[0].islower() and original[0].isupper():
        return word.lower()
    return word


def _with_article(before: str, word: str) -> str:
    """Correct a or an at the end of the text before a word."""
    match = ARTICLE.search(before)
    if match is None:
        return before
    article, space = match.groups()
    is_vowel = word[0].lower() in "aeiou" and not SPOKEN_CONSONANT.match(word)
    wanted = "an" if is_vowel or SILENT_H.match(word) else "a"
    if article[0].isupper():
        is_shouted = article.isupper() and (len(article) > 1 or word.isupper())
        wanted = wanted.upper() if is_shouted else wanted.capitalize()
    return f"{before[: match.start()]}{wanted}{space}"


def _key(form: str) -> str:
    return re.sub(r"[\s-]+", " ", form.lower())


def _any_of(forms: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of whole words, the longest first, with spaces or hyphens."""
    longest = sorted({_key(form) for form in forms}, key=len, reverse=True)
    words = [r"[\s-]+".join(map(re.escape, form.split(" "))) for form in longest]
    return re.compile(rf"(?<![\w@#])(?:{'|'.join(words)})(?!\w)", re.IGNORECASE)
