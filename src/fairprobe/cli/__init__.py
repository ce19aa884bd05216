"""The command line: parse, call `run`, show. Nothing heavy is imported before a command needs
it.
"""

from __future__ import annotations

import signal
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from fairprobe.cli import (  # noqa: F401  (each adds its commands to the app)
    audit,
    audit_images,
    card,
    check,
    data,
    experiments,
    insidebias,
    repair,
    scenes,
)
from fairprobe.cli.common import OK, Stop, app

__all__ = ["app", "main"]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Answers to `--version`."""
    if version:
        from fairprobe import __version__

        sys.stdout.write(f"{__version__}\n")
        raise typer.Exit(OK)


def main() -> None:
    """The entry point."""
    signal.signal(signal.SIGINT, Stop.ask)
    signal.signal(signal.SIGTERM, Stop.ask)
    for stream in (
        sys.stdout,
        sys.stderr,
    ):  # a terminal that knows few characters shows a question mark for the others
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()
