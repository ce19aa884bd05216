"""`fairprobe audit`: audit a model, or a network that is trained here, on a table."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.cli.check import decide, read_rules
from fairprobe.cli.common import (
    INTERRUPTED,
    app,
    command_line,
    end,
    print_run,
    progress,
    report_errors,
    tell_unfinished,
)
from fairprobe.cli.decision import decision_of
from fairprobe.cli.inputs import NamedTable, open_model, opener
from fairprobe.errors import DataError, ModelError, SettingError
from fairprobe.options import (
    AUDIT,
    RUN,
    AsJson,
    AuditedModel,
    AuditOptions,
    AuditSettings,
    DryRun,
    GatePolicy,
    Out,
    Overwrite,
    Quiet,
    Resume,
    Seed,
    Sensitive,
    TableOptions,
    grouped,
    option,
    read_settings,
)

if TYPE_CHECKING:
    from fairprobe.datasets import Dataset
    from fairprobe.models import Model
    from fairprobe.search import Budget

TABLE = "A packaged data set ('fairprobe list datasets'), or your own CSV or Parquet file."
WORKERS = "Processes, or a Ray cluster, to search in."


@app.command(rich_help_panel=AUDIT)
@grouped
def audit(
    dataset: Annotated[str, typer.Argument(help=TABLE)],
    sensitive: Sensitive,
    *,
    table: TableOptions,
    named: AuditedModel,
    options: AuditOptions,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    policy: GatePolicy = None,
    workers: Annotated[str, option(RUN, WORKERS, metavar="N|HOST:PORT")] = "1",
    seed: Seed = 0,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Audit a model, or a network trained here, on a data set or your own table.

    Examples:

      fairprobe audit adult --sensitive gender

      fairprobe audit bank --sensitive age --time 10 --policy fairness.toml

      fairprobe audit my.csv --label income --sensitive sex --model my.onnx --encoder prepare.skops

      fairprobe audit cv.csv --label hire --sensitive sex --model chat.toml --dry-run
    """
    with report_errors():
        from fairprobe.runs.store import RunFolder
        from fairprobe.search.executor import check_workers
        from fairprobe.table.audit import audit as audit_table
        from fairprobe.table.settings import check_settings

        processes, cluster = _workers(workers)
        check_workers(processes, cluster)
        more, of_method = read_settings(AuditSettings, options.set_)
        source = NamedTable(dataset, sensitive, table, more)
        settings = _settings(options, more, of_method) | {"seed": seed}
        check_settings(**settings, pairs=more.pairs)
        _check_seeds_by(options.method, more.seeds_by)
        rules = read_rules(policy)
        folder = out or Path("runs") / source.title
        data = source.open()
        if dry_run:
            _print_dry_run(data, named, source.names, settings)
            return
        settings |= _own_settings(options, more, data)
        settings |= {"workers": processes, "cluster": cluster, "show_records": more.show_records}
        tell_unfinished(folder, resume=resume)
        show = not (quiet or as_json)
        with (
            RunFolder(folder, overwrite=overwrite, resume=resume) as staged,
            progress(show=show) as on_stage,
        ):

            def train() -> Model:
                return _train(data, {"kind": named.model, "seed": seed}, staged, on_stage)

            done = audit_table(
                data,
                open_model(named, data, train),
                source.names,
                progress=on_stage,
                findings_to=staged.findings,
                checkpoint=staged.checkpoint,
                **settings,
            )
            run = staged.fill(done, command=command_line())
        print_run(run, folder, as_json=as_json, quiet=quiet)
        found = run.generation
        if found.stopped == "interrupted":
            kind = "findings" if found.refuted is None else "findings that were confirmed"
            kept = f"kept all {found.idis:,} {kind} until then in {folder}."
            end(INTERRUPTED, f"Interrupted: {kept}")
        if rules is not None:
            own = None if run.data.origin is None else Path(dataset)
            model = None if run.model.trained_here else opener(named)
            decide(folder, rules, table=own, model=model, show=show)


def _train(data: Dataset, how: dict[str, Any], staged: Any, on_stage: Any) -> Model:
    """Train a network, or continue with the one that a killed audit trained."""
    from fairprobe.table.searched import kept_network
    from fairprobe.table.subject import train, train_amounts

    if data.amounts is not None:
        return train_amounts(data, progress=on_stage, **how)
    return kept_network(staged.checkpoint, data, how, lambda: train(data, progress=on_stage, **how))


def _workers(text: str) -> tuple[int, str | None]:
    """Read a number of processes, or the address of a Ray cluster."""
    return (int(text), None) if text.lstrip("-").isdecimal() else (1, text)


def _settings(
    options: AuditOptions, more: AuditSettings, of_method: dict[str, str]
) -> dict[str, Any]:
    """Return the arguments of `audit` that do not depend on the data, with a checked method."""
    from fairprobe.search.catalogue import check_method, method_named
    from fairprobe.search.settings import with_settings

    if options.method != "auto":
        check_method(options.method, more.variant)
        values, _ = with_settings(options.method, of_method, _budget(options, more))
        with suppress(ModelError, DataError):  # some need the model or the data as well
            method_named(options.method, more.variant, **values)
    return {
        "people": options.people,
        "method": options.method,
        "variant": more.variant,
        "settings": of_method,
        "counterparts": options.counterparts,
        "outside": more.outside,
        "samples": options.samples,
        "budget": _budget(options, more),
    }


def _budget(options: AuditOptions, more: AuditSettings) -> Budget:
    from fairprobe.search import Budget

    return Budget(
        seeds=options.seeds,
        seeds_by=more.seeds_by,
        global_iterations=more.global_iterations,
        local_iterations=more.local_iterations,
        seconds=options.time,
        cpu_seconds=more.cpu_seconds,
        rows=more.rows,
        wanted=options.max_findings,
    )


def _check_seeds_by(method: str, seeds_by: str) -> None:
    from fairprobe.search import METHODS, Budget

    is_own = method != "auto" and not METHODS[method].starts_from_data
    if is_own and seeds_by != Budget.seeds_by:
        raise SettingError(
            f"--set seeds_by is how seeds are chosen among the data; the method '{method}' does not"
            " start from them. Leave it out."
        )


def _own_settings(options: AuditOptions, more: AuditSettings, data: Dataset) -> dict[str, Any]:
    """Return the arguments that only audits of classes, or only those of amounts, take."""
    from fairprobe.table.settings import parsed_taus

    if data.amounts is None:
        if options.tolerance is not None:
            raise SettingError(
                f"--tolerance is for amounts, and '{data.label}' is audited as classes. Leave it"
                " out, or use --target amount."
            )
        decision = None if options.decision is None else decision_of(options.decision, data)
        tau = {} if more.tau is None else {"tau": parsed_taus(more.tau)}
        return {"decision": decision, "pairs": more.pairs, **tau}
    reasons = {
        "--set tau": more.tau is not None and "compares probabilities of classes",
        "--set pairs": more.pairs != "all" and "is about the individual fairness rates of classes",
        "--decision": options.decision is not None and "is a decision between classes",
    }
    for option_, reason in reasons.items():
        if reason:
            raise SettingError(
                f"{option_} {reason}, and '{data.label}' is audited as an amount. Leave it out."
            )
    return {"tolerance": options.tolerance}


def _print_dry_run(
    data: Dataset, named: AuditedModel, sensitive: list[str], settings: dict[str, Any]
) -> None:
    """Say how many requests the audit of a chat endpoint takes, and what they may cost."""
    from fairprobe.table.audit import audit as audit_table
    from fairprobe.table.chat import planned

    done = audit_table(data, open_model(named, data, dry_run=True), sensitive, **settings)
    typer.echo(planned(done.run))
