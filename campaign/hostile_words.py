"""Hostile names and answers: escape sequences, HTML and formulas in what tables, pictures and
arguments are called, odd paths, and servers that answer badly. Adds to `WRITERS` as the files do.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from campaign.hostile_files import ESCAPES, FORMULA, HTML, QUICK, WRITERS, Case, case
from campaign.originals import TABLE, people

# -- names -----------------------------------------------------------------------------------------


def _table(given: Case, words: str) -> Path:
    """A table with these words as a column, a category and a class."""
    table = people().rename(columns={"score": f"score{words}"})
    table["job"] = table["job"].replace("nurse", f"nurse{words}")
    table["hired"] = table["hired"].replace("no", f"no{words}")
    path = given.folder / "people.csv"
    table.to_csv(path, index=False)
    return path


def _named(given: Case, words: str, *more: str) -> list[str]:
    loud = [word for word in QUICK if word != "--quiet"]
    out = ["--out", str(given.folder / "out"), *more]
    return ["audit", str(_table(given, words)), *TABLE, *loud, *out]


for _kind, _words in {"escape sequences": ESCAPES, "HTML": HTML, "formulas": FORMULA}.items():
    WRITERS[f"a table with {_kind} as names"] = (
        lambda given, words=_words: _named(given, words)  # type: ignore[misc]
    )
    WRITERS[f"the schema of a table with {_kind} as names"] = lambda given, words=_words: [  # type: ignore[misc]
        *(
            "data",
            "schema",
            str(_table(given, words)),
            *TABLE,
            "--out",
            str(given.folder / "out.toml"),
        )
    ]


@case("an argument with escape sequences")
def _argument(given: Case) -> list[str]:
    return ["audit", str(given.table), "--label", "hired", "--sensitive", f"sex{ESCAPES}"]


@case("a file name with escape sequences")
def _file_name(given: Case) -> list[str]:
    path = given.folder / f"people{ESCAPES}.csv"
    shutil.copy(given.table, path)
    loud = [word for word in QUICK if word != "--quiet"]
    return ["audit", str(path), *TABLE, *loud, "--out", str(given.folder / "out")]


@case("a run folder with escape sequences and HTML in its document")
def _run_words(given: Case) -> list[str]:
    return ["show", str(_run_with(given, ESCAPES + HTML))]


@case("the model card of a run with HTML in its document")
def _card_words(given: Case) -> list[str]:
    out = given.folder / "out"
    out.mkdir()
    return ["show", str(_run_with(given, HTML)), "--as", "card", "--out", str(out / "card.html")]


def _run_with(given: Case, words: str) -> Path:
    run = given.folder / "run"
    shutil.copytree(given.originals / "table-run" / "run", run)
    document = json.loads((run / "audit.json").read_text())
    document["dataset"] += words
    document["verdict"] += words
    document["data"]["title"] += words
    document["data"]["classes"] = [f"{name}{words}" for name in document["data"]["classes"]]
    (run / "audit.json").write_text(json.dumps(document))
    return run


@case("scenes with HTML, formulas and escape sequences as classes")
def _scene_classes(given: Case) -> list[str]:
    shutil.copytree(given.originals / "masks", given.folder / "masks")
    for path in (given.folder / "masks").glob("*/*.png"):
        path.rename(path.with_name(f"=cmd|calc {path.name}"))
    names = given.folder / "masks" / "names.json"
    numbers = json.loads(names.read_text())
    evil = {"person": f"{FORMULA}", "bicycle": f"{HTML}{ESCAPES}"}
    names.write_text(json.dumps({key: evil.get(name, name) for key, name in numbers.items()}))
    code = given.folder / "detector.py"
    code.write_text(
        "from tests.toy_scenes import fair\nfrom dataclasses import replace\n"
        f"EVIL = {evil!r}\n\ndef detect(image):\n"
        "    return [replace(one, label=EVIL.get(one.label, one.label)) for one in fair(image)]\n"
    )
    place = given.folder / "masks"
    return [
        *("audit-scenes", str(place / "pictures"), "--annotations", str(place / "masks")),
        *("--names", str(names), "--classes", "person", "--mutations", "delete"),
        *("--set", "inpainting=ns", "--fewest", "1", "--detector", f"{code}:detect"),
        *("--out", str(given.folder / "out")),
    ]


@case("pictures with escape sequences as names")
def _picture_names(given: Case) -> list[str]:
    place = given.folder / "faces"
    shutil.copytree(given.originals / "fairface", place)
    lines = (place / "fairface_label_train.csv").read_text().splitlines()
    lines[2] = lines[2].replace("train/1.jpg", f"train/{ESCAPES}.jpg")
    (place / "fairface_label_train.csv").write_text("\n".join(lines) + "\n")
    (place / "train" / f"{ESCAPES}.jpg").write_bytes(b"not a picture")
    return ["audit-images", str(place), "--sensitive", "gender", "--out", str(given.folder / "out")]


@case("pictures outside of their folder")
def _picture_paths(given: Case) -> list[str]:
    place = given.folder / "faces"
    shutil.copytree(given.originals / "fairface", place)
    label = place / "fairface_label_train.csv"
    label.write_text(label.read_text().replace("train/1.jpg", "../../../../../../etc/passwd"))
    return ["audit-images", str(place), "--sensitive", "gender", "--out", str(given.folder / "out")]


# -- paths -----------------------------------------------------------------------------------------


@case("a path that is not UTF-8")
def _raw_path(given: Case) -> list[str]:
    path = os.fsdecode(os.fsencode(given.folder) + b"/people\xff\xfe.csv")
    shutil.copy(given.table, path)
    return ["audit", path, *TABLE, *QUICK, "--out", str(given.folder / "out")]


@case("a path that is not UTF-8 and does not exist")
def _missing_raw_path(given: Case) -> list[str]:
    path = os.fsdecode(os.fsencode(given.folder) + b"/missing\xff\xfe.csv")
    return ["audit", path, *TABLE, *QUICK, "--out", str(given.folder / "out")]


@case("an output folder that is not UTF-8")
def _raw_out(given: Case) -> list[str]:
    path = os.fsdecode(os.fsencode(given.folder) + b"/out\xff\xfe")
    return ["audit", str(given.table), *TABLE, *QUICK, "--out", path]


def _loop(given: Case) -> Path:
    path = given.folder / "loop"
    path.symlink_to(path)
    return path


@case("a table that is a symlink to itself")
def _loop_table(given: Case) -> list[str]:
    return ["audit", str(_loop(given)), *TABLE, *QUICK, "--out", str(given.folder / "out")]


@case("an output folder that is a symlink to itself")
def _loop_out(given: Case) -> list[str]:
    return ["audit", str(given.table), *TABLE, *QUICK, "--out", str(_loop(given) / "run")]


@case("a model that is a symlink to itself")
def _loop_model(given: Case) -> list[str]:
    return given.audit("--model", _loop(given))


@case("a run folder that is a symlink to itself")
def _loop_run(given: Case) -> list[str]:
    return ["show", str(_loop(given))]


@case("a model that is a device")
def _device(given: Case) -> list[str]:
    (given.folder / "model.onnx").symlink_to("/dev/zero")
    return given.audit("--model", given.folder / "model.onnx")


@case("a table that is a pipe")
def _pipe(given: Case) -> list[str]:
    os.mkfifo(given.folder / "pipe.csv")
    out = ["--out", str(given.folder / "out")]
    return ["audit", str(given.folder / "pipe.csv"), *TABLE, *QUICK, *out]


@case("an .npz with a name that leaves its folder")
def _npz_names(given: Case) -> list[str]:
    path = given.folder / "faces.npz"
    with np.load(given.originals / "npz" / "faces.npz") as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path, **{f"../../x{HTML}{ESCAPES}": arrays["gender"]}, **arrays)
    few = [
        "--faces",
        "4",
        "--set",
        "iterations=1",
        "--methods",
        "adf",
        "--no-repair",
        "--no-controls",
    ]
    out = ["--out", str(given.folder / "out")]
    return ["audit-images", str(path), "--sensitive", "gender", *few, *out]


# -- servers ---------------------------------------------------------------------------------------

SERVER_CASES = {
    "an endpoint that redirects to an invalid address": "/invalid-redirect",
    "an endpoint that redirects to another host": "/other-host",
    "an endpoint with the class ²": "/superscript",
    "an endpoint whose headers come slowly": "/slow-headers",
    "an endpoint whose answer comes slowly": "/slow-body",
    "an endpoint that sends without end": "/endless",
    "an endpoint with a deeply nested answer": "/nested",
    "an endpoint with escape sequences in its error": "/escapes",
}


def _described(given: Any, path: str) -> str:
    file = given.folder / "service.toml"
    file.write_text(f'model = "{given.server + path}"\ntimeout = 2.0\n', encoding="utf-8")
    return str(file)


for _name, _path in SERVER_CASES.items():
    WRITERS[_name] = lambda given, path=_path: given.audit(  # type: ignore[misc]
        "--model", _described(given, path)
    )
