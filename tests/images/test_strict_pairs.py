"""Image findings are counted where the search ended: the attribute's classifier must still change
its answer, in the pictures as they are saved.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fairprobe as fp
from fairprobe.datasets.pictures import Bytes
from fairprobe.images.change import Change
from fairprobe.images.measure import strict_pairs
from fairprobe.images.repair import mean_of
from fairprobe.images.report import report
from fairprobe.images.search import ImageFindings, ImageSearch, search_images
from fairprobe.results import Rate


class Above(nn.Module):
    """Two classes: whether the mean of one channel, minus that of another, is above a limit."""

    def __init__(self, channel: int, limit: float, minus: int | None = None) -> None:
        super().__init__()
        self.channel, self.limit, self.minus = channel, limit, minus

    def forward(self, images: Tensor) -> Tensor:
        means = images.mean(dim=(2, 3))
        seen = means[:, self.channel] - (0 if self.minus is None else means[:, self.minus])
        return torch.stack([torch.zeros_like(seen), 100 * (seen - self.limit)], dim=1)


def grays(count: int, value: int = 100) -> Bytes:
    return np.full((count, 3, 4, 4), value, dtype=np.uint8)


def redder(images: Bytes, by: float) -> Change:
    """All of the red grows a little."""
    delta = np.zeros(images.shape, dtype=np.float32)
    delta[:, 0] = by
    return Change(delta, np.ones(len(images), dtype=bool), np.full(len(images), by))


def found_at(images: Bytes, delta: float) -> ImageFindings:
    """A search that moved the red of every picture so far."""
    moved = np.zeros(images.shape, dtype=np.float32)
    moved[:, 0] = delta
    rows = np.arange(len(images))
    return ImageFindings(
        "adf", rows, moved, rows * 0 + 1, rows < 0, len(rows), len(rows), 0.0, "complete"
    )


RED = 100 / 255
HEAD = Above(0, RED + 0.02)  # its answer changes between the gray and the redder picture


@pytest.mark.parametrize(("delta", "counts"), [(0.0, True), (0.1, False), (-0.1, False)])
def test_a_pair_counts_only_if_the_head_still_sees_the_attribute_change(
    delta: float, counts: bool
) -> None:
    images = grays(3)
    change, found = redder(images, 0.04), found_at(images, delta)
    detector = Above(0, RED + delta + 0.02)  # its verdict changes wherever the search went
    strict = strict_pairs(detector, HEAD, *found.pictures(images, change))
    assert strict.tolist() == [counts] * 3
    assert len(found) == 3  # loosely, all count
    assert len(found.only(strict)) == 3 * counts


def test_a_flip_that_is_lost_when_the_pictures_are_saved_does_not_count() -> None:
    images, hair = grays(2), 0.2 / 255  # less than half a byte
    change, found = redder(images, hair), found_at(images, 0.0)
    detector = Above(0, RED + hair / 2)
    without, changed = found.pairs(images, change)
    with torch.no_grad():
        answers = [detector(torch.from_numpy(x)).argmax(dim=1) for x in (without, changed)]
    assert (answers[0] != answers[1]).all()
    assert not strict_pairs(detector, detector, *found.pictures(images, change)).any()


def test_a_search_that_undoes_the_change_of_the_attribute_is_counted_loosely_only() -> None:
    """The detector looks at red alone, the head at red minus green. The search raises the red
    until the verdict changes, and the head then sees the same value in both pictures.
    """
    images = grays(8)
    change = redder(images, 0.06)
    detector, head = Above(0, RED + 0.25), Above(0, 0.02, minus=1)
    assert strict_pairs(head, head, *found_at(images, 0.0).pictures(images, change)).all()
    rng = np.random.default_rng(0)
    found = search_images(detector, images, change, ImageSearch(method="adf", step=0.1), rng=rng)
    assert len(found) == 8
    assert not strict_pairs(detector, head, *found.pictures(images, change)).any()
    # a head that sees what the detector sees agrees with it, wherever the search ends
    assert strict_pairs(detector, detector, *found.pictures(images, change)).all()


def test_an_audit_counts_strictly_and_shows_the_loose_count_too() -> None:
    from tests.images.test_image_audit import judging_by, pictures

    run = fp.audit_images(
        pictures(), judging_by(1.0, 0.3), "gender", controls=False, repair=False, step=0.6
    ).document
    counts = [(one.found.own.strict.idis, one.found.own.loose.idis) for one in run.generation]
    assert all(strict < loose for strict, loose in counts)
    text = next(report(run).verdicts).text
    strict, loose = max(counts)
    assert f"turns {strict} of" in text or strict == 0
    assert str(loose) in text
    assert all(pair.head[0] != pair.head[1] for pair in run.pairs)


# -- the intervals of the report -------------------------------------------------------------------


@pytest.mark.parametrize(("count", "shape"), [(10, 4), (30, 4), (100, 2)])
def test_the_interval_of_a_mean_length_holds_the_truth_as_often_as_it_says(
    count: int, shape: float
) -> None:
    """L2 lengths are skewed; a bootstrap of ten of them holds the truth in 88 %."""
    rng = np.random.default_rng(0)
    held = []
    for _ in range(1000):
        found = mean_of(rng.gamma(shape, 1 / shape, size=count))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= 1 <= found.high)
    assert np.mean(held) >= 0.93
    few = mean_of(rng.random(9))
    assert few is not None
    assert (few.low, few.high) == (None, None)


@pytest.mark.parametrize(("samples", "rate"), [(30, 0.02), (60, 0.9), (250, 0.5)])
def test_the_interval_of_a_share_holds_the_truth_as_often_as_it_says(
    samples: int, rate: float
) -> None:
    hits = np.random.default_rng(0).binomial(samples, rate, size=1000)
    held = [
        Rate.of(int(one), samples).low <= rate <= Rate.of(int(one), samples).high for one in hits
    ]
    assert np.mean(held) >= 0.93
