"""`fairprobe repair-text`: repair a text network, and measure what that did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fairprobe.cli.common import (
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
from fairprobe.cli.options import Overwrite, Seed, grouped
from fairprobe.cli.text_options import Out, TextOptions, Texts

if TYPE_CHECKING:
    from pathlib import Path

    from fairprobe.documents import TextDocument

LABEL = (
    "The column of the true class, by name or number. Without it the network learns its own"
    " answers."
)
WITH = (
    "counterfactual (a penalty on different answers to a text and its counterpart) or augmentation"
    " (counterparts are learned with the label of their text)."
)
STRENGTH = "The weight of the penalty, or of a counterpart."
RATE = "The learning rate; 0.00005 for a transformers folder."


@app.command("repair-text")
@grouped
def repair_text(
    texts: Texts,
    *,
    named: TextOptions,
    label: Annotated[str | None, typer.Option(help=LABEL, show_default="none")] = None,
    with_: Annotated[str, typer.Option("--with", help=WITH)] = "counterfactual",
    strength: Annotated[float | None, typer.Option(help=STRENGTH, show_default="20; 1")] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="How often the texts are learned.", show_default="at least 4"),
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help=RATE, show_default="0.001")] = None,
    max_accuracy_drop: Annotated[
        float, typer.Option(help="Refuse a repair that costs more points of accuracy than this.")
    ] = 2.0,
    max_seeds: Annotated[
        int, typer.Option(help="Train at most this many pairs of networks to decide.")
    ] = 12,
    accept_anyway: Annotated[
        bool,
        typer.Option(
            "--accept-anyway", help="Keep the repaired network even if it would be refused."
        ),
    ] = False,
    limit: Annotated[
        int, typer.Option(help="Use at most this many texts, drawn at random; 0 for all.")
    ] = 20_000,
    out: Out = None,
    overwrite: Overwrite = False,
    resume: Resume = False,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Repair a text network so that it answers texts alike that differ only in the words of a
    group, measure what that did on texts held out, and write a run with the repaired network in
    the format it came in (folder model). Your files stay as they are.

    With several seeds, the repaired network is compared with one trained as long without the
    repair. A repair that costs too much accuracy or helps too little is refused, with exit code 1.
    If the seeds do not settle it, it is undecided, with exit code 3.

    Examples:

      fairprobe repair-text comments.csv --column comment --label label --model my_code.py:network
      --sensitive orientation

      fairprobe repair-text reviews.jsonl --model ./my-transformers-folder --sensitive gender
      --with augmentation
    """
    with report_errors():
        from fairprobe.audits.base import RunFolder
        from fairprobe.audits.text_repair import repair_text

        folder = out or named.folder(texts, f"-{with_}")
        tell_unfinished(folder, resume=resume)
        with RunFolder(folder, overwrite=overwrite, resume=resume) as run:
            with progress(show=not (quiet or as_json)) as on_stage:
                done = repair_text(
                    texts,
                    label=label,
                    with_=with_,
                    strength=strength,
                    epochs=epochs,
                    learning_rate=learning_rate,
                    max_accuracy_drop=max_accuracy_drop / 100,
                    max_seeds=max_seeds,
                    force=accept_anyway,
                    limit=limit or None,
                    seed=seed,
                    checkpoint=run.checkpoint,
                    progress=on_stage,
                    **named.settings(),
                )
            document = run.fill(done, command=command_line())
        print_run(document, folder, as_json=as_json, quiet=quiet)
        _end(document, folder)


def _end(document: TextDocument, folder: Path) -> None:
    """End with the exit code of a repair that is not accepted."""
    repair = document.repair
    if repair is None or repair.accepted:
        return
    where = f"The evidence is in {folder}, its network in refused-model."
    if repair.outcome == "undecided":
        end(NOTHING_JUDGED, f"Undecided: {' '.join(repair.doubts)} {where}")
    end(OVER, f"Refused: {' '.join(repair.reasons)} {where}")
