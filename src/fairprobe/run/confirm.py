"""Every finding asked again of the user's own program, where the search looked into a network that was made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fairprobe.arrays import Mask
from fairprobe.findings import Findings
from fairprobe.judgement import judge
from fairprobe.model import Model, one_thread


def confirmed(findings: Findings, original: Model, progress: Callable[[int, int], None]) -> tuple[Findings, int]:
    """The findings that the program itself confirms, and how many it refutes. An interrupt keeps those that were confirmed until then."""
    domain, total = findings.domain, len(findings)
    kept: list[Mask] = []
    asked = hits = 0
    is_interrupted = False
    with one_thread():
        for batch in findings.batches():
            mask = np.zeros(len(batch), dtype=bool)
            if not is_interrupted:
                try:
                    progress(asked, max(total, 1))
                    mask = judge(domain, original, findings.rows(batch)).is_discriminatory
                    asked, hits = asked + len(mask), hits + int(mask.sum())
                except KeyboardInterrupt:
                    is_interrupted = True
            kept.append(mask)
    if is_interrupted:
        findings = replace(findings, generation=replace(findings.generation, stopped="interrupted"))
    return (findings if hits == total and not is_interrupted else findings.where(kept)), asked - hits
