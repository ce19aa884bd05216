"""Insertion, deletion, rotation and the control, on drawn scenes whose geometry is known."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy import ndimage
from torch import Tensor, nn

from fairprobe.arrays import Mask
from fairprobe.errors import DataError, ModelError, SettingError, StorageError
from fairprobe.scenes import deletion, insertion, rotation
from fairprobe.scenes.cutouts import Cutout, Light, SceneCutouts, cut_out, cutouts_in, cutouts_of
from fairprobe.scenes.deletion import control, delete, grown_mask
from fairprobe.scenes.geometry import angular_distance, is_isolated, is_single, orientation
from fairprobe.scenes.inpainting import Inpainter, Remembering, inpainter
from fairprobe.scenes.insertion import VEHICLE_GROUND, insert
from fairprobe.scenes.labels import GROUND, VEHICLES
from fairprobe.scenes.perspective import Views, perspective_of
from fairprobe.scenes.rotation import LARGEST_ANGLES, RotationSettings, rotate, turn
from fairprobe.scenes.scene import GivenScenes, Instance, Mutant, Picture, Scene, Skipped
from tools.streets.drawn import HEIGHTS, DrawnScene, draw_scene

STREET = {"person": 4, "car": 3, "truck": 1, "motorcycle": 1, "dog": 2, "bird": 2, "cat": 1}
INSERTED = ("person", "car", "motorcycle", "truck", "dog", "cat", "bird")
SCENES = [
    draw_scene(np.random.default_rng([3, seed]), name=f"s{seed}", counts=STREET)
    for seed in range(12)
]
CUTOUTS = cutouts_of(GivenScenes(tuple(SCENES)), INSERTED)
METHODS = ("ns", "telea", "exemplars")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def mutant_of(found: Mutant | Skipped) -> Mutant:
    assert isinstance(found, Mutant), found
    return found


def skipped(found: Mutant | Skipped) -> str:
    assert isinstance(found, Skipped)
    return found.reason


@cache  # where the tests need them: every process of the suite imports this file
def inserted(count: int = 2) -> list[tuple[DrawnScene, Mutant]]:
    found = []
    for at, scene in enumerate(SCENES):
        for label in INSERTED:
            for number in (count, 1):
                mutant = insert(scene, label, number, CUTOUTS, rng=rng(at))
                if isinstance(mutant, Mutant):
                    found.append((scene, mutant))
                    break
    return found


def plain_scene(*instances: Instance, size: tuple[int, int] = (120, 160)) -> Scene:
    """Gray ground below row 40, with some grain, and objects whose pixels are red."""
    image = np.full((*size, 3), 120, np.uint8) + rng(1).integers(0, 9, (*size, 1), dtype=np.uint8)
    stuff = np.zeros(size, np.uint8)
    stuff[40:] = 1
    for one in instances:
        image[one.whole(size)] = (200, 20, 20)
    return Scene("plain", image, instances, stuff, ("unknown", "road"))


def block(label: str, left: int, top: int, right: int, bottom: int) -> Instance:
    return Instance(
        label, (left, top, right, bottom), np.ones((bottom - top, right - left), dtype=bool)
    )


PERSONS = (block("person", 10, 41, 18, 61), block("person", 130, 61, 146, 111))


def behind_gate() -> tuple[Instance, Scene]:
    arch = np.ones((60, 60), dtype=bool)
    arch[20:, 10:50] = False
    gate = Instance("gate", (50, 50, 110, 110), arch)
    return gate, plain_scene(gate, *PERSONS)


def green(scene: Scene, seed: int, width: int = 14, **more: Any) -> Mutant:
    """Insert a green person."""
    cutouts = {"person": (_green(40, width),)}
    return mutant_of(insert(scene, "person", 1, cutouts, rng=rng(seed), **more))


# -- perspective -----------------------------------------------------------------------------------


def test_the_line_goes_through_two_objects() -> None:
    found = perspective_of(
        plain_scene(block("person", 20, 41, 28, 61), block("car", 60, 61, 120, 111))
    )
    # heights 20 at row 60 and 50 at row 110: a slope of 30 / 50, and nothing is high at 60 - 20 /
    # 0.6
    assert found.source == "objects"
    assert found.slope == pytest.approx(0.6)
    assert found.horizon == pytest.approx(60 - 20 / 0.6)
    assert found.height(85) == pytest.approx(35)


def test_one_wrong_object_does_not_move_the_line() -> None:
    right = [
        block("person", 5 + 30 * at, 41 + 4 * at, 12 + 32 * at, 61 + 10 * at) for at in range(5)
    ]
    wrong = block("car", 148, 80, 158, 86)
    assert perspective_of(plain_scene(*right, wrong)).slope == pytest.approx(0.6, rel=0.02)


def test_a_line_that_shrinks_towards_the_viewer_is_refused() -> None:
    found = perspective_of(
        plain_scene(block("person", 20, 21, 28, 71), block("person", 60, 91, 70, 111))
    )
    assert found.source == "one object and the horizon"
    assert found.slope > 0
    assert found.horizon == 40


def test_one_object_and_the_horizon_make_a_line_and_none_the_default() -> None:
    one = perspective_of(plain_scene(block("bus", 20, 39, 60, 81)))
    assert (one.source, one.horizon) == ("one object and the horizon", 40)
    assert one.height(80) == pytest.approx(42 / 2.1)
    none = perspective_of(plain_scene())
    assert none.source == "default"
    assert none.height(0.5 * 120) == pytest.approx(0.1 * 120)
    assert none.height(0.9 * 120) == pytest.approx(0.35 * 120)
    assert none.height(5) == 0


def test_an_object_with_another_before_it_and_one_at_the_border_do_not_count() -> None:
    hidden, before = block("person", 20, 31, 30, 71), block("person", 20, 71, 30, 116)
    cut_off = block("car", 100, 60, 160, 118)
    assert (
        perspective_of(plain_scene(hidden, before, cut_off)).source == "one object and the horizon"
    )


def street(name: str, *rows: int, slope: float = 0.6, horizon: int = 40) -> Scene:
    """Persons with their feet in these rows, seen by one camera."""
    persons = []
    for at, row in enumerate(rows):
        tall = round(slope * (row - horizon))
        persons.append(
            block("person", 10 + 30 * at, row + 1 - tall, 10 + 30 * at + tall // 3, row + 1)
        )
    return replace(plain_scene(*persons), name=name)


def test_an_object_that_is_partly_hidden_is_at_least_as_tall_as_what_is_visible() -> None:
    low = plain_scene(block("car", 100, 41, 160, 101))  # cut off by the border on the right
    found = perspective_of(low)
    assert perspective_of(plain_scene()).height(100) < 48
    assert found.height(100) >= 60 / 1.25
    small = plain_scene(block("car", 150, 91, 160, 101))
    assert perspective_of(small) == perspective_of(plain_scene())


def test_a_picture_without_objects_of_its_own_borrows_the_line_of_similar_ones() -> None:
    first = [street(f"a{at}", 60 + 3 * at, 80, 110) for at in range(6)]
    second = [street(f"b{at}", 70 + at, 90, 110, slope=0.3, horizon=20) for at in range(6)]
    views = Views.of(GivenScenes([*first, *second]))
    for name, slope, horizon in (("a9", 0.6, 40), ("b9", 0.3, 20)):
        line, doubt = views.line(street(name))
        assert (line.source, doubt) == ("similar scenes", "")
        assert line.height(100) == pytest.approx(slope * (100 - horizon), rel=0.05)


def test_pictures_that_do_not_agree_lend_each_other_nothing() -> None:
    cameras = [(0.3, 20), (0.9, 50), (0.4, 55), (1.3, 52), (0.25, 10), (0.8, 30), (1.2, 56)]
    scenes = [
        street(f"a{at}", 70, 90, 110, slope=slope, horizon=horizon)
        for at, (slope, horizon) in enumerate(cameras)
    ]
    assert Views.of(GivenScenes(scenes)).line(street("a9"))[0].source == "default"
    assert Views.of(GivenScenes(scenes[:1])).line(street("a9"))[0].source == "default"


def test_a_picture_whose_objects_contradict_the_line_is_skipped() -> None:
    scenes = [street(f"a{at}", 60 + 3 * at, 80, 110) for at in range(6)]
    odd = replace(plain_scene(block("person", 20, 71, 24, 81)), name="a9")  # 10 pixels, not 24
    views = Views.of(GivenScenes([*scenes, odd]))
    found = skipped(insert(odd, "person", 1, SceneCutouts(CUTOUTS, views), rng=rng()))
    assert "row 80 would be 24 pixels tall, and 10 are annotated" in found
    paper = insert(
        odd, "person", 1, SceneCutouts(CUTOUTS, views), rng=rng(), settings=insertion.PAPER
    )
    assert not isinstance(paper, Skipped) or "annotated" not in paper.reason


# -- insertion -------------------------------------------------------------------------------------


def test_every_class_was_inserted_somewhere() -> None:
    assert {mutant.label for _, mutant in inserted()} == set(INSERTED)


def test_inserted_objects_have_their_true_height_at_every_row() -> None:
    for scene, mutant in inserted():
        for left, top, right, bottom in mutant.places:
            true = scene.true_height(bottom - 1) * HEIGHTS[mutant.label]
            assert abs(bottom - top - true) <= max(0.1 * true, 1.0), (
                scene.name,
                mutant.label,
                bottom,
            )
            assert bottom - top >= 0.03 * scene.size[0] - 1
            changed = (mutant.image != scene.image).any(axis=2)[top:bottom, left:right]
            assert changed.any(axis=1).mean() > 0.9  # the object fills its box from top to foot


def test_feet_stand_wholly_on_ground_and_nothing_inserted_overlaps() -> None:
    for scene, mutant in inserted():
        ground = scene.ground(VEHICLE_GROUND if mutant.label in VEHICLES else GROUND)
        taken = np.zeros(scene.size, dtype=int)
        for left, top, right, bottom in mutant.places:
            assert ground[bottom - 1, left:right].all()
            assert min(left, top) >= 0
            taken[top:bottom, left:right] += 1
        assert taken.max() == 1


def test_no_far_object_covers_a_near_one_and_no_object_is_hidden() -> None:
    for scene, mutant in inserted():
        changed = (mutant.image.astype(int) - scene.image != 0).any(axis=2)
        for one in scene.instances:
            mask = one.whole(scene.size)
            nearer = [box for box in mutant.places if box[3] - 1 > one.foot]
            may_change = np.zeros(scene.size, dtype=bool)
            for left, top, right, bottom in nearer:
                may_change[top:bottom, left:right] = True
            assert not (changed & mask & ~may_change).any(), (scene.name, mutant.label, one.label)
            assert (
                changed & mask
            ).sum() <= 0.4 * mask.sum()  # a quarter is solid, its soft edge comes on top


def test_a_far_insertion_goes_behind_what_stands_nearer() -> None:
    gate, scene = behind_gate()
    for seed in range(20):
        mutant = green(scene, seed)
        if mutant.places[0][3] < 110:
            assert np.array_equal(
                mutant.image[gate.whole(scene.size)], scene.image[gate.whole(scene.size)]
            )


def test_the_paper_s_insertions_cast_no_shadow_and_stand_behind_nothing() -> None:
    """Its section 6 and RQ5: whole objects, and no other pixel is changed."""
    gate, scene = behind_gate()
    through = 0
    for seed in range(20):
        mutant = green(scene, seed, settings=insertion.PAPER)
        left, top, right, bottom = mutant.places[0]
        assert mutant.added[0].mask.all()
        expected = scene.image.copy()
        expected[top:bottom, left:right] = (20, 200, 20)
        assert np.array_equal(mutant.image, expected)
        through += left < 110 and right > 50
        if bottom < 110:
            assert not gate.whole(scene.size)[top:bottom, left:right].any()
    assert through > 0


def test_the_paper_s_insertions_may_cover_what_is_farther_away() -> None:
    far = block("dog", 70, 66, 90, 76)
    scene = plain_scene(far, *PERSONS)
    whole, covered = far.whole(scene.size), {True: 0.0, False: 0.0}
    for by_paper in (True, False):
        chosen = insertion.PAPER if by_paper else insertion.DEFAULTS
        for seed in range(60):
            mutant = green(scene, seed, width=30, settings=chosen)
            changed = (mutant.image != scene.image).any(axis=2)
            covered[by_paper] = max(covered[by_paper], float(changed[whole].mean()))
    assert covered[False] <= 0.4 < 0.6 < covered[True]


def _green(height: int, width: int) -> Cutout:
    return Cutout(
        "person",
        np.full((height, width, 3), (20, 200, 20), np.uint8),
        np.full((height, width), 255, np.uint8),
        120.0,
        0.5,
        "elsewhere",
        Light((124.0, 124.0, 124.0), None),
    )


def test_what_does_not_fit_is_skipped_with_a_reason() -> None:
    crowd = skipped(insert(SCENES[0], "truck", 40, CUTOUTS, rng=rng(), settings=insertion.PAPER))
    assert "of 40 fit" in crowd
    nothing = skipped(insert(SCENES[0], "person", 1, {}, rng=rng()))
    assert "no cut-out" in nothing
    indoors = Scene("x", SCENES[0].image, (), np.zeros(SCENES[0].size, np.uint8), ("unknown",))
    assert skipped(insert(indoors, "person", 1, CUTOUTS, rng=rng()))


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(SettingError, match="must be at least 1"):
        insert(SCENES[0], "person", 0, CUTOUTS, rng=rng())
    with pytest.raises(SettingError, match="relative_heights"):
        insert(SCENES[0], "zebra", 1, CUTOUTS, rng=rng())


def test_the_same_seed_inserts_the_same_and_another_something_else() -> None:
    first, again, other = (
        mutant_of(insert(SCENES[1], "person", 2, CUTOUTS, rng=rng(seed))) for seed in (4, 4, 5)
    )
    assert np.array_equal(first.image, again.image)
    assert first.places == again.places != other.places


# -- cut-outs --------------------------------------------------------------------------------------


def test_cut_outs_are_whole_unobstructed_and_large_enough() -> None:
    assert all(CUTOUTS[label] for label in INSERTED)
    good, hidden = block("statue", 20, 41, 40, 61), block("statue", 60, 41, 80, 61)
    before, cut_off, small = (
        block("dog", 60, 61, 80, 81),
        block("statue", 140, 41, 160, 61),
        block("statue", 100, 100, 105, 105),
    )
    scene = plain_scene(good, hidden, before, cut_off, small)
    found = cutouts_of(GivenScenes([scene]), ["statue"])["statue"]
    assert [one.size for one in found] == [(20, 20)]
    assert (found[0].image == (200, 20, 20)).all()
    assert len(pickle.loads(pickle.dumps(CUTOUTS))) == len(CUTOUTS)


def test_two_persons_under_one_mask_are_no_cut_out() -> None:
    pair = np.zeros((40, 40), dtype=bool)
    pair[:, :12] = pair[:, 28:] = pair[18:22] = True
    scene = plain_scene(
        Instance("person", (60, 50, 100, 90), pair), block("person", 20, 46, 32, 86)
    )
    assert [one.size[1] for one in cutouts_of(GivenScenes([scene]), ["person"])["person"]] == [10]


def car_shape(high: int = 40, wide: int = 60) -> Mask:
    """A car whose roof is shorter than it is long."""
    mask = np.ones((high, wide), dtype=bool)
    mask[: high // 3, : wide // 6] = mask[: high // 3, -wide // 6 :] = False
    mask[-high // 8 :, : wide // 10] = False
    return mask


@pytest.mark.parametrize("apart", [30, 40, 50])
def test_two_cars_that_overlap_are_not_one(apart: int) -> None:
    both = np.zeros((40, 60 + apart), dtype=bool)
    both[:, :60] |= car_shape()
    both[:, apart:] |= car_shape()
    assert is_single(Instance.of("car", car_shape()))
    assert not is_single(Instance.of("car", both))


@pytest.mark.parametrize(("scale", "out", "up"), [(0.5, 12, 8), (0.6, 8, 14), (0.7, 20, 12)])
def test_a_far_car_that_sticks_out_behind_a_near_one_makes_two(
    scale: float, out: int, up: int
) -> None:
    both, far = np.zeros((80, 140), dtype=bool), car_shape(int(40 * scale), int(60 * scale))
    both[40:80, 60:120] |= car_shape()
    top = 80 - far.shape[0] - up
    both[top : top + far.shape[0], 60 - out : 60 - out + far.shape[1]] |= far
    assert not is_single(Instance.of("car", both))


def test_a_person_without_a_torso_or_too_thin_is_not_whole() -> None:
    whole = np.ones((60, 18), dtype=bool)
    hollow, thin = whole.copy(), whole[:, :12]
    hollow[5:40, 4:] = False
    hollow[36:40] = True
    assert is_single(Instance.of("person", whole))
    assert not is_single(Instance.of("person", hollow))
    assert not is_single(Instance.of("person", thin))


def test_a_car_that_stands_in_two_frames_is_cut_out_once_though_it_looks_a_little_different() -> (
    None
):
    texture = rng(7).integers(0, 255, (30, 40, 3), dtype=np.uint8)
    texture = ndimage.zoom(texture[::6, ::8], (6, 8, 1), order=1)

    def frame(name: str, left: int, noise: int) -> Scene:
        scene = plain_scene(block("car", left, 60, left + 40, 90))
        shown = texture.astype(np.int64) + rng(noise).integers(-75, 76, texture.shape)
        scene.image[60:90, left : left + 40] = np.clip(shown, 0, 255)
        return replace(scene, name=name)

    first, second, moved = frame("a", 50, 1), frame("b", 53, 2), frame("c", 100, 3)
    one, two, three = (cut_out(each, each.instances[0]) for each in (first, second, moved))
    assert 0.8 < one.thumbnail @ two.thumbnail < 0.95
    assert 0.8 < one.thumbnail @ three.thumbnail < 0.95
    assert len(cutouts_of(GivenScenes([first, second]), ["car"])["car"]) == 1
    assert len(cutouts_of(GivenScenes([first, moved]), ["car"])["car"]) == 2


def test_every_cut_out_is_looked_at_once_however_many_scenes_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[Cutout] = []

    def counted(found: cached_property[Any]) -> cached_property[Any]:
        def look(one: Cutout) -> Any:
            looked_at.append(one)
            return found.func(one)

        return cached_property(look)

    for name in ("seen", "thumbnail"):
        look = counted(Cutout.__dict__[name])
        look.__set_name__(Cutout, name)
        monkeypatch.setattr(Cutout, name, look)
    kept = cutouts_of(GivenScenes(tuple(SCENES)), ["person"])["person"]
    assert len(kept) > 1
    times = Counter(map(id, looked_at))
    assert set(times.values()) == {2}
    assert {id(one) for one in kept} <= times.keys()


def test_cut_outs_are_drawn_evenly_whatever_their_size() -> None:
    scene = plain_scene(block("person", 40, 81, 48, 105), block("person", 100, 61, 105, 76))
    large, small = (
        Cutout(
            "person", np.full((tall, tall // 3, 3), 90, np.uint8),
            np.full((tall, tall // 3), 255, np.uint8), 120.0, 0.5, f"of {tall}",
            Light((120.0, 120.0, 120.0), None),
        )
        for tall in (25, 10)
    )  # fmt: skip
    drawn = [
        insert(scene, "person", 1, {"person": (large, small)}, rng=rng(at)) for at in range(60)
    ]
    larger = [one.sources == ("of 25",) for one in drawn if isinstance(one, Mutant)]
    assert len(larger) > 50
    assert 0.35 < np.mean(larger) < 0.65


def test_given_pictures_with_transparency_are_cut_outs(tmp_path: Path) -> None:
    (tmp_path / "dog").mkdir()
    pixels = np.zeros((30, 50, 4), np.uint8)
    pixels[5:25, 10:40] = (90, 60, 30, 255)
    Image.fromarray(pixels).save(tmp_path / "dog" / "rex.png")
    found = cutouts_in(tmp_path, ["dog"])["dog"]
    assert [one.size for one in found] == [(20, 30)]
    assert mutant_of(insert(SCENES[0], "dog", 1, {"dog": found}, rng=rng()))
    with pytest.raises(DataError, match="cat"):
        cutouts_in(tmp_path, ["cat"])
    Image.fromarray(pixels[..., :3]).save(tmp_path / "dog" / "solid.png")
    with pytest.raises(DataError, match=r"solid\.png has no transparent"):
        cutouts_in(tmp_path, ["dog"])
    (tmp_path / "dog" / "solid.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"solid\.png cannot be read as a picture"):
        cutouts_in(tmp_path, ["dog"])


def test_an_object_that_adjoins_another_or_something_nearer_is_no_cut_out() -> None:
    alone, beside = block("person", 20, 50, 30, 90), block("person", 60, 50, 70, 90)
    scene = plain_scene(alone, beside, block("dog", 70, 60, 90, 80))
    assert is_isolated(scene, alone)
    assert not is_isolated(scene, beside)
    stuff = scene.stuff.copy()
    stuff[60:100, 30:50] = 0
    unnamed = Scene("unnamed", scene.image, scene.instances, stuff, scene.stuff_names)
    assert not is_isolated(unnamed, alone)
    assert not cutouts_of(GivenScenes([unnamed]), ["person"])["person"]


def test_the_same_object_in_two_pictures_is_cut_out_once() -> None:
    person = block("person", 20, 50, 32, 90)
    scenes = []
    for name in ("one", "two"):
        scene = plain_scene(person)
        scene.image[50:70, 20:32] = (30, 60, 200)
        scene.image[70:90, 20:26] = (240, 240, 60)
        scenes.append(Scene(name, scene.image, (person,), scene.stuff, scene.stuff_names))
    assert len(cutouts_of(GivenScenes(scenes), ["person"])["person"]) == 1
    assert len(cutouts_of(GivenScenes(scenes[:1]), ["person"])["person"]) == 1


def test_no_cut_out_is_mirrored_or_shown_twice() -> None:
    one = _green(40, 14)
    one.image[:, :7] = (200, 20, 20)  # left
    scene = plain_scene(*PERSONS)
    for seed in range(20):
        mutant = mutant_of(insert(scene, "person", 1, {"person": (one,)}, rng=rng(seed)))
        left, top, right, bottom = mutant.places[0]
        shown = mutant.image[top:bottom, left:right].astype(int)
        middle = (right - left) // 2
        assert shown[:, : middle - 1, 0].mean() > shown[:, middle + 1 :, 0].mean() + 50
    twice = skipped(insert(scene, "person", 2, {"person": (one,)}, rng=rng()))
    assert "needed: 2" in twice
    mutant_of(insert(scene, "person", 2, {"person": (one,)}, rng=rng(), settings=insertion.PAPER))


def test_an_inserted_object_goes_behind_a_nearer_pole() -> None:
    scene = plain_scene(*PERSONS)
    stuff, image = scene.stuff.copy(), scene.image.copy()
    stuff[5:112, 78:82], stuff[50:70, 60:100] = 2, 3
    image[stuff >= 2] = 250  # the pole stands nearer than most of the ground, with a wide sign
    names = ("unknown", "road", "pole", "sign")
    street = Scene("pole", image, scene.instances, stuff, names)
    met = 0
    for seed in range(60):
        mutant = green(street, seed, width=20)
        left, top, right, bottom = mutant.places[0]
        if bottom - 1 < 111:
            assert (mutant.image[stuff >= 2] == 250).all()
            met += bool((stuff[top:bottom, left:right] == 3).any())
    assert met > 0


def test_an_inserted_object_takes_the_light_of_its_place() -> None:
    scene = plain_scene(*PERSONS)
    dark = _with_image(scene, (scene.image // 2).astype(np.uint8))
    values = []
    for street in (scene, dark):
        mutant = green(street, 3)
        added = mutant.added[0]
        inner = ndimage.binary_erosion(added.mask, iterations=3)
        left, top, right, bottom = added.box
        values.append(float(mutant.image[top:bottom, left:right][inner].mean()))
    assert values[1] == pytest.approx(values[0] / 2, rel=0.05)


def test_the_control_of_an_insertion_pastes_objects_back_in_their_places() -> None:
    scene = next(scene for scene in SCENES if len(scene.of("person")) > 1)
    pasted = mutant_of(insertion.control(scene, "person", 2))
    assert pasted.operator == "control"
    assert pasted.objects == len(pasted.places) <= 2
    for left, top, right, bottom in pasted.places:
        assert any(
            abs(left - one.box[0]) <= 1 and abs(bottom - one.box[3]) <= 1 for one in scene.instances
        )
        before, after = (
            image[top:bottom, left:right].astype(int) for image in (scene.image, pasted.image)
        )
        assert np.abs(before - after).mean() < 12
    assert skipped(insertion.control(plain_scene(), "person", 1))


# -- deletion and its control ----------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_deletion_fills_every_pixel_of_the_mask_and_touches_nothing_else(method: str) -> None:
    painter = inpainter(method)
    for scene in SCENES[:4]:
        deleted = mutant_of(delete(scene, "person", inpainter=painter))
        persons = np.zeros(scene.size, dtype=bool)
        for one in scene.of("person"):
            persons |= one.whole(scene.size)
        inverted = scene.image.copy()
        inverted[persons] = 255 - inverted[persons]
        again = mutant_of(delete(_with_image(scene, inverted), "person", inpainter=painter))
        assert np.array_equal(deleted.image, again.image)  # nothing of the persons is left
        grown = grown_mask(scene, scene.of("person"))
        wide = ndimage.binary_dilation(persons, np.ones((11, 11), dtype=bool), iterations=3)
        assert np.array_equal(wide, grown_mask(scene, scene.of("person"), deletion.PAPER))
        assert persons.sum() < grown.sum() < wide.sum()
        assert np.array_equal(deleted.image[~grown], scene.image[~grown])
        assert (deleted.objects, deleted.places) == (
            len(scene.of("person")),
            tuple(one.box for one in scene.of("person")),
        )


def test_deletion_leaves_other_objects_as_they_were() -> None:
    person, car = block("person", 60, 60, 70, 100), block("car", 40, 50, 60, 90)
    scene = plain_scene(person, car)
    for method in METHODS:
        deleted = mutant_of(delete(scene, "person", inpainter=inpainter(method)))
        assert np.array_equal(
            deleted.image[car.whole(scene.size)], scene.image[car.whole(scene.size)]
        )


def test_exemplars_copy_the_surroundings_but_no_other_object() -> None:
    scene = plain_scene(block("person", 60, 60, 70, 90), block("car", 100, 60, 125, 85))
    deleted = mutant_of(delete(scene, "person", inpainter=inpainter("exemplars")))
    gone = grown_mask(scene, scene.of("person"))
    assert deleted.image[gone].min() >= 115
    assert deleted.image[gone].max() <= 133
    assert deleted.image[gone].std() > 1  # the ground's grain, not a smear


def test_nothing_unlabelled_is_copied_into_a_hole_nor_other_kinds_of_background() -> None:
    scene = plain_scene(block("person", 60, 60, 70, 90))
    stuff, image = scene.stuff.copy(), scene.image.copy()
    stuff[:40], stuff[95:] = 2, 3
    image[:40], image[95:] = (60, 60, 200), (60, 200, 60)
    for left in (30, 85):  # right beside the hole
        stuff[55:95, left : left + 15] = 0
        image[55:95, left : left + 15] = (250, 0, 250)
    street = Scene("x", image, scene.instances, stuff, ("unknown", "road", "sky", "grass"))
    deleted = mutant_of(delete(street, "person", inpainter=inpainter("exemplars")))
    hole = deleted.image[60:90, 60:70].astype(int)
    assert np.abs(hole - 124).max() <= 30


def test_what_was_filled_before_is_not_filled_again() -> None:
    class Counting(Inpainter):
        name, calls = "counting", 0

        def _painted(self, image: Picture, *rest: Any) -> Picture:
            self.calls += 1
            return np.full_like(image, 40 * self.calls)

    scene = plain_scene(block("person", 60, 60, 70, 90), block("car", 100, 60, 125, 85))
    counting = Counting()
    painter = Remembering(counting)
    first, other, again = (
        mutant_of(delete(scene, label, inpainter=painter)) for label in ("person", "car", "person")
    )
    assert counting.calls == 2
    assert np.array_equal(first.image, again.image)
    assert not np.array_equal(first.image, other.image)


def test_an_image_full_of_the_class_and_one_without_it_are_skipped() -> None:
    full = skipped(
        delete(plain_scene(block("car", 5, 5, 155, 115)), "car", inpainter=inpainter("ns"))
    )
    assert "at most 33%" in full
    none = skipped(delete(plain_scene(), "car", inpainter=inpainter("ns")))
    assert "no car" in none


def test_the_control_paints_the_same_shapes_where_no_object_is() -> None:
    for scene in SCENES[:4]:
        for mutant in (
            delete(scene, "person", inpainter=inpainter("ns")),
            _rotated(scene, "person"),
        ):
            if isinstance(mutant, Skipped):
                continue
            plain = control(scene, mutant, inpainter=inpainter("ns"), rng=rng(1))
            if isinstance(plain, Skipped):
                assert "background" in plain.reason
                continue
            changed = (plain.image != scene.image).any(axis=2)
            objects = _union(scene, scene.instances)
            assert not (changed & objects).any()
            sizes = sorted(
                (right - left, bottom - top) for left, top, right, bottom in plain.places
            )
            assert sizes == sorted((one.box[2] - one.box[0], one.height) for one in mutant.removed)
            inner = np.zeros(scene.size, dtype=bool)
            more = deletion.DEFAULTS.margin_in(scene)
            for left, top, right, bottom in plain.places:
                inner[top - more : bottom + more, left - more : right + more] = True
            assert not (changed & ~inner).any()


def test_there_is_no_in_painting_control_of_an_insertion_or_without_room() -> None:
    scene = plain_scene(block("car", 40, 20, 120, 100))
    assert skipped(control(scene, scene.instances, inpainter=inpainter("ns"), rng=rng()))
    assert skipped(control(*inserted()[0], inpainter=inpainter("ns"), rng=rng()))


def _with_image(scene: Scene, image: np.ndarray) -> Scene:
    return Scene(scene.name, image, scene.instances, scene.stuff, scene.stuff_names)


def _union(scene: Scene, instances: tuple[Instance, ...]) -> Mask:
    union = np.zeros(scene.size, dtype=bool)
    for one in instances:
        union |= one.whole(scene.size)
    return union


# -- rotation --------------------------------------------------------------------------------------


def _rotated(scene: Scene, label: str, seed: int = 0) -> Mutant | Skipped:
    return rotate(scene, label, inpainter=inpainter("ns"), rng=rng(seed), is_unusual=lambda _: True)


def test_rotation_keeps_the_area_and_turns_by_the_angle() -> None:
    for scene in SCENES:
        for one in scene.instances:
            if one.height < 50:
                continue
            for angle in (10.0, -37.5, 60.0):
                turned = turn(one, angle)
                solid = turned.cover >= 128
                assert turned.colors(scene.image).shape == (*solid.shape, 3)
                assert abs(solid.sum() / one.mask.sum() - 1) < 0.05, (scene.name, one.label, angle)
                if one.label == "person":  # slim enough to have a clear axis
                    assert angular_distance(orientation(solid), orientation(one.mask) + angle) < 3
                left, top, right, bottom = turned.box
                middle = (
                    (left + right) / 2 - (one.box[0] + one.box[2]) / 2,
                    (top + bottom) / 2 - (one.box[1] + one.box[3]) / 2,
                )
                assert np.hypot(*middle) < 0.3 * one.height


def test_a_rotated_object_is_whole_tall_unobstructed_and_unusual() -> None:
    found = 0
    for seed, scene in enumerate(SCENES):
        asked: list[float] = []

        def unusual(angle: float, asked: list[float] = asked) -> bool:
            asked.append(angle)
            return angular_distance(angle, 90) > 30

        mutant = rotate(
            scene,
            "person",
            inpainter=inpainter("ns"),
            rng=rng(seed),
            is_unusual=unusual,
            settings=RotationSettings(any_angle=True),
        )
        if isinstance(mutant, Mutant):
            found += 1
            assert mutant.angle is not None
            assert 10 <= abs(mutant.angle) <= 60
            assert angular_distance(asked[-1], 90) > 30
            assert mutant.removed[0].height >= 50
            changed = (mutant.image != scene.image).any(axis=2)
            left, top, right, bottom = mutant.places[0]
            allowed = grown_mask(scene, mutant.removed)
            allowed[top:bottom, left:right] = True
            assert not (changed & ~allowed).any()
    assert found >= 4


def test_a_rotation_that_is_not_unusual_or_has_no_object_is_skipped() -> None:
    usual = skipped(
        rotate(
            SCENES[0], "person", inpainter=inpainter("ns"), rng=rng(), is_unusual=lambda _: False
        )
    )
    assert "unusual" in usual
    small = skipped(_rotated(plain_scene(block("car", 50, 50, 70, 70)), "car"))
    assert "50 pixels" in small
    skipped(
        _rotated(plain_scene(block("car", 60, 45, 100, 95), block("dog", 70, 90, 80, 110)), "car")
    )


def test_rotations_stay_within_what_can_occur_and_on_their_feet() -> None:
    found = 0
    for seed, scene in enumerate(SCENES):
        for label in ("person", "car"):
            mutant = _rotated(scene, label, seed)
            if isinstance(mutant, Mutant):
                found += 1
                assert LARGEST_ANGLES[label] / 2 <= abs(mutant.angle or 0) <= LARGEST_ANGLES[label]
                rows = np.flatnonzero(mutant.added[0].mask.any(axis=1))
                assert abs(mutant.places[0][1] + rows[-1] - mutant.removed[0].foot) <= 1
    assert found >= 6


def test_a_turned_car_keeps_the_wheels_to_which_it_leans_and_its_shadow() -> None:
    scene = plain_scene(block("car", 50, 40, 110, 95))
    for seed in range(4):
        mutant = mutant_of(_rotated(scene, "car", seed))
        assert mutant.angle is not None
        left, _, right, bottom = mutant.removed[0].box
        rows = mutant.added[0].mask[-4:].any(axis=0)
        columns = np.flatnonzero(rows) + mutant.places[0][0]
        near = columns[0] - left if mutant.angle > 0 else right - 1 - columns[-1]
        assert abs(near) <= 4, mutant.angle
        below = np.s_[bottom + 2 :, left:right]
        assert np.array_equal(mutant.image[below], scene.image[below])


def test_the_paper_turns_by_larger_angles_about_the_center() -> None:
    angles = []
    for seed, scene in enumerate(SCENES):
        mutant = rotate(
            scene,
            "person",
            inpainter=inpainter("ns"),
            rng=rng(seed),
            is_unusual=lambda _: True,
            settings=rotation.PAPER,
            deletion=deletion.PAPER,
        )
        if isinstance(mutant, Mutant):
            angles.append(abs(mutant.angle or 0))
            (left, top, right, bottom), box = mutant.places[0], mutant.removed[0].box
            assert abs((left + right) - (box[0] + box[2])) <= 0.3 * (box[3] - box[1])
            assert abs((top + bottom) - (box[1] + box[3])) <= 0.6 * (box[3] - box[1])
    assert max(angles) > LARGEST_ANGLES["person"]


def test_two_objects_under_one_mask_are_not_turned() -> None:
    pair = np.zeros((60, 60), dtype=bool)
    pair[:, :18] = pair[:, 42:] = pair[28:32] = True
    scene = plain_scene(Instance("person", (50, 45, 110, 105), pair))
    assert not is_single(scene.instances[0])
    assert skipped(_rotated(scene, "person"))


def test_nothing_is_turned_over_a_nearer_pole_or_next_to_another_object() -> None:
    car = block("car", 50, 40, 110, 95)
    scene = plain_scene(car)
    usual: dict[str, Any] = {"inpainter": inpainter("telea"), "is_unusual": lambda _: True}
    assert mutant_of(rotate(scene, "car", rng=rng(), **usual))
    beside = plain_scene(car, block("person", 111, 50, 125, 94))
    assert skipped(rotate(beside, "car", rng=rng(), **usual))
    stuff = scene.stuff.copy()
    stuff[10:110, 114:117] = 2
    behind_pole = replace(scene, stuff=stuff, stuff_names=("unknown", "road", "pole"))
    for seed in range(5):
        turned = rotate(behind_pole, "car", rng=rng(seed), **usual)
        if isinstance(turned, Mutant):
            assert np.array_equal(turned.image[10:110, 114:117], scene.image[10:110, 114:117])


def test_a_hole_that_is_too_large_to_paint_is_skipped_unless_as_in_the_paper() -> None:
    scene = plain_scene(block("car", 50, 50, 100, 90))
    found = skipped(delete(scene, "car", inpainter=inpainter("telea")))
    assert "convincing up to 7.5%" in found
    mutant_of(delete(scene, "car", inpainter=inpainter("telea"), settings=deletion.PAPER))


def test_the_same_seed_rotates_the_same() -> None:
    first, again = (mutant_of(_rotated(SCENES[2], "person", seed=7)) for _ in range(2))
    assert np.array_equal(first.image, again.image)
    assert first.angle == again.angle


# -- in-painting by a network ----------------------------------------------------------------------


class MeanOutside(nn.Module):
    """Paints the mean color of what is not masked: a network one can check by hand."""

    def forward(self, image: Tensor, mask: Tensor) -> Tensor:
        seen = 1 - mask
        mean = (image * seen).sum(dim=[2, 3], keepdim=True) / seen.sum(dim=[2, 3], keepdim=True)
        return image * seen + mean * mask


@pytest.fixture
def half() -> tuple[np.ndarray, Mask]:
    image = np.full((37, 50, 3), (40, 80, 160), np.uint8)
    mask = np.zeros((37, 50), dtype=bool)
    mask[10:20, 10:30] = True
    image[mask] = 255
    return image, mask


def _filled(painter: Inpainter, half: tuple[np.ndarray, Mask]) -> None:
    image, mask = half
    painter = pickle.loads(pickle.dumps(painter))
    filled = painter.fill(image, mask)
    assert np.abs(filled[mask].astype(int) - (40, 80, 160)).max() <= 1
    assert np.array_equal(filled[~mask], image[~mask])


@pytest.mark.parametrize("fixed", [False, True])
def test_an_onnx_network_paints(tmp_path: Path, half: tuple[np.ndarray, Mask], fixed: bool) -> None:
    onnx = pytest.importorskip("onnx")
    size = (64, 64) if fixed else ("height", "width")
    make, number = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        make.make_node("Sub", ["one", "mask"], ["seen"]),
        make.make_node("Mul", ["image", "seen"], ["shown"]),
        make.make_node("ReduceSum", ["shown", "axes"], ["total"], keepdims=1),
        make.make_node("ReduceSum", ["seen", "axes"], ["count"], keepdims=1),
        make.make_node("Div", ["total", "count"], ["mean"]),
        make.make_node("Mul", ["mean", "mask"], ["paint"]),
        make.make_node("Add", ["shown", "paint"], ["sum"]),
        make.make_node("Mul", ["sum", "bytes"], ["output"]),
    ]
    inputs = [
        make.make_tensor_value_info(name, number, [1, channels, *size])
        for name, channels in (("image", 3), ("mask", 1))
    ]
    outputs = [make.make_tensor_value_info("output", number, [1, 3, *size])]
    constants = [
        make.make_tensor("one", number, [1], [1.0]),
        make.make_tensor("bytes", number, [1], [255.0]),
        make.make_tensor("axes", onnx.TensorProto.INT64, [2], [2, 3]),
    ]
    graph = make.make_graph(nodes, "lama", inputs, outputs, constants)
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "lama.onnx")
    _filled(inpainter(f"lama:{tmp_path / 'lama.onnx'}"), half)


def test_unknown_methods_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="telea"):
        inpainter("tela")
    with pytest.raises(StorageError, match=r"no\.onnx"):
        inpainter(f"lama:{tmp_path / 'no.onnx'}")
    for name, content in (("a.onnx", b"nothing"), ("b.onnx", b"PK\x03\x04nothing")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ModelError, match="not an ONNX file"):
            inpainter(f"lama:{tmp_path / name}")
