"""Small random networks and schemas of every supported kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from fairprobe.models import TorchModel
from fairprobe.models.encoder import Encoder
from fairprobe.schema.attributes import Attribute, Constraint
from fairprobe.schema.domain import Coupling, Domain

SEX = ("female", "male")
ROLES = ("single", "husband", "wife", "child")
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "leaky": lambda: nn.LeakyReLU(0.1),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
}


def numbers(*, sizes: tuple[int, ...] = (7, 5, 9), real: bool = False) -> Domain:
    """Whole numbers (and a real one), with a sensitive attribute of two values in the middle."""
    attributes = [
        Attribute(name=f"n{place}", low=place - 1, high=place + size - 2)
        for place, size in enumerate(sizes)
    ]
    attributes.insert(1, Attribute(name="sex", kind="categorical", categories=SEX))
    if real:
        attributes.append(Attribute(name="amount", kind="real", low=-0.5, high=2.5))
    return Domain(tuple(attributes), sensitive=("sex",))


def words(*sensitive: str, twins: bool = False) -> Domain:
    """One-hot attributes beside a number; a role may change along with sex."""
    couplings: tuple[Coupling, ...] = ()
    if twins:
        roles = ({"female": "wife", "male": "husband"},)
        couplings = (Coupling(attribute="role", sensitive="sex", roles=roles),)
    return Domain(
        (
            Attribute(name="age", low=1, high=9),
            Attribute(name="sex", kind="categorical", categories=SEX, one_hot=True),
            Attribute(name="role", kind="categorical", categories=ROLES, one_hot=True),
            Attribute(name="job", kind="categorical", categories=tuple("abcde"), one_hot=True),
            Attribute(name="race", low=0, high=2),
        ),
        sensitive=sensitive or ("sex",),
        couplings=couplings,
    )


def network(
    domain: Domain,
    *,
    seed: int = 0,
    widths: tuple[int, ...] = (8, 6),
    classes: int = 1,
    activation: str = "relu",
    ignore: bool = False,
) -> TorchModel:
    """Random weights around the middle of the domain, so that both answers occur."""
    torch.manual_seed(seed)
    encoder = Encoder(domain)
    pieces: list[nn.Module] = []
    width = encoder.width
    for wide in widths:
        pieces += [nn.Linear(width, wide), ACTIVATIONS[activation]()]
        width = wide
    pieces.append(nn.Linear(width, classes))
    module = nn.Sequential(*pieces).eval()
    model = TorchModel(module, encoder=None if encoder.is_identity else encoder, outputs="logits")
    x = domain.sample(500, rng=np.random.default_rng(seed))
    with torch.no_grad():
        last = pieces[-1]
        assert isinstance(last, nn.Linear)
        middle = torch.from_numpy(model.logits(x)).median(dim=0).values
        last.bias.copy_(last.bias - middle[-classes:])
        if ignore:
            first = pieces[0]
            assert isinstance(first, nn.Linear)
            for column in domain.changing_columns.tolist():
                start, wide = encoder.spans[column]
                first.weight[:, start : start + wide] = 0
    return TorchModel(module, encoder=model.encoder, outputs="logits")


def everybody(domain: Domain) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Every row of a domain of whole numbers, once for each case: with the first sensitive value,
    coupled attributes as under it.
    """
    axes = [
        np.arange(each.low, each.high + 1, dtype=np.float32)
        if each.name not in domain.sensitive
        else np.array([each.low], dtype=np.float32)
        for each in domain.attributes
    ]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def ruled() -> Domain:
    """A rule that forbids children who have a job other than a, and old men who are single."""

    def holds(codes: Mapping[str, np.ndarray]) -> np.ndarray:
        child = (codes["role"] == 3) & (codes["job"] > 0)
        old = (codes["sex"] == 1) & (codes["role"] == 0) & (codes["age"] > 6)
        return np.asarray(~child & ~old)

    return replace(words("sex", "race"), constraints=(Constraint("toy", holds),))
