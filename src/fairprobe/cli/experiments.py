"""`fairprobe experiments` and `fairprobe experiment`: the papers' tables and figures, run again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fairprobe.cli.common import (
    BAD_INPUT,
    INTERRUPTED,
    AsJson,
    Quiet,
    app,
    end,
    errors,
    output,
    progress,
    report_errors,
    write_json,
)
from fairprobe.errors import SettingError


@app.command()
def experiments(as_json: AsJson = False) -> None:
    """List the experiments of the papers that can be run again."""
    with report_errors():
        from fairprobe.papers.catalogue import EXPERIMENTS
        from fairprobe.present.terminal import experiments_table

        entries = [
            {
                "name": one.name,
                "title": one.title,
                "about": one.about,
                "quick": one.quick,
                "options": dict(one.options),
            }
            for one in EXPERIMENTS.values()
        ]
        if as_json:
            write_json(json.dumps(entries, indent=1) + "\n")
        else:
            output.print(experiments_table(entries))


@app.command()
def experiment(
    name: Annotated[
        str,
        typer.Argument(
            help="An experiment, as 'fairprobe experiments' lists them: neuronfair-table4."
        ),
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
            help="For DistroFair's tables: a run of 'fairprobe scenes'; may be given several times."
            " NAME=FOLDER names its data set."
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
            " 11; 'fairprobe experiments' lists all. May be given several times.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of a paper again, and put our numbers beside the paper's: a table as
    Markdown, CSV, HTML and JSON.

    Finished jobs are kept: after an interruption, run the same command again to continue. To use a
    cluster, start Ray with 'ray start --head' and give its address.

    Examples:

      fairprobe experiment neuronfair-table4

      fairprobe experiment neuronfair-table4 --scale full --workers 2 --out results

      fairprobe experiment distrofair-table6 --run camvid=runs/street --out results

      fairprobe experiment neuronfair-table10 --scale full --set faces=CelebA --set others=imagenet
      --set trunk=vgg16 --set size=64
    """
    with report_errors():
        from os import cpu_count

        from fairprobe.papers import catalogue
        from fairprobe.search.settings import parsed

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
                    workers=(cpu_count() or 1) if workers is None else workers,
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
            errors.print(f"Failed: {job}: {why}", markup=False, highlight=False, soft_wrap=True)
        if not quiet:
            for path in done.paths:
                output.print(f"Wrote {path}", highlight=False, soft_wrap=True)
        if done.failures:
            end(
                BAD_INPUT,
                f"{len(done.failures)} of {done.jobs} jobs failed; their errors are in"
                f" {out / 'jobs'}. Run again to repeat only those.",
            )
