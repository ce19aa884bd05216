"""Repaired model in the format that the given one came in: a network with other weights, or a
file that contains a post-hoc repair around the model. It counts as written when the file, opened
again, answers as the model whose repair was proven.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch

from fairprobe.arrays import Floats, Rows
from fairprobe.datasets.base import Dataset
from fairprobe.errors import ModelError
from fairprobe.escapes import printable
from fairprobe.models import Model, ScoreModel, TorchModel
from fairprobe.models.join import SAME as SAME_AMOUNT
from fairprobe.models.join import own_network
from fairprobe.repairs.abstain import Abstaining
from fairprobe.repairs.base import Repair
from fairprobe.repairs.posthoc import PostHoc
from fairprobe.repairs.saved import save_repaired
from fairprobe.storage import replacing, scratch

COMPARED = 10_000  # possible people, next to everybody in the data
SAME = 1e-4  # in probability
ROUNDED = 1e-3  # of the people, whose answers may depend on rounding where a model abstains


@dataclass(frozen=True)
class WrittenModel:
    """File of a model: its name and its content."""

    name: str
    content: bytes

    def save(self, folder: Path | str) -> Path:
        """Write the file into a folder, whole or not at all, and return its path."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        with replacing(place / self.name) as temporary:
            temporary.write_bytes(self.content)
        return place / self.name


def write(
    repaired: Model, repair: Repair | PostHoc, given: Model, data: Dataset, folder: str
) -> tuple[Model, WrittenModel | None]:
    """Return the repaired model, opened again from the file that it was written to, and that file;
    `folder` of the run is where the file will be. A model that did not come from a file or an
    address, or that got another shape, is returned as it is.
    """
    with scratch() as temporary:
        if isinstance(repair, PostHoc):
            opened = _write_around(repaired, repair, given, data, temporary)
        else:
            opened = _write_network(repaired, repair, data, temporary)
        if opened is None:
            return repaired, None
        again, path = opened
        _check_same(again, repaired, data, path.name, is_weighed=isinstance(repair, PostHoc))
        file = WrittenModel(path.name, path.read_bytes())
        place = f"{folder}/{path.name}"
        models = (
            (again, again.network, again.original) if isinstance(again, ScoreModel) else [again]
        )
        for model in models:
            if model is not None:
                _set_origin(model, printable(str(path.resolve())), place, file)
    return again, file


def _write_network(
    repaired: Model, repair: Repair, data: Dataset, folder: Path
) -> tuple[Model, Path] | None:
    """Write a network with its new weights, and open it again."""
    network = repaired.network if isinstance(repaired, ScoreModel) else repaired
    if not isinstance(network, TorchModel) or network.own is None or not repair.keeps_shape:
        return None
    path = folder / network.own.name
    network.own.write(own_network(network.module), path)
    again = network.own.reopen(path)
    if not isinstance(repaired, ScoreModel):
        decision = None if network.decision is None else network.decision.given
        again = again.with_decision(decision, data)
    if isinstance(again, TorchModel) and repair.start == "scratch":
        again.trained_on = network.trained_on
    return again, path


def _write_around(
    repaired: Model, repair: PostHoc, given: Model, data: Dataset, folder: Path
) -> tuple[Model, Path] | None:
    """Write a model with the repair around it, and open it again."""
    joint, about, is_amount = given.joint, given.about, isinstance(repaired, ScoreModel)
    if joint is None or joint.reopen is None or (about is None and not is_amount):
        return None
    origin = None if about is None else about.origin
    source = "model" if origin is None or is_amount else str(origin["source"])
    saved = save_repaired(repair, repaired, joint, data, folder, source.rpartition("/")[2])
    if saved is None:
        return None
    path, options = saved
    again = joint.reopen(f"{path}:predict" if path.suffix == ".py" else path, **options)
    if not is_amount:
        again = again.original or again
        if repair.name != "thresholds" and repaired.decision is not None:
            again = again.with_decision(repaired.decision.given, data)
    return again, path


def _check_same(
    again: Model, repaired: Model, data: Dataset, name: str, *, is_weighed: bool
) -> None:
    """Raise ModelError for a file that answers otherwise than the model that was proven."""
    rows = np.concatenate([data.x, data.domain.sample(COMPARED, rng=np.random.default_rng(0))])
    opened, limit = again.original or again, SAME
    ours: Floats | Rows
    theirs: Floats | Rows
    if isinstance(repaired, ScoreModel):
        ours = repaired.amounts(rows)[:, None]
        limit = SAME_AMOUNT * max(float(ours.std()), np.finfo(np.float64).tiny)
        theirs = opened.amounts(rows)[:, None] if isinstance(opened, ScoreModel) else ours * np.nan
    else:
        ours, theirs = _answers(repaired, rows, is_weighed), opened.probabilities(rows)
    if ours.shape != theirs.shape:
        raise ModelError(f"The repaired model in {name} answers for other classes. {NOT_DELIVERED}")
    apart = np.abs(ours - theirs).max(axis=1)
    beyond = float((~(apart <= limit)).mean())
    if beyond > (ROUNDED if isinstance(repaired, Abstaining) else 0.0):
        raise ModelError(
            f"The repaired model was written to {name} and opened again, and for"
            f" {100 * beyond:.2g} % of the people its answers differ by up to {apart.max():.2g}"
            f" from those of the proof. {NOT_DELIVERED}"
        )


NOT_DELIVERED = "It is not delivered; your file is unchanged."


def _answers(repaired: Model, rows: Rows, is_weighed: bool) -> Floats | Rows:
    """(N, C) probabilities of which the highest is the answer: those that a file gives."""
    p, rule = repaired.probabilities(rows), repaired.decision
    if not is_weighed or rule is None or rule.column is None:
        return p
    return rule.weighed(torch.from_numpy(p), rows).numpy()


def _set_origin(model: Model, path: str, place: str, file: WrittenModel) -> None:
    """Name the file by its place in the run folder, wherever that may be moved."""
    about = model.about
    if about is None or about.origin is None:
        return
    named = {key: _moved(value, path, place) for key, value in about.origin.items()}
    files = {name: digest for name, digest in about.origin["files"].items() if name != path}
    files[place] = sha256(file.content).hexdigest()
    model.about = replace(about, origin={**named, "files": files})


def _moved(value: object, path: str, place: str) -> object:
    """Replace the path of the file, or of code in it, by its place."""
    if not isinstance(value, str) or not (value == path or value.startswith(f"{path}:")):
        return value
    return place + value.removeprefix(path)
