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
    app,
    command_line,
    end,
    print_run,
    progress,
    report_errors,
    say,
)
from fairprobe.cli.inputs import split
from fairprobe.options import (
    AUDIT,
    DATA,
    MEASURE,
    MODEL,
    SEARCH,
    AsJson,
    DryRun,
    ImageSettings,
    Out,
    Overwrite,
    Quiet,
    Seed,
    Set,
    choice,
    grouped,
    option,
    read_settings,
)

if TYPE_CHECKING:
    from fairprobe.images.settings import Expected

PICTURES = (
    "A folder of faces in the layout of CelebA, LFW, FairFace or UTKFace, or an .npz of pictures"
    " and their attributes."
)
MODEL_OF = (
    "The detector or classifier: module:function or file.py:function that returns a torch module, a"
    " file (.onnx, .pt2), a transformers folder, or a trunk to train here (vgg16, resnet50). Its"
    " inputs are pixels from 0 to 1."
)
TARGET = "The attribute that the classifier predicts (age, smiling), instead of face or no face."
LABELS = "CSV with the column file and one for each further attribute of a folder's pictures."
FACES = "Faces to search from, and held-out faces to measure a repair on; 0 for all."


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """The pictures and their attributes."""

    others: Annotated[
        Path | None, option(DATA, "Class folders without faces, if the data has none.")
    ] = None
    size: Annotated[int | None, option(DATA, "Resize all to a square of so many pixels.")] = None
    limit: Annotated[int | None, option(DATA, "Most pictures to use, drawn at random.")] = None
    labels: Annotated[Path | None, option(DATA, LABELS)] = None


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The network that is audited, or how one is trained."""

    model: Annotated[str | None, option(MODEL, MODEL_OF, show_default="a small one is trained")] = (
        None
    )
    trunk: Annotated[str | None, option(MODEL, "The name of its trunk.", show_default="found")] = (
        None
    )
    head: Annotated[str | None, option(MODEL, "The name of its head.", show_default="found")] = None
    outputs: Annotated[str, choice(MODEL, "Its outputs.", "logits", "probabilities")] = "logits"
    weights: Annotated[
        Path | None, option(MODEL, "safetensors for module:function, or for a trunk.")
    ] = None
    target: Annotated[str | None, option(MODEL, TARGET)] = None
    classes: Annotated[
        str | None,
        option(MODEL, "Its classes in order, with commas.", show_default="as in the data"),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `audit_images`."""
        return vars(self) | {"classes": split(self.classes) if self.classes else None}


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How pictures are changed and searched, and what is done with the findings."""

    methods: Annotated[str, option(SEARCH, "neuronfair, adf, eidig, with commas.")] = (
        "neuronfair,adf,eidig"
    )
    faces: Annotated[int, option(SEARCH, FACES)] = 250
    variant: Annotated[
        str, choice(SEARCH, "paper: plain gradients and 40 iterations.", "default", "paper")
    ] = "default"
    set_: Set = None
    also: Annotated[str, option(MEASURE, "Attributes that may change along, with commas.")] = ""
    repair: Annotated[
        bool,
        option(MEASURE, "Retrain with the findings, and measure again.", "--repair/--no-repair"),
    ] = True
    controls: Annotated[
        bool,
        option(
            MEASURE,
            "Run the controls; without them the figures say little.",
            "--controls/--no-controls",
        ),
    ] = True
    seed: Seed = 0

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `audit_images`."""
        given = dict(vars(self))
        more, of_search = read_settings(ImageSettings, given.pop("set_"))
        lists = {"methods": split(self.methods), "also": split(self.also)}
        return given | vars(more) | lists | {"settings": of_search, "faces": self.faces or None}


@app.command("audit-images", rich_help_panel=AUDIT)
@grouped
def audit_images(
    data: Annotated[Path, typer.Argument(help=PICTURES, metavar="FOLDER_OR_NPZ")],
    sensitive: Annotated[str, option(DATA, "The people's sensitive attribute: gender, race, …")],
    pictures: PictureOptions,
    network: NetworkOptions,
    search: SearchOptions,
    out: Out = None,
    overwrite: Overwrite = False,
    dry_run: DryRun = False,
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
