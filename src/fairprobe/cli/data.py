"""`fairprobe data`: look at a table before a model is audited on it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from fairprobe.cli.common import Commands, app, output, report_errors
from fairprobe.cli.inputs import NamedTable, split
from fairprobe.errors import SettingError
from fairprobe.options import (
    DATA,
    LOOK,
    MEASURE,
    RUN,
    Drop,
    Favorable,
    Seed,
    Sensitive,
    TableOptions,
    grouped,
    option,
)

data_app = typer.Typer(
    cls=Commands,
    help="Look at a table: its groups, its schema, similar people with opposite labels.",
    no_args_is_help=True,
)
app.add_typer(data_app, name="data", rich_help_panel=LOOK)


@data_app.command()
def groups(
    name: Annotated[str, typer.Argument(help="A packaged data set, such as adult.")],
    sensitive: Annotated[
        str, option(DATA, "Attributes, separated by commas.", show_default="those usual")
    ] = "",
) -> None:
    """Show how large each group is in the data, and how often it has each label: the true base
    rates, before any model.
    """
    with report_errors():
        from fairprobe.datasets import load
        from fairprobe.datasets.base_rates import base_rates
        from fairprobe.present.data_tables import base_rates_table

        data = load(name)
        for attribute in split(sensitive) or data.protected:
            output.print(base_rates_table(base_rates(data.with_sensitive(attribute))))


@data_app.command()
@grouped
def similar(
    table: Annotated[str, typer.Argument(help="A packaged data set, or your own table.")],
    sensitive: Sensitive,
    how: TableOptions,
    pairs: Annotated[int, option(MEASURE, "How many pairs to show.")] = 3,
    most: Annotated[int, option(MEASURE, "Compare this many people at most.")] = 20_000,
    seed: Seed = 0,
) -> None:
    """Show people in the data who are alike but for their group, and whose labels are opposite.

    A network that learns such labels learns to treat groups differently. The pairs are records of
    the table: do not pass them on.

    Example:

      fairprobe data similar adult --sensitive gender
    """
    with report_errors():
        from fairprobe.present.data_tables import similar_tables
        from fairprobe.table.similar import opposite_labels

        named = NamedTable(table, sensitive, how)
        data = named.open().with_sensitive(named.names)
        found = opposite_labels(data, pairs, most=most, seed=seed)
        output.print(similar_tables(data, found))


@data_app.command()
def schema(
    table: Annotated[str, typer.Argument(help="Your own table: a CSV or Parquet file.")],
    label: Annotated[str, option(DATA, "The column to predict.")],
    sensitive: Annotated[str, option(DATA, "Sensitive columns, separated by commas.")] = "",
    favorable: Favorable = None,
    drop: Drop = "",
    keep: Annotated[str, option(DATA, "Columns to keep although they look like ids (a,b).")] = "",
    out: Annotated[Path, option(RUN, "The file to write.")] = Path("domain.toml"),
    overwrite: Annotated[bool, option(RUN, "Replace the file.", "--overwrite")] = False,
) -> None:
    """Infer the schema of a table: kinds, bounds, categories and gaps of its columns. Edit the
    file, and pass it to other commands with --domain.

    Example:

      fairprobe data schema my.csv --label income --sensitive sex
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
            favourable=favorable,
            drop=split(drop),
            keep=split(keep),
        )
        write_domain(data, out)
        command = ["fairprobe", "audit", table, "--sensitive", sensitive or "NAME"]
        left_out = ", ".join(data.origin["ids"]) if data.origin is not None else ""
        lines = [
            f"{len(data.domain)} attributes of {len(data):,} rows are described in {out}. Edit it,"
            " then:"
        ]
        if left_out:
            lines += [
                f"  Left out, because they look like ids: {left_out} (--keep keeps a column)."
            ]
        lines += [f"  Twins: {coupling}." for coupling in data.domain.couplings]
        for line in [*lines, f"  {shlex.join([*command, '--domain', str(out)])}"]:
            output.print(line, markup=False, highlight=False, soft_wrap=True)
