"""How fast networks are trained, beside a bare torch loop over the same batches of the same
network.

    python -m benchmarks.training

The network, optimizer and batches are those of the IIFR paper on Adult. One thread. Each is timed
in turn, five rounds, and the median of the rounds' ratios is printed, so that a machine that slows
down slows both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from fairprobe.models import Encoder, Scale, one_thread
from fairprobe.networks import DenseNetwork, Penalty, Training, dense, train
from fairprobe.repairs.adversarial import Adversarial, Adversary
from fairprobe.repairs.counterfactual import CounterfactualPenalty
from fairprobe.repairs.iifr import NeighbourPenalty
from papers.data.iifr import load_iifr

EPOCHS, BATCH, RATE, ROUNDS = 3, 256, 0.1, 5


def bare_loop(network: DenseNetwork, z: Tensor, y: Tensor) -> None:
    optimizer = torch.optim.Adadelta(network.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for rows in torch.split(torch.randperm(len(z)), BATCH):
            optimizer.zero_grad()
            torch.autograd.backward(F.cross_entropy(network(z[rows]), y[rows]))
            optimizer.step()


def main() -> None:
    data = load_iifr("adult")
    rows = data.split(0).train
    z, y = Encoder(data.domain)(torch.from_numpy(data.x[rows])), torch.from_numpy(data.y[rows])
    scale = Scale.standard(z)
    how = Training(
        optimizer="adadelta", learning_rate=RATE, batch=BATCH, epochs=EPOCHS, patience=None
    )

    def fresh() -> DenseNetwork:
        return dense(data.domain, (30, 20, 15, 15, 10), scale=scale)

    def ours(*penalties: Penalty) -> None:
        train(fresh(), data, training=how, penalties=penalties)

    contenders: dict[str, Callable[[], None]] = {
        "bare torch loop": lambda: bare_loop(fresh(), z, y),
        "plain": ours,
        "IIFR": lambda: ours(NeighbourPenalty(1.0, 0.8)),
        "counterfactual": lambda: ours(CounterfactualPenalty(data.domain, 20.0)),
        "counterfactual, possible people": lambda: ours(
            CounterfactualPenalty(data.domain, 20.0, possible=1.0)
        ),
        "ALFR": lambda: ours(Adversary(data.domain, Adversarial(kind="alfr"))),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    with one_thread():
        for _ in range(ROUNDS):
            for name, work in contenders.items():
                start = time.process_time()
                work()
                times[name].append(time.process_time() - start)
    bare = times["bare torch loop"]
    for name, spent in times.items():
        ratio = median(first / each for first, each in zip(bare, spent, strict=True))
        print(
            f"{name:<32} {EPOCHS * len(z) / median(spent):>10,.0f} samples/s   {ratio:5.2f} of the"
            " bare loop"
        )


if __name__ == "__main__":
    main()
