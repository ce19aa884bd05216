"""Drawing more possible people until an interval no longer holds its limit.

Looking at the data again and again, and stopping at a result that one likes, is wrong more often
than each look says. So look k (the first is the run's own sample) uses the confidence 1 −
α/(k(k+1)). The errors of all looks together are at most α (1/2 + 1/6 + 1/12 + …), which is α: the
verdict holds at the run's confidence however often it looked. Each look doubles the sample, so few
are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np

from fairprobe.datasets.base import Dataset, Outline
from fairprobe.errors import SettingError
from fairprobe.gate.ruling import side
from fairprobe.metrics.rates import dm_rs
from fairprobe.models import Model
from fairprobe.results import Rate
from fairprobe.runs.kinds import RunDocument
from fairprobe.runs.reopen import OpenModel, network_in, reopen
from fairprobe.statistics.rates import confidence_at_look

More: TypeAlias = Callable[
    [int], Rate
]  # so many possible people more, and how many of them are affected
OnStep: TypeAlias = Callable[[int, int], None]


@runtime_checkable
class Audited(Protocol):
    """An audit in memory."""

    @property
    def document(self) -> RunDocument: ...


@runtime_checkable
class AuditedTable(Protocol):
    """An audit of a table in memory, with the data and model to draw more people with."""

    @property
    def data(self) -> Dataset: ...
    @property
    def model(self) -> Model: ...


# An audit's own generators are children 0, 1, 2 … of its seed; the gate's is this one.
APART = 7_777_777


def sampler(data: Outline, model: Model, seed: int, *, progress: OnStep | None = None) -> More:
    """Draw possible people with random numbers that the audit does not use: independent of the
    run's own sample, and the same at every evaluation.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(APART,)))
    return lambda samples: dm_rs(data.domain, model, rng=rng, samples=samples, progress=progress)


def sampler_of(
    run: AuditedTable | Path,
    sensitive: list[str],
    seed: int,
    *,
    table: Path | None = None,
    model: OpenModel | None = None,
    progress: OnStep | None = None,
) -> More:
    """Return a sampler that opens the run's model when it is first used: the network that lies in
    the run folder, or the one that `model` opens, with the run's own `table` if it has one. What
    the folder merely names is not opened.
    """
    opened: list[More] = []

    def more(samples: int) -> Rate:
        if not opened:
            opened.append(_open(run, sensitive, seed, table, model, progress))
        return opened[0](samples)

    return more


def _open(
    run: AuditedTable | Path,
    sensitive: list[str],
    seed: int,
    table: Path | None,
    model: OpenModel | None,
    progress: OnStep | None,
) -> More:
    if isinstance(run, AuditedTable):
        data = run.data.with_sensitive(sensitive)
        return sampler(data, run.model, seed, progress=progress)
    if model is not None:
        return sampler(*reopen(run, table=table, model=model), seed, progress=progress)
    return sampler(*network_in(run), seed, progress=progress)


def until_decided(first: Rate, limit: float, more: More, most: int) -> tuple[Rate, int]:
    """All people drawn, with the interval of the last look, and how many looks it took. At `most`
    people it ends undecided.
    """
    if first.samples >= most:  # a single look has nothing to share its errors with
        return first, 1
    hits, samples, look = first.hits, first.samples, 1
    while True:
        rate = Rate.of(hits, samples, confidence_at_look(first.confidence, look))
        if side(rate.low, rate.high, limit, "at most") != "uncertain" or samples >= most:
            return rate, look
        wanted = min(samples, most - samples)
        drawn = more(wanted)
        if drawn.samples != wanted:
            raise SettingError(
                f"`more` was asked for {wanted:,} people and gave {drawn.samples:,}; it must draw"
                " as many as it is asked for."
            )
        hits, samples, look = hits + drawn.hits, samples + drawn.samples, look + 1
