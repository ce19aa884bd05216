"""Searching a network for people it discriminates against."""

from fairprobe.search.budget import Budget, Progress
from fairprobe.search.catalogue import METHODS, method_named
from fairprobe.search.loop import search
from fairprobe.search.methods.adf import ADF
from fairprobe.search.methods.aequitas import Aequitas
from fairprobe.search.methods.base import Explorer, Method, TwoPhase
from fairprobe.search.methods.crossover import Crossover
from fairprobe.search.methods.eidig import EIDIG
from fairprobe.search.methods.grft import GRFT
from fairprobe.search.methods.maft import MAFT
from fairprobe.search.methods.neuronfair import NeuronFair
from fairprobe.search.methods.probe import Probe
from fairprobe.search.methods.random_walk import RandomWalk
from fairprobe.search.methods.symbgen import SymbGen
from fairprobe.search.methods.themis import Themis
from fairprobe.search.seeds import choose_seeds

__all__ = [
    "ADF",
    "EIDIG",
    "GRFT",
    "MAFT",
    "METHODS",
    "Aequitas",
    "Budget",
    "Crossover",
    "Explorer",
    "Method",
    "NeuronFair",
    "Probe",
    "Progress",
    "RandomWalk",
    "SymbGen",
    "Themis",
    "TwoPhase",
    "choose_seeds",
    "method_named",
    "search",
]
