"""`fairprobe datasets`: list data sets. `fairprobe domain`: infer the schema of a
table.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fairprobe.cli.common import BAD_INPUT, AsJson, app, end, output, report_errors, write_json
from fairprobe.cli.inputs import TableOptions, split
from fairprobe.cli.options import Seed, grouped
from fairprobe.errors import SettingError


class _Named(TyperGroup):
    """`datasets NAME --groups` is the command `groups` of that name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] == "fetch":
            end(BAD_INPUT, "'fairprobe datasets fetch' is now: python -m papers fetch.")
        if "--groups" in args and args[0] not in self.commands:
            args = ["groups", *(word for word in args if word != "--groups")]
        return super().resolve_command(ctx, args)


datasets_app = typer.Typer(
    cls=_Named,
    help="List the packaged data sets.",
    invoke_without_command=True,
)
app.add_typer(datasets_app, name="datasets")


@datasets_app.callback()
def list_datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List the data sets: rows, attributes, sensitive attributes, licence, where they come from."""
    if context.invoked_subcommand is not None:
        return
    with report_errors():
        from fairprobe.datasets import catalogue
        from fairprobe.present.terminal import datasets_table

        entries = catalogue()
        if as_json:
            write_json(json.dumps([entry.to_dict() for entry in entries], indent=1) + "\n")
        else:
            output.print(datasets_table(entries))


@datasets_app.command()
def groups(
    name: Annotated[str, typer.Argument(help="A data set, such as adult.")],
    sensitive: Annotated[
        str, typer.Option(help="Attributes, separated by commas.", show_default="those usual")
    ] = "",
) -> None:
    """Show how large each group is in the data, and how often it has each label: the true base
    rates, before any model. 'fairprobe datasets NAME --groups' is the same.
    """
    with report_errors():
        from fairprobe.datasets import load
        from fairprobe.datasets.base_rates import base_rates
        from fairprobe.present.data_tables import base_rates_table

        data = load(name)
        for each in split(sensitive) or data.protected:
            output.print(base_rates_table(base_rates(data.with_sensitive(each))))


@app.command()
@grouped
def similar(
    table: Annotated[str, typer.Argument(help="A packaged data set, or your own table.")],
    sensitive: Annotated[str, typer.Option(help="Sensitive attributes, separated by commas.")],
    how: TableOptions,
    pairs: Annotated[int, typer.Option(help="How many pairs to show.")] = 3,
    most: Annotated[int, typer.Option(help="Compare this many people at most.")] = 20_000,
    seed: Seed = 0,
) -> None:
    """Show people in the data who are alike but for their group, and whose labels are opposite.

    A network that learns such labels learns to treat groups differently. The pairs are records of
    the table: do not pass them on.

    Example:

      fairprobe similar adult --sensitive gender
    """
    with report_errors():
        from fairprobe.present.data_tables import similar_tables
        from fairprobe.table.similar import opposite_labels

        named = how.of(table, sensitive)
        data = named.open().with_sensitive(named.names)
        found = opposite_labels(data, pairs, most=most, seed=seed)
        output.print(similar_tables(data, found))


@app.command("domain")
def write_domain_file(
    table: Annotated[str, typer.Argument(help="Your own table: a CSV or Parquet file.")],
    label: Annotated[str, typer.Option(help="The column to predict.")],
    sensitive: Annotated[str, typer.Option(help="Sensitive columns, separated by commas.")] = "",
    favourable: Annotated[str | None, typer.Option(help="The label that people want.")] = None,
    drop: Annotated[str, typer.Option(help="Columns to leave out, separated by commas.")] = "",
    keep: Annotated[
        str, typer.Option(help="Columns to keep although they look like ids, separated by commas.")
    ] = "",
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("domain.toml"),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if there is one.")
    ] = False,
) -> None:
    """Infer the schema of a table: kinds, bounds, categories and gaps of its columns. Edit the
    file, and pass it to other commands with --domain.

    Example:

      fairprobe domain my.csv --label income --sensitive sex
    """
    with report_errors():
        if out.exists() and not overwrite:
            raise SettingError(
                f"{out} exists. Name another file, or allow it to be replaced (--overwrite)."
            )
        from fairprobe.datasets import open_table, write_domain

        data = open_table(
            table,
            label=label,
            sensitive=split(sensitive),
            favourable=favourable,
            drop=split(drop),
            keep=split(keep),
        )
        write_domain(data, out)
        output.print(
            f"{len(data.domain)} attributes of {len(data):,} rows are described in {out}. Edit it,"
            " then:",
            highlight=False,
        )
        if data.origin is not None and data.origin["ids"]:
            left_out = ", ".join(data.origin["ids"])
            output.print(
                f"  Left out, because they look like ids: {left_out} (--keep keeps a column).",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
        for coupling in data.domain.couplings:
            output.print(f"  Twins: {coupling}.", markup=False, highlight=False, soft_wrap=True)
        again = shlex.join(
            ["fairprobe", "audit", table, "--sensitive", sensitive or "NAME", "--domain", str(out)]
        )
        output.print(f"  {again}", markup=False, highlight=False, soft_wrap=True)
