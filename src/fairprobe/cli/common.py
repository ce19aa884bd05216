"""What the commands share: the app, how errors and interrupts end a command, the progress bar."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn, cast

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from typer.core import TyperGroup

from fairprobe.cli.gone import gone_command, gone_option
from fairprobe.errors import FairprobeError
from fairprobe.escapes import printable, printable_json

if TYPE_CHECKING:
    from fairprobe.runs.kinds import RunDocument
    from fairprobe.runs.stages import OnStage

OK, OVER, BAD_INPUT, NOTHING_JUDGED, INTERRUPTED = 0, 1, 2, 3, 130


class SafeConsole(Console):
    """A terminal to which names from files cannot give orders: whatever is printed, in a sentence,
    a table or the progress bar, shows control characters as escapes.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text), style)


ORDER = (
    "audit audit-images audit-scenes audit-text audit-names insidebias repair certify verify check"
    " show serve list data"
)


class Commands(TyperGroup):
    """All commands. Wrong options are reported as everything else is."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands in the order of the help."""
        order = ORDER.split()
        return sorted(super().list_commands(ctx), key=lambda name: [*order, name].index(name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; print the replacement of one that went."""
        name = args[0] if ctx.parent is None else f"{ctx.info_name} {args[0]}"
        if args[0] not in self.commands and (now := gone_command(name)) is not None:
            end(BAD_INPUT, now)
        return super().resolve_command(ctx, args)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command. What the option parser refuses is shown on a safe console."""
        is_alone = options.pop("standalone_mode", True)
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except Exception as error:
            if not is_alone or not hasattr(error, "format_message"):
                raise
            if (now := gone_option(error)) is not None:
                say(now)
                sys.exit(BAD_INPUT)
            from typer import rich_utils

            setattr(rich_utils, "Console", SafeConsole)  # noqa: B010
            rich_utils.rich_format_error(cast("Any", error))
            sys.exit(BAD_INPUT)
        if is_alone:
            sys.exit(code or OK)
        return code

    def make_context(self, *given: Any, **more: Any) -> Any:
        """Return the words that were typed; an interrupt here comes before any command."""
        with report_errors():
            return super().make_context(*given, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. What it does not say of an interrupt itself is said here."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            errors.print("Interrupted; nothing was written.")
            raise typer.Exit(INTERRUPTED) from interrupt


app = typer.Typer(
    name="fairprobe",
    cls=Commands,
    help=(
        "Find the people a neural network treats unfairly, and the neurons that do it.\n\nStart"
        " with [bold]fairprobe audit adult --sensitive gender[/bold]: it trains a network on the"
        " packaged census data, audits it, and writes a report. Exit codes: 0 success, 1 a limit"
        " was exceeded, 2 bad input or a failed job, 3 nothing could be judged, 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
errors = SafeConsole(stderr=True)
output = SafeConsole()


class Interrupts:
    """Ctrl-C, or a request to terminate. During an audit it takes effect at the next step, when
    nothing can be lost; a third one exits immediately. Work that may be left anywhere (`is_first`)
    is left at once, and what then saves its results is not disturbed by a second one.
    """

    requests = 0
    is_raised = False
    is_deferred = False
    is_first = False

    @classmethod
    def request(cls, *_: Any) -> None:
        """Handle a signal."""
        cls.requests += 1
        if cls.is_first:
            cls.is_first, cls.is_raised = False, True
            raise KeyboardInterrupt
        if not cls.is_deferred or cls.requests >= 3:
            raise KeyboardInterrupt

    @classmethod
    def check(cls) -> None:
        """Raise a request that was deferred, once: what follows only saves what was found."""
        if cls.requests and not cls.is_raised:
            cls.is_raised = True
            raise KeyboardInterrupt


@contextmanager
def report_errors(interrupted: str = "nothing was written") -> Iterator[None]:
    """End a command with one sentence and exit code 2 at a user's mistake, and with 130 at an
    interrupt. Anything else is a bug and shows its traceback.
    """
    try:
        yield
    except FairprobeError as error:
        errors.print("[bold red]Error:[/bold red] ", end="")
        say(str(error))
        raise typer.Exit(BAD_INPUT) from error
    except (OSError, RuntimeError, UnicodeEncodeError) as error:
        if (reason := _about_path(error)) is None:
            raise
        say(f"Error: {reason}")
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        errors.print(f"Interrupted; {interrupted}.")
        raise typer.Exit(INTERRUPTED) from interrupt


def _about_path(error: Exception) -> str | None:
    """Say what is wrong with a path that no command checked; None for any other error."""
    if isinstance(error, UnicodeEncodeError):
        if not any("\ud800" <= letter <= "\udfff" for letter in error.object):
            return None
        return f"The name {error.object} is not UTF-8, and a library needs that. Rename it."
    if isinstance(error, RuntimeError) and "Symlink loop" in str(error):
        return f"{error}: a link that leads back to itself. Name the file or folder itself."
    if isinstance(error, OSError) and error.filename and not isinstance(error, BrokenPipeError):
        return f"Cannot use {error.filename}: {error.strerror}. Check the path."
    return None


@contextmanager
def progress(*, show: bool, at_once: bool = False) -> Iterator[OnStage]:
    """Show a progress bar on standard error, one line a stage: how far it is, the time that it has
    taken and about what is left. Interrupts take effect between steps, or the first one at once, if
    the work within can be left anywhere.
    """
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(12),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        # What a narrow terminal has no room for is cut here, and not from the times.
        TextColumn("{task.fields[note]}", table_column=Column(ratio=1, no_wrap=True)),
    )
    with Progress(*columns, console=errors, transient=True, disable=not show, expand=True) as bar:
        tasks: dict[str, Any] = {}
        watcher = Watcher()
        piped = Lines() if show and not errors.is_terminal else None
        Interrupts.is_deferred, Interrupts.is_first = True, at_once

        def on_stage(stage: str, done: int, total: int, note: str) -> None:
            Interrupts.check()
            watcher.see(stage, done, total, note)
            if piped is not None:
                piped.see(stage, done, total, note)
            if stage not in tasks:
                for task in tasks.values():
                    bar.update(task, completed=bar.tasks[task].total)
                tasks[stage] = bar.add_task(stage, total=total, note=note)
            bar.update(tasks[stage], completed=done, total=total, note=note)

        try:
            yield on_stage
        finally:
            Interrupts.is_deferred = Interrupts.is_first = False


class Lines:
    """Progress for a pipe or a log: a line when a stage has gone on for some seconds, and then
    every few seconds, with an estimate of the time left.
    """

    EVERY = 5.0  # seconds

    def __init__(self) -> None:
        self._stage, self._began, self._said = "", 0.0, 0.0

    def see(self, stage: str, done: int, total: int, note: str) -> None:
        """Take note of a step."""
        now = monotonic()
        if stage != self._stage:
            self._stage, self._began, self._said = stage, now, now
        if now < self._said + self.EVERY:
            return
        self._said, spent = now, now - self._began
        left = f", about {spent * (total - done) / done:.0f} s left" if 0 < done < total else ""
        share = f" {100 * done / total:.0f} %" if 0 < done <= total else ""
        detail = f" ({note})" if note else ""
        say(f"{stage}:{share} after {spent:.0f} s{left}{detail}")


class Watcher:
    """Writes progress to the file that FAIRPROBE_PROGRESS names, as JSON, a few times a second, for
    a program that waits for the command; and each stage as a line on standard error.
    """

    def __init__(self) -> None:
        self._path = os.environ.get("FAIRPROBE_PROGRESS", "")
        self._stage, self._began, self._last = "", 0.0, 0.0

    def see(self, stage: str, done: int, total: int, note: str) -> None:
        """Take note of a step."""
        now = monotonic()
        if not self._path or (stage == self._stage and now < self._last + 0.2 and done < total):
            return
        if stage != self._stage:
            say(stage)
            self._stage, self._began = stage, now
        self._last = now
        state = {"stage": stage, "done": done, "total": total, "note": note}
        beside = Path(f"{self._path}.new")
        with suppress(OSError):  # the work goes on without a witness
            text = json.dumps({**state, "seconds": now - self._began})
            beside.write_text(text, encoding="utf-8")
            beside.replace(self._path)


def print_run(document: RunDocument, folder: Path, *, as_json: bool, quiet: bool) -> None:
    """Print a run's result on standard output: JSON, a summary and where the report is, or nothing.
    What went wrong goes to standard error.
    """
    from fairprobe.documents.table import TableRun
    from fairprobe.results import encode

    if not isinstance(document, TableRun):
        for message in document.messages:
            say(message)
    for failure in getattr(document, "failures", ()):
        say(f"{failure.count} pictures without an answer: {failure.reason}")
    if as_json:
        write_json(encode(document).decode())
    elif not quiet:
        from fairprobe.report.terminal import terminal
        from fairprobe.runs.kinds import report_of

        output.print(terminal(report_of(document)), crop=False)
        output.print(
            f"Report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True
        )


def command_line() -> str:
    """Return the command as it was typed, for the run's document."""
    return printable(
        shlex.join(["fairprobe", *(word for word in sys.argv[1:] if word != "--resume")])
    )


def tell_unfinished(folder: Path, *, resume: bool) -> None:
    """Say what becomes of a run in this folder that did not finish."""
    from fairprobe.storage import is_unfinished

    if is_unfinished(folder):
        if not resume:
            say(
                f"An earlier run to {folder} did not finish. This one starts anew; --resume goes on"
                " with what was done."
            )
    elif resume:
        say(f"There is no unfinished run to {folder}; this one starts anew.")


def write(text: str) -> None:
    """Write Markdown to standard output."""
    sys.stdout.write(printable(text))


def write_json(text: str) -> None:
    """Write JSON to standard output."""
    sys.stdout.write(printable_json(text))


def say(text: str) -> None:
    """Print a line on standard error, as it is."""
    errors.print(text, markup=False, highlight=False, soft_wrap=True)


def end(code: int, why: str) -> NoReturn:
    """End with this exit code after saying why."""
    say(why)
    raise typer.Exit(code)
