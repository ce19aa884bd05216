"""White boxes: layers and their names, activations, gradients against finite differences, silenced
neurons, encoders.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from fairprobe.arrays import Floats, Rows
from fairprobe.errors import ModelError
from fairprobe.models import Encoder, Scale, TorchModel, one_thread
from fairprobe.models.chain import Chain
from fairprobe.schema.domain import Attribute, Domain
from tests.helpers import linear

WIDTH = 5


def rows(n: int = 20, *, width: int = WIDTH, seed: int = 0) -> Rows:
    return np.random.default_rng(seed).normal(size=(n, width)).astype(np.float32)


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def by_hand(module: nn.Module, x: Rows) -> Tensor:
    """What the module itself answers, in eval mode, without fairprobe."""
    parameter = next(module.parameters())
    with torch.no_grad():
        answer: Tensor = module.eval()(torch.from_numpy(x.copy()).to(parameter.dtype))
    return answer


# -- networks of every style -----------------------------------------------------------------------


class Net(nn.Module):
    """Run `forward` with these parts."""

    def __init__(self, forward: Callable[[Any, Tensor], Any], **parts: nn.Module) -> None:
        super().__init__()
        self._run = forward
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, z: Tensor) -> Any:
        return self._run(self, z)


def functional() -> Any:
    """Activations as functions and as a method of the tensor."""
    return Net(
        lambda net, z: net.out(net.c(torch.tanh(net.b(F.relu(net.a(z))))).relu()),
        **{"a": nn.Linear(WIDTH, 6), "b": nn.Linear(6, 4)},
        **{"c": nn.Linear(4, 3), "out": nn.Linear(3, 2)},
    )


def shared() -> Any:
    """One activation module that serves two layers."""
    return Net(
        lambda net, z: net.out(net.act(net.b(net.act(net.a(z))))),
        **{"a": nn.Linear(WIDTH, 6), "b": nn.Linear(6, 4), "out": nn.Linear(4, 2)},
        act=nn.ReLU(),
    )


def block(before: int, after: int) -> Any:
    return Net(
        lambda net, z: net.drop(F.gelu(net.norm(net.linear(z)))),
        **{"linear": nn.Linear(before, after), "norm": nn.BatchNorm1d(after)},
        drop=nn.Dropout(0.5),
    )


def blocks() -> Any:
    return Net(
        lambda net, z: net.out(net.second(net.first(z))),
        **{"first": block(WIDTH, 6), "second": block(6, 4), "out": nn.Linear(4, 2)},
    )


def convolution() -> Any:
    """Takes a row of 16 columns as a 4 × 4 picture."""
    return Net(
        lambda net, z: net.out(F.relu(net.dense(F.relu(net.conv(z.view(-1, 1, 4, 4))).flatten(1)))),
        **{"conv": nn.Conv2d(1, 3, 3, padding=1), "dense": nn.Linear(48, 5)},
        out=nn.Linear(5, 2),
    )


def plain() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(WIDTH, 6), nn.ReLU(), nn.Linear(6, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2)
    )


def one_relu_for_all() -> nn.Sequential:
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(WIDTH, 6), relu, nn.Linear(6, 4), relu, nn.Linear(4, 2))


STYLES: dict[str, tuple[Callable[[], nn.Module], dict[str, int], int]] = {
    "sequential": (plain, {"1": 6, "3": 4}, WIDTH),
    "sequential with one relu for all": (one_relu_for_all, {"1": 6, "1#2": 4}, WIDTH),
    "functional": (functional, {"relu": 6, "tanh": 4, "relu#2": 3}, WIDTH),
    "shared module": (shared, {"act": 6, "act#2": 4}, WIDTH),
    "blocks with batch norm and dropout": (blocks, {"first.gelu": 6, "second.gelu": 4}, WIDTH),
    "convolution": (convolution, {"relu": 48, "relu#2": 5}, 16),
}
each_style = pytest.mark.parametrize(
    ("make", "layers", "width"), list(STYLES.values()), ids=list(STYLES)
)
both_ways = pytest.mark.parametrize("closed_form", [True, False], ids=["closed form", "autograd"])


@each_style
@both_ways
def test_layers_are_found_in_order_with_names_and_widths(
    make: Callable[[], nn.Module], layers: dict[str, int], width: int, closed_form: bool
) -> None:
    model = TorchModel(seeded(make), closed_form=closed_form)
    found = model.layers(rows(3, width=width))
    assert found == layers
    assert list(found) == list(layers)


@each_style
@both_ways
def test_probabilities_are_the_softmax_of_what_the_module_says_in_eval_mode(
    make: Callable[[], nn.Module], layers: dict[str, int], width: int, closed_form: bool
) -> None:
    module = seeded(make).train()
    x = rows(30, width=width)
    model = TorchModel(module, closed_form=closed_form, batch=7)
    p = model.probabilities(x)
    assert p == pytest.approx(torch.softmax(by_hand(module, x), dim=1).numpy(), abs=1e-6)
    assert (model.probabilities(x) == p).all()  # no dropout, no running statistics
    module.train()
    assert model.probabilities(x) == pytest.approx(p, abs=1e-6)


@each_style
@both_ways
def test_one_layer_and_all_layers_tell_the_same_activations(
    make: Callable[[], nn.Module], layers: dict[str, int], width: int, closed_form: bool
) -> None:
    model = TorchModel(seeded(make), closed_form=closed_form)
    x = rows(9, width=width)
    every = model.activations(x)
    assert list(every) == list(layers)
    for name, values in every.items():
        assert values.shape == (9, layers[name])
        assert torch.allclose(model.activation(x, name), values, atol=1e-6)


def test_activations_are_those_after_the_non_linearity_and_feature_maps_are_flattened() -> None:
    x = rows(9)
    module = seeded(plain)
    found = TorchModel(module).activations(x)
    z = torch.from_numpy(x)
    with torch.no_grad():
        first = torch.relu(module[0](z))
        assert torch.allclose(found["1"], first, atol=1e-6)
        assert torch.allclose(found["3"], torch.tanh(module[2](first)), atol=1e-6)
    picture = seeded(convolution)
    x = rows(3, width=16)
    with torch.no_grad():
        maps = torch.relu(picture.conv(torch.from_numpy(x).view(3, 1, 4, 4)))
    assert torch.allclose(
        TorchModel(picture).activations(x)["relu"], maps.reshape(3, 48), atol=1e-6
    )


MODULES = """ReLU ReLU6 LeakyReLU PReLU RReLU ELU CELU SELU GELU SiLU Mish Softplus Sigmoid
    LogSigmoid Hardsigmoid Tanh Hardtanh Hardswish Softsign Tanhshrink Softshrink
    Hardshrink""".split()  # noqa: SIM905
FUNCTIONS = """F.relu torch.relu Tensor.relu F.relu_ torch.relu_ Tensor.relu_ F.gelu F.silu F.elu
    F.elu_ F.leaky_relu F.leaky_relu_ torch.tanh Tensor.tanh Tensor.tanh_ F.tanh torch.sigmoid
    Tensor.sigmoid Tensor.sigmoid_ F.sigmoid F.hardtanh F.mish F.softplus F.selu F.celu F.relu6
    F.hardswish F.hardsigmoid F.softsign F.logsigmoid""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", MODULES)
def test_every_activation_module_of_torch_is_a_layer(name: str) -> None:
    activation = getattr(nn, name)
    module = nn.Sequential(
        OrderedDict(inner=nn.Linear(WIDTH, 4), bend=activation(), out=nn.Linear(4, 2))
    )
    x = rows()
    found = TorchModel(module).activations(x)
    assert list(found) == ["bend"]
    assert torch.allclose(found["bend"], by_hand(module[:2], x), atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_activation_function_of_torch_is_a_layer(name: str) -> None:
    home, _, function = name.partition(".")
    bend = getattr({"F": F, "torch": torch, "Tensor": Tensor}[home], function)
    x = rows()
    module: Any = Net(
        lambda net, z: net.out(bend(net.inner(z))), inner=nn.Linear(WIDTH, 4), out=nn.Linear(4, 2)
    )
    model = TorchModel(module)
    assert list(model.layers(x).values()) == [4]
    (values,) = model.activations(x).values()
    with torch.no_grad():
        assert torch.allclose(values, bend(module.inner(torch.from_numpy(x))), atol=1e-6)


def test_a_later_change_in_place_does_not_reach_the_activations() -> None:
    def forward(net: Any, z: Tensor) -> Any:
        h = F.gelu(net.inner(z))
        h += 10  # in place, after the layer
        return net.out(h)

    x = rows()
    module: Any = Net(forward, inner=nn.Linear(WIDTH, WIDTH), out=nn.Linear(WIDTH, 2))
    model = TorchModel(module)
    with torch.no_grad():
        expected = F.gelu(module.inner(torch.from_numpy(x)))
    assert torch.allclose(model.activation(x, "gelu"), expected, atol=1e-6)
    assert torch.allclose(model.activations(x)["gelu"], expected, atol=1e-6)


# -- outputs ---------------------------------------------------------------------------------------


class Ending(nn.Module):
    """A hidden layer and `outputs` scores, with something done to them at the end."""

    def __init__(self, outputs: int, end: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.inner, self.out, self.end = nn.Linear(WIDTH, 4), nn.Linear(4, outputs), end

    def scores(self, x: Rows) -> Tensor:
        with torch.no_grad():
            answer: Tensor = self.out(torch.tanh(self.inner(torch.from_numpy(x))))
        return answer

    def forward(self, z: Tensor) -> Tensor:
        return self.end(self.out(torch.tanh(self.inner(z))))


ENDINGS: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
    "logits": (2, lambda s: s),
    "three logits": (3, lambda s: s),
    "softmax": (2, lambda s: torch.softmax(s, dim=1)),
    "softmax module": (3, nn.Softmax(dim=1)),
    "log softmax": (3, lambda s: F.log_softmax(s, dim=1)),
    "log softmax of two": (2, lambda s: F.log_softmax(s, dim=1)),
    "exp of log softmax": (3, lambda s: F.log_softmax(s, dim=1).exp()),
    "softmax, reshaped": (3, lambda s: s.softmax(dim=-1).view(-1, 3)),
    "one logit": (1, lambda s: s),
    "one logit, squeezed": (1, lambda s: s.squeeze(1)),
    "sigmoid": (1, torch.sigmoid),
    "sigmoid module": (1, nn.Sigmoid()),
    "sigmoid, squeezed": (1, lambda s: torch.sigmoid(s).squeeze(1)),
    "sigmoid, flattened": (1, lambda s: torch.sigmoid(s).flatten()),
    "sigmoid, first column": (1, lambda s: torch.sigmoid(s)[:, 0]),
    "squeezed, then sigmoid": (1, lambda s: torch.sigmoid(s.squeeze(1))),
}


@pytest.mark.parametrize(("outputs", "end"), list(ENDINGS.values()), ids=list(ENDINGS))
@both_ways
def test_logits_and_probabilities_are_told_apart_and_the_output_is_no_hidden_layer(
    outputs: int, end: Callable[[Tensor], Tensor], closed_form: bool
) -> None:
    module = seeded(lambda: Ending(outputs, end))
    x = rows(40)
    scores = module.scores(x)
    scores = torch.cat([torch.zeros_like(scores), scores], dim=1) if outputs == 1 else scores
    model = TorchModel(module, closed_form=closed_form)
    assert model.probabilities(x) == pytest.approx(torch.softmax(scores, dim=1).numpy(), abs=1e-5)
    assert list(model.layers(x)) == ["tanh"]


@pytest.mark.parametrize(("outputs", "end"), list(ENDINGS.values()), ids=list(ENDINGS))
@both_ways
def test_logits_do_not_saturate_however_a_network_ends(
    outputs: int, end: Callable[[Tensor], Tensor], closed_form: bool
) -> None:
    module = seeded(lambda: Ending(outputs, end))
    with torch.no_grad():
        module.out.weight *= 1e4
    x = rows(40)
    scores = module.scores(x).numpy()
    scores = np.concatenate([np.zeros_like(scores), scores], axis=1) if outputs == 1 else scores
    logits = TorchModel(module, closed_form=closed_form, batch=16).logits(x)
    assert np.abs(scores[:, 1] - scores[:, 0]).max() > 1_000
    np.testing.assert_allclose(
        logits - logits[:, :1], scores - scores[:, :1], rtol=1e-4, atol=np.abs(scores).max() * 1e-5
    )


BOTH_COLUMNS: dict[str, Callable[[Tensor], Tensor]] = {
    "cat": lambda s: torch.cat([1 - torch.sigmoid(s), torch.sigmoid(s)], dim=1),
    "stack": lambda s: torch.stack([1 - torch.sigmoid(s[:, 0]), torch.sigmoid(s[:, 0])], dim=1),
    "columns of a softmax": lambda s: torch.softmax(torch.cat([-s, s], dim=1) / 2, dim=1)[
        :, [0, 1]
    ],
}


@pytest.mark.parametrize("end", list(BOTH_COLUMNS.values()), ids=list(BOTH_COLUMNS))
def test_two_columns_that_add_up_to_one_are_probabilities_however_they_were_put_together(
    end: Callable[[Tensor], Tensor],
) -> None:
    module = seeded(lambda: Ending(1, end))
    x = rows(40)
    assert TorchModel(module).probabilities(x)[:, 1] == pytest.approx(
        torch.sigmoid(module.scores(x))[:, 0].numpy(), abs=1e-5
    )


def test_logits_declared_to_be_probabilities_are_refused() -> None:
    with pytest.raises(ModelError, match="is not a probability"):
        TorchModel(nn.Linear(WIDTH, 2), outputs="probabilities").probabilities(10 * rows())


# -- gradients -------------------------------------------------------------------------------------


def differences(objective: Callable[[Tensor], Tensor], x: Rows) -> Floats:
    """Central finite differences of a sum over rows, in double precision."""
    z, h = torch.from_numpy(x).double(), 1e-6
    columns = []
    with torch.no_grad():
        for column in range(z.shape[1]):
            step = torch.zeros_like(z)
            step[:, column] = h
            columns.append((objective(z + step) - objective(z - step)) / (2 * h))
    return torch.stack(columns, dim=1).numpy()


def dense_net(seed: int, *, activation: type[nn.Module] = nn.Tanh) -> Any:
    module = seeded(
        lambda: nn.Sequential(
            nn.Linear(WIDTH, 7), activation(), nn.Linear(7, 20), nn.ReLU(), nn.Linear(20, 3)
        ),
        seed,
    )
    return module.double()


@pytest.mark.parametrize("seed", range(3))
@both_ways
def test_the_gradient_of_a_layer_is_that_of_finite_differences(
    seed: int, closed_form: bool
) -> None:
    module = dense_net(seed)
    model = TorchModel(module, closed_form=closed_form)
    x = rows(12, seed=seed)
    weights = torch.from_numpy(np.random.default_rng(seed).normal(size=(12, 20)))
    assert Chain.of(module) is not None

    def objective(z: Tensor) -> Tensor:  # not linear in the activations: Σ w a²
        a: Tensor = module[:4](z)
        return (weights * a**2).sum(dim=1)

    gradient = model.gradient(lambda a: 2 * weights * a, x, layer="3")
    assert gradient.shape == x.shape
    assert gradient == pytest.approx(differences(objective, x), abs=1e-4, rel=1e-4)
    assert np.abs(gradient).max() > 0.1


@pytest.mark.parametrize("make", [functional, blocks, shared], ids=lambda make: str(make.__name__))
def test_the_gradient_of_the_probabilities_is_that_of_finite_differences(
    make: Callable[[], nn.Module],
) -> None:
    module = seeded(make).double()
    model = TorchModel(module)
    x = rows(12)

    def objective(z: Tensor) -> Tensor:
        p: Tensor = torch.softmax(module.eval()(z), dim=1)
        return p[:, 1]

    gradient = model.gradient(lambda p: torch.tensor([0.0, 1.0], dtype=p.dtype).expand_as(p), x)
    assert gradient == pytest.approx(differences(objective, x), abs=1e-5, rel=1e-4)
    assert np.abs(gradient).max() > 1e-3


def test_the_gradient_of_three_classes_and_of_a_sigmoid_are_those_of_finite_differences() -> None:
    x = rows(12)
    three = dense_net(1)
    gradient = TorchModel(three).gradient(lambda p: 2 * p, x)  # Σ p²
    assert gradient == pytest.approx(
        differences(lambda z: (torch.softmax(three(z), dim=1) ** 2).sum(dim=1), x),
        abs=1e-5,
        rel=1e-4,
    )
    one = nn.Sequential(nn.Linear(WIDTH, 4), nn.Tanh(), nn.Linear(4, 1), nn.Sigmoid()).double()
    gradient = TorchModel(one).gradient(
        lambda p: torch.tensor([0.0, 1.0], dtype=p.dtype).expand_as(p), x
    )
    assert gradient == pytest.approx(differences(lambda z: one(z)[:, 0], x), abs=1e-5, rel=1e-4)


@pytest.mark.parametrize(("outputs", "end"), list(ENDINGS.values()), ids=list(ENDINGS))
@both_ways
def test_the_gradient_of_the_logits_is_that_of_finite_differences(
    outputs: int, end: Callable[[Tensor], Tensor], closed_form: bool
) -> None:
    module = seeded(lambda: Ending(outputs, end)).double()
    x = rows(12)

    def objective(z: Tensor) -> Tensor:
        scores: Tensor = module.out(torch.tanh(module.inner(z)))
        return scores[:, 0] if outputs == 1 else scores[:, 1] - scores[:, 0]

    def lead(logits: Tensor) -> Tensor:
        return torch.tensor([-1.0, 1.0, 0.0], dtype=logits.dtype)[: logits.shape[1]].expand_as(
            logits
        )

    gradient = TorchModel(module, closed_form=closed_form).gradient(lead, x, of="logits")
    assert gradient == pytest.approx(differences(objective, x), abs=1e-5, rel=1e-4)


@pytest.mark.parametrize("outputs", [1, 2, 3])
@both_ways
def test_the_gradient_of_a_dense_networks_logits_is_that_of_finite_differences(
    outputs: int, closed_form: bool
) -> None:
    module = nn.Sequential(nn.Linear(WIDTH, 7), nn.Tanh(), nn.Linear(7, outputs)).double()
    x = rows(12)

    def objective(z: Tensor) -> Tensor:
        scores: Tensor = module(z)
        return (scores**2).sum(dim=1)

    model = TorchModel(module, closed_form=closed_form)
    gradient = model.gradient(lambda logits: 2 * logits, x, of="logits")
    assert gradient == pytest.approx(differences(objective, x), abs=1e-5, rel=1e-4)


@pytest.mark.parametrize(
    "end",
    [
        lambda s: torch.softmax(s, dim=1),
        lambda s: torch.sigmoid(s[:, 1] - s[:, 0]),
        lambda s: torch.sigmoid_(s[:, 1:] - s[:, :1]),
        lambda s: F.logsigmoid(s[:, 1] - s[:, 0]).exp(),
        lambda s: s,
    ],
    ids=["softmax", "sigmoid", "sigmoid in place", "exp of log sigmoid", "logits"],
)
def test_logits_do_not_saturate_where_probabilities_do(end: Callable[[Tensor], Tensor]) -> None:
    module = seeded(lambda: Ending(2, end))
    module.out.bias.data = torch.tensor([0.0, 500.0])  # as sure as can be
    model, x = TorchModel(module), rows(6)
    assert (model.probabilities(x)[:, 1] == 1).all()

    def lead(answers: Tensor) -> Tensor:
        return torch.tensor([-1.0, 1.0]).expand_as(answers)

    assert (model.gradient(lead, x) == 0).all()
    plain = Ending(2, lambda s: s)
    plain.load_state_dict(module.state_dict())
    expected = TorchModel(plain).gradient(lead, x, of="logits")
    assert np.abs(expected).min() > 0
    assert model.gradient(lead, x, of="logits") == pytest.approx(expected, rel=1e-4)


def test_one_column_of_a_softmax_has_the_logarithm_of_its_odds_as_logits() -> None:
    module = seeded(lambda: Ending(2, lambda s: torch.softmax(s, dim=1)[:, 1])).double()
    x = rows(6)
    gradient = TorchModel(module).gradient(
        lambda a: torch.tensor([-1.0, 1.0], dtype=a.dtype).expand_as(a), x, of="logits"
    )

    def objective(z: Tensor) -> Tensor:
        p: Tensor = module(z)
        return torch.log(p / (1 - p))

    assert gradient == pytest.approx(differences(objective, x), abs=1e-5, rel=1e-4)


def test_a_layer_that_does_not_depend_on_the_input_has_gradient_zero() -> None:
    constant = nn.Parameter(torch.ones(1, 3), requires_grad=False)
    stubborn = Net(
        lambda net, z: net.out(torch.relu(constant.expand(len(z), 3))), out=nn.Linear(3, 2)
    )
    x = rows(4)
    assert (
        TorchModel(stubborn).gradient(torch.ones_like, x, layer="relu") == np.zeros((4, WIDTH))
    ).all()


@both_ways
def test_gradients_work_where_the_caller_has_switched_them_off(closed_form: bool) -> None:
    model = TorchModel(dense_net(2), closed_form=closed_form)
    x = rows(6)
    layer, output = (
        model.gradient(torch.ones_like, x, layer="3"),
        model.gradient(lambda p: 2 * p, x),
    )
    for off in (torch.no_grad(), torch.inference_mode()):
        with off:
            assert model.gradient(torch.ones_like, x, layer="3") == pytest.approx(layer)
            assert model.gradient(lambda p: 2 * p, x) == pytest.approx(output)


# -- the closed form -------------------------------------------------------------------------------


@st.composite
def chains(draw: st.DrawFn) -> nn.Sequential:
    """Random dense networks of the pieces that the closed form knows, nested and flat, narrow and
    wide.
    """
    pieces: list[nn.Module] = []
    width = WIDTH
    seed = draw(st.integers(0, 10**6))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if draw(st.booleans()):
            pieces.append(Scale(torch.randn(WIDTH), torch.rand(WIDTH) + 0.5))
        for _ in range(draw(st.integers(1, 4))):
            after = draw(st.sampled_from([1, 3, 15, 16, 17, 33]))
            part: list[nn.Module] = [nn.Linear(width, after, bias=draw(st.booleans()))]
            part += [
                kind()
                for kind in draw(
                    st.lists(
                        st.sampled_from([nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Dropout, nn.Identity]),
                        max_size=3,
                    )
                )
            ]
            pieces += [nn.Sequential(*part)] if draw(st.booleans()) else part
            width = after
        pieces.append(nn.Linear(width, draw(st.sampled_from([1, 2, 3]))))
        pieces += draw(st.sampled_from([[], [nn.Sigmoid()]]))
    return nn.Sequential(*pieces).double()


@given(chains())
def test_the_closed_form_tells_what_autograd_tells(module: nn.Sequential) -> None:
    x = rows(8)
    quick, slow = TorchModel(module), TorchModel(module, closed_form=False)
    assert Chain.of(module) is not None
    assert quick.layers(x) == slow.layers(x)
    assert quick.probabilities(x) == pytest.approx(slow.probabilities(x), abs=1e-6)
    expected = slow.activations(x)
    for name, values in quick.activations(x).items():
        assert torch.allclose(values, expected[name], atol=1e-9)
        weights = torch.linspace(-1, 2, values.numel(), dtype=torch.float64).view_as(values)
        one, other = (
            model.gradient(lambda a, w=weights: w * a, x, layer=name)  # type: ignore[misc]
            for model in (quick, slow)
        )
        assert one == pytest.approx(other, abs=1e-6, rel=1e-5)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(WIDTH, 4), nn.GELU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(WIDTH, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)),
        nn.Sequential(nn.Linear(WIDTH, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(dim=1)),
        functional(),
    ],
    ids=["gelu", "batch norm", "softmax", "functional"],
)
def test_a_network_with_unknown_pieces_is_no_chain(module: nn.Module) -> None:
    assert Chain.of(module) is None


def test_a_subclass_of_a_known_piece_keeps_its_own_behaviour() -> None:
    class Doubling(nn.Linear):
        def forward(self, z: Tensor) -> Tensor:
            return 2 * super().forward(z)

    class Backwards(nn.Sequential):
        def forward(self, z: Tensor) -> Tensor:
            answer: Tensor = self[2](self[1](self[0](z.flip(1))))
            return answer

    x = rows()
    for module in (
        nn.Sequential(Doubling(WIDTH, 4), nn.ReLU(), nn.Linear(4, 2)),
        Backwards(nn.Linear(WIDTH, 4), nn.ReLU(), nn.Linear(4, 2)),
    ):
        assert TorchModel(module).probabilities(x) == pytest.approx(
            torch.softmax(by_hand(module, x), dim=1).numpy(), abs=1e-6
        )


# -- the user's module and rows --------------------------------------------------------------------


def halve(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
    return output / 2


@pytest.mark.parametrize("when", ["before wrapping", "after wrapping", "after use"])
def test_a_forward_hook_of_the_user_is_never_bypassed(when: str) -> None:
    module = seeded(plain)
    x = rows()
    plainly = TorchModel(module).probabilities(x)
    if when == "before wrapping":
        handle = module[1].register_forward_hook(halve)
    model = TorchModel(module)
    if when == "after use":
        model.probabilities(x)
    if when != "before wrapping":
        handle = module[1].register_forward_hook(halve)
    hooked = torch.softmax(by_hand(module, x), dim=1).numpy()
    assert np.abs(hooked - plainly).max() > 1e-3
    assert model.probabilities(x) == pytest.approx(hooked, abs=1e-6)
    handle.remove()
    assert model.probabilities(x) == pytest.approx(plainly, abs=1e-6)


@both_ways
def test_further_training_of_the_module_is_seen(closed_form: bool) -> None:
    module = seeded(plain)
    x = rows()
    model = TorchModel(module, closed_form=closed_form)
    before = model.probabilities(x)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    module.train()
    torch.autograd.backward(
        F.cross_entropy(module(torch.from_numpy(x)), torch.ones(len(x), dtype=torch.int64))
    )
    optimizer.step()
    after = model.probabilities(x)
    assert after == pytest.approx(torch.softmax(by_hand(module, x), dim=1).numpy(), abs=1e-6)
    assert np.abs(after - before).max() > 1e-3


def test_looking_leaves_no_hooks_and_no_changed_weights_behind() -> None:
    for make in (plain, functional, blocks):
        module = seeded(make)
        before = copy.deepcopy(module.state_dict())
        model = TorchModel(module, closed_form=False)
        x = rows()
        first = next(iter(model.layers(x)))
        model.activation(x, first)
        model.gradient(torch.ones_like, x, layer=first)
        model.with_zeroed(first, [0], x).probabilities(x)
        assert all((before[name] == value).all() for name, value in module.state_dict().items())
        assert not any(
            child._forward_hooks or child._forward_pre_hooks for child in module.modules()
        )


def rescaling() -> Any:
    """Changes its input in place, as careless networks do."""

    def forward(net: Any, z: Tensor) -> Any:
        z /= 10
        return net.out(torch.tanh(net.inner(z)))

    return Net(forward, inner=nn.Linear(WIDTH, 4), out=nn.Linear(4, 2))


@pytest.mark.parametrize(
    "make",
    [rescaling, lambda: nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, 2))],
    ids=["in place", "relu first"],
)
def test_no_network_changes_the_rows_of_the_caller(make: Callable[[], nn.Module]) -> None:
    model = TorchModel(seeded(make))
    x = rows()
    before = x.copy()
    first = model.probabilities(x)
    assert (x == before).all()
    assert (model.probabilities(x) == first).all()
    model.activations(x)
    assert (x == before).all()


def test_the_gradient_of_a_network_that_changes_its_input_is_that_of_finite_differences() -> None:
    module = seeded(rescaling).double()
    x = rows(6)
    model = TorchModel(module)
    gradient = model.gradient(torch.ones_like, x, layer="tanh")
    assert gradient == pytest.approx(
        differences(lambda z: torch.tanh(module.inner(z / 10)).sum(dim=1), x), abs=1e-5
    )
    of_output = model.gradient(lambda p: 2 * p, x)
    assert of_output == pytest.approx(
        differences(lambda z: (torch.softmax(module(z.clone()), dim=1) ** 2).sum(dim=1), x),
        abs=1e-5,
    )


def test_rows_of_any_number_type_and_memory_order_are_taken() -> None:
    model = TorchModel(seeded(plain))
    x = np.rint(10 * rows())
    p = model.probabilities(x)
    assert (model.probabilities(np.asfortranarray(x)) == p).all()
    assert (model.probabilities(x.astype(np.int64).astype(np.float32)) == p).all()
    assert model.probabilities(x[::2]) == pytest.approx(p[::2], abs=1e-6)
    read_only = x.copy()
    read_only.flags.writeable = False
    assert (model.probabilities(read_only) == p).all()


def test_no_rows_give_no_answers() -> None:
    model = TorchModel(seeded(plain))
    assert model.probabilities(rows(0)).shape == (0, 2)
    assert model.labels(rows(0)).shape == (0,)
    assert list(model.layers(rows(3))) == ["1", "3"]
    assert model.activation(rows(0), "1").shape == (0, 6)
    assert {name: tuple(values.shape) for name, values in model.activations(rows(0)).items()} == {
        "1": (0, 6),
        "3": (0, 4),
    }


# -- silenced neurons ------------------------------------------------------------------------------


def test_silencing_neurons_is_the_same_as_cutting_their_wires() -> None:
    module = seeded(plain)
    x = rows()
    model = TorchModel(module)
    cut = copy.deepcopy(module)
    with torch.no_grad():
        following = cut[2]
        following.weight[:, [0, 3, 5]] = 0
    silenced = model.with_zeroed("1", [0, 3, 5], x)
    assert silenced.probabilities(x) == pytest.approx(TorchModel(cut).probabilities(x), abs=1e-6)
    assert np.abs(silenced.probabilities(x) - model.probabilities(x)).max() > 1e-3
    assert (silenced.activations(x)["1"][:, [0, 3, 5]] == 0).all()
    assert (silenced.activation(x, "1")[:, [0, 3, 5]] == 0).all()
    assert torch.allclose(
        silenced.activations(x)["1"][:, [1, 2, 4]],
        model.activations(x)["1"][:, [1, 2, 4]],
        atol=1e-6,
    )
    # The gradient does not pass through what is silent, and the original stays what it was.
    flows = silenced.gradient(torch.ones_like, x, layer="3")
    assert flows == pytest.approx(TorchModel(cut).gradient(torch.ones_like, x, layer="3"), abs=1e-6)
    assert silenced.gradient(lambda p: 2 * p, x) == pytest.approx(
        TorchModel(cut).gradient(lambda p: 2 * p, x), abs=1e-6
    )
    assert model.probabilities(x) == pytest.approx(
        torch.softmax(by_hand(module, x), dim=1).numpy(), abs=1e-6
    )


def test_silencing_adds_up_over_layers_and_over_neurons_of_one_layer() -> None:
    module = seeded(plain)
    x = rows()
    cut = copy.deepcopy(module)
    with torch.no_grad():
        for place, column in ((2, 1), (5, 2)):
            piece = cut[place]
            assert isinstance(piece, nn.Linear)
            piece.weight[:, column] = 0
    twice = TorchModel(module).with_zeroed("1", [1], x).with_zeroed("3", np.array([2]), x)
    assert twice.probabilities(x) == pytest.approx(TorchModel(cut).probabilities(x), abs=1e-6)
    one_by_one = TorchModel(module).with_zeroed("1", [1], x).with_zeroed("1", [2], x)
    assert one_by_one.probabilities(x) == pytest.approx(
        TorchModel(module).with_zeroed("1", [1, 2], x).probabilities(x), abs=1e-6
    )


def test_a_silenced_activation_in_place_is_silent_for_the_rest_of_the_network() -> None:
    def forward(net: Any, z: Tensor) -> Any:
        h = net.inner(z)
        h.relu_()
        return net.out(h)

    x = rows()
    module = seeded(lambda: Net(forward, inner=nn.Linear(WIDTH, 4), out=nn.Linear(4, 2)))
    silenced = TorchModel(module).with_zeroed("relu_", [0, 1, 2, 3], x)
    with torch.no_grad():
        constant = torch.softmax(module.out.bias, dim=0).numpy()
    assert silenced.probabilities(x) == pytest.approx(np.tile(constant, (len(x), 1)), abs=1e-6)


def test_a_silenced_network_with_activations_in_place_has_the_gradient_of_its_cut_wires() -> None:
    module = seeded(
        lambda: nn.Sequential(
            nn.Linear(WIDTH, 6),
            nn.ReLU(inplace=True),
            nn.Linear(6, 4),
            nn.ReLU(inplace=True),
            nn.Linear(4, 2),
        )
    )
    x = rows()
    cut = copy.deepcopy(module)
    with torch.no_grad():
        following = cut[2]
        following.weight[:, [0, 3]] = 0
    silenced, expected = TorchModel(module).with_zeroed("1", [0, 3], x), TorchModel(cut)
    assert silenced.probabilities(x) == pytest.approx(expected.probabilities(x), abs=1e-6)
    assert silenced.gradient(torch.ones_like, x, layer="3") == pytest.approx(
        expected.gradient(torch.ones_like, x, layer="3"), abs=1e-6
    )
    assert silenced.gradient(lambda p: 2 * p, x) == pytest.approx(
        expected.gradient(lambda p: 2 * p, x), abs=1e-6
    )


def test_an_unknown_layer_or_neuron_is_refused_with_the_known_ones() -> None:
    model = TorchModel(seeded(functional))
    x = rows()
    for ask in (
        lambda: model.activation(x, "rely"),
        lambda: model.gradient(torch.ones_like, x, layer="rely"),
        lambda: model.with_zeroed("rely", [0], x),
    ):
        with pytest.raises(
            ModelError,
            match=r"no hidden layer 'rely'\. Did you mean 'relu'\? Known: relu, tanh, relu#2",
        ):
            ask()
    with pytest.raises(ModelError, match="6"):
        model.with_zeroed("relu", [6], x)


# -- wrong networks --------------------------------------------------------------------------------


@both_ways
def test_rows_of_the_wrong_width_are_refused_at_the_first_and_at_any_later_use(
    closed_form: bool,
) -> None:
    model = TorchModel(seeded(plain), closed_form=closed_form)
    with pytest.raises(ModelError, match="cannot take a row of 4 columns"):
        model.probabilities(rows(width=4))
    assert model.probabilities(rows()).shape == (20, 2)
    for ask in (model.probabilities, model.activations, lambda x: model.activation(x, "3")):
        with pytest.raises(ModelError, match="4 columns"):
            ask(rows(width=4))


def test_a_module_that_returns_more_than_scores_is_refused() -> None:
    pair = Net(lambda net, z: (torch.relu(net.a(z)), z), a=nn.Linear(WIDTH, 2))
    with pytest.raises(ModelError, match="it returned tuple"):
        TorchModel(pair).probabilities(rows())


def test_a_network_whose_weights_are_not_finite_is_refused() -> None:
    broken = nn.Sequential(linear(torch.full((2, WIDTH), float("nan")), torch.zeros(2)))
    with pytest.raises(ModelError, match="row 0 is not finite"):
        TorchModel(broken).probabilities(rows())


def test_a_forward_pass_that_depends_on_the_rows_is_explained() -> None:
    def forward(net: Any, z: Tensor) -> Any:
        answer = net.inner(z)
        return net.inner(torch.relu(z)) if bool((z > 0).all()) else answer

    model = TorchModel(Net(forward, inner=nn.Linear(WIDTH, 2)))
    assert model.layers(np.abs(rows())) == {"relu": WIDTH}
    with pytest.raises(ModelError, match="must not depend on the rows"):
        model.activation(-np.abs(rows()), "relu")


# -- encoders and scales ---------------------------------------------------------------------------


def coloured() -> Domain:
    return Domain(
        (
            Attribute(name="age", low=1, high=9),
            Attribute(
                name="colour", kind="categorical", categories=("red", "green", "blue"), one_hot=True
            ),
            Attribute(name="sex", kind="categorical", categories=("f", "m")),
            Attribute(
                name="town",
                kind="categorical",
                categories=("a", "b", "c", "d"),
                low=1,
                high=2,
                one_hot=True,
            ),
        ),
        ("sex",),
    )


def test_a_one_hot_attribute_becomes_one_column_a_category() -> None:
    encoder = Encoder(coloured())
    assert encoder.width == 9
    assert encoder.spans == [(0, 1), (1, 3), (4, 1), (5, 4)]
    assert not encoder.is_identity
    encoded = encoder(torch.tensor([[7.0, 2.0, 1.0, 1.0], [1.0, 0.0, 0.0, 2.0]]))
    assert encoded.tolist() == [[7, 0, 0, 1, 1, 0, 1, 0, 0], [1, 1, 0, 0, 0, 0, 0, 1, 0]]


def test_a_code_that_names_no_category_leaves_its_group_empty() -> None:
    encoded = Encoder(coloured())(
        torch.tensor([[7.0, 100.0, 1.0, 1.0], [7.0, -1.0, 1.0, 3.0], [7.0, 3.0, 0.0, 1.0]])
    )
    assert encoded.tolist() == [
        [7, 0, 0, 0, 1, 0, 1, 0, 0],
        [7, 0, 0, 0, 1, 0, 0, 0, 1],
        [7, 0, 0, 0, 0, 0, 1, 0, 0],
    ]


def test_without_one_hot_attributes_the_encoder_does_nothing() -> None:
    encoder = Encoder(
        Domain((Attribute(name="a", high=3), Attribute(name="b", kind="real", high=1)))
    )
    z = torch.tensor([[1.0, 0.5]])
    assert encoder.is_identity
    assert encoder.width == 2
    assert encoder(z) is z


def test_a_network_behind_an_encoder_sees_encoded_rows_and_its_gradient_has_their_width() -> None:
    domain = coloured()
    encoder = Encoder(domain)
    module = seeded(lambda: nn.Sequential(nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 2)))
    x = domain.sample(30, rng=np.random.default_rng(0))
    model = TorchModel(module, encoder=encoder)
    with torch.no_grad():
        assert model.probabilities(x) == pytest.approx(
            torch.softmax(module(encoder(torch.from_numpy(x))), dim=1).numpy(), abs=1e-6
        )
    for closed_form in (True, False):
        gradient = TorchModel(module, encoder=encoder, closed_form=closed_form).gradient(
            torch.ones_like, x, layer="1"
        )
        alive = (model.activation(x, "1") > 0).float()
        first = module[0]
        assert gradient == pytest.approx((alive @ first.weight).detach().numpy(), abs=1e-6)


@pytest.mark.parametrize("width", [3, 5])
def test_rows_that_do_not_have_the_attributes_of_the_encoder_are_refused(width: int) -> None:
    model = TorchModel(
        nn.Sequential(nn.Linear(9, 6), nn.ReLU(), nn.Linear(6, 2)), encoder=Encoder(coloured())
    )
    with pytest.raises(ModelError, match="columns"):
        model.probabilities(np.ones((3, width), dtype=np.float32))


def test_a_scale_brings_the_bounds_to_minus_one_and_one_and_a_constant_to_zero() -> None:
    scale = Scale.between(torch.tensor([1.0, -2.0, 5.0]), torch.tensor([9.0, 2.0, 5.0]))
    assert scale(torch.tensor([[1.0, -2.0, 5.0], [9.0, 2.0, 5.0], [5.0, 1.0, 7.0]])).tolist() == [
        [-1, -1, 0],
        [1, 1, 0],
        [0, 0.5, 0],
    ]


# -- threads ---------------------------------------------------------------------------------------


def test_one_thread_inside_and_the_former_number_afterwards_whatever_happens() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with one_thread():
            assert torch.get_num_threads() == 1
            with one_thread():
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with pytest.raises(RuntimeError, match="on purpose"), one_thread():
            raise RuntimeError("on purpose")
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
