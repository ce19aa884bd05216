"""A chat endpoint as a model of the rows of a table, and as a model of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import SettingError
from fairprobe.models.formats.base import Format, Opened
from fairprobe.models.formats.chat import Chat, open_chat
from fairprobe.models.formats.chat_prompt import ROW, TEXT
from fairprobe.models.text import TextModel

NO_ANSWER = "no answer"  # the name of the outcome that is no class


class ChatRows:
    """A chat endpoint as a model of rows: a callable from a DataFrame to probabilities."""

    def __init__(self, chat: Chat) -> None:
        self.chat, self.classes = chat, chat.classes

    def __call__(self, frame: pd.DataFrame) -> Rows:
        if not len(frame):
            return np.empty((0, len(self.classes)), dtype=np.float32)
        return self.chat.labels(_people(frame)).astype(np.float32)

    def settle(self, frame: pd.DataFrame) -> None:
        """Ask again about people whose labels differ."""
        self.chat.settle(_people(frame))

    def shares(self, frame: pd.DataFrame) -> Floats:
        """How often each class was answered, and last how often none was."""
        return self.chat.shares(_people(frame))


def open_chat_rows(address: str, **settings: Any) -> Opened:
    """A chat endpoint as a black box for the rows of a table."""
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
    """A chat endpoint as a model of texts: what stands for {text} in the prompt. No answer is an
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
    """A chat endpoint as a model of texts."""
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


def _people(frame: pd.DataFrame) -> list[dict[str, Any]]:
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(name): row[name] for name in row} for row in plain.to_dict("records")]
