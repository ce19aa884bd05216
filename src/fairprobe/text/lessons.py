"""Repair of text networks: a text x and its counterpart x' should get the same answer.

    counterfactual   Loss = CE + λ · mean of JS(f(x), f(x')), the penalty of the counterfactual
                     repair of tables; another counterpart is drawn in every epoch. Garg et al.,
                     "Counterfactual fairness in text classification through robustness", 2019, pair
                     the logits instead
    augmentation     Loss = CE of x and of x', which has the label of x. After Lu et al., "Gender
                     bias in neural natural language processing", 2018

The network is trained on from its own weights. Texts that hold no word of the lexicon are learned
as well, at most `OTHERS` for each that does, so that the repair does not cost what it does not see.
The control is trained as long, with the same batches, on the texts as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from torch.nn import functional

from fairprobe.arrays import Ints
from fairprobe.errors import ModelError, SettingError, suggest
from fairprobe.models.formats.text_network import TRANSFORMERS, network_logits, with_module
from fairprobe.models.text import TextModel
from fairprobe.models.torch_model import one_thread
from fairprobe.repairs.divergence import js_of_logits
from fairprobe.storage import replacing
from fairprobe.text.exchange import swapped
from fairprobe.text.lexicon import Lexicon
from fairprobe.text.places import Finder, Place
from fairprobe.text.texts import Text

OTHERS = 3  # texts without a word of the lexicon for each that has one, in an epoch
EPOCHS, BATCHES = 4, 200  # at least, unless the caller says
LONGEST_STEP = 1.0  # of the gradient's norm
PRETRAINED, SMALL = 5e-5, 1e-3  # learning rates: of a transformers folder, of other networks


@dataclass(frozen=True)
class Kind:
    """A repair of text networks: what it does, and what its strength means."""

    title: str
    about: str
    strength: float
    strength_means: str


KINDS: Final[dict[str, Kind]] = {
    "counterfactual": Kind(
        "Counterfactual pairs",
        "Trains the network to answer a text and its counterparts alike (recommended).",
        20.0,
        "λ, the weight of the difference between a text and its counterpart",
    ),
    "augmentation": Kind(
        "Counterfactual augmentation",
        "Trains the network on counterparts of the texts as well, with the label of the text.",
        1.0,
        "the weight of a counterpart, compared with that of its text",
    ),
}


@dataclass(frozen=True, kw_only=True)
class TextRepair:
    """How a text network is repaired; `strength` and `learning_rate` have defaults of their own."""

    name: str = "counterfactual"
    strength: float | None = None
    epochs: int | None = None
    learning_rate: float | None = None
    batch: int = 32

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise SettingError(
                f"There is no repair of text networks called '{self.name}'."
                f"{suggest(self.name, list(KINDS))}"
            )
        for name, value in (("strength", self.strength), ("learning_rate", self.learning_rate)):
            if value is not None and not (np.isfinite(value) and value > 0):
                raise SettingError(f"The {name} must be a number above 0; got {value}.")
        if (self.epochs is not None and self.epochs < 1) or self.batch < 2:
            raise SettingError(
                "A repair takes at least 1 epoch and batches of 2 texts; got"
                f" {self.epochs} and {self.batch}."
            )

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]

    @property
    def weight(self) -> float:
        """The strength, or the default."""
        return self.kind.strength if self.strength is None else self.strength

    def rounds(self, texts: int) -> int:
        """The epochs, or by default as many as a few hundred batches take."""
        return self.epochs or max(EPOCHS, -(-BATCHES // -(-texts // self.batch)))

    def rate(self, model: TextModel) -> float:
        """The learning rate, or the default of this kind of network."""
        if self.learning_rate is not None:
            return self.learning_rate
        return PRETRAINED if model.kind == TRANSFORMERS else SMALL


class Lessons:
    """Labeled texts to learn from, with the places of the lexicon's words in each."""

    def __init__(self, texts: Sequence[Text], labels: Ints, lexicon: Lexicon) -> None:
        finder = Finder(lexicon)
        self.texts = [each.text for each in texts]
        self.labels, self._groups = labels, lexicon.groups
        self._places: list[list[Place]] = [finder.places(text) for text in self.texts]
        has = np.array([bool(places) for places in self._places], dtype=bool)
        self.with_word, self.without = np.flatnonzero(has), np.flatnonzero(~has)

    @property
    def size(self) -> int:
        """The texts of an epoch."""
        return len(self.with_word) + min(OTHERS * len(self.with_word), len(self.without))

    def epoch(self, rng: np.random.Generator) -> Ints:
        """The texts of one epoch in their order."""
        most = OTHERS * len(self.with_word)
        drawn = rng.permutation(self.without)[:most]
        found: Ints = rng.permutation(np.concatenate([self.with_word, drawn]))
        return found

    def counterpart(self, number: int, rng: np.random.Generator) -> str | None:
        """The text with the words of another group, drawn at random; None if it has none."""
        places = self._places[number]
        if not places:
            return None
        source = places[0].group
        for target in rng.permutation([group for group in self._groups if group != source]):
            words = places[0].entry.groups.get(str(target), ())
            pick = int(rng.integers(max(len(words), 1)))
            side = swapped(self.texts[number], places, source, str(target), pick)
            if side is not None and side.text != self.texts[number]:
                return side.text
        return None


def trained_on(
    model: TextModel,
    lessons: Lessons,
    how: TextRepair,
    *,
    seed: int,
    is_control: bool,
    progress: Callable[[int, int], None] | None = None,
    kept: Path | None = None,
) -> TextModel:
    """A copy of the network, trained on with the repair, or as its control without it. The seed
    decides on the order of the texts, their counterparts and dropout. Some text has a word. Its
    weights are kept in the file `kept`, and taken from there if an earlier run wrote them.
    """
    assert model.network is not None
    new = with_module(model, _copy(model.network.module))
    assert new.network is not None
    module = new.network.module
    if kept is not None and kept.exists():
        with suppress(OSError, SafetensorError, RuntimeError):  # damaged: it is trained again
            load_model(module, str(kept))
            return new
    order, draw = np.random.default_rng(seed).spawn(2)
    weights = [each for each in module.parameters() if each.requires_grad]
    rounds = how.rounds(lessons.size)
    steps = rounds * -(-lessons.size // how.batch)
    optimizer = torch.optim.Adam(weights, lr=how.rate(model))
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    step = 0
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # for dropout
        module.train()
        for _ in range(rounds):
            numbers = lessons.epoch(order)
            for start in range(0, len(numbers), how.batch):
                batch = numbers[start : start + how.batch]
                optimizer.zero_grad()
                loss = _loss(new, lessons, batch, how, draw, is_control=is_control)
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(weights, LONGEST_STEP)
                optimizer.step()
                schedule.step()
                step += 1
                if progress is not None:
                    progress(min(step, steps), steps)
        module.eval()
    if kept is not None:
        with suppress(OSError, SafetensorError):  # no room: it is trained again when needed
            kept.parent.mkdir(parents=True, exist_ok=True)
            with replacing(kept) as path:
                save_model(module, str(path))
    return new


def _loss(
    model: TextModel,
    lessons: Lessons,
    batch: Ints,
    how: TextRepair,
    rng: np.random.Generator,
    *,
    is_control: bool,
) -> Tensor:
    assert model.network is not None
    texts = [lessons.texts[number] for number in batch]
    labels = torch.from_numpy(lessons.labels[batch])
    made = [lessons.counterpart(int(number), rng) for number in batch]
    rows = torch.tensor([n for n, each in enumerate(made) if each is not None], dtype=torch.long)
    others = [each for each in made if each is not None]
    if is_control:  # the same texts as often, without the exchange
        others = [texts[int(n)] for n in rows] if how.name == "augmentation" else []
    logits = network_logits(model.network, [*texts, *others])
    own, theirs = logits[: len(texts)], logits[len(texts) :]
    loss = functional.cross_entropy(own, labels, reduction="sum")
    if not others:
        return loss / len(texts)
    if how.name == "augmentation":
        more = functional.cross_entropy(theirs, labels[rows], reduction="sum")
        return (loss + how.weight * more) / (len(texts) + how.weight * len(others))
    return loss / len(texts) + how.weight * js_of_logits(own[rows], theirs).mean()


def _copy(module: nn.Module) -> nn.Module:
    new = copy.deepcopy(module)
    weights = list(new.parameters())
    if not weights:
        raise ModelError("The network has no weights to train.")
    if not any(weight.requires_grad for weight in weights):  # frozen for use, but the copy learns
        new.requires_grad_(True)
    return new
