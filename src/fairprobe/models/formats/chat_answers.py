"""Answers of a chat endpoint: read, and kept in SQLite so that no request is sent twice.

An answer is one of three outcomes: a class, a refusal, or a text from which no class can be read.
A class is read from a text that begins with one of its words, or in which the words of one class
only occur and nothing is negated; or from the probabilities of the first token.

The key of a stored answer is a digest of the address, the model, the messages, the parameters and
the number of the request. Questions are not written, only their digests; nor is the token, which is
in none of them. Every answer is committed when it arrives, so a kill loses only pending requests.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fairprobe.arrays import Floats
from fairprobe.errors import ModelError, StorageError
from fairprobe.models.formats.http import beginning

REFUSED, UNREADABLE = -1, -2  # outcomes that are no class
LEAST_MASS = 0.5  # of the first token's probability, on words of the labels
LONGEST = 2000  # characters of an answer that are kept
REFUSAL = re.compile(
    r"\b(i'?m sorry|i am sorry|i apologi[sz]e|as an ai|as a language model|i must decline"
    r"|i (won't|will not)"
    r"|(i|we) ?('m| am| are|'re)? ?(can't|cannot|can not|not able to|unable to) (help|assist|comply"
    r"|provide|make|answer|decide|give|determine|judge|evaluate|do|rate|assess|respond|fulfill)"
    r"|(not|in)appropriate (for me )?to)\b"
)
NEGATION = re.compile(r"\b(not|never|neither|cannot|can't|won't|don't|doesn't|shouldn't|isn't)\b")
SCHEMA = "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, reply BLOB NOT NULL)"
WAIT = 30.0  # seconds for another process that writes

QUOTES = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"'})


class Reply(msgspec.Struct, frozen=True):
    """Keep one answer: its text, whether it is marked as a refusal, the probabilities of
    its first token, the tokens it took, and which version of the model the server says it is.
    """

    text: str
    is_refusal: bool = False
    top: list[tuple[str, float]] | None = None
    sent: int | None = None
    received: int | None = None
    served: str = ""


def reply_of(answer: Any, what: str) -> Reply:
    """Read the reply in the JSON of a chat completion."""
    try:
        choice = answer["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
        is_refusal = bool(refusal) or choice.get("finish_reason") == "content_filter"
        text = str.encode(refusal or "" if content is None else content, errors="replace").decode()
        used = answer.get("usage") or {}
        served = f"{answer.get('model') or ''} {answer.get('system_fingerprint') or ''}".strip()
        return Reply(
            text[:LONGEST],
            is_refusal,
            _top(choice.get("logprobs")),
            _count(used.get("prompt_tokens")),
            _count(used.get("completion_tokens")),
            served[:200],
        )
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        said = answer.get("error") if isinstance(answer, dict) else None
        said = said.get("message", said) if isinstance(said, dict) else said
        shown = beginning(json.dumps(said if said is not None else answer).encode())
        raise ModelError(
            f"{what} answered {shown}; expected a chat completion with choices[0].message.content."
        ) from error


def _top(logprobs: Any) -> list[tuple[str, float]] | None:
    """Read the tokens that could have come first, and their log-probabilities."""
    if not logprobs or not logprobs.get("content"):
        return None
    pairs = [
        (str(entry["token"])[:100], float(entry["logprob"]))
        for entry in logprobs["content"][0]["top_logprobs"]
    ]
    if any(math.isnan(logprob) or logprob > 1e-3 for _, logprob in pairs):
        raise ValueError
    return pairs


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 2**40 else None


class Reader:
    """Reads classes from replies."""

    def __init__(self, words: Mapping[str, Sequence[str]]) -> None:
        self.classes = tuple(words)
        self._number = {
            word.casefold().strip(): number
            for number, label in enumerate(words)
            for word in words[label]
        }
        longest_first = sorted(self._number, key=len, reverse=True)
        either = "|".join(map(re.escape, longest_first))
        self._word = re.compile(rf"(?<!\w)({either})(?!\w)")

    def outcome(self, reply: Reply) -> int:
        """Return the number of the class, or `REFUSED` or `UNREADABLE`."""
        if reply.is_refusal:
            return REFUSED
        text = reply.text.translate(QUOTES).casefold()
        start = re.match(r"[\W_]*", text)
        first = self._word.match(text, start.end() if start else 0)
        if first:
            return self._number[first[1]]
        classes = {self._number[word] for word in self._word.findall(text)}
        if len(classes) == 1 and not NEGATION.search(text) and not REFUSAL.search(text):
            return classes.pop()
        return REFUSED if REFUSAL.search(text) else UNREADABLE

    def probabilities(self, reply: Reply) -> Floats:
        """Return (C,) the probability of each class. From log-probabilities where the reply has
        them: the mass of the tokens that can only begin a word of that class. What is missing to 1
        is on no class. Otherwise 1 for the class that was answered, or 0 for all.
        """
        p = np.zeros(len(self.classes))
        if reply.top is None or reply.is_refusal:
            if (number := self.outcome(reply)) >= 0:
                p[number] = 1.0
            return p
        for token, logprob in reply.top:
            begun = token.translate(QUOTES).casefold().strip(" \t\n\"'*_▁Ġ")
            classes = {
                number
                for word, number in self._number.items()
                if begun and (word.startswith(begun) or begun == word)
            }
            if len(classes) == 1:
                p[classes.pop()] += math.exp(min(logprob, 0.0))
        p /= max(p.sum(), 1.0)
        return p


def digest(address: str, request: dict[str, Any], messages: list[dict[str, str]]) -> bytes:
    """Return what identifies a question."""
    text = json.dumps([address, request, messages], sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


class Cache:
    """Answers by question and number of the ask; of one process, or of several at once."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, threading.Lock()
        with self._explained():
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not path.exists()
            self._rows = sqlite3.connect(
                path, timeout=WAIT, check_same_thread=False, isolation_level=None
            )
            weakref.finalize(self, self._rows.close)
            if is_new:
                path.chmod(0o600)
            self._rows.execute("PRAGMA journal_mode=WAL")
            self._rows.execute("PRAGMA synchronous=NORMAL")
            self._rows.execute(SCHEMA)

    def get(self, question: bytes, ask: int) -> Reply | None:
        """Return the stored answer to the request of this number."""
        with self._explained(), self._lock:
            row = self._rows.execute(
                "SELECT reply FROM answers WHERE key = ?", (self._key(question, ask),)
            ).fetchone()
            return None if row is None else msgspec.json.decode(row[0], type=Reply)

    def put(self, question: bytes, ask: int, reply: Reply) -> None:
        """Store an answer."""
        with self._explained(), self._lock:
            self._rows.execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?)",
                (self._key(question, ask), msgspec.json.encode(reply)),
            )

    def __len__(self) -> int:
        with self._explained(), self._lock:
            return int(self._rows.execute("SELECT COUNT(*) FROM answers").fetchone()[0])

    @staticmethod
    def _key(question: bytes, ask: int) -> bytes:
        return question + ask.to_bytes(4, "big")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, msgspec.DecodeError, OSError) as error:
            raise StorageError(
                f"The cache of answers {self.path} cannot be used: {error}. Name another file"
                " (`cache`), or remove this one."
            ) from error
