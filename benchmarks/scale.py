"""Large tables: how much memory and processor time an audit takes, and how much it prints.

    python -m benchmarks.scale                # 1,000,000 rows of 42 columns, the default network
    python -m benchmarks.scale --wide         # 1,000 columns: lines and words of what is shown

The rows are made up: 21 columns of numbers, 20 of words and a label that depends on some of them.
Everything runs in one process on one core, as `fairprobe audit FILE` does.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd

ROWS, COLUMNS = 1_000_000, 42
WIDE_ROWS, WIDE_COLUMNS = 5_000, 1_000
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")


def table(rows: int, columns: int, *, strength: float = 1, seed: int = 0) -> pd.DataFrame:
    """People with `columns` columns, the last of which is the label 'answer' and the first of which
    is the sensitive attribute 'sex'. `strength` says how much the label depends on them.
    """
    rng = np.random.default_rng(seed)
    sex = rng.integers(2, size=rows)
    found: dict[str, object] = {"sex": np.array(["female", "male"])[sex]}
    lean = 0.4 * sex
    for place in range(columns - 2):
        if place % 2:
            words = np.array(WORDS[: 3 + place % 4])
            drawn = rng.integers(len(words), size=rows)
            found[f"word{place}"] = words[drawn]
        else:
            drawn = rng.integers(1, 40 + place % 60, size=rows)
            found[f"number{place}"] = drawn
        if place < 10:
            lean = lean + (drawn - drawn.mean()) / drawn.std() / 3
    chosen = rng.random(rows) < 1 / (1 + np.exp(-strength * (lean - 0.2)))
    return pd.DataFrame({**found, "answer": np.where(chosen, "yes", "no")})


class _Words(HTMLParser):
    """The words that a reader of a page sees before unfolding anything."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen, self.folded, self.summaries, self.count = 0, 0, 0, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._step(tag, 1)
        del attrs

    def handle_endtag(self, tag: str) -> None:
        self._step(tag, -1)

    def _step(self, tag: str, by: int) -> None:
        self.unseen += by * (tag in ("script", "style", "template", "svg", "title"))
        self.folded += by * (tag == "details")
        self.summaries += by * (tag == "summary")

    def handle_data(self, data: str) -> None:
        if not self.unseen and (not self.folded or (self.folded == 1 and self.summaries)):
            self.count += len(data.split())


def words_of(page: str) -> int:
    """How many words and numbers a page shows, without folded parts and labels of pictures."""
    parser = _Words()
    parser.feed(page)
    return parser.count


def audited(frame: pd.DataFrame, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Write the table, and audit it with the command line."""
    path = folder / "people.csv"
    frame.to_csv(path, index=False)
    command = [sys.executable, "-m", "fairprobe", "audit", str(path), "--label", "answer"]
    command += ["--sensitive", "sex", "--out", str(folder / "run"), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--columns", type=int)
    given = parser.parse_args()
    rows = given.rows or (WIDE_ROWS if given.wide else ROWS)
    columns = given.columns or (WIDE_COLUMNS if given.wide else COLUMNS)
    with tempfile.TemporaryDirectory() as place:
        strength = 8 if given.wide else 1  # or a network learns nothing from 5,000 rows
        done = audited(table(rows, columns, strength=strength), Path(place))
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        page = Path(place, "run", "report.html")
        words = words_of(page.read_text(encoding="utf-8")) if page.exists() else 0
    print(done.stdout)
    print(done.stderr, file=sys.stderr)
    print(f"{rows:,} rows of {columns:,} columns, exit code {done.returncode}")
    print(f"CPU {used.ru_utime + used.ru_stime:.0f} s, memory {used.ru_maxrss / 2**20:.2f} GiB")
    print(f"terminal {len(done.stdout.splitlines())} lines, report {words:,} words")


if __name__ == "__main__":
    main()
