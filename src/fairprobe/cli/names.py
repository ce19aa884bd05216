"""`fairprobe names`: the same résumés under different names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from fairprobe.cli.common import (
    AsJson,
    Quiet,
    app,
    errors,
    progress,
    report_errors,
    write,
    write_json,
)
from fairprobe.cli.inputs import CACHE, DRY_RUN, PROMPT
from fairprobe.cli.options import Seed

MODEL = "What decides: chat:https://… with --prompt, or module:function of your own code."
SET = (
    "audit (the 36 first names of Bertrand and Mullainathan), gender (frequent names of women and"
    " men) or surnames (white, Hispanic, Asian)."
)
CVS = "A folder of .txt files with {name} where the name belongs; ours by default."


@app.command()
def names(
    model: Annotated[str, typer.Option(help=MODEL)],
    prompt: Annotated[Path | None, typer.Option(help=PROMPT)] = None,
    names_set: Annotated[str, typer.Option("--names", help=SET)] = "audit",
    cvs: Annotated[Path | None, typer.Option(help=CVS, metavar="FOLDER")] = None,
    favorable: Annotated[
        str | None, typer.Option(help="The class that people want.", show_default="the first")
    ] = None,
    cache: Annotated[Path | None, typer.Option(help=CACHE)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=DRY_RUN)] = False,
    out: Annotated[Path | None, typer.Option(help="A JSON file to write.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Send the same résumés under different names to a model that decides on them, and compare
    groups of names, with names of the same group as the control.

    Examples:

      fairprobe names --model chat:https://host/v1 --prompt screening.toml --dry-run

      fairprobe names --model my_code.py:screen --names surnames --out names.json
    """
    with report_errors():
        from fairprobe.audits.names import names_experiment
        from fairprobe.present.chat_sentences import requests_sentence
        from fairprobe.present.names_table import groups_table, sentence
        from fairprobe.storage import write_text

        options: dict[str, Any] = {"prompt": prompt, "cache": cache, "dry_run": dry_run or None}
        given = {name: value for name, value in options.items() if value is not None}
        with progress(show=not (quiet or as_json or dry_run)) as on_stage:
            found = names_experiment(
                model,
                names_set,
                cvs=cvs,
                favorable=favorable,
                seed=seed,
                progress=lambda done, total: on_stage("Asking about résumés", done, total, ""),
                **given,
            ).to_dict()
        if dry_run:
            used = found["usage"]
            write(
                requests_sentence(
                    used["requests"],
                    used["stored"],
                    used["sent"],
                    used["received"],
                    used["cost"],
                    "in the currency of [prices]",
                )
                + "\n"
            )
            return
        text = json.dumps(found, indent=1, ensure_ascii=False)
        if out is not None:
            write_text(out, text + "\n")
        if as_json:
            write_json(text + "\n")
        elif not quiet:
            errors.print(sentence(found), markup=False, highlight=False, soft_wrap=True)
            errors.print(groups_table(found).terminal())
