"""Search methods, one paper a file. They never import each other."""

from fairprobe.search.methods.adf import ADF
from fairprobe.search.methods.aequitas import Aequitas
from fairprobe.search.methods.base import Explorer, Method, TwoPhase
from fairprobe.search.methods.eidig import EIDIG
from fairprobe.search.methods.neuronfair import NeuronFair
from fairprobe.search.methods.random_walk import RandomWalk
from fairprobe.search.methods.symbgen import SymbGen
from fairprobe.search.methods.themis import Themis

__all__ = [
    "ADF",
    "EIDIG",
    "Aequitas",
    "Explorer",
    "Method",
    "NeuronFair",
    "RandomWalk",
    "SymbGen",
    "Themis",
    "TwoPhase",
]
