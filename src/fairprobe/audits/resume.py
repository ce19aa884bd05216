"""Going on with a run that was killed: what is kept of it, and whether it is still the same run.

A checkpoint is a folder beside the run in the making:

    fingerprint    of the data, the settings and the version
    networks/      those that were trained
    search/        finished chunks of the search, with a fingerprint that includes the model
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch

from fairprobe import networks
from fairprobe.datasets.base import Dataset
from fairprobe.errors import StorageError
from fairprobe.models import Model, ScoreModel, TorchModel
from fairprobe.search.chunks import Checkpoint, check_fingerprint
from fairprobe.versions import versions


def fingerprint(data: Dataset, *settings: object, model: Model | None = None) -> str:
    """A digest of all that a run depends on: the rows and their schema, the settings, the versions
    and the model: its weights, or what it answers everybody in the data.
    """
    digest = sha256(repr((versions("torch", "numpy"), data.domain, data.classes)).encode())
    for part in (data.x, data.y if data.amounts is None else data.amounts):
        digest.update(np.ascontiguousarray(part).data)
    for setting in settings:
        digest.update(_identity(setting))
    network = model.network if isinstance(model, ScoreModel) else model
    if isinstance(network, TorchModel):
        for name, value in network.module.state_dict().items():
            raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            digest.update(name.encode() + raw.numpy().tobytes())
    if isinstance(model, ScoreModel):
        digest.update(repr(model.tolerance).encode() + model.amounts(data.x).tobytes())
    elif model is not None:
        digest.update(model.labels(data.x).astype(np.int64).tobytes())
    return digest.hexdigest()


def _identity(setting: object) -> bytes:
    """What identifies a setting. Arrays among those of a method follow from data and model."""
    if isinstance(setting, np.ndarray):
        return sha256(np.ascontiguousarray(setting).data).digest()
    if hasattr(setting, "__dataclass_fields__"):
        values = {
            each.name: getattr(setting, each.name)
            for each in fields(setting)  # type: ignore[arg-type]
        }
        plain = {
            name: value
            for name, value in values.items()
            if isinstance(value, str | int | float | bool | tuple | None)
        }
        return repr((type(setting).__qualname__, plain)).encode()
    return repr(setting).encode()


def search_checkpoint(
    folder: Path | None, data: Dataset, model: Model, *settings: object
) -> Checkpoint | None:
    """Where finished chunks of this search are kept; None without a folder, or without room."""
    if folder is None:
        return None
    try:
        return Checkpoint(folder / "search", fingerprint(data, *settings, model=model))
    except (OSError, StorageError):  # a full disk is no reason to lose what was trained
        return None


def kept_network(
    folder: Path, data: Dataset, settings: object, train: Callable[[], TorchModel]
) -> TorchModel:
    """The network that an earlier run trained for its audit with these settings, or a new one."""
    place = folder / "networks" / "audited"
    check_fingerprint(place, fingerprint(data, settings))
    return networks.kept(place, data.domain, train)


def check_repair(folder: Path, data: Dataset, model: Model, *settings: object) -> None:
    """Refuse a folder with what was kept of another repair."""
    check_fingerprint(folder / "networks", fingerprint(data, *settings, model=model))
