"""Trunk and head of any classifier of pictures, found by watching one forward pass.

The head is the chain of dense layers at the end that each get one row of numbers for a picture; the
trunk is all that comes before it. In a ResNet that is `fc`, in VGG16 the three layers of the
classifier, in a vision transformer the classifier behind the class token. A network that ends in a
convolution has that as its head. A *call* is one use of weights; the features of a picture are what
the first call of the head gets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fairprobe.errors import ModelError, suggest
from fairprobe.images.layout import ATTENTION, CONVOLUTIONS, LINEAR
from fairprobe.images.networks import Prepared
from fairprobe.models.trace import source_names
from fairprobe.results import Result

WEIGHTED = LINEAR | CONVOLUTIONS | {torch.convolution}
SHOWN = 12  # names in a message
SHAPED = 2  # axes of a matrix of weights


class Parts(Result, frozen=True):
    """Where a network is divided. `call` is the number of the head's first call; it is None where
    the user named a part of the network, whose input (head) or output (trunk) are the features.
    """

    trunk: str | None
    head: str | None
    call: int | None = None
    is_found: bool = False
    """Whether the tool found them, rather than the user."""
    attends: bool = False
    """Whether the network computes attention, as vision transformers do."""

    @property
    def says(self) -> str:
        """Both in a phrase."""
        trunk = "all before it" if self.trunk is None else f"all up to '{self.trunk}'"
        head = "all behind it" if self.head is None else f"from '{self.head}'"
        return f"trunk: {trunk}, head: {head}"


class Reached(BaseException):
    """The features are known. A signal that the network's own code does not catch."""


class Calls(TorchFunctionMode):
    """Counts the calls, and passes what each gets to `look`."""

    def __init__(self, look: Callable[[int, Any, Tensor], None]) -> None:
        super().__init__()
        self._look, self._count = look, 0
        self.attends = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.attends |= func in ATTENTION
        if func in WEIGHTED:
            given = args[0] if args else kwargs.get("input")
            other = args[1] if len(args) > 1 else None
            if func in LINEAR and isinstance(other, Tensor) and other.ndim > SHAPED:
                self.attends = True  # a product of two sequences: attention, spelled out
            if isinstance(given, Tensor):
                number, self._count = self._count, self._count + 1
                self._look(number, func, given)
        return func(*args, **kwargs)


@dataclass(frozen=True)
class _Call:
    name: str
    is_dense: bool  # a linear layer on one row for each picture


def find_parts(module: nn.Module, images: Tensor, run: Callable[[Tensor], Any]) -> Parts:
    """Divide a network; `run` is its forward pass."""
    calls, attends = _calls(module, images, run)
    if not calls:
        raise ModelError(
            "The network uses no linear layer and no convolution, so its trunk and head cannot be"
            " found. Name them (--trunk, --head)."
        )
    start = len(calls)
    while start and calls[start - 1].is_dense:
        start -= 1
    if start in (0, len(calls)):  # all of it is dense, or nothing at its end is
        start = len(calls) - 1
    before = calls[start - 1].name if start else None
    return Parts(before, calls[start].name, start, is_found=True, attends=attends)


def named_parts(
    module: nn.Module,
    images: Tensor | None,
    run: Callable[[Tensor], Any],
    trunk: str | None,
    head: str | None,
) -> Parts:
    """Divide a network where the user says: by the name of a part, or of a call in a file."""
    known = [name for name, _ in authors_part(module).named_modules() if name]
    calls, attends = ([], False) if images is None else _calls(module, images, run)
    names = [call.name for call in calls]
    if head is not None and head not in known and head in names:
        call = names.index(head)
        return Parts(trunk or (names[call - 1] if call else None), head, call, attends=attends)
    for name, what in ((trunk, "trunk"), (head, "head")):
        if name is not None and name not in known:
            every = list(dict.fromkeys((*known, *names)))
            more = (
                " Of a network that was read from a file, name the head: one of"
                f" {', '.join(names[-SHOWN:])}."
                if what == "trunk" and name in names
                else ""
            )
            raise ModelError(
                f"The network has no part called '{name}'.{more or suggest(name, every)}"
            )
    if trunk is not None and trunk == head:
        raise ModelError(
            f"'{trunk}' is named as the trunk and as the head. The head is the part that gets the"
            " trunk's features."
        )
    return Parts(trunk, head, attends=attends)


def authors_part(module: nn.Module) -> nn.Module:
    """Return the network without what was put before it; its parts have their author's names."""
    return module.module if isinstance(module, Prepared) else module


def _calls(
    module: nn.Module, images: Tensor, run: Callable[[Tensor], Any]
) -> tuple[list[_Call], bool]:
    """Return the calls of a forward pass, and whether attention is computed."""
    module, path = authors_part(module), [""]
    found: list[_Call] = []
    leaves = {name for name, part in module.named_modules() if not any(part.children())}

    def look(_: int, func: Any, given: Tensor) -> None:
        where = path[-1]
        name = where if where in leaves and where else f"{where}.{func.__name__}".lstrip(".")
        seen = sum(one.name.split("#")[0] == name for one in found)
        is_dense = func in LINEAR and given.ndim == 2
        found.append(_Call(f"{name}#{seen + 1}" if seen else name, is_dense))

    def leave(*_: Any) -> None:
        path.pop()

    hooks = []
    for name, part in module.named_modules():
        hooks += [
            part.register_forward_pre_hook(lambda *_, name=name: path.append(name)),
            part.register_forward_hook(leave),
        ]
    try:
        with torch.no_grad(), Calls(look) as calls:
            run(images)
    finally:
        for hook in hooks:
            hook.remove()
    names = source_names(module, lambda: run(images), WEIGHTED)
    if names is not None and len(names) == len(found):
        found = [_Call(name, one.is_dense) for name, one in zip(names, found, strict=True)]
    return found, calls.attends


def features_at(call: int, run: Callable[[Tensor], Any], images: Tensor) -> Tensor | None:
    """Return what a call gets, flat or not; None if there are fewer calls."""
    seen: list[Tensor] = []

    def look(number: int, _: Any, given: Tensor) -> None:
        if number == call:
            seen.append(given)
            raise Reached

    try:
        with Calls(look):
            run(images)
    except Reached:
        return seen[0]
    return None
