"""`fairprobe audit-images`: how a face detector reacts to a change of a sensitive attribute, beside
what controls give.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.cli.common import (
    BAD_INPUT,
    INTERRUPTED,
    OK,
    AsJson,
    Quiet,
    app,
    command_line,
    end,
    print_run,
    progress,
    report_errors,
    say,
)
from fairprobe.cli.inputs import split
from fairprobe.cli.options import Overwrite, Seed, grouped

if TYPE_CHECKING:
    from fairprobe.images.settings import Expected

DATA = (
    "A folder of faces in the layout of CelebA, LFW, FairFace or UTKFace, or an .npz of pictures"
    " and their attributes."
)
OTHERS = "Class folders of pictures without a face, as in ImageNet, if the data has none."
MODEL = (
    "The detector or classifier: module:function or file.py:function that returns a torch module, a"
    " file (.onnx, .pt2), a folder that save_pretrained of transformers wrote, or a trunk to train"
    " here (vgg16, resnet50). Its inputs are pixels from 0 to 1."
)
WEIGHTS = (
    "A safetensors file for the network of module:function, or of pretrained weights for a trunk."
)
TARGET = (
    "The attribute that the classifier should say (age, smiling), instead of face or no face; other"
    " than the sensitive one."
)
SET = (
    "A setting of the search, by its name or the paper's letter: step, max_iter, momentum (mu),"
    " random_share (p_r), r_step, gradient. May be given several times."
)
ALSO = (
    "Other attributes, separated by commas: whether the change of the sensitive one changes them as"
    " well."
)
LABELS = (
    "CSV with the column file and a column for each further attribute of a folder's pictures, such"
    " as the race of CelebA's people."
)
CLASSES = "The names of the network's outputs in their order, separated by commas."
TRUNK = "The name of its trunk: its output is what the attribute is learned from."
HEAD = "The name of its head: what it gets is what the attribute is learned from."
METHODS = "The search methods, separated by commas: neuronfair, adf, eidig."
FACES = (
    "The number of faces to search from, and of held-out faces to measure a repair on; 0 for all."
)
BY = "What counts as a neuron of a convolution: each position, or each channel (less memory)."
YOURS, SEARCH = "Your own network", "The search"


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """Which pictures, and what is known of them."""

    others: Annotated[Path | None, typer.Option(help=OTHERS)] = None
    size: Annotated[
        int | None, typer.Option(help="Resize all pictures to a square of this many pixels.")
    ] = None
    limit: Annotated[
        int | None, typer.Option(help="Use at most this many pictures, drawn at random.")
    ] = None
    labels: Annotated[Path | None, typer.Option(help=LABELS)] = None


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The network that is audited, or how one is trained."""

    model: Annotated[
        str | None,
        typer.Option(help=MODEL, show_default="a small one is trained", rich_help_panel=YOURS),
    ] = None
    trunk: Annotated[
        str | None,
        typer.Option(help=TRUNK, show_default="found", rich_help_panel=YOURS),
    ] = None
    head: Annotated[
        str | None,
        typer.Option(help=HEAD, show_default="found", rich_help_panel=YOURS),
    ] = None
    outputs: Annotated[
        str, typer.Option(help="Its outputs: logits or probabilities.", rich_help_panel=YOURS)
    ] = "logits"
    weights: Annotated[Path | None, typer.Option(help=WEIGHTS, rich_help_panel=YOURS)] = None
    target: Annotated[str | None, typer.Option(help=TARGET, rich_help_panel=YOURS)] = None
    classes: Annotated[
        str | None,
        typer.Option(help=CLASSES, show_default="as in the data", rich_help_panel=YOURS),
    ] = None
    optimizer: Annotated[
        str,
        typer.Option(help="What trains a network here: adam, or sgd as in the paper."),
    ] = "adam"

    def arguments(self) -> dict[str, Any]:
        """As `audit_images` takes them."""
        return vars(self) | {"classes": split(self.classes) if self.classes else None}


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How pictures are changed and searched, and what is done with the findings."""

    methods: Annotated[str, typer.Option(help=METHODS, rich_help_panel=SEARCH)] = (
        "neuronfair,adf,eidig"
    )
    faces: Annotated[int, typer.Option(help=FACES, rich_help_panel=SEARCH)] = 250
    epsilon: Annotated[
        float,
        typer.Option(
            help="The size of Δ_sens, the change of the attribute, per pixel (0 to 1).",
            rich_help_panel=SEARCH,
        ),
    ] = 0.03
    cap: Annotated[
        float | None,
        typer.Option(
            help="Let Δ_sens grow up to this size for faces that it does not flip.",
            show_default="epsilon",
            rich_help_panel=SEARCH,
        ),
    ] = None
    smallest: Annotated[
        bool,
        typer.Option(
            "--smallest",
            help="Use the smallest change that flips each face.",
            rich_help_panel=SEARCH,
        ),
    ] = False
    step: Annotated[
        float, typer.Option(help="The length (L2) of a search step.", rich_help_panel=SEARCH)
    ] = 0.15
    iterations: Annotated[
        int, typer.Option(help="Search steps per face.", rich_help_panel=SEARCH)
    ] = 20
    by: Annotated[str, typer.Option(help=BY, rich_help_panel=SEARCH)] = "position"
    variant: Annotated[
        str,
        typer.Option(
            help="default, or paper: plain gradients and 40 iterations, as printed.",
            rich_help_panel=SEARCH,
        ),
    ] = "default"
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help=SET, metavar="NAME=VALUE", rich_help_panel=SEARCH),
    ] = None
    also: Annotated[str, typer.Option(help=ALSO, rich_help_panel=SEARCH)] = ""
    repair: Annotated[
        bool,
        typer.Option("--repair/--no-repair", help="Retrain with the findings, and measure again."),
    ] = True
    controls: Annotated[
        bool,
        typer.Option(
            "--controls/--no-controls",
            help="Run the controls; without them the figures say little.",
        ),
    ] = True
    seed: Seed = 0

    def arguments(self) -> dict[str, Any]:
        """As `audit_images` takes them."""
        from fairprobe.search.settings import parsed

        given = dict(vars(self))
        given["settings"] = parsed(given.pop("set_") or [])
        lists = {"methods": split(self.methods), "also": split(self.also)}
        return given | lists | {"faces": self.faces or None}


@app.command("audit-images")
@grouped
def audit_images(
    data: Annotated[Path, typer.Argument(help=DATA, metavar="FOLDER_OR_NPZ")],
    sensitive: Annotated[
        str, typer.Option(help="The sensitive attribute of the people: gender, race, …")
    ],
    pictures: PictureOptions,
    network: NetworkOptions,
    search: SearchOptions,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder to write.", show_default="runs/DATA-SENSITIVE"),
    ] = None,
    overwrite: Overwrite = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say where the network is divided and what the audit would take, and end.",
        ),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find pictures that a face detector or classifier judges differently when a change of a
    sensitive attribute is added (NeuronFair on images).

    Five controls show what the same search finds where the attribute cannot be the reason. Pictures
    that cannot be used are named and left out. Before it begins, the audit says where it divides
    the network into trunk and head, and what time and memory it may take. The run folder holds the
    report with pairs of pictures, all numbers, the findings, and the networks that were trained.

    Examples:

      fairprobe audit-images faces.npz --sensitive gender

      fairprobe audit-images UTKFace --others imagenet --size 64 --sensitive race --out runs/utk

      fairprobe audit-images faces.npz --sensitive gender --model my_code.py:detector --head top

      fairprobe audit-images faces --sensitive race --model age.onnx --target age --dry-run
    """
    with report_errors():
        from fairprobe.images.audit import audit_images as audit_pictures
        from fairprobe.images.report import expected_lines
        from fairprobe.runs.store import RunFolder

        name = f"{data.name.split('.')[0] or 'images'}-{sensitive}"
        folder = out or Path("runs") / name.replace("/", "-").replace("\\", "-")
        is_shown = not quiet and not as_json

        def expect(expected: Expected) -> None:
            if is_shown or dry_run:
                for line in expected_lines(expected):
                    say(line)
            if dry_run:
                raise typer.Exit(OK)

        with RunFolder(folder, overwrite=overwrite) as run:
            with progress(show=is_shown) as on_stage:
                audit = audit_pictures(
                    data,
                    sensitive=sensitive,
                    **vars(pictures),
                    **network.arguments(),
                    **search.arguments(),
                    progress=on_stage,
                    expect=expect,
                )
            document = run.fill(audit, command=command_line())
        print_run(document, folder, as_json=as_json, quiet=quiet)
        strict, loose = (
            sum(map(len, found))
            for found in (audit.strict_findings.values(), audit.findings.values())
        )
        found = f"{strict:,} findings ({loose:,} loosely counted)"
        if audit.failed:
            end(BAD_INPUT, f"{audit.stopped} The run with {found} is in {folder}.")
        if audit.stopped:
            end(INTERRUPTED, f"Interrupted: {found} until then are in {folder}.")
