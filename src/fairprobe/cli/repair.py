"""`fairprobe repair`: repair the network of a run, and measure what that did."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.catalogue import POST_HOC, REPAIRS
from fairprobe.cli.common import (
    INTERRUPTED,
    NOTHING_JUDGED,
    OVER,
    AsJson,
    Quiet,
    Resume,
    app,
    command_line,
    end,
    print_run,
    progress,
    report_errors,
    tell_unfinished,
)
from fairprobe.cli.inputs import ModelOptions, RunTable, split
from fairprobe.cli.options import Overwrite, grouped
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.documents.table import TableRun
    from fairprobe.networks import Training
    from fairprobe.repairs import PostHoc, Repair

WITH = (
    f"How to repair: {', '.join(REPAIRS)}, or one with a variant such as cfair+iifr, train a"
    f" network; {', '.join(POST_HOC)} stand around any model of your own. 'fairprobe repairs'"
    " explains them."
)
GOALS = ("individual", "parity", "odds")
STRENGTH = (
    "How strongly: a weight such as λ, or the share of findings of retrain; 'fairprobe repairs'"
    " explains each. Not given, it is chosen."
)
LABELS = (
    "retrain: where labels come from, soft, vote or seed. counterfactual: truth, or own for what"
    " the network answers."
)
TRADE_OFFS = (
    "counterfactual: its goals with their priorities, such as individual=2,parity=1; individual,"
    " parity (groups get an answer equally often) and odds (also given the truth)."
)
RATE = (
    "The learning rate of the optimizer: 0.001 of adam, 0.1 of adadelta, as IIFR trains on Adult"
    " (on COMPAS and German Credit with 1)."
)
CRITERION = "thresholds: what is made equal, demographic_parity or equal_opportunity."


@dataclass(frozen=True, kw_only=True)
class RepairOptions:
    """Settings of all repairs. One that a repair does not have is rejected."""

    with_: Annotated[str, typer.Option("--with", help=WITH)] = "counterfactual"
    strength: Annotated[
        float | None, typer.Option(help=STRENGTH, show_default="chosen on validation people")
    ] = None
    from_scratch: Annotated[
        bool,
        typer.Option(
            "--from-scratch", help="Begin with fresh weights instead of those of the network."
        ),
    ] = False
    threshold: Annotated[
        float | None,
        typer.Option(help="iifr: how similar a pair must be, a cosine.", show_default="0.8"),
    ] = None
    labels: Annotated[str | None, typer.Option(help=LABELS, show_default="soft; truth")] = None
    single: Annotated[
        bool,
        typer.Option(
            "--single", help="retrain: add findings as they are, not with every sensitive value."
        ),
    ] = False
    real: Annotated[
        float | None,
        typer.Option(help="retrain: the share from around real people.", show_default="0.5"),
    ] = None
    rounds: Annotated[
        int | None,
        typer.Option(help="retrain: how often to search and train again.", show_default="1"),
    ] = None
    balanced: Annotated[
        bool,
        typer.Option(
            "--balanced", help="cfair: let rare classes and groups weigh as much as common ones."
        ),
    ] = False
    by_share: Annotated[
        bool,
        typer.Option(
            "--by-share", help="average: let each sensitive value count as often as it occurs."
        ),
    ] = False
    optimizer: Annotated[
        str | None,
        typer.Option(
            help="What trains the network: adam, or adadelta as in the IIFR paper.",
            show_default="adam",
        ),
    ] = None
    learning_rate: Annotated[float | None, typer.Option(help=RATE, show_default="0.001; 0.1")] = (
        None
    )
    criterion: Annotated[
        str | None, typer.Option(help=CRITERION, show_default="demographic_parity")
    ] = None
    max_handed_over: Annotated[
        float | None,
        typer.Option(
            help="abstain: refuse to hand more than this percentage of people to a human.",
            show_default="10",
        ),
    ] = None
    goals: Annotated[str, typer.Option(help=TRADE_OFFS, show_default="individual=1")] = ""

    def repair(self) -> Repair | PostHoc:
        """Create the repair with its settings, before anything is trained."""
        from fairprobe.repairs import Repair, any_repair_named

        settings = self._settings()
        if self.with_ in POST_HOC:
            if self.strength is not None or self.from_scratch:
                raise SettingError(
                    f"The repair '{self.with_}' trains nothing, so it has no strength and does not"
                    " begin from scratch. Leave --strength and --from-scratch out."
                )
            return any_repair_named(self.with_, **settings)
        start = "scratch" if self.from_scratch else "fine-tune"
        repair = any_repair_named(self.with_, start=start, **settings)
        if self.strength is not None and isinstance(repair, Repair):
            return repair.at_strength(self.strength)
        return repair

    def _settings(self) -> dict[str, Any]:
        handed = self.max_handed_over
        given: dict[str, Any] = {
            "threshold": self.threshold,
            "labels": self.labels,
            "real": self.real,
            "rounds": self.rounds,
            "criterion": self.criterion,
            "training": self._training(),
            "max_handed_over": None if handed is None else handed / 100,
            "copies": False if self.single else None,
            "balanced": True if self.balanced else None,
            "weights": "shares" if self.by_share else None,
            **_priorities(self.goals),
        }
        return {name: value for name, value in given.items() if value is not None}

    def _training(self) -> Training | None:
        """Return the training settings, if any is given."""
        from fairprobe.networks import Training

        if self.optimizer is None and self.learning_rate is None:
            return None
        rate = self.learning_rate
        if rate is None:
            rate = 0.1 if self.optimizer == "adadelta" else Training.learning_rate
        if not 0 < rate < inf:
            raise SettingError(
                f"--learning-rate must be a number above 0, such as 0.1; got {rate}."
            )
        return Training(optimizer=self.optimizer or "adam", learning_rate=rate)  # type: ignore[arg-type]  # checked there


@dataclass(frozen=True, kw_only=True)
class ProofOptions:
    """Options of the proof: what a repair must keep, and how that is measured."""

    max_accuracy_drop: Annotated[
        float, typer.Option(help="Refuse a repair that costs more points of accuracy than this.")
    ] = 2.0
    max_harm: Annotated[
        float,
        typer.Option(
            help="Refuse a repair after which another attribute decides this many times as often."
        ),
    ] = 1.3
    accept_anyway: Annotated[
        bool,
        typer.Option(
            "--accept-anyway", help="Keep the repaired network even if it would be refused."
        ),
    ] = False
    choose: Annotated[
        str | None,
        typer.Option(
            help="Which point of the trade-off: fairness, accuracy, or its number in the report.",
            show_default="fairness",
        ),
    ] = None
    no_curve: Annotated[
        bool,
        typer.Option(
            "--no-curve", help="Try no other strengths: quicker, without the trade-off picture."
        ),
    ] = False
    samples: Annotated[
        int | None,
        typer.Option(
            help="Possible people drawn to measure how common discrimination is.",
            show_default="as many as in the run",
        ),
    ] = None
    max_seeds: Annotated[
        int, typer.Option(help="Train at most this many pairs of networks to decide.")
    ] = 12

    def settings(self, strength: float | None) -> dict[str, Any]:
        """As `repair_run` takes them."""
        if self.choose is not None and (self.no_curve or strength is not None):
            raise SettingError(
                "--choose picks a point of the trade-off; --no-curve leaves the trade-off out, and"
                " --strength decides itself. Leave one of them out."
            )
        return {
            "max_accuracy_drop": self.max_accuracy_drop / 100,
            "max_harm": self.max_harm,
            "force": self.accept_anyway,
            "curve": not self.no_curve,
            "choose": _choice(self.choose) if strength is None else False,
            "samples": self.samples,
            "max_seeds": self.max_seeds,
        }


@app.command()
@grouped
def repair(
    run: Annotated[Path, typer.Argument(help="The run folder whose network is to be repaired.")],
    *,
    how: RepairOptions,
    proof: ProofOptions,
    sensitive: Annotated[
        str,
        typer.Option(
            help="The sensitive attributes, separated by commas.", show_default="those of the run"
        ),
    ] = "",
    table: RunTable = None,
    named: ModelOptions,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to write.", show_default="RUN-REPAIR")
    ] = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Repair the network of a run, measure what that did, and write a new run with the repaired
    network. A network of your own is written in the format it came in, into the folder model of
    the new run; your files stay as they are.

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

      fairprobe repair runs/adult --sensitive gender,race --goals individual=2,parity=1

      fairprobe repair runs/adult-gender --choose accuracy

      fairprobe repair runs/adult-gender --with retrain --rounds 2 --out runs/retrained

      fairprobe repair runs/forest --table people.csv --model forest.skops --with average

      fairprobe repair runs/german-age --with cfair+iifr --strength 0.5 --max-accuracy-drop 3
    """
    with report_errors():
        settings, chosen = proof.settings(how.strength), how.repair()
        folder = out or run.resolve().parent / f"{run.resolve().name}-{how.with_}"
        if folder.resolve() == run.resolve():
            raise SettingError(
                f"{folder} is the run to be repaired; its network would be lost if the repair is"
                " refused. Name another folder."
            )
        tell_unfinished(folder, resume=resume)
        settings |= {"sensitive": tuple(split(sensitive)), "table": table, "model": named.opener()}
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


def _priorities(text: str) -> dict[str, float]:
    """Parse the goals of a repair, those that are not named with priority 0."""
    if not text:
        return {}
    found = dict.fromkeys(GOALS, 0.0)
    for part in split(text):
        name, _, weight = part.partition("=")
        try:
            found[name.strip()] = float(weight or 1)
        except ValueError:
            found[""] = 0.0
    if found.keys() != set(GOALS):
        raise SettingError(
            f"Goals are named with their priorities, such as individual=2,parity=1, of"
            f" {', '.join(GOALS)}; got '{text}'."
        )
    return found
