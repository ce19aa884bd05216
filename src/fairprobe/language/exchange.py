"""The exchanges of a text: with another group, and those of the control.

A cross-group exchange turns the words of the text's group into those of another, and those of the
other into the first, if the text has both. Beside it stands the control: two neutral words of the
same kind in the same places, or another word of the same group where the lexicon has no neutral
ones. Both are one exchange of as many words in the same places; only the group differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairprobe.language.lexicon import Lexicon, Term
from fairprobe.language.places import Finder, Place, fill
from fairprobe.language.texts import Text

PER_GROUP = 2  # words of each other group that a text is given
CONTROLS = 6  # control exchanges of a text at most


@dataclass(frozen=True)
class Side:
    """One side of an exchange: the text, its group ("" in a control), the word that stands for
    it, and where in the text the exchanged words stand.
    """

    text: str
    group: str
    word: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Exchange:
    """Two texts that differ in the exchanged words only. `unit` is the number of the text."""

    unit: int
    first: Side
    second: Side
    is_control: bool

    @property
    def words(self) -> tuple[str, str]:
        return self.first.word, self.second.word


@dataclass(frozen=True)
class Plan:
    """All exchanges of the texts that hold a word of the lexicon."""

    texts: tuple[Text, ...]
    exchanges: tuple[Exchange, ...]
    without_word: int
    without_control: int
    duplicates: int


def plan(
    texts: Sequence[Text],
    lexicon: Lexicon,
    *,
    rng: np.random.Generator,
    per_group: int = PER_GROUP,
    limit: int | None = None,
) -> Plan:
    """The exchanges of every different text with a word of the lexicon, in random order; at most
    `limit` texts.
    """
    finder = Finder(lexicon)
    seen: set[str] = set()
    kept: list[Text] = []
    exchanges: list[Exchange] = []
    left_out: Counter[str] = Counter()
    for place in rng.permutation(len(texts)):
        each = texts[place]
        if each.text in seen:
            left_out["duplicates"] += 1
            continue
        seen.add(each.text)
        places = finder.places(each.text)
        if not places:
            left_out["without_word"] += 1
            continue
        made = _exchanges(len(kept), each.text, places, lexicon, rng, per_group)
        if not any(one.is_control for one in made) or all(one.is_control for one in made):
            left_out["without_control"] += 1
            continue
        kept.append(each)
        exchanges += made
        if limit is not None and len(kept) == limit:
            break
    return Plan(
        tuple(kept),
        tuple(exchanges),
        left_out["without_word"],
        left_out["without_control"],
        left_out["duplicates"],
    )


def _exchanges(
    unit: int,
    text: str,
    places: Sequence[Place],
    lexicon: Lexicon,
    rng: np.random.Generator,
    per_group: int,
) -> list[Exchange]:
    source = places[0].group
    own = tuple((place.start, place.end) for place in places if place.group == source)
    original = Side(text, source, places[0].term.word, own)
    found = []
    for target in lexicon.groups:
        if target == source:
            continue
        for pick in _picks(places[0], target, rng, per_group):
            other = swapped(text, places, source, target, pick)
            if other is not None and other.text != text:
                found.append(Exchange(unit, original, other, is_control=False))
    return [*found, *_controls(unit, text, places, original, lexicon, rng, len(found))]


def _picks(place: Place, target: str, rng: np.random.Generator, most: int) -> list[int]:
    size = max(len(place.entry.groups.get(target, ())), 1)
    return [int(pick) for pick in rng.permutation(size)[:most]]


def swapped(
    text: str, places: Sequence[Place], source: str, target: str, pick: int = 0
) -> Side | None:
    """The text with the two groups exchanged; None if no word can be. `pick` chooses the words."""
    words: list[str] = []
    people: list[Term] = []  # two names stay two

    def choose(place: Place) -> tuple[Term, str] | None:
        if place.group not in (source, target):
            return None
        other = target if place.group == source else source
        terms = place.entry.groups.get(other)
        if not terms:
            return None
        number = pick if place.group == source else 0
        if place.entry.kind == "name":
            if place.term not in people:
                people.append(place.term)
            number += people.index(place.term)
        term = terms[number % len(terms)]
        words.append(term.word)
        return term, place.entry.kind

    changed, spans = fill(text, places, choose)
    return Side(changed, target, words[0], tuple(spans)) if words else None


def _controls(
    unit: int,
    text: str,
    places: Sequence[Place],
    original: Side,
    lexicon: Lexicon,
    rng: np.random.Generator,
    most: int,
) -> list[Exchange]:
    """Pairs of different neutral words, or the text with other words of its own group."""
    both = len(lexicon.groups) == 2  # then an exchange turns the words of both groups
    own = [place for place in places if both or place.group == original.group]
    neutral = [place for place in own if lexicon.control_words(place.entry.kind, place.group)]
    found: list[Exchange] = []
    if neutral:
        size = len(lexicon.control_words(neutral[0].entry.kind, neutral[0].group))
        pairs = [(a, b) for a in range(size) for b in range(size) if a < b]
        for number in rng.permutation(len(pairs))[: min(most, CONTROLS)]:
            sides = [_neutral(text, own, original.group, lexicon, pick) for pick in pairs[number]]
            if sides[0].text != sides[1].text:
                found.append(Exchange(unit, sides[0], sides[1], is_control=True))
        return found
    same = own[0].entry.groups[own[0].group]
    others = [number for number, term in enumerate(same) if term != own[0].term]
    for number in rng.permutation(len(others))[: min(most, CONTROLS)]:
        side = _same_group(text, own, others[number])
        if side is not None and side.text != text:
            found.append(Exchange(unit, original, side, is_control=True))
    return found


def _neutral(text: str, own: Sequence[Place], group: str, lexicon: Lexicon, pick: int) -> Side:
    words: list[str] = []
    entries: list[int] = []

    def choose(place: Place) -> tuple[Term, str] | None:
        terms = lexicon.control_words(place.entry.kind, place.group)
        if not terms or place.term.role == "reflexive":
            return None
        kind = "name" if place.entry.kind == "pronoun" else place.entry.kind
        key = id(place.entry)
        if kind == "name":  # one person, whatever the pronoun
            offset = 0
        else:
            if key not in entries:
                entries.append(key)
            offset = entries.index(key)
        term = terms[(pick + offset) % len(terms)]
        words.append(term.word)
        return term, kind

    changed, spans = fill(text, own, choose)
    return Side(changed, group, words[0] if words else "", tuple(spans))


def _same_group(text: str, own: Sequence[Place], number: int) -> Side | None:
    words: list[str] = []

    def choose(place: Place) -> tuple[Term, str] | None:
        terms = place.entry.groups[place.group]
        if len(terms) < 2:
            return None
        # Words of other places keep their distance to the first, so that two names stay two.
        shift = number - own[0].entry.groups[own[0].group].index(own[0].term)
        term = terms[(terms.index(place.term) + shift) % len(terms)]
        words.append(term.word)
        return term, place.entry.kind

    changed, spans = fill(text, own, choose)
    return Side(changed, own[0].group, words[0], tuple(spans)) if words else None
