"""Where the detector comes from: the user's own network, a known trunk, or a small one that is
trained here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.images.detector import (
    Detector,
    Shape,
    own_detector,
    small_detector,
    trunk_detector,
)
from fairprobe.images.interpret import hidden_layers
from fairprobe.images.networks import Network, is_network, open_network
from fairprobe.models import Outputs, one_thread
from fairprobe.models.formats.free_size import Size
from fairprobe.models.formats.own_code import own_errors
from fairprobe.networks.vision import TRUNKS

SMALL = "small network of six convolutions"
TRIED = 2  # pictures that a network is tried with


@dataclass(frozen=True, kw_only=True)
class DetectorSource:
    """A detector as the user names it: a Python object, "vgg16" or "resnet50", `module:function`, a
    file, a folder of transformers, or nothing.
    """

    model: Detector | nn.Module | str | None = None
    trunk: str | None = None
    head: str | None = None
    outputs: Outputs = "logits"
    weights: Path | str | None = None
    size: Size | None = None  # (height, width) of the pictures, for a file that takes any

    @property
    def is_trained(self) -> bool:
        """Return True if it has all its weights; others are trained here."""
        return self.model is not None and self.model not in TRUNKS

    @property
    def name(self) -> str:
        if self.model is None:
            return SMALL
        if isinstance(self.model, str):
            return f"{self.model} trunk" if self.model in TRUNKS else self.model
        return type(self.model).__name__

    def check(self) -> None:
        """Refuse options that contradict each other, before anything is opened."""
        if self.outputs not in ("logits", "probabilities"):
            raise SettingError(
                f"The outputs must be logits or probabilities; got '{self.outputs}'."
            )
        own = {"trunk": self.trunk, "head": self.head}
        for option, value in own.items():
            if value is not None and not self.is_trained:
                raise SettingError(
                    f"The name of the {option} ({value}) needs a network of your own (--model)."
                    " Give one, or leave the name out."
                )
        if self.weights is not None and self.model is None:
            raise SettingError(
                "Weights need a trunk (vgg16, resnet50) or a network of your own (--model). Name"
                " it, or leave the weights out."
            )
        if isinstance(self.model, str) and self.is_trained and not is_network(self.model):
            raise SettingError(
                f"There is no network '{self.model}'.{suggest(self.model, TRUNKS)} Name your own"
                " as module:function or file.py:function, which returns a torch module, as a file"
                " (.onnx, .pt2), or as a folder that save_pretrained of transformers wrote."
            )

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Return the network's own names for its outputs, if it has any."""
        return self._network.classes if self.is_trained else None

    def says_size(self, other_sizes: int) -> list[str]:
        """Return the size of pictures in a sentence, if the network takes any
        (`Network.says_size`).
        """
        return self._network.says_size(other_sizes) if self.is_trained else []

    @cached_property
    def _network(self) -> Network:
        assert self.model is not None
        return open_network(self.model, weights=self._path, size=self.size)

    def open(self, shape: Shape, classes: int, *, seed: int) -> Detector:
        """Open the detector for pictures of this shape."""
        self.check()
        if self.model is None:
            return small_detector(shape, classes, seed=seed)
        if isinstance(self.model, str) and self.model in TRUNKS:
            return trunk_detector(self.model, shape, classes, weights=self._path, seed=seed)
        module = self._network.module.eval()
        detector = module if isinstance(module, Detector) else self._own(module, shape)
        check_answers(detector, shape, classes, self.name)
        return detector.eval()

    @property
    def _path(self) -> Path | None:
        return None if self.weights is None else Path(self.weights)

    def _own(self, module: nn.Module, shape: Shape) -> Detector:
        with one_thread():
            return own_detector(
                module,
                trunk=self.trunk,
                head=self.head,
                outputs=self.outputs,
                images=_noise(shape),
            )


def _noise(shape: Shape) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).random((TRIED, *shape), dtype=np.float32))


def check_answers(detector: Detector, shape: Shape, classes: int, name: str) -> None:
    """Refuse a network that does not take such pictures, returns another number of classes or
    random outputs, or has no visible layers.
    """
    pictures = _noise(shape)
    detector.eval()
    with one_thread():
        with own_errors(
            f"{name} cannot take pictures of {shape[2]} × {shape[1]} pixels, as float32 from 0 to 1"
        ):
            detector.check(pictures)
            with torch.no_grad():
                answers = [detector(pictures), detector(pictures)]
                detector.features(pictures)
        hidden_layers(detector, pictures[:1])
        with own_errors(f"{name} cannot be copied, and the audit trains copies"):
            copy.deepcopy(detector)
    answer: Any = answers[0]
    if tuple(answer.shape) != (2, classes):
        raise ModelError(
            f"{name} returns the shape {tuple(answer.shape)} for two pictures; expected (2,"
            f" {classes}), a number for each class of the pictures. If the network knows more, name"
            " its outputs in their order (--classes)."
        )
    if not torch.isfinite(answer).all():
        raise ModelError(
            f"{name} returns numbers that are not finite. Check its weights and the scale of its"
            " pixels (0 to 1)."
        )
    if not torch.allclose(answers[0], answers[1], atol=1e-4):
        raise ModelError(
            f"{name} returns other numbers for the same picture each time. Switch off what is"
            " random in it; otherwise pairs prove nothing."
        )
