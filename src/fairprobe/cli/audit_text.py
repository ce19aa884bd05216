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
    write,
)
from fairprobe.cli.inputs import CACHE, DRY_RUN, PROMPT
from fairprobe.cli.options import Overwrite, grouped
from fairprobe.cli.text_options import Out, TextOptions, Texts
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.language.text import TextAudit, TextRun

SEARCH = (
    "Of a network: search from this many texts for more that are answered differently, by"
    " exchanging context words."
)
FLUENCY = (
    "A language model that keeps the search to fluent texts: a folder with a causal transformers"
    " model, or file.py:function from texts to mean log-probabilities."
)
FAIL_OVER = (
    "End with exit code 1 if the lower end of the interval of the excess is above this share."
)


@app.command("audit-text")
@grouped
def audit_text(
    texts: Texts,
    *,
    named: TextOptions,
    out: Out = None,
    overwrite: Overwrite = False,
    prompt: Annotated[Path | None, typer.Option(help=PROMPT)] = None,
    cache: Annotated[Path | None, typer.Option(help=CACHE)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=DRY_RUN)] = False,
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
    fluency: Annotated[str | None, typer.Option(help=FLUENCY, show_default="none")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same exchanges.")] = 0,
    fail_over: Annotated[
        str | None, typer.Option(help=FAIL_OVER, metavar="PERCENT", show_default=False)
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find out whether a text classifier answers differently when words of one group are exchanged
    for those of another, more than when the group stays the same.

    Every rate is compared with its control. The run folder contains the report with pairs of texts,
    all numbers, and every exchange (exchanges.csv).

    Examples:

      fairprobe audit-text comments.csv --column comment --model my_code.py:classify --sensitive
      religion

      fairprobe audit-text templates.txt --model toxicity.onnx --sensitive names --fail-over 2%

      fairprobe audit-text reviews.jsonl --model ./my-transformers-folder --sensitive my_words.toml

      fairprobe audit-text letters.csv --model chat:https://host/v1 --prompt screening.toml
      --sensitive gender --limit 200 --dry-run
    """
    with report_errors():
        from fairprobe.language.text import audit_text as text_audit
        from fairprobe.runs.stages import OnStage
        from fairprobe.runs.store import RunFolder

        most = _share(fail_over)
        folder = out or named.folder(texts)
        show = not (quiet or as_json or dry_run)

        def audit(on_stage: OnStage) -> TextAudit:
            return text_audit(
                texts,
                limit=limit or None,
                per_group=per_group,
                search=search,
                bigrams=bigrams,
                fluency=fluency,
                seed=seed,
                prompt=prompt,
                cache=cache,
                dry_run=dry_run or None,
                progress=on_stage,
                **named.settings(),
            )

        if dry_run:
            with progress(show=show) as on_stage:
                write(_requests(audit(on_stage)))
            return
        with RunFolder(folder, overwrite=overwrite) as staged:
            with progress(show=show) as on_stage:
                done = audit(on_stage)
            run = staged.fill(done, command=command_line())
        print_run(run, folder, as_json=as_json, quiet=quiet)
        _finish(run, folder, most, fail_over)


def _requests(audit: TextAudit) -> str:
    """Say what a dry run would send."""
    from fairprobe.models.formats.chat import ChatText

    assert isinstance(audit.model, ChatText)
    return audit.model.chat.usage.planned + "\n"


def _finish(run: TextRun, folder: Path, most: float | None, given: str | None) -> None:
    """End with the exit code of the result."""
    if run.stopped:
        is_interrupt = run.stopped.startswith("Interrupted")
        what = f"{run.stopped} The run with {run.data.used:,} texts is in {folder}."
        end(INTERRUPTED if is_interrupt else BAD_INPUT, what)
    if not run.flips.clusters:
        end(NOTHING_JUDGED, "No text could be judged.")
    if most is not None and run.flips.low > most:
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
