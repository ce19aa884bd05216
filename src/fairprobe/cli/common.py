"""What the commands share: the app, kind errors, the progress bar, and how an interrupt is
taken.
"""

from __future__ import annotations

import json
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
        " packaged census data, audits it, and writes a report. Exit codes: 0 fine, 1 more findings"
        " than --fail-over allows, a policy not kept or a failed job, 2 bad input, 3 nothing could"
        " be judged, 130 interrupted."
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


class Stop:
    """Ctrl-C, or a request to terminate. During an audit it is a wish, granted at the next moment
    when nothing can be lost.

    Whoever wishes three times is let go at once.
    """

    asked = 0
    granted = False
    is_wish = False

    @classmethod
    def ask(cls, *_: Any) -> None:
        cls.asked += 1
        if not cls.is_wish or cls.asked >= 3:
            raise KeyboardInterrupt

    @classmethod
    def here(cls) -> None:
        """Stops here if that was wished."""
        if cls.asked and not cls.granted:
            cls.granted = True  # once is enough: what follows only puts away what was found
            raise KeyboardInterrupt


@contextmanager
def kindly() -> Iterator[None]:
    """A user's mistake becomes a sentence and exit code 2; anything else is a bug and shows
    itself.
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
    """A progress bar on standard error, one line a stage; between two steps, a wish to stop is
    granted.
    """
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
        Stop.is_wish = True

        def tell(stage: str, done: int, total: int, note: str) -> None:
            Stop.here()
            if stage not in tasks:
                for task in tasks.values():
                    bar.update(task, completed=bar.tasks[task].total)
                tasks[stage] = bar.add_task(stage, total=total, note=note)
            bar.update(tasks[stage], completed=done, total=total, note=note)

        try:
            yield tell
        finally:
            Stop.is_wish = False


def print_run(document: RunDocument, folder: Path, *, as_json: bool, quiet: bool) -> None:
    """Print a run's result on standard output: JSON, a summary and where the report is, or nothing.
    What went wrong goes to standard error.
    """
    from fairprobe.documents import TableDocument, to_dict
    from fairprobe.documents.scenes import ScenesDocument

    if not isinstance(document, TableDocument):
        for message in document.messages:
            say(message)
    if isinstance(document, ScenesDocument):
        for failure in document.failures:
            say(f"{failure.count} pictures without an answer: {failure.reason}")
    if as_json:
        sys.stdout.write(json.dumps(to_dict(document), indent=1) + "\n")
    elif not quiet:
        from fairprobe.present.terminal import summary

        output.print(summary(document), crop=False)
        output.print(
            f"Report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True
        )


def say(text: str) -> None:
    """A line on standard error, in the words it has."""
    errors.print(text, markup=False, highlight=False, soft_wrap=True)


def end(code: int, why: str) -> NoReturn:
    """Ends with this exit code after saying why."""
    say(why)
    raise typer.Exit(code)
