"""The excess over the control: planted effects, none, and the coverage of its interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from fairprobe.language.excess import Answers, Observations
from fairprobe.language.exchange import plan
from fairprobe.language.lexicon import Lexicon, LexiconFile, from_file, open_lexicon
from fairprobe.language.texts import Text
from fairprobe.models.text import TextModel
from fairprobe.statistics.clusters import clustered_difference

SUBJECTS = ("nurse", "clerk", "pilot", "baker", "singer", "guard", "coach", "tailor")
PLACES = ("the station", "a market", "the old school", "our street", "work", "the river")


def people(lexicon: str = "orientation", word: str = "gay") -> list[Text]:
    every = [f"A {word} {subject} near {place}." for subject in SUBJECTS for place in PLACES]
    return [Text(text, row) for row, text in enumerate(every)]


def observed(
    judge: Callable[[str], float], texts: Sequence[Text], lexicon: Lexicon
) -> Observations:
    model = TextModel(lambda given: [judge(text) for text in given])
    made = plan(texts, lexicon, rng=np.random.default_rng(0))
    answers = Answers(model)
    answers.query(made.queries())
    return Observations(made, answers, lexicon.words)


def test_a_model_that_ignores_the_groups_has_no_excess_at_all() -> None:
    seen = observed(
        lambda text: 0.9 if "nurse" in text else 0.2, people(), open_lexicon("orientation")
    )
    flips = seen.excess(seen.flips)
    assert (flips.cross, flips.control, flips.estimate) == (0, 0, 0)
    assert flips.low < 0 < flips.high
    assert seen.excess(seen.gaps).estimate == 0
    assert seen.striking(9) == []


def test_a_planted_word_is_found_and_named() -> None:
    seen = observed(
        lambda text: 0.9 if "lesbian" in text else 0.2, people(), open_lexicon("orientation")
    )
    flips = seen.excess(seen.flips)
    # One of the three other groups changes the answer, always.
    assert flips.cross == pytest.approx(1 / 3)
    assert flips.control == 0
    assert flips.low > 0.2
    assert seen.words()[0].word == "lesbian"
    assert seen.words()[0].estimate == 0
    assert seen.by_pair()[0].groups == ("gay", "lesbian")
    assert seen.by_pair()[0].flips.cross == 1
    rates = {each.name: each.answers[1] for each in seen.groups(("gay", "lesbian", "bisexual"))}
    assert rates == {"gay": 0, "lesbian": 1, "bisexual": 0}


def test_a_model_that_reacts_to_any_word_has_no_excess() -> None:
    def jumpy(text: str) -> float:
        return float(np.random.default_rng(list(text.encode())).random())

    seen = observed(jumpy, people(), open_lexicon("orientation"))
    flips = seen.excess(seen.flips)
    assert flips.cross > 0.4
    assert flips.control > 0.4
    assert flips.low < 0 < flips.high


def test_texts_of_one_template_count_once() -> None:
    texts = [Text(each.text, each.row, cluster="one") for each in people()]
    texts += [Text(f"One more {word} man.", 99) for word in ("gay", "lesbian")]
    seen = observed(
        lambda text: 0.9 if "lesbian" in text else 0.2, texts, open_lexicon("orientation")
    )
    assert seen.texts == len(texts)
    assert seen.clusters == 3
    assert seen.excess(seen.flips).clusters == 3


def names(groups: dict[str, list[str]]) -> Lexicon:
    entries = [{"kind": "name", "groups": groups}]
    import msgspec

    return from_file(
        msgspec.convert({"name": "n", "words": "sample", "entries": entries}, LexiconFile)
    )


def test_names_of_one_group_are_not_bias_though_single_names_matter() -> None:
    """Each name has an effect of its own, and which group it is in says nothing about it."""
    rng = np.random.default_rng(5)
    every = [f"{first}{second}" for first in ("Ba", "Do", "Ki", "Lu") for second in
             ("ran", "mel", "tos", "vin", "zar")]  # fmt: skip
    held = 0
    for _ in range(40):
        effect = dict(zip(every, rng.normal(0, 0.25, len(every)), strict=True))
        shuffled = [str(name) for name in rng.permutation(every)]
        lexicon = names({"a": shuffled[:10], "b": shuffled[10:]})
        texts = [Text(f"{name} is here {n}.", n) for n, name in enumerate(shuffled * 2)]
        offsets = rng.normal(0, 0.2, len(texts))

        def judge(text: str, effect: dict[str, float] = effect, offsets=offsets) -> float:  # type: ignore[no-untyped-def]
            number = int(text.rpartition(" ")[2].rstrip("."))
            return float(np.clip(0.5 + effect[text.split()[0]] + offsets[number], 0, 1))

        seen = observed(judge, texts, lexicon)
        found = seen.excess(seen.flips)
        held += found.low <= 0 <= found.high
    assert held >= 37  # 93 %


@pytest.mark.parametrize("clusters", [3, 8, 40, 200])
@pytest.mark.parametrize(("cross", "control"), [(0.02, 0.02), (0.2, 0.01), (0.5, 0.3)])
def test_the_interval_holds_the_truth(clusters: int, cross: float, control: float) -> None:
    """Clusters with rates of their own; 400 simulated studies. With 380 of 400 expected at least,
    fewer than 367 have a chance of one in a hundred.
    """
    rng = np.random.default_rng(clusters)
    drawn = [
        rng.binomial(4, rng.beta(rate, 1 - rate, (400, clusters))) / 4 for rate in (cross, control)
    ]
    found = [clustered_difference(each) for each in drawn[0] - drawn[1]]
    held = sum(each.low <= cross - control <= each.high for each in found)
    assert held >= 367


def test_one_cluster_says_nothing() -> None:
    found = clustered_difference(np.array([1.0]))
    assert (found.estimate, found.low, found.high) == (1, -1, 1)
