"""From a run folder back to what was audited: the data and the model, as they were.

A run folder is data that anybody may have written. Only what lies in it is opened: its schema, and
a network in our own format. The user's own table and model, which its document names, are opened
where the caller names them as well, and must be those of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fairprobe import datasets, networks
from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset, Outline
from fairprobe.documents.files import file_in
from fairprobe.documents.table import ModelOrigin, TableRun
from fairprobe.errors import DataError, ModelError, StorageError
from fairprobe.models import Decision, Model, ScoreModel, TorchModel
from fairprobe.runs.store import AUDIT, DOMAIN, MODEL, REFUSED, read_table_run, sha256_of
from fairprobe.schema.domain import Domain

OpenModel: TypeAlias = Callable[[Dataset], Model]  # opens the model that the user named

# Arguments that a loader may have been given; a run does not record them, but its attributes show
# which ones they were.
CODINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "compas": ({"coding": "free"},),
    "german": ({"marital": True},),
}


@dataclass(frozen=True)
class _Outline:
    """What a run folder says of its data, without the rows."""

    name: str
    domain: Domain
    classes: tuple[str, ...]
    favourable: int | None

    @property
    def x(self) -> Rows:
        return np.empty((0, len(self.domain)), dtype=np.float32)


def reopen(
    folder: Path | str, *, table: Path | str | None = None, model: OpenModel | None = None
) -> tuple[Dataset, Model]:
    """Open the data and the model of a run. The user's own `table` and `model` must be given, and
    are refused if they are not those of the run.
    """
    place = Path(folder)
    document = read_table_run(place)
    data = data_of(document, place, table)
    return data, model_of(document, place, data, model)


def network_in(folder: Path | str) -> tuple[Outline, Model]:
    """Open the network that lies in a run folder, and the schema of its data; no row is needed."""
    place = Path(folder)
    document = read_table_run(place)
    outline = outline_of(document, place)
    return outline, model_of(document, place, outline)


def model_of_run(folder: Path, data: Dataset) -> Model:
    """Open the network of an earlier run, for this data."""
    return model_of(read_table_run(folder), folder, data)


def data_of(document: TableRun, folder: Path, table: Path | str | None = None) -> Dataset:
    """Open the data of a run, coded as it was then, with the same sensitive attributes."""
    data = _data_of(document, folder, table)
    return data.with_counterparts(document.counterparts.kind)


def _data_of(document: TableRun, folder: Path, table: Path | str | None) -> Dataset:
    name, about = document.dataset, document.data
    if about.origin is not None:
        return _own_table(document, folder, table)
    if table is not None:
        raise DataError(f"The run was made with the packaged data '{name}'. Leave --table out.")
    for arguments in ({}, *CODINGS.get(name, ())) if name in datasets.names() else ():
        data = datasets.load(name, **arguments)
        if (list(data.domain.names), len(data)) == (about.attributes, about.rows):
            return data.with_sensitive(document.sensitive)
    raise DataError(
        f"The run was made with data that is not here: '{name}' with {about.rows:,} rows and the"
        f" attributes {', '.join(about.attributes[:5])}, … Repair a model for data without a file"
        " in Python: fairprobe.repairs.prove(model, data, …)."
    )


def outline_of(document: TableRun, folder: Path) -> Outline:
    """Open the schema of a run's data; no row of a user's own table is needed."""
    about = document.data
    if about.origin is None:
        return data_of(document, folder)
    declared = datasets.read_domain(_schema_file(folder))
    domain = declared.coding.domain.with_sensitive(document.sensitive)
    domain = domain.bare() if document.counterparts.kind == "bare" else domain
    return _Outline(document.dataset, domain, tuple(about.classes), about.favourable)


def model_of(
    document: TableRun,
    folder: Path,
    data: Outline,
    named: OpenModel | None = None,
) -> Model:
    """Open the model of a run, with its decision rule: the network that lies in it, or the user's
    own, which must be named.
    """
    return _model_of(document, folder, data, named).with_decision(_decision_of(document), data)


def _decision_of(document: TableRun) -> Decision | None:
    rule = document.model.decision
    if rule is None:
        return None
    if rule.costs is not None:
        return Decision(costs=rule.costs)
    return Decision(rule.threshold, thresholds=rule.thresholds, by=rule.by)


def _model_of(
    document: TableRun,
    folder: Path,
    data: Outline,
    named: OpenModel | None,
) -> Model:
    origin = document.model.origin
    if named is not None and isinstance(data, Dataset):
        model = named(data)
        if origin is not None:
            _check_same(model, origin)
        return model
    if origin is not None:
        files = {"--encoder": origin.encoder, "--weights": origin.weights}
        others = "".join(
            f", {option} '{_within(folder, name)}'" for option, name in files.items() if name
        )
        raise ModelError(
            f"The model of the run {folder} is your own, and a run folder is data: nothing that it"
            " names is opened. Name the model on the command line, with the options of its audit."
            f" The run says: --model '{_within(folder, origin.source)}'{others}."
        )
    network = trained_before(folder, data)
    is_score = document.amounts is not None
    return ScoreModel.of_network(network) if is_score else network


def _within(folder: Path, name: str) -> str:
    """Return a name as typed: that of a repaired model is relative to the folder of its run."""
    is_repaired = name.startswith((f"{MODEL}/", f"{REFUSED}/"))
    return str(folder / name) if is_repaired else name


def _check_same(model: Model, origin: ModelOrigin) -> None:
    """Refuse a model that is not the one of the run: other files, address or settings."""
    given = None if model.about is None else model.about.origin
    theirs = origin.arguments() | {"source": origin.source}
    for name, value in theirs.items():
        ours = None if given is None else given[name]
        if name in ("source", "encoder", "weights"):
            value = _content(value, origin.files)
            ours = None if given is None else _content(ours, given["files"])
        if ours != value:
            option = "model" if name == "source" else name.replace("_", "-")
            raise ModelError(
                f"The model that was named is not the one of the run: its {option} differs or has"
                " changed since. Name it with the options of its audit, or run the audit again."
            )


def _content(name: str | None, files: dict[str, str]) -> str | None:
    """Identify what a name refers to, in any folder: the digest of a file, with the function in it;
    an address or a module is its own name.
    """
    if name is None or name in files:
        return None if name is None else files[name]
    file, _, function = name.rpartition(":")
    return f"{files[file]}:{function}" if file in files else name


def trained_before(folder: Path, data: Outline) -> TorchModel:
    """Load the network of an earlier run on the same data set."""
    if (folder / REFUSED).exists() and not (folder / MODEL).exists():
        raise ModelError(
            f"The repair in {folder} was refused or undecided, so its network is not to be used. If"
            " you want it all the same, repair again with --accept-anyway."
        )
    if (folder / AUDIT).exists() and not (folder / MODEL).exists():
        raise ModelError(
            f"There is no network in {folder}: a run of a black box does not keep the model. Name a"
            " run of a network, or train a new one."
        )
    for name in networks.FILES if (folder / MODEL).exists() else ():
        with suppress(FileNotFoundError):  # what is missing is reported when it is loaded
            file_in(folder, f"{MODEL}/{name}")
    model = networks.load(folder / MODEL, data.domain)
    if model.trained_on is not None and model.trained_on[0] != data.name:
        raise ModelError(
            f"The network in {folder} was trained on other data ('{model.trained_on[0]}', not"
            f" '{data.name}')."
        )
    return model


def _own_table(document: TableRun, folder: Path, table: Path | str | None) -> Dataset:
    about, origin = document.data, document.data.origin
    if origin is None or not origin.path or not origin.sha256:
        raise DataError(
            "The run was made with a table that was given from Python and has no file. Repair or"
            " check it there as well."
        )
    if table is None:
        raise DataError(
            f"The table of the run {folder} is your own, and a run folder is data: nothing that it"
            " names is opened. Name the table on the command line, with --table. The run says:"
            f" '{origin.path}'."
        )
    if sha256_of(Path(table)) != origin.sha256:
        raise DataError(
            f"{table} is not the table of the run, or has changed since. Name the table that was"
            " audited, or run the audit again."
        )
    return datasets.open_table(
        table,
        label=origin.label,
        sensitive=document.sensitive,
        favourable=None if about.favourable is None else about.classes[about.favourable],
        drop=origin.drop,
        weights=origin.weights,
        domain=_schema_file(folder),
        target="amount" if document.amounts is not None else "classes",
        name=document.dataset,
    )


def _schema_file(folder: Path) -> Path:
    try:
        return file_in(folder, DOMAIN)
    except FileNotFoundError as error:
        raise StorageError(
            f"{folder} has no {DOMAIN}, so the schema of its table is lost. Run the audit again."
        ) from error
