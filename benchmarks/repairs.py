"""Repairs of users' own networks, by the command line: audit, repair, and an audit of the written
file by a fresh process.

    python -m benchmarks.repairs                    # everything, about 40 minutes of one core
    python -m benchmarks.repairs adult .onnx        # one table, one format

The user is played by scikit-learn: a pipeline that fills gaps, encodes and scales is fitted with an
MLPClassifier (64, 32) to a table in words, and the same network is written as a file of every
format. fairprobe trains nothing before the repair. "german-part" is fitted to the training part
alone, as a user does who keeps people out; the others to everybody. One format of each table draws
the trade-off and chooses the strength; the others repair with that strength. The page is written
after every repair.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from fairprobe import datasets
from tests.model_files import WRITERS

PAGE = Path("docs/results/repairs.md")
WORK = Path(tempfile.gettempdir()) / "fairprobe-repairs"
TABLES = {
    "compas": "race",
    "german": "gender",
    "german-part": "gender",
    "adult": "gender",
    "adult-both": "gender,race",
}
EVERY_FORMAT = ("adult", "compas", "german-part")
FORMATS = {
    ".onnx": "ONNX",
    ".skops": "scikit-learn pipeline",
    ".keras": "Keras",
    ".pt2": "torch.export",
    ".safetensors": "torch module",
}
SAME = {True: "same", False: "differs", None: "–"}
SMALL = ["--seeds", "100", "--samples", "10000"]
NOTES = """- At most one point of accuracy is allowed, and six seeds.
- The same network in every format is repaired to the same figures. One format of a table draws the
  trade-off and chooses the strength; the others repair with it.
- German: that network learned from all 1,000 people, those held out among them, so its accuracy on
  them flatters it, and about 8 of the 200 people held out are affected. The 100 validation people
  rule out the strengths 60 and 200 (75 and 77 right instead of 80), and six seeds do not settle the
  rest. *german-part* is such a network fitted to the training part alone, and there it is settled.
- German once more: the network that `fairprobe audit german --sensitive gender` trains on the
  training part, and `fairprobe repair RUN --max-accuracy-drop 1`: accepted (4 seeds), strength 200,
  accuracy 73.00 % → 74.50 %, people in the data 9.40 % → 0.80 %, plausible people 10.60 % → 0.96 %.
  Over the seeds 0.38 % of the people held out are affected, instead of 10.1 % with the same network
  trained on without a repair.
- Measured on 2026-11-17 at commit 4d6c89d, all rows in one run. Minutes are of a busy machine;
  those of ONNX include the trade-off.

## What fine-tuning lacked

With the strength 20, training on from the weights left more people affected than training anew. The
cause is the strength: epochs, patience, batches and learning rate matter less. German, gender, the
network above (9.40 % affected, accuracy 73.0 %), means of four seeds:

| start | strength | training | accuracy | people in the data |
|---|---|---|---|---|
| fresh weights | 20 | default | 71.5 % | 1.60 % |
| fresh weights | 60 | default | 70.5 % | 0.93 % |
| its weights | 20 | default | 72.0 % | 2.03 % |
| its weights | 20 | patience 20, up to 240 epochs | 72.0 % | 2.03 % |
| its weights | 20 | batches of 64 | 72.3 % | 1.68 % |
| its weights | 20 | learning rate 0.003 | 72.6 % | 1.55 % |
| its weights | 60 | default | 73.3 % | 1.15 % |
| its weights | 60 | learning rate 0.003 | 73.4 % | 1.15 % |

So the trade-off now goes up to 200 (before: 60, which was chosen on three of four tables), and the
validation people choose."""
CODE = """
import skops.io
from pathlib import Path
from torch import nn

file = Path(__file__).with_name("network.skops")
pipeline = skops.io.load(file, trusted=skops.io.get_untrusted_types(file=file))

def encode(frame):
    return pipeline[:-1].transform(frame)

def network():
    return nn.Sequential({layers})
"""


def main(*only: str) -> None:
    results: dict[str, Any] = {}
    kept = WORK / "results.json"
    if kept.exists():
        results = json.loads(kept.read_text())
    for table in TABLES:
        if only and only[0] != table:
            continue
        folder = made(table)
        for ending in FORMATS:
            wanted = len(only) < 2 or only[1] == ending
            if f"{table} {ending}" in results or not wanted:
                continue
            if table not in EVERY_FORMAT and ending != ".onnx":
                continue
            strength = results.get(f"{table} .onnx", {}).get("strength")
            results[f"{table} {ending}"] = _repaired(table, ending, folder, strength)
            kept.write_text(json.dumps(results, indent=1))
            PAGE.write_text(_page(results))
            print(f"{table} {ending}", results[f"{table} {ending}"], flush=True)


def made(table: str) -> Path:
    """A folder with the table in words and the network in every format."""
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    folder = WORK / table
    if (folder / "network.safetensors").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    data = datasets.load(table.partition("-")[0])
    frame = data.words(data.x).assign(label=[data.classes[y] for y in data.y])
    frame.to_csv(folder / "people.csv", index=False)
    frame = pd.read_csv(folder / "people.csv")
    x, y = frame.drop(columns="label"), frame["label"]
    words = [name for name in x if not pd.api.types.is_numeric_dtype(x[name])]
    numbers = [name for name in x if name not in words]
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), words),
    )
    mlp = MLPClassifier((64, 32), early_stopping=True, random_state=0)
    rows = data.split(0).train if table.endswith("-part") else slice(None)
    pipeline = make_pipeline(steps, mlp).fit(x.iloc[rows], y.iloc[rows])
    (folder / "network.skops").write_bytes(skops.io.dumps(pipeline))
    network = _as_torch(mlp)
    for ending, write in WRITERS.items():
        write(network, folder / f"network{ending}")
    from safetensors.torch import save_file

    save_file(network.state_dict(), folder / "network.safetensors")
    layers = ", ".join(f"nn.{piece}" for piece in map(str, network))
    (folder / "code.py").write_text(CODE.replace("{layers}", layers))
    return folder


def _as_torch(mlp: Any) -> nn.Sequential:
    pieces: list[nn.Module] = []
    for weight, bias in zip(mlp.coefs_, mlp.intercepts_, strict=True):
        layer = nn.Linear(*weight.shape)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight.T))
            layer.bias.copy_(torch.from_numpy(bias))
        pieces += [layer, nn.ReLU()]
    pieces[-1] = nn.Sigmoid()
    return nn.Sequential(*pieces).eval()


def _repaired(table: str, ending: str, folder: Path, strength: float | None) -> dict[str, Any]:
    run, repaired, again = (folder / f"{name}{ending}" for name in ("run", "repaired", "again"))
    file = folder / f"network{ending}"
    encoder = [] if ending == ".skops" else ["--encoder", f"{folder / 'code.py'}:encode"]

    def model(path: Path) -> list[str]:
        if ending == ".safetensors":
            return ["--model", f"{folder / 'code.py'}:network", "--weights", str(path), *encoder]
        return ["--model", str(path), *encoder]

    audit = ["audit", str(folder / "people.csv"), "--label", "label"]
    audit += ["--sensitive", TABLES[table], *SMALL]
    before = file.read_bytes()
    _run(*audit, *model(file), "--out", str(run), "--overwrite")
    dial = ["--no-curve", "--strength", str(strength)] if strength else []
    seconds = time.perf_counter()
    code = _run(
        *("repair", str(run), "--table", str(folder / "people.csv"), *model(file), *dial),
        *("--samples", "10000", "--max-accuracy-drop", "1", "--max-seeds", "6"),
        *("--out", str(repaired), "--overwrite"),
    )
    seconds = time.perf_counter() - seconds
    document = json.loads((repaired / "audit.json").read_text())
    place = "model" if document["repair"]["accepted"] else "refused-model"
    _run(*audit, *model(repaired / place / file.name), "--out", str(again), "--overwrite")
    fresh = json.loads((again / "audit.json").read_text())
    proof = document["repair"]
    comparisons = {f"{each['what']} {each['by']}": each for each in proof["verdict"]["comparisons"]}
    return {
        "code": code,
        "outcome": proof["verdict"]["outcome"],
        "reasons": proof["reasons"] + proof["verdict"]["doubts"],
        "strength": proof["dial"]["value"],
        "seeds": len(proof["verdict"]["seeds"]),
        "minutes": seconds / 60,
        "accuracy": [proof[when]["accuracy"]["estimate"] for when in ("before", "after")],
        "people": [proof[when]["people"]["estimate"] for when in ("before", "after")],
        "plausible": [
            None if proof[when]["plausible"] is None else proof[when]["plausible"]["estimate"]
            for when in ("before", "after")
        ],
        "comparisons": {
            name: [each["control"]["mean"], each["repaired"]["mean"]]
            for name, each in comparisons.items()
        },
        "same": all(fresh[part] == document[part] for part in ("people", "dm_rs", "fairness"))
        and fresh["model"]["accuracy"] == proof["after"]["accuracy"]["estimate"],
        "untouched": file.read_bytes() == before,
    }


def _run(*words: str) -> int:
    command = [sys.executable, "-m", "fairprobe", *words, "-q"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode not in (0, 1, 3):
        raise RuntimeError(f"{' '.join(words)}\n{done.stderr}")
    return done.returncode


def _page(results: dict[str, Any]) -> str:
    lines = [
        "# Repairs of one's own networks",
        "",
        "Made by `python -m benchmarks.repairs`, which says what it does. Rates are about everybody"
        " in the data: the share whose answer changes with the sensitive attribute. A fresh process"
        " audits the written file; *same* means that it measures what the repaired run says,"
        " digit for digit.",
        "",
        "| table | format | verdict (seeds) | strength | accuracy | people in the data"
        " | plausible people | fresh audit | minutes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, each in results.items():
        table, ending = name.split()
        plausible = (
            "–" if each["plausible"][0] is None else " → ".join(map(_percent, each["plausible"]))
        )
        lines.append(
            f"| {table} ({TABLES[table]}) | {FORMATS[ending]} | {each['outcome']}"
            f" ({each['seeds']}) | {each['strength']:g}"
            f" | {' → '.join(map(_percent, each['accuracy']))}"
            f" | {' → '.join(map(_percent, each['people']))} | {plausible}"
            f" | {SAME[each['same']]} | {each['minutes']:.1f} |"
        )
    return "\n".join([*lines, "", NOTES]) + "\n"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


if __name__ == "__main__":
    main(*sys.argv[1:])
