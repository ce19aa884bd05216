"""Drawn street scenes: everything about them is known."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from fairprobe.errors import DataError, SettingError
from fairprobe.scenes.audit import audit_scenes
from fairprobe.scenes.demo import LABELS, DrawnDetector, Network, drawn_detector
from fairprobe.scenes.detectors.base import count_labels
from fairprobe.scenes.perspective import perspective_of
from fairprobe.scenes.scene import Scene
from fairprobe.scenes.sources import open_scenes
from tools.streets.drawn import HEIGHTS, STUFF, DrawnScenes, draw_scene
from tools.streets.sprites import DRAWERS, figure
from tools.streets.training import DetectorTraining, _target, train

SCENES = [
    draw_scene(np.random.default_rng([5, number]), name=f"street-{number:04d}")
    for number in range(16)
]


def test_every_object_is_as_high_as_its_row_says() -> None:
    for scene in SCENES:
        for one in scene.instances:
            true = scene.true_height(one.foot) * HEIGHTS[one.label]
            assert abs(one.height - true) <= max(2.0, 0.04 * true), (scene.name, one.label, one.box)


def test_every_foot_stands_on_road_or_pavement() -> None:
    for scene in SCENES:
        ground = np.isin(scene.stuff, [STUFF.index("road"), STUFF.index("pavement")])
        for one in scene.instances:
            columns = one.box[0] + np.flatnonzero(one.mask[-1])
            assert ground[one.foot, columns].all(), (scene.name, one.label)


def test_masks_do_not_overlap_and_a_nearer_object_keeps_its_pixels() -> None:
    for scene in SCENES:
        times = sum(one.whole(scene.size).astype(int) for one in scene.instances)
        assert np.max(times) <= 1
        assert all(one.mask.any() for one in scene.instances)


def test_a_scene_is_always_drawn_alike_and_another_seed_gives_another() -> None:
    scenes = pickle.loads(pickle.dumps(DrawnScenes(3, seed=5)))
    assert np.array_equal(scenes.read("street-0002").image, SCENES[2].image)
    assert not np.array_equal(DrawnScenes(3, seed=6).read("street-0002").image, SCENES[2].image)
    with pytest.raises(DataError, match="street-0002"):
        scenes.read("street-0003")


def test_all_classes_occur_and_counts_can_be_set() -> None:
    assert set().union(*(scene.counts() for scene in SCENES)) == set(LABELS)
    scene = draw_scene(np.random.default_rng(0), counts={"person": 2, "car": 1})
    assert dict(scene.counts()) == {"person": 2, "car": 1}
    assert not draw_scene(np.random.default_rng(0), counts={}).instances
    with pytest.raises(SettingError, match="person"):
        draw_scene(np.random.default_rng(0), counts={"persn": 2})


@pytest.mark.parametrize("label", DRAWERS)
def test_a_figure_has_exactly_the_given_height(label: str) -> None:
    drawn = figure(label, 60, np.random.default_rng(1))
    rows = np.flatnonzero(drawn.mask.any(axis=1))
    assert drawn.image.shape[0] == 60
    assert rows[0] <= 1
    assert rows[-1] == 59


def test_the_perspective_found_is_the_one_it_was_drawn_with() -> None:
    far_off = []
    for seed in range(20):
        scene = draw_scene(
            np.random.default_rng([9, seed]), counts={"person": 4, "car": 3, "truck": 1}
        )
        found = perspective_of(scene)
        rows = range(int(scene.horizon + 0.1 * scene.size[0]), scene.size[0])
        true = np.array([scene.true_height(row) for row in rows])
        far_off.append(np.max(np.abs(np.array([found.height(row) for row in rows]) / true - 1)))
    assert max(far_off) < 0.1, far_off


# -- the recognizer --------------------------------------------------------------------------------


class Knowing(Network):
    """Answers what the training wants to hear of one scene."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._answer = tuple(torch.from_numpy(part)[None] for part in _target(SCENES[number])[:2])

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        return torch.logit(self._answer[0] * 0.98 + 0.01), self._answer[1]


def test_what_it_learns_is_what_it_answers() -> None:
    for number, scene in enumerate(SCENES):
        found = {(one.label, one.box) for one in DrawnDetector(Knowing(number)).detect(scene.image)}
        assert len(found) <= len(scene.instances)
        matched = [
            one
            for one in scene.instances
            if any(
                label == one.label
                and box is not None
                and np.abs(np.subtract(box, one.box)).max() < 1
                for label, box in found
            )
        ]
        assert (
            len(matched) >= len(scene.instances) - 1
        )  # two of one class in one place of the map are seen as one


def test_the_same_seed_trains_the_same_recognizer() -> None:
    little = DetectorTraining(scenes=3, epochs=1)
    steps: list[tuple[int, int]] = []

    def trained(seed: int = 0) -> DrawnDetector:
        network = train(seed=seed, training=little, progress=lambda *step: steps.append(step))
        return DrawnDetector(network)

    first, again = trained(), trained()
    assert steps == [(1, 1), (1, 1)]
    assert first.identity == again.identity != trained(1).identity
    assert first.detect(SCENES[0].image) == again.detect(SCENES[0].image)


def test_a_trained_recognizer_can_be_sent_to_another_process() -> None:
    detector = DrawnDetector(Network())
    assert pickle.loads(pickle.dumps(detector)).detect(
        SCENES[0].image[:100, :101]
    ) == detector.detect(SCENES[0].image[:100, :101])


def test_the_packaged_recognizer_sees_most_of_streets_that_it_was_not_trained_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FAIRPROBE_CACHE", str(tmp_path))
    detector = drawn_detector()  # trains nothing
    assert list(tmp_path.iterdir()) == []
    seen, there, shared = Counter[str](), Counter[str](), Counter[str]()
    for scene in DrawnScenes(12, seed=77):
        found = count_labels(detector.detect(scene.image))
        seen, there, shared = (
            seen + found,
            there + scene.counts(),
            shared + (found & scene.counts()),
        )
    there.pop("tree", None)
    assert shared.total() > 0.75 * there.total()
    assert shared.total() > 0.75 * seen.total()


@pytest.mark.slow
def test_a_detector_learns_from_exported_mutants(tmp_path: Path) -> None:
    """Trained on nothing but exported mutants, a network counts the objects of unseen mutants
    better than one that was given the annotations of other pictures, and than one that finds
    nothing (1 object missed of 1).
    """
    scenes = DrawnScenes(28, seed=11)
    audit = audit_scenes(
        scenes,
        [drawn_detector()],
        mutations=("insert", "delete"),
        classes=("person", "car"),
        repeats=1,
        inpainting="ns",
        folder=tmp_path / "run",
    )
    path = audit.export_coco(tmp_path / "export")
    mutants = list(open_scenes(path.parent / "images", path))
    tasks = {one.task.file.replace("/", "-"): one.task for one in audit.evidence.made.values()}
    held_out = {*scenes.names[20:]}
    is_test = [tasks[f"{one.name.removesuffix('.png')}.png"].scene in held_out for one in mutants]
    lessons = [one for one, test in zip(mutants, is_test, strict=True) if not test]
    tests = [one for one, test in zip(mutants, is_test, strict=True) if test]
    wrong = [
        replace(one, instances=other.instances)
        for one, other in zip(lessons, [*lessons[9:], *lessons[:9]], strict=True)
    ]
    training = DetectorTraining(epochs=10)

    def missed(given: list[Scene]) -> float:
        detector = DrawnDetector(train(scenes=given, training=training))
        errors = objects = 0
        for scene in tests:
            there, found = scene.counts(), count_labels(detector.detect(scene.image))
            errors += sum(abs(there[label] - found[label]) for label in {*there, *found})
            objects += there.total()
        return errors / objects

    right, shuffled = missed(lessons), missed(wrong)
    assert right < 0.8
    assert right < shuffled - 0.1
