"""The tables and models that options name, and how they are opened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fairprobe.errors import SettingError, StorageError
from fairprobe.options import TRAINED, AuditedModel, AuditSettings, ModelOptions, TableOptions

if TYPE_CHECKING:
    from fairprobe.datasets import Dataset
    from fairprobe.models import Model

TABLES = (".csv", ".tsv", ".txt", ".gz", ".parquet", ".pq")
CHAT_ONLY = ("prompt", "cache", "dry_run")


@dataclass(frozen=True)
class NamedTable:
    """A packaged data set or a file, its sensitive attributes, and how it is read."""

    dataset: str
    sensitive: str
    how: TableOptions
    settings: AuditSettings = AuditSettings()  # noqa: RUF009  (frozen)

    @property
    def names(self) -> list[str]:
        """The sensitive attributes; SettingError if there is none."""
        if not split(self.sensitive):
            raise SettingError(
                "Which attribute is sensitive? Name it, or several separated by commas:"
                " --sensitive sex,race."
            )
        return split(self.sensitive)

    @property
    def title(self) -> str:
        """The default name of a run folder."""
        return (
            "-".join([Path(self.dataset).name.split(".")[0] or "table", *self.names])
            .replace("/", "-")
            .replace("\\", "-")
        )

    def open(self) -> Dataset:
        """Open the table."""
        from fairprobe import datasets

        how, more = self.how, self.settings
        if self.dataset in datasets.names():
            own = {f"--{name}": value for name, value in vars(how).items()}
            own |= {f"--set {name}": getattr(more, name) for name in ("keep", "sample_weights")}
            for option, value in own.items():
                if value:
                    raise SettingError(
                        f"{option} is for a table of your own; '{self.dataset}' is a packaged data"
                        " set. Leave it out."
                    )
            coding = {"coding": more.coding} if more.coding else {}
            return datasets.load(self.dataset, **coding).with_sensitive(self.names)
        if more.coding:
            raise SettingError(
                f"--set coding is for the packaged COMPAS data; '{self.dataset}' has none. Leave it"
                " out."
            )
        if not Path(self.dataset).exists() and not self.dataset.lower().endswith(TABLES):
            datasets.load(self.dataset)  # raises the error that lists the data sets
        return datasets.open_table(
            self.dataset,
            label=how.label or _declared_label(how.domain),
            sensitive=self.names,
            favourable=how.favorable,
            drop=split(how.drop),
            keep=split(more.keep),
            weights=more.sample_weights,
            domain=how.domain,
            target=how.target or "auto",  # type: ignore[arg-type]
        ).with_sensitive(self.names)


class ModelFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TOML file that describes a model: where it is, how it is read, how a service is queried."""

    model: str
    encoder: str | None = None
    weights: str | None = None
    inputs: str = "auto"
    outputs: str = "auto"
    blind_to: list[str] = []
    classes: list[str] = []
    form: str | None = None
    timeout: float | None = None
    per_second: float | None = None
    protocol: str | None = None
    rows_field: str | None = None
    header: str | None = None
    concurrency: int | None = None
    ca: str | None = None
    certificate: str | None = None
    prompt: str | None = None
    cache: str | None = None
    dry_run: bool | None = None

    @property
    def endpoint(self) -> dict[str, Any]:
        """The settings of a service."""
        names = self.__struct_fields__[self.__struct_fields__.index("form") :]
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return given | {name: Path(given[name]) for name in ("prompt", "cache") if name in given}

    def check(self, *, but: str = "") -> None:
        """Raise SettingError for settings of a service if the model is none of that kind."""
        is_chat = self.model.startswith("chat:")
        is_service = self.model.startswith(("http://", "https://"))
        for name in self.endpoint:
            if name in CHAT_ONLY and not is_chat:
                kind = "a chat endpoint (chat:https://…)"
            elif not (is_service or (is_chat and name in (*CHAT_ONLY, "timeout", "per_second"))):
                kind = "an endpoint (https://…)"
            else:
                continue
            option = "--dry-run" if name == "dry_run" else f"`{name}`"
            raise SettingError(f"{option} is for {kind}; the model is {self.model}.{but}")


def described(options: ModelOptions, *, dry_run: bool = False) -> ModelFile:
    """Return the description of a model: its TOML file, or the options."""
    assert options.model is not None
    given: dict[str, Any] = {
        "encoder": options.encoder,
        "weights": None if options.weights is None else str(options.weights),
        "inputs": None if options.inputs == "auto" else options.inputs,
        "classes": split(options.classes) or None,
        "dry_run": True if dry_run else None,
    }
    given = {name: value for name, value in given.items() if value is not None}
    file = read_model_file(options.model) or ModelFile(model=options.model)
    return msgspec.structs.replace(file, **given)


def read_model_file(model: str) -> ModelFile | None:
    """Read a TOML file that describes a model; None if the model is not such a file."""
    if not model.endswith(".toml"):
        return None
    try:
        return msgspec.toml.decode(Path(model).read_bytes(), type=ModelFile)
    except OSError as error:
        raise StorageError(f"Cannot read {model}: {error.strerror}. Check the path.") from error
    except (msgspec.MsgspecError, ValueError) as error:
        raise SettingError(
            f"{model} does not describe a model: {error}. It takes {', '.join(_KEYS)}."
        ) from error


_KEYS = [name for name in ModelFile.__struct_fields__ if name != "dry_run"]


def chat_options(model: str, *, dry_run: bool) -> tuple[str, dict[str, Any]]:
    """Return the model of texts or names, and the settings of a chat endpoint."""
    file = described(ModelOptions(model=model), dry_run=dry_run)
    return file.model, {name: file.endpoint[name] for name in CHAT_ONLY if name in file.endpoint}


def opener(options: ModelOptions) -> Callable[[Dataset], Model] | None:
    """Return what opens the model of a run that the user names; None where none is named."""
    return None if options.model is None else lambda data: open_model(options, data)


def open_model(
    options: ModelOptions,
    data: Dataset,
    train: Callable[[], Model] | None = None,
    *,
    dry_run: bool = False,
) -> Model:
    """Open the model, or train a network where none is named."""
    is_trained = isinstance(options, AuditedModel) and options.model in TRAINED
    if options.model is None or is_trained or (Path(options.model) / "audit.json").exists():
        given = {
            "--encoder": options.encoder,
            "--weights": options.weights,
            "--classes": options.classes,
            "--inputs": options.inputs != "auto",
            "--dry-run": dry_run,
        }
        for option, value in given.items():
            if value:
                raise SettingError(
                    f"{option} goes with a model of your own (--model). Leave it out."
                )
        if is_trained and train is not None:
            return train()
        if options.model is None or is_trained:
            raise SettingError("Name the model: --model.")
        from fairprobe.runs.reopen import model_of_run

        return model_of_run(Path(options.model), data)
    from fairprobe.models import load_model

    file = described(options, dry_run=dry_run)
    file.check()
    return load_model(
        file.model,
        data,
        encoder=file.encoder,
        inputs=file.inputs,  # type: ignore[arg-type]
        outputs=file.outputs,  # type: ignore[arg-type]
        weights=file.weights,
        blind_to=file.blind_to,
        classes=file.classes or None,
        endpoint=file.endpoint or None,
    )


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
