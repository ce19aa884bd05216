"""`fairprobe evidence`: a run as evidence for a file that others keep."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairprobe.cli.common import app, report_errors, say, write


@app.command()
def evidence(
    run: Annotated[Path, typer.Argument(help="A run folder, as written by 'fairprobe audit'.")],
    out: Annotated[
        Path | None, typer.Option(help="The file to write.", show_default="standard output")
    ] = None,
) -> None:
    """Print a run as evidence for regulators, in Markdown: a dated manifest with hashes, the table
    of a bias audit, sections for the EU AI Act's technical documentation, and a bias profile.
    Slots marked "complete elsewhere" are for you. It draws no legal conclusion.

    Examples:

      fairprobe evidence runs/adult-gender --out evidence.md
    """
    with report_errors():
        from fairprobe.report.markdown import markdown
        from fairprobe.runs.store import hashed_files, read_repairable_run
        from fairprobe.storage import write_text
        from fairprobe.table.evidence import evidence as written

        text = markdown(written(read_repairable_run(run), hashed_files(run)), depth=1)
        if out is None:
            write(text)
            return
        write_text(out, text)
        say(f"Written to {out}.")
