"""Exported mutants: what their annotations say is what their pixels show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fairprobe.scenes.analysis import inducing_tests
from fairprobe.scenes.audit import (
    ANNOTATIONS,
    PICTURES,
    SceneAudit,
    audit_scenes,
    instances_after,
    write_coco,
)
from fairprobe.scenes.demo import drawn_detector
from fairprobe.scenes.scene import Instance, Mutant, Scene
from fairprobe.scenes.sources import open_scenes
from tools.streets.drawn import DrawnScenes

STREETS = {one.name: one for one in DrawnScenes(3, seed=31)}
OWN = {"person": (17, "Pedestrian"), "car": (3, "Car")}


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> SceneAudit:
    """Of a COCO file with names and numbers of its own."""
    folder = tmp_path_factory.mktemp("streets")
    (folder / PICTURES).mkdir()
    entries: list[tuple[dict[str, Any], tuple[int, int], tuple[Instance, ...]]] = []
    for name, one in STREETS.items():
        Image.fromarray(one.image).save(folder / PICTURES / f"{name}.png")
        road, path = (
            Instance.of(kind, one.stuff == one.stuff_names.index(kind))
            for kind in ("road", "pavement")
        )
        entries.append(({"file_name": f"{name}.png"}, one.size, (road, path, *one.instances)))
    annotations = write_coco(folder, entries, OWN)
    return audit_scenes(
        open_scenes(folder / PICTURES, annotations),
        [drawn_detector()],
        classes=("person", "car"),
        repeats=1,
        inpainting="ns",
        folder=folder / "run",
    )


def test_classes_keep_their_numbers_and_names_so_that_both_files_can_be_joined(
    audit: SceneAudit, tmp_path: Path
) -> None:
    document = json.loads(audit.export_coco(tmp_path / "export").read_text())
    names = {one["id"]: one["name"] for one in document["categories"]}
    assert names[17] == "Pedestrian"
    assert names[3] == "Car"
    assert len(names) == len(document["categories"])  # no number twice
    assert {one["category_id"] for one in document["annotations"]} <= {*names}


def test_each_picture_says_what_was_done_to_which_scene(audit: SceneAudit, tmp_path: Path) -> None:
    document = json.loads(audit.export_coco(tmp_path / "export").read_text())
    done = {(one["scene"], one["mutation"], one["mutated_class"]) for one in document["images"]}
    assert done == {
        (task.scene, task.operator, task.label)
        for task in audit.evidence.made
        if task.kind == "ood"
    }


def test_each_picture_names_the_recognizers_that_it_makes_err(
    audit: SceneAudit, tmp_path: Path
) -> None:
    document = json.loads(audit.export_coco(tmp_path / "export").read_text())
    marked = {one["file_name"]: one["error_inducing"] for one in document["images"]}
    (name,) = {test.detector for test in audit.tests}
    paths = {
        str(made.path.relative_to(audit.evidence.folder)): made.task.file.replace("/", "-")
        for made in audit.evidence.made.values()
    }
    expected = {
        paths[test.image]
        for one in audit.run.unusual()
        for test in inducing_tests(one, audit.tests)
    }
    assert {file for file, names in marked.items() if names == [name]} == expected
    assert {file for file, names in marked.items() if not names} == {*marked} - expected
    assert 0 < len(expected) < len(marked)


def test_masks_lie_on_the_objects_that_the_pictures_show(audit: SceneAudit, tmp_path: Path) -> None:
    """Pixels of objects that were there before are as they were, those of new objects are not."""
    path = audit.export_coco(tmp_path / "export")
    entries = {one["file_name"]: one for one in json.loads(path.read_text())["images"]}
    seen = set()
    for mutant in open_scenes(path.parent / PICTURES, path):
        entry = entries[f"{mutant.name.removesuffix('.png')}.png"]
        street = STREETS[entry["scene"].removesuffix(".png")]
        is_same = (mutant.image == street.image).all(axis=2)
        seen.add(entry["mutation"])
        for one in mutant.instances:
            unchanged = is_same[one.whole(mutant.size)].mean()
            if _was_there(one, street):
                assert unchanged > 0.9, (entry, one.label, one.box)
            else:
                assert one.label == entry["mutated_class"]
                assert unchanged < 0.5, (entry, one.label, one.box)
        if entry["mutation"] == "delete":
            for one in street.of(entry["mutated_class"]):
                assert is_same[one.whole(street.size)].mean() < 0.2, entry
    assert seen == {"insert", "delete", "rotate"}


def _was_there(one: Instance, street: Scene) -> bool:
    """Whether the mask lies within that of an object of the original."""
    mask = one.whole(street.size)
    return any(
        other.label == one.label and not (mask & ~other.whole(street.size)).any()
        for other in street.instances
    )


def test_an_object_that_was_hidden_before_is_not_annotated() -> None:
    image = np.zeros((20, 20, 3), dtype=np.uint8)
    hidden = Instance("dog", (2, 2, 6, 6), np.zeros((4, 4), dtype=bool))
    shown = Instance("car", (8, 8, 12, 12), np.ones((4, 4), dtype=bool))
    scene = Scene(
        "street", image, (hidden, shown), np.zeros((20, 20), dtype=np.uint8), ("unknown",)
    )
    after = instances_after(scene, Mutant("street", "delete", "cat", image, 0, ()))
    assert [one.label for one in after] == ["car"]


def test_a_class_without_a_number_in_the_file_gets_one_that_is_free(tmp_path: Path) -> None:
    dog = Instance("dog", (0, 0, 6, 6), np.ones((6, 6), dtype=bool))
    entries = [({"file_name": "one.png"}, (20, 20), (dog,))]
    document = json.loads(write_coco(tmp_path, entries, OWN).read_text())
    assert document["categories"] == [
        {"id": 17, "name": "Pedestrian"},
        {"id": 3, "name": "Car"},
        {"id": 18, "name": "dog"},
    ]
    assert (tmp_path / ANNOTATIONS).exists()
