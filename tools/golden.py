"""Run small audits of every kind with fixed seeds, and compare their numbers between two source
trees: a change of the house must not change a finding or a figure.

    python tools/golden.py record FOLDER [--source TREE] [--only adult,names]
    python tools/golden.py compare OLD NEW [--only adult,names]

`compare` needs equal findings, and the numbers of every document equal within 1e-12, path by path.
Times, versions, paths, dates and wording are ignored. A number that moved or went on purpose is
named in MOVED or GONE.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parent.parent
EXACT = 1e-12

# Paths of numbers that differ from run to run, or say nothing about what was measured.
IGNORED = re.compile(
    r"seconds|cpu|versions?\b|created|memory|bytes|workers|threads|size_on_disk|\bport\b|format\b"
    r"|timings|duration|forecast|wall_ms|ms_an_image"
)
# Old path: new path. Both are prefixes; [] is any index.
MOVED: Mapping[str, str] = {
    "telling": "examples",
    "model.accuracy_rows": "fairness.quality.accuracy.samples",
    "model.accuracy_low": "fairness.quality.accuracy.low",
    "model.accuracy_high": "fairness.quality.accuracy.high",
    "model.accuracy": "fairness.quality.accuracy.estimate",
}
# Prefixes of paths whose numbers went on purpose: they follow from others.
GONE: Sequence[str] = (
    *("judged", "partial", "attribute.chance", "interpretation.auc", "repair.compared"),
    *("repair.change", "repair.verdict.min_help", "repair.verdict.most_ties"),
)


@dataclass(frozen=True)
class Case:
    """Commands that are run one after the other in a folder of their own. A command may have
    several spellings, the newest first: the first that the source tree accepts counts.
    """

    calls: Sequence[str | tuple[str, ...]]
    prepare: Callable[[], None] = lambda: None


DEMO = "demo --seed 1 --repeats 1 --limit 6 --mutations insert,delete --fewest 3"


# -- what is audited -------------------------------------------------------------------------------


def write_people() -> None:
    """Write a table with a label, a sensitive attribute that matters, and an amount."""
    rng = np.random.default_rng(20)
    age, hours = rng.integers(20, 60, 900), rng.integers(1, 7, 900) * 10
    sex, school = rng.integers(0, 2, 900), rng.integers(0, 4, 900)
    pay = 8.0 * school + 0.4 * age + 0.3 * hours + 6 * sex + rng.normal(0, 3, 900)
    table = pd.DataFrame(
        {
            "age": age // 4 * 4,
            "hours": hours,
            "sex": np.array(["female", "male"])[sex],
            "school": np.array(["none", "basic", "college", "doctor"])[school],
        }
    )
    table.assign(rich=np.where(pay > 40, "yes", "no")).to_csv("people.csv", index=False)
    table.assign(pay=(pay * 100).round()).to_csv("pay.csv", index=False)
    Path("own.py").write_text(RULE)
    Path("policy.toml").write_text(POLICY)


RULE = """
import pandas as pd

def decide(table: pd.DataFrame):
    late = (table["age"].astype(float) > 40) & (table["sex"] == "female")
    score = table["hours"].astype(float) / 60 + (table["school"] == "doctor") - 0.5 * late
    return score.clip(0.05, 0.95).to_numpy()
"""
CLASSIFIER = """
import zlib

def classify(texts):
    harsh = [("old" in t) + ("awful" in t) + zlib.crc32(t.encode()) % 100 / 200 for t in texts]
    return [[1 - min(h / 3, 1), min(h / 3, 1)] for h in harsh]
"""
LEXICON = """
name = "age"
[[entries]]
kind = "adjective"
[entries.groups]
old = ["old", "elderly", "aged", "senior"]
young = ["young", "youthful", "teenage", "juvenile"]
"""
PROMPT = """
model = "toy"
system = "You screen applications."
user = "{text}"

[labels]
invite = "invite"
reject = "reject"
"""


def write_texts() -> None:
    """Write texts about people of an age, and a classifier that minds it."""
    jobs = ["nurse", "pilot", "clerk", "baker", "judge", "cook", "driver", "teacher"]
    said = ["met a {} {} today", "never saw an awful {} {}", "trust that {} {}", "the {} {} wrote"]
    ages = ["old", "elderly", "young", "teenage"]
    lines = [f"I {text.format(age, job)}." for text in said for job in jobs for age in ages]
    Path("texts.txt").write_text("\n".join(lines) + "\n")
    Path("own.py").write_text(CLASSIFIER)
    Path("age.toml").write_text(LEXICON)


def write_faces() -> None:
    """Write noise; every other picture has a bright square, the face, and every other face is a
    little redder.
    """
    rng, number = np.random.default_rng(0), np.arange(120)
    is_face, gender = number % 2 == 1, number // 2 % 2
    images = rng.integers(60, 160, (120, 12, 12, 3))
    images[is_face, 3:9, 3:9] += 40
    images[is_face & (gender == 1), ..., 0] += 10
    np.savez(
        "faces.npz",
        images=images.astype(np.uint8),
        is_face=is_face.astype(np.uint8),
        gender=np.where(is_face, gender, 255).astype(np.uint8),
        gender_names=np.array(["Female", "Male"]),
        split=(rng.random(120) < 0.3).astype(np.uint8),
    )


def write_prompt() -> None:
    """Write the prompt for the chat server, and two letters to send it."""
    Path("prompt.toml").write_text(PROMPT)
    Path("cvs").mkdir()
    for number, job in enumerate(("clerk", "nurse", "driver")):
        Path(f"cvs/{number}.txt").write_text(f"My name is {{name}}. I was a {job}.\n")


class _Chat(BaseHTTPRequestHandler):
    """Invites by the first letters of what it is sent, so that answers never change."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = str(body["messages"][-1]["content"])
        answer = "reject" if sum(map(ord, text)) % 3 == 0 else "invite"
        message = {"role": "assistant", "content": answer}
        usage = {"prompt_tokens": 30, "completion_tokens": 1, "total_tokens": 31}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = {"object": "chat.completion", "model": "toy", "choices": [choice], "usage": usage}
        content = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


@contextmanager
def chat_server() -> Iterator[str]:
    """Serve chat completions; the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Chat) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


POLICY = """
[limits]
dm_rs = 0.02
accuracy = 0.6
ifr_p = 0.8
idis = 1000
"""

SMALL = "--seed 3 --seeds 40 --samples 4000"
FACES = "audit-images faces.npz --sensitive gender --faces 12 --methods neuronfair,adf --out run"
CASES: Mapping[str, Case] = {
    "adult": Case(
        [
            (
                f"audit adult --sensitive gender {SMALL} --set rows=60000 --out run",
                f"audit adult --sensitive gender {SMALL} --rows 60000 --out run",
            )
        ]
    ),
    "german": Case(
        ["audit german --sensitive age --method eidig --seed 0 --seeds 40 --samples 4000 --out run"]
    ),
    "compas": Case(
        [
            (
                f"audit compas --sensitive race {SMALL} --set rows=60000 --out run",
                f"audit compas --sensitive race {SMALL} --rows 60000 --out run",
            )
        ]
    ),
    "amount": Case(
        [
            "audit pay.csv --label pay --target amount --tolerance 600 --sensitive sex"
            f" {SMALL} --out run"
        ],
        write_people,
    ),
    "box": Case(
        [f"audit people.csv --label rich --sensitive sex --model own.py:decide {SMALL} --out run"],
        write_people,
    ),
    "text": Case(
        ["audit-text texts.txt --model own.py:classify --sensitive age.toml --seed 2 --out run"],
        write_texts,
    ),
    "images": Case(
        [
            (
                f"{FACES} --set iterations=6 --set epsilon=0.1",
                f"{FACES} --iterations 6 --epsilon 0.1",
            )
        ],
        write_faces,
    ),
    "scenes": Case(
        [
            (
                f"audit-scenes {DEMO} --out run",
                f"scenes {DEMO} --out run",
            )
        ]
    ),
    "names": Case(
        [
            (
                "audit-names --model chat.toml --cvs cvs --names gender --out run",
                "names --model chat:CHAT --prompt prompt.toml --cvs cvs --names gender --out run",
            )
        ],
        write_prompt,
    ),
    "people": Case(
        [
            f"audit people.csv --label rich --sensitive sex {SMALL} --out run",
            "check run --policy policy.toml --json",
            (
                "certify run --table people.csv --time 60 --json",
                "certify run --table people.csv --seconds 60 --json",
            ),
            "repair run --table people.csv --no-curve --max-seeds 3 --samples 2000 --out repaired",
        ],
        write_people,
    ),
}


# -- recording -------------------------------------------------------------------------------------


def record(folder: Path, source: Path, names: Sequence[str]) -> None:
    """Run the cases on a source tree, two at a time, each in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    with chat_server() as chat, ThreadPoolExecutor(2) as pool:
        jobs = {name: pool.submit(run_case, folder / name, name, source, chat) for name in names}
        for name, job in jobs.items():
            sys.stdout.write(f"{name}: {job.result():.0f} s\n")
            sys.stdout.flush()


def run_case(folder: Path, name: str, source: Path, chat: str) -> float:
    """Run the commands of a case; the seconds it took."""
    start = time.monotonic()
    if folder.exists():
        raise SystemExit(f"{folder} exists; record into another folder, or remove it.")
    folder.mkdir()
    prepare = "import sys; sys.path.insert(0, sys.argv[1]); import golden"
    python = [sys.executable, "-c", f"{prepare}; golden.CASES[sys.argv[2]].prepare()"]
    subprocess.run([*python, str(Path(__file__).parent), name], cwd=folder, check=True)  # noqa: S603
    described = f'model = "{chat.removeprefix("chat:")}"\nprompt = "prompt.toml"\n'
    (folder / "chat.toml").write_text(described.replace('"', '"chat:', 1))
    for number, call in enumerate(CASES[name].calls):
        spellings = [call] if isinstance(call, str) else list(call)
        for spelling in spellings:
            done = _run(shlex.split(spelling.replace("CHAT", chat)), folder, source)
            if done.returncode != 2:
                break
        if done.returncode not in (0, 1, 3):
            raise SystemExit(f"{name}: fairprobe {spelling} ended with {done.stderr}")
        if done.stdout.startswith("{"):
            (folder / f"output-{number}.json").write_text(done.stdout)
    return time.monotonic() - start


def _run(words: Sequence[str], folder: Path, source: Path) -> subprocess.CompletedProcess[str]:
    fixed = {"PYTHONPATH": str(source / "src"), "PYTHONHASHSEED": "0", "COLUMNS": "100"}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "fairprobe", *words],
        cwd=folder,
        env=os.environ | fixed | threads,
        capture_output=True,
        text=True,
        check=False,
    )


# -- comparing -------------------------------------------------------------------------------------


def compare(old: Path, new: Path, names: Sequence[str]) -> list[str]:
    """Compare two recordings; what differs, a line each."""
    differences = []
    for name in names:
        before, after = _numbers(old / name), _numbers(new / name)
        lost = sorted(path for path in before.keys() - after.keys() if not _gone(path))
        # A number that moved is still there, once for each time it was.
        moved = Counter(f"{after[path]:.9g}" for path in after.keys() - before.keys())
        moved.subtract(f"{before[path]:.9g}" for path in lost)
        absent = {path for path in lost if moved[f"{before[path]:.9g}"] < 0}
        sys.stdout.write(f"{name}: {len(before)} numbers, {len(lost) - len(absent)} moved\n")
        differences += [f"{name}: only in the old one: {path}" for path in sorted(absent)]
        for path in sorted(before.keys() & after.keys()):
            if not _same(before[path], after[path]):
                differences.append(f"{name}: {path}: {before[path]!r} is now {after[path]!r}")
        differences += _compare_tables(name, old / name, new / name)
    return differences


def _numbers(folder: Path) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for path in sorted([*folder.glob("*.json"), *folder.glob("*/audit.json")]):
        numbers |= dict(flat(json.loads(path.read_text()), str(path.relative_to(folder))))
    return {path: number for path, number in numbers.items() if not IGNORED.search(path)}


def flat(value: Any, path: str) -> Iterator[tuple[str, float]]:
    """Every number of a document with its path, the present one of those that moved."""
    if isinstance(value, dict):
        for name, part in value.items():
            yield from flat(part, f"{path}.{name}")
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from flat(part, f"{path}[{index}]")
    elif isinstance(value, int | float):
        for old, new in MOVED.items():
            pattern = re.escape(old).replace(r"\[\]", r"\[(\d+)\]")
            path = re.sub(pattern + r"(?=[.\[]|$)", re.sub(r"\[\]", r"[\\1]", new), path)
        yield path, float(value)


def _anywhere(path: str) -> str:
    return re.sub(r"\[\d+\]", "[]", path)


def _gone(path: str) -> bool:
    return any(path.partition(".json.")[2].startswith(prefix) for prefix in GONE)


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= EXACT * max(1, abs(one)) or (one != one and other != other)


def _compare_tables(name: str, old: Path, new: Path) -> Iterator[str]:
    """Compare the findings, and whatever else a run keeps as a table, exactly."""
    for path in sorted([*old.glob("*/*.parquet"), *old.glob("*/*.csv")]):
        other = new / path.relative_to(old)
        if not other.exists():
            yield f"{name}: {path.relative_to(old)} is missing"
            continue
        read = pd.read_parquet if path.suffix == ".parquet" else pd.read_csv
        if not read(path).equals(read(other)):
            yield f"{name}: {path.relative_to(old)} differs"


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recording, comparing = commands.add_parser("record"), commands.add_parser("compare")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--source", type=Path, default=ROOT)
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    for command in (recording, comparing):
        command.add_argument("--only", default="", help=f"Of {', '.join(CASES)}.")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(CASES)
    if options.command == "record":
        record(options.folder.resolve(), options.source.resolve(), names)
        return
    names = [name for name in names if (options.old / name).is_dir()]
    differences = compare(options.old, options.new, names)
    sys.stdout.write("".join(f"{line}\n" for line in differences))
    sys.exit(f"{len(differences)} differences" if differences else 0)


if __name__ == "__main__":
    main()
