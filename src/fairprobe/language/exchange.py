"""The exchanges of a text: with another group, and those of the control.

A cross-group exchange replaces the words of the text's group by those of another group, and vice
versa where the text has both. The control exchanges two neutral words of the same kind in the same
places, or uses another word of the same group where the lexicon has no neutral ones. Both exchange
the same number of words in the same places; only the group differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairprobe.language.lexicon import Lexicon, Term
from fairprobe.language.places import Finder, Place, fill
from fairprobe.language.texts import Text

PER_GROUP = 2  # words of each other group for a text
MAX_CONTROLS = 6  # control exchanges of a text


@dataclass(frozen=True)
class Side:
    """One side of an exchange: the text, its group ("" in a control), the word that stands for it,
    and the spans of the exchanged words.
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
    def sides(self) -> tuple[Side, Side]:
        return self.first, self.second


@dataclass(frozen=True)
class Plan:
    """All exchanges of the texts that contain a word of the lexicon."""

    texts: tuple[Text, ...]
    exchanges: tuple[Exchange, ...]
    without_word: int
    without_control: int
    duplicates: int

    def queries(self) -> list[str]:
        """List every different text to query the model with."""
        every = (side.text for exchange in self.exchanges for side in exchange.sides)
        return list(dict.fromkeys(every))


def plan(
    texts: Sequence[Text],
    lexicon: Lexicon,
    *,
    rng: np.random.Generator,
    per_group: int = PER_GROUP,
    limit: int | None = None,
) -> Plan:
    """Plan the exchanges of every different text with a word of the lexicon, in random order; at
    most `limit` texts.
    """
    finder = Finder(lexicon)
    seen: set[str] = set()
    kept: list[Text] = []
    exchanges: list[Exchange] = []
    left_out: Counter[str] = Counter()
    for index in rng.permutation(len(texts)):
        text = texts[index]
        if text.text in seen:
            left_out["duplicates"] += 1
            continue
        seen.add(text.text)
        places = finder.places(text.text)
        if not places:
            left_out["without_word"] += 1
            continue
        made = _exchanges(len(kept), text.text, places, lexicon, rng, per_group)
        if {exchange.is_control for exchange in made} != {True, False}:
            left_out["without_control"] += 1
            continue
        kept.append(text)
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


def original(text: str, places: Sequence[Place]) -> Side:
    """Return the text as it is; its group is that of its first word."""
    group = places[0].group
    spans = tuple((place.start, place.end) for place in places if place.group == group)
    return Side(text, group, places[0].term.word, spans)


def swapped(
    text: str, places: Sequence[Place], source: str, target: str, pick: int = 0
) -> Side | None:
    """Exchange two groups in a text; None if no word can be. `pick` chooses the words."""
    words: list[str] = []
    people: list[Term] = []  # two names stay two

    def choose(place: Place) -> tuple[Term, str] | None:
        if place.group not in (source, target):
            return None
        terms = place.entry.groups.get(target if place.group == source else source)
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


def _exchanges(
    unit: int,
    text: str,
    places: Sequence[Place],
    lexicon: Lexicon,
    rng: np.random.Generator,
    per_group: int,
) -> list[Exchange]:
    first = original(text, places)
    exchanges = []
    for target in lexicon.groups:
        if target == first.group:
            continue
        size = max(len(places[0].entry.groups.get(target, ())), 1)
        for pick in rng.permutation(size)[:per_group]:
            second = swapped(text, places, first.group, target, int(pick))
            if second is not None and second.text != text:
                exchanges.append(Exchange(unit, first, second, is_control=False))
    both = len(lexicon.groups) == 2  # then an exchange changes the words of both groups
    own = [place for place in places if both or place.group == first.group]
    pairs = _control_pairs(first, own, lexicon, rng, min(len(exchanges), MAX_CONTROLS))
    return exchanges + [Exchange(unit, *sides, is_control=True) for sides in pairs]


def _control_pairs(
    first: Side, own: Sequence[Place], lexicon: Lexicon, rng: np.random.Generator, most: int
) -> list[tuple[Side, Side]]:
    """Pair texts with different neutral words, or the text with other words of its own group."""
    neutral = [place for place in own if lexicon.control_words(place.entry.kind, place.group)]
    pairs: list[tuple[Side, Side]] = []
    if neutral:
        size = len(lexicon.control_words(neutral[0].entry.kind, neutral[0].group))
        picks = [(a, b) for a in range(size) for b in range(size) if a < b]
        for number in rng.permutation(len(picks))[:most]:
            a, b = (_neutral(first, own, lexicon, pick) for pick in picks[number])
            if a.text != b.text:
                pairs.append((a, b))
        return pairs
    terms = own[0].entry.groups[own[0].group]
    others = [number for number, term in enumerate(terms) if term != own[0].term]
    for number in rng.permutation(len(others))[:most]:
        side = _same_group(first.text, own, others[number])
        if side is not None and side.text != first.text:
            pairs.append((first, side))
    return pairs


def _neutral(first: Side, own: Sequence[Place], lexicon: Lexicon, pick: int) -> Side:
    """Put neutral words in the places; `pick` chooses them."""
    words: list[str] = []
    entries: list[int] = []

    def choose(place: Place) -> tuple[Term, str] | None:
        terms = lexicon.control_words(place.entry.kind, place.group)
        if not terms or place.term.role == "reflexive":
            return None
        kind = "name" if place.entry.kind == "pronoun" else place.entry.kind
        offset = 0  # of a name or pronoun: it is one person
        if kind != "name":
            if id(place.entry) not in entries:
                entries.append(id(place.entry))
            offset = entries.index(id(place.entry))
        term = terms[(pick + offset) % len(terms)]
        words.append(term.word)
        return term, kind

    changed, spans = fill(first.text, own, choose)
    return Side(changed, first.group, words[0] if words else "", tuple(spans))


def _same_group(text: str, own: Sequence[Place], number: int) -> Side | None:
    """Put other words of the same group in the places; `number` is that of the first word."""
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
