"""The audit that `fairprobe audit` and `fairprobe check` of a model make: open, train if there is
nothing to open, measure, write.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fairprobe.cli.common import progress
from fairprobe.cli.inputs import OwnModel, Table
from fairprobe.errors import SettingError

if TYPE_CHECKING:
    from fairprobe.documents import TableDocument
    from fairprobe.search import Method


@dataclass(frozen=True, kw_only=True)
class Asked:
    """How to measure and to search, as it was asked for."""

    network: str = "auto"
    method: str = "auto"
    variant: str | None = None
    error: float | None = None
    seeds: int = 1000
    global_iterations: int | None = None
    local_iterations: int | None = None
    seconds: float | None = None
    wanted: int | None = None
    outside: str = "clip"
    samples: int = 50_000
    seed: int = 0


def make_run(
    table: Table, given: OwnModel, folder: Path, asked: Asked, *, overwrite: bool, show: bool
) -> TableDocument:
    """Audits the model on the table, writes the run folder, and returns its document. What is wrong
    is told before anything is trained.
    """
    from fairprobe import audits, search

    budget = search.Budget(
        seeds=asked.seeds,
        global_iterations=asked.global_iterations,
        local_iterations=asked.local_iterations,
        seconds=asked.seconds,
        wanted=asked.wanted,
    )
    searching = _method(asked.method, asked.variant, asked.error)
    audits.check_settings(
        searching, None if asked.error else asked.variant, asked.outside, asked.samples, asked.seed
    )
    data = table.open()
    with audits.RunFolder(folder, overwrite=overwrite) as staged, progress(show=show) as tell:
        chosen = given.open(
            data, lambda: audits.train(data, kind=asked.network, seed=asked.seed, progress=tell)
        )
        done = audits.audit(
            data,
            chosen,
            table.names,
            method=searching,
            variant=None if asked.error else asked.variant,
            budget=budget,
            outside=asked.outside,  # type: ignore[arg-type]
            samples=asked.samples,
            seed=asked.seed,
            progress=tell,
            findings_to=staged.findings,
        )
        return staged.fill(done, command=shlex.join(["fairprobe", *sys.argv[1:]]))


def _method(name: str, variant: str | None, error: float | None) -> str | Method:
    """The method as `audit` takes it."""
    from fairprobe.search.catalogue import check_method, method_named

    if name != "auto":
        check_method(name, variant)
    if error is None:
        return name
    if name != "themis":
        raise SettingError(
            f"--error is how well Themis is to know its score; the method '{name}' has none. Leave"
            " it out, or --method themis."
        )
    return method_named(name, error=error)
