"""`fairprobe audit-images`: which changes of a sensitive attribute a face detector fails on, beside
what controls give.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from fairprobe.cli.common import (
    BAD_INPUT,
    INTERRUPTED,
    AsJson,
    Quiet,
    app,
    end,
    kindly,
    print_run,
    progress,
)
from fairprobe.cli.inputs import split

DATA = (
    "A folder of faces as CelebA, LFW, FairFace or UTKFace is laid out, or an .npz of pictures and"
    " what is known of them."
)
OTHERS = "Class folders of pictures without a face, as ImageNet has them, where the data has none."
MODEL = (
    "The detector: module:function or file.py:function that gives a torch module, or a trunk to"
    " train here (vgg16, resnet50). It is given pixels as numbers from 0 to 1."
)
WEIGHTS = (
    "safetensors for the network of module:function; for a trunk a file of Keras weights, or"
    " 'imagenet' to fetch them."
)
METHODS = "How to search, with commas: neuronfair, adf, eidig."
FACES = (
    "How many faces the search starts from, and how many held-out ones a repair is measured on; 0"
    " for all."
)
BY = "What a neuron of a convolution is: each position, or each channel, which needs little memory."
YOURS, SEARCH = "Your own detector", "The search"


@app.command("audit-images")
def audit_images(
    data: Annotated[Path, typer.Argument(help=DATA, metavar="FOLDER_OR_NPZ")],
    sensitive: Annotated[
        str, typer.Option(help="The sensitive attribute of the people: gender, race, …")
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder to write.", show_default="runs/DATA-SENSITIVE"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")
    ] = False,
    others: Annotated[Path | None, typer.Option(help=OTHERS)] = None,
    size: Annotated[
        int | None, typer.Option(help="Bring all pictures to a square of so many pixels.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Draw at most so many pictures.")] = None,
    model: Annotated[
        str | None,
        typer.Option(help=MODEL, show_default="a small one is trained", rich_help_panel=YOURS),
    ] = None,
    trunk: Annotated[
        str | None,
        typer.Option(help="The name of its trunk.", show_default="trunk", rich_help_panel=YOURS),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(help="The name of its head.", show_default="head", rich_help_panel=YOURS),
    ] = None,
    outputs: Annotated[
        str, typer.Option(help="What it answers: logits or probabilities.", rich_help_panel=YOURS)
    ] = "logits",
    weights: Annotated[str | None, typer.Option(help=WEIGHTS, rich_help_panel=YOURS)] = None,
    methods: Annotated[
        str, typer.Option(help=METHODS, rich_help_panel=SEARCH)
    ] = "neuronfair,adf,eidig",
    faces: Annotated[int, typer.Option(help=FACES, rich_help_panel=SEARCH)] = 250,
    epsilon: Annotated[
        float,
        typer.Option(
            help="The size of Δ_sens, the change of the attribute, a pixel (0 to 1).",
            rich_help_panel=SEARCH,
        ),
    ] = 0.03,
    cap: Annotated[
        float | None,
        typer.Option(
            help="Let Δ_sens grow up to this where it flips no opinion.",
            show_default="epsilon",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    smallest: Annotated[
        bool,
        typer.Option(
            "--smallest",
            help="Take the smallest change that flips each face.",
            rich_help_panel=SEARCH,
        ),
    ] = False,
    step: Annotated[
        float, typer.Option(help="The length (L2) of a step of the search.", rich_help_panel=SEARCH)
    ] = 0.15,
    iterations: Annotated[
        int, typer.Option(help="Steps of each face.", rich_help_panel=SEARCH)
    ] = 20,
    by: Annotated[str, typer.Option(help=BY, rich_help_panel=SEARCH)] = "position",
    repair: Annotated[
        bool,
        typer.Option(
            "--repair/--no-repair", help="Retrain with what was found, and measure again."
        ),
    ] = True,
    controls: Annotated[
        bool,
        typer.Option(
            "--controls/--no-controls", help="What each figure is beside; without, they say little."
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Look for pictures that a face detector judges differently when a change of a sensitive
    attribute is added (NeuronFair on images).

    Five controls run beside it and say what the same search finds where the attribute cannot be the
    reason. Pictures that cannot be used are named and left out. The run folder holds the report
    with pairs of pictures, all numbers, and the findings.

    Examples:

      fairprobe audit-images faces.npz --sensitive gender

      fairprobe audit-images UTKFace --others imagenet --size 64 --sensitive race --out runs/utk

      fairprobe audit-images faces.npz --sensitive gender --model my_code.py:detector --trunk body
      --head top
    """
    with kindly():
        from fairprobe import images

        folder = out or Path("runs") / f"{data.name.split('.')[0] or 'images'}-{sensitive}".replace(
            "/", "-"
        ).replace("\\", "-")
        with images.new_run(folder, overwrite=overwrite) as staged:
            with progress(show=not quiet and not as_json) as tell:
                done = images.audit(
                    data,
                    model,
                    sensitive,
                    others=others,
                    size=size,
                    limit=limit,
                    trunk=trunk,
                    head=head,
                    outputs=outputs,  # type: ignore[arg-type]
                    weights=weights,
                    methods=split(methods),
                    faces=faces or None,
                    epsilon=epsilon,
                    cap=cap,
                    smallest=smallest,
                    step=step,
                    iterations=iterations,
                    by=by,  # type: ignore[arg-type]
                    repair=repair,
                    controls=controls,
                    seed=seed,
                    progress=tell,
                )
            body = done.write(staged, command=shlex.join(["fairprobe", *sys.argv[1:]]))
        print_run(body, folder, as_json=as_json, quiet=quiet)
        if body["partial"]:
            found = sum(method["idis"] for method in body["generation"])
            if done.failed:
                end(BAD_INPUT, f"{body['stopped']} The run with {found:,} findings is in {folder}.")
            end(INTERRUPTED, f"Interrupted: kept all {found:,} findings until then in {folder}.")
