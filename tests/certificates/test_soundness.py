"""What is proved is true: asked everywhere, sampled, judged, and checked by another program."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fairprobe.certificates import checker
from fairprobe.certificates.bounds import bounds, plane_of, shares
from fairprobe.certificates.branch import Limit, Search
from fairprobe.certificates.chain import Chain, UnsupportedError
from fairprobe.certificates.exact import enumerated
from fairprobe.certificates.fold import chain_of
from fairprobe.certificates.proof import Proof, drawn, prove, save
from fairprobe.judgement import judge
from fairprobe.models import TorchModel
from fairprobe.models.decision import Decision, DecisionRule
from fairprobe.schema.domain import Domain
from tests.certificates.small import ACTIVATIONS, everybody, network, numbers, ruled, words
from tests.helpers import census_domain, census_network


def searched(chain: Chain, rounds: int) -> Proof:
    """A proof by bounds after a fixed number of rounds, whatever the clock says."""
    search = Search(chain)
    for _ in range(rounds):
        chosen = search._worst()
        if len(chosen):
            search._split(chosen)
    return Proof(chain, "bounds", search.proved, search=search)


CASES: list[tuple[str, Domain, TorchModel]] = [
    *(
        (name, numbers(), network(numbers(), activation=name, seed=place))
        for place, name in enumerate(ACTIVATIONS)
    ),
    ("three classes", numbers(), network(numbers(), classes=3, seed=7)),
    ("one-hot", words(), network(words(), seed=8)),
    ("two attributes", words("sex", "race"), network(words("sex", "race"), seed=9)),
    ("twins", words(twins=True), network(words(twins=True), seed=10)),
    ("constraints", ruled(), network(ruled(), seed=12)),
    ("real", numbers(real=True), network(numbers(real=True), seed=11)),
]
IDS = [case[0] for case in CASES]


@pytest.mark.parametrize(("name", "domain", "model"), CASES, ids=IDS)
def test_bounds_and_planes_hold_for_everybody_in_random_boxes(
    name: str, domain: Domain, model: TorchModel
) -> None:
    chain, rng = chain_of(model, domain), np.random.default_rng(0)
    last = np.broadcast_to(chain.last, (2, 60, len(chain.last)))
    ends = drawn(chain, np.zeros_like(last), last, rng)
    low, high = ends.min(axis=0), ends.max(axis=0)
    found = bounds(chain, low, high)
    planes = [plane_of(chain, found, label, low, high) for label in range(chain.classes)]
    for _ in range(200):
        cases = drawn(chain, low, high, rng)
        said = chain.differences(cases)  # (B, V, pairs)
        least = np.concatenate([said, -said], axis=2).min(axis=1).T
        assert (least >= found.low).all()
        labels = chain.labels(said)
        for label, plane in enumerate(planes):
            right = (plane.slopes * chain.columns(cases)).sum(axis=0) + plane.constants > 0
            assert (labels[right] == label).all()


@pytest.mark.parametrize(("name", "domain", "model"), CASES, ids=IDS)
def test_people_in_proved_regions_are_never_judged_discriminatory(
    name: str, domain: Domain, model: TorchModel, tmp_path: Path
) -> None:
    chain = chain_of(model, domain)
    proof, rng = searched(chain, 3), np.random.default_rng(1)
    last = np.tile(chain.last, (400, 1))
    cases = drawn(chain, np.zeros_like(last), last, rng)
    if chain.allowed is not None:
        cases = cases[chain.allowed.of(cases).sum(axis=1) >= 2]
    proved = proof.is_proved(cases)
    affected = np.zeros(len(cases), dtype=bool)
    for row in domain.counterparts(chain.rows(cases, domain)).swapaxes(0, 1):
        affected |= judge(domain, model, np.ascontiguousarray(row)).is_discriminatory
    assert not affected[proved].any()
    assert abs(proved.mean() - proof.alike) < 0.12
    share = save(proof, tmp_path / "certificate.npz")
    assert share == pytest.approx(proof.alike, abs=1e-9)
    assert checker.check(str(tmp_path / "certificate.npz"))["checked"] >= share


@pytest.mark.parametrize(
    ("name", "domain", "model"), [case for case in CASES if case[0] != "real"], ids=IDS[:-1]
)
def test_enumeration_counts_what_the_judge_says_of_everybody(
    name: str, domain: Domain, model: TorchModel
) -> None:
    chain = chain_of(model, domain)
    *_, counts = enumerated(chain)
    x = everybody(domain)
    every = domain.counterparts(x)
    verdicts = [judge(domain, model, np.ascontiguousarray(rows)) for rows in every.swapaxes(0, 1)]
    assert chain.people == len(x)
    assert counts.cases == chain.possible
    assert counts.cases == int(np.any([each.has_counterpart for each in verdicts], axis=0).sum())
    hit = np.any([each.is_discriminatory for each in verdicts], axis=0)
    assert counts.affected == int(hit.sum())
    proof = searched(chain, 12)
    assert proof.alike <= counts.alike / counts.cases + 1e-12


@pytest.mark.parametrize("name", ["one-hot", "twins"])
def test_a_network_that_ignores_the_attribute_and_what_is_coupled_to_it_is_proved_at_once(
    name: str, tmp_path: Path
) -> None:
    domain = words(twins=name == "twins")
    proof = prove(chain_of(network(domain, ignore=True), domain), Limit(1.0))
    assert (proof.way, proof.alike, proof.upper_bound) == ("no weight", 1.0, 0.0)
    save(proof, tmp_path / "c.npz")
    assert checker.check(str(tmp_path / "c.npz"))["checked"] == 1.0


def test_a_single_unfair_person_is_never_covered() -> None:
    """Everybody gets −1, except one man of 40 · 40 · 40 people, who gets +1: four ReLUs make a
    spike that is one place wide.
    """
    domain = numbers(sizes=(40, 40, 40))
    at, spike = np.array([17.0, 1.0, 23.0, 31.0]), []
    for column, place in enumerate(at):
        for shift in (-1, 0, 1):
            row = np.zeros(4)
            row[column] = 1
            spike.append((row, -place - shift))
    first = nn.Linear(4, 12)
    second, last = nn.Linear(12, 1), nn.Linear(1, 1)
    with torch.no_grad():
        first.weight.copy_(torch.tensor(np.array([row for row, _ in spike]), dtype=torch.float32))
        first.bias.copy_(torch.tensor([bias for _, bias in spike], dtype=torch.float32))
        second.weight.copy_(torch.tensor([[1.0, -2.0, 1.0] * 4]))  # a hat of height 1 in each
        second.bias.fill_(-3.5)
        last.weight.fill_(4.0)
        last.bias.fill_(-1.0)
    model = TorchModel(nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last), outputs="logits")
    chain = chain_of(model, domain)
    unfair = chain.cases(domain, at[None].astype(np.float32))
    assert judge(domain, model, at[None].astype(np.float32)).is_discriminatory.all()
    for rounds in (1, 5, 40):
        proof = searched(chain, rounds)
        assert not proof.is_proved(unfair).any()
        assert proof.alike < 1
    assert proof.alike > 0.99
    *_, counts = enumerated(chain)
    assert (counts.affected, counts.alike) == (1, 40**3 - 1)


def test_counts_of_half_spaces_never_exceed_the_truth() -> None:
    domain = numbers(sizes=(7, 90, 4))
    chain, rng = chain_of(network(domain), domain), np.random.default_rng(0)
    low = np.zeros((40, 3))
    high = np.tile(chain.last, (40, 1))
    found = bounds(chain, low, high)
    x = np.stack(np.meshgrid(*(np.arange(n + 1) for n in chain.last), indexing="ij"), -1)
    for _ in range(5):
        plane = plane_of(chain, found, 1, low, high)
        slopes = rng.normal(size=plane.slopes.shape)
        constants = rng.normal(size=40) * 30
        plane = plane._replace(slopes=slopes, constants=constants)
        counted = shares(chain, plane, low, high)
        truth = ((x.reshape(-1, 3) @ slopes + constants) > 0).mean(axis=0)
        assert (counted <= truth + 1e-12).all()
        assert (truth - counted).mean() < 0.03


def test_a_threshold_for_each_group_moves_the_proof_as_it_moves_the_judge() -> None:
    domain = numbers()
    model = network(domain, seed=3)
    model.decision = DecisionRule(
        Decision(thresholds={"female": 0.3, "male": 0.6}, by="sex"),
        1,
        thresholds=(0.3, 0.6, 0.5),
        column=1,
        low=0,
    )
    *_, counts = enumerated(chain_of(model, domain))
    assert counts.affected == int(judge(domain, model, everybody(domain)).is_discriminatory.sum())


@pytest.mark.parametrize("name", ["gelu", "three classes", "twins", "constraints"])
def test_the_checker_counts_what_an_enumeration_counted(name: str, tmp_path: Path) -> None:
    domain, model = next((each[1], each[2]) for each in CASES if each[0] == name)
    chain = chain_of(model, domain)
    *_, counts = enumerated(chain)
    share = counts.alike / counts.cases
    save(Proof(chain, "enumerated", share, counts), tmp_path / "c.npz")
    assert checker.check(str(tmp_path / "c.npz"))["checked"] == pytest.approx(share, abs=1e-12)
    more = Proof(chain, "enumerated", share + 1 / counts.cases, counts)
    save(more, tmp_path / "more.npz")
    with pytest.raises(ValueError, match="fewer people"):
        checker.check(str(tmp_path / "more.npz"))
    half = replace(counts, queried=counts.queried // 2)
    save(Proof(chain, "enumerated", share, half), tmp_path / "half.npz")
    with pytest.raises(ValueError, match="fewer people"):
        checker.check(str(tmp_path / "half.npz"))


def test_the_checker_accepts_a_proof_of_the_census_network(tmp_path: Path) -> None:
    """A checker whose rounding errors differ from those of the search rejects its planes: small
    networks do not show it, this one does.
    """
    proof = searched(chain_of(census_network(), census_domain()), 6)
    save(proof, tmp_path / "c.npz")
    checked = checker.check(str(tmp_path / "c.npz"))["checked"]
    assert checked == pytest.approx(proof.alike, rel=1e-9)
    assert checked > 0.48


def test_people_with_real_attributes_are_never_counted_one_by_one(tmp_path: Path) -> None:
    domain = numbers(real=True)
    chain = chain_of(network(domain, seed=11), domain)
    save(searched(chain, 2), tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as file:
        arrays = {name: file[name] for name in file.files}
    none = {name: arrays[name][:0] for name in ("plane", "slopes", "constants")}
    write(tmp_path / "forged.npz", {**arrays, **none})
    with pytest.raises(ValueError, match="cannot be counted"):
        checker.check(str(tmp_path / "forged.npz"))


def test_an_altered_certificate_is_rejected(tmp_path: Path) -> None:
    """One coefficient of 100 changed by a tenth, with the digest made right again."""
    domain = numbers(sizes=(7, 9, 9))
    chain = chain_of(network(domain, seed=2), domain)
    path = tmp_path / "certificate.npz"
    save(searched(chain, 1), path)
    checker.check(str(path))
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    rng, rejected, tried = np.random.default_rng(0), 0, 0
    share = arrays["share"][arrays["plane"] // 2]
    used = np.flatnonzero((share > 0.01) & (share < 0.99))
    while tried < 100:
        slopes = arrays["slopes"].copy()
        slopes[rng.choice(used), rng.integers(slopes.shape[1])] *= rng.choice([0.9, 1.1])
        if (slopes == arrays["slopes"]).all():
            continue
        tried += 1
        forged = {**arrays, "slopes": slopes}
        write(tmp_path / "forged.npz", forged)
        try:
            checker.check(str(tmp_path / "forged.npz"))
        except ValueError:
            rejected += 1
    assert rejected == 100


def test_forged_boxes_counts_and_bytes_are_rejected(tmp_path: Path) -> None:
    domain = numbers(sizes=(7, 9, 9))
    chain = chain_of(network(domain, seed=2), domain)
    save(searched(chain, 3), tmp_path / "certificate.npz")
    with np.load(tmp_path / "certificate.npz") as file:
        arrays = {name: file[name] for name in file.files}
    forgeries = {
        "overlap": {"low": np.zeros_like(arrays["low"])},
        "fewer people": {"share": np.minimum(arrays["share"] * 1.3 + 0.01, 1)},
        "below the network": {"constants": arrays["constants"] + 0.1},
        "same class": {"plane": np.zeros_like(arrays["plane"])},
        "between two values": {"low": arrays["low"] * 0.5},
        "leaves the domain": {"high": arrays["high"] + 50},
    }
    for reason, changed in forgeries.items():
        write(tmp_path / "forged.npz", {**arrays, **changed})
        with pytest.raises(ValueError, match=reason):
            checker.check(str(tmp_path / "forged.npz"))
    np.savez(tmp_path / "bytes.npz", **{**arrays, "bias0": arrays["bias0"] + 1})
    with pytest.raises(ValueError, match="altered"):
        checker.check(str(tmp_path / "bytes.npz"))


def write(path: Path, arrays: dict[str, Any]) -> None:
    """Write a certificate whose digest is that of its arrays."""
    import hashlib

    digest, meta = hashlib.sha256(), json.loads(bytes(arrays["meta"]).decode())
    for name in sorted(set(arrays) - {"meta"}):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}{array.dtype.str}{array.shape}".encode() + array.tobytes())
    meta["sha256"] = digest.hexdigest()
    body = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(path, allow_pickle=False, **{**arrays, "meta": body})


@pytest.mark.parametrize(
    ("module", "named"),
    [
        (nn.Sequential(nn.Linear(4, 3), nn.Softplus(), nn.Linear(3, 1)), "'1' \\(Softplus\\)"),
        (nn.Sequential(nn.Linear(4, 3), nn.ELU(), nn.Linear(3, 1)), "'1' \\(ELU\\)"),
        (nn.Linear(4, 1), "straight line"),
    ],
)
def test_what_is_not_supported_is_named(module: nn.Module, named: str) -> None:
    with pytest.raises(UnsupportedError, match=named):
        chain_of(TorchModel(module, outputs="logits"), numbers())


def test_batch_norms_and_a_final_softmax_are_folded() -> None:
    torch.manual_seed(0)
    norm, second = nn.BatchNorm1d(6), nn.BatchNorm1d(5)
    for each in (norm, second):
        each.running_mean = torch.randn(each.num_features)
        each.running_var = torch.rand(each.num_features) + 0.5
        nn.init.normal_(each.weight)
    module = nn.Sequential(
        *(nn.Linear(4, 6), norm, nn.ReLU(), nn.Linear(6, 5), nn.ReLU(), second),
        *(nn.Dropout(), nn.Linear(5, 3), nn.Softmax(dim=1)),
    ).eval()
    domain = numbers()
    model = TorchModel(module)
    chain = chain_of(model, domain)
    x = everybody(domain)[::7]
    ours = chain.labels(chain.differences(chain.cases(domain, x)))
    every = domain.counterparts(x).reshape(-1, len(domain))
    assert (ours.ravel() == model.labels(np.ascontiguousarray(every))).mean() > 0.999
