"""A repaired network in the format that it came in. It counts as written when the file, opened
again, answers as the network whose repair was proven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError
from fairprobe.escapes import printable
from fairprobe.models import Model, TorchModel
from fairprobe.models.join import own_network
from fairprobe.repairs.proof import Proof
from fairprobe.runs.store import MODEL, REFUSED
from fairprobe.storage import replacing, scratch

COMPARED = 10_000  # possible people, beside everybody in the data
SAME = 1e-4  # in probability


@dataclass(frozen=True)
class WrittenModel:
    """A model's file: its name and what is in it."""

    name: str
    content: bytes

    def save(self, folder: Path | str) -> Path:
        """Write the file into a folder, whole or not at all, and return its path."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        with replacing(place / self.name) as temporary:
            temporary.write_bytes(self.content)
        return place / self.name


def written(proof: Proof, data: Dataset) -> tuple[Model, WrittenModel | None]:
    """The repaired network, opened again from the file that it was written to, and that file. A
    network that did not come from a file, or that got another shape, is returned as it is.
    """
    network, own = proof.model, proof.model.own
    if own is None or not proof.repair.keeps_shape or not isinstance(network, TorchModel):
        return network, None
    with scratch() as folder:
        path = folder / own.name
        own.write(own_network(network.module), path)
        again = own.reopen(path).with_decision(
            None if network.decision is None else network.decision.given, data
        )
        _check_same(again, network, data, own.name)
        file = WrittenModel(own.name, path.read_bytes())
        place = f"{MODEL if proof.accepted else REFUSED}/{own.name}"
        set_origin(again, printable(str(path.resolve())), place, file)
    if isinstance(again, TorchModel) and proof.repair.start == "scratch":
        again.trained_on = network.trained_on
    return again, file


def _check_same(again: Model, network: TorchModel, data: Dataset, name: str) -> None:
    rows = np.concatenate([data.x, data.domain.sample(COMPARED, rng=np.random.default_rng(0))])
    theirs = (again.original or again).probabilities(rows)
    ours = network.probabilities(rows)
    apart = float("inf") if ours.shape != theirs.shape else float(np.abs(ours - theirs).max())
    if not apart <= SAME:
        raise ModelError(
            f"The repaired network was written to {name} and opened again, and its answers differ"
            f" by up to {apart:.2g} from those of the proof. It is not delivered; your file is"
            " unchanged."
        )


def set_origin(model: Model, path: str, place: str, file: WrittenModel) -> None:
    """The file is named by its place in the run folder, wherever that may be moved."""
    about = model.about
    if about is None or about.origin is None:
        return
    named = {key: _moved(value, path, place) for key, value in about.origin.items()}
    files = {name: each for name, each in about.origin["files"].items() if name != path}
    files[place] = sha256(file.content).hexdigest()
    model.about = replace(about, origin={**named, "files": files})


def _moved(value: object, path: str, place: str) -> object:
    """A name of the file, or of code in it, by its place."""
    if not isinstance(value, str) or not (value == path or value.startswith(f"{path}:")):
        return value
    return place + value.removeprefix(path)
