"""`fairprobe insidebias`: whether a network reacts differently to groups of images, seen from
inside.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairprobe.cli.common import (
    NOTHING_JUDGED,
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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairprobe.documents.insidebias import InsideBiasDocument, NotJudged

MODEL = (
    "module:function or file.py:function that returns a torch module, a file (.onnx, .pt2, .keras)"
    " of a network for images, or a folder that save_pretrained of transformers wrote."
)

CRITERIA = (
    "CSV with the column file (path below --groups) and a column for each criterion (gender, age"
    " band) that holds the image's group; then --groups is any folder of images, and each criterion"
    " is compared, or named as not judged where it has too few images. --out and --report write a"
    " file for each."
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
                " from 0): how often the network is right, in each group and beside the commonest"
                " label."
            )
        ),
    ] = None,
    criteria: Annotated[Path | None, typer.Option(help=CRITERIA)] = None,
    confident: Annotated[
        float | None,
        typer.Option(
            help="Only images of which the network is surer than this, such as 0.99.", min=0, max=1
        ),
    ] = None,
    over_maps: Annotated[
        str,
        typer.Option(help="Over the maps of a layer: maximum, or average (the paper tried both)."),
    ] = "maximum",
    tau: Annotated[
        float | None,
        typer.Option(
            help=(
                "Show the paper's rule as well: biased if Λ is below this, such as 0.8 (the paper"
                " prints none). Beside it stands how often chance alone gives such a Λ."
            ),
            min=0,
            max=1,
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
    less. Vision transformers are refused: they have no feature maps. Of a network with both, the
    layers with tokens are left out, and the last one with feature maps decides.

    Pixels are given to the network as numbers from 0 to 1; a network that expects others must scale
    them itself. All images must have the size that the network takes. Images that cannot be used
    are named and left out.

    Examples:

      fairprobe insidebias --model my_code.py:network --weights faces.safetensors --groups faces

      fairprobe insidebias --model faces.onnx --groups faces --out bias.json --report bias.html

      fairprobe insidebias --model faces.onnx --groups faces --criteria people.csv --confident 0.99
    """
    with report_errors():
        from fairprobe.audits.insidebias import look_inside
        from fairprobe.documents import encode
        from fairprobe.documents.insidebias import InsideBiasDocument

        with progress(show=not quiet and not as_json) as on_stage:
            documents = look_inside(
                model,
                groups,
                weights=weights,
                layer=layer,
                labels=labels,
                criteria=criteria,
                confident=confident,
                over_maps=over_maps,  # type: ignore[arg-type]  # checked there
                tau=tau,
                references=reference or (),
                reference_weights=reference_weights or (),
                seed=seed,
                command=command_line(),
                progress=on_stage,
            )
        judged = [one for one in documents if isinstance(one, InsideBiasDocument)]
        for message in dict.fromkeys(message for one in judged for message in one.messages):
            say(message)
        _write(documents, out, report)
        if as_json:
            bodies = [encode(document).decode().rstrip() for document in documents]
            write_json(f"[{', '.join(bodies)}]\n" if criteria is not None else f"{bodies[0]}\n")
        elif not quiet:
            for one in judged:
                _print(one)
                if report is not None:
                    place = _named(report, one.criterion)
                    output.print(f"Report: {place}", highlight=False, markup=False, soft_wrap=True)
        if not judged:
            raise typer.Exit(NOTHING_JUDGED)


def _write(
    documents: Sequence[InsideBiasDocument | NotJudged], out: Path | None, report: Path | None
) -> None:
    """Write the files, and say of which criterion there are too few images."""
    from fairprobe.documents import encode
    from fairprobe.documents.insidebias import InsideBiasDocument
    from fairprobe.present.insidebias_page import render_insidebias
    from fairprobe.storage import write_text

    for document in documents:
        if out is not None:
            write_text(_named(out, document.criterion), encode(document).decode())
        if not isinstance(document, InsideBiasDocument):
            say(f"Not judged by {document.criterion}: {document.reason}")
        elif report is not None:
            write_text(_named(report, document.criterion), render_insidebias(document))


def _named(path: Path, criterion: str) -> Path:
    """The file of a criterion."""
    plain = re.sub(r"[^\w.-]+", "-", criterion)
    return path.with_name(f"{path.stem}-{plain}{path.suffix}") if criterion else path


def _print(document: InsideBiasDocument) -> None:
    from fairprobe.present.insidebias_page import answers_table, layers_table, paper_rule

    if document.criterion:
        output.print(document.criterion, style="bold", markup=False, highlight=False)
    for warning in document.warnings:
        output.print(f"Warning: {warning}", markup=False, highlight=False, soft_wrap=True)
    for said in filter(None, [document.sentence, paper_rule(document)]):
        output.print(said, markup=False, highlight=False, soft_wrap=True)
    if document.p_adjusted is not None:
        output.print(f"p, adjusted for all criteria: {document.p_adjusted:.3f}", highlight=False)
    output.print(layers_table(document).terminal())
    answers = answers_table(document)
    if answers.rows:
        output.print(answers.terminal())
