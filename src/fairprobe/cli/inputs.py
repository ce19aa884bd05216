"""The options of `audit` and `check` that name a table and a model, and how these are opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.datasets import Dataset
    from fairprobe.models import Model

TABLES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".pq")
MODELS = (
    "Do not train: audit this model. A run folder, a file of a model, module:function or"
    " file.py:function of your own code, or https://… of a service. 'fairprobe formats' lists what"
    " is supported."
)

Sensitive = Annotated[
    str,
    typer.Option(
        help="The sensitive attribute, or several separated by commas: all their combinations."
    ),
]
Given = Annotated[str | None, typer.Option("--model", help=MODELS)]
RunTable = Annotated[
    Path | None,
    typer.Option(
        "--table",
        help="A run of your own table: that table. What a run folder names is not opened.",
        metavar="FILE",
    ),
]
RunModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        help="A run of your own model: that model, with the options of its audit.",
        metavar="MODEL",
    ),
]
Coding = Annotated[
    str | None, typer.Option(help="COMPAS only: one-hot (default) or free, the paper's bounds.")
]
Label = Annotated[
    str | None,
    typer.Option(help="Own table: the column to predict.", rich_help_panel="Your own table"),
]
Favourable = Annotated[
    str | None,
    typer.Option(help="Own table: the label that people want.", rich_help_panel="Your own table"),
]
Drop = Annotated[
    str,
    typer.Option(
        help="Own table: columns to leave out (a,b).",
        rich_help_panel="Your own table",
    ),
]
SampleWeights = Annotated[
    str | None,
    typer.Option(
        help=(
            "Own table: the column that says how much each row counts in training. Metrics count"
            " everybody once."
        ),
        metavar="COLUMN",
        rich_help_panel="Your own table",
    ),
]
Keep = Annotated[
    str,
    typer.Option(
        help="Own table: columns to keep although they look like ids (a,b).",
        rich_help_panel="Your own table",
    ),
]
DomainFile = Annotated[
    Path | None,
    typer.Option(
        "--domain",
        help="Own table: a domain.toml, edited from what 'fairprobe domain' wrote.",
        rich_help_panel="Your own table",
    ),
]
ENCODER = "What turns the table's words into the model's numbers: a .skops file or module:function."
EncoderOption = Annotated[
    str | None, typer.Option("--encoder", help=ENCODER, rich_help_panel="Your own model")
]
InputsOption = Annotated[
    str,
    typer.Option(
        "--inputs",
        help="Without an encoder: numbers, one-hot, or auto (by the width).",
        rich_help_panel="Your own model",
    ),
]
OutputsOption = Annotated[
    str,
    typer.Option(
        "--outputs",
        help="What the model answers: logits, probabilities, or auto.",
        rich_help_panel="Your own model",
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="safetensors for the network of module:function.", rich_help_panel="Your own model"
    ),
]
BlindTo = Annotated[
    str,
    typer.Option(
        help="Attributes that the model is not given, separated by commas.",
        rich_help_panel="Your own model",
    ),
]
CLASSES = (
    "The table's classes in the order of the model's answers, separated by commas, if it differs."
)
ClassesOption = Annotated[
    str, typer.Option("--classes", help=CLASSES, rich_help_panel="Your own model")
]
FORM = "Endpoint: records (the table's words, default) or rows of numbers."
Form = Annotated[str | None, typer.Option(help=FORM, rich_help_panel="Your own model")]
Timeout = Annotated[
    float | None,
    typer.Option(help="Endpoint: seconds to wait for an answer.", rich_help_panel="Your own model"),
]
PerSecond = Annotated[
    float | None,
    typer.Option(
        help="Endpoint: at most this many requests per second.", rich_help_panel="Your own model"
    ),
]


@dataclass(frozen=True)
class TableOptions:
    """The options that name data."""

    dataset: str
    sensitive: str
    coding: str | None
    label: str | None
    favourable: str | None
    drop: str
    domain: Path | None
    keep: str = ""
    sample_weights: str | None = None

    @property
    def names(self) -> list[str]:
        if not split(self.sensitive):
            raise SettingError(
                "Which attribute is sensitive? Name it, or several separated by commas:"
                " --sensitive sex,race."
            )
        return split(self.sensitive)

    @property
    def title(self) -> str:
        """The name of a run folder by default."""
        return (
            "-".join([Path(self.dataset).name.split(".")[0] or "table", *self.names])
            .replace("/", "-")
            .replace("\\", "-")
        )

    def open(self) -> Dataset:
        from fairprobe import datasets

        if self.dataset in datasets.names():
            own = {
                "--label": self.label,
                "--favourable": self.favourable,
                "--drop": self.drop,
                "--keep": self.keep,
                "--sample-weights": self.sample_weights,
                "--domain": self.domain,
            }
            for option, value in own.items():
                if value:
                    raise SettingError(
                        f"{option} is for a table of your own; '{self.dataset}' is a packaged data"
                        " set. Leave it out."
                    )
            return datasets.load(
                self.dataset, **({"coding": self.coding} if self.coding else {})
            ).with_sensitive(self.names)
        if self.coding:
            raise SettingError(
                f"--coding is for the packaged COMPAS data; '{self.dataset}' has none. Leave it"
                " out."
            )
        if not Path(self.dataset).exists() and not self.dataset.lower().endswith(TABLES):
            datasets.load(self.dataset)  # says that there is none, and which there are
        label = self.label or _declared_label(self.domain)
        return datasets.open_table(
            self.dataset,
            label=label,
            sensitive=self.names,
            favourable=self.favourable,
            drop=split(self.drop),
            keep=split(self.keep),
            weights=self.sample_weights,
            domain=self.domain,
        ).with_sensitive(self.names)


@dataclass(frozen=True)
class ModelOptions:
    """The options that name a model."""

    model: str | None
    encoder: str | None
    inputs: str
    outputs: str
    weights: Path | None
    blind_to: str
    form: str | None
    timeout: float | None
    per_second: float | None
    classes: str = ""

    def opener(self) -> Callable[[Dataset], Model] | None:
        """What opens the model of a run that the user names; None where none is named."""
        return None if self.model is None else lambda data: self.open(data, nothing_to_train)

    def open(self, data: Dataset, train: Callable[[], Model]) -> Model:
        """The model, or a network that is trained where none is given."""
        given_endpoint: dict[str, Any] = {
            "form": self.form,
            "timeout": self.timeout,
            "per_second": self.per_second,
        }
        endpoint = {name: value for name, value in given_endpoint.items() if value is not None}
        if self.model is None or (Path(self.model) / "audit.json").exists():
            given: dict[str, Any] = {
                "--encoder": self.encoder,
                "--weights": self.weights,
                "--blind-to": self.blind_to,
                "--classes": self.classes,
            }
            given |= {"--inputs": self.inputs != "auto", "--outputs": self.outputs != "auto"}
            given |= {f"--{name.replace('_', '-')}": True for name in endpoint}
            for option, value in given.items():
                if value:
                    raise SettingError(
                        f"{option} goes with a model of your own (--model). Leave it out."
                    )
            if self.model is None:
                return train()
            from fairprobe.runs import model_of_run

            return model_of_run(Path(self.model), data)
        if endpoint and not self.model.startswith(("http://", "https://")):
            raise SettingError(
                f"--{next(iter(endpoint)).replace('_', '-')} is for an endpoint (https://…); the"
                f" model is {self.model}."
            )
        from fairprobe.models import load_model

        return load_model(
            self.model,
            data,
            encoder=self.encoder,
            inputs=self.inputs,  # type: ignore[arg-type]
            outputs=self.outputs,  # type: ignore[arg-type]
            weights=self.weights,
            blind_to=split(self.blind_to),
            classes=split(self.classes) or None,
            endpoint=endpoint or None,
        )


Options = TypeVar("Options")


def picked(kind: type[Options], given: Mapping[str, Any], **others: Any) -> Options:
    """The options of one kind, by name, from all arguments of a command."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in given.items() if name in names} | others)


def nothing_to_train() -> Model:
    """Refuse to train where a model must be named."""
    raise SettingError("Name the model: --model.")


def split(text: str) -> list[str]:
    """Names that are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _declared_label(domain: Path | None) -> str:
    if domain is None:
        raise SettingError("Which column is to be predicted? Name it: --label income.")
    from fairprobe.datasets import read_domain

    label = read_domain(domain).label
    if label is None:
        raise SettingError(
            f"{domain} does not say which column is to be predicted. Name it: --label income."
        )
    return label
