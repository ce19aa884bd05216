"""Search for pictures on which a detector changes its verdict when the sensitive attribute is
changed: NeuronFair, ADF and EIDIG on pixels.

Zheng et al., "NeuronFair", ICSE 2022, Algorithm 2 and §3.3. The rules of the three methods are
those of `fairprobe.search.methods`; here is what pictures need besides.

    paper                       here
    Δ_bias                      `ImageFindings.delta`
    the pair                    x + Δ_bias, and clip(x + Δ_bias + Δ_sens)
    step, max_iter, μ, p_r, r_step                     `ImageSearch`

Deliberate choices:
- "No sign, step 0.15" needs a norm: the direction has an L2 length of 1 for each picture. Raw
  gradients explode (NeuronFair) or vanish. `gradient="plain"` takes them as they are, as printed;
  with 40 iterations that is the variant `PAPER`.
- The gradients of a pair are brought to a common length of 1 before they enter the momentum: raw
  ones differ by orders of magnitude.
- A dead neuron has no derivative. A zero gradient, or no agreement at all, means a random
  direction, so that no seed stalls.
- ADF and EIDIG take their derivatives through the other classes (`exact`), in double precision:
  where the detector is certain, float32 loses them.
- One pass of the network judges a pair and gives its gradient; the derivative is taken from the
  biased layer downwards.
- A label is the greatest logit. Where rounding could decide which one that is, a pair is not
  counted and the search goes on.
- A picture that is discriminatory before any step is counted apart (`at_seed`).
- The search ends where the verdict changes, as in the paper. Whether the attribute's classifier
  still sees a change there is asked afterwards (`measure.strict_pairs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from time import perf_counter
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.datasets.pictures import Bytes
from fairprobe.errors import FairprobeError, ModelError, SettingError, suggest
from fairprobe.images.change import (
    Change,
    as_bytes,
    as_numbers,
    check_change,
    l2_of,
    pieces,
    scaled,
)
from fairprobe.images.interpret import Tap, hidden_layers
from fairprobe.models import one_thread
from fairprobe.networks.vision_training import Images
from fairprobe.search.gradients import agreement, with_momentum
from fairprobe.search.methods import adf, eidig, neuronfair
from fairprobe.search.neuron_bias import LayerBias, NeuronBias
from fairprobe.search.settings import Setting, latin

Method = Literal["neuronfair", "adf", "eidig", "random"]
MOMENTUM: dict[Method, float] = {
    "neuronfair": neuronfair.NeuronFair.global_momentum,
    "adf": 0.0,
    "eidig": eidig.EIDIG.momentum,
    "random": 0.0,
}
COTANGENTS: dict[str, Callable[[Tensor], Tensor]] = {  # by the probabilities
    "adf": partial(adf.cotangent, exact=True),
    "eidig": partial(eidig.cotangent, exact=True),
}
# As printed: the gradients as they are, 40 iterations.
PAPER: dict[str, Any] = {"max_iter": 40, "gradient": "plain"}
SETTINGS = {  # what `--set` knows, with the letters of the paper
    "step": ("how far a picture moves in one step; its L2 length with unit gradients", ()),
    "max_iter": ("steps of each face", ("max_iter_g",)),
    "momentum": ("how much of the last gradient is kept; each method has its own", ("mu",)),
    "random_share": ("NeuronFair: neurons that are watched besides the biased ones", ("p_r",)),
    "r_step": ("NeuronFair: steps after which other ones are drawn", ()),
    "gradient": ("unit: of length 1 for each picture; plain: as it is", ()),
}
# of the logits' size: closer ones may change places when the same picture is in another batch
CERTAIN = 1e-5


@dataclass(frozen=True, kw_only=True)
class ImageSearch:
    """The method and its settings; `momentum` None takes the method's own. `random_share` and
    `r_step` belong to NeuronFair.
    """

    method: Method = "neuronfair"
    step: float = 0.15
    max_iter: int = 20
    momentum: float | None = None
    random_share: float = 0.05
    r_step: int = 10
    gradient: Literal["unit", "plain"] = "unit"
    batch: int = 64

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise SettingError(
                f"The method must be one of {', '.join(get_args(Method))}; got '{self.method}'."
            )
        if self.gradient not in ("unit", "plain"):
            raise SettingError(f"The gradient must be unit or plain; got '{self.gradient}'.")
        if not 0 < self.step < float("inf"):
            raise SettingError(f"The step must be positive, such as 0.15; got {self.step:g}.")
        if self.max_iter < 0 or min(self.r_step, self.batch) < 1:
            raise SettingError(
                "max_iter must be 0 or more, r_step and batch 1 or more; got"
                f" {self.max_iter}, {self.r_step} and {self.batch}."
            )
        if not 0 <= self.random_share <= 1 or not 0 <= self.decay < 1:
            raise SettingError(
                "random_share must be from 0 to 1, and momentum from 0 to below 1; got"
                f" {self.random_share:g} and {self.decay:g}."
            )

    @property
    def decay(self) -> float:
        return MOMENTUM[self.method] if self.momentum is None else self.momentum


@dataclass(frozen=True)
class ImageFindings:
    """The IDIs of one search. `rows` are the seeds that led to one; `delta` is what was added to
    them, zero for those `at_seed`.
    """

    method: Method
    rows: Ints
    delta: Rows
    iterations: Ints
    at_seed: Mask
    seeds: int
    """Pictures that the search began with; fewer than were given if it was interrupted."""
    generated: int
    """Pictures that were tried on the way, including the seeds."""
    seconds: float
    stopped: str

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def made(self) -> int:
        """Count the IDIs that the search made, without those that were there before."""
        return int((~self.at_seed).sum())

    @property
    def success(self) -> float:
        """Return the share of all seeds that lead to an IDI, including those that were one from the
        start.
        """
        return len(self) / self.seeds if self.seeds else 0.0

    @property
    def gsr(self) -> float:
        """Return the share of seeds that the search turns into an IDI, of those that were not one
        from the start.
        """
        return self.made / self.tried if self.tried else 0.0

    @property
    def tried(self) -> int:
        """Return the seeds that the search had to move."""
        return self.seeds - int(self.at_seed.sum())

    @property
    def l2(self) -> Floats:
        return l2_of(self.delta)

    @property
    def mean_l2(self) -> float:
        """Return the mean L2 of Δ_bias over the IDIs that the search made; NaN if it made none."""
        return float(self.moved_by.mean()) if self.made else float("nan")

    @property
    def moved_by(self) -> Floats:
        """Return the L2 of Δ_bias of each IDI that the search made."""
        return self.l2[~self.at_seed]

    def pairs(self, images: Images, change: Change) -> tuple[Rows, Rows]:
        """Both pictures of each pair: x + Δ_bias, and the same with Δ_sens. `images` and `change`
        are what the search was given.
        """
        without = np.clip(as_numbers(images[self.rows]) + self.delta, 0, 1)
        return without, np.clip(without + change.delta[self.rows], 0, 1)

    def pictures(self, images: Images, change: Change) -> tuple[Bytes, Bytes]:
        """Both pictures of each pair as they are saved, in whole bytes."""
        without, changed = map(as_bytes, self.pairs(images, change))
        return without, changed

    def only(self, chosen: Mask) -> ImageFindings:
        """Return the same search with some of its pairs."""
        return replace(
            self,
            rows=self.rows[chosen],
            delta=self.delta[chosen],
            iterations=self.iterations[chosen],
            at_seed=self.at_seed[chosen],
        )


def search_images(
    network: nn.Module,
    images: Images,
    change: Change,
    settings: ImageSearch | None = None,
    *,
    bias: NeuronBias | None = None,
    rng: np.random.Generator,
    progress: Callable[[int, int], None] | None = None,
) -> ImageFindings:
    """Search from every picture. `network` answers with a logit for each class; NeuronFair also
    needs its interpretation, `bias`.

    An interrupt (Ctrl-C) ends the search and keeps what was found; `stopped` says so. An error
    carries what was found until then as `error.findings`.
    """
    how = settings or ImageSearch()
    check_change(images, change)
    if how.method == "neuronfair" and bias is None:
        raise SettingError(
            "NeuronFair needs to know the biased neurons: give the result of image_bias as `bias`."
        )
    run = _Run(network.eval(), how, len(images), progress)
    try:
        with one_thread():
            run.whole(images, change, bias, rng)
    except KeyboardInterrupt:
        return run.findings("interrupted", images)
    except FairprobeError as error:
        error.findings = run.findings("failed", images)
        raise
    return run.findings("complete", images)


class _Walkers:
    """The seeds of one batch that are still moving: where they started, how far they have come, and
    the change of the attribute.
    """

    def __init__(self, rows: Ints, start: Tensor, sensitive: Tensor) -> None:
        self.rows, self.start, self.sensitive = rows, start, sensitive
        self.delta = torch.zeros_like(start)
        self.memory: dict[str, Tensor] = {}

    def pair(self) -> Tensor:
        """(2n, …) the pictures, then the same with the change of the attribute."""
        x = self.start + self.delta
        return torch.cat([x, (x + self.sensitive).clamp_(0, 1)])

    def move(self, direction: Tensor, step: float) -> None:
        x = (self.start + self.delta + step * direction).clamp_(0, 1)
        self.delta = x - self.start

    def keep(self, left: Tensor) -> None:
        self.rows = self.rows[left.cpu().numpy()]
        self.start, self.sensitive, self.delta = (
            self.start[left],
            self.sensitive[left],
            self.delta[left],
        )
        self.memory = {name: value[left] for name, value in self.memory.items()}


class _Run:
    """One search over all batches."""

    def __init__(
        self,
        network: nn.Module,
        how: ImageSearch,
        seeds: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.network, self.how, self.total, self.progress = network, how, seeds, progress
        self.found: list[tuple[Ints, Rows, Ints]] = []  # rows, deltas, iterations
        self.begun = self.generated = 0
        self.layer: LayerBias | None = None
        self.call = -1
        self.channels_last = False  # of the biased layer: it has tokens instead of maps
        self.start = perf_counter()

    def whole(
        self, images: Images, change: Change, bias: NeuronBias | None, rng: np.random.Generator
    ) -> None:
        streams = rng.spawn(-(-len(images) // self.how.batch))
        for (rows, x), own_rng in zip(
            pieces(self.network, images, self.how.batch), streams, strict=True
        ):
            if self.how.method == "neuronfair" and self.layer is None and bias is not None:
                self.look_at(bias, x[:1])
            walkers = _Walkers(
                np.arange(rows.start, rows.stop, dtype=np.int64),
                x,
                torch.from_numpy(change.delta[rows]).to(x),
            )
            self.one_batch(walkers, own_rng)
            if self.progress is not None:
                self.progress(rows.stop, self.total)

    def look_at(self, bias: NeuronBias, image: Tensor) -> None:
        self.layer = bias.most_biased
        names = hidden_layers(self.network, image)
        if self.layer.name not in names:
            raise ModelError(
                "The interpretation is of another network: this one has no layer"
                f" '{self.layer.name}'."
            )
        self.call = names.index(self.layer.name)

    def one_batch(self, walkers: _Walkers, rng: np.random.Generator) -> None:
        self.begun += len(walkers.rows)
        for iteration in range(self.how.max_iter + 1):  # pictures are judged after the last move
            last = iteration == self.how.max_iter or self.how.method == "random"
            differs, gradients = self.judge(walkers, iteration, rng, judge_only=last)
            self.generated += len(walkers.rows)
            hit = differs.cpu().numpy()
            if hit.any():
                rows, delta = walkers.rows[hit], walkers.delta[differs].cpu().numpy()
                self.found.append((rows, delta, np.full(len(rows), iteration)))
            walkers.keep(~differs)
            if len(walkers.rows) == 0 or iteration == self.how.max_iter:
                return
            kept = (
                None
                if gradients is None
                else gradients.view(2, -1, *gradients.shape[1:])[:, ~differs]
            )
            walkers.move(self.direction(walkers, kept, rng), self.how.step)

    # -- one step ----------------------------------------------------------------------------------

    def judge(
        self, walkers: _Walkers, iteration: int, rng: np.random.Generator, *, judge_only: bool
    ) -> tuple[Tensor, Tensor | None]:
        """(n,) whether the labels of each pair differ, and (2n, …) the gradient of the method's
        objective by the pixels.
        """
        pair = walkers.pair()
        if judge_only:
            with torch.no_grad():
                return differs_beyond_rounding(self.network(pair)), None
        seen: list[Tensor] = []

        def look(call: int, output: Tensor, channels_last: bool) -> None:
            if call == self.call:
                self.channels_last = channels_last
                seen.append(output.clone())  # the network may change it in place

        with torch.inference_mode(False), torch.enable_grad():
            z = pair.requires_grad_()
            with Tap(look):
                logits = self.network(z.clone())  # likewise
            differs = differs_beyond_rounding(logits)
            if self.layer is not None:
                objective = seen[0]
                slope = self._neuronfair(objective.detach(), walkers, iteration, rng)
            else:
                objective, slope = logits, _by_logits(COTANGENTS[self.how.method], logits.detach())
            if not objective.requires_grad:  # nothing here depends on the pixels
                return differs, torch.zeros_like(pair)
            if self.how.gradient == "unit":
                slope = _by_pair(slope, scaled)
            slope = slope.to(objective.dtype)
            (gradient,) = torch.autograd.grad(
                objective, z, slope, allow_unused=True, materialize_grads=True
            )
        return differs, gradient

    def _neuronfair(
        self, a: Tensor, walkers: _Walkers, iteration: int, rng: np.random.Generator
    ) -> Tensor:
        """Return the derivative of J by the activations of each pair. A dead neuron has none."""
        assert self.layer is not None
        if iteration % self.how.r_step == 0:
            walkers.memory["watched"] = torch.from_numpy(
                neuronfair.watched_neurons(
                    self.layer, len(walkers.rows), self.how.random_share, rng
                )
            ).to(a.device)
        watched = walkers.memory["watched"]
        is_position = watched.shape[1] == a[0].numel()  # else a neuron is a whole map
        ones = [1] * (a.ndim - 2)
        by_channel = (*ones, a.shape[-1]) if self.channels_last else (a.shape[1], *ones)
        shape = a.shape[1:] if is_position else by_channel
        return neuronfair.cotangent(a, watched.view(-1, *shape)).masked_fill_(a == 0, 0)

    def direction(
        self, walkers: _Walkers, gradients: Tensor | None, rng: np.random.Generator
    ) -> Tensor:
        """(n, …) where to go, of length 1 for each picture unless gradients are plain; `gradients`
        are (2, n, …).
        """
        if gradients is None:
            return _random(walkers.start, rng)
        is_unit = self.how.gradient == "unit"
        fresh = gradients.transpose(0, 1)
        fresh = _unit(fresh) if is_unit else torch.nan_to_num(fresh, nan=0.0)
        if self.how.decay:
            fresh = with_momentum(walkers.memory, "gradients", fresh, self.how.decay)
        mine, other = fresh[:, 0], fresh[:, 1]
        total = mine + other if self.layer is not None else agreement(mine, other)[1]
        if not is_unit:
            return total
        total = _unit(total)
        stalled = total.flatten(1).abs().amax(dim=1) == 0
        if stalled.any():
            total[stalled] = _random(total[stalled], rng)
        return total

    def findings(self, stopped: str, images: Images) -> ImageFindings:
        none = np.empty(0, dtype=np.int64)
        nothing = (none, np.empty((0, *images.shape[1:]), dtype=np.float32), none)
        rows, delta, iterations = map(np.concatenate, zip(nothing, *self.found, strict=True))
        order = np.argsort(rows)
        return ImageFindings(
            method=self.how.method,
            rows=rows[order],
            delta=delta[order],
            iterations=iterations[order],
            at_seed=iterations[order] == 0,
            seeds=self.begun,
            generated=self.generated,
            seconds=perf_counter() - self.start,
            stopped=stopped,
        )


def read_settings(given: Mapping[str, object]) -> dict[str, Any]:
    """Read settings of a search by name or the letter of the paper, as `ImageSearch` takes them."""
    defaults = {each.name: each.default for each in fields(ImageSearch)}
    hints = get_type_hints(ImageSearch)
    letters = {letter: name for name, (_, own) in SETTINGS.items() for letter in own}
    hints, found = get_type_hints(ImageSearch), {}
    for key, value in given.items():
        name = letters.get(latin(key), key)
        if name not in SETTINGS:
            raise SettingError(
                f"A search in pictures has no setting '{key}'.{suggest(key, [*SETTINGS, *letters])}"
            )
        found[name] = Setting(name, defaults[name], hints[name], SETTINGS[name][0]).read(value)
    return found


def differs_beyond_rounding(logits: Tensor) -> Tensor:
    """Return True if the labels of each pair differ beyond what rounding can do."""
    if logits.ndim != 2 or logits.shape[1] < 2:
        raise ModelError(
            "The network must answer each image with a logit for each of two or more classes; it"
            f" answered {tuple(logits.shape)}. own_detector makes them of one logit or of"
            " probabilities."
        )
    logits = logits.detach()
    top = logits.topk(2, dim=1)
    certain = (top.values[:, 0] - top.values[:, 1]) > CERTAIN * logits.abs().amax(dim=1)
    (mine, other), (mine_certain, other_certain) = top.indices[:, 0].chunk(2), certain.chunk(2)
    return (mine != other) & mine_certain & other_certain


def _by_logits(cotangent: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
    """(N, classes) the derivative by the logits of an objective whose derivative by the
    probabilities is `cotangent`.
    """
    p = torch.softmax(logits.double(), dim=1)
    by_p = cotangent(p)
    return p * (by_p - (by_p * p).sum(dim=1, keepdim=True))


def _by_pair(values: Tensor, rule: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a rule to both pictures of each pair together: (2n, …) in, (2n, …) out."""
    pairs = values.view(2, -1, *values.shape[1:]).transpose(0, 1)
    return rule(pairs).transpose(0, 1).reshape(values.shape)


def _unit(values: Tensor) -> Tensor:
    """Scale each entry to length 1; zero where there is no direction, or none that is a number."""
    values = scaled(torch.nan_to_num(values, nan=0.0))
    length = values.flatten(1).norm(dim=1)
    return values / torch.where(length > 0, length, 1).view(-1, *[1] * (values.ndim - 1))


def _random(like: Tensor, rng: np.random.Generator) -> Tensor:
    return _unit(torch.from_numpy(rng.standard_normal(like.shape, dtype=np.float32)).to(like))
