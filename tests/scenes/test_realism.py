"""The realism check: 90 % of what cannot be told from real patches pass, and few of what can."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairprobe.arrays import Floats
from fairprobe.scenes import realism
from fairprobe.scenes.deletion import grown_mask
from fairprobe.scenes.realism import (
    OBJECT,
    Look,
    Patches,
    Thing,
    look_at,
    look_of,
    scores,
    threshold_of,
)
from fairprobe.scenes.realism_check import plain_shapes
from fairprobe.scenes.scene import Instance, Mutant, Scene

SCENES = [f"scene {at:02}" for at in range(30)]
BLOCK = np.ones((30, 40), dtype=bool)


def looks(values: Floats, around: Floats | None = None) -> list[Look]:
    others = np.zeros((len(values), 1)) if around is None else around
    return [
        Look(tuple(fit.tolist()), tuple(one.tolist()))
        for fit, one in zip(values, others, strict=True)
    ]


def patches(found: list[Look], sources: list[str] | None = None) -> Patches:
    names = [SCENES[at % len(SCENES)] for at in range(len(found))]
    return Patches(names, sources or names, found)


def share(real: Patches, mutants: Patches) -> float:
    of_real, of_mutants = scores(real, mutants)
    return float((of_mutants >= threshold_of(of_real)).mean())


def persons(rng: np.random.Generator, *, taller: float = 1.0, ground: str = "") -> list[Look]:
    """Persons whose height follows the row of their feet, most of them on pavement."""
    found = []
    for one in looks(rng.normal(size=(120, 4))):
        foot = float(rng.uniform(0.5, 0.9))
        usual = "road" if rng.random() < 0.1 else "pavement"
        height = taller * (foot - 0.4) * float(np.exp(rng.normal(0, 0.1)))
        aspect = float(rng.normal(-1.1, 0.1))
        thing = Thing("person", ground or usual, height, foot, aspect, 0.2, 0.0, 90.0, True)
        found.append(replace(one, thing=thing))
    return found


# -- judging ---------------------------------------------------------------------------------------


def test_about_ninety_percent_pass_if_nothing_tells_mutants_from_real_patches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(realism, "TREES", 20)
    shares = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        found = looks(rng.normal(size=(240, 8)))
        shares.append(share(patches(found[:120]), patches(found[120:])))
    assert np.mean(shares) == pytest.approx(0.9, abs=0.05)


def test_few_pass_if_mutants_are_different() -> None:
    rng = np.random.default_rng(0)
    real, mutants = rng.normal(size=(120, 8)), rng.normal(size=(120, 8))
    mutants[:, 0] += 3
    assert share(patches(looks(real)), patches(looks(mutants))) < 0.3


def test_what_only_betrays_the_scene_or_the_object_is_of_no_use() -> None:
    """A number for the object that was inserted tells mutants apart, if a classifier saw it."""
    rng = np.random.default_rng(0)
    real = patches(looks(rng.normal(size=(120, 4))))
    sources = [SCENES[int(at)] for at in rng.integers(len(SCENES), size=120)]
    mark = {name: float(value) for name, value in zip(SCENES, rng.normal(size=30), strict=True)}
    values = rng.normal(size=(120, 4))
    values[:, 0] = [mark[name] for name in sources]
    assert share(real, patches(looks(values), sources)) > 0.75


def test_what_follows_from_the_surroundings_does_not_count() -> None:
    """Inserted objects stand on plainer ground, which changes all numbers that compare with it."""
    rng = np.random.default_rng(0)
    around = rng.normal(size=(240, 1))
    around[120:] += 2
    values = rng.normal(size=(240, 4))
    blind = share(patches(looks(values[:120] + 2 * around[:120])),
                  patches(looks(values[120:] + 2 * around[120:])))  # fmt: skip
    found = looks(values + 2 * around, around)
    assert blind < 0.4
    assert share(patches(found[:120]), patches(found[120:])) > 0.75


def test_persons_of_the_wrong_height_or_on_the_road_pass_less_often_than_right_ones() -> None:
    rng = np.random.default_rng(0)
    real = patches(persons(rng))
    assert share(real, patches(persons(rng))) > 0.8
    assert share(real, patches(persons(rng, taller=1.5))) < 0.4
    assert share(real, patches(persons(rng, taller=0.6))) < 0.4
    assert share(real, patches(persons(rng, ground="road"))) < 0.7


def test_being_more_usual_than_real_objects_does_not_count_against_mutants() -> None:
    rng = np.random.default_rng(0)
    real = patches(persons(rng))
    average = [
        replace(one, thing=replace(one.thing, height=one.thing.foot - 0.4, ground="pavement"))
        for one in persons(rng)
        if one.thing is not None
    ]
    assert share(real, patches(average)) > 0.8


def test_a_class_with_few_annotated_objects_is_judged_by_its_fit_alone() -> None:
    rng = np.random.default_rng(0)
    real = persons(rng)
    buses = [
        replace(one, thing=replace(one.thing, label="bus", height=0.9))
        for one in persons(rng)
        if one.thing is not None
    ]
    assert share(patches(real), patches(buses)) > 0.75


# -- looking ---------------------------------------------------------------------------------------


def street(*others: Instance) -> Scene:
    """Gray noise above a road."""
    image = np.random.default_rng(0).integers(100, 120, size=(80, 120, 3), dtype=np.uint8)
    stuff = np.zeros((80, 120), dtype=np.uint8)
    stuff[40:] = 1
    return Scene("street", image, others, stuff, ("unknown", "road"))


def test_an_object_in_another_light_looks_different_and_a_tiny_one_is_not_described() -> None:
    scene = street()
    shape = Instance("car", (20, 20, 60, 50), BLOCK)
    plain = look_at(scene.image, shape)
    scene.image[20:50, 20:60] += 100
    bright = look_at(scene.image, shape)
    assert plain is not None
    assert bright is not None
    assert len(plain.fit) == len(bright.fit)
    assert abs(plain.fit[0]) < 0.02
    assert bright.fit[0] == pytest.approx(100 / 255, abs=0.02)
    small = Instance("car", (20, 20, 26, 26), np.ones((6, 6), dtype=bool))
    assert look_at(scene.image, small) is None


def test_an_outline_that_is_off_by_a_pixel_makes_no_difference() -> None:
    scene = street()
    scene.image[20:50, 20:60] += 100
    exact = look_at(scene.image, Instance("car", (20, 20, 60, 50), BLOCK), scene)
    assert exact is not None
    for off in (-1, 1):
        box = (20 - off, 20 - off, 60 + off, 50 + off)
        mask = np.ones((30 + 2 * off, 40 + 2 * off), dtype=bool)
        coarse = look_at(scene.image, Instance("car", box, mask), scene)
        assert coarse is not None
        assert coarse.fit == pytest.approx(exact.fit, abs=0.05)


def test_an_object_is_described_by_what_is_below_its_feet() -> None:
    shape = Instance("car", (20, 20, 60, 50), BLOCK)
    other = Instance("car", (10, 50, 70, 60), np.ones((10, 60), dtype=bool))
    for scene, ground in ((street(), "road"), (street(other), OBJECT)):
        look = look_at(scene.image, shape, scene)
        assert look is not None
        assert look.thing is not None
        assert look.thing.ground == ground
        assert look.thing.height == pytest.approx(30 / 80, abs=1e-4)
        assert look.thing.hollow == pytest.approx(0, abs=1e-9)


def test_a_deletion_is_judged_by_all_that_was_painted() -> None:
    car = Instance("car", (30, 20, 70, 50), BLOCK)
    scene = street(car)
    image = scene.image.copy()
    image[14:56, 24:76] += 50
    mutant = Mutant("street", "delete", "car", image, 1, (car.box,), removed=(car,))
    look, source = look_of(scene, mutant)
    area = Instance("", (24, 14, 76, 56), np.ones((42, 52), dtype=bool))
    assert source == "street"
    assert look is not None
    assert look.thing is None
    assert look == look_at(image, area)


def test_real_background_is_looked_at_beside_each_object_clear_of_others() -> None:
    car = Instance("car", (50, 40, 62, 50), np.ones((10, 12), dtype=bool))
    scene = street(car)
    found = list(plain_shapes(scene, {"car"}))
    assert len(found) == 2
    assert found[0].box[2] + realism.AROUND <= 50
    assert found[1].box[0] - realism.AROUND >= 62
    assert {one.box[1] for one in found} == {40 - 3}  # the margin of a deletion


def test_real_background_keeps_clear_of_what_a_deletion_paints_and_of_anything_unlabelled() -> None:
    image = np.random.default_rng(0).integers(100, 120, size=(160, 300, 3), dtype=np.uint8)
    stuff = np.ones((160, 300), dtype=np.uint8)
    stuff[:, :60] = 0
    car = Instance("car", (130, 60, 170, 90), BLOCK)
    scene = Scene("wide", image, (car,), stuff, ("unknown", "road"))
    found = list(plain_shapes(scene, {"car"}))
    assert found
    apart = grown_mask(scene, scene.instances) | scene.unlabelled()
    for one in found:
        assert not (one.whole(scene.size) & apart).any()
