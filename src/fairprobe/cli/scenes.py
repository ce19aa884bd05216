"""`fairprobe scenes`: which classes of objects a recognizer fails when the scene becomes unusual;
`fairprobe survey`: how real its pictures look.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
    say,
    write_json,
)
from fairprobe.cli.inputs import split
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.audits.scene_forecast import Forecast
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
    " lama:FILE (TorchScript or ONNX)."
)
CLIP = (
    "The folder of a CLIP model of transformers: rates pictures by the paper's prompts, 'Realistic"
    " photo' against 'Unrealistic photo'."
)
EXPORT = (
    "Also write the mutated pictures with updated COCO annotations into this folder, to retrain a"
    " recognizer on them."
)
DEMO = "demo"
REPEATS, DEMO_REPEATS = 5, 2


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
    per_second: Annotated[
        float | None, typer.Option(help="Most requests a second to google, amazon or azure.")
    ] = None,
    at_once: Annotated[
        int, typer.Option(help="Most requests to them that are under way together.")
    ] = 4,
    most_requests: Annotated[
        int | None, typer.Option(help="Most requests to them in all.", show_default="no limit")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say how many pictures and requests it takes, and stop."),
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
        from fairprobe.audits.base import Stages
        from fairprobe.audits.scene_forecast import forecast
        from fairprobe.audits.scenes import audit_scenes
        from fairprobe.papers.distrofair.survey import write_survey
        from fairprobe.scenes.detectors import open_detector
        from fairprobe.scenes.labels import common
        from fairprobe.scenes.plan import Settings
        from fairprobe.scenes.scene import sample_scenes

        repeats = repeats or (DEMO_REPEATS if images == DEMO else REPEATS)
        folder = out or Path("runs") / f"scenes-{Path(images).name or 'images'}"
        if not overwrite and _is_finished(folder / "audit.json"):
            raise SettingError(
                f"{folder} holds a finished run. Add --overwrite to replace it, or choose another"
                " folder with --out."
            )
        with _keeping(folder), progress(show=not quiet and not as_json) as report:
            opened = [
                open_detector(text, names=_names(detector_classes)) for text in detector or []
            ]
            source, detectors = _inputs(
                images, annotations, opened, segmenter, (kind, names), folder
            )
            sample_scenes(source, limit=limit, containing=containing, seed=seed)
            if dry_run:
                settings = Settings(
                    mutations=split(mutations),  # type: ignore[arg-type]  # checked there
                    classes=tuple(map(common, split(classes))) or None,
                    repeats=repeats,
                    clusters=clusters,
                    cluster_by=tuple(map(common, split(cluster_by))) or None,
                    seed=seed,
                    variant=variant,  # type: ignore[arg-type]  # checked there
                )
                expected = forecast(source, detectors, settings, Stages(report))
        if dry_run:
            _print_forecast(expected, price)
            return
        with _keeping(folder), progress(show=not quiet and not as_json) as report:
            audit = audit_scenes(
                source,
                detectors,
                mutations=split(mutations),  # type: ignore[arg-type]  # checked there
                classes=split(classes) or None,
                repeats=repeats,
                clusters=clusters,
                cluster_by=split(cluster_by) or None,
                seed=seed,
                inpainting=inpainting,
                clip=clip,
                cutouts=cutouts,
                folder=folder,
                workers=workers,
                timeout=timeout,
                rate=per_second,
                at_once=at_once,
                most_requests=most_requests,
                fewest=fewest,
                counted_as=_pairs(count_as, "--count-as"),
                variant=variant,  # type: ignore[arg-type]  # checked there
                any_angle=any_angle,
                title="Drawn streets" if images == DEMO else Path(images).resolve().name,
                progress=report,
            ).with_command(command_line())
            audit.save(folder)
            if export is not None:
                audit.export_coco(export)
            if audit.evidence.made:
                with suppress(SettingError):  # too few pictures for an order that reveals nothing
                    write_survey(audit, folder)
        print_run(audit.document, folder, as_json=as_json, quiet=quiet)
        _exit(audit.document, folder, is_shown=not as_json and not quiet)


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
    """Evaluate what people say about the pictures of a run: how real they look, and how likely
    their scenes are.

    Send RUN/survey.html to participants. They answer in the browser, offline, and send back the
    file that it gives them.

    Example:

      fairprobe survey runs/street answers/*.csv
    """
    with report_errors():
        from fairprobe.documents import encode
        from fairprobe.papers.distrofair.answers import evaluate_survey
        from fairprobe.present.scenes_terminal import survey_table

        evaluation = evaluate_survey(run, answers)
        for message in evaluation.messages:
            say(message)
        if as_json:
            write_json(encode(evaluation).decode())
            return
        output.print(
            f"{len(evaluation.valid)} of {evaluation.participants} participants counted vehicles"
            " well enough to be included."
        )
        output.print(survey_table(evaluation))


@app.command()
def mix_surveys(
    runs: Annotated[
        list[str],
        typer.Argument(help="Run folders of 'fairprobe scenes'; NAME=FOLDER names the data set."),
    ],
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("survey"),
    mix: Annotated[
        str,
        typer.Option(
            help="How many mutants of each data set: coco=20,cityscapes=10.",
            show_default="as they come",
        ),
    ] = "",
    inducing: Annotated[
        float, typer.Option(help="The share of mutants that make a recognizer err.", min=0, max=1)
    ] = 0.8,
    each: Annotated[int, typer.Option(help="Mutants of each mutation.", min=1)] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same study.")] = 0,
) -> None:
    """Make one survey from the pictures of several runs, as in DistroFair's study: 20 mutants of
    MS-COCO and 10 of Cityscapes, 24 of them error-inducing.

    Example:

      fairprobe mix-surveys coco=runs/coco cityscapes=runs/bremen --mix coco=20,cityscapes=10
    """
    with report_errors():
        from fairprobe.papers.distrofair.runs import named_folder
        from fairprobe.papers.distrofair.survey import mix_surveys, read_key

        folders: dict[str, Path] = {}
        for text in runs:
            name, folder = named_folder(text)
            name = name or Path(folder).name
            if name in folders:
                raise SettingError(f"Two runs have the name '{name}'. Name them: NAME={folder}.")
            folders[name] = Path(folder)
        wanted = {name: _number(count, mix) for name, count in _pairs(mix, "--mix").items()}
        page = mix_surveys(
            folders, out, mix=wanted or None, each=each, inducing=inducing, seed=seed
        )
        for message in read_key(out).messages:
            say(message)
        output.print(f"Wrote {page}", highlight=False, soft_wrap=True)


def _number(count: str, text: str) -> int:
    if not (count.isascii() and count.isdigit()):
        raise SettingError(f"--mix takes pairs such as coco=20,cityscapes=10; got '{text}'.")
    return int(count)


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


def _print_forecast(expected: Forecast, price: float | None) -> None:
    """What a run takes, at most."""
    painted = ", ".join(f"{count:,} {name}" for name, count in sorted(expected.mutants.items()))
    output.print(f"{expected.scenes:,} scenes; at most {painted} pictures are painted.")
    for name, requests in expected.requests.items():
        about = f"{name}: at most {requests:,} requests"
        if name in expected.seconds:
            about += f", about {expected.seconds[name]:,.0f} seconds"
        output.print(f"{about}.")
    if expected.remote:
        if price is None:
            output.print("Say what a request costs with --price to see what they may cost.")
        else:
            output.print(f"At {price:g} a request they cost at most {expected.cost(price):,.2f}.")


def _names(path: Path | None) -> list[str] | None:
    """One name a line."""
    if path is None:
        return None
    from fairprobe.scenes.sources.masks import read_lines

    names = read_lines(path)
    if not names:
        raise SettingError(f"{path} names no class. Expected one name a line.")
    return names


def _pairs(text: str, option: str) -> dict[str, str]:
    """Pairs such as bus=car, with commas."""
    pairs = [part.partition("=") for part in split(text)]
    for name, _, wider in pairs:
        if not name.strip() or not wider.strip():
            example = {"--count-as": "bus=car,van=car"}.get(option, "coco=20,cityscapes=10")
            raise SettingError(f"{option} takes pairs such as {example}; got '{text}'.")
    return {name.strip(): wider.strip() for name, _, wider in pairs}


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
        from fairprobe.papers.distrofair import demo
        from fairprobe.papers.distrofair.drawn_detector import drawn_detector

        images, annotations = str(demo.PICTURES), demo.ANNOTATIONS
        detectors = detectors or [drawn_detector()]
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
