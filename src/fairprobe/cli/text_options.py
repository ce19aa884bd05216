"""Options of the commands about texts: which texts, which model, which words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from fairprobe.cli.inputs import split

TEXTS = "A .csv or .jsonl file, or a file with one text on each line; also templates with {slots}."
MODEL = (
    "The classifier: module:function or file.py:function (a list of texts in, probabilities out, or"
    " a torch module with its tokenizer), file.onnx that takes text, a folder with a transformers"
    " classifier, an http(s) address, or chat:https://… with --prompt."
)
SENSITIVE = "race, gender, religion, orientation, names, or a lexicon of your own (TOML)."
COLUMN = "The column that holds the texts."
CLUSTER = "A column that says which texts belong together, such as a template's number."

Texts = Annotated[Path, typer.Argument(help=TEXTS, metavar="TEXTS")]
Out = Annotated[
    Path | None, typer.Option(help="The run folder to write.", show_default="runs/TEXTS-SENSITIVE")
]


@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """The model, the lexicon, and how the texts are read."""

    model: Annotated[str, typer.Option(help=MODEL)]
    sensitive: Annotated[str, typer.Option(help=SENSITIVE)]
    column: Annotated[str | None, typer.Option(help=COLUMN, show_default="found")] = None
    cluster: Annotated[str | None, typer.Option(help=CLUSTER)] = None
    slots: Annotated[
        Path | None, typer.Option(help="Words for other slots of templates (TOML).")
    ] = None
    classes: Annotated[
        str | None,
        typer.Option(help="The names of the model's classes, in its order, with commas between."),
    ] = None
    target: Annotated[
        str | None,
        typer.Option(help="Of a model with several independent labels, the one that decides."),
    ] = None

    def settings(self) -> dict[str, Any]:
        """Return the arguments of `audit_text`."""
        return {
            "model": self.model,
            "sensitive": self.sensitive,
            "column": self.column,
            "cluster": self.cluster,
            "slots": self.slots,
            "classes": None if self.classes is None else split(self.classes),
            "target": self.target,
        }

    def folder(self, texts: Path) -> Path:
        """Return the default run folder."""
        name = f"{texts.name.split('.')[0] or 'texts'}-{Path(self.sensitive).stem}"
        return Path("runs") / name.replace("/", "-").replace("\\", "-")
