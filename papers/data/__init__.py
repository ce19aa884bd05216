"""Data sets of the papers: those of fairprobe, and MEPS, which is downloaded."""

from __future__ import annotations

from fairprobe import datasets
from fairprobe.datasets import Dataset
from papers.data.meps import meps, meps_file


def load(name: str) -> Dataset:
    """Load a data set of fairprobe, or MEPS."""
    return meps() if name == "meps" else datasets.load(name)


def available() -> frozenset[str]:
    """Return the names of the data sets that can be loaded now."""
    try:
        more = {"meps"} if meps_file().is_file() else set()
    except OSError:  # no home folder, or a folder without read permission
        more = set()
    return frozenset({*datasets.names(), *more})
