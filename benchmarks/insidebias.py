"""What InsideBias says about networks for gender on held-out faces of FairFace: never trained,
trained on balanced faces, and on mostly one group.

`python -m benchmarks.insidebias`, about ten minutes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import nn

from fairprobe.images.activation_ratio import compare
from fairprobe.images.excitement import Excitement, excitement
from papers.data.fetching import FAIRFACE, placed
from papers.insidebias_faces import (
    GROUPS,
    NETWORKS,
    SIDE,
    Faces,
    _faces,
    learn,
    mixed,
)

UNTRAINED = {"vgg": 15, "resnet": 4}
FEW = 30  # faces of a group
TRAINED = [(seed, own) for seed in (0, 1) for own in (None, *GROUPS)] + [(2, None)]
TRAINING = {"epochs": 10, "late": 2, "batch": 32}


def main() -> None:
    train, test = _faces(placed(FAIRFACE), SIDE)
    for kind, count in UNTRAINED.items():
        for seed in range(count):
            network = NETWORKS[kind]((3, SIDE, SIDE), 2, seed=1000 + seed)
            excited = _excited(network, test)
            _print(f"{kind} {seed}, never trained", excited)
            few = excited.sample(FEW, np.random.default_rng(seed))
            _print(f"{kind} {seed}, never trained, {FEW} faces a group", few)
    balanced: list[Excitement] = []
    for seed, own in TRAINED:
        network = NETWORKS["vgg"]((3, SIDE, SIDE), 2, seed=seed)
        lessons = mixed(train, 1776, own, np.random.default_rng(seed))
        learn(network, lessons, {"seed": seed, **TRAINING})
        excited = _excited(network, test)
        _print(f"vgg {seed}, {'balanced' if own is None else f'mostly {own}'}", excited, balanced)
        if own is None:
            balanced.append(excited)


def _excited(network: nn.Module, test: Faces) -> Excitement:
    labels = {name: test.gender[test.group == at] for at, name in enumerate(GROUPS)}
    return excitement(network, test.groups(), labels=labels)


def _print(name: str, excited: Excitement, references: Sequence[Excitement] = ()) -> None:
    found = compare(excited, references, resamples=500)
    pixels, answers = found.pixels, found.answers
    assert pixels is not None
    print(
        f"{name}: {found.verdict}, Λ {found.ratio:.2f} (p {found.decisive.p_value:.3f}), held equal"
        f" {pixels.ratio:.2f} (p {pixels.p_value:.3f}), highest {found.highest}",
        ""
        if answers is None
        else f"constant {answers.is_constant}, no better than the commonest"
        f" label {answers.is_no_better_than_chance}",
        *(
            f"against a balanced network {one.less} to {one.more} × {one.factor:.2f}"
            f" ({one.factor_low:.2f} to {one.factor_high:.2f})"
            for one in found.references
        ),
        sep="; ",
        flush=True,
    )


if __name__ == "__main__":
    main()
