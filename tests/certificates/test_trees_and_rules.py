"""Trees with constraints, and with decision rules of every kind that is supported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fairprobe as fp
from fairprobe.certificates import checker, leaves
from fairprobe.certificates.branch import Limit
from fairprobe.certificates.chain import UnsupportedError
from fairprobe.certificates.fold import chain_of, subject_of
from fairprobe.certificates.forest import Forest
from fairprobe.certificates.people import proved_radius
from fairprobe.certificates.proof import Proof, prove, save
from fairprobe.judgement import judge
from fairprobe.models.base import Model
from fairprobe.models.decision import Decision
from fairprobe.schema.attributes import Constraint
from fairprobe.schema.domain import Domain
from tests.certificates.small import ROLES, everybody, network, words
from tests.certificates.test_soundness import searched, write
from tests.certificates.test_trees import fitted

Array = np.ndarray


def ruled(seed: int, *sensitive: str, twins: bool = False) -> Domain:
    """A random table says which values of three attributes go together."""
    domain, rng = words(*sensitive, twins=twins), np.random.default_rng(seed)
    plain = tuple(replace(each, one_hot=False) for each in domain.attributes)
    names = ["sex", *rng.permutation(["age", "role", "job", "race"])[:2]]
    table = rng.random([10, 10, 10]) < 0.7

    def holds(codes: Mapping[str, Array]) -> Array:
        return np.asarray(table[tuple(codes[name].astype(int) for name in names)])

    return replace(domain, attributes=plain, constraints=(Constraint("random", holds),))


def data_of(domain: Domain, classes: int = 2) -> fp.Dataset:
    """Labels by other weights for women than for men, so that trees cannot ignore sex."""
    rng = np.random.default_rng(5)
    x = domain.sample(1000, rng=rng)
    score = ((x - x.mean(axis=0)) * rng.normal(size=(2, len(domain)))[x[:, 1].astype(int)]).sum(1)
    y = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    names = ("no", "maybe", "yes")[:: 2 if classes == 2 else 1]
    return fp.Dataset(name="toy", domain=domain, x=x, y=y, label="job", classes=names)


def asked(domain: Domain, model: Model) -> tuple[Array, Array, Array]:
    """Who is affected, who hangs on ties and who counts, by asking the judge about everybody."""
    every = domain.counterparts(everybody(domain)).swapaxes(0, 1)
    found = [judge(domain, model, np.ascontiguousarray(rows)) for rows in every]
    hit = np.any([each.is_discriminatory for each in found], axis=0)
    tied = np.any([each.hangs_on_tie for each in found], axis=0) & ~hit
    return hit, tied, np.any([each.has_counterpart for each in found], axis=0)


def forest_of(domain: Domain, model: Model) -> Forest:
    found = subject_of(model, domain)
    assert isinstance(found, Forest)
    return found


def confirm(proof: Proof, domain: Domain, model: Model, path: Path) -> None:
    """Affected and alike are what the judge says of everybody, and the checker confirms it."""
    hit, tied, counts = asked(domain, model)
    assert proof.chain.possible == counts.sum()
    assert proof.affected == pytest.approx(hit.sum() / counts.sum(), abs=1e-12)
    assert proof.alike == pytest.approx(1 - (hit | tied).sum() / counts.sum(), abs=1e-12)
    save(proof, path)
    assert checker.check(str(path))["checked"] == pytest.approx(proof.alike, abs=1e-12)


SCHEMAS = {
    "one": lambda seed: ruled(seed),
    "twins": lambda seed: ruled(seed, twins=True),
    "two": lambda seed: ruled(seed, "sex", "race"),
}


@pytest.mark.parametrize("kind", ["xgboost", "xgboost three", "lightgbm", "forest"])
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("grid", [1, 1 << 21], ids=["split", "counted"])
def test_only_those_whom_constraints_allow_are_counted(
    kind: str, schema: str, grid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "GRID", grid)
    for seed in range(2):
        domain = SCHEMAS[schema](seed)
        data = data_of(domain, 3 if "three" in kind else 2)
        model = fp.load_model(fitted(kind, data), data)
        forest = forest_of(domain, model)
        assert forest.allowed is not None
        assert 0 < forest.allowed.share < 1
        proof = prove(forest, Limit(60.0))
        assert (proof.affected or 0.0) > 0
        confirm(proof, domain, model, tmp_path / "c.npz")
        hit, *_ = asked(domain, model)
        assert not hit[proof.is_proved(forest.cases(domain, everybody(domain)))].any()


def test_what_is_not_finished_claims_no_more_than_the_truth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "GRID", 1)
    domain = ruled(1)
    data = data_of(domain)
    model = fp.load_model(fitted("forest", data), data)
    forest, (hit, tied, counts) = forest_of(domain, model), asked(domain, model)
    truth = 1 - (hit | tied).sum() / counts.sum()
    times = iter(range(1000))
    monkeypatch.setattr(Limit, "clock", lambda _: float(next(times)))
    shares = []
    for looks in (5, 20, 60):
        proof = prove(forest, Limit(looks))
        shares.append(proof.alike)
        assert proof.stopped == "budget"
        assert proof.rest is not None
        assert 0 < proof.rest.samples <= 2000
        save(proof, tmp_path / "c.npz")
        assert checker.check(str(tmp_path / "c.npz"))["checked"] == pytest.approx(proof.alike)
    assert 0 <= shares[0] < shares[1] < shares[2] <= truth


def planted(forbidden: Callable[[Mapping[str, Array]], Array]) -> tuple[Domain, Model]:
    """A tree that says no to everybody but one man, of 540 people."""
    domain = words()
    plain = tuple(replace(each, one_hot=False) for each in domain.attributes)
    domain = replace(domain, attributes=plain)
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier(random_state=0)
    x = domain.counterparts(everybody(domain)).reshape(-1, len(domain))
    y = (x == (5, 1, 2, 3, 1)).all(axis=1).astype(int)
    assert y.sum() == 1
    data = fp.Dataset(name="toy", domain=domain, x=x, y=y, label="job", classes=("no", "yes"))
    model = fp.load_model(tree.fit(x, y), data)
    rule = Constraint("toy", lambda codes: np.asarray(~forbidden(codes)))
    return replace(domain, constraints=(rule,)), model


@pytest.mark.parametrize("grid", [1, 1 << 21], ids=["split", "counted"])
def test_one_unfair_person_is_found_if_the_constraints_allow_them_and_else_not_counted(
    grid: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "GRID", grid)
    domain, model = planted(lambda codes: (codes["role"] == 2) & (codes["age"] > 5))
    proof = prove(forest_of(domain, model), Limit(60.0))
    possible = 540 - 4 * 5 * 3
    assert proof.chain.possible == possible
    assert proof.affected == pytest.approx(1 / possible, rel=1e-9)
    confirm(proof, domain, model, tmp_path / "c.npz")
    # The man himself, his counterpart, and everybody with his role and job
    for forbidden in (
        lambda c: (c["role"] == 2) & (c["age"] == 5) & (c["sex"] == 1),
        lambda c: (c["role"] == 2) & (c["age"] == 5) & (c["sex"] == 0),
        lambda c: (c["role"] == 2) & (c["job"] == 3),
    ):
        domain, model = planted(forbidden)
        proof = prove(forest_of(domain, model), Limit(60.0))
        assert proof.affected == 0.0
        assert proof.alike == pytest.approx(1.0, abs=1e-12)
        confirm(proof, domain, model, tmp_path / "c.npz")


def test_altered_tables_of_constraints_are_rejected(tmp_path: Path) -> None:
    domain = ruled(0)
    data = data_of(domain)
    model = fp.load_model(fitted("xgboost", data), data)
    forest = forest_of(domain, model)
    save(prove(forest, Limit(60.0)), tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as file:
        arrays = {name: file[name] for name in file.files}
    assert forest.allowed is not None
    first = forest.allowed.parts[0]
    more = np.concatenate([arrays["allowed"], np.zeros_like(arrays["allowed"][:1])])
    uneven = arrays[f"weight{first}"] * np.arange(1, forest.parts[first].count + 1)
    forgeries = {
        "fewer people": {"allowed": np.ones_like(arrays["allowed"])},
        "other values": {"allowed": more},
        "cells of one value": {f"weight{first}": uneven},
    }
    for reason, changed in forgeries.items():
        write(tmp_path / "forged.npz", {**arrays, **changed})
        with pytest.raises(ValueError, match=reason):
            checker.check(str(tmp_path / "forged.npz"))


def test_a_person_is_proved_if_all_neighbors_whom_constraints_allow_are_treated_alike() -> None:
    domain = ruled(3)
    data = data_of(domain)
    model = fp.load_model(fitted("lightgbm", data), data)
    x, (hit, tied, _) = data.x[:60], asked(domain, model)
    every = np.delete(everybody(domain), 1, axis=1)
    radius = proved_radius(forest_of(domain, model), domain, x)
    assert {-1, 0, 1, 2} >= set(radius.tolist()) > {-1, 2}
    for row, found in zip(np.delete(x, 1, axis=1), radius, strict=True):
        same = (every[:, 1:3] == row[1:3]).all(axis=1)
        for r in (0, 1, 2):
            near = (
                same & (np.abs(every - row) <= r).all(axis=1) if r else (every == row).all(axis=1)
            )
            assert (found >= r) == (not (hit | tied)[near].any())


BY_JOB = Decision(0.5, thresholds={"a": 0.2, "c": 0.7}, by="job")
BY_ROLE = Decision(thresholds=dict(zip(ROLES, (0.3, 0.6, 0.45, 0.5), strict=True)), by="role")
COSTS = Decision(costs=[[0, 1, 4], [2, 0, 1], [9, 3, 0]])


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm", "forest"])
@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("decision", [BY_JOB, BY_ROLE], ids=["by job", "by role"])
def test_thresholds_by_an_attribute_that_is_not_sensitive_decide_as_the_judge_decides(
    kind: str, schema: str, decision: Decision, tmp_path: Path
) -> None:
    domain = SCHEMAS[schema](0)
    data = data_of(domain)
    plain = fp.load_model(fitted(kind, data), data)
    model = plain.with_decision(decision, data)
    proof = prove(forest_of(domain, model), Limit(60.0))
    confirm(proof, domain, model, tmp_path / "c.npz")
    assert proof.affected != prove(forest_of(domain, plain), Limit(60.0)).affected


@pytest.mark.parametrize("activation", ["relu", "leaky"])
@pytest.mark.parametrize("twins", [False, True], ids=["bare", "twins"])
@pytest.mark.parametrize("decision", [BY_JOB, BY_ROLE], ids=["by job", "by role"])
def test_networks_with_such_thresholds_are_enumerated_and_bounded_as_the_judge_decides(
    activation: str, twins: bool, decision: Decision, tmp_path: Path
) -> None:
    domain = words(twins=twins)
    plain = network(domain, seed=3, activation=activation)
    model = plain.with_decision(decision, data_of(domain))
    chain, (hit, _, counts) = chain_of(model, domain), asked(domain, model)
    proof = prove(chain, Limit(60.0))
    assert proof.counts is not None
    assert (proof.counts.affected, proof.counts.cases) == (hit.sum(), counts.sum())
    assert hit.sum() != asked(domain, plain)[0].sum()
    for done in (proof, searched(chain, 6)):
        save(done, tmp_path / "c.npz")
        assert checker.check(str(tmp_path / "c.npz"))["checked"] == pytest.approx(done.alike)
        assert not hit[done.is_proved(chain.cases(domain, everybody(domain)))].any()
    assert 0 < done.alike <= proof.alike


@pytest.mark.parametrize("schema", SCHEMAS)
def test_costs_of_three_classes_decide_as_the_judge_decides_where_trees_add_probabilities(
    schema: str, tmp_path: Path
) -> None:
    domain = SCHEMAS[schema](0)
    data = data_of(domain, 3)
    plain = fp.load_model(fitted("forest", data), data)
    model = plain.with_decision(COSTS, data)
    proof = prove(forest_of(domain, model), Limit(60.0))
    confirm(proof, domain, model, tmp_path / "c.npz")
    assert proof.affected != prove(forest_of(domain, plain), Limit(60.0)).affected


def test_decision_rules_that_are_not_supported_are_named() -> None:
    domain = words()
    data = data_of(domain, 3)
    boosted = fp.load_model(fitted("xgboost", data), data).with_decision(COSTS, data)
    with pytest.raises(UnsupportedError, match="its trees add up logits"):
        subject_of(boosted, domain)
    dense = network(domain, classes=3).with_decision(COSTS, data)
    with pytest.raises(UnsupportedError, match="probabilities, not by logits"):
        subject_of(dense, domain)
    smooth = network(domain, activation="tanh").with_decision(BY_JOB, data_of(domain))
    with pytest.raises(UnsupportedError, match="'job', which is not sensitive"):
        subject_of(smooth, domain)


def test_a_certificate_of_trees_says_whom_the_constraints_allow() -> None:
    data = data_of(ruled(0))
    model = fp.load_model(fitted("xgboost", data), data)
    done = fp.certify(data, model, sensitive="sex").document
    assert done.allowed is not None
    assert (done.unused, done.cases) == ("", round(540 * done.allowed))
    assert done.affected is not None


def test_every_share_that_is_raised_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "GRID", 4000)
    domain, rng = ruled(2, "sex", "race"), np.random.default_rng(0)
    data = data_of(domain)
    model = fp.load_model(fitted("forest", data), data)
    save(prove(forest_of(domain, model), Limit(60.0)), tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as file:
        arrays = {name: file[name] for name in file.files}
    part = np.flatnonzero(arrays["share"] < 1 - 1e-9)
    assert len(part) > 1
    for _ in range(100):
        share = arrays["share"].copy()
        share[rng.choice(part)] += 1e-6
        write(tmp_path / "forged.npz", {**arrays, "share": share})
        with pytest.raises(ValueError, match="fewer people"):
            checker.check(str(tmp_path / "forged.npz"))
