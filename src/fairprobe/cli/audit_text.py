"""`fairprobe audit-text`: how a classifier of texts answers when the words of one group are
exchanged for those of another, beside the same exchange within a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.cli.check import decide, read_rules
from fairprobe.cli.common import (
    BAD_INPUT,
    INTERRUPTED,
    NOTHING_JUDGED,
    app,
    command_line,
    end,
    print_run,
    progress,
    report_errors,
    write,
)
from fairprobe.cli.inputs import chat_options, split
from fairprobe.options import (
    AUDIT,
    DATA,
    MODEL,
    SEARCH,
    AsJson,
    DryRun,
    GatePolicy,
    Out,
    Overwrite,
    Quiet,
    Seed,
    Set,
    TextSettings,
    grouped,
    option,
    read_settings,
    refuse_unknown,
)

if TYPE_CHECKING:
    from fairprobe.language.text import TextAudit, TextRun

TEXTS = "A .csv or .jsonl file, or one with a text on each line; also templates with {slots}."
CLASSIFIER = (
    "The classifier: module:function or file.py:function (a list of texts in, probabilities out, or"
    " a torch module with its tokenizer), file.onnx that takes text, a transformers folder,"
    " https://…, or a chat.toml (model = “chat:https://…” and prompt)."
)
WORDS = "race, gender, religion, orientation, names, or your own lexicon (TOML)."
FROM = "Of a network: search so many texts for more findings, by exchanging context words."
FLUENCY = (
    "A language model that keeps the search to fluent texts: a causal transformers folder, or"
    " file.py:function from texts to mean log-probabilities."
)


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The model, the lexicon, and how the texts are read."""

    model: Annotated[str, option(MODEL, CLASSIFIER)]
    sensitive: Annotated[str, option(DATA, WORDS)]
    column: Annotated[
        str | None, option(DATA, "The column with the texts.", show_default="found")
    ] = None
    cluster: Annotated[
        str | None, option(DATA, "The column that says which texts belong together.")
    ] = None
    slots: Annotated[Path | None, option(DATA, "Words for other slots (TOML).")] = None
    limit: Annotated[int, option(DATA, "Most texts to use, drawn at random; 0 for all.")] = 2000
    classes: Annotated[str | None, option(MODEL, "Its classes in order, with commas.")] = None
    target: Annotated[
        str | None, option(MODEL, "Of several independent labels, the one that decides.")
    ] = None
    search: Annotated[int, option(SEARCH, FROM)] = 0
    fluency: Annotated[str | None, option(SEARCH, FLUENCY, show_default="none")] = None
    set_: Set = None
    seed: Seed = 0

    def arguments(self, *, dry_run: bool) -> dict[str, Any]:
        """Return the arguments of `audit_text`."""
        given = dict(vars(self))
        more, unknown = read_settings(TextSettings, given.pop("set_"))
        refuse_unknown(unknown, TextSettings)
        model, endpoint = chat_options(self.model, dry_run=dry_run)
        classes = None if self.classes is None else split(self.classes)
        named = {"model": model, "classes": classes, "limit": self.limit or None}
        return given | vars(more) | endpoint | named


@app.command("audit-text", rich_help_panel=AUDIT)
@grouped
def audit_text(
    texts: Annotated[Path, typer.Argument(help=TEXTS, metavar="TEXTS")],
    *,
    named: TextOptions,
    out: Out = None,
    overwrite: Overwrite = False,
    policy: GatePolicy = None,
    dry_run: DryRun = False,
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

      fairprobe audit-text templates.txt --model toxicity.onnx --sensitive names

      fairprobe audit-text reviews.jsonl --model ./my-transformers-folder --sensitive my_words.toml

      fairprobe audit-text letters.csv --model chat.toml --sensitive gender --limit 200 --dry-run
    """
    with report_errors():
        from fairprobe.language.text import audit_text as text_audit
        from fairprobe.runs.stages import OnStage
        from fairprobe.runs.store import RunFolder

        rules = read_rules(policy)
        name = f"{texts.name.split('.')[0] or 'texts'}-{Path(named.sensitive).stem}"
        folder = out or Path("runs") / name.replace("/", "-").replace("\\", "-")
        show = not (quiet or as_json or dry_run)
        arguments = named.arguments(dry_run=dry_run)

        def audit(on_stage: OnStage) -> TextAudit:
            return text_audit(texts, progress=on_stage, **arguments)

        if dry_run:
            with progress(show=show) as on_stage:
                write(_requests(audit(on_stage)))
            return
        with RunFolder(folder, overwrite=overwrite) as staged:
            with progress(show=show) as on_stage:
                done = audit(on_stage)
            run = staged.fill(done, command=command_line())
        print_run(run, folder, as_json=as_json, quiet=quiet)
        _finish(run, folder)
        if rules is not None:
            decide(folder, rules, show=show)


def _requests(audit: TextAudit) -> str:
    """Say what a dry run would send."""
    from fairprobe.models.formats.chat import ChatText

    assert isinstance(audit.model, ChatText)
    return audit.model.chat.usage.planned + "\n"


def _finish(run: TextRun, folder: Path) -> None:
    """End with an exit code if the audit was stopped or judged nothing."""
    if run.stopped:
        is_interrupt = run.stopped.startswith("Interrupted")
        what = f"{run.stopped} The run with {run.data.used:,} texts is in {folder}."
        end(INTERRUPTED if is_interrupt else BAD_INPUT, what)
    if not run.flips.clusters:
        end(NOTHING_JUDGED, "No text could be judged.")
