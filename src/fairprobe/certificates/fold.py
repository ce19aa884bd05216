"""From a model to the chain that is certified: what precedes the first activation is probed
value by value (it adds up over the attributes), the rest is folded layer by layer.

Supported: `nn.Sequential`s of linear layers, batch norms, scales, merged categories and learned
columns; ReLU, LeakyReLU, sigmoid, tanh and GELU; a softmax or sigmoid at the end. Anything else is
named, and nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from scipy.linalg import block_diag
from torch import Tensor, nn

from fairprobe.arrays import Floats
from fairprobe.certificates.allowed import allowed_of
from fairprobe.certificates.chain import (
    Chain,
    Layer,
    Part,
    UnsupportedError,
    added,
    differences_of,
    goes_by,
)
from fairprobe.certificates.forest import Forest, forest_of
from fairprobe.models.base import Model
from fairprobe.models.columns import Columns
from fairprobe.models.encoder import Merge, Scale
from fairprobe.models.join import Reordered
from fairprobe.models.torch_model import TorchModel
from fairprobe.schema.domain import Domain

NOTHING = (nn.Dropout, nn.Identity, nn.Flatten)
FRONT = (nn.Linear, nn.BatchNorm1d, Scale, Merge, Columns)
LARGEST_TABLE = 1024  # values of an attribute that needs a column for each
CHECKED = 64  # random people whose answers must be those of the model
SAME = 1e-4  # of the largest answer: float32 rounding, and nothing else


def subject_of(model: Model, domain: Domain) -> Chain | Forest:
    """Return what is certified: the trees of a model that has trees, or its network."""
    domain.require_sensitive()
    forest = None if isinstance(model, TorchModel) else forest_of(model, domain)
    return chain_of(model, domain) if forest is None else forest


def chain_of(model: Model, domain: Domain) -> Chain:
    """Fold the network of a model; raise an error that names an unsupported part."""
    domain.require_sensitive()
    if not isinstance(model, TorchModel):
        why = model.about.why if model.about is not None else ""
        raise UnsupportedError(
            "Certificates need the weights of a network or the trees of an ensemble, and this model"
            " is a black box"
            f"{': ' + why if why else ''}. Nothing is claimed. Search it instead: fairprobe audit."
        )
    if model._zeroed:
        raise UnsupportedError("Neurons of the network are silenced; certify it as it is saved.")
    x = domain.sample(1, rng=np.random.default_rng(0))
    pieces = list(_pieces(model.module, ""))
    front, rest = _parted(pieces)
    parts, first, start = _first_layer(front, model, domain)
    activation, layers = _folded(rest, model.outputs(x))
    if not layers:
        raise UnsupportedError(
            "The network has no activation between its layers, or no layer behind the first: it is"
            " one straight line. Nothing is claimed."
        )
    weight, bias = layers[-1].weight, layers[-1].bias
    classes = max(2, len(bias))
    layers[-1] = Layer(*differences_of(weight, bias, classes))
    chain = Chain(
        tuple(parts),
        first,
        start,
        activation,
        tuple(layers),
        classes,
        np.zeros((domain.value_count, len(layers[-1].bias))),
        tuple(domain.sensitive),
    )
    _compare(chain, model, domain)
    allowed, why = allowed_of(domain)
    return replace(_decided(chain, model, domain), allowed=allowed, constraints=why)


def _pieces(module: nn.Module, name: str) -> Iterator[tuple[str, nn.Module]]:
    """Yield the pieces of a network in order, each with its name."""
    if module._forward_hooks or module._forward_pre_hooks:
        raise UnsupportedError(
            f"Hooks are attached to the layer '{name or 'network'}'. Remove them."
        )
    if isinstance(module, NOTHING):
        return
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        for child, each in module._modules.items():
            if each is not None:
                yield from _pieces(each, f"{name}.{child}" if name else child)
        return
    yield name or "network", module


def _parted(
    pieces: list[tuple[str, nn.Module]],
) -> tuple[list[nn.Module], list[tuple[str, nn.Module]]]:
    """Split the pieces at the first activation."""
    for place, (_, piece) in enumerate(pieces):
        if not isinstance(piece, FRONT):
            return [each for _, each in pieces[:place]], pieces[place:]
    return [each for _, each in pieces], []


# -- the first layer -------------------------------------------------------------------------------


def _first_layer(
    front: list[nn.Module], model: TorchModel, domain: Domain
) -> tuple[list[Part], Floats, Floats]:
    """Return the parts of all attributes, their columns, and what the sensitive values add."""
    run = nn.Sequential(*(deepcopy(piece).double().eval() for piece in front)).to("cpu")

    def answer(x: Floats) -> Floats:
        z = torch.from_numpy(np.ascontiguousarray(x))
        with torch.no_grad():
            return np.asarray(run(model.encoder(z) if model.encoder is not None else z).numpy())

    base = domain.low.astype(np.float64)[None]
    bent = _bent(front, model, domain) | {goes_by(model.decision, domain)}
    every = domain.counterparts(domain.low[None])[0].astype(np.float64)  # (V, A)
    start = answer(every)
    parts: list[Part] = []
    columns: list[Floats] = []  # each (V or 1, neurons, width)
    place = 0
    coupled = set(domain.changing) - set(domain.sensitive)
    for a, attribute in enumerate(domain.attributes):
        if attribute.name in domain.sensitive:
            continue
        last = float(attribute.high) - float(attribute.low)
        whole, name = attribute.kind != "real", attribute.name
        if not (attribute.one_hot or a in bent or name in coupled):
            rise = (_varied(answer, base, a, [attribute.high])[0] - answer(base)[0]) / (last or 1.0)
            columns.append(rise[None, :, None])
            parts.append(Part(name, a, attribute.low, last, place, 0, whole))
            place += 1
            continue
        if not whole or last >= LARGEST_TABLE:
            raise UnsupportedError(
                f"The model turns '{name}' into a curve, and it has"
                f" {'no finite set of' if not whole else f'{last + 1:,.0f}'} values; at most"
                f" {LARGEST_TABLE:,} are supported. Nothing is claimed. Bin it, or leave it out."
            )
        codes = np.arange(attribute.low, attribute.high + 1, dtype=np.float64)
        tables = _tables(domain, a, codes) if name in coupled else codes[None]
        zero = answer(base)[0]
        columns.append(np.stack([(_varied(answer, base, a, row) - zero).T for row in tables]))
        parts.append(Part(name, a, attribute.low, last, place, len(codes), whole))
        place += len(codes)
    wide = max((len(each) for each in columns), default=1)
    first = np.concatenate([np.broadcast_to(c, (wide, *c.shape[1:])) for c in columns], axis=2)
    if coupled:  # `start` holds what coupled attributes add at their lowest place; tables hold all
        alone = np.repeat(base, len(every), axis=0)
        alone[:, domain.sensitive_columns] = every[:, domain.sensitive_columns]
        start = answer(alone)
    return parts, np.ascontiguousarray(first), start


def _varied(answer, base: Floats, a: int, values: Floats | list[float]) -> Floats:  # type: ignore[no-untyped-def]
    rows = np.repeat(base, len(values), axis=0)
    rows[:, a] = values
    return np.asarray(answer(rows))


def _tables(domain: Domain, a: int, codes: Floats) -> Floats:
    """(V, codes) what each code of a coupled attribute, as under the first sensitive values, is
    called under each.
    """
    rows = np.repeat(domain.low[None], len(codes), axis=0)
    rows[:, a] = codes
    return domain.counterparts(rows)[:, :, a].T.astype(np.float64)


def _bent(front: list[nn.Module], model: TorchModel, domain: Domain) -> set[int]:
    """Find the attributes whose numbers do not enter the first layer as straight lines."""
    spans = (
        model.encoder.spans if model.encoder is not None else [(a, 1) for a in range(len(domain))]
    )
    where = {first: a for a, (first, _) in enumerate(spans)}
    found: set[int] = set()
    is_first = True
    for piece in front:
        if isinstance(piece, Merge | Columns) and not is_first:
            raise UnsupportedError(
                f"{type(piece).__name__} follows another layer of the network, which is not"
                " supported. Nothing is claimed."
            )
        if isinstance(piece, Columns):
            found |= {where[curve.column] for curve in piece.curves if curve.column in where}
        if isinstance(piece, Merge):
            found |= {where[int(column)] for column in piece.column if int(column) in where}
        is_first = False
    return found


# -- the layers behind it --------------------------------------------------------------------------


def _folded(rest: list[tuple[str, nn.Module]], outputs: str) -> tuple[str, list[Layer]]:
    """Return the activation behind the first layer, and the layers behind it."""
    activations: list[str] = []
    affine: list[tuple[Floats, Floats] | None] = []
    now: tuple[Floats, Floats] | None = None
    ends = False
    for place, (name, piece) in enumerate(rest):
        if ends and not isinstance(piece, Reordered):
            raise UnsupportedError(f"'{name}' follows the probabilities, which is not supported.")
        last = all(isinstance(each, Reordered) for _, each in rest[place + 1 :])
        is_end = last and outputs == "probabilities" and isinstance(piece, nn.Sigmoid | nn.Softmax)
        if is_end or (last and isinstance(piece, nn.Softmax)):
            ends = True
        elif isinstance(piece, Reordered):
            assert now is not None
            now = _reordered(piece, *now)
        elif isinstance(piece, FRONT):
            now = _then(now, *_affine(name, piece, None if now is None else len(now[1])))
        else:
            if activations:
                affine.append(now)
            activations.append(_activation(name, piece))
            now = None
    if outputs == "probabilities" and not ends:
        raise UnsupportedError(
            "The network answers with probabilities that do not come from a softmax or sigmoid at"
            " its end. Nothing is claimed."
        )
    if not activations or now is None:
        return "", []
    affine.append(now)
    if any(each is None for each in affine):
        raise UnsupportedError("Two activations follow each other, which is not supported.")
    kinds = [*activations[1:], ""]
    found = [each for each in affine if each is not None]
    layers = [Layer(w, b, kind) for (w, b), kind in zip(found, kinds, strict=True)]
    return activations[0], layers


def _activation(name: str, piece: nn.Module) -> str:
    if isinstance(piece, nn.ReLU):
        return "relu"
    if isinstance(piece, nn.LeakyReLU) and 0 <= piece.negative_slope <= 1:
        return f"leaky:{float(piece.negative_slope)!r}"
    if isinstance(piece, nn.Sigmoid):
        return "sigmoid"
    if isinstance(piece, nn.Tanh):
        return "tanh"
    if isinstance(piece, nn.GELU) and piece.approximate == "none":
        return "gelu"
    raise UnsupportedError(
        f"The layer '{name}' ({type(piece).__name__}) is not supported: certificates take chains of"
        " linear layers and batch norms with ReLU, LeakyReLU, sigmoid, tanh or GELU. Nothing is"
        " claimed."
    )


def _affine(name: str, piece: nn.Module, width: int | None) -> tuple[Floats, Floats]:
    """Return weight (outputs, inputs) and bias of a linear piece."""
    if isinstance(piece, nn.Linear):
        bias = torch.zeros(piece.out_features) if piece.bias is None else piece.bias
        return _floats(piece.weight), _floats(bias)
    if isinstance(piece, Scale):
        factor = _floats(piece.factor)
        return np.diag(factor), -_floats(piece.middle) * factor
    if isinstance(piece, nn.BatchNorm1d) and piece.running_var is not None:
        assert piece.running_mean is not None
        factor = 1 / np.sqrt(_floats(piece.running_var) + piece.eps)
        shift = -_floats(piece.running_mean) * factor
        if piece.affine:
            factor, shift = factor * _floats(piece.weight), shift * _floats(piece.weight)
            shift = shift + _floats(piece.bias)
        return np.diag(factor), shift
    del width
    raise UnsupportedError(
        f"The layer '{name}' ({type(piece).__name__}) is not supported behind an activation."
        " Nothing is claimed."
    )


def _then(now: tuple[Floats, Floats] | None, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
    if now is None:
        return weight, bias
    return weight @ now[0], weight @ now[1] + bias


def _reordered(piece: Reordered, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
    """Reorder the classes; a single score changes its sign."""
    if len(bias) == 1:
        return -weight, -bias
    return weight[piece.order], bias[piece.order]


def _floats(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().double().numpy()


# -- decisions and the comparison ------------------------------------------------------------------


def _decided(chain: Chain, model: Model, domain: Domain) -> Chain:
    """Add the decision rule to the chain."""
    rule = model.decision
    if rule is None:
        return chain
    if rule.costs is not None:
        raise UnsupportedError(
            "Costs of three or more classes decide by probabilities, not by logits, which is not"
            " supported for networks. Nothing is claimed. A threshold, or costs of two classes, are"
            " supported."
        )
    moved, column = added(rule, domain), goes_by(rule, domain)
    if column is None:
        return replace(chain, shift=moved)
    kinds = [chain.activation, *(layer.activation for layer in chain.layers[:-1])]
    if not all(kind == "relu" or kind.startswith("leaky:") for kind in kinds):
        raise UnsupportedError(
            f"The thresholds go by '{domain.names[column]}', which is not sensitive here. That is"
            " supported behind ReLU and LeakyReLU only. Nothing is claimed."
        )
    # One more neuron in each layer hands on what is added. It is never negative, so that it stays
    # as it is.
    part = next(part for part in chain.parts if part.column == column)
    least = moved.min()
    row = np.zeros((len(chain.first), 1, chain.first.shape[2]))
    row[:, 0, part.first : part.first + part.width] = (moved - least)[: len(chain.first)]
    *hidden, last = chain.layers
    one = np.ones((1, 1))
    return replace(
        chain,
        first=np.concatenate([chain.first, row], axis=1),
        start=np.pad(chain.start, ((0, 0), (0, 1))),
        layers=(
            *(
                Layer(block_diag(each.weight, one), np.append(each.bias, 0.0), each.activation)
                for each in hidden
            ),
            Layer(np.hstack([last.weight, one]), last.bias + least),
        ),
    )


def _compare(chain: Chain, model: TorchModel, domain: Domain) -> None:
    """Reject a chain whose answers differ from the model's."""
    rng = np.random.default_rng(0)
    cases = np.stack(
        [
            np.floor(rng.random(CHECKED) * part.size)
            if part.whole
            else rng.random(CHECKED) * part.last
            for part in chain.parts
        ],
        axis=1,
    )
    x = domain.counterparts(chain.rows(cases, domain))  # (N, V, A)
    logits = model.logits(np.ascontiguousarray(x.reshape(-1, len(domain)))).astype(np.float64)
    later, earlier = ([pair[place] for pair in chain.pairs] for place in (0, 1))
    theirs = (logits[:, later] - logits[:, earlier]).reshape(len(x), chain.values, -1)
    ours = chain.differences(chain.cases(domain, chain.rows(cases, domain)))
    if np.abs(ours - theirs).max() > SAME * (1 + np.abs(theirs).max()):
        raise UnsupportedError(
            "The network rebuilt for the certificate answers otherwise than the model (by"
            f" {np.abs(ours - theirs).max():.3g}). Nothing is claimed. Please report this."
        )
