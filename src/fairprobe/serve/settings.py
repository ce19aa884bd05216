"""What the dashboard is started with."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from fairprobe.errors import SettingError, StorageError

PORT = 8742
UPLOAD = 200  # megabytes of a table, at most


@dataclass(frozen=True, kw_only=True)
class ServeSettings:
    """The folder of the runs, and where else the dashboard may read and write.

    `models` is the only folder from which models of the user's own are opened, and `endpoints` are
    the only servers that are asked, each for the run that is its key. `state` holds the queue and
    the uploads; it never lies below `runs`, because what lies there is data. `jobs` run at once.
    """

    runs: Path
    state: Path
    models: Path | None = None
    endpoints: Mapping[str, str] = field(default_factory=dict)
    jobs: int = 1
    most_upload: int = UPLOAD * 10**6
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    def __post_init__(self) -> None:
        for name in ("runs", "models"):
            folder: Path | None = getattr(self, name)
            if folder is None:
                continue
            if not folder.is_dir():
                raise StorageError(f"There is no folder {folder}. Name one that exists.")
            object.__setattr__(self, name, Path(os.path.realpath(folder)))
        if self.jobs < 1:
            raise SettingError(f"At least one job must be able to run; got --jobs {self.jobs}.")
        state = Path(os.path.realpath(self.state))
        if state == self.runs or self.runs in state.parents:
            raise SettingError(
                f"The queue cannot lie in {state}, below the runs: a run folder is data, and must"
                " not be able to start anything. Name another folder with --state."
            )
        object.__setattr__(self, "state", state)


def state_folder(runs: Path) -> Path:
    """Where the queue of a folder of runs lies by default: in the user's state folder."""
    name = f"serve-{sha256(os.fsencode(os.path.realpath(runs))).hexdigest()[:16]}"
    if chosen := os.environ.get("XDG_STATE_HOME"):
        return Path(chosen) / "fairprobe" / name
    try:
        return Path.home() / ".local" / "state" / "fairprobe" / name
    except RuntimeError as error:
        raise StorageError(
            "There is no home folder for the queue of jobs. Name a folder with --state."
        ) from error
