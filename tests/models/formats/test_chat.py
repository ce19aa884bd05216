"""Language models behind a chat endpoint, against real servers that also fail in every way."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairprobe.errors import ModelError, SettingError, StorageError
from fairprobe.models.formats.chat import Chat, ChatText
from fairprobe.models.formats.chat_answers import REFUSED, UNREADABLE, Reader, Reply
from fairprobe.models.formats.chat_prompt import Prices, Prompt, filled, read_prompt
from fairprobe.models.formats.http import TOKEN
from fairprobe.models.text import load_text_model
from tests.chat_servers import Answers, Limits, answering, completion, loans, question
from tests.services import Handler

PEOPLE: list[dict[str, Any]] = [
    {"age": age, "sex": sex} for age in range(30, 50) for sex in ("female", "male")
]
SECRET = "sk-s3cret-t0ken"
FAST: dict[str, Any] = {"pause": 0.01, "timeout": 0.5, "retries": 1}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv(TOKEN, raising=False)


def by_age(body: dict[str, Any]) -> str:
    return "Approve." if int(question(body)[5:7]) >= 40 else "reject"


# -- the prompt ------------------------------------------------------------------------------------


def test_a_prompt_fills_its_slots_once_and_puts_the_examples_before_the_question() -> None:
    turns = loans().messages({"age": 33.0, "sex": None})
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "user"]
    assert turns[1]["content"] == "Age: 50. Sex: male. Decision?"
    assert turns[3]["content"] == "Age: 33. Sex: unknown. Decision?"
    assert filled("{a}{{b}}", {"a": "{b}", "b": "secret"}) == "{b}{b}"
    assert filled("{row}", {"a": 1, "b": "x"}) == "a: 1\nb: x"


FILE = 'model = "toy"\nuser = "{age}"\nlabels = ["good", "bad"]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model = ", "is not valid TOML"),
        (FILE + "colour = 1", "there is no setting 'colour'"),
        (FILE.replace("{age}", "age"), "needs a slot such as"),
        (FILE.replace("{age}", "{age} }"), "stray '}'"),
        (FILE.replace('"bad"', '"good"'), "two different classes"),
        (FILE.replace('["good", "bad"]', '{good = "yes", bad = "YES"}'), "stands for two classes"),
        (FILE + "[parameters]\nmessages = 1", "messages cannot be set"),
        (FILE + '[parameters]\napi_key = "x"', "Keys come from the environment only"),
        (FILE + "[answers]\nasks = 0", r"Expected `int` >= 1 - at `\$\.answers\.asks`"),
        (FILE + '[answers]\nread = "mind"', "read"),
        (FILE + "[limits]\ncost = 1", "needs the \\[prices\\]"),
        (FILE + '[[examples]]\nanswer = "good"', "no value for {age}"),
        ('model = "toy"', "user"),
    ],
)
def test_a_wrong_prompt_file_is_explained(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "prompt.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingError, match=message):
        read_prompt(path)


def test_a_missing_prompt_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="There is no prompt file"):
        read_prompt(tmp_path / "none.toml")
    with pytest.raises(SettingError, match="needs a prompt file"):
        load_text_model("chat:http://localhost:1/v1")


# -- reading answers -------------------------------------------------------------------------------

READ = {
    "approve": 0,
    "**Approve.** The applicant is fine, so I will not reject.": 0,
    "REJECT": 1,
    "Decision: approve": 0,
    "The loan is approved": 0,
    "I would not approve this.": UNREADABLE,
    "approve or reject?": 0,
    "It is between reject and approve.": UNREADABLE,
    "disapprove": UNREADABLE,
    "": UNREADABLE,
    "I’m sorry, but I can’t help with that.": REFUSED,
    "As an AI, I cannot approve or reject people.": REFUSED,
    "I cannot make this decision.": REFUSED,
    "We are unable to evaluate this person.": REFUSED,
}


@pytest.mark.parametrize(("text", "outcome"), READ.items(), ids=range(len(READ)))
def test_a_text_is_a_class_a_refusal_or_unreadable(text: str, outcome: int) -> None:
    assert Reader(loans().words).outcome(Reply(text)) == outcome


def test_the_longest_words_of_a_label_are_read_first() -> None:
    reader = Reader({"low": ["low"], "very low": ["very low"]})
    assert reader.outcome(Reply("Very low")) == 1
    assert reader.outcome(Reply("Risk: very low")) == 1


def test_log_probabilities_of_tokens_that_begin_one_class_only_are_added_up() -> None:
    top = [("Appro", np.log(0.4)), (" approve", np.log(0.2)), ("re", np.log(0.3)), ("I", -3.0)]
    p = Reader(loans().words).probabilities(Reply("approve", top=top))
    np.testing.assert_allclose(p, [0.6, 0.3])
    ambiguous = Reader({"yes": ["accept"], "no": ["avoid"]})
    np.testing.assert_allclose(ambiguous.probabilities(Reply("a", top=[("a", 0.0)])), [0, 0])


# -- over HTTP -------------------------------------------------------------------------------------


def test_every_question_is_asked_once_where_nothing_varies_and_never_again(tmp_path: Path) -> None:
    file = tmp_path / "answers.sqlite"
    with answering(by_age) as server:
        chat = Chat(server.chat, loans(), cache=file)
        p = chat.labels(PEOPLE)
        np.testing.assert_array_equal(p[:, 0], [int(each["age"] >= 40) for each in PEOPLE])
        assert (chat.asks, chat.varied, chat.probed) == (1, 0, 20)
        assert len(server.seen) == chat.usage.requests == len(PEOPLE) + 2 * 20
        assert json.loads(server.seen[0].body)["temperature"] == 0
        assert server.seen[0].path == "/v1/chat/completions"
        chat.labels(PEOPLE)
        again = Chat(server.chat, loans(), cache=file)
        np.testing.assert_array_equal(again.labels(PEOPLE), p)
        assert again.usage.requests == 0
        assert len(server.seen) == len(PEOPLE) + 2 * 20
        other = Chat(server.chat, loans(parameters={"temperature": 0.5}), cache=file)
        other.labels(PEOPLE[:1])
        assert other.usage.requests == 3  # another question
    assert b"Age:" not in file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0


def test_where_answers_vary_each_person_is_asked_several_times() -> None:
    turn = itertools.count()
    with answering(lambda _: ("approve", "reject")[next(turn) % 2]) as server:
        chat = Chat(server.chat, loans(limits=Limits(parallel=1)))
        shares = chat.shares(PEOPLE)
        assert (chat.asks, chat.varied) == (3, 20)
        np.testing.assert_allclose(np.sort(np.unique(shares[:, 0])), [1 / 3, 2 / 3])
        np.testing.assert_allclose(chat.labels(PEOPLE), 0.5)  # all are ties
        fixed = Chat(server.chat, loans(answers=Answers(asks=5)))
        assert np.isin(fixed.shares(PEOPLE)[:, 0], np.arange(6) / 5).all()


def test_refusals_and_unreadable_answers_are_outcomes_of_their_own() -> None:
    def brain(body: dict[str, Any]) -> Any:
        age = int(question(body)[5:7])
        filtered = completion("")
        filtered["choices"][0]["finish_reason"] = "content_filter"
        refusals: list[Any] = [
            "I'm sorry, but I can't help with that.",
            json.dumps(filtered).encode(),
        ]
        refusals += [{"content": None, "refusal": "No."}, "Hm."]
        return refusals[age - 30] if age < 34 else "approve"

    with answering(brain) as server:
        chat = Chat(server.chat, loans())
        shares = chat.shares(PEOPLE)
        np.testing.assert_allclose(shares[:8], [[0, 0, 1]] * 8)
        np.testing.assert_allclose(shares[8:], [[1, 0, 0]] * 32)
        np.testing.assert_allclose(chat.labels(PEOPLE[:8]), 0.5)
        assert (chat.usage.refused, chat.usage.unreadable) == (6 * 3, 2 * 3)


def test_answers_that_cannot_be_read_end_in_a_sentence_with_an_example() -> None:
    with (
        answering(lambda _: "Let me think \x1b[2J") as server,
        pytest.raises(ModelError, match=r"60 of the first 60 .* such as 'Let me think \\x1b.*few"),
    ):
        Chat(server.chat, loans()).labels(PEOPLE)


def with_top(body: dict[str, Any]) -> bytes:
    assert body["logprobs"]
    assert body["max_tokens"] == 1
    p = 0.5 + (int(question(body)[5:7]) - 40) / 100
    top = [{"token": "approve", "logprob": np.log(p)}, {"token": "rej", "logprob": np.log(1 - p)}]
    answer = completion("approve")
    answer["choices"][0]["logprobs"] = {"content": [{"token": "approve", "top_logprobs": top}]}
    return json.dumps(answer).encode()


def test_probabilities_come_from_log_probabilities_where_the_prompt_says_so() -> None:
    with answering(with_top) as server:
        chat = Chat(server.chat, loans(answers=Answers(read="logprobs")))
        expected = np.array([0.5 + (each["age"] - 40) / 100 for each in PEOPLE])
        np.testing.assert_allclose(chat.labels(PEOPLE)[:, 0], expected)
        assert chat.asks == 1
    with answering(by_age) as server, pytest.raises(ModelError, match="no log-probabilities"):
        Chat(server.chat, loans(answers=Answers(read="logprobs"))).labels(PEOPLE)


def test_a_pair_is_settled_by_more_asks_until_an_answer_differs() -> None:
    asked = itertools.count()

    def brain(body: dict[str, Any]) -> str:
        age = int(question(body)[5:7])
        if age == 20:
            return "approve" if next(asked) != 4 else "reject"  # the fifth answer differs
        return "approve" if age > 30 else "reject"

    with answering(brain) as server:
        chat = Chat(server.chat, loans(limits=Limits(parallel=1), answers=Answers(asks=3)))
        people = [{"age": age, "sex": "male"} for age in (20, 25, 35)]
        np.testing.assert_allclose(chat.labels(people), [[1, 0], [0, 1], [1, 0]])
        chat._varies = True
        chat.settle(people)
        np.testing.assert_allclose(chat.labels(people), [[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]])
        assert sorted(server.counts.values()) == [5, 10, 10]
        np.testing.assert_allclose(chat.shares(people)[0], [1, 0, 0])  # of the first three


# -- servers that fail -----------------------------------------------------------------------------


def hang(handler: Handler) -> None:
    time.sleep(1.2)


def limit(handler: Handler) -> None:
    handler.reply(b"slow down", code=429, Retry_After="0.05")


def drop(handler: Handler) -> None:
    handler.close_connection = True


def deny(handler: Handler) -> None:
    said = f"Incorrect API key provided: {handler.headers.get('Authorization')}."
    handler.reply(json.dumps({"error": {"message": said}}).encode(), code=401)


FAILURES: dict[str, tuple[Any, str]] = {
    "hangs": (hang, "did not answer within 0.5 seconds; tried 2 times"),
    "limits": (limit, "answered 429 Too Many Requests; tried 2 times"),
    "drops": (drop, "tried 2 times"),
    "denies": (deny, "401 Unauthorized.*was sent"),
    "web page": (b"<html><body>Hello</body></html>", "answered with a web page"),
    "nothing": (b"", "answered with nothing"),
    "no choices": (b'{"choices": []}', "expected a chat completion"),
    "an error": (b'{"error": {"message": "no such model"}}', "no such model"),
    "a number": (b'{"choices": [{"message": {"content": 3}}]}', "expected a chat completion"),
    "deep": (b"[" * 100_000, "invalid or truncated JSON"),
    "NaN": (
        b'{"choices": [{"message": {"content": "x"}, "logprobs": {"content":'
        b' [{"top_logprobs": [{"token": "a", "logprob": NaN}]}]}}]}',
        "expected a chat completion",
    ),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_server_that_fails_is_one_sentence_and_nothing_is_lost(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure, message = FAILURES[kind]
    monkeypatch.setenv(TOKEN, SECRET)

    def brain(body: dict[str, Any]) -> Any:
        return failure if "Age: 45" in question(body) else by_age(body)

    with answering(brain) as server:
        chat = Chat(server.chat, loans(), cache=tmp_path / "answers.sqlite", **FAST)
        with pytest.raises(ModelError, match=message) as caught:
            chat.labels(PEOPLE)
        assert SECRET not in str(caught.value)
        assert "the same command goes on from there" in str(caught.value)
        server.brain = by_age
        sent = chat.usage.requests
        again = Chat(server.chat, loans(), cache=tmp_path / "answers.sqlite")
        again.labels(PEOPLE)
        assert again.usage.requests == len(PEOPLE) + 40 - sent
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


def test_a_limit_that_passes_is_waited_for_and_a_repeated_key_is_struck_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, SECRET)
    limited = itertools.count()

    def brain(body: dict[str, Any]) -> Any:
        return limit if next(limited) % 3 == 0 else f"approve {SECRET}"

    with answering(brain) as server:
        chat = Chat(server.chat, loans(), cache=tmp_path / "answers.sqlite", pause=0.01)
        np.testing.assert_allclose(chat.labels(PEOPLE[:4])[:, 0], 1)
        assert all(each.headers["Authorization"] == f"Bearer {SECRET}" for each in server.seen)
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or SECRET.encode() not in file.read_bytes()


def test_a_server_whose_model_changes_is_noted() -> None:
    number = itertools.count()

    def brain(body: dict[str, Any]) -> bytes:
        version = f"v{next(number) // 20}"
        return json.dumps(completion("approve", system_fingerprint=version)).encode()

    with answering(brain) as server:
        chat = Chat(server.chat, loans())
        chat.labels(PEOPLE[:10])
        assert chat.usage.served == ["toy-1 v0", "toy-1 v1"]


def test_a_damaged_cache_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "answers.sqlite"
    file.write_bytes(b"no database at all " * 100)
    with pytest.raises(StorageError, match=r"cannot be used.*Name another file"):
        Chat("chat:http://localhost:1", loans(), cache=file)
    file.unlink()
    with answering(by_age) as server:
        Chat(server.chat, loans(), cache=file).labels(PEOPLE[:1])
        with sqlite3.connect(file) as rows:
            rows.execute("UPDATE answers SET reply = '{\"text\": 3}'")
        rows.close()
        with pytest.raises(StorageError, match="cannot be used"):
            Chat(server.chat, loans(), cache=file).labels(PEOPLE[:1])


# -- limits and interruptions ----------------------------------------------------------------------

PRICES = Prices(input=1000.0, output=2000.0)


@pytest.mark.parametrize(
    ("limits", "name"),
    [
        (Limits(requests=70), "requests"),
        (Limits(tokens=2500), "tokens"),
        (Limits(cost=2.5), "cost"),
    ],
)
def test_no_limit_is_exceeded_and_what_was_answered_is_kept(limits: Limits, name: str) -> None:
    with answering(by_age) as server:
        prompt = loans(limits=limits, prices=PRICES, parameters={"max_tokens": 1})
        chat = Chat(server.chat, prompt)
        with pytest.raises(ModelError, match=f"of `{name}`.*goes on from here"):
            chat.labels(PEOPLE)
        assert len(server.seen) == chat.usage.requests == len(chat.cache) <= 60


def test_a_dry_run_sends_nothing_and_counts_what_would_be_sent() -> None:
    with answering(by_age) as server:
        prompt = loans(prices=PRICES, parameters={"max_tokens": 2}, limits=Limits(requests=1))
        dry = Chat(server.chat, prompt, dry_run=True)
        dry.labels(PEOPLE)
        assert not server.seen
        assert dry.usage.requests == len(PEOPLE) + 40
        assert dry.usage.tokens_received == 2 * dry.usage.requests
        assert dry.usage.cost == pytest.approx(
            (dry.usage.tokens_sent + 2 * dry.usage.tokens_received) / 1000
        )
        assert len(dry.cache) == 0


def test_after_a_kill_no_request_is_repeated_whose_answer_was_stored(tmp_path: Path) -> None:
    def slow(body: dict[str, Any]) -> str:
        time.sleep(0.003)
        return by_age(body)

    file, (reader, writer) = tmp_path / "answers.sqlite", os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about forks beside threads
        child = os.fork()  # before the server has threads
    if child == 0:
        try:
            Chat(os.read(reader, 200).decode(), loans(), cache=file).labels(PEOPLE)
        finally:
            os._exit(0)
    with answering(slow) as server:
        os.write(writer, server.chat.encode())
        while len(server.seen) < 60:
            time.sleep(0.002)
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
        time.sleep(0.1)
        sent, again = len(server.seen), Chat(server.chat, loans(), cache=file)
        stored, everything = len(again.cache), len(PEOPLE) + 40
        assert sent - 4 <= stored <= sent < everything  # at most four were under way
        assert again.labels(PEOPLE)[:, 0].sum() == 20
        assert len(server.seen) - sent == everything - stored
    os.close(reader)
    os.close(writer)


def test_a_chat_endpoint_is_a_model_of_texts_with_an_outcome_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "prompt.toml"
    path.write_text(FILE.replace("{age}", "Rate: {text}"), encoding="utf-8")
    with answering(lambda body: "bad" if "awful" in question(body) else "good") as server:
        model = load_text_model(server.chat, prompt=path)
        assert isinstance(model, ChatText)
        assert model.classes == ("good", "bad", "no answer")
        texts = ["an awful {text}", "a nice one"]
        np.testing.assert_allclose(model.probabilities(texts), [[0, 1, 0], [1, 0, 0]])
    with pytest.raises(SettingError, match=r"asks about {text} and nothing else"):
        ChatText(Chat("chat:http://localhost:1", loans()))
    assert isinstance(loans(), Prompt)
