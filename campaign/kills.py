"""Part 1: real commands are killed with SIGKILL, SIGINT and SIGTERM, at random moments and right
after a random move of a file (see `hooks/`), where a kill hurts most.

After each kill: the run under its name is complete or not there, with `--overwrite` the old or the
new one is; the exit code is right; no process is left. Then the same command is started again (with
`--resume` where it has that option): no finished work that the killed command had written is done
again, afterwards nothing is left beside the run or in the temporary folder, and the run equals that
of an uninterrupted command.

Commands start warm (`warm.py`), so that kills meet fairprobe and not the import of its libraries;
the uninterrupted ones are started as a user does.
"""

from __future__ import annotations

import itertools
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from campaign import served
from campaign.originals import TABLE
from campaign.processes import Answer, Tree, of_session, trouble
from campaign.run_folders import differing, done_again, finished_work, leftovers, run_harms
from campaign.warm import IDLE, WarmStarts

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
PATIENCE = 300.0  # for one command
CODES = (0, 1, 3)  # of a command that ended by itself; a repair may be undecided
AFTER_MOVES = 0.3  # the share of kills right after a move of a file
WITH_JOB = 0.5  # the share of kills of `serve` that kill its job as well
GRACE = 20.0  # seconds in which a command ends after a signal, and its children after it


@dataclass(frozen=True)
class Scenario:
    """A command to kill; `out` is what it writes, or changes if it is there at the start."""

    name: str
    words: Callable[[Path, Path], list[str]]  # originals, folder
    out: str = "run"
    same: tuple[str, ...] = ("findings.parquet", "audit.json")
    overwrites: bool = False
    prepare: Callable[[Path, Path], None] = lambda _, folder: folder.mkdir(exist_ok=True)

    @property
    def serves(self) -> bool:
        """Whether it is the dashboard, which ends only when it is interrupted."""
        return self.name == "serve"

    def run(self, starts: WarmStarts, words: list[str], *, changes: Mapping[str, str]) -> Answer:
        """Run the command to its end."""
        if self.serves:
            return served.run(starts, words, patience=PATIENCE, changes=changes)
        return starts.run(*words, patience=PATIENCE, changes=changes)


def _audit(originals: Path, folder: Path) -> list[str]:
    return [
        *("audit", str(originals / "csv" / "people.csv"), *TABLE, "--samples", "2000"),
        *("--seeds", "300", "--quiet", "--out", str(folder / "run")),
    ]


def _images(originals: Path, folder: Path) -> list[str]:
    return [
        *("audit-images", str(originals / "npz" / "faces.npz"), "--sensitive", "gender"),
        *("--faces", "6", "--set", "iterations=3", "--methods", "adf", "--no-repair", "--quiet"),
        *("--out", str(folder / "run")),
    ]


def _repair(originals: Path, folder: Path) -> list[str]:
    return [
        *("repair", str(originals / "table-run" / "run"), "--no-curve", "--samples", "300"),
        *("--table", str(originals / "table-run" / "people.csv")),
        *("--max-seeds", "3", "--quiet", "--out", str(folder / "run")),
    ]


def _text(originals: Path, folder: Path) -> list[str]:
    place = originals / "text-run"
    return [
        *("audit-text", str(place / "texts.csv"), "--model", f"{place / 'own.py'}:classify"),
        *("--sensitive", "gender", "--quiet", "--out", str(folder / "run")),
    ]


def _scores(originals: Path, folder: Path) -> list[str]:
    return [
        *("audit", str(originals / "csv" / "people.csv"), "--label", "score", "--quiet"),
        *("--target", "amount", "--tolerance", "1", "--sensitive", "sex", "--samples", "500"),
        *("--seeds", "100", "--out", str(folder / "run")),
    ]


def _scenes(originals: Path, folder: Path) -> list[str]:
    place = originals / "masks"
    return [
        *("audit-scenes", str(place / "pictures"), "--annotations", str(place / "masks")),
        *("--names", str(place / "names.json"), "--classes", "person", "--set", "inpainting=ns"),
        *("--mutations", "delete,rotate", "--fewest", "1", "--quiet", "--workers", "1"),
        *("--detector", f"{place / 'toys.py'}:fair", "--out", str(folder / "run")),
    ]


def _experiment(originals: Path, folder: Path) -> list[str]:
    del originals
    return [
        *("experiment", "iifr-figure6", "--repeats", "1", "--workers", "2", "--quiet"),
        *("--out", str(folder / "run")),
    ]


def _certify(originals: Path, folder: Path) -> list[str]:
    table = originals / "table-run" / "people.csv"
    return ["certify", str(folder / "run"), "--table", str(table), "--quiet"]


def _run_to_certify(originals: Path, folder: Path) -> None:
    shutil.copytree(originals / "table-run" / "run", folder / "run")


def _scenes_of_two(originals: Path, folder: Path) -> list[str]:
    words = _scenes(originals, folder)
    words[words.index("--workers") + 1] = "2"
    return words


SCENES = ("audit.json", "tests.csv", "survey.json")
CERTIFIED = ("findings.parquet", "audit.json", "certificate.npz", "proved_people.parquet")
SCENARIOS: tuple[Scenario, ...] = (
    Scenario("audit", _audit),
    Scenario("audit --overwrite", _audit, overwrites=True),
    Scenario("audit-images", _images, same=("audit.json", "findings.npz")),
    Scenario("repair", _repair),
    Scenario("scenes", _scenes, same=SCENES),
    Scenario("audit-text", _text, same=("audit.json", "exchanges.csv")),
    Scenario("audit of amounts", _scores),
    Scenario("certify", _certify, same=CERTIFIED, prepare=_run_to_certify),
)
SERVE = Scenario("serve", served.words, out="runs/run", prepare=served.put_into_queue)
WITH_WORKERS = (  # they take longer, so they are fewer
    *(SCENARIOS * 3),
    Scenario("scenes --workers 2", _scenes_of_two, same=SCENES),
    SERVE,
    *(SCENARIOS * 3),
    SERVE,
    Scenario("experiment", _experiment, same=("iifr-figure6-quick.json",)),
)


@dataclass(frozen=True)
class Reference:
    """An uninterrupted command: its run, its exit code, how many files it moved, and how long it
    took when it started warm.
    """

    run: Path
    code: int
    moves: int
    seconds: float


@dataclass(frozen=True)
class Kill:
    """When and how a command is killed: after a share of its time, or after a move of a file;
    of `serve` the job in some cases too.
    """

    sent: signal.Signals
    moment: float
    move: int = 0
    is_deep: bool = False

    def __str__(self) -> str:
        when = f"after move {self.move}" if self.move else f"at {self.moment:.0%}"
        return f"{self.sent.name} {when}{' with its job' if self.is_deep else ''}"


@dataclass
class Kills:
    """What became of all kills."""

    kills: int = 0
    late: int = 0  # the command had ended; not among the kills
    working: int = 0  # kills that found finished work, which must not be done again
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
    report: Callable[[str], object] = lambda _: None,
) -> Kills:
    """Kill so many commands before they end, no new one after so many seconds."""
    start, result, rng = time.monotonic(), Kills(), np.random.default_rng(seed)
    references: dict[str, Reference | None] = {}
    with WarmStarts(tree) as starts:
        for number in itertools.count():
            is_over = seconds is not None and time.monotonic() - start > seconds
            all_broken = list(references.values()) == [None] * len(set(scenarios))
            if is_over or all_broken or result.kills == count:
                break
            scenario = scenarios[number % len(scenarios)]
            if scenario.name not in references:
                try:
                    references[scenario.name] = _reference(tree, starts, originals, scenario)
                except RuntimeError as error:  # said once; the others are killed all the same
                    references[scenario.name] = None
                    result.failures.append(str(error))
                    report(str(error))
            reference = references[scenario.name]
            if reference is None:
                continue
            kill = Kill(SIGNALS[int(rng.integers(len(SIGNALS)))], float(rng.uniform(0.02, 1.0)))
            if rng.random() < AFTER_MOVES and reference.moves:
                kill = Kill(signal.SIGKILL, 0.0, int(rng.integers(1, reference.moves + 1)))
            if scenario.serves and not kill.move:
                kill = replace(kill, is_deep=bool(rng.random() < WITH_JOB))
            outcome = _kill(tree, starts, originals, scenario, reference, kill)
            result.kills += not outcome.is_late
            result.late += outcome.is_late
            result.working += not outcome.is_late and outcome.work > 0
            said = [f"{scenario.name}, {kill}, number {number}: {each}" for each in outcome.harms]
            result.failures += said
            report(
                "\n".join(said) or f"{scenario.name}, {kill}: {outcome.work} pieces of work kept"
            )
    result.seconds = time.monotonic() - start
    return result


def _reference(tree: Tree, starts: WarmStarts, originals: Path, scenario: Scenario) -> Reference:
    place = tree.folder / "references" / scenario.name.replace(" ", "")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    cold, other, moves = place / "cold", place / "warm", place / "moves"
    for folder in (cold, other):
        scenario.prepare(originals, folder)
    out = cold / scenario.out
    words = _known(tree, scenario.words(originals, cold))
    if scenario.serves:  # its job starts as a user's command does
        answer = scenario.run(starts, words, changes={})
    else:
        answer = tree.run(*words, patience=IDLE * PATIENCE)
    if answer.code not in CODES or not out.exists():
        raise RuntimeError(f"{scenario.name} ended with {answer.code}: {answer.text[-500:]}")
    words = _known(tree, scenario.words(originals, other))
    if scenario.overwrites:  # the moves of a run that replaces another
        shutil.copytree(out, other / scenario.out)
        words = [*words, "--overwrite"]
    begin = time.monotonic()
    scenario.run(starts, words, changes={"CAMPAIGN_MOVES": str(moves)})
    seconds = time.monotonic() - begin
    own = [line for line in _lines(moves) if not line.endswith("result.json")]  # a job's
    return Reference(out, answer.code, len(own), seconds)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


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


@dataclass
class Outcome:
    """What became of one kill."""

    harms: list[str]
    work: int  # files with finished work that the killed command had written
    is_late: bool  # the command had ended


def _kill(
    tree: Tree,
    starts: WarmStarts,
    originals: Path,
    scenario: Scenario,
    reference: Reference,
    kill: Kill,
) -> Outcome:
    folder = tree.folder / "killed"
    for place in (folder, tree.temporary):
        shutil.rmtree(place, ignore_errors=True)
    tree.temporary.mkdir(exist_ok=True)
    scenario.prepare(originals, folder)
    words, out = _known(tree, scenario.words(originals, folder)), folder / scenario.out
    if scenario.overwrites:
        shutil.copytree(reference.run, out)
        words = [*words, "--overwrite"]
    was_there = out.exists()
    changes = {"CAMPAIGN_DIE_AFTER": str(kill.move)} if kill.move else {}
    process = starts.start(*words, changes=changes)
    is_late = is_early = False
    if not kill.move:
        is_late = not process.is_running(kill.moment * reference.seconds)
        is_late = is_late or (scenario.serves and served.is_over(folder))
        is_early = not _catches(process.pid)
        process.send_signal(kill.sent)
    if kill.is_deep:
        served.kill_job(folder)
    answer = process.end(GRACE + 6 * reference.seconds)
    harms = [] if answer.code is not None else ["did not end after the signal"]
    is_late = is_late or (bool(kill.move) and answer.code != -signal.SIGKILL)
    if not is_late and not is_early and answer.code is not None:
        harms += _code_harms(answer.code, kill.sent, answer.err)
    harms += [f"a process was left: {name}" for name in _orphans(process.pid)]
    harms += run_harms(out, must_be_there=was_there)
    work = finished_work(out.parent)
    # The next start.
    resume = ["--resume"] if has_option(tree, words[0], "--resume") else []
    if not scenario.overwrites and has_option(tree, words[0], "--overwrite"):
        words = [*words, "--overwrite"]
    moves = tree.folder / "moves"
    moves.unlink(missing_ok=True)
    answer = scenario.run(starts, [*words, *resume], changes={"CAMPAIGN_MOVES": str(moves)})
    if said := trouble(answer, (reference.code,)):
        return Outcome([*harms, f"the next start: {said}"], len(work), is_late)
    harms += run_harms(out, must_be_there=True) + (served.harms(folder) if scenario.serves else [])
    harms += [f"done again: {name}" for name in done_again(work, _lines(moves))]
    harms += [f"left over: {path}" for path in leftovers(out.parent, tree.temporary, out)]
    harms += [
        f"differs from an uninterrupted run: {name}"
        for name in differing(scenario.same, reference.run, out)
    ]
    return Outcome(harms, len(work), is_late)


def _catches(process: int) -> bool:
    """Whether a process handles SIGTERM itself; before that it is not fairprobe that runs."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    caught = next((line.split()[1] for line in lines if line.startswith("SigCgt")), "0")
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def _code_harms(code: int | None, sent: signal.Signals, err: bytes) -> list[str]:
    allowed = (-signal.SIGKILL, *CODES) if sent == signal.SIGKILL else (130, *CODES)
    harms = [] if code in allowed else [f"exit code {code}"]
    if b"Traceback" in err and sent != signal.SIGKILL:
        harms.append(f"traceback: {err.decode(errors='replace').strip().splitlines()[-1][:200]}")
    return harms


def _orphans(session: int) -> list[str]:
    """Commands of a session that still run after a while."""
    end = time.monotonic() + GRACE
    while found := of_session(session):
        if time.monotonic() > end:
            return [_command(process) for process in found]
        time.sleep(0.1)
    return []


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:100]
    except OSError:
        return str(process)
