"""Every finding asked again of the user's own program, where the search looked into a network that
was made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from fairprobe.arrays import Mask
from fairprobe.errors import FairprobeError
from fairprobe.findings import Findings
from fairprobe.models import Model, one_thread


def confirmed(
    findings: Findings, original: Model | None, progress: Callable[[int, int], None]
) -> tuple[Findings, int | None]:
    """The findings that the program itself confirms, and how many it refutes; None where the search
    asked the program itself.

    An interrupt keeps those that were confirmed until then.
    """
    if original is None:
        return findings, None
    total = len(findings)
    kept: list[Mask] = []
    asked = hits = 0
    is_interrupted = False
    with one_thread():
        for batch in findings.batches():
            mask = np.zeros(len(batch), dtype=bool)
            if not is_interrupted:
                try:
                    progress(asked, max(total, 1))
                    mask = _is_confirmed(findings, batch, original)
                    asked, hits = asked + len(mask), hits + int(mask.sum())
                except KeyboardInterrupt:
                    is_interrupted = True
                except FairprobeError as error:
                    # as they are: what was found is not lost with the program that cannot confirm
                    # it
                    error.findings = findings
                    raise
            kept.append(mask)
    if is_interrupted:
        findings = replace(findings, generation=replace(findings.generation, stopped="interrupted"))
    return (
        findings if hits == total and not is_interrupted else findings.where(kept)
    ), asked - hits


def _is_confirmed(findings: Findings, batch: pa.RecordBatch, original: Model) -> Mask:
    """Whether the program tells these very two people what the findings say it does."""
    mine, other = (original.labels(findings.rows(batch, other=side)) for side in (False, True))
    return np.asarray(
        (mine == batch.column("label").to_numpy())
        & (other == batch.column("label_other").to_numpy())
    )
