"""What the commands share: the app, how errors and interrupts end a command, the progress bar."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from fairprobe.errors import FairprobeError

if TYPE_CHECKING:
    from fairprobe.audits.base import OnStage
    from fairprobe.documents import RunDocument

OK, OVER, BAD_INPUT, NOTHING_JUDGED, INTERRUPTED = 0, 1, 2, 3, 130

app = typer.Typer(
    name="fairprobe",
    help=(
        "Find the people a neural network treats unfairly, and the neurons that do it.\n\nStart"
        " with [bold]fairprobe audit adult --sensitive gender[/bold]: it trains a network on the"
        " packaged census data, audits it, and writes a report. Exit codes: 0 success, 1 a limit"
        " was exceeded or a job failed, 2 bad input, 3 nothing could be judged, 130 interrupted."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
errors = Console(stderr=True)
output = Console()

AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, for machines, and nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")]


class Interrupts:
    """Ctrl-C, or a request to terminate. During an audit it takes effect at the next step, when
    nothing can be lost; a third one exits immediately.
    """

    requests = 0
    is_raised = False
    is_deferred = False

    @classmethod
    def request(cls, *_: Any) -> None:
        """Handle a signal."""
        cls.requests += 1
        if not cls.is_deferred or cls.requests >= 3:
            raise KeyboardInterrupt

    @classmethod
    def check(cls) -> None:
        """Raise a request that was deferred, once: what follows only saves what was found."""
        if cls.requests and not cls.is_raised:
            cls.is_raised = True
            raise KeyboardInterrupt


@contextmanager
def report_errors() -> Iterator[None]:
    """End a command with one sentence and exit code 2 at a user's mistake, and with 130 at an
    interrupt. Anything else is a bug and shows its traceback.
    """
    try:
        yield
    except FairprobeError as error:
        errors.print("[bold red]Error:[/bold red] ", end="")
        say(str(error))
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        errors.print("Interrupted; nothing was written.")
        raise typer.Exit(INTERRUPTED) from interrupt


@contextmanager
def progress(*, show: bool) -> Iterator[OnStage]:
    """A progress bar on standard error, one line a stage. Interrupts take effect between steps."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description:<32}"),
        BarColumn(),
        TextColumn("{task.fields[note]:<36}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=errors, transient=True, disable=not show) as bar:
        tasks: dict[str, Any] = {}
        Interrupts.is_deferred = True

        def on_stage(stage: str, done: int, total: int, note: str) -> None:
            Interrupts.check()
            if stage not in tasks:
                for task in tasks.values():
                    bar.update(task, completed=bar.tasks[task].total)
                tasks[stage] = bar.add_task(stage, total=total, note=note)
            bar.update(tasks[stage], completed=done, total=total, note=note)

        try:
            yield on_stage
        finally:
            Interrupts.is_deferred = False


def print_run(document: RunDocument, folder: Path, *, as_json: bool, quiet: bool) -> None:
    """Print a run's result on standard output: JSON, a summary and where the report is, or nothing.
    What went wrong goes to standard error.
    """
    from fairprobe.documents import TableDocument, encode
    from fairprobe.documents.scenes import ScenesDocument

    if not isinstance(document, TableDocument):
        for message in document.messages:
            say(message)
    if isinstance(document, ScenesDocument):
        for failure in document.failures:
            say(f"{failure.count} pictures without an answer: {failure.reason}")
    if as_json:
        sys.stdout.buffer.write(encode(document))
    elif not quiet:
        from fairprobe.present.terminal import summary

        output.print(summary(document), crop=False)
        output.print(
            f"Report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True
        )


def command_line() -> str:
    """The command as it was typed, for the run's document."""
    return shlex.join(["fairprobe", *sys.argv[1:]])


def say(text: str) -> None:
    """Print a line on standard error, as it is."""
    errors.print(text, markup=False, highlight=False, soft_wrap=True)


def end(code: int, why: str) -> NoReturn:
    """End with this exit code after saying why."""
    say(why)
    raise typer.Exit(code)
