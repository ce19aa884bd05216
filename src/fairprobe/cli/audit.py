"""`fairprobe audit` and `fairprobe show`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairprobe.cli.audit_options import AuditOptions, make_run, print_dry_run
from fairprobe.cli.common import (
    INTERRUPTED,
    OVER,
    AsJson,
    Quiet,
    app,
    end,
    print_run,
    report_errors,
)
from fairprobe.cli.inputs import AuditedModel, Sensitive, TableOptions
from fairprobe.cli.options import Overwrite, grouped
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.documents.table import TableRun

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

DATA = (
    "A packaged data set (adult, german, bank, compas; see 'fairprobe datasets'), or your own"
    " table: a CSV or Parquet file."
)


@app.command()
@grouped
def audit(
    dataset: Annotated[str, typer.Argument(help=DATA)],
    sensitive: Sensitive,
    *,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder to write.", show_default="runs/DATASET-SENSITIVE"),
    ] = None,
    overwrite: Overwrite = False,
    network: Network = "auto",
    table: TableOptions,
    named: AuditedModel,
    options: AuditOptions,
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

      fairprobe audit cv.csv --label hire --sensitive sex --model chat:https://a.b --prompt p.toml

      fairprobe audit my.csv --label credit_limit --target amount --tolerance 500 --sensitive sex
    """
    with report_errors():
        limit = _limit(fail_over)
        opened = table.of(dataset, sensitive)
        folder = out or Path("runs") / opened.title
        if named.dry_run:
            print_dry_run(opened, named, options)
            return
        document = make_run(
            opened,
            named,
            folder,
            options,
            network=network,
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
                "A run folder, as written by 'fairprobe audit', 'repair', 'audit-images',"
                " 'audit-text' or 'scenes'."
            )
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show the summary of an earlier run again: of an audit, a repair, an audit of images, texts or
    scenes.
    """
    with report_errors():
        from fairprobe.runs.store import read_run

        print_run(read_run(folder), folder, as_json=as_json, quiet=False)


def _limit(text: str | None) -> Callable[[TableRun], bool] | None:
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
