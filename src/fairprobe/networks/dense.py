"""Fully connected networks of the NeuronFair paper: LFCN (five hidden layers) and HFCN (eight),
ReLU throughout.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from fairprobe.errors import SettingError
from fairprobe.models import Encoder, Merge, Scale
from fairprobe.schema.domain import Domain

LFCN = (64, 32, 16, 8, 4)
HFCN = (256, 256, 64, 64, 32, 32, 16, 8)


class DenseNetwork(nn.Sequential):
    """Scaled inputs, hidden layers `hidden1`, `hidden2`, … with ReLU, and one logit for each class.

    The scale comes from the domain's bounds. (The papers feed raw codes; scaled ones train better
    and keep activations comparable.) Before it, `merge` can make several categories one.
    """

    scale: Scale

    def __init__(
        self,
        scale: Scale,
        inputs: int,
        hidden: Sequence[int],
        classes: int,
        *,
        merge: Merge | None = None,
    ) -> None:
        pieces: OrderedDict[str, nn.Module] = OrderedDict()
        if merge is not None:
            pieces["merge"] = merge
        pieces["scale"] = scale
        widths = [inputs, *hidden]
        for number, (before, after) in enumerate(pairwise(widths), start=1):
            pieces[f"linear{number}"] = nn.Linear(before, after)
            pieces[f"hidden{number}"] = nn.ReLU()
        pieces["output"] = nn.Linear(widths[-1], classes)
        super().__init__(pieces)
        self.inputs, self.hidden, self.classes = inputs, tuple(hidden), classes

    def with_merge(self, merge: Merge) -> DenseNetwork:
        """Return the same network, weights included, behind a merge."""
        new = DenseNetwork(self.scale, self.inputs, self.hidden, self.classes, merge=merge)
        new.load_state_dict(self.state_dict(), strict=False)
        return new.to(self.scale.factor.device)

    @property
    def name(self) -> str:
        """Its name in the papers, or its layers."""
        return {LFCN: "LFCN", HFCN: "HFCN"}.get(
            self.hidden, f"dense {'-'.join(map(str, self.hidden))}"
        )


def dense(
    domain: Domain,
    hidden: Sequence[int],
    *,
    classes: int = 2,
    seed: int = 0,
    scale: Scale | None = None,
    kaiming: bool = False,
) -> DenseNetwork:
    """Return a new network for rows of this domain. The seed determines its weights and affects no
    other random number.

    `scale` replaces the scaling by the domain's bounds. `kaiming` draws wider initial weights, with
    which deep narrow networks die less often.
    """
    if classes < 2 or not hidden or min(hidden) < 1:
        raise SettingError(
            "A network needs at least two classes and one neuron in each hidden layer; got"
            f" {classes} classes, layers {list(hidden)}."
        )
    encoder = Encoder(domain)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = DenseNetwork(scale or _by_bounds(domain, encoder), encoder.width, hidden, classes)
        if kaiming:
            for layer in network:
                if isinstance(layer, nn.Linear):
                    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                    nn.init.zeros_(layer.bias)
        return network


def _by_bounds(domain: Domain, encoder: Encoder) -> Scale:
    low, high = torch.zeros(encoder.width), torch.ones(encoder.width)
    for attribute, (start, width) in zip(domain.attributes, encoder.spans, strict=True):
        if width == 1 and not attribute.one_hot:
            low[start], high[start] = attribute.low, attribute.high
    return Scale.between(low, high)


def lfcn(domain: Domain, *, classes: int = 2, seed: int = 0) -> DenseNetwork:
    """Return the lighter network, for Adult, German and Bank."""
    return dense(domain, LFCN, classes=classes, seed=seed)


def hfcn(domain: Domain, *, classes: int = 2, seed: int = 0) -> DenseNetwork:
    """Return the heavier network, for the wide data sets COMPAS and MEPS."""
    return dense(domain, HFCN, classes=classes, seed=seed)
