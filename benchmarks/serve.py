"""How quickly the dashboard answers, on 1,000 runs and 10 million findings, as a Markdown table.

    python -m benchmarks.serve                        # builds both in a temporary folder: 0.7 GB
    python -m benchmarks.serve --runs 50 --rows 200000

A real server in a process of its own, with one thread for reading, asked over HTTP. `first byte` is
from the request to the first byte of the answer, the median of three; `CPU` is what the server
used for it, which is the first byte on an idle machine and what the limits are held against. The
three ask for something else each, so that nothing is answered from memory.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import httpx
import numpy as np
import pyarrow as pa

from fairprobe import datasets, networks
from fairprobe.findings import _schema, _write
from fairprobe.runs.store import FINDINGS
from fairprobe.search import Budget
from fairprobe.storage import scratch
from fairprobe.table.audit import audit

TOKEN = "benchmark"  # noqa: S105
GROUP = 250_000  # rows that a search writes at once
LIMITS = {"stored": 0.2, "list": 0.2, "other": 2.0, "page": 200_000}


def build(folder: Path, runs: int, rows: int) -> Path:
    """Runs of one audit with other names, dates and numbers; the first has all the findings."""
    data = datasets.german()
    network = networks.train(networks.lfcn(data.domain, classes=2), data)
    done = audit(data, network, "gender", budget=Budget(seeds=100), samples=2_000)
    place = done.save(folder / "runs" / "big")
    body = json.loads((place / "audit.json").read_text(encoding="utf-8"))
    for number in range(runs - 1):
        copy = folder / "runs" / f"group{number % 10}" / f"run{number:04d}"
        copy.mkdir(parents=True)
        body["created"] = f"20{number % 26:02d}-01-02T03:04:05+00:00"
        (copy / "audit.json").write_text(json.dumps(body), encoding="utf-8")
    whole, rng = done.findings._whole(), np.random.default_rng(0)
    schema = _schema(done.findings.domain, done.findings.generation)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, GROUP):
            count = min(GROUP, rows - start)
            some = whole.take(pa.array(rng.integers(0, whole.num_rows, count))).combine_chunks()
            columns = [
                pa.array(rng.random(count, dtype=np.float32))
                if column.type == pa.float32()
                else some.column(column.name).chunk(0)
                for column in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    _write(place / FINDINGS, schema, batches())
    return folder / "runs"


class Server:
    """A server of these runs."""

    def __init__(self, runs: Path) -> None:
        words = ["serve", str(runs), "--state", str(runs.parent / "state"), "--port", "0"]
        env = {**os.environ, "FAIRPROBE_SERVE_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "fairprobe", *words], env=env, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        found = re.search(r"(http://[\d.:]+)/", self.process.stdout.readline())
        assert found
        headers = {"authorization": f"Bearer {TOKEN}"}
        self.client = httpx.Client(base_url=found[1], headers=headers, timeout=120)

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def ask(self, path: str) -> tuple[float, float, int]:
        """Seconds to the first byte, seconds of the processor, bytes of the answer."""
        cpu, start = self.cpu(), time.perf_counter()
        with self.client.stream("GET", path) as answer:
            first = time.perf_counter() - start
            size = len(answer.read())
            answer.raise_for_status()
        return first, self.cpu() - cpu, size

    def end(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


def asked(rows: int) -> dict[str, tuple[str, Sequence[str]]]:
    """What is asked, by which limit it is held, and the addresses."""
    last = rows // 50
    return {
        "runs, first time": ("other", ["/"]),
        "runs": ("list", ["/", "/", "/"]),
        "runs, searched and sorted": ("list", [f"/?words=run0{n}&sort=affected" for n in range(3)]),
        "findings, first time": ("other", ["/findings/big"]),
        "findings, stored order": (
            "stored",
            [f"/findings/big?page={page}" for page in (1, last // 2, last)],
        ),
        "one pair": ("stored", [f"/pair/big?row={row}" for row in (0, rows // 2, rows - 1)]),
        "sorted by a number": (
            "other",
            [f"/findings/big?sort={name}" for name in ("gap", "plausibility", "probability")],
        ),
        "sorted, in the middle and at the end": (
            "other",
            [
                f"/findings/big?sort={name}&page={page}"
                for name, page in (("gap", last // 2), ("probability", last), ("age", last // 2))
            ],
        ),
        "sorted by an attribute": (
            "other",
            [f"/findings/big?sort={name}" for name in ("age", "credit-amount", "job")],
        ),
        "filtered": ("other", [f"/findings/big?min12={age}&max12=40" for age in (20, 25, 30)]),
        "filtered by three, sorted": (
            "other",
            [f"/findings/big?gap={gap}&plausibility=30&group=1&sort=gap" for gap in (20, 40, 60)],
        ),
        "histograms of all": ("other", ["/histograms/big"]),
        "histograms, filtered": ("other", [f"/histograms/big?gap={gap}" for gap in (25, 50, 75)]),
    }


def main() -> None:
    given = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))
    runs, rows = int(given.get("--runs", 1_000)), int(given.get("--rows", 10_000_000))
    with scratch() as folder:
        served = build(folder, runs, rows)
        size = (served / "big" / FINDINGS).stat().st_size
        print(f"{runs:,} runs; {rows:,} findings in {size / 1e6:,.0f} MB\n")
        server = Server(served)
        print("| asked | first byte | CPU | page | limit |\n|---|--:|--:|--:|---|")
        for what, (limit, paths) in asked(rows).items():
            answers = [server.ask(path) for path in paths]
            first, cpu, largest = (median(each) for each in zip(*answers, strict=True))
            kept = cpu < LIMITS[limit] and largest < LIMITS["page"]
            print(
                f"| {what} | {1000 * first:,.0f} ms | {1000 * cpu:,.0f} ms | {largest / 1000:,.0f}"
                f" kB | {1000 * LIMITS[limit]:,.0f} ms{'' if kept else ', **missed**'} |",
                flush=True,
            )
        server.end()


if __name__ == "__main__":
    main()
