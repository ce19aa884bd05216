"""From a run folder back to what was audited: the data and the model, as they were."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

from fairprobe import datasets
from fairprobe.audits.folder import DOMAIN, read_document
from fairprobe.audits.models import trained_before
from fairprobe.datasets.base import Dataset
from fairprobe.errors import DataError, ModelError
from fairprobe.models import Model, load_model

# What a loader may have been told; a run does not say it, but its attributes do.
CODINGS: dict[str, tuple[dict[str, Any], ...]] = {
    "compas": ({"coding": "free"},),
    "german": ({"marital": True},),
}


def reopen(folder: Path | str) -> tuple[Dataset, Model]:
    """The data and the model of a run, refused when they are not there any more or have changed."""
    place = Path(folder)
    body = read_document(place)
    data = data_of(body, place)
    return data, model_of(body, place, data)


def model_of_run(folder: Path, data: Dataset) -> Model:
    """The model of an earlier run, for this data."""
    return model_of(read_document(folder), folder, data)


def data_of(body: dict[str, Any], folder: Path) -> Dataset:
    """The data of a run, coded as it was then, with the same sensitive attributes."""
    name, about = body["dataset"], body["data"]
    if about["origin"] is not None:
        return _own_table(body, folder)
    for told in ({}, *CODINGS.get(name, ())) if name in datasets.names() else ():
        data = datasets.load(name, **told)
        if (list(data.domain.names), len(data)) == (about["attributes"], about["rows"]):
            return data.with_sensitive(body["sensitive"])
    raise DataError(
        f"The run was made with data that is not here: '{name}' with {about['rows']:,} rows and the"
        f" attributes {', '.join(about['attributes'][:5])}, … Data without a file is repaired in"
        " Python: fairprobe.repairs.prove(model, data, …)."
    )


def model_of(body: dict[str, Any], folder: Path, data: Dataset) -> Model:
    """The model of a run: the network that lies in it, or the user's own where it came from."""
    origin = body["model"]["origin"]
    if origin is None or body["repair"] is not None:
        return trained_before(folder, data)
    for file, digest in origin["files"].items():  # the model, its encoder, its weights
        _check_unchanged(Path(file), digest, "model", ModelError)
    told = {name: value for name, value in origin.items() if name not in ("source", "files")}
    return load_model(origin["source"], data, **told)


def _own_table(body: dict[str, Any], folder: Path) -> Dataset:
    about = body["data"]
    origin, favourable = about["origin"], about["favourable"]
    if not origin.get("path"):
        raise DataError(
            "The run was made with a table that was given from Python and has no file. Repair or"
            " check it there as well."
        )
    _check_unchanged(Path(origin["path"]), origin["sha256"], "table", DataError)
    return datasets.open_table(
        origin["path"],
        label=origin["label"],
        sensitive=body["sensitive"],
        favourable=None if favourable is None else about["classes"][favourable],
        drop=origin["drop"],
        domain=folder / DOMAIN,
        name=body["dataset"],
    )


def _check_unchanged(
    path: Path, digest: str | None, what: str, error: type[DataError] | type[ModelError]
) -> None:
    if digest is None:
        return
    if not path.is_file():
        raise error(f"The {what} of the run is not at {path} any more. Put it back, or audit anew.")
    if sha256(path.read_bytes()).hexdigest() != digest:
        raise error(f"The {what} at {path} has changed since the run. Audit it anew.")
