"""`fairprobe audit-names`: the same résumés under different names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fairprobe.cli.check import decide, read_rules
from fairprobe.cli.common import (
    BAD_INPUT,
    INTERRUPTED,
    app,
    command_line,
    end,
    print_run,
    progress,
    report_errors,
    write,
)
from fairprobe.cli.inputs import chat_options
from fairprobe.options import (
    AUDIT,
    DATA,
    MODEL,
    AsJson,
    DryRun,
    Favorable,
    GatePolicy,
    Out,
    Overwrite,
    Quiet,
    Seed,
    option,
)

WHO = "What decides: a chat.toml (model = “chat:https://…” and prompt), or module:function."
SET = "audit (Bertrand and Mullainathan's), gender, or surnames (white, Hispanic, Asian)."
CVS = "A folder of .txt files with {name} in place of the name; packaged ones by default."


@app.command("audit-names", rich_help_panel=AUDIT)
def audit_names(
    model: Annotated[str, option(MODEL, WHO)],
    names: Annotated[str, option(DATA, SET)] = "audit",
    cvs: Annotated[Path | None, option(DATA, CVS, metavar="FOLDER")] = None,
    favorable: Favorable = None,
    out: Out = None,
    overwrite: Overwrite = False,
    policy: GatePolicy = None,
    seed: Seed = 0,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Send the same résumés under different names to a model that decides on them.

    Groups of names are compared, with names of the same group as the control. The run folder
    contains the report, all numbers, and the outcome of every name on every résumé (outcomes.csv).
    A policy limits names_difference and names_excess.

    Examples:

      fairprobe audit-names --model chat.toml --dry-run

      fairprobe audit-names --model my_code.py:screen --names surnames --out runs/surnames
    """
    with report_errors():
        from fairprobe.language.names import NamesAudit
        from fairprobe.language.names import audit_names as names_audit
        from fairprobe.runs.stages import OnStage
        from fairprobe.runs.store import RunFolder

        folder = out or Path("runs") / f"names-{names}"
        show = not (quiet or as_json or dry_run)
        source, given = chat_options(model, dry_run=dry_run)
        rules = read_rules(policy)

        def audit(on_stage: OnStage) -> NamesAudit:
            return names_audit(
                source,
                names,
                cvs=cvs,
                favorable=favorable,
                seed=seed,
                progress=on_stage,
                **given,
            )

        if dry_run:
            with progress(show=show) as on_stage:
                usage = audit(on_stage).document.usage
            assert usage is not None
            write(usage.planned + "\n")
            return
        with RunFolder(folder, overwrite=overwrite) as staged:
            with progress(show=show) as on_stage:
                done = audit(on_stage)
            run = staged.fill(done, command=command_line())
        print_run(run, folder, as_json=as_json, quiet=quiet)
        if run.stopped:
            is_interrupt = run.stopped.startswith("Interrupted")
            what = f"{run.stopped} The run with {run.resumes} résumés is in {folder}."
            end(INTERRUPTED if is_interrupt else BAD_INPUT, what)
        if rules is not None:
            decide(folder, rules, show=show)
