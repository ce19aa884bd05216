"""Texts: counterparts of sentences, how much more they change than same-group exchanges, and the
search for more of them.

>>> import fairprobe as fp
>>> audit = fp.language.audit("comments.csv", classify, "orientation", column="comment")
"""

from importlib import import_module
from typing import Any

from fairprobe.language.lexicon import LEXICONS, Lexicon, open_lexicon
from fairprobe.language.texts import Text, open_texts
from fairprobe.models.text import TextModel, TextNetwork, load_text_model

__all__ = [
    "LEXICONS",
    "Lexicon",
    "Text",
    "TextModel",
    "TextNetwork",
    "audit",
    "load_text_model",
    "open_lexicon",
    "open_texts",
]


def __getattr__(name: str) -> Any:
    """Import `audit` when it is used: it stands to the right of this room."""
    if name == "audit":
        return import_module("fairprobe.audits.text").audit_text
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
