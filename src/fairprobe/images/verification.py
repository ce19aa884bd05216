"""Verification: whether two faces are one person's, decided by the distance of their embeddings at
a fixed threshold. How often that is wrong, by group.

false non-match rate    pairs of one person that are taken for two
false match rate        pairs of two people of a group that are taken for one

All pairs within a group are compared, block by block, so memory does not grow with their number.
To choose a threshold, the scores of the false matches that it allows are kept, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints, Mask
from fairprobe.datasets.pictures import Bytes
from fairprobe.errors import DataError, ModelError
from fairprobe.images.change import pieces
from fairprobe.models import one_thread
from fairprobe.models.formats.own_code import own_errors
from fairprobe.statistics.pair_rates import PairRate, pair_rate

Distance = Literal["cosine", "euclidean"]
Progress: TypeAlias = Callable[[int, int], None]  # done, total
AT_ONCE, BLOCK = 64, 1024  # pictures


def embeddings(network: nn.Module, images: Bytes, *, progress: Progress | None = None) -> Floats:
    """(N, D) what the network answers to each picture."""
    found: Floats = np.empty((0, 0))
    network.eval()
    with one_thread(), torch.inference_mode():
        for rows, x in pieces(network, images, AT_ONCE):
            with own_errors(f"The network cannot take {len(x)} pictures, as float32 from 0 to 1"):
                answer = _embedding(network(x))
            if not found.size:
                found = np.empty((len(images), answer.shape[1]))
            found[rows] = answer.double().cpu().numpy()
            if progress is not None:
                progress(rows.stop, len(images))
    broken = int((~np.isfinite(found)).any(axis=1).sum())
    if broken:
        raise ModelError(
            f"The network gives {broken:,} of {len(images):,} pictures embeddings that are not"
            " finite. Check its weights."
        )
    return found


def _embedding(answer: Any) -> Tensor:
    """(N, D) the embeddings in what a network answers; other answers are refused."""
    given = answer if torch.is_tensor(answer) else getattr(answer, "pooler_output", None)
    if isinstance(given, Tensor) and given.ndim > 1 and prod(given.shape[2:]) == 1:
        flat = given.flatten(1)
        if flat.shape[1] > 1:
            return flat
    what = f"a {type(answer).__name__}" if given is None else f"numbers {tuple(given.shape)}"
    raise ModelError(
        f"The network answers with {what}; expected an embedding for each picture, a row of two"
        " numbers or more."
    )


@dataclass(frozen=True)
class Compared:
    """The distances of pairs of pictures to a threshold, in one group."""

    false_non_match: PairRate
    false_match: PairRate
    people: int
    pictures: int


def scores(one: Floats, others: Floats, distance: Distance) -> Floats:
    """(n, m) how alike embeddings are: higher is more alike."""
    if distance == "cosine":
        similar: Floats = _unit(one) @ _unit(others).T
        return similar
    squares = np.square(one).sum(axis=1)[:, None] + np.square(others).sum(axis=1)
    apart: Floats = np.sqrt(np.maximum(squares - 2 * one @ others.T, 0))
    return -apart


def compare(
    found: Floats,
    people: Ints,
    threshold: float,
    distance: Distance,
    *,
    progress: Progress | None = None,
) -> Compared:
    """All pairs of one group: both kinds of error, counted by person."""
    names, who = np.unique(people, return_inverse=True)
    count = len(names)
    sums = np.zeros((4, count), dtype=np.int64)  # errors and pairs, of one person and of two
    for mine, theirs, later, score in _blocks(found, who, distance, progress):
        alike, same = score >= threshold, mine[:, None] == theirs
        own, other = later & same, later & ~same
        sums[0] += np.bincount(mine, (own & ~alike).sum(axis=1), count).astype(np.int64)
        sums[1] += np.bincount(mine, own.sum(axis=1), count).astype(np.int64)
        for row, pairs in ((2, other & alike), (3, other)):
            sums[row] += np.bincount(mine, pairs.sum(axis=1), count).astype(np.int64)
            sums[row] += np.bincount(theirs, pairs.sum(axis=0), count).astype(np.int64)
    return Compared(
        pair_rate(sums[0], sums[1], of_one=True),
        pair_rate(sums[2], sums[3], of_one=False),
        count,
        len(found),
    )


def threshold_at(
    found: Floats,
    people: Ints,
    share: float,
    distance: Distance,
    *,
    progress: Progress | None = None,
) -> float:
    """The lowest threshold at which at most this share of pairs of two people match: the next
    number above the greatest score that must not match.
    """
    _, pictures = np.unique(people, return_counts=True)
    pairs = (len(people) ** 2 - int(np.square(pictures).sum())) // 2
    if not pairs:
        raise DataError("There are no two people to choose a threshold from. Give one.")
    needed = int(share * pairs) + 1  # those that may match, and the greatest that must not
    highest, least = np.empty(0), -np.inf
    for mine, theirs, later, score in _blocks(found, people, distance, progress):
        more = score[later & (mine[:, None] != theirs) & (score > least)]
        highest = np.concatenate([highest, more])
        if len(highest) > 2 * needed:
            highest = np.partition(highest, -needed)[-needed:]
            least = highest[0]
    return float(np.nextafter(np.partition(highest, -needed)[-needed], np.inf))


def _blocks(
    found: Floats, people: Ints, distance: Distance, progress: Progress | None
) -> Iterator[tuple[Ints, Ints, Mask, Floats]]:
    """All pairs in squares: the people of rows and columns, whether a pair is new there, and the
    scores.
    """
    starts = range(0, len(found), BLOCK)
    done, total = 0, len(starts) * (len(starts) + 1) // 2
    for start in starts:
        for other in starts[start // BLOCK :]:
            one, two = slice(start, start + BLOCK), slice(other, other + BLOCK)
            mine, theirs = people[one], people[two]
            later = start + np.arange(len(mine))[:, None] < other + np.arange(len(theirs))
            yield mine, theirs, later, scores(found[one], found[two], distance)
            done += 1
            if progress is not None:
                progress(done, total)


def _unit(values: Floats) -> Floats:
    length = np.linalg.norm(values, axis=1, keepdims=True)
    return np.asarray(values / np.where(length > 0, length, 1))
