"""`python -m campaign`: run the parts and print one table.

--scale short      two minutes, in CI
        usual      twenty minutes (make campaign)
        full       overnight (make campaign-full)
--parts kills,disks,inputs,hostile,mutants
--source DIR       the source tree to test, by default this one
--seed N           the same seed gives the same kills, inputs and mutants
--count N          how many of each part instead, without a limit of time
--out FILE         where the table goes as well
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

from campaign.disks import try_disks
from campaign.hostile import try_closed_output, try_hostile
from campaign.inputs import try_inputs
from campaign.kills import SCENARIOS, WITH_WORKERS, try_kills
from campaign.mutants import try_mutants
from campaign.processes import ROOT, Tree

# How much of each part: a number of things to try, and the seconds after which no new one is begun.
SCALES: dict[str, dict[str, tuple[int, float | None]]] = {
    "short": {
        "kills": (2, 15),
        "disks": (1, None),
        "inputs": (400, 30),
        "hostile": (8, 30),
        "mutants": (0, None),
    },
    "usual": {
        "kills": (24, 300),
        "disks": (99, None),
        "inputs": (20_000, 420),
        "hostile": (999, 240),
        "mutants": (60, 1000),
    },
    "full": {
        "kills": (200, None),
        "disks": (99, None),
        "inputs": (40_000, None),
        "hostile": (999, None),
        "mutants": (400, None),
    },
}
SHORT_KINDS = ["csv", "table-run", "pt2", "onnx", "domain", "npz", "coco", "xgboost-json"]
SHORT_CASES = (
    "a pickle called model.pt",
    "TorchScript that writes a file",
    "a forged run that names a Python file, for check",
    "a forged run that names an address, for check",
    "a table with escape sequences as names",
    "a forged run with rates of -1",
    "a zip bomb as .keras",
    "an endpoint with the class ²",
)
SHORT_DISK = ("a full disk of 100 KiB",)


@dataclass
class Row:
    """A line of the table."""

    part: str
    tried: str
    defects: int
    seconds: float
    details: list[str] = field(default_factory=list)


def wilson(hits: int, tries: int, z: float = 1.96) -> tuple[float, float]:
    """The Wilson interval of a share."""
    if not tries:
        return 0.0, 1.0
    share, square = hits / tries, z * z
    middle = (share + square / (2 * tries)) / (1 + square / tries)
    half = z * sqrt(share * (1 - share) / tries + square / (4 * tries**2)) / (1 + square / tries)
    return max(0.0, middle - half), min(1.0, middle + half)


def kills(tree: Tree, originals: Path, scale: str, seed: int) -> Row:
    count, seconds = SCALES[scale]["kills"]
    scenarios = SCENARIOS if scale == "short" else WITH_WORKERS
    done = try_kills(
        tree, originals, count, seed=seed, seconds=seconds, scenarios=scenarios, report=say
    )
    tried = f"{done.kills} kills, {done.working} of them of commands with finished work"
    return Row("kills", tried, len(done.failures), done.seconds, done.failures)


def disks(tree: Tree, originals: Path, scale: str, seed: int) -> Row:
    del seed
    start = time.monotonic()
    names = list(SHORT_DISK) if scale == "short" else None
    outcomes = try_disks(tree, originals, names=names)
    bad = [f"{each.name}: {each.harm}" for each in outcomes if each.harm]
    skipped = [each.name for each in outcomes if each.is_skipped]
    tried = f"{len(outcomes) - len(skipped)} disks, folders and writers"
    if skipped:
        tried += f" (no mounts here, left out: {', '.join(skipped)})"
    return Row("disks and writers", tried, len(bad), time.monotonic() - start, bad)


def inputs(tree: Tree, originals: Path, scale: str, seed: int) -> Row:
    count, seconds = SCALES[scale]["inputs"]
    done = try_inputs(
        tree,
        originals,
        count,
        seed=seed,
        seconds=seconds,
        every=0 if scale == "short" else 1000 if scale == "usual" else 200,
        kinds=SHORT_KINDS if scale == "short" else None,
    )
    tried = (
        f"{done.inputs:,} damaged inputs ({done.refused:,} refused), {done.commands} of them with"
        " the command line"
    )
    kinds: dict[str, list[Any]] = {}
    for each in done.failures:
        kinds.setdefault(f"{each.kind}: {each.what.split(': ')[0]}", []).append(each)
    details = [
        f"{len(found)} × {found[0].kind} {found[0].number}: {found[0].what[:160]}"
        for found in kinds.values()
    ]
    return Row("damaged inputs", tried, len(done.failures), done.seconds, details)


def hostile(tree: Tree, originals: Path, scale: str, seed: int) -> Row:
    del seed
    _, seconds = SCALES[scale]["hostile"]
    names = list(SHORT_CASES) if scale == "short" else None
    verdicts = try_hostile(tree, originals, names=names, seconds=seconds, report=say)
    if scale != "short":
        verdicts.append(try_closed_output(tree, originals))
    bad = [f"{each.name}: {each.harm}" for each in verdicts if each.harm]
    took = sum(each.seconds for each in verdicts)
    return Row("hostile files", f"{len(verdicts)} files, names and servers", len(bad), took, bad)


def mutants(tree: Tree, originals: Path, scale: str, seed: int) -> Row:
    del originals
    count, seconds = SCALES[scale]["mutants"]
    score = try_mutants(tree, count, seed=seed, seconds=seconds, report=say)
    low, high = wilson(score.killed, score.tried)
    tried = (
        f"{score.tried} mutants of the core rooms, {score.killed} killed"
        f" ({score.killed / max(1, score.tried):.0%}, 95 % interval {low:.0%} to {high:.0%})"
    )
    details = [f"survived: {each.what}" for each in score.survivors]
    details += [f"the tests of {file} fail without a change" for file in sorted(score.broken)]
    return Row("mutants", tried, len(score.broken), score.seconds, details)


PARTS = {  # the longest first: with two at once the others run beside it
    "mutants": mutants,
    "kills": kills,
    "disks": disks,
    "inputs": inputs,
    "hostile": hostile,
}


def table(rows: list[Row], title: str) -> str:
    """The result as Markdown."""
    lines = [f"# {title}", "", "| part | tried | defects | minutes |", "|---|---|---|---|"]
    lines += [
        f"| {row.part} | {row.tried} | {row.defects} | {row.seconds / 60:.1f} |" for row in rows
    ]
    for row in rows:
        if row.details:
            shown = [" ".join(each.split()).replace("`", "'") for each in row.details]
            lines += ["", f"## {row.part}", "", *(f"- `{each[:300]}`" for each in shown)]
    return "\n".join(lines) + "\n"


def say(text: str) -> None:
    """What has just happened, for whoever watches."""
    sys.stderr.write(f"{text}\n")


def commit(source: Path) -> str:
    """The commit of a source tree; a plus if something was changed since."""
    words = ["git", "-C", str(source), "describe", "--always", "--abbrev=7", "--exclude=*"]
    done = subprocess.run([*words, "--dirty=+"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def write_originals(tree: Tree, folder: Path) -> None:
    """The undamaged files, written by the fairprobe that is tested."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(
        [sys.executable, "-m", "campaign.originals", str(folder)],
        env=tree.environment(),
        cwd=tree.folder,
        stdout=subprocess.DEVNULL,
        check=True,
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m campaign", description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="usual")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--source", type=Path, default=ROOT / "src")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int)
    parser.add_argument("--jobs", type=int, default=2, help="parts at once")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, help="a folder to keep; by default a temporary one")
    given = parser.parse_args(words)
    work = given.work or Path(tempfile.mkdtemp(prefix="campaign-"))
    work.mkdir(parents=True, exist_ok=True)
    tree = Tree(work.resolve(), given.source.resolve())
    originals = tree.folder / "originals"
    parts = [part for part in given.parts.split(",") if given.count or SCALES[given.scale][part][0]]
    if set(parts) - {"mutants"} and not originals.exists():
        write_originals(tree, originals)
    title = f"Campaign ({given.scale}, seed {given.seed}, commit {commit(tree.source)})"
    if given.count is not None:
        SCALES[given.scale] = dict.fromkeys(PARTS, (given.count, None))

    def run(part: str) -> Row:
        own = Tree(tree.folder / part, tree.source)  # parts do not meet in a temporary folder
        own.folder.mkdir(exist_ok=True)
        row = PARTS[part](own, originals, given.scale, given.seed)
        sys.stderr.write(table([row], f"{title}: {part}"))
        return row

    with ThreadPoolExecutor(max_workers=given.jobs) as pool:
        rows = list(pool.map(run, parts))
    if given.out is not None:
        given.out.write_text(table(rows, title), encoding="utf-8")
    sys.stdout.write(table(rows, title))
    if given.work is None:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if Counter({row.part: row.defects for row in rows}).total() else 0


if __name__ == "__main__":
    sys.exit(main())
