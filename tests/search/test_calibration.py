"""NeuronFair on the reference census network: as many findings as METHODS.md measured, and every
one of them verified independently.

"Independently" means numpy in float64 on the weights of the npz file: nothing of fairprobe but the
findings themselves takes part.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from fairprobe.arrays import Floats, Ints, Rows
from fairprobe.findings import Findings
from fairprobe.models import one_thread
from fairprobe.search import Budget, NeuronFair, choose_seeds, search
from fairprobe.search.methods.neuronfair import Variant
from fairprobe.search.neuron_bias import neuron_bias
from fairprobe.table.generation import gsr
from tests.helpers import (
    CENSUS_BOUNDS,
    VARIANTS,
    assets,
    census_domain,
    census_network,
    census_rows,
)

ATTRIBUTE = {"gender": 8, "race": 7}  # its column


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Networks this small are faster on one core, much faster on a busy machine."""
    with one_thread():
        yield


@cache
def weights() -> list[tuple[Floats, Floats]]:
    with np.load(assets() / "census_reference_net.npz") as file:
        return [
            (file[f"W{number}"].astype(np.float64), file[f"b{number}"].astype(np.float64))
            for number in range(6)
        ]


def plain_labels(x: Rows) -> Ints:
    z = x.astype(np.float64)
    for number, (w, b) in enumerate(weights()):
        z = z @ w + b
        if number < 5:
            z = np.maximum(z, 0)
    return np.asarray(z.argmax(axis=1), dtype=np.int64)


@cache
def method(sensitive: str, variant: Variant) -> NeuronFair:
    rows, _ = census_rows()
    return NeuronFair(
        layer=neuron_bias(census_domain(sensitive), census_network(), rows).most_biased,
        variant=variant,
    )


@cache
def found(sensitive: str, variant: Variant) -> Findings:
    """From 1,000 seeds, 1,000 local steps around each global finding."""
    domain = census_domain(sensitive)
    seeds = choose_seeds(domain, census_rows()[0], 1000, rng=np.random.default_rng(0))
    return search(
        domain, census_network(), method(sensitive, variant), seeds, rng=np.random.default_rng(0)
    )


def global_idis(draw: int) -> int:
    domain = census_domain()
    seeds = choose_seeds(domain, census_rows()[0], 1000, rng=np.random.default_rng(draw))
    how = method("gender", "revert")
    return len(
        search(
            domain,
            census_network(),
            how,
            seeds,
            Budget(local_iterations=0),
            rng=np.random.default_rng(draw),
        )
    )


def test_the_plain_forward_pass_is_the_network_that_is_searched() -> None:
    rows, labels = census_rows()
    np.testing.assert_array_equal(plain_labels(rows), census_network().labels(rows))
    assert (plain_labels(rows) == labels).mean() == pytest.approx(0.86, abs=5e-4)


def test_the_global_phase_finds_as_many_as_measured() -> None:
    counts = [global_idis(draw) for draw in range(3)]
    assert min(counts) >= 700
    assert 700 <= np.mean(counts) <= 760


@pytest.mark.parametrize("sensitive", ["gender", "race"])
def test_revert_finds_as_many_as_measured_and_most_of_what_it_tries(sensitive: str) -> None:
    findings = found(sensitive, "revert")
    assert len(findings) >= {"gender": 300_000, "race": 350_000}[sensitive]
    assert (
        gsr(len(findings), findings.generation.tried) >= {"gender": 0.70, "race": 0.72}[sensitive]
    )
    assert findings.generation.stopped == "complete"


@pytest.mark.slow
def test_paper_finds_fewer_than_walk_and_walk_fewer_than_revert() -> None:
    paper, walk, revert = (len(found("gender", variant)) for variant in ("paper", "walk", "revert"))
    assert 25_000 <= paper <= 60_000
    assert paper < walk < revert


@pytest.mark.parametrize(
    ("sensitive", "variant"),
    [*(("gender", variant) for variant in VARIANTS["neuronfair"]), ("race", "revert")],
)
def test_every_single_finding_holds_before_an_independent_judge(
    sensitive: str, variant: Variant
) -> None:
    findings = found(sensitive, variant)
    x, other = findings.x, findings.x_other
    assert len(x) == len(other) == len(findings) > 25_000
    frame = findings.to_pandas(codes=True)
    mine, theirs = plain_labels(x), plain_labels(other)
    np.testing.assert_array_equal(mine, frame["label"])
    np.testing.assert_array_equal(theirs, frame["label_other"])
    assert (mine != theirs).all()
    column = ATTRIBUTE[sensitive]
    rest = [place for place in range(13) if place != column]
    np.testing.assert_array_equal(x[:, rest], other[:, rest])
    assert (x[:, column] != other[:, column]).all()
    for rows in (x, other):
        np.testing.assert_array_equal(rows, np.rint(rows))
        low, high = np.array(list(CENSUS_BOUNDS.values())).T
        assert (rows >= low).all()
        assert (rows <= high).all()
    people = np.ascontiguousarray(x[:, rest].astype(np.uint8)).view("V12")[
        :, 0
    ]  # every code is below 100
    assert len(np.unique(people)) == len(x)


def test_no_finding_is_a_matter_of_rounding() -> None:
    # Asked alone or in company, forwards or backwards: the answer to a finding does not depend on
    # its place in the batch.
    model, domain = census_network(), census_domain()
    x = found("gender", "revert").x[::37]
    labels = np.stack([model.labels(domain.counterparts(x)[:, value]) for value in (0, 1)])
    assert (labels[0] != labels[1]).all()
    backwards = np.stack([model.labels(domain.counterparts(x)[::-1, value]) for value in (0, 1)])[
        :, ::-1
    ]
    np.testing.assert_array_equal(labels, backwards)
    alone = np.concatenate([model.labels(row[None]) for row in x[:200]])
    np.testing.assert_array_equal(alone, model.labels(x)[:200])
