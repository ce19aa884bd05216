"""The options that name a table and a model, and how these are opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.datasets import Dataset
    from fairprobe.models import Model

TABLES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".pq")
MODELS = (
    "Do not train: audit this model. A run folder, a file of a model, module:function or"
    " file.py:function of your own code, https://… of a service, or chat:https://… of a language"
    " model. 'fairprobe formats' lists what is supported."
)

Sensitive = Annotated[
    str,
    typer.Option(
        help="The sensitive attribute, or several separated by commas: all their combinations."
    ),
]
ENCODER = "What turns the table's words into the model's numbers: a .skops file or module:function."
CLASSES = (
    "The table's classes in the order of the model's answers, separated by commas, if it differs."
)
FORM = "Endpoint: records (the table's words, default) or rows of numbers."
WEIGHTS = (
    "Own table: the column that says how much each row counts in training. Metrics count everybody"
    " once."
)
PROMPT = "Chat endpoint: the prompt, a TOML file."
CACHE = "Chat endpoint: the SQLite file that keeps its answers, so that none is asked for twice."
DRY_RUN = "Chat endpoint: send nothing; say how many requests it takes and what they may cost."
CHAT_ONLY = ("prompt", "cache", "dry_run")
TARGET = (
    "Own table: whether the label is one of several classes, or an amount (a number, such as a"
    " price or a score)."
)
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
TABLE, MODEL = "Your own table", "Your own model"


def _own(panel: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(help=text, metavar=metavar, rich_help_panel=panel)


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """The options that say how a table is read. The command declares the table itself."""

    coding: Annotated[
        str | None, typer.Option(help="COMPAS only: one-hot (default) or free, the paper's bounds.")
    ] = None
    label: Annotated[str | None, _own(TABLE, "Own table: the column to predict.")] = None
    favourable: Annotated[str | None, _own(TABLE, "Own table: the label that people want.")] = None
    drop: Annotated[str, _own(TABLE, "Own table: columns to leave out (a,b).")] = ""
    keep: Annotated[
        str, _own(TABLE, "Own table: columns to keep although they look like ids (a,b).")
    ] = ""
    sample_weights: Annotated[str | None, _own(TABLE, WEIGHTS, metavar="COLUMN")] = None
    domain: Annotated[
        Path | None,
        _own(TABLE, "Own table: a domain.toml, edited from what 'fairprobe domain' wrote."),
    ] = None

    target_kind: Annotated[
        str | None,
        typer.Option(
            "--target",
            help=TARGET,
            metavar="classes|amount",
            show_default="guessed",
            rich_help_panel=TABLE,
        ),
    ] = None

    def of(self, dataset: str, sensitive: str) -> NamedTable:
        """The table of this name, read as the options say."""
        return NamedTable(dataset, sensitive, self)


@dataclass(frozen=True)
class NamedTable:
    """A packaged data set or a file, its sensitive attributes, and how it is read."""

    dataset: str
    sensitive: str
    how: TableOptions

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

        how = self.how
        if self.dataset in datasets.names():
            for option, value in vars(how).items():
                if value and option != "coding":
                    named = option.removesuffix("_kind").replace("_", "-")
                    raise SettingError(
                        f"--{named} is for a table of your own;"
                        f" '{self.dataset}' is a packaged data set. Leave it out."
                    )
            return datasets.load(
                self.dataset, **({"coding": how.coding} if how.coding else {})
            ).with_sensitive(self.names)
        if how.coding:
            raise SettingError(
                f"--coding is for the packaged COMPAS data; '{self.dataset}' has none. Leave it"
                " out."
            )
        if not Path(self.dataset).exists() and not self.dataset.lower().endswith(TABLES):
            datasets.load(self.dataset)  # says that there is none, and which there are
        return datasets.open_table(
            self.dataset,
            label=how.label or _declared_label(how.domain),
            sensitive=self.names,
            favourable=how.favourable,
            drop=split(how.drop),
            keep=split(how.keep),
            weights=how.sample_weights,
            domain=how.domain,
            target=how.target_kind or "auto",  # type: ignore[arg-type]
        ).with_sensitive(self.names)


SERVING = ("protocol", "rows_field", "header", "concurrency", "ca", "certificate")


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options that name a model and say how it is read."""

    model: RunModel = None
    encoder: Annotated[str | None, _own(MODEL, ENCODER)] = None
    inputs: Annotated[
        str, _own(MODEL, "Without an encoder: numbers, one-hot, or auto (by the width).")
    ] = "auto"
    outputs: Annotated[
        str, _own(MODEL, "What the model answers: logits, probabilities, or auto.")
    ] = "auto"
    weights: Annotated[
        Path | None, _own(MODEL, "safetensors for the network of module:function.")
    ] = None
    blind_to: Annotated[
        str, _own(MODEL, "Attributes that the model is not given, separated by commas.")
    ] = ""
    classes: Annotated[str, _own(MODEL, CLASSES)] = ""
    form: Annotated[str | None, _own(MODEL, FORM)] = None
    timeout: Annotated[float | None, _own(MODEL, "Endpoint: seconds to wait for an answer.")] = None
    per_second: Annotated[
        float | None, _own(MODEL, "Endpoint: at most this many requests per second.")
    ] = None
    protocol: Annotated[
        str | None,
        _own(
            MODEL,
            "Endpoint: mlflow, kserve-v2, tf-serving, seldon, bentoml, json, or auto (by the"
            " address and the first answer).",
        ),
    ] = None
    rows_field: Annotated[
        str | None, _own(MODEL, "Endpoint: the name of the field or input that holds the rows.")
    ] = None
    header: Annotated[
        str | None,
        _own(MODEL, "Endpoint: the header for the token in FAIRPROBE_ENDPOINT_TOKEN."),
    ] = None
    concurrency: Annotated[
        int | None, _own(MODEL, "Endpoint: at most this many requests at once.")
    ] = None
    ca: Annotated[str | None, _own(MODEL, "Endpoint: a PEM file of certificates to trust.")] = None
    certificate: Annotated[
        str | None, _own(MODEL, "Endpoint: a PEM file with your certificate and its key.")
    ] = None
    prompt: Annotated[Path | None, _own(MODEL, PROMPT)] = None
    cache: Annotated[Path | None, _own(MODEL, CACHE)] = None

    def opener(self) -> Callable[[Dataset], Model] | None:
        """What opens the model of a run that the user names; None where none is named."""
        return None if self.model is None else lambda data: self.open(data, nothing_to_train)

    def open(self, data: Dataset, train: Callable[[], Model]) -> Model:
        """The model, or a network that is trained where none is given."""
        endpoint = self._endpoint()
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
            from fairprobe.runs.reopen import model_of_run

            return model_of_run(Path(self.model), data)
        _check_endpoint(self.model, endpoint)
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

    def _endpoint(self) -> dict[str, Any]:
        """The settings of an endpoint that were given."""
        names = ("form", "timeout", "per_second", "prompt", "cache", *SERVING)
        return {name: value for name in names if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, kw_only=True)
class AuditedModel(ModelOptions):
    """The options of `audit`, which trains a network where no model is named."""

    model: Annotated[str | None, typer.Option(help=MODELS)] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help=DRY_RUN, rich_help_panel=MODEL)] = False

    def _endpoint(self) -> dict[str, Any]:
        return super()._endpoint() | ({"dry_run": True} if self.dry_run else {})


def _check_endpoint(model: str, endpoint: dict[str, Any]) -> None:
    """Refuse settings of an endpoint for another model, or for another kind of endpoint."""
    is_chat, is_service = model.startswith("chat:"), model.startswith(("http://", "https://"))
    for name in endpoint:
        if name in CHAT_ONLY and not is_chat:
            kind = "a chat endpoint (chat:https://…)"
        elif not is_service and (name in ("form", *SERVING) or not is_chat):
            kind = "an endpoint (https://…)"
        else:
            continue
        raise SettingError(f"--{name.replace('_', '-')} is for {kind}; the model is {model}.")


def nothing_to_train() -> Model:
    """Refuse to train where a model must be named."""
    raise SettingError("Name the model: --model.")


def split(text: str) -> list[str]:
    """Names that are separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def pairs(text: str, option: str, example: str) -> dict[str, str]:
    """Pairs such as bus=car, with commas."""
    found = [part.partition("=") for part in split(text)]
    for name, _, value in found:
        if not name.strip() or not value.strip():
            raise SettingError(f"{option} takes pairs such as {example}; got '{text}'.")
    return {name.strip(): value.strip() for name, _, value in found}


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
