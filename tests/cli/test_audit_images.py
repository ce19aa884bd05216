"""`fairprobe audit-images`: what it writes and prints, pictures with everything wrong with them,
interrupts, words for every mistake.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fairprobe.errors import ModelError
from fairprobe.images import stages
from fairprobe.images.report import report
from fairprobe.images.run import ImagesRun
from fairprobe.images.search import ImageFindings, search_images
from fairprobe.models import one_thread
from fairprobe.results import from_dict
from tests.cli.test_cli import Answer, Process, ask, environment
from tests.images.test_image_audit import SIDE, pictures

FAST = ["--faces", "6", "--set", "iterations=2", "--no-controls", "--no-repair"]
CODE = """
from torch import nn
from tests.images.test_image_audit import Square, judging_by

def detector():
    return judging_by(0.1, 1.0)

def parts():
    network = nn.Sequential()
    network.add_module("body", Square())
    network.add_module("top", judging_by(0.1, 1.0).head)
    return network

def function(x):
    return x
"""


@pytest.fixture(autouse=True, scope="module")
def one_core() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder to stand in, with the user's code in it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("own_faces.py").write_text(CODE)


@pytest.fixture
def faces(tmp_path: Path) -> Path:
    data = pictures()
    gender = np.where(data.y == 1, data.attributes["gender"].codes, 255).astype(np.uint8)
    np.savez(
        tmp_path / "faces.npz",
        images=data.images.transpose(0, 2, 3, 1),
        is_face=data.y.astype(np.uint8),
        gender=gender,
        gender_names=np.array(["Female", "Male"]),
        split=data.held_out.astype(np.uint8),
    )
    return tmp_path / "faces.npz"


def audit_images(data: Path, *words: str | Path, sensitive: str = "gender") -> Answer:
    return ask("audit-images", data, "--sensitive", sensitive, *words)


# -- what it writes and prints ---------------------------------------------------------------------


def test_a_detector_is_trained_audited_and_shown_with_its_controls(faces: Path) -> None:
    answer = audit_images(
        faces,
        "--faces",
        "6",
        "--set",
        "iterations=2",
        "--methods",
        "adf",
        "--no-repair",
        "--limit",
        "80",
    )
    assert answer.code == 0, answer
    words = ("ADF", "random direction", "shuffled labels", "loosely counted", "a pair was found")
    assert all(word in " ".join(answer.out.split()) for word in words)
    assert answer.out.rstrip().endswith("Report: runs/faces-gender/report.html")
    body = json.loads(Path("runs/faces-gender/audit.json").read_text(encoding="utf-8"))
    verdict = next(report(from_dict(body, ImagesRun)).verdicts)
    assert verdict.text.replace("\N{NO-BREAK SPACE}", " ") in answer.out
    assert body["command"].startswith("fairprobe")
    assert body["detector"]["trained_here"]


def test_json_is_all_that_is_printed_for_machines_and_quiet_prints_nothing(faces: Path) -> None:
    answer = audit_images(
        faces, "--model", "own_faces.py:detector", *FAST, "--json", "--out", "one"
    )
    assert answer.code == 0, answer
    assert json.loads(answer.out) == json.loads(Path("one/audit.json").read_text(encoding="utf-8"))
    assert ask("show", "one", "--as", "json").out == answer.out
    assert {path.name for path in Path("one").iterdir()} == {
        "audit.json",
        "findings.npz",
        "report.html",
    }
    quiet = audit_images(
        faces, "--model", "own_faces.py:detector", *FAST, "--quiet", "--out", "two"
    )
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")


def test_a_repair_is_shown_beside_fine_tuning_without_idis(faces: Path) -> None:
    answer = audit_images(
        faces,
        "--model",
        "own_faces:parts",
        "--trunk",
        "body",
        "--head",
        "top",
        "--methods",
        "adf",
        "--faces",
        "6",
        "--set",
        "iterations=6",
    )
    assert answer.code == 0, answer
    said = " ".join(answer.out.split())
    assert all(word in said for word in ("before", "IDIs", "after the repair"))
    assert ask("show", "runs/faces-gender").out == answer.out


def test_a_run_is_replaced_only_when_that_is_wanted(faces: Path) -> None:
    words = ("--model", "own_faces.py:detector", *FAST, "--quiet", "--out", "run")
    assert audit_images(faces, *words).code == 0
    again = audit_images(faces, *words)
    assert again.code == 2
    assert "run exists and is not empty" in again.said
    assert audit_images(faces, *words, "--overwrite").code == 0


# -- pictures --------------------------------------------------------------------------------------


def test_pictures_that_cannot_be_used_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    data = pictures()
    people, things = tmp_path / "UTKFace", tmp_path / "others" / "tree"
    people.mkdir()
    things.mkdir(parents=True)
    for at, (image, code) in enumerate(
        zip(data.images, data.attributes["gender"].codes, strict=True)
    ):
        place = (
            things / f"{at}.png" if code < 0 else people / f"30_{code}_{at % 3}_20170101{at:09}.png"
        )
        Image.fromarray(image.transpose(1, 2, 0)).save(place)
    (people / "30_0_0_20170101900000001.jpg").write_bytes(b"no picture")
    Image.new("L", (SIDE, SIDE), 90).save(people / "30_0_0_20170101900000002.png")
    Image.new("RGBA", (SIDE, SIDE)).save(people / "30_1_0_20170101900000003.png")
    Image.new("RGB", (SIDE + 4, SIDE)).save(people / "30_1_0_20170101900000004.png")
    answer = audit_images(
        people,
        "--others",
        tmp_path / "others",
        "--model",
        "own_faces.py:detector",
        *FAST,
        "--out",
        "run",
    )
    assert answer.code == 0, answer
    for ending, what in (
        ("1.jpg", "cannot be read as an image and is left out"),
        ("2.png", "is gray and gets three equal channels"),
        ("3.png", "has an alpha channel, which is dropped"),
        ("4.png", f"is not {SIDE} × {SIDE} pixels like most and is left out"),
    ):
        assert f"30_{int(ending[0]) > 2:d}_0_2017010190000000{ending} {what}." in answer.said
    body = json.loads(Path("run/audit.json").read_text(encoding="utf-8"))
    assert body["data"]["faces"] == 60 + 2
    assert len(body["messages"]) >= 4
    again = ask("show", "run")
    assert again.out == answer.out
    assert answer.said.startswith("The audit takes at most about ")
    assert answer.said.endswith(again.said)


def test_a_group_without_a_picture_is_named(faces: Path, tmp_path: Path) -> None:
    with np.load(faces) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["gender_names"] = np.array(["Female", "Male", "Other"])
    np.savez(tmp_path / "three.npz", **arrays)
    answer = audit_images(tmp_path / "three.npz", "--model", "own_faces.py:detector", *FAST)
    assert answer.code == 0
    assert "No image of the gender 'Other' can be used; the group is left out." in answer.said


# -- interrupts ------------------------------------------------------------------------------------


def counts(body: dict[str, Any]) -> str:
    own = [one["found"]["own"] for one in body["generation"]]
    strict, loose = (
        sum(found[how]["success"]["hits"] for found in own) for how in ("strict", "loose")
    )
    return f"{strict:,} findings ({loose:,} loosely counted)"


def test_an_interrupted_audit_is_kept_and_says_so(
    faces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **named: Any) -> ImageFindings:
        if given[3].method == "eidig":
            raise KeyboardInterrupt
        return search_images(*given, **named)

    monkeypatch.setattr(stages, "search_images", interrupted)
    answer = audit_images(faces, "--model", "own_faces.py:detector", *FAST, "--out", "run")
    body = json.loads(Path("run/audit.json").read_text(encoding="utf-8"))
    assert answer.code == 130
    assert f"Interrupted: {counts(body)} until then are in run." in answer.said
    assert "Interrupted while searching with eidig" in answer.out
    assert [method["method"] for method in body["generation"]] == ["neuronfair", "adf"]
    assert body["stopped"]


def test_an_error_on_the_way_ends_with_2_and_keeps_the_run(
    faces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*given: Any, **named: Any) -> ImageFindings:
        if given[3].method == "eidig":
            raise ModelError("The network went away.")
        return search_images(*given, **named)

    monkeypatch.setattr(stages, "search_images", failing)
    answer = audit_images(
        faces, "--model", "own_faces.py:detector", *FAST, "--set", "iterations=20", "--out", "run"
    )
    body = json.loads(Path("run/audit.json").read_text(encoding="utf-8"))
    assert not counts(body).startswith("0 ")
    assert answer.code == 2
    assert "The audit failed while searching with eidig: The network went away." in answer.said
    assert answer.said.endswith(f"The run with {counts(body)} is in run.")
    assert [method["method"] for method in body["generation"]] == ["neuronfair", "adf"]


def test_an_interrupt_before_anything_was_found_leaves_nothing_behind(
    faces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "train_detector", interrupted)
    answer = audit_images(faces, "--out", "runs/faces")
    assert answer.code == 130
    assert answer.said.endswith("besides Python and torch. Interrupted; nothing was written.")
    assert list(Path("runs").iterdir()) == []


IN_A_SEARCH = """
import pathlib, sys, time
from fairprobe.cli import main
from fairprobe.images import stages
come, sent = map(pathlib.Path, (sys.argv.pop(1), sys.argv.pop(1)))
search = stages.search_images
def slow(*given, **named):
    if given[3].method == "eidig":
        come.touch()
        while not sent.exists():
            time.sleep(0.02)
    return search(*given, **named)
stages.search_images = slow
main()
"""


@pytest.mark.slow
def test_a_signal_to_a_real_process_keeps_what_was_found_and_ends_with_130(
    faces: Path, tmp_path: Path
) -> None:
    come, sent = tmp_path / "come", tmp_path / "sent"
    command = [
        sys.executable,
        "-c",
        IN_A_SEARCH,
        come,
        sent,
        "audit-images",
        faces,
        "--sensitive",
        "gender",
        "--model",
    ]
    command += [
        "own_faces.py:detector",
        *FAST,
        "--set",
        "iterations=20",
        "--methods",
        "adf,eidig",
        "--out",
        "run",
    ]
    own_code = environment(tmp_path) | {
        "PYTHONPATH": os.pathsep.join(
            str(Path(__file__).parents[2] / place) for place in ("src", ".")
        ),
        "OMP_NUM_THREADS": "1",
    }
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [str(word) for word in command], stdout=pipe, stderr=pipe, text=True, env=own_code
    ) as process:
        try:
            answer = Process(process, come, sent).interrupt(signal.SIGINT)
        finally:
            process.kill()
    body = json.loads(Path("run/audit.json").read_text(encoding="utf-8"))
    found = {
        search["method"]: search["found"]["own"]["strict"]["success"]["hits"]
        for search in body["generation"]
    }
    assert answer.code == 130, answer
    assert f"Interrupted: {counts(body)} until then are in run." in answer.said
    assert "Interrupted while searching with eidig" in answer.out
    assert "Traceback" not in answer.err
    assert list(found) == ["adf", "eidig"]
    assert found["adf"] > 0
    assert {path.name for path in Path("run").iterdir()} == {
        "audit.json",
        "findings.npz",
        "report.html",
    }
    with np.load("run/findings.npz") as stored:
        assert len(stored["adf_rows"]) == found["adf"]
    assert sorted(path.name for path in Path().iterdir() if path.name != "__pycache__") == [
        "own_faces.py",
        "run",
    ]


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--sensitive", "gendr"],
            "There is no attribute 'gendr' in 'faces'. Did you mean 'gender'?",
        ),
        (["--model", "vgg17"], "There is no network 'vgg17'. Did you mean 'vgg16'?"),
        (
            ["--model", "own_faces.py:detektor"],
            "There is no 'detektor' in own_faces.py. Did you mean 'detector'?",
        ),
        (["--model", "own_faces.py:function"], "is not a torch module"),
        (["--variant", "papr"], "There is no variant 'papr' of a search in pictures."),
        (["--set", "stepp=1"], "has no setting 'stepp'. Did you mean 'step'?"),
        (["--labels", "race.csv"], "Labels belong to a folder of pictures"),
        (
            ["--model", "own_faces.py:parts", "--trunk", "bodi", "--head", "top"],
            "no part called 'bodi'",
        ),
        (["--trunk", "body"], "needs a network of your own"),
        (["--methods", "neuronfare"], "There is no method 'neuronfare' for images."),
        (["--set", "epsilon=-1"], "epsilon is a number of 0 or more"),
        (["--faces", "-1"], "must start from 1 face or more"),
        (["--others", "nowhere"], "There is no folder nowhere."),
        (["--size", "2"], "The size must be from"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_2(faces: Path, words: list[str], said: str) -> None:
    answer = audit_images(faces, *words)
    assert answer.code == 2
    assert answer.said.startswith("Error: ")
    assert said in answer.said
    assert "Traceback" not in answer.err
    assert answer.out == ""
    assert not any(Path("runs").iterdir())


def test_pictures_without_faces_or_with_one_value_only_are_refused(
    faces: Path, tmp_path: Path
) -> None:
    with np.load(faces) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(tmp_path / "none.npz", **arrays | {"is_face": np.zeros_like(arrays["is_face"])})
    np.savez(
        tmp_path / "one.npz",
        **arrays | {"gender": np.where(arrays["gender"] == 255, 255, 0).astype(np.uint8)},
    )
    for name, said in (
        ("none.npz", "'none' has no faces"),
        ("one.npz", "All people whose gender is known have 'Female'"),
    ):
        answer = audit_images(tmp_path / name)
        assert answer.code == 2
        assert said in answer.said
    assert "There is no" in audit_images(tmp_path / "gone.npz").said
