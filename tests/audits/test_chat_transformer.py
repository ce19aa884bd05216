"""A tiny transformer, trained here on prompts, as the brain of a chat endpoint: what an audit over
HTTP reports is what the network itself answers.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import fairprobe as fp
from fairprobe.models.formats.chat_prompt import Answers, Prompt
from tests.chat_servers import answering, completion, question

pytestmark = pytest.mark.slow
USER = "Age: {age}. Sex: {sex}. Hours: {hours}. Decision?"
WORDS = ["", *map(str, range(100)), "female", "male"]
NUMBER = {word: place for place, word in enumerate(WORDS)}


class Tiny(nn.Module):
    """Two layers of attention over the words of a form, and one logit: to approve."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(len(WORDS), 16), nn.Embedding(3, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.layers(self.words(ids) + self.places(torch.arange(3)))
        odds: Tensor = self.head(x.mean(dim=1))[:, 0]
        return odds


def ids(text: str) -> list[int]:
    return [NUMBER[word] for word in re.findall(r": (\w+)", text)]


def forms(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    people = pd.DataFrame(
        {
            "age": rng.integers(20, 70, rows),
            "sex": rng.choice(["female", "male"], rows),
            "hours": rng.choice([20, 30, 40, 50], rows),
        }
    )
    odds = (people["age"] - 45) / 4 + (people["hours"] - 35) / 10 + 1.5 * (people["sex"] == "male")
    return people.assign(granted=np.where(odds > 0.75, "yes", "no"))


def texts(people: pd.DataFrame) -> list[str]:
    return [USER.format(**{str(key): row[key] for key in row}) for row in people.to_dict("records")]


@pytest.fixture(scope="module")
def network() -> Tiny:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Tiny()
        people = forms(2000, seed=1)
        x = torch.tensor([ids(text) for text in texts(people)])
        y = torch.tensor((people["granted"] == "yes").to_numpy(), dtype=torch.float32)
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
        for _ in range(12):
            for batch in torch.split(torch.randperm(len(x)), 64):
                optimizer.zero_grad()
                loss = nn.functional.binary_cross_entropy_with_logits(net(x[batch]), y[batch])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
    return net.eval()


def log_odds(network: Tiny, asked: list[str]) -> np.typing.NDArray[np.float64]:
    with torch.no_grad():
        return np.asarray(network(torch.tensor([ids(text) for text in asked])).double())


def test_an_audit_over_http_reports_what_the_transformer_answers(
    network: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    people = forms(120, seed=2)
    data = fp.datasets.open_table(people, label="granted", sensitive="sex", favourable="yes")
    swapped = people.assign(sex=people["sex"].map({"female": "male", "male": "female"}))
    mine, other = log_odds(network, texts(people)), log_odds(network, texts(swapped))
    assert np.mean((mine > 0) == (people["granted"] == "yes")) > 0.85

    def with_logprobs(body: dict[str, Any]) -> bytes:
        odds = log_odds(network, [question(body)])[0]
        p = 1 / (1 + np.exp(-odds))
        top = [{"token": "app", "logprob": np.log(p)}, {"token": "rej", "logprob": np.log1p(-p)}]
        answer = completion("approve" if odds > 0 else "reject")
        answer["choices"][0]["logprobs"] = {"content": [{"token": "", "top_logprobs": top}]}
        return json.dumps(answer).encode()

    asked: Counter[str] = Counter()

    def at_temperature_four(body: dict[str, Any]) -> str:
        """By lot; the nth answer to one text is the same in whatever order requests come."""
        text = question(body)
        asked[text] += 1
        lot = np.random.default_rng([asked[text], *ids(text)]).random()
        return "approve" if lot < 1 / (1 + np.exp(-log_odds(network, [text])[0] / 4)) else "reject"

    labels: dict[str, str | list[str]] = {"yes": "approve", "no": "reject"}
    small: dict[str, Any] = {"samples": 20, "budget": fp.Budget(rows=20, seeds=10)}
    with answering(with_logprobs) as server:
        prompt = Prompt("tiny", USER, labels, answers=Answers(read="logprobs"))
        model = fp.load_model(server.chat, data, endpoint={"prompt": prompt})
        order = [data.classes.index("no"), data.classes.index("yes")]
        p = model.probabilities(data.x)[:, order[1]]
        np.testing.assert_allclose(p, 1 / (1 + np.exp(-mine)), atol=1e-5)
        audit = fp.audit(data, model, "sex", **small)
    assert audit.run.people.hits == int(((mine > 0) != (other > 0)).sum()) > 0
    assert audit.document.chat is not None
    assert [each.value for each in audit.document.chat.found] == ["female"]
    with answering(at_temperature_four) as server:
        model = fp.load_model(server.chat, data, endpoint={"prompt": Prompt("tiny", USER, labels)})
        noisy = fp.audit(data, model, "sex", **small).document.chat
    assert noisy is not None
    assert noisy.varied > 0
    assert [each.mean < 0 for each in noisy.found] == [True]
