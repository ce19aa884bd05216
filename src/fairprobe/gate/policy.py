"""`Policy`: which numbers a run must reach, and what to do when its intervals do not tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import msgspec

from fairprobe.catalogue import MEASURES
from fairprobe.documents.files import read_toml
from fairprobe.documents.policy import PolicyDocument, Uncertain
from fairprobe.errors import SettingError, StorageError, suggest

__all__ = ["Policy", "Uncertain", "read_policy"]

RUN = "run"  # the key of [baseline] that is not a measure
EXPECTED = {
    "limits": "a table of measures and numbers",
    "uncertain": "'fail', 'pass' or 'more'",
    "most_samples": "a whole number of at least 1",
    "baseline": "a table of measures and numbers",
}


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
    most_samples: int = 2_000_000
    baseline: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        where = f"{self.path}: " if self.path else "Policy: "
        valid = _validated({name: getattr(self, name) for name in EXPECTED}, where)
        object.__setattr__(self, "limits", valid.limits)
        object.__setattr__(self, "baseline", valid.baseline)
        if not isinstance(self.baseline.get(RUN, ""), str):
            raise SettingError(
                f"{where}baseline.{RUN} must be the folder of a run; it is {self.baseline[RUN]!r}."
            )
        _check_numbers(self.limits, f"{where}limits", MEASURES)
        _check_numbers(self.margins, f"{where}baseline", (*MEASURES, RUN))
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
    """Read and validate the policy of a TOML file."""
    place = Path(path)
    try:
        body = read_toml(place)
    except FileNotFoundError as error:
        raise SettingError(
            f"There is no policy {place}. Write one with, for instance, the lines [limits] and"
            " dm_rs = 0.01."
        ) from error
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise SettingError(f"The policy {place} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        why = str(error).partition("\n")[0]
        raise SettingError(f"The policy {place} is not valid TOML: {why}.") from error
    for key in body:
        if key in MEASURES:
            raise SettingError(
                f"{place}: {key} is outside of a section. Put it below the line [limits]."
            )
        if key not in EXPECTED:
            raise SettingError(f"{place}: there is no setting '{key}'.{suggest(key, EXPECTED)}")
    return Policy(**body, path=place)


def _validated(given: dict[str, Any], where: str) -> PolicyDocument:
    """Convert settings to Python's own numbers; name the wrong ones."""
    try:
        return msgspec.convert(_plain(given), PolicyDocument)
    except msgspec.ValidationError as error:
        key = re.findall(r"\$\.(\w+)", str(error))[0]
        raise SettingError(f"{where}{key} must be {EXPECTED[key]}; it is {given[key]!r}.") from None


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and paths as texts, which can be written anywhere."""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, Path):
        return str(value)
    if not isinstance(value, Real) or isinstance(value, bool):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _check_numbers(given: Mapping[str, Any], where: str, known: Iterable[str]) -> None:
    for name, value in given.items():
        if name not in MEASURES:
            raise SettingError(f"{where} knows no measure '{name}'.{suggest(name, known)}")
        measure = MEASURES[name]
        is_count = measure.unit == "count"
        is_number = isinstance(value, int if is_count else (int, float))
        is_allowed = is_number and value >= 0 and (is_count or value <= measure.largest)
        if isinstance(value, bool) or not is_allowed:
            wanted = (
                "a whole number of at least 0"
                if is_count
                else "a number from 0 to 1 (1 % is 0.01)"
                if measure.largest == 1
                else f"a number from 0 to {measure.largest:g}"
            )
            raise SettingError(f"{where}.{name} must be {wanted}; it is {value!r}.")
