"""`fairprobe audit-images`: which changes of a sensitive attribute a face detector fails on, beside what controls give."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.cli.common import INTERRUPTED, AsJson, Quiet, app, end, errors, kindly, output, progress
from fairprobe.cli.inputs import split

if TYPE_CHECKING:
    from rich.table import Table

DATA = "A folder of faces as CelebA, LFW, FairFace or UTKFace is laid out, or an .npz of pictures and what is known of them."
OTHERS = "Class folders of pictures without a face, as ImageNet has them, where the data has none."
MODEL = (
    "The detector: module:function or file.py:function that gives a torch module, or a trunk to train here (vgg16, resnet50). It is given "
    "pixels as numbers from 0 to 1."
)
WEIGHTS = "safetensors for the network of module:function; for a trunk a file of Keras weights, or 'imagenet' to fetch them."
METHODS = "How to search, with commas: neuronfair, adf, eidig."
FACES = "How many faces the search starts from, and how many held-out ones a repair is measured on; 0 for all."
BY = "What a neuron of a convolution is: each position, or each channel, which needs little memory."
YOURS, SEARCH = "Your own detector", "The search"


@app.command("audit-images")
def audit_images(
    data: Annotated[Path, typer.Argument(help=DATA, metavar="FOLDER_OR_NPZ")],
    sensitive: Annotated[str, typer.Option(help="The sensitive attribute of the people: gender, race, …")],
    out: Annotated[Path | None, typer.Option(help="The run folder to write.", show_default="runs/DATA-SENSITIVE")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")] = False,
    others: Annotated[Path | None, typer.Option(help=OTHERS)] = None,
    size: Annotated[int | None, typer.Option(help="Bring all pictures to a square of so many pixels.")] = None,
    limit: Annotated[int | None, typer.Option(help="Draw at most so many pictures.")] = None,
    model: Annotated[str | None, typer.Option(help=MODEL, show_default="a small one is trained", rich_help_panel=YOURS)] = None,
    trunk: Annotated[str | None, typer.Option(help="The name of its trunk.", show_default="trunk", rich_help_panel=YOURS)] = None,
    head: Annotated[str | None, typer.Option(help="The name of its head.", show_default="head", rich_help_panel=YOURS)] = None,
    outputs: Annotated[str, typer.Option(help="What it answers: logits or probabilities.", rich_help_panel=YOURS)] = "logits",
    weights: Annotated[str | None, typer.Option(help=WEIGHTS, rich_help_panel=YOURS)] = None,
    methods: Annotated[str, typer.Option(help=METHODS, rich_help_panel=SEARCH)] = "neuronfair,adf,eidig",
    faces: Annotated[int, typer.Option(help=FACES, rich_help_panel=SEARCH)] = 250,
    epsilon: Annotated[
        float, typer.Option(help="The size of Δ_sens, the change of the attribute, a pixel (0 to 1).", rich_help_panel=SEARCH)
    ] = 0.03,
    smallest: Annotated[
        bool, typer.Option("--smallest", help="Take the smallest change that flips each face.", rich_help_panel=SEARCH)
    ] = False,
    step: Annotated[float, typer.Option(help="The length (L2) of a step of the search.", rich_help_panel=SEARCH)] = 0.15,
    iterations: Annotated[int, typer.Option(help="Steps of each face.", rich_help_panel=SEARCH)] = 20,
    by: Annotated[str, typer.Option(help=BY, rich_help_panel=SEARCH)] = "position",
    repair: Annotated[bool, typer.Option("--repair/--no-repair", help="Retrain with what was found, and measure again.")] = True,
    controls: Annotated[
        bool, typer.Option("--controls/--no-controls", help="What each figure is beside; without, they say little.")
    ] = True,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Look for pictures that a face detector judges differently when a change of a sensitive attribute is added (NeuronFair on images).

    Five controls run beside it and say what the same search finds where the attribute cannot be the reason. Pictures that cannot be used
    are named and left out. The run folder holds the report with pairs of pictures, all numbers, and the findings.

    Examples:

      fairprobe audit-images faces.npz --sensitive gender

      fairprobe audit-images UTKFace --others imagenet --size 64 --sensitive race --out runs/utk

      fairprobe audit-images faces.npz --sensitive gender --model my_code.py:detector --trunk body --head top
    """
    with kindly():
        from fairprobe import images

        folder = out or Path("runs") / f"{data.name.split('.')[0] or 'images'}-{sensitive}".replace("/", "-").replace("\\", "-")
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
        _show(body, folder, as_json=as_json, quiet=quiet)
        if body["partial"]:
            found = sum(method["idis"] for method in body["generation"])
            end(INTERRUPTED, f"Interrupted: kept all {found:,} findings until then in {folder}.")


def _show(body: dict[str, Any], folder: Path, *, as_json: bool, quiet: bool) -> None:
    for message in body["messages"]:
        errors.print(message, markup=False, highlight=False, soft_wrap=True)
    if as_json:
        sys.stdout.write(json.dumps(body, indent=1) + "\n")
    elif not quiet:
        for sentence in (body["verdict"], *body["sentences"]):
            output.print(sentence, markup=False, highlight=False, soft_wrap=True)
        for table in (_searches(body), _repair(body)):
            if table is not None:
                output.print()
                output.print(table)
        output.print(f"Report: {folder / 'report.html'}", highlight=False, markup=False, soft_wrap=True)


def _searches(body: dict[str, Any]) -> Table | None:
    """What each method found, and the same with other changes in the place of the attribute's."""
    if not body["generation"]:
        return None
    controls = [control for control in body["controls"] if control["key"] in ("random_signs", "shuffled_labels")]
    table = _table("search", "differing", "at seed", "GSR", "L2", "ms", *(control["name"] for control in controls))
    for method in body["generation"]:
        others = (method["controls"].get(control["key"]) for control in controls)
        table.add_row(
            method["title"],
            _share(method["success"]),
            f"{method['at_seed']:,}",
            f"{method['gsr']:.3f}",
            "–" if method["l2"] is None else f"{method['l2']['mean']:.2f}",
            f"{method['ms_an_image']:.0f}",
            *("–" if other is None else _share(other["success"]) for other in others),
        )
    return table


def _repair(body: dict[str, Any]) -> Table | None:
    """The detector before and after the repair, and after the same fine-tuning without IDIs."""
    repair = body["repair"]
    if repair is None:
        return None
    columns = {"before": repair["before"], "without IDIs": repair["without_idis"], "repaired": repair["after"]}
    states = {name: state for name, state in columns.items() if state is not None}
    table = _table("held out", *states)
    for name, key in {"accuracy": "accuracy", "detection rate": "detection_rate", "pairs that differ": "differing"}.items():
        table.add_row(name, *(_share(state[key]) for state in states.values()))
    needed = [state["attack"]["l2"] for state in states.values()]
    table.add_row("L2 a new attack needs", *("–" if l2 is None else f"{l2['estimate']:.2f}" for l2 in needed))
    table.add_row("AUC", *(f"{state['auc']:.3f}" for state in states.values()))
    return table


def _table(first: str, *others: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _share(rate: dict[str, Any]) -> str:
    return f"{rate['estimate']:.1%}"
