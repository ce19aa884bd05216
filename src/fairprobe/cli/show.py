"""`fairprobe show` and `fairprobe list`: look at a run, and at what can be chosen by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fairprobe.cli.common import app, output, print_run, report_errors, say, write, write_json
from fairprobe.errors import SettingError
from fairprobe.options import LOOK, RUN, SETTINGS, declared_settings, option

if TYPE_CHECKING:
    from fairprobe.present.listings import Listing

Form = Literal["terminal", "card", "bias-audit", "evidence", "json", "html"]
Kind = Literal["methods", "measures", "repairs", "formats", "datasets", "settings"]
FORM = (
    "terminal: the summary. card: Markdown for a model card. bias-audit: the table of selection"
    " rates and impact ratios. evidence: for regulators, with hashes and slots marked “complete"
    " elsewhere”; it draws no legal conclusion. json, html: all of it."
)


@app.command(rich_help_panel=LOOK)
def show(
    run: Annotated[Path, typer.Argument(help="A run folder, of any command that writes one.")],
    form: Annotated[Form, option(RUN, FORM, "--as")] = "terminal",
    out: Annotated[
        Path | None, option(RUN, "The file to write.", show_default="standard output")
    ] = None,
) -> None:
    """Show a run: in the terminal, or as a card, a bias audit, evidence, JSON or a web page.

    Examples:

      fairprobe show runs/adult-gender

      fairprobe show runs/adult-gender --as card >> MODEL_CARD.md

      fairprobe show runs/adult-gender --as evidence --out evidence.md
    """
    with report_errors():
        from fairprobe.runs.store import read_run

        if form == "terminal":
            if out is not None:
                raise SettingError("--out needs another form than the terminal: --as card.")
            print_run(read_run(run), run, as_json=False, quiet=False)
            return
        text = _rendered(run, form)
        if out is not None:
            from fairprobe.storage import write_text

            write_text(out, text)
            say(f"Written to {out}.")
        elif form == "json":
            write_json(text)
        else:
            write(text)


def _rendered(folder: Path, form: Form) -> str:
    from fairprobe.report import html
    from fairprobe.report.markdown import markdown
    from fairprobe.results import encode
    from fairprobe.runs.kinds import report_of
    from fairprobe.runs.store import hashed_files, read_repairable_run, read_run

    run = read_run(folder)
    if form == "json":
        return encode(run).decode()
    if form == "html":
        return html.page(report_of(run))
    if form == "card":
        return markdown(report_of(run))
    from fairprobe.table.evidence import bias_audit, evidence

    table = read_repairable_run(folder)
    if form == "bias-audit":
        return markdown(bias_audit(table))
    return markdown(evidence(table, hashed_files(folder)), depth=1)


@app.command("list", rich_help_panel=LOOK)
def list_parts(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    form: Annotated[
        Literal["terminal", "markdown", "json"], option(RUN, "How to print it.", "--as")
    ] = "terminal",
) -> None:
    """List what can be chosen by name, plug-ins included.

    Search methods (audit --method), measures (of a policy), repairs (repair --with), formats of
    models (--model), packaged data sets, and the settings of --set.

    Example:

      fairprobe list methods
    """
    with report_errors():
        if kind == "datasets" and form != "markdown":
            _print_datasets(as_json=form == "json")
            return
        listing = _listing(kind)
        if form == "json":
            write_json(json.dumps(listing.to_dicts(), indent=1, ensure_ascii=False) + "\n")
        elif form == "markdown":
            write(listing.markdown())
        else:
            output.print(listing.terminal())


def _listing(kind: Kind) -> Listing:
    from fairprobe.present import listings

    if kind == "settings":
        return listings.Listing(
            [
                (
                    f"fairprobe {command}",
                    "--set NAME=VALUE",
                    "",
                    {"settings": [str(item) for item in declared_settings(declared).values()]},
                )
                for command, declared in SETTINGS.items()
            ]
        )
    if kind == "datasets":
        from fairprobe.datasets import catalogue

        return listings.Listing(
            [
                (
                    entry.name,
                    entry.title,
                    entry.card.about,
                    {"rows": f"{entry.rows:,}", "sensitive": ", ".join(entry.protected)},
                )
                for entry in catalogue()
            ]
        )
    listing: Listing = getattr(listings, kind)()
    return listing


def _print_datasets(*, as_json: bool) -> None:
    from fairprobe.datasets import catalogue
    from fairprobe.present.terminal import datasets_table

    if as_json:
        write_json(json.dumps([entry.to_dict() for entry in catalogue()], indent=1) + "\n")
    else:
        output.print(datasets_table(catalogue()))
