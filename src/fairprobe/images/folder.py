"""The run folder of an image audit: filled beside its place and moved there whole, so that it is
either complete or not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairprobe.errors import StorageError
from fairprobe.storage import StagedFolder

AUDIT, REPORT, FINDINGS = "audit.json", "report.html", "findings.npz"
KIND = "images"


@contextmanager
def new_run(folder: Path | str, *, overwrite: bool = False) -> Iterator[Path]:
    """A folder in the making, which takes its place when the block ends well. Whether it can be
    written is found out at once.
    """
    run = StagedFolder(
        folder, overwrite=overwrite, ours="image audit of fairprobe", is_ours=_is_run
    )
    try:
        yield run.staging
    except StorageError as error:
        run.remove()
        raise StorageError(f"{run.why(error)}.") from error
    except BaseException:
        run.remove()
        raise
    try:
        run.take_place()
    except OSError as error:
        raise StorageError(
            f"{run.why(error)}. Nothing is lost: the whole run is in {run.staging}."
        ) from error


def _is_run(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / AUDIT).read_text(encoding="utf-8"))["kind"] == KIND)
    except (OSError, ValueError, KeyError, TypeError):
        return False
