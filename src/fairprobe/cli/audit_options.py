"""The audit that `fairprobe audit` and `fairprobe check` of a model make."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairprobe.cli.common import command_line, progress, tell_unfinished
from fairprobe.cli.decision import decision_of
from fairprobe.cli.inputs import ModelOptions, TableOptions
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.documents import TableDocument
    from fairprobe.models import Model
    from fairprobe.search import Method


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """How to measure and to search."""

    network: str = "auto"
    people: str = "plausible"
    method: str = "auto"
    variant: str | None = None
    error: float | None = None
    seeds: int = 1000
    global_iterations: int | None = None
    local_iterations: int | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    rows: int | None = None
    wanted: int | None = None
    counterparts: str = "twins"
    outside: str = "clip"
    samples: int = 50_000
    seed: int = 0
    decision_threshold: str | None = None
    costs: Path | None = None
    show_records: bool = False
    workers: int = 1
    cluster: str | None = None
    resume: bool = False


def make_run(
    table: TableOptions,
    given: ModelOptions,
    folder: Path,
    options: AuditOptions,
    *,
    overwrite: bool,
    show: bool,
) -> TableDocument:
    """Open or train the model, audit it on the table, write the run folder, and return its
    document. Mistakes in the options are reported before anything is trained.
    """
    from fairprobe import audits, search
    from fairprobe.audits.resume import kept_network
    from fairprobe.search.elsewhere import check_workers

    check_workers(options.workers, options.cluster)
    budget = search.Budget(
        seeds=options.seeds,
        global_iterations=options.global_iterations,
        local_iterations=options.local_iterations,
        seconds=options.seconds,
        cpu_seconds=options.cpu_seconds,
        rows=options.rows,
        wanted=options.wanted,
    )
    method = _method(options.method, options.variant, options.error)
    settings: dict[str, Any] = {
        "people": options.people,
        "method": method,
        "variant": options.variant if isinstance(method, str) else None,
        "counterparts": options.counterparts,
        "outside": options.outside,
        "samples": options.samples,
        "seed": options.seed,
    }
    audits.check_settings(**settings)
    data = table.open()
    decision = decision_of(options.decision_threshold, options.costs, data)
    tell_unfinished(folder, resume=options.resume)
    with (
        audits.RunFolder(folder, overwrite=overwrite, resume=options.resume) as staged,
        progress(show=show) as on_stage,
    ):

        def train() -> Model:
            how: dict[str, Any] = {"kind": options.network, "seed": options.seed}
            return kept_network(
                staged.checkpoint,
                data,
                how,
                lambda: audits.train(data, progress=on_stage, **how),
            )

        audit = audits.audit(
            data,
            given.open(data, train),
            table.names,
            decision=decision,
            budget=budget,
            progress=on_stage,
            findings_to=staged.findings,
            show_records=options.show_records,
            workers=options.workers,
            cluster=options.cluster,
            checkpoint=staged.checkpoint,
            **settings,
        )
        return staged.fill(audit, command=command_line())


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
