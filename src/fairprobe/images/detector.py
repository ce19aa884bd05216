"""Face detectors as NeuronFair sees them: a convolutional trunk that computes features, and a dense
head that decides.

Zheng et al., "NeuronFair", ICSE 2022, §5.5: the trunk is that of VGG16 or ResNet50, the head has
hidden layers of 512, 256, 128, 64 and 16.

Deliberate choices:
- The head is scaled to the trunk: those widths for the 2,048 features of VGG16 on 64 × 64 pixels or
  more, proportionally narrower for fewer.
- A small trunk of six convolutions, which a CPU trains in a minute. Adam instead of plain SGD,
  which undertrains it.
- Pretrained trunks get pixels as they were prepared for ImageNet (0–255, blue first, mean
  subtracted); others get numbers from 0 to 1.

All pictures here are (N, 3, height, width), bytes or numbers from 0 to 1.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fairprobe.arrays import Ints
from fairprobe.errors import ModelError, SettingError, StorageError, suggest
from fairprobe.models import Outputs, as_logits
from fairprobe.models.formats.file_checks import first_line
from fairprobe.models.formats.keras_file import import_keras, keras_quietly
from fairprobe.models.formats.own_code import own_errors
from fairprobe.models.trace import layer_names
from fairprobe.networks import Training
from fairprobe.networks.vision import Pixels
from fairprobe.networks.vision_training import Images, train_on_images

Shape = tuple[int, int, int]  # channels, height, width
KerasName = Literal["vgg16", "resnet50"]

HEAD = (512, 256, 128, 64, 16)
FULL_FEATURES = 2048  # of VGG16 on the paper's 64 × 64 pixels
NARROWEST = 16
SMALL_WIDTHS = (16, 16, 32, 32, 64, 64)  # maps of the six convolutions; a pooling after each pair
POOLED = 4
SMALLEST = 8  # pixels: three poolings must leave something
KERAS_SMALLEST = 32
IMAGENET_MEAN = (103.939, 116.779, 123.68)  # blue, green, red
ON_DETECTORS = Training(batch=64, epochs=12, patience=None)


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
        """The network whose layers are interpreted, with the names that its author gave them."""
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


class _Reached(BaseException):
    """The head has been called. A signal that the network's own code does not catch."""


class _OwnDetector(Detector):
    """A user's network. It runs as a whole, with whatever happens between trunk and head; the parts
    are found by name.
    """

    def __init__(self, module: nn.Module, trunk: str, head: str, outputs: Outputs) -> None:
        nn.Module.__init__(self)
        self.module, self._trunk, self._head, self._outputs = module, trunk, head, outputs

    @property
    def trunk(self) -> nn.Module:  # type: ignore[override]
        return self.module.get_submodule(self._trunk)

    @property
    def head(self) -> nn.Module:  # type: ignore[override]
        return self.module.get_submodule(self._head)

    @property
    def inside(self) -> nn.Module:
        return self.module

    def features(self, images: Tensor) -> Tensor:
        seen: list[Any] = []

        def stop(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen.extend((*given, *named.values()))
            raise _Reached

        hook = self.head.register_forward_pre_hook(stop, with_kwargs=True)
        try:
            self._run(images)
        except _Reached:
            if not seen or not isinstance(seen[0], Tensor):
                kind = f"a {type(seen[0]).__name__}" if seen else "nothing"
                raise ModelError(
                    f"The head '{self._head}' gets {kind}; expected a tensor of the trunk's"
                    " features."
                ) from None
            return seen[0]
        finally:
            hook.remove()
        raise ModelError(
            f"The network never calls its head '{self._head}'. Name the part that gets the trunk's"
            " features."
        )

    def forward(self, images: Tensor) -> Tensor:
        answer = self._run(images)
        if not isinstance(answer, Tensor) or answer.ndim not in (1, 2):
            kind = (
                f"numbers {tuple(answer.shape)}"
                if isinstance(answer, Tensor)
                else f"a {type(answer).__name__}"
            )
            raise ModelError(
                f"The network returns {kind} for {len(images)} pictures; expected a tensor with a"
                " number for each class."
            )
        broken = int((~torch.isfinite(answer)).view(len(answer), -1).any(dim=1).sum())
        if broken:
            raise ModelError(
                f"The network returns numbers that are not finite (NaN or infinite) for {broken:,}"
                f" of {len(images):,} pictures. Check its weights, and that it takes pixels from 0"
                " to 1."
            )
        return as_logits(answer, self._outputs)

    def check(self, images: Tensor) -> None:
        order: list[str] = []
        parts = {self._trunk: self.trunk, self._head: self.head}
        hooks = [
            part.register_forward_pre_hook(lambda *_, name=name: order.append(name))
            for name, part in parts.items()
        ]
        try:
            with torch.no_grad():
                answer = self._run(images)
        finally:
            for hook in hooks:
                hook.remove()
        if self._head in order and (
            self._trunk not in order or order.index(self._trunk) > order.index(self._head)
        ):
            raise ModelError(
                f"The network calls its head '{self._head}' before its trunk '{self._trunk}', or"
                " never calls the trunk. Are the two names swapped?"
            )
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

    def _check_outputs(self, answer: Tensor, images: Tensor) -> None:
        """Refuse logits that were declared as probabilities, or the reverse: they would silently
        give wrong verdicts.
        """
        _, is_probability = layer_names(self.module, numbers(images))
        if self._outputs == "logits" and is_probability:
            raise ModelError(
                "The network returns probabilities, but logits were expected. Declare it with"
                " --outputs probabilities."
            )
        if self._outputs == "probabilities" and not bool(((answer >= 0) & (answer <= 1)).all()):
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


def numbers(images: Tensor) -> Tensor:
    """Pictures as numbers from 0 to 1."""
    return images.to(torch.float32) / 255 if images.dtype == torch.uint8 else images


# -- building --------------------------------------------------------------------------------------


def small_detector(shape: Shape, classes: int = 2, *, seed: int = 0) -> Detector:
    """A new detector of six convolutions. Its weights depend only on the seed; other random
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
    """The paper's hidden layers, scaled to the number of features; weights come from torch's
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
    module: nn.Module, *, trunk: str, head: str, outputs: Outputs = "logits"
) -> Detector:
    """A detector from a user's network, with the names of its trunk and its head. It takes numbers
    from 0 to 1.

    `outputs` says whether it returns logits or probabilities, of all classes or of the second of
    two.
    """
    if outputs not in ("logits", "probabilities"):
        raise SettingError(f"The outputs must be logits or probabilities; got '{outputs}'.")
    known = [name for name, _ in module.named_modules() if name]
    for part in (trunk, head):
        if part not in known:
            raise ModelError(f"The network has no part called '{part}'.{suggest(part, known)}")
    if trunk == head:
        raise ModelError(
            f"'{trunk}' is named as the trunk and as the head. The head is the part that gets the"
            " trunk's features."
        )
    return _OwnDetector(module, trunk, head, outputs)


def keras_detector(
    name: KerasName,
    shape: Shape,
    classes: int = 2,
    *,
    weights: Literal["imagenet"] | Path | None = None,
    seed: int = 0,
) -> Detector:
    """A trunk of `keras.applications` on torch, and a new head.

    `weights` is "imagenet" to download the pretrained ones, the path of a Keras file of them
    without the top, or None to draw them at random.
    """
    models = {"vgg16": "VGG16", "resnet50": "ResNet50"}
    if name not in models:
        raise SettingError(f"There is no trunk '{name}'.{suggest(name, models)}")
    _check(shape, classes, KERAS_SMALLEST)
    if shape[0] != 3:
        raise SettingError(f"The trunks of Keras take 3 color channels; got {shape[0]}.")
    if weights not in (None, "imagenet") and not Path(weights).is_file():
        raise StorageError(f"There is no file of weights {weights}.")
    keras = import_keras(f"The trunk {name}")
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")  # layers read it when they are created
    try:
        build = getattr(keras.applications, models[name])
        model = build(
            weights=None if weights is None else str(weights), include_top=False, input_shape=shape
        )
    except Exception as error:  # Keras raises what it likes
        raise ModelError(_refusal(name, weights, error)) from error
    finally:
        keras.config.set_image_data_format(before)
    trunk = _KerasTrunk(model, pretrained=weights is not None)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        features = trunk.eval()(torch.zeros(1, *shape)).flatten(1).shape[1]
        if weights is None:
            _draw_keras(trunk)
        return Detector(trunk, dense_head(features, classes))


class _KerasTrunk(nn.Module):
    """A Keras model as a part of a torch network; its batch norms follow `train` and `eval`."""

    mean: Tensor

    def __init__(self, model: Any, *, pretrained: bool) -> None:
        super().__init__()
        self.model, self._pretrained = model, pretrained
        self.register_buffer("mean", torch.tensor(IMAGENET_MEAN).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        if self._pretrained:
            images = images.flip(1) * 255 - self.mean
        with keras_quietly():
            answer: Tensor = self.model(images, training=self.training)
        return answer

    def __deepcopy__(self, memo: dict[int, Any]) -> _KerasTrunk:
        with keras_quietly():
            other = _KerasTrunk(copy.deepcopy(self.model, memo), pretrained=self._pretrained)
        return other.to(self.mean.device).train(self.training)


def _draw_keras(trunk: nn.Module) -> None:
    """Draw convolutions by He's rule: with Keras's own initial weights, a VGG16 does not start to
    learn, and they depend on a global seed.
    """
    for name, value in trunk.named_parameters():
        if name.endswith("kernel"):  # height, width, maps before, maps after
            value.normal_(std=(2 / value[..., 0].numel()) ** 0.5)


def _refusal(name: str, weights: str | Path | None, error: Exception) -> str:
    if weights == "imagenet":
        return (
            f"The pretrained weights of {name} cannot be downloaded: {first_line(error)}. Download"
            " the file on a connected machine and give its path as the weights."
        )
    source = f" with the weights {weights}" if weights is not None else ""
    return f"Keras cannot build {name}{source}: {first_line(error)}."


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
            f"This detector needs pictures of {smallest} × {smallest} pixels or more and two"
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
    progress: Callable[[int, int], None] | None = None,
) -> Detector:
    """Train trunk and head in place, on all these images; the same seed gives the same weights."""
    train_on_images(detector, images, y, seed=seed, training=training, progress=progress)
    return detector
