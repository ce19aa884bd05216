"""What an audit of a table adds where the model is a chat endpoint: fewer people by default, what
was used, and the signed test of the answers over the people in the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fairprobe.audits.base import OnStage
from fairprobe.datasets.base import Dataset
from fairprobe.documents.chat import ChatDocument, LeaningDocument
from fairprobe.models import Model
from fairprobe.models.formats.chat import Chat
from fairprobe.models.formats.chat_models import ChatRows
from fairprobe.search import Budget
from fairprobe.statistics.rates import CONFIDENCE
from fairprobe.statistics.signed import Leaning, leanings

SAMPLES = 50_000  # the default number of possible people
ASKED_SAMPLES, ASKED_ROWS, ASKED_SEEDS = 100, 200, 50  # where each costs a request


@dataclass(frozen=True)
class ChatAnswers:
    """The endpoint, and how its answers lean in favor of each sensitive value (`favorable`) and
    which value it gives no answer to (`unanswered`), over `people` different people.
    """

    chat: Chat
    people: int
    favorable: tuple[Leaning, ...]
    unanswered: tuple[Leaning, ...]
    values: tuple[str, ...]
    outcome: str


def chat_of(model: Model) -> Chat | None:
    """The chat endpoint behind a model, if there is one."""
    opened = None if model.joint is None else model.joint.opened
    program = None if opened is None else opened.predict
    return program.chat if isinstance(program, ChatRows) else None


def affordable(
    model: Model, samples: int, budget: Budget | None, tell: OnStage
) -> tuple[int, Budget]:
    """How many possible people are drawn, and the budget of the search: small ones by default where
    every person is a request, which are reported as they are answered.
    """
    chat = chat_of(model)
    if chat is None:
        return samples, budget or Budget()
    chat.watch = lambda done, total: tell("Asking the chat endpoint", done, total, "requests")
    limited = budget or Budget(seeds=ASKED_SEEDS)
    if limited.rows is None and limited.seconds is None and limited.wanted is None:
        limited = replace(limited, rows=ASKED_ROWS, seeds=min(limited.seeds, ASKED_SEEDS))
    return ASKED_SAMPLES if samples == SAMPLES else samples, limited


def chat_answers(data: Dataset, model: Model, rng: np.random.Generator) -> ChatAnswers | None:
    """Whether the answers about the people in the data lean to one side. Equal people are one."""
    chat, domain = chat_of(model), data.domain
    if chat is None or model.answer_shares is None:
        return None
    cases = domain.counterparts(data.x[domain.comparable(data.x)])  # (N, V, A)
    allowed = domain.satisfies(cases.reshape(-1, cases.shape[2])).reshape(cases.shape[:2])
    cases = np.unique(cases[allowed.all(axis=1)], axis=0)
    n, v = cases.shape[:2]
    favorable = 1 if data.favourable is None else data.favourable
    shares = np.empty((0, v, len(data.classes) + 1))
    if n > 1:
        shares = model.answer_shares(cases.reshape(n * v, -1)).reshape(n, v, -1)
    return ChatAnswers(
        chat,
        n,
        tuple(leanings(shares[:, :, favorable], rng=rng)),
        tuple(leanings(shares[:, :, -1], rng=rng)),
        tuple(domain.describe_value(value) for value in range(v)),
        data.classes[favorable],
    )


def chat_document(found: ChatAnswers) -> ChatDocument:
    """The answers as a part of the audit's document."""
    chat, used = found.chat, found.chat.usage
    return ChatDocument(
        read=chat.prompt.answers.read,
        asks=chat.asks,
        settle=chat.most_asks,
        probed=used.probed,
        varied=used.varied,
        requests=used.requests,
        stored=used.stored,
        answers=used.answers,
        refused=used.refused,
        unreadable=used.unreadable,
        tokens_sent=used.sent,
        tokens_received=used.received,
        cost=used.cost,
        currency=chat.prompt.prices.currency,
        served=sorted(used.served),
        favorable=found.outcome,
        people=found.people,
        confidence=CONFIDENCE,
        leanings=[
            *(_leaning(each, found.values, "favorable") for each in found.favorable),
            *(_leaning(each, found.values, "no answer") for each in found.unanswered),
        ],
    )


def _leaning(
    each: Leaning, values: tuple[str, ...], outcome: Literal["favorable", "no answer"]
) -> LeaningDocument:
    return LeaningDocument(
        value=values[each.value],
        than=values[1] if len(values) == 2 else "the others",
        outcome=outcome,
        mean=each.mean,
        low=each.low,
        high=each.high,
        p=each.p,
    )
