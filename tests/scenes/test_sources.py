"""Scenes from COCO, Cityscapes and class masks: masks worked out by hand, real samples against each
other, and whatever can be wrong.
"""

from __future__ import annotations

import json
import math
import pickle
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image
from skimage.draw import polygon2mask

from fairprobe.arrays import Mask
from fairprobe.errors import DataError, SettingError
from fairprobe.scenes.geometry import angular_distance, components, orientation
from fairprobe.scenes.labels import GROUND, NAMES, common, is_stuff
from fairprobe.scenes.scene import Scene, Scenes
from fairprobe.scenes.sources import open_scenes
from fairprobe.scenes.sources.coco import DamagedError, mask_of, polygon, run_lengths, unpack
from tests.helpers import assets

pycocotools: Any = import_module("pycocotools.mask")

HEIGHT, WIDTH = 12, 16
NO_RECORD = "no record"
SQUARE = [[2, 3, 6, 3, 6, 9, 2, 9]]  # columns 2 … 5, rows 3 … 8


# -- what the tests draw ---------------------------------------------------------------------------


def save(path: Path, pixels: npt.NDArray[Any] | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(
        np.full((HEIGHT, WIDTH, 3), 90, dtype=np.uint8) if pixels is None else pixels
    ).save(path)
    return path


def coco(folder: Path, annotations: list[Any], **changes: Any) -> Scenes:
    """Scenes of one picture, a.png, with these annotations; `changes` replace other parts of the
    file.
    """
    save(folder / "images" / "a.png")
    document: dict[str, Any] = {
        "images": [{"id": 1, "file_name": "a.png", "height": HEIGHT, "width": WIDTH}],
        "categories": [{"id": 1, "name": "Pedestrian"}, {"id": 2, "name": "road"}],
        "annotations": [
            {"id": at, "image_id": 1, "category_id": 1, **entry} if entry != NO_RECORD else entry
            for at, entry in enumerate(annotations)
        ],
    }
    (folder / "a.json").write_text(json.dumps({**document, **changes}))
    return open_scenes(folder / "images", folder / "a.json")


def said(scenes: Scenes, words: str) -> bool:
    return any(words in message for message in scenes.messages)


def same(first: Scene, second: Scene) -> bool:
    """Whether two scenes have the same objects, in whatever order, and the same ground."""

    def objects(scene: Scene) -> set[tuple[str, tuple[int, ...], bytes]]:
        return {(item.label, item.box, item.mask.tobytes()) for item in scene.instances}

    grounds = [np.array(scene.stuff_names)[scene.stuff] for scene in (first, second)]
    return (
        objects(first) == objects(second)
        and bool((grounds[0] == grounds[1]).all())
        and np.array_equal(first.image, second.image)
    )


# -- geometry --------------------------------------------------------------------------------------


def turned(degrees: float, half_length: float, half_width: float, *, is_ellipse: bool) -> Mask:
    """A rectangle or ellipse whose long side stands at an angle, anticlockwise from the row."""
    rows, columns = np.mgrid[0:201, 0:201]
    right, up = columns - 100.0, 100.0 - rows
    angle = math.radians(degrees)
    along, across = (
        right * math.cos(angle) + up * math.sin(angle),
        up * math.cos(angle) - right * math.sin(angle),
    )
    if is_ellipse:
        return np.asarray((along / half_length) ** 2 + (across / half_width) ** 2 <= 1)
    return np.asarray((abs(along) <= half_length) & (abs(across) <= half_width))


@pytest.mark.parametrize("is_ellipse", [True, False])
@given(degrees=st.floats(0, 179.99), length=st.integers(40, 90), width=st.integers(4, 20))
def test_a_drawn_shape_has_the_orientation_that_it_was_drawn_at(
    is_ellipse: bool, degrees: float, length: int, width: int
) -> None:
    found = orientation(turned(degrees, length, width, is_ellipse=is_ellipse))
    assert 0 <= found < 180
    assert angular_distance(found, degrees) < 1


def test_upright_is_90_degrees_and_lying_is_0() -> None:
    assert orientation(np.ones((20, 3), dtype=bool)) == 90
    assert orientation(np.ones((3, 20), dtype=bool)) == 0
    from_below_left = np.eye(9, dtype=bool)[::-1]
    assert orientation(from_below_left) == pytest.approx(45)


@pytest.mark.parametrize(
    "mask", [np.zeros((5, 5), dtype=bool), np.ones((7, 7), dtype=bool), np.ones((1, 1), dtype=bool)]
)
def test_what_has_no_direction_lies(mask: Mask) -> None:
    assert orientation(mask) == 0


@given(arrays.arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 12))))
def test_orientation_is_an_axis_and_mirrors_with_the_mask(mask: Mask) -> None:
    found = orientation(mask)
    assert 0 <= found < 180
    assert angular_distance(orientation(mask[::-1, ::-1]), found) < 1e-6  # half a turn
    assert angular_distance(orientation(mask[:, ::-1]), 180 - found if found else 0) < 1e-6


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [(0, 0, 0), (10, 170, 20), (0, 90, 90), (0, 179, 1), (30, 75, 45), (-10, 350, 0)],
)
def test_axes_are_at_most_90_degrees_apart(first: float, second: float, apart: float) -> None:
    assert angular_distance(first, second) == angular_distance(second, first) == apart


def test_parts_that_meet_at_a_corner_are_one_and_specks_are_none() -> None:
    mask = np.zeros((6, 8), dtype=bool)
    mask[0:2, 0:2] = mask[2:4, 2:4] = True  # corner to corner: 8 pixels
    mask[5, 7] = True
    assert components(mask)[1] == 2
    numbers, count = components(mask, 2)
    assert count == 1
    assert np.array_equal(numbers == 1, mask & (np.arange(8) < 7))
    assert components(np.zeros((3, 3), dtype=bool))[1] == 0


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Person", "person"),
        ("pedestrian", "person"),
        ("Bicyclist", "bicycle"),
        ("traffic_light", "traffic light"),
        ("road, route", "road"),
        ("minibike, motorbike", "motorcycle"),
        ("sidewalk, pavement", "pavement"),
        ("earth, ground", "earth"),
        ("pavement-merged", "pavement"),
        ("dirt-merged", "earth"),
        ("floor-wood", "floor"),
        ("floor-other-merged", "floor"),
        ("grass-merged", "grass"),
        ("playingfield", "grass"),
        ("terrain", "earth"),
        ("sky-other-merged", "sky"),
        ("unlabelled", "unknown"),
        ("Taxi", "taxi"),
        ("unheard of", "unheard of"),
    ],
)
def test_names_of_all_sources_become_one(name: str, label: str) -> None:
    assert common(name) == label


def test_a_common_name_stays_as_it_is() -> None:
    assert [common(name) for name in NAMES.values()] == list(NAMES.values())
    assert all(common(name) == name and is_stuff(name) for name in GROUND)


# -- masks in JSON ---------------------------------------------------------------------------------


def test_an_outline_covers_the_pixels_whose_center_is_inside() -> None:
    def covered(*points: float) -> Mask:
        return mask_of([list(points)], (HEIGHT, WIDTH))

    wanted = np.zeros((HEIGHT, WIDTH), dtype=bool)
    wanted[3:9, 2:6] = True
    assert np.array_equal(mask_of(SQUARE, (HEIGHT, WIDTH)), wanted)
    columns, rows = 2, 4  # 3 and 4; 4 … 7
    assert covered(2.6, 3.6, 5.4, 3.6, 5.4, 8.4, 2.6, 8.4).sum() == columns * rows
    assert not covered(2.1, 2.1, 2.2, 2.1, 2.2, 2.2).any()  # between the centers
    assert covered(-9, -9, 99, -9, 99, 99, -9, 99).all()  # beyond every edge


# Irrational coordinates, so that no edge runs through the center of a pixel, on which two libraries
# may disagree.
corner = st.tuples(
    st.integers(-3, 25).map(lambda x: x + math.sqrt(2) / 10),
    st.integers(-3, 25).map(lambda y: y + math.pi / 10),
)
corners = st.lists(corner, min_size=3, max_size=9)


@given(corners)
def test_outlines_agree_with_an_independent_library(points: list[tuple[float, float]]) -> None:
    ours = polygon(np.array(points), (20, 24))
    theirs = polygon2mask((20, 24), np.array(points)[:, ::-1] - 0.5)  # type: ignore[no-untyped-call]
    assert np.array_equal(ours, theirs)


@given(arrays.arrays(np.bool_, st.tuples(st.integers(1, 9), st.integers(1, 70))))
def test_run_lengths_and_the_packed_text_of_cocos_own_library_give_the_mask_back(
    mask: Mask,
) -> None:
    flat = mask.T.ravel()
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flat])))
    counts = np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()
    packed = pycocotools.encode(np.asfortranarray(mask, dtype=np.uint8))["counts"].decode()
    assert unpack(packed).tolist() == counts
    for written in (counts, packed):
        segmentation = {"counts": written, "size": list(mask.shape)}
        assert np.array_equal(mask_of(segmentation, mask.shape), mask)


@given(st.text(max_size=12))
def test_any_text_is_run_lengths_or_refused_in_words(text: str) -> None:
    with suppress(DamagedError):
        assert run_lengths({"counts": text, "size": [5, 5]}, (5, 5)).sum() == 25


# -- COCO ------------------------------------------------------------------------------------------


def test_coco_objects_have_names_boxes_and_masks_and_crowds_are_left_out(tmp_path: Path) -> None:
    runs = {"counts": [0, HEIGHT * 2, HEIGHT * (WIDTH - 2)], "size": [HEIGHT, WIDTH]}
    road = {"category_id": 2, "segmentation": [[0, 9, WIDTH, 9, WIDTH, HEIGHT, 0, HEIGHT]]}
    scenes = coco(
        tmp_path,
        [
            {"segmentation": SQUARE},
            {"segmentation": runs},
            {"segmentation": runs, "iscrowd": 1},
            road,
        ],
    )
    scene = pickle.loads(pickle.dumps(scenes)).read("a")
    assert [(item.label, item.box) for item in scene.instances] == [
        ("person", (2, 3, 6, 9)),
        ("person", (0, 0, 2, HEIGHT)),
    ]
    assert scene.stuff_names == ("unknown", "road")
    # The second person stands before it.
    assert scene.ground(frozenset({"road"})).sum() == 3 * (WIDTH - 2)
    assert scenes.messages == ("annotation 2 of a is a crowd, not one object, and is left out.",)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        ({"segmentation": [[1, 1, 5, 5]]}, "fewer than 3 points"),
        ({"segmentation": [[1, 1, 5, 5, 9, 1, 3]]}, "an x without its y"),
        ({"segmentation": [["a"] * 8]}, "not a list of numbers"),
        ({"segmentation": [[float("nan")] * 8]}, "not a list of numbers"),
        ({"segmentation": []}, "has no mask"),
        ({}, "neither an outline nor run lengths"),
        ({"segmentation": {"counts": [5, 5], "size": [HEIGHT, WIDTH]}}, "do not add up"),
        (
            {"segmentation": {"counts": [-5, 5 + HEIGHT * WIDTH], "size": [HEIGHT, WIDTH]}},
            "do not add up",
        ),
        (
            {"segmentation": {"counts": [True], "size": [HEIGHT, WIDTH]}},
            "neither whole numbers nor a text",
        ),
        ({"segmentation": {"counts": "~~~", "size": [HEIGHT, WIDTH]}}, "damaged"),
        ({"segmentation": {"counts": [4], "size": [2, 2]}}, "another size"),
        ({"segmentation": SQUARE, "category_id": 77}, "category 77, which has no name"),
        ({"segmentation": SQUARE, "category_id": [1]}, "which has no name"),
        ({"segmentation": SQUARE, "image_id": 9}, "picture that the file does not list"),
    ],
)
def test_a_bad_annotation_is_reported_and_the_others_count(
    tmp_path: Path, annotation: dict[str, Any], words: str
) -> None:
    scenes = coco(tmp_path, [annotation, NO_RECORD, {"segmentation": SQUARE}])
    assert said(scenes, words), scenes.messages
    assert scenes.read("a").counts() == {"person": 1}


def test_pictures_that_cannot_be_used_are_reported_and_the_others_count(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    for name in ("alone.png", "large.png", "x/twice.png"):
        save(folder / name)
    (folder / "broken.png").write_bytes(b"\x89PNG not really")
    named = ("a.png", "gone.png", "broken.png", "../../a.png", "x/twice.png")
    images: list[dict[str, Any]] = [
        {"id": at, "file_name": name} for at, name in enumerate(named, 1)
    ]
    images += [{"id": 9, "file_name": "large.png", "height": 999, "width": 2}]
    images += [{"file_name": "b.png"}]
    scenes = coco(tmp_path, [{"segmentation": SQUARE}], images=images)
    assert scenes.names == ("a", "twice")
    for words in (
        "gone.png is annotated, but there is no such picture",
        "broken.png cannot be read as a picture",
        "large.png is not as large as its annotation says",
        "alone.png has no annotation",
        "is listed without an id",
        "../../a.png is listed twice",
        "twice is listed with nothing annotated in it",
        "No ground",
    ):
        assert said(scenes, words), words


def test_an_empty_class_is_reported(tmp_path: Path) -> None:
    categories = [{"id": 1, "name": "person"}, {"id": 2, "name": "truck"}]
    assert said(
        coco(tmp_path, [{"segmentation": SQUARE}], categories=categories),
        "Nothing is annotated for 1 of the classes: truck.",
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"images": [', "not complete JSON"),
        ("", "not complete JSON"),
        ("[" * 100_000, "not complete JSON"),
        ("[1, 2]", "not a COCO annotation file"),
        ('{"images": [], "annotations": {}}', "not a COCO annotation file"),
        ('{"images": [], "annotations": [], "categories": []}', "No scene could be made"),
    ],
)
def test_a_file_that_is_not_coco_is_refused_in_words(tmp_path: Path, text: str, words: str) -> None:
    save(tmp_path / "images" / "a.png")
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=words):
        open_scenes(tmp_path / "images", tmp_path / "a.json")


def test_pictures_of_the_same_name_in_two_folders_are_two_scenes(tmp_path: Path) -> None:
    for folder in "xy":
        save(tmp_path / "images" / folder / "1.png")
    images = [{"id": at, "file_name": f"{folder}/1.png"} for at, folder in enumerate("xy", start=1)]
    scenes = coco(tmp_path, [{"segmentation": SQUARE}], images=images)
    assert [scenes.read(name).counts()["person"] for name in scenes.names] == [1, 0]
    assert scenes.names == ("1", "y_1.png")


def test_a_picture_that_is_cut_off_is_named_when_it_is_read(tmp_path: Path) -> None:
    scenes = coco(tmp_path, [{"segmentation": SQUARE}])
    noise = np.random.default_rng(0).integers(0, 255, (HEIGHT, WIDTH, 3), dtype=np.uint8)
    path = save(tmp_path / "images" / "a.png", noise)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"a\.png cannot be read as a picture"):
        scenes.read("a")


def test_a_picture_that_would_fill_the_memory_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    with pytest.raises(DataError, match=r"a\.png cannot be read as a picture"):
        coco(tmp_path, [{"segmentation": SQUARE}])


# -- COCO panoptic ---------------------------------------------------------------------------------


def test_the_real_panoptic_sample_says_the_same_as_maps_and_as_run_lengths() -> None:
    sample = assets() / "vision" / "coco_panoptic_sample"
    maps = open_scenes(sample / "input_images", sample / "panoptic_examples.json")
    runs = open_scenes(sample / "input_images", sample / "panoptic_coco_detection_format.json")
    assert maps.names == runs.names == ("000000142238", "000000439180")
    assert all(same(maps.read(name), runs.read(name)) for name in maps.names)
    for entry in json.loads((sample / "panoptic_examples.json").read_text())["annotations"]:
        scene = maps.read(Path(entry["file_name"]).stem)
        expected = {
            (*info["bbox"], info["area"])
            for info in entry["segments_info"]
            if info["category_id"] < 92 and not info["iscrowd"]
        }
        assert expected == {
            (left, top, right - left, bottom - top, int(item.mask.sum()))
            for item in scene.instances
            for left, top, right, bottom in [item.box]
        }
    assert said(maps, "3 times: is a crowd")
    assert maps.read("000000439180").counts() == {"person": 13, "horse": 11, "truck": 2}
    assert maps.read("000000439180").stuff_names == ("unknown", "tree", "grass", "sky", "earth")


def test_what_is_wrong_with_panoptic_maps_is_reported(tmp_path: Path) -> None:
    numbers = np.zeros((HEIGHT, WIDTH, 3), dtype=np.uint8)
    numbers[2:5, 3:9, 1] = 1  # 256
    numbers[6:, :, 2] = 1  # 65536
    for name in ("a", "small", "unmapped", "unannotated"):
        save(tmp_path / "images" / f"{name}.png")
    save(tmp_path / "p" / "a.png", numbers)
    save(tmp_path / "p" / "small.png", numbers[:5])
    segments = [
        {"id": 256, "category_id": 1},
        {"id": 65536, "category_id": 2},
        {"id": 5, "category_id": 9},
        {"id": -1},
        "no record",
    ]
    document = {
        "images": [
            {"id": at, "file_name": f"{name}.png"}
            for at, name in enumerate(["a", "small", "unmapped", "unannotated"])
        ],
        "annotations": [
            {"image_id": at, "file_name": f"{name}.png", "segments_info": segments}
            for at, name in [(0, "a"), (1, "small"), (2, "u"), (8, "v")]
        ],
        "categories": [
            {"id": 1, "name": "car", "isthing": 1},
            {"id": 2, "name": "grass-merged", "isthing": 0},
        ],
    }
    (tmp_path / "p.json").write_text(json.dumps(document))
    scenes = open_scenes(tmp_path / "images", tmp_path)
    assert scenes.names == ("a",)
    for words in (
        "another size",
        "has no map",
        "listed without an annotation",
        "category 9, which has no name",
        "no number that a map can hold",
    ):
        assert said(scenes, words), words
    assert said(scenes, "the map v.png belongs to a picture that the file does not list")
    scene = scenes.read("a")
    assert [(item.label, item.box) for item in scene.instances] == [("car", (3, 2, 9, 5))]
    assert scene.ground(frozenset({"grass"})).sum() == (HEIGHT - 6) * WIDTH
    (tmp_path / "other.json").write_text(json.dumps(document))
    with pytest.raises(SettingError, match="several annotation files"):
        open_scenes(tmp_path / "images", tmp_path)
    with pytest.raises(DataError, match="needs its maps"):
        open_scenes(tmp_path / "images", tmp_path / "other.json")
