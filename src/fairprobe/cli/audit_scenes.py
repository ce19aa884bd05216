"""`fairprobe audit-scenes`: which classes a recognizer fails when the scene becomes unusual."""

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
    app,
    command_line,
    end,
    output,
    print_run,
    progress,
    report_errors,
)
from fairprobe.cli.inputs import pairs, split
from fairprobe.errors import SettingError, StorageError
from fairprobe.options import (
    AUDIT,
    DATA,
    MEASURE,
    MODEL,
    RUN,
    SEARCH,
    AsJson,
    Out,
    Quiet,
    Seed,
    option,
)

if TYPE_CHECKING:
    from fairprobe.scenes.audit import ScenesRun
    from fairprobe.scenes.detectors.base import Detector
    from fairprobe.scenes.scene import Scenes

IMAGES = (
    "A folder of pictures; or 'demo': a dozen drawn streets and a small detector that come with"
    " fairprobe."
)
ANNOTATIONS = (
    "What is in the pictures: a COCO JSON (instances, or panoptic with its PNGs next to it),"
    " Cityscapes' gtFine folder, or a folder of class masks. Without, use --segmenter."
)
SEGMENTER = (
    "A panoptic model of transformers (folder or name) that finds the objects if there is no"
    " annotation."
)
COUNT_AS = (
    "Classes of a recognizer that count as a class of the annotation: bus=car,van=car. By default"
    " by the annotation's own rules."
)
DETECTOR = (
    "A recognizer under test; may be given several times: {forms}. An ONNX file has the layout that"
    " agrees with the annotated pictures, among: {layouts}. google, amazon and azure cost money;"
    " each picture is sent once."
)
DETECTOR_CLASSES = (
    "The classes of the ONNX files, one name a line, if a file does not name them and they are not"
    " COCO's."
)
SCORE = (
    "The least score of an object that counts, for every recognizer. By default that of the file's"
    " layout or of the service; for a function .5 if it answers in TorchVision's style, .25 in"
    " ultralytics'; its lists are taken as they are."
)
REMOTE = (
    "The Python functions query a service, as google does: limits on requests apply to them, and"
    " --dry-run does not call them."
)
CLIP = (
    "The folder of a CLIP model of transformers: rates pictures by the paper's prompts, 'Realistic"
    " photo' against 'Unrealistic photo'."
)
SET = (
    "A setting, repeatable: clusters=3 groups of similar pictures, cluster_by=car,person or all,"
    " inpainting=exemplars (or ns, telea, lama:FILE.onnx), any_angle=true (turn objects by up to"
    " 60°), timeout=60 seconds, and for services rate=5 requests a second, at_once=4."
)
DRY_RUN = (
    "Say how many pictures and requests it takes, and how long, and stop. Paints a few pictures;"
    " queries no service."
)
EXPORT = "Also write the mutated pictures with updated COCO annotations into this folder."
DEMO, DEMO_REPEATS, REPEATS = "demo", 2, 5
KEPT = "no run was written, and finished pictures and answers are kept for the same command"


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


@app.command("audit-scenes", cls=_ScenesCommand, rich_help_panel=AUDIT)
def audit_scenes(
    images: Annotated[str, typer.Argument(help=IMAGES)],
    annotations: Annotated[Path | None, option(DATA, ANNOTATIONS)] = None,
    kind: Annotated[
        str | None,
        option(DATA, "coco, panoptic, cityscapes or masks.", show_default="recognized"),
    ] = None,
    names: Annotated[
        Path | None,
        option(DATA, "The classes of the masks' numbers, as JSON.", show_default="CamVid's"),
    ] = None,
    segmenter: Annotated[str | None, option(DATA, SEGMENTER)] = None,
    count_as: Annotated[str, option(DATA, COUNT_AS)] = "",
    limit: Annotated[
        int | None, option(DATA, "Most scenes to use, drawn at random.", min=1)
    ] = None,
    containing: Annotated[
        str, option(DATA, "Only scenes with an object of this class: 'traffic light'.")
    ] = "",
    detector: Annotated[list[str] | None, option(MODEL, "")] = None,
    detector_classes: Annotated[Path | None, option(MODEL, DETECTOR_CLASSES)] = None,
    score: Annotated[float | None, option(MODEL, SCORE, min=0, max=1)] = None,
    unchecked: Annotated[
        bool,
        option(
            MODEL,
            "Use recognizers even if their boxes do not agree with the annotation.",
            "--unchecked",
        ),
    ] = False,
    remote: Annotated[bool, option(MODEL, REMOTE, "--remote")] = False,
    fewest: Annotated[
        int, option(MEASURE, "A class with fewer objects is not judged.", metavar="N")
    ] = 10,
    clip: Annotated[Path | None, option(MEASURE, CLIP)] = None,
    mutations: Annotated[
        str, option(SEARCH, "The mutations of the scenes, with commas.")
    ] = "insert,delete,rotate",
    classes: Annotated[
        str, option(SEARCH, "The classes to mutate, with commas.", show_default="the paper's")
    ] = "",
    repeats: Annotated[
        int | None,
        option(
            SEARCH,
            "Pictures for each insertion and rotation.",
            show_default=f"{REPEATS}; for the demo {DEMO_REPEATS}",
        ),
    ] = None,
    cutouts: Annotated[
        Path | None,
        option(SEARCH, "A folder label/*.png of objects to insert, with transparency."),
    ] = None,
    variant: Annotated[
        str, option(SEARCH, "default, or paper: mutate and count errors as DistroFair does.")
    ] = "default",
    setting: Annotated[list[str] | None, option(SEARCH, SET, "--set", metavar="X=Y")] = None,
    out: Out = None,
    overwrite: Annotated[
        bool,
        option(
            RUN,
            "Replace the run in the folder; its pictures and answers are used.",
            "--overwrite",
        ),
    ] = False,
    export: Annotated[Path | None, option(RUN, EXPORT)] = None,
    workers: Annotated[int, option(RUN, "Processes that make pictures.", min=1)] = 1,
    most_requests: Annotated[
        int | None, option(RUN, "Most requests to all services together.")
    ] = None,
    dry_run: Annotated[bool, option(RUN, DRY_RUN, "--dry-run")] = False,
    price: Annotated[
        float | None, option(RUN, "What a request costs, for --dry-run.", min=0)
    ] = None,
    seed: Seed = 0,
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

      fairprobe audit-scenes demo

      fairprobe audit-scenes photos --annotations instances.json --detector yolox_nano.onnx
      --classes person,car --out runs/street

      fairprobe audit-scenes photos --annotations masks --detector my_code.py:detect --mutations
      delete
    """
    with report_errors(KEPT):
        from fairprobe.runs.stages import Stages
        from fairprobe.scenes.audit import audit_scenes as audit
        from fairprobe.scenes.forecast import forecast
        from fairprobe.scenes.plan import Settings, read_settings
        from fairprobe.scenes.scene import sample_scenes

        chosen = read_settings(setting or [])
        pace = {f"--set {name}": chosen.get(name) for name in ("rate", "at_once")}
        pace |= {"--most-requests": most_requests, "--price": price}
        chosen |= {
            "mutations": split(mutations),
            "classes": split(classes),
            "repeats": repeats or (DEMO_REPEATS if images == DEMO else REPEATS),
            "seed": seed,
            "clip": clip,
            "workers": workers,
            "most_requests": most_requests,
            "fewest": fewest,
            "variant": variant,
        }
        folder = out or Path("runs") / f"scenes-{Path(images).name or 'images'}"
        if not overwrite and _is_finished(folder):
            raise SettingError(
                f"{folder} contains a finished run. Add --overwrite to replace it, or choose"
                " another folder with --out."
            )
        is_shown = not quiet and not as_json
        with _keeping(folder), progress(show=is_shown) as on_stage:
            detectors = _detectors(detector or [], detector_classes, score, unchecked=unchecked)
            _declare_remote(detectors, remote=remote, pace=pace)
            if price is not None and not dry_run:
                raise SettingError("--price needs --dry-run. Add it, or leave out the price.")
            source, detectors = _inputs(
                images, annotations, detectors, segmenter, (kind, names), folder
            )
            source.count_as(pairs(count_as, "--count-as", "bus=car,van=car"))
            sample_scenes(source, limit=limit, containing=containing, seed=seed)
            if dry_run:
                settings = Settings.of(**chosen)
                expected = forecast(source, detectors, settings, Stages(on_stage), cutouts=cutouts)
        if dry_run:
            for line in (*source.messages, *expected.sentences(price)):
                output.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)
            return
        with _keeping(folder), progress(show=is_shown) as on_stage:
            done = audit(
                source,
                detectors,
                folder=folder,
                cutouts=cutouts,
                **chosen,
                title="Drawn streets" if images == DEMO else Path(images).resolve().name,
                progress=on_stage,
            ).with_command(command_line())
            done.save(folder)
            if export is not None:
                done.export_coco(export)
        print_run(done.run, folder, as_json=as_json, quiet=quiet)
        _exit(done.run, folder, is_shown=is_shown)


def _is_finished(folder: Path) -> bool:
    """Return True if the folder has a run that was not interrupted and judged something."""
    from fairprobe.runs.store import AUDIT, read_run

    try:
        run = read_run(folder)
    except StorageError:
        return (folder / AUDIT).exists()
    return not getattr(run, "stopped", None) and getattr(run, "judged", True)


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


def _exit(run: ScenesRun, folder: Path, *, is_shown: bool) -> None:
    """Exit with an error code if the run is not complete or could judge nothing."""
    from fairprobe.runs.store import verdict_of

    if run.stopped is not None:
        end(
            INTERRUPTED,
            f"Interrupted: pictures and answers so far are in {folder}; the same command continues"
            " from there.",
        )
    if not run.judged:
        if is_shown:
            raise typer.Exit(NOTHING_JUDGED)
        end(NOTHING_JUDGED, verdict_of(run))


def _declare_remote(detectors: list[Detector], *, remote: bool, pace: dict[str, Any]) -> None:
    """Treat functions as services if the user says so; reject limits that limit nothing."""
    from fairprobe.scenes.detectors.function import FunctionDetector

    functions = [detector for detector in detectors if isinstance(detector, FunctionDetector)]
    if remote and not functions:
        raise SettingError(
            "--remote says that Python functions query a service, but no recognizer is a function."
            " Leave it out."
        )
    for function in functions:
        function.is_remote = function.is_remote or remote
    limits = [option for option, value in pace.items() if value is not None]
    if limits and not any(detector.is_remote for detector in detectors):
        hint = " If your function queries one, add --remote." if functions else ""
        raise SettingError(
            f"{', '.join(limits)} would have no effect: no recognizer is a service.{hint} Otherwise"
            " leave it out."
        )


def _detectors(
    texts: list[str], classes: Path | None, score: float | None, *, unchecked: bool
) -> list[Detector]:
    from fairprobe.scenes.detectors import open_detector
    from fairprobe.scenes.sources.masks import read_lines

    if not texts and (score is not None or classes is not None):
        raise SettingError("--score and --detector-classes need a --detector of your own.")
    names = None if classes is None else read_lines(classes)
    if names == []:
        raise SettingError(f"{classes} names no class. Expected one name a line.")
    return [open_detector(text, names=names, score=score, unchecked=unchecked) for text in texts]


def _inputs(
    images: str,
    annotations: Path | None,
    detectors: list[Detector],
    segmenter: str | None,
    form: tuple[str | None, Path | None],
    folder: Path,
) -> tuple[Scenes, list[Detector]]:
    """Open the scenes and the recognizers: those of the demo, or user-supplied ones."""
    from fairprobe.scenes.detectors import FORMS

    if images == DEMO:
        if any(option is not None for option in (annotations, segmenter, *form)):
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
            "The positions of the objects are unknown: give --annotations, or --segmenter to find"
            " them."
        )
    from fairprobe.scenes.sources import open_scenes

    kind, names = form
    return open_scenes(Path(images), annotations, kind=kind, names=names), detectors  # type: ignore[arg-type]  # checked there
