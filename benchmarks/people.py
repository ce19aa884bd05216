"""How like real people the plausible ones are, as Markdown tables.

    python -m benchmarks.people            # five subjects, and a table of a million rows
    python -m benchmarks.people FILE RACE  # MEPS from a file, which nothing was tuned for

Networks are those that `fairprobe audit` trains (seed 0). Findings are compared with affected
people who were held out, are unique and not among the records; means of three draws of who is
compared. AUC: gradient-boosted trees, three folds, equal numbers, nothing with fewer than 200
people.
"""

from __future__ import annotations

import resource
import sys
import time
from multiprocessing import get_context

import numpy as np

import fairprobe as fp
from fairprobe.arrays import Rows
from fairprobe.datasets.base import Dataset
from fairprobe.judgement import judge
from fairprobe.people.plausible import PlausiblePeople
from fairprobe.people.resemblance import FEWEST, resemblance
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain
from fairprobe.search import Budget, choose_seeds, search
from fairprobe.search.methods.crossover import Crossover
from fairprobe.table.subject import train
from papers.data.meps import meps

SUBJECTS = (
    ("adult", "gender"),
    ("adult", "race"),
    ("adult", "age"),
    ("bank", "age"),
    ("compas", "race"),
)
WANTED = (10_000, 30_000, 60_000, 100_000)
DRAWN = 20_000
MILLION, COLUMNS = 1_000_000, 50


def auc(people: PlausiblePeople, x: Rows, real: Rows | None = None) -> str:
    """The mean of three AUCs, or that there are too few people."""
    each = [resemblance(people, x, real, seed=seed).auc for seed in range(3)]
    known = [value for value in each if value is not None]
    return f"{np.mean(known):.3f}" if known else f"fewer than {FEWEST} people"


def measure(data: Dataset, sensitive: str) -> None:
    """Print the rows of one subject."""
    data = data.with_sensitive(sensitive)
    model = train(data, seed=0)
    began = time.process_time()
    people = PlausiblePeople.fit(data)
    fitted = time.process_time() - began
    test = data.x[data.split(0).test]
    began = time.process_time()
    score = people.score(test)
    each = 1e6 * (time.process_time() - began) / len(test)
    drawn = people.draw(DRAWN, rng=np.random.default_rng(0))
    far, near = people.neighbors.how_far(drawn), np.median(people.far)
    print(
        f"| {data.name}, {sensitive} | {len(data):,} | {fitted:.1f} s | {each:.1f} µs |"
        f" {(score < 0.05).mean():.3f} | {auc(people, drawn)} | {np.median(far):.2f} |"
        f" {near:.2f} | {np.median(far) / max(near, 1e-9):.2f} |",
        file=sys.stderr,
    )
    real = people.held_out[judge(data.domain, model, people.held_out).is_discriminatory]
    seeds = choose_seeds(data.domain, data.x, 1000, rng=np.random.default_rng(0))
    for wanted in WANTED:
        budget = Budget(wanted=wanted, local_iterations=20_000, seconds=90)
        began = time.process_time()
        found = search(
            data.domain,
            model,
            Crossover(),
            seeds,
            budget,
            rng=np.random.default_rng(0),
            people=people,
        )
        passed = time.process_time() - began
        alike = resemblance(people, found.x, real)
        print(
            f"| {data.name}, {sensitive} | {len(found):,} | {auc(people, found.x, real)} |"
            f" {alike.compared} | {len(found) / passed:,.0f} | {alike.distance or 0:.2f} |",
            flush=True,
        )
        if found.generation.stopped != "wanted":
            break


def million() -> tuple[float, float]:
    """Seconds and GiB to learn a table of a million rows and 50 columns."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(MILLION, 5)).astype(np.float32)
    attributes, x = [], np.empty((MILLION, COLUMNS), dtype=np.float32)
    for column in range(COLUMNS):
        number = column % 5 == 0
        top = 999 if number else 2 + column % 11
        raw = hidden[:, column % 5] + rng.normal(size=MILLION).astype(np.float32)
        x[:, column] = np.clip((raw + 4) / 8 * (top + 1), 0, top).astype(np.int32)
        name = f"a{column}"
        attributes.append(
            Attribute(name=name, low=0, high=top)
            if number
            else Attribute(
                name=name, kind="categorical", categories=tuple(map(str, range(top + 1)))
            )
        )
    y = (hidden[:, 0] > 0).astype(np.int64)
    domain = Domain(tuple(attributes), sensitive=("a1",))
    data = Dataset(name="million", domain=domain, x=x, y=y, classes=("no", "yes"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    PlausiblePeople.fit(data)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return time.process_time() - began, (after - before) / 2**20


def main() -> None:
    print("| subject | findings | AUC | compared | a CPU second | distance |")
    print("|" + "---|" * 6)
    if len(sys.argv) == 3:
        measure(meps(sys.argv[1]), sys.argv[2])
        return
    for name, sensitive in SUBJECTS:
        measure(fp.datasets.load(name), sensitive)
    with get_context("spawn").Pool(1) as pool:
        seconds, size = pool.apply(million)
    print(f"\n{MILLION:,} rows, {COLUMNS} columns: {seconds:.0f} CPU s, {size:.2f} GiB more.")


if __name__ == "__main__":
    main()
