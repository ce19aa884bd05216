"""Searching a network for people it discriminates against."""

from fairprobe.search.budget import Budget, Progress
from fairprobe.search.loop import search
from fairprobe.search.methods import (
    ADF,
    EIDIG,
    Aequitas,
    Explorer,
    Method,
    NeuronFair,
    RandomWalk,
    SymbGen,
    Themis,
    TwoPhase,
)
from fairprobe.search.seeds import choose_seeds

__all__ = [
    "ADF",
    "EIDIG",
    "Aequitas",
    "Budget",
    "Explorer",
    "Method",
    "NeuronFair",
    "Progress",
    "RandomWalk",
    "SymbGen",
    "Themis",
    "TwoPhase",
    "choose_seeds",
    "search",
]
