"""Scenes from Cityscapes and from class masks, where the numbers in a picture say what is there."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from fairprobe.errors import DataError, SettingError, StorageError
from fairprobe.scenes.scene import Scenes
from fairprobe.scenes.sources import open_scenes
from tests.helpers import assets
from tests.scenes import test_sources
from tests.scenes.test_sources import said

HEIGHT, WIDTH = 40, 60
ROAD, PAVEMENT, LIGHT, SKY, PERSON, CAR = 7, 8, 19, 23, 24, 26
ROADS = frozenset({"road"})


def save(path: Path, pixels: npt.NDArray[Any] = np.full((40, 60, 3), 90, dtype=np.uint8)) -> Path:  # noqa: B008
    return test_sources.save(path, pixels)


# -- Cityscapes ------------------------------------------------------------------------------------


def street() -> npt.NDArray[np.uint16]:
    """Sky over road, two cars that touch, a person, a group of persons, and two traffic lights of
    ten by ten, one a speck.
    """
    numbers = np.full((HEIGHT, WIDTH), SKY, dtype=np.uint16)
    numbers[20:] = ROAD
    numbers[20:30, 0:10], numbers[20:30, 10:20] = CAR * 1000, CAR * 1000 + 1
    numbers[18:35, 30:36] = PERSON * 1000
    numbers[18:35, 40:50] = PERSON  # a group
    numbers[0:10, 0:10] = numbers[0:10, 20:30] = LIGHT
    numbers[0, 50] = LIGHT
    numbers[39] = 1  # the car that the camera is in
    return numbers


def cityscapes(folder: Path, annotation: str) -> Path:
    save(folder / "leftImg8bit" / "val" / "ulm" / "ulm_0_leftImg8bit.png")
    path = folder / "gtFine" / "val" / "ulm" / f"ulm_0_gtFine_{annotation}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_instance_maps_of_cityscapes_tell_objects_apart_and_leave_groups_out(
    tmp_path: Path,
) -> None:
    save(cityscapes(tmp_path, "instanceIds.png"), street())
    scenes = open_scenes(tmp_path / "leftImg8bit", tmp_path / "gtFine")
    scene = pickle.loads(pickle.dumps(scenes)).read("ulm_0")
    assert scene.counts() == {"car": 2, "person": 1, "traffic light": 2}
    assert sorted(item.box for item in scene.of("car")) == [(0, 20, 10, 30), (10, 20, 20, 30)]
    assert scene.stuff_names == ("unknown", "road", "sky")
    assert scene.ground(ROADS).sum() == 19 * WIDTH - 2 * 100 - 15 * 6 - 15 * 10
    assert not scene.ground(ROADS)[39].any()


def test_label_maps_of_cityscapes_make_one_object_of_what_touches(tmp_path: Path) -> None:
    numbers = street()
    labels = np.where(numbers >= 1000, numbers // 1000, numbers)
    save(cityscapes(tmp_path, "labelIds.png"), labels.astype(np.uint8))
    scene = open_scenes(tmp_path / "leftImg8bit", tmp_path / "gtFine").read("ulm_0")
    assert scene.counts() == {"car": 1, "person": 2, "traffic light": 2}


def test_polygons_of_cityscapes_are_drawn_one_over_the_other(tmp_path: Path) -> None:
    def box(label: str, *sides: int, **more: Any) -> dict[str, Any]:
        left, top, right, bottom = sides
        corners = [[left, top], [right, top], [right, bottom], [left, bottom]]
        return {"label": label, "polygon": corners, **more}

    objects = [
        box("road", 0, 20, 59, 39),
        box("car", 0, 20, 19, 29),
        box("car", 10, 22, 29, 33),  # before the first
        box("license plate", 12, 30, 14, 31),
        box("persongroup", 40, 20, 49, 30),
        box("sky", 0, 0, 59, 19, deleted=1),
        box("dragon", 0, 0, 9, 9),
        {"label": "car", "polygon": [[1, 1], [2, 2]]},
        {"label": "car", "polygon": [[1, "a"], [2, 2], [3, 3]]},
        {"polygon": []},
    ]
    path = cityscapes(tmp_path, "polygons.json")
    path.write_text(json.dumps({"imgHeight": HEIGHT, "imgWidth": WIDTH, "objects": objects}))
    scenes = open_scenes(tmp_path / "leftImg8bit", tmp_path / "gtFine")
    scene = scenes.read("ulm_0")
    assert [(item.label, item.box, int(item.mask.sum())) for item in scene.instances] == [
        ("car", (0, 20, 20, 30), 200 - 10 * 8),
        ("car", (10, 22, 30, 34), 240),
    ]
    assert scene.ground(ROADS).sum() == 1200 - 120 - 240 - 110
    for words in (
        "is a group",
        "'dragon'",
        "fewer than 3 points",
        "2 times: has no label or no list of points",
    ):
        assert said(scenes, words), words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"objects": [', "not complete JSON"),
        ("[]", "not a Cityscapes annotation"),
        ('{"objects": []}', "imgHeight"),
        ('{"objects": [], "imgHeight": 2, "imgWidth": 2}', "another size"),
    ],
)
def test_bad_polygons_of_cityscapes_are_reported_and_the_other_pictures_count(
    tmp_path: Path, text: str, words: str
) -> None:
    save(cityscapes(tmp_path, "instanceIds.png"), street())
    for city in ("bonn", "kiel"):
        save(tmp_path / "leftImg8bit" / f"{city}_leftImg8bit.png")
    (tmp_path / "gtFine" / "bonn_gtFine_polygons.json").write_text(text)
    save(tmp_path / "gtFine" / "gone_gtFine_labelIds.png", street())
    scenes = open_scenes(tmp_path / "leftImg8bit", tmp_path / "gtFine", kind="cityscapes")
    assert scenes.names == ("ulm_0",)
    assert said(scenes, words)
    assert said(scenes, "kiel_leftImg8bit.png has no annotation")
    assert said(scenes, "gone is annotated, but there is no such picture")


# -- class masks -----------------------------------------------------------------------------------


def masked(
    folder: Path, numbers: npt.NDArray[Any], names: object = None, name: str = "a"
) -> Scenes:
    """Scenes with one picture and its class mask; `names` becomes a names file."""
    save(folder / "images" / f"{name}.jpg")
    save(folder / "masks" / f"{name}.png", numbers)
    if isinstance(names, str):
        (folder / "names.txt").write_text(names)
    elif names is not None:
        (folder / "names.json").write_text(json.dumps(names))
    path = {str: folder / "names.txt", type(None): None}.get(type(names), folder / "names.json")
    return open_scenes(folder / "images", folder / "masks", names=path)


def blocks() -> npt.NDArray[np.uint8]:
    numbers = np.full((HEIGHT, WIDTH), 3, dtype=np.uint8)  # road
    numbers[0:10, 0:10] = numbers[20:30, 20:30] = 8  # two cars
    numbers[5:15, 40:45] = 6  # a sign of fifty pixels
    numbers[39, 0:49] = 9  # forty-nine pixels of a person
    return numbers


def test_what_hangs_together_is_an_object_and_specks_are_not(tmp_path: Path) -> None:
    scenes = masked(tmp_path, blocks())
    scene = scenes.read("a")
    assert scene.counts() == {"car": 2}
    assert scene.stuff_names == ("unknown", "road", "sign")
    assert said(scenes, "read as CamVid's")
    assert said(scenes, "No mask has an object of: bicycle")
    assert not scene.ground(ROADS)[39, :49].any()  # a speck is no ground either


def test_a_names_file_says_what_is_an_object_and_how_small_it_may_be(tmp_path: Path) -> None:
    names = {
        "3": "Sidewalk",
        "6": "traffic sign",
        "8": "car",
        "9": "pedestrian",
        "objects": ["traffic sign", "pedestrian"],
        "least_pixels": 49,
    }
    scenes = masked(tmp_path, blocks(), names)
    assert scenes.read("a").counts() == {"sign": 1, "person": 1}
    assert scenes.read("a").stuff_names == ("unknown", "pavement", "car")
    assert scenes.messages == ()


def test_a_text_file_names_one_class_a_line(tmp_path: Path) -> None:
    scenes = masked(tmp_path, blocks(), "\n\n\nroad\n\n\n\n\nbus\n")
    assert scenes.read("a").counts() == {"bus": 2}
    assert said(scenes, "without a name count as unknown: 6, 9.")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"8": "car", "objects": ["cat"]}, "calls 'cat' an object, but names no such class"),
        ({"8": "car", "objects": "car"}, "objects is a list of names"),
        ({"8": "car", "object": ["car"]}, "Did you mean 'objects'"),
        ({"8": 3}, "Expected a name for each number"),
        ({"8": "car", "least_pixels": 0}, "at least 1"),
        ({"8": "car", "instances_of": "person"}, "stands alone"),
        (["car"], "must hold a JSON object"),
    ],
)
def test_a_bad_names_file_is_refused_in_words(tmp_path: Path, names: object, words: str) -> None:
    with pytest.raises((DataError, SettingError), match=words):
        masked(tmp_path, blocks(), names)


def test_masks_that_cannot_be_used_are_reported_and_the_others_count(tmp_path: Path) -> None:
    for name in ("alone", "small", "broken", "colored", "cut"):
        save(tmp_path / "images" / f"{name}.png")
    masks = tmp_path / "masks"
    save(masks / "small.png", blocks()[:9])
    save(masks / "colored.png", np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8))
    save(masks / "unpaired.png", blocks())
    (masks / "broken.png").write_bytes(b"nothing")
    cut = save(
        masks / "cut.png", np.random.default_rng(0).integers(0, 9, (HEIGHT, WIDTH), dtype=np.uint8)
    )
    cut.write_bytes(cut.read_bytes()[:300])
    scenes = masked(tmp_path, blocks())
    assert scenes.names == ("a",)
    for words in (
        "alone.png has no mask",
        "small.png is a mask of another size",
        "broken.png cannot be read as a mask",
        "colored.png has colors",
        "cut.png cannot be read",
        "unpaired.png is a mask, but there is no such picture",
    ):
        assert said(scenes, words), words


def test_when_nothing_can_be_used_that_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No scene could be made .* another size"):
        masked(tmp_path, blocks()[:9])


def test_sixteen_bit_and_indexed_masks_are_read_by_their_numbers(tmp_path: Path) -> None:
    wanted = masked(tmp_path, blocks()).read("a")
    assert masked(tmp_path, blocks().astype(np.uint16)).read("a").counts() == wanted.counts()
    indexed = Image.fromarray(blocks())
    indexed.putpalette(
        [value for at in range(256) for value in (at * 7 % 256, at * 3 % 256, 255 - at)]
    )
    indexed.save(tmp_path / "masks" / "a.png")
    assert (
        open_scenes(tmp_path / "images", tmp_path / "masks").read("a").counts() == wanted.counts()
    )


def test_the_real_instance_mask_of_pennfudan_has_three_persons(tmp_path: Path) -> None:
    names = tmp_path / "names.json"
    names.write_text('{"instances_of": "pedestrian"}')
    sample = assets() / "vision" / "pennfudan_sample"
    scenes = open_scenes(sample, sample, names=names)
    assert scenes.names == ("FudanPed00054",)
    assert scenes.messages == ()
    scene = scenes.read("FudanPed00054")
    numbers = np.asarray(Image.open(sample / "FudanPed00054_mask.png"))
    assert scene.counts() == {"person": 3}
    assert all(
        np.array_equal(item.whole(scene.size), numbers == at)
        for at, item in enumerate(scene.instances, start=1)
    )


def test_the_real_camvid_scenes_cover_their_masks() -> None:
    camvid = assets() / "vision" / "camvid"
    scenes = open_scenes(camvid / "images", camvid / "masks")
    assert len(scenes) == 39
    counts: Counter[str] = Counter()
    for scene in scenes:
        numbers = np.asarray(Image.open(camvid / "masks" / f"{scene.name}.png"))
        assert np.array_equal(scene.ground(ROADS), numbers == 3)
        assert np.array_equal(np.array(scene.stuff_names)[scene.stuff] == "pavement", numbers == 4)
        for label, number in (("car", 8), ("person", 9), ("bicycle", 10)):
            covered = np.zeros(scene.size, dtype=bool)
            for item in scene.of(label):
                assert item.mask.sum() >= 50
                assert not (covered & item.whole(scene.size)).any()
                covered |= item.whole(scene.size)
            assert not (covered & (numbers != number)).any()
        counts += scene.counts()
    assert counts == {"car": 68, "person": 114, "bicycle": 12}


# -- which kind ------------------------------------------------------------------------------------


def test_what_is_not_there_or_not_known_is_refused_in_words(tmp_path: Path) -> None:
    save(tmp_path / "images" / "a.png")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(StorageError, match="There are no annotations at"):
        open_scenes(tmp_path / "images", tmp_path / "nowhere")
    with pytest.raises(DataError, match="no annotations in a known format"):
        open_scenes(tmp_path / "images", empty)
    with pytest.raises(SettingError, match="Did you mean 'masks'"):
        open_scenes(tmp_path / "images", empty, kind="mask")  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="There is no folder"):
        open_scenes(tmp_path / "nothing", empty, kind="masks")
    save(tmp_path / "masks" / "a.png", blocks())
    with pytest.raises(StorageError, match=r"empty has no pictures\. Expected files that end in"):
        open_scenes(empty, tmp_path / "masks")
    (tmp_path / "a.json").write_text('{"images": [], "annotations": [], "categories": []}')
    with pytest.raises(SettingError, match="Names are for class masks"):
        open_scenes(tmp_path / "images", tmp_path / "a.json", names=tmp_path / "names.json")
    with pytest.raises(SettingError, match="Names are for class masks"):
        open_scenes(tmp_path / "images", empty, kind="cityscapes", names=tmp_path / "names.json")
