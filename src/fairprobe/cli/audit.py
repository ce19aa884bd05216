"""`fairprobe audit` and `fairprobe show`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairprobe.catalogue import METHODS
from fairprobe.cli.audit_options import AuditOptions, make_run
from fairprobe.cli.common import (
    INTERRUPTED,
    OVER,
    AsJson,
    Quiet,
    Resume,
    app,
    end,
    print_run,
    report_errors,
)
from fairprobe.cli.decision import Costs, DecisionThreshold
from fairprobe.cli.inputs import (
    BlindTo,
    ClassesOption,
    Coding,
    DomainFile,
    Drop,
    EncoderOption,
    Favourable,
    Form,
    Given,
    InputsOption,
    Keep,
    Label,
    ModelOptions,
    OutputsOption,
    PerSecond,
    SampleWeights,
    Sensitive,
    TableOptions,
    Timeout,
    Weights,
    picked,
)
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.documents import TableDocument

Network = Annotated[
    str,
    typer.Option(
        help="The network to train: lfcn, hfcn, or auto (the paper's choice for data this wide)."
    ),
]
FailOver = Annotated[
    str | None,
    typer.Option(
        help="Exit with 1 above this: '1000' findings, or '2%' of possible people.", metavar="N|P%"
    ),
]

Counterparts = Annotated[
    str,
    typer.Option(
        help=(
            "Whom people are compared with: twins (what the schema couples to a sensitive attribute"
            " changes along: a husband with a wife) or bare (nothing else changes, as in the"
            " papers). Possible people are always compared bare."
        )
    ),
]

# Names need no imports; the descriptions do, and `--help` must not wait for them.
METHOD = f"How to search: {', '.join(METHODS)}; auto is probe. 'fairprobe methods' explains them."
PEOPLE = (
    "Whom the search looks among: plausible people, who are made from the people in the data, or"
    " all possible people, as in the papers."
)
VARIANT = "The method's variant; 'fairprobe methods' lists them."
OWN = "the method's own"
DATA = (
    "A packaged data set (adult, german, bank, compas, meps; see 'fairprobe datasets'), or your own"
    " table: a CSV or Parquet file."
)


@app.command()
def audit(
    dataset: Annotated[str, typer.Argument(help=DATA)],
    sensitive: Sensitive,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder to write.", show_default="runs/DATASET-SENSITIVE"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")
    ] = False,
    network: Network = "auto",
    model: Given = None,
    coding: Coding = None,
    label: Label = None,
    favourable: Favourable = None,
    drop: Drop = "",
    keep: Keep = "",
    sample_weights: SampleWeights = None,
    domain: DomainFile = None,
    encoder: EncoderOption = None,
    inputs: InputsOption = "auto",
    outputs: OutputsOption = "auto",
    weights: Weights = None,
    blind_to: BlindTo = "",
    classes: ClassesOption = "",
    form: Form = None,
    timeout: Timeout = None,
    per_second: PerSecond = None,
    decision_threshold: DecisionThreshold = None,
    costs: Costs = None,
    people: Annotated[str, typer.Option(help=PEOPLE)] = "plausible",
    method: Annotated[str, typer.Option(help=METHOD)] = "auto",
    variant: Annotated[
        str | None, typer.Option(help=VARIANT, show_default="the method's first")
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(help="Themis only: the precision of its score.", show_default="0.002"),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            help="How many rows the search starts from. Themis draws its own people and ignores it."
        ),
    ] = 1000,
    global_iterations: Annotated[
        int | None,
        typer.Option(help="Steps of each seed towards a first finding.", show_default=OWN),
    ] = None,
    local_iterations: Annotated[
        int | None, typer.Option(help="Steps around each first finding.", show_default=OWN)
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop the search after this many seconds.")
    ] = None,
    cpu_seconds: Annotated[
        float | None,
        typer.Option(help="Stop the search after this many seconds of computing (CPU time)."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="Stop the search after this many people judged, repetitions included."),
    ] = None,
    wanted: Annotated[
        int | None, typer.Option(help="Stop the search after this many different findings.")
    ] = None,
    counterparts: Counterparts = "twins",
    outside: Annotated[
        str,
        typer.Option(
            help="Rows outside the domain: clip them where the search starts, or refuse the data."
        ),
    ] = "clip",
    samples: Annotated[
        int, typer.Option(help="Possible people drawn to measure how common discrimination is.")
    ] = 50_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    show_records: Annotated[
        bool,
        typer.Option(
            "--show-records",
            help="Let the report show people in the data as pairs. Off, because a report travels.",
        ),
    ] = False,
    workers: Annotated[
        int, typer.Option(help="Search in this many processes; the findings are the same.")
    ] = 1,
    cluster: Annotated[
        str | None,
        typer.Option(help="Search on the Ray cluster at this address.", metavar="HOST:PORT"),
    ] = None,
    resume: Resume = False,
    fail_over: FailOver = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Audit a model, your own or one that is trained here, on a data set or your own table, and
    write a run folder with the report.

    Examples:

      fairprobe audit adult --sensitive gender

      fairprobe audit german --sensitive gender,age --out runs/german --seed 7

      fairprobe audit bank --sensitive age --seconds 10 --fail-over 5%

      fairprobe audit german --sensitive gender --method themis --error 0.01

      fairprobe audit my.csv --label income --sensitive sex,race

      fairprobe audit my.csv --label income --sensitive sex --model my.onnx --encoder prepare.skops
    """
    given = dict(locals())
    with report_errors():
        limit = _limit(fail_over)
        table = picked(TableOptions, given)
        folder = out or Path("runs") / table.title
        document = make_run(
            table,
            picked(ModelOptions, given),
            folder,
            picked(AuditOptions, given),
            overwrite=overwrite,
            show=not (quiet or as_json),
        )
        print_run(document, folder, as_json=as_json, quiet=quiet)
        found = document.generation
        if found.stopped == "interrupted":
            kind = "findings" if found.refuted is None else "findings that were confirmed"
            end(
                INTERRUPTED,
                f"Interrupted: kept all {found.idis:,} {kind} until then in {folder}.",
            )
        if limit is not None and limit(document):
            end(OVER, f"More than --fail-over {fail_over} allows.")


@app.command()
def show(
    folder: Annotated[
        Path,
        typer.Argument(
            help=(
                "A run folder, as written by 'fairprobe audit', 'repair', 'audit-images' or"
                " 'scenes'."
            )
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show the summary of an earlier run again: of an audit, a repair, an audit of images or of
    scenes.
    """
    with report_errors():
        from fairprobe.documents import read_run

        print_run(read_run(folder), folder, as_json=as_json, quiet=False)


def _limit(text: str | None) -> Callable[[TableDocument], bool] | None:
    """Whether a document exceeds what `--fail-over` allows: a number of findings, or a share of
    possible people.
    """
    if text is None:
        return None
    try:
        number = float(text.removesuffix("%"))
    except ValueError as error:
        raise SettingError(
            "--fail-over takes a number of findings (1000) or a share of possible people (2%); got"
            f" '{text}'."
        ) from error
    if not number >= 0:
        raise SettingError(f"--fail-over must not be negative; got '{text}'.")
    if text.endswith("%"):
        return lambda document: 100 * document.dm_rs.estimate > number
    return lambda document: document.generation.idis > number
