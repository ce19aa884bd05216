"""Part 4: hostile files, names and servers, each with the real command line.

Nothing may be executed (a canary file would appear), nobody contacted who was not named on the
command line (a server counts), no token sent elsewhere, no escape sequence reach the terminal, no
HTML the report, no formula a CSV file; the command ends with a sentence, in time, within 2 GiB.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from campaign import hostile_archives, hostile_words
from campaign.hostile_files import WRITERS, Case
from campaign.processes import Answer, Tree, trouble
from campaign.server import Server
from campaign.warm import WarmStarts

TOKEN = "secret-token-of-the-campaign"
PATIENCE = 90.0
PATIENT = {"an endpoint whose headers come slowly": 45.0}  # five attempts of 2 s, and pauses
MEMORY = 2 * 2**30
ENOUGH = 12 * 2**30  # a reader that takes far too much is stopped before the machine suffers
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")
RAW_HTML = re.compile(rb"<script>alert|<img src=x onerror")
FORMULA = re.compile(rb"(^|,)\"?[=@+]cmd", re.MULTILINE)
LEAKED = b"root:x:0"  # the beginning of /etc/passwd


@dataclass(frozen=True)
class Verdict:
    """What a case did; `harm` is empty if nothing bad happened."""

    name: str
    harm: str
    seconds: float


def try_hostile(
    tree: Tree,
    originals: Path,
    *,
    names: list[str] | None = None,
    seconds: float | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> list[Verdict]:
    """Try each case, no new one after so many seconds."""
    verdicts, start = [], time.monotonic()
    with WarmStarts(tree) as starts:
        for name in names or WRITERS:
            if seconds is not None and time.monotonic() - start > seconds:
                break
            begin = time.monotonic()
            harm = try_one(tree, starts, originals, name)
            verdicts.append(Verdict(name, harm, time.monotonic() - begin))
            report(f"{name}: {harm or 'no harm'}")
    return verdicts


def try_one(tree: Tree, starts: WarmStarts, originals: Path, name: str) -> str:
    """What harm a case does; empty if none."""
    place = tree.folder / "hostile"
    shutil.rmtree(place, ignore_errors=True)
    (place / "case").mkdir(parents=True)
    with Server() as server:
        given = Case(place / "case", originals, place / "canary", server.address)
        words = WRITERS[name](given)
        process = starts.start(
            *words,
            changes={"FAIRPROBE_ENDPOINT_TOKEN": TOKEN},
            cwd=given.folder,
            memory=ENOUGH,
        )
        answer = process.end(PATIENT.get(name, PATIENCE))
        memory = process.memory
        named = [*words, *(path.read_text() for path in given.folder.glob("service.toml"))]
        is_asked_for = any(server.address in text for text in named)
        harms = [
            trouble(answer, (0, 1, 2, 3)) if answer.code is not None else "did not end in time",
            "something was executed or written" if given.canary.exists() else "",
            f"{server.connections} connections to a server that nobody named"
            if server.connections and not is_asked_for
            else "",
            "the token was sent to a server that nobody named"
            if not is_asked_for and any(TOKEN in str(sent) for _, sent in server.requests)
            else "",
            f"{memory / 2**30:.1f} GiB of memory" if memory > MEMORY else "",
            *_escaped(answer, place),
            "the gate let it pass" if "rates of -1" in name and answer.code == 0 else "",
            "the message shows a Python error"
            if "endpoint" in name and re.search(r"\b[A-Z]\w+Error: ", answer.text)
            else "",
        ]
    shutil.rmtree(place, ignore_errors=True)
    return "; ".join(filter(None, harms))


def _escaped(answer: Answer, place: Path) -> list[str]:
    """What reached the terminal, the report or a table unchanged."""
    harms = []
    if CONTROL.search(answer.out + answer.err):
        harms.append("escape sequences reached the terminal")
    if LEAKED in answer.out + answer.err:
        harms.append("the content of another file was printed")
    for path in sorted((place / "case").glob("out*/**/*")):
        if path.suffix in (".html", ".md") and RAW_HTML.search(path.read_bytes()):
            harms.append(f"raw HTML in {path.name}")
        if path.suffix == ".csv" and FORMULA.search(path.read_bytes()):
            harms.append(f"a formula in {path.name}")
        if path.is_file() and LEAKED in path.read_bytes():
            harms.append(f"the content of another file is in {path.name}")
    return harms


def try_closed_output(tree: Tree, originals: Path) -> Verdict:
    """A command whose standard output was closed ends without a traceback."""
    begin = time.monotonic()
    run = originals / "table-run" / "run"
    words = " ".join(tree.command("show", run))
    done = subprocess.run(
        ["/bin/sh", "-c", f"{words} >&-; {words} | true"],
        env=tree.environment(),
        cwd=tree.folder,
        stderr=subprocess.PIPE,
        check=False,
        timeout=PATIENCE,
    )
    harm = trouble(Answer(0, b"", done.stderr), (0,))
    return Verdict("a closed standard output", harm, time.monotonic() - begin)


CASES = (*WRITERS,)
assert hostile_archives  # these have added their cases
assert hostile_words
