"""Checking the findings of an audit on pictures again, with the networks that the run folder holds.

The files must be those that the document knows by their SHA-256. Every saved pair must be one: two
pictures of a seed of its own that differ by the change of this seed, with two answers if it counts
strictly. A pair near the boundary that does not may have two answers only before its pictures are
rounded to bytes. Each is given to the detector and to the attribute head once more: the answers
must be those that were saved, and the same pairs must count strictly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fairprobe.arrays import Ints, Mask
from fairprobe.datasets.pictures import Bytes
from fairprobe.documents import file_in, read_run
from fairprobe.documents.images import ImagesDocument
from fairprobe.errors import DAMAGED, StorageError
from fairprobe.images.change import as_numbers
from fairprobe.images.controls import OWN
from fairprobe.images.detector import Detector
from fairprobe.images.measure import probabilities, strict_pairs
from fairprobe.images.models import DetectorSource
from fairprobe.images.saved import NETWORKS, Unpacked, unpack
from fairprobe.models import Outputs
from fairprobe.networks.vision_training import Images
from fairprobe.storage import check_regular, check_unpacked, digest

FINDINGS = "findings.npz"
SAME = 1e-3  # in probability: another machine rounds otherwise
STEP = 1 / 255 + 1e-6  # of a pixel: both pictures were rounded to bytes
PARTS = ("without", "with", "labels", "probabilities", "strict", "rows")


@dataclass(frozen=True)
class CheckedMethod:
    """The pairs of one search: how many of them are pairs, how many get the saved answers again,
    how many counted strictly, and how many do so now (None where no head can be asked).
    """

    method: str
    pairs: int
    are_pairs: int
    """Of a seed of their own, with its change between both pictures, and two answers if they count
    strictly."""
    rounded: int
    """Of these, how many have two answers only before they are rounded to bytes."""
    same_answers: int
    strict: int
    strict_again: int | None
    in_document: bool
    """Whether the document counts as many."""

    @property
    def holds(self) -> bool:
        return (
            self.same_answers == self.are_pairs == self.pairs
            and self.strict_again in (None, self.strict)
            and self.in_document
        )


@dataclass(frozen=True)
class CheckedRun:
    """A run whose findings were checked. `altered` are the files that are not those that the audit
    wrote; a run of an earlier version does not know.
    """

    name: str
    methods: tuple[CheckedMethod, ...]
    is_head_asked: bool
    altered: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.altered and all(one.holds for one in self.methods)


def verify_images(
    folder: Path | str,
    model: Detector | nn.Module | str | None = None,
    *,
    trunk: str | None = None,
    head: str | None = None,
    outputs: Outputs = "logits",
    weights: Path | str | None = None,
) -> CheckedRun:
    """Check the findings of a run. `model` is the audited network, needed only where the run folder
    holds its weights alone.
    """
    document = read_run(folder)
    if not isinstance(document, ImagesDocument):
        raise StorageError(
            f"The run {folder} is an audit of {document.kind}. Name one that `fairprobe"
            " audit-images` wrote."
        )
    known = document.files or {}
    altered = tuple(
        name
        for name in (FINDINGS, NETWORKS)
        if name in known and digest(_file(folder, name)) != known[name]
    )
    arrays = _arrays(_file(folder, FINDINGS))
    size = (document.data.height, document.data.width)
    saved = unpack(_file(folder, NETWORKS), size)
    if model is not None:
        source = DetectorSource(
            model=model, trunk=trunk, head=head, outputs=outputs, weights=weights, size=size
        )
        saved = saved.on(source.open((3, *size), len(document.data.classes), seed=document.seed))
    if saved.detector is None:
        raise StorageError(
            f"{folder} holds the weights of the network alone ({saved.about.why}). Name the"
            " audited network (--model), as for audit-images."
        )
    counts = {one.method: (one.loose.idis, one.idis) for one in document.generation}
    methods = tuple(
        _checked(method, arrays, saved, counts[method], len(document.data.classes))
        for method in counts
    )
    return CheckedRun(document.detector.name, methods, OWN in saved.heads, altered)


def _checked(
    method: str,
    arrays: dict[str, npt.NDArray[Any]],
    saved: Unpacked,
    counted: tuple[int, int],
    classes: int,
) -> CheckedMethod:
    without, changed, labels, sure, strict, rows = _parts(method, arrays)
    assert saved.detector is not None
    same = np.ones(len(strict), dtype=bool)
    for at, side in enumerate((without, changed)):
        if len(side):
            again = probabilities(saved.detector, as_numbers(side))
            if again.shape[1] != classes:
                raise StorageError(
                    f"The network answers with {again.shape[1]} classes, and the run has {classes}."
                    " It is another network."
                )
            given = np.take_along_axis(again, labels[:, at : at + 1].clip(0, classes - 1), axis=1)
            is_top = given[:, 0] >= again.max(axis=1) - SAME
            same &= is_top & (np.abs(given[:, 0] - sure[:, at]) <= SAME)
    strict_again = None
    if OWN in saved.heads and len(strict):
        with torch.inference_mode(False):
            found = strict_pairs(saved.detector, saved.heads[OWN], without, changed)
        strict_again = int((found & strict).sum())
    elif OWN in saved.heads:
        strict_again = 0
    is_alike = labels[:, 0] == labels[:, 1]
    are_pairs = _are_pairs(without, changed, rows, *_seeds(arrays, without)) & ~(is_alike & strict)
    return CheckedMethod(
        method,
        len(strict),
        int(are_pairs.sum()),
        int((are_pairs & is_alike).sum()),
        int(same.sum()),
        int(strict.sum()),
        strict_again,
        (len(strict), int(strict.sum())) == counted,
    )


def _are_pairs(without: Bytes, changed: Bytes, rows: Ints, seeds: Ints, change: Images) -> Mask:
    """Which pairs belong to a seed that no other one has, and differ by its change."""
    places = {int(seed): place for place, seed in enumerate(seeds)}
    place = np.array([places.get(int(row), -1) for row in rows], dtype=np.int64)
    _, which, times = np.unique(rows, return_inverse=True, return_counts=True)
    found: Mask = (place >= 0) & (times[which] == 1)
    for at in np.flatnonzero(found):
        expected = np.clip(as_numbers(without[at]) + change[place[at]], 0, 1)
        found[at] = (np.abs(as_numbers(changed[at]) - expected) <= STEP).all()
    return found


def _seeds(arrays: dict[str, npt.NDArray[Any]], pictures: Bytes) -> tuple[Ints, Images]:
    """The rows of the seeds and the change of each."""
    seeds, change = arrays.get("seeds"), arrays.get("change")
    if (
        seeds is None
        or change is None
        or seeds.ndim != 1
        or seeds.dtype.kind != "i"
        or change.dtype.kind != "f"
        or change.shape != (len(seeds), *pictures.shape[1:])
    ):
        raise StorageError(
            f"The seeds and their change in {FINDINGS} do not fit together. Run the audit again."
        )
    return seeds, change


def _parts(
    method: str, arrays: dict[str, npt.NDArray[Any]]
) -> tuple[Bytes, Bytes, Ints, npt.NDArray[Any], npt.NDArray[Any], Ints]:
    """The arrays of one search, if they fit together."""
    names = [f"{method}_{part}" for part in PARTS]
    missing = [name for name in names if name not in arrays]
    if missing:
        raise StorageError(f"{FINDINGS} has no array '{missing[0]}'. Run the audit again.")
    without, changed, labels, sure, strict, rows = (arrays[name] for name in names)
    count = len(without) if without.ndim == 4 else -1
    fits = (
        without.dtype == changed.dtype == np.uint8
        and without.shape == changed.shape
        and labels.shape == sure.shape == (count, 2)
        and labels.dtype.kind == "i"
        and sure.dtype.kind == "f"
        and strict.shape == (count,)
        and strict.dtype == np.bool_
        and rows.shape == (count,)
        and rows.dtype.kind == "i"
    )
    if not fits:
        raise StorageError(
            f"The arrays of {method} in {FINDINGS} do not fit together. Run the audit again."
        )
    return without, changed, labels, sure, strict, rows


def _file(folder: Path | str, name: str) -> Path:
    try:
        return file_in(folder, name)
    except FileNotFoundError as error:
        raise StorageError(
            f"{folder} has no {name}, so its findings cannot be checked. Run the audit again with"
            " this version."
        ) from error


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    check_regular(path)
    try:
        with ZipFile(path) as packed:
            check_unpacked(path, sum(entry.file_size for entry in packed.infolist()))
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except StorageError:
        raise
    except DAMAGED as error:
        raise StorageError(f"{path} cannot be read: {error}. Run the audit again.") from error
