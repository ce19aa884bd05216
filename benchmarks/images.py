"""How fast image IDIs are made, beside a bare loop of forward and backward passes; and how much
memory an interpretation takes.

    python -m benchmarks.images             the small detector: GSR, CPU ms per image, pictures per
                                            second and the ratio to the bare loop
    python -m benchmarks.images --vgg16     the same on a VGG16 with drawn weights, 64 × 64 pixels
    python -m benchmarks.images --memory    the peak of memory while a VGG16 at 64 × 64 pixels is
                                            interpreted on 256 pairs

The pictures are `face_nonface32.npz` where FAIRPROBE_ASSETS points at it, and the detector is
trained on them; else random ones with a detector that has drawn weights. One thread. Both rates
count every picture that went through the network, two per pair, and come from one run: a ratio of 1
would mean that judging, moving and keeping the findings cost nothing beyond the passes.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import nn

from fairprobe.datasets.image_folders import Bytes
from fairprobe.images.attribute import attribute_head
from fairprobe.images.change import Change, sensitive_change
from fairprobe.images.detector import Detector, small_detector, train_detector, trunk_detector
from fairprobe.images.interpret import image_bias
from fairprobe.images.search import ImageSearch, Method, search_images
from fairprobe.models import one_thread

PAIRS = 256


def faces() -> tuple[Detector, Bytes, Change]:
    """A small detector, faces, and the change of their gender."""
    assets = os.environ.get("FAIRPROBE_ASSETS")
    if assets is None:
        images = np.random.default_rng(0).integers(0, 256, size=(250, 3, 32, 32), dtype=np.uint8)
        detector = small_detector((3, 32, 32))
        return detector, images, sensitive_change(detector, images)
    with np.load(Path(assets) / "face_nonface32.npz") as file:
        images, held = (
            np.ascontiguousarray(file["images"].transpose(0, 3, 1, 2)),
            file["split"] == 1,
        )
        y, gender = file["is_face"].astype(np.int64), file["gender"].astype(np.int64)
    learnt = (y == 1) & ~held
    detector = train_detector(small_detector((3, 32, 32)), images[~held], y[~held])
    head = attribute_head(detector, images[learnt], gender[learnt], 2)
    seeds = images[(y == 1) & held][:250]
    change = sensitive_change(head, seeds)
    return detector, seeds[change.flipped], change.take(change.flipped)


def large(count: int) -> tuple[Detector, Bytes, Change]:
    images = np.random.default_rng(0).integers(0, 256, size=(count, 3, 64, 64), dtype=np.uint8)
    signs = np.random.default_rng(1).choice(
        np.array([-0.03, 0.03], dtype=np.float32), size=images.shape
    )
    numbers = images.astype(np.float32) / np.float32(255)
    delta = np.clip(numbers + signs, 0, 1) - numbers
    return (
        trunk_detector("vgg16", (3, 64, 64)),
        images,
        Change(delta, np.ones(count, dtype=bool), np.full(count, 0.03)),
    )


def bare(network: nn.Module, images: Bytes, batch: int, passes: int) -> float:
    """Pictures a second through forward and backward passes, with nothing done with the
    gradients.
    """
    x = torch.from_numpy(images).float() / 255
    pictures = 0
    start = time.process_time()
    for _ in range(passes):
        for part in torch.split(x, batch):
            z = part.clone().requires_grad_()
            torch.autograd.grad(network(z).sum(), z)
            pictures += len(part)
    return pictures / (time.process_time() - start)


def row(*cells: str) -> None:
    print("".join(f"{cell:>13}" for cell in cells), flush=True)


def ratios(
    network: Detector, images: Bytes, change: Change, batch: int, passes: int, iterations: int
) -> None:
    row("method", "seeds", "GSR", "mean L2", "CPU ms/image", "pictures/s", "bare/s", "ratio")
    with one_thread():
        bias = image_bias(network, images, change)
        for method in get_args(Method):
            how = ImageSearch(method=method, batch=batch, max_iter=iterations)
            before = bare(network, images, 2 * batch, passes)
            start = time.process_time()
            found = search_images(
                network, images, change, how, bias=bias, rng=np.random.default_rng(0)
            )
            cpu = time.process_time() - start
            rate, loop = (
                2 * found.generated / cpu,
                (before + bare(network, images, 2 * batch, passes)) / 2,
            )
            row(
                method,
                f"{found.seeds}",
                f"{found.gsr:.2f}",
                f"{found.mean_l2:.2f}",
                f"{cpu * 1000 / found.seeds:.1f}",
                f"{rate:,.0f}",
                f"{loop:,.0f}",
                f"{rate / loop:.2f}",
            )


def one_memory(by: str) -> None:
    """One interpretation, in a process of its own: the peak of memory is a process's."""
    network, images, change = large(PAIRS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    bias = image_bias(network, images, change, by="channel" if by == "channel" else "position")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    neurons = sum(layer.neurons for layer in bias.layers)
    row(
        by,
        f"{PAIRS}",
        f"{neurons:,}",
        f"{time.process_time() - start:.1f}",
        f"{before / 1024:,.0f}",
        f"{peak / 1024:,.0f}",
    )


def memory() -> None:
    row("neurons are", "pairs", "neurons", "CPU s", "MiB before", "MiB peak")
    for by in ("position", "channel"):
        subprocess.run([sys.executable, "-m", "benchmarks.images", "--one-memory", by], check=True)  # noqa: S603


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vgg16", action="store_true", help="instead of the small detector")
    parser.add_argument("--memory", action="store_true", help="of an interpretation")
    parser.add_argument("--one-memory", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_memory:
        one_memory(options.one_memory)
    elif options.memory:
        memory()
    elif options.vgg16:
        ratios(*large(16), batch=16, passes=1, iterations=2)
    else:
        ratios(*faces(), batch=ImageSearch().batch, passes=4, iterations=ImageSearch().max_iter)
