"""What the report of every run ends with: notes, settings, times, and how to reproduce it."""

from __future__ import annotations

from collections.abc import Sequence

from fairprobe.report.formats import in_words, seconds
from fairprobe.report.sections import Block, Code, Notes, Section, Terms, Text
from fairprobe.results import Run, Settings


def method(run: Run, settings: Settings, blocks: Sequence[Block]) -> Section:
    """Explain how a run was measured: these blocks, the run's messages, settings and times."""
    times = {name: seconds(duration) for name, duration in run.seconds.items()}
    times["All together"] = seconds(sum(run.seconds.values()))
    return Section(
        "How it was measured",
        [
            *blocks,
            Section("Notes", [Notes(run.messages)]),
            Terms(dict(in_words(settings)), folded="All settings"),
            Terms(times, folded="Times"),
        ],
        "appendix",
    )


def reproduction(run: Run) -> Section:
    """Give the command, the seed and the versions of a run."""
    return Section(
        "How to reproduce it",
        [
            Code(run.command, "sh"),
            Text(f"The same seed ({run.seed}) and versions give the same numbers, except times."),
            Terms(run.versions),
        ],
        "appendix",
    )
