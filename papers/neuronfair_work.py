"""What the workers do for NeuronFair's tables: train a network, search, compare local phases."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from fairprobe import networks
from fairprobe.arrays import Mask, Rows
from fairprobe.datasets import Dataset
from fairprobe.errors import ModelError
from fairprobe.judgement import Verdict, judge
from fairprobe.models import TorchModel, load_model, one_thread
from fairprobe.results import Count, Result, Seconds, Share
from fairprobe.schema.domain import Domain
from fairprobe.search import Budget, Explorer, Method, choose_seeds, search
from fairprobe.search.catalogue import METHODS, method_named
from fairprobe.search.loop import context_of
from fairprobe.search.neuron_bias import LayerBias, NeuronBias, neuron_bias
from fairprobe.storage import scratch
from fairprobe.table import subject
from fairprobe.table.generation import cells, gsr, seed_distance, spread
from papers.coverage import coverage, generation_diversity
from papers.data import load
from papers.jobs import Inputs, Plain, read_result
from papers.protocol import from_each

# As all tables were made: ADF and EIDIG with the gradients of their authors' code, Aequitas with
# one draw for each seed.
AS_PUBLISHED: dict[str, Plain] = {
    "adf": {"gradients": "probabilities"},
    "eidig": {"gradients": "probabilities"},
    "aequitas": {"global_iterations": 0},
}


class TrainedNetwork(Result, frozen=True, kw_only=True):
    """A network's files in base64, and its accuracy on held-out people."""

    files: dict[str, str]
    accuracy: Share
    held_out: Count


class SearchResult(Result, frozen=True, kw_only=True):
    """What a whole search found and what it cost."""

    idis: Count
    global_idis: Count
    tried: Count
    gsr: Share
    spread: float | None
    cells: Share | None
    distance: Share | None
    cpu_seconds: Seconds
    wall_seconds: Seconds
    cpu_seconds_per_1000: Seconds | None
    stopped: str

    @property
    def seconds_per_1000(self) -> float | None:
        return self.cpu_seconds_per_1000


class GlobalPhase(Result, frozen=True, kw_only=True):
    """The IDIs of a global phase."""

    idis: Count
    rows: list[list[float]]


class LocalPhase(Result, frozen=True, kw_only=True):
    """Means over the starts of a local phase; null where there was no start."""

    idis_per_seed: float | None
    instances_per_seed: float | None
    starts: Count


class Diversity(Result, frozen=True, kw_only=True):
    """How many local IDIs each method found, and generation diversity at each radius."""

    found: dict[str, Count]
    diversity: dict[str, list[float | None]]


class CoveredLayer(Result, frozen=True, kw_only=True):
    """The biased neurons of a layer, and for each of them the share of IDIs and of other instances
    that activate it; null where there are no such instances.
    """

    name: str
    neurons: Count = 0  # of the layer; 0 in records of an earlier version
    biased: list[Count]
    idis: list[Share] | None
    non_idis: list[Share] | None


class NeuronCoverage(Result, frozen=True, kw_only=True):
    """Which biased neurons IDIs and other instances activate, in every layer that has some."""

    most_biased: str
    layers: list[CoveredLayer]
    idis_rows: Count
    non_idis_rows: Count
    accuracy: Share | None = None  # of a user's network, on all people

    def rates(self, who: str, *, everywhere: bool = True) -> dict[tuple[str, int], float] | None:
        """For each biased neuron, of all layers or of the most biased one, the share of instances
        that activate it. `who` is "idis" or "non_idis".
        """
        rates: dict[tuple[str, int], float] = {}
        for layer in self.layers:
            if everywhere or layer.name == self.most_biased:
                found: list[float] | None = getattr(layer, who)
                if found is None:
                    return None
                rates |= {
                    (layer.name, at): rate for at, rate in zip(layer.biased, found, strict=True)
                }
        return rates


def network_of(dataset: str) -> str:
    """The job that trains the network of this data set."""
    return f"network-{dataset}"


def train(settings: Plain, inputs: Inputs) -> TrainedNetwork:
    """Train the network of a data set."""
    del inputs
    data = load(settings["dataset"])
    model = subject.train(data, seed=settings["seed"])
    test = data.split(settings["seed"]).test
    with scratch() as folder:
        networks.save(model, folder)
        files = {
            path.name: base64.b64encode(path.read_bytes()).decode()
            for path in sorted(folder.iterdir())
        }
    accuracy = float((model.labels(data.x[test]) == data.y[test]).mean())
    return TrainedNetwork(files=files, accuracy=accuracy, held_out=len(test))


class Target:
    """A subject with its network, trained here or the user's. A worker caches the last ones: its
    next job often has the same subject.
    """

    def __init__(
        self, dataset: str, sensitive: str, network: str | tuple[tuple[str, str], ...]
    ) -> None:
        self.data = _load(dataset).with_sensitive(sensitive)
        if isinstance(network, str):
            self.model = own_network(network, self.data)
            return
        with scratch() as folder:
            for name, content in network:
                (folder / name).write_bytes(base64.b64decode(content))
            self.model = networks.load(folder, self.data.domain)

    @cached_property
    def bias(self) -> NeuronBias:
        with one_thread():
            return neuron_bias(
                self.data.domain, self.model, self.data.x[self.data.domain.comparable(self.data.x)]
            )


def own_network(source: str, data: Dataset) -> TorchModel:
    """A user's network for the codes of the data."""
    model = load_model(source, data)
    if not isinstance(model, TorchModel):
        raise ModelError(
            f"The neurons of {source} cannot be read. Expected a network: .onnx, .pt2, .keras, or"
            " file.py:function that returns a torch module."
        )
    return model


@lru_cache(maxsize=2)
def _load(name: str) -> Dataset:
    """The data with the papers' counterparts, in which only the sensitive attribute changes."""
    return load(name).bare()


_target = lru_cache(maxsize=4)(Target)


@dataclass(frozen=True)
class Task:
    """What a job works with. Seeds are the same for all methods of a repeat."""

    target: Target
    settings: Plain

    @classmethod
    def of(cls, settings: Plain, inputs: Inputs) -> Task:
        dataset, name = settings["dataset"], network_of(settings["dataset"])
        network = settings.get("network")
        if network is None:
            network = tuple(read_result(inputs[name], TrainedNetwork, name).files.items())
        return cls(_target(dataset, settings["sensitive"], network), settings)

    @property
    def data(self) -> Dataset:
        return self.target.data

    @property
    def domain(self) -> Domain:
        return self.target.data.domain

    @property
    def model(self) -> TorchModel:
        return self.target.model

    @property
    def nobody(self) -> Rows:
        return np.empty((0, len(self.domain)), dtype=np.float32)

    def accuracy(self) -> float:
        return float((self.model.labels(self.data.x) == self.data.y).mean())

    def rng(self, *purpose: str) -> np.random.Generator:
        """A separate stream for every purpose, the same wherever the job runs."""
        words = "/".join((self.settings["dataset"], self.settings["sensitive"], *purpose))
        return np.random.default_rng(
            [self.settings["seed"], self.settings["repeat"], zlib.crc32(words.encode())]
        )

    def seeds(self) -> Rows:
        with one_thread():
            return choose_seeds(self.domain, self.data.x, self.budget(), rng=self.rng("seeds"))

    def method(self, name: str | None = None) -> Method:
        """The named method, or the one that the settings name with its variant."""
        variant = "" if name else self.settings["variant"]
        name = name or self.settings["method"]
        bias = self.target.bias if METHODS[name].needs_neurons else None
        x, as_published = self.domain.clip(self.data.x), AS_PUBLISHED.get(name, {})
        return method_named(name, variant or None, bias=bias, x=x, **as_published)

    def budget(self) -> Budget:
        iterations, limits = ("global_iterations", "local_iterations"), ("cpu_seconds", "wanted")
        names = ("seeds", "seeds_by", *iterations, *limits)
        return Budget(
            **{name: self.settings[name] for name in names if self.settings.get(name) is not None}
        )

    def mixed(self, rows: list[list[list[float]]]) -> Rows:
        """Some of these rows, each person once, the same for every method of a repeat."""
        mixed = np.array([row for some in rows for row in some], dtype=np.float32)
        mixed = mixed.reshape(-1, len(self.domain))
        _, first = np.unique(self.domain.key(mixed), return_index=True)
        chosen = self.rng("mixed").permutation(first)[: self.settings["starts"]]
        return np.asarray(mixed[chosen])


def generate(settings: Plain, inputs: Inputs) -> SearchResult:
    """A whole search, both phases."""
    task = Task.of(settings, inputs)
    method, seeds = task.method(), task.seeds()
    with scratch() as folder:
        found = search(
            task.domain,
            task.model,
            method,
            seeds,
            task.budget(),
            rng=task.rng(method.name, method.variant),
            save_to=folder / "findings.parquet",
        )
        how, idis = found.generation, len(found)
        return SearchResult(
            idis=idis,
            global_idis=found.count("global"),
            tried=how.tried,
            gsr=gsr(idis, how.tried),
            spread=spread(found),
            cells=cells(found),
            distance=seed_distance(found, seeds) if method.origin == "seed" else None,
            cpu_seconds=how.cpu_seconds,
            wall_seconds=how.wall_seconds,
            cpu_seconds_per_1000=how.cpu_seconds * 1000 / idis if idis else None,
            stopped=how.stopped,
        )


def global_phase(settings: Plain, inputs: Inputs) -> GlobalPhase:
    """Table 6, global: the IDIs among as many instances as there are seeds, one from each."""
    task = Task.of(settings, inputs)
    method = task.method()
    rng = task.rng("global", method.name, method.variant)
    if isinstance(method, Explorer):
        x = _first_children(task, method, rng)
    else:
        x = search(task.domain, task.model, method, task.seeds(), task.budget(), rng=rng).x
    return GlobalPhase(idis=len(x), rows=x.tolist())


def _first_children(task: Task, method: Explorer, rng: np.random.Generator) -> Rows:
    """The IDIs among the first different instances of the global phase of a method with a plan of
    its own, or of the whole plan if it has no phases; not counting the seeds.
    """
    seeds = task.seeds()
    context = context_of(task.domain, task.model, method)
    plan = method.propose(replace(context, budget=Budget(rows=2 * len(seeds))), seeds, rng)
    tried: set[int] = set(task.domain.key(seeds).tolist())
    found = [task.nobody]
    left = len(seeds)
    with one_thread():
        try:
            proposal = next(plan)
            while left > 0:
                verdict = judge(task.domain, task.model, proposal.x)
                keys = task.domain.key(proposal.x).tolist()
                for at, (key, is_idi) in enumerate(
                    zip(keys, verdict.is_discriminatory, strict=True)
                ):
                    if key not in tried and left > 0:
                        tried.add(key)
                        left -= 1
                        found += [proposal.x[at : at + 1]] if is_idi else []
                if method.has_phases:  # without any IDI, it makes no children for its local phase
                    nobody = np.zeros(len(verdict), dtype=bool)
                    verdict = replace(verdict, is_discriminatory=nobody)
                proposal = plan.send(verdict)
        except StopIteration:
            pass
    return np.concatenate(found)


def local_phase(settings: Plain, inputs: Inputs) -> LocalPhase:
    """Table 6, local: from some of all methods' global IDIs, a number of different instances each;
    the mean number of IDIs among them.
    """
    task = Task.of(settings, inputs)
    method = task.method()
    starts = task.mixed([result["rows"] for result in inputs.values() if "rows" in result])
    if len(starts) == 0:
        return LocalPhase(idis_per_seed=None, instances_per_seed=None, starts=0)
    trails = from_each(
        task.domain,
        task.model,
        method,
        starts,
        instances=settings["instances"],
        rng=task.rng("local", method.name, method.variant),
    )
    return LocalPhase(
        idis_per_seed=float(np.mean([len(trail.idis) for trail in trails])),
        instances_per_seed=float(np.mean([trail.tried for trail in trails])),
        starts=len(starts),
    )


def diversity(settings: Plain, inputs: Inputs) -> Diversity:
    """Figure 5: from the same few global IDIs, a number of local ones of each method; generation
    diversity at every radius.
    """
    task = Task.of(settings, inputs)
    rivals: list[str] = settings["rivals"]
    methods = {name: task.method(name) for name in ("neuronfair", *rivals)}
    seeds, budget = task.seeds(), Budget(local_iterations=0)
    found = [
        search(task.domain, task.model, method, seeds, budget, rng=task.rng("global", name)).x
        for name, method in methods.items()
    ]
    starts = task.mixed([rows.tolist() for rows in found])
    local: dict[str, Rows] = {}
    for name, method in methods.items():
        trails = from_each(
            task.domain,
            task.model,
            method,
            starts,
            idis=settings["idis"],
            rng=task.rng("local", name),
        )
        rows = [row for trail in trails for row in trail.idis]
        local[name] = np.stack(rows) if rows else task.nobody
    return Diversity(
        found={name: len(rows) for name, rows in local.items()},
        diversity={
            rival: [
                _diversity(local["neuronfair"], local[rival], radius)
                for radius in settings["radii"]
            ]
            for rival in rivals
        },
    )


def _diversity(ours: Rows, theirs: Rows, radius: float) -> float | None:
    value = generation_diversity(ours, theirs, radius) if len(ours) and len(theirs) else np.nan
    return float(value) if np.isfinite(value) else None


def neuron_coverage(settings: Plain, inputs: Inputs) -> NeuronCoverage:
    """Figure 6: which biased neurons a tenth of a method's IDIs activates, and a tenth of the
    instances that it tried in vain.
    """
    task = Task.of(settings, inputs)
    method = task.method()
    misses = [task.nobody]

    def share(x: Rows) -> Mask:
        """Chosen by the instance itself: one that is tried often is not more likely to be taken."""
        return np.asarray(
            (task.domain.key(x) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(44)
            < np.uint64(settings["share"] * 2**20)
        )

    def watch(x: Rows, verdict: Verdict) -> None:
        missed = x[~verdict.is_discriminatory]
        misses.append(missed[share(missed)])

    found = search(
        task.domain,
        task.model,
        method,
        task.seeds(),
        task.budget(),
        rng=task.rng(method.name, method.variant),
        on_judged=watch,
    )
    bias = task.target.bias
    hits, others = (
        rows[np.unique(task.domain.key(rows), return_index=True)[1]]
        for rows in (found.x[share(found.x)], np.concatenate(misses))
    )

    def covered(layer: LayerBias, rows: Rows) -> list[float] | None:
        return coverage(task.model, layer, rows).neurons.tolist() if len(rows) else None

    return NeuronCoverage(
        most_biased=bias.most_biased.name,
        layers=[
            CoveredLayer(
                name=layer.name,
                neurons=layer.neurons,
                biased=layer.biased.tolist(),
                idis=covered(layer, hits),
                non_idis=covered(layer, others),
            )
            for layer in bias.layers
            if len(layer.biased)
        ],
        idis_rows=len(hits),
        non_idis_rows=len(others),
        accuracy=task.accuracy() if "network" in settings else None,
    )
