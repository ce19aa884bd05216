"""Chat endpoints in audits of tables: smaller default budgets, usage, and the signed test of the
answers over the people in the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from msgspec import structs

from fairprobe.datasets.base import Dataset
from fairprobe.documents.table import ChatDocument, LeaningDocument, TableMeasurements, TableRun
from fairprobe.measures import Measure, Reading
from fairprobe.models import Model
from fairprobe.models.formats.chat import Chat, ChatRows
from fairprobe.models.formats.chat_usage import ChatUsage
from fairprobe.report import Cell, Notes, Section, Table, Text
from fairprobe.report.formats import change, count, listed, plural, points
from fairprobe.results import CONFIDENCE
from fairprobe.search import Budget
from fairprobe.statistics.signed import Leaning, leanings

SAMPLES = 50_000  # possible people, by default
CHAT_SAMPLES, CHAT_ROWS, CHAT_SEEDS = 100, 200, 50  # defaults where each person is a request


def chat_of(model: Model) -> Chat | None:
    """Return the chat endpoint behind a model, if there is one."""
    opened = None if model.joint is None else model.joint.opened
    program = None if opened is None else opened.predict
    return program.chat if isinstance(program, ChatRows) else None


def affordable(
    model: Model,
    samples: int,
    budget: Budget | None,
    progress: Callable[[str, int, int, str], None],
) -> tuple[int, Budget]:
    """Return the number of possible people and the budget of the search. Both are small by default
    where every person is a request; requests are reported to `progress`.
    """
    chat = chat_of(model)
    if chat is None:
        return samples, budget or Budget()
    chat.watch = lambda done, total: progress("Querying the endpoint", done, total, "requests")
    limited = budget or Budget(seeds=CHAT_SEEDS)
    if limited.rows is None and limited.seconds is None and limited.wanted is None:
        limited = replace(limited, rows=CHAT_ROWS, seeds=min(limited.seeds, CHAT_SEEDS))
    return CHAT_SAMPLES if samples == SAMPLES else samples, limited


def chat_answers(data: Dataset, model: Model, rng: np.random.Generator) -> ChatDocument | None:
    """Test whether the answers about the people in the data lean to one side, and describe what the
    endpoint was sent until now. Equal people count once.
    """
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
    values = [domain.describe_value(value) for value in range(v)]
    return ChatDocument(
        **structs.asdict(chat.usage),
        read=chat.prompt.answers.read,
        asks=chat.asks,
        settle=chat.most_asks,
        probed=chat.probed,
        varied=chat.varied,
        favorable=data.classes[favorable],
        people=n,
        confidence=CONFIDENCE,
        leanings=[
            *_leanings(leanings(shares[:, :, favorable], rng=rng), values, "favorable"),
            *_leanings(leanings(shares[:, :, -1], rng=rng), values, "no answer"),
        ],
    )


def _leanings(
    leanings: Sequence[Leaning], values: Sequence[str], outcome: Literal["favorable", "no answer"]
) -> list[LeaningDocument]:
    return [
        LeaningDocument(
            value=values[leaning.value],
            than=values[1] if len(values) == 2 else "the others",
            outcome=outcome,
            mean=leaning.mean,
            low=leaning.low,
            high=leaning.high,
            p=leaning.p,
        )
        for leaning in leanings
    ]


# -- the report ------------------------------------------------------------------------------------


def chat_section(chat: ChatDocument) -> Section:
    """Report whether the answers lean to one sensitive value, and how the endpoint was queried."""
    rows = [
        (
            leaning.value,
            leaning.than,
            _outcome(chat, leaning),
            Cell(change(leaning.mean), f"{change(leaning.low)} to {change(leaning.high)}"),
            f"{leaning.p:.2g}",
        )
        for leaning in chat.leanings
    ]
    head = ("value", "compared with", "answer", "difference", "p")
    return Section(
        "How the answers lean",
        [
            Text(_verdict(chat)),
            Table(head, rows, words=(0, 1, 2)) if rows else None,
            Notes(_notes(chat)),
        ],
        anchor="leaning",
    )


def _verdict(chat: ChatDocument) -> str:
    """State whether the answers lean to one side; empty if nobody was compared."""
    if not chat.leanings:
        return ""
    about = f"Over {plural(chat.people, 'different person', 'different people')} in the data"
    if not chat.found:
        widest = max(chat.leanings, key=lambda leaning: abs(leaning.mean))
        return (
            f"{about}, the answers lean to no side. The largest difference may be chance:"
            f" {_lean(chat, widest)}."
        )
    return f"{about}, {listed([_lean(chat, leaning) for leaning in chat.found])}."


def _lean(chat: ChatDocument, leaning: LeaningDocument) -> str:
    more = "more" if leaning.mean >= 0 else "less"
    return (
        f"{_outcome(chat, leaning)} is given {points(abs(leaning.mean))} {more} often with"
        f" {leaning.value} than with {leaning.than} (interval of the difference"
        f" {change(leaning.low)} to {change(leaning.high)}, p = {leaning.p:.2g})"
    )


def _outcome(chat: ChatDocument, leaning: LeaningDocument) -> str:
    return f"“{chat.favorable}”" if leaning.outcome == "favorable" else "no answer"


def _notes(chat: ChatDocument) -> list[str]:
    """Describe the noise, and the answers without a class."""
    once = "once" if chat.asks == 1 else f"{count(chat.asks)} times"
    none = (
        f"{count(chat.refused)} answers were refusals and {count(chat.unreadable)} named no class."
        if chat.refused or chat.unreadable
        else "Every answer named a class."
    )
    notes = [
        f"The noise was measured first: {count(chat.varied)} of {count(chat.probed)} questions got"
        " different answers when they were asked three times. So every question was asked"
        f" {once}. A person is affected only if all answers agree on each side and differ between"
        f" the sides; a pair that differed was asked up to {count(chat.settle)} times. That finds"
        " certain cases; how the answers lean on average is estimated over all people, with every"
        " answer.",
        f"Answers: {count(chat.answers)}, of which {count(chat.stored)} were stored from earlier"
        f" runs. {none} A person without an answer is judged neither affected nor fair.",
    ]
    if len(chat.served) > 1:
        notes.append(
            f"The server named {len(chat.served)} versions of its model:"
            f" {listed(chat.served[:5])}. The numbers are about a mixture of them."
        )
    return notes


def planned(run: TableRun) -> str:
    """Say what a dry run would send."""
    if run.chat is None:
        return "Nothing would be sent."
    usage = {name: getattr(run.chat, name) for name in ChatUsage.__struct_fields__}
    return ChatUsage(**usage).planned


# -- the measure -----------------------------------------------------------------------------------

MISSING = (
    "the model of the run is no chat endpoint, or no person in the data has an answer for every"
    " value. Take leaning out of the policy, or audit a model chat:…"
)


def _read(document: TableMeasurements) -> list[Reading]:
    chat = document.chat if isinstance(document, TableRun) else None
    if chat is None or not chat.leanings:
        return [Reading(what="how far answers lean to one value", missing=MISSING)]
    return [_reading(chat, leaning) for leaning in chat.leanings]


def _reading(chat: ChatDocument, leaning: LeaningDocument) -> Reading:
    """Read the size of a difference: with an interval on both sides of 0 it is at least 0."""
    outcome = _outcome(chat, leaning)
    least, most = sorted((abs(leaning.low), abs(leaning.high)))
    return Reading(
        what=f"difference of {outcome} between {leaning.value} and {leaning.than}",
        estimate=abs(leaning.mean),
        low=0.0 if leaning.low <= 0 <= leaning.high else least,
        high=most,
        confidence=chat.confidence,
        samples=chat.people,
        measured_on=f"{chat.people:,} different people in the data",
    )


LEANING = Measure(
    name="leaning",
    title="Leaning of a language model's answers",
    about=(
        "How much more or less often an answer is given with one sensitive value than with the same"
        " person's other values: the mean over the people in the data, of a chat endpoint."
    ),
    unit="share",
    direction="at most",
    read=_read,
)
