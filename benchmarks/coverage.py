"""How often the intervals of the reports hold the truth: simulated, cell by cell.

    python -m benchmarks.coverage [--draws 2000] [--out docs/results/coverage.md]

Every kind of interval is worked out for samples from a known population and compared with the known
truth. Nominal is 95 %; 93 % is asked for in every cell. The width stands beside it, because an
interval from 0 to 1 always holds the truth.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fairprobe.arrays import Floats, Ints
from fairprobe.images.activation_ratio import compare
from fairprobe.images.excitement import Excitement
from fairprobe.images.repair import mean_of as mean_with_interval
from fairprobe.metrics.individual import _share_of_pairs
from fairprobe.metrics.quality import _f1, _matthews
from fairprobe.present.table import Table
from fairprobe.report.formats import percent
from fairprobe.results import CONFIDENCE, Rate
from fairprobe.scenes.intervals import Ratio
from fairprobe.statistics.groups import difference, ratios, spread
from fairprobe.statistics.means import quantile
from fairprobe.statistics.rates import confidence_at_look, newcombe
from fairprobe.statistics.repeats import Repeats
from fairprobe.statistics.resampling import resampled
from fairprobe.statistics.weighted import weighted_share

ASKED = 0.93
FOUR_FIFTHS = 0.8
SIZES = (30, 200, 5000)
RATES = (0.02, 0.1, 0.3, 0.5, 0.9, 0.98)
GROUPS = (2, 3, 9, 14, 20)


class Held(NamedTuple):
    """One interval: whether it holds the truth, and how wide it is."""

    is_held: bool
    width: float


@dataclass(frozen=True)
class Cell:
    """A population: how many people each group has, and the rate of each."""

    people: tuple[int, ...]
    rates: tuple[float, ...]
    words: str

    @property
    def sizes(self) -> Ints:
        return np.array(self.people)

    def drawn(self, rng: np.random.Generator) -> Ints:
        return rng.binomial(self.sizes, self.rates)


Draw = Callable[[Cell, np.random.Generator], Iterable[Held]]


def held(low: float | None, high: float | None, truth: float) -> Held:
    if low is None or high is None:  # nothing is said
        return Held(True, 1.0)
    return Held(bool(low - 1e-9 <= truth <= high + 1e-9), high - low)


# -- the kinds of intervals ------------------------------------------------------------------------


def share(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    rate = Rate.of(int(cell.drawn(rng)[0]), cell.people[0])
    yield held(rate.low, rate.high, cell.rates[0])


def highest_minus_lowest(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    _, low, high = difference(cell.drawn(rng), cell.sizes)
    yield held(low, high, max(cell.rates) - min(cell.rates))


def standard_deviation(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    _, low, high = spread(cell.drawn(rng), cell.sizes)
    yield held(low, high, float(np.std(cell.rates)))


def impact_ratio(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """All groups at once: the intervals have to hold together."""
    low, high, truth = _ratios(cell, rng)
    yield Held(bool((low - 1e-9 <= truth).all() and (truth <= high + 1e-9).all()), _mean(high, low))


def fair_and_not_below_four_fifths(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """That no group lies wholly below 0.8 where none is."""
    low, high, truth = _ratios(cell, rng)
    yield Held(not (high[truth >= FOUR_FIFTHS] < FOUR_FIFTHS).any(), _mean(high, low))


def _ratios(cell: Cell, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    hits, rates = cell.drawn(rng), np.array(cell.rates)
    truth = rates / rates.max()
    if not hits.any():
        return np.zeros(len(hits)), np.ones(len(hits)), truth
    _, low, high = ratios(hits, cell.sizes, np.ones(len(hits), dtype=bool))
    return low, high, truth


def _mean(high: Floats, low: Floats) -> float:
    return float((np.minimum(high, 1) - low).mean())


def groups_at_once(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """The most affected groups: exact intervals, corrected for how many groups there are."""
    level = 1 - (1 - CONFIDENCE) / len(cell.people)
    found = [
        Rate.of(int(hits), people, level)
        for hits, people in zip(cell.drawn(rng), cell.people, strict=True)
    ]
    every = [
        held(each.low, each.high, truth) for each, truth in zip(found, cell.rates, strict=True)
    ]
    yield Held(all(one.is_held for one in every), float(np.mean([one.width for one in every])))


def _confusion(rate: float, hits: float = 0.8, refusals: float = 0.9) -> Floats:
    return np.array(
        [[(1 - rate) * refusals, (1 - rate) * (1 - refusals)], [rate * (1 - hits), rate * hits]]
    )


def f1(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    truth = _confusion(cell.rates[0])
    counts = rng.multinomial(cell.people[0], truth.ravel()).reshape(2, 2)
    if counts.sum() == counts[0, 0]:
        yield held(None, None, 0)
        return
    _, low, high = _f1(counts, 1)
    share_of_hits = truth[1, 1] / (1 - truth[0, 0])
    yield held(low, high, 2 * share_of_hits / (1 + share_of_hits))


def matthews(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    truth = _confusion(cell.rates[0])
    counts = rng.multinomial(cell.people[0], truth.ravel()).reshape(2, 2)
    found = resampled(counts, _matthews)
    yield held(found.low, found.high, float(_matthews(truth[None])[0]))


def fair_pairs(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """IFR with four counterparts a person: half the people are treated alike by all four."""
    people, rate = cell.people[0], cell.rates[0]
    by_person = rng.binomial(4, rng.beta(rate, 1 - rate, people))
    found = _share_of_pairs(by_person, np.full(people, 4))
    yield held(found.low, found.high, rate)


def tail_of_gaps(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """The gap that one in ten exceeds, where the gaps are squares of uniform numbers."""
    found = quantile(rng.random(cell.people[0]) ** 2, 0.9)
    yield held(found.low, found.high, 0.81)


def change_of_a_share(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """The gate's change since a baseline with other people."""
    one, other = (Rate.of(int(cell.drawn(rng)[0]), cell.people[0]) for _ in range(2))
    _, low, high = newcombe(
        (one.estimate, one.low, one.high), (other.estimate, other.low, other.high)
    )
    yield held(low, high, 0.0)


def looks_at_a_share(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """Five looks at growing data, as the gate takes them: every look has to hold."""
    hits, people, every = 0, 0, []
    for look in range(1, 6):
        more = cell.people[0] * 2 ** max(0, look - 2)
        hits, people = hits + int(rng.binomial(more, cell.rates[0])), people + more
        rate = Rate.of(hits, people, confidence_at_look(0.95, look))
        every.append(held(rate.low, rate.high, cell.rates[0]))
    yield Held(all(one.is_held for one in every), every[-1].width)


def mean_of_repeats(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """The mean of five repeats of an experiment, each a share."""
    ends = Repeats(tuple(rng.binomial(cell.people[0], cell.rates[0], 5) / cell.people[0])).interval
    low, high = ends or (0.0, 1.0)
    yield held(low, high, cell.rates[0])


def weighted(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """Three in ten people weigh four times as much, and are hits half as often."""
    rate, heavy = cell.rates[0], rng.random(cell.people[0]) < 0.3
    hits = rng.random(cell.people[0]) < np.where(heavy, rate / 2, rate)
    found = weighted_share(hits, np.where(heavy, 4.0, 1.0))
    yield held(found.low, found.high, (1.2 * rate / 2 + 0.7 * rate) / 1.9)


def rate_over_scenes(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """Errors of the objects of a scene hang together: their chance differs from scene to scene."""
    scenes, rate = cell.people[0], cell.rates[0]
    objects = 1 + rng.poisson(3, (scenes, 1))
    errors = rng.binomial(objects, rng.beta(4 * rate, 4 * (1 - rate), (scenes, 1)))
    low, high = Ratio(errors.astype(np.float64), objects.astype(np.float64), is_share=True).interval
    yield held(float(low[0]), float(high[0]), rate)


def mean_length(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """The mean L2 of changed pictures, which is skewed."""
    found = mean_with_interval(rng.gamma(4, 1 / 4, cell.people[0]))
    yield held(found.low, found.high, 1.0) if found is not None else held(None, None, 1.0)


def ratio_of_activations(cell: Cell, rng: np.random.Generator) -> Iterable[Held]:
    """InsideBias's Λ: the lowest over the highest mean of as many groups as there are rates."""
    columns = tuple(
        (mean * rng.gamma(4, 1 / 4, size)).reshape(-1, 1)
        for mean, size in zip(cell.rates, cell.people, strict=True)
    )
    names = tuple("abcdefgh"[: len(columns)])
    excited = Excitement(names, ("layer",), (1,), (True,), (columns,), "image", None)
    found = compare(excited, resamples=200, seed=int(rng.integers(2**31))).decisive
    yield held(found.low, found.high, min(cell.rates) / max(cell.rates))


OF_GROUPS: dict[str, Draw] = {
    "highest minus lowest rate": highest_minus_lowest,
    "standard deviation of rates": standard_deviation,
    "impact ratios, all together": impact_ratio,
    "fair groups not wholly below 0.8": fair_and_not_below_four_fifths,
    "most affected groups, all together": groups_at_once,
}
OF_PEOPLE: dict[str, Draw] = {
    "share (exact)": share,
    "F1": f1,
    "Matthews' correlation": matthews,
    "IFR with four counterparts": fair_pairs,
    "tail of the gap": tail_of_gaps,
    "change of a share": change_of_a_share,
    "share at five looks": looks_at_a_share,
    "weighted share": weighted,
}
OF_REPEATS: dict[str, Draw] = {"mean of five repeats": mean_of_repeats}
OF_SCENES: dict[str, Draw] = {"scenes: rate of a class": rate_over_scenes}
OF_LENGTHS: dict[str, Draw] = {"pictures: mean length of the change": mean_length}
OF_PICTURES: dict[str, Draw] = {"InsideBias: Λ": ratio_of_activations}


def group_cells() -> list[Cell]:
    """Equal and unequal groups; equal rates, rates from low to high, and one group at nothing."""
    cells = []
    for number in GROUPS:
        uneven = tuple(int(each) for each in np.geomspace(30, 5000, number))
        sizes = {f"{size:,} each": (size,) * number for size in SIZES} | {"30 to 5,000": uneven}
        rates = {f"{percent(rate)} each": (rate,) * number for rate in (0.02, 0.3, 0.98)} | {
            "2 to 98 %": tuple(np.linspace(0.98, 0.02, number)),
            "one at 0, others at 30 %": (0.0, *(0.3,) * (number - 1)),
        }
        cells += [
            Cell(people, rate, f"{number} groups, {size}, rates {at}")
            for size, people in sizes.items()
            for at, rate in rates.items()
        ]
    return cells


def people_cells() -> list[Cell]:
    return [
        Cell((size,), (rate,), f"{size:,} people, rate {percent(rate)}")
        for size in SIZES
        for rate in RATES
    ]


def repeat_cells() -> list[Cell]:
    """Where a share is nearly normal: t asks for that, and the experiments are like that."""
    return [cell for cell in people_cells() if cell.people[0] * min(cell.rates[0], 0.1) > 5]


def scene_cells() -> list[Cell]:
    return [
        Cell((scenes,), (rate,), f"{scenes} scenes, rate {percent(rate)}")
        for scenes in (10, 25, 100)
        for rate in (0.05, 0.3, 0.9)
    ]


def picture_cells() -> list[Cell]:
    return [
        Cell((size,) * len(means), means, f"{size} pictures a group, means {means}")
        for size in (10, 30, 100)
        for means in ((1.0, 1.0), (1.0, 0.8), (1.0, 0.95, 0.9, 0.6))
    ]


def coverage(draw: Draw, cell: Cell, draws: int, seed: int = 0) -> tuple[float, float]:
    """How often the intervals of a cell hold the truth, and their mean width."""
    rng = np.random.default_rng(seed)
    every = [one for _ in range(draws) for one in draw(cell, rng)]
    return float(np.mean([one.is_held for one in every])), float(
        np.mean([one.width for one in every])
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--draws", type=int, default=2000)
    options.add_argument("--out", type=Path, default=None)
    given = options.parse_args()
    start, rows = time.process_time(), []
    plan = [
        (OF_GROUPS, group_cells()),
        (OF_PEOPLE, people_cells()),
        (OF_REPEATS, repeat_cells()),
        (OF_SCENES, scene_cells()),
        (OF_LENGTHS, [Cell((size,), (1.0,), f"{size} pictures") for size in (10, 30, 100, 1000)]),
        (OF_PICTURES, picture_cells()),
    ]
    for kinds, cells in plan:
        for name, draw in kinds.items():
            found = [(*coverage(draw, cell, given.draws), cell.words) for cell in cells]
            least, width, where = min(found)
            rows.append(
                (
                    name,
                    f"{len(cells)}",
                    percent(least),
                    where,
                    f"{width:.2f}",
                    percent(float(np.mean([each[0] for each in found]))),
                    f"{np.mean([each[1] for each in found]):.2f}",
                )
            )
            print(f"{name}: lowest {least:.3f} ({where}), width {width:.3f}", flush=True)
    head = ("interval", "cells", "lowest coverage", "in", "its width", "mean", "mean width")
    table = Table(head, rows, words=(0, 3)).markdown()
    print(table)
    print(f"{given.draws:,} draws a cell, {time.process_time() - start:.0f} CPU seconds")
    if given.out is not None:
        given.out.write_text(PAGE.format(table=table, draws=given.draws))


PAGE = """# Coverage of the intervals

`python -m benchmarks.coverage --out docs/results/coverage.md`, {draws:,} draws a cell, seed 0.

Samples are drawn from a known population, and every kind of interval of the reports is
compared with the truth. Nominal is 95 %; at least 93 % is asked for in every cell. *All together*
means that the intervals of all groups hold at once. Where an interval is far above 95 % it is wider
than it need be: the exact ones are with few people, the corrected ones for a single group.

{table}

Three cells of every kind run in the test suite (`tests/statistics/test_coverage.py`; scenes and
pictures have tests of their own).
"""

if __name__ == "__main__":
    main()
