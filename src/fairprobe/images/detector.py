"""Face detectors as NeuronFair sees them: a convolutional trunk that computes features, and a dense
head that decides.

Zheng et al., "NeuronFair", ICSE 2022, §5.5: the trunk is that of VGG16 or ResNet50, the head has
hidden layers of 512, 256, 128, 64 and 16.

Deliberate choices:
- The head is scaled to the trunk: those widths for the 2,048 features of VGG16 on 64 × 64 pixels or
  more, proportionally narrower for fewer.
- A small trunk of six convolutions, which a CPU trains in a minute. Adam instead of plain SGD,
  which undertrains it.
- Trunk and head of a user's network are found by watching it (`images.parts`), unless the user
  names them.

All pictures here are (N, 3, height, width), bytes or numbers from 0 to 1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fairprobe.arrays import Ints
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.images.parts import (
    Parts,
    Reached,
    authors_part,
    features_at,
    find_parts,
    named_parts,
)
from fairprobe.models import Outputs, as_logits
from fairprobe.models.formats.own_code import own_errors
from fairprobe.models.trace import layer_names
from fairprobe.networks import Training
from fairprobe.networks.vision import TRUNK_SMALLEST, TRUNKS, Pixels
from fairprobe.networks.vision import trunk as named_trunk
from fairprobe.networks.vision_training import Images, train_on_images

Shape = tuple[int, int, int]  # channels, height, width

HEAD = (512, 256, 128, 64, 16)
FULL_FEATURES = 2048  # of VGG16 on the paper's 64 × 64 pixels
NARROWEST = 16
SMALL_WIDTHS = (16, 16, 32, 32, 64, 64)  # maps of the six convolutions; a pooling after each pair
POOLED = 4
SMALLEST = 8  # pixels: three poolings must leave something
ON_DETECTORS = Training(batch=64, epochs=12, patience=None)
PAPERS_RATE = 0.01  # of plain gradient descent


class Detector(nn.Module):
    """A trunk and a head. `features` is what the head gets; the output is a logit for each
    class.
    """

    trunk: nn.Module
    head: nn.Module

    def __init__(self, trunk: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.trunk, self.head = trunk, head

    def features(self, images: Tensor) -> Tensor:
        answer: Tensor = self.trunk(numbers(images))
        return answer

    def forward(self, images: Tensor) -> Tensor:
        answer: Tensor = self.head(self.features(images))
        return answer

    @property
    def inside(self) -> nn.Module:
        """Return the network whose layers are interpreted, with the names that its author gave
        them.
        """
        return self

    def check(self, images: Tensor) -> None:
        """Refuse a network that does not behave as described, using a few images. There is nothing
        to check in a trunk and a head that were put together here.
        """


class Mirror(nn.Module):
    """In training, mirror each picture half of the time: a few hundred faces then teach more."""

    def forward(self, images: Tensor) -> Tensor:
        if not self.training:
            return images
        mirrored = (torch.rand(len(images)) < 0.5).to(images.device)
        return torch.where(mirrored.view(-1, 1, 1, 1), images.flip(-1), images)


class OwnDetector(Detector):
    """A user's network. It runs as a whole, with whatever happens between trunk and head; where the
    features are, `parts` says.
    """

    def __init__(self, module: nn.Module, parts: Parts, outputs: Outputs) -> None:
        nn.Module.__init__(self)
        self.module, self.parts, self.outputs = module, parts, outputs

    @property
    def trunk(self) -> nn.Module:  # type: ignore[override]
        return self.module if self.parts.trunk is None else self._part(self.parts.trunk)

    @property
    def head(self) -> nn.Module:  # type: ignore[override]
        return self.module if self.parts.head is None else self._part(self.parts.head)

    def _part(self, name: str) -> nn.Module:
        return authors_part(self.module).get_submodule(name)

    @property
    def inside(self) -> nn.Module:
        return self.module

    def features(self, images: Tensor) -> Tensor:
        if self.parts.call is not None:
            found = features_at(self.parts.call, self._run, images)
            if found is None:
                raise ModelError(
                    f"The network calls its head '{self.parts.head}' for some pictures only. Name"
                    " another head (--head)."
                )
            return found
        seen: list[Any] = []

        def got(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen.extend((*given, *named.values()))
            raise Reached

        def gave(_: nn.Module, given: Any, answer: Any) -> None:
            del given
            seen.append(answer)
            raise Reached

        hook: Any = (
            self.trunk.register_forward_hook(gave)
            if self.parts.head is None
            else self.head.register_forward_pre_hook(got, with_kwargs=True)
        )
        try:
            self._run(images)
        except Reached:
            if not seen or not isinstance(seen[0], Tensor):
                kind = f"a {type(seen[0]).__name__}" if seen else "nothing"
                place = (
                    f"head '{self.parts.head}' gets"
                    if self.parts.head is not None
                    else f"trunk '{self.parts.trunk}' gives"
                )
                raise ModelError(
                    f"The {place} {kind}; expected a tensor of the trunk's features."
                ) from None
            return seen[0]
        finally:
            hook.remove()
        if self.parts.head is None:
            raise ModelError(f"The network never calls its trunk '{self.parts.trunk}'.")
        raise ModelError(
            f"The network never calls its head '{self.parts.head}'. Name the part that gets the"
            " trunk's features."
        )

    def forward(self, images: Tensor) -> Tensor:
        answer = plain_answer(self._run(images))
        if not isinstance(answer, Tensor) or answer.ndim not in (1, 2):
            kind = (
                f"numbers {tuple(answer.shape)}"
                if isinstance(answer, Tensor)
                else f"a {type(answer).__name__}"
            )
            raise ModelError(
                f"The network returns {kind} for {len(images)} pictures; expected a tensor with a"
                " number for each class. If it answers several things, return the classes alone."
            )
        broken = int((~torch.isfinite(answer)).view(len(answer), -1).any(dim=1).sum())
        if broken:
            raise ModelError(
                f"The network returns numbers that are not finite (NaN or infinite) for {broken:,}"
                f" of {len(images):,} pictures. Check its weights, and that it takes pixels from 0"
                " to 1."
            )
        return self.logits(answer)

    def logits(self, answer: Any) -> Tensor:
        """Convert the output of the network to a logit for each class."""
        return as_logits(plain_answer(answer), self.outputs)

    def check(self, images: Tensor) -> None:
        if self.parts.call is None and self.parts.trunk is not None and self.parts.head is not None:
            self._check_order(images)
        with torch.no_grad():
            answer = plain_answer(self._run(images))
        if isinstance(answer, Tensor):  # otherwise `forward` raises
            self._check_outputs(answer, images)
        with torch.inference_mode(False), torch.enable_grad():
            pixels = images.clone().requires_grad_()
            if not (self.features(pixels).requires_grad and self(pixels).requires_grad):
                raise ModelError(
                    "No gradient flows from the network's outputs back to the pixels, and the audit"
                    " needs it. Remove torch.no_grad, inference_mode, detach or numpy from its"
                    " forward."
                )

    def _check_order(self, images: Tensor) -> None:
        trunk, head = str(self.parts.trunk), str(self.parts.head)
        order: list[str] = []
        hooks = [
            part.register_forward_pre_hook(lambda *_, name=name: order.append(name))
            for name, part in {trunk: self.trunk, head: self.head}.items()
        ]
        try:
            with torch.no_grad():
                self._run(images)
        finally:
            for hook in hooks:
                hook.remove()
        if head in order and (trunk not in order or order.index(trunk) > order.index(head)):
            raise ModelError(
                f"The network calls its head '{head}' before its trunk '{trunk}', or never calls"
                " the trunk. Are the two names swapped?"
            )

    def _check_outputs(self, answer: Tensor, images: Tensor) -> None:
        """Refuse logits that were declared as probabilities, or the reverse: they would silently
        give wrong verdicts.
        """
        _, is_probability = layer_names(self.module, numbers(images))
        if self.outputs == "logits" and is_probability:
            raise ModelError(
                "The network returns probabilities, but logits were expected. Declare it with"
                " --outputs probabilities."
            )
        if self.outputs == "probabilities" and not bool(((answer >= 0) & (answer <= 1)).all()):
            raise ModelError(
                f"The network returns numbers from {float(answer.min()):g} to"
                f" {float(answer.max()):g}, which are not probabilities. Declare it with --outputs"
                " logits."
            )

    def _run(self, images: Tensor) -> Any:
        height, width = images.shape[-2:]
        with own_errors(
            f"The network cannot take {len(images):,} pictures of {width} × {height} pixels, as"
            " float32 from 0 to 1"
        ):
            return self.module(numbers(images))


def parts_of(detector: Detector) -> Parts:
    """Where a detector is divided."""
    return detector.parts if isinstance(detector, OwnDetector) else Parts("trunk", "head")


def plain_answer(answer: Any) -> Any:
    """Return the output of a network; the logits of a transformers classifier."""
    return getattr(answer, "logits", answer)


def numbers(images: Tensor) -> Tensor:
    """Pictures as numbers from 0 to 1."""
    return images.to(torch.float32) / 255 if images.dtype == torch.uint8 else images


# -- building --------------------------------------------------------------------------------------


def small_detector(shape: Shape, classes: int = 2, *, seed: int = 0) -> Detector:
    """Build a new detector of six convolutions. Its weights depend only on the seed; other random
    generators are not touched.
    """
    _check(shape, classes, SMALLEST)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Detector(small_trunk(shape[0]), dense_head(SMALL_WIDTHS[-1] * POOLED**2, classes))


def small_trunk(channels: int) -> nn.Sequential:
    """Six convolutions, each with its ReLU; weights come from torch's current generator."""
    pieces: OrderedDict[str, nn.Module] = OrderedDict(mirror=Mirror(), pixels=Pixels())
    for number, (before, after) in enumerate(pairwise((channels, *SMALL_WIDTHS)), start=1):
        pieces[f"conv{number}"] = nn.Conv2d(before, after, 3, padding=1)
        pieces[f"relu{number}"] = nn.ReLU()
        if number in (2, 4):
            pieces[f"pool{number}"] = nn.MaxPool2d(2)
    pieces["pool6"] = nn.AdaptiveMaxPool2d(POOLED)
    pieces["flat"] = nn.Flatten()
    trunk = nn.Sequential(pieces)
    _draw(trunk)
    return trunk.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def dense_head(features: int, classes: int) -> nn.Sequential:
    """Build the paper's hidden layers, scaled to the number of features; weights come from torch's
    current generator.
    """
    scale = min(1.0, features / FULL_FEATURES)
    widths = [max(NARROWEST, round(width * scale)) for width in HEAD]
    pieces: OrderedDict[str, nn.Module] = OrderedDict(flat=nn.Flatten())
    for number, (before, after) in enumerate(pairwise((features, *widths)), start=1):
        pieces[f"dense{number}"] = nn.Linear(before, after)
        pieces[f"relu{number}"] = nn.ReLU()
    pieces["output"] = nn.Linear(widths[-1], classes)
    head = nn.Sequential(pieces)
    _draw(head)
    return head


def own_detector(
    module: nn.Module,
    *,
    trunk: str | None = None,
    head: str | None = None,
    outputs: Outputs = "logits",
    images: Tensor | None = None,
) -> OwnDetector:
    """Build a detector from a user's network, which takes numbers from 0 to 1. Its trunk and its
    head are found with a few `images`, unless one of them is named, or parts have these names.

    `outputs` says whether it returns logits or probabilities, of all classes or of the second of
    two.
    """
    if outputs not in ("logits", "probabilities"):
        raise SettingError(f"The outputs must be logits or probabilities; got '{outputs}'.")
    whole = OwnDetector(module, Parts(None, None), outputs)
    if trunk is None and head is None:
        children = dict(module.named_children())
        if {"trunk", "head"} <= children.keys():
            whole.parts = Parts("trunk", "head")
        elif images is None:
            raise SettingError(
                "Name the trunk or the head of the network, or give a few images with which they"
                " can be found."
            )
        else:
            whole.parts = find_parts(module, images, whole._run)
    else:
        whole.parts = named_parts(module, images, whole._run, trunk, head)
    return whole


def trunk_detector(
    name: str, shape: Shape, classes: int = 2, *, weights: Path | None = None, seed: int = 0
) -> Detector:
    """VGG16 or ResNet50 without its classifier, and a new head. `weights` is a safetensors file of
    pretrained ones; without it, all are drawn by the seed.
    """
    if name not in TRUNKS:
        raise SettingError(f"There is no trunk '{name}'.{suggest(name, TRUNKS)}")
    _check(shape, classes, TRUNK_SMALLEST)
    if shape[0] != 3:
        raise SettingError(f"{name} takes 3 color channels; got {shape[0]}.")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        trunk = named_trunk(name, weights=weights)
        features = trunk.eval()(torch.zeros(1, *shape)).flatten(1).shape[1]
        return Detector(trunk, dense_head(features, classes))


def _draw(part: nn.Module) -> None:
    """Draw initial weights by He's rule: with torch's own, eleven layers without batch norm hardly
    start to learn.
    """
    for layer in part.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def _check(shape: Shape, classes: int, smallest: int) -> None:
    if len(shape) != 3 or shape[0] < 1 or min(shape[1:]) < smallest or classes < 2:
        raise SettingError(
            f"This network needs pictures of {smallest} × {smallest} pixels or more and two"
            f" classes or more; got pictures (channels × height × width)"
            f" {' × '.join(map(str, shape))} and {classes} classes."
        )


# -- training --------------------------------------------------------------------------------------


def train_detector(
    detector: Detector,
    images: Images,
    y: Ints,
    *,
    seed: int = 0,
    training: Training = ON_DETECTORS,
    sgd: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Detector:
    """Train trunk and head in place, on all these images; the same seed gives the same weights.
    `sgd` trains as the paper does.
    """
    if sgd:
        training = replace(training, learning_rate=PAPERS_RATE)
    train_on_images(detector, images, y, seed=seed, training=training, sgd=sgd, progress=progress)
    return detector
