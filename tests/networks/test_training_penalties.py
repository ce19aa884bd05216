"""The training loop with penalties: what it learns, what it leaves alone, and which networks it
takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from fairprobe.arrays import Floats, Ints
from fairprobe.datasets import Dataset
from fairprobe.errors import ModelError
from fairprobe.networks import Batch, Examples, Penalty, Training, dense, is_constant, train
from fairprobe.repairs import Adversarial
from fairprobe.repairs.adversarial import Adversary
from fairprobe.repairs.counterfactual import CounterfactualPenalty
from fairprobe.repairs.iifr import NeighbourPenalty
from tests.helpers import merit, tiny_domain

SHORT = Training(learning_rate=0.02, batch=32, epochs=3, patience=None)


def tiny_data(n: int = 200, *, classes: int = 2) -> Dataset:
    """The class grows with the merit."""
    domain = tiny_domain()
    x = domain.sample(n, rng=np.random.default_rng(0))
    share = merit(domain, x) / (merit(domain, domain.high[None])[0] + 1)
    return Dataset(
        "tiny",
        domain,
        x,
        (share * classes).astype(np.int64),
        tuple("abc"[:classes]),
        protected=("gender", "race"),
    )


def weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


class Watching(Penalty):
    """Costs nothing, and remembers every batch: those of the training and those of the
    validation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.learnt: list[Batch] = []
        self.validated: list[Batch] = []
        self.begun: tuple[Batch, Tensor] | None = None

    def begin(self, data: Dataset, first: Batch, z: Tensor) -> None:
        self.begun = first, z

    def forward(self, batch: Batch) -> Tensor:
        (self.learnt if torch.is_grad_enabled() else self.validated).append(batch)
        return batch.logits.new_zeros(())


class Failing(Penalty):
    def forward(self, batch: Batch) -> Tensor:
        raise ZeroDivisionError("a bug in a penalty")


class Foreign(nn.Module):
    """Somebody's own network: a convolution along the columns, batch normalisation, dropout."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(1, 3, 2)
        self.norm = nn.BatchNorm1d(3)
        self.dropout = nn.Dropout(0.2)
        self.output = nn.Linear(9, outputs)

    def forward(self, z: Tensor) -> Tensor:
        answer: Tensor = self.output(
            self.dropout(torch.relu(self.norm(self.convolution(z[:, None])))).flatten(1)
        )
        return answer


def made(build: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A network with the same weights each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


# -- a penalty's own weights -----------------------------------------------------------------------


class Pulling(Penalty):
    """Its own number p costs p: each step of Adam takes it down by the learning rate."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self.speed = speed
        self.own = nn.Parameter(torch.tensor(5.0))

    def forward(self, batch: Batch) -> Tensor:
        return self.own


@pytest.mark.parametrize("speed", [1.0, 2.5])
def test_a_penaltys_own_weights_learn_beside_the_network_and_as_fast_as_it_says(
    speed: float,
) -> None:
    data = tiny_data()
    network = dense(data.domain, (4,))
    pulling = Pulling(speed)
    steps = 3 * 5  # epochs, and batches of 32 in 140 rows
    train(network, data, training=SHORT, penalties=(pulling,))
    assert pulling.own.item() == pytest.approx(5 - steps * 0.02 * speed, abs=1e-4)
    assert weights(network).keys() == weights(dense(data.domain, (4,))).keys()


def test_a_penalty_that_costs_the_same_whatever_the_network_does_changes_nothing() -> None:
    data = tiny_data()
    plain = train(dense(data.domain, (4,)), data, training=SHORT)
    watched = train(
        dense(data.domain, (4,)), data, training=SHORT, penalties=(Watching(), Pulling(1.0))
    )
    assert same(weights(plain.module), weights(watched.module))


# -- the loop against a bare one -------------------------------------------------------------------


@pytest.mark.parametrize("balance", [None, np.array([0.5, 3.0])])
def test_without_patience_the_last_weights_are_those_of_a_bare_torch_loop(
    balance: Floats | None,
) -> None:
    data = tiny_data()
    mine = train(dense(data.domain, (6,)), data, seed=3, training=SHORT, class_weights=balance)
    network, rows = dense(data.domain, (6,)), data.split(3).train
    x, y = torch.from_numpy(data.x[rows]), torch.from_numpy(data.y[rows])
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    loss = nn.CrossEntropyLoss(
        weight=None if balance is None else torch.tensor(balance, dtype=torch.float32)
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for _ in range(3):
            for some in torch.split(torch.randperm(len(y)), 32):
                optimizer.zero_grad()
                loss(network(x[some]), y[some]).backward()
                optimizer.step()
    for name, value in network.state_dict().items():
        torch.testing.assert_close(mine.module.state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_class_weights_make_a_rare_class_heard() -> None:
    data = tiny_data(400)
    rare = replace(data, y=(merit(data.domain, data.x) >= 13).astype(np.int64))
    few, many = (
        train(dense(data.domain, (4,)), rare, training=SHORT, class_weights=balance)
        .labels(rare.x)
        .mean()
        for balance in (np.array([1.0, 1.0]), np.array([1.0, 50.0]))
    )
    assert many > few + 0.1


def changed(data: Dataset, rows: Ints) -> Dataset:
    """The same data with other people in these rows, and the other label."""
    x, y = data.x.copy(), data.y.copy()
    x[rows] = data.domain.sample(len(rows), rng=np.random.default_rng(9))
    y[rows] = 1 - y[rows]
    return replace(data, x=x, y=y)


@pytest.mark.parametrize(("whole", "part", "matters"), [
    (False, "test", False), (True, "test", False), (False, "validation", False), (True,
    "validation", True), (False, "train", True),
])  # fmt: skip
def test_whole_learns_from_the_validation_people_too_and_never_from_the_test_people(
    whole: bool, part: str, matters: bool
) -> None:
    data = tiny_data()
    other = changed(data, getattr(data.split(0), part))
    one, two = (
        train(dense(data.domain, (4,)), each, training=replace(SHORT, whole=whole))
        for each in (data, other)
    )
    assert same(weights(one.module), weights(two.module)) is not matters


def test_an_eighth_of_the_added_examples_is_kept_for_validation_and_not_learnt() -> None:
    data, watching = tiny_data(), Watching()
    more = Examples(
        np.full((83, 4), 1, dtype=np.float32) * np.arange(100, 183, dtype=np.float32)[:, None],
        np.ones(83, dtype=np.int64),
    )
    train(
        dense(data.domain, (4,)),
        data,
        training=replace(SHORT, epochs=1),
        penalties=(watching,),
        more=more,
    )
    learnt, validated = (
        torch.cat([batch.x for batch in part]).numpy()
        for part in (watching.learnt, watching.validated)
    )
    assert (len(learnt), len(validated)) == (140 + 73, 20 + 10)
    added, kept = set(learnt[:, 0]) - set(range(10)), set(validated[:, 0]) - set(range(10))
    assert (len(added), len(kept)) == (73, 10)
    assert added.isdisjoint(kept)


def test_no_added_examples_at_all_are_as_good_as_none() -> None:
    data = tiny_data()
    nothing = Examples(np.empty((0, 4), dtype=np.float32), np.empty(0, dtype=np.int64))
    one, two = (
        train(dense(data.domain, (4,)), data, training=SHORT, more=more) for more in (None, nothing)
    )
    assert same(weights(one.module), weights(two.module))


def test_whole_learns_from_all_added_examples() -> None:
    data, watching = tiny_data(), Watching()
    more = Examples(data.x[:80], data.y[:80])
    train(
        dense(data.domain, (4,)),
        data,
        training=replace(SHORT, epochs=1, whole=True),
        penalties=(watching,),
        more=more,
    )
    assert sum(len(batch.x) for batch in watching.learnt) == 160 + 80


def test_the_validation_loss_is_worked_out_in_batches_as_large_as_those_of_the_training() -> None:
    data, watching = tiny_data(), Watching()
    train(
        dense(data.domain, (4,)),
        data,
        training=replace(SHORT, batch=12, epochs=1),
        penalties=(watching,),
    )
    assert [len(batch.x) for batch in watching.validated] == [12, 8]
    assert all(len(batch.x) == 12 for batch in watching.learnt[:-1])


class Growing(Penalty):
    """From the second epoch on, validation says that everything gets worse."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs = 0

    def forward(self, batch: Batch) -> Tensor:
        self.epochs += not torch.is_grad_enabled()
        return batch.logits.new_tensor(100.0 * self.epochs)


def test_penalties_count_when_the_best_epoch_is_chosen() -> None:
    data = tiny_data()
    patient = replace(SHORT, patience=2, epochs=20)
    epochs: list[int] = []
    stopped = train(
        dense(data.domain, (4,)),
        data,
        training=patient,
        penalties=(Growing(),),
        progress=lambda done, _: epochs.append(done),
    )
    first = train(dense(data.domain, (4,)), data, training=replace(SHORT, epochs=1))
    assert epochs == [1, 2, 3]
    assert same(weights(stopped.module), weights(first.module))


# -- what is left alone ----------------------------------------------------------------------------


def hooks(network: nn.Module) -> int:
    return sum(
        len(part._forward_pre_hooks) + len(part._forward_hooks) for part in network.modules()
    )


def test_hooks_are_gone_after_the_training_and_after_a_failed_one() -> None:
    data = tiny_data()
    network = dense(data.domain, (4,))
    train(network, data, training=SHORT, penalties=(Watching(),))
    assert hooks(network) == 0
    with pytest.raises(ZeroDivisionError):
        train(network, data, training=SHORT, penalties=(Failing(),))
    assert hooks(network) == 0
    with pytest.raises(ModelError, match="diverged"):
        train(network, data, training=replace(SHORT, learning_rate=1e30), penalties=(Watching(),))
    assert hooks(network) == 0


def penalties(kind: str, data: Dataset) -> tuple[Penalty, ...]:
    if kind == "counterfactual":
        return (CounterfactualPenalty(data.domain, 5.0, possible=1.0, seed=4),)
    if kind == "iifr":
        return (NeighbourPenalty(0.1, 0.5),)
    joined = (NeighbourPenalty(0.1, 0.5),) if kind.endswith("+iifr") else ()
    how: dict[str, Any] = {
        "kind": kind.partition("+")[0],
        "strength": 1.0,
        "balanced": kind.startswith("cfair"),
    }
    return (Adversary(data.domain, Adversarial(**how)), *joined)


@pytest.mark.parametrize("kind", ["counterfactual", "iifr", "alfr", "laftr", "cfair", "cfair+iifr"])
def test_the_same_seed_gives_the_same_weights_with_each_penalty(
    kind: str,
) -> None:
    data = tiny_data()

    def trained(seed: int) -> dict[str, Tensor]:
        network = nn.Sequential(dense(data.domain, (6,)), nn.Dropout(0.1))
        return weights(
            train(network, data, seed=seed, training=SHORT, penalties=penalties(kind, data)).module
        )

    torch.manual_seed(8)
    expected = torch.rand(4)
    state = str(np.random.get_state())  # noqa: NPY002  (the global generator is what must stay as it is)
    torch.manual_seed(8)
    one = trained(0)
    assert torch.equal(torch.rand(4), expected)
    assert str(np.random.get_state()) == state  # noqa: NPY002
    assert same(trained(0), one)
    assert not same(trained(1), one)
    plain = train(nn.Sequential(dense(data.domain, (6,)), nn.Dropout(0.1)), data, training=SHORT)
    assert not same(weights(plain.module), one)


# -- what a penalty is shown -----------------------------------------------------------------------


def test_a_penalty_sees_codes_encoded_rows_answers_and_the_last_hidden_layer() -> None:
    data, watching = tiny_data(), Watching()
    network = dense(data.domain, (6, 3))
    train(network, data, training=replace(SHORT, epochs=1), penalties=(watching,))
    batch = watching.validated[
        -1
    ]  # after the last step, so that the network is the one that is left
    assert np.array_equal(batch.x.numpy(), data.x[data.split(0).validation])
    with torch.no_grad():
        assert torch.equal(batch.hidden, nn.Sequential(*list(network)[:-1])(batch.z))
        assert torch.equal(batch.logits, network(batch.z))
        assert torch.equal(batch.logits_of(batch.x), batch.logits)
    assert watching.begun is not None
    first, z = watching.begun
    assert len(first.x) == 2
    assert np.array_equal(z.numpy(), data.x[data.split(0).train])
    assert all(batch.hidden.requires_grad for batch in watching.learnt)


class Ending(nn.Module):
    """A network that ends as it is told to."""

    def __init__(self, outputs: int, end: nn.Module) -> None:
        super().__init__()
        self.hidden, self.output, self.end = nn.Linear(4, 6), nn.Linear(6, outputs), end

    def forward(self, z: Tensor) -> Tensor:
        answer: Tensor = self.end(self.output(torch.relu(self.hidden(z / 5))))
        return answer


@pytest.mark.parametrize(
    ("outputs", "end", "means"),
    [
        (2, nn.Softmax(dim=1), "probabilities"),
        (1, nn.Sigmoid(), "probabilities"),
        (1, nn.Identity(), "logits"),
    ],
    ids=["softmax", "sigmoid", "one logit"],
)
def test_whatever_a_network_answers_with_a_penalty_sees_logits_of_its_probabilities(
    outputs: int, end: nn.Module, means: Any
) -> None:
    data, watching = tiny_data(), Watching()
    network = made(lambda: Ending(outputs, end))
    how = replace(SHORT, epochs=10)
    model = train(
        network,
        data,
        training=how,
        penalties=(watching, NeighbourPenalty(0.01, 0.5)),
        outputs=means,
    )
    batch = watching.validated[-1]
    np.testing.assert_allclose(
        F.softmax(batch.logits, dim=1).numpy(), model.probabilities(batch.x.numpy()), atol=1e-5
    )
    assert (model.labels(data.x) == data.y).mean() > 0.8


def test_an_own_network_with_batch_norm_and_dropout_is_trained_and_left_in_eval_mode() -> None:
    data = tiny_data()
    network = made(Foreign)
    watching = Watching()
    model = train(
        network,
        data,
        training=replace(SHORT, epochs=10),
        penalties=(CounterfactualPenalty(data.domain, 1.0), watching),
    )
    assert not any(part.training for part in network.modules())
    assert watching.learnt[0].hidden.shape == (32, 9)
    assert (model.labels(data.x) == data.y).mean() > 0.8


class Heads(nn.Module):
    """Two linear layers side by side on one hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.one, self.two = nn.Linear(4, 5), nn.Linear(5, 1), nn.Linear(5, 1)

    def forward(self, z: Tensor) -> Tensor:
        hidden = torch.relu(self.hidden(z))
        return torch.cat([self.one(hidden), self.two(hidden)], dim=1)


def test_of_a_network_with_two_heads_the_layer_before_both_is_the_last_hidden_one() -> None:
    data, watching = tiny_data(), Watching()
    network = made(Heads)
    train(network, data, training=replace(SHORT, epochs=1), penalties=(watching,))
    batch = watching.validated[-1]
    assert isinstance(network.hidden, nn.Linear)
    with torch.no_grad():
        assert torch.equal(batch.hidden, torch.relu(network.hidden(batch.z)))


class Backwards(nn.Module):
    """Its layers are written down in another order than they are asked."""

    def __init__(self) -> None:
        super().__init__()
        self.output, self.hidden = nn.Linear(5, 2), nn.Linear(4, 5)

    def forward(self, z: Tensor) -> Tensor:
        answer: Tensor = self.output(torch.relu(self.hidden(z)))
        return answer


def test_the_last_hidden_layer_is_the_one_asked_last_wherever_it_is_written_down() -> None:
    data, watching = tiny_data(), Watching()
    train(made(Backwards), data, training=replace(SHORT, epochs=1), penalties=(watching,))
    assert watching.validated[-1].hidden.shape[1] == 5


class Bilinear(nn.Module):
    """No linear layer anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces = nn.Bilinear(4, 4, 2)

    def forward(self, z: Tensor) -> Tensor:
        answer: Tensor = self.pieces(z / 10, z / 10)
        return answer


def test_a_network_without_a_linear_layer_cannot_take_a_penalty_on_its_last_layer() -> None:
    data = tiny_data()
    assert not is_constant(train(made(Bilinear), data, training=replace(SHORT, epochs=15)), data.x)
    with pytest.raises(ModelError, match="has no linear layer"):
        train(made(Bilinear), data, training=SHORT, penalties=(Watching(),))


class Normalised(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2))


def test_a_last_batch_of_one_row_is_no_obstacle_to_batch_normalisation() -> None:
    data = tiny_data()
    assert len(data.split(0).train) == 140
    model = train(made(Normalised), data, training=replace(SHORT, batch=139))
    assert np.isfinite(model.probabilities(data.x)).all()


def test_a_network_that_does_not_fit_is_refused_before_anything_is_learnt() -> None:
    data = tiny_data(classes=3)
    with pytest.raises(ModelError, match=r"3 classes; the network returns \(1, 2\) for a row"):
        train(dense(data.domain, (4,)), data, training=SHORT, penalties=(Watching(),))
    with pytest.raises(ModelError, match="cannot take rows of 4 columns"):
        train(nn.Linear(3, 3), data, training=SHORT, penalties=(Watching(),))
