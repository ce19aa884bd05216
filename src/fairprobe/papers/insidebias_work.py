"""What the workers do for the InsideBias paper: train a network on coloured digits, and look at
what each colour excites in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np

from fairprobe.arrays import Mask
from fairprobe.datasets.mnist import COLOURS, Coloured, coloured, fetched_digits, read_digits
from fairprobe.interpret.excitement import Excitement, excitement
from fairprobe.interpret.insidebias import compare
from fairprobe.networks.vision import vgg
from fairprobe.networks.vision_training import ON_IMAGES, labels_of, train_on_images
from fairprobe.papers.jobs import Plain

# added to the seed, so that the test images' colours are drawn apart from the training's
TEST_SEED = 20_000

_read = lru_cache(maxsize=1)(read_digits)


def look(settings: Plain, inputs: Mapping[str, Plain]) -> Plain:
    """Trains Network 1 with the bias that the settings name, or none, and compares the colours on
    test images in equal shares.
    """
    del inputs
    source, seed = fetched_digits(), settings["seed"]
    learnt, test = _read(source).split()
    rng = np.random.default_rng(seed)
    drawn = learnt.take(
        rng.choice(len(learnt), min(settings["images"], len(learnt)), replace=False)
    )
    lessons = coloured(drawn, seed=seed, digit=settings["digit"], colour=settings["colour"])
    asked = coloured(test, seed=seed + TEST_SEED)
    network = vgg((3, 28, 28), 10, seed=seed)
    train_on_images(
        network,
        lessons.images,
        lessons.labels,
        seed=seed,
        training=replace(ON_IMAGES, epochs=settings["epochs"]),
    )
    excited = excitement(network, asked.groups())
    found = compare(excited, tau=settings["tau"], seed=seed)
    return {
        "source": source.name,
        "learnt": len(drawn),
        "tested": len(test),
        "right": _right(labels_of(network, asked.images) == asked.labels, asked),
        "ratio": found.ratio,
        "highest": found.highest,
        "found": found.to_dict(),
        "samples": {str(count): _samples(excited, count, settings) for count in settings["counts"]},
    }


def _right(right: Mask, asked: Coloured) -> Plain:
    """The share of images that got their class, of all and of each colour."""
    return {
        "all": float(right.mean()),
        **{name: float(right[asked.colours == at].mean()) for at, name in enumerate(COLOURS)},
    }


def _samples(excited: Excitement, count: int, settings: Plain) -> Plain:
    """What small samples of test images would have said: how often Λ lay below τ, and how often the
    verdict was "biased".
    """
    rng = np.random.default_rng([settings["seed"], count])
    said = [
        compare(
            excited.sample(count, rng),
            tau=settings["tau"],
            resamples=settings["resamples"],
            seed=draw,
        )
        for draw in range(settings["draws"])
    ]
    return {
        "below_tau": float(np.mean([one.is_below for one in said])),
        "biased": float(np.mean([one.verdict == "biased" for one in said])),
        "unbiased": float(np.mean([one.verdict == "unbiased" for one in said])),
        "ratio": float(np.mean([one.ratio for one in said])),
    }
