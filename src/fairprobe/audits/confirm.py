"""Confirm findings with the user's own program, if the search used a network rebuilt from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from fairprobe.arrays import Mask
from fairprobe.errors import FairprobeError
from fairprobe.findings import Findings
from fairprobe.models import Model, one_thread

Confirms: TypeAlias = Callable[[Findings, pa.RecordBatch, Model], Mask]


def confirmed(
    findings: Findings,
    original: Model | None,
    progress: Callable[[int, int], None],
    confirms: Confirms | None = None,
) -> tuple[Findings, int | None]:
    """Drop the findings that the program does not confirm, and count them; None if the search used
    the program itself. `confirms` says which pairs of a batch it confirms: by default, those whose
    two labels it gives as well.

    An interrupt keeps those that were confirmed until then.
    """
    if original is None:
        return findings, None
    total = len(findings)
    kept: list[Mask] = []
    judged = hits = 0
    is_interrupted = False
    with one_thread():
        for batch in findings.batches():
            mask = np.zeros(len(batch), dtype=bool)
            if not is_interrupted:
                try:
                    progress(judged, max(total, 1))
                    mask = (confirms or _is_confirmed)(findings, batch, original)
                    judged, hits = judged + len(mask), hits + int(mask.sum())
                except KeyboardInterrupt:
                    is_interrupted = True
                except FairprobeError as error:
                    # What was found is not lost with the program that cannot confirm it.
                    error.findings = findings
                    raise
            kept.append(mask)
    if is_interrupted:
        findings = replace(findings, generation=replace(findings.generation, stopped="interrupted"))
    return (
        findings if hits == total and not is_interrupted else findings.where(kept)
    ), judged - hits


def _is_confirmed(findings: Findings, batch: pa.RecordBatch, original: Model) -> Mask:
    """Whether the program gives both people of a pair the answers that the finding says."""
    mine, other = (original.labels(findings.rows(batch, other=side)) for side in (False, True))
    return np.asarray(
        (mine == batch.column("label").to_numpy())
        & (other == batch.column("label_other").to_numpy())
    )
