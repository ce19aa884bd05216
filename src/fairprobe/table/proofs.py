"""Section about the answers of a chat endpoint."""

from __future__ import annotations

from fairprobe.documents.chat import ChatDocument
from fairprobe.present import chat_sentences, table
from fairprobe.report import Cell, Section, Table


def chat_section(chat: ChatDocument) -> Section:
    """Show whether the answers of a chat endpoint lean to one sensitive value."""
    return Section(
        "How the answers lean",
        [converted(chat_sentences.leanings_table(chat))] if chat.leanings else [],
        anchor="leaning",
    )


def converted(old: table.Table | None, *, folded: bool = False) -> Table | None:
    """Convert a table of sentences' modules."""
    if old is None:
        return None
    rows = [
        [
            Cell(cell.text, cell.small, cell.remark, "" if cell.kind == "words" else cell.kind)
            for cell in row
        ]
        for row in old.cells
    ]
    return Table(old.head, rows, old.title, old.words, folded)
