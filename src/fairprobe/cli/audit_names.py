"""`fairprobe audit-names`: the same résumés under different names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairprobe.cli.common import (
    BAD_INPUT,
    INTERRUPTED,
    AsJson,
    Quiet,
    app,
    command_line,
    end,
    print_run,
    progress,
    report_errors,
    write,
)
from fairprobe.cli.inputs import CACHE, DRY_RUN, PROMPT
from fairprobe.cli.options import Overwrite, Seed

MODEL = "What decides: chat:https://… with --prompt, or module:function of your own code."
SET = (
    "audit (the 36 first names of Bertrand and Mullainathan), gender (frequent names of women and"
    " men) or surnames (white, Hispanic, Asian)."
)
CVS = "A folder of .txt files with {name} in place of the name; packaged ones by default."


@app.command("audit-names")
def audit_names(
    model: Annotated[str, typer.Option(help=MODEL)],
    prompt: Annotated[Path | None, typer.Option(help=PROMPT)] = None,
    names: Annotated[str, typer.Option(help=SET)] = "audit",
    cvs: Annotated[Path | None, typer.Option(help=CVS, metavar="FOLDER")] = None,
    favorable: Annotated[
        str | None, typer.Option(help="The class that people want.", show_default="the first")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help=CACHE)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=DRY_RUN)] = False,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to write.", show_default="runs/names-SET")
    ] = None,
    overwrite: Overwrite = False,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Send the same résumés under different names to a model that decides on them, and compare
    groups of names, with names of the same group as the control. The run folder contains the
    report, all numbers, and the outcome of every name on every résumé (outcomes.csv); `fairprobe
    check` limits names_difference and names_excess.

    Examples:

      fairprobe audit-names --model chat:https://host/v1 --prompt screening.toml --dry-run

      fairprobe audit-names --model my_code.py:screen --names surnames --out runs/surnames
    """
    with report_errors():
        from fairprobe.language.names import NamesAudit
        from fairprobe.language.names import audit_names as names_audit
        from fairprobe.runs.stages import OnStage
        from fairprobe.runs.store import RunFolder

        folder = out or Path("runs") / f"names-{names}"
        show = not (quiet or as_json or dry_run)
        options = {"prompt": prompt, "cache": cache, "dry_run": dry_run or None}
        given = {name: value for name, value in options.items() if value is not None}

        def audit(on_stage: OnStage) -> NamesAudit:
            return names_audit(
                model,
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
