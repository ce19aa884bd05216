"""The command line: parse options, call the library, show results. Nothing heavy is imported before
a command needs it.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from io import TextIOWrapper
from threading import Timer
from traceback import format_exception
from types import TracebackType
from typing import Annotated, Any

import typer

from fairprobe.catalogue import PluginWarning
from fairprobe.cli import (  # noqa: F401  (each adds its commands to the app, in this order)
    audit,
    audit_images,
    audit_names,
    audit_scenes,
    audit_text,
    certify,
    check,
    data,
    insidebias,
    repair,
    serve,
    show,
)
from fairprobe.cli.common import BAD_INPUT, INTERRUPTED, OK, Interrupts, app, say
from fairprobe.errors import GuessWarning
from fairprobe.escapes import printable

__all__ = ["app", "main"]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Print the version."""
    if version:
        from fairprobe import __version__

        sys.stdout.write(f"{__version__}\n")
        raise typer.Exit(OK)


def main() -> None:
    """Parse the command line and run a command."""
    signal.signal(signal.SIGINT, Interrupts.request)
    signal.signal(signal.SIGTERM, Interrupts.request)
    # A terminal with few characters shows a question mark for the others.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = _show_warning
    sys.excepthook = _show_bug
    sys.unraisablehook = _raise_again
    try:
        app()
    except KeyboardInterrupt:  # before a command began
        say("Interrupted; nothing was written.")
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001
        if Interrupts.requests and isinstance(error, ImportError | SystemError):
            say("Interrupted; nothing was written.")  # an import was cut off
            sys.exit(INTERRUPTED)
        # A bug. Python's own exit code 1 would tell a build that a limit was exceeded.
        _show_bug(type(error), error, error.__traceback__)
        sys.exit(BAD_INPUT)


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **_: Any) -> None:
    """Print a warning that is meant for users as one sentence, and others as Python does."""
    if issubclass(category, PluginWarning | GuessWarning):
        say(str(message))
    else:
        sys.stderr.write(printable(warnings.formatwarning(message, category, *where[:2])))


def _raise_again(lost: sys.UnraisableHookArgs) -> None:
    """Python drops what is raised while it tidies up, an interrupt too: that one comes again."""
    if lost.exc_type is KeyboardInterrupt:
        Interrupts.is_raised = False
        Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)


def _show_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print what nobody expected, as Python does, but safe for a terminal."""
    sys.stderr.write(printable("".join(format_exception(kind, error, trace))))
