"""`fairprobe audit-embeddings`: how often face verification is wrong, by group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairprobe.cli.common import (
    OK,
    AsJson,
    Quiet,
    app,
    command_line,
    output,
    progress,
    report_errors,
    say,
    write_json,
)

if TYPE_CHECKING:
    from fairprobe.audits.image_forecast import Cost

DATA = (
    "Pictures of known people: a folder in the layout of LFW, DiveFace or CelebA, or an .npz with"
    " an array identity."
)
MODEL = (
    "The network that computes embeddings: module:function, file.py:function, or a file (.onnx,"
    " .pt2). Its inputs are pixels from 0 to 1."
)
THRESHOLD = (
    "The similarity from which on two faces are taken for one person's; for euclidean the distance"
    " up to which."
)
FALSE_MATCHES = (
    "Without a threshold: choose it such that this share of pairs of two people match, on people"
    " that are not measured."
)


@app.command("audit-embeddings")
def audit_embeddings(
    data: Annotated[Path, typer.Argument(help=DATA, metavar="FOLDER_OR_NPZ")],
    model: Annotated[str, typer.Option(help=MODEL)],
    sensitive: Annotated[
        str, typer.Option(help="The sensitive attribute of the people: gender, race, …")
    ],
    threshold: Annotated[
        float | None, typer.Option(help=THRESHOLD, show_default="chosen on other people")
    ] = None,
    false_matches: Annotated[float, typer.Option(help=FALSE_MATCHES)] = 0.001,
    distance: Annotated[str, typer.Option(help="cosine or euclidean.")] = "cosine",
    weights: Annotated[
        Path | None, typer.Option(help="safetensors for the network of module:function.")
    ] = None,
    size: Annotated[
        int | None, typer.Option(help="Resize all pictures to a square of this many pixels.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="Use at most this many pictures, drawn at random.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the result as JSON to this file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a report, one HTML page, to this file.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same result.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what the audit would take, and end.")
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Measure how often a network for face verification is wrong, by group, at one threshold.

    All pairs of pictures within a group are compared: pairs of one person that are taken for two
    (false non-match rate), and pairs of two people that are taken for one (false match rate). The
    intervals know that pairs which share a person are not independent. Before it begins, the audit
    says what time and memory it may take.

    Examples:

      fairprobe audit-embeddings lfw --model faces.onnx --sensitive gender --threshold 0.4

      fairprobe audit-embeddings people.npz --model my_code.py:network --sensitive race --report
      verification.html
    """
    with report_errors():
        from fairprobe.audits.embeddings import audit_embeddings as audit
        from fairprobe.documents import encode
        from fairprobe.present.image_sentences import cost_line
        from fairprobe.present.verification_page import (
            compared_table,
            groups_table,
            render_verification,
        )
        from fairprobe.storage import write_text

        is_shown = not quiet and not as_json

        def expect(cost: Cost) -> None:
            say(cost_line(cost.seconds, cost.bytes))
            if dry_run:
                raise typer.Exit(OK)

        with progress(show=is_shown) as on_stage:
            document = audit(
                data,
                model,
                sensitive,
                threshold=threshold,
                false_matches=false_matches,
                distance=distance,  # type: ignore[arg-type]  # checked there
                weights=weights,
                size=size,
                limit=limit,
                seed=seed,
                command=command_line(),
                progress=on_stage,
                expect=expect if is_shown or dry_run else None,
            )
        for message in document.messages:
            say(message)
        if out is not None:
            write_text(out, encode(document).decode())
        if report is not None:
            write_text(report, render_verification(document))
        if as_json:
            write_json(f"{encode(document).decode().rstrip()}\n")
        elif not quiet:
            for sentence in document.sentences:
                output.print(sentence, markup=False, highlight=False, soft_wrap=True)
            output.print(groups_table(document).terminal())
            output.print(compared_table(document).terminal())
