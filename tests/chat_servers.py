"""Chat endpoints of our own: a handler whose brain is a function, and prompts for it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fairprobe.models.formats.chat_prompt import Answers, Example, Limits, Prompt
from tests.services import Handler, Request, Server, running

Brain = Callable[[dict[str, Any]], Any]  # from a request to the text of the answer, or all of it
LOAN = "You decide on loans. Answer with one word: approve or reject."
WORDS = {"good": ["approve", "approved"], "bad": "reject"}


class ChatServer(Server):
    """Answers with its `brain`, and counts how often each request came."""

    def __init__(self, brain: Brain) -> None:
        super().__init__(_Completions)
        self.brain, self.lock = brain, threading.Lock()
        self.counts: Counter[str] = Counter()
        self.chat = f"chat:{self.address}/v1"


class _Completions(Handler):
    """Keeps connections open, as servers do that are asked often."""

    server: ChatServer

    disable_nagle_algorithm = True

    def do_POST(self) -> None:  # noqa: N802  (the server's name for it)
        self.keeps = True
        super().do_POST()
        self.close_connection = not self.keeps

    def respond(self, request: Request) -> None:
        body = request.json
        with self.server.lock:
            self.server.counts[json.dumps(body["messages"])] += 1
            answer = self.server.brain(body)
        if callable(answer):
            self.keeps = False
            answer(self)
        else:
            content = (
                answer if isinstance(answer, bytes) else json.dumps(completion(answer)).encode()
            )
            self.reply(content, Connection="keep-alive")


def completion(answer: Any, **more: Any) -> dict[str, Any]:
    """A chat completion with this text, or with this message."""
    message = answer if isinstance(answer, dict) else {"role": "assistant", "content": answer}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 30, "completion_tokens": 1, "total_tokens": 31}
    return {
        "object": "chat.completion",
        "model": "toy-1",
        "choices": [choice],
        "usage": usage,
    } | more


@contextmanager
def answering(brain: Brain) -> Iterator[ChatServer]:
    """A server with this brain, as long as the block lasts."""
    server = ChatServer(brain)
    with running(server):
        yield server


def loans(**changes: Any) -> Prompt:
    """A prompt that asks for a decision on a loan."""
    settings: dict[str, Any] = {
        "model": "toy",
        "system": LOAN,
        "user": "Age: {age}. Sex: {sex}. Decision?",
        "labels": WORDS,
        "examples": [Example("approve", values={"age": 50, "sex": "male"})],
    }
    return Prompt(**settings | changes)


def question(body: dict[str, Any]) -> str:
    """The last message of a request."""
    return str(body["messages"][-1]["content"])


__all__ = ["Answers", "ChatServer", "Limits", "answering", "completion", "loans", "question"]
