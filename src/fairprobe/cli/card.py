"""`fairprobe card`: a run as Markdown, for a model card or a bias audit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairprobe.cli.common import app, errors, report_errors, write


@app.command()
def card(
    run: Annotated[Path, typer.Argument(help="A run folder, as written by 'fairprobe audit'.")],
    out: Annotated[
        Path | None, typer.Option(help="The file to write.", show_default="standard output")
    ] = None,
    table: Annotated[
        bool,
        typer.Option(
            "--table", help="The table of a bias audit: selection rates and impact ratios."
        ),
    ] = False,
) -> None:
    """Print a run as Markdown: a section for a model card, or the table of a bias audit.

    Examples:

      fairprobe card runs/adult-gender >> MODEL_CARD.md

      fairprobe card runs/adult-gender --table --out bias-audit.md
    """
    with report_errors():
        from fairprobe.report.markdown import markdown
        from fairprobe.runs.store import read_table_run
        from fairprobe.storage import write_text
        from fairprobe.table.evidence import bias_audit
        from fairprobe.table.report import report

        document = read_table_run(run)
        text = markdown(bias_audit(document) if table else report(document))
        if out is None:
            write(text)
            return
        write_text(out, text)
        errors.print(f"Written to {out}.", markup=False, highlight=False, soft_wrap=True)
