"""`fairprobe scenes`: which classes of objects a recogniser fails when the scene becomes unusual;
`fairprobe survey`: how real it looks.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from fairprobe.cli.common import (
    INTERRUPTED,
    NOTHING_JUDGED,
    AsJson,
    Quiet,
    app,
    end,
    kindly,
    output,
    print_run,
    progress,
    say,
)
from fairprobe.cli.inputs import split
from fairprobe.errors import SettingError

IMAGES = (
    "A folder of pictures; or 'demo', which draws its own streets and trains a small detector on"
    " them."
)
ANNOTATIONS = (
    "What is in the pictures: a COCO JSON (instances, or panoptic with its PNGs beside it),"
    " Cityscapes' gtFine folder, or a folder of class masks. Without, use --segmenter."
)
DETECTOR = (
    "A recogniser under test; may be given several times. file.onnx (YOLOX, SSD, FastestDet;"
    " raw:file.onnx or decoded:file.onnx says what the boxes of a YOLOX are where that cannot be"
    " seen), detr:FOLDER_OR_NAME, module:function, file.py:function, google, amazon, azure (these"
    " cost money; each picture is asked once)."
)
SEGMENTER = (
    "A panoptic model of transformers (folder or name) that finds the objects, where there is no"
    " annotation."
)
CLASSES = "The classes to mutate, with commas."
CUTOUTS = (
    "A folder label/*.png of objects to insert, with transparency, instead of the pictures' own."
)
INPAINTING = (
    "How holes are filled: exemplars (keeps texture), ns or telea (faster, they smear), or"
    " lama:FILE (TorchScript or ONNX)."
)
DEMO = "demo"
DRAWN, DRAWN_SEED = 40, 2026  # scenes that the demo's detector was not trained on


@app.command()
def scenes(
    images: Annotated[str, typer.Argument(help=IMAGES)],
    annotations: Annotated[Path | None, typer.Option(help=ANNOTATIONS)] = None,
    detector: Annotated[list[str] | None, typer.Option(help=DETECTOR)] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder to write.", show_default="runs/scenes-IMAGES"),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace the run in the folder; its pictures and answers are used."
        ),
    ] = False,
    kind: Annotated[
        str | None,
        typer.Option(help="coco, panoptic, cityscapes or masks.", show_default="recognised"),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(help="The classes of the masks' numbers, as JSON.", show_default="CamVid's"),
    ] = None,
    segmenter: Annotated[str | None, typer.Option(help=SEGMENTER)] = None,
    mutations: Annotated[
        str, typer.Option(help="What to do to the scenes, with commas.")
    ] = "insert,delete,rotate",
    classes: Annotated[str, typer.Option(help=CLASSES, show_default="those of the paper")] = "",
    cutouts: Annotated[Path | None, typer.Option(help=CUTOUTS)] = None,
    inpainting: Annotated[str, typer.Option(help=INPAINTING)] = "exemplars",
    repeats: Annotated[int, typer.Option(help="Pictures for each insertion and rotation.")] = 5,
    clusters: Annotated[int, typer.Option(help="Groups of pictures with similar contents.")] = 3,
    fewest: Annotated[int, typer.Option(help="A class with fewer objects is not judged.")] = 10,
    workers: Annotated[int, typer.Option(help="Processes that paint.", min=1)] = 1,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for an answer of a recogniser.")
    ] = 60.0,
    per_second: Annotated[
        float | None, typer.Option(help="Most requests a second to google, amazon or azure.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Insert, delete and turn objects in pictures until they are unusual, and see which classes a
    recogniser then fails (DistroFair).

    The run folder keeps every picture and every answer: what was interrupted goes on where it
    stopped, and no picture is paid for twice. Only a Python function is asked anew in each run,
    unless it has an attribute 'identity' (a text that changes with its answers).

    Exit codes: 0 recognisers were judged, 2 bad input, 3 nothing could be judged, 130 interrupted.

    Examples:

      fairprobe scenes demo

      fairprobe scenes photos --annotations instances.json --detector yolox_nano.onnx --classes
      person,car --out runs/street

      fairprobe scenes photos --annotations masks --detector my_code.py:detect --mutations delete
    """
    with kindly():
        from fairprobe.scenes import audit

        folder = _folder(
            out or Path("runs") / f"scenes-{Path(images).name or 'images'}", overwrite=overwrite
        )
        with _kept(folder), progress(show=not quiet and not as_json) as tell:
            source, detectors = _inputs(
                images, annotations, detector or [], segmenter, (kind, names), folder, tell
            )
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
        print_run(done.document, folder, as_json=as_json, quiet=quiet)
        _end(done.document, folder, is_told=not as_json and not quiet)


@app.command()
def survey(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run folder, as written by 'fairprobe scenes'. Its survey.html asks people."
        ),
    ],
    answers: Annotated[
        list[Path], typer.Argument(help="The CSV files that participants downloaded from the page.")
    ],
    as_json: AsJson = False,
) -> None:
    """Evaluate what people say of the pictures of a run: how real they look, and how likely their
    scenes are.

    Send RUN/survey.html to participants. They answer in the browser, without any connection, and
    send back the file that it gives them.

    Example:

      fairprobe survey runs/street answers/*.csv
    """
    with kindly():
        from fairprobe.present.terminal import survey_table
        from fairprobe.scenes.study import evaluate_survey

        body = evaluate_survey(run, answers)
        for message in body["messages"]:
            say(message)
        if as_json:
            sys.stdout.write(json.dumps(body, indent=1) + "\n")
            return
        output.print(
            f"{len(body['valid'])} of {body['participants']} participants counted vehicles well"
            " enough to be heard."
        )
        output.print(survey_table(body))


def _folder(folder: Path, *, overwrite: bool) -> Path:
    if not overwrite and _is_finished(folder / "audit.json"):
        raise SettingError(
            f"{folder} holds a finished run. Add --overwrite to replace it, or choose another"
            " folder with --out."
        )
    return folder


def _is_finished(kept: Path) -> bool:
    """A run that was interrupted, or that could judge nothing, is gone on with."""
    try:
        body = json.loads(kept.read_text(encoding="utf-8"))
        return not body["partial"] and body.get("judged", True)
    except (OSError, ValueError, TypeError, KeyError):
        return kept.exists()


@contextmanager
def _kept(folder: Path) -> Iterator[None]:
    """An interrupt before there is anything to judge: what was answered is not lost."""
    try:
        yield
    except KeyboardInterrupt:
        end(
            INTERRUPTED,
            f"Interrupted: what could be kept is in {folder}; the same command goes on from there.",
        )


def _end(body: dict[str, Any], folder: Path, *, is_told: bool) -> None:
    """The exit code of a run that is whole and could judge something is 0; of any other it must not
    be.
    """
    if body["partial"]:
        end(
            INTERRUPTED,
            f"Interrupted: what was painted and answered until then is in {folder}; the same"
            " command goes on from there.",
        )
    if not body["judged"]:
        if is_told:
            raise typer.Exit(NOTHING_JUDGED)
        end(NOTHING_JUDGED, body["verdict"])


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
            raise SettingError(
                f"'{DEMO}' draws its own scenes. For a folder of that name write ./{DEMO}."
            )
        from fairprobe.scenes.drawn import DrawnScenes
        from fairprobe.scenes.drawn_detector import drawn_detector

        own: list[Any] = list(detectors)
        if not own:
            own = [
                drawn_detector(
                    progress=lambda done, total: tell(
                        "Training a small detector", done, total, f"{done:,} of {total:,}"
                    )
                )
            ]
        return DrawnScenes(DRAWN, seed=DRAWN_SEED), own
    if not detectors:
        raise SettingError(
            "Name a recogniser to test with --detector: file.onnx, module:function, detr:NAME,"
            " google, amazon or azure."
        )
    from fairprobe.scenes.detectors import open_detector

    opened = [open_detector(text) for text in detectors]
    if annotations is not None and segmenter is not None:
        raise SettingError("Give --annotations or --segmenter, not both.")
    if segmenter is not None:
        from fairprobe.scenes.segmenter import Segmented

        return Segmented(Path(images), segmenter, cache=folder / "segments"), opened
    if annotations is None:
        raise SettingError(
            "It must be known where the objects are: give --annotations, or --segmenter to find"
            " them."
        )
    from fairprobe.scenes.sources import open_scenes

    kind, names = form
    return open_scenes(Path(images), annotations, kind=kind, names=names), opened  # type: ignore[arg-type]  # checked there
