"""From a run folder back to what was audited: the data and the model, as they were."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from fairprobe import datasets, networks
from fairprobe.datasets.base import Dataset
from fairprobe.documents import AUDIT, TableDocument, read_table_run
from fairprobe.errors import DataError, ModelError
from fairprobe.models import Decision, Model, TorchModel, load_model

# The files of a run folder, besides its document.
FINDINGS, REPORT, DOMAIN, MODEL = "findings.parquet", "report.html", "domain.toml", "model"
REFUSED = "refused-model"  # a network whose repair was not accepted; nobody takes it by mistake

# Arguments that a loader may have been given; a run does not record them, but its attributes show
# which ones they were.
CODINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "compas": ({"coding": "free"},),
    "german": ({"marital": True},),
}


def reopen(folder: Path | str) -> tuple[Dataset, Model]:
    """Open the data and the model of a run; refuse them if they are gone or have changed."""
    place = Path(folder)
    document = read_table_run(place)
    data = data_of(document, place)
    return data, model_of(document, place, data)


def model_of_run(folder: Path, data: Dataset) -> Model:
    """Open the model of an earlier run, for this data."""
    return model_of(read_table_run(folder), folder, data)


def data_of(document: TableDocument, folder: Path) -> Dataset:
    """Open the data of a run, coded as it was then, with the same sensitive attributes."""
    data = _data_of(document, folder)
    return data.with_counterparts(document.counterparts.kind)


def _data_of(document: TableDocument, folder: Path) -> Dataset:
    name, about = document.dataset, document.data
    if about.origin is not None:
        return _own_table(document, folder)
    for arguments in ({}, *CODINGS.get(name, ())) if name in datasets.names() else ():
        data = datasets.load(name, **arguments)
        if (list(data.domain.names), len(data)) == (about.attributes, about.rows):
            return data.with_sensitive(document.sensitive)
    raise DataError(
        f"The run was made with data that is not here: '{name}' with {about.rows:,} rows and the"
        f" attributes {', '.join(about.attributes[:5])}, … Repair a model for data without a file"
        " in Python: fairprobe.repairs.prove(model, data, …)."
    )


def model_of(document: TableDocument, folder: Path, data: Dataset) -> Model:
    """Open the model of a run, with its decision rule: the network that lies in it, or the user's
    own at its source.
    """
    return _model_of(document, folder, data).with_decision(_decision_of(document), data)


def _decision_of(document: TableDocument) -> Decision | None:
    rule = document.model.decision
    if rule is None:
        return None
    if rule.costs is not None:
        return Decision(costs=rule.costs)
    return Decision(rule.threshold, thresholds=rule.thresholds, by=rule.by)


def _model_of(document: TableDocument, folder: Path, data: Dataset) -> Model:
    origin = document.model.origin
    if origin is None or document.repair is not None:
        return trained_before(folder, data)
    for file, digest in origin.files.items():  # the model, its encoder, its weights
        _check_unchanged(Path(file), digest, "model", ModelError)
    return load_model(origin.source, data, **origin.arguments())


def trained_before(folder: Path, data: Dataset) -> TorchModel:
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
    model = networks.load(folder / MODEL, data.domain)
    if model.trained_on is not None and model.trained_on[0] != data.name:
        raise ModelError(
            f"The network in {folder} was trained on other data ('{model.trained_on[0]}', not"
            f" '{data.name}')."
        )
    return model


def _own_table(document: TableDocument, folder: Path) -> Dataset:
    about, origin = document.data, document.data.origin
    if origin is None or not origin.path:
        raise DataError(
            "The run was made with a table that was given from Python and has no file. Repair or"
            " check it there as well."
        )
    _check_unchanged(Path(origin.path), origin.sha256, "table", DataError)
    return datasets.open_table(
        origin.path,
        label=origin.label,
        sensitive=document.sensitive,
        favourable=None if about.favourable is None else about.classes[about.favourable],
        drop=origin.drop,
        weights=origin.weights,
        domain=folder / DOMAIN,
        name=document.dataset,
    )


def _check_unchanged(
    path: Path, digest: str | None, what: str, error: type[DataError] | type[ModelError]
) -> None:
    if digest is None:
        return
    if not path.is_file():
        raise error(
            f"The {what} of the run is no longer at {path}. Put it back, or run the audit again."
        )
    if sha256(path.read_bytes()).hexdigest() != digest:
        raise error(f"The {what} at {path} has changed since the run. Run the audit again.")
