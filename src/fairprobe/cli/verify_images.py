"""`fairprobe verify-images`: the findings of an audit on pictures, checked again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fairprobe.cli.common import OVER, AsJson, Quiet, app, end, output, report_errors, write_json

MODEL = (
    "The audited network, as for audit-images; needed only where the run folder holds its weights"
    " alone."
)


@app.command("verify-images")
def verify_images(
    run: Annotated[Path, typer.Argument(help="A run folder of audit-images.", metavar="RUN")],
    model: Annotated[str | None, typer.Option(help=MODEL)] = None,
    trunk: Annotated[str | None, typer.Option(help="The name of its trunk.")] = None,
    head: Annotated[str | None, typer.Option(help="The name of its head.")] = None,
    outputs: Annotated[str, typer.Option(help="Its outputs: logits or probabilities.")] = "logits",
    weights: Annotated[
        Path | None, typer.Option(help="safetensors for the network of module:function.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check every saved pair of pictures again, with the networks in the run folder.

    The files must be those that the audit wrote, every pair must be one, the detector must give the
    saved answers, and the same pairs must count strictly. The exit code is 1 if something does not
    hold.

    Examples:

      fairprobe verify-images runs/faces-gender

      fairprobe verify-images runs/faces-gender --model my_code.py:detector
    """
    with report_errors():
        from fairprobe.audits.verify_images import verify_images as verify

        checked = verify(
            run,
            model,
            trunk=trunk,
            head=head,
            outputs=outputs,  # type: ignore[arg-type]  # checked there
            weights=weights,
        )
        if as_json:
            methods = [{**asdict(one), "holds": one.holds} for one in checked.methods]
            body = {
                "detector": checked.name,
                "holds": checked.holds,
                "is_head_asked": checked.is_head_asked,
                "altered": checked.altered,
                "methods": methods,
            }
            write_json(json.dumps(body, indent=1) + "\n")
        elif not quiet:
            for name in checked.altered:
                output.print(f"{name} is not the file that the audit wrote.", highlight=False)
            for one in checked.methods:
                strict = (
                    f"{one.strict:,} count strictly (the head cannot be asked)"
                    if one.strict_again is None
                    else f"{one.strict_again:,} of {one.strict:,} count strictly again"
                )
                document = "" if one.in_document else "; the document counts others"
                if one.are_pairs < one.pairs:
                    none = one.pairs - one.are_pairs
                    document = f"; {none:,} are no pairs of a seed of their own{document}"
                if one.rounded:
                    document = f"; {one.rounded:,} differ only before rounding to bytes{document}"
                output.print(
                    f"{one.method}: {one.same_answers:,} of {one.pairs:,} pairs get the saved"
                    f" answers; {strict}{document}.",
                    highlight=False,
                    soft_wrap=True,
                )
        if not checked.holds:
            end(OVER, f"The findings in {run} do not hold.")
        if not quiet and not as_json:
            last = (
                f"The findings in {run} hold."
                if checked.is_head_asked
                else f"The pairs in {run} get the saved answers. Which of them count strictly was"
                " not checked: there is no head to ask."
            )
            output.print(last, highlight=False, soft_wrap=True)
