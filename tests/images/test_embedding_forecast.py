"""What face verification will take is said before it begins, and how far it is while it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import process_time

import numpy as np
import pytest
from torch import Tensor, nn

from fairprobe.audits.embeddings import audit_embeddings
from fairprobe.audits.image_forecast import Cost
from fairprobe.cli.common import Lines
from fairprobe.datasets.image_sets import FACE_CLASSES, ImageAttribute, ImageSet
from tests.cli.test_cli import ask
from tests.images.architectures import resnet

TAKES = "The audit takes at most about"


class Means(nn.Module):
    """Embeds a picture as the means of its channels, which takes next to no time."""

    def forward(self, images: Tensor) -> Tensor:
        return images.mean(dim=(2, 3)) - 0.5


def people(count: int, side: int) -> ImageSet:
    """Two pictures of each of so many people, of two groups."""
    who = np.repeat(np.arange(count), 2)
    pictures = np.random.default_rng(0).integers(0, 256, (len(who), 3, side, side), dtype=np.uint8)
    return ImageSet(
        "people",
        pictures,
        np.ones(len(who), dtype=np.int64),
        FACE_CLASSES,
        {"gender": ImageAttribute(("female", "male"), who % 2)},
        who % 4 < 2,
        identities=who,
    )


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    data = people(60, 12)
    assert data.identities is not None
    path = tmp_path / "people.npz"
    np.savez(
        path,
        images=data.images.transpose(0, 2, 3, 1),
        y=data.y,
        gender=np.array(["female", "male"])[data.attributes["gender"].codes],
        identity=data.identities,
    )
    return path


@pytest.fixture
def code(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(
        "from torch import nn\n\n\ndef network():\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())\n",
        encoding="utf-8",
    )
    return f"{path}:network"


@pytest.mark.parametrize("threshold", [0.5, None], ids=["given", "chosen"])
@pytest.mark.parametrize(
    ("network", "count", "side"),
    [(resnet, 200, 48), (Means, 3000, 8)],
    ids=["mostly embeddings", "mostly pairs"],
)
def test_time_is_forecast_within_a_factor_of_three(
    network: type[nn.Module], count: int, side: int, threshold: float | None
) -> None:
    """In CPU time; once in three is enough, since a trial takes only milliseconds."""
    data = people(count, side)

    def ratio() -> float:
        found: list[tuple[Cost, float]] = []
        audit_embeddings(
            data,
            network(),
            threshold=threshold,
            expect=lambda cost: found.append((cost, process_time())),
        )
        ((cost, start),) = found
        return cost.seconds / (process_time() - start)

    ratios = [ratio()]
    while len(ratios) < 3 and not 1 / 3 < ratios[-1] < 3:
        ratios.append(ratio())
    assert 1 / 3 < ratios[-1] < 3, ratios


def asked(faces: Path, code: str) -> list[str | Path]:
    return [faces, "--model", code, "--sensitive", "gender"]


MEASURED = """
import sys
from pathlib import Path
from fairprobe.audits.embeddings import audit_embeddings
from tests.images.test_embedding_forecast import Means, people, resnet

def held(field):
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[field].split()[0])

network = {"resnet": resnet, "Means": Means}[sys.argv[1]]()
costs = []
audit_embeddings(people(8, 16), network, threshold=0.5, expect=costs.append)  # imports
before = held("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
audit_embeddings(people(int(sys.argv[2]), int(sys.argv[3])), network, threshold=0.5,
    expect=costs.append)
print(costs[1].bytes, held("VmHWM") - before)
"""


@pytest.mark.parametrize(("network", "count", "side"), [("resnet", 100, 96), ("Means", 6000, 24)])
def test_memory_is_forecast_within_a_factor_of_two(network: str, count: int, side: int) -> None:
    """Against the most that a process of its own ever held."""
    words = [sys.executable, "-c", MEASURED, network, str(count), str(side)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    forecast, held = map(float, done.stdout.split())
    assert 0.5 < forecast / held < 2, (forecast, held)


def test_the_forecast_is_said_before_the_work_and_not_where_nothing_else_is(
    faces: Path, code: str
) -> None:
    words = [*asked(faces, code), "--threshold", "0.5"]
    answer = ask("audit-embeddings", *words)
    assert answer.code == 0
    assert answer.said.startswith(TAKES)
    assert "of memory beside Python and torch." in answer.said
    assert ask("audit-embeddings", *words, "--quiet").err == ""
    machine = ask("audit-embeddings", *words, "--json")
    assert TAKES not in machine.err
    assert json.loads(machine.out)["kind"] == "verification"


def test_a_dry_run_says_what_the_audit_would_take_and_ends(
    faces: Path, code: str, tmp_path: Path
) -> None:
    words = [*asked(faces, code), "--out", tmp_path / "x.json"]
    answer = ask("audit-embeddings", *words, "--dry-run")
    assert (answer.code, answer.out) == (0, "")
    assert answer.said.startswith(TAKES)
    assert not (tmp_path / "x.json").exists()


def test_in_a_pipe_every_stage_says_how_far_it_is_and_what_is_left(
    faces: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lines, "EVERY", 0.0)
    words = [*asked(faces, code), "--false-matches", "0.1"]
    answer = ask("audit-embeddings", *words)
    assert answer.code == 0, answer.said
    assert "Computing embeddings: 53 % after 0 s, about 0 s left (64 of 120)" in answer.said
    for stage in ("Choosing the threshold", "Comparing pairs, female", "Comparing pairs, male"):
        assert f"{stage}: 100 % after 0 s (1 of 1)" in answer.said
