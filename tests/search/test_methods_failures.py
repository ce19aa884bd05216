"""What goes wrong in the middle of a search, in odd domains and in threads: every method keeps what
it has and stays inside.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fairprobe.arrays import Rows
from fairprobe.errors import ModelError
from fairprobe.findings import Findings
from fairprobe.judgement import Verdict, judge
from fairprobe.models import Encoder, Model, TorchModel
from fairprobe.models.chain import Passed
from fairprobe.schema.domain import Attribute, Constraint, Domain
from fairprobe.search import (
    ADF,
    Aequitas,
    Budget,
    Method,
    Progress,
    RandomWalk,
    SymbGen,
    choose_seeds,
    search,
)
from fairprobe.search.catalogue import method_named
from fairprobe.search.neuron_bias import neuron_bias
from papers.protocol import from_each
from tests.helpers import VARIANTS, everybody, planted, tiny_domain

EVERY = [(name, variant) for name, variants in VARIANTS.items() for variant in variants or (None,)]
LITTLE: dict[str, dict[str, Any]] = {"symbgen": {"samples": 150}, "themis": {"error": 0.01}}


def small(name: str, variant: str | None, domain: Domain, model: TorchModel, x: Rows) -> Method:
    """The method with as little work as it allows."""
    bias = neuron_bias(domain, model, x) if name == "neuronfair" else None
    return method_named(name, variant, bias=bias, x=x, **LITTLE.get(name, {}))


# -- interrupts and errors -------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_an_interrupt_keeps_what_each_method_has_found(name: str, variant: str | None) -> None:
    domain = tiny_domain()
    model, x = TorchModel(planted(domain)), everybody(domain)
    counts: list[int] = []

    def impatient(at: Progress) -> None:
        counts.append(at.idis)
        if at.idis:
            raise KeyboardInterrupt

    found = search(
        domain,
        model,
        small(name, variant, domain, model, x),
        x[:60],
        rng=np.random.default_rng(0),
        progress=impatient,
    )
    assert found.generation.stopped == "interrupted"
    assert 0 < len(found) <= counts[-1]


class Failing(TorchModel):
    """Answers so many times, and then no more."""

    def __init__(self, module: nn.Module, answers: int) -> None:
        super().__init__(module)
        self.answers = answers

    def _forward(self, x: Rows) -> Rows:
        self._count()
        return super()._forward(x)

    def log_odds(self, x: Rows) -> tuple[Rows, Passed | None] | None:
        self._count()
        return super().log_odds(x)

    def _count(self) -> None:
        self.answers -= 1
        if self.answers < 0:
            raise ModelError("The model is gone.")


@pytest.mark.parametrize(("name", "variant"), EVERY)
def test_a_model_that_fails_on_the_way_leaves_what_each_method_has_found(
    name: str, variant: str | None
) -> None:
    domain = tiny_domain()
    x = everybody(domain)
    method = small(name, variant, domain, TorchModel(planted(domain)), x)
    if name == "themis":
        method = method_named(name, error=1e-6)  # it must not be content before
    with pytest.raises(ModelError, match="gone") as caught:
        search(domain, Failing(planted(domain), 4), method, x[:60], rng=np.random.default_rng(0))
    kept = caught.value.findings
    assert isinstance(kept, Findings)
    assert kept.generation.stopped == "failed"
    assert len(kept) > 0
    assert judge(domain, TorchModel(planted(domain)), kept.x).is_discriminatory.all()


# -- odd domains -----------------------------------------------------------------------------------


def number(name: str, low: float, high: float, **more: Any) -> Attribute:
    return Attribute(name=name, low=low, high=high, **more)


def one_hot(name: str, categories: str) -> Attribute:
    return Attribute(name=name, kind="categorical", categories=tuple(categories), one_hot=True)


ORDER = Constraint("a is at most b", lambda columns: columns["a"] <= columns["b"])
ODD = {
    "one attribute moves": Domain((number("a", 0, 50), number("s", 0, 1)), sensitive=("s",)),
    "nothing can move": Domain((number("a", 3, 3), number("s", 0, 1)), sensitive=("s",)),
    "one stands still": Domain(
        (number("a", 3, 3), number("b", 0, 9), number("s", 0, 1)), sensitive=("s",)
    ),
    "below zero": Domain(
        (number("a", -20, -3), number("b", -5, 5), number("s", -2, 1)), sensitive=("s",)
    ),
    "two sensitive": Domain(
        (number("a", 0, 20), number("t", 0, 4), number("s", 0, 4)), sensitive=("s", "t")
    ),
    "real": Domain(
        (
            number("a", -1, 1, kind="real"),
            number("b", 0, 1e6, kind="real", grain=10),
            number("s", 0, 4),
        ),
        sensitive=("s",),
    ),
    "one-hot": Domain(
        (one_hot("a", "abcd"), one_hot("k", "x"), number("b", 0, 9), one_hot("s", "pqr")),
        sensitive=("s",),
    ),
    "ruled": Domain(
        (number("a", 0, 20, kind="real"), number("b", 0, 20), number("s", 0, 1)),
        sensitive=("s",),
        constraints=(ORDER,),
    ),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ODD)
def test_in_an_odd_domain_every_method_judges_only_who_can_exist_and_finds_nobody_twice(
    kind: str, classes: int
) -> None:
    domain, encoder = ODD[kind], Encoder(ODD[kind])
    torch.manual_seed(classes)
    network = nn.Sequential(nn.Linear(encoder.width, 6), nn.ReLU(), nn.Linear(6, classes))
    model = TorchModel(network, encoder=None if encoder.is_identity else encoder)
    x = domain.sample(200, rng=np.random.default_rng(3))

    def watch(rows: Rows, verdict: Verdict) -> None:
        domain.require_inside(rows)
        assert domain.satisfies(rows).all()
        assert len(verdict) == len(rows)

    for name, variant in EVERY:
        method = small(name, variant, domain, model, x)
        budget = Budget(global_iterations=4, local_iterations=15, seconds=1, wanted=200)
        seeds = choose_seeds(domain, x, 12, rng=np.random.default_rng(0))
        found = search(
            domain, model, method, seeds, budget, rng=np.random.default_rng(0), on_judged=watch
        )
        assert len(np.unique(found.x[:, domain.other_columns], axis=0)) == len(found)
        assert judge(domain, model, found.x).is_discriminatory.all()


# -- one method, several searches ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["aequitas", "adf", "eidig", "random", "themis", "symbgen"])
def test_one_method_object_serves_searches_side_by_side_as_it_serves_one(name: str) -> None:
    domain = tiny_domain()
    model, x = TorchModel(planted(domain)), everybody(domain)
    method = small(name, None, domain, model, x[:100])

    def go(seed: int) -> Rows:
        budget = Budget(local_iterations=40, wanted=25)
        return search(domain, model, method, x[::9], budget, rng=np.random.default_rng(seed)).x

    alone = [go(seed) for seed in range(3)]
    with ThreadPoolExecutor(3) as threads:
        together = list(threads.map(go, range(3)))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("variant", ["full", "semi"])
def test_what_aequitas_learnt_ends_with_the_search(variant: str) -> None:
    domain = tiny_domain()
    model, method = (
        Model(TorchModel(planted(domain)).probabilities),
        method_named("aequitas", variant),
    )
    first, second = (
        search(domain, model, method, everybody(domain), rng=np.random.default_rng(5))
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.x, second.x)
    assert first.generation.judged == second.generation.judged


# -- the same starts for all -----------------------------------------------------------------------


@pytest.mark.parametrize("method", [Aequitas(), ADF(), RandomWalk(), "symbgen"], ids=str)
def test_starts_that_repeat_have_trails_of_their_own_and_no_starts_have_none(
    method: Method | str,
) -> None:
    domain = tiny_domain()
    model, x = TorchModel(planted(domain)), everybody(domain)
    how = SymbGen(x=x, samples=150) if isinstance(method, str) else method
    guilty = x[judge(domain, model, x).is_discriminatory]
    trails = from_each(
        domain,
        model,
        how,
        guilty[[0, 0, 5]],
        instances=4,
        patience=50,
        rng=np.random.default_rng(0),
    )
    assert [trail.tried for trail in trails] == [4, 4, 4]
    assert len({id(trail.idis) for trail in trails}) == 3
    assert (
        from_each(domain, model, how, guilty[:0], instances=4, rng=np.random.default_rng(0)) == []
    )
