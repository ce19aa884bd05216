"""`fairprobe scenes`: which classes of objects a recogniser fails when the scene becomes unusual; `fairprobe survey`: how real it looks."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.cli.common import INTERRUPTED, AsJson, Quiet, app, end, errors, kindly, output, progress
from fairprobe.cli.inputs import split
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from rich.table import Table

    from fairprobe.scenes.auditing import SceneAudit

IMAGES = "A folder of pictures; or 'demo', which draws its own streets and trains a small detector on them."
ANNOTATIONS = (
    "What is in the pictures: a COCO JSON (instances, or panoptic with its PNGs beside it), Cityscapes' gtFine folder, or a folder of "
    "class masks. Without, use --segmenter."
)
DETECTOR = (
    "A recogniser under test; may be given several times. file.onnx (YOLOX, SSD, FastestDet), detr:FOLDER_OR_NAME, module:function, "
    "file.py:function, google, amazon, azure (these cost money; each picture is asked once)."
)
SEGMENTER = "A panoptic model of transformers (folder or name) that finds the objects, where there is no annotation."
CLASSES = "The classes to mutate, with commas."
CUTOUTS = "A folder label/*.png of objects to insert, with transparency, instead of the pictures' own."
INPAINTING = "How holes are filled: exemplars (keeps texture), ns or telea (faster, they smear), or lama:FILE (TorchScript or ONNX)."
DEMO = "demo"
DRAWN, DRAWN_SEED = 40, 2026  # scenes that the demo's detector was not trained on


@app.command()
def scenes(
    images: Annotated[str, typer.Argument(help=IMAGES)],
    annotations: Annotated[Path | None, typer.Option(help=ANNOTATIONS)] = None,
    detector: Annotated[list[str] | None, typer.Option(help=DETECTOR)] = None,
    out: Annotated[Path | None, typer.Option(help="The run folder to write.", show_default="runs/scenes-IMAGES")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run in the folder; its pictures and answers are used.")
    ] = False,
    kind: Annotated[str | None, typer.Option(help="coco, panoptic, cityscapes or masks.", show_default="recognised")] = None,
    names: Annotated[Path | None, typer.Option(help="The classes of the masks' numbers, as JSON.", show_default="CamVid's")] = None,
    segmenter: Annotated[str | None, typer.Option(help=SEGMENTER)] = None,
    mutations: Annotated[str, typer.Option(help="What to do to the scenes, with commas.")] = "insert,delete,rotate",
    classes: Annotated[str, typer.Option(help=CLASSES, show_default="those of the paper")] = "",
    cutouts: Annotated[Path | None, typer.Option(help=CUTOUTS)] = None,
    inpainting: Annotated[str, typer.Option(help=INPAINTING)] = "exemplars",
    repeats: Annotated[int, typer.Option(help="Pictures for each insertion and rotation.")] = 5,
    clusters: Annotated[int, typer.Option(help="Groups of pictures with similar contents.")] = 3,
    fewest: Annotated[int, typer.Option(help="A class with fewer objects is not judged.")] = 10,
    workers: Annotated[int, typer.Option(help="Processes that paint.", min=1)] = 1,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer of a recogniser.")] = 60.0,
    per_second: Annotated[float | None, typer.Option(help="Most requests a second to google, amazon or azure.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Insert, delete and turn objects in pictures until they are unusual, and see which classes a recogniser then fails (DistroFair).

    The run folder keeps every picture and every answer: what was interrupted goes on where it stopped, and no picture is paid for twice.

    Examples:

      fairprobe scenes demo

      fairprobe scenes photos --annotations instances.json --detector yolox_nano.onnx --classes person,car --out runs/street

      fairprobe scenes photos --annotations masks --detector my_code.py:detect --mutations delete
    """
    with kindly():
        from fairprobe.scenes import audit

        folder = _folder(out or Path("runs") / f"scenes-{Path(images).name or 'images'}", overwrite=overwrite)
        with _kept(folder), progress(show=not quiet and not as_json) as tell:
            source, detectors = _inputs(images, annotations, detector or [], segmenter, (kind, names), folder, tell)
            done = audit(
                source,
                detectors,
                mutations=split(mutations),  # type: ignore[arg-type]  # checked there
                classes=split(classes) or None,
                repeats=repeats,
                clusters=clusters,
                seed=seed,
                inpainting=inpainting,
                cutouts=cutouts,
                folder=folder,
                workers=workers,
                timeout=timeout,
                rate=per_second,
                fewest=fewest,
                title="Drawn streets" if images == DEMO else Path(images).resolve().name,
                progress=tell,
            )
            done.document["command"] = shlex.join(["fairprobe", *sys.argv[1:]])
            done.save(folder)
        _show(done, folder, as_json=as_json, quiet=quiet)
        if done.document["partial"]:
            end(INTERRUPTED, f"Interrupted: what was painted and answered until then is in {folder}; the same command goes on from there.")


@app.command()
def survey(
    run: Annotated[Path, typer.Argument(help="A run folder, as written by 'fairprobe scenes'. Its survey.html asks people.")],
    answers: Annotated[list[Path], typer.Argument(help="The CSV files that participants downloaded from the page.")],
    as_json: AsJson = False,
) -> None:
    """Evaluate what people say of the pictures of a run: how real they look, and how likely their scenes are.

    Send RUN/survey.html to participants. They answer in the browser, without any connection, and send back the file that it gives them.

    Example:

      fairprobe survey runs/street answers/*.csv
    """
    with kindly():
        from fairprobe.scenes.study import evaluate_survey

        body = evaluate_survey(run, answers)
        for message in body["messages"]:
            errors.print(message, markup=False, highlight=False, soft_wrap=True)
        if as_json:
            sys.stdout.write(json.dumps(body, indent=1) + "\n")
            return
        output.print(f"{len(body['valid'])} of {body['participants']} participants counted vehicles well enough to be heard.")
        output.print(_realism(body))


def _folder(folder: Path, *, overwrite: bool) -> Path:
    if not overwrite and _is_finished(folder / "audit.json"):
        raise SettingError(f"{folder} holds a finished run. Add --overwrite to replace it, or choose another folder with --out.")
    return folder


def _is_finished(kept: Path) -> bool:
    """A run that was interrupted is gone on with."""
    try:
        return not json.loads(kept.read_text(encoding="utf-8"))["partial"]
    except (OSError, ValueError, TypeError, KeyError):
        return kept.exists()


@contextmanager
def _kept(folder: Path) -> Iterator[None]:
    """An interrupt before there is anything to judge: what was answered is not lost."""
    try:
        yield
    except KeyboardInterrupt:
        end(INTERRUPTED, f"Interrupted: the answers until then are kept in {folder}; the same command goes on from there.")


def _inputs(
    images: str,
    annotations: Path | None,
    detectors: list[str],
    segmenter: str | None,
    form: tuple[str | None, Path | None],
    folder: Path,
    tell: Any,
) -> tuple[Any, list[Any]]:
    """The scenes and the recognisers: those of the demo, or the user's own."""
    if images == DEMO:
        if annotations is not None or segmenter is not None:
            raise SettingError(f"'{DEMO}' draws its own scenes. For a folder of that name write ./{DEMO}.")
        from fairprobe.scenes.drawn import DrawnScenes
        from fairprobe.scenes.drawn_detector import drawn_detector

        own: list[Any] = list(detectors)
        if not own:
            own = [drawn_detector(progress=lambda done, total: tell("Training a small detector", done, total, f"{done:,} of {total:,}"))]
        return DrawnScenes(DRAWN, seed=DRAWN_SEED), own
    if not detectors:
        raise SettingError("Name a recogniser to test with --detector: file.onnx, module:function, detr:NAME, google, amazon or azure.")
    from fairprobe.scenes.detectors import open_detector

    opened = [open_detector(text) for text in detectors]
    if annotations is not None and segmenter is not None:
        raise SettingError("Give --annotations or --segmenter, not both.")
    if segmenter is not None:
        from fairprobe.scenes.segmenter import Segmented

        return Segmented(Path(images), segmenter, cache=folder / "segments"), opened
    if annotations is None:
        raise SettingError("It must be known where the objects are: give --annotations, or --segmenter to find them.")
    from fairprobe.scenes.sources import open_scenes

    kind, names = form
    return open_scenes(Path(images), annotations, kind=kind, names=names), opened  # type: ignore[arg-type]  # checked there


def _show(done: SceneAudit, folder: Path, *, as_json: bool, quiet: bool) -> None:
    body = done.document
    for message in body["messages"]:
        errors.print(message, markup=False, highlight=False, soft_wrap=True)
    for failure in body["failures"]:
        errors.print(f"{failure['count']} pictures without an answer: {failure['reason']}", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        sys.stdout.write(json.dumps(body, indent=1) + "\n")
    elif not quiet:
        for sentence in (body["verdict"], *body["details"]):
            output.print(sentence, markup=False, highlight=False, soft_wrap=True)
        output.print()
        output.print(_classes(body))
        output.print(f"Report: {folder / 'report.html'}", highlight=False, markup=False, soft_wrap=True)


def _classes(body: dict[str, Any]) -> Table:
    """The classes of each recogniser above the mean, by oracle."""
    table = _table("recogniser", "oracle", "mutation", "classes", "above the mean", "evidence holds", "error rate", "images")
    for one in body["results"]:
        if one["kind"] == "ood":
            table.add_row(
                one["detector"],
                one["oracle"],
                one["operator"],
                f"{len(one['classes'])}",
                f"{len(one['violations'])}",
                ", ".join(one["unfair"]) or "–",
                f"{one['error_rate']:.1%}",
                f"{one['tests']:,}",
            )
    return table


def _realism(body: dict[str, Any]) -> Table:
    """Mean ratings from 0 to 10, of real and mutated pictures and by mutation; the last row in per cent of the real ones."""
    columns = list(body["rows"][0]["realism"])
    table = _table("pictures", "question", *columns)
    for row in body["rows"]:
        for question in ("realism", "likelihood"):
            means = (row[question].get(column, {}).get("mean") for column in columns)
            table.add_row(row["name"], question, *("–" if mean is None else f"{mean:.2f}" for mean in means))
    return table


def _table(*head: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for at, name in enumerate(head):
        table.add_column(name, justify="left" if at == 0 else "right", no_wrap=at < 2)
    return table
