"""Texts: counterparts of sentences, how much more they change than same-group exchanges, and the
search for more of them; résumés under different names.

>>> import fairprobe as fp
>>> audit = fp.audit_text("comments.csv", classify, "orientation", column="comment")
"""

from fairprobe.language.lexicon import LEXICONS, Lexicon, open_lexicon
from fairprobe.language.texts import Text, open_texts
from fairprobe.models.text import TextModel, TextNetwork, load_text_model

__all__ = [
    "LEXICONS",
    "Lexicon",
    "Text",
    "TextModel",
    "TextNetwork",
    "load_text_model",
    "open_lexicon",
    "open_texts",
]
