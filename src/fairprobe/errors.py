"""Everything fairprobe raises on purpose.

    FairprobeError
    ├── InputError        (also a ValueError) what was given cannot be worked with
    │   ├── DomainError   an attribute, a bound, a category, a row outside the domain
    │   ├── DataError     a table or its labels
    │   ├── ModelError    a network: its width, its outputs, its layers
    │   └── SettingError  an option, a budget, a name that does not exist
    └── StorageError      (also an OSError) a file or folder that cannot be read or written

Each message says what was expected, what came, and what to do. Anything else that escapes is a bug.
"""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from fairprobe.escapes import printable

__all__ = [
    "DataError",
    "DomainError",
    "FairprobeError",
    "GuessWarning",
    "InputError",
    "ModelError",
    "SettingError",
    "StorageError",
]

SHOWN = 30  # known names listed in a message

# What libraries raise at damaged or hostile files: archives, arrays, JSON nested too deep.
DAMAGED: tuple[type[Exception], ...] = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError),
    *(OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    *(RuntimeError, MemoryError, SyntaxError, SystemError),
)


class FairprobeError(Exception):
    """The root: catch this to catch everything that fairprobe raises on purpose.

    `findings` holds what a search had found when an error ended it.
    """

    findings: Any = None  # Findings, which this room must not know

    def __str__(self) -> str:
        """Return the message, in which names from files cannot give orders to a terminal."""
        return printable(super().__str__())


class InputError(FairprobeError, ValueError):
    """What was given cannot be worked with."""


class DomainError(InputError):
    """An attribute, a bound, a category, or a row outside the domain."""


class DataError(InputError):
    """A table or its labels."""


class ModelError(InputError):
    """A network: its width, its outputs, its layers."""


class SettingError(InputError):
    """An option, a budget, or a name that does not exist."""


class StorageError(FairprobeError, OSError):
    """A file or folder that cannot be read or written."""


class GuessWarning(UserWarning):
    """Something was guessed that an option would settle."""


def suggest(name: str, known: Iterable[str]) -> str:
    """End an error message about an unknown name: the nearest known one, then all of
    them.
    """
    names = list(known)
    near = get_close_matches(name, names, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{hint} Known: {', '.join(names[:SHOWN])}{more}."
