"""Trained network on disk: weights as safetensors, the rest as JSON. Nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from fairprobe.documents.files import read_bytes
from fairprobe.errors import FairprobeError, ModelError, StorageError
from fairprobe.models import Encoder, Merge, Scale, TorchModel
from fairprobe.networks.dense import DenseNetwork
from fairprobe.schema.domain import Domain
from fairprobe.storage import replacing, write_text

WEIGHTS, DESCRIPTION = "model.safetensors", "model.json"
FILES = (WEIGHTS, DESCRIPTION)
MOST_BYTES = 2**20  # of a description

Size: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=2**31)]


class TrainedOn(msgspec.Struct, frozen=True):
    """Data and the seed of a network that was trained here."""

    dataset: str
    seed: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = -1


class Description(msgspec.Struct, frozen=True):
    """Content of `model.json`, next to the weights."""

    network: str
    inputs: Size | None = None
    hidden: list[Size] = []
    classes: Size = 1
    trained_on: TrainedOn | None = None

    def check(self, weights: dict[str, torch.Tensor]) -> None:
        """Refuse to build layers that are larger than the weights there are."""
        if self.inputs is None:
            raise ValueError("it does not name its inputs")
        sizes = (self.inputs, *self.hidden, self.classes)
        wanted = sum(before * after for before, after in pairwise(sizes))
        if wanted > sum(value.numel() for value in weights.values()):
            raise ValueError(f"its layers have {wanted:,} weights, and there are fewer")


def save(model: TorchModel, folder: Path | str) -> None:
    """Write the weights and a description. Of a user's own network only the weights are kept; only
    fairprobe's own can be rebuilt from the files.
    """
    target = Path(folder)
    network = model.module
    about: dict[str, Any] = {
        "network": type(network).__name__,
        "encoded": model.encoder is not None,
    }
    if model.trained_on is not None:
        about["trained_on"] = {"dataset": model.trained_on[0], "seed": model.trained_on[1]}
    if isinstance(network, DenseNetwork):
        about |= {
            "inputs": network.inputs,
            "hidden": list(network.hidden),
            "classes": network.classes,
        }
    try:
        target.mkdir(parents=True, exist_ok=True)
        state = network.state_dict().items()
        weights = {name: value.detach().cpu().contiguous().clone() for name, value in state}
        with replacing(target / WEIGHTS) as temporary:
            save_file(weights, temporary)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"Cannot write the network to {target}: {error}.") from error
    write_text(target / DESCRIPTION, json.dumps(about, indent=2) + "\n")


def load(folder: Path | str, domain: Domain) -> TorchModel:
    """Read a network that fairprobe trained, for rows of this domain."""
    source = Path(folder)
    try:
        about = msgspec.json.decode(read_bytes(source / DESCRIPTION, MOST_BYTES), type=Description)
        weights = load_file(source / WEIGHTS)
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise StorageError(
            f"There is no readable network in {source}: {error}. Train it again."
        ) from error
    if about.network != DenseNetwork.__name__:
        raise ModelError(
            f"{source} holds a network of your own; build it in your code and load {WEIGHTS} into"
            " it."
        )
    encoder = Encoder(domain)
    if about.inputs not in (None, encoder.width):
        raise ModelError(
            f"The network in {source} takes {about.inputs} columns; this data has"
            f" {encoder.width}. It was trained on other data."
        )
    scale = Scale(torch.zeros(encoder.width), torch.ones(encoder.width))
    try:
        about.check(weights)
        merge = _merge(weights, encoder.width)
        network = DenseNetwork(scale, encoder.width, about.hidden, about.classes, merge=merge)
        network.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StorageError(
            f"The network in {source} does not fit its description: {error}. Train it again."
        ) from error
    model = TorchModel(network.eval(), encoder=None if encoder.is_identity else encoder)
    if about.trained_on is not None:
        model.trained_on = (about.trained_on.dataset, about.trained_on.seed)
    return model


def kept(
    folder: Path | None,
    domain: Domain,
    train: Callable[[], TorchModel],
    rebuild: Callable[[dict[str, torch.Tensor]], TorchModel] | None = None,
) -> TorchModel:
    """Return the network that an earlier run kept in the folder, or else a new one, which is kept
    there. A network of another kind than fairprobe's own is kept as its weights, and `rebuild`
    makes it from them again. Without a folder, and where it cannot be rebuilt, always a new one.
    """
    if folder is not None and (folder / DESCRIPTION).exists():
        with suppress(FairprobeError):  # damaged: it is trained again
            return load(folder, domain) if rebuild is None else _rebuilt(folder, rebuild)
    network = train()
    if folder is not None and (rebuild is not None or isinstance(network.module, DenseNetwork)):
        with suppress(StorageError):  # no room: it is trained again when it is needed
            save(network, folder)
    return network


def _rebuilt(folder: Path, rebuild: Callable[[dict[str, torch.Tensor]], TorchModel]) -> TorchModel:
    try:
        return rebuild(load_file(folder / WEIGHTS))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise StorageError(f"The weights in {folder} do not fit the network: {error}.") from error


def _merge(weights: dict[str, torch.Tensor], width: int) -> Merge | None:
    """Return the merge of categories, if the network has one."""
    parts = {
        name.removeprefix("merge."): value
        for name, value in weights.items()
        if name.startswith("merge.")
    }
    if not parts:
        return None
    for name in ("source", "target", "column"):
        if not ((parts[name] >= 0) & (parts[name] < width)).all():
            raise ValueError(f"its merge names a {name} beyond the {width} columns")
    return Merge(**parts)
