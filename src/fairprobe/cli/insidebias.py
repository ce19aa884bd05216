"""`fairprobe insidebias`: which groups of images a network knows less about, seen from inside."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.cli.common import AsJson, Quiet, app, kindly, output, progress, say

if TYPE_CHECKING:
    from rich.table import Table

MODEL = (
    "module:function or file.py:function that gives a torch module, or a file (.onnx, .keras) of a"
    " network for images."
)


@app.command()
def insidebias(
    model: Annotated[str, typer.Option(help=MODEL)],
    groups: Annotated[
        Path,
        typer.Option(
            help=(
                "A folder with a folder of images for each group; five images a group are a"
                " beginning."
            )
        ),
    ],
    tau: Annotated[
        float,
        typer.Option(
            help=(
                "The threshold τ of the Activation Ratio; it does not carry over between"
                " architectures."
            )
        ),
    ] = 0.8,
    layer: Annotated[
        str | None,
        typer.Option(help="The layer that decides.", show_default="the last convolutional one"),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="safetensors for the network of module:function.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result as JSON to this file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report with figures, one HTML page, to this file.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the resampled images.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare how strongly the images of each group excite a network's last convolutional layer
    (InsideBias).

    Pixels are given to the network as numbers from 0 to 1; a network that wants others scales them
    itself. Images must all have the size that the network takes. Those that cannot be used are
    named and left out.

    Examples:

      fairprobe insidebias --model my_code.py:network --weights faces.safetensors --groups faces

      fairprobe insidebias --model faces.onnx --groups faces --out bias.json --report bias.html
    """
    with kindly():
        from fairprobe.audits.insidebias import look_inside
        from fairprobe.present.insidebias_page import render_insidebias
        from fairprobe.storage import write_text

        with progress(show=not quiet and not as_json) as tell:
            body = look_inside(
                model,
                groups,
                weights=weights,
                tau=tau,
                layer=layer,
                seed=seed,
                progress=lambda done, total: tell(
                    "Looking at images", done, total, f"{done:,} of {total:,}"
                ),
            )
        for message in body["messages"]:
            say(message)
        if out is not None:
            write_text(out, json.dumps(body, indent=1, ensure_ascii=False) + "\n")
        if report is not None:
            write_text(
                report,
                render_insidebias(body | {"command": shlex.join(["fairprobe", *sys.argv[1:]])}),
            )
        if as_json:
            sys.stdout.write(json.dumps(body, indent=1) + "\n")
        elif not quiet:
            output.print(body["sentence"], markup=False, highlight=False, soft_wrap=True)
            output.print(_table(body))
            if report is not None:
                output.print(f"Report: {report}", highlight=False, markup=False, soft_wrap=True)


def _table(body: dict[str, Any]) -> Table:
    """λ of each group in each layer, and Λ."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("layer")
    for group in body["groups"]:
        table.add_column(Text(f"λ {group['name']} ({group['images']:,})"), justify="right")
    for name in ("Λ", "interval", "by chance"):
        table.add_column(name, justify="right")
    for layer in body["layers"]:
        decides = layer["name"] == body["decisive"]
        activation = [f"{value:.3g}" for value in layer["activation"].values()]
        compared = ["–", "–", "–"]
        if layer["ratio"] is not None:
            compared = [
                f"{layer['ratio']:.2f}",
                f"{layer['low']:.2f} to {layer['high']:.2f}",
                f"{layer['by_chance']:.2f}",
            ]
        table.add_row(
            *(
                Text(cell, style="bold" if decides else "")
                for cell in (layer["name"], *activation, *compared)
            )
        )
    return table
