"""What the workers do: train a network, let a method search, compare local phases. Plain data in,
plain data out.
"""

from __future__ import annotations

import base64
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fairprobe import audits, datasets, networks
from fairprobe.arrays import Mask, Rows
from fairprobe.datasets import Dataset
from fairprobe.interpret import NeuronBias, coverage, neuron_bias
from fairprobe.judgement import Verdict, judge
from fairprobe.metrics import generation_diversity, gsr, spread
from fairprobe.models import TorchModel, one_thread
from fairprobe.papers.base import network_of
from fairprobe.papers.jobs import Plain
from fairprobe.schema.domain import Domain
from fairprobe.search import Budget, Explorer, Method, choose_seeds, search
from fairprobe.search.catalogue import METHODS, method_named
from fairprobe.search.loop import world_of
from fairprobe.search.protocol import from_each

Inputs = Mapping[str, Plain]


def train(settings: Plain, inputs: Inputs) -> Plain:
    """Trains the network of a data set; the result holds its files."""
    del inputs
    data = datasets.load(settings["dataset"])
    model = audits.train(data, seed=settings["seed"])
    test = data.split(settings["seed"]).test
    with tempfile.TemporaryDirectory() as folder:
        networks.save(model, folder)
        files = {
            path.name: base64.b64encode(path.read_bytes()).decode()
            for path in sorted(Path(folder).iterdir())
        }
    return {
        "files": files,
        "accuracy": float((model.labels(data.x[test]) == data.y[test]).mean()),
        "held_out": len(test),
    }


class Target:
    """A subject with its network. A worker keeps the last ones: its next job is often of the same
    subject.
    """

    def __init__(self, dataset: str, sensitive: str, files: tuple[tuple[str, str], ...]) -> None:
        self.data = _load(dataset).with_sensitive(sensitive)
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files:
                (Path(folder) / name).write_bytes(base64.b64decode(content))
            self.model = networks.load(folder, self.data.domain)

    @cached_property
    def bias(self) -> NeuronBias:
        with one_thread():
            return neuron_bias(
                self.data.domain, self.model, self.data.x[self.data.domain.comparable(self.data.x)]
            )


_load = lru_cache(maxsize=2)(datasets.load)
_target = lru_cache(maxsize=4)(Target)


@dataclass(frozen=True)
class Scene:
    """What a job works with. Seeds are the same for all methods of a repeat."""

    target: Target
    settings: Plain

    @classmethod
    def of(cls, settings: Plain, inputs: Inputs) -> Scene:
        files = inputs[network_of(settings["dataset"])]["files"]
        return cls(
            _target(settings["dataset"], settings["sensitive"], tuple(files.items())), settings
        )

    @property
    def data(self) -> Dataset:
        return self.target.data

    @property
    def domain(self) -> Domain:
        return self.target.data.domain

    @property
    def model(self) -> TorchModel:
        return self.target.model

    def rng(self, *purpose: str) -> np.random.Generator:
        """Its own stream for every purpose, the same wherever the job runs."""
        words = "/".join((self.settings["dataset"], self.settings["sensitive"], *purpose))
        return np.random.default_rng(
            [self.settings["seed"], self.settings["repeat"], zlib.crc32(words.encode())]
        )

    def seeds(self) -> Rows:
        with one_thread():
            return choose_seeds(
                self.domain, self.data.x, self.settings["seeds"], rng=self.rng("seeds")
            )

    def method(self, name: str, variant: str = "") -> Method:
        bias = self.target.bias if METHODS[name].needs_neurons else None
        return method_named(name, variant or None, bias=bias, x=self.domain.clip(self.data.x))

    def budget(self) -> Budget:
        names = ("seeds", "global_iterations", "local_iterations", "seconds", "wanted")
        return Budget(
            **{name: self.settings[name] for name in names if self.settings.get(name) is not None}
        )


def generate(settings: Plain, inputs: Inputs) -> Plain:
    """A whole search, both phases."""
    scene = Scene.of(settings, inputs)
    method = scene.method(settings["method"], settings["variant"])
    with tempfile.TemporaryDirectory() as folder:
        found = search(
            scene.domain,
            scene.model,
            method,
            scene.seeds(),
            scene.budget(),
            rng=scene.rng(method.name, method.variant),
            save_to=Path(folder) / "findings.parquet",
        )
        how, idis = found.generation, len(found)
        return {
            "idis": idis,
            "global_idis": found.count("global"),
            "tried": how.tried,
            "gsr": gsr(idis, how.tried),
            "spread": spread(found),
            "cpu_seconds": how.cpu_seconds,
            "wall_seconds": how.wall_seconds,
            "cpu_seconds_per_1000": how.cpu_seconds * 1000 / idis if idis else None,
            "stopped": how.stopped,
        }


def global_phase(settings: Plain, inputs: Inputs) -> Plain:
    """Table 6, global: the IDIs among as many instances as there are seeds, one from each; and the
    IDIs themselves.
    """
    scene = Scene.of(settings, inputs)
    method = scene.method(settings["method"], settings["variant"])
    rng = scene.rng("global", method.name, method.variant)
    if isinstance(method, Explorer):
        x = _first_children(scene, method, rng)
    else:
        x = search(scene.domain, scene.model, method, scene.seeds(), scene.budget(), rng=rng).x
    return {"idis": len(x), "rows": x.tolist()}


def _first_children(scene: Scene, method: Explorer, rng: np.random.Generator) -> Rows:
    """The IDIs among the first different instances of the global phase of a method with a queue,
    the seeds not counted.
    """
    seeds = scene.seeds()
    plan = method.propose(world_of(scene.domain, scene.model, method), seeds, rng)
    tried: set[int] = set(scene.domain.key(seeds).tolist())
    found: list[Rows] = []
    left = len(seeds)
    with one_thread():
        try:
            proposal = next(plan)
            while left > 0:
                verdict = judge(scene.domain, scene.model, proposal.x)
                for row, key, is_idi in zip(
                    proposal.x,
                    scene.domain.key(proposal.x).tolist(),
                    verdict.is_discriminatory,
                    strict=True,
                ):
                    if key not in tried and left > 0:
                        tried.add(key)
                        left -= 1
                        found += [row] if is_idi else []
                # Told of no IDI, the method makes no children for its local phase.
                proposal = plan.send(
                    replace(verdict, is_discriminatory=np.zeros(len(verdict), dtype=bool))
                )
        except StopIteration:
            pass
    return np.stack(found) if found else np.empty((0, len(scene.domain)), dtype=np.float32)


def local_phase(settings: Plain, inputs: Inputs) -> Plain:
    """Table 6, local: from some of all methods' global IDIs, so many different instances each; the
    mean number of IDIs among them.
    """
    scene = Scene.of(settings, inputs)
    method = scene.method(settings["method"], settings["variant"])
    starts = _mixed(
        scene,
        [result["rows"] for result in inputs.values() if "rows" in result],
        settings["starts"],
    )
    if len(starts) == 0:
        return {"idis_per_seed": None, "instances_per_seed": None, "starts": 0}
    rng = scene.rng("local", method.name, method.variant)
    trails = from_each(
        scene.domain, scene.model, method, starts, instances=settings["instances"], rng=rng
    )
    return {
        "idis_per_seed": float(np.mean([len(trail.idis) for trail in trails])),
        "instances_per_seed": float(np.mean([trail.tried for trail in trails])),
        "starts": len(starts),
    }


def _mixed(scene: Scene, rows: list[list[list[float]]], n: int) -> Rows:
    """Some of these rows, each person once, the same for every method of a repeat."""
    mixed = np.array([row for some in rows for row in some], dtype=np.float32).reshape(
        -1, len(scene.domain)
    )
    _, first = np.unique(scene.domain.key(mixed), return_index=True)
    chosen = scene.rng("mixed").permutation(first)[:n]
    return np.asarray(mixed[chosen])


def diversity(settings: Plain, inputs: Inputs) -> Plain:
    """Figure 5: the same few global IDIs, so many local ones of each method from each; generation
    diversity at every radius.
    """
    scene = Scene.of(settings, inputs)
    rivals: list[str] = settings["rivals"]
    methods = {name: scene.method(name) for name in ("neuronfair", *rivals)}
    seeds, found = scene.seeds(), []
    for name, method in methods.items():
        first = search(
            scene.domain,
            scene.model,
            method,
            seeds,
            Budget(local_iterations=0),
            rng=scene.rng("global", name),
        )
        found.append(first.x.tolist())
    starts = _mixed(scene, found, settings["starts"])
    local: dict[str, Rows] = {}
    for name, method in methods.items():
        trails = from_each(
            scene.domain,
            scene.model,
            method,
            starts,
            idis=settings["idis"],
            rng=scene.rng("local", name),
        )
        rows = [row for trail in trails for row in trail.idis]
        local[name] = np.stack(rows) if rows else np.empty((0, len(scene.domain)), dtype=np.float32)
    return {
        "found": {name: len(rows) for name, rows in local.items()},
        "diversity": {
            rival: [
                _diversity(local["neuronfair"], local[rival], radius)
                for radius in settings["radii"]
            ]
            for rival in rivals
        },
    }


def _diversity(ours: Rows, theirs: Rows, radius: float) -> float | None:
    value = generation_diversity(ours, theirs, radius) if len(ours) and len(theirs) else np.nan
    return float(value) if np.isfinite(value) else None


def neuron_coverage(settings: Plain, inputs: Inputs) -> Plain:
    """Figure 6: the biased neurons that a tenth of a method's IDIs activates, and a tenth of what
    it tried in vain.
    """
    scene = Scene.of(settings, inputs)
    method = scene.method(settings["method"], settings["variant"])
    misses = [np.empty((0, len(scene.domain)), dtype=np.float32)]

    def share(x: Rows) -> Mask:
        """Decided by the instance itself: one that is tried often is not more likely to be
        taken.
        """
        return np.asarray(
            (scene.domain.key(x) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(44)
            < np.uint64(settings["share"] * 2**20)
        )

    def watch(x: Rows, verdict: Verdict) -> None:
        missed = x[~verdict.is_discriminatory]
        misses.append(missed[share(missed)])

    found = search(
        scene.domain,
        scene.model,
        method,
        scene.seeds(),
        scene.budget(),
        rng=scene.rng(method.name, method.variant),
        on_judged=watch,
    )
    hits = found.x[share(found.x)]
    layer = scene.target.bias.most_biased
    result: dict[str, Any] = {"layer": layer.name, "biased": len(layer.biased)}
    for name, rows in (("idis", hits), ("non_idis", np.concatenate(misses))):
        unique = rows[np.unique(scene.domain.key(rows), return_index=True)[1]]
        covered = (
            coverage(scene.model, layer, unique) if len(unique) and len(layer.biased) else None
        )
        result |= {
            f"{name}_union": covered.union if covered else None,
            f"{name}_each": float(covered.each.mean()) if covered else None,
            f"{name}_rows": len(unique),
        }
    return result
