"""`fairprobe audit-text`: how a classifier of texts answers when the words of one group are
exchanged for those of another, beside the same exchange within a group.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairprobe.cli.common import (
    BAD_INPUT,
    INTERRUPTED,
    NOTHING_JUDGED,
    OVER,
    AsJson,
    Quiet,
    app,
    command_line,
    end,
    print_run,
    progress,
    report_errors,
)
from fairprobe.cli.inputs import split
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.documents import TextDocument

TEXTS = "A .csv or .jsonl file, or a file with one text on each line; also templates with {slots}."
MODEL = (
    "The classifier: module:function or file.py:function (a list of texts in, probabilities out),"
    " file.onnx that takes text, a folder with a transformers classifier, or an http(s) address."
)
SENSITIVE = "race, gender, religion, orientation, names, or a lexicon of your own (TOML)."
COLUMN = "The column that holds the texts."
CLUSTER = "A column that says which texts belong together, such as a template's number."
SEARCH = (
    "Of a network: search from this many texts for more that are answered differently, by"
    " exchanging context words."
)
FAIL_OVER = (
    "End with exit code 1 if the lower end of the interval of the excess is above this share."
)


@app.command("audit-text")
def audit_text(
    texts: Annotated[Path, typer.Argument(help=TEXTS, metavar="TEXTS")],
    model: Annotated[str, typer.Option(help=MODEL)],
    sensitive: Annotated[str, typer.Option(help=SENSITIVE)],
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder to write.", show_default="runs/TEXTS-SENSITIVE"),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run that is in the folder.")
    ] = False,
    column: Annotated[str | None, typer.Option(help=COLUMN, show_default="found")] = None,
    cluster: Annotated[str | None, typer.Option(help=CLUSTER)] = None,
    slots: Annotated[
        Path | None, typer.Option(help="Words for other slots of templates (TOML).")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="The names of the model's classes, in its order, with commas between."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Of a model with several independent labels, the one that decides."),
    ] = None,
    limit: Annotated[
        int, typer.Option(help="Use at most this many texts, drawn at random; 0 for all.")
    ] = 2000,
    per_group: Annotated[
        int, typer.Option(help="How many words of each other group a text is given.")
    ] = 2,
    search: Annotated[int, typer.Option(help=SEARCH)] = 0,
    bigrams: Annotated[
        bool,
        typer.Option(
            "--bigrams/--no-bigrams",
            help="The search puts words only beside words that they stood beside in the texts.",
        ),
    ] = True,
    seed: Annotated[int, typer.Option(help="The same seed gives the same exchanges.")] = 0,
    fail_over: Annotated[
        str | None, typer.Option(help=FAIL_OVER, metavar="PERCENT", show_default=False)
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find out whether a text classifier answers differently when words of one group are exchanged
    for those of another, more than when the group stays the same.

    Every rate stands beside its control. The run folder holds the report with pairs of texts, all
    numbers, and every exchange (exchanges.csv).

    Examples:

      fairprobe audit-text comments.csv --column comment --model my_code.py:classify --sensitive
      religion

      fairprobe audit-text templates.txt --model toxicity.onnx --sensitive names --fail-over 2%

      fairprobe audit-text reviews.jsonl --model ./my-transformers-folder --sensitive my_words.toml
    """
    with report_errors():
        from fairprobe.audits import text
        from fairprobe.audits.base import RunFolder

        most = _share(fail_over)
        name = f"{texts.name.split('.')[0] or 'texts'}-{Path(sensitive).stem}"
        folder = out or Path("runs") / name.replace("/", "-").replace("\\", "-")
        with RunFolder(folder, overwrite=overwrite) as run:
            with progress(show=not quiet and not as_json) as on_stage:
                audit = text.audit_text(
                    texts,
                    model,
                    sensitive,
                    column=column,
                    cluster=cluster,
                    slots=slots,
                    classes=None if classes is None else split(classes),
                    limit=limit or None,
                    per_group=per_group,
                    search=search,
                    bigrams=bigrams,
                    seed=seed,
                    target=target,
                    progress=on_stage,
                )
            document = run.fill(audit, command=command_line())
        print_run(document, folder, as_json=as_json, quiet=quiet)
        _finish(document, folder, most, fail_over)


def _finish(document: TextDocument, folder: Path, most: float | None, given: str | None) -> None:
    """End with the exit code that the result deserves."""
    if document.partial:
        is_interrupt = (document.stopped or "").startswith("Interrupted")
        what = f"{document.stopped} The run with {document.data.used:,} texts is in {folder}."
        end(INTERRUPTED if is_interrupt else BAD_INPUT, what)
    if not document.flips.clusters:
        end(NOTHING_JUDGED, "No text could be judged.")
    if most is not None and document.flips.low > most:
        end(OVER, f"The excess is more than --fail-over {given} allows.")


def _share(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError as error:
        raise SettingError(f"--fail-over takes a share, such as 2%; got '{text}'.") from error
    if not 0 <= number <= 1:
        raise SettingError(f"--fail-over takes a share from 0% to 100%; got '{text}'.")
    return number
