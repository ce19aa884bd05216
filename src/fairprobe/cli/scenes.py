"""`fairprobe scenes`: which classes a recognizer fails when the scene becomes unusual."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fairprobe.cli.common import (
    INTERRUPTED,
    NOTHING_JUDGED,
    AsJson,
    Quiet,
    app,
    command_line,
    end,
    output,
    print_run,
    progress,
    report_errors,
)
from fairprobe.cli.inputs import pairs, split
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.documents.scenes import ScenesDocument

IMAGES = (
    "A folder of pictures; or 'demo': a dozen drawn streets and a small detector that come with"
    " fairprobe."
)
ANNOTATIONS = (
    "What is in the pictures: a COCO JSON (instances, or panoptic with its PNGs beside it),"
    " Cityscapes' gtFine folder, or a folder of class masks. Without, use --segmenter."
)
DETECTOR = (
    "A recognizer under test; may be given several times: {forms}. An ONNX file has the layout that"
    " agrees with the annotated pictures, among: {layouts}. google, amazon and azure cost money;"
    " each picture is sent once."
)
SEGMENTER = (
    "A panoptic model of transformers (folder or name) that finds the objects, where there is no"
    " annotation."
)
DETECTOR_CLASSES = (
    "The classes of the ONNX files, one name a line, where a file does not name them and they are"
    " not COCO's."
)
COUNT_AS = (
    "What a recognizer names counts as a class of the annotation: bus=car,van=car. By default what"
    " the annotation's own rules say."
)
CLASSES = "The classes to mutate, with commas."
CUTOUTS = (
    "A folder label/*.png of objects to insert, with transparency, instead of the pictures' own."
)
INPAINTING = (
    "How holes are filled: exemplars (keeps texture), ns or telea (faster, they smear), or"
    " lama:FILE.onnx."
)
CLIP = (
    "The folder of a CLIP model of transformers: rates pictures by the paper's prompts, 'Realistic"
    " photo' against 'Unrealistic photo'."
)
SCORE = (
    "The least score of an object that counts, for every recognizer. By default that of the file's"
    " layout or of the service; for a function .5 if it answers in TorchVision's style, .25 in"
    " ultralytics'; its lists are taken as they are."
)
UNCHECKED = "Use recognizers even if their boxes do not agree with the annotation."
REMOTE = (
    "The Python functions query a service, as google does: the limits below hold for them, and"
    " --dry-run does not call them."
)
EXPORT = (
    "Also write the mutated pictures with updated COCO annotations into this folder, to retrain a"
    " recognizer on them."
)
DEMO = "demo"
REPEATS, DEMO_REPEATS = 5, 2
AT_ONCE = 4


class _ScenesCommand(TyperCommand):
    """Take the help of --detector from the catalogs, which are imported only for `--help`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.complete_help()
        super().format_help(ctx, formatter)

    def complete_help(self) -> None:
        from fairprobe.scenes import LAYOUTS
        from fairprobe.scenes.detectors import FORMS

        layouts = ", ".join(LAYOUTS)
        for parameter in self.params:
            if parameter.name == "detector":
                parameter.help = DETECTOR.format(forms=", ".join(FORMS), layouts=layouts)  # type: ignore[attr-defined]


KEPT = "no run was written, and finished pictures and answers are kept for the same command"


@app.command(cls=_ScenesCommand)
def scenes(
    images: Annotated[str, typer.Argument(help=IMAGES)],
    annotations: Annotated[Path | None, typer.Option(help=ANNOTATIONS)] = None,
    detector: Annotated[list[str] | None, typer.Option()] = None,
    detector_classes: Annotated[
        Path | None, typer.Option(help=DETECTOR_CLASSES, show_default="the file's, or COCO's")
    ] = None,
    score: Annotated[
        float | None, typer.Option(help=SCORE, show_default="the usual one", min=0, max=1)
    ] = None,
    unchecked: Annotated[bool, typer.Option("--unchecked", help=UNCHECKED)] = False,
    count_as: Annotated[str, typer.Option(help=COUNT_AS)] = "",
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
        typer.Option(help="coco, panoptic, cityscapes or masks.", show_default="recognized"),
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
    repeats: Annotated[
        int | None,
        typer.Option(
            help="Pictures for each insertion and rotation.",
            show_default=f"{REPEATS}; for the demo {DEMO_REPEATS}",
        ),
    ] = None,
    clusters: Annotated[int, typer.Option(help="Groups of pictures with similar contents.")] = 3,
    cluster_by: Annotated[
        str,
        typer.Option(
            help="The classes by whose numbers pictures are grouped, with commas, or 'all'.",
            show_default="those of roads",
        ),
    ] = "",
    limit: Annotated[
        int | None,
        typer.Option(help="Most scenes to use, drawn at random.", show_default="all", min=1),
    ] = None,
    containing: Annotated[
        str, typer.Option(help="Only scenes with an object of this class: 'traffic light'.")
    ] = "",
    variant: Annotated[
        str,
        typer.Option(
            help="How pictures are mutated and errors counted: default, or paper, as DistroFair"
            " prints it."
        ),
    ] = "default",
    any_angle: Annotated[
        bool,
        typer.Option("--any-angle", help="Turn objects by up to 60°, not only as can occur."),
    ] = False,
    clip: Annotated[Path | None, typer.Option(help=CLIP)] = None,
    export: Annotated[Path | None, typer.Option(help=EXPORT)] = None,
    fewest: Annotated[int, typer.Option(help="A class with fewer objects is not judged.")] = 10,
    workers: Annotated[int, typer.Option(help="Processes that make pictures.", min=1)] = 1,
    timeout: Annotated[
        float, typer.Option(help="Seconds to wait for an answer of a recognizer.")
    ] = 60.0,
    remote: Annotated[bool, typer.Option("--remote", help=REMOTE)] = False,
    per_second: Annotated[
        float | None, typer.Option(help="Most requests a second to each service.")
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option(
            help="Most requests to a service that are under way together.",
            show_default=str(AT_ONCE),
        ),
    ] = None,
    most_requests: Annotated[
        int | None,
        typer.Option(help="Most requests to all services together.", show_default="no limit"),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say how many pictures and requests it takes, and how long, and stop. Paints a few"
            " pictures; queries no service.",
        ),
    ] = False,
    price: Annotated[
        float | None, typer.Option(help="What a request costs, for --dry-run.", min=0)
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Insert, delete and turn objects in pictures until they are unusual, and see which classes a
    recognizer then fails (DistroFair).

    The run folder keeps every picture and every answer: the same command continues an interrupted
    run, and no picture is paid for twice. Only a Python function is queried again in each run,
    unless it has an attribute 'identity' (a text that changes with its answers).

    Exit codes: 0 recognizers were judged, 2 bad input, 3 nothing could be judged, 130 interrupted.

    Examples:

      fairprobe scenes demo

      fairprobe scenes photos --annotations instances.json --detector yolox_nano.onnx --classes
      person,car --out runs/street

      fairprobe scenes photos --annotations masks --detector my_code.py:detect --mutations delete
    """
    with report_errors(KEPT):
        from fairprobe.audits.scene_forecast import forecast
        from fairprobe.audits.scenes import audit_scenes
        from fairprobe.runs.stages import Stages
        from fairprobe.scenes.detectors import open_detector
        from fairprobe.scenes.plan import Settings
        from fairprobe.scenes.scene import sample_scenes

        chosen: dict[str, Any] = {
            "mutations": split(mutations),
            "classes": split(classes),
            "repeats": repeats or (DEMO_REPEATS if images == DEMO else REPEATS),
            "clusters": clusters,
            "cluster_by": split(cluster_by),
            "seed": seed,
            "inpainting": inpainting,
            "clip": clip,
            "workers": workers,
            "timeout": timeout,
            "rate": per_second,
            "at_once": AT_ONCE if at_once is None else at_once,
            "most_requests": most_requests,
            "fewest": fewest,
            "variant": variant,
            "any_angle": any_angle,
        }
        folder = out or Path("runs") / f"scenes-{Path(images).name or 'images'}"
        if not overwrite and _is_finished(folder / "audit.json"):
            raise SettingError(
                f"{folder} holds a finished run. Add --overwrite to replace it, or choose another"
                " folder with --out."
            )
        with _keeping(folder), progress(show=not quiet and not as_json) as report:
            opened = [
                open_detector(
                    text, names=_names(detector_classes), score=score, unchecked=unchecked
                )
                for text in detector or []
            ]
            pace = {
                "--per-second": per_second,
                "--at-once": at_once,
                "--most-requests": most_requests,
                "--price": price,
            }
            _declare_remote(opened, remote=remote, pace=pace)
            if price is not None and not dry_run:
                raise SettingError(
                    "--price is what --dry-run needs. Add it, or leave out the price."
                )
            if not opened and (score is not None or detector_classes is not None):
                raise SettingError("--score and --detector-classes need a --detector of your own.")
            source, detectors = _inputs(
                images, annotations, opened, segmenter, (kind, names), folder
            )
            source.counted_as = {**source.counted_as, **_classes_counted_as(count_as)}
            sample_scenes(source, limit=limit, containing=containing, seed=seed)
            if dry_run:
                settings = Settings.of(**chosen)
                expected = forecast(source, detectors, settings, Stages(report), cutouts=cutouts)
        if dry_run:
            for line in (*source.messages, *expected.sentences(price)):
                output.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)
            return
        with _keeping(folder), progress(show=not quiet and not as_json) as report:
            audit = audit_scenes(
                source,
                detectors,
                folder=folder,
                cutouts=cutouts,
                **chosen,
                title="Drawn streets" if images == DEMO else Path(images).resolve().name,
                progress=report,
            ).with_command(command_line())
            audit.save(folder)
            if export is not None:
                audit.export_coco(export)
        print_run(audit.document, folder, as_json=as_json, quiet=quiet)
        _exit(audit.document, folder, is_shown=not as_json and not quiet)


def _is_finished(path: Path) -> bool:
    """Whether there is a run that was not interrupted and judged something."""
    import msgspec

    class State(msgspec.Struct):
        partial: bool
        judged: bool = True

    try:
        state = msgspec.json.decode(path.read_bytes(), type=State)
    except (OSError, msgspec.DecodeError, RecursionError):
        return path.exists()
    return not state.partial and state.judged


@contextmanager
def _keeping(folder: Path) -> Iterator[None]:
    """End at an interrupt before anything can be judged; answers so far are kept."""
    try:
        yield
    except KeyboardInterrupt:
        end(
            INTERRUPTED,
            f"Interrupted: answers so far are in {folder}; the same command continues from there.",
        )


def _exit(document: ScenesDocument, folder: Path, *, is_shown: bool) -> None:
    """Exit with an error code if the run is not complete or could judge nothing."""
    if document.partial:
        end(
            INTERRUPTED,
            f"Interrupted: pictures and answers so far are in {folder}; the same command continues"
            " from there.",
        )
    if not document.judged:
        if is_shown:
            raise typer.Exit(NOTHING_JUDGED)
        end(NOTHING_JUDGED, document.verdict)


def _declare_remote(detectors: list[Any], *, remote: bool, pace: dict[str, Any]) -> None:
    """Take functions for services if the user says so; refuse limits that limit nothing."""
    from fairprobe.scenes.detectors.function import FunctionDetector

    functions = [one for one in detectors if isinstance(one, FunctionDetector)]
    if remote and not functions:
        raise SettingError(
            "--remote says that Python functions query a service, but no recognizer is a function."
            " Leave it out."
        )
    for one in functions:
        one.is_remote = one.is_remote or remote
    given = [option for option, value in pace.items() if value is not None]
    if given and not any(one.is_remote for one in detectors):
        hint = " If your function queries one, add --remote." if functions else ""
        raise SettingError(
            f"{', '.join(given)} would have no effect: no recognizer is a service.{hint} Otherwise"
            " leave it out."
        )


def _classes_counted_as(text: str) -> dict[str, str]:
    from fairprobe.scenes.labels import common

    return {
        common(name): common(wider)
        for name, wider in pairs(text, "--count-as", "bus=car,van=car").items()
    }


def _names(path: Path | None) -> list[str] | None:
    """One name a line."""
    if path is None:
        return None
    from fairprobe.scenes.sources.masks import read_lines

    names = read_lines(path)
    if not names:
        raise SettingError(f"{path} names no class. Expected one name a line.")
    return names


def _inputs(
    images: str,
    annotations: Path | None,
    detectors: list[Any],
    segmenter: str | None,
    form: tuple[str | None, Path | None],
    folder: Path,
) -> tuple[Any, list[Any]]:
    """The scenes and the recognizers: those of the demo, or the user's own."""
    from fairprobe.scenes.detectors import FORMS

    if images == DEMO:
        if any(given is not None for given in (annotations, segmenter, *form)):
            raise SettingError(
                f"'{DEMO}' brings its own pictures and annotations. For a folder of that name write"
                f" ./{DEMO}."
            )
        from fairprobe.scenes import demo

        images, annotations = str(demo.PICTURES), demo.ANNOTATIONS
        detectors = detectors or [demo.drawn_detector()]
    if not detectors:
        raise SettingError(f"Name a recognizer to test with --detector: {', '.join(FORMS)}.")
    if annotations is not None and segmenter is not None:
        raise SettingError("Give --annotations or --segmenter, not both.")
    if segmenter is not None:
        from fairprobe.scenes.sources.segmenter import SegmentedScenes

        return SegmentedScenes(Path(images), segmenter, cache=folder / "segments"), detectors
    if annotations is None:
        raise SettingError(
            "The places of the objects are unknown: give --annotations, or --segmenter to find"
            " them."
        )
    from fairprobe.scenes.sources import open_scenes

    kind, names = form
    return open_scenes(Path(images), annotations, kind=kind, names=names), detectors  # type: ignore[arg-type]  # checked there
