"""`fairprobe repair`: repair the network of a run, and measure what that did."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.catalogue import POST_HOC
from fairprobe.cli.common import (
    INTERRUPTED,
    NOTHING_JUDGED,
    OVER,
    app,
    command_line,
    end,
    print_run,
    progress,
    report_errors,
    tell_unfinished,
)
from fairprobe.cli.inputs import opener, split
from fairprobe.errors import SettingError
from fairprobe.options import (
    DATA,
    PROVE,
    AsJson,
    ModelOptions,
    Out,
    Overwrite,
    Quiet,
    RepairOptions,
    RepairSettings,
    Resume,
    Table,
    grouped,
    option,
    read_settings,
    refuse_unknown,
)

if TYPE_CHECKING:
    from fairprobe.documents.table import TableRun
    from fairprobe.networks import Training
    from fairprobe.repairs import PostHoc, Repair

GOALS = ("individual", "parity", "odds")


def _repair(options: RepairOptions, settings: RepairSettings) -> Repair | PostHoc:
    """Return the repair with its settings, refused before anything is trained."""
    from fairprobe.repairs import Repair, any_repair_named

    given = _arguments(settings)
    if options.with_ in POST_HOC:
        if options.strength is not None or settings.from_scratch:
            raise SettingError(
                f"The repair '{options.with_}' trains nothing, so it has no strength and does not"
                " begin from scratch. Leave --strength and --set from_scratch out."
            )
        return any_repair_named(options.with_, **given)
    start = "scratch" if settings.from_scratch else "fine-tune"
    repair = any_repair_named(options.with_, start=start, **given)
    if options.strength is not None and isinstance(repair, Repair):
        return repair.at_strength(options.strength)
    return repair


def _arguments(settings: RepairSettings) -> dict[str, Any]:
    handed = settings.max_handed_over
    goals = {name: getattr(settings, name) for name in GOALS}
    if any(value is not None for value in goals.values()):
        goals = {name: value or 0.0 for name, value in goals.items()}
    given: dict[str, Any] = {
        "threshold": settings.threshold,
        "labels": settings.labels,
        "real": settings.real,
        "rounds": settings.rounds,
        "criterion": settings.criterion,
        "training": _training(settings),
        "max_handed_over": None if handed is None else handed / 100,
        "copies": False if settings.single else None,
        "balanced": True if settings.balanced else None,
        "weights": "shares" if settings.by_share else None,
        **goals,
    }
    return {name: value for name, value in given.items() if value is not None}


def _training(settings: RepairSettings) -> Training | None:
    """Return how to train, if that is chosen."""
    from fairprobe.networks import Training

    optimizer, rate = settings.optimizer, settings.learning_rate
    if optimizer is None and rate is None:
        return None
    if rate is None:
        rate = 0.1 if optimizer == "adadelta" else Training.learning_rate
    if not 0 < rate < inf:
        raise SettingError(f"learning_rate must be a number above 0, such as 0.1; got {rate}.")
    return Training(optimizer=optimizer or "adam", learning_rate=rate)  # type: ignore[arg-type]  # checked there


def _proof(options: RepairOptions) -> dict[str, Any]:
    """Return what a repair must keep, and how that is measured, as `repair_run` takes it."""
    if options.choose is not None and (options.no_curve or options.strength is not None):
        raise SettingError(
            "--choose picks a point of the trade-off; --no-curve leaves the trade-off out, and"
            " --strength decides itself. Leave one of them out."
        )
    return {
        "max_accuracy_drop": options.max_accuracy_drop / 100,
        "max_harm": options.max_harm,
        "force": options.accept_anyway,
        "curve": not options.no_curve,
        "choose": _choice(options.choose) if options.strength is None else False,
        "samples": options.samples,
        "max_seeds": options.max_seeds,
    }


@app.command(rich_help_panel=PROVE)
@grouped
def repair(
    run: Annotated[Path, typer.Argument(help="The run folder whose network is to be repaired.")],
    *,
    how: RepairOptions,
    sensitive: Annotated[
        str,
        option(DATA, "The sensitive attributes, with commas.", show_default="those of the run"),
    ] = "",
    table: Table = None,
    named: ModelOptions,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Repair the model of a run, and prove what that did.

    The new run has the repaired network. A network of your own is written in the format it came in,
    into the folder model of the new run; your files stay as they are.

    The network is measured before and after on the same people, beside controls: a blind network,
    a network trained again without repair, and one trained again with random people. The repair and
    the network trained again are compared over several seeds. A repair that costs too much
    accuracy, helps too few, or does harm by another attribute or to a group is refused, with exit
    code 1. If the seeds do not settle it, it is undecided, with exit code 3.

    Of a run about amounts (--target amount) the error of the amount is in the place of accuracy:
    --max-accuracy-drop counts points of the error of always answering the mean. Those are affected
    whose answer changes by more than the tolerance of the run.

    A model without accessible weights is repaired after the fact, by average, thresholds or
    abstain: nothing is trained, the control is the model itself, and both are written as one file.

    Examples:

      fairprobe repair runs/adult-gender

      fairprobe repair runs/credit --table credit.csv --model credit.onnx

      fairprobe repair runs/adult --sensitive gender,race --set individual=2 --set parity=1

      fairprobe repair runs/adult-gender --choose accuracy

      fairprobe repair runs/adult-gender --with retrain --set rounds=2 --out runs/retrained

      fairprobe repair runs/forest --table people.csv --model forest.skops --with average

      fairprobe repair runs/german-age --with cfair+iifr --strength 0.5 --max-accuracy-drop 3
    """
    with report_errors():
        more, unknown = read_settings(RepairSettings, how.set_)
        refuse_unknown(unknown, RepairSettings)
        settings, chosen = _proof(how), _repair(how, more)
        folder = out or run.resolve().parent / f"{run.resolve().name}-{how.with_}"
        if folder.resolve() == run.resolve():
            raise SettingError(
                f"{folder} is the run to be repaired; its network would be lost if the repair is"
                " refused. Name another folder."
            )
        tell_unfinished(folder, resume=resume)
        settings |= {"sensitive": tuple(split(sensitive)), "table": table, "model": opener(named)}
        staged = {"overwrite": overwrite, "resume": resume}
        document = _write(run, folder, chosen, settings, staged, show=not (quiet or as_json))
        print_run(document, folder, as_json=as_json, quiet=quiet)
        _end(document, folder)


def _write(
    run: Path,
    folder: Path,
    how: Repair | PostHoc,
    settings: dict[str, Any],
    options: dict[str, bool],
    *,
    show: bool,
) -> TableRun:
    """Repair the model of a run, write the new run into a folder, and return its document."""
    from fairprobe.runs.store import RunFolder, read_repairable_run
    from fairprobe.table.repair import repair_run

    read_repairable_run(run)  # refuse what is not a run before anything is made
    with RunFolder(folder, **options) as staged, progress(show=show) as on_stage:
        done = repair_run(
            run,
            how,
            progress=on_stage,
            findings_to=staged.findings,
            checkpoint=staged.checkpoint,
            **settings,
        )
        return staged.fill(done, command=command_line())


def _end(document: TableRun, folder: Path) -> None:
    """End with the exit code of a repair that is not accepted or was interrupted."""
    if document.generation.stopped == "interrupted":
        end(
            INTERRUPTED,
            f"Interrupted in the last search: the repair and its proof are complete in {folder}.",
        )
    repair = document.repair
    if repair is not None and not repair.accepted:
        where = f"The evidence is in {folder}, its model in refused-model."
        if repair.outcome == "undecided":
            end(NOTHING_JUDGED, f"Undecided: {' '.join(repair.doubts)} {where}")
        end(OVER, f"Refused: {' '.join(repair.reasons)} {where}")


def _choice(text: str | None) -> Any:
    """Parse the point of the trade-off; what it cannot be is refused with the trade-off."""
    if text is None:
        return True
    return int(text) if text.isdecimal() else text
