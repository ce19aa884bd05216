"""The audit that `fairprobe audit` and `fairprobe check` of a model make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.catalogue import METHODS
from fairprobe.cli.common import Resume, command_line, progress, tell_unfinished
from fairprobe.cli.decision import Costs, DecisionThreshold, decision_of
from fairprobe.cli.inputs import ModelOptions, NamedTable, nothing_to_train
from fairprobe.cli.options import Seed
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.datasets import Dataset
    from fairprobe.documents.table import TableRun
    from fairprobe.models import Model
    from fairprobe.search import Budget, Method


# Names need no imports; the descriptions do, and `--help` must not wait for them.
METHOD = f"How to search: {', '.join(METHODS)}; auto is probe. 'fairprobe methods' explains them."
PEOPLE = (
    "Whom the search looks among: plausible people, who are made from the people in the data, or"
    " all possible people, as in the papers."
)
COUNTERPARTS = (
    "Whom people are compared with: twins (what the schema couples to a sensitive attribute changes"
    " along: a husband with a wife) or bare (nothing else changes, as in the papers). Possible"
    " people are always compared bare."
)
OUTSIDE = "Rows outside the domain: clip them where the search starts, or refuse the data."
RECORDS = "Let the report show people in the data as pairs. Off, because a report travels."
SET = (
    "A setting of the method, such as step=2 or, as its paper calls it, mu=0.2; may be repeated."
    " 'fairprobe methods' lists them."
)
SEEDS_BY = (
    "Seeds come in turn from clusters of the data: by scaled attributes, which count alike, or by"
    " raw codes, as in NeuronFair."
)
OWN = "the method's own"
TAU = (
    "The greatest divergence (nats) of answers that IFR_p counts as alike, or 'boundary', that of"
    " answers 5 points apart at the decision boundary. Several, separated by commas: the report"
    " shows IFR_p at each, and the first counts."
)
PAIRS = (
    "Individual fairness rates compare each person with all counterparts, or with a single one"
    " drawn at random, as in the IIFR paper."
)
TOLERANCE = (
    "Amounts: by how much an answer may change with the sensitive attribute before it counts: 500,"
    " 5% of the person's own answer, or 0.1sd (standard deviations of all answers)."
)


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """How to decide, to measure and to search."""

    decision_threshold: DecisionThreshold = None
    costs: Costs = None
    people: Annotated[str, typer.Option(help=PEOPLE)] = "plausible"
    method: Annotated[str, typer.Option(help=METHOD)] = "auto"
    variant: Annotated[
        str | None,
        typer.Option(
            help="The method's variant; 'fairprobe methods' lists them.",
            show_default="the method's first",
        ),
    ] = None
    set_: Annotated[list[str] | None, typer.Option("--set", help=SET, metavar="NAME=VALUE")] = None
    error: Annotated[
        float | None,
        typer.Option(help="Themis only: the precision of its score.", show_default="0.002"),
    ] = None
    seeds: Annotated[
        int,
        typer.Option(
            help="How many rows the search starts from. Themis draws its own people and ignores it."
        ),
    ] = 1000
    seeds_by: Annotated[str, typer.Option(help=SEEDS_BY)] = "scaled"
    global_iterations: Annotated[
        int | None,
        typer.Option(help="Steps of each seed towards a first finding.", show_default=OWN),
    ] = None
    local_iterations: Annotated[
        int | None, typer.Option(help="Steps around each first finding.", show_default=OWN)
    ] = None
    seconds: Annotated[
        float | None, typer.Option(help="Stop the search after this many seconds.")
    ] = None
    cpu_seconds: Annotated[
        float | None,
        typer.Option(help="Stop the search after this many seconds of computing (CPU time)."),
    ] = None
    rows: Annotated[
        int | None,
        typer.Option(help="Stop the search after this many people judged, repetitions included."),
    ] = None
    wanted: Annotated[
        int | None, typer.Option(help="Stop the search after this many different findings.")
    ] = None
    counterparts: Annotated[str, typer.Option(help=COUNTERPARTS)] = "twins"
    outside: Annotated[str, typer.Option(help=OUTSIDE)] = "clip"
    samples: Annotated[
        int, typer.Option(help="Possible people drawn to measure how common discrimination is.")
    ] = 50_000
    tau: Annotated[str | None, typer.Option(help=TAU, show_default="0.001")] = None
    pairs: Annotated[str, typer.Option(help=PAIRS)] = "all"
    seed: Seed = 0
    show_records: Annotated[bool, typer.Option("--show-records", help=RECORDS)] = False
    workers: Annotated[
        int, typer.Option(help="Search in this many processes; the findings are the same.")
    ] = 1
    cluster: Annotated[
        str | None,
        typer.Option(help="Search on the Ray cluster at this address.", metavar="HOST:PORT"),
    ] = None
    resume: Resume = False
    tolerance: Annotated[
        str | None,
        typer.Option(help=TOLERANCE, metavar="N|P%|Nsd", show_default="0.1sd"),
    ] = None


def make_run(
    table: NamedTable,
    given: ModelOptions,
    folder: Path,
    options: AuditOptions,
    *,
    network: str = "auto",
    overwrite: bool,
    show: bool,
) -> TableRun:
    """Open or train the model, audit it on the table, write the run folder, and return its
    document. Mistakes in the options are reported before anything is trained.
    """
    from fairprobe.runs.store import RunFolder
    from fairprobe.search.executor import check_workers
    from fairprobe.table.audit import audit
    from fairprobe.table.searched import kept_network
    from fairprobe.table.subject import train, train_amounts

    check_workers(options.workers, options.cluster)
    settings, data = _settings(options), table.open()
    more = _own_settings(options, data)
    tell_unfinished(folder, resume=options.resume)
    with (
        RunFolder(folder, overwrite=overwrite, resume=options.resume) as staged,
        progress(show=show) as on_stage,
    ):

        def trained() -> Model:
            how: dict[str, Any] = {"kind": network, "seed": options.seed}
            if data.amounts is not None:
                return train_amounts(data, progress=on_stage, **how)
            return kept_network(
                staged.checkpoint,
                data,
                how,
                lambda: train(data, progress=on_stage, **how),
            )

        done = audit(
            data,
            given.open(data, trained),
            table.names,
            progress=on_stage,
            findings_to=staged.findings,
            show_records=options.show_records,
            workers=options.workers,
            cluster=options.cluster,
            checkpoint=staged.checkpoint,
            **settings,
            **more,
        )
        return staged.fill(done, command=command_line())


def _own_settings(options: AuditOptions, data: Dataset) -> dict[str, Any]:
    """What only audits of classes, or only those of amounts, take."""
    from fairprobe.table.settings import parsed_taus

    if data.amounts is None:
        if options.tolerance is not None:
            raise SettingError(
                f"--tolerance is for amounts, and '{data.label}' is audited as classes. Leave it"
                " out, or use --target amount."
            )
        decision = decision_of(options.decision_threshold, options.costs, data)
        tau = {} if options.tau is None else {"tau": parsed_taus(options.tau)}
        return {"decision": decision, "pairs": options.pairs, **tau}
    if options.tau is not None:
        raise SettingError(
            f"--tau compares probabilities of classes, and '{data.label}' is audited as an amount."
            " Leave it out."
        )
    if options.pairs != "all":
        raise SettingError(
            "--pairs is about the individual fairness rates of classes, and"
            f" '{data.label}' is audited as an amount. Leave it out."
        )
    if options.decision_threshold is not None or options.costs is not None:
        raise SettingError(
            f"A decision rule needs classes, and '{data.label}' is audited as an amount. Leave it"
            " out, or divide the label into classes."
        )
    return {"tolerance": options.tolerance}


def print_dry_run(table: NamedTable, given: ModelOptions, options: AuditOptions) -> None:
    """Say how many requests the audit of a chat endpoint takes, and what they may cost."""
    from fairprobe.table.audit import audit
    from fairprobe.table.chat import planned

    settings, data = _settings(options), table.open()
    done = audit(data, given.open(data, nothing_to_train), table.names, **settings)
    typer.echo(planned(done.run))


def _settings(options: AuditOptions) -> dict[str, Any]:
    """The arguments of `audit`, checked before anything is opened."""
    from fairprobe.search.settings import parsed
    from fairprobe.table.settings import check_settings

    method = _method(options.method, options.variant, options.error)
    settings: dict[str, Any] = {
        "people": options.people,
        "method": method,
        "variant": options.variant if isinstance(method, str) else None,
        "settings": parsed(options.set_ or ()),
        "counterparts": options.counterparts,
        "outside": options.outside,
        "samples": options.samples,
        "seed": options.seed,
        "budget": _budget(options),
    }
    check_settings(**settings, pairs=options.pairs)
    _check_seeds_by(options)
    return settings


def _budget(options: AuditOptions) -> Budget:
    from fairprobe.search import Budget

    return Budget(
        seeds=options.seeds,
        seeds_by=options.seeds_by,
        global_iterations=options.global_iterations,
        local_iterations=options.local_iterations,
        seconds=options.seconds,
        cpu_seconds=options.cpu_seconds,
        rows=options.rows,
        wanted=options.wanted,
    )


def _check_seeds_by(options: AuditOptions) -> None:
    from fairprobe.search import METHODS, Budget

    is_own = options.method != "auto" and not METHODS[options.method].starts_from_data
    if is_own and options.seeds_by != Budget.seeds_by:
        raise SettingError(
            f"--seeds-by is how seeds are chosen among the data; the method '{options.method}' does"
            " not start from them. Leave it out."
        )


def _method(name: str, variant: str | None, error: float | None) -> str | Method:
    """The method as `audit` takes it."""
    from fairprobe.search.catalogue import check_method, method_named

    if name != "auto":
        check_method(name, variant)
    if error is None:
        return name
    if name != "themis":
        raise SettingError(
            f"--error is the precision of Themis' score; the method '{name}' has none. Leave it"
            " out, or use --method themis."
        )
    return method_named(name, error=error)
