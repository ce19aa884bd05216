"""`fairprobe check`: evaluate a policy on a run, so that a build passes or fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile, mkdtemp
from typing import TYPE_CHECKING, Annotated

import typer

from fairprobe.cli.audit_options import AuditOptions, make_run
from fairprobe.cli.common import (
    INTERRUPTED,
    OVER,
    AsJson,
    Quiet,
    app,
    end,
    output,
    progress,
    report_errors,
    write_json,
)
from fairprobe.cli.inputs import ModelOptions, RunTable, TableOptions
from fairprobe.cli.options import Overwrite, grouped
from fairprobe.errors import FairprobeError, SettingError, StorageError
from fairprobe.storage import scratch

if TYPE_CHECKING:
    from fairprobe.gate import GateResult, Policy

TARGET = (
    "A run folder, as written by 'fairprobe audit'; or, with --data, a model to audit first:"
    " whatever 'fairprobe audit --model' takes."
)


# The options that also apply to a run; all others say how to audit a model.
FOR_RUNS = (
    "target",
    "policy",
    "baseline",
    "junit",
    "sarif",
    "markdown",
    "data",
    "table",
    "model",
    "as_json",
    "quiet",
)


@dataclass(frozen=True, kw_only=True)
class Outlets:
    """Where the verdict goes."""

    junit: Annotated[
        Path | None, typer.Option(help="Write the rulings as JUnit XML.", metavar="FILE")
    ] = None
    sarif: Annotated[
        Path | None, typer.Option(help="Write the failed rulings as SARIF 2.1.0.", metavar="FILE")
    ] = None
    markdown: Annotated[
        Path | None, typer.Option(help="Write a comment for a pull request.", metavar="FILE")
    ] = None
    as_json: AsJson = False
    quiet: Quiet = False


@app.command()
@grouped
def check(
    context: typer.Context,
    target: Annotated[str, typer.Argument(help=TARGET, metavar="RUN_OR_MODEL")],
    *,
    policy: Annotated[
        Path, typer.Option(help="The limits: a TOML file (see docs/reference/policy.md).")
    ],
    baseline: Annotated[
        Path | None, typer.Option(help="An earlier run to compare with, instead of the policy's.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="To check a model: the data set or table to audit it on.")
    ] = None,
    sensitive: Annotated[
        str, typer.Option(help="To check a model: the sensitive attributes, separated by commas.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="To check a model: keep the audit in this run folder.")
    ] = None,
    overwrite: Overwrite = False,
    table: RunTable = None,
    named: ModelOptions,
    how: TableOptions,
    options: AuditOptions,
    outlets: Outlets,
) -> None:
    """Check a run, or a model that is audited first, against the limits of a policy. Exit codes: 0
    all limits are kept, 1 one is exceeded, 2 bad input.

    Examples:

      fairprobe check runs/adult-gender --policy fairness.toml

      fairprobe check runs/new --policy fairness.toml --baseline runs/main --junit fairness.xml
      --markdown comment.md

      fairprobe check runs/mine --policy more.toml --model my.onnx --table my.csv

      fairprobe check my.onnx --data my.csv --label income --sensitive sex --encoder prepare.skops
      --policy fairness.toml
    """
    with report_errors(), scratch() as temporary:
        from fairprobe import gate

        # Report mistakes before anything is measured.
        rules = gate.read_policy(policy)
        gate.baseline_of(rules, baseline)
        _require_writable(outlets.junit, outlets.sarif, outlets.markdown)
        show = not (outlets.quiet or outlets.as_json)
        if data is None:
            _require_nothing_to_audit(context, named)
            _require_sampling(rules, named, table)
            finish(_evaluate(Path(target), rules, baseline, named, table, show=show), outlets)
        elif named.model is not None or table is not None:
            raise SettingError(
                "--model and --table belong to a run; with --data the model to audit is the first"
                f" argument, {target}. Leave them out."
            )
        else:
            run = out or temporary / "run"
            named = replace(named, model=target)
            document = make_run(
                how.of(data, sensitive), named, run, options, overwrite=overwrite, show=show
            )
            with _keeping(run, is_requested=out is not None):
                if document.generation.stopped == "interrupted":
                    raise KeyboardInterrupt
                own = None if document.data.origin is None else Path(data)
                result = _evaluate(run, rules, baseline, named, own, show=show)
                finish(result if out else replace(result, run=None), outlets)


@contextmanager
def _keeping(run: Path, *, is_requested: bool) -> Iterator[None]:
    """Keep an audit that cannot be judged: in the folder that was named, or in a temporary one."""
    try:
        yield
    except (FairprobeError, KeyboardInterrupt) as error:
        place = (
            run if is_requested else Path(shutil.move(run, mkdtemp(prefix="fairprobe-rescued-")))
        )
        again = (
            f"The audit is kept in {place}; to judge it, name that instead of the model, without"
            " --data."
        )
        if isinstance(error, KeyboardInterrupt):
            end(INTERRUPTED, f"Interrupted before there was a result. {again}")
        raise type(error)(f"{error} {again}") from error


def _require_nothing_to_audit(context: typer.Context, named: ModelOptions) -> None:
    """Refuse options that would have no effect: a run is judged as it is."""
    allowed = {*FOR_RUNS, *(vars(named) if named.model is not None else ())}
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in allowed and source is not None and source.name == "COMMANDLINE":
            raise SettingError(
                f"{parameter.opts[0]} says how to audit a model, and a run is judged as it is."
                " Leave it out, or give a model and --data."
            )


def _require_sampling(rules: Policy, named: ModelOptions, table: Path | None) -> None:
    if rules.uncertain != "more" and (named.model is not None or table is not None):
        raise SettingError(
            "--model and --table are for drawing more people, and the policy does not ask for that"
            ' (uncertain = "more"). Leave them out.'
        )


def _require_writable(*paths: Path | None) -> None:
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise StorageError(f"Cannot write {path}: it is a folder. Name a file in it.")
        try:
            with TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise StorageError(
                f"Cannot write {path}: {error.strerror}. Choose another place, or make this one"
                " writable."
            ) from error


def _evaluate(
    run: Path,
    rules: Policy,
    baseline: Path | None,
    named: ModelOptions,
    table: Path | None,
    *,
    show: bool,
) -> GateResult:
    from fairprobe import gate
    from fairprobe.documents.table import TableMeasurements
    from fairprobe.runs.store import read_measured_run

    if not run.is_dir():
        raise SettingError(
            f"{run} is not a run folder. To check a model, say what to audit it on: --data TABLE"
            " --label NAME --sensitive NAME."
        )
    document = read_measured_run(run)
    if not isinstance(document, TableMeasurements):
        return gate.check(run, rules, baseline=baseline)
    with progress(show=show) as on_stage:
        more = gate.sampler_of(
            run,
            document.sensitive,
            document.seed,
            table=table,
            model=named.opener(),
            progress=lambda done, total: on_stage("Drawing more possible people", done, total, ""),
        )
        return gate.check(run, rules, baseline=baseline, more=more)


def finish(result: GateResult, outlets: Outlets) -> None:
    """Write the requested files, show the verdict, and end with its exit code. A file that cannot
    be written hides neither.
    """
    from fairprobe import gate
    from fairprobe.storage import write_text

    lost: list[StorageError] = []
    for path, text in (
        (outlets.junit, gate.junit),
        (outlets.sarif, gate.sarif),
        (outlets.markdown, gate.markdown),
    ):
        try:
            if path is not None:
                write_text(path, text(result))
        except StorageError as error:
            lost.append(error)
    if outlets.as_json:
        write_json(json.dumps(result.to_dict(), indent=1) + "\n")
    elif not outlets.quiet:
        _print_verdict(result)
    if lost:
        raise StorageError(f"{result.headline}. {' '.join(map(str, lost))}") from lost[0]
    if not result.passed:
        if outlets.as_json or outlets.quiet:
            end(OVER, result.headline)
        raise typer.Exit(OVER)


def _print_verdict(result: GateResult) -> None:
    from rich.text import Text

    from fairprobe.gate.words import estimate, interval, limit
    from fairprobe.present.table import Cell, Table

    rows = [
        (
            ruling.what,
            estimate(ruling),
            interval(ruling),
            limit(ruling),
            Cell(
                ruling.decided + (" (uncertain)" if ruling.outcome == "uncertain" else ""),
                kind=ruling.decided,
            ),
        )
        for ruling in result.rulings
    ]
    table = Table(
        ("rule", "measured", "interval", "limit", "outcome"),
        rows,
        title=f"{result.model} on {result.dataset}",
        words=(0, 4),
    )
    output.print(table.terminal(unbroken=0))
    output.print()
    for ruling in result.failed:
        output.print(Text(f"• {ruling.why}"))
    style = "bold green" if result.passed else "bold red"
    output.print(result.headline, style=style, highlight=False)
