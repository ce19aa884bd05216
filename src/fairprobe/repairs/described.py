"""What all repairs have in common, those that train and those that stand around a model: they
describe themselves, and their settings are the fields of a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from fairprobe.errors import SettingError, suggest


@dataclass(frozen=True, kw_only=True)
class Described:
    """`variants` maps what can be joined to the name by a plus ("cfair+iifr") to a few words."""

    title: ClassVar[str] = ""
    about: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    variants: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def create(cls, name: str, **settings: Any) -> Self:
        """Create the repair of this name, which may end with a variant, with its own settings."""
        known = [each.name for each in fields(cls)]
        for setting in settings:
            if setting not in known:
                raise SettingError(
                    f"The repair '{name}' has no setting '{setting}'.{suggest(setting, known)}"
                )
        return cls(**settings)


def check_described(repair: object, kind: type[Described], *names: str) -> None:
    """Raise TypeError unless this is a class of repairs of this kind that says all of `names`."""
    if not (isinstance(repair, type) and issubclass(repair, kind)):
        raise TypeError(f"it must be a subclass of fairprobe.repairs.{kind.__name__}")
    for name in names:
        if not getattr(repair, name, ""):
            raise TypeError(f"it has no {name}")
