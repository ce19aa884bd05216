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
    app,
    command_line,
    output,
    progress,
    report_errors,
    say,
    write_json,
)
from fairprobe.options import AUDIT, DATA, MEASURE, MODEL, RUN, AsJson, Quiet, Seed, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairprobe.images.insidebias_run import InsideBiasRun, NotJudged

NETWORK = (
    "module:function or file.py:function that returns a torch module, a file (.onnx, .pt2, .keras)"
    " of a network for images, or a folder that save_pretrained of transformers wrote."
)

CRITERIA = (
    "CSV with the column file (path below --groups) and a column for each criterion (gender, age"
    " band) that holds the image's group; then --groups is any folder of images, and each criterion"
    " is compared, or named as not judged where it has too few images. --out and --report write a"
    " file for each."
)


@app.command(rich_help_panel=AUDIT)
def insidebias(
    model: Annotated[str, option(MODEL, NETWORK)],
    groups: Annotated[
        Path,
        option(
            DATA,
            (
                "A folder with a folder of images for each group; few images show only large"
                " differences."
            ),
        ),
    ],
    layer: Annotated[
        str | None,
        option(MODEL, "The layer that decides.", show_default="the last convolutional one"),
    ] = None,
    weights: Annotated[
        Path | None, option(MODEL, "safetensors for the network of module:function.")
    ] = None,
    labels: Annotated[
        Path | None,
        option(
            DATA,
            (
                "CSV with the columns file (path below --groups) and label (number of the class"
                " from 0): how often the network is right, in each group and beside the commonest"
                " label."
            ),
        ),
    ] = None,
    criteria: Annotated[Path | None, option(DATA, CRITERIA)] = None,
    confident: Annotated[
        float | None,
        option(
            MEASURE,
            "Only images of which the network is surer than this, such as 0.99.",
            min=0,
            max=1,
        ),
    ] = None,
    over_maps: Annotated[
        str,
        option(MEASURE, "Over the maps of a layer: maximum, or average (the paper tried both)."),
    ] = "maximum",
    tau: Annotated[
        float | None,
        option(
            MEASURE,
            (
                "Show the paper's rule as well: biased if Λ is below this, such as 0.8 (the paper"
                " prints none). Beside it stands how often chance alone gives such a Λ."
            ),
            min=0,
            max=1,
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        option(
            MODEL,
            (
                "A network of the same architecture, trained on balanced data, given like --model."
                " Repeat it: a group is named only where several agree."
            ),
        ),
    ] = None,
    reference_weights: Annotated[
        list[Path] | None,
        option(MODEL, "safetensors for each reference network, in the same order."),
    ] = None,
    out: Annotated[Path | None, option(RUN, "Write the result as JSON to this file.")] = None,
    report: Annotated[
        Path | None, option(RUN, "Write a report with figures, one HTML page, to this file.")
    ] = None,
    seed: Seed = 0,
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
        from fairprobe.images.insidebias_run import InsideBiasRun, look_inside
        from fairprobe.results import encode

        with progress(show=not quiet and not as_json) as on_stage:
            runs = look_inside(
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
        judged = [run for run in runs if isinstance(run, InsideBiasRun)]
        for message in dict.fromkeys(message for run in judged for message in run.messages):
            say(message)
        _write(runs, out, report, is_shown=not quiet and not as_json)
        if as_json:
            bodies = [encode(run).decode().rstrip() for run in runs]
            write_json(f"[{', '.join(bodies)}]\n" if criteria is not None else f"{bodies[0]}\n")
        if not judged:
            raise typer.Exit(NOTHING_JUDGED)


def _write(
    runs: Sequence[InsideBiasRun | NotJudged],
    out: Path | None,
    report: Path | None,
    *,
    is_shown: bool,
) -> None:
    """Write the files, print what was found, and name the criteria with too few images."""
    from fairprobe.images.insidebias_report import report as report_of
    from fairprobe.images.insidebias_run import InsideBiasRun
    from fairprobe.report.html import page
    from fairprobe.report.terminal import terminal
    from fairprobe.results import encode
    from fairprobe.storage import write_text

    for run in runs:
        if out is not None:
            write_text(_named(out, run.criterion), encode(run).decode())
        if not isinstance(run, InsideBiasRun):
            say(f"Not judged by {run.criterion}: {run.reason}")
            continue
        section, path = report_of(run), None
        if report is not None:
            path = _named(report, run.criterion)
            write_text(path, page(section))
        if is_shown:
            if run.criterion:
                output.print(run.criterion, style="bold", markup=False, highlight=False)
            output.print(terminal(section), crop=False)
            if path is not None:
                output.print(f"Report: {path}", highlight=False, markup=False, soft_wrap=True)


def _named(path: Path, criterion: str) -> Path:
    """Return the file of a criterion."""
    plain = re.sub(r"[^\w.-]+", "-", criterion)
    return path.with_name(f"{path.stem}-{plain}{path.suffix}") if criterion else path
