"""What the judge has seen serves the gradients, and every tensor is on the network's device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fairprobe.judgement import judge
from fairprobe.models import TorchModel
from fairprobe.models.encoder import Scale
from fairprobe.schema.domain import Attribute, Domain
from fairprobe.search import ADF, EIDIG, NeuronFair, choose_seeds, search
from fairprobe.search.budget import Budget
from fairprobe.search.gradients import judged_gradients, pair_gradients
from fairprobe.search.methods.base import TwoPhase
from fairprobe.search.neuron_bias import neuron_bias
from tests.helpers import everybody, planted, tiny_domain

from_numpy = torch.from_numpy


def people(values: int) -> Domain:
    others = [Attribute(name=f"a{place}", high=9) for place in range(4)]
    return Domain((*others, Attribute(name="s", high=values - 1)), ("s",))


def network(domain: Domain, bend: type[nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        Scale.between(torch.from_numpy(domain.low), torch.from_numpy(domain.high)),
        nn.Linear(len(domain), 20),
        bend(),
        nn.Linear(20, 6),
        bend(),
        nn.Linear(6, 2),
    )


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("bend", [nn.ReLU, nn.Tanh, nn.Sigmoid])
@pytest.mark.parametrize("layer", [0, 1])
def test_the_gradient_at_judged_rows_is_that_of_autograd(
    values: int, bend: type[nn.Module], layer: int
) -> None:
    domain = people(values)
    module = network(domain, bend)
    fast, oracle = TorchModel(module), TorchModel(module, closed_form=False)
    x = domain.sample(50, rng=np.random.default_rng(0))
    name = list(fast.layers(x))[layer]
    rows = np.flatnonzero(np.arange(50) % 3)

    def objective(a: Tensor) -> Tensor:
        return torch.cos(a) * torch.arange(1, len(a) + 1)[:, None]

    verdict = judge(domain, fast, x)
    assert verdict.seen is not None
    found = judged_gradients(fast, objective, x, verdict.seen, rows, layer=name)
    expected = pair_gradients(oracle, objective, x[rows], verdict.x_other[rows], layer=name)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert judge(domain, oracle, x).seen is None  # a network that goes through autograd


@pytest.mark.parametrize("variant", ["revert", "walk", "paper"])
@pytest.mark.parametrize("values", [2, 3])
def test_a_search_finds_the_same_with_and_without_the_closed_form(
    variant: Any, values: int
) -> None:
    domain = people(values)
    module = network(domain, nn.ReLU)
    x = domain.sample(400, rng=np.random.default_rng(0))
    seeds = choose_seeds(domain, x, 40, rng=np.random.default_rng(1))
    found = []
    for closed_form in (True, False):
        model = TorchModel(module, closed_form=closed_form)
        method = NeuronFair(layer=neuron_bias(domain, model, x).most_biased, variant=variant)
        budget = Budget(seeds=40, local_iterations=60)
        found.append(
            search(domain, model, method, seeds, budget, rng=np.random.default_rng(2)).to_pandas()
        )
    assert len(found[0]) > 40
    columns = [*domain.names, "label", "origin"]
    assert found[0][columns].equals(found[1][columns])


class OtherDevice(TorchFunctionMode):
    """Pretends that the network lies on another device: tensors made of arrays are the host's until
    they are moved, what is computed of both kinds is refused, and only the host's become arrays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.host: dict[int, Tensor] = {}  # kept alive, so that no number is used twice
        self.moved = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        given = [each for each in _tensors([*args, *(kwargs or {}).values()]) if each.ndim]
        of_host = [id(each) in self.host for each in given]
        if name in ("to", "cpu"):
            result = func(*args, **(kwargs or {})).clone()
            self.moved += name == "to"
            if name == "cpu":
                self.host[id(result)] = result
            return result
        assert all(of_host) or not any(of_host), f"{name} got tensors of two devices"
        assert name != "numpy" or all(of_host), "a tensor of the other device became an array"
        result = func(*args, **(kwargs or {}))
        if any(of_host):
            self.host |= {id(each): each for each in _tensors([result])}
        return result

    def from_numpy(self, array: Any) -> Tensor:
        """In place of torch's, which does not ask this class."""
        result = from_numpy(array)
        self.host[id(result)] = result
        return result


def _tensors(values: Any) -> Iterator[Tensor]:
    for each in values:
        if isinstance(each, Tensor):
            yield each
        elif isinstance(each, list | tuple):
            yield from _tensors(each)


@pytest.mark.parametrize("closed_form", [True, False])
@pytest.mark.parametrize("method", ["neuronfair", "walk", "paper", "adf", "eidig"])
def test_a_search_computes_on_the_device_of_the_network_alone(
    closed_form: bool, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = tiny_domain()
    model = TorchModel(planted(domain), closed_form=closed_form)
    x = everybody(domain)
    layer = neuron_bias(domain, model, x).most_biased
    chosen: TwoPhase
    if method == "adf":
        chosen = ADF.create(bias=None, x=x)
    elif method == "eidig":
        chosen = EIDIG.create(bias=None, x=x)
    else:
        chosen = NeuronFair(layer=layer, variant="revert" if method == "neuronfair" else method)  # type: ignore[arg-type]
    budget = Budget(seeds=20, global_iterations=5, local_iterations=8)
    # A tensor that is made without a word about its device would be without numbers.
    device = OtherDevice()
    monkeypatch.setattr(torch, "from_numpy", device.from_numpy)
    with torch.device("meta"), device:
        found = search(domain, model, chosen, x[:20], budget, rng=np.random.default_rng(0))
    assert device.moved > 10
    assert len(found) > 0
