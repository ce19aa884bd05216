"""`fairprobe show`: the summary of every kind of run again, as its command printed it, and words
for what is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image

from fairprobe.results import to_dict
from tests.cli.test_cli import ask
from tests.image_runs import images
from tests.present.test_report_documents import document, repaired
from tests.scene_runs import analysis, scenes_run
from tests.toy_scenes import COLORS, toy_scenes

Document = dict[str, Any]

KINDS: dict[str, Callable[[], Document]] = {
    "a table": document,
    "a repair": repaired,
    "images": images,
    "scenes": lambda: to_dict(scenes_run()),
}


def written(folder: Path, body: object) -> Path:
    """A run folder, as far as the command looks into it."""
    folder.mkdir(exist_ok=True)
    (folder / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_is_shown_with_its_verdict_and_report(kind: str, tmp_path: Path) -> None:
    body = KINDS[kind]()
    answer = ask("show", written(tmp_path / "run", body))
    assert answer.code == 0, answer
    assert any(
        " ".join(words.split()[:3]) in answer.out
        for words in ("Verdicts change, but", "Failed more than", "Decisions that depend")
    )
    assert answer.out.rstrip().endswith(f"Report: {tmp_path / 'run' / 'report.html'}")


@pytest.mark.parametrize("kind", KINDS)
def test_json_is_the_document_of_the_run(kind: str, tmp_path: Path) -> None:
    answer = ask("show", written(tmp_path / "run", KINDS[kind]()), "--as", "json")
    assert answer.code == 0, answer
    assert json.loads(answer.out) == json.loads(json.dumps(KINDS[kind]()))


def test_scenes_are_shown_with_what_was_left_out_and_names_as_they_are(tmp_path: Path) -> None:
    odd = replace(scenes_run().detectors[0], name="[b]x[/i]")
    run = scenes_run(
        detectors=[odd], results=[analysis("all", "gt", detector=odd.name)], examples=[]
    )
    answer = ask("show", written(tmp_path / "run", to_dict(run)))
    assert answer.code == 0, answer
    assert "at [b]x[/i]: bicycle" in answer.out
    assert (
        answer.err
        == "a.png has no annotation.\n2 pictures without an answer: no answer within 10 s\n"
    )


def test_a_run_on_scenes_is_shown_as_the_command_showed_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cv2")
    monkeypatch.chdir(tmp_path)
    for name in ("pictures", "masks"):
        (tmp_path / name).mkdir()
    for scene in (source := toy_scenes(4)).names:
        read = source.read(scene)
        numbers = read.stuff.copy()
        for at, colour in enumerate(COLORS.values(), start=3):
            numbers[(read.image == colour).all(axis=2)] = at
        Image.fromarray(read.image).save(f"pictures/{scene}.png")
        Image.fromarray(numbers.astype(np.uint8)).save(f"masks/{scene}.png")
    Path("names.json").write_text(
        json.dumps(dict(enumerate(["unknown", "road", "sky", *COLORS])) | {"objects": list(COLORS)})
    )
    Path("own_toys.py").write_text("from tests.toy_scenes import fair\n")
    how = [
        "--detector",
        "own_toys.py:fair",
        "--mutations",
        "delete",
        "--classes",
        "car",
        "--set",
        "inpainting=ns",
        "--fewest",
        "1",
    ]
    first = ask(
        "audit-scenes",
        "pictures",
        "--annotations",
        "masks",
        "--names",
        "names.json",
        *how,
        "--out",
        "run",
    )
    assert first.code == 0, first
    assert "own_toys.py:fair" in first.out
    again = ask("show", "run")
    assert (again.code, again.out, again.said) == (0, first.out, first.said)


BROKEN: dict[str, tuple[object, str]] = {
    "somebody else's": (
        {"auditReportVersion": 2},
        "not an audit of fairprobe, or it is damaged",
    ),
    "a list": ([1, 2], "not an audit of fairprobe"),
    "an unknown kind": ({"kind": "sounds", "format": 1}, "is of an unknown kind, 'sounds'"),
    "a kind that is no word": ({"kind": ["images"], "format": 1}, "not an audit of fairprobe"),
    "another version": (document() | {"format": 4}, "was written by another version of fairprobe"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_is_not_a_run_is_refused_in_a_sentence(what: str, tmp_path: Path) -> None:
    body, words = BROKEN[what]
    answer = ask("show", written(tmp_path / "run", body))
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.said


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_with_parts_missing_is_told_in_a_sentence(kind: str, tmp_path: Path) -> None:
    body = KINDS[kind]()
    for broken in (
        {name: body[name] for name in ("kind", "format") if name in body},
        body | {"verdict": None},
    ):
        answer = ask("show", written(tmp_path / "run", broken))
        assert (answer.code, answer.out) == (2, "")
        assert re.search(r"is not whole|is damaged or was altered", answer.said)


@pytest.mark.parametrize("kind", ["images", "scenes"])
def test_a_command_for_runs_on_tables_says_so(kind: str, tmp_path: Path) -> None:
    answer = ask("show", written(tmp_path / "run", KINDS[kind]()), "--as", "bias-audit")
    assert answer.code == 2
    assert re.search(rf"{kind}'|audit of {kind}", answer.said)
