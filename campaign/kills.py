"""Part 1: real commands are killed with SIGKILL, SIGINT and SIGTERM, at random moments and right
after a random move of a file (see `hooks/`), where a kill hurts most.

After each kill: the run under its name is complete or not there, with `--overwrite` the old or the
new one is; the exit code is right; no process is left. Then the same command is started again (with
`--resume` where it has that option): afterwards nothing is left beside the run or in the temporary
folder, and the run equals that of an uninterrupted command.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet

from campaign.originals import TABLE
from campaign.processes import Tree, trouble

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
PATIENCE = 300.0  # for one command
AFTER_MOVES = 0.3  # the share of kills right after a move of a file
GRACE = 20.0  # seconds in which a command ends after a signal, and its children after it
VARIES = ("created", "command", "second", "cpu", "versions", "stopped", "speed", "per_", "elapsed")


@dataclass(frozen=True)
class Scenario:
    """A command to kill; `out` is what it writes."""

    name: str
    words: Callable[[Path, Path], list[str]]  # originals, folder
    out: str = "run"
    same: tuple[str, ...] = ("findings.parquet", "audit.json")
    overwrites: bool = False
    resumes: bool = True  # with --resume, where the command has it


def _audit(originals: Path, folder: Path) -> list[str]:
    return [
        *("audit", str(originals / "csv" / "people.csv"), *TABLE, "--samples", "2000"),
        *("--seeds", "300", "--quiet", "--out", str(folder / "run")),
    ]


def _images(originals: Path, folder: Path) -> list[str]:
    return [
        *("audit-images", str(originals / "npz" / "faces.npz"), "--sensitive", "gender"),
        *("--faces", "6", "--iterations", "3", "--methods", "adf", "--no-repair", "--quiet"),
        *("--out", str(folder / "run")),
    ]


def _repair(originals: Path, folder: Path) -> list[str]:
    return [
        *("repair", str(originals / "table-run" / "run"), "--no-curve", "--samples", "300"),
        *("--table", str(originals / "table-run" / "people.csv")),
        *("--max-seeds", "3", "--quiet", "--out", str(folder / "run")),
    ]


def _scenes(originals: Path, folder: Path) -> list[str]:
    place = originals / "masks"
    return [
        *("scenes", str(place / "pictures"), "--annotations", str(place / "masks")),
        *("--names", str(place / "names.json"), "--classes", "car", "--inpainting", "ns"),
        *("--mutations", "delete,rotate", "--fewest", "1", "--quiet", "--workers", "2"),
        *("--detector", f"{place / 'toys.py'}:fair", "--out", str(folder / "run")),
    ]


def _experiment(originals: Path, folder: Path) -> list[str]:
    del originals
    return [
        *("experiment", "iifr-table4", "--repeats", "1", "--workers", "2", "--quiet"),
        *("--out", str(folder / "run")),
    ]


SCENARIOS = (
    Scenario("audit", _audit),
    Scenario("audit --overwrite", _audit, overwrites=True),
    Scenario("audit-images", _images, same=("audit.json",)),
    Scenario("repair", _repair),
    Scenario("scenes", _scenes, same=("audit.json",)),
)
EXPERIMENT = Scenario("experiment", _experiment, same=())


@dataclass(frozen=True)
class Reference:
    """An uninterrupted command: its run, how long it took, and how many files it moved."""

    run: Path
    seconds: float
    moves: int


@dataclass(frozen=True)
class Kill:
    """When and how a command is killed: after a share of its time, or after a move of a file."""

    sent: signal.Signals
    moment: float
    move: int = 0

    def __str__(self) -> str:
        when = f"after move {self.move}" if self.move else f"at {self.moment:.0%}"
        return f"{self.sent.name} {when}"


@dataclass
class Kills:
    """What became of all kills."""

    kills: int = 0
    hit: int = 0  # before the command had ended
    resumed: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0


def try_kills(
    tree: Tree,
    originals: Path,
    count: int,
    *,
    seed: int = 0,
    seconds: float | None = None,
    scenarios: tuple[Scenario, ...] = SCENARIOS,
) -> Kills:
    """Kill so many commands, no new one after so many seconds."""
    start, result, rng = time.monotonic(), Kills(), np.random.default_rng(seed)
    references: dict[str, Reference] = {}
    broken: set[str] = set()
    for number in range(count):
        if seconds is not None and time.monotonic() - start > seconds:
            break
        scenario = scenarios[number % len(scenarios)]
        if scenario.name in broken:
            continue
        if scenario.name not in references:
            try:
                references[scenario.name] = _reference(tree, originals, scenario)
            except RuntimeError as error:  # said once; the others are killed all the same
                broken.add(scenario.name)
                result.failures.append(str(error))
                continue
        reference = references[scenario.name]
        kill = Kill(SIGNALS[int(rng.integers(len(SIGNALS)))], float(rng.uniform(0.02, 1.02)))
        if rng.random() < AFTER_MOVES and reference.moves:
            kill = Kill(signal.SIGKILL, 0.0, int(rng.integers(1, reference.moves + 1)))
        harms, was_hit, was_resumed = _kill(tree, originals, scenario, reference, kill)
        result.kills += 1
        result.hit += was_hit
        result.resumed += was_resumed
        result.failures += [f"{scenario.name}, {kill}, number {number}: {harm}" for harm in harms]
    result.seconds = time.monotonic() - start
    return result


def _reference(tree: Tree, originals: Path, scenario: Scenario) -> Reference:
    place = tree.folder / "references" / scenario.name.replace(" ", "")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    out, count = place / scenario.out, place / "moves"
    words = _known(tree, scenario.words(originals, place))
    begin = time.monotonic()
    answer = tree.run(*words, patience=PATIENCE, CAMPAIGN_COUNT=str(count))
    if answer.code not in (0, 1):
        raise RuntimeError(f"{scenario.name} ended with {answer.code}: {answer.text[-500:]}")
    seconds = time.monotonic() - begin
    if scenario.overwrites:  # the moves of a run that replaces another
        tree.run(*words, "--overwrite", patience=PATIENCE, CAMPAIGN_COUNT=str(count))
    moves = int(count.read_text()) if count.exists() else 0
    return Reference(out, seconds, moves)


def _known(tree: Tree, words: list[str]) -> list[str]:
    """The words without options that this version does not have (`--table` of `repair`)."""
    if "--table" in words and not has_option(tree, words[0], "--table"):
        at = words.index("--table")
        return words[:at] + words[at + 2 :]
    return words


_options: dict[tuple[Path, str], str] = {}


def has_option(tree: Tree, command: str, option: str) -> bool:
    """Whether a command of this version has an option."""
    key = (tree.source, command)
    if key not in _options:
        _options[key] = tree.run(command, "--help").text
    return option in _options[key]


def _kill(
    tree: Tree, originals: Path, scenario: Scenario, reference: Reference, kill: Kill
) -> tuple[list[str], bool, bool]:
    folder = tree.folder / "killed"
    for place in (folder, tree.temporary):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    words, out = _known(tree, scenario.words(originals, folder)), folder / scenario.out
    again = ["--overwrite"] if scenario.name != "experiment" else []
    if scenario.overwrites:
        shutil.copytree(reference.run, out)
        words = [*words, "--overwrite"]
    changes = {"CAMPAIGN_DIE_AFTER": str(kill.move)} if kill.move else {}
    process = tree.start(*words, cwd=tree.folder, **changes)
    if not kill.move:
        time.sleep(kill.moment * reference.seconds)
    was_running = process.poll() is None
    is_early = not kill.move and not _catches(process.pid)
    if not kill.move:
        process.send_signal(kill.sent)
    harms = []
    try:
        _, err = process.communicate(timeout=GRACE + 6 * reference.seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        harms.append("did not end after the signal")
    if was_running and not is_early:
        harms += _code_harms(process.returncode, kill.sent, err)
    harms += [f"a process was left: {name}" for name in _orphans(process.pid)]
    harms += _run_harms(out, must_be_there=scenario.overwrites)
    # The next start.
    resume = ["--resume"] if scenario.resumes and has_option(tree, words[0], "--resume") else []
    words = [*words, *([] if scenario.overwrites else again), *resume]
    answer = tree.run(*words, patience=PATIENCE)
    if said := trouble(answer, (0, 1)):
        harms.append(f"the next start: {said}")
    else:
        harms += _run_harms(out, must_be_there=True)
        harms += [f"left over: {path}" for path in leftovers(folder, tree.temporary, out)]
        harms += [
            f"differs from an uninterrupted run: {name}"
            for name in _differing(scenario, reference.run, out)
        ]
    return harms, was_running, bool(resume)


def _catches(process: int) -> bool:
    """Whether a process handles SIGTERM itself; before that it is not fairprobe that runs."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt")), "0")
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def _code_harms(code: int | None, sent: signal.Signals, err: bytes) -> list[str]:
    allowed = (-signal.SIGKILL, 0, 1) if sent == signal.SIGKILL else (130, 0, 1)
    harms = [] if code in allowed else [f"exit code {code}"]
    if b"Traceback" in err and sent != signal.SIGKILL:
        harms.append(f"traceback: {err.decode(errors='replace').strip().splitlines()[-1][:200]}")
    return harms


def _orphans(session: int) -> list[str]:
    """Commands of a session that still run after a while."""
    end = time.monotonic() + GRACE
    while found := _alive(session):
        if time.monotonic() > end:
            return found
        time.sleep(0.1)
    return []


def _alive(session: int) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] != "Z":
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
        except (OSError, IndexError, ValueError):
            continue
    return found


def _run_harms(out: Path, *, must_be_there: bool) -> list[str]:
    """What is wrong with a run folder: it is complete, or it is not there."""
    if not out.exists() or (not (out / "audit.json").exists() and not any(out.glob("*.html"))):
        return ["the run is gone"] if must_be_there and not (out / "jobs").exists() else []
    harms = []
    for path in sorted(out.rglob("*")):
        if path.suffix == ".json":
            try:
                json.loads(path.read_bytes())
            except ValueError:
                harms.append(f"{path.name} is not complete")
        if path.suffix == ".html" and b"</html>" not in path.read_bytes()[-200:]:
            harms.append(f"{path.name} is not complete")
        if path.suffix == ".parquet" and path.read_bytes()[-4:] != b"PAR1":
            harms.append(f"{path.name} is not complete")
    if (out / "audit.json").exists() and not (out / "report.html").exists():
        harms.append("report.html is not there")
    return harms


def leftovers(folder: Path, temporary: Path, out: Path) -> list[str]:
    """What lies beside a run, in it with a hidden name, and in the temporary folder."""
    beside = [path for path in folder.iterdir() if path != out]
    hidden = list(out.rglob(".*")) if out.is_dir() else []
    ours = [path for path in temporary.iterdir() if path.name.startswith(("fairprobe", "."))]
    return [str(path.relative_to(folder.parent)) for path in (*beside, *hidden, *ours)]


def _differing(scenario: Scenario, one: Path, other: Path) -> list[str]:
    """The files that differ, times and dates aside."""
    differing = []
    for name in scenario.same:
        if not (one / name).exists() and not (other / name).exists():
            continue
        if not (one / name).exists() or not (other / name).exists():
            differing.append(f"{name} is missing in one")
            continue
        contents = [(place / name).read_bytes() for place in (one, other)]
        if name.endswith(".json"):
            first, second = (_timeless(json.loads(content)) for content in contents)
            if first != second:
                differing.append(f"{name} at {_first_place(first, second)}")
        elif _rows(contents[0]) != _rows(contents[1]):
            differing.append(name)
    return differing


def _rows(content: bytes) -> Any:
    """The rows of a Parquet file and what it says about itself, times aside."""
    table = parquet.read_table(BytesIO(content))
    about = json.loads((table.schema.metadata or {}).get(b"fairprobe", b"{}"))
    return table.replace_schema_metadata(None), _timeless(about)


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _timeless(each)
            for key, each in value.items()
            if not any(word in key for word in VARIES)
        }
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def _first_place(one: Any, other: Any, path: str = "$") -> str:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        items: Any = one.items()
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        items = enumerate(one)
    else:
        return f"{path}: {str(one)[:60]} / {str(other)[:60]}"
    different = partial(next, (key for key, each in items if each != other[key]))
    key = different()
    return _first_place(one[key], other[key], f"{path}.{key}")
