"""The answers of a chat endpoint, kept in SQLite so that none is asked for twice.

The key is a digest of the address, the model, the messages, the parameters and the number of the
ask. Questions are not written, only their digests; nor is the token, which is in none of them.
Every answer is committed when it arrives: what a kill ends is at most what was under way.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from fairprobe.errors import StorageError
from fairprobe.models.formats.chat_answers import Reply

SCHEMA = "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, reply BLOB NOT NULL)"
WAIT = 30.0  # seconds for another process that writes


def digest(address: str, request: dict[str, Any], messages: list[dict[str, str]]) -> bytes:
    """What identifies a question."""
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
        """The stored answer to the ask of this number."""
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
                " (--cache), or remove this one."
            ) from error
