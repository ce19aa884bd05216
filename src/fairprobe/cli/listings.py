"""`fairprobe methods`, `repairs` and `formats`: what can be chosen, plug-ins included."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fairprobe.cli.common import app, output, report_errors, write, write_json

if TYPE_CHECKING:
    from fairprobe.present.listings import Listing

Form = Literal["table", "markdown", "json"]
FormOption = Annotated[
    Form, typer.Option("--format", help="A table for the terminal, markdown, or json.")
]


@app.command()
def methods(form: FormOption = "table") -> None:
    """List the search methods, with what each needs and its variants.

    The names are for the option --method of 'fairprobe audit'.
    """
    with report_errors():
        from fairprobe.present import listings

        _print(listings.methods(), form)


@app.command()
def measures(form: FormOption = "table") -> None:
    """List the measures that a policy of 'fairprobe check' can limit."""
    with report_errors():
        from fairprobe.present import listings

        _print(listings.measures(), form)


@app.command()
def repairs(form: FormOption = "table") -> None:
    """List the repairs, with their strength and variants.

    The names are for the option --with of 'fairprobe repair'.
    """
    with report_errors():
        from fairprobe.present import listings

        _print(listings.repairs(), form)


@app.command()
def formats(form: FormOption = "table") -> None:
    """List the formats of models that can be audited, with what each needs.

    They are for the option --model of 'fairprobe audit' and other commands.
    """
    with report_errors():
        from fairprobe.present import listings

        _print(listings.formats(), form)


def _print(listing: Listing, form: Form) -> None:
    if form == "json":
        write_json(json.dumps(listing.to_dicts(), indent=1, ensure_ascii=False) + "\n")
    elif form == "markdown":
        write(listing.markdown())
    else:
        output.print(listing.terminal())
