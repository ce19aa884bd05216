"""Shadows: dark below inserted vehicles, faint below others, and removed with what casts them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fairprobe.scenes.cutouts import cut_out
from fairprobe.scenes.deletion import grown_mask
from fairprobe.scenes.insertion import insert
from fairprobe.scenes.scene import Instance, Mutant, Scene


def street(name: str, label: str, *objects: Instance) -> Scene:
    """A light gray road to the horizon, with a bright square object of the class."""
    image = np.full((200, 300, 3), 150, dtype=np.uint8)
    stuff = np.zeros((200, 300), dtype=np.uint8)
    stuff[80:] = 1
    one = Instance(label, (120, 90, 170, 150), np.ones((60, 50), dtype=bool))
    image[90:150, 120:170] = np.random.default_rng(0).integers(150, 250, (60, 50, 3))
    return Scene(name, image, (one, *objects), stuff, ("unknown", "road"))


def darkest(label: str) -> float:
    """The light just below an inserted object, of that of the road."""
    scene, source = street("here", label), street("there", label)
    cutouts = {label: (cut_out(source, source.instances[0]),)}
    mutant = insert(scene, label, 1, cutouts, rng=np.random.default_rng(0))
    assert isinstance(mutant, Mutant)
    left, _, right, bottom = mutant.places[0]
    return float(mutant.image[bottom, left:right].mean(axis=1).min() / 150)


def test_an_inserted_vehicle_has_a_darker_shadow_than_a_person() -> None:
    assert darkest("car") < 0.65
    assert darkest("person") == pytest.approx(0.85, abs=0.08)


def test_more_is_painted_at_the_foot_of_a_deleted_vehicle() -> None:
    car, person = street("one", "car"), street("two", "person")
    assert grown_mask(car, car.instances).sum() > grown_mask(person, person.instances).sum()
    assert not grown_mask(car, car.instances)[150 + 12 :].any()


def test_the_shadow_below_the_higher_end_of_a_deleted_vehicle_is_painted_too() -> None:
    scene = street("one", "car")
    slanted = scene.instances[0].mask.copy()
    for column in range(50):
        slanted[60 - column // 2 :, column] = False  # the outline rises to the right
    hole = grown_mask(scene, (Instance("car", (120, 90, 170, 150), slanted),))
    for column in range(5, 45):
        assert hole[150 - column // 2 + np.arange(12), 120 + column].all()


def test_the_shadow_of_an_object_does_not_make_it_brighter_elsewhere() -> None:
    scene = street("one", "car")
    image = scene.image.copy()
    image[150:158, 115:175] = 60  # its shadow
    shaded = replace(scene, image=image)
    plain, dark = (cut_out(one, one.instances[0]).place.color for one in (scene, shaded))
    assert dark == plain
