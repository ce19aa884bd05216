"""`fairprobe certify`: prove for which share of all possible people a network gives one answer.
`fairprobe verify`: check such a proof.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Annotated, Any

import typer

from fairprobe.cli.common import (
    INTERRUPTED,
    app,
    end,
    errors,
    output,
    print_run,
    progress,
    report_errors,
    write_json,
)
from fairprobe.cli.inputs import NamedTable, open_model, opener
from fairprobe.errors import SettingError
from fairprobe.options import (
    DATA,
    PROVE,
    RUN,
    SEARCH,
    AsJson,
    ModelOptions,
    Out,
    Quiet,
    Seed,
    Table,
    TableOptions,
    grouped,
    option,
)

WHAT = "A run folder; or a packaged data set or table, with --model and --sensitive."
WORKERS = "Processes that query about everybody, where that is affordable."


@app.command(rich_help_panel=PROVE)
@grouped
def certify(
    run: Annotated[str, typer.Argument(help=WHAT, metavar="RUN_OR_TABLE")],
    *,
    sensitive: Annotated[
        str, option(DATA, "With a table: the sensitive attributes, separated by commas.")
    ] = "",
    table: Table = None,
    how: TableOptions,
    named: ModelOptions,
    time: Annotated[float, option(SEARCH, "How many seconds to prove.")] = 20.0,
    out: Out = None,
    workers: Annotated[int, option(RUN, WORKERS)] = 1,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Prove for which share of all possible people a network treats groups alike.

    It gives these people one answer, whatever their sensitive attributes are. What is proved holds
    for everybody in it; the rest is undecided.

    The certificate of a run is written into its folder, and its report gets a section; that of a
    table and a model into --out (certificate). Ctrl-C ends the proof early; what was proved until
    then is kept. Models without weights, and layers that are not supported, are named: nothing is
    claimed about them.

    Examples:

      fairprobe certify runs/adult-gender --time 60

      fairprobe certify people.csv --label income --sensitive sex --model my.onnx
    """
    with report_errors():
        options: dict[str, Any] = {"seconds": time, "workers": workers, "seed": seed}
        show = not (quiet or as_json)
        if (Path(run) / "audit.json").exists():
            _run(Path(run), table, named, options, as_json=as_json, quiet=quiet)
            return
        if named.model is None or not sensitive:
            raise SettingError(
                f"{run} is not a run folder. For a table, name the model and the sensitive"
                " attributes too: --model my.onnx --label income --sensitive sex."
            )
        if table is not None:
            raise SettingError("--table goes with a run. Name the table first.")
        rows = NamedTable(run, sensitive, how).open()
        from fairprobe.certificates.certify import certify as prove

        with progress(show=show, at_once=True) as on_stage:
            network = open_model(named, rows)
            done = prove(rows, network, rows.domain.sensitive, progress=on_stage, **options)
            folder = done.save(out or Path("certificate"))
        if as_json:
            from fairprobe.results import encode

            write_json(encode(done.document).decode())
        elif not quiet:
            from fairprobe.certificates.report import report
            from fairprobe.report.terminal import terminal

            output.print(terminal(report(done.document, done.title)), crop=False)
            _print(f"Certificate: {folder / 'certificate.npz'}, report: {folder / 'report.html'}")
        _end(done.interrupted, folder)


def _run(
    folder: Path,
    table: Path | None,
    named: ModelOptions,
    options: dict[str, Any],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    from fairprobe.certificates.certify import certify_run

    with progress(show=not (quiet or as_json), at_once=True) as on_stage:
        document, done = certify_run(
            folder, table=table, model=opener(named), progress=on_stage, **options
        )
    print_run(document, folder, as_json=as_json, quiet=quiet)
    _end(done.interrupted, folder)


def _end(interrupted: bool, folder: Path) -> None:
    if interrupted:
        end(INTERRUPTED, f"Interrupted: what was proved until then is true, and is in {folder}.")


def _print(text: str) -> None:
    output.print(text, markup=False, highlight=False, soft_wrap=True)


@app.command(rich_help_panel=PROVE)
def verify(
    file: Annotated[
        Path, typer.Argument(help="A certificate.npz, from a run folder or elsewhere.")
    ],
) -> None:
    """Verify a certificate with a program that shares no code with the one that made it.

    Example:

      fairprobe verify runs/adult-gender/certificate.npz
    """
    with report_errors():
        _check(file)


def _check(path: Path) -> None:
    """Verify a certificate; anything wrong is an error in one sentence."""
    from fairprobe.certificates import checker
    from fairprobe.errors import DAMAGED, StorageError
    from fairprobe.storage import check_regular, check_unpacked

    check_regular(path)
    try:
        with zipfile.ZipFile(path) as file:
            check_unpacked(path, sum(item.file_size for item in file.infolist()))
        claim = checker.check(str(path))
    except StorageError:
        raise
    except DAMAGED as error:
        raise StorageError(f"{path} is rejected: {error}.") from error
    errors.print("Accepted.", style="bold")
    _print(
        f"At least {100 * claim['checked']:.6g} % of possible people are proved to be treated"
        f" alike, whatever their {', '.join(claim['sensitive'])}. Network and schema:"
        f" SHA-256 {claim['network']}"
    )
