"""`fairprobe audit` and `fairprobe show`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.cli.common import INTERRUPTED, OVER, AsJson, Quiet, app, end, kindly, print_run, progress
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.search import Method

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
    with kindly():
        limit = _limit(fail_over)
        names = [name.strip() for name in sensitive.split(",") if name.strip()]
        folder = out or Path("runs") / "-".join([dataset, *names])
        from fairprobe import datasets, run, search

        budget = search.Budget(
            seeds=seeds, global_iterations=global_iterations, local_iterations=local_iterations, seconds=seconds, wanted=wanted
        )
        searching = _method(method, variant, error)
        data = datasets.load(dataset, **({"coding": coding} if coding else {})).with_sensitive(names)
        with run.RunFolder(folder, overwrite=overwrite) as staged, progress(show=not (quiet or as_json)) as tell:
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
        print_run(body, folder, as_json=as_json, quiet=quiet)
        if body["generation"]["stopped"] == "interrupted":
            end(INTERRUPTED, f"Interrupted: kept all {body['generation']['idis']:,} findings until then in {folder}.")
        if limit is not None and limit(body):
            end(OVER, f"More than --fail-over {fail_over} allows.")


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="A run folder, as written by 'fairprobe audit'.")],
    as_json: AsJson = False,
) -> None:
    """Show the summary of an earlier run again."""
    with kindly():
        from fairprobe.run.folder import read_document

        print_run(read_document(folder), folder, as_json=as_json, quiet=False)


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
