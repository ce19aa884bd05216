"""What an audit of scenes will take: counted beside the audit itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from typer.testing import CliRunner

from fairprobe.audits.base import Stages
from fairprobe.audits.scene_forecast import Forecast, forecast
from fairprobe.audits.scenes import audit_scenes
from fairprobe.cli import app
from fairprobe.scenes import Detection, Detector
from fairprobe.scenes.detectors.function import FunctionDetector
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
    scenes = toy_scenes(4)
    settings = Settings(mutations=("insert", "delete"), repeats=2, clusters=1)
    expected = forecast(scenes, [FunctionDetector(fair, "fair"), Remote()], settings, Stages(None))
    audit = audit_scenes(
        scenes,
        [fair],
        mutations=["insert", "delete"],
        repeats=2,
        clusters=1,
        inpainting="telea",
        folder=tmp_path,
    )
    made = Counter("id" if task.kind == "id" else task.operator for task in audit.evidence.made)
    assert expected.scenes == 4
    assert made["delete"] == expected.mutants["delete"] > 0  # a picture and its control
    assert 0 < len(audit.tests) <= expected.requests["fair"] - expected.scenes
    assert expected.requests["remote"] == expected.requests["fair"]
    assert expected.remote == ("remote",)
    assert set(expected.seconds) == {"fair"}
    assert expected.cost(0.5) == expected.requests["remote"] / 2


def test_a_dry_run_says_what_a_run_takes_and_makes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = CliRunner().invoke(
        app,
        ["scenes", "demo", "--dry-run", "--detector", "tests.toy_scenes:fair", "--out", f"{out}"],
    )
    assert done.exit_code == 0, done.output
    assert "fair: at most" in done.output
    assert not list(out.rglob("*.png"))


def test_the_cost_of_no_service_is_nothing() -> None:
    assert Forecast(1, {}, {"own": 9}, (), {"own": 1.0}).cost(2.0) == 0
