"""`fairprobe insidebias`: whether a network reacts differently to groups of images, seen from
inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairprobe.cli.common import (
    AsJson,
    Quiet,
    app,
    command_line,
    output,
    progress,
    report_errors,
    say,
    write_json,
)

MODEL = (
    "module:function or file.py:function that returns a torch module, or a file (.onnx, .keras) of"
    " a network for images."
)


@app.command()
def insidebias(
    model: Annotated[str, typer.Option(help=MODEL)],
    groups: Annotated[
        Path,
        typer.Option(
            help=(
                "A folder with a folder of images for each group; few images show only large"
                " differences."
            )
        ),
    ],
    layer: Annotated[
        str | None,
        typer.Option(help="The layer that decides.", show_default="the last convolutional one"),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="safetensors for the network of module:function.")
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help=(
                "CSV with the columns file (path below --groups) and label (number of the class"
                " from 0), to see whether the network is better than the commonest label."
            )
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "A network of the same architecture, trained on balanced data, given like --model."
                " Repeat it: a group is named only where several agree."
            )
        ),
    ] = None,
    reference_weights: Annotated[
        list[Path] | None,
        typer.Option(help="safetensors for each reference network, in the same order."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result as JSON to this file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report with figures, one HTML page, to this file.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The seed of the resampling.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare how strongly the images of each group activate a network's last convolutional layer
    (InsideBias).

    The result is the Activation Ratio Λ with a p-value, beside Λ with brightness and contrast held
    equal. It says whether the network reacts differently to the groups, not which of them it knows
    less. Vision transformers are refused: they have no feature maps.

    Pixels are given to the network as numbers from 0 to 1; a network that expects others must scale
    them itself. All images must have the size that the network takes. Images that cannot be used
    are named and left out.

    Examples:

      fairprobe insidebias --model my_code.py:network --weights faces.safetensors --groups faces

      fairprobe insidebias --model faces.onnx --groups faces --out bias.json --report bias.html
    """
    with report_errors():
        from fairprobe.audits.insidebias import look_inside
        from fairprobe.documents import encode
        from fairprobe.present.insidebias_page import layers_table, render_insidebias
        from fairprobe.storage import write_text

        with progress(show=not quiet and not as_json) as on_stage:
            document = look_inside(
                model,
                groups,
                weights=weights,
                layer=layer,
                labels=labels,
                references=reference or (),
                reference_weights=reference_weights or (),
                seed=seed,
                command=command_line(),
                progress=on_stage,
            )
        for message in document.messages:
            say(message)
        if out is not None:
            write_text(out, encode(document).decode())
        if report is not None:
            write_text(report, render_insidebias(document))
        if as_json:
            write_json(encode(document).decode())
        elif not quiet:
            for warning in document.warnings:
                output.print(f"Warning: {warning}", markup=False, highlight=False, soft_wrap=True)
            output.print(document.sentence, markup=False, highlight=False, soft_wrap=True)
            output.print(layers_table(document).terminal())
            if report is not None:
                output.print(f"Report: {report}", highlight=False, markup=False, soft_wrap=True)
