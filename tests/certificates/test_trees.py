"""Trees: exact where affordable, against asking the model about everybody."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fairprobe as fp
from fairprobe.certificates import checker
from fairprobe.certificates.branch import Limit
from fairprobe.certificates.fold import subject_of
from fairprobe.certificates.forest import Forest
from fairprobe.certificates.leaves import Leaves
from fairprobe.certificates.people import proved_free, proved_radius
from fairprobe.certificates.proof import prove, save
from fairprobe.judgement import judge
from fairprobe.models.decision import Decision
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain
from tests.certificates.small import everybody, words
from tests.certificates.test_soundness import write

KINDS = ("xgboost", "xgboost three", "lightgbm", "lightgbm missing", "forest", "histograms")


def domain_of(*, twins: bool = False, real: bool = False) -> Domain:
    domain = words(twins=twins)
    plain = [replace(each, one_hot=False) for each in domain.attributes]
    if real:
        plain.append(Attribute(name="amount", kind="real", low=-0.5, high=2.5))
    return replace(domain, attributes=tuple(plain))


def data_of(domain: Domain, classes: int = 2, n: int = 600) -> fp.Dataset:
    rng = np.random.default_rng(3)
    x = domain.sample(n, rng=rng)
    score = x[:, 0] + 3 * (x[:, 1] == 1) * (x[:, 2] > 0) - 2 * x[:, 3] + x[:, 4] + x[:, -1]
    y = np.digitize(score + rng.normal(size=n), np.quantile(score, np.arange(1, classes) / classes))
    names = ("no", "maybe", "yes")[:: 2 if classes == 2 else 1]
    return fp.Dataset(name="toy", domain=domain, x=x, y=y, label="job", classes=names)


def fitted(kind: str, data: fp.Dataset) -> Any:
    if kind.startswith("xgboost"):
        xgboost = pytest.importorskip("xgboost")
        made = xgboost.XGBClassifier(n_estimators=6, max_depth=3, n_jobs=1)
    elif kind.startswith("lightgbm"):
        lightgbm = pytest.importorskip("lightgbm")
        zero = {"zero_as_missing": True} if "missing" in kind else {}
        made = lightgbm.LGBMClassifier(n_estimators=6, num_leaves=6, n_jobs=1, verbose=-1, **zero)
    else:
        ensemble = pytest.importorskip("sklearn.ensemble")
        made = {
            "forest": ensemble.RandomForestClassifier(7, max_depth=4, random_state=0),
            "histograms": ensemble.HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=6),
        }[kind]
    return made.fit(data.x, data.y)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("twins", [False, True], ids=["bare", "twins"])
def test_boxes_of_leaves_count_what_the_judge_says_of_everybody(
    kind: str, twins: bool, tmp_path: Path
) -> None:
    domain = domain_of(twins=twins)
    data = data_of(domain, 3 if "three" in kind else 2)
    model = fp.load_model(fitted(kind, data), data)
    subject = subject_of(model, domain)
    assert isinstance(subject, Forest)
    proof = prove(subject, Limit(60.0))
    x = everybody(domain)
    verdict = judge(domain, model, x)
    assert (proof.way, subject.people) == ("leaves", len(x))
    assert verdict.is_discriminatory.any()
    assert proof.affected == pytest.approx(verdict.is_discriminatory.mean(), abs=1e-9)
    assert proof.alike == pytest.approx(
        1 - (verdict.is_discriminatory | verdict.hangs_on_tie).mean(), abs=1e-9
    )
    assert not verdict.is_discriminatory[proof.is_proved(subject.cases(domain, x))].any()
    save(proof, tmp_path / "c.npz")
    assert checker.check(str(tmp_path / "c.npz"))["checked"] == pytest.approx(proof.alike)


def test_a_real_attribute_and_a_threshold_are_decided_as_the_judge_decides() -> None:
    domain = domain_of(real=True)
    data = data_of(domain)
    model = fp.load_model(fitted("forest", data), data).with_decision(Decision(threshold=0.4), data)
    proof = prove(subject_of(model, domain), Limit(60.0))
    sampled = judge(domain, model, domain.sample(40_000, rng=np.random.default_rng(0)))
    assert proof.affected == pytest.approx(sampled.is_discriminatory.mean(), abs=0.01)


def test_what_is_not_finished_is_true_of_what_was_done_and_forged_boxes_are_rejected(
    tmp_path: Path,
) -> None:
    domain = domain_of()
    data = data_of(domain)
    model = fp.load_model(fitted("xgboost", data), data)
    forest = subject_of(model, domain)
    assert isinstance(forest, Forest)
    search = Leaves(forest)
    whole = search.look(search.waiting[0][1])
    assert whole[0] is not None  # a toy is counted at once, so split it by hand
    box = search.waiting.pop()[1]
    cells = [np.arange(b + 1) for b in box.high]
    reached = search.reached(cells, box)
    halves = search._halves(box, reached, search.groups(cells, reached))
    shares, _ = search.look(halves[0])
    assert shares is not None
    search.settled.append((halves[0], shares))
    search.waiting.append((-search.volume(halves[1]), halves[1]))
    truth = judge(domain, model, everybody(domain)).is_discriminatory.mean()
    assert search.affected is None
    assert 0 < search.proved <= 1 - truth
    proof = prove(forest, Limit(60.0))
    save(proof, tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as file:
        arrays = {name: file[name] for name in file.files}
    forgeries = {
        "than claimed": {
            "values": -0.9 * np.abs(arrays["values"]) * (-1) ** arrays["tree"][:, None]
        },
        "leaves the domain": {"high": arrays["high"] + 50},
        "overlap": {name: np.repeat(arrays[name], 2, axis=0) for name in ("low", "high", "share")},
    }
    for reason, changed in forgeries.items():
        write(tmp_path / "forged.npz", {**arrays, **changed})
        with pytest.raises(ValueError, match=f"{reason}|less than the claim"):
            checker.check(str(tmp_path / "forged.npz"))


def test_people_with_trees_are_proved_exactly_if_all_their_neighbors_are_treated_alike() -> None:
    domain = domain_of()
    data = data_of(domain)
    model = fp.load_model(fitted("lightgbm", data), data)
    forest, x = subject_of(model, domain), data.x[:40]
    every = everybody(domain)
    verdict = judge(domain, model, every).is_discriminatory.tolist()
    hit = dict(zip(map(tuple, np.delete(every, 1, axis=1).tolist()), verdict, strict=True))
    radius = proved_radius(forest, domain, x)
    free = proved_free(forest, domain, x, free=1, rng=np.random.default_rng(0))
    for row, r, f in zip(np.delete(x, 1, axis=1).tolist(), radius, free, strict=True):
        near = [
            (a, *row[1:3], b)
            for a in range(1, 10)
            for b in range(3)
            if abs(a - row[0]) <= 1 and abs(b - row[3]) <= 1
        ]
        assert (r >= 1) == (not any(hit[each] for each in near))
        any_one = [key for key in hit if sum(a != b for a, b in zip(key, row, strict=True)) <= 1]
        assert (f == 1) == (not any(hit[each] for each in any_one))


def test_trees_that_cannot_be_read_are_named() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble")
    domain = domain_of()
    data = data_of(domain)
    model = fp.load_model(ensemble.AdaBoostClassifier(n_estimators=2).fit(data.x, data.y), data)
    with pytest.raises(fp.errors.ModelError, match="black box"):
        fp.certify(data, model, sensitive="sex")
