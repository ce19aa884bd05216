"""`Policy`: which numbers a run must reach, and what to do when its intervals do not tell."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from fairprobe.errors import SettingError, suggest
from fairprobe.gate.measures import MEASURES

Uncertain: TypeAlias = Literal["fail", "pass", "more"]
MOST_SAMPLES = 2_000_000
RUN = "run"  # the key of [baseline] that is no measure


@dataclass(frozen=True)
class Policy:
    """Limits by measure, as in the TOML file.

    `uncertain` is what an interval on both sides of its limit means: a fail, a pass, or to draw
    `more` possible people until it is decided, up to `most_samples`. `baseline` names an earlier
    run and by how much each measure may be worse than there. `path` is the file that it was read
    from.
    """

    limits: Mapping[str, float] = field(default_factory=dict)
    uncertain: Uncertain = "fail"
    most_samples: int = MOST_SAMPLES
    baseline: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        where = f"{self.path}: " if self.path else "Policy: "
        for section in ("limits", "baseline"):
            if not isinstance(given := getattr(self, section), Mapping):
                raise SettingError(
                    f"{where}{section} must be a table of measures and numbers; it is {given!r}."
                )
            object.__setattr__(self, section, dict(given))
        if self.uncertain not in get_args(Uncertain):
            raise SettingError(
                f"{where}uncertain must be 'fail', 'pass' or 'more'; it is {self.uncertain!r}."
            )
        if type(self.most_samples) is not int or self.most_samples < 1:
            raise SettingError(
                f"{where}most_samples must be a whole number of at least 1; it is"
                f" {self.most_samples!r}."
            )
        if not isinstance(self.baseline.get(RUN, ""), str | Path):
            raise SettingError(
                f"{where}baseline.{RUN} must be the folder of a run; it is {self.baseline[RUN]!r}."
            )
        _check_numbers(self.limits, f"{where}limits", MEASURES)
        _check_numbers(self.margins, f"{where}baseline", (*MEASURES, RUN))
        object.__setattr__(self, "limits", _plain(self.limits))
        object.__setattr__(self, "baseline", _plain(self.baseline))
        if not self.limits and not self.margins:
            raise SettingError(
                f"{where}limits must name at least one measure, for instance dm_rs = 0.01; a policy"
                " without any passes everything."
            )

    @property
    def margins(self) -> dict[str, float]:
        """By how much each measure may be worse than in the baseline."""
        return {name: margin for name, margin in self.baseline.items() if name != RUN}

    @property
    def baseline_run(self) -> Path | None:
        """The folder of the baseline; a relative one starts at the policy's file."""
        if RUN not in self.baseline:
            return None
        return (self.path.parent if self.path else Path()) / str(self.baseline[RUN])


def read_policy(path: Path | str) -> Policy:
    """The policy of a TOML file."""
    place = Path(path)
    try:
        body = tomllib.loads(place.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        raise SettingError(
            f"There is no policy {place}. Write one with, for instance, the lines [limits] and"
            " dm_rs = 0.01."
        ) from error
    except OSError as error:
        raise SettingError(f"The policy {place} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # TOML that is none, or no text at all
        raise SettingError(f"The policy {place} is no TOML: {error}.") from error
    known = [each.name for each in fields(Policy) if each.name != "path"]
    for key in body:
        if key in MEASURES:
            raise SettingError(
                f"{place}: {key} stands outside of a section. Put it below the line [limits]."
            )
        if key not in known:
            raise SettingError(f"{place}: there is no setting '{key}'.{suggest(key, known)}")
    return Policy(**body, path=place)


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    """NumPy's numbers as Python's, which can be written anywhere."""
    return {
        name: (
            value
            if not isinstance(value, Real)
            else int(value)
            if isinstance(value, Integral)
            else float(value)
        )
        for name, value in given.items()
    }


def _check_numbers(given: Mapping[str, Any], where: str, known: Iterable[str]) -> None:
    for name, value in given.items():
        if name not in MEASURES:
            raise SettingError(f"{where} knows no measure '{name}'.{suggest(str(name), known)}")
        is_count = MEASURES[name].unit == "count"
        is_number = isinstance(value, Integral if is_count else Real) and not isinstance(
            value, bool
        )
        if not is_number or not value >= 0 or (value > 1 and not is_count):
            wanted = (
                "a whole number of at least 0" if is_count else "a number from 0 to 1 (1 % is 0.01)"
            )
            raise SettingError(f"{where}.{name} must be {wanted}; it is {value!r}.")
