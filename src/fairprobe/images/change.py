"""Changing the sensitive attribute of a picture: a small step of all pixels after which the
attribute's classifier sees another value.

Zheng et al., "NeuronFair", ICSE 2022, §3.3; the step is FGSM (Goodfellow et al., ICLR 2015).

    paper                                   here
    Δ_sens = ε · sign(∇_x J(x, y))          `sensitive_change`
    ε                                       `ChangeSettings.epsilon`; what each image got,
                                            `Change.epsilon`

Deliberate choices:
- y is the classifier's own answer: with the true value, faces that it gets wrong become more wrong;
  of two values they never flip.
- One step. `smallest` takes the smallest ε on a grid that flips the answer; `cap` lets ε grow past
  `epsilon` where it does not flip.
- The result is a picture: x + Δ is clipped to [0, 1], and Δ is what remains after that.
- The derivative of the loss is computed in double precision and scaled for each image: where the
  classifier is certain, float32 loses its sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints, Mask, Rows
from fairprobe.datasets.pictures import Bytes
from fairprobe.errors import DataError, SettingError
from fairprobe.images.detector import numbers
from fairprobe.models import one_thread
from fairprobe.networks.vision_training import Images
from fairprobe.results import Count, Number, Rate, Result

AT_ONCE = 128  # images
GRID = 6  # sizes to try up to epsilon, and as many for each further epsilon

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class ChangeSettings:
    """How large a change may be. Without `smallest`, every image gets `epsilon`, or more, up to
    `cap`, if that does not flip it.
    """

    epsilon: float = 0.03
    cap: float | None = None
    smallest: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= 1:
            raise SettingError(
                "The size of a change (epsilon) must be above 0 and at most 1, such as 0.03; got"
                f" {self.epsilon:g}."
            )
        if self.cap is not None and not self.epsilon <= self.cap <= 1:
            raise SettingError(
                f"The cap of a change must be between its size {self.epsilon:g} and 1; got"
                f" {self.cap:g}."
            )

    @property
    def sizes(self) -> tuple[float, ...]:
        """Return the sizes to try, in this order, until the answer flips."""
        step = self.epsilon / GRID
        below = [step * number for number in range(1, GRID)] if self.smallest else []
        above = np.arange(self.epsilon + step, (self.cap or 0) * (1 + 1e-9), step).tolist()
        if self.cap is not None and self.cap > max([self.epsilon, *above]) * (1 + 1e-9):
            above.append(self.cap)
        return (*below, self.epsilon, *above)


@dataclass(frozen=True)
class Change:
    """What is added to each image (N, 3, height, width), whether the classifier's answer flips, and
    the ε used.

    If no size flips the answer, the change has the largest size that was tried.
    """

    delta: Rows
    flipped: Mask
    epsilon: Floats

    def __len__(self) -> int:
        return len(self.delta)

    @property
    def l2(self) -> Floats:
        return l2_of(self.delta)

    def flips(self, seen: Rate | None = None) -> Flips:
        """Count the flips; `seen` are those that an independent network sees."""
        return Flips(
            flips=Rate.of(int(self.flipped.sum()), len(self)),
            epsilon_used=Spread.of(self.epsilon),
            l2=Spread.of(self.l2),
            seen_by_independent=seen if seen is not None and seen.samples else None,
        )

    def take(self, rows: Ints | Mask) -> Change:
        return Change(self.delta[rows], self.flipped[rows], self.epsilon[rows])


class Spread(Result, frozen=True, kw_only=True):
    """Mean, median and maximum of a quantity over pictures."""

    mean: Number
    median: Number
    high: Number
    samples: Count

    @classmethod
    def of(cls, values: Floats | Ints) -> Spread | None:
        """Summarize values, if there are any."""
        if len(values) == 0:
            return None
        return Spread(
            mean=float(values.mean()),
            median=float(np.median(values)),
            high=float(values.max()),
            samples=len(values),
        )


class Flips(Result, frozen=True, kw_only=True):
    """How often a change flips the head that it was made with, and how large it is."""

    flips: Rate
    epsilon_used: Spread | None
    l2: Spread | None
    seen_by_independent: Rate | None


def sensitive_change(
    attribute: nn.Module,
    images: Images,
    settings: ChangeSettings | None = None,
    *,
    batch: int = AT_ONCE,
    progress: OnProgress | None = None,
) -> Change:
    """Make the change after which `attribute`, a network with a logit for each value, sees another
    value.
    """
    how = settings or ChangeSettings()
    check_images(images)
    parts = []
    attribute.eval()
    with one_thread():
        for rows, x in pieces(attribute, images, batch):
            own, gradient = _gradient(attribute, x)
            parts.append(_smallest(attribute, x, gradient.sign(), own, how.sizes))
            if progress is not None:
                progress(rows.stop, len(images))
    return _joined(parts, images)


def random_change(
    attribute: nn.Module,
    images: Images,
    change: Change,
    *,
    rng: np.random.Generator,
    batch: int = AT_ONCE,
) -> Change:
    """Make the control: a change as large as the given one, with a random sign at every pixel.
    `flipped` says whether it flips the answer of `attribute`.
    """
    check_change(images, change)
    parts = []
    attribute.eval()
    with one_thread():
        for rows, x in pieces(attribute, images, batch):
            signs = torch.from_numpy(rng.integers(0, 2, size=x.shape, dtype=np.int8)).to(x) * 2 - 1
            epsilon = torch.from_numpy(change.epsilon[rows])
            delta = _nudged(x, signs, epsilon.to(x)) - x
            with torch.no_grad():
                flipped = attribute(x).argmax(dim=1) != attribute(x + delta).argmax(dim=1)
            parts.append((delta, flipped, epsilon))
    return _joined(parts, images)


def is_flipped(
    attribute: nn.Module, images: Images, change: Change, *, batch: int = AT_ONCE
) -> Mask:
    """Return True if a classifier, not necessarily the one that made the change, sees another value
    after it.
    """
    check_change(images, change)
    answers = [np.empty(0, dtype=bool)]
    attribute.eval()
    with one_thread(), torch.inference_mode():
        for rows, x in pieces(attribute, images, batch):
            changed = x + torch.from_numpy(change.delta[rows]).to(x)
            answers.append(
                (attribute(x).argmax(dim=1) != attribute(changed).argmax(dim=1)).cpu().numpy()
            )
    return np.concatenate(answers)


def as_numbers(images: Images) -> Rows:
    """Pictures as numbers from 0 to 1."""
    pixels: Rows = images.astype(np.float32)
    return pixels / np.float32(255) if images.dtype == np.uint8 else pixels


def as_bytes(pictures: Rows) -> Bytes:
    """Numbers from 0 to 1 as whole bytes, the form in which pictures are saved."""
    return np.round(pictures * 255).astype(np.uint8)


def l2_of(delta: Rows) -> Floats:
    """(N,) the Euclidean length of each change."""
    lengths: Floats = np.sqrt(np.square(delta, dtype=np.float64).sum(axis=(1, 2, 3)))
    return lengths


def pieces(network: nn.Module, images: Images, batch: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield the images batch by batch, as numbers from 0 to 1 on the network's device."""
    if batch < 1:
        raise SettingError(f"A batch must have 1 image or more; got {batch}.")
    device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
    for at in range(0, len(images), batch):
        rows = slice(at, min(at + batch, len(images)))
        yield (
            rows,
            numbers(torch.from_numpy(np.require(images[rows], requirements=["C", "W"]))).to(
                device, torch.float32
            ),
        )


def check_images(images: Images) -> None:
    """Refuse arrays that are not pictures."""
    if images.ndim != 4:
        raise DataError(
            f"Images must have the shape (number, channels, height, width); got {images.shape}."
        )
    if images.dtype != np.uint8 and (
        images.dtype != np.float32
        or (images.size and not (images.min() >= 0 and images.max() <= 1))
    ):
        raise DataError(
            "Images must be bytes (uint8) or float32 numbers from 0 to 1; got other values of"
            f" {images.dtype}."
        )


def check_change(images: Images, change: Change) -> None:
    """Refuse changes that belong to other pictures."""
    check_images(images)
    if change.delta.shape != images.shape:
        raise DataError(
            f"The changes {change.delta.shape} do not belong to the images {images.shape}. Take the"
            " same rows of both."
        )


def scaled(cotangent: Tensor) -> Tensor:
    """Scale each image's derivative to a maximum of 1, so that float32 can hold those of very
    certain networks and of exploding ones.
    """
    greatest = cotangent.abs().flatten(1).amax(dim=1)
    return cotangent / torch.where(greatest > 0, greatest, 1).view(-1, *[1] * (cotangent.ndim - 1))


def slope_of_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """(N, classes) the derivative of the cross-entropy by the logits: p, and at the label minus the
    sum of the others, because p − 1 loses precision.
    """
    others = torch.softmax(logits.double(), dim=1).scatter_(1, labels[:, None], 0)
    return others.scatter_(1, labels[:, None], -others.sum(dim=1, keepdim=True))


def _gradient(attribute: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the classifier's answers, and the derivative of its cross-entropy by the pixels,
    scaled for each image.
    """
    with torch.enable_grad():
        z = x.clone().requires_grad_()
        logits = attribute(z)
    own = logits.detach().argmax(dim=1)
    slope = scaled(slope_of_cross_entropy(logits.detach(), own)).to(logits.dtype)
    (gradient,) = torch.autograd.grad(logits, z, slope, allow_unused=True, materialize_grads=True)
    return own, gradient


def _nudged(x: Tensor, signs: Tensor, epsilon: Tensor) -> Tensor:
    return (x + epsilon.view(-1, 1, 1, 1) * signs).clamp_(0, 1)


@torch.no_grad()
def _smallest(
    attribute: nn.Module, x: Tensor, signs: Tensor, own: Tensor, sizes: tuple[float, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """Each image's delta, whether it flips the answer, and the first size that does."""
    epsilon = torch.full((len(x),), sizes[-1], dtype=torch.float64, device=x.device)
    flipped = torch.zeros(len(x), dtype=torch.bool, device=x.device)
    left = torch.arange(len(x), device=x.device)
    for size in sizes:
        # The delta is subtracted and added again, as its users do: rounding must not undo a flip.
        start = x[left]
        changed = start + (
            _nudged(start, signs[left], torch.full_like(left, 1, dtype=x.dtype) * size) - start
        )
        new = attribute(changed).argmax(dim=1) != own[left]
        flipped[left[new]], epsilon[left[new]] = True, size
        left = left[~new]
        if len(left) == 0:
            break
    return _nudged(x, signs, epsilon.to(x)) - x, flipped, epsilon


def _joined(parts: list[tuple[Tensor, Tensor, Tensor]], images: Images) -> Change:
    if not parts:
        return Change(
            np.empty(images.shape, dtype=np.float32), np.empty(0, dtype=bool), np.empty(0)
        )
    delta, flipped, epsilon = (
        torch.cat(column).cpu().numpy() for column in zip(*parts, strict=True)
    )
    return Change(delta, flipped, epsilon)
