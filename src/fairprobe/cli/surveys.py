"""`fairprobe survey` and `mix-surveys`: how real people find the pictures of scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fairprobe.cli.common import AsJson, app, output, report_errors, say, write_json
from fairprobe.cli.inputs import pairs
from fairprobe.errors import SettingError


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
        wanted = {
            name: _number(count, mix)
            for name, count in pairs(mix, "--mix", "coco=20,cityscapes=10").items()
        }
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
