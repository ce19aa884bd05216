"""The search: what every method must keep, whatever it looks for; the budget, the progress, the
interrupt, and the seeds it starts from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn

import fairprobe as fp
from fairprobe import networks
from fairprobe.arrays import Floats, Mask, Rows
from fairprobe.errors import DataError, DomainError, ModelError, SettingError
from fairprobe.findings import Findings
from fairprobe.judgement import TIE, Verdict, judge
from fairprobe.models import Encoder, Model, Scale, TorchModel, one_thread
from fairprobe.schema.domain import Attribute, Constraint, Domain
from fairprobe.search import Budget, Method, NeuronFair, Progress, choose_seeds, loop, merge, search
from fairprobe.search.catalogue import method_named
from fairprobe.search.ledger import Entered, Ledger
from fairprobe.search.methods import base
from fairprobe.search.neuron_bias import neuron_bias
from tests.helpers import VARIANTS, blind, everybody, linear, merit, planted, tiny_domain

# -- methods: one line for each; every contract below holds for all of them ------------------------

Maker = Callable[[Domain, TorchModel, Rows], Method]


def maker(name: str, variant: str | None) -> Maker:
    def make(domain: Domain, model: TorchModel, x: Rows) -> Method:
        settings: dict[str, dict[str, Any]] = {
            "themis": {"error": 0.01},
            "symbgen": {"samples": 200, "inputs": 30, "seconds": None},
        }
        return method_named(
            name, variant, bias=neuron_bias(domain, model, x), x=x, **settings.get(name, {})
        )

    return make


METHODS: dict[str, Maker] = {
    f"{name} {variant}" if variant else name: maker(name, variant)
    for name, variants in VARIANTS.items()
    for variant in variants or (None,)
}
WITHOUT_LOCAL_PHASE = {"themis"}
OWN_STARTS = {
    "themis",
    "aequitas full",
    "aequitas semi",
    "aequitas random",
    "probe",
}  # uniform draws, not the seeds alone
# no seed that is given up after its first finding
EXPLORERS = {"themis", "symbgen", "probe", "grft"}


# -- worlds: a domain and a network that discriminates in it ---------------------------------------


@dataclass(frozen=True)
class Case:
    domain: Domain
    network: nn.Sequential

    @property
    def model(self) -> TorchModel:
        encoder = Encoder(self.domain)
        return TorchModel(self.network, encoder=None if encoder.is_identity else encoder)


def integers(names: str, high: float) -> tuple[Attribute, ...]:
    return tuple(Attribute(name=name, low=0, high=high) for name in names)


GENDER = Attribute(name="gender", kind="categorical", categories=("female", "male"))


def unfair(domain: Domain, *, classes: int = 2, seed: int = 0, gain: float = 0.25) -> nn.Sequential:
    """A random network that listens to the sensitive attributes `gain` times as much as it would;
    all classes are about as common.
    """
    network = networks.dense(domain, (12, 6), classes=classes, seed=seed)
    first, last = network.linear1, network.output
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    encoder = Encoder(domain)
    with torch.no_grad():
        for column in domain.sensitive_columns:
            start, width = encoder.spans[column]
            first.weight[:, start : start + width] *= gain
        rows = torch.from_numpy(domain.sample(2000, rng=np.random.default_rng(seed)))
        last.bias.sub_(network(encoder(rows)).median(dim=0).values)
    return network


def codes_with_offset() -> Case:
    domain = Domain(
        (
            Attribute(name="a", low=-5, high=5),
            Attribute(name="gender", low=1, high=2),
            Attribute(name="b", low=10, high=30),
            Attribute(name="c", low=0, high=50),
        ),
        sensitive=("gender",),
    )
    return Case(domain, planted(domain, bias=6))


def one_hot() -> Case:
    domain = Domain(
        (
            Attribute(name="priors", low=0, high=20),
            Attribute(name="race", kind="categorical", categories=("a", "b", "c"), one_hot=True),
            Attribute(
                name="charge",
                kind="categorical",
                categories=tuple("abcdefghijklmnop"),
                one_hot=True,
            ),
            Attribute(name="age", low=18, high=80),
            Attribute(
                name="degree",
                kind="categorical",
                categories=("M", "F", "unknown"),
                high=1,
                one_hot=True,
            ),
        ),
        sensitive=("race",),
    )
    return Case(domain, unfair(domain, gain=0.5))


def real() -> Case:
    domain = Domain(
        (
            Attribute(name="share", kind="real", low=0, high=1),
            Attribute(name="score", kind="real", low=-3, high=5, grain=0.5),
            *integers("ab", 20),
            GENDER,
        ),
        sensitive=("gender",),
    )
    return Case(domain, unfair(domain))


def intersection() -> Case:
    domain = Domain(
        (*integers("ab", 30), GENDER, Attribute(name="age", low=1, high=4), *integers("cd", 30)),
        sensitive=("age", "gender"),
    )
    return Case(domain, unfair(domain))


def four_classes() -> Case:
    domain = Domain(
        (
            *integers("abcd", 30),
            Attribute(name="race", kind="categorical", categories=tuple("xyz")),
        ),
        sensitive=("race",),
    )
    return Case(domain, unfair(domain, classes=4))


def too_wide_for_exact_keys() -> Case:
    domain = Domain((*integers("abcdefghijkl", 99), GENDER), sensitive=("gender",))
    assert not domain.exact_keys
    return Case(domain, unfair(domain))


def constrained() -> Case:
    def part_of_whole(columns: Mapping[str, Rows]) -> Mask:
        return np.asarray(columns["part"] <= columns["whole"])

    def sum_is_right(columns: Mapping[str, Rows]) -> Mask:
        return np.asarray(columns["sum"] == columns["a"] + columns["b"])

    def add_up(columns: Mapping[str, Rows]) -> Mapping[str, Rows]:
        return {"sum": columns["a"] + columns["b"]}

    def only_women(columns: Mapping[str, Rows]) -> Mask:
        return np.asarray((columns["pregnancies"] == 0) | (columns["gender"] == 0))

    domain = Domain(
        (
            *integers("ab", 20),
            Attribute(name="sum", low=0, high=40),
            Attribute(name="whole", low=0, high=30),
            Attribute(name="part", low=0, high=30),
            Attribute(name="pregnancies", low=0, high=3),
            GENDER,
        ),
        sensitive=("gender",),
        constraints=(
            Constraint("the part is at most the whole", part_of_whole),
            Constraint("the sum is right", sum_is_right, add_up),
            Constraint("only women are pregnant", only_women),
        ),
    )
    return Case(domain, unfair(domain, gain=1))


CASES: dict[str, Callable[[], Case]] = {
    "codes with an offset": codes_with_offset,
    "one-hot": one_hot,
    "real": real,
    "intersection": intersection,
    "four classes": four_classes,
    "too wide for exact keys": too_wide_for_exact_keys,
    "constrained": constrained,
}


@dataclass(frozen=True)
class Result:
    case: Case
    method: str
    seeds: Rows
    findings: Findings

    @property
    def frame(self) -> pd.DataFrame:
        return self.findings.to_pandas(codes=True)


@cache
def seeds_in(domain: Domain, n: int) -> Rows:
    return choose_seeds(
        domain, domain.sample(400, rng=np.random.default_rng(1)), n, rng=np.random.default_rng(2)
    )


def find(
    case: Case,
    method: str,
    *,
    seed: int = 7,
    seeds: int = 60,
    local: int = 60,
    most: int | None = None,
) -> Result:
    """Where nothing is to be found, Aequitas would draw 1,000 times: `most` draws are enough."""
    data = case.domain.sample(400, rng=np.random.default_rng(1))
    starts = seeds_in(case.domain, seeds)
    model = case.model
    how = METHODS[method](case.domain, model, data)
    iterations = None if most is None else min(most, how.global_iterations) or None
    budget = Budget(global_iterations=iterations, local_iterations=local)
    rng = np.random.default_rng(seed)
    return Result(case, method, starts, search(case.domain, model, how, starts, budget, rng=rng))


@cache
def case_of(name: str) -> Case:
    return CASES[name]()


@cache
def result_of(case: str, method: str) -> Result:
    return find(case_of(case), method)


@pytest.fixture(
    params=[(case, method) for case in CASES for method in METHODS],
    ids=lambda pair: " / ".join(pair),
)
def result(request: pytest.FixtureRequest) -> Result:
    case, method = request.param
    return result_of(case, method)


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    """Networks this small are faster on one core, much faster on a busy machine."""
    with one_thread():
        yield


def plain_probabilities(case: Case, x: Rows) -> Floats:
    """What the network answers, worked out in float64 with nothing of fairprobe's: coding by hand,
    one matrix product a layer.
    """
    columns: list[Floats] = []
    for codes, attribute in zip(x.astype(np.float64).T, case.domain.attributes, strict=True):
        columns.append(
            np.eye(len(attribute.categories))[codes.astype(int)]
            if attribute.one_hot
            else codes[:, None]
        )
    z = np.concatenate(columns, axis=1)
    for piece in case.network:
        if isinstance(piece, nn.Linear):
            z = z @ piece.weight.detach().numpy().astype(np.float64).T + piece.bias.detach().numpy()
        elif isinstance(piece, Scale):
            z = (z - piece.middle.numpy()) * piece.factor.numpy()
        else:
            assert isinstance(piece, nn.ReLU)
            z = np.maximum(z, 0)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


# -- the contract ----------------------------------------------------------------------------------


def test_every_case_yields_findings_of_both_phases(result: Result) -> None:
    assert result.findings.count("global") > 0
    if (
        result.method != "symbgen"
    ):  # which may have none around the few inputs that it is given time for
        assert (result.findings.count("local") > 0) == (result.method not in WITHOUT_LOCAL_PHASE)


def test_both_labels_are_what_an_independent_forward_pass_says_and_they_differ(
    result: Result,
) -> None:
    frame = result.frame
    own = plain_probabilities(result.case, result.findings.x)
    other = plain_probabilities(result.case, result.findings.x_other)
    np.testing.assert_array_equal(frame["label"], own.argmax(axis=1))
    np.testing.assert_array_equal(frame["label_other"], other.argmax(axis=1))
    assert (frame["label"] != frame["label_other"]).all()


def test_probabilities_and_gap_are_what_an_independent_forward_pass_says(result: Result) -> None:
    frame, row = result.frame, np.arange(len(result.findings))
    own = plain_probabilities(result.case, result.findings.x)
    other = plain_probabilities(result.case, result.findings.x_other)
    np.testing.assert_allclose(frame["probability"], own.max(axis=1), atol=1e-5)
    np.testing.assert_allclose(frame["probability_other"], other.max(axis=1), atol=1e-5)
    label = frame["label"].to_numpy()
    np.testing.assert_allclose(frame["gap"], np.abs(own[row, label] - other[row, label]), atol=2e-5)


def test_the_counterpart_differs_in_sensitive_attributes_and_in_nothing_else(
    result: Result,
) -> None:
    domain, x, other = result.case.domain, result.findings.x, result.findings.x_other
    sensitive = [domain.names.index(name) for name in domain.sensitive]
    rest = [column for column in range(len(domain)) if column not in sensitive]
    np.testing.assert_array_equal(x[:, rest], other[:, rest])
    assert (x[:, sensitive] != other[:, sensitive]).any(axis=1).all()


def test_the_counterpart_is_the_one_with_the_widest_gap_among_all_that_flip(result: Result) -> None:
    domain, x = result.case.domain, result.findings.x
    every = domain.counterparts(x)
    p = np.stack(
        [plain_probabilities(result.case, every[:, v]) for v in range(every.shape[1])], axis=1
    )  # (n, V, C)
    label = plain_probabilities(result.case, x).argmax(axis=1)
    of_label = p[np.arange(len(x)), :, label]
    own = plain_probabilities(result.case, x).max(axis=1)
    allowed = np.stack([domain.satisfies(every[:, v]) for v in range(every.shape[1])], axis=1)
    best = np.sort(p, axis=2)
    decided = best[:, :, -1] - best[:, :, -2] > 2 * TIE  # a counterpart on the fence is no evidence
    flips = (p.argmax(axis=2) != label[:, None]) & allowed & decided
    widest = np.where(flips, np.abs(of_label - own[:, None]), -1).max(axis=1)
    assert (result.frame["gap"] >= widest - 5e-5).all()


def test_both_people_of_a_pair_lie_inside_the_domain(result: Result) -> None:
    for x in (result.findings.x, result.findings.x_other):
        for codes, attribute in zip(x.T, result.case.domain.attributes, strict=True):
            assert codes.min() >= np.float32(attribute.low)
            assert codes.max() <= np.float32(attribute.high)
            if attribute.kind != "real":
                np.testing.assert_array_equal(codes, np.rint(codes))


def test_both_people_of_a_pair_obey_every_constraint(result: Result) -> None:
    for x in (result.findings.x, result.findings.x_other):
        columns = {name: x[:, place] for place, name in enumerate(result.case.domain.names)}
        for constraint in result.case.domain.constraints:
            assert constraint.holds(columns).all(), constraint.name


def test_nobody_is_found_twice(result: Result) -> None:
    rest = [
        place
        for place, name in enumerate(result.case.domain.names)
        if name not in result.case.domain.sensitive
    ]
    people = [tuple(row) for row in result.findings.x[:, rest].tolist()]
    assert len(people) == len(set(people))


def test_a_finding_names_its_seed_and_a_seed_has_at_most_one_global_finding(result: Result) -> None:
    frame = result.frame
    if result.method in WITHOUT_LOCAL_PHASE:
        assert frame["origin"].is_unique  # the number of the draw
        return
    if result.method == "probe":
        assert (frame["origin"] >= 0).all()  # people drawn later are numbered on from the seeds
        return
    assert frame["origin"].between(0, len(result.seeds) - 1).all()
    if result.method in EXPLORERS:
        return
    first = frame[frame["phase"] == "global"]["origin"]
    assert first.is_unique
    assert set(frame["origin"]) == set(
        first
    )  # whatever the local phase found, it found around a global finding


def test_a_seed_that_is_discriminatory_itself_is_found_as_it_is(result: Result) -> None:
    if result.method in OWN_STARTS:
        return
    domain = result.case.domain
    at_once = np.flatnonzero(judge(domain, result.case.model, result.seeds).is_discriminatory)
    assert 0 < len(at_once) < len(result.seeds)
    assert result.findings.count("global") > len(at_once)  # the global phase moved others there
    people = {tuple(row) for row in result.findings.x[:, domain.other_columns].tolist()}
    assert {tuple(row) for row in result.seeds[at_once][:, domain.other_columns].tolist()} <= people


def test_tried_counts_at_least_the_findings_and_judged_at_least_the_tried(result: Result) -> None:
    how = result.findings.generation
    assert len(result.findings) <= how.tried <= how.judged
    assert how.stopped == "complete"
    assert how.seeds == len(result.seeds)
    assert how.wall_seconds > 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_gives_the_same_findings_to_the_last_bit(case: str, method: str) -> None:
    one, two = result_of(case, method).findings, find(case_of(case), method).findings
    assert one.table is not None
    assert one.table.equals(two.table)
    assert one.generation.tried == two.generation.tried


@pytest.mark.parametrize("method", METHODS)
def test_the_result_does_not_depend_on_how_many_threads_torch_may_use(method: str) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2 if before == 1 else 1)
    try:
        again = find(case_of("one-hot"), method).findings
    finally:
        torch.set_num_threads(before)
    table = result_of("one-hot", method).findings.table
    assert table is not None
    assert table.equals(again.table)


@pytest.mark.parametrize("method", METHODS)
def test_another_seed_gives_other_findings(method: str) -> None:
    one, two = (
        result_of("one-hot", method).findings.x,
        find(case_of("one-hot"), method, seed=8).findings.x,
    )
    assert {tuple(row) for row in one.tolist()} != {tuple(row) for row in two.tolist()}


@pytest.mark.parametrize("method", METHODS)
def test_a_search_leaves_its_seeds_and_the_network_as_they_were(method: str) -> None:
    case = case_of("intersection")
    data = case.domain.sample(100, rng=np.random.default_rng(1))
    before, weights = data.copy(), [value.clone() for value in case.network.state_dict().values()]
    model = case.model
    search(
        case.domain,
        model,
        METHODS[method](case.domain, model, data),
        data,
        Budget(local_iterations=20),
        rng=np.random.default_rng(0),
    )
    np.testing.assert_array_equal(data, before)
    assert all(
        torch.equal(a, b) for a, b in zip(weights, case.network.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("method", sorted(set(METHODS) - OWN_STARTS))
def test_a_search_never_moves_a_sensitive_attribute(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of("codes with an offset")
    model = case.model
    how = METHODS[method](case.domain, model, case.domain.sample(100, rng=np.random.default_rng(1)))
    for seed in case.domain.sample(6, rng=np.random.default_rng(2)):
        spy = Spy()
        monkeypatch.setattr(loop, "judge", spy)
        search(
            case.domain,
            model,
            how,
            seed[None],
            Budget(local_iterations=30),
            rng=np.random.default_rng(0),
        )
        assert len(spy.rows) > 1
        assert (spy.rows[:, 1] == seed[1]).all()


# -- planted bias, and none ------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_planted_bias_is_found_where_it_was_planted_and_nowhere_else(method: str) -> None:
    domain = tiny_domain()
    case = Case(domain, planted(domain))
    x = everybody(domain)
    model = case.model
    how = METHODS[method](domain, model, x)
    found = search(
        domain,
        model,
        how,
        choose_seeds(domain, x, 60, rng=np.random.default_rng(0)),
        Budget(local_iterations=300),
        rng=np.random.default_rng(1),
    )
    cut = 7.25  # half of the greatest merit, 9 + 4 + 2, and a quarter
    guilty = x[(merit(domain, x) < cut) & (merit(domain, x) + 2 > cut)]
    reported, truth = (
        {tuple(row) for row in rows[:, [0, 2, 3]].tolist()} for rows in (found.x, guilty)
    )
    assert reported <= truth
    assert (
        len(reported) > 10 if method == "symbgen" else reported == truth
    )  # SymbGen sees one side of each split, and only some splits


def deaf(domain: Domain, *, classes: int, seed: int) -> nn.Sequential:
    """Like `unfair`, but with no weight at all on the sensitive attributes."""
    return unfair(domain, classes=classes, seed=seed, gain=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_a_network_that_ignores_the_sensitive_attributes_is_never_accused(
    case: str, method: str
) -> None:
    domain = case_of(case).domain
    for classes, seed in ((2, 0), (3, 1)):
        found = find(
            Case(domain, deaf(domain, classes=classes, seed=seed)),
            method,
            seed=seed,
            seeds=15,
            local=30,
            most=200,
        ).findings
        assert len(found) == 0
        assert found.generation.tried >= 15


@pytest.mark.parametrize("case", CASES)
def test_no_random_network_that_ignores_the_sensitive_attributes_is_ever_accused(case: str) -> None:
    domain = case_of(case).domain
    rows = domain.sample(1001, rng=np.random.default_rng(0))
    for seed in range(9):
        innocent = Case(domain, deaf(domain, classes=2 + seed % 3, seed=seed))
        assert not judge(domain, innocent.model, rows).is_discriminatory.any()
        assert len(np.unique(plain_probabilities(innocent, rows).argmax(axis=1))) > 1


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3, 1e6])
def test_large_weights_do_not_turn_rounding_into_discrimination(scale: float) -> None:
    domain = Domain(
        (*integers("abcdefghijk", 40), GENDER, Attribute(name="race", low=0, high=4)),
        sensitive=("gender", "race"),
    )
    for seed in range(3):
        network = blind(domain, hidden=(64, 32, 16), seed=seed)
        rows = domain.sample(501, rng=np.random.default_rng(seed))
        with torch.no_grad():
            for piece in network:
                if isinstance(piece, nn.Linear):
                    piece.weight.mul_(scale ** (1 / 4))
                    piece.bias.mul_(scale ** (1 / 4))
            score = network(torch.from_numpy(rows))
            last = network[-1]
            assert isinstance(last, nn.Linear)
            last.bias[1] -= (
                score[:, 1] - score[:, 0]
            ).median()  # one of the rows is now a tie, or next to one
        for closed_form in (True, False):
            model = TorchModel(network, closed_form=closed_form)
            assert not judge(domain, model, rows).is_discriminatory.any()
        assert (
            len(
                find(
                    Case(domain, network), "neuronfair revert", seed=seed, seeds=10, local=10
                ).findings
            )
            == 0
        )


class Trembling(nn.Module):
    """Says the same to everybody, but for a last bit that depends on the place in the batch."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, 4)

    def forward(self, z: Tensor) -> Tensor:
        hidden = torch.relu(self.first(z))
        last_bit = 2e-7 * (torch.arange(len(z)) % 3 - 1)
        return torch.stack([last_bit, torch.zeros(len(z))], dim=1) + 0 * hidden[:, :2]


@pytest.mark.parametrize("method", METHODS)
def test_a_last_bit_that_depends_on_the_place_in_the_batch_accuses_nobody(method: str) -> None:
    domain = tiny_domain()
    model = TorchModel(Trembling(len(domain)))
    how = METHODS[method](domain, model, everybody(domain))
    found = search(
        domain,
        model,
        how,
        everybody(domain)[::7],
        Budget(local_iterations=10),
        rng=np.random.default_rng(0),
    )
    assert len(np.unique(model.labels(everybody(domain)))) == 2
    assert len(found) == 0


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"probe"}))  # it has no global steps
def test_no_seed_stalls_where_the_biased_neurons_only_know_the_sensitive_attribute(
    method: str,
) -> None:
    # hidden 0: a + b; hidden 1: 2 · gender, always above zero: its gradient is not zero, but points
    # nowhere a person may move.
    domain = Domain(
        (*integers("ab", 9), Attribute(name="gender", low=1, high=2)), sensitive=("gender",)
    )
    network = nn.Sequential(
        linear(torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]]), torch.zeros(2)),
        nn.ReLU(),
        linear(torch.tensor([[-1.0, -1.0], [1.0, 1.0]]), torch.tensor([11.5, -11.5])),
    )
    case = Case(domain, network)
    model = case.model
    seeds = np.array(
        [[a, b, gender] for a in (3, 4) for b in (2, 3) for gender in (1, 2)], dtype=np.float32
    )
    assert not judge(domain, model, seeds).is_discriminatory.any()
    how = METHODS[method](domain, model, everybody(domain))
    found = search(
        domain, model, how, seeds, Budget(local_iterations=0), rng=np.random.default_rng(0)
    )
    assert found.generation.tried > 4, "every seed stayed where it was for all 40 iterations"
    assert len(found) > 0


@pytest.mark.parametrize("method", METHODS)
def test_coming_back_to_the_same_real_value_is_not_another_person(method: str) -> None:
    domain = Domain(
        (
            Attribute(name="a", kind="real", low=0, high=1),
            Attribute(name="b", kind="real", low=-3, high=5),
            GENDER,
        ),
        sensitive=("gender",),
    )
    case = Case(domain, planted(domain, bias=2.0, cut=4.0))
    found = find(case, method, seeds=20, local=500).findings
    steps = np.rint(
        found.x[:, :2] / domain.grain[:2] * 1000
    )  # thousandths of a step: what differs by less is float32's rounding
    assert len(found) > (40 if method == "symbgen" else 100)
    assert len(np.unique(steps, axis=0)) == len(found)


def test_seeds_on_the_edge_of_a_constraint_between_real_values_stay_on_its_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def part_of_whole(columns: Mapping[str, Rows]) -> Mask:
        return np.asarray(columns["part"] <= columns["whole"])

    domain = Domain(
        (
            Attribute(name="part", kind="real", low=0, high=10, grain=0.3),
            Attribute(name="whole", kind="real", low=0, high=10, grain=0.7),
            GENDER,
        ),
        sensitive=("gender",),
        constraints=(Constraint("the part is at most the whole", part_of_whole),),
    )
    case = Case(domain, planted(domain, bias=2.0))
    seeds = domain.sample(50, rng=np.random.default_rng(0))
    seeds[:, 0] = seeds[:, 1]  # the part is the whole
    assert domain.satisfies(seeds).all()
    spy = Spy()
    monkeypatch.setattr(loop, "judge", spy)
    model = case.model
    how = METHODS["neuronfair revert"](domain, model, seeds)
    found = search(
        domain, model, how, seeds, Budget(local_iterations=20), rng=np.random.default_rng(0)
    )
    assert domain.satisfies(spy.rows).all()
    assert len(found) > 0


# -- what a search refuses -------------------------------------------------------------------------


def method_for(domain: Domain, model: TorchModel) -> NeuronFair:
    return NeuronFair(layer=neuron_bias(domain, model, everybody(domain)).most_biased)


def test_a_black_box_is_refused_with_a_sentence_that_says_what_to_do() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    black_box = Model(lambda x: np.full(len(x), 0.5))
    with pytest.raises(ModelError, match=r"neuronfair.*black box.*fairprobe\.TorchModel"):
        search(
            domain,
            black_box,
            method_for(domain, model),
            everybody(domain)[:5],
            rng=np.random.default_rng(0),
        )


SEEDS_THAT_ARE_REFUSED: dict[str, tuple[Rows, str]] = {
    "NaN": (
        np.array([[3, 0, 2, 1], [np.nan, 0, 2, 1]], dtype=np.float32),
        r"Row 1 of the seeds.*'skill'",
    ),
    "infinite": (np.array([[np.inf, 0, 2, 1]], dtype=np.float32), r"Row 0 of the seeds.*'skill'"),
    "a fraction": (
        np.array([[3, 0, 2.5, 1]], dtype=np.float32),
        r"2\.5 for 'effort'.*whole numbers",
    ),
    "too high": (
        np.array([[3, 0, 2, 1], [3, 0, 9, 1]], dtype=np.float32),
        r"row 1 has 9 for 'effort', whose bounds are 1 to 5",
    ),
    "too low": (np.array([[3, 0, 0, 1]], dtype=np.float32), r"row 0 has 0 for 'effort'"),
    "no such sensitive value": (np.array([[3, 2, 2, 1]], dtype=np.float32), r"2 for 'gender'"),
    "too narrow": (np.zeros((4, 3), dtype=np.float32), r"shape \(4, 3\); expected \(rows, 4\)"),
}


@pytest.mark.parametrize("what", SEEDS_THAT_ARE_REFUSED)
def test_seeds_that_are_nobody_are_refused_before_the_search(what: str) -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    seeds, message = SEEDS_THAT_ARE_REFUSED[what]
    with pytest.raises(DomainError, match=message):
        search(domain, model, method_for(domain, model), seeds, rng=np.random.default_rng(0))


def test_seeds_that_break_a_constraint_are_refused_and_counted() -> None:
    case = case_of("constrained")
    seeds = case.domain.sample(10, rng=np.random.default_rng(0))
    seeds[3, case.domain.index("sum")] += 1
    seeds[7, case.domain.index("sum")] += 1
    seeds = case.domain.clip(seeds)
    broken = int((~case.domain.satisfies(seeds)).sum())
    assert broken > 0
    model = case.model
    how = METHODS["neuronfair revert"](
        case.domain, model, case.domain.sample(100, rng=np.random.default_rng(0))
    )
    with pytest.raises(DomainError, match=f"{broken} seeds break the domain's constraints"):
        search(case.domain, model, how, seeds, rng=np.random.default_rng(0))


def test_a_domain_without_a_sensitive_attribute_is_refused() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    with pytest.raises(DomainError, match="No sensitive attribute is chosen"):
        search(
            Domain(domain.attributes),
            model,
            method_for(domain, model),
            everybody(domain)[:5],
            rng=np.random.default_rng(0),
        )


def test_an_attribute_with_the_name_of_a_column_of_the_findings_is_refused_before_the_search() -> (
    None
):
    domain = Domain(
        (Attribute(name="label", low=0, high=9), *integers("b", 9), GENDER), sensitive=("gender",)
    )
    model = TorchModel(planted(domain))
    with pytest.raises(DomainError, match="'label'"):
        search(
            domain,
            model,
            method_for(domain, model),
            everybody(domain)[:20],
            rng=np.random.default_rng(0),
        )


def test_an_unknown_local_mode_is_refused_with_the_known_ones() -> None:
    domain = tiny_domain()
    layer = neuron_bias(domain, TorchModel(planted(domain)), everybody(domain)).most_biased
    with pytest.raises(SettingError, match=r"revert, walk, paper; got 'jump'"):
        NeuronFair(layer=layer, variant="jump")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("global_redraw", 0),
        ("local_redraw", 0),
        ("random_share", 2.0),
        ("random_share", -0.1),
        ("step", 0.0),
        ("step", 0.5),
    ],
)
def test_a_number_of_neuronfair_that_makes_no_sense_is_refused_in_words(
    option: str, value: float
) -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    layer = neuron_bias(domain, model, everybody(domain)).most_biased
    with pytest.raises(SettingError):
        search(
            domain,
            model,
            NeuronFair(layer=layer, **{option: value}),  # type: ignore[arg-type]
            everybody(domain)[:5],
            rng=np.random.default_rng(0),
        )


def test_no_seed_at_all_gives_no_findings() -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain))
    found = search(
        domain,
        model,
        method_for(domain, model),
        np.empty((0, 4), dtype=np.float32),
        rng=np.random.default_rng(0),
    )
    assert len(found) == 0
    assert found.generation.tried == 0
    assert found.x.shape == (0, 4)
    assert found.x_other.shape == (0, 4)


# -- the budget ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seeds", 0),
        ("seeds", -1),
        ("global_iterations", 0),
        ("local_iterations", -1),
        ("seconds", -0.1),
        ("seconds", float("nan")),
        ("cpu_seconds", -1),
        ("cpu_seconds", float("nan")),
        ("rows", 0),
        ("rows", 2.5),
        ("wanted", 0),
        ("wanted", -5),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_by_name_and_value(name: str, value: float) -> None:
    with pytest.raises(SettingError, match=rf"{name} must be at least \d; got {value}"):
        Budget(**{name: value})  # type: ignore[arg-type]


@dataclass(frozen=True)
class Ready:
    """All that a search needs but its budget."""

    case: Case
    model: TorchModel
    method: Method
    seeds: Rows

    def __call__(
        self,
        budget: Budget | None = None,
        *,
        seed: int = 3,
        progress: Callable[[Progress], None] | None = None,
        save_to: Path | None = None,
    ) -> Findings:
        rng = np.random.default_rng(seed)
        return search(
            self.case.domain,
            self.model,
            self.method,
            self.seeds,
            budget,
            rng=rng,
            progress=progress,
            save_to=save_to,
        )


@pytest.fixture(params=[method for method in METHODS if method not in EXPLORERS])
def ready(request: pytest.FixtureRequest) -> Ready:
    case = case_of("one-hot")
    data = case.domain.sample(400, rng=np.random.default_rng(1))
    model = case.model
    seeds = seeds_in(case.domain, 40)
    return Ready(case, model, METHODS[request.param](case.domain, model, data), seeds)


class Spy:
    """Stands in for the loop's judge, and keeps every row it was asked about; may fail after so
    many of them.
    """

    def __init__(self, fail_after: int | None = None, error: BaseException | None = None) -> None:
        self.batches: list[Rows] = []
        self.fail_after, self.error = fail_after, error

    def __call__(self, domain: Domain, model: Model, x: Rows) -> Verdict:
        if (
            self.error is not None
            and self.fail_after is not None
            and len(self.batches) >= self.fail_after
        ):
            raise self.error
        self.batches.append(x.copy())
        return judge(domain, model, x)

    @property
    def rows(self) -> Rows:
        return np.concatenate(self.batches)


def test_tried_is_the_number_of_different_people_judged_and_judged_counts_repetitions(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy()
    monkeypatch.setattr(loop, "judge", spy)
    found = ready(Budget(local_iterations=25))
    rest = [
        place
        for place, name in enumerate(ready.case.domain.names)
        if name not in ready.case.domain.sensitive
    ]
    assert found.generation.tried == len({tuple(row) for row in spy.rows[:, rest].tolist()})
    assert found.generation.judged == len(spy.rows)


def test_everything_judged_lies_inside_the_domain_not_only_what_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in CASES:
        for method in METHODS:
            spy = Spy()
            monkeypatch.setattr(loop, "judge", spy)
            find(case_of(name), method, seeds=10, local=10)
            domain = case_of(name).domain
            domain.require_inside(spy.rows)
            assert domain.satisfies(spy.rows).all(), (name, method)


def test_a_search_finds_exactly_the_discriminatory_people_among_those_it_judged(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy()
    monkeypatch.setattr(loop, "judge", spy)
    found = ready(Budget(local_iterations=25))
    guilty = spy.rows[judge(ready.case.domain, ready.model, spy.rows).is_discriminatory]
    rest = ready.case.domain.other_columns
    assert {tuple(row) for row in guilty[:, rest].tolist()} == {
        tuple(row) for row in found.x[:, rest].tolist()
    }


def test_the_iterations_of_the_budget_are_the_steps_that_are_taken(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy()
    monkeypatch.setattr(loop, "judge", spy)
    found = ready(Budget(global_iterations=3, local_iterations=11))
    assert (found.generation.global_iterations, found.generation.local_iterations) == (3, 11)
    assert len(spy.batches) == 3 + 1 + 11  # the row after the last global step is judged too
    walkers = {len(batch) for batch in spy.batches[4:]}
    assert walkers == {found.count("global")}


def test_iterations_that_the_budget_leaves_open_are_the_methods_own(ready: Ready) -> None:
    generation = ready(Budget(wanted=1)).generation
    assert (generation.global_iterations, generation.local_iterations) == (
        ready.method.global_iterations,
        1000,
    )
    assert generation.stopped == "wanted"


def test_no_local_iterations_means_global_findings_only(ready: Ready) -> None:
    found = ready(Budget(local_iterations=0))
    assert len(found) == found.count("global") > 0
    assert found.generation.stopped == "complete"
    assert found.generation.local_iterations == 0


def test_global_findings_do_not_depend_on_the_local_phase(ready: Ready) -> None:
    alone, both = (
        ready(Budget(local_iterations=0)).to_pandas(codes=True),
        ready(Budget(local_iterations=30)).to_pandas(codes=True),
    )
    pd.testing.assert_frame_equal(alone, both[both["phase"] == "global"].reset_index(drop=True))


@pytest.mark.usefixtures("ticking")
def test_a_search_ends_with_the_batch_in_which_its_time_runs_out_and_keeps_what_it_has(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "judge", spy := Spy())
    found = ready(Budget(seconds=150, local_iterations=10**9))
    assert found.generation.stopped == "seconds"
    assert len(spy.batches) == 151  # after 150 batches it is 150 seconds, not more
    assert found.count("local") > 0


@pytest.mark.usefixtures("ticking")
def test_a_search_ends_with_the_batch_in_which_its_computing_time_runs_out(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "judge", spy := Spy())
    found = ready(Budget(cpu_seconds=150, local_iterations=10**9))
    assert found.generation.stopped == "cpu_seconds"
    assert len(spy.batches) == 151


@pytest.mark.parametrize("rows", [1, 40, 41, 500])
def test_a_search_ends_with_the_batch_in_which_its_rows_are_judged(
    ready: Ready, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "judge", spy := Spy())
    found = ready(Budget(rows=rows, local_iterations=10**9))
    assert found.generation.stopped == "rows"
    assert found.generation.judged == len(spy.rows) >= rows
    assert len(spy.rows) - len(spy.batches[-1]) < rows  # the last batch was needed


def test_no_time_at_all_still_judges_the_seeds(ready: Ready) -> None:
    found = ready(Budget(seconds=0))
    assert found.generation.stopped == "seconds"
    assert (
        0.9 * len(ready.seeds) <= found.generation.tried <= len(ready.seeds)
    )  # of uniform draws, two may be the same person
    if ready.method.name != "aequitas":
        assert (
            len(found)
            == int(judge(ready.case.domain, ready.model, ready.seeds).is_discriminatory.sum())
            > 0
        )


@pytest.mark.parametrize("wanted", [1, 20, 60])
def test_wanted_findings_are_different_people_and_at_least_as_many(
    ready: Ready, wanted: int
) -> None:
    found = ready(Budget(wanted=wanted))
    assert found.generation.stopped == "wanted"
    assert len(found) >= wanted
    assert len(found) < wanted + 2 * len(ready.seeds)  # and it stopped soon after
    assert len(np.unique(found.x[:, ready.case.domain.other_columns], axis=0)) == len(found)


def test_a_single_walker_stops_with_exactly_as_many_findings_as_are_wanted(ready: Ready) -> None:
    domain, model = ready.case.domain, ready.model
    discriminatory = judge(domain, model, ready.seeds).is_discriminatory
    seed = ready.seeds[discriminatory][:1]
    budget = Budget(global_iterations=200, wanted=7)
    found = search(domain, model, ready.method, seed, budget, rng=np.random.default_rng(3))
    assert found.generation.stopped == "wanted"
    assert len(found) == 7


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"symbgen"}))
def test_wanted_findings_are_counted_once_where_most_come_again_and_again(method: str) -> None:
    domain = tiny_domain()  # in which 30 people are discriminated against
    model = TorchModel(planted(domain))
    how = METHODS[method](domain, model, everybody(domain))
    found = search(
        domain, model, how, everybody(domain)[::3], Budget(wanted=25), rng=np.random.default_rng(0)
    )
    assert found.generation.stopped == "wanted"
    assert len(found) >= 25


def test_more_wanted_than_there_are_ends_with_all_that_the_seeds_give(ready: Ready) -> None:
    all_of_them = ready(Budget(local_iterations=20))
    found = ready(Budget(local_iterations=20, wanted=10**9))
    assert found.generation.stopped == "complete"
    assert found.table is not None
    assert found.table.equals(all_of_them.table)


# -- chunks, memory --------------------------------------------------------------------------------


def test_several_chunks_keep_the_contract_and_number_the_seeds_through(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "ROWS_AT_ONCE", 24)  # 8 seeds of three sensitive values a chunk
    spy = Spy()
    monkeypatch.setattr(loop, "judge", spy)
    found = ready(Budget(local_iterations=20))
    assert max(len(batch) for batch in spy.batches) == 8
    assert len(np.unique(found.x[:, ready.case.domain.other_columns], axis=0)) == len(found)
    if ready.method.name == "aequitas":  # which does not start from the seeds
        return
    frame, names = found.to_pandas(codes=True), list(ready.case.domain.names)
    first = frame[frame["phase"] == "global"]
    own = np.flatnonzero(judge(ready.case.domain, ready.model, ready.seeds).is_discriminatory)
    origins = {
        number: first[(first[names] == ready.seeds[number]).all(axis=1)]["origin"].tolist()
        for number in own
    }
    assert all(
        origin in ([], [number]) for number, origin in origins.items()
    )  # none: an earlier seed's walk came by
    assert sum(origin != [] for number, origin in origins.items() if number >= 8) > 3


class WatchedLedger(Ledger):
    """A ledger with little room, which tells how much it held at most."""

    limit = 100
    peak = 0
    has_spilled = False

    def __init__(self, domain: Domain) -> None:
        super().__init__(domain, limit=self.limit)

    def enter(self, found: Entered, tried: Entered) -> None:
        super().enter(found, tried)
        for store in (self._found, self._tried):
            WatchedLedger.peak = max(
                WatchedLedger.peak, sum(len(records) for records in store._waiting)
            )
            WatchedLedger.has_spilled |= bool(store._spills)


@pytest.mark.parametrize("case", ["one-hot", "real", "too wide for exact keys"])
def test_with_a_file_to_stream_to_memory_holds_a_bounded_part_however_much_is_found(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = find(case_of(case), "neuronfair revert", seeds=60, local=200).findings
    monkeypatch.setattr(merge, "Ledger", WatchedLedger)
    monkeypatch.setattr(WatchedLedger, "peak", 0)
    monkeypatch.setattr(WatchedLedger, "has_spilled", False)
    data = case_of(case).domain.sample(400, rng=np.random.default_rng(1))
    seeds = seeds_in(case_of(case).domain, 60)
    model = case_of(case).model
    how = METHODS["neuronfair revert"](case_of(case).domain, model, data)
    path = tmp_path / "findings.parquet"
    rng = np.random.default_rng(7)
    found = search(
        case_of(case).domain, model, how, seeds, Budget(local_iterations=200), rng=rng, save_to=path
    )
    assert found.path == path
    assert found.table is None
    assert len(found) > 8 * WatchedLedger.limit
    assert WatchedLedger.has_spilled
    assert WatchedLedger.peak <= 2 * WatchedLedger.limit + len(seeds)
    assert found.generation.tried == in_memory.generation.tried
    # Another order, but the same people with the same provenance.
    order = list(found.domain.names)
    one = found.to_pandas(codes=True).sort_values(order).reset_index(drop=True)
    two = in_memory.to_pandas(codes=True).sort_values(order).reset_index(drop=True)
    pd.testing.assert_frame_equal(one, two)


def test_a_streamed_search_equals_the_search_in_memory(ready: Ready, tmp_path: Path) -> None:
    in_memory = ready(Budget(local_iterations=40))
    streamed = ready(Budget(local_iterations=40), save_to=tmp_path / "findings.parquet")
    assert streamed.table is None
    pd.testing.assert_frame_equal(streamed.to_pandas(codes=True), in_memory.to_pandas(codes=True))
    assert [path.name for path in tmp_path.iterdir()] == ["findings.parquet"]
    again = Findings.load(tmp_path / "findings.parquet", ready.case.domain)
    pd.testing.assert_frame_equal(again.to_pandas(codes=True), in_memory.to_pandas(codes=True))
    assert again.generation.tried == in_memory.generation.tried


# -- progress and interrupts -----------------------------------------------------------------------


@pytest.mark.parametrize("rows_at_once", [4096, 24])
def test_progress_never_goes_back_nor_beyond_its_total_and_tells_of_both_phases(
    ready: Ready, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    monkeypatch.setattr(base, "ROWS_AT_ONCE", rows_at_once)
    seen: list[Progress] = []
    found = ready(Budget(local_iterations=50), progress=seen.append)
    assert {where.phase for where in seen} == {"global", "local"}
    assert len({where.total for where in seen}) == 1
    assert all(0 <= where.done <= where.total for where in seen)
    assert seen[-1].idis <= found.generation.judged
    assert all(a.idis <= b.idis for a, b in pairwise(seen))
    back = [(a.done, b.done) for a, b in pairwise(seen) if b.done < a.done]
    assert back == []


def test_watching_does_not_change_the_result(ready: Ready) -> None:
    quiet, watched = (
        ready(Budget(local_iterations=30)),
        ready(Budget(local_iterations=30), progress=lambda _: None),
    )
    assert quiet.table is not None
    assert quiet.table.equals(watched.table)


def people_of(findings: Findings) -> set[tuple[float, ...]]:
    return {tuple(row) for row in findings.x.tolist()}


def check_interrupted(findings: Findings, whole: Findings) -> None:
    """What an interrupted search owes: it says so, and all that it found until then is there."""
    assert findings.generation.stopped == "interrupted"
    assert 0 < len(findings) <= len(whole)
    assert people_of(findings) <= people_of(whole)
    assert len(findings) <= findings.generation.tried < whole.generation.tried


def test_an_interrupt_while_progress_is_shown_keeps_what_was_found(ready: Ready) -> None:
    def stop(where: Progress) -> None:
        seen.append(where.phase)
        if seen.count("local") == 3:
            raise KeyboardInterrupt

    seen: list[str] = []

    interrupted = ready(Budget(local_iterations=100), progress=stop)
    assert interrupted.count("local") > 0
    check_interrupted(interrupted, ready(Budget(local_iterations=100)))


def test_an_interrupt_inside_the_network_keeps_what_was_found(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ready(Budget(local_iterations=100))
    monkeypatch.setattr(loop, "judge", Spy(fail_after=70, error=KeyboardInterrupt()))
    check_interrupted(ready(Budget(local_iterations=100)), whole)


def test_an_interrupt_keeps_what_was_found_in_the_file_too(
    ready: Ready, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ready(Budget(local_iterations=100))
    monkeypatch.setattr(loop, "judge", Spy(fail_after=70, error=KeyboardInterrupt()))
    ready(Budget(local_iterations=100), save_to=tmp_path / "f.parquet")
    check_interrupted(Findings.load(tmp_path / "f.parquet", ready.case.domain), whole)


def test_an_interrupt_before_the_first_answer_gives_no_findings_but_no_error(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "judge", Spy(fail_after=0, error=KeyboardInterrupt()))
    found = ready()
    assert len(found) == 0
    assert found.generation.stopped == "interrupted"
    assert found.generation.tried == 0


def test_torch_has_its_threads_back_after_a_search_and_after_an_interrupt(
    ready: Ready, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        ready(Budget(local_iterations=1))
        assert torch.get_num_threads() == 2
        monkeypatch.setattr(loop, "judge", Spy(fail_after=3, error=KeyboardInterrupt()))
        ready(Budget(local_iterations=1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# -- seeds -----------------------------------------------------------------------------------------


def distinct(domain: Domain, rows: Rows) -> int:
    return len({tuple(row) for row in rows[:, domain.other_columns].tolist()})


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n", [1, 7, 100, 500])
def test_seeds_are_as_many_as_asked_different_and_inside(case: str, n: int) -> None:
    domain = case_of(case).domain
    data = domain.sample(200, rng=np.random.default_rng(0))
    seeds = choose_seeds(domain, data, n, rng=np.random.default_rng(1))
    assert seeds.shape == (n, len(domain))
    assert seeds.dtype == np.float32
    domain.require_inside(seeds)
    assert domain.satisfies(seeds).all()
    assert distinct(domain, seeds) == n


def test_seeds_are_rows_of_the_data_as_long_as_there_are_enough() -> None:
    domain = tiny_domain()
    data = everybody(domain)[::3]
    seeds = choose_seeds(domain, data, 50, rng=np.random.default_rng(0))
    assert {tuple(row) for row in seeds.tolist()} <= {tuple(row) for row in data.tolist()}


def test_rows_outside_the_domain_are_clipped_to_it() -> None:
    domain = tiny_domain()
    data = everybody(domain)[:60].copy()
    data[:, 2] = 99
    seeds = choose_seeds(domain, data, 6, rng=np.random.default_rng(0))
    assert (seeds[:, 2] == 5).all()


def test_data_with_too_few_different_rows_is_topped_up_with_other_people_of_the_domain() -> None:
    domain = tiny_domain()
    data = np.repeat(everybody(domain)[[0, 50, 100]], 20, axis=0)
    for n in (3, 30, 100, 150):  # the domain has 150 people who differ in more than gender
        seeds = choose_seeds(domain, data, n, rng=np.random.default_rng(n))
        domain.require_inside(seeds)
        assert len(seeds) == n
        assert {tuple(row) for row in data[:, domain.other_columns].tolist()} <= {
            tuple(row) for row in seeds[:, domain.other_columns].tolist()
        }
        assert distinct(domain, seeds) == n


def test_more_seeds_than_the_domain_has_people_are_no_more_than_everybody_once() -> None:
    domain = tiny_domain()
    seeds = choose_seeds(domain, everybody(domain)[:10], 1000, rng=np.random.default_rng(0))
    assert len(seeds) == distinct(domain, seeds) <= 150


def test_seeds_come_in_turn_from_every_cluster() -> None:
    domain = Domain((*integers("abcdef", 1000), GENDER), sensitive=("gender",))
    rng = np.random.default_rng(0)
    sizes = {0: 200, 300: 40, 600: 12, 900: 4}  # four groups of very different size, far apart
    data = np.concatenate(
        [np.c_[at + rng.integers(0, 4, (size, 6)), np.zeros(size)] for at, size in sizes.items()]
    )
    for seed in range(5):
        seeds = choose_seeds(domain, data.astype(np.float32), 40, rng=np.random.default_rng(seed))
        group = (seeds[:, 0] // 300).astype(int)
        for turn in range(4):  # the smallest group has four people: four full turns
            assert sorted(group[4 * turn : 4 * turn + 4]) == [0, 1, 2, 3]
        assert set(group[16:]) == {0, 1, 2}  # then the others go on


def test_the_same_generator_chooses_the_same_seeds_and_another_one_others() -> None:
    domain = tiny_domain()
    one, same, other = (
        choose_seeds(domain, everybody(domain), 20, rng=np.random.default_rng(seed))
        for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_data_in_which_every_row_breaks_a_constraint_is_refused() -> None:
    domain = case_of("constrained").domain
    data = domain.sample(50, rng=np.random.default_rng(0))
    data[:, domain.index("sum")] = 0
    data[:, domain.index("a")] = 1
    with pytest.raises(DataError, match="constraints"):
        choose_seeds(domain, data, 5, rng=np.random.default_rng(0))


def test_a_table_of_identical_rows_is_enough_to_start_from() -> None:
    domain = tiny_domain()
    data = np.repeat(everybody(domain)[[7]], 30, axis=0)
    seeds = choose_seeds(domain, data, 1, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(seeds, data[:1])


def test_the_public_names_are_the_ones_used_here() -> None:
    public: Iterable[tuple[object, object]] = (
        (fp.Budget, Budget),
        (fp.NeuronFair, NeuronFair),
        (fp.Findings, Findings),
    )
    assert all(one is other for one, other in public)
