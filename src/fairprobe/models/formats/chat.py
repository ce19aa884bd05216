"""Language models behind a chat endpoint that decide about people: `chat:https://host/v1` with a
prompt file (`chat_prompt.py`).

    POST {"model": …, "messages": [{"role": "user", "content": …}], "temperature": 0, …}
    ->   {"choices": [{"message": {"content": "approve"}}], "usage": {…}}

Answers may vary. So the noise is measured first: `PROBED` questions are asked `VARYING` times each.
Where an answer varies, every question is asked `asks` times, and

- a *share* (`shares`) is the mean over the asks: an unbiased estimate, which the signed test over
  people uses, and the excess over the control of a text audit;
- a *label* (`labels`) is evidence for the judge only where all asks agree; otherwise it is a tie. A
  pair whose labels differ is asked `settle` times each side before it counts (`settle`): unanimity
  of three would accuse a coin of 3 % of all pairs, unanimity of ten of two in a million.

A refusal and an answer that names no class are outcomes of their own: counted, no class.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from fairprobe.arrays import Floats, Rows
from fairprobe.datasets.cache import cache_folder
from fairprobe.errors import ModelError, SettingError
from fairprobe.models.formats.base import Format, Opened
from fairprobe.models.formats.chat_answers import (
    LEAST_MASS,
    REFUSED,
    UNREADABLE,
    Cache,
    Reader,
    Reply,
    digest,
    reply_of,
)
from fairprobe.models.formats.chat_prompt import ROW, TEXT, Prompt, checked, read_prompt
from fairprobe.models.formats.chat_usage import ChatUsage
from fairprobe.models.formats.endpoint import records
from fairprobe.models.formats.http import Service, beginning, decoded
from fairprobe.models.text import TextModel

SCHEME = "chat:"
COMPLETIONS = "/chat/completions"
CACHE = "chat-answers.sqlite"  # in the cache folder, unless another file is named
PROBED, VARYING = 20, 3  # questions that measure the noise, and how often each is asked
STEADY = 0.01  # how far log-probabilities may vary and still count as the same answer
MOST_UNREADABLE = 0.5  # of the first answers
NO_ANSWER = "no answer"  # the name of the outcome that is no class
EXAMPLE = '{"choices": [{"message": {"content": "yes"}}]}'

Values: TypeAlias = Mapping[str, Any]
Watch: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True)
class _Job:
    question: bytes
    ask: int
    messages: list[dict[str, str]]


class Chat:
    """Query a chat endpoint with a prompt.

    `cache` is the SQLite file of the answers; `dry_run` sends nothing, counts what would be sent,
    and makes answers up. The token is the one of `Service`.
    """

    def __init__(
        self,
        address: str,
        prompt: Prompt,
        *,
        cache: Path | str | None = None,
        dry_run: bool = False,
        timeout: float = 60.0,
        **service: Any,
    ) -> None:
        url = address.removeprefix(SCHEME)
        if not url.split("?")[0].rstrip("/").endswith(COMPLETIONS):
            base, mark, query = url.partition("?")
            url = base.rstrip("/") + COMPLETIONS + mark + query
        self.prompt, self.dry_run = checked(prompt), dry_run
        self._service = Service(url, timeout=timeout, header=prompt.header, **service)
        self.shown = self._service.shown
        self.name = f"{prompt.model} at {self.shown}"
        self.cache = Cache(Path(cache) if cache is not None else cache_folder() / CACHE)
        self.reader = Reader(prompt.words)
        self.usage = ChatUsage(currency=prompt.prices.currency, served=[])
        self.probed = self.varied = (
            0  # questions sent several times, and those answered differently
        )
        self.watch: Watch | None = None
        self._lock = threading.Lock()
        self._seen: dict[bytes, dict[int, Reply]] = {}  # by question and number of the ask
        self._settled: dict[bytes, int] = {}  # how often a question was asked, if more than usual
        self._asks: int | None = None
        self._varies = False

    @property
    def classes(self) -> tuple[str, ...]:
        return self.prompt.classes

    @property
    def asks(self) -> int:
        """Return how often each question is sent; known after the first answers."""
        return self._asks or 1

    @property
    def most_asks(self) -> int:
        """Return how often each side of a pair is sent before a difference counts."""
        return max(self.asks, self.prompt.answers.settle if self._varies else VARYING)

    def shares(self, people: Sequence[Values]) -> Floats:
        """Return (n, C + 1) how often each class was answered, and last how often none was."""
        p = np.stack(
            [self._p(question)[: self.asks].mean(axis=0) for question in self._ask(people)]
        )
        return np.column_stack([p, np.maximum(1 - p.sum(axis=1), 0)])

    def labels(self, people: Sequence[Values]) -> Floats:
        """Return (n, C) the probability of each class where all asks agree on the most probable
        one; where they do not, or where there is no answer, the same for all classes: a tie.
        """
        tie = np.full(len(self.classes), 1 / len(self.classes))
        rows = []
        for question in self._ask(people):
            mean = self._p(question).mean(axis=0)
            rows.append(mean / mean.sum() if self._is_sure(question) else tie)
        return np.stack(rows)

    def settle(self, people: Sequence[Values]) -> None:
        """Ask about these people until their labels can be believed. Once the answers to a
        question differ, nothing more is asked: it is a tie.
        """
        asked = dict(zip(self._ask(people), people, strict=True))
        asks = self.asks
        while asks < self.most_asks:
            asks += 1
            still = [
                question
                for question in asked
                if self._settled.get(question, self.asks) < asks and self._is_sure(question)
            ]
            self._fetch([asked[question] for question in still], asks)
            self._settled |= dict.fromkeys(still, asks)
            self._varies = self._varies or not all(map(self._is_sure, still))

    # -- asking ------------------------------------------------------------------------------------

    def _ask(self, people: Sequence[Values]) -> list[bytes]:
        """Fetch the answers about these people; return their questions."""
        if self._asks is None:
            self._measure_noise(people)
        return self._fetch(people, self.asks)

    def _p(self, question: bytes) -> Floats:
        """Return (asks, C) the probabilities in the answers to a question."""
        seen, asks = self._seen[question], self._settled.get(question, self.asks)
        return np.stack([self.reader.probabilities(seen[ask]) for ask in range(asks)])

    def _is_sure(self, question: bytes) -> bool:
        """Return True if all answers to a question name the same class."""
        p = self._p(question)
        return len(set(p.argmax(axis=1))) == 1 and bool((p.sum(axis=1) >= LEAST_MASS).all())

    def _measure_noise(self, people: Sequence[Values]) -> None:
        """Ask some questions several times, and decide how often every one is asked."""
        probed = list(dict.fromkeys(self._fetch(people[:PROBED], VARYING)))
        replies = [[self._seen[question][ask] for ask in range(VARYING)] for question in probed]
        outcomes = [[self.reader.outcome(reply) for reply in each] for each in replies]
        if self.prompt.answers.read == "logprobs":
            self._check_probabilities(replies)
            p = [np.stack([self.reader.probabilities(reply) for reply in each]) for each in replies]
            self.varied = sum(bool(np.ptp(each, axis=0).max() > STEADY) for each in p)
        else:
            self.varied = sum(len(set(each)) > 1 for each in outcomes)
            self._check_readable(replies, [reply for each in outcomes for reply in each])
        self.probed = len(probed)
        self._varies = self.varied > 0
        varying = VARYING if self.varied else 1
        self._asks = self.prompt.answers.asks or varying

    def _check_readable(self, replies: list[list[Reply]], outcomes: list[int]) -> None:
        unread = [number for number, outcome in enumerate(outcomes) if outcome == UNREADABLE]
        if len(unread) > MOST_UNREADABLE * len(outcomes):
            example = replies[unread[0] // VARYING][unread[0] % VARYING].text
            raise ModelError(
                f"{len(unread)} of the first {len(outcomes)} answers of {self.name} name none of"
                f" {', '.join(self.classes)}, such as '{beginning(example.encode())}'. Say in the"
                " prompt which words to answer with, and show it with a few [[examples]]."
            )

    def _check_probabilities(self, replies: list[list[Reply]]) -> None:
        if any(reply.top is None and not reply.is_refusal for each in replies for reply in each):
            raise ModelError(
                f"{self.name} returns no log-probabilities. Read its answers instead:"
                ' read = "text" in [answers] of the prompt file.'
            )

    def _fetch(self, people: Sequence[Values], asks: int) -> list[bytes]:
        """Fetch the first `asks` answers to questions about these people; return the questions."""
        questions, jobs = [], dict[tuple[bytes, int], _Job]()
        for values in people:
            messages = self.prompt.messages(values)
            question = digest(self.shown, self.prompt.request, messages)
            questions.append(question)
            seen = self._seen.setdefault(question, {})
            for ask in range(asks):
                if ask in seen or (question, ask) in jobs:
                    continue
                reply = self.cache.get(question, ask)
                if reply is None:
                    jobs[question, ask] = _Job(question, ask, messages)
                else:
                    seen[ask] = reply
                    self._count(reply, stored=True)
        if jobs and self.dry_run:
            for job in jobs.values():
                self._pretend(job)
        elif jobs:
            self._check_limits(list(jobs.values()))
            self._send_all(list(jobs.values()))
        return questions

    def _check_limits(self, jobs: list[_Job]) -> None:
        """Refuse a batch that would exceed a limit, before any of it is sent."""
        limits, prices, used = self.prompt.limits, self.prompt.prices, self.usage
        estimates = [self.prompt.estimate(job.messages) for job in jobs]
        sent, received = (sum(amounts) for amounts in zip(*estimates, strict=True))
        planned = {
            "requests": (used.requests + len(jobs), limits.requests),
            "tokens": (used.tokens_sent + used.tokens_received + sent + received, limits.tokens),
            "cost": (used.cost + prices.of(sent, received), limits.cost),
        }
        for name, (needed, most) in planned.items():
            if most is not None and needed > most:
                raise ModelError(
                    f"This run needs up to {needed:,.6g} of `{name}`, and [limits] of the prompt"
                    f" file allows {most:,.6g}. {used.requests:,} requests were sent, and their"
                    f" answers are kept in {self.cache.path}. Raise the limit or take fewer people;"
                    " the same command goes on from here. --dry-run counts without sending."
                )

    def _send_all(self, jobs: list[_Job]) -> None:
        """Send the jobs, several at once. What was answered is stored even if another one fails."""
        waiting: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        stop, before = threading.Event(), self.usage.requests
        threads = min(self.prompt.limits.parallel, len(jobs))
        with ThreadPoolExecutor(threads) as pool:
            workers: set[Future[None]] = {
                pool.submit(self._work, waiting, stop) for _ in range(threads)
            }
            try:
                running = workers
                while running:
                    done, running = wait(running, timeout=0.25, return_when=FIRST_EXCEPTION)
                    if self.watch is not None:
                        self.watch(self.usage.requests - before, len(jobs))
                    for worker in done:
                        worker.result()
            except BaseException as error:
                stop.set()
                wait(workers)
                if isinstance(error, ModelError):
                    raise ModelError(
                        f"{error} {self.usage.requests:,} answers of this run are kept in"
                        f" {self.cache.path}; the same command goes on from there."
                    ) from error
                raise

    def _work(self, waiting: queue.SimpleQueue[_Job], stop: threading.Event) -> None:
        with self._service.session() as send:
            while not stop.is_set():
                try:
                    job = waiting.get_nowait()
                except queue.Empty:
                    return
                body = json.dumps({**self.prompt.request, "messages": job.messages}).encode()
                content = send(body, self.shown)
                reply = reply_of(decoded(content, self.shown, EXAMPLE), self.shown)
                self.cache.put(job.question, job.ask, reply)
                self._take(job, reply)

    def _pretend(self, job: _Job) -> None:
        """Make up an answer that depends on nothing but the question."""
        words = [self.prompt.words[label][0] for label in self.classes]
        word = words[job.question[0] % len(words)]
        self._take(job, Reply(word, top=[(word, 0.0)]))

    def _take(self, job: _Job, reply: Reply) -> None:
        sent, received = self.prompt.estimate(job.messages)
        sent = reply.sent if reply.sent is not None else sent
        received = reply.received if reply.received is not None else received
        cost = self.prompt.prices.of(sent, received)
        with self._lock:
            self._seen[job.question][job.ask] = reply
            self.usage = self.usage.plus(
                requests=1, tokens_sent=sent, tokens_received=received, cost=cost
            )
            self._count(reply, stored=False)

    def _count(self, reply: Reply, *, stored: bool) -> None:
        outcome = self.reader.outcome(reply)
        self.usage = self.usage.plus(
            answers=1,
            stored=int(stored),
            refused=int(outcome == REFUSED),
            unreadable=int(outcome == UNREADABLE),
            served=[reply.served] if reply.served else [],
        )


def open_chat(address: str, *, prompt: Prompt | Path | str | None = None, **settings: Any) -> Chat:
    """Open the chat endpoint at an address, with the prompt of a file."""
    if prompt is None:
        raise SettingError(
            f'A chat endpoint ({SCHEME}https://…) needs a prompt file: `prompt = "prompt.toml"`'
        )
    asked = prompt if isinstance(prompt, Prompt) else read_prompt(prompt)
    try:
        return Chat(address, asked, **settings)
    except TypeError as error:
        raise SettingError(f"Invalid settings for a chat endpoint: {error}.") from error


# -- as a model ------------------------------------------------------------------------------------


class ChatRows:
    """Use a chat endpoint as a model of rows: a callable from a DataFrame to probabilities."""

    def __init__(self, chat: Chat) -> None:
        self.chat, self.classes = chat, chat.classes

    def __call__(self, frame: pd.DataFrame) -> Rows:
        if not len(frame):
            return np.empty((0, len(self.classes)), dtype=np.float32)
        return self.chat.labels(records(frame)).astype(np.float32)

    def settle(self, frame: pd.DataFrame) -> None:
        """Ask again about people whose labels differ."""
        self.chat.settle(records(frame))

    def shares(self, frame: pd.DataFrame) -> Floats:
        """Return how often each class was answered, and last how often none was."""
        return self.chat.shares(records(frame))


def open_chat_rows(address: str, **settings: Any) -> Opened:
    """Open a chat endpoint as a black box for the rows of a table."""
    chat = open_chat(address, **settings)
    return Opened(
        kind="chat endpoint",
        name=chat.name,
        takes="words",
        predict=ChatRows(chat),
        columns=None if ROW in chat.prompt.slots else chat.prompt.slots,
        classes=chat.classes,
        outputs="probabilities",
        why="It is behind a chat endpoint: it can be asked, but its inside cannot be seen.",
    )


class ChatText(TextModel):
    """Use a chat endpoint as a model of texts, which replace {text} in the prompt. No answer is an
    outcome of its own.
    """

    def __init__(self, chat: Chat) -> None:
        if chat.prompt.slots != (TEXT,):
            raise SettingError(
                "The prompt of a text audit asks about {text} and nothing else; its slots are"
                f" {', '.join(chat.prompt.slots)}."
            )
        self.chat = chat
        classes = (*chat.classes, NO_ANSWER)
        super().__init__(self._shares, name=chat.name, kind="chat endpoint", classes=classes)

    def _shares(self, texts: list[str]) -> Rows:
        return self.chat.shares([{TEXT: text} for text in texts]).astype(np.float32)


def open_chat_text(
    source: str, *, classes: Sequence[str] | None = None, **settings: Any
) -> TextModel:
    """Open a chat endpoint as a model of texts."""
    if classes is not None:
        raise SettingError("The classes of a chat endpoint are the [labels] of its prompt file.")
    return ChatText(open_chat(source, **settings))


CHAT = Format(
    name="chat",
    title="A language model",
    about="A language model behind an OpenAI-compatible chat endpoint, asked with a prompt file.",
    given="chat:https://…",
    white_box="no",
    open=open_chat_rows,
)
