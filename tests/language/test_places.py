"""Finding words of a lexicon in a text, and writing others in their places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fairprobe.errors import SettingError
from fairprobe.language.exchange import plan, swapped
from fairprobe.language.lexicon import LEXICONS, open_lexicon
from fairprobe.language.places import Finder
from fairprobe.language.texts import Text


def swap(lexicon: str, text: str, source: str, target: str, pick: int = 0) -> str:
    side = swapped(text, Finder(open_lexicon(lexicon)).places(text), source, target, pick)
    assert side is not None
    assert [side.text[start:end] for start, end in side.spans]
    return side.text


@pytest.mark.parametrize(
    ("lexicon", "source", "target", "text", "expected"),
    [
        (
            "race",
            "Asian",
            "Black",
            "An Asian nurse; AN ASIAN NURSE",
            "A black nurse; A BLACK NURSE",
        ),
        ("race", "Black", "Asian", "Black people and BLACK art", "Asian people and ASIAN art"),
        ("race", "Black", "Asian", "a black man met whites", "an Asian man met whites"),
        ("race", "white", "Black", "whites' and blacks' votes", "blacks' and whites' votes"),
        ("race", "white", "Asian", "the White House, a white man", "the White House, an Asian man"),
        ("race", "Asian", "Black", "asian-american food", "black food"),
        ("gender", "male", "female", "He saw him with his dog.", "She saw her with her dog."),
        ("gender", "male", "female", "The dog is his.", "The dog is hers."),
        ("gender", "female", "male", "I saw her and her dog.", "I saw him and his dog."),
        ("gender", "female", "male", "Her mother hurt herself.", "His father hurt himself."),
        ("gender", "male", "female", "Men's rights and a man", "Women's rights and a woman"),
        ("gender", "male", "female", "gentlemen's club", "ladies' club"),
        ("gender", "female", "male", "ladies' club, HER", "gentlemen's club, HIM"),
        ("religion", "Christian", "Jewish", "a Christian and Christians", "a Jew and Jews"),
        ("religion", "Christian", "Jewish", "a Christian family", "a Jewish family"),
        ("religion", "Christian", "atheist", "A Christian came", "An atheist came"),
        ("names", "white", "Black", "Emily's brother and Anne", "Aaliyah's brother and Aisha"),
        ("orientation", "gay", "straight", "Gay men", "Straight men"),
    ],
)
def test_an_exchange_keeps_the_grammar(
    lexicon: str, source: str, target: str, text: str, expected: str
) -> None:
    assert swap(lexicon, text, source, target) == expected


def test_words_in_hashtags_names_and_longer_words_are_left_alone() -> None:
    finder = Finder(open_lexicon("race"))
    assert finder.places("#white @black whiteboard blackberry straightforward") == []


def test_every_lexicon_is_valid_and_has_a_control() -> None:
    for name in LEXICONS:
        lexicon = open_lexicon(name)
        terms = [term for _, _, term in lexicon.terms() if term.role != "reflexive"]
        texts = [Text(f"I met a {term.word} there.", 0) for term in terms]
        made = plan(texts, lexicon, rng=np.random.default_rng(0))
        assert made.without_control == 0, name
        assert {each.is_control for each in made.exchanges} == {True, False}


def test_a_control_exchanges_as_many_words_in_the_same_places() -> None:
    text = "He said that his wife saw him and a man there."
    made = plan([Text(text, 0)], open_lexicon("gender"), rng=np.random.default_rng(0))
    cross = [each for each in made.exchanges if not each.is_control]
    control = [each for each in made.exchanges if each.is_control]
    assert {len(each.second.spans) for each in cross} == {5}
    assert {len(each.second.spans) for each in control} == {5}
    for each in control:
        assert "'s " in each.first.text  # his became a name's


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("name = 'x'", "missing required field `entries`"),
        ("name = 'x'\nentries = []", "no \\[\\[entries\\]\\]"),
        ("name = 'x'\n[[entries]]\nkind = 'noun'\ngroups = {a = ['b']}", "fewer than two groups"),
        ("name = 'x'\n[[entries]]\nkind = 'noun'\ngroups = {a = [], b = ['c']}", "no words"),
        ("name = 'x'\n[[entries]]\nkind = 'noun'\ngroups = {a = ['!'], b = ['c']}", "not a word"),
        ("name = [", "not valid TOML"),
        ("name = 'x'\nentrees = []", "unknown field `entrees`"),
    ],
)
def test_a_wrong_lexicon_is_one_sentence(tmp_path: Path, body: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(body)
    with pytest.raises(SettingError, match=message):
        open_lexicon(path)


def test_an_unknown_lexicon_is_one_sentence() -> None:
    with pytest.raises(SettingError, match="Did you mean 'religion'"):
        open_lexicon("religions")
