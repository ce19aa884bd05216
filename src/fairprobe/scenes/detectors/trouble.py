"""What keeps a recogniser from answering, and whether waiting may help."""

from __future__ import annotations

from fairprobe.errors import ModelError


class TryAgainError(ModelError):
    """It did not answer now and may later; `after` is how many seconds it asks to wait."""

    def __init__(self, told: str, after: float = 0.0) -> None:
        super().__init__(told)
        self.after = after
