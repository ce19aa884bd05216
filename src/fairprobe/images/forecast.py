"""What an audit on pictures will take, before it begins: at most so much time, and about so much
memory.

A short trial does every kind of work with a few pictures, by the audit's own functions: answering,
searching, training the network, the attribute heads and the independent network. How often the
audit does each is known. Searches end early where they find something, so the time is an upper end.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from time import process_time

import numpy as np
import torch

from fairprobe.errors import ModelError
from fairprobe.images.attribute import ON_HEADS, ON_NETWORKS, attribute_network, learn
from fairprobe.images.change import Change, ChangeSettings, pieces
from fairprobe.images.controls import CHANGES
from fairprobe.images.detector import ON_DETECTORS, Detector, dense_head
from fairprobe.images.repair import ON_REPAIRS
from fairprobe.images.search import ImageSearch, search_images
from fairprobe.models import one_thread
from fairprobe.networks.vision_training import Images, labels_of, train_on_images
from fairprobe.results import Amount, Count, Result, Seconds

FEWEST, MOST = 2, 64  # pictures of a trial
ENOUGH = 0.2  # seconds: a trial that takes longer is not repeated with more pictures
STEPS = 2  # of the search that is tried
NUMBER = 4  # bytes
MARGIN = 1.25
GAPS = 2  # batches of a search shrink, and what they free is seldom of the size that is needed next
ROOMY = 2 * 2**30  # bytes that the pictures of one batch may keep for a gradient


class Forecast(Result, frozen=True):
    """Seconds of one core that an audit takes at most, and bytes beside what Python and torch need.
    `batch` is how many pairs a search processes together, fewer where their gradients would need
    too much memory.
    """

    seconds: Seconds
    bytes: Amount
    batch: Count


@dataclass(frozen=True)
class Work:
    """What is to be done, in numbers of pictures."""

    to_learn: int  # all pictures that a detector may learn from
    faces: int  # those of people, from which the attribute is learned
    held_out: int
    seeds: int
    attacked: int
    methods: int
    controls: bool
    repair: bool
    trains: bool  # a detector is trained here


@dataclass(frozen=True)
class _Costs:
    """Seconds that a picture takes: an answer, a step of the search (for a pair), an epoch of
    training the network, an attribute head, or the independent network.
    """

    answer: float
    step: float
    training: float
    head: float
    independent: float


def forecast(
    detector: Detector,
    images: Images,
    values: int,
    work: Work,
    change: ChangeSettings,
    search: ImageSearch,
) -> Forecast:
    """Try the work with a few pictures, and add up how often it is done."""
    kept, features = _kept(detector, images[:FEWEST])
    batch = int(np.clip(ROOMY // max(2 * kept, 1), 1, search.batch))
    cost = _tried(detector, images, values, features, work, replace(search, batch=batch))
    changes = 1 + (len(CHANGES) if work.controls else 0)
    heads = 2 if work.controls else 1
    pairs = 2 * work.seeds
    # Learning the attribute: features of faces and their mirror images.
    learning = 2 * work.faces * (cost.answer + ON_HEADS.epochs * cost.head)
    seconds = heads * learning + work.held_out * cost.answer * (heads + 1)
    if work.trains:
        seconds += ON_DETECTORS.epochs * work.to_learn * cost.training
    if work.controls:
        seconds += ON_NETWORKS.epochs * work.faces * cost.independent
    seconds += heads * work.seeds * (cost.step + len(change.sizes) * cost.answer)
    seconds += changes * pairs * cost.answer  # interpretation
    searches = changes * work.methods * work.seeds * search.max_iter * cost.step
    seconds += searches + pairs * (search.max_iter + 1) * cost.answer * work.controls
    if work.repair:
        attack = work.attacked * (search.max_iter + 1) * cost.step
        states = 3 if work.controls else 2
        seconds += states * (learning + attack + (work.held_out + 4 * work.attacked) * cost.answer)
        more = work.to_learn + 2 * work.seeds * work.methods
        seconds += (states - 1) * ON_REPAIRS.epochs * more * cost.training
    parameters = sum(value.numel() for value in detector.parameters()) * NUMBER
    picture = images[0].size
    memory = (
        (work.to_learn + work.held_out) * picture * (2 if work.repair else 1)
        + 4 * work.faces * features * NUMBER  # both mirror images, and a copy while they are joined
        + GAPS * 2 * batch * kept
        + (heads + 4) * parameters
        + changes * (1 + work.methods) * work.seeds * picture * NUMBER
    )
    return Forecast(MARGIN * seconds, MARGIN * memory, batch)


def _kept(network: Detector, images: Images) -> tuple[float, int]:
    """Return the bytes that a gradient keeps for one picture, and the number of features."""
    kept = 0

    def count(value: torch.Tensor) -> torch.Tensor:
        nonlocal kept
        kept += value.numel() * value.element_size()
        return value

    network.eval()
    ((_, x),) = pieces(network, images, len(images))
    with one_thread():
        with torch.inference_mode(False), torch.enable_grad():
            z = x.clone().requires_grad_()
            with torch.autograd.graph.saved_tensors_hooks(count, lambda value: value):
                network(z)
        with torch.no_grad():
            features = network.features(x[:1]).numel()
    return kept / len(x), features


def _tried(
    detector: Detector,
    images: Images,
    values: int,
    features: int,
    work: Work,
    search: ImageSearch,
) -> _Costs:
    """Time each kind of work; zero where an audit does none of it."""
    most = min(MOST, len(images))
    codes = np.arange(most) % values

    def search_some(count: int) -> None:
        # Without a change, no pair differs and no search ends early.
        none = np.zeros((count, *images.shape[1:]), dtype=np.float32)
        change = Change(none, np.ones(count, dtype=bool), np.zeros(count))
        how = replace(search, method="adf", momentum=None, max_iter=STEPS)
        search_images(detector, images[:count], change, how, rng=np.random.default_rng(0))

    def train_some(count: int) -> None:
        training = replace(ON_REPAIRS, epochs=1)
        with suppress(ModelError):  # named when the audit trains
            train_on_images(trained, images[:count], codes[:count] % 2, training=training)

    def train_head(count: int) -> None:
        given = torch.rand(count, features, generator=torch.Generator().manual_seed(0))
        epoch = replace(ON_HEADS, epochs=1)
        learn(head, given, np.arange(count) % values, values, 0, epoch, None)

    def train_independent(count: int) -> None:
        epoch = replace(ON_NETWORKS, epochs=1)
        attribute_network(images[:count], codes[:count], values, training=epoch)

    training = independent = 0.0
    if work.trains or (work.repair and any(True for _ in detector.parameters())):
        trained = copy.deepcopy(detector).requires_grad_(True)
        training = _seconds(train_some, most)
    if work.controls:
        independent = _seconds(train_independent, most)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        head = dense_head(features, values)
    return _Costs(
        answer=_seconds(lambda count: labels_of(detector, images[:count]), most),
        step=_seconds(search_some, min(most, max(FEWEST, work.seeds))) / STEPS,
        training=training,
        head=_seconds(train_head, ON_HEADS.batch, ON_HEADS.batch),
        independent=independent,
    )


def _seconds(work: Callable[[int], object], most: int, fewest: int = FEWEST) -> float:
    """Seconds of one core for one picture: with few pictures first, then with more unless that
    takes long.
    """
    count = fewest
    work(count)  # what is done only once, such as imports, is not counted
    while True:
        start = process_time()
        work(count)
        spent = process_time() - start
        if spent >= ENOUGH or count >= most:
            return spent / count
        count = min(4 * count, most)
