"""What an audit of scenes will take: counted beside the audit itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from fairprobe.cli import app
from fairprobe.errors import ModelError
from fairprobe.runs.stages import Stages
from fairprobe.scenes import Detection, Detector
from fairprobe.scenes.audit import audit_scenes
from fairprobe.scenes.detectors.function import FunctionDetector
from fairprobe.scenes.forecast import Forecast, forecast
from fairprobe.scenes.plan import Settings
from fairprobe.scenes.scene import Picture
from tests.toy_scenes import fair, toy_scenes


class Remote(Detector):
    """Costs money, so a forecast must not ask it."""

    name = "remote"
    is_remote = True

    def detect(self, image: Picture) -> tuple[Detection, ...]:
        raise AssertionError("a forecast asks no service")


def test_no_audit_takes_more_than_its_forecast(tmp_path: Path) -> None:
    scenes = toy_scenes(3)
    chosen: dict[str, Any] = {"mutations": ("insert", "delete"), "classes": ("person",)}
    chosen |= {"repeats": 1, "clusters": 1, "inpainting": "telea"}
    settings = Settings(**chosen)
    expected = forecast(scenes, [FunctionDetector(fair, "fair"), Remote()], settings, Stages(None))
    audit = audit_scenes(scenes, [fair], folder=tmp_path, **chosen)
    made = Counter("id" if task.kind == "id" else task.operator for task in audit.evidence.made)
    assert expected.scenes == 3
    assert made["delete"] == expected.mutants["delete"] > 0  # a picture and its control
    asked = expected.scenes + len(audit.tests)
    assert expected.scenes < asked <= expected.requests["fair"]
    assert expected.expected["fair"] == pytest.approx(asked, rel=0.05)  # by trying every mutation
    assert expected.requests["remote"] == expected.requests["fair"]
    assert expected.remote == ("remote",)
    assert expected.seconds["remote"] == expected.expected["remote"] / settings.at_once
    assert expected.painting > 0
    assert expected.checking > 0
    assert "checking realism take about" in " ".join(expected.sentences(None))
    about, most = expected.expected["remote"] / 2, expected.requests["remote"] / 2
    assert expected.cost(0.5) == (about, most)
    assert replace(expected, most_requests=5).cost(0.5) == (2.5, 2.5)


def test_the_forecast_of_the_checks_grows_with_their_samples() -> None:
    def checking(scenes: int) -> float:
        settings = Settings(mutations=("delete",), classes=("car",), repeats=1, inpainting="telea")
        found = forecast(toy_scenes(scenes), [Remote()], settings, Stages(None))
        return found.checking

    checking(2)  # loads what is loaded once
    assert checking(24) > 2 * checking(3) > 0


def test_classes_without_cut_outs_are_not_forecast(tmp_path: Path) -> None:
    def most(**more: Any) -> int:
        settings = Settings(mutations=("insert",), repeats=1, clusters=1, **more)
        return forecast(
            toy_scenes(2), [Remote()], settings, Stages(None), cutouts=cutouts
        ).requests["remote"]

    cutouts = None
    assert most() == most(classes=("person", "car"))  # there is no bird to cut out
    pixels = np.zeros((40, 30, 4), np.uint8)
    pixels[5:35, 5:25] = (220, 20, 20, 255)
    (tmp_path / "bird").mkdir()
    Image.fromarray(pixels).save(tmp_path / "bird" / "one.png")
    cutouts = tmp_path
    assert most() == most(classes=("bird",)) > 2


def test_a_forecast_refuses_what_the_audit_would() -> None:
    def elsewhere(image: Picture) -> list[Detection]:
        return [Detection(one.label, one.score, (0, 0, 9, 9)) for one in fair(image)]

    settings = Settings(mutations=("delete",), repeats=1, clusters=1)
    with pytest.raises(ModelError, match="hardly more than chance"):
        forecast(toy_scenes(3), [FunctionDetector(elsewhere)], settings, Stages(None))


@pytest.mark.parametrize("function", ["free", "paid"])
def test_a_dry_run_says_what_a_run_takes_and_makes_nothing(function: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ["--dry-run", "--detector", f"{__name__}:{function}", "--out", f"{out}"]
    words += ["--mutations", "delete", "--set", "inpainting=ns", "--limit", "2"]
    words += ["--price", "2"] if function == "paid" else []
    done = CliRunner().invoke(app, ["audit-scenes", "demo", *words])
    assert done.exit_code == 0, done.output
    assert f"{function}: at most" in done.output
    assert ("At 2 a request they cost about" in done.output) is (function == "paid")
    assert not list(out.rglob("*.png"))


def free(image: Picture) -> list[tuple[str, float]]:
    return [("car", image.mean() / 255)]


def paid(image: Picture) -> list[Detection]:
    raise AssertionError("a forecast asks no service")


paid.is_remote = True  # type: ignore[attr-defined]


def test_the_cost_of_no_service_is_nothing() -> None:
    assert Forecast(1, {}, {"own": 9}, {"own": 9}, (), {"own": 1.0}, 0.0).cost(2.0) == (0, 0)
