"""`fairprobe clean`: remove what killed processes left behind."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairprobe.cli.common import app, output, report_errors
from fairprobe.errors import StorageError

if TYPE_CHECKING:
    from fairprobe.locks import Leftover

UNITS = ("bytes", "kB", "MB", "GB")


@app.command()
def clean(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(help="Where to look, folders below included.", show_default="runs"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be removed, and remove nothing.")
    ] = False,
    keep_checkpoints: Annotated[
        bool,
        typer.Option(
            "--keep-checkpoints", help="Keep what a killed audit can be continued from (--resume)."
        ),
    ] = False,
) -> None:
    """Remove what killed fairprobe processes left in folders, and among the temporary files.

    The next audit removes leftovers beside its run by itself; this command does it without one, and
    also where nobody runs an audit any more. It removes hidden folders of unfinished runs, half
    written files and temporary folders. It never removes a run, a file of yours, or anything that a
    running process uses.

    Examples:

      fairprobe clean --dry-run

      fairprobe clean runs experiments
    """
    with report_errors():
        found = {left.path: left for place in _places(folders) for left in place}
        kept = [left for left in found.values() if keep_checkpoints and left.is_resumable]
        doomed = [left for left in found.values() if left not in kept]
        for left in kept:
            _print(f"kept: {_line(left)}")
        if dry_run:
            for left in doomed:
                _print(f"would remove: {_line(left)}")
            _print(f"{_total(doomed)} can be removed." if doomed else "Nothing to remove.")
            return
        stayed = [left for left in doomed if not _removed(left)]
        gone = [left for left in doomed if left not in stayed]
        _print(f"Removed {_total(gone)}." if gone else "Nothing to remove.")
        if stayed:
            names = ", ".join(str(left.path) for left in stayed)
            raise StorageError(
                f"{_total(stayed)} could not be removed: {names}."
                " Check the rights of the folders, or remove them by hand."
            )


def _places(folders: list[Path] | None) -> list[list[Leftover]]:
    from fairprobe.locks import leftovers

    for folder in folders or []:
        if not folder.is_dir():
            raise StorageError(f"There is no folder {folder}. Name folders that hold runs.")
    temporary = Path(tempfile.gettempdir())
    return [
        *(leftovers(folder) for folder in folders or [Path("runs")]),
        leftovers(temporary, below=False),
    ]


def _print(line: str) -> None:
    output.print(line, markup=False, highlight=False, soft_wrap=True)


def _removed(left: Leftover) -> bool:
    if left.remove():
        _print(f"removed: {_line(left)}")
        return True
    return False


def _line(left: Leftover) -> str:
    note = ", can be continued with --resume" if left.is_resumable else ""
    return f"{left.path} ({_size(left.size)}{note})"


def _total(some: list[Leftover]) -> str:
    what = "1 leftover" if len(some) == 1 else f"{len(some):,} leftovers"
    return f"{what}, {_size(sum(left.size for left in some))}"


def _size(count: int) -> str:
    """A number of bytes as people write it."""
    number, unit = float(count), 0
    while number >= 999.5 and unit < len(UNITS) - 1:
        number, unit = number / 1000, unit + 1
    digits = 1 if unit and number < 99.95 else 0
    return f"{number:.{digits}f} {UNITS[unit]}"
