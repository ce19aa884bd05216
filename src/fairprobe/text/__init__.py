"""Texts: counterparts of sentences, what they change beside same-group exchanges, the search for
more of them, and the repair of text networks.

>>> import fairprobe as fp
>>> audit = fp.text.audit("comments.csv", classify, "orientation", column="comment")
"""

from importlib import import_module
from typing import Any

from fairprobe.models.text import TextModel, TextNetwork, load_text_model
from fairprobe.text.lexicon import LEXICONS, Lexicon, open_lexicon
from fairprobe.text.texts import Text, open_texts

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
    "repair",
]


def __getattr__(name: str) -> Any:
    """`audit` and `repair` are orchestrations, which stand to the right of this room."""
    if name == "audit":
        return import_module("fairprobe.audits.text").audit_text
    if name == "repair":
        return import_module("fairprobe.audits.text_repair").repair_text
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
