"""Valid files of every format that fairprobe reads, small, always the same: what the campaign
damages. `python -m campaign.originals FOLDER` writes them with the fairprobe that is imported.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

PEOPLE, SIDE = 120, 12
TABLE = ("--label", "hired", "--favorable", "yes", "--sensitive", "sex")
SMALL = ("--samples", "500", "--seeds", "20", "--quiet")
POLICY = """uncertain = "more"
most_samples = 20000

[limits]
dm_rs = 0.3
equalized_odds = 0.5

[baseline]
dm_rs = 0.1
"""
BUILD = """
from torch import nn

def build():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
"""
TOYS = """
from tests.toy_scenes import fair, unfair
"""
CLASSIFY = """
def classify(texts):
    rude = [min(0.9, 0.2 + 0.3 * ("she" in text.lower()) + len(text) / 200) for text in texts]
    return [[1 - each, each] for each in rude]
"""
SENTENCES = (
    "She is a good neighbor and her son helps everybody.",
    "He lost his keys, and the waiter found them.",
    "My mother said that he never listens to her.",
    "The king spoke to his daughter.",
    "A woman waits at the counter.",
    "That man is her brother.",
)
LEXICON = """name = "own"
title = "age"

[control]
noun = ["neighbor", "visitor"]

[[entries]]
kind = "noun"
groups = {young = ["son"], old = ["king", "grandfather"]}
"""
PROMPT = """model = "none"
system = "Decide."
user = "age: {age}, score: {score}, sex: {sex}, job: {job}"

[labels]
yes = "hire"
no = ["reject", "decline"]

[answers]
read = "text"
asks = 1

[limits]
requests = 10

[prices]
input = 0.15
output = 0.6
"""
TOY_NUMBERS = {"road": 1, "sky": 2, "person": 3, "car": 4, "bicycle": 5}


def people() -> pd.DataFrame:
    """A table of people, of whom men are hired sooner."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "age": rng.integers(18, 70, PEOPLE),
            "score": rng.integers(0, 20, PEOPLE),
            "sex": rng.choice(["female", "male"], PEOPLE),
            "job": rng.choice(["clerk", "cook, chef", "nurse"], PEOPLE),
        }
    )
    merit = table["score"] + table["age"] / 10 + 2 * (table["sex"] == "male")
    table["hired"] = np.where(merit + rng.normal(0, 2, PEOPLE) > 16, "yes", "no")
    return table


def numbers() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The table as a model sees it: four numbers a person, and the label."""
    table = people()
    codes = [table[name].astype("category").cat.codes for name in ("sex", "job")]
    x = np.stack([table["age"], table["score"], *codes], axis=1).astype(np.float32)
    return x, (table["hired"] == "yes").to_numpy().astype(np.int64)


# -- tables and TOML -------------------------------------------------------------------------------


def write_tables(folder: Path) -> None:
    table = people()
    for kind in ("csv", "tsv", "csv.gz", "parquet", "domain", "costs"):
        place = folder / kind
        place.mkdir()
        table.to_csv(place / "people.csv", index=False)
    table.to_csv(folder / "tsv" / "people.tsv", sep="\t", index=False)
    table.to_csv(
        folder / "csv.gz" / "people.csv.gz",
        index=False,
        compression={"method": "gzip", "mtime": 0},
    )
    table.astype({"sex": "category"}).to_parquet(folder / "parquet" / "people.parquet")
    (folder / "costs" / "costs.csv").write_text(",no,yes\nno,0,1\nyes,2,0\n")
    _command(
        *("data", "schema", folder / "domain" / "people.csv", *TABLE),
        *("--out", folder / "domain" / "domain.toml"),
    )


# -- models ----------------------------------------------------------------------------------------


def write_models(folder: Path) -> None:
    import catboost
    import lightgbm
    import torch
    import xgboost
    from safetensors.torch import save_file
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from skops.io import dump

    from tests.model_files import WRITERS, dense

    x, y = numbers()
    network = dense(4, 6, 2)
    for ending, write in WRITERS.items():
        write(network, _place(folder, ending[1:]) / f"model{ending}")
    torch.save(network, _place(folder, "pickled-pt") / "model.pt")
    torch.save(network.state_dict(), _place(folder, "state-pt") / "model.pt")
    weights = _place(folder, "safetensors")
    (weights / "own.py").write_text(BUILD)
    save_file(network.state_dict(), weights / "model.safetensors")
    small: dict[str, Any] = {"n_estimators": 3, "max_depth": 3, "n_jobs": 1}
    boosted = xgboost.XGBClassifier(**small).fit(x, y)
    boosted.save_model(_place(folder, "xgboost-json") / "model.json")
    boosted.save_model(_place(folder, "xgboost-ubj") / "model.ubj")
    lightgbm.LGBMClassifier(min_child_samples=5, verbose=-1, **small).fit(x, y).booster_.save_model(
        _place(folder, "lightgbm") / "model.txt"
    )
    linear = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    dump(linear, _place(folder, "skops") / "model.skops")
    iterations = catboost.CatBoostClassifier(iterations=3, depth=2, verbose=0, thread_count=1)
    iterations.set_params(allow_writing_files=False, random_seed=0)
    iterations.fit(x, y).save_model(str(_place(folder, "catboost") / "model.cbm"))
    forest = RandomForestClassifier(n_estimators=2, max_depth=3, random_state=0).fit(x, y)
    dump(forest, _place(folder, "skops-forest") / "model.skops")


# -- pictures and scenes ---------------------------------------------------------------------------


def write_pictures(folder: Path) -> None:
    rng = np.random.default_rng(1)
    faces = rng.integers(60, 160, size=(40, SIDE, SIDE, 3)).astype(np.uint8)
    is_face = np.arange(40) % 2
    faces[is_face == 1, 3:9, 3:9] += 60
    gender = np.where(is_face == 1, np.arange(40) // 2 % 2, 255).astype(np.uint8)
    names = np.array(["Female", "Male"])
    np.savez(
        _place(folder, "npz") / "faces.npz",
        images=faces,
        is_face=is_face,
        gender=gender,
        gender_names=names,
    )
    packed = [_encoded(face, "JPEG") for face in faces]
    np.savez_compressed(
        _place(folder, "npz-jpeg") / "faces.npz",
        jpeg=np.frombuffer(b"".join(packed), dtype=np.uint8),
        offsets=np.cumsum([0, *map(len, packed)]),
        is_face=is_face,
        gender=gender,
        gender_names=names,
    )
    for kind in ("fairface", "fairface-jpeg"):
        place = _place(folder, kind)
        (place / "train").mkdir()
        for at in range(6):
            (place / "train" / f"{at}.jpg").write_bytes(packed[at])
        lines = [f"train/{at}.jpg,20-29,{names[at % 2]},White,True" for at in range(6)]
        (place / "fairface_label_train.csv").write_text(
            "\n".join(["file,age,gender,race,service_test", *lines]) + "\n"
        )
    place = _place(folder, "celeba")
    (place / "img_align_celeba").mkdir()
    lines = [f"{at + 1:06d}.jpg {1 - at % 2 * 2} {at % 2 * 2 - 1}" for at in range(6)]
    for at in range(6):
        (place / "img_align_celeba" / f"{at + 1:06d}.jpg").write_bytes(packed[at])
    (place / "list_attr_celeba.txt").write_text("\n".join(["6", "Male Young", *lines]) + "\n")
    place = _place(folder, "lfw")
    for at in range(6):
        (place / f"Ann_{at}").mkdir()
        (place / f"Ann_{at}" / f"Ann_{at}_0001.jpg").write_bytes(packed[at])
    lines = [f"Ann {at}\t1\t{at % 2 - 0.5}\t0.3\t-1\t-1\t0.{at}" for at in range(6)]
    (place / "lfw_attributes.txt").write_text(
        "\n".join(["# lfw", "#\tperson\timagenum\tMale\tWhite\tBlack\tAsian\tIndian", *lines])
        + "\n"
    )
    place = _place(folder, "utkface-png")
    for at in range(6):
        Image.fromarray(faces[at]).save(place / f"{20 + at}_{at % 2}_{at % 3}_2017.png")


def write_scenes(folder: Path) -> None:
    from tests.toy_scenes import toy_scenes

    for kind in ("coco", "panoptic", "cityscapes", "masks", "mask-names", "scene-png"):
        _place(folder, kind)
        (folder / kind / "pictures").mkdir()
    for scene in toy_scenes(2):
        mask = np.where(scene.stuff == 1, TOY_NUMBERS["road"], TOY_NUMBERS["sky"]).astype(np.uint8)
        for one in scene.instances:
            left, top, right, bottom = one.box
            mask[top:bottom, left:right][one.mask] = TOY_NUMBERS[one.label]
        name = f"{scene.name.replace(' ', '_')}.png"
        for kind in ("coco", "panoptic", "masks", "mask-names", "scene-png"):
            Image.fromarray(scene.image).save(folder / kind / "pictures" / name)
            (folder / kind / "masks").mkdir(exist_ok=True)
            Image.fromarray(mask).save(folder / kind / "masks" / name)
            (folder / kind / "names.json").write_text(
                json.dumps({str(number): word for word, number in TOY_NUMBERS.items()})
            )
    scenes = list(toy_scenes(2))
    listed = [
        {"id": at, "file_name": f"{each.name.replace(' ', '_')}.png", "height": 240, "width": 320}
        for at, each in enumerate(scenes)
    ]
    categories = [
        {"id": number, "name": word, "isthing": int(number > 2)}
        for word, number in TOY_NUMBERS.items()
    ]
    polygons = [
        {
            "id": 100 * at + place,
            "image_id": at,
            "category_id": TOY_NUMBERS[one.label],
            "segmentation": [_corners(one.box)]
            if place % 2
            else {"size": [240, 320], "counts": _run_lengths(scene.image.shape[:2], one.box)},
            "bbox": [one.box[0], one.box[1], one.box[2] - one.box[0], one.box[3] - one.box[1]],
            "area": 10,
            "iscrowd": int(place % 2 == 0),
        }
        for at, scene in enumerate(scenes)
        for place, one in enumerate(scene.instances)
    ]
    (folder / "coco" / "instances.json").write_text(
        json.dumps({"images": listed, "categories": categories, "annotations": polygons})
    )
    _write_panoptic(folder / "panoptic", scenes, listed, categories)
    _write_cityscapes(folder / "cityscapes", scenes)


def _write_panoptic(
    folder: Path, scenes: list[Any], listed: list[dict[str, Any]], categories: list[dict[str, Any]]
) -> None:
    (folder / "panoptic").mkdir()
    entries = []
    for at, scene in enumerate(scenes):
        pixels = np.zeros((240, 320, 3), dtype=np.uint8)
        pixels[..., 0] = np.where(scene.stuff == 1, 1, 2)
        segments = [{"id": 1, "category_id": 1}, {"id": 2, "category_id": 2}]
        for place, one in enumerate(scene.instances, start=3):
            left, top, right, bottom = one.box
            pixels[top:bottom, left:right, 0][one.mask] = place
            segments.append({"id": place, "category_id": TOY_NUMBERS[one.label]})
        Image.fromarray(pixels).save(folder / "panoptic" / listed[at]["file_name"])
        entries.append(
            {"image_id": at, "file_name": listed[at]["file_name"], "segments_info": segments}
        )
    (folder / "panoptic.json").write_text(
        json.dumps({"images": listed, "categories": categories, "annotations": entries})
    )


def _write_cityscapes(folder: Path, scenes: list[Any]) -> None:
    pictures, fine = folder / "pictures" / "aachen", folder / "gtFine" / "aachen"
    for place in (pictures, fine):
        place.mkdir(parents=True)
    for at, scene in enumerate(scenes):
        stem = f"aachen_{at:06d}_000019"
        Image.fromarray(scene.image).save(pictures / f"{stem}_leftImg8bit.png")
        objects = [{"label": "road", "polygon": [[0, 70], [319, 70], [319, 239], [0, 239]]}] + [
            {
                "label": one.label,
                "polygon": np.reshape(_corners(one.box), (-1, 2)).tolist(),
            }
            for one in scene.instances
        ]
        (fine / f"{stem}_gtFine_polygons.json").write_text(
            json.dumps({"imgHeight": 240, "imgWidth": 320, "objects": objects})
        )


# -- texts -----------------------------------------------------------------------------------------


def write_texts(folder: Path) -> None:
    for kind in ("texts-csv", "texts-jsonl", "lexicon", "text-run"):
        place = _place(folder, kind)
        (place / "own.py").write_text(CLASSIFY)
        (place / "lexicon.toml").write_text(LEXICON)
        pd.DataFrame({"text": SENTENCES * 3}).to_csv(place / "texts.csv", index=False)
        lines = [json.dumps({"text": text, "id": at}) for at, text in enumerate(SENTENCES * 3)]
        (place / "texts.jsonl").write_text("\n".join(lines))
    (_place(folder, "prompt") / "prompt.toml").write_text(PROMPT)
    place = folder / "text-run"
    _command(
        *("audit-text", place / "texts.csv", "--model", f"{place / 'own.py'}:classify"),
        *("--sensitive", "gender", "--quiet", "--out", place / "run"),
    )


# -- runs ------------------------------------------------------------------------------------------


def write_runs(folder: Path) -> None:
    place = _place(folder, "table-run")
    people().to_csv(place / "people.csv", index=False)
    (place / "policy.toml").write_text(POLICY)
    _call("audit", place / "people.csv", *SMALL, "--out", place / "run")
    for kind in ("policy", "run-network", "run-weights", "run-domain"):
        shutil.copytree(place, folder / kind)
    for kind in ("certificate", "certified-run"):
        shutil.copytree(place, folder / kind)
        run, table = folder / kind / "run", folder / kind / "people.csv"
        _command("certify", run, "--table", table, "--quiet")
    place = _place(folder, "own-run")
    _call(
        *("audit", place / "people.csv", *SMALL, "--model", folder / "onnx" / "model.onnx"),
        *("--out", place / "run"),
    )
    place = _place(folder, "score-run")
    _command(
        *("audit", place / "people.csv", "--label", "score", "--target", "amount"),
        *("--tolerance", "1", "--sensitive", "sex", *SMALL, "--out", place / "run"),
    )
    for kind in ("images-run", "scenes-run"):
        _place(folder, kind)
    _command(
        *("audit-images", folder / "npz" / "faces.npz", "--sensitive", "gender", "--faces", "6"),
        *("--set", "iterations=2", "--methods", "adf", "--no-repair", "--quiet"),
        *("--out", folder / "images-run" / "run"),
    )
    shutil.copytree(folder / "images-run", folder / "image-findings")
    shutil.copytree(folder / "table-run", folder / "findings")
    (folder / "masks" / "toys.py").write_text(TOYS)
    _command(
        *(
            "audit-scenes",
            folder / "masks" / "pictures",
            "--annotations",
            folder / "masks" / "masks",
        ),
        *(
            "--names",
            folder / "masks" / "names.json",
            "--classes",
            "person",
            "--set",
            "inpainting=ns",
        ),
        *("--mutations", "delete", "--fewest", "1", "--quiet"),
        *("--detector", f"{folder / 'masks' / 'toys.py'}:fair"),
        *("--out", folder / "scenes-run" / "run"),
    )


WRITERS: tuple[Callable[[Path], None], ...] = (
    write_tables,
    write_models,
    write_pictures,
    write_scenes,
    write_texts,
    write_runs,
)


def _place(folder: Path, kind: str) -> Path:
    place = folder / kind
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "people.csv").exists():
        people().to_csv(place / "people.csv", index=False)
    return place


def _call(command: str, table: Path, *words: str | Path) -> None:
    _command(command, table, *TABLE, *words)


def _command(*words: str | Path) -> None:
    """A command of fairprobe in this process."""
    import typer

    from fairprobe.cli import app

    code = typer.main.get_command(app).main([*map(str, words)], standalone_mode=False)
    if code:
        raise RuntimeError(f"fairprobe {' '.join(map(str, words))} ended with {code}.")


def _encoded(pixels: np.ndarray[Any, Any], form: str) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, form)
    return buffer.getvalue()


def _corners(box: tuple[int, int, int, int]) -> list[int]:
    left, top, right, bottom = box
    return [left, top, right, top, right, bottom, left, bottom]


def _run_lengths(shape: tuple[int, int], box: tuple[int, int, int, int]) -> list[int]:
    """A box as COCO's run lengths, down the columns, beginning with what is outside."""
    left, top, right, bottom = box
    mask = np.zeros(shape, dtype=bool)
    mask[top:bottom, left:right] = True
    flat = mask.ravel(order="F")
    ends = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff([0, *ends, flat.size]).tolist()
    return [0, *runs] if flat[0] else runs


def write_originals(folder: Path) -> None:
    """All of them, each kind in a folder of its own."""
    for write in WRITERS:
        write(folder)


if __name__ == "__main__":
    write_originals(Path(sys.argv[1]).resolve())
