"""What is proved of public networks in a given time, and whether it is true.

    python -m benchmarks.certificates networks     # the proved share after 20 CPU seconds
    python -m benchmarks.certificates networks 60 census
    python -m benchmarks.certificates soundness    # people drawn from proved regions
    python -m benchmarks.certificates people       # neighborhoods ± 1, people a second
    python -m benchmarks.certificates repaired     # accuracy and proved share, three seeds
    python -m benchmarks.certificates demo         # the network of `make demo` and its repairs
    python -m benchmarks.certificates everybody    # EIDIG-coded Adult, enumerated on two cores

Networks: `networks/` and the census network in the folder `FAIRPROBE_ASSETS`.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from fairprobe.certificates.bounds import bounds, plane_of
from fairprobe.certificates.branch import Limit, Search
from fairprobe.certificates.certify import proved_share
from fairprobe.certificates.chain import Chain
from fairprobe.certificates.exact import enumerated, rate
from fairprobe.certificates.fold import chain_of
from fairprobe.certificates.people import proved_radius
from fairprobe.certificates.proof import Proof, drawn, prove
from fairprobe.datasets import Dataset, adult
from fairprobe.judgement import judge
from fairprobe.models import Scale, TorchModel, one_thread
from fairprobe.networks import Training, dense, lfcn, train
from fairprobe.repairs.base import Repair
from fairprobe.repairs.blind import Blind
from fairprobe.repairs.certified import Certified
from fairprobe.repairs.counterfactual import Counterfactual
from fairprobe.repairs.curve import tradeoff
from fairprobe.repairs.series import Trainer
from fairprobe.schema.attributes import Attribute
from fairprobe.schema.domain import Domain

ASSETS = Path(os.environ.get("FAIRPROBE_ASSETS", "assets"))
CENSUS_LOW = (1, *[0] * 12)
CENSUS_HIGH = (9, 7, 39, 15, 6, 13, 5, 4, 1, 99, 39, 99, 39)
NUMBERS = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
EIDIG = ("vanilla_adult", "flip_adult_g", "lcds_adult_g", "multitask_adult_g")
FAIRQUANT = {"fq_AC-1": 8, "fq_AC-3": 8, "fq_AC-7": 8, "fq_GC-1": 19}
TARGETS = {"fq_AC-1": 97, "fq_AC-3": 75, "fq_AC-7": 30, "fq_GC-1": 90, "census": 68}
DRAWN = 1_000_000


def network(name: str) -> tuple[TorchModel, Domain]:
    """A network of the assets with the domain of its inputs."""
    path = ASSETS / ("census_reference_net.npz" if name == "census" else f"networks/{name}.npz")
    with np.load(path) as file:
        weights = {key: file[key] for key in file.files}
    pieces: list[nn.Module] = []
    for place in range(sum(key.startswith("W") for key in weights)):
        layer = nn.Linear(*weights[f"W{place}"].shape)
        layer.weight.data = torch.from_numpy(weights[f"W{place}"].T.astype(np.float32).copy())
        layer.bias.data = torch.from_numpy(weights[f"b{place}"].astype(np.float32))
        pieces += [layer, nn.ReLU()]
    return TorchModel(nn.Sequential(*pieces[:-1]), outputs="logits"), _domain(name, weights)


def _domain(name: str, weights: dict[str, np.ndarray]) -> Domain:
    names: tuple[str, ...] = ()
    low: Sequence[float]
    high: Sequence[float]
    if name == "census":
        low, high, sensitive = CENSUS_LOW, CENSUS_HIGH, 8
    elif name in FAIRQUANT:
        low, high, sensitive = list(weights["low"]), list(weights["high"]), FAIRQUANT[name]
    else:
        with np.load(ASSETS / "networks/eidig_adult.npz") as file:
            low, high, names = list(file["low"]), list(file["high"]), tuple(map(str, file["names"]))
        sensitive = 7
    names = names or tuple(f"a{place}" for place in range(len(low)))
    attributes = [
        Attribute(name=each, low=float(a), high=float(b))
        if names[0] != "age" or each in NUMBERS
        else Attribute(
            name=each,
            kind="categorical",
            categories=tuple(map(str, range(int(b) + 1))),
            low=float(a),
            high=float(b),
        )
        for each, a, b in zip(names, low, high, strict=True)
    ]
    return Domain(tuple(attributes), sensitive=(names[sensitive],))


def memory() -> float:
    """The most memory that the process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def demo_network() -> tuple[TorchModel, Dataset]:
    """The network of `make demo`: Adult, gender."""
    data = adult().with_sensitive("gender").with_counterparts("twins")
    return train(lfcn(data.domain), data), data


def demo(seconds: float) -> None:
    """The demo network, and two repaired versions: the default repair, and the provable one with
    three times its default strength.
    """
    plain, data = demo_network()
    repairs: tuple[Repair, ...] = (Counterfactual(), Certified(strength=9e-4))
    named = {"demo": plain} | {each.name: each(plain, data) for each in repairs}
    rows, test = data.domain.sample(DRAWN, rng=np.random.default_rng(0)), data.split(0).test
    for name, model in named.items():
        chain = chain_of(model, data.domain)
        proof = prove(chain, Limit(seconds, cpu=True))
        inside = proved_radius(chain, data.domain, data.x)
        hits = judge(data.domain, model, rows).is_discriminatory.mean()
        print(
            f"{name:18} accuracy {100 * (model.labels(data.x[test]) == data.y[test]).mean():.2f} % "
            f" proved {100 * proof.alike:.2f} %  within ± 1:"
            f" {100 * (inside[inside > -2] >= 1).mean():.1f} % of people  affected, of {DRAWN:,}"
            f" drawn: {100 * hits:.4f} %  allowed"
            f" {'all' if chain.allowed is None else f'{chain.allowed.share:.4f}'}",
            flush=True,
        )


def networks(seconds: float, *names: str) -> None:
    print(f"proved share after {seconds:g} CPU seconds on one core; the budget includes counting")
    for name in names or (*TARGETS, *EIDIG):
        chain = chain_of(*network(name))
        start = time.process_time()
        # Everybody could be asked in EIDIG's coding; here bounds are measured.
        proof = prove(chain, Limit(seconds, cpu=True))
        spent = time.process_time() - start
        rest = proof.rest
        print(
            f"{name:18} {100 * proof.alike:6.2f} %  target {TARGETS.get(name, 0)}  {spent:5.1f} s "
            f" boxes {0 if proof.search is None else proof.search.looked_at:,}  rest"
            f" {'' if rest is None else f'{100 * rest.estimate:.2f} %'}  margin"
            f" {chain.margin.max():.1e}  {memory():.0f} MiB",
            flush=True,
        )


def soundness(seconds: float) -> None:
    """A million people from the proved regions of each network, drawn in proportion to volume."""
    total = wrong = 0
    for name in (*TARGETS, *EIDIG, "demo"):
        if name == "demo":
            plain, data = demo_network()
            chain = chain_of(Certified(strength=9e-4)(plain, data), data.domain)
        else:
            chain = chain_of(*network(name))
        proof = prove(chain, Limit(seconds, cpu=True))
        asked, bad = _drawn_from(chain, proof, DRAWN, np.random.default_rng(len(name)))
        total, wrong = total + asked, wrong + bad
        print(f"{name:18} {asked:,} people in proved regions, {bad} violations", flush=True)
    print(f"{total:,} people, {wrong} violations")


def _drawn_from(
    chain: Chain, proof: Proof, wanted: int, rng: np.random.Generator
) -> tuple[int, int]:
    assert isinstance(proof.search, Search)
    boxes = proof.search.boxes
    (low, high), label = boxes.corners(slice(None)), boxes.label[: boxes.count]
    weight = boxes.proved[: boxes.count] / boxes.proved[: boxes.count].sum()
    asked = bad = 0
    while asked < wanted:
        chosen = np.unique(rng.choice(len(low), 256, p=weight))
        found = bounds(chain, low[chosen], high[chosen])
        planes = [
            plane_of(chain, found, each, low[chosen], high[chosen]) for each in range(chain.classes)
        ]
        for _ in range(100):
            cases = drawn(chain, low[chosen], high[chosen], rng)
            said = chain.labels(chain.differences(cases))
            columns = chain.columns(cases)
            for each, plane in enumerate(planes):
                right = (plane.slopes * columns).sum(axis=0) + plane.constants > 0
                right |= label[chosen] == each
                asked += int(right.sum())
                bad += int((said[right] != each).any(axis=1).sum())
    return asked, bad


def people() -> None:
    with np.load(ASSETS / "networks/eidig_adult.npz") as file:
        x = file["x"].astype(np.float32)
    for name in EIDIG:
        model, domain = network(name)
        chain = chain_of(model, domain)
        start = time.process_time()
        radius = proved_radius(chain, domain, x, radii=(0, 1))
        spent = time.process_time() - start
        inside = radius[radius > -2]
        print(
            f"{name:18} within ± 1: {100 * (inside >= 1).mean():.1f} % of {len(inside):,} people;"
            f" alike themselves {100 * (inside >= 0).mean():.1f} %; {len(x) / spent:,.0f} people a"
            " second",
            flush=True,
        )


def everybody(name: str) -> None:
    chain = chain_of(*network(name))
    print(
        f"{name}: {rate(chain) / 1e6:.1f} million answers a CPU second in one process", flush=True
    )
    start, before = time.monotonic(), sum(os.times()[:4])
    for counts in enumerated(chain, workers=2):
        done = counts
    print(
        f"{done}, {100 * done.affected / done.cases:.4f} % affected,"
        f" {time.monotonic() - start:.0f} s on two cores, {sum(os.times()[:4]) - before:.0f} CPU s"
    )


def repaired(seconds: float, seed: int, interval: float = 0.0) -> None:
    """A network trained plainly and with `--with certified`, its strength chosen on the validation
    people of the same split (at most 0.3 points of accuracy), and a blind one.
    """
    domain = _domain("vanilla_adult", {})
    with np.load(ASSETS / "networks/eidig_adult.npz") as file:
        x, y = file["x"].astype(np.float32), file["y"].astype(np.int64)
    data = Dataset(name="eidig", domain=domain, x=x, y=y, label="income", classes=("low", "high"))
    training = Training(epochs=8, patience=None)
    scale = Scale.standard(torch.from_numpy(x[data.split(seed).train]))
    shape = dense(domain, (30, 20, 15, 15, 10), seed=seed, kaiming=True, scale=scale)
    plain = train(shape, data, seed=seed, training=training)
    repair = Certified(start="scratch", training=training, interval=interval)
    points, chosen, better = tradeoff(
        Trainer(plain, data, seed), repair, 0.003, proved=lambda model: proved_share(model, data)
    )
    for point in points:
        assert point.accuracy
        print(
            f"seed {seed} strength {point.setting:.1e}  validation accuracy"
            f" {100 * point.accuracy.estimate:.2f} %  proved in 5 s {100 * (point.proved or 0):.2f}"
            f" %{'  chosen' if point.is_chosen else ''}",
            flush=True,
        )
    blind = Blind(start="scratch", training=training)(plain, data, seed=seed)
    test, rows = data.split(seed).test, domain.sample(DRAWN, rng=np.random.default_rng(seed))
    named = {"plain": plain, f"certified {chosen.dial_at:.1e}": better, "blind": blind}
    for name, model in named.items():
        proof = prove(chain_of(model, domain), Limit(seconds, cpu=True))
        hits = judge(domain, model, rows).is_discriminatory.mean()
        right = (model.labels(x[test]) == y[test]).mean()
        where = "inside" if hits <= proof.upper_bound else "OUTSIDE"
        print(
            f"seed {seed} {name:18} accuracy {100 * right:.3f} %  proved {100 * proof.alike:.2f} %"
            f" ({proof.way})  affected, of {DRAWN:,} drawn:"
            f" {100 * hits:.4f} %, {where} the bound",
            flush=True,
        )


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else "networks"
    number = float(sys.argv[2]) if len(sys.argv) > 2 and what != "everybody" else 20.0
    with one_thread():
        if what == "everybody":
            everybody(sys.argv[2] if len(sys.argv) > 2 else "vanilla_adult")
        elif what == "people":
            people()
        elif what == "repaired":
            for each in map(int, sys.argv[3].split(",") if len(sys.argv) > 3 else range(3)):
                repaired(number, each, float(sys.argv[4]) if len(sys.argv) > 4 else 0.0)
        elif what == "networks":
            networks(number, *sys.argv[3:])
        else:
            {"soundness": soundness, "demo": demo}[what](number)
