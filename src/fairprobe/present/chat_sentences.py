"""What reports say about a chat endpoint."""

from __future__ import annotations

from fairprobe.documents import TableRun
from fairprobe.documents.chat import ChatDocument, LeaningDocument
from fairprobe.models.formats.chat_usage import ChatUsage
from fairprobe.present.table import Cell, Table
from fairprobe.report.formats import change, count, listed, percent, plural, points


def leaning(chat: ChatDocument, each: LeaningDocument) -> str:
    """How one outcome leans, with its interval."""
    outcome = f"“{chat.favorable}”" if each.outcome == "favorable" else "no answer"
    more = "more" if each.mean >= 0 else "less"
    return (
        f"{outcome} is given {points(abs(each.mean))} {more} often with {each.value} than with"
        f" {each.than} (interval of the difference {change(each.low)} to {change(each.high)},"
        f" p = {each.p:.2g})"
    )


def verdict(document: TableRun) -> str:
    """Whether the answers lean to one side, in a sentence; empty without a chat endpoint."""
    chat = document.chat
    if chat is None or not chat.leanings:
        return ""
    about = f"Over {plural(chat.people, 'different person', 'different people')} in the data"
    if not chat.found:
        widest = max(chat.leanings, key=lambda each: abs(each.mean))
        return (
            f"{about}, the answers lean to no side. The largest difference may be chance:"
            f" {leaning(chat, widest)}."
        )
    return f"{about}, {listed([leaning(chat, each) for each in chat.found])}."


def leanings_table(chat: ChatDocument) -> Table:
    """The difference that each sensitive value makes, over all people asked."""
    rows = [
        (
            each.value,
            each.than,
            f"“{chat.favorable}”" if each.outcome == "favorable" else "no answer",
            Cell(change(each.mean), f"{change(each.low)} to {change(each.high)}"),
            f"{each.p:.2g}",
        )
        for each in chat.leanings
    ]
    head = ("value", "compared with", "answer", "difference", "p")
    return Table(head, rows, words=(0, 1, 2))


def notes(document: TableRun) -> list[str]:
    """How the endpoint was asked, and what it answered."""
    chat = document.chat
    if chat is None:
        return []
    varied = (
        f"{count(chat.varied)} of {count(chat.probed)} questions got different answers when they"
        " were asked three times"
    )
    once = "once" if chat.asks == 1 else f"{count(chat.asks)} times"
    none = (
        f"{count(chat.refused)} answers were refusals and {count(chat.unreadable)} named no class."
        if chat.refused or chat.unreadable
        else "Every answer named a class."
    )
    written = [
        f"The noise was measured first: {varied}. So every question was asked {once}. A person is"
        " affected only if all answers agree on each side and differ between the sides; a pair that"
        f" differed was asked up to {count(chat.settle)} times. That finds certain cases; how the"
        " answers lean on average is estimated over all people, with every answer.",
        f"Answers: {count(chat.answers)}, of which {count(chat.stored)} were stored from earlier"
        f" runs. {none} A person without an answer is judged neither affected nor fair.",
    ]
    if len(chat.served) > 1:
        written.append(
            f"The server named {len(chat.served)} versions of its model:"
            f" {listed(chat.served[:5])}. The numbers are about a mixture of them."
        )
    return written


def rows(document: TableRun) -> dict[str, str]:
    """Lines of the terminal's table of numbers."""
    chat = document.chat
    if chat is None:
        return {}
    cost = f", {chat.cost:.4g} {chat.currency}" if chat.cost else ""
    tokens = chat.tokens_sent + chat.tokens_received
    shown = {
        f"“{chat.favorable}” with {each.value}, not {each.than}": (
            f"{change(each.mean)} ({change(each.low)} to {change(each.high)}), p = {each.p:.2g}"
        )
        for each in chat.leanings
        if each.outcome == "favorable"
    }
    return shown | {
        "No answer": f"{count(chat.refused)} refusals, {count(chat.unreadable)} not readable",
        "Requests": (
            f"{count(chat.requests)}, {count(tokens)} tokens{cost}; {count(chat.stored)} answers"
            f" were stored; noise {percent(chat.varied / max(chat.probed, 1))}"
        ),
    }


def planned(document: TableRun) -> str:
    """Say what a dry run would send."""
    if document.chat is None:
        return "Nothing would be sent."
    usage = {name: getattr(document.chat, name) for name in ChatUsage.__struct_fields__}
    return ChatUsage(**usage).planned
