"""The pictures that come with the package for `fairprobe audit-scenes demo`."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.runs.store import read_run
from fairprobe.scenes import demo
from fairprobe.scenes.audit import ScenesRun
from fairprobe.scenes.demo import drawn_detector
from fairprobe.scenes.detectors.base import count_labels
from fairprobe.scenes.scene import Instance, Scenes
from fairprobe.scenes.sources import open_scenes
from fairprobe.scenes.sources.coco import CocoScenes
from tools.streets import drawn

ROOT = Path(__file__).parents[2]
DRAWN = drawn.DrawnScenes(demo.COUNT, seed=demo.SEED)


@cache
def packaged() -> Scenes:
    return open_scenes(demo.PICTURES, demo.ANNOTATIONS)


def test_the_tool_makes_the_packaged_files_again(tmp_path: Path) -> None:
    tool = [sys.executable, "-m", "tools.streets"]
    subprocess.run([*tool, str(tmp_path)], check=True, cwd=ROOT)
    assert (tmp_path / "instances.json").read_bytes() == demo.ANNOTATIONS.read_bytes()
    again = open_scenes(tmp_path / "images", tmp_path / "instances.json")
    assert again.names == packaged().names
    for name in again.names:
        assert np.array_equal(again.read(name).image, packaged().read(name).image), name


def test_every_packaged_picture_is_recognized_as_coco_and_used() -> None:
    assert isinstance(packaged(), CocoScenes)
    assert packaged().names == DRAWN.names
    assert packaged().messages == ()


@pytest.mark.parametrize("name", DRAWN.names)
def test_a_packaged_street_is_the_drawn_one_but_for_two_levels_of_brightness(name: str) -> None:
    read, true = packaged().read(name), DRAWN.read(name)
    assert np.abs(read.image.astype(int) - true.image).max() <= 2
    kinds = np.array(read.stuff_names)[read.stuff]
    assert np.array_equal(kinds, np.array(true.stuff_names)[true.stuff])
    assert len(read.instances) == len(true.instances)
    for one, other in zip(read.instances, true.instances, strict=True):
        visible = Instance.of(other.label, other.whole(true.size))  # also the box, as in COCO
        assert (one.label, one.box) == (visible.label, visible.box)
        assert np.array_equal(one.mask, visible.mask)


def test_the_detector_sees_the_same_in_packaged_and_in_drawn_streets() -> None:
    detector, same, either = drawn_detector(), 0, 0
    for name in DRAWN.names:
        first, second = (
            count_labels(detector.detect(source.read(name).image)) for source in (packaged(), DRAWN)
        )
        same, either = same + (first & second).total(), either + (first | second).total()
    assert same >= 0.97 * either


def test_the_packaged_files_take_less_than_a_megabyte() -> None:
    files = [path for path in (demo.FOLDER / "streets").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".webp", ".json"}
    assert sum(path.stat().st_size for path in files) < 1_000_000


def test_the_demo_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "draw_scene", None)
    monkeypatch.setattr(drawn, "_drawn", None)  # which remembers scenes
    words = ["--classes", "truck", "--mutations", "delete", "--set", "inpainting=telea", "--quiet"]
    done = CliRunner().invoke(app, ["audit-scenes", "demo", *words, "--out", str(tmp_path / "run")])
    assert done.exit_code == 3, done.output  # too few trucks to judge them
    document = read_run(tmp_path / "run")
    assert isinstance(document, ScenesRun)
    assert (document.data.name, document.data.scenes) == ("Drawn streets", demo.COUNT)
