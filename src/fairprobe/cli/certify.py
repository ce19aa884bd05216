"""`fairprobe certify`: prove for which share of all possible people a network treats them alike."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fairprobe.cli.common import (
    INTERRUPTED,
    AsJson,
    Quiet,
    app,
    end,
    errors,
    output,
    print_run,
    progress,
    report_errors,
    write_json,
)
from fairprobe.cli.inputs import ModelOptions, RunTable, TableOptions, nothing_to_train
from fairprobe.cli.options import grouped
from fairprobe.errors import SettingError

WHAT = "A run folder, or a model of your own together with --data and --sensitive."
DATA = "With a model: a packaged data set, or your own table (CSV or Parquet)."
CHECK = "Verify a certificate.npz with a program that shares no code with the one that made it."


@app.command()
@grouped
def certify(
    what: Annotated[
        str | None, typer.Argument(help=WHAT, metavar="RUN_OR_MODEL", show_default=False)
    ] = None,
    *,
    data: Annotated[str | None, typer.Option(help=DATA)] = None,
    sensitive: Annotated[
        str, typer.Option(help="With a model: the sensitive attributes, separated by commas.")
    ] = "",
    seconds: Annotated[float, typer.Option(help="How long to prove.")] = 20.0,
    workers: Annotated[
        int, typer.Option(help="Processes that ask about everybody, where that is affordable.")
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="With a model: the folder to write.", show_default="certificate"),
    ] = None,
    check: Annotated[Path | None, typer.Option(help=CHECK, metavar="FILE")] = None,
    table: RunTable = None,
    named: ModelOptions,
    how: TableOptions,
    seed: Annotated[int, typer.Option(help="Draws the people from what is undecided.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Prove for which share of all possible people a network gives one answer, whatever their
    sensitive attributes are. What is proved holds for everybody in it; the rest is undecided.

    The certificate of a run is written into its folder, and its report gets a section. Ctrl-C ends
    the proof early; what was proved until then is kept. Models without weights, and layers that are
    not supported, are named: nothing is claimed about them.

    Examples:

      fairprobe certify runs/adult-gender

      fairprobe certify runs/adult-gender --seconds 60

      fairprobe certify my.onnx --data people.csv --label income --sensitive sex

      fairprobe certify --check runs/adult-gender/certificate.npz
    """
    with report_errors():
        if check is not None:
            _check(check)
            return
        if what is None:
            raise SettingError(
                "What is to be certified? Name a run folder, or a model with --data and"
                " --sensitive."
            )
        options: dict[str, Any] = {"seconds": seconds, "workers": workers, "seed": seed}
        show = not (quiet or as_json)
        if (Path(what) / "audit.json").exists():
            _run(Path(what), table, named, options, as_json=as_json, quiet=quiet)
            return
        if data is None or not sensitive:
            raise SettingError(
                f"{what} is not a run folder. For a model, name its data and the sensitive"
                " attributes too: --data people.csv --label income --sensitive sex."
            )
        if named.model is not None or table is not None:
            raise SettingError(
                "--model and --table go with a run. Name the model first, and --data."
            )
        rows = how.of(data, sensitive).open()
        from fairprobe.certificates.certify import certify as prove

        with progress(show=show, at_once=True) as on_stage:
            network = replace(named, model=what).open(rows, nothing_to_train)
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
            folder, table=table, model=named.opener(), progress=on_stage, **options
        )
    print_run(document, folder, as_json=as_json, quiet=quiet)
    _end(done.interrupted, folder)


def _end(interrupted: bool, folder: Path) -> None:
    if interrupted:
        end(INTERRUPTED, f"Interrupted: what was proved until then is true, and is in {folder}.")


def _print(text: str) -> None:
    output.print(text, markup=False, highlight=False, soft_wrap=True)


def _check(path: Path) -> None:
    """Verify a certificate; anything wrong is an error in one sentence."""
    from fairprobe.certificates import checker
    from fairprobe.errors import DAMAGED, StorageError
    from fairprobe.storage import check_regular, check_unpacked

    check_regular(path)
    try:
        with zipfile.ZipFile(path) as file:
            check_unpacked(path, sum(each.file_size for each in file.infolist()))
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
