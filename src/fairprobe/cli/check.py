"""`fairprobe check`: evaluate a policy on a run, so that a build passes or fails."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated

import typer

from fairprobe.cli.common import OVER, app, end, output, progress, report_errors, write_json
from fairprobe.cli.inputs import opener
from fairprobe.errors import SettingError, StorageError
from fairprobe.options import (
    DATA,
    DECIDE,
    MEASURE,
    RUN,
    AsJson,
    ModelOptions,
    Quiet,
    Table,
    grouped,
    option,
)

if TYPE_CHECKING:
    from fairprobe.gate import GateResult, Policy
    from fairprobe.runs.reopen import OpenModel

PLACE = "A run folder, as written by 'fairprobe audit', 'audit-text' or 'audit-names'."
POLICY = "The limits: a TOML file (docs/reference/policy.md)."


@dataclass(frozen=True, kw_only=True)
class Outlets:
    """Where the verdict goes."""

    junit: Annotated[
        Path | None, option(RUN, "Write the rulings as JUnit XML.", metavar="FILE")
    ] = None
    sarif: Annotated[
        Path | None, option(RUN, "Write the failed rulings as SARIF 2.1.0.", metavar="FILE")
    ] = None
    markdown: Annotated[
        Path | None, option(RUN, "Write a comment for a pull request.", metavar="FILE")
    ] = None
    as_json: AsJson = False
    quiet: Quiet = False


@app.command(rich_help_panel=DECIDE)
@grouped
def check(
    run: Annotated[Path, typer.Argument(help=PLACE)],
    *,
    policy: Annotated[Path, option(MEASURE, POLICY)],
    baseline: Annotated[
        Path | None, option(DATA, "An earlier run to compare with, instead of the policy's.")
    ] = None,
    table: Table = None,
    named: ModelOptions,
    outlets: Outlets,
) -> None:
    """Check a run against the limits of a policy.

    Nothing is audited. Exit codes: 0 all limits are kept, 1 one is exceeded, 2 bad input. With
    --table and --model more people can be drawn, where the policy asks for that.

    Examples:

      fairprobe check runs/adult-gender --policy fairness.toml

      fairprobe check runs/new --policy fairness.toml --baseline runs/main --junit fairness.xml
      --markdown comment.md

      fairprobe check runs/mine --policy more.toml --model my.onnx --table my.csv
    """
    with report_errors():
        # Report mistakes before anything is measured.
        rules = read_rules(policy, baseline)
        assert rules is not None
        if rules.uncertain != "more" and (named.model is not None or table is not None):
            raise SettingError(
                "--model and --table are for drawing more people, and the policy does not ask for"
                ' that (uncertain = "more"). Leave them out.'
            )
        if not run.is_dir():
            raise SettingError(
                f"{run} is not a run folder. To audit a model and check the result: fairprobe"
                " audit TABLE --sensitive NAME --model MODEL --policy FILE."
            )
        _require_writable(outlets.junit, outlets.sarif, outlets.markdown)
        show = not (outlets.quiet or outlets.as_json)
        model = opener(named)
        finish(evaluate(run, rules, baseline, table=table, model=model, show=show), outlets)


def read_rules(policy: Path | None, baseline: Path | None = None) -> Policy | None:
    """Read a policy and its baseline, so that mistakes in them are reported first."""
    if policy is None:
        return None
    from fairprobe import gate

    rules = gate.read_policy(policy)
    gate.baseline_of(rules, baseline)
    return rules


def decide(
    run: Path,
    rules: Policy,
    *,
    table: Path | None = None,
    model: OpenModel | None = None,
    show: bool,
) -> None:
    """Hold a run that has just been written against a policy; end with 1 if it fails."""
    result = evaluate(run, rules, table=table, model=model, show=show)
    finish(result, Outlets(quiet=not show))


def evaluate(
    run: Path,
    rules: Policy,
    baseline: Path | None = None,
    *,
    table: Path | None = None,
    model: OpenModel | None = None,
    show: bool,
) -> GateResult:
    """Evaluate a policy on a run, with more people if the policy wants them."""
    from fairprobe import gate
    from fairprobe.documents.table import TableMeasurements
    from fairprobe.runs.store import read_measured_run

    document = read_measured_run(run)
    if not isinstance(document, TableMeasurements):
        return gate.check(run, rules, baseline=baseline)
    with progress(show=show) as on_stage:
        more = gate.sampler_of(
            run,
            document.sensitive,
            document.seed,
            table=table,
            model=model,
            progress=lambda done, total: on_stage("Drawing more possible people", done, total, ""),
        )
        return gate.check(run, rules, baseline=baseline, more=more)


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
